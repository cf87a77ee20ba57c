"""The named functions of the vocabulary, written ``name`` or ``name(arg)``.

What Java's function throws has its counterpart here: IllegalArgumentException and NumberFormatException are
ValueError, ArithmeticException is OverflowError, ClassCastException is TypeError.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from headrace.errors import IllegalStateException
from headrace.testing.conformance.values import Int, JsonInt, in_range, number, only_json, parse, text

if TYPE_CHECKING:
    from collections.abc import Callable


class Call(NamedTuple):
    """A function's name and argument (empty when there is none)."""

    name: str
    arg: str

    @classmethod
    def of(cls, written: str) -> Call:
        """The call written as ``name`` or ``name(arg)``."""
        name, found, rest = written.partition("(")
        return cls(name, rest.rpartition(")")[0] if found else "")


def _unknown(kind: str, call: Call) -> NoReturn:
    raise IllegalStateException(f"no {kind} function named {call.name}")


def _fail_if(value: Any, arg: str, result: Any) -> Any:
    """``result``, unless the value's text is ``arg``."""
    if text(value) == arg:
        raise IllegalStateException(f"fail_if {arg}")
    return result


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{type(value).__name__} is no text")
    return value


def _add(left: Any, right: int) -> int:
    if not isinstance(left, int) or isinstance(left, bool | JsonInt):
        raise TypeError(f"{type(left).__name__} is no integer")
    return in_range(left + right, left)


def _negative(value: int) -> int:
    # the least 64-bit integer has no counterpart: in Java it is its own
    return value if value == -(1 << 63) else -value


def _multiply(value: Any, factor: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool | Int | JsonInt):
        raise TypeError(f"{type(value).__name__} is no 64-bit integer")
    return in_range(value * factor, 0)


def _before(whole: str, mark: str) -> str:
    at = whole.find(mark)
    return whole if at < 0 else whole[:at]


def _after(whole: str, mark: str) -> str | None:
    at = whole.find(mark)
    return None if at < 0 else whole[at + len(mark) :]


def _field(value: Any, name: str) -> Any:
    value = only_json(value)
    found = value.get(name) if isinstance(value, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]  # any JSON
    if found is None or isinstance(found, str) or (isinstance(found, int) and not isinstance(found, bool)):
        return found  # pyright: ignore[reportUnknownVariableType]  # any JSON
    return text(found)  # pyright: ignore[reportUnknownArgumentType]  # any JSON


_VALUE_OF_NULL: dict[str, Callable[[Any, Any, str], Any]] = {
    "identity": lambda k, v, arg: v,
    "const": lambda k, v, arg: arg,
    "null": lambda k, v, arg: None,
    "key_value": lambda k, v, arg: f"{text(k)}:{text(v)}",
    "str_or_null": lambda k, v, arg: text(v),
    "fail_if": lambda k, v, arg: _fail_if(v, arg, v),
}
_VALUE: dict[str, Callable[[Any, str], Any]] = {
    "upper": lambda v, arg: _string(v).upper(),
    "lower": lambda v, arg: _string(v).lower(),
    "length": lambda v, arg: len(_string(v).encode("utf-16-le", "surrogatepass")) // 2,
    "to_string": lambda v, arg: text(v),
    "to_long": lambda v, arg: parse(text(v), 0),
    "to_integer": lambda v, arg: parse(text(v), Int()),
    "add": lambda v, arg: _add(v, int(arg)),
    "multiply": lambda v, arg: _multiply(v, int(arg)),
    "append": lambda v, arg: text(v) + arg,
    "prepend": lambda v, arg: arg + text(v),
    "before": lambda v, arg: _before(text(v), arg),
    "after": lambda v, arg: _after(text(v), arg),
    "field": _field,
    "null_if": lambda v, arg: None if text(v) == arg else v,
}


def value(written: str) -> Callable[[Any, Any], Any]:
    """A value function ``(key, value) -> value``."""
    call = Call.of(written)
    if call.name in _VALUE_OF_NULL:
        always = _VALUE_OF_NULL[call.name]
        return lambda k, v: always(k, v, call.arg)
    if call.name not in _VALUE:
        _unknown("value", call)
    function = _VALUE[call.name]
    return lambda k, v: None if v is None else function(v, call.arg)


_KEY: dict[str, Callable[[Any, str], Any]] = {
    "key_upper": lambda k, arg: None if k is None else _string(k).upper(),
    "key_first_char": lambda k, arg: _string(k)[:1] or None if k is not None else None,
    "key_before": lambda k, arg: None if k is None else _before(text(k), arg),
    "key": lambda k, arg: k,
    "const": lambda k, arg: arg,
    "null": lambda k, arg: None,
    "unwindow": lambda k, arg: k.key,
    "window_string": lambda k, arg: text(k),
}
_KEY_OF_VALUE: dict[str, Callable[[Any, str], Any]] = {
    "value": lambda v, arg: text(v),
    "first_char": lambda v, arg: text(v)[:1] or None,
    "before": lambda v, arg: _before(text(v), arg),
    "after": lambda v, arg: _after(text(v), arg),
    "field": _field,
}


def key(written: str) -> Callable[[Any, Any], Any]:
    """A key function ``(key, value) -> key``."""
    call = Call.of(written)
    if call.name == "fail_if":
        return lambda k, v: _fail_if(v, call.arg, k)
    if call.name in _KEY:
        of_key = _KEY[call.name]
        return lambda k, v: of_key(k, call.arg)
    if call.name not in _KEY_OF_VALUE:
        _unknown("key", call)
    of_value = _KEY_OF_VALUE[call.name]
    return lambda k, v: None if v is None else of_value(v, call.arg)


def pair(written: str) -> Callable[[Any, Any], tuple[Any, Any]]:
    """A pair function ``(key, value) -> (key, value)``."""
    call = Call.of(written)
    if call.name == "swap":
        return lambda k, v: (v, k)
    if call.name != "pair":
        _unknown("pair", call)
    key_name, _, value_name = call.arg.partition("|")
    new_key, new_value = key(key_name), value(value_name)
    return lambda k, v: (new_key(k, v), new_value(k, v))


_PREDICATE: dict[str, Callable[[Any, Any, str], bool]] = {
    "always": lambda k, v, arg: True,
    "never": lambda k, v, arg: False,
    "key_is": lambda k, v, arg: text(k) == arg,
    "key_starts_with": lambda k, v, arg: text(k).startswith(arg),
    "value_not_null": lambda k, v, arg: v is not None,
    "fail_if": lambda k, v, arg: bool(_fail_if(v, arg, True)),
}
_PREDICATE_OF_VALUE: dict[str, Callable[[Any, str], bool]] = {
    "value_gt": lambda v, arg: number(v) > int(arg),
    "value_lt": lambda v, arg: number(v) < int(arg),
    "value_even": lambda v, arg: number(v) % 2 == 0,
    "value_is": lambda v, arg: text(v) == arg,
    "value_contains": lambda v, arg: arg in text(v),
    "value_starts_with": lambda v, arg: text(v).startswith(arg),
}


def predicate(written: str) -> Callable[[Any, Any], bool]:
    """A predicate ``(key, value) -> bool``."""
    call = Call.of(written)
    if call.name in _PREDICATE:
        general = _PREDICATE[call.name]
        return lambda k, v: general(k, v, call.arg)
    if call.name not in _PREDICATE_OF_VALUE:
        _unknown("predicate", call)
    of_value = _PREDICATE_OF_VALUE[call.name]
    return lambda k, v: False if v is None else of_value(v, call.arg)


def many(written: str) -> Callable[[Any, Any], list[Any]]:
    """A list function ``(key, value) -> values``."""
    call = Call.of(written)
    match call.name:
        case "none":
            return lambda k, v: []
        case "fail_if":
            return lambda k, v: [_fail_if(v, call.arg, v)]
        case "repeat":
            times = int(call.arg)
            return lambda k, v: [v] * times
        case "split":
            return lambda k, v: [word for word in text(v).split(" ") if word]
        case _:
            _unknown("list", call)


def many_pairs(written: str) -> Callable[[Any, Any], list[tuple[Any, Any]]]:
    """A list function for ``flat_map``: ``split`` gives (word, word), the others keep the key."""
    values = many(written)
    if Call.of(written).name == "split":
        return lambda k, v: [(word, word) for word in values(k, v)]
    return lambda k, v: [(k, x) for x in values(k, v)]


_REDUCE: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda a, b: _add(a, number(b)),
    "sub": lambda a, b: _add(a, _negative(number(b))),
    "max": lambda a, b: a if number(a) >= number(b) else b,
    "min": lambda a, b: a if number(a) <= number(b) else b,
    "plus": lambda a, b: f"{text(a)}+{text(b)}",
    "minus": lambda a, b: f"{text(a)}-{text(b)}",
    "first": lambda a, b: a,
    "latest": lambda a, b: b,
}


def reduce(written: str) -> Callable[[Any, Any], Any]:
    """A reduce function ``(a, b) -> value``."""
    call = Call.of(written)
    if call.name in _REDUCE:
        return _REDUCE[call.name]
    if call.name == "fail_if":
        return lambda a, b: _fail_if(b, call.arg, b)
    if call.name != "sum_null_at":
        _unknown("reduce", call)
    null_at = int(call.arg)

    def sum_null_at(a: Any, b: Any) -> Any:
        total = _add(a, number(b))
        return None if total == null_at else total

    return sum_null_at


_AGGREGATE: dict[str, Callable[[Any, Any, Any], Any]] = {
    "sum": lambda k, v, agg: _add(agg, number(v)),
    "sub": lambda k, v, agg: _add(agg, _negative(number(v))),
    "count": lambda k, v, agg: _add(agg, 1),
    "uncount": lambda k, v, agg: _add(agg, -1),
    "sum_length": lambda k, v, agg: _add(agg, len(text(v).encode("utf-16-le", "surrogatepass")) // 2),
    "plus": lambda k, v, agg: f"{text(agg)}+{text(v)}",
    "minus": lambda k, v, agg: f"{text(agg)}-{text(v)}",
    "latest": lambda k, v, agg: v,
    "revenue": lambda k, v, agg: _revenue(k, v, agg),
}


def aggregate(written: str) -> Callable[[Any, Any, Any], Any]:
    """An aggregate function ``(key, value, aggregate) -> aggregate``."""
    call = Call.of(written)
    if call.name in _AGGREGATE:
        return _AGGREGATE[call.name]
    if call.name == "plus_fail_if":
        return lambda k, v, agg: _fail_if(v, call.arg, f"{text(agg)}+{text(v)}")
    if call.name != "plus_null_at":
        _unknown("aggregate", call)
    return lambda k, v, agg: None if text(v) == call.arg else f"{text(agg)}+{text(v)}"


def merger(written: str) -> Callable[[Any, Any, Any], Any]:
    """``(key, aggregate, aggregate) -> aggregate`` of that name: a reduce function."""
    function = reduce(written)
    return lambda key, one, other: function(one, other)


def initializer(written: str) -> Callable[[], Any]:
    """An initializer ``() -> aggregate``."""
    call = Call.of(written)
    made: dict[str, Callable[[], Any]] = {
        "zero": lambda: 0,
        "zero_int": Int,
        "empty": lambda: "",
        "const": lambda: call.arg,
        "null": lambda: None,
        "revenue_zero": lambda: _revenue_row(None, 0, 0, False, 0),
    }
    if call.name not in made:
        _unknown("init", call)
    return made[call.name]


_JOIN: dict[str, Callable[[Any, Any, Any], Any]] = {
    "plus": lambda k, left, right: f"{text(left)}+{text(right)}",
    "key_plus": lambda k, left, right: f"{text(k)}:{text(left)}+{text(right)}",
    "sum": lambda k, left, right: in_range(number(left) + number(right), 0),
    "left": lambda k, left, right: left,
    "right": lambda k, left, right: right,
    "line_with_course": lambda k, left, right: {"line": only_json(left), "course": only_json(right)},
}


def joiner(written: str) -> Callable[[Any, Any, Any], Any]:
    """A join function ``(key, left, right) -> value``."""
    call = Call.of(written)
    if call.name == "fail_if":
        return lambda k, left, right: _fail_if(left, call.arg, _fail_if(right, call.arg, f"{text(left)}+{text(right)}"))
    if call.name not in _JOIN:
        _unknown("join", call)
    return _JOIN[call.name]


def _revenue_row(course_id: Any, net: int, count: int, missing: bool, time: int) -> dict[str, Any]:
    return {
        "course_id": course_id,
        "net_cents": net,
        "line_count": count,
        "dimension_missing": missing,
        "updated_event_time": time,
    }


def _revenue(course_id: Any, joined: Any, total: Any) -> dict[str, Any]:
    line = joined["line"]
    amount = in_range(line["unit_price_cents"] * line["quantity"], 0)
    if line["line_type"] == "sale":
        net = total["net_cents"] + amount
    elif line["line_type"] == "refund":
        net = total["net_cents"] - amount
    else:
        raise ValueError(f"unknown line_type {line['line_type']}")
    return _revenue_row(
        course_id,
        in_range(net, 0),
        in_range(total["line_count"] + 1, 0),
        joined["course"] is None,
        max(total["updated_event_time"], line["event_time"]),
    )

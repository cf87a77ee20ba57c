"""Types of keys and values while a topology grows, and the named functions that fit them.

A type is ``string``, ``digits`` (texts that are decimal numbers), ``long``, ``integer``, ``double``, ``json``,
``tw:SIZE:INNER`` or ``sw:INNER`` (keys of time and session windows).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from random import Random

NUMBERS = ("long", "integer", "double")
WHOLE = ("long", "integer")
TEXTS = ("string", "digits")
MARKS = (":", " ", "+")


def serde(kind: str) -> str | None:
    """Name of the serde of a type; None when the vocabulary has none."""
    if kind.startswith("tw:"):
        _, size, inner = kind.split(":", 2)
        return f"time_windowed:{size}" if inner in TEXTS else None
    if kind.startswith("sw:"):
        return "session_windowed" if kind[3:] in TEXTS else None
    return "string" if kind == "digits" else kind


def windowed(kind: str) -> bool:
    """Whether it is a windowed key."""
    return kind.startswith(("tw:", "sw:"))


def inner(kind: str) -> str:
    """The type of the key within a windowed key."""
    return kind.split(":", 2 if kind.startswith("tw:") else 1)[-1]


_KEYS = ("a", "a", "a", "b", "b", "c", "d", "a:1", "b:2", "B", "é", "", "ab", "aa", "a b")
_TEXTS = ("a", "b", "c", "x", "y", "a:1", "b:2", "c:a", "a:x:y", "a b", "b a b", "", "A", "Long Text", "é:日本", "-7")
_EXTREME = (2**63 - 1, -(2**63), 2**31, -1)


def key(rng: Random, kind: str) -> Any:
    """A random key of an input."""
    if kind == "string":
        return rng.choice(_KEYS)
    if kind == "json":
        return rng.choice(({"id": 1}, {"id": 2}, {"id": 2, "s": "a"}, "a"))
    return value(rng, kind, small=True)


def value(rng: Random, kind: str, *, small: bool = False) -> Any:
    """A random value of an input."""
    if kind == "string":
        return rng.choice(_TEXTS)
    if kind == "digits":
        return str(rng.choice((-3, 0, 1, 2, 5, 12, 300)))
    if kind == "long":
        return (
            rng.choice(_EXTREME) if not small and rng.random() < 0.02 else rng.choice((-3, 0, 1, 1, 2, 3, 4, 10, 100))
        )
    if kind == "integer":
        return rng.choice((-3, 0, 1, 2, 3, 10, 2**31 - 1 if not small and rng.random() < 0.1 else 7))
    if kind == "double":
        return rng.choice((0.0, 1.5, -2.25, 0.1, 1e10, 3.0, 1e-5))
    assert kind == "json", kind
    if rng.random() < 0.03:
        return rng.choice(("text", 5, [1, "a"], True, {}))
    made: dict[str, Any] = {"s": rng.choice(("a", "b", "c", "a", "x", None)), "n": rng.choice((1, 2, 3, -1, None))}
    if rng.random() < 0.3:
        made["o"] = rng.choice((1.5, [1, 2], {"b": 1, "a": 2}, True))
    return dict(sorted(made.items(), reverse=rng.random() < 0.5))


def value_function(rng: Random, v: str) -> tuple[str, str]:
    """A value function for values of type ``v``, and the type of its results."""
    found = [("identity", v), (f"const({rng.choice(('c', 'a', 'a b'))})", "string"), ("key_value", "string")]
    found += [("null", v), ("str_or_null", "string"), ("to_string", "digits" if v in (*WHOLE, "digits") else "string")]
    found += [(f"append({rng.choice(('!', ':1', ' z'))})", "string"), (f"prepend({rng.choice(('p', 'a:'))})", "string")]
    found += [(f"before({rng.choice(MARKS)})", "string"), (f"after({rng.choice(MARKS)})", "string")]
    found += [(f"null_if({rng.choice(('a', '1', '2', 'x'))})", v)]
    if v in TEXTS:
        found += [("upper", "string"), ("lower", "string"), ("length", "long")] * 2
    if v == "digits":
        found += [("to_long", "long"), ("to_integer", "integer")] * 3
    if v in WHOLE:
        found += [(f"add({rng.choice((1, -1, 5))})", v)] * 3 + [("to_long", "long"), ("to_integer", "integer")]
    if v == "long":
        found += [(f"multiply({rng.choice((2, -1, 0))})", "long")] * 2
    if v == "json":
        found += [("field(s)", "string"), ("field(n)", "long")] * 3
    return rng.choice(found)


def key_function(rng: Random, k: str, v: str, want: str | None = None) -> tuple[str, str]:
    """A key function for such keys and values, and the type of its results; of type ``want`` when given."""
    found = [
        ("key", k),
        (f"const({rng.choice(('a', 'k'))})", "string"),
        ("value", "digits" if v in WHOLE else "string"),
    ]
    found += [("first_char", "string"), (f"before({rng.choice(MARKS)})", "string"), ("before(:)", "string")]
    found += [(f"after({rng.choice(MARKS)})", "string"), (f"key_before({rng.choice(MARKS)})", "string")]
    if rng.random() < 0.1:
        found += [("null", "string")]
    if k in TEXTS:
        found += [("key_upper", "string"), ("key_first_char", "string")]
    if v == "json":
        found += [("field(s)", "string"), ("field(n)", "long")] * 2
    if windowed(k):
        found += [("unwindow", inner(k)), ("window_string", "string")] * 4
    fitting = [x for x in found if want is None or x[1] == want or (want == "string" and x[1] == "digits")]
    return rng.choice(fitting or found)


def pair_function(rng: Random, k: str, v: str) -> tuple[str, str, str]:
    """A pair function, and the types of the keys and values it gives."""
    if rng.random() < 0.15 and not windowed(k):
        return "swap", v, k
    key_name, new_key = key_function(rng, k, v)
    value_name, new_value = value_function(rng, v)
    return f"pair({key_name}|{value_name})", new_key, new_value


def predicate(rng: Random, v: str) -> str:
    """A predicate for values of type ``v``."""
    found = ["always", "never", "value_not_null", f"key_is({rng.choice('ab')})", f"key_starts_with({rng.choice('ab')})"]
    found += [f"value_is({rng.choice(('a', '1', 'x', '2'))})", f"value_contains({rng.choice(('a', '1', ':'))})"]
    found += [f"value_starts_with({rng.choice(('a', '1', 'b'))})"]
    if v in NUMBERS:
        found += [f"value_gt({rng.choice((0, 1, 2))})", f"value_lt({rng.choice((2, 5))})", "value_even"] * 2
    return rng.choice(found)


def list_function(rng: Random, k: str, v: str) -> tuple[str, str, str]:
    """A list function, and the types of keys (of ``flatMap``) and values it gives."""
    return rng.choice((("none", k, v), ("repeat(2)", k, v), ("repeat(3)", k, v), ("split", "string", "string")))


def reduce_function(rng: Random, v: str) -> str:
    """A reduce function that gives what it takes."""
    found = ["first", "latest", "latest"]
    if v in TEXTS and v != "digits":
        found += ["plus", "plus", "minus"]
    if v in WHOLE:
        found += ["sum", "sum", "sub", "max", "min", f"sum_null_at({rng.choice((0, 3, 5))})"]
    if v == "double":
        found += ["max", "min"]
    return rng.choice(found)


def aggregate_functions(rng: Random, v: str) -> tuple[str, str, str, str, str]:
    """``(init, aggregator, subtractor, merger, type)`` for values of type ``v``."""
    counted = rng.choice((("zero", "long"), ("zero", "long"), ("zero_int", "integer")))
    text = rng.choice((("empty", "string"), ("const(i)", "string"), ("null", "string")))
    found = [
        (counted[0], "count", "uncount", "sum", counted[1]),
        (counted[0], "sum_length", "uncount", "sum", counted[1]),
    ]
    found += [(text[0], "plus", "minus", "plus", "string")] * 2
    found += [(text[0], f"plus_null_at({rng.choice(('a', '1', 'x'))})", "minus", "plus", "string")]
    found += [("null", "latest", "latest", rng.choice(("first", "latest")), v)]
    if v in NUMBERS:
        found += [(counted[0], "sum", "sub", "sum", counted[1])] * 3
    return rng.choice(found)


def join_function(rng: Random, left: str, right: str, *, keyed: bool) -> tuple[str, str]:
    """A join function, and the type of its results."""
    found = [("plus", "string")] * 3 + [("left", left), ("right", right)]
    if keyed:
        found += [("key_plus", "string")]
    if left in NUMBERS and right in NUMBERS:
        found += [("sum", "long")] * 2
    if left == right == "json":
        found += [("line_with_course", "json")]
    return rng.choice(found)

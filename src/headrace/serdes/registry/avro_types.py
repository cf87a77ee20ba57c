"""Avro schemas of Python types, and values of such types as what Avro writes.

==============================================  ============================================================
Python                                          Avro
==============================================  ============================================================
dataclass, msgspec Struct, TypedDict            record, named as the class; fields under their encoded names,
                                                with their defaults
bool, int, float, str, bytes, None              boolean, long, double, string, bytes, null
datetime (aware)                                long, timestamp-micros; naive: local-timestamp-micros
date, time                                      int, date; long, time-micros
UUID                                            string, uuid
Enum of str                                     enum, where every value may be an Avro name; else string
Enum of int                                     long
list, set, frozenset, tuple[T, ...]             array
dict[str, T]                                    map
T | None, unions of these                       union; at most one record, one array and one map in it
==============================================  ============================================================

Any other type, Decimal among them (its precision is not known), needs a schema given beside the class. Values go the
way of ``msgspec.to_builtins`` and ``msgspec.convert``: what is read is checked against the class.
"""

from __future__ import annotations

import datetime as dt
import decimal
import re
import uuid
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec
from msgspec import inspect

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_NATIVE: Final = (bytes, dt.datetime, dt.date, dt.time, decimal.Decimal, uuid.UUID)
"""Types that the Avro codec takes and gives as they are."""
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_PLAIN: Final[tuple[tuple[type[Any], Any], ...]] = (
    (inspect.NoneType, "null"),
    (inspect.BoolType, "boolean"),
    (inspect.IntType, "long"),
    (inspect.FloatType, "double"),
    (inspect.StrType, "string"),
    (inspect.BytesType, "bytes"),
    (inspect.DateType, {"type": "int", "logicalType": "date"}),
    (inspect.TimeType, {"type": "long", "logicalType": "time-micros"}),
    (inspect.UUIDType, {"type": "string", "logicalType": "uuid"}),
)
_DEFAULTS: Final = ((bool, "boolean"), (int, "long"), (float, "double"), (str, "string"))
_PRIMITIVES: Final = frozenset({"null", "boolean", "long", "double", "string", "bytes"})


def avro_schema(type_: Any, namespace: str | None = None) -> Any:
    """The Avro schema of a type, as parsed JSON.

    Args:
        type_: See the module.
        namespace: Namespace of the outermost record, and so of those in it.

    Raises:
        TypeError: A type in it has no Avro form of its own.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass
        ... class Order:
        ...     id: str
        ...     total: float = 0.0
        >>> avro_schema(Order)["fields"]
        [{'name': 'id', 'type': 'string'}, {'name': 'total', 'type': 'double', 'default': 0.0}]
    """
    schema = _of(inspect.type_info(type_), {})
    parts = parts_of(schema)
    if namespace is None or "fields" not in parts:
        return schema
    return {"type": parts["type"], "name": parts["name"], "namespace": namespace, "fields": parts["fields"]}


def parts_of(schema: Any) -> Mapping[str, Any]:
    """The parts of a schema that is a JSON object; none of any other."""
    return cast("Mapping[str, Any]", schema) if isinstance(schema, dict) else {}


def members_of(schema: Any) -> list[Any]:
    """The members of a union; none of any other schema."""
    return list(schema) if isinstance(schema, list) else []  # pyright: ignore[reportUnknownArgumentType]  # of any items


def _of(info: inspect.Type, seen: dict[str, type[Any]]) -> Any:
    for kind, schema in _PLAIN:
        if isinstance(info, kind):
            return schema
    match info:
        case inspect.Metadata():
            return _of(info.type, seen)
        case inspect.DateTimeType():
            return {"type": "long", "logicalType": f"{'local-' if info.tz is False else ''}timestamp-micros"}
        case inspect.EnumType():
            return _enum(info, seen)
        case inspect.UnionType():
            return _union([_of(member, seen) for member in info.types])
        case inspect.ListType() | inspect.SetType() | inspect.FrozenSetType() | inspect.VarTupleType():
            return {"type": "array", "items": _of(info.item_type, seen)}
        case inspect.DictType() if isinstance(info.key_type, inspect.StrType):
            return {"type": "map", "values": _of(info.value_type, seen)}
        case inspect.StructType() | inspect.DataclassType() | inspect.TypedDictType() if not getattr(info, "tag", None):
            return _record(info.cls, info.fields, seen)
        case _:
            raise TypeError(f"{_shown(info)} has no Avro form of its own: give the schema beside the class")


def _record(cls: type[Any], fields: Sequence[inspect.Field], seen: dict[str, type[Any]]) -> Any:
    if _named(cls, seen):
        return cls.__name__
    members: list[dict[str, Any]] = []
    for field in fields:
        schema = _of(field.type, seen)
        member: dict[str, Any] = {"name": field.encode_name, "type": schema}
        default = _default(field)
        if default is not msgspec.NODEFAULT:
            member["type"] = _with_first(schema, default)
            member["default"] = default
        members.append(member)
    return {"type": "record", "name": cls.__name__, "fields": members}


def _enum(info: inspect.EnumType, seen: dict[str, type[Any]]) -> Any:
    values = [member.value for member in info.cls]
    if all(isinstance(value, int) for value in values):
        return "long"
    if not all(isinstance(value, str) and _NAME.fullmatch(value) for value in values):
        return "string"
    if _named(info.cls, seen):
        return info.cls.__name__
    return {"type": "enum", "name": info.cls.__name__, "symbols": values}


def _named(cls: type[Any], seen: dict[str, type[Any]]) -> bool:
    known = seen.get(cls.__name__)
    if known is None:
        seen[cls.__name__] = cls
        return False
    if known is cls:
        return True
    raise TypeError(f"two classes are named {cls.__name__}: give the schema beside the class")


def _union(members: list[Any]) -> list[Any]:
    kinds = [_kind(member) for member in members]
    if len(set(kinds)) < len(kinds):
        raise TypeError("a union of types that Avro cannot tell apart: give the schema beside the class")
    return members


def _kind(schema: Any) -> str:
    # the name of a record or enum that stands elsewhere in the schema counts as a record
    return str(parts_of(schema).get("type", schema if schema in _PRIMITIVES else "record"))


def _default(field: inspect.Field) -> Any:
    if field.default is not msgspec.NODEFAULT:
        default = field.default
    elif field.default_factory is not msgspec.NODEFAULT:
        default = field.default_factory()
    else:
        return msgspec.NODEFAULT
    plain = msgspec.to_builtins(default, builtin_types=_NATIVE)
    # dates and the like have other forms in each logical type: the class has the default, the schema has not
    return msgspec.json.decode(msgspec.json.encode(plain)) if _is_json(plain) else msgspec.NODEFAULT


def _is_json(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_is_json, cast("Mapping[str, Any]", value).values()))
    if isinstance(value, list | tuple):
        return all(map(_is_json, value))  # pyright: ignore[reportUnknownArgumentType]  # of any items
    return value is None or isinstance(value, bool | int | float | str)


def _with_first(schema: Any, default: Any) -> Any:
    # the default of a union is of its first member
    members = members_of(schema)
    if not members:
        return schema
    wanted = "null" if default is None else next((name for kind, name in _DEFAULTS if type(default) is kind), None)
    return sorted(members, key=lambda member: member != wanted)


def _shown(info: inspect.Type) -> str:
    cls = getattr(info, "cls", None)
    return cls.__name__ if cls is not None else type(info).__name__.removesuffix("Type")


def to_avro(value: Any) -> Any:
    """A value of a typed class as what the Avro codec writes."""
    return msgspec.to_builtins(value, builtin_types=_NATIVE)


def from_avro(type_: Any) -> Callable[[Any], Any]:
    """A function from what the Avro codec reads to a value of ``type_``; it raises msgspec's errors."""
    convert = msgspec.convert

    def bound(data: Any) -> Any:
        return convert(data, type_, builtin_types=_NATIVE)

    return bound

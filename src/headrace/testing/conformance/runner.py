"""Runs one case and compares it with what the Java library did."""

from __future__ import annotations

import importlib
import json
from dataclasses import dataclass
from enum import Enum
from itertools import product
from typing import TYPE_CHECKING, Any, cast

from headrace import errors
from headrace.api.handlers import DefaultProductionExceptionHandler, Response
from headrace.config import StreamsConfig
from headrace.errors import SerializationException
from headrace.state import (
    KeyValueStore,
    SessionStore,
    TimestampedKeyValueStore,
    TimestampedKeyValueStoreWithHeaders,
    TimestampedWindowStore,
    VersionedKeyValueStore,
    WindowStore,
)
from headrace.state.outer_join import OuterJoinStore
from headrace.state.time_ordered import TimeOrderedBuffer
from headrace.testing.conformance.steps import Steps
from headrace.testing.conformance.values import LaterStep, from_json, serde, to_json
from headrace.testing.driver import TopologyTestDriver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from headrace.api.handlers import ErrorHandlerContext, ProducerRecord, SerializationExceptionOrigin
    from headrace.topology import Topology

_APPLICATION_ID = "golden"
_SERDES = "org.apache.kafka.common.serialization.Serdes$"
_DEFAULT_SERDES = ("default.key.serde", "default.value.serde")
_PRODUCTION = "production.exception.handler"
_LONG = 200
"""Characters up to which a difference shows the whole row."""
_JAVA_ERRORS: dict[str, tuple[type[BaseException], ...]] = {
    "ArithmeticException": (ArithmeticError,),
    "ClassCastException": (TypeError, SerializationException),
    "IllegalArgumentException": (ValueError,),
    "JsonEOFException": (SerializationException,),
    "JsonParseException": (SerializationException,),
    "NullPointerException": (TypeError, AttributeError, ValueError),
    "NegativeArraySizeException": (SerializationException,),
    "NumberFormatException": (ValueError,),
}
"""What stands here for Java's own and its parser's exceptions; Kafka's have the same names here."""


class Outcome(Enum):
    """How a case ended."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    """It uses an operation or setting that the library does not have yet."""


@dataclass(frozen=True, slots=True)
class Result:
    """A case's outcome, and the first difference or what it needs."""

    name: str
    outcome: Outcome
    reason: str = ""


class _Difference(Exception):
    """The first difference of a case."""


def case_names(cases: Path, only: str = "") -> list[str]:
    """Names ``GROUP/NAME`` of the cases below a directory, those that contain ``only``, sorted."""
    names = (path.relative_to(cases).with_suffix("").as_posix() for path in cases.rglob("*.json"))
    return sorted(name for name in names if only in name)


def run_case(cases: Path, expected: Path, name: str) -> Result:
    """Run the case ``GROUP/NAME`` and compare all that the expected file has.

    Args:
        cases: Directory of cases.
        expected: Directory of results.
        name: Name of the case.
    """
    case = json.loads((cases / f"{name}.json").read_text(encoding="utf-8"))
    wanted = json.loads((expected / f"{name}.json").read_text(encoding="utf-8"))
    return check_case(name, case, wanted)


def check_case(name: str, case: Mapping[str, Any], wanted: Mapping[str, Any]) -> Result:
    """Run a case and compare all that the result has; see :func:`run_case`."""
    try:
        _compare(case, wanted)
    except LaterStep as e:
        return Result(name, Outcome.SKIPPED, str(e))
    except _Difference as e:
        return Result(name, Outcome.FAILED, str(e))
    return Result(name, Outcome.PASSED)


def _compare(case: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    config = case_config(case)
    error = wanted.get("error")
    try:
        topology = Steps(config, at_construction=case.get("topology_config", False)).build(case["steps"])
    except (LaterStep, _Difference):
        raise
    except Exception as e:  # compared with Java's
        _check_error("build", e, error)
        return
    _check_not(error, "build")
    _check_text(topology.describe(), wanted["describe"])
    try:
        driver = TopologyTestDriver(topology, config, case.get("wall_clock_start_ms", 0))
    except Exception as e:  # compared with Java's
        _check_error("start", e, error)
        return
    with driver:
        _check_not(error, "start")
        _check_structure(topology, StreamsConfig.load(config), wanted["subtopologies"])
        Run(driver, case, wanted).check()


def case_config(case: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a case, over those that every case has."""
    config: dict[str, Any] = {
        "application.id": _APPLICATION_ID,
        "bootstrap.servers": "dummy:1234",
        **dict.fromkeys(_DEFAULT_SERDES, f"{_SERDES}StringSerde"),
    }
    config.update({key: str(value) for key, value in case.get("config", {}).items()})
    for key in _DEFAULT_SERDES:
        # the vocabulary's own, which tell Java's types apart
        name = config[key].removeprefix(_SERDES).removesuffix("Serde").lower()
        config[key] = serde(name) if name in {"string", "long", "integer", "double"} else config[key]
    if config.get(_PRODUCTION) == "Resumes":
        config[_PRODUCTION] = _Resumes()
    return config


class _Resumes(DefaultProductionExceptionHandler):
    """The handler of that name: what cannot be written is left out."""

    def handle_error(self, context: ErrorHandlerContext, record: ProducerRecord, exception: Exception) -> Response:
        return Response.resume()

    def handle_serialization_error(
        self,
        context: ErrorHandlerContext,
        record: ProducerRecord,
        exception: Exception,
        origin: SerializationExceptionOrigin,
    ) -> Response:
        return Response.resume()


class Run:
    """Pipes a case's inputs and compares what came out."""

    def __init__(self, driver: TopologyTestDriver, case: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
        self._driver = driver
        self._case = case
        self._wanted = wanted
        self.outputs: dict[str, list[Any]] = {}
        """What came out of each topic, as results list it."""
        self.internal: dict[str, list[Any]] = {}
        """The raw records of each internal topic."""

    def check(self) -> None:
        """Pipe everything and compare."""
        error = self._wanted.get("error")
        failed = False
        for at, record in enumerate(self._case.get("inputs", ())):
            failure = self.feed(record)
            self.drain(at)
            if failure is not None:
                _check_error(at, failure, error)
                failed = True
                break
            _check_not(error, at)
        wanted_outputs: dict[str, list[Any]] = {}
        for row in self._wanted["outputs"]:
            wanted_outputs.setdefault(row["topic"], []).append(row)
        for topic in sorted(self.outputs.keys() | wanted_outputs.keys()):
            _check_dead_letters(f"output of {topic}", self.outputs.get(topic, []), wanted_outputs.get(topic, []))
        _check_rows("records of", self.internal, self._wanted.get("internal_topics", {}))
        if not failed and not self._case.get("describe_only", False):
            self._check_stores()
            _check("dropped records", sum(self._driver.dropped_records().values()), self._wanted["dropped_records"])

    def _serde_name(self, topic: str, part: str) -> str:
        name: str = self._case.get("topics", {}).get(topic, {}).get(part, "string")
        return name

    def feed(self, record: Mapping[str, Any]) -> Exception | None:
        """Pipe one input; gives what the topology failed with."""
        if "advance_wall_clock_ms" in record:
            feed: Callable[[], None] = lambda: self._driver.advance_wall_clock_time(record["advance_wall_clock_ms"])  # noqa: E731
        else:
            topic = record["topic"]
            key, value = self._encode(topic, record, "key"), self._encode(topic, record, "value")
            headers = [(name, None if x is None else x.encode()) for name, x in record.get("headers", ())]
            feed = lambda: self._driver.pipe_raw(topic, key, value, record["timestamp"], headers)  # noqa: E731
        try:
            feed()
        except Exception as e:  # compared with Java's
            return e
        return None

    def _encode(self, topic: str, record: Mapping[str, Any], part: str) -> bytes | None:
        if f"{part}_hex" in record:
            return bytes.fromhex(record[f"{part}_hex"])
        name = self._serde_name(topic, part)
        found = serde(name)
        assert found is not None
        return found.serializer.serialize(topic, from_json(record.get(part), name))

    def drain(self, at: int) -> None:
        """Take what was written since the last call, as of input number ``at``."""
        for topic in sorted(self._driver.produced_topic_names()):
            inner = topic.startswith(f"{_APPLICATION_ID}-") and topic not in self._case.get("topics", {})
            while (raw := self._driver.read_raw(topic)) is not None:
                timestamp, key, value, headers = raw[3:]
                if inner:
                    row: dict[str, Any] = {"at": at, "key_hex": _hex(key), "value_hex": _hex(value)}
                else:
                    row = {"at": at, "topic": topic}
                    row["key"], row["value"] = self._decode(topic, "key", key), self._decode(topic, "value", value)
                row["timestamp"] = timestamp
                if headers and inner:
                    row["headers_hex"] = [[name, _hex(x)] for name, x in headers]
                elif headers:
                    row["headers"] = [[name, _header_text(name, x)] for name, x in headers]
                (self.internal if inner else self.outputs).setdefault(topic, []).append(row)

    def _decode(self, topic: str, part: str, raw: bytes | None) -> Any:
        found = serde(self._serde_name(topic, part))
        assert found is not None
        return to_json(found.deserializer.deserialize(topic, raw))

    def _check_stores(self) -> None:
        # the rows of a buffer are shown by its changelog only
        found = self._driver.get_all_state_stores()
        stores = {name: store for name, store in found.items() if not isinstance(store, TimeOrderedBuffer)}
        # Java lists a store that no processor uses too, without rows
        wanted = {name: store for name, store in self._wanted["stores"].items() if store.get("type") != "other"}
        buffers = {name for name, store in self._wanted["stores"].items() if store.get("type") == "other"}
        _check("stores", sorted(stores.keys() - buffers), sorted(wanted))
        for name, want in sorted(wanted.items()):
            if not want.get("opaque"):
                _check_list(f"store {name}", list(self.rows(stores[name])), want["entries"])

    def rows(self, store: Any) -> Iterator[dict[str, Any]]:
        """The rows of a store, in its order, as results list them; a buffer has none."""
        if isinstance(store, TimeOrderedBuffer):
            return iter(())
        return self._versions(store) if isinstance(store, VersionedKeyValueStore) else _rows(store)  # pyright: ignore[reportUnknownArgumentType]  # any key and value

    def _versions(self, store: VersionedKeyValueStore[Any, Any]) -> Iterator[dict[str, Any]]:
        """What there was of every key of the inputs at every time of the inputs."""
        inputs = self._case.get("inputs", ())
        keys = {record["key"] for record in inputs if isinstance(record.get("key"), str)}
        times = {record["timestamp"] for record in inputs if "timestamp" in record}
        for key, as_of in product(sorted(keys), sorted(times)):
            row: dict[str, Any] = {"key": key, "as_of": as_of, "value": None}
            found = store.get(key, as_of)
            if found is not None:
                # Java's typed store does not tell until when a version was valid
                row |= {"value": found.value, "timestamp": found.timestamp}
            yield row


def _rows(store: Any) -> Iterator[dict[str, Any]]:
    if isinstance(store, TimestampedWindowStore):
        for key, row in store.all():  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]  # any key and value
            yield {"key": to_json(key), "value": row.value, "timestamp": row.timestamp}  # pyright: ignore[reportUnknownArgumentType]  # any key
    elif isinstance(store, WindowStore):
        for key, value in store.all():  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]  # any key and value
            yield {"key": to_json(key), "value": value}  # pyright: ignore[reportUnknownArgumentType]  # any key
    elif isinstance(store, SessionStore):
        for key, value in store.fetch_range(None, None):  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]  # any key and value
            yield {"key": to_json(key), "value": value}  # pyright: ignore[reportUnknownArgumentType]  # any key
    elif isinstance(store, TimestampedKeyValueStoreWithHeaders):
        for key, value in store.all():  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]  # any key and value
            yield {"key": key, "value": value.value, "timestamp": value.timestamp}
    elif isinstance(store, TimestampedKeyValueStore):
        for key, row in store.all():  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]  # any key and value
            yield {"key": key, "value": row.value, "timestamp": row.timestamp}
    elif isinstance(store, KeyValueStore):
        for key, value in store.all():  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]  # any key and value
            yield {"key": key, "value": value}
    elif isinstance(store, OuterJoinStore):
        for waiting in store.all():  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]  # any key and value
            yield {"key": waiting.key, "value": waiting.value}
    else:
        raise _Difference(f"a store of unknown kind: {type(store).__name__}")


def _check_structure(topology: Topology, config: StreamsConfig, wanted: Mapping[str, Any]) -> None:
    additional_ms = config[StreamsConfig.WINDOW_STORE_CHANGE_LOG_ADDITIONAL_RETENTION_MS_CONFIG]
    built = topology.build(_APPLICATION_ID, config.topic_config(), additional_ms)
    groups = [
        {
            "id": sub.id,
            "sources": sorted(sub.source_topics),
            "sinks": sorted(sub.sink_topics),
            "repartition_topics": _topics(sub.repartition_topics),
            "changelog_topics": _topics(sub.changelog_topics),
        }
        for sub in built.subtopologies
    ]
    _check_list("sub-topology", groups, wanted["groups"])
    copartitioned = sorted((sorted(group) for group in built.copartition_groups), key=str)
    _check("copartition groups", copartitioned, sorted(wanted["copartition_groups"], key=str))
    kept = () if built.global_stores is None else built.global_stores.topics
    _check("global stores", sorted(kept), wanted["global_stores"])
    _check("store names", sorted(topology.state_store_names), wanted["store_names"])


def _topics(topics: Mapping[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name, topic in sorted(topics.items()):
        described: dict[str, Any] = {} if topic.partitions is None else {"partitions": topic.partitions}
        described["partitions_enforced"] = topic.partitions_enforced
        described["config"] = dict(sorted(topic.config.items()))
        result[name] = described
    return result


def _check_text(got: str, want: str) -> None:
    """Byte for byte; lines with names in hash order (successors, predecessors, stores, topics) as sets."""
    got_lines, want_lines = got.split("\n"), want.split("\n")
    for number, (g, w) in enumerate(zip(got_lines, want_lines, strict=False), 1):
        if g != w and (_without_names(g) != _without_names(w) or _names(g) != _names(w)):
            raise _Difference(f"describe line {number}: {g!r}, but Java has {w!r}")
    _check("lines of describe", len(got_lines), len(want_lines))


def _list_start(line: str) -> int:
    for mark in ("--> ", "<-- ", "(stores: [", "(topics: ["):
        at = line.find(mark)
        if at >= 0:
            return at + len(mark)
    return len(line)


def _without_names(line: str) -> str:
    return line[: _list_start(line)]


def _names(line: str) -> list[str]:
    return sorted(line[_list_start(line) :].removesuffix("])").split(", "))


def _check_error(at: int | str, got: Exception, want: Mapping[str, Any] | None) -> None:
    chain = _chain(got)
    shown = " < ".join(f"{type(e).__name__}: {e}" for e in chain)
    if want is None:
        raise _Difference(f"at {at}: {shown}, but Java goes on") from got
    innermost = want["chain"][-1]["type"].rpartition(".")[2].rpartition("$")[2]
    if want["at"] != at:
        raise _Difference(f"at {at}: {shown}, but Java fails at {want['at']} with {innermost}") from got
    try:
        kinds = _java_kinds(innermost)
    except LookupError as e:
        raise _Difference(f"at {at}: {e}") from got
    # below a SerializationException lie the codec's own errors, whose classes are not part of the contract
    kind = next((e for e in chain if isinstance(e, SerializationException)), chain[-1])
    if not isinstance(kind, kinds):
        raise _Difference(f"at {at}: {shown}, but Java has {innermost} innermost") from got


def _java_kinds(java_name: str) -> tuple[type[BaseException], ...]:
    """What stands here for a Java exception."""
    simple = java_name.rpartition(".")[2].rpartition("$")[2]
    same_name = getattr(errors, simple, None)
    kinds = _JAVA_ERRORS.get(simple) or (() if same_name is None else (same_name,))
    if not kinds:
        raise LookupError(f"nothing here stands for Java's {simple}")
    return kinds


def _chain(error: BaseException) -> list[BaseException]:
    chain = [error]
    while (cause := chain[-1].__cause__) is not None:
        chain.append(cause)
    return chain


def _check_not(error: Mapping[str, Any] | None, at: int | str) -> None:
    if error is not None and error["at"] == at:
        innermost = error["chain"][-1]
        raise _Difference(f"at {at}: no error, but Java has {innermost['type']}: {innermost['message']}")


def _check_rows(what: str, got: Mapping[str, list[Any]], want: Mapping[str, list[Any]]) -> None:
    for topic in sorted(got.keys() | want.keys()):
        _check_list(f"{what} {topic}", got.get(topic, []), want.get(topic, []))


def _check_list(what: str, got: list[Any], want: list[Any]) -> None:
    for number, (g, w) in enumerate(zip(got, want, strict=False)):
        _check(f"{what} [{number}]", g, w)
    if len(got) > len(want):
        raise _Difference(f"{what} [{len(want)}]: {_shown(got[len(want)])}, but Java has no more")
    if len(want) > len(got):
        raise _Difference(f"{what} [{len(got)}]: no more, but Java has {_shown(want[len(got)])}")


def _check(what: str, got: Any, want: Any) -> None:
    if isinstance(got, dict) and isinstance(want, dict):
        _check_members(what, cast("dict[str, Any]", got), cast("dict[str, Any]", want))
    elif _shown(got) != _shown(want):
        raise _Difference(f"{what}: {_shown(got)}, but Java has {_shown(want)}")


def _check_members(what: str, got: dict[str, Any], want: dict[str, Any]) -> None:
    whole = f" of {_shown(want)}" if len(_shown(want)) <= _LONG else ""
    for key in dict.fromkeys((*want, *got)):
        if _shown(got.get(key)) != _shown(want.get(key)):
            raise _Difference(f"{what} {key}{whole}: {_shown(got.get(key))}, but Java has {_shown(want.get(key))}")


def _shown(value: Any) -> str:
    # as text, so that 1, 1.0 and true differ, and the order of a JSON value's members counts
    return json.dumps(value, ensure_ascii=False, default=to_json)


def _header_text(name: str, raw: bytes | None) -> str | None:
    if name == "__streams.errors.stacktrace":
        return "(stack trace)"
    return None if raw is None else raw.decode()


def _check_dead_letters(what: str, got: list[Any], want: list[Any]) -> None:
    """The words of errors are ours: their classes stand for Java's, and the messages are not compared."""
    for row, java in zip(got, want, strict=False):
        wanted = dict(java.get("headers", ()))
        kind = wanted.get("__streams.errors.exception")
        for header in row.get("headers", ()) if kind is not None else ():
            if header[0] == "__streams.errors.message":
                header[1] = wanted.get(header[0])
            elif header[0] == "__streams.errors.exception" and _stands_for(header[1], str(kind)):
                header[1] = kind
    _check_list(what, got, want)


def _stands_for(name: str, java_name: str) -> bool:
    module, _, attribute = name.rpartition(".")
    found: Any = getattr(importlib.import_module(module or "builtins"), attribute)
    kinds = _java_kinds(java_name)
    if issubclass(errors.StreamsException, kinds):
        # Java wraps the ClassCastException of a serializer; here the error is the serializer's own
        kinds += _JAVA_ERRORS["ClassCastException"]
    return issubclass(found, kinds)


def _hex(raw: bytes | None) -> str | None:
    return None if raw is None else raw.hex()

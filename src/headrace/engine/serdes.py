"""Which serde each place of a topology uses: the one it was given, else the configured default.

:func:`check_serdes` asks for every place before anything runs, so that a missing serde is an error of building, with
operator and topic.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from headrace.api.engine import UsesSerdes
from headrace.api.serde import NeedsContext, Serde
from headrace.errors import TopologyException
from headrace.topology.built import ProcessorSpec, SinkSpec, SourceSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headrace.api.serde import Deserializer, Serializer
    from headrace.engine.settings import EngineSettings
    from headrace.state.builders import StoreBuilder
    from headrace.topology.built import BuiltTopology, SubTopology

_Part = TypeVar("_Part")


class TaskSerdes:
    """The serdes of a sub-topology's sources, sinks and stores, made ready for use.

    Every method raises a TopologyException where neither a serde is given nor a default configured.
    """

    def __init__(self, sub: SubTopology, settings: EngineSettings) -> None:
        self._sub = sub
        self._settings = settings

    def of_source(self, spec: SourceSpec) -> tuple[Deserializer[Any], Deserializer[Any]]:
        """Deserializers of key and value."""
        return self._deserializer(spec, is_key=True), self._deserializer(spec, is_key=False)

    def of_sink(self, spec: SinkSpec) -> tuple[Serializer[Any], Serializer[Any]]:
        """Serializers of key and value."""
        return self._serializer(spec, is_key=True), self._serializer(spec, is_key=False)

    def of_store(
        self, builder: StoreBuilder[Any, Any]
    ) -> tuple[Callable[[Serde[Any] | None], Serde[Any]], Callable[[Serde[Any] | None], Serde[Any]]]:
        """Functions that make the store's own serde of key, and of value, ready; or the default for None."""
        where = f"of {self.place_of(builder.name)}"
        remedy = "give it with Materialized.with_, or where the store's builder is made"

        def whole(is_key: bool) -> Callable[[Serde[Any] | None], Serde[Any]]:
            def chosen(given: Serde[Any] | None) -> Serde[Any]:
                serde = given if given is not None else self._default(where, remedy, is_key=is_key)
                what = f"{_half_name(is_key)} {where}"
                if isinstance(serde, NeedsContext):
                    serde = serde.in_context(SerdeContextOf(self._settings, what))
                serializer = self._complete(serde.serializer, what)
                deserializer = self._complete(serde.deserializer, what)
                if serializer is serde.serializer and deserializer is serde.deserializer:
                    return serde
                return Serde(
                    serializer, deserializer, immutable=serde.immutable, exact=serde.exact, faithful=serde.faithful
                )

            return chosen

        return whole(True), whole(False)

    def place_of(self, store: str) -> str:
        """A store with its topic and operators, for messages."""
        changelog = self._sub.store_changelogs.get(store)
        users = [spec.name for spec in self._sub.nodes if store in getattr(spec, "stores", ())]
        return f"store {store} ({_topics((changelog,)) if changelog else 'no changelog'}) at {', '.join(users)}"

    def places(self) -> Iterator[Callable[[], object]]:
        """One call for every place; it raises where the place has no serde."""
        for spec in self._sub.nodes:
            for is_key in (True, False):
                if isinstance(spec, SourceSpec):
                    yield partial(self._deserializer, spec, is_key=is_key)
                elif isinstance(spec, SinkSpec):
                    yield partial(self._serializer, spec, is_key=is_key)
            if isinstance(spec, ProcessorSpec) and isinstance(spec.operator, UsesSerdes):
                yield partial(spec.operator.check_serdes, SerdeContextOf(self._settings, f"node {spec.name}"))
        for builder in self._sub.stores:
            key, value = self.of_store(builder)
            yield partial(key, builder.key_serde)
            yield partial(value, builder.value_serde)

    def _deserializer(self, spec: SourceSpec, *, is_key: bool) -> Deserializer[Any]:
        topics = f"topics that match {spec.pattern.pattern}" if spec.pattern is not None else _topics(spec.topics)
        internal = not self._sub.repartition_topics.keys().isdisjoint(spec.topics)
        remedy = _REPARTITION_REMEDY if internal else "give it with Consumed.with_"
        given = spec.key_deserializer if is_key else spec.value_deserializer
        where = f"of {topics} at source {spec.name}"
        return self._half(given, lambda default: default.deserializer, where, remedy, is_key=is_key)

    def _serializer(self, spec: SinkSpec, *, is_key: bool) -> Serializer[Any]:
        topics = _topics((spec.topic,)) if isinstance(spec.topic, str) else "the topics it chooses"
        remedy = _REPARTITION_REMEDY if topics.endswith("-repartition") else "give it with Produced.with_"
        given = spec.key_serializer if is_key else spec.value_serializer
        where = f"for {topics} at sink {spec.name}"
        return self._half(given, lambda default: default.serializer, where, remedy, is_key=is_key)

    def _half(
        self, given: _Part | None, of_default: Callable[[Serde[Any]], _Part], where: str, remedy: str, *, is_key: bool
    ) -> _Part:
        part = given if given is not None else of_default(self._default(where, remedy, is_key=is_key))
        return self._complete(part, f"{_half_name(is_key)} {where}")

    def _complete(self, part: _Part, what: str) -> _Part:
        return part.in_context(SerdeContextOf(self._settings, what)) if isinstance(part, NeedsContext) else part

    def _default(self, where: str, remedy: str, *, is_key: bool) -> Serde[Any]:
        half = _half_name(is_key)
        return _set(self._settings, f"{half} {where}", remedy, is_key=is_key)


class SerdeContextOf:
    """Body of :class:`headrace.api.serde.SerdeContext` for one place, which its errors name."""

    def __init__(self, settings: EngineSettings, what: str) -> None:
        self._settings = settings
        self._what = what

    @property
    def application_id(self) -> str:
        """See the protocol."""
        return self._settings.application_id

    def configured(self, *, is_key: bool) -> Serde[Any] | None:
        """See the protocol."""
        return self._settings.default_key_serde if is_key else self._settings.default_value_serde

    def key_serde(self) -> Serde[Any]:
        """See the protocol."""
        return _set(self._settings, f"keys inside the {self._what}", "give it where the operator is made", is_key=True)

    def value_serde(self) -> Serde[Any]:
        """See the protocol."""
        return _set(
            self._settings, f"values inside the {self._what}", "give it where the operator is made", is_key=False
        )


def check_serdes(built: BuiltTopology, settings: EngineSettings) -> None:
    """Look for places without a serde.

    Raises:
        TopologyException: There are some; the message lists every one with its operator and topic.
    """
    parts = list(built.subtopologies)
    if built.global_stores is not None:
        parts.append(built.global_stores.part)
    missing: list[str] = []
    for part in parts:
        for place in TaskSerdes(part, settings).places():
            try:
                place()
            except TopologyException as e:
                missing.append(e.problem)
    if missing:
        raise TopologyException("; ".join(dict.fromkeys(missing)))


_REPARTITION_REMEDY = "give it with Grouped.with_, Joined.with_ or Repartitioned.with_"


def _set(settings: EngineSettings, what: str, remedy: str, *, is_key: bool) -> Serde[Any]:
    default = settings.default_key_serde if is_key else settings.default_value_serde
    if default is None:
        raise TopologyException(f"no serde for the {what}: {remedy}, or set default.{_half_name(is_key)}.serde")
    return default


def _half_name(is_key: bool) -> str:
    return "key" if is_key else "value"


def _topics(names: tuple[str, ...]) -> str:
    return f"topic{'s' if len(names) > 1 else ''} {', '.join(names)}"

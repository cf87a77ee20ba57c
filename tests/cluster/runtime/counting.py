"""A counting application that tests of the runtime share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace import Consumed, Grouped, Materialized, Produced, Serdes, StreamsBuilder

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace import Topology
    from headrace.api.stores import KeyValueBytesStoreSupplier


def counting(
    source: str, out: str, touch: Callable[[str], str] = str, store: KeyValueBytesStoreSupplier | None = None
) -> Topology:
    """Counts records by key in the store ``counts``, or the one given."""
    text = Serdes.String()
    builder = StreamsBuilder()
    (
        builder.stream(source, Consumed.with_(text, text))
        .map_values(touch)
        .group_by_key(Grouped.with_(text, text))
        .count(Materialized.as_(store or "counts").with_key_serde(text))
        .to_stream()
        .to(out, Produced.with_(text, Serdes.Long()))
    )
    return builder.build()

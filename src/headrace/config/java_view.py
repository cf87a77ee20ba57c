"""What the Java library would hand to its clients for the same settings: for comparison, not for use by a client.

Source: ``StreamsConfig.getMainConsumerConfigs``, ``getRestoreConsumerConfigs``, ``getGlobalConsumerConfigs`` and
``getProducerConfigs`` (4.4).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.config.client_keys import CLIENT_KEYS, ClientKind
from headrace.config.definition import java_text
from headrace.config.keys import STREAMS_KEYS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.config.streams import StreamsConfig

_STREAMS_NAMES = frozenset(key.name for key in STREAMS_KEYS)
_FORWARDED = (
    "upgrade.from",
    "replication.factor",
    "application.server",
    "num.standby.replicas",
    "acceptable.recovery.lag",
    "max.warmup.replicas",
    "probing.rebalance.interval.ms",
    "rack.aware.assignment.non_overlap_cost",
    "rack.aware.assignment.strategy",
    "rack.aware.assignment.tags",
    "rack.aware.assignment.traffic_cost",
    "task.assignor.class",
    "windowstore.changelog.additional.retention.ms",
    "application.id",
)
_ASSIGNOR = "org.apache.kafka.streams.processor.internals.StreamsPartitionAssignor"


def java_client_configs(config: StreamsConfig, client_id: str, thread_index: int = 1) -> dict[str, dict[str, str]]:
    """The configurations of Java's four clients.

    Args:
        config: The settings.
        client_id: What the clients' ids begin with.
        thread_index: Number of the stream thread.

    Returns:
        ``main_consumer``, ``restore_consumer``, ``global_consumer`` and ``producer``, each by key, values as Java
        prints them.
    """
    originals = config.originals()
    exactly_once = config.exactly_once
    custom = _custom(originals)
    common: dict[str, Any] = {
        "auto.offset.reset": "earliest",
        "max.poll.records": "1000",
        **custom,
        **_given(originals, ClientKind.CONSUMER, "consumer."),
        **_fixed_for_consumers(exactly_once),
        "bootstrap.servers": originals["bootstrap.servers"],
        "client.id": client_id,
        "bootstrap.resolve.timeout.ms": "0",
    }
    common.pop("group.id", None)
    fixed = _fixed_for_consumers(exactly_once)
    alone = {key: value for key, value in common.items() if key != "group.instance.id"}
    restore = {**alone, **_stripped(originals, "restore.consumer."), **fixed, "auto.offset.reset": "none"}
    global_ = {
        **alone,
        **_stripped(originals, "global.consumer."),
        **fixed,
        "auto.offset.reset": "none",
        "client.id": f"{client_id}-global-consumer",
    }
    main = {**common, **_stripped(originals, "main.consumer."), **fixed}
    main.update({name: originals.get(name, config[name]) for name in _FORWARDED})
    main.update({"group.id": config.application_id, "partition.assignment.strategy": _ASSIGNOR})
    if "group.instance.id" in main:
        main["group.instance.id"] = f"{main['group.instance.id']}-{thread_index}"
    producer: dict[str, Any] = {"linger.ms": "100"}
    if exactly_once:
        producer |= {"delivery.timeout.ms": 2**31 - 1, "transaction.timeout.ms": 10_000}
    producer |= custom | _given(originals, ClientKind.PRODUCER, "producer.")
    if exactly_once:
        producer["enable.idempotence"] = True
        producer.pop("transactional.id", None)
    producer |= {
        "bootstrap.servers": originals["bootstrap.servers"],
        "client.id": client_id,
        "bootstrap.resolve.timeout.ms": "0",
    }
    views = {"main_consumer": main, "restore_consumer": restore, "global_consumer": global_, "producer": producer}
    return {name: {key: java_text(view[key]) for key in sorted(view)} for name, view in views.items()}


def _fixed_for_consumers(exactly_once: bool) -> dict[str, Any]:
    fixed: dict[str, Any] = {
        "allow.auto.create.topics": False,
        "enable.auto.commit": False,
        "group.protocol": "classic",
    }
    if exactly_once:
        fixed |= {"isolation.level": "read_committed", "internal.throw.on.fetch.stable.offset.unsupported": True}
    return fixed


def _stripped(originals: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    return {key[len(prefix) :]: value for key, value in originals.items() if key.startswith(prefix)}


def _given(originals: Mapping[str, Any], kind: ClientKind, prefix: str) -> dict[str, Any]:
    bare = {key: value for key, value in originals.items() if key in CLIENT_KEYS and CLIENT_KEYS[key].applies_to(kind)}
    return bare | _stripped(originals, prefix)


def _custom(originals: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: value
        for key, value in originals.items()
        if key not in _STREAMS_NAMES
        and key not in CLIENT_KEYS
        and not key.startswith(("consumer.", "producer.", "admin."))
    }

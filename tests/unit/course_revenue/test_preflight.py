"""What the check refuses and warns of, each with what to do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from course_revenue.contract import OnBrokenLine
from course_revenue.options import as_given
from course_revenue.preflight import Findings, Seen, Wanted, judge, wanted
from course_revenue.settings import Dedupe, Settings
from course_revenue.succession import Succession, succession

from headrace import StreamsConfig, TopicPartition
from headrace.errors import ConfigException
from headrace.records import OffsetAndMetadata
from headrace.topics import TopicSetting

SETTINGS = Settings(on_broken_line=OnBrokenLine.REJECT, dedupe=Dedupe.LINE_KEY, dedupe_retention_ms=1000)
OPTIONS = "--config app.properties --set course.revenue.on.broken.line=reject --set sasl.jaas.config=…"
LINES, COURSES, OUTPUT, REJECTED = SETTINGS.lines, SETTINGS.courses, SETTINGS.output, SETTINGS.rejected
REPARTITION = "app-KSTREAM-KEY-SELECT-0000000004-repartition"
TOTALS = "app-course-revenue-changelog"
REMEMBERED = "app-course-revenue-lines-changelog"


def needs() -> Wanted:
    config = {
        "application.id": "app",
        "bootstrap.servers": "k:9092",
        "processing.guarantee": "exactly_once_v2",
    }
    given = as_given(Path("app.properties"), ["course.revenue.on.broken.line=reject", "sasl.jaas.config=of secret;"])
    return wanted("k:9092", given, SETTINGS, StreamsConfig.load(config))


def own(value: str) -> TopicSetting:
    return TopicSetting(value, own=True)


def default(value: str) -> TopicSetting:
    return TopicSetting(value, own=False)


def good() -> Seen:
    needed = needs()
    policies = {LINES: "delete", REJECTED: "delete", REPARTITION: "delete", REMEMBERED: "compact,delete"}
    topics = {LINES, COURSES, OUTPUT, REJECTED, *needed.repartition, *needed.changelogs}
    configs = {
        topic: {
            "cleanup.policy": own(policies.get(topic, "compact")),
            # brokers' defaults: they count for the lines, not for a changelog
            "retention.ms": default("604800000"),
            "retention.bytes": default("-1"),
            "min.insync.replicas": default("2"),
        }
        for topic in topics
    }
    configs[LINES]["retention.ms"] = own("-1")
    configs[REMEMBERED]["retention.ms"] = own(needed.changelogs[REMEMBERED]["retention.ms"])
    starts = {TopicPartition(LINES, 0): 0, TopicPartition(COURSES, 0): 17}
    return Seen(dict.fromkeys(topics, 6), configs, dict.fromkeys(topics, 3), starts)


def found(seen: Seen) -> Findings:
    return judge(needs(), seen)


def with_config(topic: str, **settings: TopicSetting) -> Seen:
    seen = good()
    changed = {name.replace("_", "."): setting for name, setting in settings.items()}
    return replace(seen, configs={**seen.configs, topic: {**seen.configs[topic], **changed}})


def test_a_cluster_as_it_should_be_has_no_findings() -> None:
    assert found(good()) == Findings()
    assert {REPARTITION} == needs().repartition
    assert {TOTALS, REMEMBERED} < needs().changelogs.keys()


def test_before_the_first_start_internal_topics_are_not_missed() -> None:
    seen = good()
    counts = {topic: count for topic, count in seen.partitions.items() if not topic.startswith("app-")}
    assert found(replace(seen, partitions=counts)) == Findings()


@pytest.mark.parametrize("topic", [REPARTITION, TOTALS, REMEMBERED])
def test_a_job_that_has_counted_does_not_start_without_its_totals_or_what_is_in_none_yet(topic: str) -> None:
    seen = good()
    counts = {name: count for name, count in seen.partitions.items() if name != topic}
    refusals = found(replace(seen, partitions=counts, counted=True)).refusals
    if topic == REMEMBERED:
        # dedupe was turned on: it knows the lines from now on
        assert refusals == ()
        return
    (refusal,) = refusals
    assert refusal.what.startswith(f"{topic} is missing, though app has counted lines")
    assert refusal.fix.startswith("course-revenue rebuild --config app.properties")


def test_a_changelog_that_has_lost_totals_is_told() -> None:
    (refusal,) = found(replace(good(), counted=True, emptied=True)).refusals
    assert refusal.what.startswith(f"{TOTALS} is empty, though {OUTPUT} has totals")
    assert refusal.fix.startswith("course-revenue rebuild --config app.properties")
    seen = replace(good(), counted=True)
    findings = found(replace(seen, starts={**seen.starts, TopicPartition(TOTALS, 3): 17}))
    (warning,) = findings.warnings
    assert warning.what.startswith(f"changelog {TOTALS} has lost records ({TOTALS}-3 begins at offset 17)")
    assert findings.refusals == ()


def test_totals_without_offsets_are_not_counted_on_top_of() -> None:
    (refusal,) = found(replace(good(), counted=None, totals=True)).refusals
    assert refusal.what.startswith(f"app has no committed offsets of {LINES}, but {TOTALS} has totals")
    assert refusal.fix.startswith("course-revenue rebuild --config app.properties")


@pytest.mark.parametrize("purged_to", [0, 4711])
def test_under_at_least_once_lost_offsets_are_told_from_a_job_that_was_killed_before_its_first_commit(
    purged_to: int,
) -> None:
    """After a group's offsets had expired, such a job counted every line twice without a word."""
    seen = replace(good(), counted=None, totals=True)
    seen = replace(seen, starts={**seen.starts, TopicPartition(REPARTITION, 3): purged_to})
    adding = replace(SETTINGS, dedupe=Dedupe.OFF)
    findings = judge(replace(needs(), transactions=False, settings=adding), seen)
    told = findings.refusals if purged_to else findings.warnings
    assert [finding.what.partition(":")[0] for finding in told] == [
        f"app has no committed offsets of {LINES}, but {TOTALS} has totals"
    ]
    assert (findings.warnings if purged_to else findings.refusals) == ()


@pytest.mark.parametrize(
    ("to", "what"),
    [
        (Succession("app-v2", done=False), "a switch from app to app-v2 was begun and has not ended"),
        (Succession("app-v2", done=True), "app-v2 has taken the place of app"),
    ],
)
def test_a_job_that_is_given_up_does_not_start(to: Succession, what: str) -> None:
    (refusal,) = found(replace(good(), succession=to)).refusals
    assert what in refusal.what
    assert f"course-revenue rebuild {OPTIONS} --shadow --switch" in refusal.fix


def test_who_takes_the_place_is_read_from_the_offsets_of_the_lines_alone() -> None:
    mark = OffsetAndMetadata(7, "course-revenue: switched to app-v2")
    stream_time = OffsetAndMetadata(7, "AgAAAZ")
    assert succession({TopicPartition(LINES, 0): stream_time, TopicPartition(COURSES, 0): mark}, LINES) is None
    assert succession({TopicPartition(LINES, 1): mark}, LINES) == Succession("app-v2", done=True)


@pytest.mark.parametrize("topic", [LINES, COURSES, OUTPUT, REJECTED])
def test_a_missing_topic_is_refused_with_the_command_that_makes_it(topic: str) -> None:
    seen = good()
    counts = {name: count for name, count in seen.partitions.items() if name != topic}
    findings = found(replace(seen, partitions=counts))
    assert findings.refusals[0].what == f"topic {topic} does not exist"
    # as given: without --set it would not make the rejected topic, and secrets stay where they are
    assert findings.refusals[0].fix == f"course-revenue topics {OPTIONS}"
    fewer = found(replace(seen, partitions=dict.fromkeys(counts, 2)))
    assert fewer.refusals[0].fix == f"course-revenue topics {OPTIONS} --partitions 2"


def test_a_topic_that_is_missing_beside_others_of_different_counts_is_made_by_itself() -> None:
    seen = good()
    counts = {name: count for name, count in seen.partitions.items() if name != REJECTED} | {LINES: 12}
    assert found(replace(seen, partitions=counts)).refusals[0].fix == (
        f"kafka-topics.sh --bootstrap-server k:9092 --create --topic {REJECTED} --partitions 6"
        " --config cleanup.policy=delete --config retention.ms=2592000000"
    )


@pytest.mark.parametrize("topic", [COURSES, REPARTITION, TOTALS])
def test_another_partition_count_is_refused_as_a_rebuild(topic: str) -> None:
    seen = good()
    refusals = found(replace(seen, partitions={**seen.partitions, topic: 5})).refusals
    assert refusals
    for refusal in refusals:
        assert "is a rebuild" in refusal.what
        assert f"course-revenue rebuild {OPTIONS}" in refusal.fix


REFUSED = [
    (TOTALS, {"cleanup_policy": own("delete")}, "has cleanup.policy=delete", "'cleanup.policy=compact'"),
    (TOTALS, {"cleanup_policy": default("delete")}, "has cleanup.policy=delete", "'cleanup.policy=compact'"),
    (
        TOTALS,
        {"cleanup_policy": own("compact,delete")},
        "has cleanup.policy=compact,delete",
        "'cleanup.policy=compact'",
    ),
    (TOTALS, {"retention_ms": own("1000")}, "has a retention.ms of its own, 1000", "--delete-config 'retention.ms'"),
    (REMEMBERED, {"cleanup_policy": own("delete")}, "has cleanup.policy=delete", "'cleanup.policy=[compact,delete]'"),
    # made for a shorter dedupe.retention.ms
    (REMEMBERED, {"retention_ms": own("86402999")}, "has retention.ms=86402999", "'retention.ms=86403000'"),
    (OUTPUT, {"cleanup_policy": default("delete")}, "is not compacted", "'cleanup.policy=compact'"),
    (REJECTED, {"cleanup_policy": own("compact")}, "is compacted", "'cleanup.policy=delete'"),
]


@pytest.mark.parametrize(("topic", "settings", "what", "fix"), REFUSED)
def test_a_wrong_config_is_refused_with_the_command_that_sets_it(
    topic: str, settings: dict[str, TopicSetting], what: str, fix: str
) -> None:
    findings = found(with_config(topic, **settings))
    assert len(findings.refusals) == 1
    assert topic in findings.refusals[0].what
    assert what in findings.refusals[0].what
    at = f"kafka-configs.sh --bootstrap-server k:9092 --alter --entity-type topics --entity-name {topic} "
    assert findings.refusals[0].fix.startswith(at)
    assert fix in findings.refusals[0].fix


def test_lines_are_not_remembered_without_the_transaction_that_counts_them() -> None:
    """Under at_least_once the lines of a killed instance were remembered, and in no total ever after."""
    (refusal,) = judge(replace(needs(), transactions=False), good()).refusals
    assert refusal.what.startswith("course.revenue.dedupe=line-key needs exactly_once_v2")
    off = replace(SETTINGS, dedupe=Dedupe.OFF)
    assert judge(replace(needs(), transactions=False, settings=off), good()) == Findings()


def test_brokers_without_transactions_are_refused() -> None:
    findings = found(replace(good(), transactions="no answer"))
    assert "cannot do transactions, which exactly_once_v2 needs: no answer" in findings.refusals[0].what
    assert findings.lines()[0].startswith("refused: ")


def test_brokers_that_are_too_busy_for_a_trial_transaction_are_waited_for_by_the_job() -> None:
    findings = found(replace(good(), untried="no answer in 15 s"))
    assert not findings.refusals
    assert "is not known: no answer in 15 s" in findings.warnings[0].what


def test_a_rebuild_that_would_start_from_a_gap_is_warned_of() -> None:
    limited = found(with_config(LINES, retention_ms=default("86400000"), retention_bytes=own("1000")))
    assert limited.refusals == ()
    assert "retention.ms=86400000 (1.0 days) and retention.bytes=1000" in limited.warnings[0].what
    assert "'retention.ms=-1,retention.bytes=-1'" in limited.warnings[0].fix
    gone = found(replace(good(), starts={TopicPartition(LINES, 2): 9, TopicPartition(COURSES, 0): 17}))
    assert f"{LINES}-2 begins at offset 9" in gone.warnings[0].what
    compacted = found(with_config(LINES, cleanup_policy=own("compact")))
    assert "of two lines with one key" in compacted.warnings[0].what


def test_a_catalog_that_forgets_and_weak_changelogs_are_warned_of() -> None:
    assert "flagged dimension_missing" in found(with_config(COURSES, cleanup_policy=own("delete"))).warnings[0].what
    assert "readers lose" in found(with_config(OUTPUT, cleanup_policy=own("compact,delete"))).warnings[0].what
    weak = found(with_config(TOTALS, min_insync_replicas=own("1")))
    assert f"{TOTALS} has a lower min.insync.replicas" in weak.warnings[0].what
    seen = good()
    few = found(replace(seen, replicas={**seen.replicas, TOTALS: 1}))
    assert f"{TOTALS} has 1 replicas, {LINES} has 3" in few.warnings[0].what


@pytest.mark.parametrize("end", ["repartition", "changelog"])
def test_a_topic_with_the_name_of_an_internal_one_is_refused(end: str) -> None:
    """A reset would take it for the application's own, and delete the lines."""
    config = {"application.id": "app", "bootstrap.servers": "k:9092"}
    with pytest.raises(ConfigException, match=f"app-lines-{end} is the name of an internal topic of app"):
        wanted("k:9092", None, Settings(lines=f"app-lines-{end}"), StreamsConfig.load(config))


def test_partitions_that_were_added_to_the_output_topic_are_warned_of() -> None:
    """The old total of a course stayed in its old partition, and a new reader could take it for the latest."""
    findings = found(replace(good(), partitions={**good().partitions, OUTPUT: 8}))
    assert findings.refusals == ()
    assert [warning.what.partition(":")[0] for warning in findings.warnings] == [
        f"{OUTPUT} has 8 partitions and {REPARTITION} 6"
    ]
    # a topic may have been made so
    assert f"ignore this, here and at every start, when {OUTPUT} was made with 8 partitions" in findings.warnings[0].fix

"""The job as a whole, through the driver: what finance and operations rely on."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from course_revenue.contract import OnBrokenLine
from course_revenue.headers import Place
from course_revenue.model import INT64_MAX
from course_revenue.settings import Dedupe, Settings
from course_revenue.topology import REJECTED, build, build_topology

from headrace import StreamsConfig
from headrace.errors import KafkaException
from headrace.serdes import ByteArrayDeserializer, ByteArraySerializer
from headrace.testing import TopologyTestDriver

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.topology.built import BuiltTopology

JAVA_DESCRIBE = Path(__file__).with_name("java_describe.txt").read_text(encoding="utf-8")
FAIL = Settings()
REJECT = Settings(on_broken_line=OnBrokenLine.REJECT)
SECRET = "learner-4711"


class Job:
    """The driver with topics of raw bytes."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.driver = TopologyTestDriver(build_topology(settings), {"application.id": "course-revenue"})
        raw = (ByteArraySerializer(), ByteArraySerializer())
        self.lines = self.driver.create_input_topic(settings.lines, *raw)
        self.courses = self.driver.create_input_topic(settings.courses, *raw)
        self.output = self.driver.create_output_topic(settings.output, ByteArrayDeserializer(), ByteArrayDeserializer())

    def course(self, course_id: str = "c1") -> None:
        self.courses.pipe_input(course_id.encode(), b'{"title":"Weaving","active":true,"more":[1]}', 0)

    def raw_line(self, value: bytes | None, timestamp: int = 1_000) -> None:
        self.lines.pipe_input(b'{"order_id":"o1","line_id":"l1"}', value, timestamp)

    def line(self, **changes: Any) -> None:
        self.raw_line(line_bytes(**changes))

    def totals(self) -> list[dict[str, Any]]:
        return [msgspec.json.decode(value or b"") for _, value in self.output.read_key_values_to_list()]


def line_bytes(**changes: Any) -> bytes:
    fields = {
        "order_id": "o1",
        "line_id": "l1",
        "course_id": "c1",
        "unit_price_cents": 1000,
        "quantity": 2,
        "line_type": "sale",
        "event_time": 1_700_000_000_000,
        "learner_id": SECRET,
    }
    merged = {name: value for name, value in {**fields, **changes}.items() if value is not ...}
    return msgspec.json.encode(merged)


@pytest.fixture(params=[FAIL, REJECT], ids=["fail", "reject"])
def job(request: pytest.FixtureRequest) -> Iterator[Job]:
    made = Job(request.param)
    yield made
    made.driver.close()


@pytest.fixture
def failing() -> Iterator[Job]:
    made = Job(FAIL)
    yield made
    made.driver.close()


@pytest.fixture
def rejecting() -> Iterator[Job]:
    made = Job(REJECT)
    yield made
    made.driver.close()


def test_describe_is_that_of_the_java_job() -> None:
    config = StreamsConfig.load({"application.id": "course-revenue", "bootstrap.servers": "localhost:9092"})
    assert str(build(config).describe()) == JAVA_DESCRIBE


def internal_topics(settings: Settings) -> set[str]:
    built: BuiltTopology = build_topology(settings).build("course-revenue")
    return {name for part in built.subtopologies for name in (*part.repartition_topics, *part.changelog_topics)}


def test_no_setting_changes_the_name_of_an_internal_topic() -> None:
    other_topics = Settings(lines="l", courses="commerce.courses", output="o", rejected="r")
    names = internal_topics(FAIL)
    deduping = Settings(on_broken_line=OnBrokenLine.REJECT, dedupe=Dedupe.LINE_KEY)
    assert internal_topics(deduping) - names == {"course-revenue-course-revenue-lines-changelog"}
    assert internal_topics(Settings(dedupe=Dedupe.LINE_KEY)) == internal_topics(deduping)
    places = (Place("in", 3, 4711),)
    for settings in (FAIL, deduping):
        assert internal_topics(replace(settings, commit_before=places, wait_at_broken=True)) == internal_topics(
            settings
        )
    assert names <= internal_topics(deduping)
    assert names == internal_topics(REJECT) == internal_topics(other_topics)
    assert "course-revenue-course-revenue-changelog" in names
    assert "course-revenue-KSTREAM-KEY-SELECT-0000000004-repartition" in names


def test_a_sale_then_its_refund_is_net_zero_of_two_lines(job: Job) -> None:
    job.course()
    job.line()
    job.line(line_type="refund")
    assert [(t["net_cents"], t["line_count"]) for t in job.totals()] == [(2000, 1), (0, 2)]


def test_a_missing_course_sets_the_flag_still_adds_and_the_next_line_after_it_came_clears_it(job: Job) -> None:
    job.line()
    job.course()
    assert [(t["net_cents"], t["dimension_missing"]) for t in job.totals()] == [(2000, True)]
    job.line()
    assert [(t["net_cents"], t["dimension_missing"]) for t in job.totals()] == [(4000, False)]


def test_updated_event_time_is_the_greatest_under_disorder(job: Job) -> None:
    for event_time in (500, 900, 100):
        job.line(event_time=event_time)
    assert [t["updated_event_time"] for t in job.totals()] == [500, 900, 900]


def test_totals_are_json_in_the_documented_order(job: Job) -> None:
    job.course()
    job.line()
    total = (
        b'{"course_id":"c1","net_cents":2000,"line_count":1,"dimension_missing":false,'
        b'"updated_event_time":1700000000000}'
    )
    assert job.output.read_key_values_to_list() == [(b"c1", total)]


BROKEN = [
    pytest.param({"line_type": "gift"}, "unknown_line_type", id="unknown type"),
    pytest.param({"course_id": None}, "missing_course_id", id="null course"),
    pytest.param({"course_id": ...}, "missing_course_id", id="no course"),
    pytest.param({"unit_price_cents": -1}, "negative_unit_price", id="negative price"),
    pytest.param({"quantity": 0}, "quantity_below_one", id="no quantity"),
    pytest.param({"unit_price_cents": INT64_MAX}, "amount_overflow", id="overflow of the amount"),
]


@pytest.mark.parametrize(("changes", "reason"), BROKEN)
def test_a_broken_line_fails_and_names_its_record(failing: Job, changes: dict[str, Any], reason: str) -> None:
    failing.line()
    with pytest.raises(KafkaException) as caught:
        failing.line(**changes)
    told = chain(caught.value)
    assert reason in told
    assert "commerce.purchase_line" in told
    assert SECRET not in told


@pytest.mark.parametrize(("changes", "reason"), BROKEN)
def test_a_broken_line_is_rejected_untouched_and_the_job_goes_on(
    rejecting: Job, changes: dict[str, Any], reason: str
) -> None:
    rejecting.line()
    broken = line_bytes(**changes)
    rejecting.raw_line(broken, timestamp=77)
    rejecting.line()
    assert [t["line_count"] for t in rejecting.totals()] == [1, 2]
    rejected = rejecting.driver.read_raw(rejecting.settings.rejected)
    assert rejected is not None
    assert rejected[3:6] == (77, b'{"order_id":"o1","line_id":"l1"}', broken)
    assert rejected.headers == [
        ("course-revenue.reason", reason.encode()),
        ("course-revenue.source.topic", b"commerce.purchase_line"),
        ("course-revenue.source.partition", b"0"),
        ("course-revenue.source.offset", b"1"),
    ]


def test_a_record_without_a_value_is_broken(failing: Job, rejecting: Job) -> None:
    with pytest.raises(KafkaException):
        failing.raw_line(None)
    rejecting.raw_line(None)
    rejected = rejecting.driver.read_raw(rejecting.settings.rejected)
    assert rejected is not None
    assert rejected.value is None


def test_bytes_that_are_no_json_fail_in_both_modes(job: Job) -> None:
    with pytest.raises(KafkaException) as caught:
        job.raw_line(b"\x00 not json")
    assert "commerce.purchase_line" in chain(caught.value)


def test_a_total_that_overflows_fails_in_both_modes(job: Job) -> None:
    job.line(unit_price_cents=INT64_MAX, quantity=1)
    with pytest.raises(KafkaException) as caught:
        job.line(unit_price_cents=1, quantity=1)
    assert "does not fit in 64 bits" in chain(caught.value)


def test_the_learner_is_nowhere_but_in_the_rejected_topic(job: Job, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        job.course()
        job.line()
        if job.settings.on_broken_line is OnBrokenLine.REJECT:
            job.line(line_type="gift")
    held: dict[str, list[Any]] = {}
    for topic in job.driver.produced_topic_names():
        while (record := job.driver.read_raw(topic)) is not None:
            held.setdefault(topic, []).append(record)
    assert any("repartition" in topic for topic in held)
    assert any("changelog" in topic for topic in held)
    with_learner = {topic for topic, records in held.items() if SECRET in repr(records)}
    assert with_learner == ({job.settings.rejected} if job.settings.on_broken_line is OnBrokenLine.REJECT else set())
    for store in job.driver.get_all_state_stores():
        timestamped = job.driver.get_timestamped_key_value_store(store)
        assert timestamped is not None
        assert SECRET not in repr(list(timestamped.all()))
    assert SECRET not in caplog.text


def test_the_rejected_sink_is_last() -> None:
    parts = build_topology(REJECT).build("course-revenue").subtopologies
    assert parts[0].nodes[-1].name == REJECTED


def chain(error: BaseException | None) -> str:
    told = []
    while error is not None:
        told.append(str(error))
        error = error.__cause__
    return " | ".join(told)

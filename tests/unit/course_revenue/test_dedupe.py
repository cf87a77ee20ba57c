"""Lines that come again: added where nothing is said, counted once where ``line-key`` is chosen."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import msgspec
import pytest
from course_revenue.contract import OnBrokenLine
from course_revenue.dedupe import DUPLICATE, STORE
from course_revenue.model import Revenue
from course_revenue.settings import Dedupe, Settings
from course_revenue.topology import build_topology

from headrace.serdes import ByteArraySerializer, JsonDeserializer, StringDeserializer
from headrace.testing import TopologyTestDriver

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.testing import TestOutputTopic

DAY = 24 * 3_600_000
START = 1_700_000_000_000
ONCE = Settings(dedupe=Dedupe.LINE_KEY, dedupe_retention_ms=DAY)
CONFIG = {"application.id": "course-revenue"}


def line(order: str, *, course: str = "c1", price: int = 100) -> bytes:
    return msgspec.json.encode(
        {
            "order_id": order,
            "line_id": "l1",
            "course_id": course,
            "unit_price_cents": price,
            "quantity": 1,
            "line_type": "sale",
            "event_time": START,
        }
    )


class Job:
    """The driver with lines that go in and totals that come out."""

    def __init__(self, settings: Settings, driver: TopologyTestDriver) -> None:
        self.driver = driver
        self._lines = driver.create_input_topic(settings.lines, ByteArraySerializer(), ByteArraySerializer())
        self._output: TestOutputTopic[str, Revenue] = driver.create_output_topic(
            settings.output, StringDeserializer(), JsonDeserializer(Revenue)
        )
        self._totals: dict[str, tuple[int, int]] = {}

    def send(self, order: str, after_ms: int = 0, *, course: str = "c1", price: int = 100) -> None:
        key = msgspec.json.encode({"order_id": order, "line_id": "l1"})
        self._lines.pipe_input(key, line(order, course=course, price=price), START + after_ms)

    def totals(self) -> dict[str, tuple[int, int]]:
        """By course, net cents and number of lines."""
        for key, total in self._output.read_key_values_to_list():
            assert key is not None
            assert total is not None
            self._totals[key] = (total.net_cents, total.line_count)
        return self._totals


def test_a_repeated_line_is_added_unless_dedupe_is_chosen() -> None:
    with TopologyTestDriver(build_topology(Settings()), CONFIG) as driver:
        job = Job(Settings(), driver)
        job.send("o1")
        job.send("o1", 5)
        assert job.totals() == {"c1": (200, 2)}


@pytest.mark.parametrize("broken", list(OnBrokenLine))
def test_a_repeated_line_adds_nothing_and_is_counted(broken: OnBrokenLine) -> None:
    settings = Settings(dedupe=Dedupe.LINE_KEY, dedupe_retention_ms=DAY, on_broken_line=broken)
    with TopologyTestDriver(build_topology(settings), CONFIG) as driver:
        job = Job(settings, driver)
        job.send("o1")
        job.send("o1", 5, price=777)
        job.send("o2", 5)
        job.send("o1", 6)
        assert job.totals() == {"c1": (200, 2)}
        assert driver.dropped_records() == {DUPLICATE: 2}


def test_order_and_line_make_the_identity_not_their_text_put_together() -> None:
    with TopologyTestDriver(build_topology(ONCE), CONFIG) as driver:
        job = Job(ONCE, driver)
        job.send('o1","l1')
        job.send("o1")
        assert job.totals() == {"c1": (200, 2)}


@pytest.mark.parametrize(
    ("times", "counted"),
    [
        ((0, DAY), 1),
        ((0, DAY + 1), 2),
        ((DAY // 2, DAY // 2 - DAY), 1),
        ((DAY // 2, DAY // 2 - DAY - 1), 2),
        # from the line that was counted, not from its last repeat
        ((0, DAY - 1, DAY + 1), 2),
        ((0, 10, 20, DAY), 1),
    ],
)
@pytest.mark.parametrize("phase", [0, 1, DAY // 3, DAY - 1])
def test_a_repeat_is_found_for_as_long_as_is_said(times: tuple[int, ...], counted: int, phase: int) -> None:
    with TopologyTestDriver(build_topology(ONCE), CONFIG) as driver:
        job = Job(ONCE, driver)
        for time in times:
            job.send("o1", time + phase)
        assert job.totals()["c1"][1] == counted


def test_other_lines_and_newer_catalog_rows_do_not_make_a_line_forgotten_too_early() -> None:
    with TopologyTestDriver(build_topology(ONCE), CONFIG) as driver:
        job = Job(ONCE, driver)
        job.send("o1")
        courses = driver.create_input_topic(ONCE.courses, ByteArraySerializer(), ByteArraySerializer())
        courses.pipe_input(b"c1", b'{"title":"Weaving","active":true}', START + 400 * DAY)
        job.send("o2", 10)
        job.send("o2", 20)
        job.send("o3", DAY)
        job.send("o1", DAY)
        assert job.totals() == {"c1": (300, 3)}
        # and a line that comes late is remembered like any other
        job.send("o4", -3 * DAY)
        job.send("o4", -3 * DAY)
        assert job.totals() == {"c1": (400, 4)}
        assert driver.dropped_records() == {DUPLICATE: 3}


@pytest.mark.parametrize("first", [0, DAY // 2, DAY - 1], ids=["early", "midway", "late"])
@pytest.mark.parametrize("how", ["live", "rebuild"])
def test_a_line_of_the_far_future_makes_no_other_line_forgotten(how: str, first: int) -> None:
    """``first``: how far into a generation the lines are; in a rebuild they are much older than the clock."""
    began = datetime.fromtimestamp((START if how == "live" else START + 400 * DAY) / 1000, UTC)
    with TopologyTestDriver(build_topology(ONCE), CONFIG, began) as driver:
        job = Job(ONCE, driver)
        for day in (-2, -1):
            job.send(f"before{day}", day * DAY)
        job.send("begins")
        job.send("o1", first)
        for number in range(5):
            job.send(f"future{number}", (3650 + 100 * number) * DAY)
        job.send("o1", first)
        job.send("o2", first + 1)
        job.send("o2", first + 1)
        job.send("o1", first + DAY)
        job.send("future1", (3650 + 100) * DAY)
        assert job.totals()["c1"][1] == 2 + 3 + 5
        assert driver.dropped_records() == {DUPLICATE: 4}


@pytest.mark.parametrize("future", [False, True])
def test_an_instance_that_restores_the_lines_goes_on_where_the_one_before_was(tmp_path: Path, future: bool) -> None:
    """Restarts more often than the retention must neither forget lines too early nor keep them for ever."""
    config = {**CONFIG, "processing.guarantee": "exactly_once_v2", "state.dir": str(tmp_path)}
    began = datetime.fromtimestamp(START / 1000, UTC)
    with TopologyTestDriver(
        build_topology(ONCE), config, began, partitions=1, instances=2, commit_every_record=False
    ) as driver:
        job = Job(ONCE, driver)
        for half_day in range(12):
            if future:
                job.send(f"future{half_day}", 3650 * DAY)
            job.send(f"o{half_day}", half_day * DAY // 2)
            job.send(f"o{half_day - 2}", half_day * DAY // 2)
            # one commit shows the repartitioned lines to the second half of the job, another one its totals
            driver.commit()
            driver.commit()
            name = "12"[half_day % 2]
            driver.kill_instance(name)
            driver.start_instance(name)
            driver.advance_wall_clock_time(timedelta(milliseconds=DAY // 2))
        # o-2 and o-1 are lines like any other
        assert job.totals()["c1"][1] == 12 + 2 + 12 * future
        store = driver.get_window_store(STORE)
        assert store is not None
        kept = {key.key.order_id for key, _ in store.all() if key.key.line_id is not None}
        assert "o11" in kept
        assert not kept & {"o0", "o1", "o2"}


def test_what_is_too_old_is_dropped_from_the_store() -> None:
    with TopologyTestDriver(build_topology(ONCE), CONFIG) as driver:
        job = Job(ONCE, driver)
        for day in range(10):
            job.send(f"o{day}", day * DAY)
        store = driver.get_window_store(STORE)
        assert store is not None
        kept = {key.key.order_id for key, _ in store.all() if key.key.line_id is not None}
        assert kept == {"o7", "o8", "o9"}


@pytest.mark.parametrize("during_commit", [False, True])
def test_lines_stay_counted_once_through_crashes_restarts_and_rebalances(tmp_path: Path, during_commit: bool) -> None:
    config = {**CONFIG, "processing.guarantee": "exactly_once_v2", "state.dir": str(tmp_path)}
    topology = build_topology(ONCE)
    with TopologyTestDriver(topology, config, partitions=3, instances=2, commit_every_record=False) as driver:
        job = Job(ONCE, driver)

        def send_all() -> None:
            for number in range(30):
                job.send(f"o{number}", number, course=f"c{number % 7}")

        def expected() -> dict[str, tuple[int, int]]:
            counts = [len(range(course, 30, 7)) for course in range(7)]
            return {f"c{course}": (100 * count, count) for course, count in enumerate(counts)}

        def settle() -> None:
            # one commit shows the repartitioned lines to the second half of the job, another one its totals
            driver.commit()
            driver.commit()

        send_all()
        driver.commit()
        driver.kill_instance("1", during_commit=during_commit)
        send_all()
        settle()
        assert job.totals() == expected()
        driver.start_instance("1")
        send_all()
        driver.stop_instance("2")
        send_all()
        settle()
        assert job.totals() == expected()
        assert sum(driver.restored_records("1").values()) > 0

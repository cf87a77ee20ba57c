"""Lines that come again: added where nothing is said, counted once where ``line-key`` is chosen."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import msgspec
import pytest
from course_revenue.contract import OnBrokenLine
from course_revenue.dedupe import DUPLICATE, STORE, store_builder
from course_revenue.dedupe import Dedupe as DedupeLines
from course_revenue.model import LineWithCourse, PurchaseLine, Revenue
from course_revenue.settings import Dedupe, Settings
from course_revenue.topology import build_topology

from headrace.serdes import ByteArraySerializer, JsonDeserializer, StringDeserializer
from headrace.testing import MockFixedKeyProcessorContext, TopologyTestDriver, fixed_key_record

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from headrace import WindowStore
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


@pytest.mark.parametrize("how", ["live", "rebuild"])
def test_lines_of_a_wrong_past_time_make_no_other_line_forgotten(how: str) -> None:
    """They lay behind one another, but before the clock of a rebuild, which counted one line more than live."""
    began = datetime.fromtimestamp((START if how == "live" else START + 400 * DAY) / 1000, UTC)
    with TopologyTestDriver(build_topology(ONCE), CONFIG, began) as driver:
        job, last = Job(ONCE, driver), 0.0
        for order, day in (("a", 0), ("o1", 0.5), ("b", 1), ("wrong1", 30), ("wrong2", 60), ("o1", 1.2)):
            if how == "live" and last < day < 30:
                driver.advance_wall_clock_time(timedelta(days=day - last))
                last = day
            job.send(order, int(day * DAY))
        assert job.totals()["c1"][1] == 5


def test_partitions_that_are_not_level_in_a_rebuild_make_no_line_forgotten() -> None:
    """The lines of one that was read first pushed out those of the others."""
    with TopologyTestDriver(build_topology(ONCE), CONFIG) as driver:
        job = Job(ONCE, driver)
        job.send("o1", 0)
        for day in range(1, 9):
            job.send(f"ahead{day}", day * DAY)
        job.send("o1", DAY // 2)
        assert job.totals()["c1"][1] == 1 + 8


def test_a_repeat_of_any_line_of_its_identity_is_found_in_a_rebuild_as_live() -> None:
    with TopologyTestDriver(build_topology(ONCE), CONFIG) as driver:
        job = Job(ONCE, driver)
        for day, counted in ((0, 1), (3, 2), (0.2, 2), (2.9, 2), (1.5, 3), (5, 4), (1.5, 4)):
            job.send("o1", int(day * DAY))
            assert job.totals()["c1"][1] == counted


class Lines:
    """The processor by itself, on a store and at a clock that the test chooses (days)."""

    def __init__(self, path: Path, retention_days: int) -> None:
        self.context: MockFixedKeyProcessorContext[str, LineWithCourse] = MockFixedKeyProcessorContext(state_dir=path)
        self.store: WindowStore[object, object] = self.context.add_state_store(store_builder(retention_days * DAY))
        self._processor = DedupeLines(retention_days * DAY)

    def start(self, before: Lines | None = None, *, beginnings: bool = True) -> Lines:
        """Starts on what another one had, with or without the rows of when generations began."""
        if before is not None:
            for row, value in before.store.all():
                if beginnings or row.key.line_id is not None:  # type: ignore[attr-defined]  # of either store
                    self.store.put(row.key, value, row.window.start)
        self._processor.init(self.context)
        return self

    def counts(self, order: str, *, at: float, time: float | None = None) -> bool:
        """Whether a line counts that comes then, and has that time."""
        self.context.set_current_system_time_ms(START + int(at * DAY))
        self.context.reset_forwards()
        bought = PurchaseLine(
            order_id=order, line_id="l1", unit_price_cents=1, quantity=1, line_type="sale", event_time=START
        )
        stamp = START + int((at if time is None else time) * DAY)
        self._processor.process(fixed_key_record("c1", LineWithCourse(bought, None), stamp))
        return bool(self.context.forwarded())

    def remembered(self) -> set[str]:
        return {row.key.order_id for row, _ in self.store.all() if row.key.line_id}  # type: ignore[attr-defined]


@pytest.fixture
def paths(tmp_path: Path) -> Iterator[Path]:
    """Directories for one store after another."""
    return (tmp_path / str(number) for number in range(9))


@pytest.mark.parametrize(("before", "after"), [(7, 3), (3, 7), (7, 1)])
def test_another_retention_forgets_no_line_that_it_remembers(paths: Iterator[Path], before: int, after: int) -> None:
    """A shorter one forgot a generation at the restart, for those before were as far apart as the longer one said."""
    first = Lines(next(paths), before).start()
    ends = 2.5 * before
    for number in range(int(ends * 4) + 1):
        assert first.counts(f"o{number}", at=number / 4)
    known = first.remembered()
    second = Lines(next(paths), after).start(first)
    assert second.remembered() == known
    for number in range(int(ends * 4) + 1):
        within = ends - number / 4 <= min(before, after)
        assert not within or not second.counts(f"o{number}", at=ends, time=ends)
    # and the new retention holds from then on
    days = 3 * max(before, after)
    assert all(second.counts(f"n{day}", at=ends + day) for day in range(1, days))
    assert not second.counts(f"n{days - after}", at=ends + days, time=ends + days)
    assert (f"n{days - 1}" in second.remembered(), "o0" in second.remembered()) == (True, False)


def test_lines_are_found_when_the_changelog_has_the_row_of_their_generations_beginning_no_more(
    paths: Iterator[Path],
) -> None:
    """The row is older than the lines, so it expired first, and a restore ignored them all."""
    first = Lines(next(paths), 1).start()
    for order, at in (("o1", 0), ("o2", 1.3), ("o3", 2.5), ("o4", 2.9)):
        assert first.counts(order, at=at)
    second = Lines(next(paths), 1).start(first, beginnings=False)
    assert second.counts("new", at=3.1)
    for order, at in (("o2", 1.3), ("o3", 2.5), ("o4", 2.9)):
        assert not second.counts(order, at=3.2, time=at)
    # the newest generation began anew, so nothing is kept for ever
    assert [second.counts(f"n{at}", at=at) for at in (3.5, 4.2, 5.2, 6.2)] == [True] * 4
    assert second.remembered() == {"n4.2", "n5.2", "n6.2"}


def test_a_clock_that_goes_back_neither_forgets_lines_nor_keeps_them_for_ever(paths: Iterator[Path]) -> None:
    lines = Lines(next(paths), 1).start()
    assert lines.counts("o1", at=0.5)
    # it jumps ahead, and comes back
    assert lines.counts("jumped", at=4000, time=0.6)
    assert not lines.counts("o1", at=0.7)
    assert lines.counts("o2", at=0.8)
    again = Lines(next(paths), 1).start(lines)
    assert not again.counts("o1", at=1.5)
    assert not again.counts("jumped", at=1.6, time=1.6)
    for day in range(2, 6):
        assert again.counts(f"n{day}", at=day)
    assert again.remembered() == {"n3", "n4", "n5"}


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
            driver.advance_wall_clock_time(timedelta(days=1))
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

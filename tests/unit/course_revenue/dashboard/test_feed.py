from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from course_revenue.dashboard.board import Batch, Change, Undecoded
from course_revenue.dashboard.feed import Feed, Shown
from course_revenue.dashboard.job import read_tasks
from course_revenue.dashboard.reader import Brokers, JobSaid, Moved, Opened, Reading
from course_revenue.model import INT64_MAX, Revenue

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

NOW = 1_800_000_000_000
AT = "http://one:1"


class World:
    """A feed with a clock that stands still, and pages."""

    def __init__(self) -> None:
        self.anew = 0
        self.now = NOW
        self.feed = Feed(Shown("totals", "eur", True), [AT], self._anew, lambda: self.now)

    def _anew(self) -> None:
        self.anew += 1

    def live(self, topic_id: str = "id") -> None:
        self.feed.take(Opened(topic_id))
        self.feed.take(Moved(Reading.LIVE))

    def totals(self, *courses: str, cents: int = 1, offset: int = 0) -> None:
        changes = [Change(one, Revenue(one, cents, 1, False, NOW), 0, offset) for one in courses]
        self.feed.take(Batch(changes, (), {0: offset + len(courses)}, len(courses)))

    def second(self) -> None:
        self.now += 1000
        self.feed._each_second()
        self.feed._tick()

    def brokers(self, end: int, topic_id: str = "id", start: int = 0) -> None:
        self.feed.take(Brokers(None, topic_id, {0: start}, {0: end}))


class Page:
    """Reads a stream frame by frame."""

    def __init__(self, stream: AsyncGenerator[bytes]) -> None:
        self._stream = stream
        self.last_id: str | None = None
        self.rows: dict[str, str] = {}

    async def frame(self) -> dict[str, Any]:
        while True:
            raw = await asyncio.wait_for(anext(self._stream), 5)
            fields = dict(line.split(": ", 1) for line in raw.decode().strip().splitlines())
            if "data" not in fields:
                continue
            self.last_id = fields.get("id", self.last_id)
            frame: dict[str, Any] = json.loads(fields["data"])
            if frame.get("full"):
                self.rows = {}
            self.rows.update({row[0]: row[1] for row in frame.get("rows", ())})
            for course in frame.get("gone", ()):
                self.rows.pop(course)
            return frame


@pytest.fixture
def world() -> World:
    return World()


def run(coroutine: Any) -> None:
    asyncio.run(coroutine)


def test_a_page_gets_everything_in_pieces_and_then_what_changes(world: World) -> None:
    async def scenario() -> None:
        world.live()
        world.totals(*(str(n) for n in range(4_500)), cents=INT64_MAX)
        page = Page(world.feed.stream(None))
        pieces = [await page.frame() for _ in range(3)]
        assert [piece["more"] for piece in pieces] == [True, True, False]
        assert page.last_id is not None
        assert len(page.rows) == 4_500
        assert pieces[-1]["sums"]["net_cents"] == str(4_500 * INT64_MAX)
        world.totals("7", "new", cents=-5)
        world.feed.take(Batch([Change("8", None, 0, 9)], (), {0: 10}, 1))
        world.feed._tick()
        frame = await page.frame()
        assert sorted(row[0] for row in frame["rows"]) == ["7", "new"]
        assert (page.rows["7"], page.rows["new"]) == ("-5", "-5")
        assert frame["gone"] == ["8"]

    run(scenario())


def test_a_slow_page_gets_the_newest_state_once_and_no_queue(world: World) -> None:
    async def scenario() -> None:
        world.live()
        world.totals("a")
        page = Page(world.feed.stream(None))
        await page.frame()
        for cents in range(2, 500):
            world.totals("a", "b", cents=cents)
            world.feed._tick()
        frame = await page.frame()
        assert [row[:2] for row in frame["rows"]] == [["b", "499"], ["a", "499"]]

    run(scenario())


def test_a_page_that_comes_back_gets_what_it_missed(world: World) -> None:
    async def scenario() -> None:
        world.live()
        world.totals("a", "b")
        page = Page(world.feed.stream(None))
        await page.frame()
        world.second()
        world.totals("b", cents=9)
        back = Page(world.feed.stream(page.last_id))
        frame = await back.frame()
        assert "full" not in frame
        assert [row[:2] for row in frame["rows"]] == [["b", "9"]]
        assert frame["status"]["source"]["state"] == "live"

    run(scenario())


@pytest.mark.parametrize("last", ["other.3", "x", "", ".", "b.-1", "b.९", "id: 3\n", f"b.{'9' * 5000}"])
def test_a_page_with_a_place_that_is_not_known_gets_everything(world: World, last: str) -> None:
    async def scenario() -> None:
        world.live()
        world.totals("a")
        assert (await Page(world.feed.stream(last)).frame())["full"]

    run(scenario())


def test_a_topic_that_was_made_anew_begins_a_board_of_its_own(world: World) -> None:
    async def scenario() -> None:
        world.live()
        world.totals("a", "b")
        page = Page(world.feed.stream(None))
        await page.frame()
        world.brokers(2)
        assert world.anew == 0
        world.brokers(0, topic_id="another")
        assert world.anew == 1
        world.live("another")
        world.feed._tick()
        frame = await page.frame()
        assert frame["full"]
        assert page.rows == {}

    run(scenario())


def test_a_topic_that_lost_its_end_is_read_anew_and_one_that_grows_is_not(world: World) -> None:
    world.live()
    world.totals("a", offset=99)
    world.brokers(100)
    world.totals("a", offset=150)
    # asked for before the reader had gone on
    world.brokers(120)
    assert world.anew == 0
    world.brokers(120)
    assert world.anew == 1


def test_totals_that_the_topic_has_lost_are_told_and_kept(world: World) -> None:
    world.live()
    world.totals("a", offset=5)
    world.brokers(6, start=6)
    world.second()
    assert world.feed.status()["source"]["lost"] == 1
    assert world.feed.status()["sums"]["courses"] == 1


def test_silence_is_told_from_an_outage_by_who_asks_the_brokers(world: World) -> None:
    world.live()
    world.totals("a")
    world.second()
    assert world.feed.status()["source"]["state"] == "live"
    world.feed.take(Brokers(failure="no answer within 3 s"))
    world.second()
    told = world.feed.status()["source"]
    assert (told["state"], told["since_ms"], told["why"]) == ("no_brokers", world.now - 1000, "no answer within 3 s")
    world.feed.take(Brokers())
    world.second()
    assert world.feed.status()["source"]["state"] == "no_topic"
    world.brokers(1)
    world.second()
    assert world.feed.status()["source"]["state"] == "live"
    assert world.feed.live


def test_an_event_time_in_the_future_makes_nothing_fresh(world: World) -> None:
    """One line in microseconds instead of milliseconds, and the page said "Within the minute" for ever."""
    world.live()
    world.totals("a")
    world.feed.take(Batch([Change("b", Revenue("b", 1, 1, False, NOW * 1000), 0, 1)], (), {0: 2}, 1))
    for _ in range(61):
        world.second()
    kept = world.feed.status()["freshness"]
    assert (kept["verdict"], kept["age_ms"], kept["newest_ms"], kept["ahead"]) == ("unknown", 61_000, NOW, 1)


def test_a_page_that_has_not_read_what_lies_in_the_topic_says_so(world: World) -> None:
    """Whatever keeps its reader: totals that stand still looked as if nothing came."""
    world.live()
    world.totals("a")
    world.brokers(1)
    world.second()
    assert world.feed.status()["source"]["behind_ms"] == 0
    for end in range(2, 70):
        world.brokers(end)
        world.second()
    told = world.feed.status()
    assert (told["source"]["behind_ms"], told["freshness"]["verdict"]) == (68_000, "late")
    # it goes on: what it has not read of the last look is a second old
    world.totals(*(str(n) for n in range(67)), offset=1)
    world.brokers(70)
    world.second()
    assert world.feed.status()["source"]["behind_ms"] == 1_000


def test_what_does_not_decode_is_told_with_its_place(world: World) -> None:
    world.live()
    world.feed.take(Batch((), (Undecoded(3, 17, "not the expected JSON", "a"),), {3: 18}, 1))
    world.second()
    told = world.feed.status()["source"]
    assert told["undecoded"] == 1
    assert told["last_undecoded"] == "partition 3, offset 17 (course a): not the expected JSON"
    assert told["offsets"] == [[3, "18", None]]


def test_rates_are_of_the_last_seconds(world: World) -> None:
    world.live()
    world.second()
    for _ in range(3):
        world.totals(*(str(n) for n in range(200)))
        world.second()
    assert world.feed.status()["throughput"]["records_per_second"] == 200.0


def test_the_job_is_told_with_its_hot_task(world: World) -> None:
    tasks = [
        {
            "id": f"1_{n}",
            "type": "active",
            "state": "RUNNING",
            "records_per_second": 10.0 + 90 * (n == 2),
            "last_commit_ms": NOW,
            "partitions": [{"topic": "t", "partition": n, "offset": 1, "end": 4, "lag": 3}],
        }
        for n in range(3)
    ]
    body = json.dumps({"client_id": "c", "state": "RUNNING", "tasks": tasks}).encode()
    world.feed.take(JobSaid(AT, read_tasks(body)))
    world.second()
    job = world.feed.status()["job"]
    assert [(row["id"], row["lag"], row["hot"]) for row in job["tasks"]] == [
        ("1_0", 3, []),
        ("1_1", 3, []),
        ("1_2", 3, ["rate"]),
    ]
    assert job["tasks"][0]["commit_age_ms"] == 1000
    assert world.feed.status()["throughput"]["job_records_per_second"] == 120.0
    world.feed.take(JobSaid(AT, failure="refused"))
    world.second()
    job = world.feed.status()["job"]
    assert (job["answers"], job["tasks"], job["endpoints"][0]["failure"]) == (False, [], "refused")


def test_every_stream_ends_when_the_feed_is_closed(world: World) -> None:
    async def scenario() -> None:
        page = Page(world.feed.stream(None))
        await page.frame()
        waiting = asyncio.create_task(page.frame())
        await asyncio.sleep(0)
        world.feed.close()
        with pytest.raises(StopAsyncIteration):
            await waiting

    run(scenario())

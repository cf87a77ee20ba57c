"""A promotion day played in minutes: lines as they come, instances that die and are deployed, and what a reader sees.

One thread sends; the main thread reads the output topic as any reader would, and notes for every line how long it took
from its event time until a total that counts it could be read. The n-th total of a course is taken for that of its n-th
line: the sum of all delays is exact in any case, and so is the worst one within a commit.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import msgspec

from course_revenue.model import SALE, PurchaseLine, amount
from course_revenue.promotion import Profile, Promotion
from course_revenue.settings import Dedupe
from course_revenue.topics import recoder
from course_revenue.totals import open_totals
from headrace.partitioning import partition_for_key
from headrace.topics import TopicWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from course_revenue.formats import Formats
    from course_revenue.jobs import JobProcess
    from course_revenue.settings import Settings

BUDGET_S: Final = 60.0
"""A total moves within a minute of a line's landing."""

REHEARSAL: Final = "rehearsal"
"""What the names of its topics begin with; a hyphen and what is made up for one day follow."""

_PROMOTION, _MIDST, _KILL, _AGAIN, _DEPLOY, _EVENING = 0.2, 0.35, 0.45, 0.5, 0.65, 0.85
"""When what happens, as parts of the day."""
_LOOK_S: Final = 0.1
_TICK_S: Final = 0.02


def rehearsal_id(names: str) -> str:
    """The application id of a day, by what the names of its topics begin with."""
    return f"course-revenue-{names}"


@dataclass(frozen=True, slots=True)
class Day:
    """What is played: how long it is, how many lines a second come in the morning, and of how many courses."""

    length_s: float
    rate: float
    courses: int
    partitions: int
    seed: int = 1


@dataclass(slots=True)
class Fault:
    """Something that was done to an instance: when, and how long it took until everything sent by its end was readable.

    ``waiting`` is how many lines of each course were sent when the instance had been started again; None before.
    """

    what: str
    at_s: float
    waiting: dict[str, int] | None = None
    took_s: float | None = None


@dataclass(slots=True)
class Played:
    """How a day went.

    Attributes:
        day: what was played.
        hot: the promoted courses, by the partition whose task counts them.
        swell: how many times the morning's lines came during the promotion.
        lines: how many lines were sent.
        delays_s: for each line, how long it took until it was readable; by when that was.
        lags: by time, the lines sent and not readable yet, of each hot partition.
        events: what happened when, each with a letter for the plot.
        faults: what was done to instances.
        differing: courses whose total is not the sum of the lines sent, at the end.
        fallen: courses of which a reader saw fewer lines after it had seen more.
        left_out: what of the day's plan was not done before it was over.
    """

    day: Day
    hot: Mapping[int, Sequence[str]]
    swell: float
    lines: int = 0
    delays_s: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    lags: list[tuple[float, dict[int, int]]] = field(default_factory=list[tuple[float, dict[int, int]]])
    events: list[tuple[float, str, str]] = field(default_factory=list[tuple[float, str, str]])
    faults: list[Fault] = field(default_factory=list[Fault])
    differing: tuple[str, ...] = ()
    fallen: set[str] = field(default_factory=set[str])
    left_out: tuple[str, ...] = ()
    courses: int = 0

    @property
    def worst_s(self) -> float:
        """The longest delay."""
        return max((delay for _, delay in self.delays_s), default=0.0)

    def quantile_s(self, share: float) -> float:
        """The delay that this share of the lines did not exceed."""
        ordered = sorted(delay for _, delay in self.delays_s)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0

    def problems(self) -> list[str]:
        """What was not as it has to be; empty: the day may come."""
        out: list[str] = []
        if self.worst_s > BUDGET_S:
            out.append(f"a line was readable only after {self.worst_s:.1f} s: the budget is {BUDGET_S:.0f} s")
        out += [f"{fault.what}: not everything was readable again" for fault in self.faults if fault.took_s is None]
        out += [f"{what}: not done before the day was over" for what in self.left_out]
        if self.fallen:
            some = ", ".join(sorted(self.fallen)[:5])
            out.append(f"readers saw the totals of {len(self.fallen)} courses fall back: {some}")
        if self.differing:
            some = ", ".join(self.differing[:5])
            out.append(f"the totals of {len(self.differing)} courses are not the sum of their lines: {some}")
        if len(self.delays_s) < self.lines:
            out.append(f"{self.lines - len(self.delays_s):,} of {self.lines:,} lines are in no total")
        return out


class Feed:
    """Sends the day's lines at their rates on a thread of its own, and knows what the totals have to be."""

    def __init__(self, brokers: str, settings: Settings, day: Day, client: Mapping[str, Any], values: Formats) -> None:
        self._brokers, self._settings, self._day, self._client = brokers, settings, day, client
        self._recode = recoder(values)
        self.promotion = Promotion(Profile(courses=day.courses, seed=day.seed), lambda: time.time_ns() // 1_000_000)
        self.sent: dict[str, list[int]] = {}
        """By course, the event times (epoch ms) of its lines, in the order in which they were sent."""
        self.net_cents: Counter[str] = Counter()
        self.error: Exception | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)

    @property
    def over(self) -> bool:
        """Whether all lines of the day have arrived, or none comes any more."""
        return not self._thread.is_alive()

    def counts(self) -> dict[str, int]:
        """How many lines of each course were sent."""
        return {course: len(times) for course, times in list(self.sent.items())}

    def note(self, line: PurchaseLine) -> None:
        """Takes in a line that the totals have to have."""
        course = str(line.course_id)
        self.sent.setdefault(course, []).append(line.event_time)
        self.net_cents[course] += amount(line) if line.line_type == SALE else -amount(line)

    def start(self) -> None:
        """Begin the day."""
        self._thread.start()

    def stop(self) -> None:
        """End it early, and wait."""
        self._over.set()
        self._thread.join(60)

    def _run(self) -> None:
        try:
            with TopicWriter(self._brokers, client=self._client) as writer:
                self._send(writer)
        except Exception as error:
            self.error = error

    def _send(self, writer: TopicWriter) -> None:
        day, settings, promotion = self._day, self._settings, self.promotion
        for row in promotion.opening():
            writer.send(settings.courses, row.key, self._recode(settings.courses, row), timestamp_ms=row.timestamp_ms)
        began = before = time.monotonic()
        owed, midst_came = 0.0, False
        decode = msgspec.json.Decoder(PurchaseLine).decode
        while not self._over.wait(_TICK_S):
            now = time.monotonic()
            part = (now - began) / day.length_s
            if part >= 1:
                return
            promoted = _PROMOTION <= part < _EVENING
            owed += (now - before) * day.rate * (promotion.swell if promoted else 1.0)
            before = now
            if part >= _MIDST and not midst_came:
                midst_came = True
                for row in promotion.midst():
                    value = self._recode(settings.courses, row)
                    writer.send(settings.courses, row.key, value, timestamp_ms=row.timestamp_ms)
            while owed >= 1:
                owed -= 1
                for number, record in enumerate(promotion.line(promoted=promoted)):
                    # noted first: a reader may see its total before this thread goes on
                    if number == 0 or settings.dedupe is Dedupe.OFF:
                        self.note(decode(record.value))
                    value = self._recode(settings.lines, record)
                    writer.send(settings.lines, record.key, value, timestamp_ms=record.timestamp_ms)
            writer.flush()


def play(
    brokers: str,
    settings: Settings,
    day: Day,
    instances: Sequence[JobProcess],
    show: Callable[[float, str], None],
    *,
    client: Mapping[str, Any],
    values: Formats,
) -> Played:
    """Plays a day against instances that run already.

    Args:
        brokers: ``host:port`` list.
        settings: the topics, which nobody else writes to.
        day: what is played.
        instances: two or more that run.
        show: told a few times a second how many seconds of the day are over, and what goes on.
        client: more librdkafka settings, such as security.
        values: how values are written.

    Raises:
        JobFailedError: an instance ended by itself.
        KafkaException: sending or reading failed.
    """
    feed = Feed(brokers, settings, day, client, values)
    hot: dict[int, list[str]] = {}
    for course in feed.promotion.promoted:
        hot.setdefault(partition_for_key(course.encode(), day.partitions), []).append(course)
    played = Played(day, hot, feed.promotion.swell)
    with open_totals(brokers, settings, client=client, values=values) as totals:
        totals.read_to_end()
        reader = _Reader(feed, played)
        director = _Director(played, feed, instances)
        feed.start()
        began = time.monotonic()
        try:
            while True:
                changes = totals.poll(_LOOK_S)
                now_s = time.monotonic() - began
                reader.take(changes, now_s)
                director.look(now_s, reader.counted)
                show(min(now_s, day.length_s), director.doing)
                if feed.error is not None:
                    raise feed.error
                late = now_s > day.length_s + 2 * BUDGET_S
                if feed.over and not director.busy and (late or (reader.has_all() and not director.left())):
                    break
        finally:
            feed.stop()
            director.join()
        expected = {course: (feed.net_cents[course], len(times)) for course, times in feed.sent.items()}
        found = {course: (total.net_cents, total.line_count) for course, total in totals.values.items()}
    played.lines = sum(len(times) for times in feed.sent.values())
    played.courses = len(expected)
    played.left_out = director.left()
    played.differing = tuple(
        sorted(course for course in expected.keys() | found.keys() if expected.get(course) != found.get(course))
    )
    return played


class _Reader:
    """Notes what has become readable."""

    def __init__(self, feed: Feed, played: Played) -> None:
        self._feed, self._played = feed, played
        self.counted: Counter[str] = Counter()

    def take(self, changes: Sequence[tuple[str, Any]], now_s: float) -> None:
        now_ms = time.time_ns() // 1_000_000
        for course, total in changes:
            if total is None:
                continue
            sent, before = self._feed.sent.get(course, []), self.counted[course]
            if total.line_count < before:
                self._played.fallen.add(course)
            delays = self._played.delays_s
            delays += [(now_s, (now_ms - event_time) / 1000) for event_time in sent[before : total.line_count]]
            self.counted[course] = total.line_count
        counts = self._feed.counts()
        lag: dict[int, int] = dict.fromkeys(self._played.hot, 0)
        partitions = self._played.day.partitions
        for course, count in counts.items():
            partition = partition_for_key(course.encode(), partitions)
            if partition in lag:
                lag[partition] += count - self.counted[course]
        self._played.lags.append((now_s, lag))

    def has_all(self) -> bool:
        return covers(self.counted, self._feed.counts())


def covers(counted: Mapping[str, int], waiting: Mapping[str, int]) -> bool:
    """Whether so many lines of every course are counted."""
    return all(counted.get(course, 0) >= count for course, count in waiting.items())


class _Director:
    """Does to the instances what the day brings."""

    def __init__(self, played: Played, feed: Feed, instances: Sequence[JobProcess]) -> None:
        self._played, self._feed, self._instances = played, feed, instances
        length_s = played.day.length_s
        self._plan: list[tuple[float, str, str, Callable[[], None] | None]] = [
            (_PROMOTION * length_s, "P", "the promotion begins", None),
            (_MIDST * length_s, "C", "late catalog rows and another title", None),
            (_KILL * length_s, "K", "kill -9 of instance 1", self._kill),
            (_DEPLOY * length_s, "D", f"instance {len(instances)} is deployed: SIGTERM and a new start", self._deploy),
            (_EVENING * length_s, "E", "the promotion is over", None),
        ]
        self._at_work: threading.Thread | None = None
        self._away: set[int] = set()
        self.doing = "a steady morning"

    @property
    def busy(self) -> bool:
        """Whether something is going on, or a recovery is waited for."""
        return self._at_work is not None and self._at_work.is_alive()

    def look(self, now_s: float, counted: Mapping[str, int]) -> None:
        """Do what is due, and note what is over."""
        if self._plan and now_s >= self._plan[0][0] and not self.busy:
            _, letter, self.doing, act = self._plan.pop(0)
            self._played.events.append((now_s, letter, self.doing))
            if act is not None:
                self._played.faults.append(Fault(self.doing, now_s))
                self._at_work = threading.Thread(target=act, name=self.doing, daemon=True)
                self._at_work.start()
        for fault in self._played.faults:
            if fault.took_s is None and fault.waiting is not None and covers(counted, fault.waiting):
                fault.took_s = now_s - fault.at_s
        for number, instance in enumerate(self._instances):
            if number not in self._away:
                instance.check()

    def left(self) -> tuple[str, ...]:
        """What is not done yet."""
        return tuple(what for _, _, what, _ in self._plan)

    def join(self) -> None:
        """Wait for what is going on."""
        if self._at_work is not None:
            self._at_work.join(60)

    def _kill(self) -> None:
        self._restart(0, self._instances[0].kill, (_AGAIN - _KILL) * self._played.day.length_s)

    def _deploy(self) -> None:
        number = len(self._instances) - 1
        self._restart(number, self._instances[number].stop, 0.0)

    def _restart(self, number: int, end: Callable[[], None], pause_s: float) -> None:
        self._away.add(number)
        end()
        time.sleep(pause_s)
        self._instances[number].start()
        self._away.discard(number)
        self._played.faults[-1].waiting = self._feed.counts()

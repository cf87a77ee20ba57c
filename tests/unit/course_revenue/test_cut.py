"""A cut through a job whose transactions become visible piece by piece, in brokers that are a few numbers."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, cast

import pytest
from course_revenue.cut import Cut, JobTopics, take_cut
from course_revenue.errors import NoCutError

from headrace.errors import StreamsException, TimeoutException
from headrace.records import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from headrace.topics import TopicAdmin

TOPICS = JobTopics("app", "lines", "app-repartition", "output", "rejected", exactly_once=True)
THREADS = tuple(f"app-00000000-0000-0000-0000-00000000000{n}-{n}" for n in range(2))
LINES, INSIDE, OUTPUT = (TopicPartition(topic, 0) for topic in ("lines", "app-repartition", "output"))


@dataclass
class Brokers:
    """What the requests of a cut ask, one partition a topic. Between two answers some steps of the job are done.

    Each transaction takes in a line and writes it to the repartition topic (one thread), or takes it from there and
    writes a total (the other one), so of any whole transactions: lines = repartition end, repartition offset = totals.
    """

    seed: int
    steps_between: int
    hidden: bool = False
    committed: dict[TopicPartition, int] = field(default_factory=lambda: {LINES: 0, INSIDE: 0})
    ends: dict[TopicPartition, int] = field(default_factory=lambda: {INSIDE: 0, OUTPUT: 0})
    states: dict[str, str] = field(default_factory=lambda: dict.fromkeys(THREADS, "Empty"))
    members: bool = True

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._jobs = [self._thread(THREADS[0], LINES, INSIDE), self._thread(THREADS[1], INSIDE, OUTPUT)]

    def _thread(self, name: str, source: TopicPartition, target: TopicPartition) -> Iterator[None]:
        while True:
            # only what the first thread has made visible can be taken in by the second
            if source == INSIDE and self.committed[INSIDE] >= self.ends[INSIDE]:
                yield
                continue
            self.states[name] = "Ongoing"
            yield
            self.states[name] = "PrepareCommit"
            yield
            pieces: list[Callable[[], None]] = [lambda: self._move(self.committed, source)]
            pieces.append(lambda: self._move(self.ends, target))
            self._random.shuffle(pieces)
            for piece in pieces:
                piece()
                yield
            self.states[name] = "CompleteCommit"
            yield

    def _move(self, offsets: dict[TopicPartition, int], partition: TopicPartition) -> None:
        offsets[partition] += 1

    def _go_on(self) -> None:
        for _ in range(self._random.randrange(self.steps_between + 1)):
            next(self._random.choice(self._jobs))

    def partition_counts(self, topics: Iterable[str]) -> dict[str, int]:
        return {topic: 1 for topic in topics if topic != "rejected"}

    def group_offsets(self, group: str, *, stable: bool = False) -> dict[TopicPartition, OffsetAndMetadata]:
        self._go_on()
        if stable and "PrepareCommit" in self.states.values():
            raise TimeoutException("unstable")
        return {tp: OffsetAndMetadata(offset, "") for tp, offset in self.committed.items()}

    def list_offsets(
        self,
        partitions: Iterable[TopicPartition],
        spec: Literal["earliest", "latest"],
        *,
        read_committed: bool = False,
    ) -> dict[TopicPartition, int]:
        self._go_on()
        if spec == "earliest":
            return dict.fromkeys(partitions, 0)
        # a log's end is behind what open transactions have written
        more = (
            0
            if read_committed
            else len([state for state in self.states.values() if state in ("Ongoing", "PrepareCommit")])
        )
        return {tp: self.ends[tp] + more if tp in self.ends else 1_000_000 for tp in partitions}

    def transactions(self, prefix: str) -> dict[str, str]:
        self._go_on()
        return {"app-2-other": "Ongoing"} if self.hidden else dict(self.states)

    def describe_group(self, group: str) -> Any:
        return self

    @property
    def active(self) -> bool:
        return self.members


def cut_of(brokers: Brokers, timeout_s: float = 30.0) -> Cut:
    return take_cut(cast("TopicAdmin", brokers), TOPICS, timeout_s)


@pytest.mark.parametrize("steps_between", [1, 2, 4])
def test_every_cut_is_of_whole_transactions(steps_between: int) -> None:
    for seed in range(60):
        brokers = Brokers(seed, steps_between)
        for _ in range(seed):
            next(brokers._random.choice(brokers._jobs))
        cut = cut_of(brokers)
        assert (cut.lines, cut.repartition) == (cut.repartition_ends, cut.output), f"seed {seed}: {cut}"
        assert cut.exact


def test_a_job_that_commits_without_a_gap_is_told_what_to_do() -> None:
    with pytest.raises(NoCutError, match=r"no moment between two commits of app .*--timeout"):
        cut_of(Brokers(1, 60), timeout_s=0.05)


def test_transactions_that_are_not_shown_are_an_error_while_the_job_runs_and_not_once_it_has_stopped() -> None:
    running = Brokers(1, 0, hidden=True)
    for _ in range(3):
        next(running._jobs[0])
    with pytest.raises(NoCutError, match="--operation Describe --transactional-id app-"):
        cut_of(running)
    stopped = Brokers(1, 0, hidden=True, members=False)
    assert cut_of(stopped).exact


def test_a_committed_offset_behind_the_end_of_its_topic_says_that_the_topic_was_made_anew() -> None:
    brokers = Brokers(1, 0)
    brokers.committed[LINES] = 2_000_000
    with pytest.raises(StreamsException, match="lines-0, 2000000, lies behind its end"):
        cut_of(brokers)

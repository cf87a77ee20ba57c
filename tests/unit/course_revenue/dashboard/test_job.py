from __future__ import annotations

import json
from typing import Any

import pytest
from course_revenue.dashboard.job import Freshness, Job, Task, freshness, hot, read_tasks

from headrace.records import TopicPartition

NOW = 1_800_000_000_000
AT = "http://one:1"


def told(
    *tasks: dict[str, Any],
    state: str = "RUNNING",
    threads: tuple[dict[str, Any], ...] = (),
) -> tuple[Any, ...]:
    page = {"client_id": "c", "state": state, "threads": threads, "tasks": list(tasks)}
    return read_tasks(json.dumps(page).encode())


def task(
    name: str = "0_0", *, offset: int = 0, end: int = 0, done: int = 0, commit: int | None = None, **more: Any
) -> dict[str, Any]:
    return {
        "id": name,
        "type": "active",
        "state": "RUNNING",
        "partitions": [{"topic": "lines", "partition": 0, "offset": offset, "end": end, "lag": end - offset}],
        "records_total": done,
        "last_commit_ms": commit,
        **more,
    }


def test_a_supervisors_answer_is_the_list_of_its_instances() -> None:
    page = {
        "instances": [
            {"instance": "instance-1", "starts": 1, "answers": True, "state": "RUNNING", "tasks": [task()]},
            {"instance": "instance-2", "starts": 4, "answers": False, "reason": "it does not answer"},
        ]
    }
    first, second = read_tasks(json.dumps(page).encode())
    assert (first.instance, first.tasks[0].lag) == ("instance-1", 0)
    assert (second.answers, second.reason, second.starts) == (False, "it does not answer", 4)


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"{}", b'{"tasks": 4}'])
def test_something_else_than_tasks_is_no_answer(body: bytes) -> None:
    with pytest.raises(ValueError, match="no list of tasks"):
        read_tasks(body)


def test_what_waited_is_counted_from_where_it_was_first_seen_until_the_task_has_passed_it() -> None:
    job = Job([AT])
    job.answered(AT, told(task(offset=10, end=10)), NOW)
    assert job.waited_ms() == 0
    job.answered(AT, told(task(offset=10, end=15)), NOW + 1_000)
    job.answered(AT, told(task(offset=14, end=30)), NOW + 9_000)
    assert job.waited_ms() == 8_000
    job.answered(AT, told(task(offset=15, end=30)), NOW + 10_000)
    assert job.waited_ms() == 1_000
    job.answered(AT, told(task(offset=30, end=30)), NOW + 11_000)
    assert job.waited_ms() == 0


def test_lines_that_were_counted_and_not_committed_wait_too() -> None:
    job = Job([AT])
    job.answered(AT, told(task(done=5, commit=1)), NOW)
    job.answered(AT, told(task(done=9, commit=1)), NOW + 1_000)
    job.answered(AT, told(task(done=9, commit=1)), NOW + 4_000)
    assert job.waited_ms() == 3_000
    job.answered(AT, told(task(done=9, commit=2)), NOW + 5_000)
    assert job.waited_ms() == 0


def test_the_longest_wait_of_all_tasks_counts() -> None:
    job = Job([AT])
    for second in (0, 7):
        job.answered(AT, told(task("0_0"), task("0_1", offset=0, end=5)), NOW + second * 1000)
    assert job.waited_ms() == 7_000


def test_of_a_job_that_does_not_answer_nothing_is_known() -> None:
    job = Job([AT])
    assert (job.answers, job.waited_ms()) == (False, None)
    job.answered(AT, told(task()), NOW)
    assert job.answers
    job.failed(AT, "refused", NOW + 5)
    job.failed(AT, "refused", NOW + 9)
    assert (job.answers, job.waited_ms(), job.endpoints[AT].since_ms) == (False, None, NOW + 5)
    job.answered(AT, told(task()), NOW + 20)
    assert (job.answers, job.endpoints[AT].since_ms, job.endpoints[AT].failure) == (True, NOW + 20, None)


def test_while_an_instance_or_a_task_tells_nothing_only_a_wait_beyond_the_budget_is_told() -> None:
    job = Job([AT, "http://two:2"])
    restoring = {**task("0_1"), "state": "RESTORING"}
    job.answered("http://two:2", told(task("1_0")), NOW)
    job.answered(AT, told(task("0_0"), restoring), NOW)
    assert job.waited_ms() is None
    job.answered(AT, told(task("0_0"), task("0_1")), NOW)
    assert job.waited_ms() == 0
    job.answered(AT, told(task("0_0"), state="REBALANCING"), NOW)
    assert job.waited_ms() is None
    job.failed(AT, "refused", NOW)
    assert job.waited_ms() is None
    job.answered("http://two:2", told(task("1_0", end=4)), NOW + 1_000)
    job.answered("http://two:2", told(task("1_0", end=4)), NOW + 62_000)
    assert job.waited_ms() == 61_000


def test_while_a_thread_is_held_up_nobody_says_that_nothing_waits() -> None:
    """Its tasks' offsets and ends stand still, so each looked caught up."""

    def thread(age_s: float, state: str = "RUNNING") -> dict[str, Any]:
        return {"name": "t", "state": state, "round_age_s": age_s}

    job = Job([AT])
    job.answered(AT, told(task(), threads=(thread(0.2), thread(900.0, "DEAD"))), NOW)
    assert (job.waited_ms(), job.held_up()) == (0, [])
    job.answered(AT, told(task(), threads=(thread(0.2), thread(31.0))), NOW + 31_000)
    assert (job.waited_ms(), job.held_up()) == (None, ["t"])
    # one of a release that does not tell
    job.answered(AT, told(task(), threads=({"name": "t", "state": "RUNNING"},)), NOW + 32_000)
    assert (job.waited_ms(), job.held_up()) == (0, [])


LINES = TopicPartition("lines", 0)


def test_a_job_that_is_cut_off_from_the_brokers_is_not_caught_up_by_its_own_word() -> None:
    """Its lag stands still at nothing, and the page said that all that had landed was in."""
    job = Job([AT])
    job.answered(AT, told(task(offset=10, end=10)), NOW)
    assert job.reads() == {LINES}
    job.compare({LINES: 10}, (), NOW)
    assert (job.unheard(), job.waited_ms()) == ((0, []), 0)
    # another line lands: for a moment any job does not know of it
    for second in (0, 9):
        job.compare({LINES: 11}, (), NOW + second * 1000)
        job.answered(AT, told(task(offset=10, end=10)), NOW + second * 1000)
    assert (job.unheard(), job.waited_ms()) == ((9_000, ["lines"]), 9_000)
    job.compare({LINES: 500}, (), NOW + 11_000)
    assert (job.unheard(), job.waited_ms()) == ((11_000, ["lines"]), None)
    job.compare({LINES: 500}, (), NOW + 61_000)
    assert job.waited_ms() == 61_000
    # it is back, and behind: what has lain there since is not unheard of
    job.answered(AT, told(task(offset=10, end=500)), NOW + 62_000)
    assert job.unheard() == (0, [])
    job.compare({LINES: 501}, (), NOW + 62_000)
    job.answered(AT, told(task(offset=501, end=501)), NOW + 63_000)
    assert (job.unheard(), job.waited_ms()) == ((0, []), 0)


def test_one_of_two_instances_that_say_to_have_a_task_is_enough_to_know_of_its_lines() -> None:
    """One that is cut off still says so while another has taken its place."""
    job = Job([AT, "http://two:2"])
    for second in range(20):
        job.answered(AT, told(task(offset=10, end=10)), NOW + second * 1000)
        job.answered("http://two:2", told(task(offset=20 + second, end=20 + second)), NOW + second * 1000)
        job.compare({LINES: 20 + second}, (), NOW + second * 1000)
    assert job.unheard() == (0, [])


def test_tasks_that_do_not_run_and_topics_that_are_gone_are_not_unheard_of() -> None:
    job = Job([AT])
    restoring = {**task(offset=0, end=0), "state": "RESTORING"}
    job.answered(AT, told(restoring), NOW)
    for second in (0, 20):
        job.compare({LINES: 50}, (), NOW + second * 1000)
    assert job.unheard() == (0, [])
    job.answered(AT, told(task(offset=0, end=0)), NOW + 20_000)
    job.compare({LINES: 50}, (), NOW + 20_000)
    job.failed(AT, "refused", NOW + 50_000)
    job.compare({}, (), NOW + 51_000)
    assert job.unheard() == (0, [])


def test_where_the_brokers_hide_what_the_job_reads_nobody_says_that_nothing_waits() -> None:
    job = Job([AT])
    job.answered(AT, told(task(offset=10, end=10)), NOW)
    job.compare({}, ["lines"], NOW)
    assert job.waited_ms() is None
    assert job.hidden == {"lines"}


def test_while_tasks_are_not_seen_nobody_says_that_nothing_waits() -> None:
    """An instance whose port is not among the addresses: half of the job was taken for all of it."""
    job = Job([AT])
    job.answered(AT, told(task("0_0"), task("0_2"), task("1_1")), NOW)
    assert (job.waited_ms(), job.unseen()) == (None, ["0_1", "1_0"])
    # a copy tells of the task that it is a copy of
    copy = {**task("1_2"), "type": "standby"}
    job.answered(AT, told(task("0_0"), task("0_1"), task("1_0"), task("1_1"), copy), NOW)
    assert (job.waited_ms(), job.unseen()) == (None, ["1_2"])
    job.answered(AT, told(task("0_0"), task("0_1"), task("1_0"), task("1_1")), NOW)
    assert (job.waited_ms(), job.unseen()) == (0, [])


def test_standby_tasks_neither_wait_nor_are_hot() -> None:
    job = Job([AT])
    standby = {**task("1_0", offset=0, end=9_999), "type": "standby"}
    job.answered(AT, told(standby), NOW)
    job.answered(AT, told(standby), NOW + 90_000)
    assert job.waited_ms() is None
    assert hot(job.tasks()) == {}


def test_rejected_lines_are_counted_out_of_all_drops() -> None:
    job = Job([AT, "http://two:2"])
    job.answered(AT, told(task(dropped={"rejected: unknown_line_type": 2, "duplicate line": 5})), NOW)
    job.answered("http://two:2", told(task("0_1", dropped={"rejected: no_value": 1, "duplicate line": 1})), NOW)
    assert job.rejected() == 3
    assert job.dropped() == {"rejected: unknown_line_type": 2, "rejected: no_value": 1, "duplicate line": 6}


def active(name: str, rate: float, lag: int = 0) -> Task:
    (one,) = told(task(name, end=lag, records_per_second=rate))
    made: Task = one.tasks[0]
    return made


def test_a_task_with_twice_its_neighbours_rate_or_lag_is_hot() -> None:
    tasks = [active("0_0", 100), active("0_1", 110), active("1_0", 20), active("1_1", 90, 500), active("1_2", 25, 90)]
    assert hot(tasks) == {"1_1": ["rate", "lag"]}


def test_small_differences_and_single_tasks_are_not_hot() -> None:
    assert hot([active("0_0", 9_000)]) == {}
    assert hot([active("0_0", 0.2), active("0_1", 0.0), active("1_0", 100, 40), active("1_1", 120, 0)]) == {}


@pytest.mark.parametrize(
    ("age", "waited", "verdict"),
    [
        (1_000, 0, "fresh"),
        (1_000, None, "fresh"),
        (61_000, 0, "caught_up"),
        (61_000, None, "unknown"),
        (1_000, 60_001, "late"),
        (61_000, 60_001, "late"),
        (None, 0, "empty"),
        (None, 70_000, "late"),
    ],
)
def test_the_promise_is_judged_by_what_waits_before_the_age_of_what_is_in(
    age: int | None, waited: int | None, verdict: str
) -> None:
    newest = None if age is None else NOW - age
    assert freshness(newest, waited, NOW) == Freshness(verdict, age, waited)

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from course_revenue.dashboard.board import Batch, Board, Change, Sums, Undecoded
from course_revenue.model import INT64_MAX, INT64_MIN, Revenue
from hypothesis import given
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Iterable

NOW = 1_800_000_000_000


def revenue(course: str, cents: int, lines: int = 1, *, flagged: bool = False, at: int = NOW) -> Revenue:
    return Revenue(course, cents, lines, flagged, at)


def batch(*totals: Revenue | str, partition: int = 0, offset: int = 0) -> Batch:
    changes = [
        Change(
            one if isinstance(one, str) else str(one.course_id),
            None if isinstance(one, str) else one,
            partition,
            offset + number,
        )
        for number, one in enumerate(totals)
    ]
    return Batch(changes, (), {partition: offset + len(changes)}, len(changes))


@pytest.fixture
def board() -> Board:
    return Board("b")


def shown(rows: Iterable[tuple[str, Revenue]]) -> dict[str, int]:
    return {course: total.net_cents for course, total in rows}


def test_the_latest_total_of_a_course_replaces_the_one_before(board: Board) -> None:
    board.apply(batch(revenue("a", 100), revenue("b", 5, 2, flagged=True), revenue("a", -30, 2)), NOW)
    assert board.sums() == Sums(2, -25, 4, 1, NOW)
    board.apply(batch(revenue("b", 6, 3)), NOW)
    assert board.sums() == Sums(2, -24, 5, 0, NOW)
    assert (board.records, board.positions) == (4, {0: 1})


def test_a_tombstone_removes_the_course_and_its_money(board: Board) -> None:
    board.apply(batch(revenue("a", 100), revenue("b", 5, at=NOW - 1), "a", "never-seen"), NOW)
    assert board.sums() == Sums(1, 5, 1, 0, NOW - 1)
    board.apply(batch("b"), NOW)
    assert board.sums() == Sums(0, 0, 0, 0, None)


def test_sums_beyond_64_bits_are_exact(board: Board) -> None:
    board.apply(batch(*(revenue(str(n), INT64_MAX) for n in range(3)), revenue("m", INT64_MIN)), NOW)
    assert board.sums().net_cents == 3 * INT64_MAX + INT64_MIN


def test_the_newest_event_time_falls_when_totals_are_counted_anew(board: Board) -> None:
    board.apply(batch(revenue("a", 1, at=NOW), revenue("b", 1, at=NOW - 5)), NOW)
    board.apply(batch(revenue("a", 1, at=NOW - 9)), NOW)
    assert board.sums().newest_event_ms == NOW - 5


def test_courses_that_are_counted_anew_are_told_until_they_have_caught_up(board: Board) -> None:
    # what lies in the topic from before is no movement
    board.apply(batch(revenue("a", 1, 9), revenue("a", 1, 5), revenue("b", 1, 4), revenue("c", 1, 2)), NOW)
    board.caught_up(NOW)
    assert board.fewer == 0
    steps = ((revenue("a", 1, 1), 1), (revenue("b", 1, 1), 2), (revenue("a", 1, 4), 2), (revenue("a", 1, 5), 1))
    for total, fewer in (*steps, (revenue("b", 1, 3), 1), (revenue("b", 1, 6), 0), (revenue("c", 1, 3), 0)):
        board.apply(batch(total), NOW)
        assert board.fewer == fewer, total
    board.apply(batch(revenue("b", 1, 1), "b", revenue("b", 1, 1)), NOW)
    assert board.fewer == 0


def test_a_reader_gets_what_changed_since_its_version_and_only_that(board: Board) -> None:
    board.apply(batch(*(revenue(str(n), n) for n in range(100))), NOW)
    before = board.version
    board.apply(batch(revenue("7", 70), revenue("8", 80), "9", revenue("7", 71)), NOW)
    news = board.since(before)
    assert news is not None
    assert (shown(news.rows), news.removed) == ({"7": 71, "8": 80}, ["9"])
    again = board.since(news.version)
    assert again is not None
    assert (again.rows, again.removed, again.points) == ([], [], [])


def test_a_version_that_the_board_never_had_is_answered_with_nothing(board: Board) -> None:
    board.apply(batch(revenue("a", 1)), NOW)
    assert board.since(board.version + 1) is None


def test_removals_are_forgotten_after_a_while_and_who_was_away_for_longer_starts_anew(board: Board) -> None:
    board.apply(batch(revenue("stays", 1)), NOW)
    away = board.version
    for start in range(0, 12_000, 1_000):
        names = [str(start + n) for n in range(1_000)]
        board.apply(batch(*(revenue(name, 1) for name in names), *names), NOW)
    assert board.since(away) is None
    recent = board.since(board.version - 10)
    assert recent is not None
    assert len(recent.removed) == 10
    assert shown(board.everything().rows) == {"stays": 1}


def test_a_course_that_comes_back_after_its_tombstone_is_shown(board: Board) -> None:
    board.apply(batch(revenue("a", 1), "a", revenue("a", 2)), NOW)
    news = board.since(0)
    assert news is not None
    assert (shown(news.rows), news.removed) == ({"a": 2}, [])


def test_movement_begins_when_the_end_was_reached(board: Board) -> None:
    board.apply(batch(revenue("a", 100)), NOW)
    board.note(NOW)
    assert board.everything().points == []
    board.caught_up(NOW)
    board.apply(batch(revenue("a", 150, 3)), NOW + 500)
    board.note(NOW + 1000)
    assert [(point.at_ms, point.sums.net_cents) for point in board.everything().points] == [
        (NOW, 100),
        (NOW + 1000, 150),
    ]
    assert board.lines_per_second() == 2.0


def test_the_rate_is_of_the_last_ten_seconds_and_never_negative(board: Board) -> None:
    board.caught_up(NOW)
    for second in range(1, 31):
        board.apply(batch(revenue("a", 1, second * (1 if second <= 15 else 100))), NOW)
        board.note(NOW + second * 1000)
    assert board.lines_per_second() == 100.0
    board.apply(batch(revenue("a", 1, 1)), NOW)
    board.note(NOW + 31_000)
    assert board.lines_per_second() == 0.0


def test_the_rate_goes_on_after_the_clock_was_set_back(board: Board) -> None:
    board.caught_up(NOW)
    for second in range(60):
        at = NOW + second * 1000 - (3_600_000 if second >= 40 else 0)
        board.apply(batch(revenue("a", 1, 50 * (second + 1))), at)
        board.note(at)
    assert board.lines_per_second() == 50.0


def test_event_times_in_the_future_are_told_apart(board: Board) -> None:
    board.apply(batch(revenue("a", 1, at=NOW - 90_000), revenue("b", 1, at=NOW)), NOW)
    assert board.newest_until(NOW) == (NOW, 0)
    board.apply(batch(revenue("b", 1, at=NOW * 1000), revenue("c", 1, at=NOW + 1)), NOW)
    assert board.newest_until(NOW) == (NOW - 90_000, 2)
    assert Board("b").newest_until(NOW) == (None, 0)


def test_a_course_has_a_trail_from_its_total_before_the_first_movement_on(board: Board) -> None:
    board.apply(batch(revenue("a", 100)), NOW)
    board.caught_up(NOW)
    assert board.trail("a") == []
    board.apply(batch(revenue("a", 110)), NOW + 20_000)
    board.apply(batch(revenue("a", 120)), NOW + 21_000)
    board.apply(batch(revenue("a", 130)), NOW + 22_000)
    board.apply(batch(revenue("a", 140)), NOW + 40_000)
    times = [(at - NOW, cents) for at, cents in board.trail("a")]
    assert times[0] == (0, 100)
    assert times[-1] == (40_000, 140)
    assert (22_000, 130) in times
    for second in range(10_000):
        board.apply(batch(revenue("a", second)), NOW + 50_000 + second * 1000)
    assert len(board.trail("a")) <= 120
    assert board.trail("a")[-1] == (NOW + 50_000 + 9_999_000, 9_999)


def test_records_that_do_not_decode_are_counted_with_their_place(board: Board) -> None:
    board.apply(Batch((), (Undecoded(3, 17, "not JSON", "a"),), {3: 18}, 1), NOW)
    assert board.undecoded == 1
    assert board.last_undecoded == Undecoded(3, 17, "not JSON", "a")
    assert board.positions == {3: 18}


def test_totals_in_front_of_the_topics_start_are_counted_as_lost(board: Board) -> None:
    board.apply(batch(revenue("a", 1), revenue("b", 1), revenue("a", 2)), NOW)
    assert board.lost({0: 0}) == 0
    assert board.lost({0: 2}) == 1
    assert board.lost({0: 3}) == 2


@given(st.integers(0, 2**32))
def test_a_page_that_follows_by_versions_holds_what_the_board_holds(seed: int) -> None:
    chosen = random.Random(seed)
    board = Board("b")
    page: dict[str, Revenue] = {}
    version = 0
    for _ in range(chosen.randrange(1, 30)):
        totals: list[Revenue | str] = []
        for _ in range(chosen.randrange(8)):
            course = str(chosen.randrange(6))
            alive = chosen.random() < 0.8
            totals.append(
                revenue(course, chosen.randrange(-9, 9), at=NOW + chosen.randrange(9), flagged=chosen.random() < 0.3)
                if alive
                else course
            )
        board.apply(batch(*totals), NOW)
        if chosen.random() < 0.5:
            news = board.since(version)
            assert news is not None
            page.update(news.rows)
            for course in news.removed:
                page.pop(course, None)
            version = news.version
    page.update(board.since(version).rows)  # type: ignore[union-attr]
    for course in board.since(version).removed:  # type: ignore[union-attr]
        page.pop(course, None)
    assert page == dict(board.everything().rows)
    totals_now = page.values()
    assert board.sums() == Sums(
        len(page),
        sum(one.net_cents for one in totals_now),
        sum(one.line_count for one in totals_now),
        sum(one.dimension_missing for one in totals_now),
        max((one.updated_event_time for one in totals_now), default=None),
    )

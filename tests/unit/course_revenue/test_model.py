from __future__ import annotations

import msgspec
import pytest
from course_revenue.contract import BrokenLineError, check
from course_revenue.model import (
    INT64_MAX,
    INT64_MIN,
    Course,
    LineWithCourse,
    PurchaseLine,
    Revenue,
    UnknownLineTypeError,
)


def line(**changes: object) -> PurchaseLine:
    fields: dict[str, object] = {
        "order_id": "o1",
        "line_id": "l1",
        "course_id": "c1",
        "unit_price_cents": 1999,
        "quantity": 2,
        "line_type": "sale",
        "event_time": 1_700_000_000_000,
    }
    return msgspec.convert({**fields, **changes}, PurchaseLine)


COURSE = Course("Weaving", active=True)


def apply(total: Revenue, *lines: PurchaseLine, course: Course | None = COURSE) -> Revenue:
    for one in lines:
        total = total.apply("c1", LineWithCourse(one, course))
    return total


def test_a_sale_then_its_refund_is_net_zero_of_two_lines() -> None:
    total = apply(Revenue.zero(), line(), line(line_type="refund"))
    assert (total.course_id, total.net_cents, total.line_count) == ("c1", 0, 2)


def test_a_missing_course_sets_the_flag_adds_all_the_same_and_the_next_line_clears_it() -> None:
    missing = apply(Revenue.zero(), line(), course=None)
    assert (missing.net_cents, missing.dimension_missing) == (3998, True)
    assert apply(missing, line()).dimension_missing is False


def test_updated_event_time_is_the_greatest_under_disorder() -> None:
    assert apply(Revenue.zero(), line(event_time=500), line(event_time=100)).updated_event_time == 500


def test_an_unknown_type_raises_and_names_the_line() -> None:
    with pytest.raises(UnknownLineTypeError, match="'gift' on order o1 line l1"):
        apply(Revenue.zero(), line(line_type="gift"))


@pytest.mark.parametrize(("net", "kind"), [(INT64_MAX, "sale"), (INT64_MIN, "refund")])
def test_a_total_outside_64_bits_is_an_error(net: int, kind: str) -> None:
    total = Revenue("c1", net, 1, False, 0)
    with pytest.raises(OverflowError, match="total of course c1"):
        apply(total, line(unit_price_cents=1, quantity=1, line_type=kind))


def test_the_total_may_reach_both_ends_of_64_bits() -> None:
    least = apply(Revenue("c1", INT64_MIN + 1, 1, False, 0), line(unit_price_cents=1, quantity=1, line_type="refund"))
    assert least.net_cents == INT64_MIN


def test_an_amount_outside_64_bits_is_an_error() -> None:
    with pytest.raises(OverflowError, match="unit_price_cents"):
        apply(Revenue.zero(), line(unit_price_cents=INT64_MAX, quantity=2))


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (None, "no_value"),
        (line(course_id=None), "missing_course_id"),
        (line(line_type="gift"), "unknown_line_type"),
        (line(unit_price_cents=-1), "negative_unit_price"),
        (line(quantity=0), "quantity_below_one"),
        (line(unit_price_cents=INT64_MAX, quantity=2), "amount_overflow"),
    ],
)
def test_each_rule_of_the_contract(broken: PurchaseLine | None, reason: str) -> None:
    with pytest.raises(BrokenLineError) as caught:
        check(broken)
    assert caught.value.reason == reason


@pytest.mark.parametrize(
    "broken",
    [line(unit_price_cents=-424242), line(quantity=-424242), line(line_type="424242"), line(line_type="a@424242.org")],
)
def test_a_message_has_nothing_of_a_lines_content_but_a_type_that_is_a_name(broken: PurchaseLine) -> None:
    with pytest.raises(BrokenLineError, match="order o1 line l1") as caught:
        check(broken)
    assert "424242" not in str(caught.value)


def test_a_line_that_keeps_the_contract_gives_its_course() -> None:
    assert check(line(unit_price_cents=0)) == "c1"


def test_unknown_fields_are_dropped_when_decoding() -> None:
    raw = msgspec.json.encode({**msgspec.to_builtins(line()), "learner_id": "someone"})
    assert b"someone" not in msgspec.json.encode(msgspec.json.decode(raw, type=PurchaseLine))


@pytest.mark.parametrize(
    "raw",
    [
        b"not json",
        b'{"order_id":"o"}',
        b'{"order_id":"o","line_id":"l","unit_price_cents":"5","quantity":1,"line_type":"sale","event_time":1}',
        b'{"order_id":"o","line_id":"l","unit_price_cents":9223372036854775808,"quantity":1,"line_type":"sale","event_time":1}',
    ],
)
def test_wrong_bytes_and_wrong_types_are_refused(raw: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        msgspec.json.decode(raw, type=PurchaseLine)

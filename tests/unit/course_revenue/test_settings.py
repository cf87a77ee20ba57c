from __future__ import annotations

import pytest
from course_revenue.contract import OnBrokenLine
from course_revenue.settings import Settings, without_product_keys
from course_revenue.totals import money

from headrace.errors import ConfigException


def test_settings_have_defaults_and_leave_other_keys_alone() -> None:
    properties = {
        "application.id": "x",
        "course.revenue.topic.output": "out",
        "course.revenue.on.broken.line": "REJECT",
    }
    assert Settings.of(properties) == Settings(output="out", on_broken_line=OnBrokenLine.REJECT)
    assert Settings.of({"application.id": "x"}) == Settings()
    assert without_product_keys(properties) == {"application.id": "x"}


@pytest.mark.parametrize(
    ("properties", "says"),
    [
        ({"course.revenue.on.broken.line": "skip"}, "must be fail or reject, not 'skip'"),
        ({"course.revenue.dedupe": "yes"}, "must be off or line-key, not 'yes'"),
        ({"course.revenue.commit.before": "lines:3:4"}, "must be places such as commerce.purchase_line-3@4711"),
        ({"course.revenue.dedupe.retention.ms": "7d"}, "must be a number of milliseconds from 1 to"),
        ({"course.revenue.dedupe.retention.ms": "0"}, "must be a number of milliseconds from 1 to"),
        ({"course.revenue.format": "xml"}, "must be json or avro, not 'xml'"),
        ({"course.revenue.topic.line": "x"}, "did you mean course.revenue.topic.lines"),
        ({"course.revenue.topic.lines": " "}, "must be the name of a topic"),
        ({"course.revenue.topic.lines": "commerce.courses"}, "different from each other"),
    ],
)
def test_a_wrong_setting_is_named_with_what_is_allowed(properties: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigException, match=says):
        Settings.of(properties)


@pytest.mark.parametrize(("cents", "text"), [(0, "0.00"), (5, "0.05"), (-123_456_789, "-1,234,567.89")])
def test_money(cents: int, text: str) -> None:
    assert money(cents) == text
    assert money(cents) == text


def test_the_jobs_addresses_are_a_list_and_each_is_one() -> None:
    key = "course.revenue.dashboard.job"
    found = Settings.of({key: "http://one:8080/, https://[::1]:9/base ,"}).job_addresses
    assert found == ("http://one:8080", "https://[::1]:9/base")
    assert Settings.of({}).job_addresses == ()
    for wrong in ("one:8080", "ftp://one", "http://", "http://one:x", "http://one:99999"):
        with pytest.raises(ConfigException, match=r"course\.revenue\.dashboard\.job must be addresses such as http"):
            Settings.of({key: wrong})


def test_amounts_are_shown_in_one_of_two_currencies() -> None:
    assert Settings.of({"course.revenue.currency": "USD"}).currency.value == "usd"
    with pytest.raises(ConfigException, match="must be eur or usd"):
        Settings.of({"course.revenue.currency": "gbp"})

"""``course-revenue load``: lines and courses that somebody made up, to the topics."""

from __future__ import annotations

import time
from enum import Enum
from typing import TYPE_CHECKING, Annotated

import typer

from course_revenue.formats import Format
from course_revenue.options import Brokers, Config, Set, target
from course_revenue.progress import open_progress
from course_revenue.promotion import DUPLICATES, Profile, promotion
from course_revenue.sample import SampleSize, sample
from course_revenue.topics import load_records
from headrace.cli.common import note, say
from headrace.errors import ConfigException

if TYPE_CHECKING:
    from collections.abc import Iterable

    from course_revenue.sample import SampleRecord


class ProfileName(Enum):
    """What is loaded."""

    SAMPLE = "sample"
    """One hot course, event times of a past day, the same bytes for the same seed."""
    PROMOTION = "promotion"
    """A day with a promotion of two courses, event times as they are sent."""


def load(
    config: Config = None,
    settings: Set = None,
    bootstrap_server: Brokers = None,
    profile: Annotated[ProfileName, typer.Option(help="What is loaded: a sample, or a day with a promotion.")] = (
        ProfileName.SAMPLE
    ),
    lines: Annotated[int, typer.Option(min=1, help="Purchase lines.")] = 100_000,
    courses: Annotated[int, typer.Option(min=1, help="Courses.")] = 1_000,
    seed: Annotated[int, typer.Option(help="Another seed makes other lines.")] = 1,
    duplicates: Annotated[
        float | None, typer.Option(min=0, max=1, help="Share of lines sent twice; else 0, in a promotion 0.01.")
    ] = None,
    rate: Annotated[
        float | None, typer.Option(min=0.1, help="Lines a second; else as fast as it goes.", show_default=False)
    ] = None,
    broken: Annotated[
        float, typer.Option(min=0, max=1, help="Share of a promotion's lines that break the contract.")
    ] = 0.0,
    undecodable: Annotated[
        float, typer.Option(min=0, max=1, help="Share of a promotion's lines that are torn JSON.")
    ] = 0.0,
) -> None:
    """Send purchase lines and courses to the topics: a sample, or a day with a promotion.

    Broken lines stop a job with course.revenue.on.broken.line=fail, which is the default, and undecodable ones stop it
    in any case, unless its deserialization handler goes on: so there are none unless they are asked for.
    """
    at = target(config, settings, bootstrap_server)
    records: Iterable[SampleRecord]
    if profile is ProfileName.SAMPLE:
        if broken or undecodable:
            raise ConfigException("--broken and --undecodable are for --profile promotion: a sample has no such lines")
        records = sample(SampleSize(lines=lines, courses=courses, seed=seed, duplicates=duplicates or 0.0))
    else:
        if broken and at.settings.format is Format.AVRO:
            raise ConfigException("--broken needs course.revenue.format=json: Avro's schema has no unknown line_type")
        if broken + undecodable > 1:
            raise ConfigException("--broken and --undecodable together are more than all lines")
        made_of = Profile(
            lines=lines,
            courses=courses,
            seed=seed,
            broken=broken,
            undecodable=undecodable,
            duplicates=DUPLICATES if duplicates is None else duplicates,
        )
        records = promotion(made_of, lambda: time.time_ns() // 1_000_000)
    with open_progress("loading purchase lines") as show:
        sent = load_records(
            at.brokers,
            at.settings,
            records,
            lambda done: show(done, max(lines, done), ""),
            rate=rate,
            client=at.client,
            values=at.values,
        )
    say(f"loaded {sent:,} lines into {at.settings.lines} and up to {courses:,} courses into {at.settings.courses}")
    if broken or undecodable:
        note(f"of these about {broken:.1%} break the contract and {undecodable:.1%} do not decode")

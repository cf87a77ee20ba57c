"""What type checkers infer for the fluent API. Never run: ``test_inference`` has mypy and basedpyright check it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import assert_type

from headrace import (
    Consumed,
    Grouped,
    Joined,
    JoinWindows,
    JsonSerde,
    KGroupedStream,
    KGroupedTable,
    KStream,
    KTable,
    Materialized,
    Printed,
    Produced,
    Serde,
    Serdes,
    StreamJoined,
    StreamsBuilder,
)


@dataclass(frozen=True)
class Line:
    course: str
    cents: int


@dataclass(frozen=True)
class Course:
    title: str


@dataclass(frozen=True)
class Priced:
    line: Line
    course: Course | None


def parse(text: str) -> Line:
    course, cents = text.split(",")
    return Line(course, int(cents))


def price(line: Line, course: Course | None) -> Priced:
    return Priced(line, course)


text: Serde[str] = Serdes.String()
line_serde: Serde[Line] = JsonSerde(Line)
course_serde: Serde[Course] = JsonSerde(Course)
builder = StreamsBuilder()

# sources take their types from the serdes
raw = builder.stream("raw", Consumed.with_(text, text))
assert_type(raw, KStream[str, str])
lines = builder.stream("lines", Consumed.with_(text, line_serde))
assert_type(lines, KStream[str, Line])
courses = builder.table("courses", Consumed.with_(text, course_serde))
assert_type(courses, KTable[str, Course])

# one record at a time
parsed = raw.map_values(parse)
assert_type(parsed, KStream[str, Line])
assert_type(raw.map_values(lambda key, value: len(key) + len(value), with_key=True), KStream[str, int])
assert_type(parsed.filter(lambda key, line: key != "" and line.cents > 0), KStream[str, Line])
assert_type(parsed.filter_not(lambda key, line: line.cents > 0), KStream[str, Line])
assert_type(parsed.select_key(lambda key, line: line.cents), KStream[int, Line])
assert_type(parsed.map(lambda key, line: (line.course, line.cents)), KStream[str, int])
assert_type(raw.flat_map_values(str.split), KStream[str, str])
assert_type(raw.flat_map(lambda key, value: [(word, len(word)) for word in value.split()]), KStream[str, int])
assert_type(parsed.peek(lambda key, line: None), KStream[str, Line])
assert_type(parsed.merge(lines), KStream[str, Line])
assert_type(parsed.repartition(), KStream[str, Line])
assert_type(parsed.split().branch(lambda key, line: line.cents > 0).no_default_branch(), dict[str, KStream[str, Line]])
parsed.print(Printed.to_sys_out().with_key_value_mapper(lambda key, line: f"{key} {line}"))
parsed.to("parsed", Produced.with_(text, line_serde))

# a stream with a table
assert_type(lines.join(courses, Priced), KStream[str, Priced])
assert_type(lines.left_join(courses, price), KStream[str, Priced])
assert_type(lines.join(courses, lambda line, course: (line.cents, course.title)), KStream[str, tuple[int, str]])
assert_type(
    lines.left_join(courses, lambda key, line, course: (key, course is None), with_key=True),
    KStream[str, tuple[str, bool]],
)
assert_type(
    lines.join(courses, Priced, Joined.with_(text, line_serde, course_serde, grace_period=timedelta(seconds=1))),
    KStream[str, Priced],
)

# a stream with a stream
soon = JoinWindows.of_time_difference_and_grace(timedelta(minutes=5), 1000)
course_changes = courses.to_stream()
assert_type(course_changes, KStream[str, Course])
assert_type(lines.join(course_changes, Priced, soon), KStream[str, Priced])
assert_type(lines.left_join(course_changes, price, soon), KStream[str, Priced])
assert_type(
    lines.outer_join(course_changes, lambda line, course: (line is None, course is None), soon),
    KStream[str, tuple[bool, bool]],
)
assert_type(
    lines.join(
        course_changes,
        lambda key, line, course: key + line.course + course.title,
        soon,
        StreamJoined.with_(text, line_serde, course_serde).with_name("priced"),
        with_key=True,
    ),
    KStream[str, str],
)

# groups and tables
grouped = parsed.group_by_key(Grouped.with_(text, line_serde))
assert_type(grouped, KGroupedStream[str, Line])
assert_type(grouped.count(), KTable[str, int])
assert_type(grouped.reduce(lambda old, line: line if line.cents > old.cents else old), KTable[str, Line])
assert_type(grouped.aggregate(lambda: 0, lambda key, line, total: total + line.cents), KTable[str, int])
assert_type(parsed.group_by(lambda key, line: line.cents).count(), KTable[int, int])
assert_type(parsed.to_table(Materialized.with_(text, line_serde)), KTable[str, Line])

table = parsed.to_table()
assert_type(table.filter(lambda key, line: line.cents > 0), KTable[str, Line])
assert_type(table.map_values(lambda line: line.cents), KTable[str, int])
assert_type(table.to_stream(), KStream[str, Line])
assert_type(table.to_stream(lambda key, line: line.cents), KStream[int, Line])
by_course = table.group_by(lambda key, line: (line.course, line.cents))
assert_type(by_course, KGroupedTable[str, int])
assert_type(by_course.count(), KTable[str, int])

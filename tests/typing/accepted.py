"""What type checkers infer for the fluent API. Never run: ``test_inference`` has mypy and basedpyright check it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import assert_type

from headrace import (
    BufferConfig,
    CogroupedKStream,
    Consumed,
    EmitStrategy,
    FixedKeyProcessor,
    FixedKeyRecord,
    GlobalKTable,
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
    Processor,
    Produced,
    Record,
    Serde,
    Serdes,
    SessionWindowedKStream,
    SessionWindows,
    SlidingWindows,
    StreamJoined,
    StreamsBuilder,
    Suppressed,
    TableJoined,
    TimeWindowedKStream,
    TimeWindows,
    UnlimitedWindows,
    Windowed,
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


def add_cents(key: str, line: Line, total: int) -> int:
    return total + line.cents


def add_length(key: str, value: str, total: int) -> int:
    return total + len(value)


def set_of_courses() -> set[str]:
    return set()


def add_course(key: str, line: Line, courses: set[str]) -> set[str]:
    return courses | {line.course}


def either_course(key: str, one: set[str], other: set[str]) -> set[str]:
    return one | other


class ByCents(Processor[str, Line, int, str]):
    def process(self, record: Record[str, Line]) -> None:
        self.context.forward(Record(record.value.cents, record.value.course, record.timestamp))


class Titles(FixedKeyProcessor[str, Line, str]):
    def process(self, record: FixedKeyRecord[str, Line]) -> None:
        self.context.forward(record.with_value(record.value.course))


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
assert_type(by_course.reduce(lambda total, cents: total + cents, lambda total, cents: total - cents), KTable[str, int])

# windows
tumbling = grouped.windowed_by(TimeWindows.of_size_with_no_grace(timedelta(hours=1)))
assert_type(tumbling, TimeWindowedKStream[str, Line])
assert_type(tumbling.count(), KTable[Windowed[str], int])
assert_type(tumbling.emit_strategy(EmitStrategy.on_window_close()), TimeWindowedKStream[str, Line])
assert_type(tumbling.reduce(lambda old, line: line), KTable[Windowed[str], Line])
totals = tumbling.aggregate(lambda: 0.0, lambda key, line, total: total + line.cents / 100)
assert_type(totals, KTable[Windowed[str], float])
assert_type(totals.to_stream(), KStream[Windowed[str], float])
assert_type(totals.to_stream(lambda windowed, total: windowed.key), KStream[str, float])
assert_type(totals.to_stream().select_key(lambda windowed, total: windowed.window.start), KStream[int, float])
assert_type(totals.suppress(Suppressed.until_window_closes(BufferConfig.unbounded())), KTable[Windowed[str], float])
assert_type(
    grouped.windowed_by(SlidingWindows.of_time_difference_with_no_grace(1000)).count(), KTable[Windowed[str], int]
)
assert_type(grouped.windowed_by(UnlimitedWindows.of()).count(), KTable[Windowed[str], int])
sessions = grouped.windowed_by(SessionWindows.of_inactivity_gap_and_grace(1000, 100))
assert_type(sessions, SessionWindowedKStream[str, Line])
assert_type(sessions.aggregate(set_of_courses, add_course, either_course), KTable[Windowed[str], set[str]])

# several groups in one table
cogrouped = grouped.cogroup(add_cents).cogroup(raw.group_by_key(), add_length)
assert_type(cogrouped, CogroupedKStream[str, int])
assert_type(cogrouped.aggregate(lambda: 0), KTable[str, int])
assert_type(
    cogrouped.windowed_by(TimeWindows.of_size_with_no_grace(1000)).aggregate(lambda: 0), KTable[Windowed[str], int]
)

# tables with tables
assert_type(table.join(courses, Priced), KTable[str, Priced])
assert_type(table.left_join(courses, price), KTable[str, Priced])
assert_type(
    table.outer_join(courses, lambda line, course: (line is None, course is None)), KTable[str, tuple[bool, bool]]
)
assert_type(
    table.join(
        courses, Priced, foreign_key_extractor=lambda line: line.course, table_joined=TableJoined.as_("by-course")
    ),
    KTable[str, Priced],
)
assert_type(table.left_join(courses, price, foreign_key_extractor=lambda line: line.course), KTable[str, Priced])

# a stream with a global table, whose keys are others
prices = builder.global_table("prices", Consumed.with_(Serdes.Integer(), course_serde))
assert_type(prices, GlobalKTable[int, Course])
assert_type(lines.join(prices, lambda key, line: line.cents, Priced), KStream[str, Priced])
assert_type(
    lines.left_join(prices, lambda key, line: line.cents, lambda key, line, course: key, with_key=True),
    KStream[str, str],
)

# processors
assert_type(lines.process(ByCents), KStream[int, str])
assert_type(lines.process_values(Titles), KStream[str, str])

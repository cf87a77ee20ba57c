"""Functions of the wrong type. Never run: both type checkers must refuse each line marked ``refused``, and no other."""

from __future__ import annotations

from dataclasses import dataclass

from headrace import (
    BufferConfig,
    Consumed,
    Joined,
    JoinWindows,
    JsonSerde,
    KStream,
    KTable,
    Materialized,
    Printed,
    Processor,
    Produced,
    Record,
    Serde,
    Serdes,
    SessionWindows,
    StreamJoined,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
)


@dataclass(frozen=True)
class Line:
    course: str
    cents: int


@dataclass(frozen=True)
class Course:
    title: str


def line_length(line: Line) -> int:
    return len(line.course)


def with_course(line: Line, course: Course) -> str:
    return line.course + course.title


def with_number(line: Line, course: int) -> str:
    return line.course * course


def add_cents(key: str, line: Line, total: int) -> int:
    return total + line.cents


class ByCents(Processor[str, Line, int, str]):
    def process(self, record: Record[str, Line]) -> None:
        self.context.forward(Record(record.value.cents, record.value.course, record.timestamp))


text: Serde[str] = Serdes.String()
line_serde: Serde[Line] = JsonSerde(Line)
builder = StreamsBuilder()
lines = builder.stream("lines", Consumed.with_(text, line_serde))
names = builder.stream("names", Consumed.with_(text, text))
courses: KTable[str, Course] = builder.table("courses", Consumed.with_(text, JsonSerde(Course)))
changes = courses.to_stream()
prices = builder.global_table("prices", Consumed.with_(Serdes.Integer(), JsonSerde(Course)))
soon = JoinWindows.of_time_difference_with_no_grace(1000)

# one record at a time
names.map_values(line_length)  # refused: the value is a str
lines.map_values(line_length, with_key=True)  # refused: the key is missing
lines.filter(lambda key: key == "a")  # refused: the value is missing
lines.map(lambda key, line: line.course)  # refused: a pair is wanted
lines.flat_map_values(line_length)  # refused: an int is no iterable
lines.merge(names)  # refused: other values
wrong: KStream[str, int] = lines.map_values(lambda line: line.course)  # refused: the values are str

# topics
lines.to("out", Produced.with_(text, text))  # refused: the serde of another type
lines.print(Printed[str, str]())  # refused: printed as other values

# joins
lines.join(courses, with_number)  # refused: the table's values are no numbers
lines.left_join(courses, with_course)  # refused: the course may be None
lines.join(changes, with_course)  # refused: windows are missing
lines.join(changes, with_number, soon)  # refused: the other values are no numbers
lines.left_join(changes, with_course, soon)  # refused: the course may be None
lines.outer_join(changes, lambda line, course: line.cents, soon)  # refused: the line may be None
lines.join(changes, with_course, soon, StreamJoined.with_(text, text, text))  # refused: serdes of another type
lines.join(courses, with_course, Joined.with_(text, text))  # refused: the serde of another type
lines.join(courses, with_course, soon)  # refused: a table has no windows
lines.outer_join(courses, with_course, soon)  # refused: a table is not joined so

# groups and tables
grouped = lines.group_by_key()
grouped.reduce(lambda old, line: line.cents)  # refused: a line is wanted
grouped.aggregate(lambda: "", lambda key, line, total: total + line.cents)  # refused: the aggregate is a str
grouped.count(Materialized.with_(text, text))  # refused: counts are numbers
lines.to_table(Materialized.with_(text, text))  # refused: the serde of another type
courses.map_values(line_length)  # refused: the values are courses
courses.filter(lambda key, course: course.price > 0)  # refused: no such field

# windows
windowed = grouped.windowed_by(TimeWindows.of_size_with_no_grace(1000))
windowed.count().to_stream(lambda key, count: key.upper())  # refused: the key is windowed
windowed.reduce(lambda old, line: line.course)  # refused: a line is wanted
windowed.count(Materialized.with_(text, text))  # refused: counts are numbers
sessions = grouped.windowed_by(SessionWindows.of_inactivity_gap_with_no_grace(5))
sessions.aggregate(int, add_cents)  # refused: nothing merges sessions
grouped.windowed_by(soon)  # refused: windows of joins
windowed.count().suppress(Suppressed.until_window_closes(BufferConfig.max_records(5)))  # refused: emits early

# tables with tables
table = lines.to_table()
table.left_join(courses, with_course)  # refused: the course may be None
table.join(courses, with_course, foreign_key_extractor=lambda line: line.cents)  # refused: keys are texts
table.group_by(lambda key, line: line.course)  # refused: a pair is wanted

# a global table, several groups, processors
lines.join(prices, lambda key, line: line.course, with_course)  # refused: its keys are numbers
grouped.cogroup(add_cents).cogroup(names.group_by_key(), add_cents)  # refused: values of another type
names.process(ByCents)  # refused: a processor of lines

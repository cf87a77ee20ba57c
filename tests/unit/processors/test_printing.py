"""What a printed stream looks like, and where."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unit.engine.harness import Bench

from headrace import Consumed, Named, Printed, Serdes, StreamsBuilder
from headrace.testing.driver import TopologyTestDriver

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from headrace import KStream

TEXT = Serdes.String()


def _stream(builder: StreamsBuilder) -> KStream[str, str]:
    return builder.stream("in", Consumed.with_(TEXT, TEXT)).filter(lambda key, value: True, Named.as_("kept"))


def _pipe(builder: StreamsBuilder, *rows: tuple[str | None, str | None]) -> None:
    with TopologyTestDriver(builder.build()) as driver:
        topic = driver.create_input_topic("in", TEXT.serializer, TEXT.serializer)
        for row in rows:
            topic.pipe_input(*row)


def test_the_label_is_the_name_of_the_node_that_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    builder = StreamsBuilder()
    _stream(builder).print(Printed.to_sys_out())
    _pipe(builder, ("a", "1"), (None, None))
    assert capsys.readouterr().out == "[kept]: a, 1\n[kept]: None, None\n"


def test_label_text_and_name_are_the_users(capsys: pytest.CaptureFixture[str]) -> None:
    builder = StreamsBuilder()
    printed: Printed[str, str] = Printed.to_sys_out()
    _stream(builder).print(
        printed.with_label("lines").with_key_value_mapper(lambda key, value: f"{value} of {key}").with_name("printer")
    )
    assert "Processor: printer (stores: [])" in builder.build().describe()
    _pipe(builder, ("a", "1"))
    assert capsys.readouterr().out == "[lines]: 1 of a\n"


def test_a_printer_without_a_name_takes_a_number() -> None:
    builder = StreamsBuilder()
    _stream(builder).print(Printed.to_sys_out())
    assert "Processor: KSTREAM-PRINTER-0000000002 (stores: [])" in builder.build().describe()


def test_a_file_has_a_line_as_soon_as_its_record_is_processed(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    builder = StreamsBuilder()
    _stream(builder).print(Printed.to_file(path))
    with TopologyTestDriver(builder.build()) as driver:
        topic = driver.create_input_topic("in", TEXT.serializer, TEXT.serializer)
        topic.pipe_input("ä", "1")
        assert path.read_text(encoding="utf-8") == "[kept]: ä, 1\n"
        topic.pipe_input("b", "2")
    assert path.read_text(encoding="utf-8") == "[kept]: ä, 1\n[kept]: b, 2\n"


def test_a_task_that_starts_again_goes_on_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    builder = StreamsBuilder()
    _stream(builder).print(Printed.to_file(path))
    _pipe(builder, ("a", "1"))
    _pipe(builder, ("b", "2"))
    assert path.read_text(encoding="utf-8") == "[kept]: a, 1\n[kept]: b, 2\n"


def test_a_task_that_closes_before_it_runs_leaves_no_file_open(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    builder = StreamsBuilder()
    _stream(builder).print(Printed.to_file(path))
    path.unlink()
    bench = Bench(builder.build(), run=False)
    bench.task.close()
    assert not path.exists(), "it was opened"

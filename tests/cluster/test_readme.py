"""The second example of the README, which runs the first one's topology against a broker."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cluster.instances import wait_until

from headrace.serdes import StringDeserializer
from headrace.topics import LatestByKey, TopicWriter

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.conftest import TopicFactory

README = Path(__file__).parents[2] / "README.md"


def test_the_example_in_code_counts_on_a_broker(
    bootstrap_servers: str, topic_factory: TopicFactory, unique: Callable[[str], str], tmp_path: Path
) -> None:
    first, second = re.findall(r"^```python\n(.*?)^```$", README.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    lines, counts = topic_factory("lines"), topic_factory("counts")

    def meanwhile() -> None:
        with TopicWriter(bootstrap_servers) as writer:
            writer.send(lines, None, b"to be or not to be")
        expected = {"to": "2", "be": "2", "or": "1", "not": "1"}
        with LatestByKey(bootstrap_servers, counts, StringDeserializer(), StringDeserializer()) as table:
            wait_until(lambda: table.poll(0.2) is not None and dict(table.values) == expected, "the words are counted")

    def put(text: str, old: str, new: str) -> str:
        assert text.count(old) == 1, old
        return text.replace(old, new)

    namespace: dict[str, Any] = {"meanwhile": meanwhile}
    begun = put(first, 'builder.stream("lines"', f'builder.stream("{lines}"').partition("with TopologyTestDriver")[0]
    second = put(
        second, '"localhost:9092"', f'"{bootstrap_servers}", "state.dir": {str(tmp_path)!r}, "commit.interval.ms": 100'
    )
    second = put(second, '"word-count"', f'"{unique("word-count")}"')
    exec(put(begun, '.to("counts"', f'.to("{counts}"'), namespace)
    exec(put(second, "    ...\n", "    meanwhile()\n"), namespace)
    namespace["main"]()

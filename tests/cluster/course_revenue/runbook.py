"""The commands of the application's pages, each run as it stands there but for its names.

``SECTIONS`` is the runbook: by title, the commands of its ``sh`` blocks. A scenario runs those of one section, or of
another page, in order, with the test's brokers, topics and file in place of the page's, and is not over before all ran.
"""

from __future__ import annotations

import re
import shlex
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from cluster.course_revenue.product import command
from cluster.instances import Instance as AnyInstance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from cluster.course_revenue.product import Instance, Product

APPLICATION: Final = Path(__file__).parents[3] / "apps" / "course_revenue"
PAGE: Final = APPLICATION / "docs" / "runbook.md"
_BLOCK: Final = re.compile(r"^```sh\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_TOOLS: Final = {
    "kafka-acls.sh": "org.apache.kafka.tools.AclCommand",
    "kafka-configs.sh": "org.apache.kafka.tools.ConfigCommand",
    "kafka-consumer-groups.sh": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-get-offsets.sh": "org.apache.kafka.tools.GetOffsetShell",
}


def _sections() -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for part in re.split(r"^## ", PAGE.read_text("utf-8"), flags=re.MULTILINE)[1:]:
        commands = [line for block in _BLOCK.findall(part) for line in block.splitlines() if line.strip()]
        if commands:
            found[part.partition("\n")[0]] = tuple(commands)
    return found


SECTIONS: Final = _sections()


class Scenario:
    """Runs the commands of one section. A context manager, whose end they must have reached.

    Args:
        title: the section's, or the page's.
        product: whose brokers and topics stand for the page's.
        instance: whose file stands for ``app.properties``; ``course-revenue run`` starts it.
        tools: runs a class of Kafka's jars.
        names: more words of the page, and what stands for them here.
        commands: those of another page.
    """

    def __init__(
        self,
        title: str,
        product: Product,
        instance: Instance,
        tools: Callable[..., str],
        names: dict[str, str] | None = None,
        commands: Iterable[str] | None = None,
    ) -> None:
        self._left = list(SECTIONS[title] if commands is None else commands)
        self._title, self._instance, self._tools = title, instance, tools
        topics = product.topics
        self._names = {
            **(names or {}),
            "course-revenue-course-revenue-changelog": product.changelog,
            "course-revenue-KSTREAM": f"{product.application_id}-KSTREAM",
            "commerce.purchase_line": topics["lines"],
            "commerce.courses": topics["courses"],
            "kafka-1:9092": product.bootstrap,
            "127.0.0.1:8080": f"127.0.0.1:{instance.config.get('headrace.http.port')}",
        }
        self._group = product.application_id

    def run(
        self,
        expected: str,
        code: int = 0,
        at: tuple[int, int] | None = None,
        starts: Instance | None = None,
        more: Iterable[str] = (),
    ) -> str:
        """The next command, which must begin with ``expected``; returns what it said.

        Args:
            expected: its beginning, so that a scenario can be read.
            code: the exit code that it must have.
            at: a partition and an offset in place of the page's.
            starts: which instance ``course-revenue run`` starts, if another one.
            more: options that make it a short one.
        """
        program, *given = self._next(expected)
        given += more
        if at is not None:
            given[given.index("--partition") + 1], given[given.index("--offset") + 1] = map(str, at)
        if program == "curl":
            return get(given[-1])
        if program in _TOOLS:
            assert code == 0
            return self._tools(_TOOLS[program], *given)
        assert program == "course-revenue", f"no scenario knows {program}"
        if "--config" not in given:
            return command(self._instance, *given, code=code, configured=False)
        self._take_config(given)
        if given[0] == "run":
            settings = dict(setting.split("=", 1) for setting in given[2::2])
            (starts or self._instance).start(**{key.replace(".", "_"): value for key, value in settings.items()})
            return ""
        return command(self._instance, *given, code=code)

    def beside(self, expected: str, *more: str) -> AnyInstance:
        """The next command, which goes on until it is stopped, as a process that was started."""
        program, *given = self._next(expected)
        assert program == "course-revenue"
        self._take_config(given)
        arguments, name = ("-m", "course_revenue", *given, *more), f"{given[0]}-{len(self._left)}"
        return AnyInstance(name, self._instance.directory, arguments, self._instance.config).start()

    def _next(self, expected: str) -> list[str]:
        assert self._left, f"{self._title} has no more commands, {expected} is expected"
        line = self._left.pop(0)
        assert line.startswith(expected), f"{self._title}: the next command is {line}"
        program, *arguments = shlex.split(line, comments=True)
        return [program, *map(self._here, arguments)]

    @staticmethod
    def _take_config(given: list[str]) -> None:
        where = given.index("--config")
        assert given[where + 1] == "app.properties"
        del given[where : where + 2]

    def _here(self, argument: str) -> str:
        if argument == "course-revenue":
            return self._group
        for word, instead in self._names.items():
            argument = argument.replace(word, instead)
        return argument

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            assert not self._left, f"{self._title}: not run: {self._left}"


def get(url: str) -> str:
    """What is answered there, or why nothing is."""
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as refused:
        return str(refused.read().decode())
    except urllib.error.URLError as nobody:
        return str(nobody.reason)

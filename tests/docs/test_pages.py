"""The pages below docs/ and the README: their examples run and print what they say, and they are complete.

A page is one Python session: its ``python`` blocks run in order in one namespace, and what a block prints is the
``text`` block that follows it. A ``pyi`` block of an operator's page holds signatures, one a line.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
import pkgutil
import re
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_overloads

import pytest

import headrace
import headrace.dsl
import headrace.errors
import headrace.testing
from headrace.testing import MockProcessorContext, TestInputTopic, TestOutputTopic, TopologyTestDriver

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
OPERATORS = DOCS / "operators"
PAGES = sorted([*DOCS.rglob("*.md"), ROOT / "README.md"])
OPERATOR_PAGES = sorted(path for path in OPERATORS.glob("*.md") if path.name != "README.md")

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[\w-]*)?\)")
_METHOD = re.compile(r"\b([A-Z]\w+)\.(\w+)\b")
_HANDLE = re.compile(r"(KStream|KTable|KGroupedStream|KGroupedTable|StreamsBuilder)$")


class Block(NamedTuple):
    """A fenced block of a page."""

    language: str
    text: str
    line: int
    """Number of its first line in the page."""


def blocks(text: str) -> list[Block]:
    """The fenced blocks of a page, in order."""
    return [Block(m[1], m[2], text.count("\n", 0, m.start(2)) + 1) for m in _FENCE.finditer(text)]


def run(path: Path) -> Iterator[tuple[Block, str, str | None]]:
    """Run a page: each python block with what it printed and what the page says that it prints."""
    page = blocks(path.read_text(encoding="utf-8"))
    namespace: dict[str, Any] = {"__name__": "page"}
    for block, after in zip_longest(page, page[1:]):
        if block.language != "python":
            continue
        # blank lines before it give tracebacks the page's own line numbers
        code = compile("\n" * (block.line - 1) + block.text, str(path), "exec", dont_inherit=True)
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(code, namespace)
        yield block, printed.getvalue(), after.text if after is not None and after.language == "text" else None


def name_of(path: Path) -> str:
    """A page's name in the report."""
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", [p for p in PAGES if "```python\n" in p.read_text(encoding="utf-8")], ids=name_of)
def test_examples_print_what_the_page_says(path: Path) -> None:
    for block, printed, said in run(path):
        assert printed.rstrip() == (said or "").rstrip(), f"{name_of(path)}, the example in line {block.line}"


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_links_lead_somewhere(path: Path) -> None:
    targets = _LINK.findall(_FENCE.sub("", path.read_text(encoding="utf-8")))
    assert [t for t in targets if "://" not in t and not (path.parent / t).exists()] == []


def public(cls: type) -> set[str]:
    """Names of a class that are there for users."""
    return {name for name in dir(cls) if not name.startswith("_")}


# the operators


def handles() -> dict[str, type]:
    """The classes whose methods are operators."""
    modules = (importlib.import_module(f"headrace.dsl.{m.name}") for m in pkgutil.iter_modules(headrace.dsl.__path__))
    return {
        name: member
        for module in modules
        for name, member in vars(module).items()
        if isinstance(member, type) and _HANDLE.search(name) and not name.startswith("_")
    }


def methods(cls: type) -> dict[str, Any]:
    """The methods of a handle that are there for users."""
    return {
        name: method
        for name, method in inspect.getmembers(cls, callable)
        if not name.startswith("_") and "For the library's own use" not in (method.__doc__ or "")
    }


def operators() -> set[str]:
    """``Class.method`` of every operator."""
    return {f"{name}.{method}" for name, cls in handles().items() for method in methods(cls)}


def title(path: Path) -> str:
    """First line of a page."""
    return path.read_text(encoding="utf-8").partition("\n")[0]


def described(path: Path) -> set[str]:
    """``Class.method`` of every operator in the title of a page."""
    return {f"{m[1]}.{m[2]}" for m in _METHOD.finditer(title(path))}


def signatures(method: Any) -> set[str]:
    """The signature of a method, and those of its overloads, without types."""
    texts = set[str]()
    for function in (method, *get_overloads(method)):
        parameters = list(inspect.signature(function).parameters.values())
        plain = [p.replace(annotation=inspect.Parameter.empty) for p in parameters if p.name not in {"self", "cls"}]
        texts.add(str(inspect.Signature(plain)))
    return texts


def test_every_operator_has_a_page() -> None:
    assert operators() - {name for path in OPERATOR_PAGES for name in described(path)} == set()


@pytest.mark.parametrize("path", OPERATOR_PAGES, ids=name_of)
def test_the_page_of_an_operator_is_of_one_that_is_there(path: Path) -> None:
    named = described(path)
    assert named, "the title names a method with its class, such as KStream.map"
    assert named <= operators()
    assert {name.split(".")[0].lower() for name in named} == {path.stem.split("-")[0]}


@pytest.mark.parametrize("path", OPERATOR_PAGES, ids=name_of)
def test_the_page_of_an_operator_has_its_signature_an_example_and_java_s_name(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    page = blocks(text)
    lines = [line for block in page if block.language == "pyi" for line in block.text.splitlines()]
    for line in lines:
        head, _, result = line.partition(" -> ")
        name, bracket, parameters = head.partition("(")
        assert result, line
        method = methods(handles()[name.split(".")[0]])[name.split(".")[1]]
        assert bracket + parameters in signatures(method), line
        names = re.findall(r"(\w+)(?:=[^,)]+)?[,)]", parameters)
        assert [name for name in names if f"`{name}`" not in text and name != "with_key"] == [], line
    assert {line.partition("(")[0] for line in lines} >= described(path)
    assert [b.language for b in page if b.language != "pyi"][:2] == ["python", "text"]
    assert "\n## In Java\n" in text


@pytest.mark.parametrize("path", OPERATOR_PAGES, ids=name_of)
def test_the_index_lists_the_page(path: Path) -> None:
    assert f"]({path.name})" in (OPERATORS / "README.md").read_text(encoding="utf-8")


# the other pages


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("errors.md", {name for name, member in vars(headrace.errors).items() if isinstance(member, type)}),
        ("processor-api.md", public(headrace.ProcessorContext) | public(headrace.Processor)),
        ("serdes.md", public(headrace.Serdes)),
        ("stores.md", public(headrace.Stores)),
        ("testing.md", {*headrace.testing.__all__} - {"CapturedForward", "CapturedPunctuator"}),
        ("testing.md", public(TopologyTestDriver) | public(TestInputTopic) | public(TestOutputTopic)),
        ("testing.md", public(MockProcessorContext) - public(headrace.ProcessorContext) - {"state_dir"}),
        ("windows.md", {name for name in headrace.__all__ if name.endswith("Windows")}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_a_page_leaves_nothing_out(page: str, names: set[str]) -> None:
    words = set(re.findall(r"\w+", (DOCS / page).read_text(encoding="utf-8")))
    assert names - words == set()


def test_the_entry_lists_every_page() -> None:
    entry = (DOCS / "README.md").read_text(encoding="utf-8")
    assert [
        path.name for path in DOCS.glob("*.md") if path.name != "README.md" and f"]({path.name})" not in entry
    ] == []

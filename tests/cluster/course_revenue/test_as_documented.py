"""The commands of the application's README and pages, given as they stand there, in order, by somebody who tries it."""

from __future__ import annotations

import re
import signal
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cluster.course_revenue.product import START_MS, lines, wait_until
from cluster.course_revenue.runbook import APPLICATION, Scenario, get
from course_revenue import headers
from course_revenue.headers import Place

from headrace.testing.processes import free_port
from headrace.topics import TopicWriter

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.course_revenue.product import Product
    from cluster.instances import Instance as AnyInstance

HERE: Final = Path(__file__).parent
README: Final = APPLICATION / "README.md"
PAGES: Final = [README, *sorted(path for path in (APPLICATION / "docs").glob("*.md") if path.stem != "runbook")]

ELSEWHERE: Final = {
    "make run": ("../test_demo.py", "demo"),
    "course-revenue reconcile --config app.properties --postgres": ("test_reconcile.py", '"--postgres", server.dsn'),
    "course-revenue skip-record": ("test_runbook.py", 'run("course-revenue skip-record"'),
    "course-revenue rebuild --config app.properties --dry-run": ("test_rebuild.py", '"rebuild", "--dry-run"'),
    "course-revenue rebuild --config app.properties --shadow --switch": ("test_killed_rebuilds.py", '"--switch"'),
    "course-revenue rebuild --config app.properties --shadow": ("test_shadow.py", '"rebuild", "--shadow"'),
    "course-revenue rebuild --config app.properties": ("test_rebuild.py", '"rebuild", "--yes"'),
    "course-revenue rehearse --config": ("../security/test_course_revenue.py", '"rehearse", "--minutes"'),
    "course-revenue rehearse": ("test_rehearse.py", '"rehearse", "--minutes"'),
}
"""What takes longer, or needs more, by its beginning: which test gives it."""


def given(page: Path) -> list[str]:
    """The commands of a page: in its blocks of code, and in the README's numbered table."""
    text = page.read_text("utf-8")
    blocks = re.findall(r"^```(?:sh)?\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    out = [line for block in blocks for line in block.splitlines() if line.startswith(("course-revenue ", "make "))]
    return out + re.findall(r"^\| \d \| `(course-revenue [^`]+)`", text, re.MULTILINE)


def here(page: Path) -> list[str]:
    """Those that the scenario below gives."""
    return [line for line in given(page) if not any(line.startswith(beginning) for beginning in ELSEWHERE)]


def test_what_is_not_given_here_is_given_by_another_test() -> None:
    everything = [line for page in PAGES for line in given(page)]
    assert len(everything) > 20
    for beginning, (file, words) in ELSEWHERE.items():
        assert any(line.startswith(beginning) for line in everything), f"no page has {beginning}"
        assert words in (HERE / file).read_text("utf-8"), f"{file} does not give {beginning}"


def test_the_product_is_tried_from_its_pages(product: Product, kafka_tools: Callable[..., str], tmp_path: Path) -> None:
    a = product.instance("a", course_revenue_on_broken_line="reject")
    a.configure()
    running: list[AnyInstance] = []
    names = {
        "DIR": str(tmp_path / "first"),
        "/lake/course_revenue": str(tmp_path / "second"),
        "8090": str(free_port()),
        "2026-11-30T08:00:00Z": datetime(2100, 1, 1, tzinfo=UTC).isoformat(),
        "3:4711": "0:0",
        "3:4712": "0:1",
    }

    def scenario(page: Path) -> Scenario:
        return Scenario(page.name, product, a, kafka_tools, names, here(page))

    def stopped(process: AnyInstance) -> None:
        process.signal(signal.SIGTERM)
        assert process.exit_code() == 0, process.tail()

    def shown(dashboard: AnyInstance, port: int | str) -> None:
        running.append(dashboard)
        wait_until(
            lambda: '"ready":true' in get(f"http://127.0.0.1:{port}/ready"), "the page is there", detail=dashboard.tail
        )

    def landed(lake: AnyInstance, table: str) -> None:
        log = Path(names[table]) / "_delta_log"
        running.append(lake)
        wait_until(lambda: len(list(log.glob("*.json"))) > 1, "totals are landed", detail=lake.tail)
        stopped(lake)

    try:
        with scenario(README) as first:
            assert f"exists: {product.topics['lines']}" in first.run("course-revenue topics")
            assert "the job may run: nothing is refused" in first.run("course-revenue check")
            first.run("course-revenue run")
            loaded = first.run("course-revenue load", more=("--lines", "300", "--courses", "10"))
            watch = product.watch()
            count = int(re.findall(r"loaded (\d+) lines", loaded)[0])
            watch.wait_for(count, "what was loaded", a.tail)
            port = free_port([int(names["8090"])])
            shown(first.beside("course-revenue dashboard", "--port", str(port)), port)
            assert "0 different" in first.run("course-revenue reconcile")
            landed(first.beside("course-revenue lake", "--every", "0.5"), "DIR")
        with scenario(APPLICATION / "docs" / "dashboard.md") as page:
            shown(page.beside("course-revenue dashboard"), names["8090"])
        with scenario(APPLICATION / "docs" / "lake.md") as lake:
            landed(lake.beside("course-revenue lake", "--every", "0.5"), "/lake/course_revenue")
            lake.run("course-revenue lake")
            assert len(lake.run("course-revenue lake totals").splitlines()) == len(watch.latest()) + 2
            lake.run("course-revenue lake")
        with scenario(APPLICATION / "docs" / "reconcile.md") as books:
            books.run("course-revenue reconcile")
            assert "0 different" in books.run("course-revenue reconcile")
            assert (a.directory / "report.csv").exists()
        with scenario(APPLICATION / "docs" / "operations.md") as operations:
            rejected(product)
            assert "2 of them not replayed" in operations.run("course-revenue rejected list")
            assert "dry run" in operations.run("course-revenue rejected replay")
            operations.run("course-revenue rejected replay")
        watch.wait_for(count + 2, "the lines that were replayed", a.tail)
        with scenario(APPLICATION / "docs" / "security.md") as security:
            assert "--operation Read" in security.run("course-revenue acls")
            assert "--transactional-id" in security.run("course-revenue acls")
            assert "--remove" in security.run("course-revenue acls")
        a.stop()
        for process in running[:1] + running[2:3]:
            stopped(process)
    finally:
        for process in running:
            process.end()


def rejected(product: Product) -> None:
    """Two lines in the rejected topic that the job's release takes by now."""
    with TopicWriter(product.bootstrap) as writer:
        for number, line in enumerate(lines(2, "course-late")):
            source = headers.source_headers(Place(product.topics["lines"], 1, number))
            writer.send(
                product.topics["rejected"],
                line.key,
                line.value,
                timestamp_ms=START_MS,
                headers=[(headers.REASON, b"unknown_line_type"), *source],
                partition=0,
            )

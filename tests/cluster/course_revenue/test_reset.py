"""The application reset tool against a product that ran: same totals again, and nobody else is touched."""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from cluster.course_revenue.product import lines

if TYPE_CHECKING:
    from cluster.course_revenue.conftest import ProductFactory
    from cluster.course_revenue.product import Instance, Product


def reset(instance: Instance, *options: str, code: int) -> str:
    """``headrace reset`` with the instance's configuration; returns what it said."""
    command = [
        "-c",
        "from headrace.cli import main; main()",
        "reset",
        "--config",
        str(instance.directory / "app.properties"),
    ]
    topology = ["--topology", "course_revenue.topology:build"]
    done = subprocess.run(
        [sys.executable, *command, *topology, *options], capture_output=True, text=True, timeout=180, check=False
    )
    said = done.stdout + done.stderr
    assert done.returncode == code, said
    return said


def everything(product: Product) -> Any:
    """All that a reset could change on the brokers for one application."""
    topics = [name for name in product.admin.topics() if name.startswith(f"{product.application_id}-")]
    ends = {name: product.admin.offsets(name) for name in (*topics, product.topics["output"])}
    return product.admin.committed(product.application_id), ends


def test_a_reset_leads_to_the_same_totals_and_touches_no_other_id(product_factory: ProductFactory) -> None:
    ours = product_factory()
    other = product_factory(application_id=f"{ours.application_id}-b", inputs_of=ours)
    ours.load(2_000)
    watch, other_watch = ours.watch(), other.watch()
    # the brokers keep a killed member for longer than the test takes
    a = ours.instance("a", session_timeout_ms=300_000).start()
    b = other.instance("a", statestore_cache_max_bytes=0).start()
    for one in (watch, other_watch):
        one.wait_for(2_000, "both count the lines", lambda: ours.tails() + other.tails())
    b.stop()
    totals = watch.latest()
    assert totals == ours.sums.totals()
    untouched = everything(other)

    said = reset(a, code=1)
    assert "active members" in said
    assert a.running
    a.kill()
    before = everything(ours)
    assert "active members" in reset(a, "--dry-run", code=1)
    assert "--force" in reset(a, "--dry-run", "--force", code=2)
    reset(a, code=1)
    assert everything(ours)[1].keys() == before[1].keys()
    assert everything(ours)[0] == before[0]

    said = reset(a, "--force", code=0)
    assert "remove the members" in said
    internal = {name for name in ours.admin.topics() if name.startswith(f"{ours.application_id}-")}
    assert internal == {name for name in internal if name.startswith(f"{other.application_id}-")}
    committed = ours.admin.committed(ours.application_id)
    assert {topic for topic, _ in committed} == {ours.topics["lines"], ours.topics["courses"]}
    assert {offset for offset, _ in committed.values()} == {0}
    assert everything(other) == untouched

    shutil.rmtree(a.state_dir)
    watch.anew()
    a.start(session_timeout_ms=6_000)
    watch.wait_for(2_000, "the totals once more", ours.tails)
    assert watch.latest() == totals

    b.start()
    line = list(lines(1, "course-after-reset"))
    ours.send(line)
    for record in line:
        other.sums.add(record.value)
    other_watch.wait_for(2_001, "the other one goes on", other.tails)
    watch.wait_for(2_001, "ours goes on", ours.tails)
    assert other_watch.latest() == ours.sums.totals() == watch.latest()
    b.stop()
    # without a cache one output record a line: it has processed nothing again
    assert len(other.admin.read(other.topics["output"], "read_uncommitted")) == 2_001

    # with nobody active a dry run says what it would do, and does nothing
    a.stop()
    before = everything(ours)
    said = reset(a, "--dry-run", code=0)
    assert f"delete topic {ours.changelog}" in said
    assert everything(ours) == before

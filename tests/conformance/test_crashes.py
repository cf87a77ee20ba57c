"""Recorded cases once more, with the instance killed in the commit after every record: nothing comes out differently.

Operators that keep stream time in memory (windows, suppress, joins of two streams or with a grace period) are left out:
there, as in the Java library, what counts as late is decided anew after a restart. So are stores that lose something by
design: least recently used ones, plain ones that hold no timestamps, those without a changelog, cached ones with a
retention (their expired rows can be read for as long as the cache has them), and processors that keep something of
their own (schedules, buffers, open iterators). So is what the plain driver alone skips, as Java's does, where an
instance stops: bytes of a global table that do not decode.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headrace.testing import TopologyTestDriver
from headrace.testing.conformance import case_names
from headrace.testing.conformance.runner import Run, case_config
from headrace.testing.conformance.steps import Steps

ROOT = Path(__file__).parents[2] / "conformance"
FORGETFUL = (
    *('"windowedBy"', '"suppress"', '"diff_ms"', '"grace_ms"', '"lru"', '"plain"', '"logging": false'),
    *('"ticks"', '"buffer"', '"walk"', '"times"', "advance_wall_clock_ms"),
)
SKIPPED_BY_THE_PLAIN_DRIVER = ("extra/global_bad_bytes",)
EVERY = 9


def suitable(name: str) -> bool:
    text = (ROOT / "cases" / f"{name}.json").read_text(encoding="utf-8")
    if (
        name in SKIPPED_BY_THE_PLAIN_DRIVER
        or any(word in text for word in FORGETFUL)
        or not json.loads(text).get("inputs")
    ):
        return False
    if '"retention_ms"' in text and '"caching": true' in text:
        return False
    return "error" not in json.loads((ROOT / "expected" / f"{name}.json").read_text(encoding="utf-8"))


NAMES = [name for name in case_names(ROOT / "cases") if suitable(name)][::EVERY]


def outcome(name: str, how: str) -> Any:
    """Outputs, records of internal topics and store rows; ``how`` each record is committed."""
    case = json.loads((ROOT / "cases" / f"{name}.json").read_text(encoding="utf-8"))
    wanted = json.loads((ROOT / "expected" / f"{name}.json").read_text(encoding="utf-8"))
    config = case_config(case)
    topology = Steps(config, at_construction=case.get("topology_config", False)).build(case["steps"])
    instance = "0"
    with TopologyTestDriver(
        topology, config, case.get("wall_clock_start_ms", 0), partitions=1, instances=0, commit_every_record=False
    ) as driver:
        driver.start_instance(instance)
        run = Run(driver, case, wanted)
        for at, record in enumerate(case["inputs"]):
            assert run.feed(record) is None
            # a commit for each sub-topology that the record passes, and one behind the last
            for _ in range(len(wanted["subtopologies"]["groups"]) + 1):
                if how == "commit":
                    driver.commit()
                    continue
                driver.kill_instance(instance, during_commit=True)
                if how == "lost directory":
                    instance = f"{int(instance) + 1}"
                driver.start_instance(instance)
            run.drain(at)
        driver.commit()
        stores = {name: sorted(map(str, run.rows(store))) for name, store in driver.get_all_state_stores().items()}
        return run.outputs, run.internal, stores


@pytest.mark.parametrize("name", NAMES)
def test_a_crash_after_every_record_changes_nothing(name: str) -> None:
    undisturbed = outcome(name, "commit")
    assert outcome(name, "kept directory") == undisturbed
    assert outcome(name, "lost directory") == undisturbed

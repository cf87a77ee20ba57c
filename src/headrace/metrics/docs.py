"""The tables of every metric for ``docs/metrics.md``, written from the catalog.

``python -m headrace.metrics.docs`` prints them; a test compares.
"""

from __future__ import annotations

import sys
from itertools import groupby

from headrace.metrics.catalog import CATALOG


def metric_tables() -> str:
    """A table for each group and set of tags, as Markdown."""
    parts: list[str] = []
    rows = sorted(CATALOG.values(), key=lambda row: row.group)
    for group, members in groupby(rows, key=lambda row: row.group):
        parts += [
            f"### {group}",
            "",
            "| metric | tags | level | unit | what it tells |",
            "| --- | --- | --- | --- | --- |",
        ]
        parts += [
            f"| `{row.name}` | {', '.join(row.tags)} | {row.level.name} | {row.unit} | {row.about} |" for row in members
        ]
        parts.append("")
    return "\n".join(parts)


if __name__ == "__main__":
    sys.stdout.write(metric_tables())

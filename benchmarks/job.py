"""The course-revenue job as the benchmark runs it: the product's topology, and a mark when the first record is read.

Arguments are ``key=value``: settings of the product (``course.revenue.…``) and of Kafka Streams. Ends on SIGTERM.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from course_revenue.contract import select_course
from course_revenue.settings import Settings, without_product_keys
from course_revenue.topology import build_topology

from headrace import StreamsConfig
from headrace.cli.common import log_to_stderr, read_properties
from headrace.tools.service import run_until_stopped

if TYPE_CHECKING:
    from course_revenue.model import LineKey, PurchaseLine

_seen = False


def _marking_select(key: LineKey | None, line: PurchaseLine | None) -> str:
    # the Java job's selector pays for the same test of a flag on every line
    global _seen  # noqa: PLW0603  # a marker of the whole process, as in the Java job
    if not _seen:
        _seen = True
        print(f"FIRST_RECORD {time.time_ns() // 1_000_000}", flush=True)
    return select_course(key, line)


def main() -> int:
    """Runs until SIGTERM."""
    print(f"PROCESS_START {time.time_ns() // 1_000_000}", flush=True)
    log_to_stderr("info")
    properties = read_properties(None, sys.argv[1:])
    config = StreamsConfig.load(without_product_keys(properties))
    topology = build_topology(Settings.of(properties), config.values(), select=_marking_select)
    return run_until_stopped(topology, config)


if __name__ == "__main__":
    sys.exit(main())

"""show.py TEXT... [-i]: prints the cases whose path contains TEXT.

Inputs with the outputs that each caused; with -i also the records of internal topics.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

EXPECTED = Path(__file__).parent / "expected"


def shown(record: dict[str, Any]) -> str:
    """One record on one line."""
    key, value = json.dumps(record.get("key")), json.dumps(record.get("value"))
    text = f"{record.get('topic')} {key}={value}@{record.get('timestamp')}"
    return f"{text} {record['headers']}" if record.get("headers") else text


def show(case: dict[str, Any], internal: bool) -> None:
    """One case: its name, then every input with what came of it."""
    print("##", case["name"], "-", case["topology"], case["config"], "dropped", case.get("dropped_records"))
    for at, given in enumerate(case["inputs"]):
        print("  ", shown(given) if "topic" in given else given)
        for out in case["outputs"]:
            if out["at"] == at:
                print("        ->", shown(out))
        for topic, records in case.get("internal_topics", {}).items() if internal else ():
            for out in records:
                if out["at"] == at:
                    print(
                        "        ..",
                        topic,
                        out["key_hex"],
                        out["value_hex"],
                        out["timestamp"],
                        out.get("headers_hex", ""),
                    )
    if "error" in case:
        print("   ERROR", case["error"]["at"], [(c["type"], c["message"]) for c in case["error"]["chain"]][-1])


if __name__ == "__main__":
    wanted = [text for text in sys.argv[1:] if text != "-i"]
    for path in sorted(EXPECTED.rglob("*.json")):
        if any(text in str(path) for text in wanted):
            show(json.loads(path.read_text(encoding="utf-8")), "-i" in sys.argv)

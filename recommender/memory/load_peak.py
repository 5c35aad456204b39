"""What of the 16-bit weights a GPU holds at once while an engine makes FP8 of them, by its version."""

from __future__ import annotations

import csv
from functools import lru_cache
from pathlib import Path

from recommender.memory.support import Version, version_numbers

HELD = {
    "all": "all of them before they shrink",
    "both": "all of them beside what they shrink to",
    "layer": "one layer of them at a time",
}
"""What `held_while_loading` gives, in words."""


def held_while_loading(engine: str, engine_version: str) -> str:
    """All | both | layer, as load_peaks.csv has it with its sources; an engine that is not there holds all."""
    number = version_numbers(engine_version)
    known = [held for since, held in _rows().get(engine, ()) if since <= number]
    return known[-1] if known else "all"


@lru_cache(maxsize=1)
def _rows() -> dict[str, list[tuple[Version, str]]]:
    found: dict[str, list[tuple[Version, str]]] = {}
    with Path(__file__).with_name("load_peaks.csv").open(newline="", encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            found.setdefault(row["engine"], []).append((version_numbers(row["engine_from"]), row["held"]))
    return found

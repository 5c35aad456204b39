"""When an engine version came out, and how far that is from the date the constants stand for."""

from __future__ import annotations

import csv
import re
from datetime import date
from functools import lru_cache

from recommender.errors import NotModelledError
from recommender.speed.families import DATA

ENGINES = ("vllm", "sglang", "tensorrt-llm")
REFERENCE = date(2026, 1, 1)
"""The date that years are counted from: amid the measurements."""
EARLIEST_YEARS, LATEST_YEARS = -0.9, 0.3
"""The range of the measurements, 2025-02 to 2026-04: overheads are not extrapolated beyond it."""
_DAYS = 365.25
_NUMBER = re.compile(r"\d+")


def years_after_reference(day: date) -> float:
    """Years from the reference date, within the range of the measurements."""
    return min(max((day - REFERENCE).days / _DAYS, EARLIEST_YEARS), LATEST_YEARS)


def released(engine: str, version: str) -> date | None:
    """When that version, or the last known one before it, came out; None for versions older than all of them."""
    number = _number(version)
    known = [(found, day) for found, day in _releases(engine) if found <= number]
    return max(known)[1] if known and number else None


def check_engine(engine: str) -> None:
    """Refuse engines that nothing was measured on."""
    if engine not in ENGINES:
        raise NotModelledError(f"serving speed of {engine!r} is not modelled: {' | '.join(ENGINES)}")


def _number(version: str) -> tuple[int, ...]:
    release = re.split(r"[a-z+]", version.removeprefix("v").replace(".post", "+"), maxsplit=1)[0]
    return tuple(int(part) for part in _NUMBER.findall(release))


@lru_cache(maxsize=8)
def _releases(engine: str) -> tuple[tuple[tuple[int, ...], date], ...]:
    with (DATA / "releases.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["engine"] == engine]
    return tuple((_number(row["version"]), date.fromisoformat(row["date"])) for row in rows)

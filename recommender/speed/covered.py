"""What the constants were fitted on: how far each engine and model family was measured, and when."""

from __future__ import annotations

import csv
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from recommender.speed.candidates import Candidates, Float
from recommender.speed.dates import released, years_after_reference
from recommender.speed.families import DATA
from recommender.speed.measurements import Measurement

_ANY = "all"
ROUNDING = 1.001
"""By how much a figure may exceed the largest measured one: published lengths are rounded."""


@dataclass(frozen=True, slots=True)
class Covered:
    """The measurements of one engine and model family. `years` is the median age of the engine, after the reference."""

    years: float
    concurrency: float  # the most on one replica
    prompt_tokens: float
    output_tokens: float
    measurements: int

    def beyond(self, prompt_tokens: float, output_tokens: float, concurrency: float) -> tuple[str, ...]:
        """What of a configuration lies beyond what was measured, in words."""
        asked = (
            ("requests at once on one replica", concurrency, self.concurrency),
            ("prompt tokens", prompt_tokens, self.prompt_tokens),
            ("output tokens", output_tokens, self.output_tokens),
        )
        return tuple(
            f"{value:,.0f} {what}: nothing above {most:,.0f} was measured for this engine and kind of model"
            for what, value, most in asked
            if value > most * ROUNDING
        )


def covered_by(measured: Sequence[Measurement], families: Mapping[str, str]) -> dict[tuple[str, str], Covered]:
    """What was measured by (engine, model family), and by (engine, all). `families` is by model."""
    rows: dict[tuple[str, str], list[Measurement]] = {}
    for each in measured:
        for family in (families[each.model], _ANY):
            rows.setdefault((each.engine, family), []).append(each)
    return {key: _covered(found) for key, found in sorted(rows.items())}


def _covered(rows: Sequence[Measurement]) -> Covered:
    return Covered(
        years=statistics.median(each.years for each in rows),
        concurrency=max(each.concurrency / each.replicas for each in rows),
        prompt_tokens=max(each.prompt_tokens for each in rows),
        output_tokens=max(each.output_tokens for each in rows),
        measurements=len(rows),
    )


def covered(engine: str, family: str) -> Covered:
    """What was measured of a family on an engine; of all families where that one was not."""
    known = shipped_covered()
    return known.get((engine, family)) or known[engine, _ANY]


@dataclass(frozen=True, slots=True)
class Reach:
    """One row per candidate: the most that was measured for its engine and kind of model."""

    concurrency: Float
    prompt_tokens: Float
    output_tokens: Float


def reach_of(rows: Candidates) -> Reach:
    """How far each candidate's kind was measured."""
    pairs = [[covered(engine, shape.family) for shape in rows.shapes] for engine in rows.engines]
    at = rows.engine, rows.shape
    concurrency, prompts, outputs = (
        np.array([[getattr(each, name) for each in row] for row in pairs])[at]
        for name in ("concurrency", "prompt_tokens", "output_tokens")
    )
    return Reach(concurrency, prompts, outputs)


def engine_years(engine: str, version: str | None, family: str) -> float:
    """Age of an engine version, after the reference; of the ones that were measured where no version is given."""
    if version is None:
        return covered(engine, family).years
    day = released(engine, version)
    return years_after_reference(day) if day is not None else covered(engine, family).years


def write_covered(path: Path, found: Mapping[tuple[str, str], Covered]) -> None:
    """Write what was measured as a table."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("engine", "family", "years", "concurrency", "prompt_tokens", "output_tokens", "measurements"))
        for key, each in found.items():
            numbers = (f"{value:g}" for value in (each.concurrency, each.prompt_tokens, each.output_tokens))
            writer.writerow((*key, f"{each.years:.4f}", *numbers, each.measurements))


@lru_cache(maxsize=1)
def shipped_covered() -> dict[tuple[str, str], Covered]:
    """What the shipped constants were fitted on."""
    with (DATA / "covered.csv").open(encoding="utf-8", newline="") as file:
        return {
            (row["engine"], row["family"]): Covered(
                years=float(row["years"]),
                concurrency=float(row["concurrency"]),
                prompt_tokens=float(row["prompt_tokens"]),
                output_tokens=float(row["output_tokens"]),
                measurements=int(row["measurements"]),
            )
            for row in csv.DictReader(file)
        }

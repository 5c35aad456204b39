"""Measured over predicted, where somebody measured: the level of one GPU, model, engine and dtype.

Within such a group the ratio hardly depends on lengths, concurrency or parallel sizes, so one run corrects all plans.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from recommender.speed.candidates import Bool, Candidates, Float, Int
from recommender.speed.families import DATA
from recommender.speed.steady import Steady

Key = tuple[str, str, str, str]

TPOT_NOISE, TTFT_NOISE = 0.4, 1.5
"""Variance of a ratio between runs of one group, over its variance between groups: n runs move the prediction by
n / (n + noise) of their mean ratio (measured rows, docs/accuracy-speed.md)."""
FARTHEST = math.log(4)
"""A ratio beyond four is not a level: speculative decoding, prefix caching, or another model than stated."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """Mean logarithm of measured over predicted in the runs of one group; TTFT None where none was usable.

    `based_on` is what was published of the group before: a run of one's own corrects that, not the bare constants.
    """

    gpu: str
    model: str
    engine: str
    weights: str
    tpot_log: float
    ttft_log: float | None
    runs: int
    source: str
    based_on: Anchor | None = None

    @property
    def key(self) -> Key:
        """What it applies to."""
        return self.gpu, self.model, self.engine, self.weights

    @property
    def tpot_level(self) -> float:
        """Logarithm of what times per output token are multiplied by."""
        before = self.based_on.tpot_level if self.based_on else 0.0
        return before + (self.tpot_log - before) * self.runs / (self.runs + TPOT_NOISE)

    @property
    def ttft_level(self) -> float:
        """Logarithm of what times to the first token are multiplied by."""
        before = self.based_on.ttft_level if self.based_on else 0.0
        measured = before if self.ttft_log is None else self.ttft_log
        return before + (measured - before) * self.runs / (self.runs + TTFT_NOISE)

    @property
    def all_runs(self) -> int:
        """Runs of the group, published ones and one's own."""
        return self.runs + (self.based_on.all_runs if self.based_on else 0)


@dataclass(frozen=True, slots=True)
class Factors:
    """One row per candidate: what predictions are multiplied by, and how many runs say so (0: none)."""

    tpot: Float
    ttft: Float
    runs: Int

    def where(self, mask: Bool | Int) -> Factors:
        """The rows that `mask` picks."""
        return Factors(self.tpot[mask], self.ttft[mask], self.runs[mask])


def factors_of(rows: Candidates, anchors: Mapping[Key, Anchor]) -> Factors:
    """The factors of each candidate; 1 where nothing of its group was measured."""
    size = (len(rows.gpus), len(rows.shapes), len(rows.engines))
    tpot, ttft, runs = np.ones(size), np.ones(size), np.zeros(size, dtype=np.int64)
    for g, gpu in enumerate(rows.gpus):
        for s, shape in enumerate(rows.shapes):
            for e, engine in enumerate(rows.engines):
                anchor = anchors.get((gpu.name, shape.model, engine, shape.weights))
                if anchor is not None:
                    tpot[g, s, e] = math.exp(anchor.tpot_level)
                    ttft[g, s, e] = math.exp(anchor.ttft_level)
                    runs[g, s, e] = anchor.all_runs
    at = (rows.gpu, rows.shape, rows.engine)
    return Factors(tpot[at], ttft[at], runs[at])


def apply(steady: Steady, factors: Factors, rows: Candidates) -> Steady:
    """Predictions with the factors on them; throughput and queue follow from both times."""
    output = np.maximum(rows.output_tokens, 1.0)
    before = steady.ttft_s + (output - 1) * steady.tpot_s
    tpot, ttft = steady.tpot_s * factors.tpot, steady.ttft_s * factors.ttft
    slower = (ttft + (output - 1) * tpot) / before
    return replace(
        steady,
        ttft_s=ttft,
        tpot_s=tpot,
        queue_s=steady.queue_s * slower,
        output_tokens_per_s=steady.output_tokens_per_s / slower,
    )


def by_key(anchors: Iterable[Anchor]) -> dict[Key, Anchor]:
    """Anchors by what they apply to; runs of one group are put together."""
    found: dict[Key, Anchor] = {}
    for anchor in anchors:
        found[anchor.key] = _merged(found[anchor.key], anchor) if anchor.key in found else anchor
    return found


def _merged(first: Anchor, second: Anchor) -> Anchor:
    runs = first.runs + second.runs
    timed = [each for each in (first, second) if each.ttft_log is not None]
    ttft_runs = sum(each.runs for each in timed)
    return replace(
        first,
        tpot_log=(first.tpot_log * first.runs + second.tpot_log * second.runs) / runs,
        ttft_log=sum((each.ttft_log or 0.0) * each.runs for each in timed) / ttft_runs if timed else None,
        runs=runs,
        source="; ".join(sorted({first.source, second.source})),
    )


def read_anchors(path: Path) -> dict[Key, Anchor]:
    """The anchors of a table."""
    with path.open(encoding="utf-8", newline="") as file:
        return by_key(
            Anchor(
                gpu=row["gpu"],
                model=row["model"],
                engine=row["engine"],
                weights=row["weights"],
                tpot_log=math.log(float(row["tpot_ratio"])),
                ttft_log=math.log(float(row["ttft_ratio"])) if row["ttft_ratio"] else None,
                runs=int(row["runs"]),
                source=row["source"],
            )
            for row in csv.DictReader(file)
        )


def write_anchors(path: Path, anchors: Sequence[Anchor]) -> None:
    """Write anchors as a table, sorted."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("gpu", "model", "engine", "weights", "tpot_ratio", "ttft_ratio", "runs", "source"))
        for each in sorted(anchors, key=lambda anchor: anchor.key):
            ttft = "" if each.ttft_log is None else f"{math.exp(each.ttft_log):.4f}"
            writer.writerow((*each.key, f"{math.exp(each.tpot_log):.4f}", ttft, each.runs, each.source))


@lru_cache(maxsize=1)
def shipped_anchors() -> dict[Key, Anchor]:
    """The anchors that travel with the package."""
    return read_anchors(DATA / "anchors.csv")

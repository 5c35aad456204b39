"""A user's own benchmarks against what was predicted for them, and by how much they move the figures."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from recommender.catalog.catalog import Catalog
from recommender.errors import Fault, InputError
from recommender.speed.anchors import Anchor, by_key
from recommender.speed.benchmarks.read import read_runs
from recommender.speed.own import anchor_of
from recommender.speed.setup import Setup


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One result file. Ratios are measured over what was predicted before it was known, means over its runs.

    `tpot_ms` is the measured time per output token, the middle of its runs; `ttft_ratio` is None where no time to the
    first token is usable: all requests were sent at once, or some waited for a place.
    """

    file: str
    runs: int
    tpot_ms: float
    tpot_ratio: float
    ttft_ratio: float | None
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Benchmarked:
    """All files of a user together: `anchor` is what figures are moved by, the factors by how much."""

    benchmarks: tuple[Benchmark, ...]
    anchor: Anchor

    @property
    def tpot_factor(self) -> float:
        """What every time per output token of this GPU and model is now multiplied by."""
        before = self.anchor.based_on
        return math.exp(self.anchor.tpot_level - (before.tpot_level if before else 0.0))

    @property
    def ttft_factor(self) -> float:
        """What every time to the first token is now multiplied by."""
        before = self.anchor.based_on
        return math.exp(self.anchor.ttft_level - (before.ttft_level if before else 0.0))


def benchmarked(files: Sequence[Path], setup: Setup, catalog: Catalog) -> Benchmarked:
    """What the result files of a setup say. Raises InputError with what is wrong with any of them."""
    found, faults = list[tuple[Benchmark, Anchor]](), list[Fault]()
    twice = {path.resolve() for path in files if [each.resolve() for each in files].count(path.resolve()) > 1}
    faults += [Fault("is given twice: a run counts once", str(path)) for path in sorted(twice)]
    for path in files:
        try:
            found.append(_benchmark(path, setup, catalog))
        except InputError as error:
            faults += error.faults
    if faults:
        raise InputError(dict.fromkeys(faults))
    (anchor,) = by_key(anchor for _, anchor in found).values()
    return Benchmarked(tuple(benchmark for benchmark, _ in found), anchor)


def _benchmark(path: Path, setup: Setup, catalog: Catalog) -> tuple[Benchmark, Anchor]:
    runs = read_runs(path)
    anchor, warnings = anchor_of(runs, setup, catalog, str(path))
    before = anchor.based_on
    tpot, ttft = (before.tpot_level, before.ttft_level) if before else (0.0, 0.0)
    found = Benchmark(
        file=str(path),
        runs=anchor.runs,
        tpot_ms=statistics.median(run.tpot_ms for run in runs),
        tpot_ratio=math.exp(anchor.tpot_log - tpot),
        ttft_ratio=None if anchor.ttft_log is None else math.exp(anchor.ttft_log - ttft),
        warnings=warnings,
    )
    return found, anchor

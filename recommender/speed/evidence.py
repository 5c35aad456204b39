"""How well a prediction is founded, and how far off such predictions were: the band."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from pathlib import Path

import numpy as np

from recommender.speed.anchors import Factors
from recommender.speed.candidates import Candidates, Float, Int
from recommender.speed.constants import Constants
from recommender.speed.families import DATA

SEVERAL_RUNS = 3
METRICS = ("tpot", "ttft", "output_tokens_per_s")


class Evidence(IntEnum):
    """The class of a prediction, best founded first."""

    ANCHORED = 0  # this GPU, model, engine and dtype was measured, several times
    ANCHORED_ONCE = 1  # the same, in one or two runs
    KNOWN_MODEL = 2  # models of its family were measured on its engine, on other GPUs
    KNOWN_GPU = 3  # other models were measured on GPUs of its family
    UNKNOWN = 4  # neither

    @property
    def words(self) -> str:
        """The class in words."""
        return _WORDS[self]


def weakest(found: Iterable[str]) -> str:
    """The least founded of some classes, in words."""
    order = {words: evidence for evidence, words in _WORDS.items()}
    return max(found, key=lambda words: order[words])


_WORDS = {
    Evidence.ANCHORED: "anchored",
    Evidence.ANCHORED_ONCE: "anchored by few runs",
    Evidence.KNOWN_MODEL: "known model",
    Evidence.KNOWN_GPU: "known GPU only",
    Evidence.UNKNOWN: "unknown",
}


@dataclass(frozen=True, slots=True)
class Bands:
    """Quantiles of measured over predicted by class and metric: `levels` ascending, `ratios[class, metric, level]`."""

    levels: tuple[float, ...]
    ratios: Float

    def ratio(self, evidence: Int, metric: str, level: float) -> Float:
        """Measured over predicted that a share `level` of such predictions stayed below."""
        table = self.ratios[:, METRICS.index(metric), :]
        found = np.array([np.interp(level, self.levels, row) for row in table])
        return found[evidence]


def evidence_of(rows: Candidates, constants: Constants, factors: Factors) -> Int:
    """The class of each candidate."""
    gpus = np.array([constants.known("gpu_family", gpu.family) for gpu in rows.gpus])[rows.gpu]
    pairs = [
        [constants.known("engine+model_family", f"{engine}+{each.family}") for each in rows.shapes]
        for engine in rows.engines
    ]
    models = np.array(pairs)[rows.engine, rows.shape]
    known = np.where(gpus & models, Evidence.KNOWN_MODEL, np.where(gpus, Evidence.KNOWN_GPU, Evidence.UNKNOWN))
    once = np.where(factors.runs > 0, Evidence.ANCHORED_ONCE, known)
    return np.where(factors.runs >= SEVERAL_RUNS, Evidence.ANCHORED, once).astype(np.int64)


def read_bands(path: Path) -> Bands:
    """The bands of a table: a row per class, metric and level."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    levels = tuple(sorted({float(row["level"]) for row in rows}))
    ratios = np.full((len(Evidence), len(METRICS), len(levels)), np.nan)
    names = [each.words for each in Evidence]
    for row in rows:
        at = names.index(row["evidence"]), METRICS.index(row["metric"]), levels.index(float(row["level"]))
        ratios[at] = float(row["measured_over_predicted"])
    return Bands(levels, ratios)


@dataclass(frozen=True, slots=True)
class Errors:
    """Logarithms of predicted over measured, and what each counts."""

    logs: Float
    weights: Float

    def quantile(self, level: float) -> float:
        """The error below which a share `level` of the weight lies."""
        order = np.argsort(self.logs, kind="stable")
        share = np.cumsum(self.weights[order])
        return float(np.interp(level, (share - self.weights[order] / 2) / share[-1], self.logs[order]))


def write_bands(path: Path, levels: Sequence[float], errors: Mapping[tuple[Evidence, str], Errors]) -> None:
    """Write the quantiles of the errors of each class and metric."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("evidence", "metric", "level", "measured_over_predicted", "predictions"))
        for (evidence, metric), found in sorted(errors.items()):
            for level in levels:
                ratio = np.exp(-found.quantile(1 - level))
                writer.writerow((evidence.words, metric, level, f"{ratio:.4f}", len(found.logs)))


@lru_cache(maxsize=1)
def shipped_bands() -> Bands:
    """The bands that travel with the package."""
    return read_bands(DATA / "bands.csv")

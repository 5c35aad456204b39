"""Cross-validation: what the constants say of (GPU, model) groups that were not among what they were fitted on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from recommender.speed.anchors import factors_of
from recommender.speed.candidates import Bool, Float, Int
from recommender.speed.constants import Parameter
from recommender.speed.evidence import evidence_of
from recommender.speed.fit import Data, fitted, residuals
from recommender.speed.measurements import Measurement

FOLDS = 4
REPEATS = 5
"""Deals of the groups over folds: figures of one deal differ by a point from those of another."""


@dataclass(frozen=True, slots=True)
class Unseen:
    """Predictions of rows that constants had not seen: residuals 3 x rows, the class they were made under."""

    errors: Float
    evidence: Int


def folds_of(measured: Sequence[Measurement], deal: int, folds: int = FOLDS) -> Int:
    """The fold of each row: groups, largest first, are dealt out `folds` at a time in shuffled order."""
    sizes: dict[tuple[str, str], int] = {}
    for each in measured:
        sizes[each.group] = sizes.get(each.group, 0) + 1
    ordered = sorted(sizes, key=lambda group: (-sizes[group], group))
    random = np.random.default_rng(deal)
    fold: dict[tuple[str, str], int] = {}
    for start in range(0, len(ordered), folds):
        dealt = random.permutation(folds)
        fold |= {group: int(dealt[place]) for place, group in enumerate(ordered[start : start + folds])}
    return np.array([fold[each.group] for each in measured])


def unseen(data: Data, parameters: Sequence[Parameter], fold: Int) -> Unseen:
    """Each row under constants fitted on the other folds, as old as the engines those were fitted on."""
    errors = np.full(data.logs.shape, np.nan)
    evidence = np.zeros(len(data.rows), dtype=np.int64)
    for held_out in np.unique(fold):
        test = fold == held_out
        constants = fitted(data.where(~test), parameters)
        seen = data.where(test)
        seen = replace(seen, rows=replace(seen.rows, years=_usual_years(data, ~test, test)))
        errors[:, test] = residuals(seen, constants)
        evidence[test] = evidence_of(seen.rows, constants, factors_of(seen.rows, {}))
    return Unseen(errors, evidence)


def _usual_years(data: Data, train: Bool, test: Bool) -> Float:
    """What is assumed of the engine's age where no version is given: the median by engine and family, or by engine."""
    codes = data.levels.codes["engine+model_family"]
    years = data.rows.years
    usual = np.zeros(len(years))
    for engine in np.unique(data.rows.engine[test]):
        same = train & (data.rows.engine == engine)
        usual[data.rows.engine == engine] = np.median(years[same]) if same.any() else 0.0
    names = np.array(data.levels.names["engine+model_family"])[codes]
    for name in np.unique(names[test]):
        same = train & (names == name)
        if same.any():
            usual[names == name] = np.median(years[same])
    return usual[test]

"""Cross-validation: what the constants say of (GPU, model) groups that were not among what they were fitted on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from recommender.speed.candidates import Float, Int
from recommender.speed.constants import Parameter
from recommender.speed.fit import Data, fitted, residuals
from recommender.speed.measurements import Measurement

FOLDS = 4
REPEATS = 5
"""Deals of the groups over folds: figures of one deal differ by a point from those of another."""


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


def unseen_residuals(data: Data, parameters: Sequence[Parameter], fold: Int) -> Float:
    """Residuals of every row under constants fitted on the other folds: 3 x rows."""
    found = np.full(data.logs.shape, np.nan)
    for held_out in _folds(fold):
        test = fold == held_out
        found[:, test] = residuals(data.where(test), fitted(data.where(~test), parameters))
    return found


def _folds(fold: Int) -> Iterator[int]:
    return iter(np.unique(fold).tolist())

"""Quantiles of what many requests in flight hold together: powers of one request's law, by fast Fourier transform."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from recommender.workload.approximations import cornish_fisher
from recommender.workload.law import Float, Int, Law
from recommender.workload.poisson import poisson_mean

_BINS = 1024
"""Points of one request's law: laws up to 16,384 tokens (blocks of 16) are exact, longer ones within 0.07 % of exact
(shipped traces, 10 to 200 requests, risks of 5 % to 0.1 %)."""
_WRAPPED = 1e-4  # of the risk: probability that may fall outside the transform's window and wrap around
_LONGEST_SUM = 4096
"""Requests beyond which Cornish-Fisher takes over (it errs by less than 0.02 % there), joined where they meet."""

_EVERY = 64
_NODES = np.unique(np.ceil(_EVERY * 1.02 ** np.arange(491)).astype(np.int64))

Complex = NDArray[np.complex128]


@dataclass(frozen=True, slots=True, eq=False)
class Sum:
    """Sums of independent requests with the same law; `risk` is the share of engine steps that may need more."""

    law: Law
    risk: float
    _grid: Float = field(init=False)
    _step: int = field(init=False)
    _transforms: dict[int, Complex] = field(init=False, default_factory=dict)
    _known: dict[tuple[int, bool], int] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        grid, step = _coarse(self.law.pmf)
        object.__setattr__(self, "_grid", grid)
        object.__setattr__(self, "_step", step)

    def quantile(self, requests: int) -> int:
        """The fewest blocks that `requests` requests at once exceed in at most `risk` of the steps."""
        if requests <= 0:
            return 0
        if requests > _LONGEST_SUM:
            return self._far_quantile(requests)
        low, size = self._window(requests, poisson=False)
        held = np.fft.irfft(self._transform(size) ** requests, size)
        return min(self._read(held, low), requests * self.law.top)

    def poisson_quantile(self, mean_requests: float) -> int:
        """The same where the number in flight is random, Poisson with this mean."""
        if mean_requests <= 0:
            return 0
        low, size = self._window(mean_requests, poisson=True)
        held = np.fft.irfft(np.exp(mean_requests * (self._transform(size) - 1)), size)
        return self._read(held, low)

    def quantiles(self, requests: Int, *, poisson: bool = False) -> Int:
        """The quantile of each number of requests at once, for the search: never falls as requests rise.

        With `poisson` the number is random, and as high on average as it may be to exceed `requests` only at the risk.
        Beyond 64 requests it is read off a line between numbers 2 % apart, which lies above it by a block or two.
        """
        counts, back = np.unique(requests, return_inverse=True)
        above = np.minimum(np.searchsorted(_NODES, counts), len(_NODES) - 1)
        low, high = _NODES[np.maximum(above - 1, 0)], _NODES[above]
        exact = (counts <= _EVERY) | (counts >= _NODES[-1]) | (counts == high)
        at_low = np.array([self._kept(int(n), poisson) for n in np.where(exact, counts, low)], dtype=np.int64)
        at_high = np.array([self._kept(int(n), poisson) for n in np.where(exact, counts, high)], dtype=np.int64)
        part = np.where(exact, 0.0, (counts - low) / np.maximum(high - low, 1))
        between = np.ceil(at_low + part * (at_high - at_low)).astype(np.int64) + 1
        needs: Int = np.where(exact, at_low, np.minimum(between, at_high))
        return needs[back]

    def _kept(self, requests: int, poisson: bool = False) -> int:
        key = requests, poisson
        if key not in self._known:
            self._known[key] = (
                self.poisson_quantile(poisson_mean(requests, self.risk)) if poisson else self.quantile(requests)
            )
        return self._known[key]

    def _transform(self, size: int) -> Complex:
        if size not in self._transforms:
            self._transforms[size] = np.fft.rfft(self._grid, size)
        return self._transforms[size]

    def _window(self, requests: float, *, poisson: bool) -> tuple[int, int]:
        """Where the sum lies but for a negligible share of the risk (Bernstein's inequality): first point and size."""
        points = np.arange(len(self._grid))
        mean, square = float(self._grid @ points), float(self._grid @ points**2)
        spread = square if poisson else square - mean * mean
        rarity, top = math.log(1 / (_WRAPPED * self.risk)), len(self._grid) - 1
        above = top / 3 * rarity + math.sqrt((top / 3 * rarity) ** 2 + 2 * requests * spread * rarity)
        below = math.sqrt(2 * requests * square * rarity)
        first = max(0, math.floor(requests * mean - below))
        last = math.ceil(requests * mean + above)
        if not poisson:
            last = min(last, int(requests) * top)
        return first, 1 << math.ceil(math.log2(max(last - first, top) + 1))

    def _read(self, wrapped: Float, first: int) -> int:
        """The quantile from probabilities that lie around a circle and begin at grid point `first`."""
        held = np.clip(np.roll(wrapped, -(first % len(wrapped))), 0.0, None)
        held = np.append(held, 0.0)
        beyond = np.cumsum(held[::-1])[::-1] - held
        if self._step == 1:
            return first + int(np.argmax(beyond <= self.risk))
        middle = beyond + held / 2  # a grid point stands for what lies around it: half of it lies beyond
        place = int(np.argmax(middle <= self.risk))
        fraction = 0.0
        if place > 0:
            fraction = (middle[place] - self.risk) / (middle[place - 1] - middle[place])
        return math.ceil((first + place + fraction) * self._step - 1e-6)

    def _far_quantile(self, requests: int) -> int:
        gap = self._kept(_LONGEST_SUM) - cornish_fisher(self.law, _LONGEST_SUM, self.risk)
        return min(math.ceil(cornish_fisher(self.law, requests, self.risk) + gap), requests * self.law.top)


def _coarse(pmf: Float) -> tuple[Float, int]:
    """The law on at most 1,025 points `step` apart (a power of two), each count split between its neighbours.

    The split keeps the mean, and keeps a law that is larger at every quantile larger; sums therefore stay in order.
    """
    top, step = len(pmf) - 1, 1
    while top > _BINS * step:
        step *= 2
    if step == 1:
        return pmf, 1
    counts = np.arange(len(pmf), dtype=np.int64)
    below, part = counts // step, counts % step / step
    points = -(-top // step) + 1
    split: Float = np.bincount(below, pmf * (1 - part), points).astype(np.float64)
    split += np.bincount(np.minimum(below + 1, points - 1), pmf * part, points)
    return split, step

"""Laws of one length (prompt or output) as cumulative functions, and how two of them make joint cells."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import NormalDist

from recommender.workload.lengths import Cell

Cumulative = Callable[[float], float]

_BINS = 96  # 4-13 % wide on real ranges: the in-flight quantile moves by less than 0.1 % against 384
_PARTS = 4  # points inside a bin that place its mean
_NEGLIGIBLE = 1e-9
_STANDARD = NormalDist()
STATED_SHARES = (0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9999)


@dataclass(frozen=True, slots=True)
class Marginal:
    """One length from `low` to `high` tokens; `cumulative(x)` is the share at most x, the ends take what is beyond."""

    low: int
    high: int
    cumulative: Cumulative

    def share(self, tokens: float) -> float:
        """The share of lengths at most `tokens`, for whole tokens."""
        if tokens < self.low:
            return 0.0
        return 1.0 if tokens >= self.high else min(max(self.cumulative(tokens + 0.5), 0.0), 1.0)

    def quantile(self, share: float) -> int:
        """The fewest whole tokens whose cumulative share is at least `share`."""
        span = range(self.low, self.high)
        return self.low + bisect_left(span, share - 1e-12, key=self.share)

    def atoms(self, count: int = _BINS) -> tuple[tuple[float, float, float, float], ...]:
        """(share, mean tokens, cumulative share below, cumulative share up to) of `count` consecutive bins."""
        edges = _edges(self.low - 1, self.high, count)
        bins = []
        for low, high in pairwise(edges):
            below, upto = self.share(low), self.share(high)
            if upto - below > 0:
                bins.append((upto - below, self._mean(low, high), below, upto))
        return tuple(bins)

    def _mean(self, low: int, high: int) -> float:
        """The mean of the whole tokens in (low, high]."""
        parts = _edges(low, high, _PARTS)
        shares = [self.share(edge) for edge in parts]
        mass = shares[-1] - shares[0]
        steps = zip(parts, parts[1:], shares, shares[1:], strict=False)
        return sum((b - a) * (lo + 1 + hi) / 2 for lo, hi, a, b in steps) / mass


def _edges(low: int, high: int, bins: int) -> list[int]:
    """Whole-token edges from low to high, evenly spaced in the logarithm (of one more than the length)."""
    ratio = (high + 1) / (low + 1)
    inner = {round((low + 1) * ratio ** (k / bins)) - 1 for k in range(1, bins)}
    return sorted({low, high} | {edge for edge in inner if low < edge < high})


def fixed(tokens: int) -> Marginal:
    """Every request has `tokens`."""
    return Marginal(tokens, tokens, lambda _: 1.0)


def uniform(low: int, high: int) -> Marginal:
    """Every whole number of tokens from low to high, equally often."""
    return Marginal(low, high, lambda x: (x - low + 0.5) / (high - low + 1))


def normal(mean: float, std_dev: float, low: int, high: int) -> Marginal:
    """A normal law whose values beyond low and high count at low and high."""
    return Marginal(low, high, NormalDist(mean, std_dev).cdf)


def lognormal(mu: float, sigma: float, low: int, high: int) -> Marginal:
    """A law whose logarithm is normal(mu, sigma); values beyond low and high count at low and high."""
    law = NormalDist(mu, sigma)
    return Marginal(low, high, lambda x: law.cdf(math.log(x)) if x > 0 else 0.0)


def through_quantiles(points: Sequence[tuple[int, float]], low: int) -> Marginal:
    """A law through (tokens, cumulative share) points, linear in the log of the length; the last share is 1."""
    tokens, shares = [low - 0.5], [0.0]
    for point, share in points:
        tokens.append(point + 0.5)
        shares.append(share)
    logs = [math.log(x) for x in tokens]
    return Marginal(low, points[-1][0], lambda x: _interpolate(math.log(x), logs, shares))


def through_buckets(edges: Sequence[int], counts: Sequence[float], low: int, mean: float | None = None) -> Marginal:
    """A law from counts per bucket (upper edges in tokens), from `low` on: even inside each bucket.

    Where the exact mean is known, lengths are moved up or down inside all buckets alike until theirs is the same.
    """
    total, running = sum(counts), 0.0
    tokens, shares = [low - 0.5], [0.0]
    for edge, count in zip(edges, counts, strict=True):
        running += count
        tokens.append(edge + 0.5)
        shares.append(running / total)
    used = [edge for edge, count in zip(edges, counts, strict=True) if count > 0]
    power = 1.0 if mean is None else _power(tokens, shares, mean)
    return Marginal(low, used[-1], lambda x: _interpolate(x, tokens, shares, power))


def _power(tokens: Sequence[float], shares: Sequence[float], mean: float) -> float:
    """The power p that gives the mean when a share u^p of a bucket lies below its part u (mean p / (p + 1))."""
    parts = [upto - below for below, upto in pairwise(shares)]
    lowest = sum(part * low for part, low in zip(parts, tokens, strict=False))
    width = sum(part * (high - low) for part, (low, high) in zip(parts, pairwise(tokens), strict=True))
    place = min(max((mean - lowest) / width, 0.02), 0.98)
    return place / (1 - place)


def _interpolate(x: float, xs: Sequence[float], ys: Sequence[float], power: float = 1.0) -> float:
    place = bisect_right(xs, x)
    if place == 0:
        return ys[0]
    if place == len(xs):
        return ys[-1]
    low, high = xs[place - 1], xs[place]
    part: float = ((x - low) / (high - low)) ** power
    return ys[place - 1] + (ys[place] - ys[place - 1]) * part


@dataclass(frozen=True, slots=True)
class Joint:
    """Prompt and output together. `correlation` is that of a Gaussian copula: 0 independent, 1 comonotone."""

    prompt: Marginal
    output: Marginal
    correlation: float = 0.0

    def cells(self) -> tuple[Cell, ...]:
        """Joint cells whose weights sum to 1 (up to cells too rare to matter)."""
        outputs = self.output.atoms()
        cells = []
        for share, tokens, below, upto in self.prompt.atoms():
            conditional = self._given(below, upto)
            for _, output_tokens, output_below, output_upto in outputs:
                weight = share * (conditional(output_upto) - conditional(output_below))
                if weight > _NEGLIGIBLE:
                    cells.append(Cell(weight, tokens, output_tokens))
        return tuple(cells)

    def totals(self) -> tuple[tuple[float, float], ...]:
        """(tokens, cumulative share) of prompt + output at the usual percentiles, from the laws and not from cells."""
        short, long = sorted((self.prompt, self.output), key=lambda law: law.high)  # bins of the shorter weigh less
        laws = [(share, tokens, self._given(below, upto)) for share, tokens, below, upto in short.atoms(2 * _BINS)]

        def share_of(total: int) -> float:
            return sum(share * given(long.share(total - tokens)) for share, tokens, given in laws)

        span = range(self.prompt.high + self.output.high)
        points = [(bisect_left(span, share, key=share_of), share) for share in STATED_SHARES]
        return tuple((float(tokens), share) for tokens, share in points)

    def _given(self, below: float, upto: float) -> Cumulative:
        """The cumulative share of one length's own law, given the other between two of its cumulative shares."""
        if self.correlation == 0:
            return lambda share: share
        if self.correlation >= 1:
            return lambda share: min(max((share - below) / (upto - below), 0.0), 1.0)
        if self.correlation <= -1:
            return lambda share: min(max((share - (1 - upto)) / (upto - below), 0.0), 1.0)
        centre = self.correlation * _STANDARD.inv_cdf((below + upto) / 2)
        scale = math.sqrt(1 - self.correlation**2)
        return lambda share: _STANDARD.cdf((_normal_score(share) - centre) / scale)


def _normal_score(share: float) -> float:
    if share <= 0:
        return -math.inf
    return math.inf if share >= 1 else _STANDARD.inv_cdf(share)

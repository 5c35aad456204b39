"""A random number of requests in flight: Poisson, as where many clients send without knowing of one another."""

from __future__ import annotations

import math

import numpy as np

_MOST_ROUNDS = 1000


def poisson_quantile(mean: float, risk: float) -> int:
    """The fewest requests that a Poisson number with this mean exceeds with probability at most `risk`; at least 1."""
    count, term, reached = 0, -mean, 0.0
    while True:
        reached += math.exp(term)
        if 1 - reached <= risk or (count > mean and math.exp(term) < 1e-18):
            return max(count, 1)
        count += 1
        term += math.log(mean / count) if mean > 0 else -math.inf


def poisson_mean(count: int, risk: float) -> float:
    """The largest mean, up to `count`, of a Poisson number that exceeds `count` with probability at most `risk`.

    A hair below, so that the quantile at that mean is `count`.
    """
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, count + 1)))])
    numbers = np.arange(count + 1)
    low, high, mean = 0.0, count + 1.0, (count + 1) / 2
    for _ in range(_MOST_ROUNDS):
        chances = np.exp(numbers * math.log(mean) - mean - logs)
        beyond = float(1 - chances.sum()) - risk  # its derivative is the chance of exactly `count`
        low, high = (low, mean) if beyond > 0 else (mean, high)
        following = mean - beyond / max(float(chances[-1]), 1e-300)
        following = following if low < following < high else (low + high) / 2
        if abs(following - mean) <= 1e-12 * mean:
            break
        mean = following
    return min(mean, count) * (1 - 1e-9)

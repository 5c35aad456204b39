"""The most requests in flight at which a service level still holds, as an exact integer, on the pessimistic side."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from recommender.errors import Fault, InputError
from recommender.speed.candidates import Bool, Float, Int
from recommender.speed.predict import HIGH, Prepared

TTFT_SIGMA = 0.37
"""Spread of the time to first token between requests, as the sigma of a log-normal: its 99th percentile is 2.2 times
its mean, which is the median of 101 MLPerf Inference v4.1 and v5.1 server runs (quartiles 2.0 and 2.8)."""


@dataclass(frozen=True, slots=True)
class Target:
    """Times that must not be exceeded; None is no limit. `ttft_percentile` None means the mean over requests.

    Time per output token is a mean over requests: how it differs between requests is not published. `confidence` is
    the share of predictions of the same class whose measured time stayed below what is compared with the limit.
    """

    ttft_ms: float | None = None
    tpot_ms: float | None = None
    ttft_percentile: float | None = None
    confidence: float = HIGH


def largest_concurrency(prepared: Prepared, target: Target, limit: Int) -> Int:
    """The largest number of requests in flight, up to `limit`, that meets the target; 0 where one request does not.

    Both times rise with the number of requests, so bisection on integers is exact. `limit` is per candidate, over all
    its replicas: what memory holds. No request may wait for a place.
    """
    low, high = np.zeros_like(limit), limit.copy()
    while True:
        open_rows = low < high
        if not open_rows.any():
            return low
        middle = low + (high - low + 1) // 2
        met = meets(prepared, target, np.maximum(middle, 1))
        low = np.where(open_rows & met, middle, low)
        high = np.where(open_rows & ~met, middle - 1, high)


def meets(prepared: Prepared, target: Target, concurrency: Int) -> Bool:
    """Whether each candidate meets the target with so many requests in flight."""
    found = prepared.steady(concurrency.astype(np.float64))
    met = found.queue_s <= 0
    if target.tpot_ms is not None:
        met &= found.tpot_s * 1e3 * _worst(prepared, "tpot", target) <= target.tpot_ms
    if target.ttft_ms is not None:
        late = 1.0 if target.ttft_percentile is None else ttft_over_mean(target.ttft_percentile)
        met &= found.ttft_s * 1e3 * late * _worst(prepared, "ttft", target) <= target.ttft_ms
    return met


def ttft_over_mean(percentile: float) -> float:
    """The time to first token that so many percent of the requests stay below, over its mean."""
    if not 0 < percentile < 100:
        raise InputError(Fault(f"{percentile!r} is not a percentile", key="percentile", expected="above 0, below 100"))
    return math.exp(NormalDist().inv_cdf(percentile / 100) * TTFT_SIGMA - TTFT_SIGMA**2 / 2)


def _worst(prepared: Prepared, metric: str, target: Target) -> Float:
    return prepared.ratio(metric, target.confidence)

"""The most requests in flight at which a service level still holds, as an exact integer, on the pessimistic side."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from recommender.speed.candidates import Bool, Float, Int
from recommender.speed.predict import HIGH, Prepared


@dataclass(frozen=True, slots=True)
class Target:
    """Means that must not be exceeded; None is no limit. `confidence` is the share of predictions of the same class
    whose measured time stayed below what is compared with the limit.
    """

    ttft_ms: float | None = None
    tpot_ms: float | None = None
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
        met &= found.ttft_s * 1e3 * _worst(prepared, "ttft", target) <= target.ttft_ms
    return met


def _worst(prepared: Prepared, metric: str, target: Target) -> Float:
    return prepared.ratio(metric, target.confidence)

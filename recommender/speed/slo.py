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
    """What each request must see; None is no limit. `ttft_percentile` None means the mean over requests.

    Time per output token is a mean over requests: how it differs between requests is not published.
    `request_tokens_per_s` are a request's output tokens over its whole latency. `confidence` is the share of
    predictions of the same class whose measured figure was better than what is compared with the limit.
    """

    ttft_ms: float | None = None
    tpot_ms: float | None = None
    ttft_percentile: float | None = None
    request_tokens_per_s: float | None = None
    confidence: float = HIGH


def largest_concurrency(prepared: Prepared, target: Target, limit: Int) -> Int:
    """The largest number of requests in flight, up to `limit`, that meets the target; 0 where one request does not.

    Every figure gets worse with the number of requests, so bisection on integers is exact. `limit` is per candidate,
    over all its replicas: what memory holds. No request may wait for a place.
    """
    low, high = np.zeros_like(limit), limit.copy()
    wanted = limit.copy()  # the most is tried first: levels that do not bind are settled by one look
    while True:
        unsettled = np.flatnonzero(low < high)
        if not len(unsettled):
            return low
        tried = wanted[unsettled]
        met = meets(prepared.where(unsettled), target, np.maximum(tried, 1))
        low[unsettled] = np.where(met, tried, low[unsettled])
        high[unsettled] = np.where(met, high[unsettled], tried - 1)
        wanted = low + (high - low + 1) // 2


def meets(prepared: Prepared, target: Target, concurrency: Int) -> Bool:
    """Whether each candidate meets the target with so many requests in flight."""
    seen = worst_seen(prepared, target, concurrency)
    met: Bool = ~seen.queued
    if target.tpot_ms is not None:
        met &= seen.tpot_ms <= target.tpot_ms
    if target.ttft_ms is not None:
        met &= seen.ttft_ms <= target.ttft_ms
    if target.request_tokens_per_s is not None:
        met &= seen.request_tokens_per_s >= target.request_tokens_per_s
    return met


@dataclass(frozen=True, slots=True)
class Seen:
    """One row per candidate: figures that a share `confidence` of such predictions were better than."""

    tpot_ms: Float
    ttft_ms: Float  # at the target's percentile
    request_tokens_per_s: Float
    queued: Bool  # whether requests wait for a place


def worst_seen(prepared: Prepared, target: Target, concurrency: Int) -> Seen:
    """What requests see on the pessimistic side with so many in flight."""
    at = concurrency.astype(np.float64)
    found, sure = prepared.steady(at), target.confidence
    late = 1.0 if target.ttft_percentile is None else ttft_over_mean(target.ttft_percentile)
    return Seen(
        tpot_ms=found.tpot_s * 1e3 * prepared.worst_ratio("tpot", sure, at),
        ttft_ms=found.ttft_s * 1e3 * late * prepared.worst_ratio("ttft", sure, at),
        request_tokens_per_s=found.output_tokens_per_s / at * prepared.worst_ratio("output_tokens_per_s", 1 - sure, at),
        queued=found.queue_s > 0,
    )


def ttft_over_mean(percentile: float) -> float:
    """The time to first token that so many percent of the requests stay below, over its mean."""
    if not 0 < percentile < 100:
        raise InputError(Fault(f"{percentile!r} is not a percentile", key="percentile", expected="above 0, below 100"))
    return math.exp(NormalDist().inv_cdf(percentile / 100) * TTFT_SIGMA - TTFT_SIGMA**2 / 2)

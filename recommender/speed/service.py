"""How long requests take on one engine by the speed model, for loads that arrive at a rate."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from recommender.errors import Fault, InputError
from recommender.speed.candidates import Float
from recommender.speed.predict import Prepared

_NEAR = 1e-12


@dataclass(frozen=True, eq=False)
class PredictedService:
    """One data-parallel engine of one replica. All of a replica's engines are taken to be loaded alike.

    `confidence` is the share of predictions like this whose measured throughput was at least what is counted on.
    """

    prepared: Prepared  # one row
    confidence: float

    def rate_per_s(self, in_flight: float) -> float:
        """Requests a second that one engine answers with so many in flight."""
        return float(rates_per_s(self.prepared, np.array([in_flight]), self.confidence)[0])

    def in_flight(self, rate_per_s: float) -> float:
        """The mean in flight at a rate. Raises InputError where the engine cannot keep up with it."""
        return _in_flight(self, rate_per_s)

    def request_s(self, in_flight: float) -> float:
        """Seconds from arrival to the last token where so many are in flight; rises with them."""
        in_flight = max(in_flight, 1e-6)
        return in_flight / self.rate_per_s(in_flight)


@lru_cache(maxsize=2**10)
def _in_flight(service: PredictedService, rate_per_s: float) -> float:
    """By bisection; remembered, since all that is said of a replica asks for it again."""
    low, high = 0.0, float(service.prepared.rows.sequences[0] / service.prepared.rows.dp[0])
    if service.rate_per_s(high) < rate_per_s * (1 - _NEAR):
        what = f"{rate_per_s:g} requests a second are more than one engine is predicted to answer"
        raise InputError(Fault(what, key="workload.rate_per_s"))
    while high - low > _NEAR * high:
        middle = (low + high) / 2
        low, high = (middle, high) if service.rate_per_s(middle) < rate_per_s else (low, middle)
    return high


def rates_per_s(prepared: Prepared, in_flight: Float, confidence: float) -> Float:
    """Requests a second that one engine of each row answers with at most so many in flight, on the pessimistic side.

    Past the most that was measured that side falls in one step; an engine need not run so many, so what it answered
    before the step is not lost, and the rate never falls as more are let in.
    """
    at = in_flight * prepared.rows.dp
    rates, covered = _rates_at(prepared, at, confidence), prepared.covered(at)
    if (covered < at).any():
        rates = np.maximum(rates, _rates_at(prepared, covered, confidence))
    return rates


def _rates_at(prepared: Prepared, at: Float, confidence: float) -> Float:
    surely = prepared.worst_ratio("output_tokens_per_s", 1 - confidence, at)
    rates: Float = prepared.steady(at).output_tokens_per_s * surely / prepared.rows.output_tokens / prepared.rows.dp
    return rates

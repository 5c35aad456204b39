"""What a set-up must carry, in whole units for the solver: requests at once, or parts of a rate."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from recommender.errors import InternalError
from recommender.memory.capacity import UNBOUNDED
from recommender.scenario import Scenario, Workload
from recommender.search.problem import Integers
from recommender.units import plural, show_figures, show_number
from recommender.workload.poisson import poisson_mean, poisson_quantile
from recommender.workload.rate import PeakFactor, Rate, peak_factor_of
from recommender.workload.service import Service

Float = NDArray[np.float64]

TABLED = 2
"""Statistical need is a table by requests: engines are asked for no more than so many times the demand."""
MOST_AT_ONCE = 4096
"""Requests that one engine is asked to run where a rate is given."""
PARTS = 1_000
"""Units that a rate is cut into, at least: each engine's part is rounded down to a whole one. More would be exacter,
and cost the covering programme that confirms an optimum as much more."""
_USUAL_AT_ONCE = 256  # an engine that runs so many carries at least so many parts, whatever the rate


class Pace(Protocol):
    """How long requests take on one engine: as stated, or as predicted for it."""

    def in_flight(self, rate_per_s: float) -> float:
        """The mean in flight at a rate. Raises InputError where the engine cannot keep up with it."""
        ...

    def rate_per_s(self, in_flight: float) -> float:
        """Requests a second that keep so many in flight."""
        ...

    def request_s(self, in_flight: float) -> float:
        """Seconds from arrival to the last token where so many are in flight; rises with them."""
        ...

    def __hash__(self) -> int: ...


class Load(Protocol):
    """The load of a question. An engine is one data-parallel rank of a replica, or the whole of it."""

    @property
    def demand(self) -> int:
        """Units to carry."""
        ...

    def looked_at(self, enough: int) -> int:
        """Requests of one engine beyond which nobody looks whether more fit."""
        ...

    def carried(self, requests: Integers) -> Integers:
        """Units that an engine carries whose max_num_seqs is so many."""
        ...

    def slots(self, units: int) -> int:
        """The max_num_seqs of an engine that carries so many units."""
        ...

    def at_once(self, units: int, engines: int) -> int:
        """Requests at once of a replica of so many engines that carries so many units."""
        ...

    def rate_of(self, units: int) -> float | None:
        """Requests a second of so many units; None where the load is a number at once."""
        ...

    def units_of(self, requests: int, rate_per_s: float | None) -> int:
        """Units that a replica carries which is given so many requests at once, or so much of a rate."""
        ...

    def words(self, units: int) -> str:
        """So many units in words."""
        ...

    def less(self, units: int) -> str:
        """What is asked, and what so many units are: `50 -> 28`."""
        ...

    def reduced(self, units: int) -> str:
        """The change of the scenario that asks for no more than so many units."""
        ...

    def asking(self, workload: Workload, units: int) -> Workload:
        """The workload that asks for so many units."""
        ...


@dataclass(frozen=True, slots=True)
class AtOnce:
    """So many requests at once; a unit is a request."""

    requests: int
    tabled: bool

    @property
    def demand(self) -> int:
        """Units to carry."""
        return self.requests

    def looked_at(self, enough: int) -> int:
        """Requests of one engine beyond which nobody looks whether more fit."""
        return TABLED * enough if self.tabled else UNBOUNDED

    def carried(self, requests: Integers) -> Integers:
        """Units that an engine carries whose max_num_seqs is so many."""
        return requests

    def slots(self, units: int) -> int:
        """The max_num_seqs of an engine that carries so many units."""
        return units

    def at_once(self, units: int, engines: int) -> int:
        """Requests at once of a replica of so many engines that carries so many units."""
        return units

    def rate_of(self, units: int) -> float | None:
        """Requests a second of so many units; None where the load is a number at once."""
        return None

    def units_of(self, requests: int, rate_per_s: float | None) -> int:
        """Units that a replica carries which is given so many requests at once, or so much of a rate."""
        return requests

    def words(self, units: int) -> str:
        """So many units in words."""
        return f"{plural(units, 'request')} at once"

    def less(self, units: int) -> str:
        """What is asked, and what so many units are: `50 -> 28`."""
        return f"{self.requests} -> {units}"

    def reduced(self, units: int) -> str:
        """The change of the scenario that asks for no more than so many units."""
        return f"workload.concurrency: {self.less(units)} (the rest would queue)"

    def asking(self, workload: Workload, units: int) -> Workload:
        """The workload that asks for so many units."""
        return replace(workload, concurrency=units)


@dataclass(frozen=True, slots=True)
class Arriving:
    """So many requests a second at the busiest minute, arriving at random; a unit is `unit_per_s` of them.

    An engine at a rate has a random number in flight, Poisson around Little's mean; its max_num_seqs is exceeded with
    probability `risk`. Engines do not help each other out, so each keeps its own reserve. `service` None: every engine
    has its own, see `on`.
    """

    rate: Rate
    peak: PeakFactor
    service: Pace | None
    risk: float
    unit_per_s: float

    @property
    def peak_per_s(self) -> float:
        """The busiest minute's rate."""
        return self.rate.per_s * self.peak.value

    def on(self, service: Pace) -> Arriving:
        """The same load on an engine on which requests take so long."""
        return replace(self, service=service)

    @property
    def demand(self) -> int:
        """Units to carry."""
        return math.ceil(self.peak_per_s / self.unit_per_s - 1e-6)

    def looked_at(self, enough: int) -> int:
        """Requests of one engine beyond which nobody looks whether more fit."""
        if self.service is None:
            return MOST_AT_ONCE
        wanted = enough * self.unit_per_s
        carries_it = next((n for n in _doubling() if self._rate_of(n) >= wanted), MOST_AT_ONCE)
        return min(MOST_AT_ONCE, TABLED * carries_it)

    def carried(self, requests: Integers) -> Integers:
        """Units that an engine carries whose max_num_seqs is so many."""
        counts, back = np.unique(requests, return_inverse=True)
        rates = np.array([self._rate_of(int(count)) for count in counts])
        return self.parts_of(rates)[back]

    def parts_of(self, rates_per_s: Float) -> Integers:
        """Whole units of so many requests a second."""
        units: Integers = np.floor(rates_per_s / self.unit_per_s * (1 - 1e-9)).astype(np.int64)
        return units

    def means(self, requests: Integers) -> Float:
        """The mean in flight at which an engine has more than so many only at the risk."""
        counts, back = np.unique(requests, return_inverse=True)
        means: Float = np.array([_calm_mean(self.risk, int(count)) for count in counts])[back]
        return means

    def mean_in_flight(self, units: int) -> float:
        """The mean number of requests in flight on an engine that carries so many units."""
        return self._paced.in_flight(units * self.unit_per_s)

    def slots(self, units: int) -> int:
        """The max_num_seqs of an engine that carries so many units."""
        mean = self.mean_in_flight(units)
        return max(poisson_quantile(mean, self.risk), math.ceil(mean))

    def at_once(self, units: int, engines: int) -> int:
        """Requests at once of a replica of so many engines that carries so many units."""
        return engines * self.slots(-(-units // engines))

    def rate_of(self, units: int) -> float | None:
        """Requests a second of so many units."""
        return units * self.unit_per_s

    def units_of(self, requests: int, rate_per_s: float | None) -> int:
        """Units that a replica carries which is given so many requests at once, or so much of a rate."""
        return round((rate_per_s or 0.0) / self.unit_per_s)

    def words(self, units: int) -> str:
        """So many units in words."""
        peak = self.peak_per_s if units == self.demand else units * self.unit_per_s
        return f"{show_figures(peak / self.peak.value)} requests a second ({show_figures(peak)} in the busiest minute)"

    def less(self, units: int) -> str:
        """What is asked, and what so many units are: `5.5 -> 2.1 requests a second`."""
        return f"{show_number(self.rate.per_s)} -> {show_figures(self._mean_of(units))} requests a second"

    def reduced(self, units: int) -> str:
        """The change of the scenario that asks for no more than so many units."""
        return f"workload.rate_per_s: {show_number(self.rate.per_s)} -> {show_number(self._mean_of(units), 6)}"

    def asking(self, workload: Workload, units: int) -> Workload:
        """The workload that asks for so many units."""
        return replace(workload, rate=replace(self.rate, per_s=self._mean_of(units)))

    def _mean_of(self, units: int) -> float:
        """The mean rate whose busiest minute takes so many units, a hair below."""
        return units * self.unit_per_s / self.peak.value * (1 - 1e-9)

    @property
    def _paced(self) -> Pace:
        if self.service is None:
            raise InternalError("a load was asked without the engine that it is on")
        return self.service

    def _rate_of(self, requests: int) -> float:
        return _rate_of(self._paced, self.risk, requests)


def load_of(scenario: Scenario) -> Load:
    """The load that a scenario states."""
    work, risk = scenario.workload, float(scenario.epsilon)
    if work.rate is None:
        return AtOnce(work.concurrency or 0, tabled=scenario.sizing != "worst_case")
    stated, peak = service_of(scenario), peak_factor_of(work.rate, work.lengths.arrivals)
    unit = _unit_per_s(_rate_of(stated, risk, _USUAL_AT_ONCE), work.rate.per_s * peak.value)
    return Arriving(work.rate, peak, None if scenario.paced_by_model else stated, risk, unit)


def _unit_per_s(usual: float, peak_per_s: float) -> float:
    """Requests a second of one unit: halved until the rate is cut into enough, so that near rates share it."""
    return math.ldexp(usual / PARTS, -max(0, math.ceil(math.log2(usual / peak_per_s))))


def service_of(scenario: Scenario) -> Service:
    """How long a scenario's requests take on an engine."""
    return Service.of(scenario.workload.lengths, scenario.step_time, scenario.workload.request_s)


def _doubling() -> list[int]:
    return [2**power for power in range(MOST_AT_ONCE.bit_length())]


@lru_cache(maxsize=2**14)
def _calm_mean(risk: float, requests: int) -> float:
    return poisson_mean(requests, risk) if requests > 0 else 0.0


@lru_cache(maxsize=2**14)
def _rate_of(service: Pace, risk: float, requests: int) -> float:
    """Requests a second that leave an engine with more than so many in flight only at this risk."""
    return service.rate_per_s(_calm_mean(risk, requests)) if requests > 0 else 0.0

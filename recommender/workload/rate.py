"""Requests in flight from a rate: Little's law at the busiest minute, and how many that means at a given risk."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from recommender.errors import Fault, InputError
from recommender.units import ceil_div
from recommender.workload.inflight import DEFAULT_EPSILON, sum_of
from recommender.workload.lengths import Arrivals, Lengths
from recommender.workload.poisson import poisson_quantile
from recommender.workload.prefix import SharedPrefix

DAY_S = 86_400.0
PEAK_WINDOW_S = 60
DEFAULT_PEAK_FACTOR = 2.5
"""Busiest minute over mean where nothing is known: at or above the 99 % quantile of the 10-minute windows of five
production services over 1 to 14 days (ServeGen: 1.4 to 2.4 times the mean)."""
DEFAULT_DAILY_FACTOR = 2.0
"""Busiest hours over a day's mean, for logs shorter than a day: the median of the same services (2.0)."""
_ENOUGH = 0.001
_MOST_ROUNDS = 1000
_MOST_IN_FLIGHT = 1e6
_FEW = 20  # requests a window, below which the fullest of many windows says more of chance than of load


@dataclass(frozen=True, slots=True)
class PeakFactor:
    """The busiest minute's rate over the mean rate, and where it comes from."""

    value: float
    why: str


@dataclass(frozen=True, slots=True)
class Rate:
    """A mean of `per_s` requests a second; `hourly` are 24 or 168 multipliers of it by hour, for what runs when."""

    per_s: float
    peak_factor: float | None = None
    hourly: tuple[float, ...] = ()

    def by_hour(self) -> tuple[float, ...]:
        """The rate in each hour of the profile, its mean being the stated rate."""
        mean = sum(self.hourly) / len(self.hourly) if self.hourly else 1.0
        return tuple(self.per_s * each / mean for each in self.hourly) or (self.per_s,)


@dataclass(frozen=True, slots=True)
class InFlightAtRate:
    """What a rate puts in flight at its busiest minute. Tokens are whole blocks of one replica that serves it all."""

    peak_rate_per_s: float
    peak_factor: PeakFactor
    request_s: float
    mean_in_flight: float
    max_num_seqs: int
    statistical_tokens: int
    worst_case_tokens: int


def peak_factor_of(rate: Rate, arrivals: Arrivals | None) -> PeakFactor:
    """The busiest minute over the mean: as stated, else by the hourly profile and the log's peaks, else a default."""
    if rate.peak_factor is not None:
        return PeakFactor(rate.peak_factor, "as stated")
    daily = max(rate.by_hour()) / rate.per_s if rate.hourly else None
    window, measured = _measured(arrivals)
    chance = _chance(window, arrivals)
    if measured is None:
        if daily is None:
            return PeakFactor(DEFAULT_PEAK_FACTOR, f"default: nothing says how requests arrive ({DEFAULT_PEAK_FACTOR})")
        return PeakFactor(daily, "busiest hour of the stated profile, even within the hour")
    if daily is not None:
        return PeakFactor(
            daily * measured, f"busiest hour of the stated profile x busiest {window} s of the log{chance}"
        )
    if arrivals is not None and arrivals.duration_s < DAY_S:
        why = (
            f"busiest {window} s of the log ({measured:.2f}) x {DEFAULT_DAILY_FACTOR}, as the log is shorter than a day"
            f"{chance}"
        )
        return PeakFactor(measured * DEFAULT_DAILY_FACTOR, why)
    return PeakFactor(measured, f"busiest {window} s of the log{chance}")


def _chance(window_s: int, arrivals: Arrivals | None) -> str:
    """What speaks against a log's peak: where few requests come in a window, the fullest of many is so by chance.

    Of a thousand windows one holds 1.75 times the mean where that is 20 requests, 5 times where it is one (quantile
    0.999 of Poisson laws over their means), though the rate never changes.
    """
    expected = arrivals.rate_per_s * window_s if arrivals else _FEW
    if expected >= _FEW:
        return ""
    few = f"{expected:.2g} requests come in such a time"
    return f", much of it chance where {few}; peak_factor beside `value` states another"


def _measured(arrivals: Arrivals | None) -> tuple[int, float | None]:
    """The peak over the window nearest to a minute that the log gives."""
    peaks = dict(arrivals.peak_to_mean) if arrivals else {}
    if not peaks:
        return PEAK_WINDOW_S, None
    window = min(peaks, key=lambda each: (abs(each - PEAK_WINDOW_S), each))
    return window, max(peaks[window], 1.0)


def requests_in_flight(rate_per_s: float, request_s: Callable[[float], float]) -> float:
    """L = rate x W(L), where a request takes W seconds when L are in flight. Raises InputError where none is steady.

    W must not fall as L rises; the iteration from an idle server then climbs to the smallest such L.
    """
    in_flight = 0.0
    for _ in range(_MOST_ROUNDS):
        following = rate_per_s * request_s(in_flight)
        if not following < _MOST_IN_FLIGHT:
            break
        if following - in_flight <= _ENOUGH * following:
            return following
        in_flight = following
    raise InputError(Fault(f"{rate_per_s:g} requests a second are more than this replica can answer", key="rate_per_s"))


def request_seconds(mean_output_tokens: float, ttft_s: float, tpot_s: float, queue_s: float = 0.0) -> float:
    """Seconds a request takes: its queue, its first token, and the plain mean of the tokens after it."""
    return queue_s + ttft_s + max(mean_output_tokens - 1, 0.0) * tpot_s


def mean_output_tokens(lengths: Lengths) -> float:
    """The plain mean of the outputs (in flight, long ones are more frequent)."""
    weight = sum(cell.weight for cell in lengths.cells)
    return sum(cell.weight * cell.output_tokens for cell in lengths.cells) / weight


def inflight_at_rate(
    lengths: Lengths,
    rate: Rate,
    request_s: float | Callable[[float], float],
    epsilon: float = DEFAULT_EPSILON,
    max_model_len: int | None = None,
    block_size: int = 16,
    shared_prefix: SharedPrefix | None = None,
) -> InFlightAtRate:
    """What a rate needs at its busiest minute: the number in flight is random too, Poisson around Little's mean.

    `request_s` is a stated time per request, or the time by the number in flight (as the serving speed gives it).
    """
    factor = peak_factor_of(rate, lengths.arrivals)
    peak = rate.per_s * factor.value
    takes = request_s if callable(request_s) else lambda _: request_s
    mean = requests_in_flight(peak, takes)
    limit = lengths.maximum_tokens if max_model_len is None else max_model_len
    seqs = poisson_quantile(mean, epsilon)
    worst = ceil_div(limit, block_size) * seqs
    need = min(sum_of(lengths, limit, block_size, float(epsilon)).poisson_quantile(mean), worst)
    if shared_prefix is not None:
        beside = sum_of(lengths, limit, block_size, float(epsilon), shared_prefix).poisson_quantile(mean)
        need = min(need, shared_prefix.blocks(block_size) + beside)
    return InFlightAtRate(
        peak_rate_per_s=peak,
        peak_factor=factor,
        request_s=mean / peak,
        mean_in_flight=mean,
        max_num_seqs=seqs,
        statistical_tokens=need * block_size,
        worst_case_tokens=worst * block_size,
    )

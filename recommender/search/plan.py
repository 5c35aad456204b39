"""The answer: ranked plans, what was left out and why, and the certificate. Renderers read nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from recommender.memory.fit import Fit
from recommender.workload.replica import StepTime

if TYPE_CHECKING:
    from recommender.search.need import Need
    from recommender.speed.answer import Speed
    from recommender.speed.cost import BreakEven, TokenCost
    from recommender.workload.replay import Replay


@dataclass(frozen=True, slots=True)
class Purchase:
    """So many instances of one offer. Prices are for one instance, in micro-dollars an hour; None: owned, unpriced."""

    provider: str
    instance_type: str
    region: str
    also_in: tuple[str, ...]
    segment: str
    market: str
    gpu: str
    gpus_per_instance: int
    count: int
    micro_usd_per_hour: int | None
    as_of: date
    source: str
    listed: bool
    assumed_size: bool
    doubts: tuple[str, ...] = ()  # what speaks against the price, in a few words each


@dataclass(frozen=True, slots=True)
class ReplicaGroup:
    """`count` equal replicas on the instances of one purchase."""

    workload: str
    offer_index: int
    count: int
    gpu: str
    tp: int
    pp: int
    dp: int
    ep: int
    weights: str
    weights_how: str  # native | checkpoint | online | to_make
    checkpoint: str | None
    kv_dtype: str
    max_model_len: int
    max_num_seqs: int
    max_num_batched_tokens: int
    concurrency: int  # requests at once each of them is given (at a rate: the most it runs at once)
    capacity: int  # the most it holds when started with max_num_seqs that high, on the side the scenario plans on
    expected_capacity: int  # the same on the middle of the interval
    memory: Fit
    output_tokens_per_s_bound: float | None  # per request, memory bandwidth bound
    launch: str
    longest_max_model_len: int | None = None
    need: Need | None = None  # of one GPU, for the requests it is given
    rate_per_s: float | None = None  # requests a second each of them is given at the busiest minute, where one is asked
    mean_in_flight: float | None = None  # of one of them at that rate
    speed: Speed | None = None  # of one of them, with the requests it is given
    full_speed: Speed | None = None  # of one of them, with as many as it holds
    speed_unknown: str | None = None  # why there is none


@dataclass(frozen=True, slots=True)
class PlanSpeed:
    """How fast all replicas together serve what is asked; intervals hold 80 % of outcomes, times are means.

    Times are those of the slowest replica. `full_...` are the figures with as many requests in flight as the plan
    holds. `prompt_share` is the part of the engines' time that prompts take.
    """

    ttft_ms: float
    ttft_ms_interval: tuple[float, float]
    tpot_ms: float
    tpot_ms_interval: tuple[float, float]
    output_tokens_per_s: float
    output_tokens_per_s_interval: tuple[float, float]
    requests_per_s: float
    evidence: str
    full_concurrency: int
    full_output_tokens_per_s: float
    full_requests_per_s: float
    prompt_share: float
    cost: TokenCost | None = None  # at what is asked (at a rate: on average); None where the plan is unpriced
    full_cost: TokenCost | None = None  # with as many in flight as the plan holds
    break_even: BreakEven | None = None  # against a hosted API, where one is given: at what is asked


@dataclass(frozen=True, slots=True)
class Adjustment:
    """One rung of the ladder that a plan takes. `rung` is 1-5 in the article's order."""

    rung: int
    name: str  # max_model_len | kv_dtype | weights | gpus | max_num_seqs
    change: str  # "131072 -> 8192"
    caution: str


@dataclass(frozen=True, slots=True)
class Plan:
    """One purchase at its best settings."""

    rank: int
    micro_usd_per_hour: int | None
    gpus: int
    replicas_total: int
    served_concurrency: int
    headroom: Decimal
    adjustments: tuple[Adjustment, ...]
    offers: tuple[Purchase, ...]
    replicas: tuple[ReplicaGroup, ...]
    warnings: tuple[str, ...]
    speed: PlanSpeed | None = None  # None: see the replicas' speed_unknown

    @property
    def quality_untouched(self) -> bool:
        """Whether weights and KV cache stay at the model's native dtypes."""
        return not any(adjustment.rung in (2, 3) for adjustment in self.adjustments)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What the defaults left out of the search, and what the cheapest plan among it would cost."""

    what: str  # "spot prices"
    how_to_include: str  # "search.markets: [on_demand, spot]"
    offers: int
    cheapest_micro_usd_per_hour: int | None
    cheapest: str | None
    quality_untouched_micro_usd_per_hour: int | None


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a GPU (or a whole scenario) has no plan: the first limit that binds and the nearest change that would do."""

    gpu: str | None
    limit: str  # compatibility | memory | max_model_len | price | quota | stock | budget | power
    reason: str
    change: str | None


@dataclass(frozen=True, slots=True)
class Certificate:
    """What was proven. `bound_micro_usd_per_hour` equals the cost of rank 1 where the status is optimal."""

    status: str  # optimal | feasible | infeasible | unknown
    bound_micro_usd_per_hour: int | None
    gap: Decimal | None
    candidates: int
    feasible_candidates: int
    solver: str
    cross_check: str
    deterministic_time: float
    plans_proven: int


@dataclass(frozen=True, slots=True)
class Served:
    """What a max_model_len does to the requests: shares served whole, cut at it, and refused; they sum to 1."""

    max_model_len: int
    served_share: float
    truncated_share: float
    refused_share: float


@dataclass(frozen=True, slots=True)
class RateSizing:
    """What a rate was taken as. `request_s` and `mean_in_flight` are those of rank 1 at the busiest minute."""

    per_s: float
    peak_per_s: float
    peak_factor: float
    peak_factor_source: str
    request_s: float | None
    request_s_stated: bool  # if not, it follows from the speed model, or from step times that are assumed
    step_time: StepTime | None  # None: the speed model
    mean_in_flight: float | None


@dataclass(frozen=True, slots=True)
class Sizing:
    """How request lengths became a need of KV cache, and what sizing by them saves against the worst case.

    Tokens are those of all of rank 1's requests: on average, in all but `epsilon` of the engine's steps, and if each
    were as long as the promised share of requests may be. Costs are those of the cheapest set-up under either sizing,
    None where nothing serves.
    """

    mode: str  # worst_case | statistical | trace_replay
    epsilon: Decimal
    at_risk: bool  # whether the set-up rests on epsilon at all
    served: tuple[Served, ...]  # by the plans' max_model_len, rank 1's first
    mean_tokens_in_flight: float | None
    statistical_tokens: int | None
    worst_case_tokens: int | None
    statistical_micro_usd_per_hour: int | None
    worst_case_micro_usd_per_hour: int | None
    compared: bool  # whether both costs were looked up
    looked_at: int | None  # requests of one engine beyond which nobody looked whether more fit
    rate: RateSizing | None

    @property
    def saved_micro_usd_per_hour(self) -> int | None:
        """What sizing by the real lengths saves against the worst case; None where either serves nothing."""
        worst, real = self.worst_case_micro_usd_per_hour, self.statistical_micro_usd_per_hour
        return None if worst is None or real is None else worst - real


@dataclass(frozen=True, slots=True)
class Watermarked:
    """The same replay with a share of the blocks kept free where requests are admitted."""

    share: float
    argument: str | None  # what sets it; None: this engine version has no option for it
    result: Replay
    accepted: bool


@dataclass(frozen=True, slots=True)
class Replayed:
    """One engine of a plan's replica group, replayed; `result` None: see `reason`."""

    rank: int
    replica: int  # index of the plan's replica group
    how: str  # what sent the requests
    kv_tokens: int | None  # of the cache that was replayed; None where its blocks hold tokens of some layers only
    result: Replay | None
    accepted: bool | None
    reason: str | None  # why it is rejected, or was not replayed
    watermark: Watermarked | None = None  # where requests were preempted
    step_time: StepTime | None = None  # of the engine that was replayed
    timing: str = ""  # where that is known from


@dataclass(frozen=True, slots=True)
class Level:
    """Hours in which a plan needs equally many instances, by purchase; `share` is of the busiest hour's load."""

    hours: tuple[int, ...]  # of the day, or of the week; from 0
    share: float
    asked: str  # the busiest of these hours in words
    instances: tuple[int, ...]
    replicas: int
    micro_usd_per_hour: int


@dataclass(frozen=True, slots=True)
class Scaled:
    """One plan that follows the hours: the same replicas as launched, on fewer instances where fewer do."""

    rank: int
    levels: tuple[Level, ...]  # busiest first
    micro_usd: int  # over the whole profile
    always_on_micro_usd: int  # the same, with all instances in every hour


@dataclass(frozen=True, slots=True)
class ByHour:
    """What the listed plans cost if instances are held only in the hours that need them. Money is in micro-dollars.

    Each hour is as bursty as the busiest: its load is that hour's share of what the plan was sized for.
    """

    hours: int  # of the profile: 24 | 168
    source: str
    plans: tuple[Scaled, ...]  # by rank

    @property
    def cheapest(self) -> Scaled:
        """The listed plan that costs least when it follows the hours."""
        return min(self.plans, key=lambda each: (each.micro_usd, each.rank))


@dataclass(frozen=True, slots=True)
class CatalogStamp:
    """Which facts the answer stands on."""

    version: str
    sha256: str
    oldest_price: date | None
    newest_price: date | None


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The whole answer to one scenario."""

    scenario: str
    question: str  # one sentence that says what was asked
    model: str
    concurrency: int | None  # None where a rate is asked
    status: str
    certificate: Certificate
    plans: tuple[Plan, ...]
    cheapest_quality_untouched: Plan | None
    cheapest_no_checkpoint_needed: Plan | None
    cheapest_on_fresh_prices: Plan | None
    left_out: tuple[LeftOut, ...]
    refusals: tuple[Refusal, ...]
    defaults: dict[str, Any]
    catalog: CatalogStamp
    warnings: tuple[str, ...]
    as_of: date | None
    rank: str = "cost"  # cost | quality_first: what the order of the plans means
    speed_limited: bool = False  # whether what a replica is given also keeps limits on speed
    sizing: Sizing | None = None  # None where lengths are one fixed total
    replays: tuple[Replayed, ...] = ()
    by_hour: ByHour | None = None  # None where no profile is known, or nothing is priced

"""How the request lengths were sized: whom max-model-len serves, what requests in flight hold, and what that saves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from recommender.memory.capacity import UNBOUNDED
from recommender.scenario import Scenario
from recommender.search.asked import Asked, look_up
from recommender.search.load import Arriving
from recommender.search.plan import Plan, RateSizing, ReplicaGroup, Served, Sizing
from recommender.search.solver import solve
from recommender.units import round_up
from recommender.workload.inflight import InFlight, inflight_of
from recommender.workload.lengths import served_share
from recommender.workload.rate import Rate, inflight_at_rate

BLOCK_TOKENS = 16  # of the lengths themselves, where a replica's own blocks are not of one kind


def sizing_of(asked: Asked, plans: Sequence[Plan]) -> Sizing | None:
    """How lengths were sized; None where so many requests of one fixed total are asked, or where none is served."""
    scenario, work = asked.scenario, asked.scenario.workload
    if asked.refused_lengths or (work.lengths.total_only and work.rate is None):
        return None
    lengths = [group.max_model_len for plan in plans for group in plan.replicas] or [asked.shortest]
    first = plans[0].replicas if plans else ()
    split = () if work.lengths.total_only else first  # a total does not say what is held on the way to it
    costs = _costs(asked, plans)
    return Sizing(
        mode=scenario.sizing,
        epsilon=scenario.epsilon,
        at_risk=scenario.sizing != "worst_case" or work.rate is not None,
        served=tuple(_served(asked, length) for length in dict.fromkeys(lengths)),
        mean_tokens_in_flight=sum(_mean_tokens(scenario, group) * group.count for group in split) if split else None,
        statistical_tokens=sum(_tokens(scenario, group) * group.count for group in split) if split else None,
        worst_case_tokens=sum(_most_tokens(asked, group) * group.count for group in first) if first else None,
        statistical_micro_usd_per_hour=costs.get("statistical"),
        worst_case_micro_usd_per_hour=costs.get("worst_case"),
        compared="statistical" in costs and "worst_case" in costs,
        looked_at=_looked_at(asked),
        rate=_rate(asked, first),
    )


def _costs(asked: Asked, plans: Sequence[Plan]) -> dict[str, int | None]:
    """Micro-dollars an hour of the optimum by sizing (None: nothing serves): rank 1's, and one more optimum."""
    scenario = asked.scenario
    own = "worst_case" if scenario.sizing == "worst_case" else "statistical"
    found = {own: plans[0].micro_usd_per_hour if plans else None}
    unpriced = any(column.micro_usd_per_hour is None for column in asked.columns)
    if scenario.memory_model == "article" or scenario.workload.lengths.total_only or unpriced:
        return found
    other = "statistical" if own == "worst_case" else "worst_case"
    again = look_up(replace(scenario, sizing=other), asked.catalog)
    best = solve(again.problem(again.columns), plans=1, cost_only=True)
    if best.status in ("optimal", "infeasible"):
        found[other] = best.purchases[0].cost if best.purchases else None
    return found


def _looked_at(asked: Asked) -> int | None:
    most = asked.load.looked_at(asked.load.demand)
    return None if most == UNBOUNDED else most


def _served(asked: Asked, max_model_len: int) -> Served:
    if asked.scenario.workload.lengths.total_only:
        whole = served_share(asked.scenario.workload.lengths, max_model_len)
        return Served(max_model_len, whole, 0.0, 1.0 - whole)
    shares = _alone(asked.scenario, max_model_len)
    return Served(max_model_len, shares.served_share, shares.truncated_share, shares.refused_share)


def _alone(scenario: Scenario, max_model_len: int) -> InFlight:
    """One request in flight."""
    return inflight_of(scenario.workload.lengths, 1, scenario.epsilon, max_model_len, BLOCK_TOKENS)


def _mean_tokens(scenario: Scenario, group: ReplicaGroup) -> float:
    """What the requests of one replica hold on average."""
    return in_flight_of(group) * _alone(scenario, group.max_model_len).mean_tokens


def in_flight_of(group: ReplicaGroup) -> float:
    """Requests that one replica has in flight on average."""
    return group.concurrency if group.mean_in_flight is None else group.mean_in_flight


def _most_tokens(asked: Asked, group: ReplicaGroup) -> int:
    """What one replica's requests would hold if each were as long as the promised share of requests may be."""
    size = group.memory.block_size or BLOCK_TOKENS
    return group.dp * group.max_num_seqs * round_up(min(asked.shortest, group.max_model_len), size)


def _tokens(scenario: Scenario, group: ReplicaGroup) -> int:
    """Tokens that one replica's requests exceed in epsilon of the steps, in whole blocks."""
    work, size = scenario.workload, group.memory.block_size or BLOCK_TOKENS
    if work.rate is None:
        need = inflight_of(
            work.lengths, group.max_num_seqs, scenario.epsilon, group.max_model_len, size, work.shared_prefix
        )
        return group.dp * need.statistical_tokens
    alone = Rate((group.rate_per_s or 0.0) / group.dp, peak_factor=1.0)
    request_s = in_flight_of(group) / group.rate_per_s if group.rate_per_s else 0.0
    at_rate = inflight_at_rate(
        work.lengths, alone, request_s, float(scenario.epsilon), group.max_model_len, size, work.shared_prefix
    )
    return group.dp * at_rate.statistical_tokens


def _rate(asked: Asked, first: Sequence[ReplicaGroup]) -> RateSizing | None:
    load, scenario = asked.load, asked.scenario
    if not isinstance(load, Arriving):
        return None
    in_flight = sum(in_flight_of(group) * group.count for group in first) if first else None
    served = sum((group.rate_per_s or 0.0) * group.count for group in first)
    return RateSizing(
        per_s=load.rate.per_s,
        peak_per_s=load.peak_per_s,
        peak_factor=load.peak.value,
        peak_factor_source=load.peak.why,
        request_s=in_flight / served if in_flight else None,
        request_s_stated=scenario.workload.request_s is not None,
        step_time=None if load.service is None else scenario.step_time,
        mean_in_flight=in_flight,
    )

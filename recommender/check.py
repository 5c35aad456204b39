"""Whether a finished plan is true: recomputed one replica at a time, sharing no code with the search."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from decimal import Decimal

from recommender.catalog.catalog import Catalog
from recommender.catalog.offers import Offer
from recommender.errors import InternalError
from recommender.memory.fit import Fit
from recommender.scenario import Scenario
from recommender.search.plan import Plan, Purchase, ReplicaGroup
from recommender.speed.anchors import Anchor

HOURS_PER_MONTH = 730
ROUNDING = 0.001  # by which a quantile by Fourier transform and one read off a table may differ


def check_plan(plan: Plan, scenario: Scenario, catalog: Catalog, anchors: Sequence[Anchor] = ()) -> None:
    """Nothing where the plan is true; raises InternalError with everything that is not.

    `anchors` are a user's own measurements, which limits on speed were planned with.
    """
    wrong = [*_money(plan, scenario, catalog), *_placement(plan, scenario), *_hosting(plan), *_serving(plan, scenario)]
    wrong += _rate(plan, scenario)
    for group in plan.replicas:
        wrong += _memory(group, scenario)
        if scenario.sizing != "worst_case" or scenario.workload.rate is not None:
            wrong += _in_flight(group, scenario, catalog, anchors)
    if scenario.sla.timed:
        from recommender.check_speed import speed_faults

        wrong += speed_faults(plan, scenario, catalog, anchors)
    if wrong:
        raise InternalError("a chosen plan does not pass its check: " + "; ".join(wrong))


def _money(plan: Plan, scenario: Scenario, catalog: Catalog) -> list[str]:
    """Prices against the price list, their sum, and the limits on money, power, quota and stock."""
    wrong, total = [], 0
    for bought in plan.offers:
        if bought.market == "owned":
            total += (bought.micro_usd_per_hour or 0) * bought.count
            continue
        offer = _offer(bought, catalog)
        size = bought.gpus_per_instance // offer.gpus
        if bought.micro_usd_per_hour != offer.prices[bought.market] * size:
            wrong.append(f"{bought.instance_type} costs {offer.prices[bought.market]}, not {bought.micro_usd_per_hour}")
        if bought.count < offer.minimum_instances:
            wrong.append(f"{bought.instance_type} is sold from {offer.minimum_instances}")
        total += offer.prices[bought.market] * size * bought.count
    if plan.micro_usd_per_hour not in (None, total):
        wrong.append(f"the prices sum to {total}, not {plan.micro_usd_per_hour}")
    budget = scenario.limits.usd_per_month
    if budget is not None and Decimal(total) * HOURS_PER_MONTH > budget * 1_000_000:
        wrong.append("over the budget")
    watts = [(catalog.gpu(each.gpu).tdp_watts, each.gpus_per_instance * each.count) for each in plan.offers]
    if scenario.limits.watts is not None and sum((w or 0) * n for w, n in watts) > scenario.limits.watts:
        wrong.append("over the power limit")
    return wrong + _caps(plan, scenario)


def _offer(bought: Purchase, catalog: Catalog) -> Offer:
    key = (bought.provider, bought.instance_type, bought.region)
    for offer in catalog.offers:
        if offer.key == key:
            return offer
    raise InternalError(f"a chosen plan buys {key}, which no price list has")


def _caps(plan: Plan, scenario: Scenario) -> list[str]:
    wrong = []
    for cap in scenario.limits.caps:
        used = 0
        for bought in plan.offers:
            asked = (cap.provider, cap.region, cap.gpu, cap.instance_type)
            has = (bought.provider, bought.region, bought.gpu, bought.instance_type)
            if all(want in (None, own) for want, own in zip(asked, has, strict=True)):
                used += bought.count * (bought.gpus_per_instance if cap.unit == "gpus" else 1)
        if used > cap.count:
            wrong.append(f"{used} {cap.unit} over a {cap.kind} of {cap.count}")
    owned, taken = Counter[str](), Counter[str]()
    for cards in scenario.hardware:
        owned[cards.gpu] += cards.count
    for bought in plan.offers:
        taken[bought.gpu] += bought.count * bought.gpus_per_instance
    return wrong + [f"more {gpu} than owned" for gpu in taken if scenario.hardware and taken[gpu] > owned[gpu]]


def _placement(plan: Plan, scenario: Scenario) -> list[str]:
    """One provider, one region, one precision, as far as the scenario asks for it."""
    wrong = []
    if scenario.search.placement != "anywhere" and len({each.provider for each in plan.offers}) > 1:
        wrong.append("more than one provider")
    if scenario.search.placement == "one_region" and len({each.region for each in plan.offers}) > 1:
        wrong.append("more than one region")
    if scenario.search.uniform_precision and len({(g.weights, g.kv_dtype) for g in plan.replicas}) > 1:
        wrong.append("more than one precision")
    if len({group.max_model_len for group in plan.replicas}) > 1:
        wrong.append("more than one max-model-len")
    return wrong


def _hosting(plan: Plan) -> list[str]:
    """Every replica sits inside an instance, and the instances have GPUs enough."""
    wrong, used = [], Counter[int]()
    for group in plan.replicas:
        used[group.offer_index] += group.tp * group.pp * group.dp * group.count
        if group.tp * group.pp * group.dp > plan.offers[group.offer_index].gpus_per_instance:
            wrong.append(f"a replica of tp {group.tp} pp {group.pp} dp {group.dp} spans instances")
    for index, gpus in used.items():
        if gpus > plan.offers[index].gpus_per_instance * plan.offers[index].count:
            wrong.append(f"{gpus} GPUs used of {plan.offers[index].instance_type}")
    if plan.gpus != sum(each.gpus_per_instance * each.count for each in plan.offers):
        wrong.append("GPUs do not add up")
    return wrong


def _serving(plan: Plan, scenario: Scenario) -> list[str]:
    """The shares sum to at least what was asked, none above what the replica holds."""
    wrong = []
    served = sum(group.concurrency * group.count for group in plan.replicas)
    if served < (scenario.workload.concurrency or 0):
        wrong.append(f"{served} requests are served")
    return wrong + [
        f"a replica is given {group.concurrency} of {group.capacity}"
        for group in plan.replicas
        if group.concurrency > min(group.capacity, group.max_num_seqs * group.dp)
    ]


def _rate(plan: Plan, scenario: Scenario) -> list[str]:
    """At a rate: the parts sum to the busiest minute's."""
    work = scenario.workload
    if work.rate is None:
        return []
    from recommender.workload.rate import peak_factor_of

    peak = work.rate.per_s * peak_factor_of(work.rate, work.lengths.arrivals).value
    served = sum((group.rate_per_s or 0.0) * group.count for group in plan.replicas)
    return [] if served >= peak * (1 - ROUNDING) else [f"{served} of {peak} requests a second are served"]


def _in_flight(group: ReplicaGroup, scenario: Scenario, catalog: Catalog, anchors: Sequence[Anchor]) -> list[str]:
    """Each engine runs enough at once for its rate, and its blocks hold what requests in flight do."""
    from recommender.check_blocks import at_once_at_its_rate, blocks_needed, request_seconds

    wrong, takes = [], request_seconds(group, scenario, catalog, anchors)
    if scenario.workload.rate is not None:
        needed = at_once_at_its_rate(group, scenario, takes)
        if group.max_num_seqs < needed:
            wrong.append(f"max_num_seqs {group.max_num_seqs} at a rate that needs {needed}")
    if scenario.sizing != "worst_case":
        blocks = blocks_needed(group, scenario, catalog, takes)
        if blocks * (1 - ROUNDING) >= (group.memory.blocks or 0):  # one block is never handed out
            wrong.append(f"{group.max_num_seqs} requests need {blocks} of {group.memory.blocks} blocks")
    return wrong


def _memory(group: ReplicaGroup, scenario: Scenario) -> list[str]:
    """The replica starts, its budget adds up, and in the worst case its requests fit."""
    memory = group.memory
    if not memory.starts:
        return [f"a replica does not start: {memory.refusal}"]
    spent = memory.weights_bytes + memory.reserve_bytes + memory.kv_cache_bytes
    wrong = [] if spent <= memory.usable_bytes else [f"{spent} of {memory.usable_bytes} bytes spent"]
    if scenario.sizing == "worst_case" and not _holds(memory, group.max_num_seqs, scenario):
        wrong.append(
            f"{group.max_num_seqs} requests of {memory.max_model_len} do not fit {memory.kv_cache_tokens} tokens"
        )
    return wrong


def _holds(memory: Fit, requests: int, scenario: Scenario) -> bool:
    """Whether so many requests of max-model-len fit the cache at once."""
    if scenario.memory_model == "article":
        return requests * memory.max_model_len * memory.total.kv_bytes_per_token <= memory.total.kv_cache_bytes
    if memory.blocks is None or memory.request_blocks is None:
        return requests <= memory.max_concurrency
    return requests * memory.request_blocks < memory.blocks  # one block is never handed out

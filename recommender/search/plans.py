"""A chosen purchase -> a Plan a person can buy and start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from recommender.catalog.gpus import Gpu
from recommender.catalog.models import Model
from recommender.memory.fit import Replica, fit_replica
from recommender.memory.longest_length import longest_length
from recommender.report.launch import launch_line
from recommender.scenario import Scenario
from recommender.search.candidates import STARTS, Candidates, Pattern, Row
from recommender.search.columns import Column
from recommender.search.layouts import Layout
from recommender.search.load import Arriving, Load
from recommender.search.longest import longest_of
from recommender.search.need import need_of
from recommender.search.plan import Adjustment, Plan, Purchase, ReplicaGroup
from recommender.search.plan_speed import Pace, plan_speed
from recommender.search.problem import Bought
from recommender.search.terms import adjustments_of
from recommender.search.warnings import doubts_of, warnings_of
from recommender.speed.anchors import Anchor
from recommender.speed.bound import tokens_per_s_bound


@dataclass(frozen=True, slots=True)
class Question:
    """A scenario with its names resolved: what every part of the answer is built from."""

    scenario: Scenario
    model: Model
    gpus: Mapping[str, Gpu]
    columns: tuple[Column, ...]
    candidates: Candidates
    medians: Mapping[str, int]  # micro-dollars per GPU-hour, by GPU
    anchors: Sequence[Anchor] = ()  # a user's own measurements of speed

    @property
    def longest(self) -> int:
        """The longest request that this engine lets the model take."""
        return longest_length(self.model, self.scenario.engine, self.scenario.engine_version)

    @property
    def load(self) -> Load:
        """What is to be carried."""
        return self.candidates.evaluation.load


def plan_of(question: Question, bought: Bought, rank: int) -> Plan:
    """The purchase with its replicas, memory, launch lines and warnings."""
    terms = question.candidates.terms[bought.setting]
    columns = [question.columns[c] for c, _ in bought.counts]
    counts = [count for _, count in bought.counts]
    region, also = _regions(columns, question.scenario.search.placement)
    purchases = tuple(_purchase(question, *pair, region, also) for pair in zip(columns, counts, strict=True))
    placed = _replicas(question, columns, counts, bought.setting)
    replicas = tuple(group for group, _ in placed)
    replica_count = sum(group.count for group in replicas)
    priced = all(column.micro_usd_per_hour is not None for column in columns)
    return Plan(
        rank=rank,
        micro_usd_per_hour=bought.cost if priced else None,
        gpus=bought.gpus,
        replicas_total=replica_count,
        served_concurrency=sum(group.concurrency * group.count for group in replicas),
        headroom=_headroom(question, placed),
        adjustments=adjustments_of(terms, question.model, question.longest, _spread(question, replicas)),
        offers=purchases,
        replicas=replicas,
        warnings=warnings_of(question.scenario, columns, purchases, replicas, question.medians),
        speed=plan_speed(question.scenario, replicas, bought.cost if priced else None),
    )


def _headroom(question: Question, groups: Sequence[tuple[ReplicaGroup, Row]]) -> Decimal:
    """What the replicas carry beyond the demand, as a share of it, on the side that is planned on."""
    demand = question.load.demand
    return Decimal(sum(row.sequences * group.count for group, row in groups) - demand) / demand


def _regions(columns: Sequence[Column], placement: str) -> tuple[str | None, tuple[str, ...]]:
    """The first region that has everything, and the others; None where each column keeps its own."""
    if placement != "one_region":
        return None, ()
    shared = sorted(set.intersection(*(set(column.offers) for column in columns)))
    return shared[0], tuple(shared[1:])


def _purchase(question: Question, column: Column, count: int, region: str | None, also: tuple[str, ...]) -> Purchase:
    regions = sorted(column.offers)
    here = region or regions[0]
    offer = column.offers[here]
    return Purchase(
        provider=column.provider,
        instance_type=column.instance_type,
        region=here,
        also_in=also if region else tuple(regions[1:]),
        segment=offer.segment,
        market=column.market,
        gpu=column.gpu,
        gpus_per_instance=column.gpus,
        count=count,
        micro_usd_per_hour=column.micro_usd_per_hour,
        as_of=offer.as_of,
        source=offer.source,
        listed=offer.listed,
        assumed_size=column.assumed_size,
        doubts=doubts_of(
            question.scenario, column.gpu, column.gpus, column.micro_usd_per_hour, offer.as_of, question.medians
        ),
    )


def _replicas(
    question: Question, columns: Sequence[Column], counts: Sequence[int], setting: int
) -> list[tuple[ReplicaGroup, Row]]:
    """All replicas of the purchase, each with its share of the requests, and the candidate that it is."""
    patterns = _patterns(question, columns, counts, setting)
    found = [
        (offer, column, layout, terms, each * count)
        for offer, (column, count, pattern) in enumerate(zip(columns, counts, patterns, strict=True))
        for layout, terms, each in pattern.replicas
    ]
    rows = question.candidates.rows
    capacity = [rows[column.gpu, layout, terms].sequences for _, column, layout, terms, _ in found]
    shares = share(question.load.demand, capacity, [count for *_, count in found])
    groups = []
    for (offer, column, layout, terms, _), split in zip(found, shares, strict=True):
        row = rows[column.gpu, layout, terms]
        groups += [(_group(question, offer, row, count, units), row) for units, count in split]
    return groups


def _patterns(question: Question, columns: Sequence[Column], counts: Sequence[int], setting: int) -> list[Pattern]:
    """The replicas on one instance of each column: of one size where that serves the demand, else what holds most."""
    candidates, demand = question.candidates, question.load.demand
    equal = [candidates.equal_pattern(column.gpu, setting, column.gpus) for column in columns]
    if sum(pattern.sequences * count for pattern, count in zip(equal, counts, strict=True)) >= demand:
        return equal
    return [candidates.pattern(column.gpu, setting, column.gpus) for column in columns]


def share(demand: int, capacity: Sequence[int], counts: Sequence[int]) -> list[list[tuple[int, int]]]:
    """(units, replicas) for each group of equal replicas, so that the units sum to the demand.

    Equal replicas throughout all get the same ceiling. Otherwise each gets its part in proportion to what it holds,
    rounded down, and what is left over goes one by one to those that were cut most; none gets more than it holds.
    """
    total = sum(counts)
    if len(set(capacity)) == 1:
        return [[(-(-demand // total), count)] for count in counts]
    holds = sum(held * count for held, count in zip(capacity, counts, strict=True))
    base = [demand * held // holds for held in capacity]
    left = demand - sum(each * count for each, count in zip(base, counts, strict=True))
    extra = [0] * len(counts)
    for group in sorted(range(len(counts)), key=lambda g: (-(demand * capacity[g] % holds), g)):
        extra[group] = min(left, counts[group]) if base[group] < capacity[group] else 0
        left -= extra[group]
    return [
        [(each, n) for each, n in ((base[g] + 1, extra[g]), (base[g], counts[g] - extra[g])) if n and each]
        for g in range(len(counts))
    ]


def _group(question: Question, offer: int, row: Row, count: int, units: int) -> ReplicaGroup:
    terms, scenario, layout = question.candidates.terms[row.terms], question.scenario, row.layout
    load, part = question.candidates.load_on(row), -(-units // layout.dp)
    rank = load.slots(part)
    memory = fit_replica(replica_of(question, row, rank), scenario.memory_model)
    checkpoint = terms.choice.checkpoint
    group = ReplicaGroup(
        workload=scenario.name,
        offer_index=offer,
        count=count,
        gpu=row.gpu,
        tp=layout.tp,
        pp=layout.pp,
        dp=layout.dp,
        ep=layout.ep,
        weights=terms.choice.weights,
        weights_how=terms.choice.how,
        checkpoint=checkpoint.id if checkpoint else None,
        kv_dtype=terms.kv_dtype,
        max_model_len=terms.max_model_len,
        max_num_seqs=rank,
        max_num_batched_tokens=memory.max_num_batched_tokens,
        concurrency=load.at_once(units, layout.dp),
        capacity=row.slots,
        expected_capacity=question.candidates.expected(row),
        memory=memory,
        output_tokens_per_s_bound=tokens_per_s_bound(question.model, question.gpus[row.gpu], layout, terms.choice),
        launch=launch_line(
            question.model, terms.choice, memory, row.verdict.launch_arguments, enforce_eager=scenario.enforce_eager
        ),
        longest_max_model_len=longest_of(question, memory, units, row),
        need=need_of(question, memory, units, row),
        rate_per_s=load.rate_of(units),
        mean_in_flight=layout.dp * load.mean_in_flight(part) if isinstance(load, Arriving) else None,
    )
    pace = Pace(scenario, question.model, question.anchors)
    return pace.timed(group, question.gpus[row.gpu], terms.choice)


def replica_of(question: Question, row: Row, max_num_seqs: int) -> Replica:
    """The replica as it would be started; max_num_seqs is that of one of its data-parallel engines."""
    scenario, layout, terms = question.scenario, row.layout, question.candidates.terms[row.terms]
    utilization = scenario.gpu_memory_utilization
    return Replica(
        model=question.model,
        gpu=question.gpus[row.gpu],
        weights=terms.choice.weights,
        checkpoint=terms.choice.checkpoint,
        kv_dtype=terms.kv_dtype,
        tp=layout.tp,
        pp=layout.pp,
        dp=layout.dp,
        ep=layout.ep,
        max_model_len=terms.max_model_len,
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=terms.max_num_batched_tokens or scenario.max_num_batched_tokens,
        gpu_memory_utilization=None if utilization is None else float(utilization),
        enforce_eager=scenario.enforce_eager,
        engine=scenario.engine,
        engine_version=scenario.engine_version,
        calibration=scenario.calibration,
    )


LINKS = "the links between GPUs bound the speed"
BALANCER = "a router spreads the requests over the replicas"


def _spread(question: Question, replicas: Sequence[ReplicaGroup]) -> Adjustment | None:
    """Rung 4, where the plan runs on more GPUs than the weights alone need."""
    used = sum(group.tp * group.pp * group.dp * group.count for group in replicas)
    least = min(_fewest(question, group.gpu, group.weights) for group in replicas)
    if used <= least:
        return None
    parts = ", ".join(
        f"{group.count} x {Layout(group.pp, group.dp, group.tp, group.ep)} on {group.gpu}" for group in replicas
    )
    linked = any(group.tp * group.pp * group.dp > 1 for group in replicas)
    several = sum(group.count for group in replicas) > 1
    cautions = [LINKS] * linked + [BALANCER] * several
    return Adjustment(4, "gpus", f"{least} -> {used} GPUs ({parts})", "; ".join(cautions))


def _fewest(question: Question, gpu: str, weights: str) -> int:
    """The fewest GPUs over which weights and reserve fit, whether or not a request does."""
    return min(
        row.layout.gpus
        for row in question.candidates.of_gpu(gpu)
        if question.candidates.terms[row.terms].choice.weights == weights and row.limit in STARTS
    )

"""Whether a finished plan keeps the limits on speed: each replica asked alone, totals summed up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal

from recommender.catalog.catalog import Catalog
from recommender.memory.weights import weight_choices
from recommender.scenario import Scenario
from recommender.search.plan import Plan, ReplicaGroup
from recommender.speed.anchors import Anchor
from recommender.speed.answer import Running, prepared_of
from recommender.speed.predict import Prepared
from recommender.speed.setup import Found, Load, Setup
from recommender.speed.slo import ttft_over_mean
from recommender.workload.lengths import mean_request, mean_tokens

ROUNDING = 1e-9


def speed_faults(plan: Plan, scenario: Scenario, catalog: Catalog, anchors: Sequence[Anchor]) -> list[str]:
    """What a plan promises of speed and does not keep on the side that is planned on."""
    if not scenario.sla.timed:
        return []
    sla, total = scenario.sla, 0.0
    wrong: list[str] = []
    level = float(sla.confidence)
    for group in plan.replicas:
        prepared = prepared_alone(group, scenario, catalog, anchors)
        at = prepared.rows.concurrency
        found = prepared.steady(at)
        slower, later = (float(prepared.worst_ratio(name, level, at)[0]) for name in ("tpot", "ttft"))
        late = 1.0 if sla.percentile is None else ttft_over_mean(float(sla.percentile))
        wrong += _over("ms a token", float(found.tpot_s[0]) * 1e3 * slower, sla.tpot_ms)
        wrong += _over("ms to the first token", float(found.ttft_s[0]) * 1e3 * later * late, sla.ttft_ms)
        fewer = float(prepared.worst_ratio("output_tokens_per_s", 1 - level, at)[0])
        total += float(found.output_tokens_per_s[0]) * fewer * group.count
    return wrong + _too_few(total, scenario)


def _over(what: str, seen: float, limit: Decimal | None) -> Iterable[str]:
    if limit is not None and seen > float(limit) * (1 + ROUNDING):
        yield f"{seen:.4g} {what}, more than {limit}"


def _too_few(tokens_per_s: float, scenario: Scenario) -> list[str]:
    sla, (_, output) = scenario.sla, mean_tokens(scenario.workload.lengths)
    wanted = max(float(sla.output_tokens_per_s or 0), float(sla.requests_per_s or 0) * output)
    if tokens_per_s >= wanted * (1 - ROUNDING):
        return []
    return [f"{tokens_per_s:.4g} of {wanted:.4g} output tokens a second"]


def prepared_alone(group: ReplicaGroup, scenario: Scenario, catalog: Catalog, anchors: Sequence[Anchor]) -> Prepared:
    """One replica as it is started, with the requests it is given."""
    resolved = catalog.resolve(scenario.model)
    given = (resolved.checkpoint,) if resolved.checkpoint else catalog.checkpoints_of(resolved.model.id)
    choice = next(
        each
        for each in weight_choices(resolved.model, given, scenario.engine_version)
        if each.weights == group.weights and (each.checkpoint.id if each.checkpoint else None) == group.checkpoint
    )
    load = Load(*mean_request(scenario.workload.lengths), group.concurrency)
    setup = Setup(
        resolved.model.id,
        group.gpu,
        group.tp,
        group.pp,
        group.ep,
        group.dp,
        weights=group.weights,
        kv_dtype=group.kv_dtype,
        engine=scenario.engine,
        engine_version=scenario.engine_version,
    )
    found = Found.of(resolved.model, catalog.gpu(group.gpu), choice, group.dp)
    running = Running(group.max_num_seqs * group.dp, group.max_num_batched_tokens)
    return prepared_of(setup, found, load, running, anchors)[0]

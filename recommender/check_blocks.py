"""KV blocks that the requests of one engine need, worked out for it alone: what the search reads off tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from recommender.catalog.catalog import Catalog
from recommender.memory.engine import engine_constants
from recommender.memory.kv import KvPool, kv_pool
from recommender.scenario import Scenario
from recommender.search.plan import ReplicaGroup
from recommender.speed.anchors import Anchor
from recommender.units import ceil_div
from recommender.workload.inflight import inflight_of
from recommender.workload.law import token_law
from recommender.workload.lengths import Lengths
from recommender.workload.poisson import poisson_quantile
from recommender.workload.rate import InFlightAtRate, Rate, inflight_at_rate, requests_in_flight
from recommender.workload.service import Service
from recommender.workload.sums import Sum

RequestSeconds = Callable[[float], float]
"""Seconds that a request takes on one engine which has so many in flight."""


def request_seconds(
    group: ReplicaGroup, scenario: Scenario, catalog: Catalog, anchors: Sequence[Anchor]
) -> RequestSeconds:
    """How long requests take on an engine of the group: as stated, by stated step times, or as predicted for it."""
    work = scenario.workload
    if not scenario.paced_by_model:
        return Service.of(work.lengths, scenario.step_time, work.request_s).request_s
    from recommender.check_speed import prepared_alone
    from recommender.speed.service import PredictedService

    alone = prepared_alone(group, scenario, catalog, anchors)
    return PredictedService(alone, float(scenario.sla.confidence)).request_s


def at_once_at_its_rate(group: ReplicaGroup, scenario: Scenario, takes: RequestSeconds) -> int:
    """The requests one engine of the group must run at once, so that its rate exceeds them only at the risk."""
    mean = requests_in_flight((group.rate_per_s or 0.0) / group.dp, takes)
    return poisson_quantile(mean, float(scenario.epsilon))


def at_its_rate(group: ReplicaGroup, scenario: Scenario, takes: RequestSeconds) -> InFlightAtRate:
    """What the rate that one engine of the group is given puts in flight."""
    work, memory = scenario.workload, group.memory
    return inflight_at_rate(
        work.lengths,
        Rate((group.rate_per_s or 0.0) / group.dp, peak_factor=1.0),
        takes,
        float(scenario.epsilon),
        group.max_model_len,
        memory.block_size or 1,
        work.shared_prefix,
    )


def blocks_needed(group: ReplicaGroup, scenario: Scenario, catalog: Catalog, takes: RequestSeconds) -> int:
    """Blocks that one engine of the group exceeds in at most epsilon of its steps; one whole request among them."""
    memory = group.memory
    size, whole = memory.block_size or 1, memory.request_blocks or 0
    if whole != ceil_div(group.max_model_len, size):
        return max(_capped(group, scenario, catalog, takes), whole)
    if scenario.workload.rate is not None:
        return max(at_its_rate(group, scenario, takes).statistical_tokens // size, whole)
    work = scenario.workload
    need = inflight_of(
        work.lengths, group.max_num_seqs, scenario.epsilon, group.max_model_len, size, work.shared_prefix
    )
    return max(need.statistical_tokens // size, whole)


def _capped(group: ReplicaGroup, scenario: Scenario, catalog: Catalog, takes: RequestSeconds) -> int:
    """The same where layers keep a window or a state: what a request keeps at its length, and one batch in flight."""
    resolved = catalog.resolve(scenario.model)
    given = resolved.checkpoint
    model = resolved.model if given is None else replace(resolved.model, kv_declared=given.kv_declared)
    pool = kv_pool(
        model,
        engine_constants(scenario.engine, scenario.engine_version),
        catalog.gpu(group.gpu),
        tp=group.tp,
        kv_dtype=group.kv_dtype,
        weights=group.weights,
    )
    whole = group.memory.request_blocks or 0
    batch = whole - pool.request_blocks(group.max_model_len, 1)
    held = _sum(scenario.workload.lengths, group.max_model_len, float(scenario.epsilon), pool)
    if scenario.workload.rate is not None:
        need = held.poisson_quantile(at_its_rate(group, scenario, takes).mean_in_flight)
    else:
        need = held.quantile(group.max_num_seqs)
    return min(need + batch, group.max_num_seqs * whole)


@lru_cache(maxsize=16)
def _sum(lengths: Lengths, max_model_len: int, risk: float, pool: KvPool) -> Sum:
    law = token_law(lengths, max_model_len)
    tokens = np.arange(law.top + 1, dtype=np.int64)
    return Sum(law.charged(pool.request_blocks(tokens, np.ones_like(tokens))), risk)

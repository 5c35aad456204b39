"""How fast a chosen plan serves at its load, and where its memory is full: one replica group at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from recommender.catalog.gpus import Gpu
from recommender.catalog.models import Model
from recommender.errors import NotModelledError
from recommender.memory.weights import WeightChoice
from recommender.scenario import Scenario
from recommender.search.layouts import Layout
from recommender.search.plan import PlanSpeed, ReplicaGroup
from recommender.speed.anchors import Anchor
from recommender.speed.answer import Running, Speed, prepared_of, speed_of
from recommender.speed.cost import break_even, token_cost
from recommender.speed.evidence import Evidence, weakest
from recommender.speed.setup import Found, Load, Setup
from recommender.workload.lengths import mean_request
from recommender.workload.replica import StepTime

HOUR_S = 3600
NO_SPLIT = (
    "the lengths are one total, and how much of it is prompt decides; write the two apart, such as"
    " lengths: {fixed: {input: 7K, output: 1K}}"
)


@dataclass(frozen=True, slots=True)
class Pace:
    """Answers how fast replicas of one question serve; with the reason where that is not known."""

    scenario: Scenario
    model: Model
    anchors: Sequence[Anchor]

    def timed(self, group: ReplicaGroup, gpu: Gpu, choice: WeightChoice) -> ReplicaGroup:
        """The group with its speed at the requests it is given, and at those it holds."""
        lengths = self.scenario.workload.lengths
        if lengths.total_only:
            return replace(group, speed_unknown=NO_SPLIT)
        found = Found.of(self.model, gpu, choice, group.dp)
        try:
            given = self._at(group, found, group.mean_in_flight or group.concurrency)
            full = self._at(group, found, group.capacity)
        except NotModelledError as error:
            return replace(group, speed_unknown=error.faults[0].what)
        return replace(group, speed=given, full_speed=full)

    def steps(self, group: ReplicaGroup, gpu: Gpu, choice: WeightChoice) -> tuple[StepTime, str]:
        """The times of one engine's steps about the requests it is given, as slow as planned on, and their evidence.

        Raises NotModelledError where its speed is not modelled.
        """
        found = Found.of(self.model, gpu, choice, group.dp)
        requests = group.mean_in_flight or group.concurrency
        prepared, _ = prepared_of(self._setup(group), found, *self._asked(group, requests), self.anchors)
        at, confidence = np.array([float(max(requests, 1))]), float(self.scenario.sla.confidence)
        sequences = np.maximum(prepared.steady(at).decoding / group.pp, 1.0)  # stages work on different ones
        slower = 1 / prepared.worst_ratio("output_tokens_per_s", 1 - confidence, at)
        base, each, token, with_prompt = (float(times[0] * slower[0]) for times in prepared.step_times(sequences))
        first = float(prepared.costs.first_token_s[0])
        evidence = Evidence(int(prepared.evidence_at(at)[0])).words
        return StepTime(base, each / group.pp, token / group.pp, with_prompt, first), evidence

    def _at(self, group: ReplicaGroup, found: Found, requests: float) -> Speed:
        """One replica with so many requests in flight, all of them running."""
        return speed_of(self._setup(group), found, *self._asked(group, requests), self.anchors)

    def _asked(self, group: ReplicaGroup, requests: float) -> tuple[Load, Running]:
        """The load of one replica, and what it was started with to run all of it at once."""
        load = Load(*mean_request(self.scenario.workload.lengths), max(requests, 1))
        return load, Running(max(math.ceil(requests), 1), group.max_num_batched_tokens)

    def _setup(self, group: ReplicaGroup) -> Setup:
        layout = Layout(group.pp, group.dp, group.tp, group.ep)
        return setup_of(self.scenario, self.model, group.gpu, layout, group.weights, group.kv_dtype)


def setup_of(scenario: Scenario, model: Model, gpu: str, layout: Layout, weights: str, kv_dtype: str) -> Setup:
    """One replica as the speed model takes it."""
    return Setup(
        model=model.id,
        gpu=gpu,
        tp=layout.tp,
        pp=layout.pp,
        ep=layout.ep,
        dp=layout.dp,
        weights=weights,
        kv_dtype=kv_dtype,
        engine=scenario.engine,
        engine_version=scenario.engine_version,
    )


def plan_speed(scenario: Scenario, groups: Sequence[ReplicaGroup], micro_usd_per_hour: int | None) -> PlanSpeed | None:
    """The slowest replica's times and the sum of what all replicas answer; None where one of them is unknown."""
    found = _together(groups)
    if found is None or not micro_usd_per_hour:
        return found
    lengths, rate, api = scenario.workload.lengths, scenario.workload.rate, scenario.hosted_api
    prompt, output = mean_request(lengths)
    asked = found.requests_per_s if rate is None else rate.per_s
    if asked * HOUR_S * min(prompt, output) < 1:
        return found  # less than a token an hour has no cost per million
    return replace(
        found,
        cost=token_cost(micro_usd_per_hour, asked, prompt, output, found.prompt_share),
        full_cost=token_cost(micro_usd_per_hour, found.full_requests_per_s, prompt, output, found.prompt_share),
        break_even=None if api is None else break_even(micro_usd_per_hour, asked, prompt, output, api),
    )


def _together(groups: Sequence[ReplicaGroup]) -> PlanSpeed | None:
    """The figures of all replicas, without money."""
    known = [
        (group.speed, group.full_speed, group.count)
        for group in groups
        if group.speed is not None and group.full_speed is not None
    ]
    if len(known) < len(groups):
        return None
    speeds = [speed for speed, _, _ in known]
    late, slow = max(speeds, key=lambda each: each.ttft_ms), max(speeds, key=lambda each: each.tpot_ms)
    low, high = (sum(speed.output_tokens_per_s_interval[end] * count for speed, _, count in known) for end in (0, 1))
    return PlanSpeed(
        ttft_ms=late.ttft_ms,
        ttft_ms_interval=late.ttft_ms_interval,
        tpot_ms=slow.tpot_ms,
        tpot_ms_interval=slow.tpot_ms_interval,
        output_tokens_per_s=sum(speed.output_tokens_per_s * count for speed, _, count in known),
        output_tokens_per_s_interval=(low, high),
        requests_per_s=sum(speed.requests_per_s * count for speed, _, count in known),
        evidence=weakest(speed.evidence for speed in speeds),
        full_concurrency=sum(round(full.concurrency) * count for _, full, count in known),
        full_output_tokens_per_s=sum(full.output_tokens_per_s * count for _, full, count in known),
        full_requests_per_s=sum(full.requests_per_s * count for _, full, count in known),
        prompt_share=_shared([(speed.prompt_share, speed.requests_per_s * count) for speed, _, count in known]),
    )


def _shared(parts: Sequence[tuple[float, float]]) -> float:
    total = sum(weight for _, weight in parts)
    return sum(share * weight for share, weight in parts) / total if total else 0.0

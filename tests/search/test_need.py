"""The utilization that would do: it does, and a hundredth less does not (users.md 76: a pool is not a need)."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest
from price_list import ask, price_list, trace

from recommender.answer import recommend
from recommender.scenario import Scenario, Search
from recommender.search.plan import ReplicaGroup
from recommender.workload.lengths import Cell, Lengths

CATALOG = price_list("L40S", "A100-80GB-SXM", "H100-SXM")
FIXED = Lengths((Cell(1, 8192, 0),), 8192, total_only=True)


def served(scenario: Scenario, group: ReplicaGroup, utilization: Decimal) -> bool:
    """Whether one such replica carries what the group's replicas are given, at that utilization."""
    search = replace(scenario.search, gpus=(group.gpu,), tp=(group.tp,), max_gpus=group.tp)
    one = replace(scenario, search=search, gpu_memory_utilization=utilization)
    found = recommend(replace(one, workload=replace(one.workload, concurrency=group.concurrency)), CATALOG).plans
    return any(each.max_model_len == group.max_model_len for plan in found for each in plan.replicas)


@pytest.mark.parametrize("margin", ["safe", "expected"])
@pytest.mark.parametrize(
    ("model", "lengths", "sizing"),
    [
        ("llama-3.1-8b", FIXED, "worst_case"),
        ("llama-3.1-8b", trace("azure_conv_2023"), "statistical"),
        ("google/gemma-3-27b-it", FIXED, "worst_case"),
        ("deepseek-ai/DeepSeek-V2-Lite-Chat", FIXED, "worst_case"),
    ],
)
def test_the_least_utilization_serves_and_less_does_not(model: str, lengths: Lengths, sizing: str, margin: str) -> None:
    search = Search(plans=3, weights=("bf16",), kv_dtypes=("auto",))
    asked = ask(lengths, 20, model, sizing=sizing, memory_margin=margin, search=search)
    plans = recommend(asked, CATALOG).plans
    assert plans
    for group in (group for plan in plans for group in plan.replicas if group.dp == 1):
        assert group.need is not None
        assert group.need.kv_cache_bytes <= group.memory.kv_cache_bytes
        least = Decimal(str(group.need.least_utilization))
        assert served(asked, group, least)
        assert not served(asked, group, least - Decimal("0.01"))


def test_a_sliding_cache_sized_by_real_lengths_has_no_stated_need() -> None:
    (group, *_) = recommend(ask(trace("azure_conv_2023"), 20, "google/gemma-3-27b-it"), CATALOG).plans[0].replicas
    assert group.need is None

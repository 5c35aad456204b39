"""Limits on speed in the search: exact, on the pessimistic side, and eased by the nearest value that serves."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from price_list import cost, price_list

from recommender import load_scenario, recommend
from recommender.answer import budget
from recommender.check_speed import prepared_alone
from recommender.errors import InputError
from recommender.report.table import answer_page
from recommender.scenario import Limits, OwnCards, Scenario, Search, Sla, Workload
from recommender.scenario_file.load import load
from recommender.search.plan import Plan
from recommender.search.speeds import target_of
from recommender.speed.cost import Api
from recommender.speed.slo import meets
from recommender.workload.lengths import Cell, Lengths
from recommender.workload.rate import Rate

CATALOG = price_list("L40S", "A100-80GB-SXM", "H100-SXM")


def asking(
    concurrency: int = 50, prompt: int = 1024, output: int = 256, model: str = "llama-3.1-70b", **changed: Any
) -> Scenario:
    """So many requests of one length, with limits by their keys."""
    sla = Sla(**{key: Decimal(str(changed.pop(key))) for key in Sla.__dataclass_fields__ if key in changed})
    lengths = Lengths((Cell(1.0, float(prompt), float(output)),), prompt + output)
    scenario = Scenario("test", model, Workload(concurrency, lengths), sla=sla, speed="model", search=Search(plans=3))
    return replace(scenario, **changed)


def first(scenario: Scenario) -> Plan:
    return recommend(scenario, CATALOG).plans[0]


@pytest.mark.parametrize(
    "limits",
    [
        {"tpot_ms": 40},
        {"tpot_ms": 25, "confidence": 0.5},
        {"ttft_ms": 1500, "percentile": 99},
        {"output_tokens_per_s": 1500},
        {"requests_per_s": 4, "tpot_ms": 60},
    ],
)
def test_replicas_are_filled_to_the_last_request_that_keeps_the_limits(limits: dict[str, float]) -> None:
    """The most it serves keeps them; one more misses them, or does not fit the cache."""
    scenario = asking(**limits)
    for plan in recommend(scenario, CATALOG).plans:
        for group in plan.replicas:
            free = replace(scenario, sla=Sla(), speed="ignore", search=Search(plans=1, gpus=(group.gpu,)))
            prepared = prepared_alone(replace(group, max_num_seqs=10**6), scenario, CATALOG, ())
            target = target_of(scenario)
            held = np.array([group.capacity])
            assert meets(prepared, target, held).all()
            memory = recommend(free, CATALOG).plans
            assert memory
            slower = not meets(prepared, target, held + 1).any()
            assert slower or group.capacity == _held_by_memory(scenario, group)


def _held_by_memory(scenario: Scenario, group: Any) -> int:
    """What the same replica holds where nothing limits speed."""
    search = Search(plans=1, gpus=(group.gpu,), tp=(group.tp,), weights=(group.weights,), kv_dtypes=(group.kv_dtype,))
    unlimited = replace(scenario, sla=Sla(), speed="ignore", search=search)
    found = recommend(unlimited, CATALOG).plans[0].replicas
    return next(each.capacity for each in found if each.max_model_len == group.max_model_len)


def test_a_stricter_limit_never_costs_less() -> None:
    for key, values in (("tpot_ms", (80, 40, 25, 18)), ("ttft_ms", (4000, 1500, 700)), ("requests_per_s", (2, 5, 9))):
        costs = [cost(recommend(asking(**{key: value}), CATALOG)) for value in values]
        assert costs == sorted(costs)
    free, bound = asking(), asking(tpot_ms=10**6)
    assert cost(recommend(replace(free, speed="ignore"), CATALOG)) == cost(recommend(bound, CATALOG))


def test_more_confidence_never_costs_less() -> None:
    costs = [cost(recommend(asking(tpot_ms=20, confidence=share), CATALOG)) for share in (0.5, 0.8, 0.9, 0.95)]
    assert costs == sorted(costs)
    assert costs[0] < costs[-1]


def test_two_replicas_of_four_for_throughput_one_of_eight_for_latency() -> None:
    """A thread on 8 H100 with the 70B in FP8 (vLLM issue 8089, users.md 59): TP8 answers less than two TP4."""
    eight = (OwnCards("H100-SXM", 8, 8),)
    search = Search(plans=1, weights=("fp8",), tp=(4, 8))
    many = first(asking(200, hardware=eight, search=search, output_tokens_per_s=4000))
    assert [(group.tp, group.count) for group in many.replicas] == [(4, 2)]
    quick = first(asking(4, hardware=eight, search=search, tpot_ms=13))
    assert [(group.tp, group.count) for group in quick.replicas] == [(8, 1)]


def test_what_all_replicas_answer_reaches_the_total() -> None:
    plan = first(asking(output_tokens_per_s=2000))
    assert plan.speed is not None
    assert plan.speed.output_tokens_per_s_interval[0] >= 2000  # the low end of the 80 % band is the 90 % side


@pytest.mark.parametrize(
    ("key", "asked", "eases"), [("tpot_ms", 5, 1), ("ttft_ms", 20, 1), ("output_tokens_per_s", 90000, -1)]
)
def test_the_nearest_limit_that_serves_is_named(key: str, asked: int, eases: int) -> None:
    """As a buyer would ask (users.md 73): not an outage, but which limit binds and what would do."""
    answer = recommend(asking(**{key: asked}), CATALOG)
    assert answer.status == "infeasible"
    named = next(refusal for refusal in answer.refusals if refusal.limit == "speed" and refusal.gpu is None)
    found = re.fullmatch(rf"sla\.{key}: {asked} -> ([\d.]+)", named.change or "")
    assert found is not None
    near = Decimal(found[1])
    assert recommend(asking(**{key: near}), CATALOG).plans
    assert not recommend(asking(**{key: near * Decimal("0.98" if eases > 0 else "1.02")}), CATALOG).plans
    for gpu in ("L40S", "H100-SXM"):
        reason = next(refusal.reason for refusal in answer.refusals if refusal.gpu == gpu)
        assert "even for one request alone" in reason


def test_a_total_out_of_reach_names_the_requests_at_once_that_reach_it_cheapest() -> None:
    """Two requests at once cannot answer 5,000 tokens a second on any card; hundreds share a few of them."""
    answer = recommend(asking(2, output_tokens_per_s=5000), CATALOG)
    assert answer.status == "infeasible"
    named = next(refusal for refusal in answer.refusals if refusal.limit == "concurrency")
    more = int(re.findall(r"workload\.concurrency: 2 -> (\d+)", named.change or "")[0])
    around = (more // 2, more, more * 2)
    costs = [cost(recommend(asking(each, output_tokens_per_s=5000), CATALOG)) for each in around]
    assert costs[1] == min(costs)
    assert costs[1] < costs[0]


def test_within_a_fixed_stock_fewer_requests_keep_the_limit() -> None:
    """Four cards, and more asked than they answer in time (users.md 74): what they do answer, not a refusal alone."""
    cards = (OwnCards("H100-SXM", 4, 4),)
    answer = recommend(asking(400, hardware=cards, tpot_ms=30), CATALOG)
    change = next(refusal.change for refusal in answer.refusals if refusal.limit == "max_num_seqs")
    fewer = int(re.findall(r"-> (\d+)", change or "")[0])
    assert recommend(asking(fewer, hardware=cards, tpot_ms=30), CATALOG).plans
    assert not recommend(asking(fewer + 1, hardware=cards, tpot_ms=30), CATALOG).plans


def test_a_budget_buys_what_keeps_the_limits() -> None:
    scenario = asking(1, tpot_ms=30)
    bought = budget(scenario, Decimal(9000), CATALOG)
    assert bought.concurrency is not None
    enough = replace(scenario, workload=replace(scenario.workload, concurrency=bought.concurrency))
    within = replace(enough, limits=Limits(usd_per_month=Decimal(9000)))
    assert recommend(within, CATALOG).plans
    more = replace(within, workload=replace(scenario.workload, concurrency=bought.concurrency + 1))
    assert not recommend(more, CATALOG).plans
    with pytest.raises(InputError, match="a budget asks for the largest load"):
        budget(asking(1, requests_per_s=1), Decimal(9000), CATALOG)


def test_speed_is_shown_where_it_is_not_limited() -> None:
    plan = first(replace(asking(), speed="ignore"))
    speed = plan.speed
    assert speed is not None
    assert speed.ttft_ms_interval[0] < speed.ttft_ms < speed.ttft_ms_interval[1]
    assert speed.output_tokens_per_s == pytest.approx(
        sum(group.speed.output_tokens_per_s * group.count for group in plan.replicas if group.speed)
    )
    assert speed.full_concurrency >= plan.served_concurrency


def test_a_total_length_says_why_there_is_no_speed() -> None:
    scenario = asking()
    total = replace(scenario.workload.lengths, total_only=True)
    plan = first(replace(scenario, speed="ignore", workload=replace(scenario.workload, lengths=total)))
    assert plan.speed is None
    assert "how much of it is prompt" in (plan.replicas[0].speed_unknown or "")


RUN = {
    "duration": 60.0,
    "completed": 240,
    "failed": 0,
    "total_input_tokens": 240 * 1024,
    "total_output_tokens": 240 * 256,
    "request_throughput": 4.0,
    "output_throughput": 1024.0,
    "mean_ttft_ms": 200.0,
    "mean_tpot_ms": 30.0,
    "max_concurrency": 32,
    "model_id": "meta-llama/Llama-3.1-70B-Instruct",
}


def test_a_benchmark_of_ones_own_moves_every_plan_on_its_gpu_and_model(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(json.dumps(RUN))
    text = """
model: llama-3.1-70b
workload: {concurrency: 32, lengths: {fixed: {input: 1024, output: 256}}}
search: {gpus: H100-SXM, weights: fp8, tp: 4, plans: 1}
"""
    (tmp_path / "plain.yaml").write_text(text)
    anchored = text + "anchors: [{file: run.json, gpu: H100-SXM, tp: 4, weights: fp8}]\n"
    (tmp_path / "anchored.yaml").write_text(anchored)
    before, after = (recommend(load_scenario(tmp_path / f"{name}.yaml")).plans[0] for name in ("plain", "anchored"))
    assert before.speed is not None
    assert after.speed is not None
    assert after.speed.tpot_ms > before.speed.tpot_ms * 1.1
    assert after.speed.evidence == "anchored"  # published runs of the group, corrected by this one


def test_a_benchmark_that_no_plan_can_use_is_said(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(json.dumps(RUN))
    (tmp_path / "scenario.yaml").write_text(
        "model: llama-3.1-70b\nworkload: {concurrency: 32, lengths: {fixed: {input: 1024, output: 256}}}\n"
        "search: {gpus: H100-SXM, tp: 4, weights: fp8, plans: 1}\n"
        "anchors: [{file: run.json, gpu: H100-SXM, tp: 4, weights: fp8}]\n"
        "variants: {other weights: {search: {weights: int4}}}\n"
    )
    loaded = load(tmp_path / "scenario.yaml")
    assert recommend(loaded.scenario, loaded.catalog).warnings == ()
    (said,) = recommend(loaded.variants["other weights"], loaded.catalog).warnings
    assert "fp8 weights of meta-llama/Llama-3.1-70B-Instruct on H100-SXM, which no plan listed uses" in said


def test_a_benchmark_that_contradicts_itself_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(json.dumps(RUN | {"output_throughput": 9000.0}))
    (tmp_path / "scenario.yaml").write_text(
        "model: llama-3.1-70b\nworkload: {concurrency: 32, lengths: {fixed: {input: 1024, output: 256}}}\n"
        "anchors: [{file: run.json, gpu: H100-SXM, tp: 4}]\n"
    )
    with pytest.raises(InputError, match="contradicts"):
        recommend(load_scenario(tmp_path / "scenario.yaml"))


@pytest.mark.parametrize(
    ("anchors", "said"),
    [
        (
            "{file: run.json, gpu: H100-SXM, tp: 4}, {file: ./run.json, gpu: H200-SXM, tp: 4}",
            r"anchors\[1\].file: is given",
        ),
        ("{file: run.json, gpu: H100-SXM, tp: 3}", r"anchors\[0\].tp: 64 attention heads"),
        ("{file: run.json, gpu: H100-SXM, tp: 4, pp: 81}", r"anchors\[0\].pp: .* 80 layers, not enough for 81"),
        ("{file: run.json, gpu: H100-SXM, tp: 4, weights: mxfp4}", r"anchors\[0\].weights: no mxfp4"),
        ("{file: run.json, gpu: L4}", r"anchors\[0\]: .* does not fit 1 x L4"),
        ("{file: a.json, gpu: L4}, {file: b.json, gpu: L4}", r"a.json: cannot be read(.|\n)*b.json: cannot be read"),
    ],
)
def test_a_benchmark_whose_set_up_cannot_be_is_named(anchors: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(json.dumps(RUN))
    (tmp_path / "scenario.yaml").write_text(
        "model: llama-3.1-70b\nworkload: {concurrency: 32, lengths: {fixed: {input: 1024, output: 256}}}\n"
        f"anchors: [{anchors}]\n"
    )
    with pytest.raises(InputError, match=said):
        recommend(load_scenario(tmp_path / "scenario.yaml"))


def test_a_million_tokens_cost_the_plan_over_what_it_answers() -> None:
    """Dollars an hour over tokens an hour; against an API the same traffic at its prices."""
    api = Api(Decimal("0.5"), Decimal("1.5"))
    plan = first(replace(asking(), hosted_api=api))
    speed = plan.speed
    assert speed is not None
    assert speed.cost is not None
    assert speed.full_cost is not None
    assert speed.break_even is not None
    an_hour = float(speed.requests_per_s) * 3600 / 1e6
    dollars = (plan.micro_usd_per_hour or 0) / 1e6
    assert float(speed.cost.blended) == pytest.approx(dollars / (an_hour * (1024 + 256)), rel=1e-3)
    assert float(speed.cost.output_alone) == pytest.approx(dollars / (an_hour * 256), rel=1e-3)
    shared = float(speed.cost.input) * 1024 + float(speed.cost.output) * 256
    assert shared * an_hour == pytest.approx(dollars, rel=1e-3)
    assert speed.full_cost.blended <= speed.cost.blended
    asks = an_hour * (1024 * 0.5 + 256 * 1.5)
    assert float(speed.break_even.api_usd_per_hour) == pytest.approx(asks, rel=1e-3)
    assert float(speed.break_even.share_of_load) == pytest.approx(dollars / asks, rel=1e-3)


def test_at_a_rate_tokens_cost_by_its_average_not_its_peak() -> None:
    scenario = replace(asking(), workload=Workload(None, asking().workload.lengths, Rate(2.0, peak_factor=3.0)))
    plan = first(scenario)
    assert plan.speed is not None
    assert plan.speed.cost is not None
    an_hour = 2.0 * 3600 * (1024 + 256) / 1e6
    dollars = (plan.micro_usd_per_hour or 0) / 1e6
    assert float(plan.speed.cost.blended) == pytest.approx(dollars / an_hour, rel=1e-3)


def test_the_page_says_whether_memory_or_a_limit_ends_what_a_replica_is_given() -> None:
    free, limited = replace(asking(), speed="ignore"), asking(tpot_ms=30)
    assert " fit" in answer_page(recommend(free, CATALOG)).split("Rank 1, ")[1][:300]
    assert " keep the limits" in " ".join(answer_page(recommend(limited, CATALOG)).split("Rank 1, ")[1][:300].split())

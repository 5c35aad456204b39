"""Whole answers on real models and a small price list: known ones, and how they move when the question does."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from datetime import date
from decimal import Decimal

import pytest

from recommender.answer import budget, ladder, recommend, shipped_catalog
from recommender.catalog.catalog import Catalog
from recommender.catalog.offers import Offer
from recommender.errors import InputError
from recommender.scenario import Cap, Limits, OwnCards, Scenario, Search, Workload
from recommender.search.plan import Plan, Recommendation
from recommender.workload.lengths import Cell, Lengths


def fixed(tokens: int) -> Lengths:
    return Lengths((Cell(1, tokens, 0),), tokens, total_only=True)


def offer(gpu: str, gpus: int, usd: str, provider: str = "a", region: str = "r1", **changed: object) -> Offer:
    values = {
        "provider": provider,
        "segment": "neocloud",
        "instance_type": f"{gpus}x{gpu}",
        "region": region,
        "gpu": gpu,
        "gpus": gpus,
        "listed": True,
        "prices": {"on_demand": int(Decimal(usd) * 10**6)},
        "ram_bytes": None,
        "vcpus": None,
        "minimum_instances": 1,
        "as_of": date(2026, 10, 1),
        "stale": False,
        "source": "made for a test",
        "notes": "",
    }
    return Offer(**(values | changed))  # type: ignore[arg-type]


def catalog(*offers: Offer) -> Catalog:
    return replace(shipped_catalog(), offers=offers)


def ask(concurrency: int = 50, tokens: int = 8192, model: str = "llama-3.1-70b", **changed: object) -> Scenario:
    asked = Scenario(name="test", model=model, workload=Workload(concurrency, fixed(tokens)))
    return replace(asked, **changed)  # type: ignore[arg-type]


def cost(answer: Recommendation) -> int | None:
    return answer.plans[0].micro_usd_per_hour if answer.plans else None


def shape(plan: Plan) -> list[tuple[str, int, int, str, str]]:
    return [(group.gpu, group.count, group.tp, group.weights, group.kv_dtype) for group in plan.replicas]


H100 = [offer("H100-SXM", n, str(3 * n)) for n in (1, 2, 4, 8)]


def test_fp8_on_h100_takes_two_cards_with_fp8_kv_and_four_with_auto() -> None:
    """A search on a grid of batches (48, 56) that doubles the GPUs misses this."""
    fp8 = Search(weights=("fp8",))
    with_fp8_kv = recommend(ask(search=fp8), catalog(*H100)).plans[0]
    assert (with_fp8_kv.gpus, shape(with_fp8_kv)) == (2, [("H100-SXM", 1, 2, "fp8", "fp8")])
    assert 55 <= with_fp8_kv.replicas[0].expected_capacity <= 59
    auto = recommend(ask(search=replace(fp8, kv_dtypes=("auto",))), catalog(*H100)).plans[0]
    assert auto.gpus == 4
    assert {group.kv_dtype for group in auto.replicas} == {"auto"}
    assert [group.expected_capacity for group in auto.replicas if group.tp == 2] in ([27], [28], [29])


def test_fifty_users_of_8k_on_a_70b() -> None:
    """What a sizing guide got wrong: KV alone is 134 GB in bf16 and 67 GB in fp8."""
    offers = [*H100, *(offer("H200-SXM", n, str(100 * n)) for n in (1, 2, 4, 8))]
    on_h100 = Search(gpus=("H100-SXM",))
    fp8 = recommend(ask(search=replace(on_h100, weights=("fp8",))), catalog(*offers)).plans[0]
    native = recommend(ask(search=replace(on_h100, weights=("bf16",), kv_dtypes=("auto",))), catalog(*offers)).plans[0]
    int4 = Search(gpus=("H200-SXM",), weights=("int4",))
    one_h200 = recommend(ask(search=int4), catalog(*offers)).plans[0]
    assert fp8.gpus == 2
    assert native.gpus == 4
    assert (one_h200.gpus, shape(one_h200)) == (1, [("H200-SXM", 1, 1, "int4", "fp8")])
    one_h100 = replace(on_h100, tp=(1,), max_gpus=1)
    assert not recommend(ask(search=one_h100), catalog(*offers)).plans


def test_six_cards_of_48_gb() -> None:
    """Tensor parallel 6 does not divide 64 heads: four cards in 16 bit and two idle."""
    own = (OwnCards("RTXA6000", 6, 6),)
    plan = recommend(ask(10, hardware=own), catalog(*H100)).plans[0]
    assert shape(plan) == [("RTXA6000", 1, 4, "bf16", "auto")]
    assert 100_000 <= plan.replicas[0].memory.kv_cache_tokens <= 120_000
    assert plan.replicas[0].output_tokens_per_s_bound == pytest.approx(21.8, rel=0.02)
    auto = Search(kv_dtypes=("auto",))
    more = recommend(ask(16, hardware=own, search=auto, memory_margin="expected"), catalog(*H100)).plans[0]
    assert [(group.tp, group.weights) for group in more.replicas] == [(2, "fp8")]
    assert sum(group.count for group in more.replicas) == 3
    assert plan.micro_usd_per_hour is None


def test_six_t4() -> None:
    """A 32B in 16 bit needs more than four T4, six do not divide its heads; 4 bit on pairs makes three replicas.

    Left free, the answer is milder: FP8 weight-only kernels reach back to compute capability 7.5 by now.
    """
    own = (OwnCards("T4", 6, 6),)
    free = recommend(ask(3, 2048, "Qwen/Qwen2.5-32B-Instruct", hardware=own), catalog(*H100)).plans[0]
    assert shape(free) == [("T4", 1, 4, "fp8", "auto")]
    in_16_bit = ask(1, 2048, "Qwen/Qwen2.5-32B-Instruct", hardware=own, search=Search(weights=("bf16",)))
    assert not recommend(in_16_bit, catalog(*H100)).plans
    pairs = Search(weights=("int4",), tp=(2, 6))
    plan = recommend(ask(6, 2048, "Qwen/Qwen2.5-32B-Instruct", hardware=own, search=pairs), catalog(*H100)).plans[0]
    assert shape(plan) == [("T4", 3, 2, "int4", "auto")]


def test_answers_say_what_the_defaults_left_out() -> None:
    offers = [*H100, offer("H100-SXM", 2, "1", "b", listed=False, instance_type="median-H100")]
    answer = recommend(ask(search=Search(weights=("fp8",))), catalog(*offers))
    indicative = next(each for each in answer.left_out if each.what == "indicative prices")
    assert indicative.cheapest_micro_usd_per_hour == 1_000_000
    assert cost(answer) == 6_000_000


def test_an_unknown_price_is_not_an_offer() -> None:
    answer = recommend(ask(), catalog(*H100, offer("H100-SXM", 8, "0", "b", prices={})))
    assert all(each.provider == "a" for plan in answer.plans for each in plan.offers)


def test_equal_but_for_region_is_one_row() -> None:
    offers = [offer("H100-SXM", 2, "6", region=region) for region in ("r3", "r1", "r2")]
    plan = recommend(ask(search=Search(weights=("fp8",))), catalog(*offers)).plans[0]
    assert (plan.offers[0].region, plan.offers[0].also_in) == ("r1", ("r2", "r3"))


def test_what_an_infeasible_scenario_needs() -> None:
    tight = Limits(usd_per_month=Decimal(100))
    answer = recommend(ask(limits=tight), catalog(*H100))
    assert answer.status == "infeasible"
    needed = next(refusal for refusal in answer.refusals if refusal.limit == "budget")
    feasible = Decimal((needed.change or "").split(": ")[1].removesuffix(" or more").replace(",", ""))
    assert recommend(ask(limits=Limits(usd_per_month=feasible)), catalog(*H100)).plans
    assert not recommend(ask(limits=Limits(usd_per_month=feasible - 1)), catalog(*H100)).plans
    quota = Limits(caps=(Cap(0, "gpus", "quota"),))
    refused = recommend(ask(limits=quota), catalog(*H100))
    assert any(
        refusal.limit == "quota" and "1 instead of 0" in (refusal.change or "") for refusal in refused.refusals
    ) or any(refusal.limit == "quota" for refusal in refused.refusals)


def test_budget_buys_the_most_concurrency_and_no_more() -> None:
    month = Decimal(3 * 730 * 4)
    answer = budget(ask(), month, catalog(*H100))
    assert answer.status == "optimal"
    assert answer.plans[0].micro_usd_per_hour is not None
    assert answer.plans[0].micro_usd_per_hour * 730 <= month * 10**6
    more = recommend(ask(answer.concurrency + 1, limits=Limits(usd_per_month=month)), catalog(*H100))
    assert more.status == "infeasible"


def test_ladder_rungs_in_order() -> None:
    steps = ladder(ask(), "H100-SXM", catalog(*H100)).steps
    assert [step.rung for step in steps] == sorted(step.rung for step in steps)
    assert steps[0].tp == 2
    assert not steps[0].feasible
    by_rung = {step.rung: step for step in steps}
    assert by_rung[2].kv_dtype == "fp8"
    assert by_rung[4].feasible
    assert by_rung[4].weights == "bf16"


@pytest.mark.parametrize("seed", range(12))
def test_metamorphic(seed: int) -> None:
    """A dearer price never lowers the optimum, an added offer never raises it, more concurrency never lowers it."""
    rng = random.Random(seed)
    cards = ["A100-80GB-SXM", "H100-SXM", "L40S", "H200-SXM", "RTX4090"]
    made = [
        offer(gpu, rng.choice([1, 2, 4, 8]), f"{rng.uniform(0.5, 20):.2f}", provider, region)
        for gpu in cards
        for provider in "ab"
        for region in ("r1", "r2")
        if rng.random() < 0.6
    ]
    made = list({each.key: each for each in made}.values()) or [offer("H200-SXM", 8, "30")]
    asked = ask(
        rng.choice([1, 7, 50, 120]), rng.choice([2048, 8192, 30000]), rng.choice(["llama-3.1-8b", "llama-3.1-70b"])
    )
    base = cost(recommend(asked, catalog(*made)))
    if base is None:
        return
    dearer = [replace(made[0], prices={"on_demand": made[0].prices["on_demand"] * 2}), *made[1:]]
    assert (cost(recommend(asked, catalog(*dearer))) or 0) >= base
    added = cost(recommend(asked, catalog(*made, offer("B200", 8, "25", "c"))))
    assert added is not None
    assert added <= base
    busier = replace(asked, workload=replace(asked.workload, concurrency=asked.workload.concurrency + 13))
    assert (cost(recommend(busier, catalog(*made))) or 0) >= base


@pytest.mark.parametrize("gpu", ["A100-80GB-SXM", "L40S"])
def test_more_memory_never_costs_more(gpu: str) -> None:
    held = ask(20, max_num_batched_tokens=2048)
    plain = catalog(*(offer(gpu, n, str(2 * n)) for n in (1, 2, 4, 8)))
    card = plain.gpu(gpu)
    assert card.memory_bytes is not None
    previous = None
    for percent in (100, 110, 130, 160, 200):
        larger = replace(card, memory_bytes=card.memory_bytes * percent // 100)
        gpus = tuple(larger if each.name == gpu else each for each in plain.gpus)
        now = cost(recommend(held, replace(plain, gpus=gpus)))
        assert previous is None or (now is not None and now <= previous)
        previous = now


def test_latent_attention_is_served_data_parallel() -> None:
    """Under tensor parallel each GPU keeps the whole latent; eight data-parallel ranks hold many times as much."""
    offers = [offer("H200-SXM", 8, "30")]
    asked = ask(350, 8192, "deepseek-v3", search=Search(kv_dtypes=("auto",), weights=("fp8",)))
    (group,) = recommend(asked, catalog(*offers)).plans[0].replicas
    assert (group.tp, group.dp, group.ep) == (1, 8, 8)
    assert group.max_num_seqs == 44
    sharded = replace(ask(20, 8192, "deepseek-v3"), search=replace(asked.search, tp=(8,)))
    (whole,) = recommend(sharded, catalog(*offers)).plans[0].replicas
    assert 5 <= 8 * group.memory.kv_cache_tokens / whole.memory.kv_cache_tokens <= 8


def test_pipeline_stages_where_asked() -> None:
    own = (OwnCards("RTX4090", 3, 3),)
    asked = ask(2, 2048, "Qwen/Qwen2.5-32B-Instruct", hardware=own)
    fp8 = replace(asked, search=Search(weights=("fp8",), kv_dtypes=("auto",)))
    alone = recommend(fp8, catalog(*H100))
    staged = recommend(replace(fp8, search=replace(fp8.search, pp=(1, 3))), catalog(*H100))
    assert {(group.tp, group.pp) for plan in alone.plans for group in plan.replicas} <= {(2, 1)}
    assert (1, 3) in {(group.tp, group.pp) for group in staged.plans[0].replicas}


def test_the_ladder_shows_what_fewer_batched_tokens_free() -> None:
    """Sliding windows reserve for the tokens in flight: a long request takes a third less at 2,048 than at 8,192."""
    steps = ladder(ask(8, 131_072, "google/gemma-3-27b-it"), "H100-SXM", catalog(*H100)).steps
    default, fewer = (
        next(step for step in steps if step.name == name) for name in ("as it is", "max_num_batched_tokens")
    )
    assert (default.rung, fewer.rung) == (0, 1)
    per_request = [step.memory.bytes_per_block * step.memory.request_blocks for step in (default, fewer)]  # type: ignore[operator]
    assert per_request == pytest.approx([19.30e9, 13.26e9], rel=0.001)
    found = re.search(r"about ([\d,]+) -> ([\d,]+) prompt tokens a second", fewer.cost)
    assert found is not None
    before, after = (int(number.replace(",", "")) for number in found.groups())
    assert (
        0.9 * before < after < before
    )  # a chunk of 2,048 tokens still fills the GPU: only its overhead is paid oftener


def test_the_ladder_starts_where_the_model_starts() -> None:
    assert ladder(ask(50), "T4", catalog(offer("T4", 8, "5"))).steps[0].weights == "fp8"


def test_fewer_batched_tokens_only_where_asked() -> None:
    asked = ask(5, 131_072, "google/gemma-3-27b-it", search=Search(kv_dtypes=("auto",), weights=("bf16",)))
    plain = recommend(asked, catalog(*H100)).plans[0]
    allowed = replace(asked, search=replace(asked.search, max_num_batched_tokens=(2048,)))
    fewer = recommend(allowed, catalog(*H100)).plans[0]
    assert fewer.gpus < plain.gpus
    assert fewer.replicas[0].max_num_batched_tokens == 2048
    assert fewer.adjustments[0].name == "max_num_batched_tokens"
    assert fewer.quality_untouched


def test_group_by_keeps_the_optimum_and_the_best_of_each() -> None:
    """The optimum mixes cards: a list of the best of each card alone may not claim its own first as the bound."""
    offers = [offer("H100-SXM", 1, "3"), offer("L40S", 1, "0.9"), offer("RTX4090", 1, "0.5")]
    native = Search(weights=("bf16",), kv_dtypes=("auto",))
    plain = recommend(ask(80, 8192, "llama-3.1-8b", search=native), catalog(*offers))
    for limits in (Limits(), Limits(watts=10**6)):
        asked = ask(80, 8192, "llama-3.1-8b", search=native, group_by="gpu", limits=limits)
        answer = recommend(asked, catalog(*offers))
        assert answer.certificate.bound_micro_usd_per_hour == cost(answer) == cost(plain)
        alone = [{each.gpu for each in plan.offers} for plan in answer.plans]
        assert [cards for cards in alone if len(cards) == 1] != []
        assert len({frozenset(cards) for cards in alone}) == len(alone)


def test_left_out_counts_what_the_widened_search_would_choose() -> None:
    offers = [offer("H100-SXM", 1, "3"), offer("L40S", 1, "1.9", "a", prices={"spot": 1_900_000})]
    asked = ask(58, 8192, "llama-3.1-8b", search=Search(weights=("bf16",), kv_dtypes=("auto",)))
    answer = recommend(asked, catalog(*offers))
    spot = next(each for each in answer.left_out if each.what == "spot prices")
    widened = recommend(replace(asked, search=replace(asked.search, markets=("on_demand", "spot"))), catalog(*offers))
    assert spot.cheapest_micro_usd_per_hour == cost(widened)
    assert (cost(widened) or 0) < (cost(answer) or 0)


def test_own_cards_listed_twice_are_counted_together() -> None:
    twice = (OwnCards("L40S", 1, 1), OwnCards("L40S", 1, 1))
    once = (OwnCards("L40S", 1, 2),)
    lists = [recommend(ask(40, 8192, "llama-3.1-8b", hardware=own), catalog(*H100)).plans for own in (twice, once)]
    assert [shape(plan) for plan in lists[0]] == [shape(plan) for plan in lists[1]]
    assert lists[0]


def test_an_unknown_price_of_own_cards_is_never_zero() -> None:
    mixed = (OwnCards("L4", 1, 20, Decimal(1)), OwnCards("A10", 1, 20))
    with pytest.raises(InputError, match="some own cards have a price"):
        recommend(ask(20, hardware=mixed), catalog(*H100))
    with pytest.raises(InputError, match="budget needs prices"):
        recommend(ask(20, hardware=mixed[1:], limits=Limits(usd_per_month=Decimal(1))), catalog(*H100))


def test_requests_that_are_all_too_long_are_not_served() -> None:
    answer = recommend(ask(5, 200_000, "llama-3.1-8b"), catalog(*H100))
    assert (answer.status, answer.plans) == ("infeasible", ())
    assert "131,072" in answer.refusals[0].reason


def test_a_zero_quota_is_refused_at_once() -> None:
    answer = recommend(ask(limits=Limits(caps=(Cap(0, "instances", "stock"),))), shipped_catalog())
    assert answer.status == "infeasible"
    assert any("1 instead of 0" in (refusal.change or "") for refusal in answer.refusals)


def test_the_measure_of_the_solvers_work_is_no_sharper_than_it_repeats() -> None:
    """Its last digits were seen to differ once between runs on the same input, and an answer is the same bytes."""
    spent = recommend(ask(50), catalog(*H100)).certificate.deterministic_time
    assert spent == round(spent, 6) > 0

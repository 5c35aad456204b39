"""Limits on speed: every purchase of a small price list, its capacities counted up one request at a time."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import product

import numpy as np
import pytest
from price_list import CARDS, offer

from recommender.answer import recommend, shipped_catalog
from recommender.catalog.catalog import Catalog
from recommender.catalog.models import Model
from recommender.memory.fit import Replica, fit_replica
from recommender.memory.weights import WeightChoice, weight_choices
from recommender.scenario import Scenario, Search, Sla, Workload
from recommender.search.plan import Plan
from recommender.search.speeds import target_of
from recommender.speed.answer import Running, prepared_of
from recommender.speed.setup import Found, Load, Setup
from recommender.speed.slo import meets
from recommender.workload.lengths import Cell, Lengths

TP = (1, 2, 4)
MODELS = ("llama-3.1-8b", "qwen2.5-14b", "llama-3.1-70b")  # dense: no experts to spread
LENGTHS = ((1024, 256), (4000, 96), (128, 512), (7168, 1024))
Bought = tuple[str, tuple[tuple[str, int], ...]]  # provider, counts by instance type


@dataclass(frozen=True)
class _Setting:
    choice: WeightChoice
    kv_dtype: str
    max_model_len: int
    rungs: tuple[int, int, int]


def question(seed: int) -> tuple[Scenario, Catalog]:
    """Two kinds of cards in some sizes at one or two providers, and one to three limits."""
    dice = random.Random(seed)
    offers = [
        offer(gpu, size, (size * Decimal(CARDS[gpu]) * dice.randint(80, 120) / 100).quantize(Decimal("0.01")), provider)
        for provider in ("a", "b")[: dice.choice((1, 2))]
        for gpu in dice.sample(list(CARDS), 2)
        for size in dice.sample(TP, dice.choice((1, 2, 3)))
    ]
    limits = {
        "tpot_ms": dice.choice((12, 16, 20, 30, 60, None)),
        "ttft_ms": dice.choice((200, 800, 2000, None, None)),
        "output_tokens_per_s": dice.choice((50, 500, 1000, None)),
        "confidence": dice.choice(("0.5", "0.9", "0.95")),
    }
    sla = Sla(**{key: Decimal(value) for key, value in limits.items() if value is not None})  # type: ignore[arg-type]
    prompt, output = dice.choice(LENGTHS)
    work = Workload(dice.choice((1, 5, 12, 30)), Lengths((Cell(1.0, prompt, output),), prompt + output))
    weights = dice.choice((("bf16",), ("bf16", "fp8"), ("bf16", "fp8", "int4")))
    search = Search(plans=5, tp=TP, weights=weights)
    scenario = Scenario("test", dice.choice(MODELS), work, sla=sla, speed="model", search=search)
    return scenario, replace(shipped_catalog(), offers=tuple(offers))


def settings(scenario: Scenario, catalog: Catalog, model: Model) -> Iterator[_Setting]:
    """Every weight dtype, KV dtype and max-model-len that may be chosen."""
    (cell,) = scenario.workload.lengths.cells
    shortest = -(-int(cell.input_tokens + cell.output_tokens) // 16) * 16
    for choice in weight_choices(model, catalog.checkpoints_of(model.id), scenario.engine_version):
        for kv, length in product(("auto", "fp8"), (model.max_model_len, shortest)):
            rungs = (choice.rung, int(kv == "fp8"), int(length == shortest))
            if choice.weights in (scenario.search.weights or ()):
                yield _Setting(choice, kv, length, rungs)


def capacity(scenario: Scenario, catalog: Catalog, model: Model, at: _Setting, gpu: str, tp: int) -> int:
    """Requests that one replica serves within the limits: one more at a time, until one does not fit or is late."""
    (cell,), card = scenario.workload.lengths.cells, catalog.gpu(gpu)
    weights, checkpoint, kv = at.choice.weights, at.choice.checkpoint, at.kv_dtype
    setup = Setup(model.id, gpu, tp, weights=weights, kv_dtype=kv, engine_version=scenario.engine_version)
    found = Found(model, card, weights, checkpoint, at.choice.quantisation, 1)
    for requests in range(1, (scenario.workload.concurrency or 0) + 1):
        replica = Replica(
            model, card, weights, checkpoint, kv, tp, max_model_len=at.max_model_len, max_num_seqs=requests
        )
        memory = fit_replica(replace(replica, engine_version=scenario.engine_version))
        if not memory.starts or not memory.kv_cache_bytes_interval or not memory.request_blocks:
            return requests - 1
        fits = requests * memory.request_blocks < memory.kv_cache_bytes_interval[0] // (memory.bytes_per_block or 1)
        running = Running(requests, memory.max_num_batched_tokens)
        load = Load(cell.input_tokens, cell.output_tokens, requests)
        if (
            not fits
            or not meets(
                prepared_of(setup, found, load, running, ())[0], target_of(scenario), np.array([requests])
            ).all()
        ):
            return requests - 1
    return scenario.workload.concurrency or 0


def on_an_instance(of_tp: dict[int, int], gpus: int) -> int:
    """The most that replicas of any sizes serve on so many GPUs."""
    best = [0] * (gpus + 1)
    for n in range(1, gpus + 1):
        best[n] = max(best[n - 1], *(best[n - tp] + served for tp, served in of_tp.items() if tp <= n))
    return best[gpus]


def purchases(scenario: Scenario, catalog: Catalog) -> dict[Bought, int]:
    """Every irreducible purchase at its mildest rungs, with its micro-dollars an hour."""
    model, asked = catalog.resolve(scenario.model).model, scenario.workload.concurrency or 0
    tables: dict[tuple[int, int, int], list[dict[str, int]]] = {}
    for at in settings(scenario, catalog, model):
        of = {
            gpu: {tp: capacity(scenario, catalog, model, at, gpu, tp) for tp in TP}
            for gpu in {each.gpu for each in catalog.offers}
        }
        serves = {each.instance_type: on_an_instance(of[each.gpu], each.gpus) for each in catalog.offers}
        tables.setdefault(at.rungs, []).append(serves)

    def mildest(counts: dict[str, int]) -> tuple[int, int, int]:
        fit = [
            rungs
            for rungs, each in tables.items()
            if any(sum(n * serves[kind] for kind, n in counts.items()) >= asked for serves in each)
        ]
        return min(fit, default=(9, 9, 9))

    found: dict[Bought, int] = {}
    for provider in {each.provider for each in catalog.offers}:
        price = {each.instance_type: each.prices["on_demand"] for each in catalog.offers if each.provider == provider}
        for serves in (each for table in tables.values() for each in table):
            for counts in covers(list(price), serves, asked):
                own = mildest(counts)
                fewer = ({**counts, kind: counts[kind] - 1} for kind in counts)
                if all(mildest(each) > own for each in fewer):
                    key = (provider, tuple(sorted(counts.items())))
                    found[key] = sum(n * price[kind] for kind, n in counts.items())
    return found


def covers(kinds: list[str], serves: dict[str, int], left: int) -> Iterator[dict[str, int]]:
    """Counts of instances that serve what is left, none of a kind beyond what is needed."""
    if left <= 0:
        yield {}
    elif kinds:
        first, *others = kinds
        most = -(-left // serves[first]) if serves[first] else 0
        for n in range(most + 1):
            for rest in covers(others, serves, left - n * serves[first]):
                yield {**({first: n} if n else {}), **rest}


def bought(plan: Plan) -> Bought:
    return plan.offers[0].provider, tuple(sorted((each.instance_type, each.count) for each in plan.offers))


@pytest.mark.parametrize("seed", range(12))
def test_the_ranked_list_is_that_of_an_enumeration(seed: int) -> None:
    scenario, catalog = question(seed)
    plans, every = recommend(scenario, catalog).plans, purchases(scenario, catalog)
    assert [plan.micro_usd_per_hour for plan in plans] == sorted(every.values())[:5]
    for plan in plans:
        assert every[bought(plan)] == plan.micro_usd_per_hour


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 1300, 50))
def test_many_ranked_lists(first: int) -> None:
    for seed in range(first, first + 50):
        test_the_ranked_list_is_that_of_an_enumeration(seed)

"""Plans replayed: which requests they get, that they stand, and that a crowded one is rejected by name."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from price_list import ask, cells, price_list, trace

from recommender.answer import recommend
from recommender.errors import NotModelledError
from recommender.memory.engine import engine_constants
from recommender.memory.kv import KvPool, kv_pool
from recommender.report.sentence import sentence
from recommender.report.table import answer_page
from recommender.scenario import ENGINE_VERSION, LogFile, OwnCards, Search, Sla
from recommender.search.plan import Recommendation, Replayed
from recommender.search.plan_speed import Pace
from recommender.search.replays import MOST_LEFT_WAITING, holding_of
from recommender.speed.answer import Running, prepared_of
from recommender.speed.setup import Load, Setup, look_up
from recommender.workload.law import token_law
from recommender.workload.lengths import mean_tokens
from recommender.workload.rate import Rate
from recommender.workload.replay import replay_arrivals, replay_in_loop
from recommender.workload.replica import Server, StepTime
from recommender.workload.service import ASSUMED_STEP_TIME
from recommender.workload.source import lengths_of
from recommender.workload.traffic import drawn

CATALOG = price_list("L40S", "H100-SXM")
CONVERSATIONS = trace("azure_conv_2023")
TWO = Search(plans=2)


@pytest.fixture(autouse=True)
def _cache_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_the_best_plan_and_the_runner_up_are_replayed_and_stand() -> None:
    told: list[tuple[int, int]] = []
    asked = ask(CONVERSATIONS, 120, sizing="trace_replay", search=Search(plans=3))
    answer = recommend(asked, CATALOG, lambda done, whole: told.append((done, whole)))
    assert {each.rank for each in answer.replays} == {1, 2}
    for each in answer.replays:
        group = answer.plans[each.rank - 1].replicas[each.replica]
        assert each.accepted
        assert each.result
        assert each.result.requests == max(1000, 20 * group.max_num_seqs)
        assert each.result.peak_kv_tokens <= each.kv_tokens <= group.memory.blocks * 16
        assert each.result.ttft.p50_s <= each.result.latency.p50_s
    assert told[-1][0] == told[-1][1]
    assert recommend(asked, CATALOG).replays == answer.replays
    statistical = recommend(replace(asked, sizing="statistical"), CATALOG)
    assert statistical.replays == ()
    assert statistical.plans == answer.plans
    assert "it stands. 120 clients" in " ".join(answer_page(answer).split())


def test_plans_that_replay_alike_are_said_once() -> None:
    answer = brimming()
    first, (plan, *_) = answer.replays[0], answer.plans
    twice = replace(answer, plans=(plan, replace(plan, rank=2)), replays=(first, replace(first, rank=2)))
    assert "- Ranks 1 and 2 on L40S: REJECTED" in answer_page(twice)
    assert answer_page(twice).count("L40S: REJECTED") == 1


def brimming(version: str = ENGINE_VERSION) -> Recommendation:
    """Filled to the brim at a risk of one half, the cache overflows in half of the steps."""
    own = ask(
        CONVERSATIONS,
        120,
        epsilon=Decimal("0.5"),
        memory_margin="expected",
        hardware=(OwnCards("L40S", 1, 1),),
        engine_version=version,
    )
    brim = recommend(own, CATALOG).plans[0].replicas[0].capacity
    full = replace(own, sizing="trace_replay", workload=replace(own.workload, concurrency=brim))
    return recommend(full, CATALOG)


def test_a_crowded_plan_is_rejected_with_the_reason() -> None:
    answer = brimming()
    rejected = [each for each in answer.replays if each.accepted is False]
    assert rejected
    assert rejected[0].reason
    assert "preemptions a request, more than 0.01" in rejected[0].reason
    assert rejected[0].rank == 1
    assert "; but a replay rejects it: " in sentence(answer)
    assert "REJECTED" in answer_page(answer)
    assert answer.plans


def test_a_watermark_is_tried_where_requests_are_preempted_and_set_as_the_version_can() -> None:
    answer = brimming()
    first = answer.replays[0]
    assert first.result
    assert first.watermark
    assert first.watermark.result.preemptions < first.result.preemptions
    assert first.watermark.argument == "--watermark 0.05"
    assert "With --watermark 0.05 added to its launch line: " in " ".join(answer_page(answer).split())
    if not first.accepted and first.watermark.accepted:
        assert "(with --watermark 0.05 it stands)" in sentence(answer)
    assert all(each.watermark is None for each in answer.replays if each.result and not each.result.preemptions)


@pytest.mark.parametrize(("version", "known"), [("0.23.0", False), ("0.24.0", True)])
def test_a_version_without_the_option_is_never_given_it(version: str, known: bool) -> None:
    """vLLM 0.24.0 is the first whose engine/arg_utils.py has --watermark; 0.23.0 has not."""
    answer = brimming(version)
    assert answer.replays[0].watermark
    assert (answer.replays[0].watermark.argument is not None) == known
    page = " ".join(answer_page(answer).split())
    assert ("--watermark" in page) == known
    assert (f"but vllm {version} has no option for that" in page) != known


def test_at_a_rate_requests_arrive_at_random() -> None:
    asked = ask(CONVERSATIONS, None, sizing="trace_replay", rate=Rate(5.0, peak_factor=1.0), search=TWO)
    answer = recommend(asked, CATALOG)
    first = answer.replays[0]
    (group,) = answer.plans[0].replicas
    assert first.how.startswith(f"random arrivals at {group.rate_per_s:.4g} a second")
    assert first.result
    assert answer.sizing
    assert answer.sizing.rate
    expected = answer.sizing.rate.mean_in_flight / group.count
    assert first.result.mean_running == pytest.approx(expected, rel=0.15)


def test_a_logs_own_arrivals_are_replayed_at_the_busiest_minutes_rate(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    rows = [f"{1_700_000_000 + 0.5 * row},{200 + row % 700},{20 + row % 50}" for row in range(4000)]
    log.write_text("timestamp,prompt_tokens,completion_tokens\n" + "\n".join(rows) + "\n", encoding="utf-8")
    lengths = lengths_of(log)
    asked = ask(lengths, None, sizing="trace_replay", rate=Rate(10.0, peak_factor=1.0), log=LogFile(log), search=TWO)
    first = recommend(asked, CATALOG).replays[0]
    assert first.how.startswith("the log's arrivals, their busiest minute at")
    assert first.result
    (group,) = recommend(asked, CATALOG).plans[0].replicas
    assert first.result.requests == pytest.approx(4000 / group.count, rel=0.1)


WINDOWED = {
    "google/gemma-3-27b-it": "sliding windows",
    "openai/gpt-oss-20b": "sliding windows, MXFP4",
    "meta-llama/Llama-4-Scout-17B-16E-Instruct": "chunks",
    "Qwen/Qwen3-Next-80B-A3B-Instruct": "recurrent states",
    "nvidia/NVIDIA-Nemotron-Nano-9B-v2": "Mamba states",
}


@pytest.mark.parametrize("model", WINDOWED)
def test_layers_that_keep_windows_or_states_are_replayed_by_what_they_keep(model: str) -> None:
    asked = ask(CONVERSATIONS, 50, model, sizing="trace_replay", search=TWO)
    answer = recommend(asked, CATALOG)
    for each in answer.replays:
        assert each.result
        assert each.accepted
        assert each.result.preemptions == 0 or each.result.peak_kv_share > 0.9
        assert 0 < each.result.mean_kv_share <= each.result.peak_kv_share <= 1
        assert (each.kv_tokens, each.result.peak_kv_tokens) == (None, None)
    assert "the cache fills up to" in answer_page(answer)


def pool_of(model: str, kv_dtype: str = "auto") -> KvPool:
    known, gpu = CATALOG.resolve(model).model, CATALOG.gpu("H100-SXM")
    return kv_pool(known, engine_constants("vllm", None), gpu, tp=1, kv_dtype=kv_dtype, weights="bf16")


@pytest.mark.parametrize("model", WINDOWED)
def test_what_is_held_is_what_the_engine_charges(model: str) -> None:
    """The start-up charge (checked against the engine's own classes in tests/memory) is never below what is held."""
    pool = pool_of(model)
    holding = holding_of(pool, 16_384)
    for tokens in (1, 17, 500, 1_024, 1_040, 5_000, 8_192, 40_000):
        charged = pool.request_blocks(tokens, 16_384)
        assert charged - len(pool.groups) <= holding.to_admit(tokens) <= charged
    long = 100_000
    assert holding.to_admit(long) == pool.request_blocks(long, 16_384)
    assert holding.blocks(long) == pool.request_blocks(long, 1)


@pytest.mark.parametrize("model", WINDOWED)
def test_the_replay_holds_what_the_law_says(model: str) -> None:
    """50 clients with room for all: the cache is as full over time as the in-flight law has it on average."""
    pool, limit = pool_of(model), 16_384
    law = token_law(CONVERSATIONS, limit)
    tokens = np.arange(law.top + 1, dtype=np.int64)
    kept = pool.request_blocks(tokens, np.ones_like(tokens))
    mean = float(law.charged(kept).pmf @ np.arange(len(law.charged(kept).pmf)))
    server = Server(10**7, 50, 8_192, pool.block_size, holding=holding_of(pool, 8_192))
    result = replay_in_loop(CONVERSATIONS, 50, server, ASSUMED_STEP_TIME, limit, count=5_000)
    assert result.mean_kv_share * server.blocks == pytest.approx(result.mean_running * mean, rel=0.04)


def replayed(**changed: Any) -> Replayed:
    asked = ask(CONVERSATIONS, 60, sizing="trace_replay", search=Search(plans=1, gpus=("H100-SXM",)), **changed)
    return recommend(asked, CATALOG).replays[0]


def test_step_times_are_predicted_where_the_speed_is_known_and_stated_ones_come_first() -> None:
    predicted = replayed()
    assert predicted.timing.startswith("by the speed model (")
    assert predicted.step_time
    assert 0.004 < predicted.step_time.base_s < 0.02  # an H100 reads 8 to 16 GB in 3 to 5 ms
    assert predicted.step_time.first_token_s > 0
    assert predicted.result
    own = StepTime(0.02, 0.0001, 0.00005)
    stated = replayed(step_time=own, step_time_stated=True)
    assert (stated.step_time, stated.timing) == (own, "as stated")
    assert stated.result
    assert stated.result.latency.p50_s > predicted.result.latency.p50_s
    assert stated.result.preemptions == predicted.result.preemptions


def test_step_times_are_assumed_where_no_speed_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object) -> tuple[StepTime, str]:
        raise NotModelledError("its speed is not modelled")

    monkeypatch.setattr(Pace, "steps", unknown)
    found = replayed()
    assert (found.step_time, found.timing) == (ASSUMED_STEP_TIME, "assumed, not measured")


def test_a_rate_paced_by_the_model_is_replayed_at_its_pace() -> None:
    """As many run as the plan was sized for, since both count on the same side."""
    asked = ask(CONVERSATIONS, None, sizing="trace_replay", rate=Rate(5.0, peak_factor=1.0), search=TWO, speed="model")
    answer = recommend(asked, CATALOG)
    first = answer.replays[0]
    (group,) = answer.plans[0].replicas
    assert first.timing.startswith("by the speed model (")
    assert first.result
    assert group.mean_in_flight
    assert first.result.mean_running == pytest.approx(group.mean_in_flight, rel=0.15)
    assert "It takes, by the speed model (" in " ".join(answer_page(answer).split())
    by_steps = recommend(replace(asked, speed="ignore"), CATALOG).replays[0]
    assert by_steps.timing == "assumed, not measured"


@pytest.mark.parametrize(
    ("percentile", "where"),
    [
        (None, "on average"),
        (Decimal(75), "at the 95 % quantile"),
        (Decimal(95), "at the 95 % quantile"),
        (Decimal("99.9"), "at most"),
    ],
)
def test_a_first_token_that_comes_too_late_rejects_a_plan(percentile: Decimal | None, where: str) -> None:
    slow = StepTime(0.5, 0.0, 0.001)
    promised = Sla(ttft_ms=Decimal(100_000), percentile=percentile)
    assert replayed(step_time=slow, step_time_stated=True, sla=promised).accepted
    late = replayed(step_time=slow, step_time_stated=True, sla=replace(promised, ttft_ms=Decimal(900)))
    assert late.accepted is False
    assert late.reason
    assert f"s {where}, more than 0.9" in late.reason


@pytest.mark.parametrize(("model", "gpu", "tp"), [("llama-3.1-8b", "L40S", 1), ("llama-3.1-70b", "H100-SXM", 4)])
@pytest.mark.parametrize("name", ["azure_conv_2023", "azure_code_2023", "mooncake_conversation"])
def test_a_loop_at_predicted_steps_gives_the_models_throughput(name: str, model: str, gpu: str, tp: int) -> None:
    lengths, setup = trace(name), Setup(model, gpu, tp)
    prompt, output = mean_tokens(lengths)
    prepared, _ = prepared_of(setup, look_up(setup, CATALOG), Load(prompt, output, 64), Running(64, 8192))
    steady = prepared.steady(np.array([64.0]))
    base, each, token, with_prompt = (float(times[0]) for times in prepared.step_times(steady.decoding))
    steps = StepTime(base, each, token, with_prompt)
    result = replay_in_loop(lengths, 64, Server(10**7, 64, 8192), steps, lengths.maximum_tokens, count=3000)
    assert result.output_tokens_per_s == pytest.approx(steady.output_tokens_per_s[0], rel=0.08)


def test_requests_that_come_faster_than_they_are_answered_wait_ever_longer() -> None:
    """A prompt takes 0.1 s to read: of 4 a second none is left, of 16 a second 6 more wait each second."""
    server, lengths = Server(10_000, 64, 2048), cells((1, 1000, 10))
    steady, late = (
        replay_arrivals(drawn(lengths, 1000, seed=1, rate_per_s=rate), server, StepTime(0.01, 0.0, 1e-4), 1010)
        for rate in (4.0, 16.0)
    )
    assert steady.waiting_at_last_arrival is not None
    assert late.waiting_at_last_arrival is not None
    assert steady.waiting_at_last_arrival <= 1000 * MOST_LEFT_WAITING
    least = 0.1  # seconds that a prompt takes: no more than 10 a second are answered, so of 16 there are 6 left
    assert late.output_tokens_per_s <= 10 / least
    assert late.waiting_at_last_arrival >= 1000 * 6 / 16
    assert steady.requests == late.requests == 1000
    assert min(steady.ttft.p50_s, late.ttft.p50_s) >= least


def test_a_prompt_heavy_rate_is_sized_by_what_an_engine_reads() -> None:
    """30,000 tokens of prompt for one of answer: the replay answers all that the plan takes on."""
    asked = ask(cells((1, 30_000, 1)), None, sizing="trace_replay", rate=Rate(2.0, peak_factor=1.0), search=TWO)
    for each in recommend(asked, price_list("H100-SXM")).replays:
        assert each.accepted
        assert each.result
        assert each.result.waiting_at_last_arrival is not None
        assert each.result.waiting_at_last_arrival <= 50

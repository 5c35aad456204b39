"""Limits on speed, rates and engines in a question; what each phrase means follows from its own words."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path

import pytest

from recommender.ask import parse_question, read_question
from recommender.catalog.catalog import load_catalog
from recommender.errors import InputError
from recommender.scenario import Scenario, Sla

CATALOG = load_catalog()
ASK = "50 concurrent, 7K in 1K out"


def _one(text: str) -> Scenario:
    (scenario,) = parse_question(text, "llama-3.1-70b", catalog=CATALOG)
    return scenario


@pytest.mark.parametrize(
    ("words", "tpot_ms"),
    [
        ("under 30 ms per token", 30),
        ("at most 30 ms per output token", 30),
        ("30 ms a token", 30),
        ("30ms/token or less", 30),
        ("a token every 30 ms", 30),
        ("TPOT < 30ms", 30),
        ("tpot<30ms", 30),
        ("max tpot of 30 ms", 30),
        ("TPOT: 30 ms", 30),
        ("average TPOT not over 30ms", 30),
        ("inter-token latency below 0.03 seconds", 30),
        ("20 tokens per second per user", 50),
        ("at least 20 tok/s per user", 50),
        ("more than 20 tokens/s each", 50),
        ("30 tokens a second for each user", Decimal("33.333")),
    ],
)
def test_times_per_output_token(words: str, tpot_ms: Decimal) -> None:
    scenario = _one(f"{ASK}, {words}")
    assert scenario.sla == Sla(tpot_ms=Decimal(tpot_ms))
    assert scenario.speed == "model"


@pytest.mark.parametrize(
    ("words", "ttft_ms", "percentile"),
    [
        ("first token within 1s", 1000, None),
        ("the first token must arrive within 1 second", 1000, None),
        ("time to first token at most 1.5 seconds", 1500, None),
        ("time-to-first-token <= 800ms", 800, None),
        ("under 1s to first token", 1000, None),
        ("1s TTFT", 1000, None),
        ("TTFT: 500 ms", 500, None),
        ("average TTFT under 2 s", 2000, None),
        ("p99 TTFT under 2 s", 2000, 99),
        ("TTFT p99 < 2s", 2000, 99),
        ("TTFT < 2s (p99)", 2000, 99),
        ("TTFT under 2 s at p95", 2000, 95),
        ("99th percentile TTFT below 2 seconds", 2000, 99),
        ("median first token in 1s", 1000, 50),
    ],
)
def test_times_to_the_first_token(words: str, ttft_ms: int, percentile: int | None) -> None:
    wanted = None if percentile is None else Decimal(percentile)
    assert _one(f"{ASK}, {words}").sla == Sla(ttft_ms=Decimal(ttft_ms), percentile=wanted)


@pytest.mark.parametrize(
    "words",
    [
        "TTFT < 1s, TPOT < 30ms",
        "TTFT<1s TPOT<30ms",
        "1s TTFT, 30ms TPOT",
        "TTFT: 1s, TPOT: 30 ms",
        "TTFT of 1 s and ITL of 30 ms",
        "first token within 1s, then a token every 30 ms",
        "first token under 1s, 30ms per token",
        "under 30 ms per token and first token in 1000 ms",
    ],
)
def test_each_time_goes_with_its_own_name(words: str) -> None:
    assert _one(f"{ASK}, {words}").sla == Sla(ttft_ms=Decimal(1000), tpot_ms=Decimal(30))


@pytest.mark.parametrize("words", ["1500 tok/s in total", "at least 1,500 output tokens per second, in total"])
def test_throughput_of_all(words: str) -> None:
    assert _one(f"{ASK}, {words}").sla == Sla(output_tokens_per_s=Decimal(1500))


@pytest.mark.parametrize(
    ("words", "rate_per_s"),
    [
        ("5 requests per second", 5),
        ("5 req/s", 5),
        ("5 rps", 5),
        ("300 requests a minute", 5),
        ("18000 calls/hour", 5),
    ],
)
def test_a_rate_instead_of_a_concurrency(words: str, rate_per_s: int) -> None:
    workload = _one(f"{words}, 7K in 1K out").workload
    assert workload.rate is not None
    assert (workload.concurrency, workload.rate.per_s) == (None, rate_per_s)


@pytest.mark.parametrize(
    ("words", "engine"),
    [("with SGLang", "sglang"), ("on TensorRT-LLM", "tensorrt-llm"), ("with vLLM", "vllm"), ("", "vllm")],
)
def test_the_engine(words: str, engine: str) -> None:
    assert _one(f"{ASK} {words}").engine == engine


def test_a_pace_is_said_as_the_time_it_is_read_as() -> None:
    question = read_question(f"{ASK}, 20 tok/s per user", "llama-3.1-8b", partial=False, catalog=CATALOG)
    assert question.notes == ("'20 tok/s per user' is read as: at most 50 ms a token",)


def test_each_phrase_of_the_page_is_understood() -> None:
    """docs/scenario.md, In one sentence: each phrase is read beside what a question needs besides."""
    page = (Path(__file__).parents[1] / "docs" / "scenario.md").read_text(encoding="utf-8")
    table = page.partition("## In one sentence")[2].partition("## Every key")[0]
    phrases = [
        phrase for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE) for phrase in re.findall(r"`([^`]+)`", row)
    ]
    assert len(phrases) > 25
    for phrase in phrases:
        load = "" if re.search("concurrent|users|requests (per|a) ", phrase) else "50 concurrent, "
        lengths = "" if re.search("8K|8192|7K", phrase) else ", 7K in 1K out"
        assert _one(f"{load}{phrase}{lengths}")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("20 tok/s per user in total", "'20 tok/s per user in total' is not understood (expected '20 tokens"),
        ("total 20 tok/s per user", "'total 20 tok/s per user' is not understood (expected '20 tokens"),
        ("20 tok/s, total budget $9/h", "'20 tok/s' is not understood (expected '20 tokens"),
        ("20 tok/s total cost under $9/h", "'20 tok/s' is not understood (expected '20 tokens"),
        ("1.5K tok/s in total", "'1.5k tok/s in total' is not understood (expected the number written out"),
        ("2K tokens per second per user", "'2k tokens per second per user' is not understood (expected the number"),
        ("on vLLM 0.19.0", "'0.19.0' is not understood (expected `engine_version:` in a scenario file)"),
        ("TTFT within 2s for 95% of requests", "'95%' is not understood (expected a percentile, such as 'p95 TTFT"),
    ],
)
def test_neither_of_two_readings_is_guessed(words: str, said: str) -> None:
    with pytest.raises(InputError) as refused:
        _one(f"{ASK}, {words}")
    assert said in str(refused.value)
    assert "is said twice" not in str(refused.value)  # 2K of a speed is no length


def test_totals_of_another_kind_stand_beside_a_throughput() -> None:
    for words in ("1500 tok/s in total, total budget $9/h", "budget $9/h in total, total throughput of 1500 tok/s"):
        scenario = _one(f"{ASK}, {words}")
        assert scenario.sla == Sla(output_tokens_per_s=Decimal(1500))
        assert scenario.limits.usd_per_month == 9 * 730


def test_a_rate_is_never_understated() -> None:
    """One an hour is 0.00027777... a second: rounded up to the millionth; 7 an hour, 0.0019444..., too."""
    for words, per_s in (("1 request an hour", 0.000278), ("7 requests an hour", 0.001945)):
        rate = _one(f"{words}, 7K in 1K out").workload.rate
        assert rate is not None
        assert rate.per_s == per_s

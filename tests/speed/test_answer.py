"""The public answer, against what people measured and asked in public threads."""

from __future__ import annotations

import math

import pytest

from recommender.errors import InputError, NotModelledError
from recommender.speed.answer import Speed, curve, speed
from recommender.speed.setup import Load, Setup

LLAMA_70B = "meta-llama/Llama-3.1-70B-Instruct"


def test_tp8_for_latency_two_tp4_for_throughput() -> None:
    """70B FP8 on 8 H100: TP8 has the lower time per token, two TP4 serve more (vLLM issue 8089)."""
    for concurrency, gain in ((64, 1.05), (128, 1.15), (256, 1.25)):
        tp8 = speed(LLAMA_70B, "H100-SXM", 1024, 256, concurrency, tp=8, weights="fp8")
        two = speed(LLAMA_70B, "H100-SXM", 1024, 256, concurrency, tp=4, replicas=2, weights="fp8")
        assert (tp8.gpus, two.gpus) == (8, 8)
        assert two.output_tokens_per_s > gain * tp8.output_tokens_per_s
    alone8, alone4 = (speed(LLAMA_70B, "H100-SXM", 1024, 256, 1, tp=tp, weights="fp8") for tp in (8, 4))
    assert alone8.tpot_ms < alone4.tpot_ms


def test_without_nvlink_prefill_hardly_scales() -> None:
    """70B int4 on 3090-class cards over PCIe, TP2 to TP4: decode x1.5, prefill x1.07 (vLLM issue 6955)."""
    two, four = (speed(LLAMA_70B, "RTX3090", 4000, 200, 1, tp=tp, weights="int4") for tp in (2, 4))
    assert 1.3 < two.tpot_ms / four.tpot_ms < 1.7
    assert 0.9 < two.ttft_ms / four.ttft_ms < 1.3
    assert 25 < 1000 / two.tpot_ms < 40  # 30 tokens a second were measured


def test_single_stream_of_a_70b_on_four_a6000() -> None:
    """TP4 in bf16: 16 to 17 tokens a second were measured, 21.8 is what bandwidth allows (vLLM issue 11147)."""
    found = speed(LLAMA_70B, "RTXA6000", 200, 200, 1, tp=4, weights="bf16")
    assert 13 < 1000 / found.tpot_ms < 21.8


def test_beyond_what_was_measured_is_said_and_widens_the_band() -> None:
    """Kimi-K2.5 in NVFP4 on 8 B200 at 384 requests: another predictor was 4.6 times too fast, without a word."""
    inside, outside = (speed("moonshotai/Kimi-K2.5", "B200", 8192, 1024, n, tp=8, weights="nvfp4") for n in (64, 384))
    assert inside.evidence == "anchored"
    assert inside.warnings == ()
    assert outside.evidence != "anchored"
    assert any("nothing above" in warning for warning in outside.warnings)
    assert _width(outside.tpot_ms_interval) > 1.5 * _width(inside.tpot_ms_interval)


def _width(interval: tuple[float, float]) -> float:
    return math.log(interval[1] / interval[0])


@pytest.fixture(scope="module")
def found() -> Speed:
    return speed("meta-llama/Llama-3.1-8B-Instruct", "H100-SXM", 1024, 256, 32)


def test_answer_is_consistent(found: Speed) -> None:
    request_s = (found.ttft_ms + 255 * found.tpot_ms) / 1e3
    assert found.requests_per_s * request_s == pytest.approx(32)
    assert found.output_tokens_per_s == pytest.approx(256 * found.requests_per_s)
    for value, (low, high) in (
        (found.tpot_ms, found.tpot_ms_interval),
        (found.ttft_ms, found.ttft_ms_interval),
        (found.output_tokens_per_s, found.output_tokens_per_s_interval),
    ):
        assert low < value < high
    assert _width(found.ttft_ms_interval) > _width(found.tpot_ms_interval)  # never presented as sharp
    assert 0 < found.prompt_share < 1


def test_a_curve_rises_to_what_the_memory_holds() -> None:
    points = curve(Setup(LLAMA_70B, "H100-SXM", tp=4, weights="fp8", replicas=2), Load(1024, 256, 1))
    assert points[0].concurrency == 1
    assert points[-1].queue_ms == 0
    assert [each.tpot_ms for each in points] == sorted(each.tpot_ms for each in points)
    assert [each.output_tokens_per_s for each in points] == sorted(each.output_tokens_per_s for each in points)
    asked = curve(Setup(LLAMA_70B, "H100-SXM", tp=4, weights="fp8", replicas=2), Load(1024, 256, 1), [2, 64])
    assert asked[1] == next(each for each in points if each.concurrency == 64)


def test_requests_beyond_the_memory_queue() -> None:
    crowded = speed(LLAMA_70B, "H100-SXM", 8000, 1000, 2000, tp=4)
    assert crowded.queue_ms > 0
    assert crowded.running < 2000
    assert any("queue" in warning for warning in crowded.warnings)


def test_an_expert_group_larger_than_tp_replicates_attention() -> None:
    implied = speed("deepseek-ai/DeepSeek-R1", "H200-SXM", 1024, 1024, 64, ep=8)
    stated = speed("deepseek-ai/DeepSeek-R1", "H200-SXM", 1024, 1024, 64, ep=8, dp=8)
    assert implied == stated
    assert implied.gpus == 8


def test_newer_engines_take_less() -> None:
    old, new = (speed(LLAMA_70B, "H100-SXM", 1024, 256, 8, tp=8, engine_version=v) for v in ("0.9.0", "0.19.0"))
    newest = speed(LLAMA_70B, "H100-SXM", 1024, 256, 8, tp=8, engine_version="0.33.0")
    assert new.tpot_ms < old.tpot_ms
    assert newest.tpot_ms == pytest.approx(new.tpot_ms, rel=0.05)  # not extrapolated beyond the measurements


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"gpu": "H1OO"}, "unknown gpu"),
        ({"model": "nobody/nothing"}, "unknown model"),
        ({"isl": 0}, "isl.*0 cannot be"),
        ({"concurrency": float("nan")}, "concurrency.*nan cannot be"),
        ({"osl": 10**9}, "osl"),
        ({"tp": 0, "pp": -1}, "(?s)tp.*pp"),
        ({"model": LLAMA_70B, "tp": 6, "gpu": "RTXA6000"}, "64 attention heads.*cannot be split over 6"),
        ({"weights": "fp3"}, "no fp3 weights"),
        ({"kv_dtype": "int2"}, "kv_dtype"),
        ({"gpu": "L4", "model": LLAMA_70B}, "does not fit 1 x L4"),
    ],
)
def test_refused_with_the_reason(changed: dict[str, object], reason: str) -> None:
    asked = {"model": "Qwen/Qwen3-8B", "gpu": "L4", "isl": 100, "osl": 100, "concurrency": 1} | changed
    with pytest.raises(InputError, match=reason):
        speed(**asked)  # type: ignore[arg-type]


def test_unmeasured_engines_are_refused_by_name() -> None:
    with pytest.raises(NotModelledError, match="'lmdeploy'"):
        speed("Qwen/Qwen3-8B", "L4", 100, 100, 1, engine="lmdeploy")

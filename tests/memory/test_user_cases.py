"""What people asked in public threads and got wrong answers to: bytes per token exact, pools inside what was logged.

Each case names its thread. A pool logged as X GiB is somewhere within 0.005 GiB of X: the logged block count must be
among the counts that interval gives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from recommender.catalog.catalog import Catalog
from recommender.errors import InputError
from recommender.memory.engine import engine_constants
from recommender.memory.fit import Fit, Replica, fit_replica
from recommender.memory.kv import KvPool, kv_pool
from recommender.units import GIB

Fitting = Callable[..., Fit]
HALF_DIGIT = int(0.005 * GIB)


def pool_of(catalog: Catalog, model: str, *, version: str = "0.33.0", tp: int = 1, kv_dtype: str = "auto") -> KvPool:
    found = catalog.resolve(model).model
    constants = engine_constants("vllm", version)
    return kv_pool(found, constants, catalog.gpu("H100-SXM"), tp=tp, kv_dtype=kv_dtype, weights="bf16")


# thread, model, tp, KV dtype, bytes a token per GPU, [(logged pool GiB, logged blocks)]
POOLS = [
    ("vllm 10517", "meta-llama/Llama-3.1-8B", 1, "auto", 131_072, [(3.81, 1_952), (2.89, 1_478)]),
    ("vllm 24577", "Qwen/Qwen3-0.6B", 1, "auto", 114_688, [(69.66, 652_144 // 16)]),
    ("vllm 25350", "Qwen/Qwen3-30B-A3B", 1, "fp8", 49_152, [(10.55, 230_528 // 16)]),
    ("vllm 6746", "meta-llama/Llama-3.1-405B-Instruct", 8, "auto", 64_512, [(4.77, 79_392 // 16)]),
    ("Qwen3 295", "Qwen/Qwen1.5-7B-Chat", 1, "auto", 524_288, [(3.59, 7_344 // 16)]),
]


@pytest.mark.parametrize(("thread", "model", "tp", "kv_dtype", "per_token", "logged"), POOLS)
def test_bytes_per_token_and_logged_blocks(
    thread: str,
    model: str,
    tp: int,
    kv_dtype: str,
    per_token: int,
    logged: list[tuple[float, int]],
    catalog: Catalog,
) -> None:
    pool = pool_of(catalog, model, tp=tp, kv_dtype=kv_dtype)
    assert pool.kv_bytes_per_token == per_token, thread
    for size, blocks in logged:
        middle = int(size * GIB)
        assert pool.blocks(middle - HALF_DIGIT) <= blocks <= pool.blocks(middle + HALF_DIGIT), thread


@pytest.mark.parametrize(
    ("model", "per_token"),
    [
        ("mistralai/Mistral-Nemo-Instruct-2407", 163_840),  # 32 heads of 128, not of 5120 / 32
        ("Qwen/Qwen3-4B", 147_456),  # not of 2560 / 32
        ("deepseek-ai/DeepSeek-V3", 70_272),  # one latent, not 128 heads
        ("Qwen/Qwen3.5-27B", 65_536),  # 16 of 64 layers grow
        ("google/gemma-3-27b-it", 81_920),  # 10 of 62 layers grow
    ],
)
def test_bytes_per_token_by_declared_geometry(model: str, per_token: int, catalog: Catalog) -> None:
    assert pool_of(catalog, model).kv_bytes_per_token == per_token


def test_twenty_thousand_tokens_start_and_twenty_nine_do_not(fit: Fitting) -> None:
    """vllm 10517: the old engine profiles activations at the maximum length, so a longer one also shrinks the pool."""
    short = fit("llama-3.1-8b", "RTX3090", max_model_len=20_000, gpu_memory_utilization=0.90, engine_version="0.6.4")
    long = fit("llama-3.1-8b", "RTX3090", max_model_len=29_000, gpu_memory_utilization=0.90, engine_version="0.6.4")
    assert short.starts
    assert short.max_concurrency == pytest.approx(1.56, abs=0.03)
    assert short.weights_bytes / GIB == pytest.approx(14.9888, abs=0.0001)
    assert not long.starts
    assert (short.kv_cache_bytes - long.kv_cache_bytes) / GIB == pytest.approx(3.81 - 2.89, abs=0.02)
    assert long.estimated_max_model_len == pytest.approx(23_648, rel=0.02)


def test_an_fp8_cache_is_used_for_the_longest_length(fit: Fitting) -> None:
    """vllm 25350: 221,000 tokens need 10.12 GiB; 5.59 GiB hold 122,080."""
    found = fit(
        "Qwen/Qwen3-Coder-30B-A3B-Instruct",
        "H100-SXM",
        kv_dtype="fp8",
        max_model_len=221_000,
        kv_cache_memory_bytes=int(5.59 * GIB),
        engine_version="0.10.2",
    )
    assert "10.12 GiB KV cache is needed" in (found.refusal or "")
    assert found.estimated_max_model_len == pytest.approx(122_080, abs=HALF_DIGIT / 49_152)


@pytest.mark.parametrize(("size", "tokens"), [(64.68, 626_949), (103.92, 1_007_303)])
def test_sliding_and_full_layers_of_different_sizes(size: float, tokens: int, fit: Fitting) -> None:
    """configiq 112: one request takes 27.043 GiB, and the tokens the engine prints depend on the length."""
    found = fit(
        "google/gemma-4-31B-it",
        "H200-SXM",
        max_model_len=262_144,
        max_num_batched_tokens=8_192,
        kv_cache_memory_bytes=int(size * GIB),
        engine_version="0.25.0",
    )
    assert (found.request_blocks or 0) * (found.bytes_per_block or 0) / GIB == pytest.approx(27.043, abs=0.001)
    assert found.kv_cache_tokens == pytest.approx(tokens, rel=0.0001)


def test_what_is_reserved_and_what_is_held(fit: Fitting) -> None:
    """hf-mem 70: 32 requests of 8,192 tokens reserve 12.0 GiB at start-up and hold 6.09 GiB once running."""
    found = fit(
        "openai/gpt-oss-20b", "H100-SXM", max_model_len=8_192, max_num_batched_tokens=8_192, engine_version="0.11.0"
    )
    block = found.bytes_per_block or 0
    assert 32 * (found.request_blocks or 0) * block / GIB == pytest.approx(12.0, abs=0.03)
    assert 32 * (found.steady_request_blocks or 0) * block / GIB == pytest.approx(6.09, abs=0.01)


def test_seventy_billion_parameters_on_two_cards(fit: Fitting) -> None:
    """vllm 10517: 20,000 tokens need 3.05 GiB a GPU, 131,072 need 20."""
    found = fit("llama-3.1-70b", "H100-SXM", tp=2, max_model_len=20_000, engine_version="0.6.4", max_num_seqs=16)
    assert found.weights_bytes / GIB == pytest.approx(65.7, abs=0.1)
    assert 20_000 * found.kv_bytes_per_token / GIB == pytest.approx(3.05, abs=0.01)
    assert 131_072 * found.kv_bytes_per_token == 20 * GIB
    assert not fit("llama-3.1-70b", "H100-SXM", tp=2, max_model_len=131_072, engine_version="0.6.4").starts


def test_a_latent_is_replicated_under_tensor_parallelism(catalog: Catalog) -> None:
    """vllm 51454: eight GPUs hold the tokens of one."""
    sizes = {pool_of(catalog, "deepseek-ai/DeepSeek-V3", tp=tp).bytes_per_block for tp in (1, 2, 4, 8)}
    assert sizes == {1_124_352}


def test_a_four_bit_cache_is_refused_not_guessed(fit: Fitting) -> None:
    """gguf-parser 8: an engine without that cache has no bytes to state."""
    with pytest.raises(InputError, match="int4"):
        fit("deepseek-ai/DeepSeek-V3", "H200-SXM", tp=8, kv_dtype="int4")


def test_a_vision_model_that_leaves_nothing(fit: Fitting) -> None:
    """vllm 16570: 72B in 16 bit on four cards of 40 GB."""
    found = fit(
        "Qwen/Qwen2.5-VL-72B-Instruct",
        "A100-40GB-SXM",
        tp=4,
        gpu_memory_utilization=0.95,
        max_model_len=8_192,
        engine_version="0.8.3",
    )
    assert found.weights_bytes / GIB == pytest.approx(34.43, abs=0.25)
    assert found.kv_cache_bytes / GIB < 1.5
    eight = fit("Qwen/Qwen2.5-VL-72B-Instruct", "A100-40GB-SXM", tp=8, max_model_len=8_192, engine_version="0.8.3")
    assert eight.starts
    assert eight.max_concurrency > 10


def test_six_cards_of_48_gb(fit: Fitting) -> None:
    """vllm 11147: 64 heads over six GPUs are refused; four hold the model in 16 bit, two in 8 bit."""
    assert not fit("llama-3.1-70b", "RTXA6000", tp=6, max_model_len=8_192).starts
    four = fit("llama-3.1-70b", "RTXA6000", tp=4, max_model_len=8_192)
    two = fit("llama-3.1-70b", "RTXA6000", tp=2, weights="fp8", max_model_len=8_192)
    assert four.kv_cache_tokens == pytest.approx(107_500, rel=0.1)
    assert two.kv_cache_tokens == pytest.approx(47_500, rel=0.12)


@pytest.mark.parametrize(("heads", "kv_heads", "tp"), [(52, 52, 8), (28, 4, 8), (52, 52, 3), (40, 8, 6)])
def test_heads_that_do_not_divide(heads: int, kv_heads: int, tp: int, catalog: Catalog, fit: Fitting) -> None:
    """vllm 2652, 414, 4232."""
    model = replace(catalog.model("llama-3.1-8b"), heads=heads, kv_heads=kv_heads)
    found = fit_replica(Replica(model, catalog.gpu("H100-SXM"), "bf16", None, tp=tp, max_model_len=4_096))
    assert not found.starts
    assert str(heads) in (found.refusal or "")


def test_full_length_requests_of_a_replica_of_four(fit: Fitting) -> None:
    """vllm 9658: about 14 requests of 32,768 tokens, whatever max_num_seqs says."""
    found = fit(
        "llama-3.1-70b",
        "A100-80GB-SXM",
        tp=4,
        max_model_len=32_768,
        max_num_seqs=512,
        gpu_memory_utilization=0.90,
    )
    assert 450_000 <= found.kv_cache_tokens <= 477_000
    assert round(found.max_concurrency) == 14
    assert found.kv_cache_tokens // 512 < 931


def test_an_fp8_checkpoint_is_not_one_byte_a_parameter(fit: Fitting) -> None:
    """accelerate 3297: 8.46 GiB of weights, beside the pool that the engine takes whatever is needed."""
    found = fit("RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8", "H100-SXM", max_model_len=8_192)
    assert found.weights_bytes / GIB == pytest.approx(8.48, abs=0.05)
    assert found.weights_bytes + found.reserve_bytes + found.kv_cache_bytes == found.usable_bytes


def test_fp8_kv_on_ampere_carries_the_backend(fit: Fitting) -> None:
    """vllm 26431."""
    found = fit("llama-3.1-8b", "RTX3090", kv_dtype="fp8", max_model_len=4_096)
    assert any("FLASHINFER" in argument.upper() for argument in found.launch_arguments)
    assert not fit("llama-3.1-8b", "V100-32GB", kv_dtype="fp8", max_model_len=4_096).starts


def test_the_driver_total_is_neither_gb_nor_gib(fit: Fitting) -> None:
    """modal-client 2797, gpuhunt 91."""
    totals = {gpu: fit("llama-3.1-8b", gpu, max_model_len=2_048).memory_bytes / GIB for gpu in ("H100-SXM", "L4")}
    assert totals == pytest.approx({"H100-SXM": 79.19, "L4": 22.06}, abs=0.05)


def test_tokens_of_a_hybrid_are_not_bytes_divided(fit: Fitting) -> None:
    """vllm 51041: fixed states per request make bytes per token swing with the length."""
    per_token = []
    for length in (8_192, 262_144):
        found = fit("Qwen/Qwen3.5-27B", "H200-SXM", max_model_len=length)
        per_token.append(found.kv_cache_bytes / found.kv_cache_tokens)
    assert per_token[0] > 1.5 * per_token[1]

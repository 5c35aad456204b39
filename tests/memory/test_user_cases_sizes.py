"""Public threads about weights, latent and sliding caches, kernels and small fleets: what was asked, what is right."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from recommender.answer import fit as fit_anything
from recommender.memory.fit import Fit

Fitting = Callable[..., Fit]
GIB = 2**30


def test_every_expert_is_resident(fit: Fitting) -> None:
    """llmfit 230 and ollama 10546: a mixture takes its total parameters, not the active ones."""
    large = fit("Qwen/Qwen3.5-122B-A10B", "H100-SXM", tp=2, weights="int4", max_model_len=4_096)
    small = fit("Qwen/Qwen3-30B-A3B", "RTX4090", weights="int4", max_model_len=4_096)
    assert large.total.weights_bytes / 1e9 == pytest.approx(75, abs=4)  # 72.6 at 0.58 bytes a parameter
    assert small.weights_bytes / 1e9 == pytest.approx(17.5, abs=1.5)  # 18 to 20 in formats of another engine


def test_a_dtype_is_not_applied_twice(fit: Fitting) -> None:
    """accelerate 3379: 131.4 GiB."""
    found = fit("meta-llama/Llama-3.1-70B-Instruct", "H200-SXM", tp=2, max_model_len=4_096)
    assert found.total.weights_bytes / GIB == pytest.approx(131.4, abs=0.1)


def test_tied_embeddings_count_once(fit: Fitting) -> None:
    """LLMs-from-scratch 822: 1,235,814,400 parameters, and 128 KiB rows of rotary tables."""
    found = fit("meta-llama/Llama-3.2-1B", "H100-SXM", max_model_len=4_096)
    assert found.weights_bytes - 2 * 1_235_814_400 == pytest.approx(131_072 * 64 * 2, rel=0.01)


def test_heads_of_an_old_formula(tmp_path: Path) -> None:
    """vllm-fit 2: 32 layers of 32 heads of 128 take 524,288 bytes a token; the formula took eight times that."""
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 4_096,
        "intermediate_size": 11_008,
        "num_attention_heads": 32,
        "num_hidden_layers": 32,
        "vocab_size": 32_000,
        "max_position_embeddings": 4_096,
        "torch_dtype": "float16",
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert fit_anything(str(tmp_path), "H100-SXM").kv_bytes_per_token == 524_288


@pytest.mark.parametrize(("length", "held_gib"), [(85_000, 3.7), (128_000, 5.4)])
def test_a_window_aware_cache(length: int, held_gib: float, fit: Fitting) -> None:
    """gpustack 2101: 8.5 bits a value in that engine, 8 here; all layers full would be 21.4 and 32.2 GiB."""
    found = fit("google/gemma-3-27b-it", "H200-SXM", kv_dtype="fp8", max_model_len=length)
    held = (found.steady_request_blocks or 0) * (found.bytes_per_block or 0) / GIB
    assert held * 8.5 / 8 == pytest.approx(held_gib, abs=0.05)


def test_before_groups_every_layer_grows(fit: Fitting) -> None:
    """vLLM up to 0.9 allocates sliding layers like full ones: what a token takes is what the pool is divided by."""
    old = fit("google/gemma-3-12b-it", "H100-SXM", max_model_len=8_192, engine_version="0.9.2")
    new = fit("google/gemma-3-12b-it", "H100-SXM", max_model_len=8_192, engine_version="0.11.0")
    assert old.kv_bytes_per_token == 48 * 2 * 8 * 256 * 2
    assert new.kv_bytes_per_token == 8 * 2 * 8 * 256 * 2
    assert old.kv_cache_tokens * old.kv_bytes_per_token == pytest.approx(old.kv_cache_bytes, rel=0.001)


def test_a_cache_of_65_536_tokens(fit: Fitting) -> None:
    """gguf-parser 8: 61 layers, not one: 4.29 GiB in 16 bit."""
    found = fit("deepseek-ai/DeepSeek-V3", "H200-SXM", tp=8, max_model_len=65_536)
    assert 65_536 * found.kv_bytes_per_token / GIB == pytest.approx(4.29, abs=0.005)


def test_data_parallel_attention_holds_several_times_the_latents(fit: Fitting) -> None:
    """vllm 51454: each rank holds other requests, and its own copy of the attention weights."""
    tensor, data = (
        fit("deepseek-ai/DeepSeek-V3", "H200-SXM", max_model_len=32_768, **split)
        for split in ({"tp": 8}, {"dp": 8, "ep": 8})
    )
    copies = data.weights_bytes - tensor.weights_bytes
    assert copies / GIB == pytest.approx(16.3, abs=0.2)
    assert data.kv_cache_bytes - tensor.kv_cache_bytes == pytest.approx(-copies, abs=1.5 * GIB)
    assert 8 * data.kv_cache_tokens > 5 * tensor.kv_cache_tokens


def test_fp8_kv_on_ampere_in_the_words_of_its_version(fit: Fitting) -> None:
    """vllm 26431: FlashInfer by a variable until 0.12, by a flag from 0.13 on."""
    asked = {"kv_dtype": "fp8", "max_model_len": 4_096}
    assert fit("llama-3.1-8b", "RTX3090", engine_version="0.11.0", **asked).launch_arguments == (
        "VLLM_ATTENTION_BACKEND=FLASHINFER",
    )
    assert "--attention-backend" in fit("llama-3.1-8b", "RTX3090", engine_version="0.13.0", **asked).launch_arguments


def test_two_large_models_on_one_node(fit: Fitting) -> None:
    """kvcached 210: 16.43 GiB a GPU each of 39.38; half a card holds no 32,768 tokens in 16 bit, it does in FP8."""
    asked = {"tp": 8, "max_model_len": 32_768, "gpu_memory_utilization": 0.45}
    plain = fit("llama-3.1-70b", "A100-40GB-SXM", **asked)
    assert plain.weights_bytes / GIB == pytest.approx(16.43, abs=0.05)
    assert not plain.starts
    assert fit("llama-3.1-70b", "A100-40GB-SXM", weights="fp8", max_num_seqs=16, **asked).starts


@pytest.mark.parametrize(
    ("gpu", "tp", "weights", "kv_dtype", "holds"),
    [
        ("H100-SXM", 2, "fp8", "fp8", True),
        ("H100-SXM", 4, "bf16", "auto", True),
        ("H200-SXM", 1, "int4", "fp8", True),
        ("H100-SXM", 1, "int4", "fp8", False),
        ("H100-SXM", 2, "bf16", "auto", False),
    ],
)
def test_fifty_users_of_eight_thousand_tokens(
    gpu: str, tp: int, weights: str, kv_dtype: str, holds: bool, fit: Fitting
) -> None:
    """A sizing guide (premai): 50 x 8,192 tokens of a 70B."""
    found = fit("llama-3.1-70b", gpu, tp=tp, weights=weights, kv_dtype=kv_dtype, max_model_len=8_192, max_num_seqs=50)
    assert (found.starts and found.max_concurrency >= 50) is holds


@pytest.mark.parametrize(("tp", "starts"), [(6, False), (4, False), (2, True)])
def test_a_32b_on_small_cards(tp: int, starts: bool, fit: Fitting) -> None:
    """vllm 4232: no six-way split, no 16 bit on four T4; 4 bit on a pair."""
    weights = "int4" if tp == 2 else None
    assert fit("Qwen/Qwen2.5-32B-Instruct", "T4", tp=tp, weights=weights, max_model_len=4_096).starts is starts


def test_rotary_tables_for_images_run_on(fit: Fitting) -> None:
    """vllm 16570 logs 34.43 GiB: four times the rows; and a 27B of 28.51 GiB on 0.26.0 in a public log."""
    old = fit("Qwen/Qwen2.5-VL-72B-Instruct", "A100-40GB-SXM", tp=4, engine_version="0.8.3", max_model_len=4_096)
    assert old.weights_bytes / GIB == pytest.approx(34.43, abs=0.13)
    versions = ("0.31.0", "0.32.0")
    three, one = (
        fit("Qwen/Qwen3.5-27B", "H200-SXM", engine_version=version, max_model_len=4_096).weights_bytes
        for version in versions
    )
    assert three - one == 3 * 262_144 * 64 * 2


def test_four_bit_experts_on_ampere_since_sinks_are_served_there(fit: Fitting) -> None:
    """vLLM wheels 0.11.0-0.33.0: Marlin takes the experts, Triton the sinks; before 0.11 it is not known."""
    assert fit("openai/gpt-oss-20b", "A100-80GB-SXM", engine_version="0.11.0", max_model_len=8_192).starts
    older = fit("openai/gpt-oss-20b", "A100-80GB-SXM", engine_version="0.10.2", max_model_len=8_192)
    assert "not known to work" in (older.refusal or "")

"""One replica: limits, budget, refusals in the engine's own words."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from recommender.catalog.catalog import Catalog
from recommender.errors import InputError, NotModelledError
from recommender.memory.fit import Fit, Replica, fit_replica
from recommender.units import GIB

Fitting = Callable[..., Fit]


def test_the_budget_adds_up(fit: Fitting) -> None:
    found = fit("llama-3.1-8b", "H100-SXM", max_model_len=8192)
    assert found.starts
    assert found.refusal is None
    assert found.usable_bytes == -(-found.memory_bytes * 92 // 100)
    assert found.reserve_bytes == found.activation_bytes + found.non_torch_bytes + found.cuda_graph_bytes
    assert found.weights_bytes + found.reserve_bytes + found.kv_cache_bytes == found.usable_bytes
    assert found.blocks == found.kv_cache_bytes // (16 * 131_072)
    assert found.kv_cache_tokens == int(found.blocks / 512 * 8192)
    assert found.max_concurrency == found.blocks / 512
    assert found.total.kv_bytes_per_token == 131_072


def test_totals_are_of_all_gpus(fit: Fitting) -> None:
    found = fit("llama-3.1-70b", "H100-SXM", tp=4, max_model_len=8192)
    assert found.total.weights_bytes == 4 * found.weights_bytes
    assert found.total.kv_cache_bytes == 4 * found.kv_cache_bytes
    assert (found.kv_bytes_per_token, found.total.kv_bytes_per_token) == (81_920, 327_680)


def test_limits_cut_one_another(fit: Fitting) -> None:
    a100 = fit("llama-3.1-8b", "A100-80GB-SXM", max_model_len=8192, max_num_seqs=5000)
    assert (a100.max_num_seqs, a100.max_num_batched_tokens) == (2048, 2048)
    assert any("max_num_seqs 5000 is cut to max_num_batched_tokens 2048" in text for text in a100.warnings)
    few = fit("llama-3.1-8b", "H100-SXM", max_model_len=1000, max_num_seqs=3)
    assert (few.max_num_seqs, few.max_num_batched_tokens) == (3, 3000)
    asked = fit("llama-3.1-8b", "H100-SXM", max_model_len=1000, max_num_seqs=3, max_num_batched_tokens=8192)
    assert asked.max_num_batched_tokens == 8192


def test_defaults_are_the_models_length_and_the_engines_limits(fit: Fitting) -> None:
    found = fit("llama-3.1-8b", "H100-SXM")
    assert (found.max_model_len, found.max_num_seqs, found.max_num_batched_tokens) == (131_072, 1024, 8192)
    assert (found.engine_version, found.gpu_memory_utilization) == ("0.33.0", 0.92)


def test_not_one_request_fits(fit: Fitting) -> None:
    found = fit("llama-3.1-70b", "H100-SXM", tp=2, max_model_len=131_072)
    assert not found.starts
    said = re.match(
        r"To serve at least one request with the model's max seq len \(131072\), \(20\.0 GiB KV cache is needed, which "
        r"is larger than the available KV cache memory \((\d+\.\d+) GiB\)\. Based on the available memory, the "
        r"estimated maximum model length is (\d+)\. Try increasing `gpu_memory_utilization` or decreasing "
        r"`max_model_len`",
        found.refusal or "",
    )
    assert said is not None
    block = found.bytes_per_block or 0
    assert float(said[1]) == round((found.kv_cache_bytes - block) / GIB, 2)
    assert int(said[2]) == found.estimated_max_model_len == ((found.blocks or 0) - 1) * 16
    again = fit("llama-3.1-70b", "H100-SXM", tp=2, max_model_len=found.estimated_max_model_len)
    assert again.starts
    longer = fit("llama-3.1-70b", "H100-SXM", tp=2, max_model_len=(found.estimated_max_model_len or 0) + 1)
    assert not longer.starts


def test_the_null_block_decides_since_0_29(fit: Fitting) -> None:
    exactly = {"max_model_len": 8192, "kv_cache_memory_bytes": 512 * 2_097_152}
    assert fit("llama-3.1-8b", "H100-SXM", engine_version="0.28.0", **exactly).starts
    refused = fit("llama-3.1-8b", "H100-SXM", engine_version="0.29.0", **exactly)
    assert refused.estimated_max_model_len == 8176
    assert "(1.0 GiB KV cache is needed" in (refused.refusal or "")


def test_v0_says_it_in_its_own_words(fit: Fitting) -> None:
    found = fit("llama-3.1-8b", "RTX3090", max_model_len=29_000, engine_version="0.6.4")
    assert found.refusal is not None
    assert found.refusal.startswith("The model's max seq len (29000) is larger than the maximum number of tokens")
    assert f"({found.kv_cache_tokens})" in found.refusal


def test_weights_that_leave_nothing(fit: Fitting) -> None:
    found = fit("llama-3.1-70b", "H100-SXM", max_model_len=8192)
    assert not found.starts
    assert "No available memory for the cache blocks" in (found.refusal or "")
    assert (found.kv_cache_bytes, found.kv_cache_tokens, found.max_concurrency) == (0, 0, 0.0)


def test_a_utilization_without_a_margin_never_starts(fit: Fitting) -> None:
    found = fit("llama-3.1-8b", "H100-SXM", max_model_len=8192, gpu_memory_utilization=1.0)
    assert "on startup is less than desired GPU memory utilization (1, 79.19 GiB)" in (found.refusal or "")


def test_kv_cache_memory_bytes_skips_the_budget(fit: Fitting) -> None:
    found = fit("llama-3.1-8b", "H100-SXM", max_model_len=8192, kv_cache_memory_bytes=10 * GIB)
    assert found.starts
    assert (found.kv_cache_bytes, found.blocks) == (10 * GIB, 5120)
    too_much = fit("llama-3.1-8b", "H100-SXM", max_model_len=8192, kv_cache_memory_bytes=70 * GIB)
    assert "out of memory" in (too_much.refusal or "")
    assert too_much.blocks == 35_840


def test_a_length_beyond_the_models_own_is_refused(fit: Fitting) -> None:
    found = fit("llama-3.1-8b", "H100-SXM", max_model_len=131_073)
    assert "User-specified max_model_len (131073) is greater than the derived max_model_len (131072)" in (
        found.refusal or ""
    )


def test_a_shape_that_cannot_be_split_is_an_answer(fit: Fitting) -> None:
    found = fit("Qwen/Qwen2.5-7B-Instruct", "H100-SXM", tp=8, max_model_len=8192)
    assert not found.starts
    assert "28" in (found.refusal or "")
    assert "8" in (found.refusal or "")
    found = fit("microsoft/phi-4", "H100-SXM", tp=4, max_model_len=8192)
    assert not found.starts
    assert (found.weights_bytes, found.kv_cache_tokens, found.blocks) == (0, 0, None)


@pytest.mark.parametrize(
    ("tp", "model"), [(8, "tiiuae/Falcon3-7B-Instruct"), (4, "microsoft/phi-4"), (8, "google/gemma-3-1b-it")]
)
def test_what_the_engine_itself_refused_to_split(tp: int, model: str, fit: Fitting) -> None:
    assert not fit(model, "H100-SXM", tp=tp, max_model_len=4096).starts


def test_fp8_cache_on_ampere_reserves_its_backend(fit: Fitting) -> None:
    plain = fit("llama-3.1-8b", "A100-80GB-SXM", max_model_len=8192)
    fp8 = fit("llama-3.1-8b", "A100-80GB-SXM", max_model_len=8192, kv_dtype="fp8")
    assert fp8.launch_arguments
    assert fp8.reserve_bytes > plain.reserve_bytes
    assert fp8.weights_bytes + fp8.reserve_bytes + fp8.kv_cache_bytes == fp8.usable_bytes


def test_pipeline_stages_and_the_one_that_binds(fit: Fitting) -> None:
    """Two and four stages on 0.19.0: the pools as logged, 0.1 GiB of the last stage apart at most."""
    for stages, logged in ((2, 1_075_312), (4, 2_257_264)):
        found = fit(
            "meta-llama/Llama-3.1-8B-Instruct",
            "H100-SXM",
            pp=stages,
            max_model_len=8192,
            gpu_memory_utilization=0.95,
            engine_version="0.19.0",
        )
        assert found.kv_cache_tokens == pytest.approx(logged, rel=0.002)


def test_the_longest_length_at_which_all_requests_fit(fit: Fitting) -> None:
    for model in ("llama-3.1-8b", "google/gemma-3-27b-it", "Qwen/Qwen3.5-27B"):
        found = fit(model, "H200-SXM", max_model_len=8192, max_num_seqs=12)
        longest = found.longest_max_model_len or 0
        at = {"max_num_seqs": 12, "max_num_batched_tokens": found.max_num_batched_tokens}
        best = fit(model, "H200-SXM", max_model_len=longest, **at)
        assert 12 * (best.request_blocks or 0) + 1 <= (best.blocks or 0)
        if longest < fit(model, "H200-SXM").max_model_len:
            more = fit(model, "H200-SXM", max_model_len=longest + 1, **at)
            assert 12 * (more.request_blocks or 0) + 1 > (more.blocks or 0)


def test_every_part_names_its_source(fit: Fitting) -> None:
    found = fit("llama-3.1-8b", "H100-SXM", max_model_len=8192)
    assert set(found.sources) == {
        "memory", "weights", "activation", "non_torch", "cuda_graph", "limits", "utilization", "compatibility",
    }  # fmt: skip
    assert all(found.sources.values())
    assert any("no start-up log" in reason for reason in found.extrapolated)


def test_unverified_memory_is_a_warning_and_unknown_memory_an_error(catalog: Catalog, fit: Fitting) -> None:
    assert any("unverified" in text for text in fit("llama-3.1-8b", "L20", max_model_len=8192).warnings)
    with pytest.raises(InputError, match="VR200"):
        fit("llama-3.1-8b", "VR200")


def test_all_faults_at_once(catalog: Catalog) -> None:
    replica = Replica(
        catalog.model("llama-3.1-8b"),
        catalog.gpu("H100-SXM"),
        "bf16",
        None,
        tp=0,
        max_num_seqs=-1,
        gpu_memory_utilization=1.2,
    )
    with pytest.raises(InputError) as raised:
        fit_replica(replica, "exact")
    assert len(raised.value.faults) == 4


def test_what_is_not_modelled_is_refused_by_name(fit: Fitting) -> None:
    with pytest.raises(NotModelledError, match="'mlx'"):
        fit("llama-3.1-8b", "H100-SXM", engine="mlx")
    with pytest.raises(InputError, match="nvfp4"):
        fit("llama-3.1-8b", "H100-SXM", kv_dtype="nvfp4")


def test_the_same_question_gives_the_same_answer(fit: Fitting) -> None:
    asked = {"tp": 2, "max_model_len": 8192, "kv_dtype": "fp8"}
    assert fit("llama-3.1-70b", "H100-SXM", weights="fp8", **asked) == fit(
        "llama-3.1-70b", "H100-SXM", weights="fp8", **asked
    )


@pytest.mark.parametrize(
    ("model", "ep", "expected"),
    [("Qwen/Qwen3-30B-A3B", 2, "1 | 8"), ("Qwen/Qwen3-30B-A3B", 16, "1 | 8"), ("llama-3.1-8b", 8, "1")],
)
def test_experts_are_spread_over_every_gpu_of_a_stage_or_not_at_all(
    fit: Fitting, model: str, ep: int, expected: str
) -> None:
    with pytest.raises(InputError) as refused:
        fit(model, "H100-SXM", tp=4, dp=2, ep=ep, max_model_len=4096)
    assert [(fault.key, fault.expected) for fault in refused.value.faults] == [("ep", expected)]


@pytest.mark.parametrize("ep", [1, 8])
def test_spread_experts_and_whole_ones_both_start(fit: Fitting, ep: int) -> None:
    assert fit("Qwen/Qwen3-30B-A3B", "H100-SXM", tp=4, dp=2, ep=ep, max_model_len=4096).starts

"""What a step reads and computes, against figures computed by hand from published configs."""

from __future__ import annotations

import pytest

from recommender.catalog.catalog import Catalog
from recommender.errors import NotModelledError
from recommender.speed.build import stored_shape
from recommender.speed.shape import Shape


def shape(catalog: Catalog, model: str, weights: str, kv_dtype: str = "auto") -> Shape:
    return stored_shape(catalog, catalog.model(model), weights, kv_dtype)


def test_dense_model_reads_all_but_its_embedding(catalog: Catalog) -> None:
    found = shape(catalog, "meta-llama/Llama-3.1-70B-Instruct", "bf16")
    layer = 8192 * (8192 * 2 + 2 * 1024) + 3 * 8192 * 28672
    assert found.dense_plain_elements == 80 * layer + 128256 * 8192
    assert found.dense_bytes - 2 * found.dense_plain_elements == 2 * (2 * 80 + 1) * 8192  # norms
    assert found.full_elements == 80 * 2 * 8 * 128
    assert found.full_attention_flops == 80 * 2 * 64 * 256
    assert found.experts == 0
    assert found.family == "dense"


def test_fp8_weights_leave_the_head_in_16_bit(catalog: Catalog) -> None:
    found = shape(catalog, "meta-llama/Llama-3.1-70B-Instruct", "fp8")
    assert found.dense_plain_elements == 128256 * 8192
    assert found.low_attention
    assert found.dense_bytes == pytest.approx(found.dense_low_elements + 2 * found.dense_plain_elements, rel=1e-3)


def test_mixture_reads_experts_apart(catalog: Catalog) -> None:
    found = shape(catalog, "openai/gpt-oss-120b", "mxfp4")
    assert (found.moe_layers, found.experts, found.experts_per_token) == (36, 128, 4)
    assert found.expert_elements == 3 * 2880 * 2880
    assert found.expert_bytes == pytest.approx(3 * 2880 * 2880 * 0.53125, rel=2e-3)
    assert not found.low_attention  # attention stays in 16 bit
    assert (found.window_tokens, found.window_elements, found.full_elements) == (128, 18 * 1024, 18 * 1024)


def test_latent_attention_keeps_one_vector_a_token(catalog: Catalog) -> None:
    found = shape(catalog, "deepseek-ai/DeepSeek-R1", "fp8")
    assert found.latent_elements == 61 * 576
    assert found.latent_decode_flops == 61 * 2 * 128 * (512 + 576)
    assert found.latent_prefill_flops == 61 * 2 * 128 * (192 + 128)
    assert (found.full_elements, found.sparse_layers, found.shared_layers) == (0, 0, 58)


def test_linear_layers_keep_a_state_whatever_the_length(catalog: Catalog) -> None:
    found = shape(catalog, "Qwen/Qwen3.5-397B-A17B", "bf16")
    assert found.linear_layers == 45
    assert found.state_bytes == 45 * (64 * 128 * 128 * 4 + 12288 * 3 * 2)
    assert found.full_elements == 15 * 2 * 2 * 256


@pytest.mark.parametrize(("weights", "kv_dtype", "size"), [("fp8", "auto", 2), ("fp8", "fp8", 1), ("nvfp4", "auto", 1)])
def test_cache_element_bytes(catalog: Catalog, weights: str, kv_dtype: str, size: int) -> None:
    """NVIDIA's FP4 checkpoints declare an FP8 cache."""
    found = shape(catalog, "meta-llama/Llama-3.1-70B-Instruct", weights, kv_dtype)
    assert found.kv_bytes_per_element == size


def test_compressed_attention_is_refused_by_name(catalog: Catalog) -> None:
    with pytest.raises(NotModelledError, match="compressed attention"):
        shape(catalog, "deepseek-ai/DeepSeek-V4-Flash", "mxfp4")

"""The source article's table and figures, to the printed digit."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from recommender.catalog.catalog import Catalog
from recommender.errors import NotModelledError
from recommender.memory.fit import Fit

# model, GPUs of which type, weights, KV; weights GB, KV GB, tokens, max length, requests
TABLE = [
    ("llama-3.1-8b", 1, "RTX4090", "bf16", "auto", "16.1", "4.0", 30_666, 8_192, "3.7"),
    ("llama-3.1-8b", 1, "RTX4090", "bf16", "auto", "16.1", "4.0", 30_666, 131_072, "0.2"),
    ("llama-3.1-8b", 1, "H100-SXM", "bf16", "auto", "16.1", "55.5", 423_733, 131_072, "3.2"),
    ("llama-3.1-70b", 2, "H100-SXM", "bf16", "auto", "141.1", "2.1", 6_386, 8_192, "0.8"),
    ("llama-3.1-70b", 4, "H100-SXM", "bf16", "auto", "141.1", "145.3", 443_398, 8_192, "54.1"),
    ("llama-3.1-70b", 2, "H100-SXM", "fp8", "auto", "70.6", "72.6", 221_699, 8_192, "27.1"),
    ("llama-3.1-70b", 2, "H100-SXM", "fp8", "fp8", "70.6", "72.6", 443_398, 8_192, "54.1"),
    ("llama-3.1-70b", 1, "H100-SXM", "int4", "auto", "35.3", "36.3", 110_849, 8_192, "13.5"),
]


@pytest.mark.parametrize("row", TABLE)
def test_the_articles_table(row: tuple[str, ...], fit: Callable[..., Fit]) -> None:
    model, gpus, gpu, weights, kv, weights_gb, kv_gb, tokens, length, requests = row
    found = fit(
        model,
        gpu,
        weights=weights,
        tp=gpus,
        kv_dtype=kv,
        max_model_len=length,
        gpu_memory_utilization=0.92,
        memory_model="article",
    )
    assert f"{found.total.weights_bytes / 1e9:.1f}" == weights_gb
    assert f"{found.total.kv_cache_bytes / 1e9:.1f}" == kv_gb
    assert found.kv_cache_tokens == tokens
    assert f"{found.max_concurrency:.1f}" == requests
    assert found.starts == (found.max_concurrency >= 1)


def test_its_parameters_and_bytes_per_token(catalog: Catalog, fit: Callable[..., Fit]) -> None:
    small, large = catalog.model("llama-3.1-8b"), catalog.model("llama-3.1-70b")
    assert (small.parameters, large.parameters) == (8_030_261_248, 70_553_706_496)
    found = [fit(name, "H100-SXM", tp=8, memory_model="article") for name in ("llama-3.1-8b", "llama-3.1-70b")]
    assert [each.total.kv_bytes_per_token for each in found] == [131_072, 327_680]
    assert [each.total.weights_bytes for each in found] == [16_060_522_496, 141_107_412_992]


def test_the_default_share_is_the_articles(fit: Callable[..., Fit]) -> None:
    asked = fit("llama-3.1-8b", "H100-SXM", gpu_memory_utilization=0.92, memory_model="article")
    assert fit("llama-3.1-8b", "H100-SXM", memory_model="article") == asked


def test_it_needs_no_driver_figure_and_refuses_what_it_does_not_know(fit: Callable[..., Fit]) -> None:
    assert fit("llama-3.1-8b", "VR200", memory_model="article").memory_bytes == 288 * 10**9
    with pytest.raises(NotModelledError, match="full attention only"):
        fit("google/gemma-3-27b-it", "H100-SXM", memory_model="article")


def test_a_refusal_says_what_is_needed_and_what_there_is(fit: Callable[..., Fit]) -> None:
    found = fit("llama-3.1-70b", "H100-SXM", tp=2, max_model_len=8_192, memory_model="article")
    assert found.refusal == (
        "one request of 8192 tokens needs 2.7 GB of KV cache, 2.1 GB is available: at most 6386 tokens"
    )
    assert found.estimated_max_model_len == 6_386

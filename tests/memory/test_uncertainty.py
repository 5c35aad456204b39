"""Intervals: how wide, and when a replica is borderline."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from recommender.memory.fit import Fit
from recommender.units import GIB

Fitting = Callable[..., Fit]


def width_gib(fit: Fit) -> float:
    assert fit.kv_cache_bytes_interval is not None
    low, high = fit.kv_cache_bytes_interval
    return (high - low) / 2 / GIB


@pytest.mark.parametrize(
    ("gpu", "version", "model", "more", "expected"),
    [
        ("H100-SXM", "0.19.0", "llama-3.1-8b", {}, 0.10),
        ("H100-SXM", "0.19.0", "llama-3.1-8b", {"tp": 2}, 0.10),
        ("L40S", "0.19.0", "llama-3.1-8b", {}, 0.30),
        ("L40S", "0.26.0", "llama-3.1-8b", {}, 0.40),
        ("L40S", "0.26.0", "llama-3.1-8b", {"tp": 2}, 1.0),
        ("H100-SXM", "0.33.0", "llama-3.1-8b", {}, 1.5),
    ],
)
def test_the_interval_is_wider_where_less_was_measured(
    gpu: str, version: str, model: str, more: dict[str, int], expected: float, fit: Fitting
) -> None:
    found = fit(model, gpu, engine_version=version, max_model_len=8192, **more)
    assert width_gib(found) == pytest.approx(expected, abs=0.001)


def test_four_bit_weights_without_a_published_size_may_be_more_than_computed(fit: Fitting) -> None:
    known = fit("llama-3.1-8b", "H100-SXM", max_model_len=8192)
    made = fit("llama-3.1-8b", "H100-SXM", weights="nvfp4", max_model_len=8192)
    assert made.kv_cache_bytes_interval is not None
    low, high = made.kv_cache_bytes_interval
    assert made.kv_cache_bytes - low - (high - made.kv_cache_bytes) == pytest.approx(
        0.03 * made.weights_bytes, rel=0.01
    )
    assert width_gib(made) > width_gib(known)


def test_a_replica_at_the_edge_is_borderline(fit: Fitting) -> None:
    middle = fit("llama-3.1-8b", "L4", max_model_len=8192)
    edge = (middle.blocks or 0) * 16 - 16
    assert fit("llama-3.1-8b", "L4", max_model_len=edge).borderline
    assert fit("llama-3.1-8b", "L4", max_model_len=min(131_072, edge + 32)).borderline
    assert not fit("llama-3.1-8b", "H100-SXM", max_model_len=8192).borderline


def test_a_given_cache_is_certain(fit: Fitting) -> None:
    found = fit("llama-3.1-8b", "H100-SXM", max_model_len=8192, kv_cache_memory_bytes=10 * GIB)
    assert found.kv_cache_bytes_interval == (10 * GIB, 10 * GIB)
    assert not found.borderline

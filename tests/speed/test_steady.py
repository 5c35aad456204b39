"""Steady state: what must hold of any constants, and the closed forms it tends to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recommender.catalog.catalog import Catalog, shipped_catalog
from recommender.speed.build import stored_shape
from recommender.speed.candidates import Candidates
from recommender.speed.constants import Constants, shipped_constants
from recommender.speed.hardware import Hardware, hardware_of
from recommender.speed.shape import Shape
from recommender.speed.steady import steady_state
from recommender.speed.step import costs_of

MODELS = (
    ("meta-llama/Llama-3.1-8B-Instruct", "bf16"),
    ("meta-llama/Llama-3.1-70B-Instruct", "fp8"),
    ("openai/gpt-oss-120b", "mxfp4"),
    ("deepseek-ai/DeepSeek-R1", "nvfp4"),
    ("Qwen/Qwen3.5-397B-A17B", "bf16"),
)
GPUS = ("L4", "RTX4090", "A100-80GB-SXM", "H100-SXM", "B200", "MI300X")
ENGINES = ("vllm", "sglang", "tensorrt-llm")
GREW = 1 + 1e-9

setups = st.fixed_dictionaries(
    {
        "model": st.sampled_from(MODELS),
        "gpu": st.sampled_from(GPUS),
        "engine": st.sampled_from(ENGINES),
        "tp": st.sampled_from((1, 2, 4, 8)),
        "pp": st.sampled_from((1, 1, 2)),
        "dp": st.sampled_from((1, 1, 2, 8)),
        "prompt_tokens": st.integers(1, 100_000),
        "output_tokens": st.integers(1, 20_000),
        "concurrency": st.integers(1, 4096),
        "years": st.floats(-0.9, 0.3),
    }
)


def built(rows_of: Callable[..., Candidates], setup: dict[str, Any]) -> Candidates:
    given_, catalog = dict(setup), shipped_catalog()
    name, weights = given_.pop("model")
    shape = stored_shape(catalog, catalog.model(name), weights, "auto")
    return rows_of(shape, hardware_of(catalog.gpu(given_.pop("gpu"))), **given_)


def many(rows_of: Callable[..., Candidates], setup: dict[str, Any], **columns: Any) -> Candidates:
    return built(rows_of, {**setup, **columns})


@settings(max_examples=150, deadline=None)
@given(setup=setups)
def test_both_times_rise_with_concurrency(rows_of: Callable[..., Candidates], setup: dict[str, Any]) -> None:
    at_once = sorted({1, 2, 3, 7, 8, 64, 65, 500, setup["concurrency"], setup["concurrency"] + 1})
    rows = many(rows_of, setup, concurrency=at_once)
    found = steady_state(rows, costs_of(rows, shipped_constants()))
    assert (found.tpot_s[1:] * GREW >= found.tpot_s[:-1]).all()
    assert (found.ttft_s[1:] * GREW >= found.ttft_s[:-1]).all()
    assert np.isfinite(found.output_tokens_per_s).all()
    assert (found.tpot_s > 0).all()


@settings(max_examples=150, deadline=None)
@given(setup=setups, better=st.sampled_from(("bandwidth", "flops", "link", "replicas")), factor=st.floats(1, 16))
def test_throughput_never_falls_with_better_hardware(
    rows_of: Callable[..., Candidates], setup: dict[str, Any], better: str, factor: float
) -> None:
    rows = many(rows_of, setup)
    if better == "replicas":
        best = replace(rows, replicas=rows.replicas * 2)
    else:
        best = replace(rows, gpus=(_improved(rows.gpus[0], better, factor),))
    before, after = (steady_state(each, costs_of(each, shipped_constants())) for each in (rows, best))
    assert after.output_tokens_per_s[0] * GREW >= before.output_tokens_per_s[0]
    assert after.tpot_s[0] <= before.tpot_s[0] * GREW


def _improved(gpu: Hardware, better: str, factor: float) -> Hardware:
    if better == "bandwidth":
        return replace(gpu, bandwidth_bytes_per_s=gpu.bandwidth_bytes_per_s * factor)
    if better == "link":
        return replace(gpu, link_bytes_per_s=gpu.link_bytes_per_s * factor)
    return replace(
        gpu,
        bf16_flops=gpu.bf16_flops * factor,
        fp8_flops=gpu.fp8_flops and gpu.fp8_flops * factor,
        int8_ops=gpu.int8_ops and gpu.int8_ops * factor,
        fp4_flops=gpu.fp4_flops and gpu.fp4_flops * factor,
    )


@pytest.fixture(scope="module")
def big_dense(catalog: Catalog) -> Shape:
    return stored_shape(catalog, catalog.model("meta-llama/Llama-3.1-70B-Instruct"), "bf16", "auto")


def without_overhead(constants: Constants) -> Constants:
    """The same constants with nothing but memory, arithmetic and links."""
    free = {"step_s", "layer_s", "sequence_s", "reduction_s", "passes", "first_token_s", "chunk_share"}
    parameters = tuple(
        replace(each, prior=1e-15 if each.name in free and each.by in ("all", "link") else each.prior)
        for each in constants.parameters
    )
    return Constants(parameters, {key: value for key, value in constants.values.items() if key[0] not in free})


def test_one_sequence_is_bound_by_memory(
    rows_of: Callable[..., Candidates], catalog: Catalog, big_dense: Shape
) -> None:
    """Batch 1: weights and cache over bandwidth, next to which arithmetic is nothing."""
    constants = without_overhead(shipped_constants())
    rows = rows_of(big_dense, hardware_of(catalog.gpu("H100-SXM")), tp=4, prompt_tokens=512, output_tokens=512)
    found = steady_state(rows, costs_of(rows, constants))
    shared = (
        constants.values["bandwidth_share", "all", "all"] * constants.values["bandwidth_share", "gpu_family", "hopper"]
    )
    weights_s = big_dense.dense_bytes / 4 / (3.35e12 * shared)
    assert found.tpot_s[0] == pytest.approx(weights_s, rel=0.02)
    assert found.tpot_s[0] > weights_s


def test_a_long_prompt_is_bound_by_arithmetic(
    rows_of: Callable[..., Candidates], catalog: Catalog, big_dense: Shape
) -> None:
    """Prefill: two FLOPs per weight and token over the share of the peak."""
    constants = without_overhead(shipped_constants())
    rows = rows_of(big_dense, hardware_of(catalog.gpu("H100-SXM")), prompt_tokens=4096, output_tokens=16)
    found = steady_state(rows, costs_of(rows, constants))
    share = np.prod(
        [
            constants.values["gemm_share", by, level]
            for by, level in (("all", "all"), ("gpu_family", "hopper"), ("model_family", "dense"))
        ]
    )
    products_s = 2 * big_dense.dense_plain_elements * 4096 / (989e12 * share)
    attention_s = big_dense.full_attention_flops * 4096**2 / 2 / 989e12
    attention_s /= constants.values["prompt_attention_share", "all", "all"]
    assert found.ttft_s[0] == pytest.approx(products_s + attention_s, rel=1e-6)


def test_throughput_tends_to_what_decode_and_prompts_allow(
    rows_of: Callable[..., Candidates], catalog: Catalog, big_dense: Shape
) -> None:
    """Many requests: each costs its share of steps and its own prompt; nothing is lost and nothing gained."""
    rows = rows_of(big_dense, hardware_of(catalog.gpu("B200")), tp=8, output_tokens=1024, concurrency=3000)
    costs = costs_of(rows, shipped_constants())
    found = steady_state(rows, costs)
    a_token = costs.per_sequence_s[0] + costs.prompt_s[0] / 1024
    assert found.output_tokens_per_s[0] == pytest.approx(1 / a_token, rel=0.1)
    assert found.output_tokens_per_s[0] < 1 / a_token


def test_littles_law_holds_beyond_the_room(
    rows_of: Callable[..., Candidates], catalog: Catalog, big_dense: Shape
) -> None:
    rows = rows_of(
        big_dense, hardware_of(catalog.gpu("B200")), tp=2, concurrency=[40, 80, 400], sequences=40, replicas=2
    )
    found = steady_state(rows, costs_of(rows, shipped_constants()))
    request_s = found.ttft_s + found.queue_s + (rows.output_tokens - 1) * found.tpot_s
    in_flight = found.output_tokens_per_s / rows.output_tokens * request_s
    np.testing.assert_allclose(in_flight, [40, 80, 400])
    assert found.queue_s[0] == found.queue_s[1] == 0
    assert found.queue_s[2] > 0
    assert found.output_tokens_per_s[2] == pytest.approx(found.output_tokens_per_s[1])


@settings(max_examples=150, deadline=None)
@given(setup=setups, output=st.sampled_from((1, 2, 3, 8, 31, 32, 200)))
def test_no_more_prompts_are_answered_than_are_read(
    rows_of: Callable[..., Candidates], setup: dict[str, Any], output: int
) -> None:
    """A rank's stage reads one prompt at a time. Of 32 tokens and more a gap's share is left out: 3 % at most."""
    rows = many(rows_of, setup, output_tokens=output, concurrency=[1, 3, 50, 1000])
    costs = costs_of(rows, shipped_constants())
    found = steady_state(rows, costs)
    a_rank = found.output_tokens_per_s / output / (rows.replicas * rows.dp)
    assert (a_rank * costs.prompt_s / rows.pp <= 1 / (1 - 1 / 31)).all()


def test_prompts_of_one_token_answers_queue(rows_of: Callable[..., Candidates]) -> None:
    """30,000 tokens and one of answer: ten at once are answered no faster than one after the other, and wait for it."""
    llama = {"model": MODELS[0], "gpu": "H100-SXM", "engine": "vllm", "tp": 1, "pp": 1, "dp": 1, "years": 0.0}
    rows = many(rows_of, llama, prompt_tokens=30_000, output_tokens=1, concurrency=[1, 10])
    found = steady_state(rows, costs_of(rows, shipped_constants()))
    alone, crowded = found.output_tokens_per_s
    assert alone <= crowded <= alone * 1.1
    assert found.ttft_s[1] == pytest.approx(10 / crowded)

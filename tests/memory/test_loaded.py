"""What the engine holds of weights beyond parameters, against its load lines and its sources."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from recommender.catalog.catalog import Catalog
from recommender.memory.engine import engine_constants
from recommender.memory.fit import Fit
from recommender.memory.loaded import after_load_bytes
from recommender.memory.shards import Split
from recommender.memory.weights import stage_bytes
from recommender.units import GIB

Fitting = Callable[..., Fit]


def beyond(
    catalog: Catalog, name: str, gpu: str = "H100-SXM", version: str = "0.33.0", tp: int = 1, ep: int = 1
) -> int:
    model = catalog.model(name)
    constants, layers = engine_constants("vllm", version), range(model.layers)
    return after_load_bytes(model, model.quantisation, constants, catalog.gpu(gpu), Split(tp, 1, ep), layers)


@pytest.mark.parametrize(("name", "logged"), [("openai/gpt-oss-20b", 13.47), ("openai/gpt-oss-120b", 64.38)])
def test_gpt_oss_on_hopper_as_its_start_up_logs_say(fit: Fitting, name: str, logged: float) -> None:
    """Swizzled scales beside the loaded ones and biases in float32; what is left is whole MiB of the allocator."""
    found = fit(name, "H100-SXM", engine_version="0.11.0", max_model_len=8192)
    assert found.weights_bytes / GIB == pytest.approx(logged, rel=0.003)
    assert found.weights_bytes / GIB < logged


def test_parameters_do_not_grow(catalog: Catalog) -> None:
    model = catalog.model("openai/gpt-oss-20b")
    assert stage_bytes(model, model.quantisation).total_bytes / GIB == pytest.approx(12.847, abs=0.001)


def test_the_kernels_of_each_card_pad_as_their_sources_say(catalog: Catalog) -> None:
    """Of gpt-oss-20b, 24 layers of 32 experts, 2,880 wide: 17/32 byte a value, biases in 2 or 4 bytes."""
    experts = 24 * 32
    marlin = 3 * (2944 * 3072 - 2880 * 2880) * 17 // 32 + 2 * (2 * 2944 + 3072 - 3 * 2880)
    assert beyond(catalog, "openai/gpt-oss-20b", "A100-80GB-SXM") == experts * marlin
    assert beyond(catalog, "openai/gpt-oss-20b", "RTX5090") == experts * marlin
    tensor_rt = 3 * (2944 * 3072 - 2880 * 2880) * 17 // 32 + 4 * (2 * 2944 + 3072) - 2 * 3 * 2880
    assert beyond(catalog, "openai/gpt-oss-20b", "B200") == experts * tensor_rt
    older = 3 * (3072 * 3072 - 2880 * 2880) * 17 // 32 + 4 * 3 * 3072 - 2 * 3 * 2880
    assert beyond(catalog, "openai/gpt-oss-20b", "B200", "0.20.0") == experts * older
    swizzled = (5888 + 3072) * 90
    assert beyond(catalog, "openai/gpt-oss-20b", version="0.11.0") == experts * (swizzled + 2 * 3 * 2880)
    assert beyond(catalog, "openai/gpt-oss-20b") == experts * (swizzled - 3 * 2880 * 90 + 2 * 3 * 2880)


def test_spread_experts_grow_like_whole_ones(catalog: Catalog) -> None:
    one = beyond(catalog, "openai/gpt-oss-120b", version="0.11.0")
    assert beyond(catalog, "openai/gpt-oss-120b", version="0.11.0", tp=4, ep=4) == one // 4


@pytest.mark.parametrize("name", ["deepseek-ai/DeepSeek-V3", "deepseek-ai/DeepSeek-R1", "deepseek-ai/DeepSeek-V3.1"])
def test_a_quantised_latent_projection_keeps_a_16_bit_copy(catalog: Catalog, name: str) -> None:
    """61 layers x 128 heads x (128 + 128) x 512 x 2 bytes: 2.05 GB, divided by tp."""
    whole = 61 * 128 * 256 * 512 * 2
    assert whole == pytest.approx(2.05e9, rel=0.003)
    assert [beyond(catalog, name, tp=tp) for tp in (1, 8)] == [whole, whole // 8]


def test_kimi_k2_keeps_one_of_64_heads(catalog: Catalog) -> None:
    assert beyond(catalog, "moonshotai/Kimi-K2-Instruct", tp=8) == 61 * 64 * 256 * 512 * 2 // 8


@pytest.mark.parametrize(
    "name", ["deepseek-ai/DeepSeek-V2-Lite", "moonshotai/Kimi-K2.5", "llama-3.1-8b", "Qwen/Qwen3-30B-A3B-FP8"]
)
def test_a_16_bit_projection_needs_no_copy(catalog: Catalog, name: str) -> None:
    assert beyond(catalog, name) == 0


def test_stages_hold_the_copies_of_their_own_layers(fit: Fitting) -> None:
    asked = {"max_model_len": 4096, "max_num_seqs": 8}
    one = fit("deepseek-ai/DeepSeek-V3", "B300", tp=4, **asked)
    two = fit("deepseek-ai/DeepSeek-V3", "B300", tp=4, pp=2, **asked)
    assert two.total.weights_bytes == pytest.approx(one.total.weights_bytes, rel=0.002)

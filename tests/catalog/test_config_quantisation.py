"""How a config says its weights and cache are stored: targets, several schemes, and what is missing or wrong."""

from __future__ import annotations

from typing import Any

import pytest
from test_config import LLAMA, model

from recommender.answer import fit
from recommender.catalog.catalog import Catalog, load_catalog
from recommender.catalog.models import Model
from recommender.errors import InputError, NotModelledError
from recommender.memory.weights import rank_bytes
from recommender.units import GIB

W4 = {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "group", "group_size": 128}
W8 = {"num_bits": 8, "type": "int", "symmetric": True, "strategy": "channel"}
FP8_KV = {"num_bits": 8, "type": "float", "symmetric": True, "strategy": "tensor", "dynamic": False}
LAYERS = 32
ATTENTION = 4096 * 4096 * 2 + 4096 * 1024 * 2  # weights of q, k, v and o
MLP = 3 * 4096 * 14336
PLAIN = 2 * 128256 * 4096 * 2 + 65 * 4096 * 2  # embedding, head and norms
BESIDE = LAYERS * 18  # scales and zero points of the cache


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load_catalog()


def stored(*groups: tuple[list[str], dict[str, Any]], **changes: Any) -> Model:
    named = {f"group_{n}": {"targets": targets, "weights": weights} for n, (targets, weights) in enumerate(groups)}
    declared = {"quant_method": "compressed-tensors", "ignore": ["lm_head"], "config_groups": named, **changes}
    return model(LLAMA, quantization_config=declared)


def parameter_bytes(of: Model) -> int:
    return rank_bytes(of, of.quantisation).parameter_bytes


def packed(weights: int, modules: int) -> int:
    """4 bits a weight, 16-bit scales of 128, and the shape before packing of each fused module."""
    return weights // 2 + weights // 128 * 2 + modules * 16


@pytest.mark.parametrize(
    "targets", [["re:.*mlp.*"], ["re:.*(gate|up|down)_proj$"], ["re:.*gate_up_proj", "re:.*down_proj"]]
)
def test_only_the_modules_that_are_targets_are_quantised(targets: list[str]) -> None:
    expected = LAYERS * (packed(MLP, 2) + ATTENTION * 2) + PLAIN + BESIDE
    assert parameter_bytes(stored((targets, W4))) == expected


def test_every_linear_layer_is_a_target_by_its_class() -> None:
    assert parameter_bytes(stored((["Linear"], W4))) == LAYERS * packed(MLP + ATTENTION, 4) + PLAIN + BESIDE


def test_modules_by_name_and_layer() -> None:
    names = [f"model.layers.{layer}.mlp.down_proj" for layer in (0, 5)]
    down = MLP // 3
    expected = LAYERS * (MLP + ATTENTION) * 2 + 2 * (packed(down, 1) - down * 2) + PLAIN + BESIDE
    assert parameter_bytes(stored((names, W4))) == expected


def test_ignored_modules_win_over_targets() -> None:
    half = stored((["Linear"], W4), ignore=["lm_head", "re:.*self_attn.*"])
    assert parameter_bytes(half) == parameter_bytes(stored((["re:.*mlp.*"], W4)))


def test_groups_of_several_schemes() -> None:
    found = stored((["re:.*mlp.*"], W4), (["re:.*self_attn.*"], W8))
    eight = ATTENTION + (4096 * 2 + 1024 * 2) * 2 + 2 * 16  # one 16-bit scale an output
    assert parameter_bytes(found) == LAYERS * (packed(MLP, 2) + eight) + PLAIN + BESIDE
    assert found.native == "int4"


def test_a_name_wins_over_the_class() -> None:
    """The group that names modules, wherever it stands; the other has the rest."""
    by_name = stored((["re:.*mlp.*"], W4), (["re:.*self_attn.*"], W8))
    assert parameter_bytes(stored((["Linear"], W8), (["re:.*mlp.*"], W4))) == parameter_bytes(by_name)


def test_groups_for_attention_itself_are_the_caches() -> None:
    both = stored((["Linear"], W4), (["LlamaAttention"], W8))
    assert parameter_bytes(both) == parameter_bytes(stored((["Linear"], W4)))


def test_a_fused_module_in_part_is_refused() -> None:
    found = stored((["re:.*q_proj"], W4))
    with pytest.raises(NotModelledError, match="qkv_proj is quantised in part"):
        rank_bytes(found, found.quantisation)


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ([{"quant_method": "fp8"}], "quantization_config"),
        ("fp8", "quantization_config"),
        ({}, "quantization_config"),
        ({"quant_method": "fp8"}, "activation_scheme"),
        ({"quant_method": "fp8", "activation_scheme": "sometimes"}, "activation_scheme"),
        ({"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": "128"}, "weight_block_size"),
        ({"quant_method": "awq", "group_size": 128}, "bits"),
        ({"quant_method": "awq", "bits": 4}, "group_size"),
        ({"quant_method": "gptq", "bits": 4, "group_size": 0}, "group_size"),
        ({"quant_method": "gptq", "bits": 3, "group_size": 128}, "3-bit"),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128, "lm_head": True}, "lm_head"),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128, "dynamic": {"-:.*": {}}}, "dynamic"),
        (
            {"quant_method": "awq", "bits": 4, "group_size": 128, "modules_to_not_convert": [3]},
            "modules_to_not_convert",
        ),
        ({"quant_method": "fbgemm_fp8", "activation_scale_ub": 1200.0}, "modules_to_not_convert"),
        ({"quant_method": "bitsandbytes", "bnb_4bit_quant_storage": "bfloat16"}, "bnb_4bit_quant_storage: bfloat16"),
        ({"quant_method": "gguf"}, "gguf"),
        ({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"}, "MIXED_PRECISION"),
        ({"quant_method": "modelopt"}, "not modelled"),
        ({"quant_method": "compressed-tensors"}, "config_groups"),
    ],
)
def test_what_is_missing_or_wrong_is_named(declared: object, said: str) -> None:
    with pytest.raises(InputError, match=said):
        model(LLAMA, quantization_config=declared)


@pytest.mark.parametrize(
    ("group", "said"),
    [
        ({"weights": W4}, "targets"),
        ({"targets": [], "weights": W4}, "targets"),
        ({"targets": ["Conv2d"], "weights": W4}, "Conv2d"),
        ({"targets": ["re:.*lm_head"], "weights": W4}, "lm_head"),
        ({"targets": ["Linear"]}, "weights"),
        ({"targets": ["Linear"], "weights": {**W4, "group_size": None}}, "group_size"),
        ({"targets": ["Linear"], "weights": {**W4, "strategy": "word"}}, "strategy"),
        ({"targets": ["Linear"], "weights": {"type": "int", "group_size": 128}}, "num_bits"),
        ({"targets": ["Linear"], "weights": {"num_bits": 4, "type": "int"}}, "packed weights"),
    ],
)
def test_groups_that_say_too_little_are_named(group: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        model(LLAMA, quantization_config={"quant_method": "compressed-tensors", "config_groups": {"group_0": group}})


@pytest.mark.parametrize(
    "scheme", [{}, {"type": "float"}, {"num_bits": 0, "type": "float"}, {"num_bits": 4, "type": "int"}, "FP8", [8]]
)
def test_a_cache_that_is_not_fp8_is_not_taken_for_16_bit(scheme: object) -> None:
    with pytest.raises(InputError, match=r"kv_cache_scheme|num_bits"):
        stored((["Linear"], W4), kv_cache_scheme=scheme)


def test_a_cache_of_8_bit_floats_is_fp8() -> None:
    assert stored((["Linear"], W4), kv_cache_scheme=FP8_KV).kv_declared == "fp8"
    assert stored((["Linear"], W4), kv_cache_scheme=None).kv_declared is None
    with pytest.raises(NotModelledError, match="kv_cache_quant_algo"):
        model(LLAMA, quantization_config={"quant_algo": "FP8", "kv_cache_quant_algo": "NVFP4"})


def test_fbgemm_405b_on_eight_gpus(catalog: Catalog) -> None:
    """vllm issue 6746: 57.752 GiB a GPU with about 1 GiB of buffers; 79,392 tokens of cache are 4.77 GiB a GPU."""
    found = fit("meta-llama/Llama-3.1-405B-Instruct-FP8", "H100-SXM", tp=8, max_model_len=8192, catalog=catalog)
    assert found.weights_bytes / GIB == pytest.approx(56.77, abs=0.005)
    assert 79_392 * found.kv_bytes_per_token / GIB == pytest.approx(4.77, abs=0.005)


def test_fbgemm_as_its_config_says_it(catalog: Catalog) -> None:
    """The published list: attention of every layer, and both ends' MLPs, stay in 16 bit."""
    parts = [f"self_attn.{part}_proj" for part in "qkvo"]
    kept = [f"model.layers.{layer}.{part}" for layer in range(126) for part in parts]
    kept += [f"model.layers.{layer}.mlp.{part}_proj" for layer in (0, 125) for part in ("gate", "up", "down")]
    declared = {"quant_method": "fbgemm_fp8", "activation_scale_ub": 1200.0, "modules_to_not_convert": kept}
    sizes = {"hidden_size": 16384, "intermediate_size": 53248, "num_hidden_layers": 126, "num_attention_heads": 128}
    found = model(LLAMA, **sizes, quantization_config=declared)
    named = catalog.resolve("meta-llama/Llama-3.1-405B-Instruct-FP8").checkpoint
    assert named is not None
    assert rank_bytes(found, found.quantisation, tp=8) == rank_bytes(found, named.quantisation, tp=8)


def test_a_repository_that_cannot_be_served_is_named(catalog: Catalog) -> None:
    with pytest.raises(NotModelledError, match=r"nvfp4 weights by quark of deepseek-ai/DeepSeek-V4-Pro"):
        fit("amd/DeepSeek-V4-Pro-NVFP4", "B200", tp=8, catalog=catalog)


def test_falcon_7b_as_published() -> None:
    """Its config says nothing of positions or KV heads in use: 2,048 and one by the class."""
    config = {
        "architectures": ["FalconForCausalLM"],
        "alibi": False,
        "bias": False,
        "hidden_size": 4544,
        "num_attention_heads": 71,
        "num_hidden_layers": 32,
        "num_kv_heads": 71,
        "parallel_attn": True,
        "torch_dtype": "bfloat16",
        "vocab_size": 65024,
    }
    found = model(config)
    assert (found.max_model_len, found.kv_heads) == (2048, 1)

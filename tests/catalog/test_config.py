"""Models from their config.json: parameters exact, names old and new, and clear errors for everything else."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from recommender.catalog.catalog import Catalog, load_catalog
from recommender.catalog.config import model_from_config
from recommender.catalog.config_fields import language_part
from recommender.catalog.models import Model
from recommender.errors import InputError, NotModelledError

# Published safetensors totals (llmfit 1.1.17), recomputed from the architecture; tied embeddings counted once.
DENSE = list(csv.DictReader((Path(__file__).parent / "published_parameters.csv").open()))

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "torch_dtype": "bfloat16",
}


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load_catalog()


def model(config: dict[str, Any], **changes: Any) -> Model:
    return model_from_config({**config, **changes}, id="test/model")


def kv_bytes_per_token(of: Model) -> int:
    return sum(group.layers * group.kv_heads * (group.head_dim + group.v_head_dim) * 2 for group in of.attention)


@pytest.mark.parametrize("row", DENSE, ids=lambda row: row["model"])
def test_dense_parameters_and_cache_are_exact(row: dict[str, str], catalog: Catalog) -> None:
    found = catalog.model(row["model"])
    assert found.parameters == int(row["parameters"])
    assert kv_bytes_per_token(found) == int(row["kv_bytes_per_token_16_bit"])


def test_every_tensor_of_llama_70b_is_where_the_engine_has_it() -> None:
    found = model(LLAMA, hidden_size=8192, num_hidden_layers=80, num_attention_heads=64, intermediate_size=28672)
    assert found.parameters == 70_553_706_496
    assert {tensor.name: tensor.split for tensor in found.tensors if tensor.inputs > 1} == {
        "embed_tokens.weight": "vocabulary",
        "lm_head.weight": "vocabulary",
        "self_attn.q_proj.weight": "outputs",
        "self_attn.k_proj.weight": "kv_heads",
        "self_attn.v_proj.weight": "kv_heads",
        "self_attn.o_proj.weight": "inputs",
        "mlp.gate_proj.weight": "outputs",
        "mlp.up_proj.weight": "outputs",
        "mlp.down_proj.weight": "inputs",
    }


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        # github.com/NVIDIA/Model-Optimizer/issues/2482: head_dim declared, larger and smaller than hidden / heads
        ({"hidden_size": 5120, "num_hidden_layers": 40, "head_dim": 128}, 163_840),
        ({"hidden_size": 2880, "num_hidden_layers": 24, "num_attention_heads": 64, "head_dim": 64}, 49_152),
        ({"hidden_size": 3840, "num_attention_heads": 16, "num_hidden_layers": 1, "head_dim": 256}, 8 * 2 * 256 * 2),
        # github.com/vllm-project/vllm/pull/24577: Qwen3-0.6B; github.com/LMCache/LMCache/issues/688: Qwen3-4B
        ({"hidden_size": 1024, "num_hidden_layers": 28, "num_attention_heads": 16, "head_dim": 128}, 114_688),
        ({"hidden_size": 2560, "num_hidden_layers": 36, "head_dim": 128}, 147_456),
        # github.com/QwenLM/Qwen3/issues/295: no grouping
        ({"num_key_value_heads": 32, "head_dim": 128}, 524_288),
        ({}, 131_072),
    ],
)
def test_head_size_is_read_where_it_is_declared(changes: dict[str, int], expected: int) -> None:
    assert kv_bytes_per_token(model(LLAMA, **changes)) == expected


def test_tied_embeddings_are_counted_once() -> None:
    small = {"hidden_size": 2048, "num_hidden_layers": 16, "intermediate_size": 8192, "head_dim": 64}
    assert model(LLAMA, **small, tie_word_embeddings=True).parameters == 1_235_814_400
    assert model(LLAMA, **small).parameters == 1_498_482_688


def test_a_class_default_ties_embeddings_where_the_config_is_silent() -> None:
    found = model(
        LLAMA,
        architectures=["Gemma2ForCausalLM"],
        model_type="gemma2",
        head_dim=256,
        sliding_window=4096,
    )
    assert found.tied_embeddings
    assert [group.kind for group in found.attention] == ["sliding", "full"]


def test_old_field_names() -> None:
    """github.com/lablup/mlxcel/issues/927: cache of 8,192 tokens in 16 bit."""
    gpt2 = {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "n_layer": 12,
        "n_embd": 768,
        "n_head": 12,
        "n_positions": 1024,
        "vocab_size": 50257,
        "torch_dtype": "float16",
    }
    found = model(gpt2)
    assert kv_bytes_per_token(found) * 8192 == 301_989_888
    assert found.parameters == 124_439_808
    bigcode = {**gpt2, "architectures": ["GPTBigCodeForCausalLM"], "n_layer": 24, "n_embd": 2048, "n_head": 16}
    assert kv_bytes_per_token(model(bigcode, multi_query=True)) * 8192 == 100_663_296


@pytest.mark.parametrize("key", ["text_config", "llm_config", "language_config"])
def test_nested_language_configs(key: str) -> None:
    """github.com/vllm-project/vllm-ascend/issues/5572."""
    inner = {name: value for name, value in LLAMA.items() if name != "architectures"}
    nested = {"architectures": ["LlamaForCausalLM"], key: inner}
    assert model(nested).parameters == model(LLAMA).parameters
    deeper = {"architectures": ["LlamaForCausalLM"], "thinker_config": {key: inner}}
    assert model(deeper).parameters == model(LLAMA).parameters


def test_a_missing_size_names_the_keys_looked_for() -> None:
    config = {name: value for name, value in LLAMA.items() if name != "num_hidden_layers"}
    with pytest.raises(InputError, match=r"none of num_hidden_layers, n_layer.*keys seen: .*hidden_size"):
        model(config)


def test_an_unknown_architecture_is_refused_with_the_keys_seen() -> None:
    with pytest.raises(NotModelledError, match=r"LlamaForCausalML is not modelled; keys seen: .*mean LlamaForCausalLM"):
        model(LLAMA, architectures=["LlamaForCausalML"])
    with pytest.raises(NotModelledError, match="not named"):
        model({name: value for name, value in LLAMA.items() if name != "architectures"})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("kv_lora_rank", 512),
        ("compress_ratios", [4, 4]),
        ("block_configs", [{}]),
        ("sparse_attention_config", {"a": 1}),
    ],
)
def test_signs_of_another_attention_are_never_read_past(key: str, value: object) -> None:
    """github.com/jundot/omlx/pull/2626: an unknown layout must not fall back to grouped-query attention."""
    with pytest.raises(NotModelledError, match=key):
        model(LLAMA, **{key: value})


def test_unknown_layer_types_are_refused_by_name() -> None:
    with pytest.raises(NotModelledError, match="star_attention"):
        model(LLAMA, layer_types=["star_attention"] * 32)


@pytest.mark.parametrize(
    ("changes", "kinds"),
    [
        ({"architectures": ["MistralForCausalLM"], "sliding_window": 4096}, {"sliding": 32}),
        ({"architectures": ["MistralForCausalLM"], "sliding_window": None}, {"full": 32}),
        ({"architectures": ["Qwen2ForCausalLM"], "sliding_window": 4096, "use_sliding_window": False}, {"full": 32}),
        (
            {
                "architectures": ["Qwen2ForCausalLM"],
                "sliding_window": 4096,
                "use_sliding_window": True,
                "max_window_layers": 28,
            },
            {"full": 28, "sliding": 4},
        ),
        ({"architectures": ["Cohere2ForCausalLM"], "sliding_window": 4096}, {"sliding": 24, "full": 8}),
        ({"architectures": ["Gemma3ForCausalLM"], "sliding_window": 512, "head_dim": 256}, {"sliding": 27, "full": 5}),
        (
            {"layer_types": ["full_attention", "sliding_attention"] * 16, "sliding_window": 128},
            {"full": 16, "sliding": 16},
        ),
    ],
)
def test_which_layers_slide(changes: dict[str, Any], kinds: dict[str, int]) -> None:
    assert {group.kind: group.layers for group in model(LLAMA, **changes).attention} == kinds


@pytest.mark.parametrize(
    "changes",
    [
        {"hidden_size": -4096},
        {"hidden_size": "4096"},
        {"hidden_size": True},
        {"hidden_size": 2**60},
        {"num_hidden_layers": 10**9},
        {"num_hidden_layers": 0},
        {"num_attention_heads": float("nan")},
        {"num_key_value_heads": 5},
        {"tie_word_embeddings": "yes"},
        {"rope_scaling": [1, 2]},
        {"rope_scaling": {"rope_type": "linear", "factor": float("inf")}},
        {"torch_dtype": "int3"},
        {"layer_types": ["full_attention"]},
        {"attn_type_list": [{}]},
        {
            "architectures": ["Qwen2MoeForCausalLM"],
            "mlp_only_layers": [[1]],
            "num_experts": 8,
            "moe_intermediate_size": 64,
        },
        {"quantization_config": {"quant_method": "made-up"}},
        {"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, -1]}},
    ],
)
def test_broken_values_end_in_one_clear_error(changes: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"config.json of test/model"):
        model(LLAMA, **changes)


def test_deep_nesting_ends_in_a_clear_error() -> None:
    config: dict[str, Any] = dict(LLAMA)
    for _ in range(50):
        config = {"architectures": ["LlamaForCausalLM"], "text_config": config}
    with pytest.raises(InputError, match="nested too deeply"):
        language_part(config)


@pytest.mark.parametrize(
    ("quantised", "dtype", "method", "group"),
    [
        ({"quant_method": "fp8", "activation_scheme": "dynamic"}, "fp8", "fp8", None),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8", "fp8_block", 128),
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, "int4", "awq", 128),
        ({"quant_method": "gptq", "bits": 8, "group_size": -1}, "int8", "gptq", -1),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {
                    "group_0": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "int", "group_size": 32}}
                },
            },
            "int4",
            "compressed-tensors:packed",
            32,
        ),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16}, "nvfp4", "modelopt", 16),
    ],
)
def test_how_weights_are_stored(quantised: dict[str, Any], dtype: str, method: str, group: int | None) -> None:
    stored = model(LLAMA, quantization_config=quantised).quantisation
    assert stored is not None
    assert (stored.dtype, stored.method, stored.group_size) == (dtype, method, group)


def test_a_separate_quantisation_file_counts_too() -> None:
    """NVIDIA's repositories declare weights and cache in hf_quant_config.json, often nowhere else."""
    found = model(LLAMA, _hf_quant_config={"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}})
    assert (found.native, found.kv_declared) == ("fp8", "fp8")

"""Keys a config leaves out: what its transformers class fills in, or an error that names the key."""

from __future__ import annotations

from typing import Any

import pytest
from test_config import LLAMA, kv_bytes_per_token, model

from recommender.catalog.catalog import load_catalog
from recommender.catalog.entries import read_values
from recommender.catalog.models import Model
from recommender.errors import InputError

# As google/gemma-3-4b-it and gemma-3-12b-it write them: nested, without what equals the class's values.
GEMMA_TEXT = {
    "hidden_size": 2560,
    "intermediate_size": 10240,
    "model_type": "gemma3_text",
    "num_hidden_layers": 34,
    "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
    "sliding_window": 1024,
}
GEMMA_3 = {
    "architectures": ["Gemma3ForConditionalGeneration"],
    "mm_tokens_per_image": 256,
    "model_type": "gemma3",
    "torch_dtype": "bfloat16",
    "vision_config": {
        "hidden_size": 1152,
        "image_size": 896,
        "intermediate_size": 4304,
        "model_type": "siglip_vision_model",
        "num_attention_heads": 16,
        "num_hidden_layers": 27,
        "patch_size": 14,
        "vision_use_head": False,
    },
}
SHARED_SIZES = {**LLAMA, "num_experts_per_tok": 2, "moe_intermediate_size": 1024}
LATENT = {
    **SHARED_SIZES,
    "architectures": ["DeepseekV3ForCausalLM"],
    "n_routed_experts": 16,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
}


def without(config: dict[str, Any], *keys: str, **changes: Any) -> Model:
    return model({key: value for key, value in config.items() if key not in keys}, **changes)


def test_gemma_3_4b_as_published() -> None:
    found = model({**GEMMA_3, "text_config": GEMMA_TEXT})
    assert (found.heads, found.kv_heads, found.vocabulary, found.max_model_len) == (8, 4, 262_208, 131_072)
    assert found.parameters == 4_300_079_472  # the safetensors total of google/gemma-3-4b-it
    assert kv_bytes_per_token(found) == 34 * 4 * (256 + 256) * 2


def test_gemma_3_12b_as_published() -> None:
    text = {**GEMMA_TEXT, "hidden_size": 3840, "intermediate_size": 15360, "num_hidden_layers": 48}
    found = model({**GEMMA_3, "text_config": {**text, "num_attention_heads": 16, "num_key_value_heads": 8}})
    assert found.parameters == 12_187_325_040  # the safetensors total of google/gemma-3-12b-it
    assert {group.kind: (group.layers, group.window) for group in found.attention} == {
        "sliding": (40, 1024),
        "full": (8, None),
    }


def test_a_config_of_its_own_must_state_its_sizes() -> None:
    with pytest.raises(InputError, match="vocab_size"):
        without({**LLAMA, "architectures": ["Gemma3ForCausalLM"]}, "vocab_size")


@pytest.mark.parametrize(
    ("architecture", "changes", "kv_heads"),
    [
        ("MixtralForCausalLM", {"num_local_experts": 8}, 8),
        ("MistralForCausalLM", {}, 8),
        ("Gemma3ForCausalLM", {"num_attention_heads": 8}, 4),
        ("GptOssForCausalLM", {"num_local_experts": 32}, 8),
        ("Glm4MoeForCausalLM", {"n_routed_experts": 8, "moe_intermediate_size": 1024}, 8),
        ("Qwen3MoeForCausalLM", {"num_experts": 8, "moe_intermediate_size": 768}, 4),
        ("GlmForCausalLM", {}, 2),
        ("LlamaForCausalLM", {}, 32),
        ("Phi3ForCausalLM", {}, 32),
        ("GPTBigCodeForCausalLM", {"n_positions": 1024}, 1),
    ],
)
def test_absent_kv_heads_are_those_of_the_class(architecture: str, changes: dict[str, Any], kv_heads: int) -> None:
    found = without(LLAMA, "num_key_value_heads", architectures=[architecture], **changes)
    assert found.kv_heads == kv_heads


@pytest.mark.parametrize("architecture", ["InternLM2ForCausalLM", "InternLM3ForCausalLM", "MiMoForCausalLM"])
def test_absent_kv_heads_of_a_class_nobody_can_cite_are_named(architecture: str) -> None:
    with pytest.raises(InputError, match="num_key_value_heads"):
        without(LLAMA, "num_key_value_heads", architectures=[architecture])


def test_null_kv_heads_are_all_heads() -> None:
    assert model(LLAMA, architectures=["Qwen2ForCausalLM"], num_key_value_heads=None).kv_heads == 32


def test_absent_keys_of_deepseek_are_those_of_its_class() -> None:
    """DeepseekV3Config: three dense layers, one shared expert, queries from a latent of 1,536."""
    stated = model(LATENT, first_k_dense_replace=3, n_shared_experts=1, q_lora_rank=1536)
    assert model(LATENT) == stated
    without_latent = model(LATENT, q_lora_rank=None)
    assert without_latent.parameters != stated.parameters
    assert {tensor.name for tensor in without_latent.tensors} >= {"self_attn.q_proj.weight"}


def test_a_mistral_without_the_key_slides_as_its_class_does() -> None:
    found = model(LLAMA, architectures=["MistralForCausalLM"])
    assert [(group.kind, group.window) for group in found.attention] == [("sliding", 4096)]
    null = model(LLAMA, architectures=["MistralForCausalLM"], sliding_window=None)
    assert [(group.kind, group.window) for group in null.attention] == [("full", None)]


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("google/gemma-4-31B-it", "layer_types", ["sliding_atention"] * 60),
        ("XiaomiMiMo/MiMo-V2-Flash", "hybrid_layer_pattern", ["foo"] * 48),
        ("zai-org/GLM-5.1", "indexer_types", ["ful"] * 78),
    ],
)
def test_words_for_layers_that_nobody_knows_are_named(name: str, key: str, value: object) -> None:
    entry = next(entry for entry in load_catalog().models if entry.id == name)
    config = read_values(entry).config or {}
    part = {**config.get("text_config", {}), key: value}
    changed = {**config, "text_config": part} if "text_config" in config else {**config, key: value}
    with pytest.raises(InputError, match=key):
        model(changed)


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("zai-org/GLM-4.7-Flash", "first_k_dense_replace"),
        ("deepseek-ai/DeepSeek-V2-Lite", "num_experts_per_tok"),
        ("XiaomiMiMo/MiMo-V2-Flash", "swa_num_key_value_heads"),
        ("MiniMaxAI/MiniMax-M3", "moe_layer_freq"),
        ("MiniMaxAI/MiniMax-M3", "sparse_attention_config"),
        ("LGAI-EXAONE/EXAONE-4.0-32B", "layer_types"),
    ],
)
def test_an_absent_key_without_a_default_of_its_class_is_named(name: str, key: str) -> None:
    entry = next(entry for entry in load_catalog().models if entry.id == name)
    config = read_values(entry).config or {}
    assert key in config
    with pytest.raises(InputError, match=key):
        without(config, key)


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("zai-org/GLM-4.7-Flash", ("q_lora_rank", "n_shared_experts", "num_experts_per_tok")),
        ("MiniMaxAI/MiniMax-M3", ("n_shared_experts", "dense_intermediate_size")),
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", ("num_experts", "linear_conv_kernel_dim")),
        ("allenai/OLMoE-1B-7B-0924", ("num_experts_per_tok",)),
        ("zai-org/glm-4-9b-chat-hf", ("attention_bias", "num_key_value_heads")),
    ],
)
def test_what_a_class_fills_in_changes_nothing(name: str, keys: tuple[str, ...]) -> None:
    entry = next(entry for entry in load_catalog().models if entry.id == name)
    config = read_values(entry).config or {}
    assert without(config, *keys) == model(config)

"""Kinds of layers that a config names and does not use, and states in a dtype nobody knows."""

from __future__ import annotations

from typing import Any

import pytest

from recommender.catalog.catalog import Catalog
from recommender.catalog.config import model_from_config
from recommender.catalog.models import Model
from recommender.errors import NotModelledError
from recommender.memory.engine import engine_constants
from recommender.memory.kv import KvPool, kv_pool

QWEN = {
    "architectures": ["Qwen3NextForCausalLM"],
    "hidden_size": 2048,
    "num_hidden_layers": 4,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "head_dim": 256,
    "intermediate_size": 5120,
    "moe_intermediate_size": 512,
    "shared_expert_intermediate_size": 512,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "vocab_size": 151936,
    "max_position_embeddings": 32768,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
}
MIMO = {
    "architectures": ["MiMoV2FlashForCausalLM"],
    "hidden_size": 2048,
    "num_hidden_layers": 4,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "head_dim": 192,
    "v_head_dim": 128,
    "swa_head_dim": 192,
    "swa_num_attention_heads": 16,
    "swa_v_head_dim": 128,
    "swa_num_key_value_heads": 4,
    "sliding_window": 128,
    "moe_layer_freq": [0, 1, 1, 1],
    "intermediate_size": 5120,
    "moe_intermediate_size": 512,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "vocab_size": 151936,
    "max_position_embeddings": 32768,
    "add_swa_attention_sink_bias": True,
}


def model(config: dict[str, Any], **changes: Any) -> Model:
    return model_from_config({**config, **changes}, id="test/model")


def pool(catalog: Catalog, found: Model) -> KvPool:
    constants = engine_constants("vllm", "0.33.0")
    return kv_pool(found, constants, catalog.gpu("H100-SXM"), tp=1, kv_dtype="auto", weights="bf16")


def test_full_attention_everywhere_leaves_no_linear_group(catalog: Catalog) -> None:
    found = model(QWEN, full_attention_interval=1)
    assert [(group.kind, group.layers) for group in found.attention] == [("full", 4)]
    assert not [tensor.name for tensor in found.tensors if "linear_attn" in tensor.name]
    assert pool(catalog, found).bytes_per_block == 16 * 4 * 2 * (256 + 256) * 2


def test_an_interval_stands_for_a_list_of_layers(catalog: Catalog) -> None:
    """gguf-parser-go issue 28: 40 blocks, every fourth of them full, no layer_types: 10 layers grow, not 40."""
    found = model(QWEN, num_hidden_layers=40, full_attention_interval=4)
    assert {group.kind: group.layers for group in found.attention} == {"full": 10, "linear": 30}
    assert pool(catalog, found).kv_bytes_per_token == 10 * 2 * (256 + 256) * 2


def test_linear_attention_everywhere_is_refused_by_name(catalog: Catalog) -> None:
    found = model(QWEN, layer_types=["linear_attention"] * 4)
    assert not [tensor.name for tensor in found.tensors if "self_attn" in tensor.name]
    with pytest.raises(NotModelledError, match="recurrent models alone"):
        pool(catalog, found)


@pytest.mark.parametrize(("flag", "kind"), [(0, "full"), (1, "sliding")])
def test_a_pattern_of_one_kind_is_one_group(catalog: Catalog, flag: int, kind: str) -> None:
    found = model(MIMO, hybrid_layer_pattern=[flag] * 4)
    assert [(group.kind, group.layers) for group in found.attention] == [(kind, 4)]
    assert pool(catalog, found).bytes_per_block == 16 * 4 * 4 * (192 + 128) * 2


def test_a_state_dtype_that_is_not_known_is_refused_by_name(catalog: Catalog) -> None:
    found = model(QWEN, mamba_ssm_dtype="float8")
    with pytest.raises(NotModelledError, match="recurrent states in 'float8' are not modelled"):
        pool(catalog, found)
    assert pool(catalog, model(QWEN, mamba_ssm_dtype="float32")).bytes_per_block > 0

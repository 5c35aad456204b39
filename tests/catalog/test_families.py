"""Families with other layers than plain attention: published totals, caches and states, refusals."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from recommender.catalog.catalog import Catalog, load_catalog
from recommender.catalog.config import model_from_config
from recommender.catalog.models import Model, Quantisation
from recommender.errors import InputError, NotModelledError
from recommender.memory.engine import engine_constants
from recommender.memory.kv import kv_pool

# Published safetensors totals (llmfit 1.1.17); what the speculative layers add to them is not loaded by default.
TOTALS = list(csv.DictReader((Path(__file__).parent / "published_totals.csv").open()))
BLOCK = {"attention": {"n_heads_in_group": 8}, "ffn": {"ffn_mult": 5.25}}
SKIPPED = {"attention": {"no_op": True}, "ffn": {"ffn_mult": 0.5}}


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load_catalog()


def nas(*blocks: dict[str, Any]) -> Model:
    config = {
        "architectures": ["DeciLMForCausalLM"],
        "hidden_size": 8192,
        "num_hidden_layers": len(blocks),
        "num_attention_heads": 64,
        "vocab_size": 128256,
        "max_position_embeddings": 131072,
        "block_configs": list(blocks),
    }
    return model_from_config(config, id="test/model")


def seeing(**changes: Any) -> Model:
    config = {
        "architectures": ["LlavaNextForConditionalGeneration"],
        "text_config": {
            "model_type": "llama",
            "hidden_size": 2048,
            "num_hidden_layers": 2,
            "num_attention_heads": 16,
            "intermediate_size": 8192,
            "vocab_size": 32000,
            "max_position_embeddings": 4096,
        },
        "vision_config": {
            "model_type": "siglip_vision_model",
            "hidden_size": 1152,
            "num_hidden_layers": 27,
            "num_attention_heads": 16,
            "intermediate_size": 4304,
            "image_size": 384,
            "patch_size": 14,
        },
        **changes,
    }
    return model_from_config(config, id="test/model")


@pytest.mark.parametrize("row", TOTALS, ids=lambda row: row["model"])
def test_published_totals_are_met_exactly(row: dict[str, str], catalog: Catalog) -> None:
    found = catalog.model(row["model"])
    assert found.parameters + int(row["speculative_layers"]) == int(row["published"])
    assert (found.mtp_layers > 0) == (row["speculative_layers"] != "0")


def test_deepseek_v4_compresses_by_layer(catalog: Catalog) -> None:
    found = catalog.model("deepseek-ai/DeepSeek-V4-Flash")
    kept = [(group.compress_ratio, group.layers, group.indexer_layers, group.window) for group in found.attention]
    assert kept == [(0, 2, 0, 128), (4, 21, 21, 128), (128, 20, 0, 128)]
    assert {group.kind for group in found.attention} == {"compressed"}
    assert sorted(index for group in found.attention for index in group.indices) == list(range(43))
    assert found.native == "mxfp4"
    assert found.quantisation is not None
    assert found.quantisation.of_experts == Quantisation("mxfp4", "mxfp4", 4, 32)
    assert dict(found.tp_divides) == {"o_groups": 8}


def test_deepseek_v4_experts_may_be_nvfp4_or_fp8(catalog: Catalog) -> None:
    assert catalog.model("nvidia/DeepSeek-V4-Flash-NVFP4").native == "nvfp4"
    assert catalog.model("sgl-project/DeepSeek-V4-Flash-FP8").native == "fp8"


def test_layers_of_a_nas_model_differ_and_may_lack_attention() -> None:
    found = nas(BLOCK, SKIPPED, {**BLOCK, "attention": {"n_heads_in_group": 16}})
    assert [(group.kv_heads, tuple(group.indices)) for group in found.attention] == [(8, (0,)), (4, (2,))]
    widths = {tensor.outputs: tuple(tensor.layers) for tensor in found.tensors if tensor.name == "mlp.gate_proj.weight"}
    assert widths == {28672: (0, 2), 2816: (1,)}


def test_a_nas_block_replaced_by_a_linear_layer_is_refused() -> None:
    with pytest.raises(NotModelledError, match="replace_with_linear"):
        nas({**BLOCK, "attention": {"no_op": True, "replace_with_linear": True}})


def test_a_nas_config_of_too_few_blocks_is_broken() -> None:
    with pytest.raises(InputError, match="block_configs"):
        model_from_config(
            {
                "architectures": ["DeciLMForCausalLM"],
                "hidden_size": 8192,
                "num_hidden_layers": 2,
                "num_attention_heads": 64,
                "vocab_size": 128256,
                "block_configs": [BLOCK],
            },
            id="test/model",
        )


def test_a_llava_tower_ends_with_the_last_layer_used() -> None:
    whole, part = seeing(vision_feature_layer=-1), seeing(vision_feature_layer=-2)
    block = 4 * 1152 * 1152 + 4 * 1152 + 2 * 1152 * 4304 + 1152 + 4304 + 4 * 1152
    assert whole.parameters - part.parameters == block
    wider = seeing(vision_feature_layer=[-24, -1])
    assert wider.parameters - whole.parameters == 1152 * 2048


@pytest.mark.parametrize("layer", [28, -28, "last", True, []])
def test_a_feature_layer_the_tower_lacks_is_named(layer: object) -> None:
    with pytest.raises(InputError, match="vision_feature_layer"):
        seeing(vision_feature_layer=layer)


def test_an_unknown_tower_or_language_model_is_refused() -> None:
    with pytest.raises(NotModelledError, match="clip_vision_model"):
        seeing(vision_config={"model_type": "clip_vision_model"})
    with pytest.raises(NotModelledError, match="opt"):
        seeing(text_config={"model_type": "opt"})


def test_a_composite_model_without_its_tower_is_broken(catalog: Catalog) -> None:
    with pytest.raises(InputError, match="vision_config"):
        seeing(vision_config={})


def test_minimax_m3_keeps_an_index_beside_ordinary_heads(catalog: Catalog) -> None:
    found = catalog.model("MiniMaxAI/MiniMax-M3")
    assert [(group.kind, group.layers, group.indexer_layers) for group in found.attention] == [
        ("full", 3, 0),
        ("full", 57, 57),
    ]
    pool = kv_pool(
        found,
        engine_constants("vllm", "0.33.0"),
        catalog.gpu("H200-SXM"),
        tp=4,
        kv_dtype="auto",
        weights="bf16",
    )
    heads, index = 60 * 1 * 256 * 2, 57 * 128 * 2
    assert pool.kv_bytes_per_token == heads + index

"""Multimodal classes that are not described, around a language model that is: towers from the headers of the files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from folders import LLAMA_8B, Shapes, llama_shapes, write_folder

from recommender.answer import fit
from recommender.catalog.catalog import Catalog, load_catalog
from recommender.errors import InputError, NotModelledError

LANGUAGE = LLAMA_8B | {"num_hidden_layers": 4}
KV_BYTES_PER_TOKEN = 4 * 2 * 8 * 128 * 2


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load_catalog()


def seeing(towers: Shapes, **config: Any) -> tuple[dict[str, Any], Shapes]:
    """A composite of a class that nobody described, with a tower beside a Llama of four layers."""
    inner = config.pop("inner", LANGUAGE)
    shapes = {f"language_model.{name}": shape for name, shape in llama_shapes(LANGUAGE).items()} | towers
    return {"architectures": ["NovelVLChatModel"], "model_type": "novel_chat", "llm_config": inner, **config}, shapes


TOWER: Shapes = {f"vision_model.encoder.layers.{n}.attn.qkv.weight": ("BF16", (3072, 1024)) for n in range(24)}


def test_kv_is_exact_and_the_tower_is_whole_on_every_gpu(tmp_path: Path, catalog: Catalog) -> None:
    """vllm-ascend 5572, transformers 37515: values under llm_config, the tower in the weights only."""
    folder = write_folder(tmp_path / "novel", *seeing(TOWER))
    one, two = (fit(str(folder), "H100-SXM", tp=tp, max_model_len=4096, catalog=catalog) for tp in (1, 2))
    assert one.kv_bytes_per_token == KV_BYTES_PER_TOKEN
    assert two.kv_bytes_per_token == KV_BYTES_PER_TOKEN // 2
    tower = 24 * 3072 * 1024 * 2
    alone = write_folder(tmp_path / "alone", LANGUAGE, llama_shapes(LANGUAGE))
    language = [fit(str(alone), "H100-SXM", tp=tp, max_model_len=4096, catalog=catalog).weights_bytes for tp in (1, 2)]
    assert [one.weights_bytes, two.weights_bytes] == [size + tower for size in language]
    assert any("NovelVLChatModel" in reason for reason in one.extrapolated)


@pytest.mark.parametrize("key", ["text_config", "llm_config", "language_config", "thinker_config"])
def test_the_language_model_is_found_wherever_it_lies(key: str, tmp_path: Path, catalog: Catalog) -> None:
    config, shapes = seeing(TOWER)
    inner = config.pop("llm_config")
    config[key] = {"text_config": inner} if key == "thinker_config" else inner
    folder = write_folder(tmp_path / "novel", config, shapes)
    assert fit(str(folder), "H100-SXM", max_model_len=4096, catalog=catalog).kv_bytes_per_token == KV_BYTES_PER_TOKEN


def test_a_type_says_the_class_where_nothing_else_does(tmp_path: Path, catalog: Catalog) -> None:
    inner = {key: value for key, value in LANGUAGE.items() if key != "architectures"}
    folder = write_folder(tmp_path / "novel", *seeing(TOWER, inner=inner))
    assert fit(str(folder), "H100-SXM", max_model_len=4096, catalog=catalog).kv_bytes_per_token == KV_BYTES_PER_TOKEN


def test_without_files_the_refusal_says_what_would_do(tmp_path: Path, catalog: Catalog) -> None:
    config, _ = seeing(TOWER)
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(NotModelledError, match="LlamaForCausalLM inside is known") as refusal:
        fit(str(tmp_path), "H100-SXM", catalog=catalog)
    assert "did you mean" not in str(refusal.value)


def test_packed_towers_are_refused(tmp_path: Path, catalog: Catalog) -> None:
    folder = write_folder(tmp_path / "novel", *seeing({"vision_model.qkv.qweight": ("I32", (1024, 384))}))
    with pytest.raises(NotModelledError, match="packed as I32"):
        fit(str(folder), "H100-SXM", catalog=catalog)


def test_a_broken_language_model_is_named(tmp_path: Path, catalog: Catalog) -> None:
    folder = write_folder(tmp_path / "novel", *seeing(TOWER, inner=LANGUAGE | {"num_key_value_heads": 0}))
    with pytest.raises(InputError, match="num_key_value_heads"):
        fit(str(folder), "H100-SXM", catalog=catalog)


def test_a_known_class_without_its_tower_says_how_to_do_without(tmp_path: Path, catalog: Catalog) -> None:
    """llmfit 951: a text_config alone, 8 of 32 layers full, 4 KV heads of 256: 32,768 bytes a token, not 131,072."""
    text = {
        "model_type": "qwen3_5_text",
        "hidden_size": 4096,
        "num_hidden_layers": 32,
        "num_attention_heads": 16,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "intermediate_size": 12_288,
        "vocab_size": 248_320,
        "max_position_embeddings": 262_144,
        "layer_types": (["linear_attention"] * 3 + ["full_attention"]) * 8,
        "linear_conv_kernel_dim": 4,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": 32,
        "dtype": "bfloat16",
    }
    config = {"architectures": ["Qwen3_5ForConditionalGeneration"], "model_type": "qwen3_5", "text_config": text}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match="Qwen3_5ForCausalLM"):
        fit(str(tmp_path), "H100-SXM", catalog=catalog)
    (tmp_path / "config.json").write_text(json.dumps(config | {"architectures": ["Qwen3_5ForCausalLM"]}))
    assert fit(str(tmp_path), "H100-SXM", max_model_len=8_192, catalog=catalog).kv_bytes_per_token == 32_768

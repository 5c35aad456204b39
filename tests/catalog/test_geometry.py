"""Geometry of dense models, twins among them, against what their publishers' config.json state."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from recommender.catalog.catalog import Catalog

GEOMETRY = list(csv.DictReader((Path(__file__).parent / "published_geometry.csv").open(encoding="utf-8")))


@pytest.mark.parametrize("row", GEOMETRY, ids=lambda row: row["model_id"])
def test_a_model_is_as_its_publisher_states_it(catalog: Catalog, row: dict[str, str]) -> None:
    model = catalog.model(row["model_id"])
    assert (model.hidden_size, model.layers, model.heads, model.kv_heads) == (
        int(row["hidden_size"]),
        int(row["num_hidden_layers"]),
        int(row["num_attention_heads"]),
        int(row["num_key_value_heads"]),
    )
    assert (model.vocabulary, model.max_model_len) == (int(row["vocab_size"]), int(row["max_position_embeddings"]))
    assert model.tied_embeddings == (row["tie_word_embeddings"] == "True")
    windows = {layers.window for layers in model.attention if layers.kind == "sliding"}
    assert windows == ({int(row["sliding_window"])} if row["sliding_window"] else set())


def test_twins_share_what_they_are_said_to_share(catalog: Catalog) -> None:
    """A quantisation's own config says the same of its base as the entry the base shares values with."""
    quantised = {
        "nvidia/Kimi-K2.6-NVFP4": "moonshotai/Kimi-K2.6",
        "nvidia/Kimi-K2.7-Code-NVFP4": "moonshotai/Kimi-K2.7-Code",
        "nvidia/Gemma-4-26B-A4B-NVFP4": "google/gemma-4-26B-A4B-it",
        "nvidia/DeepSeek-V3.1-NVFP4": "deepseek-ai/DeepSeek-V3.1",
    }
    for own, twin in quantised.items():
        one, other = catalog.model(own), catalog.model(twin)
        assert (one.attention, one.tensors, one.max_model_len) == (other.attention, other.tensors, other.max_model_len)


def test_mistral_7b_v0_2_slides_nowhere(catalog: Catalog) -> None:
    assert [layers.kind for layers in catalog.model("mistralai/Mistral-7B-Instruct-v0.2").attention] == ["full"]
    assert [layers.kind for layers in catalog.model("mistralai/Mistral-7B-v0.1").attention] == ["sliding"]

"""Repositories with speculative (MTP) layers: their own totals, less those layers, are what is loaded."""

from __future__ import annotations

from dataclasses import replace

import pytest

from recommender.answer import fit
from recommender.catalog.catalog import Catalog
from recommender.memory.published import published
from recommender.memory.weights import checkpoint_bytes, stage_bytes, stored_as

AGREE = (
    "deepseek-ai/DeepSeek-V3-0324",
    "deepseek-ai/DeepSeek-R1-0528",
    "deepseek-ai/DeepSeek-V3.2",
    "deepseek-ai/DeepSeek-V4-Flash",
    "deepseek-ai/DeepSeek-V4-Pro",
    "zai-org/GLM-5.2-FP8",
    "Qwen/Qwen3.6-35B-A3B-FP8",
    "Qwen/Qwen3.8-27B-FP8",
    "Qwen/Qwen3.5-122B-A10B",
    "Qwen/Qwen3.6-27B",
)
USED = ("Inferact/Qwen3.8-27B-NVFP4", "Qwen/Qwen3.5-122B-A10B-GPTQ-Int4", "Qwen/Qwen3.5-397B-A17B-GPTQ-Int4")


@pytest.mark.parametrize("name", AGREE)
def test_the_published_total_is_the_model_and_its_speculative_layers(catalog: Catalog, name: str) -> None:
    checkpoint = next(each for each in catalog.checkpoints if each.id == name)
    model = catalog.model(checkpoint.model)
    known = published(model, stored_as(model, checkpoint.weights, checkpoint), checkpoint)
    assert known.source.startswith("computed from the config, agrees with")
    assert known.source.endswith("of speculative layers")
    assert known.confirmed


@pytest.mark.parametrize("name", USED)
def test_a_larger_file_is_used_less_its_speculative_layers(catalog: Catalog, name: str) -> None:
    checkpoint = next(each for each in catalog.checkpoints if each.id == name)
    model = catalog.model(checkpoint.model)
    stored = stored_as(model, checkpoint.weights, checkpoint)
    held = checkpoint_bytes(model, checkpoint.weights, checkpoint)
    assert "published size" in held.source
    assert stage_bytes(model, stored).parameter_bytes < held.parameter_bytes < (checkpoint.bytes_total or 0)
    assert held.parameter_bytes / (checkpoint.bytes_total or 1) > 0.95


def test_a_size_that_is_not_used_is_not_named_and_leaves_the_margin_of_an_unknown_one(catalog: Catalog) -> None:
    checkpoint = next(each for each in catalog.checkpoints if each.id == "Inferact/Qwen3.8-27B-NVFP4")
    odd = replace(checkpoint, bytes_total=90 * 10**9)
    model = catalog.model("Qwen/Qwen3.8-27B")
    known = published(model, stored_as(model, "nvfp4", odd), odd)
    assert not known.confirmed
    assert "90" not in known.source
    assert known.source.endswith("holds something else and is not used")


def test_the_weights_line_says_which_size_was_used() -> None:
    said = fit("Inferact/Qwen3.8-27B-NVFP4", "B200", max_model_len=8192).sources["weights"]
    assert said.startswith("published size, Inferact/Qwen3.8-27B-NVFP4: 26.38 GB")
    assert "speculative" in said
    assert "GB" not in fit("llama-3.1-8b", "B200", weights="nvfp4").sources["weights"]

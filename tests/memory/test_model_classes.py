"""Which vLLM version first knows a model class, as the model registries of its wheels show."""

from __future__ import annotations

from dataclasses import replace

import pytest

from recommender.catalog.catalog import Catalog
from recommender.errors import NotModelledError
from recommender.memory.compatibility import compatible
from recommender.memory.model_classes import model_class

FIRST = (
    ("Qwen/Qwen3-8B", "0.8.3", "0.8.4"),
    ("Qwen/Qwen3-30B-A3B", "0.8.3", "0.8.4"),
    ("meta-llama/Llama-4-Scout-17B-16E-Instruct", "0.8.2", "0.8.3"),
    ("google/gemma-3-27b-it", "0.7.3", "0.8.0"),
    ("openai/gpt-oss-20b", "0.10.0", "0.10.1"),
    ("Qwen/Qwen3-Next-80B-A3B-Instruct", "0.10.1", "0.10.2"),
    ("deepseek-ai/DeepSeek-V3.2", "0.10.2", "0.11.0"),
    ("zai-org/GLM-4.5-Air", "0.9.2", "0.10.0"),
    ("moonshotai/Kimi-Linear-48B-A3B-Instruct", "0.11.0", "0.11.1"),
    ("google/gemma-4-31B-it", "0.18.0", "0.19.0"),
    ("Qwen/Qwen3.5-27B", "0.16.0", "0.17.0"),
    ("deepseek-ai/DeepSeek-V3", "0.6.5", "0.6.6"),
)


@pytest.mark.parametrize(("name", "last_without", "first"), FIRST)
def test_a_version_that_does_not_know_the_class_is_refused(
    catalog: Catalog, name: str, last_without: str, first: str
) -> None:
    model, card = catalog.model(name), catalog.gpu("H200-SXM")
    asked = {"tp": 8, "weights": model.native, "quantisation": model.quantisation, "kv_dtype": "auto", "engine": "vllm"}
    refused = compatible(model, card, engine_version=last_without, **asked)  # type: ignore[arg-type]
    assert not refused.ok
    assert refused.reason == f"vLLM {last_without} does not know {model.architecture}: it needs {first} or newer"
    accepted = compatible(model, card, engine_version=first, **asked)  # type: ignore[arg-type]
    assert "does not know" not in accepted.reason
    assert compatible(model, card, engine_version="0.33.0", **asked).ok  # type: ignore[arg-type]


def test_every_model_of_the_catalog_has_a_class_that_was_looked_up(catalog: Catalog) -> None:
    found = set()
    for entry in catalog.models:
        try:
            found.add(catalog.model(entry.id).architecture)
        except NotModelledError:
            continue
    assert [name for name in sorted(found) if model_class(name) is None] == []


def test_of_a_class_nobody_looked_up_nothing_is_claimed(catalog: Catalog) -> None:
    model = replace(catalog.model("llama-3.1-8b"), architecture="NewestForCausalLM")
    verdict = compatible(
        model,
        catalog.gpu("H100-SXM"),
        tp=1,
        weights="bf16",
        quantisation=None,
        kv_dtype="auto",
        engine="vllm",
        engine_version="0.33.0",
    )
    assert verdict.ok
    assert verdict.notes[-1] == "from which vLLM version on NewestForCausalLM is served is not known"

"""A repository that declares an FP8 KV cache gets one under `auto`, however much of it the catalog knows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from recommender.answer import fit
from recommender.catalog.catalog import Catalog
from recommender.memory.compatibility import compatible

# Bytes a token takes on each of 8 GPUs: layers x kv heads of a rank x 2 x 128 values, one byte each.
DECLARING = (
    ("nvidia/Llama-3.1-8B-Instruct-FP8", 32 * 1 * 256),
    ("nvidia/Llama-3.1-8B-Instruct-NVFP4", 32 * 1 * 256),
    ("nvidia/Llama-3.3-70B-Instruct-FP8", 80 * 1 * 256),
    ("nvidia/Llama-3.3-70B-Instruct-NVFP4", 80 * 1 * 256),
    ("nvidia/Llama-3.1-405B-Instruct-FP8", 126 * 1 * 256),
    ("nvidia/Qwen3-32B-NVFP4", 64 * 1 * 256),
    ("nvidia/Llama-3.1-70B-Instruct-FP8", 80 * 1 * 256),
)


@pytest.mark.parametrize(("name", "per_token"), DECLARING)
def test_auto_is_what_the_repository_declares(name: str, per_token: int) -> None:
    found = fit(name, "B200", tp=8, max_model_len=8192)
    assert found.kv_bytes_per_token == per_token
    assert found.kv_bytes_per_token == fit(name, "B200", tp=8, max_model_len=8192, kv_dtype="fp8").kv_bytes_per_token


def test_every_declaring_row_of_the_catalog_is_followed(catalog: Catalog) -> None:
    declaring = [each for each in catalog.checkpoints if each.kv_declared == "fp8" and each.id]
    assert declaring
    for each in declaring:
        asked = {"gpu": "B300", "tp": 8, "max_model_len": 4096, "max_num_seqs": 8, "catalog": catalog}
        assert (
            fit(each.id or "", **asked).kv_bytes_per_token
            == fit(each.id or "", kv_dtype="fp8", **asked).kv_bytes_per_token
        )


def test_other_weights_of_the_model_do_not_inherit_it() -> None:
    plain = fit("llama-3.1-8b", "B200", max_model_len=8192)
    assert plain.kv_bytes_per_token == 131_072
    assert fit("llama-3.1-8b", "B200", weights="fp8", max_model_len=8192).kv_bytes_per_token == 131_072
    assert fit("nvidia/Llama-3.1-8B-Instruct-FP8", "B200", weights="bf16").kv_bytes_per_token == 131_072


def test_a_named_repository_stays_when_its_weights_are_named_too() -> None:
    named = fit("nvidia/Llama-3.1-8B-Instruct-FP8", "B200", weights="fp8", max_model_len=8192)
    assert named.checkpoint == "nvidia/Llama-3.1-8B-Instruct-FP8"
    assert named.kv_bytes_per_token == 65_536


def test_compatibility_sees_a_declared_cache() -> None:
    assert fit("nvidia/Llama-3.1-8B-Instruct-FP8", "A100-80GB-SXM", max_model_len=8192).launch_arguments == (
        "--attention-backend",
        "FLASHINFER",
    )


def test_compatibility_needs_no_quantisation_of_the_models_own(catalog: Catalog) -> None:
    model = replace(catalog.model("llama-3.1-8b"), kv_declared="fp8")
    asked = {"tp": 1, "weights": "bf16", "quantisation": None, "engine": "vllm", "engine_version": "0.33.0"}
    card = catalog.gpu("A100-80GB-SXM")
    assert "FLASHINFER" in compatible(model, card, kv_dtype="auto", **asked).launch_arguments  # type: ignore[arg-type]
    assert not compatible(catalog.model("llama-3.1-8b"), card, kv_dtype="auto", **asked).launch_arguments  # type: ignore[arg-type]

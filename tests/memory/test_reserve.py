"""The reserve: terms, what was measured, and what is labelled extrapolated."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recommender.catalog.catalog import Catalog
from recommender.memory.engine import engine_constants
from recommender.memory.reserve import ReserveTerms, capture_sizes, extrapolated, reserve_terms
from recommender.units import GIB


def terms_of(
    catalog: Catalog, model: str, version: str, gpu: str = "H100-SXM", weights: str = "bf16", **more: int
) -> ReserveTerms:
    constants = engine_constants("vllm", version)
    return reserve_terms(
        constants, catalog.model(model), catalog.gpu(gpu), weights=weights, quantised=weights != "bf16", **more
    )


def gib(size: int) -> float:
    return size / GIB


# (model, version, max_num_batched_tokens, GPU, max_num_seqs, activation peak as logged in GiB)
PEAKS = [
    ("meta-llama/Llama-3.1-8B-Instruct", "0.6.4", 20_000, "RTX3090", 256, 2.07),
    ("Qwen/Qwen2.5-1.5B-Instruct", "0.7.3", 32_768, "T4", 256, 2.02),
    ("meta-llama/Llama-3.1-8B-Instruct", "0.11.0", 8_192, "H100-SXM", 1024, 4.76),
    ("openai/gpt-oss-20b", "0.11.0", 8_192, "H100-SXM", 1024, 7.38),
    ("codellama/CodeLlama-7b-hf", "0.19.0", 8_192, "H100-SXM", 1024, 0.77),
    ("Qwen/Qwen1.5-MoE-A2.7B", "0.19.0", 8_192, "H100-SXM", 1024, 2.47),
    ("deepseek-ai/DeepSeek-V2-Lite-Chat", "0.19.0", 8_192, "H100-SXM", 1024, 1.93),
    ("google/gemma-3-27b-it", "0.19.0", 8_192, "H100-SXM", 1024, 3.99),
]


@pytest.mark.parametrize(("model", "version", "tokens", "gpu", "seqs", "logged"), PEAKS)
def test_activation_peaks_as_logged(
    model: str, version: str, tokens: int, gpu: str, seqs: int, logged: float, catalog: Catalog
) -> None:
    found = gib(terms_of(catalog, model, version, gpu).at(seqs, tokens).activation_bytes)
    assert found == pytest.approx(logged, abs=0.07)


def test_float32_models_sample_in_more_bytes(catalog: Catalog) -> None:
    terms = terms_of(catalog, "llama-3.1-8b", "0.19.0", weights="fp32")
    assert gib(terms.at(1024, 8192).activation_bytes) == pytest.approx(2.21, abs=0.07)


def test_every_logged_peak_of_0_19_but_the_pipelines(catalog: Catalog, measured: Path) -> None:
    rows = [
        row
        for row in csv.DictReader((measured / "startup_0_19.csv").open())
        if row["pp"] == "1" and row["dtype"] != "torch.float32" and "vision" not in row["model"]
    ]
    assert len(rows) == 35
    for row in rows:
        model = catalog.resolve(row["model"]).model
        terms = reserve_terms(
            engine_constants("vllm", "0.19.0"),
            model,
            catalog.gpu("H100-SXM"),
            tp=int(row["tp"]),
            weights="bf16",
            quantised=False,
        )
        reserve = terms.at(1024, 8192)
        logged = float(row["activation_memory_gib"]) + float(row["non_torch_forward_gib"])
        assert gib(reserve.total_bytes) == pytest.approx(logged, abs=0.23), row


def test_the_last_stage_samples_and_receives(catalog: Catalog) -> None:
    """A log of two stages: 2.02 GiB on the last, where one stage alone takes 1.89."""
    last = terms_of(catalog, "llama-3.1-8b", "0.19.0", pp=2, layers=16, samples=True)
    first = terms_of(catalog, "llama-3.1-8b", "0.19.0", pp=2, layers=16, samples=False)
    assert gib(last.at(1024, 8192).activation_bytes) == pytest.approx(2.02, abs=0.02)
    assert gib(first.at(1024, 8192).activation_bytes) == pytest.approx(1.05, abs=0.1)
    assert gib(last.non_torch_bytes) == pytest.approx(0.07, abs=0.001)


@pytest.mark.parametrize(
    ("largest", "sizes"), [(1, 1), (2, 2), (4, 3), (8, 4), (32, 7), (248, 34), (512, 51), (1024, 83)]
)
def test_captured_batch_sizes(largest: int, sizes: int) -> None:
    assert capture_sizes(largest) == sizes


def test_graphs_are_charged_from_0_20_and_not_when_eager(catalog: Catalog) -> None:
    charged = terms_of(catalog, "llama-3.1-8b", "0.20.0").at(1024, 8192).cuda_graph_bytes
    assert gib(charged) == pytest.approx(0.26 + 0.018 * 32, abs=1e-6)
    assert terms_of(catalog, "llama-3.1-8b", "0.19.0").at(1024, 8192).cuda_graph_bytes == 0
    constants = engine_constants("vllm", "0.20.0")
    eager = reserve_terms(
        constants,
        catalog.model("llama-3.1-8b"),
        catalog.gpu("H100-SXM"),
        weights="bf16",
        quantised=False,
        enforce_eager=True,
    )
    assert eager.at(1024, 8192).cuda_graph_bytes == 0


@given(st.integers(1, 2048), st.integers(1, 20_000))
def test_more_requests_or_tokens_never_take_less(seqs: int, tokens: int) -> None:
    terms = ReserveTerms(
        forward_bytes_per_token=100,
        forward_extra_bytes=5,
        sampler_bytes_per_seq=1000,
        sampler_bytes_per_token=16,
        scratch_bytes=7,
        peak_extra_bytes=3,
        persistent_bytes_per_seq=11,
        non_torch_bytes=13,
        graph_fixed_bytes=17,
        graph_bytes=5100,
        capture_maximum=512,
    )
    here = terms.at(seqs, tokens).total_bytes
    assert terms.at(seqs + 1, tokens).total_bytes >= here
    assert terms.at(seqs, tokens + 1).total_bytes >= here


def test_what_the_constants_do_not_cover_is_labelled(catalog: Catalog) -> None:
    measured = engine_constants("vllm", "0.19.0")
    model, h100 = catalog.model("llama-3.1-8b"), catalog.gpu("H100-SXM")

    def reasons(gpu: str = "H100-SXM", name: str = "llama-3.1-8b", **more: object) -> str:
        at = {"tp": 1, "pp": 1, "ep": 1, "weights": "bf16"} | more
        return "; ".join(extrapolated(measured, catalog.model(name), catalog.gpu(gpu), **at))  # type: ignore[arg-type]

    assert reasons() == ""
    assert "no start-up log of a Ada card" in reasons("L40S")
    assert "pipeline parallelism" in reasons(pp=2)
    assert "expert kernels" in reasons(name="Qwen/Qwen3-30B-A3B", weights="fp8")
    assert "expert parallelism" in reasons(name="Qwen/Qwen3-30B-A3B", tp=2, ep=2)
    unknown = replace(h100, multiprocessors=None)
    assert "multiprocessors" in "; ".join(extrapolated(measured, model, unknown, tp=1, pp=1, ep=1, weights="bf16"))

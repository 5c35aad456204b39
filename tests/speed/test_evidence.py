"""Classes of evidence and their bands."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from recommender.catalog.catalog import Catalog
from recommender.speed.anchors import Anchor, factors_of, shipped_anchors
from recommender.speed.build import stored_shape
from recommender.speed.candidates import Candidates
from recommender.speed.constants import shipped_constants
from recommender.speed.evidence import METRICS, Evidence, evidence_of, shipped_bands
from recommender.speed.hardware import hardware_of


@pytest.mark.parametrize(
    ("model", "gpu", "engine", "evidence"),
    [
        ("meta-llama/Llama-3.1-70B-Instruct", "B200", "vllm", Evidence.ANCHORED),
        ("meta-llama/Llama-3.1-8B-Instruct", "RTX4090", "vllm", Evidence.ANCHORED_ONCE),
        ("Qwen/Qwen3-14B", "H200-SXM", "vllm", Evidence.KNOWN_MODEL),
        ("deepseek-ai/DeepSeek-V2-Lite", "A100-80GB-SXM", "vllm", Evidence.KNOWN_MODEL),
        ("openai/gpt-oss-120b", "H100-SXM", "sglang", Evidence.KNOWN_GPU),
        ("Qwen/Qwen3-14B", "MI355X", "vllm", Evidence.UNKNOWN),
    ],
)
def test_class_of_evidence(
    rows_of: Callable[..., Candidates], catalog: Catalog, model: str, gpu: str, engine: str, evidence: Evidence
) -> None:
    weights = {"meta-llama/Llama-3.1-70B-Instruct": "fp8", "openai/gpt-oss-120b": "mxfp4"}.get(model, "bf16")
    shape = stored_shape(catalog, catalog.model(model), weights, "auto")
    rows = rows_of(shape, hardware_of(catalog.gpu(gpu)), engine)
    factors = factors_of(rows, shipped_anchors())
    assert evidence_of(rows, shipped_constants(), factors).tolist() == [evidence]


def test_bands_widen_as_evidence_thins_and_contain_the_prediction() -> None:
    bands = shipped_bands()
    every = np.arange(len(Evidence))
    for metric in METRICS:
        low, high = (bands.ratio(every, metric, level) for level in (0.1, 0.9))
        assert (low < 1).all()
        assert (high > 1).all()
        width = np.log(high / low)
        assert width[Evidence.ANCHORED] == width.min()
        assert width[Evidence.KNOWN_GPU] > width[Evidence.KNOWN_MODEL]
        assert width[Evidence.UNKNOWN] > width[Evidence.KNOWN_MODEL]
    assert np.log(bands.ratio(every, "ttft", 0.9) / bands.ratio(every, "ttft", 0.1)).min() > 0.8


def test_levels_between_the_stored_ones_lie_between() -> None:
    bands = shipped_bands()
    at = np.array([Evidence.KNOWN_MODEL])
    ratios = [bands.ratio(at, "tpot", level)[0] for level in (0.5, 0.7, 0.8, 0.85, 0.9, 0.95)]
    assert ratios == sorted(ratios)


def test_several_runs_count_as_anchored(rows_of: Callable[..., Candidates], catalog: Catalog) -> None:
    shape = stored_shape(catalog, catalog.model("Qwen/Qwen3-14B"), "bf16", "auto")
    rows = rows_of(shape, hardware_of(catalog.gpu("L40S")))
    for runs, evidence in ((1, Evidence.ANCHORED_ONCE), (3, Evidence.ANCHORED)):
        anchor = Anchor("L40S", "Qwen/Qwen3-14B", "vllm", "bf16", 0.1, None, runs, "x")
        factors = factors_of(rows, {anchor.key: anchor})
        assert evidence_of(rows, shipped_constants(), factors).tolist() == [evidence]

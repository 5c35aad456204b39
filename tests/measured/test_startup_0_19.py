"""KV tokens predicted against 39 start-up logs of vLLM 0.19.0."""

from __future__ import annotations

import csv
import statistics
from functools import cache
from pathlib import Path

import pytest

from recommender.answer import fit
from recommender.memory.fit import Fit

# One log is of a model in float32, which is no way to serve it that can be asked for.
NOT_ASKED = "torch.float32"
NOT_DENSE = ("gemma-2", "gemma-3", "DeepSeek-V2", "Mistral-Small-3.1", "granite-vision")


@cache
def answered() -> list[tuple[dict[str, str], Fit]]:
    """The rows that can be asked for, each with the answer to it."""
    found = []
    for row in csv.DictReader((Path(__file__).parent / "startup_0_19.csv").open()):
        if row["dtype"] == NOT_ASKED:
            continue
        answer = fit(
            row["model"],
            "H100-SXM",
            tp=int(row["tp"]),
            pp=int(row["pp"]),
            weights="fp8" if row["quantization"] == "fp8" else None,
            kv_dtype=row["kv_cache_dtype"],
            max_model_len=int(row["max_model_len"]),
            gpu_memory_utilization=float(row["gpu_memory_utilization"]),
            engine_version="0.19.0",
        )
        found.append((row, answer))
    return found


def errors(pipelines: bool = False) -> dict[tuple[str, int], float]:
    found = {}
    for number, (row, answer) in enumerate(answered()):
        if (int(row["pp"]) > 1) != pipelines:
            continue
        assert answer.starts
        found[row["model"], number] = abs(answer.kv_cache_tokens / int(row["kv_cache_tokens"]) - 1)
    return found


def test_dense_and_mixture_models() -> None:
    found = [error for (model, _), error in errors().items() if not any(name in model for name in NOT_DENSE)]
    assert len(found) == 29
    assert statistics.median(found) <= 0.001
    assert max(found) <= 0.005


def test_every_attention_kind() -> None:
    found = list(errors().values())
    assert len(found) == 36
    assert statistics.median(found) <= 0.001
    assert max(found) <= 0.02


def test_pipelines_by_the_stage_that_binds() -> None:
    found = list(errors(pipelines=True).values())
    assert found == pytest.approx([0, 0], abs=0.0005)

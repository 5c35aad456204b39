"""Anchors: what they move, by how much, and what never becomes one."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from recommender.catalog.catalog import Catalog
from recommender.errors import InputError
from recommender.speed.anchors import Anchor, by_key, factors_of, read_anchors, write_anchors
from recommender.speed.answer import speed
from recommender.speed.benchmarks.run import Run
from recommender.speed.build import stored_shape
from recommender.speed.candidates import Candidates
from recommender.speed.hardware import hardware_of
from recommender.speed.own import anchor_of, read_anchor
from recommender.speed.setup import Setup

MODEL = "Qwen/Qwen3-14B"  # measured on no card that is used here
SETUP = Setup(MODEL, "L40S", tp=2)


def run_of(**changed: object) -> Run:
    sound = Run(
        model=MODEL,
        completed=100,
        failed=0,
        prompt_tokens=1000,
        output_tokens=200,
        concurrency=16,
        ttft_ms=400.0,
        tpot_ms=35.0,
        output_tokens_per_s=430.0,
        source="test",
    )
    return replace(sound, **changed)  # type: ignore[arg-type]


def answer(anchors: list[Anchor] | None = None, tpot: int = 200, concurrency: int = 16, tp: int = 2) -> float:
    return speed(MODEL, "L40S", 1000, tpot, concurrency, tp=tp, anchors=anchors).tpot_ms


def test_one_run_moves_the_answer_most_of_the_way(catalog: Catalog) -> None:
    before = answer()
    measured = before * 1.5
    anchor, warnings = anchor_of([run_of(tpot_ms=measured)], SETUP, catalog, "file.json")
    after = answer([anchor])
    assert warnings == ()
    assert anchor.key == ("L40S", MODEL, "vllm", "bf16")
    assert after == pytest.approx(before * 1.5 ** (1 / 1.4), rel=1e-6)
    assert before < after < measured
    assert answer([anchor], concurrency=64, tp=4) > answer(concurrency=64, tp=4)  # all plans on that card and model


def test_an_anchor_is_of_one_card_and_model(catalog: Catalog) -> None:
    anchor, _ = anchor_of([run_of(tpot_ms=answer() * 1.5)], SETUP, catalog, "file.json")
    others = (("Qwen/Qwen3-8B", "L40S"), (MODEL, "L4"))
    for model, gpu in others:
        plain, anchored = (speed(model, gpu, 500, 100, 4, tp=2, anchors=each) for each in (None, [anchor]))
        assert plain == anchored


def test_an_anchor_tightens_the_band(catalog: Catalog) -> None:
    before = speed(MODEL, "L40S", 1000, 200, 16, tp=2)
    anchor, _ = anchor_of([run_of(tpot_ms=before.tpot_ms)], SETUP, catalog, "file.json")
    after = speed(MODEL, "L40S", 1000, 200, 16, tp=2, anchors=[anchor])
    assert before.evidence == "known model"
    assert after.evidence == "anchored by few runs"
    assert _width(after.tpot_ms_interval) < _width(before.tpot_ms_interval)


def _width(interval: tuple[float, float]) -> float:
    return math.log(interval[1] / interval[0])


def test_a_result_file_is_an_anchor(tmp_path: Path, catalog: Catalog) -> None:
    """A `vllm bench serve` result of 20 requests, one of 21 failed, 24 ms a token at 6.5 in flight."""
    file = tmp_path / "result.json"
    result = {
        "model_id": "Qwen/Qwen3-8B", "duration": 10.0, "completed": 20, "failed": 1, "total_input_tokens": 20480,
        "total_output_tokens": 2560, "request_throughput": 2.0, "output_throughput": 256.0, "mean_ttft_ms": 180.0,
        "p99_ttft_ms": 420.0, "mean_tpot_ms": 24.0,
    }  # fmt: skip
    file.write_text(json.dumps(result), encoding="utf-8")
    anchor, warnings = read_anchor(file, Setup("Qwen/Qwen3-8B", "L40S"), catalog)
    before, after = (speed("Qwen/Qwen3-8B", "L40S", 1024, 128, 6, anchors=each) for each in (None, [anchor]))
    assert any("1 of 21 requests failed" in warning for warning in warnings)
    assert abs(after.tpot_ms - 24) < abs(before.tpot_ms - 24)
    assert abs(after.ttft_ms - 180) < abs(before.ttft_ms - 180)
    assert after.evidence == "anchored by few runs"
    assert "anchored by 1 run of this GPU, model, engine and dtype" in after.sources


@pytest.mark.parametrize(
    ("changed", "setup", "reason"),
    [
        ({"model": "meta-llama/Llama-3.1-8B-Instruct"}, SETUP, "measured with meta-llama/Llama-3.1-8B-Instruct, not"),
        ({}, replace(SETUP, gpu="H1000"), "unknown gpu"),
        ({}, replace(SETUP, model="nobody/Nothing"), "unknown model"),
        ({}, replace(SETUP, tp=-1), "tp.*-1 cannot be"),
        ({}, replace(SETUP, engine="llama.cpp"), "'llama.cpp' is not modelled"),
        ({"tpot_ms": 1.0}, SETUP, "within a factor of 4"),
        ({"tpot_ms": 3000.0}, SETUP, "within a factor of 4"),
        ({}, replace(SETUP, gpu="L4", tp=1, weights="bf16", model="Qwen/Qwen3-32B"), "not Qwen/Qwen3-32B"),
    ],
)
def test_never_an_anchor(catalog: Catalog, changed: dict[str, object], setup: Setup, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        anchor_of([run_of(**changed)], setup, catalog, "file.json")


def test_a_run_that_names_no_model_is_warned_of(catalog: Catalog) -> None:
    _, warnings = anchor_of([run_of(model=None)], SETUP, catalog, "file.json")
    assert warnings == (f"file.json does not name its model: {MODEL} is taken to be meant",)


def test_runs_of_one_group_count_together(tmp_path: Path) -> None:
    one = Anchor("L4", "m", "vllm", "bf16", 0.2, None, 1, "a")
    two = Anchor("L4", "m", "vllm", "bf16", -0.1, 0.4, 2, "b")
    (merged,) = by_key([one, two]).values()
    assert merged.tpot_log == pytest.approx(0.0)
    assert (merged.ttft_log, merged.runs, merged.source) == (0.4, 3, "a; b")
    write_anchors(tmp_path / "x.csv", [two])
    (read,) = read_anchors(tmp_path / "x.csv").values()
    assert read.tpot_log == pytest.approx(-0.1, abs=1e-4)


def test_candidates_without_anchor_keep_their_prediction(rows_of: Callable[..., Candidates], catalog: Catalog) -> None:
    shape = stored_shape(catalog, catalog.model(MODEL), "bf16", "auto")
    rows = rows_of(shape, hardware_of(catalog.gpu("L40S")), tp=[1, 2])
    found = factors_of(rows, by_key([Anchor("L4", MODEL, "vllm", "bf16", 1.0, 1.0, 9, "x")]))
    np.testing.assert_array_equal(found.tpot, [1, 1])
    np.testing.assert_array_equal(found.runs, [0, 0])

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest
import startup_logs as logs
from hypothesis import given, settings
from hypothesis import strategies as st

from recommender.catalog.catalog import Catalog
from recommender.errors import InputError
from recommender.memory.calibration import (
    LEAST_PPM,
    MILLION,
    MOST_PPM,
    Calibration,
    Correction,
    calibrated,
    calibration_text,
    read_calibration,
)
from recommender.memory.engine import engine_constants
from recommender.memory.reserve import ReserveTerms, reserve_terms
from recommender.units import GIB
from recommender.verify.compare import Verification
from recommender.verify.correction import correction_of

Verify = Callable[..., Verification]
ONE = Correction("vllm", "0.19.0", "Hopper", 1, 1, 10 * 2**20, 1_010_000, MILLION, "a.log")


def _terms(catalog: Catalog, found: Verification) -> ReserveTerms:
    """The reserve's terms of the verified replica, as the memory model takes them."""
    fit, model, gpu = found.prediction.fit, found.prediction.model, catalog.gpu(found.prediction.fit.gpu)
    constants = engine_constants("vllm", fit.engine_version)
    return reserve_terms(
        constants, model, gpu, tp=fit.tp, pp=fit.pp, ep=fit.ep, weights=fit.weights, quantised=fit.weights == "fp8"
    )


def test_calibrated_reserve_is_what_the_log_states(catalog: Catalog, real: dict[str, Verification]) -> None:
    for name in ("llama-3.1-8b-tp1", "llama-3.1-8b-tp4", "llama-3.3-70b-fp8-tp2", "deepseek-v2-lite-tp1"):
        found = real[name]
        fit = found.prediction.fit
        terms = calibrated(_terms(catalog, found), correction_of(found, name))
        reserve = terms.at(fit.max_num_seqs, fit.max_num_batched_tokens)
        for part, logged in (("activation_bytes", "activation"), ("non_torch_bytes", "non_torch")):
            reading = found.readings[logged]
            assert reading is not None
            assert abs(getattr(reserve, part) - reading.value) < 2**20, (name, part)


def test_calibrated_graphs_are_what_the_log_states(catalog: Catalog, verified: Verify) -> None:
    found = verified(logs.V1_0_24)
    fit = found.prediction.fit
    reserve = calibrated(_terms(catalog, found), correction_of(found, "a")).at(
        fit.max_num_seqs, fit.max_num_batched_tokens
    )
    assert reserve.cuda_graph_bytes == pytest.approx(1.03 * GIB, rel=1e-4)
    assert reserve.total_bytes == pytest.approx((1.03 + 0.57 + 0.15) * GIB, rel=1e-3)


def test_parts_that_are_logged_together_are_corrected_outside_pytorch(verified: Verify) -> None:
    found = verified(logs.V1_0_27, gpu="RTX4090")
    correction = correction_of(found, "a.log")
    predicted = found.prediction.fit.activation_bytes + found.prediction.fit.non_torch_bytes
    assert (correction.activation_ppm, correction.gpu_class) == (MILLION, "Ada")
    assert correction.non_torch_bytes == pytest.approx(0.61 * GIB - predicted, abs=0.01 * GIB)


def test_log_of_information_lines_alone_gives_the_whole_reserve(verified: Verify) -> None:
    text = logs.V1_0_24.split("(EngineCore pid=134) INFO 07-02 21:37:26 [gpu_worker.py:857]")[0]
    found = verified(text, gpu="L40S")
    correction = correction_of(found, "a.log")
    beyond = found.readings["reserve"].value - found.prediction.fit.reserve_bytes  # type: ignore[union-attr]
    graphs = found.readings["graph_estimate"].value - found.prediction.fit.cuda_graph_bytes  # type: ignore[union-attr]
    assert correction.non_torch_bytes == beyond - graphs


def test_disturbed_logs_give_no_correction(verified: Verify) -> None:
    with pytest.raises(InputError, match="another process"):
        correction_of(verified(logs.refusal("0.19.0", logs.NO_FREE_MEMORY)), "a.log")
    with pytest.raises(InputError, match="neither"):
        correction_of(verified(logs.refusal("0.19.0", logs.NO_BLOCKS), gpu="T4"), "a.log")


def test_figures_too_far_apart_give_no_correction(verified: Verify) -> None:
    text = logs.V0_7_3.replace("memory takes 2.02GiB", "memory takes 0.10GiB")
    with pytest.raises(InputError, match="too far apart"):
        correction_of(verified(text), "a.log")


def test_correction_is_found_by_version_class_and_parallelism(catalog: Catalog) -> None:
    held = Calibration((ONE,))
    gpu = catalog.gpu("H200-SXM")
    assert held.correction_for(engine_constants("vllm", "0.19.1"), gpu, tp=1) == ONE
    assert held.correction_for(engine_constants("vllm", "0.20.0"), gpu, tp=1) is None
    assert held.correction_for(engine_constants("vllm", "0.19.1"), gpu, tp=2) is None
    assert held.correction_for(engine_constants("vllm", "0.19.1"), gpu, tp=1, pp=2) is None
    assert held.correction_for(engine_constants("vllm", "0.19.1"), catalog.gpu("L4"), tp=1) is None


def test_later_correction_takes_the_place_of_an_earlier_one() -> None:
    newer, other = replace(ONE, engine_version="0.19.2", non_torch_bytes=5), replace(ONE, tp=2)
    held = Calibration().with_correction(other).with_correction(ONE).with_correction(newer)
    assert held.corrections == (newer, other)


def test_without_a_correction_nothing_changes(catalog: Catalog, real: dict[str, Verification]) -> None:
    terms = _terms(catalog, real["llama-3.1-8b-tp1"])
    assert calibrated(terms, None) == terms
    assert calibrated(terms, replace(ONE, non_torch_bytes=0, activation_ppm=MILLION)) == terms


def test_memory_outside_pytorch_is_never_negative(catalog: Catalog, real: dict[str, Verification]) -> None:
    terms = _terms(catalog, real["llama-3.1-8b-tp1"])
    assert calibrated(terms, replace(ONE, non_torch_bytes=-GIB)).non_torch_bytes == 0


@settings(deadline=None)
@given(
    st.integers(LEAST_PPM, MOST_PPM), st.integers(LEAST_PPM, MOST_PPM), st.integers(-(2**32), 2**32), st.integers(1, 64)
)
def test_file_holds_what_was_written(activation: int, graphs: int, non_torch: int, tp: int) -> None:
    held = Calibration().with_correction(
        Correction("vllm", "0.19.0", "Hopper", tp, 1, non_torch, activation, graphs, "é.log: model")
    )
    text = calibration_text(held)
    assert (read_calibration(text, "c.json"), calibration_text(read_calibration(text, "c.json"))) == (held, text)


def _row(**changes: object) -> str:
    row = {name: getattr(ONE, name) for name in Correction.__slots__} | changes
    return json.dumps({"schema_version": 1, "corrections": [row]})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "c.json"),
        ("[]", "c.json"),
        ("{" * 10_000, "c.json"),
        ('{"schema_version": 2, "corrections": []}', "schema_version"),
        (_row(activation_ppm=0), "activation_ppm"),
        (_row(activation_ppm=10**9), "activation_ppm"),
        (_row(non_torch_bytes=1.5), "non_torch_bytes"),
        (_row(non_torch_bytes=2**60), "non_torch_bytes"),
        (_row(tp=0), "tp"),
        (_row(engine="sglang"), "engine"),
        (_row(engine_version="latest"), "engine_version"),
        (_row(surplus=1), "surplus"),
        ("x" * (10**6 + 1), "longer"),
    ],
)
def test_what_is_no_calibration_is_refused(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        read_calibration(text, "c.json")


def test_one_key_twice_is_refused() -> None:
    rows = json.loads(_row())["corrections"] * 2
    with pytest.raises(InputError, match="appears twice"):
        read_calibration(json.dumps({"schema_version": 1, "corrections": rows}), "c.json")


@settings(deadline=None)
@given(st.text(max_size=200))
def test_no_text_breaks_the_reader(text: str) -> None:
    with pytest.raises(InputError):
        read_calibration(text, "c.json")

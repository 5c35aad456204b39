from __future__ import annotations

from collections.abc import Callable

import pytest
import startup_logs as logs

from recommender.catalog.catalog import Catalog
from recommender.errors import InputError, NotModelledError
from recommender.units import GIB
from recommender.verify.compare import Row, Verification, verify_log
from recommender.verify.log import read_log

Verify = Callable[..., Verification]


def _row(found: Verification, name: str) -> Row:
    return next(row for row in found.rows if row.name == name)


def test_published_excerpts_agree(real: dict[str, Verification]) -> None:
    assert sorted(real) == [
        "deepseek-v2-lite-tp1",
        "gemma-3-27b-tp1",
        "llama-3.1-8b-tp1",
        "llama-3.1-8b-tp4",
        "llama-3.3-70b-fp8-tp2",
    ]
    for name, found in real.items():
        assert (name, found.beyond) == (name, ())
        assert abs(_row(found, "kv_cache").share or 0) < 0.006, name
        assert abs(_row(found, "weights").share or 0) < 0.005, name
        assert found.prediction.fit.gpu == "H100-SXM", name


def test_tokens_of_the_logged_memory_are_exact(real: dict[str, Verification]) -> None:
    for name, found in real.items():
        row = _row(found, "arithmetic")
        assert (name, row.share) == (name, 0), row


def test_dense_models_are_within_a_thousandth(real: dict[str, Verification]) -> None:
    for name in ("llama-3.1-8b-tp1", "llama-3.1-8b-tp4", "llama-3.3-70b-fp8-tp2"):
        row = _row(real[name], "pool")
        assert abs(row.predicted / row.logged - 1) < 0.001, row  # type: ignore[operator]


def test_parts_add_up_as_the_log_says(real: dict[str, Verification]) -> None:
    for found in real.values():
        parts = sum(_row(found, name).logged or 0 for name in ("weights", "reserve", "kv_cache"))
        assert parts == _row(found, "usable").logged


def test_rank_that_leaves_least_binds(verified: Verify) -> None:
    text = "".join(
        f"(Worker_TP{rank} pid={rank}) INFO Model loading took 3.77 GiB memory and 1 seconds\n"
        f"(Worker_TP{rank} pid={rank}) INFO Available KV cache memory: {kv} GiB\n"
        for rank, kv in enumerate(("67.44", "66.90", "67.43", "67.41"))
    )
    opening = logs.config("meta-llama/Llama-3.1-8B-Instruct", 8192, tp=4)
    found = verified(f"Initializing a V1 LLM engine (v0.19.0) with config: {opening}\n{text}", gpu="H100-SXM")
    assert (found.readings.binding, found.readings.ranks) == ("Worker_TP1", 4)
    assert _row(found, "kv_cache").logged == round(66.90 * GIB)


@pytest.mark.parametrize("version", sorted(logs.STARTED))
def test_every_generation_is_compared(verified: Verify, version: str) -> None:
    gpu = {"gpu": "RTX4090"} if version == "0.27.1" else {}
    found = verified(logs.STARTED[version], **gpu)
    assert found.beyond == ()
    assert {"weights", "kv_cache", "arithmetic", "pool", "concurrency", "reserve", "starts"} <= {
        row.name for row in found.rows
    }
    assert _row(found, "arithmetic").share == 0


def test_weights_and_what_stays_are_compared_together_from_0_27_on(verified: Verify) -> None:
    found = verified(logs.V1_0_27, gpu="RTX4090")
    assert _row(found, "activation").predicted is None
    assert round((_row(found, "overhead").logged or 0) / GIB, 2) == 0.61


def test_graphs_are_compared_only_where_they_are_charged(verified: Verify, real: dict[str, Verification]) -> None:
    assert _row(real["llama-3.1-8b-tp1"], "graph_estimate").share is None
    estimate = _row(verified(logs.V1_0_24), "graph_estimate")
    assert abs(estimate.share or 1) < 0.005
    by_utilization = verified(logs.V1_0_24.replace("1.03 GiB (estimated)", "(not estimated)"))
    assert _row(by_utilization, "graph_estimate").logged == pytest.approx(0.0232 * 44.39 * GIB, rel=1e-6)


def test_memory_follows_from_tokens_where_no_line_states_it(verified: Verify) -> None:
    found = verified(logs.V1_0_8_5, gpu="L40S")
    kv = _row(found, "kv_cache")
    assert (kv.said_by, round((kv.logged or 0) / GIB, 2)) == ("from the tokens", 19.37)
    assert "arithmetic" not in {row.name for row in found.rows}


def test_same_refusal_agrees(verified: Verify) -> None:
    found = verified(logs.V0_6_4_REFUSES, gpu="RTX3090")
    assert (found.log.refusal, found.prediction.fit.starts, found.beyond) == ("no_request", False, ())


def test_refusals_of_v1(verified: Verify) -> None:
    found = verified(logs.refusal("0.24.0", logs.NO_REQUEST.format(apostrophe="'")), gpu="L4")
    assert _row(found, "needed").difference == 0
    assert _row(found, "kv_cache").logged == round(4.51 * GIB)
    assert (_row(found, "estimated_len").logged, _row(found, "starts").share) == (36944, 0)


def test_card_that_is_too_small_is_predicted(verified: Verify) -> None:
    found = verified(logs.refusal("0.19.0", logs.NO_BLOCKS), gpu="T4")
    assert (found.beyond, found.prediction.fit.starts) == ((), False)


def test_refusal_that_is_not_predicted_is_beyond(verified: Verify) -> None:
    found = verified(logs.refusal("0.19.0", logs.NO_FREE_MEMORY))
    assert [row.name for row in found.beyond] == ["starts"]


def test_tolerance_decides(catalog: Catalog) -> None:
    log = read_log([logs.V1_0_24.encode()])
    assert verify_log(log, catalog, tolerance=0.03).beyond == ()
    assert {row.name for row in verify_log(log, catalog, tolerance=0.004).beyond} >= {"kv_cache", "pool", "reserve"}


@pytest.mark.parametrize(
    ("text", "asked", "said"),
    [
        ("", {}, "is not a start-up log of vLLM"),
        ("GET /health 200 OK\n" * 50, {}, "is not a start-up log of vLLM"),
        ("vLLM API server version 0.11.0\n", {}, "ends before anything about memory was written"),
        ("Available KV cache memory: 1.00 GiB\n", {}, "--engine-version"),
        ("Available KV cache memory: 1.00 GiB\n", {"engine_version": "0.19.0"}, "--model"),
        (logs.V1_0_8_5, {}, "--gpu"),
        (logs.V1_0_28.replace("Qwen/Qwen3-14B", "/models/mine"), {}, "/models/mine"),
        (logs.V1_0_28, {"gpu": "H1000"}, "unknown gpu"),
        (logs.V1_0_28, {"model": "nobody/nothing"}, "unknown model"),
        (logs.V1_0_28.replace("(v0.28.0)", "(v0.5.5)"), {}, "0.5.5"),
    ],
)
def test_what_is_missing_is_named(verified: Verify, text: str, asked: dict[str, str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        verified(text, **asked)


def test_unknown_ways_to_quantise_are_refused(verified: Verify) -> None:
    text = logs.V1_0_28.replace("quantization=None", "quantization=bitsandbytes")
    with pytest.raises(NotModelledError, match="bitsandbytes"):
        verified(text)


def test_model_on_disk_is_found_by_its_name(verified: Verify) -> None:
    found = verified(logs.V0_6_2, gpu="L40S")
    assert (found.prediction.named, found.prediction.fit.model) == ("Qwen2.5-7B-Instruct", "Qwen/Qwen2.5-7B-Instruct")

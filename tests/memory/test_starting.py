"""What decides whether a replica starts, by engine version: free memory, the null block, options, estimates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from recommender.catalog.catalog import Catalog
from recommender.memory.calibration import Calibration, Correction
from recommender.memory.capacity import Capacity, Reason, ReplicaColumns, Setting, WorstCase, memory_model
from recommender.memory.engine import engine_constants
from recommender.memory.fit import Fit, Replica, fit_replica
from recommender.units import GIB

Fitting = Callable[..., Fit]
BLOCK = 16 * 131_072  # of Llama 3.1 8B

# Memory that was free when the engine first looked, of the total it saw, GiB (start-up logs of 0.10.2 to 0.29).
FREE_AT_START = (
    ("H100-SXM", "0.19.0", 1, 78.68, 79.19),
    ("H100-SXM", "0.19.0", 2, 77.66, 79.19),
    ("H100-SXM", "0.19.0", 4, 77.64, 79.19),
    ("H200-SXM", "0.10.2", 2, 139.21, 139.81),
    ("GB200", "0.26.0", 4, 181.84, 184.31),
    ("RTXPRO6000-SE", "0.29.0", 1, 94.41, 94.97),
)


def held(catalog: Catalog, gpu: str, version: str, model: str = "llama-3.1-8b", **row: Any) -> Capacity:
    found = catalog.model(model)
    share = row.pop("gpu_memory_utilization", None)
    setting = Setting(
        found, (catalog.gpu(gpu),), ((found.native, None),), ("auto",), "vllm", version, gpu_memory_utilization=share
    )
    blank = dict.fromkeys(ReplicaColumns.__dataclass_fields__, 0)
    full = blank | {"tp": 1, "pp": 1, "ep": 1, "dp": 1, "max_model_len": 8192} | row
    columns = ReplicaColumns(*(np.array([full[name]], dtype=np.int64) for name in blank))
    return memory_model("vllm").capacity(setting, columns, 50, WorstCase())


@pytest.mark.parametrize(("gpu", "version", "tp", "free", "total"), FREE_AT_START)
def test_the_utilization_is_held_against_what_was_free(
    catalog: Catalog, fit: Fitting, gpu: str, version: str, tp: int, free: float, total: float
) -> None:
    gone = engine_constants("vllm", version).context_bytes(catalog.gpu(gpu), tp)
    assert gone == pytest.approx((total - free) * GIB, abs=0.006 * GIB)
    memory = catalog.gpu(gpu).memory_bytes or 0
    for share, starts in ((1 - (gone + GIB // 20) / memory, True), (1 - (gone - GIB // 20) / memory, False)):
        asked = {"tp": tp, "max_model_len": 2048, "max_num_seqs": 8, "gpu_memory_utilization": share}
        found = fit("llama-3.1-8b", gpu, engine_version=version, **asked)
        assert found.starts is starts
        assert starts or "on startup is less than desired GPU memory utilization" in (found.refusal or "")
        reason = held(catalog, gpu, version, tp=tp, max_model_len=2048, gpu_memory_utilization=share).reason[0]
        assert (Reason(int(reason)) == Reason.UTILIZATION) is not starts


@pytest.mark.parametrize("version", ["0.10.2", "0.19.0", "0.28.0"])
def test_before_0_29_it_starts_without_a_block_to_spare_and_says_what_runs(fit: Fitting, version: str) -> None:
    asked = {"max_model_len": 8192, "max_num_seqs": 1, "engine_version": version}
    exact = fit("llama-3.1-8b", "H100-SXM", kv_cache_memory_bytes=512 * BLOCK, **asked)
    assert (exact.starts, exact.max_concurrency, exact.longest_max_model_len) == (True, 1.0, 8176)
    assert [text for text in exact.warnings if "waits for ever; 8,176 tokens are the most that run" in text]
    roomy = fit("llama-3.1-8b", "H100-SXM", kv_cache_memory_bytes=513 * BLOCK, **asked)
    assert (roomy.starts, roomy.longest_max_model_len, roomy.warnings) == (True, 8192, ())


def test_one_block_is_no_pool_since_0_29(fit: Fitting) -> None:
    asked = {"max_model_len": 8192, "max_num_seqs": 1}
    for version, size, said in (
        ("0.29.0", BLOCK, "No available memory for the cache blocks"),
        ("0.33.0", BLOCK, "No available memory for the cache blocks"),
        ("0.33.0", BLOCK + 2**20, "available KV cache memory (0.0 GiB)"),
        ("0.28.0", BLOCK, "available KV cache memory (0.0 GiB)"),
        ("0.28.0", BLOCK - 1, "available KV cache memory (0.0 GiB)"),
    ):
        refused = fit("llama-3.1-8b", "H100-SXM", kv_cache_memory_bytes=size, engine_version=version, **asked)
        assert said in (refused.refusal or "")
        assert "-0.0" not in (refused.refusal or "")


def test_a_pool_by_bytes_needs_a_version_that_takes_the_option(fit: Fitting) -> None:
    asked = {"max_model_len": 8192, "kv_cache_memory_bytes": 10 * GIB}
    for version in ("0.7.3", "0.8.5", "0.10.1"):
        refused = fit("llama-3.1-8b", "H100-SXM", engine_version=version, **asked)
        assert (refused.refusal or "").startswith("unrecognized arguments: --kv-cache-memory-bytes")
    assert fit("llama-3.1-8b", "H100-SXM", engine_version="0.10.2", **asked).starts


@pytest.mark.parametrize("share", [None, 1.0])
def test_a_length_beyond_the_models_own_is_one_reason_everywhere(
    catalog: Catalog, fit: Fitting, share: float | None
) -> None:
    asked = {"max_model_len": 131_073, "gpu_memory_utilization": share}
    assert "greater than the derived max_model_len" in (fit("llama-3.1-8b", "H100-SXM", **asked).refusal or "")
    assert Reason(int(held(catalog, "H100-SXM", "0.33.0", **asked).reason[0])) == Reason.TOO_LONG


@pytest.mark.parametrize(
    ("model", "gpu", "version", "length"),
    [
        ("llama-3.1-8b", "RTX3090", "0.6.4", 60_000),
        ("llama-3.1-8b", "RTX3090", "0.6.4", 29_000),
        ("llama-3.1-8b", "RTX4090", "0.7.3", 100_000),
        ("mistral-nemo", "L40S", "0.7.3", 120_000),
    ],
)
def test_the_length_that_v0_would_start_with_starts(
    fit: Fitting, model: str, gpu: str, version: str, length: int
) -> None:
    refused = fit(model, gpu, max_model_len=length, engine_version=version)
    assert not refused.starts
    assert "estimated maximum model length" not in (refused.refusal or "")
    assert refused.estimated_max_model_len
    assert fit(model, gpu, max_model_len=refused.estimated_max_model_len, engine_version=version).starts


def test_totals_count_a_token_once_for_each_gpu_that_holds_it(fit: Fitting) -> None:
    one = fit("llama-3.1-70b", "H100-SXM", tp=4, max_model_len=8192)
    two = fit("llama-3.1-70b", "H100-SXM", tp=4, dp=2, max_model_len=8192)
    assert one.total.kv_bytes_per_token == two.total.kv_bytes_per_token == 327_680
    assert two.total.weights_bytes == 2 * one.total.weights_bytes
    assert two.total.kv_cache_bytes == 2 * one.total.kv_cache_bytes


def test_totals_sum_the_stages_of_a_pipeline(fit: Fitting) -> None:
    """The oracle of a 70B model over four stages: 33.83, 31.88, 31.88 and 33.83 GiB of parameters."""
    found = fit("llama-3.1-70b", "H100-SXM", tp=1, pp=4, max_model_len=8192)
    assert found.total.kv_bytes_per_token == 327_680
    assert found.total.weights_bytes / GIB == pytest.approx(2 * 33.83 + 2 * 31.88, abs=0.3)
    assert found.total.weights_bytes < 4 * found.weights_bytes


def test_a_calibration_says_whether_it_was_applied(fit: Fitting) -> None:
    row = Correction("vllm", "0.33.0", "Hopper", 1, 1, 10**8, 10**6, 10**6, "H100 of August")
    asked = {"max_model_len": 8192, "calibration": Calibration((row,))}
    assert "calibration applied: measured on H100 of August" in fit("llama-3.1-8b", "H100-SXM", **asked).warnings
    unused = "calibration not used: it has nothing for vllm 0.33.0, Hopper, tp 2"
    assert unused in fit("llama-3.1-8b", "H100-SXM", tp=2, **asked).warnings


def test_unverified_memory_is_said_once(fit: Fitting) -> None:
    said = [text for text in fit("llama-3.1-8b", "L20", max_model_len=8192).warnings if "unverified" in text]
    assert said == ["memory of L20 as seen by the engine is unverified (from memory)"]


@pytest.mark.parametrize(
    ("model", "gpu", "version", "starts"),
    [
        ("Qwen/Qwen2.5-72B-Instruct", "H20-141GB", "0.12.0", True),  # vllm issue 31273: 135 GiB before they shrink
        ("Qwen/Qwen2.5-72B-Instruct", "H20-141GB", "0.13.0", False),
        ("Qwen/Qwen3-30B-A3B", "H100-SXM", "0.12.0", True),
        ("Qwen/Qwen3-30B-A3B", "H100-SXM", "0.14.0", False),  # vllm pull request 32773: it starts in 16 bit
        ("Qwen/Qwen3-30B-A3B", "H100-SXM", "0.16.0", True),
        ("Qwen/Qwen2.5-32B-Instruct", "RTXA6000", "0.12.0", False),  # 61 GiB on a card of 47
        ("Qwen/Qwen2.5-32B-Instruct", "RTXA6000", "0.33.0", True),
    ],
)
def test_what_quantising_at_load_time_holds_must_fit(
    catalog: Catalog, model: str, gpu: str, version: str, starts: bool
) -> None:
    found, card = catalog.model(model), catalog.gpu(gpu)
    asked = {"engine_version": version, "max_model_len": 2048, "max_num_seqs": 8}
    fitted = fit_replica(Replica(found, card, "fp8", None, **asked))  # type: ignore[arg-type]
    assert fitted.starts is starts
    assert starts or "out of memory while loading" in (fitted.refusal or "")
    setting = Setting(found, (card,), (("fp8", None),), ("auto",), "vllm", version)
    blank = dict.fromkeys(ReplicaColumns.__dataclass_fields__, 0)
    full = blank | {"tp": 1, "pp": 1, "ep": 1, "dp": 1, "max_model_len": 2048}
    columns = ReplicaColumns(*(np.array([full[name]], dtype=np.int64) for name in blank))
    reason = memory_model("vllm").capacity(setting, columns, 8, WorstCase()).reason[0]
    assert Reason(int(reason)) == (Reason.FITS if starts else Reason.LOADING)

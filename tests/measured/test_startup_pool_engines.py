"""SGLang and TensorRT-LLM against the start-up logs that were found: arithmetic, default shares, whole predictions."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
import yaml

from recommender.answer import fit
from recommender.memory.engine import DATA
from recommender.memory.fit import Fit
from recommender.units import GIB

ROWS = list(csv.DictReader((Path(__file__).parent / "startup_pool_engines.csv").open()))
PREDICTED = [row for row in ROWS if row["engine"] == "sglang" and row["model"] != "xai-org/grok-2"]
OLDEST = "0.5.1"


def predicted(row: dict[str, str]) -> Fit:
    """The row as this version would start; logs of versions before the first that was read take its rules."""
    version = row["version"] if row["version"] >= OLDEST else OLDEST
    share = float(row["share"]) if row["share_given"] == "yes" else None
    return fit(
        row["model"],
        row["gpu"],
        tp=int(row["tp"]),
        engine="sglang",
        engine_version=version,
        gpu_memory_utilization=share,
    )


@pytest.mark.parametrize(
    "row", [row for row in ROWS if row["free_gib"]], ids=lambda row: f"{row['model']} {row['gpu']}"
)
def test_the_arithmetic_is_that_of_the_log(row: dict[str, str]) -> None:
    free, share, kv = float(row["free_gib"]), float(row["share"]), float(row["kv_gib"])
    loaded = float(row["weights_gib"]) if row["engine"] == "sglang" else 0.0  # the other's is out of `free` already
    assert free * share - loaded == pytest.approx(kv, abs=0.04)


@pytest.mark.parametrize("row", PREDICTED, ids=lambda row: f"{row['model']} {row['gpu']}")
def test_the_pool_is_predicted_within_its_interval(row: dict[str, str]) -> None:
    found = predicted(row)
    assert found.gpu_memory_utilization == float(row["share"])
    assert found.kv_cache_bytes_interval is not None
    low, high = (size / GIB for size in found.kv_cache_bytes_interval)
    if row["gpu"] == "RTX4090":  # 0.7 GiB more were taken before the engine started
        assert low - 0.4 < float(row["kv_gib"]) < low
    else:
        assert low < float(row["kv_gib"]) < high


@pytest.mark.parametrize("row", PREDICTED, ids=lambda row: f"{row['model']} {row['gpu']}")
def test_bytes_of_a_token_are_those_of_the_log(row: dict[str, str]) -> None:
    logged = float(row["kv_gib"]) * GIB / int(row["tokens"])
    assert predicted(row).kv_bytes_per_token == pytest.approx(logged, rel=4e-3)


@pytest.mark.parametrize(("model", "kv_dtype", "tp", "per_token"), [
    ("openai/gpt-oss-120b", "auto", 1, 73_728),
    ("openai/gpt-oss-20b", "auto", 1, 49_152),
    ("deepseek-ai/DeepSeek-R1", "fp8", 8, 35_136),
])  # fmt: skip
def test_bytes_of_a_token_of_tensorrt_llm(model: str, kv_dtype: str, tp: int, per_token: int) -> None:
    found = fit(model, "B200", tp=tp, kv_dtype=kv_dtype, engine="tensorrt-llm", engine_version="1.1.0")
    assert (found.kv_bytes_per_token, found.block_size) == (per_token, 32)


@pytest.mark.parametrize("engine", ["sglang", "tensorrt-llm"])
def test_the_number_of_logs_that_answers_state_is_that_of_the_table(engine: str) -> None:
    stated = yaml.safe_load((DATA / f"{engine}.yaml").read_text())["evidence"]
    count = sum(row["engine"] == engine for row in ROWS)
    assert stated["logs"] == count
    assert stated["text"].startswith(f"{count} published")

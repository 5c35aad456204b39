"""Available KV memory predicted against start-up logs of many versions, cards and models, as a share of the budget."""

from __future__ import annotations

import csv
import re
import statistics
from pathlib import Path

import pytest

from recommender.answer import fit
from recommender.memory.engine_rows import parse_version
from recommender.memory.fit import Fit
from recommender.units import GIB

GPUS = {
    "H100-80GB": "H100-SXM",
    "T4": "T4",
    "RTX 4090 (WSL2)": "RTX4090",
    "RTX PRO 6000": "RTXPRO6000-SE",
    "L40S": "L40S",
    "L40S (46 GB)": "L40S",
    "RTX 5090": "RTX5090",
    "RTX 3090": "RTX3090",
    "H200": "H200-SXM",
    "GB200 (184.31)": "GB200",
}
# Why a row says nothing about the engine that is modelled.
LEFT_OUT = {
    "L127": "its own figures do not add up, and no version is stated",
    "L128": "no version is stated",
    "L039": "activation and available memory are those of a rank that does not sample",
    "L157": "starts eagerly without saying so",
    "L158": "starts eagerly without saying so",
    "L159": "starts eagerly without saying so",
    "L037": "max_num_seqs is not stated and is not the default",
    "L038": "max_num_seqs is not stated and is not the default",
    "L074": "another server around the engine, Mamba state outside the pool",
    "L076": "another server around the engine, Mamba state outside the pool",
    "L091": "weights of a model whose geometry is not public",
    "L013": "weights of a model whose geometry is not public",
    "L160": "a repository that the row does not name",
    "L106": "a repository whose 4-bit list of modules is not public; its budget says 24 GiB of weights",
}


def answered() -> list[tuple[dict[str, str], Fit]]:
    found = []
    for row in csv.DictReader((Path(__file__).parent / "startup_mixed.csv").open()):
        version = re.match(r"~?(\d+\.\d+(?:\.\d+)?)", row["vllm_version"])
        patched = any(word in row["extra"] for word in ("Unsloth", "ffload", "MTP", "spec"))
        if row["id"] in LEFT_OUT or version is None or parse_version(version[1]) < (0, 6, 0):
            continue
        if "fork" in row["vllm_version"] or patched or row["cpu_offload"] or row["gpu_name"] not in GPUS:
            continue
        if not (row["available_kv_gib"] and row["max_model_len"] and row["weights_gib_per_gpu"]):
            continue
        limits = {name: int(float(row[name])) for name in ("max_num_seqs", "max_num_batched_tokens") if row[name]}
        answer = fit(
            row["model_id"],
            GPUS[row["gpu_name"]],
            tp=int(row["tp"]),
            kv_dtype="fp8" if "fp8" in row["kv_cache_dtype"] else "auto",
            max_model_len=int(float(row["max_model_len"])),
            gpu_memory_utilization=float(row["gpu_memory_utilization"]),
            enforce_eager=row["enforce_eager"] == "True",
            engine_version=version[1],
            **limits,
        )
        found.append((row, answer))
    return found


@pytest.fixture(scope="module")
def rows() -> list[tuple[dict[str, str], Fit]]:
    return answered()


def budget_gib(row: dict[str, str]) -> float:
    return float(row["gpu_memory_utilization"]) * float(row["gpu_memory_total_gib"])


def test_everything_predicted(rows: list[tuple[dict[str, str], Fit]]) -> None:
    errors = [
        abs(answer.kv_cache_bytes / GIB - float(row["available_kv_gib"])) / budget_gib(row) for row, answer in rows
    ]
    assert len(errors) == 11
    assert statistics.median(errors) <= 0.008
    assert sorted(errors)[int(0.9 * (len(errors) - 1))] <= 0.02


def test_the_reserve_alone_with_the_logged_weights(rows: list[tuple[dict[str, str], Fit]]) -> None:
    errors = []
    for row, answer in rows:
        left = budget_gib(row) - float(row["weights_gib_per_gpu"]) - answer.reserve_bytes / GIB
        errors.append(abs(left - float(row["available_kv_gib"])) / budget_gib(row))
    assert statistics.median(errors) <= 0.003
    assert sorted(errors)[int(0.9 * (len(errors) - 1))] <= 0.01


def test_the_lower_end_of_the_interval_keeps_its_promise(rows: list[tuple[dict[str, str], Fit]]) -> None:
    for row, answer in rows:
        assert answer.kv_cache_bytes_interval is not None
        low, high = answer.kv_cache_bytes_interval
        assert low <= answer.kv_cache_bytes <= high
        assert low / GIB <= 1.05 * float(row["available_kv_gib"]), row["id"]

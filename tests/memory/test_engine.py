"""Versioned constants: which row holds when, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
import yaml

from recommender.catalog.catalog import Catalog
from recommender.errors import InputError, NotModelledError
from recommender.memory.engine import DATA, engine_constants
from recommender.memory.engine_rows import parse_version


@pytest.mark.parametrize(
    ("version", "share", "charged", "null", "batches"),
    [
        ("0.6.4", 0.90, False, False, 1),
        ("0.19.1", 0.90, False, False, 1),
        ("0.20.0", 0.92, True, False, 1),
        ("0.26.0", 0.92, True, False, 2),
        ("0.29.0", 0.92, True, True, 2),
        (None, 0.92, True, True, 2),
    ],
)
def test_defaults_by_version(version: str | None, share: float, charged: bool, null: bool, batches: int) -> None:
    found = engine_constants("vllm", version)
    assert found.gpu_memory_utilization == share
    assert found.graphs_charged is charged
    assert found.null_block_checked is null
    assert found.in_flight_batches == batches


@pytest.mark.parametrize(
    ("gpu", "version", "length", "expected"),
    [
        ("H100-SXM", "0.33.0", 8192, (1024, 8192)),
        ("B200", "0.33.0", 8192, (1024, 16384)),
        ("B200", "0.27.0", 8192, (1024, 8192)),
        ("MI300X", "0.33.0", 8192, (1024, 16384)),
        ("A100-80GB-SXM", "0.33.0", 8192, (256, 2048)),
        ("GB10", "0.33.0", 8192, (256, 2048)),
        ("L40S", "0.19.0", 8192, (256, 2048)),
        ("T4", "0.9.2", 16_384, (256, 16_384)),
        ("T4", "0.11.0", 16_384, (256, 2048)),
        ("H100-SXM", "0.6.4", 1_000, (256, 2048)),
        ("H100-SXM", "0.6.4", 40_000, (256, 2048)),
    ],
)
def test_scheduler_defaults(gpu: str, version: str, length: int, expected: tuple[int, int], catalog: Catalog) -> None:
    assert engine_constants("vllm", version).scheduler_default(catalog.gpu(gpu), length) == expected


@pytest.mark.parametrize(
    ("version", "name", "quantised", "runner"),
    [
        ("0.19.0", "Qwen/Qwen3-8B", False, "V1"),
        ("0.22.0", "Qwen/Qwen3-8B", False, "V2"),
        ("0.22.0", "Qwen/Qwen3-8B", True, "V1"),
        ("0.22.0", "llama-3.1-8b", False, "V1"),
        ("0.23.0", "llama-3.1-8b", False, "V2"),
        ("0.23.0", "llama-3.1-8b", True, "V1"),
        ("0.24.0", "llama-3.1-8b", True, "V2"),
        ("0.24.0", "google/gemma-3-27b-it", False, "V1"),
        ("0.26.0", "google/gemma-3-27b-it", False, "V2"),
        ("0.26.0", "Qwen/Qwen3-30B-A3B", False, "V1"),
        ("0.26.0", "Qwen/Qwen3.5-27B", False, "V1"),
        ("0.29.0", "Qwen/Qwen3.5-27B", False, "V2"),
        ("0.33.0", "Qwen/Qwen3-30B-A3B", True, "V2"),
    ],
)
def test_which_models_run_on_the_v2_runner(
    version: str, name: str, quantised: bool, runner: str, catalog: Catalog
) -> None:
    assert engine_constants("vllm", version).runner(catalog.model(name), quantised) == runner


def test_v1_needs_compute_capability_8_until_v0_was_removed(catalog: Catalog) -> None:
    t4, l4 = catalog.gpu("T4"), catalog.gpu("L4")
    assert [engine_constants("vllm", v).generation(t4) for v in ("0.7.3", "0.8.5", "0.10.2", "0.11.0")] == [
        "V0",
        "V0",
        "V0",
        "V1",
    ]
    assert [engine_constants("vllm", v).generation(l4) for v in ("0.7.3", "0.8.5")] == ["V0", "V1"]


def test_newer_and_unmeasured_versions_say_so() -> None:
    assert engine_constants("vllm", "0.19.0").extrapolated is None
    assert "no start-up log" in (engine_constants("vllm", "0.33.0").extrapolated or "")
    newer = engine_constants("vllm", "0.40.1")
    assert "newer than 0.33.0" in (newer.extrapolated or "")
    assert replace(newer, version="0.33.0", number=(0, 33, 0), extrapolated=None) == replace(
        engine_constants("vllm", "0.33.0"), extrapolated=None
    )


def test_versions_are_read_as_people_write_them() -> None:
    assert parse_version("v0.8.5.post1") == (0, 8, 5)
    assert parse_version("0.11") == (0, 11, 0)
    with pytest.raises(InputError, match="not a version"):
        engine_constants("vllm", "latest")


def test_old_versions_and_other_engines_are_refused_by_name() -> None:
    with pytest.raises(NotModelledError, match=r"vllm 0\.5\.5 is not modelled: constants begin with 0\.6\.0"):
        engine_constants("vllm", "0.5.5")
    with pytest.raises(NotModelledError, match=r"'llama\.cpp' is not modelled yet"):
        engine_constants("llama.cpp", None)
    with pytest.raises(NotModelledError, match="not modelled yet"):
        engine_constants("../engines/vllm", None)


def test_every_row_of_the_data_has_a_source_and_rises_by_version() -> None:
    data = yaml.safe_load((DATA / "vllm.yaml").read_text(encoding="utf-8"))
    for name, rows in data.items():
        if not isinstance(rows, list) or name == "without_evidence":
            continue
        versions = [parse_version(row["since"]) for row in rows]
        assert all(row["source"] for row in rows), name
        if name != "sampler":
            assert versions == sorted(set(versions)), name

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from recommender.catalog.catalog import Catalog, shipped
from recommender.catalog.index import index_text
from recommender.catalog.validate import summary, usual_prices, validate, validate_catalog
from recommender.errors import InputError


def test_the_shipped_catalog_has_no_fault(catalog: Catalog) -> None:
    assert validate_catalog(shipped("catalogs")) == []
    assert "74 GPUs (61 searched), 1,618 offers" in summary(catalog)


def test_usual_prices_are_medians_over_instance_types(catalog: Catalog) -> None:
    usual = usual_prices(catalog.offers)
    assert 3_000_000 < usual["H100-SXM"] < 5_000_000
    assert "MI355X" not in usual  # too few offers for a median


def _replace(old: str, new: str) -> Callable[[str], str]:
    def change(text: str) -> str:
        assert old in text
        return text.replace(old, new, 1)

    return change


def _twice(text: str) -> str:
    return text + text.splitlines()[-1] + "\n"


BREAKAGES = [
    ("gpus.csv", _twice, "appears twice"),
    ("gpus.csv", _replace(",85029615043,", ",2199023255552,"), "is not a card of 80 GB"),  # the host's memory
    ("gpus.csv", _replace(",22000,30000,40000,", ",32000,30000,40000,"), "prices do not rise"),
    ("offers/aws.csv", _twice, "appears twice"),
    ("offers/lambda.csv", _replace(",53.52,", ",0.08,"), "is implausible"),  # $0.01 for a B200 hour
    ("offers/lambda.csv", _replace(",53.52,", ",5352,"), "is implausible"),
    ("offers/azure.csv", _replace(",0.526,0.149174,", ",0.526,0.526,"), "spot is not below on-demand"),
    ("offers/oci.csv", _replace("oci,", "oracle,"), "'oracle' in this file"),
    ("offers/oci.csv", _replace("2026-10-10", "2026-10"), "YYYY-MM-DD"),
    (
        "offers/oci.csv",
        _replace("BM.GPU.H100.8,global,H100-SXM", "BM.GPU.H100.8,global,H100SXM"),
        "did you mean H100-SXM",
    ),
    ("offers/oci.csv", _replace(",H100-SXM,8,80,", ",H100-SXM,8,640,"), "is not the memory of H100-SXM"),
    ("offers/coreweave.csv", _replace("segment", "segmnet"), "did you mean segment"),
    ("VERSION", _replace("2026-10-10", "2026-10-11"), "is not the newest price date"),
    ("models/index.csv", _replace("qwq", "qwk"), "out of date"),
    ("models/qwen.yaml", _replace("hidden_size: 5120", "hidden_size: many"), "qwen.yaml"),
    ("models/qwen.yaml", _replace("native: bf16", "nativ: bf16"), "nativ"),
    (
        "models/meta-llama.yaml",
        _replace("aliases: [llama-3.1-8b,", "aliases: [gpt-oss-20b, llama-3.1-8b,"),
        "out of date",
    ),
    ("checkpoints.csv", _twice, "appears twice"),
    ("checkpoints.csv", _replace("\nQwen/Qwen3-8B,", "\nqwen/Qwen3-8B,"), "is misspelt"),
    ("checkpoints.csv", _replace(",computed,", ",guessed,"), "'guessed' is not known"),
]


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    shutil.copytree(shipped("catalogs"), tmp_path / "catalogs")
    return tmp_path / "catalogs"


@pytest.mark.parametrize(
    ("file", "change", "expected"), BREAKAGES, ids=lambda value: value if isinstance(value, str) else ""
)
def test_a_broken_copy_is_faulted_in_the_right_file(
    broken: Path, file: str, change: Callable[[str], str], expected: str
) -> None:
    path = broken / file
    path.write_text(change(path.read_text("utf-8")), "utf-8")
    faults = [str(fault) for fault in validate_catalog(broken)]
    assert any(expected in fault and str(broken) in fault for fault in faults), faults


def test_a_current_index_does_not_hide_what_its_entries_lack(broken: Path) -> None:
    path = broken / "models" / "meta-llama.yaml"
    text = path.read_text("utf-8").replace("same_as: meta-llama/", "same_as: meta/", 1)
    path.write_text(text.replace("native: bf16", "native: bf16\nbase: meta-llama/Llama-3.1-8B-Instrukt", 1), "utf-8")
    (broken / "models" / "index.csv").write_text(index_text(broken / "models", []), "utf-8")
    faults = "\n".join(str(fault) for fault in validate_catalog(broken))
    assert "which has no config" in faults
    assert "did you mean meta-llama/Llama-3.1-8B-Instruct?" in faults
    assert "out of date" not in faults


def test_a_trace_that_does_not_add_up_is_faulted(broken: Path) -> None:
    path = broken / "traces" / "alpaca_helix.json"
    data = json.loads(path.read_text("utf-8"))
    data["requests"] += 1
    data["input_tokens"]["quantiles"][0][1] = 10_000
    path.write_text(json.dumps(data), "utf-8")
    (broken / "traces" / "empty.json").write_text("{}")
    faults = "\n".join(str(fault) for fault in validate_catalog(broken))
    assert "cells do not add up" in faults
    assert "quantiles do not rise" in faults
    assert "empty.json: is not a trace" in faults


def test_an_overlay_is_checked_too(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    header = "provider,segment,instance_type,region,gpu,gpus,usd_per_hour_on_demand,as_of,source\n"
    path.write_text(header + "me,neocloud,box,here,B200,8,60,2026-11-01,a quote\n")
    assert "1,619 offers" in validate((str(path),))
    path.write_text(header + "me,neocloud,box,here,B200,8,0.08,2026-11-01,a quote\n")
    with pytest.raises(InputError, match=r"mine\.csv:2: usd_per_hour_on_demand: 0\.0100 USD for one B200 hour"):
        validate((str(path),))

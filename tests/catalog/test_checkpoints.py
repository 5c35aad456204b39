from __future__ import annotations

from pathlib import Path

import pytest

from recommender.catalog.catalog import Catalog
from recommender.catalog.checkpoints import COLUMNS, SIZE_KINDS, read_checkpoints
from recommender.errors import Fault


def test_real_repositories_have_ids_and_computed_ones_have_none(catalog: Catalog) -> None:
    assert all(c.size_kind == "computed" for c in catalog.checkpoints if c.id is None and "named" not in c.notes)
    assert all("/" in c.id for c in catalog.checkpoints if c.id is not None)
    assert sum(c.id is not None for c in catalog.checkpoints) == 268
    assert all(c.source for c in catalog.checkpoints)


def test_a_size_nobody_stated_is_unknown(catalog: Catalog) -> None:
    for checkpoint in catalog.checkpoints:
        assert (checkpoint.bytes_total is None) == (checkpoint.size_kind == "unknown")


def test_the_checkpoints_of_a_model_are_its_own_best_known_size_first(catalog: Catalog) -> None:
    found = catalog.checkpoints_of("llama-3.1-70b")
    ids = {checkpoint.id for checkpoint in found}
    assert "RedHatAI/Meta-Llama-3.1-70B-Instruct-FP8-dynamic" in ids
    assert "hugging-quants/Meta-Llama-3.1-70B-Instruct-AWQ-INT4" in ids
    assert "RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic" not in ids  # the same geometry, another model
    kinds = [SIZE_KINDS.index(c.size_kind) for c in found if c.weights == "int4" and c.id is not None]
    assert kinds == sorted(kinds)


def test_how_a_checkpoint_stores_its_weights(catalog: Catalog) -> None:
    by_id = {checkpoint.id: checkpoint for checkpoint in catalog.checkpoints_of("Qwen/Qwen3-8B")}
    awq = by_id["Qwen/Qwen3-8B-AWQ"]
    assert awq.bytes_total == 6_098_853_560  # 5.68 GiB
    assert awq.size_kind == "repository"
    assert awq.quantisation is not None
    assert (awq.quantisation.method, awq.quantisation.bits, awq.quantisation.group_size) == ("awq", 4, 128)
    assert by_id["Qwen/Qwen3-8B"].quantisation is None


def test_the_cache_dtype_a_repository_declares_is_kept(catalog: Catalog) -> None:
    declared = {c.id: c.kv_declared for c in catalog.checkpoints_of("meta-llama/Llama-3.1-70B-Instruct")}
    assert declared["nvidia/Llama-3.1-70B-Instruct-FP8"] == "fp8"
    assert declared["RedHatAI/Meta-Llama-3.1-70B-Instruct-FP8"] is None


def test_a_repository_whose_config_is_known_is_taken_at_its_word(catalog: Catalog) -> None:
    found = {c.id: c for c in catalog.checkpoints_of("Qwen/Qwen3-235B-A22B")}
    nvfp4 = found["nvidia/Qwen3-235B-A22B-NVFP4"]
    own = catalog.model("nvidia/Qwen3-235B-A22B-NVFP4")
    assert nvfp4.quantisation == own.quantisation
    assert nvfp4.kv_declared == own.kv_declared == "fp8"


def test_a_partly_quantised_release_names_what_it_leaves(catalog: Catalog) -> None:
    found = {checkpoint.id: checkpoint for checkpoint in catalog.checkpoints_of("llama-405b")}
    stored = found["meta-llama/Llama-3.1-405B-Instruct-FP8"].quantisation
    assert stored is not None
    assert "attention" in stored.ignored


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ({"weights": "int3"}, "is not known"),
        ({"method": "none"}, "does not agree"),
        ({"bytes_total": ""}, "does not agree with bytes_total"),
        ({"size_kind": "unknown"}, "does not agree with bytes_total"),
        ({"kv_dtype": "int8"}, "is not known"),
        ({"bytes_total": "4e9"}, "cannot be read"),
    ],
)
def test_a_wrong_cell_is_a_fault(tmp_path: Path, cells: dict[str, str], expected: str) -> None:
    known = {
        "model": "a/b",
        "id": "a/b-AWQ",
        "weights": "int4",
        "method": "awq",
        "group_size": "128",
        "bytes_total": "4000000000",
        "size_kind": "index",
        "source": "its index file",
    }
    path = tmp_path / "checkpoints.csv"
    path.write_text(",".join(COLUMNS) + "\n" + ",".join({**known, **cells}.get(key, "") for key in COLUMNS) + "\n")
    faults: list[Fault] = []
    list(read_checkpoints(path, faults))
    assert any(expected in str(fault) for fault in faults), faults

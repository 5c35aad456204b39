from __future__ import annotations

from pathlib import Path

import pytest

from recommender.catalog.catalog import Catalog
from recommender.catalog.gpus import COLUMNS, read_gpus
from recommender.errors import Fault, InputError

# nvidia-smi totals in MiB of a public fleet (modal-labs/modal-client PR 2797, 2025-01-23).
DRIVER_MIB = {
    "H100-SXM": 81_559,
    "A100-80GB-SXM": 81_920,
    "A100-40GB-SXM": 40_960,
    "A10": 23_028,
    "L40S": 46_068,
    "L4": 23_034,
    "T4": 15_360,
}


def test_every_accelerator_of_the_facts_and_the_half_of_the_double_card(catalog: Catalog) -> None:
    assert len(catalog.gpus) == 74
    assert sum(gpu.engine == "vllm" for gpu in catalog.gpus) == 63
    assert sum(gpu.searched for gpu in catalog.gpus) == 61


@pytest.mark.parametrize("name", DRIVER_MIB)
def test_the_driver_total_lies_just_above_what_the_engine_sees(catalog: Catalog, name: str) -> None:
    gpu = catalog.gpu(name)
    assert gpu.memory_mib_driver == DRIVER_MIB[name]
    assert gpu.memory_bytes is not None
    assert 0.96 < gpu.memory_bytes / (gpu.memory_mib_driver << 20) < 1
    assert gpu.memory_verified


def test_marketing_gigabytes_are_decimal_and_flops_dense(catalog: Catalog) -> None:
    gpu = catalog.gpu("h100-sxm")
    assert gpu.memory_bytes_marketing == 80_000_000_000
    assert gpu.memory_bytes == 85_029_615_043
    assert gpu.bandwidth_bytes_per_s == 3_350_000_000_000
    assert gpu.bf16_flops == 989 * 10**12
    assert gpu.compute_capability == (9, 0)
    assert gpu.multiprocessors == 132


def test_what_the_engine_counts_on_a_double_card_is_one_of_its_devices(catalog: Catalog) -> None:
    card, device = catalog.gpu("MI250X"), catalog.gpu("MI250X-device")
    assert not card.searched
    assert "two devices" in card.notes
    assert device.searched
    assert device.memory_bytes == 65_520 << 20
    assert device.memory_bytes * 2 == card.memory_bytes
    assert device.bandwidth_bytes_per_s == 1_638 * 10**9


def test_what_needs_a_plugin_is_listed_with_the_reason_but_not_searched(catalog: Catalog) -> None:
    for name in ("TPU-v6e", "Trainium2", "Inferentia2", "Gaudi3", "ArcPro-B60"):
        gpu = catalog.gpu(name)
        assert not gpu.searched
        assert "not searched" in gpu.notes


def test_unknown_stays_unknown(catalog: Catalog) -> None:
    rubin = catalog.gpu("VR200")
    assert rubin.engine == "vllm"
    assert rubin.memory_bytes is None
    assert rubin.compute_capability is None
    assert not rubin.searched
    assert catalog.gpu("H20").multiprocessors is None
    assert not catalog.gpu("H100-NVL").memory_verified


def test_an_unknown_name_is_refused_with_those_that_begin_so(catalog: Catalog) -> None:
    with pytest.raises(InputError, match="did you mean H100-PCIe or H100-SXM or H100-NVL"):
        catalog.gpu("H100")
    with pytest.raises(InputError, match="A100-80GB-SXM"):
        catalog.gpu("A100-80-SXM")


def _row(**cells: str) -> str:
    known = {
        "name": "X1",
        "vendor": "nvidia",
        "architecture": "X",
        "engine": "vllm",
        "memory_gb_marketing": "80",
        "memory_confidence": "observed",
        "spec_source": "a data sheet",
    }
    return ",".join({**known, **cells}.get(column, "") for column in COLUMNS)


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ({"memory_bytes_reported": "549755813888"}, "is not a card of 80 GB"),  # the host's memory, in the GPU's column
        ({"memory_mib_driver": "65536"}, "is not a card of 80 GB"),
        ({"compute_capability": "9"}, "major.minor"),
        ({"engine": "vlm"}, "did you mean vllm"),
        ({"bandwidth_gb_per_s": "-3350"}, "cannot be read"),
        ({"bandwidth_gb_per_s": "1e999"}, "cannot be read"),
        ({"memory_gb_marketing": "NaN"}, "cannot be read"),
        ({"name": ""}, "empty"),
        ({"tdp_watts": "62.5"}, "a positive whole number"),
    ],
)
def test_a_wrong_cell_is_named_by_file_line_and_column(tmp_path: Path, cells: dict[str, str], expected: str) -> None:
    path = tmp_path / "gpus.csv"
    path.write_text(",".join(COLUMNS) + "\n" + _row() + "\n" + _row(**cells) + "\n")
    faults: list[Fault] = []
    assert len(list(read_gpus(path, faults))) == 2
    assert faults
    assert all(fault.line == 3 and fault.file == str(path) and fault.key in cells for fault in faults)
    assert expected in str(faults[0])


def test_unreadable_tables_are_faults_not_tracebacks(tmp_path: Path) -> None:
    path = tmp_path / "gpus.csv"
    for text, expected in (
        ("", "column is missing"),
        (",".join((*COLUMNS, "memroy")) + "\n", "unknown column"),
        (",".join((*COLUMNS, "name")) + "\n", "appears twice"),
        (",".join(COLUMNS) + "\nonly,three,cells\n", "3 cells"),
        (",".join(COLUMNS) + '\n"never closed\n', "not readable as CSV"),
    ):
        path.write_text(text)
        faults: list[Fault] = []
        list(read_gpus(path, faults))
        assert any(expected in str(fault) for fault in faults), text
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="UTF-8"):
        list(read_gpus(path, []))
    with pytest.raises(InputError, match="cannot be read"):
        list(read_gpus(tmp_path / "absent.csv", []))

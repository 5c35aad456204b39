from __future__ import annotations

import pytest
from startup_logs import parsed

from recommender.catalog.catalog import Catalog
from recommender.errors import InputError
from recommender.verify.device import Device, device_of


def _device(catalog: Catalog, *lines: str, refused: tuple[str, ...] = ()) -> Device:
    log = parsed("\n".join((*lines, "Available KV cache memory: 1.00 GiB", "")))
    return device_of(log, catalog.gpus, lambda gpu: not gpu.name.startswith(refused) if refused else True)


def _total(gib: str) -> str:
    return f"worker init memory snapshot: torch_peak=0.0GiB, free_memory=1.00GiB, total_memory={gib}GiB, x"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Using default MoE config. E=64,N=1408,device_name=NVIDIA_H100_80GB_HBM3.json", "H100-SXM"),
        ("GPU 0: NVIDIA A100-SXM4-80GB", "A100-80GB-SXM"),
        ("GPU 0: NVIDIA A100 80GB PCIe", "A100-80GB-PCIe"),
        ("Your device 'Tesla T4' (with compute capability 7.5) doesn't support torch.bfloat16", "T4"),
        ("GPU 0: NVIDIA RTX 6000 Ada Generation", "RTX6000-Ada"),
        ("GPU 0: NVIDIA GeForce RTX 4090", "RTX4090"),
        ("|   0  NVIDIA L4                      Off |   00000000:00:03.0 Off |", "L4"),
        ("GPU 0: AMD Instinct MI300X", "MI300X"),
        ("GPU 0: NVIDIA H200", "H200-SXM"),
        ("device_name=NVIDIA_RTX_PRO_6000_Blackwell_Server_Edition,dtype=fp8", "RTXPRO6000-WS"),
    ],
)
def test_names_in_the_log(catalog: Catalog, line: str, expected: str) -> None:
    assert _device(catalog, line).gpu.name == expected


def test_several_types_of_one_name_are_told(catalog: Catalog) -> None:
    assert _device(catalog, "GPU 0: NVIDIA H200").others == ("H200-NVL",)


def test_memory_names_the_nearest_card_and_the_others(catalog: Catalog) -> None:
    found = _device(catalog, _total("79.19"))
    assert found.gpu.name == "H100-SXM"
    assert "H100-PCIe" in found.others


def test_default_of_batched_tokens_excludes_cards(catalog: Catalog) -> None:
    found = _device(catalog, _total("79.25"), refused=("A100",))
    assert (found.gpu.architecture, found.others) == ("Hopper", ("H100-PCIe",))


def test_unlike_any_card(catalog: Catalog) -> None:
    with pytest.raises(InputError, match="RTX4090"):
        _device(catalog, _total("23.99"))
    with pytest.raises(InputError, match="no GPU of the catalog has"):
        _device(catalog, _total("61.00"))


def test_log_that_names_no_card(catalog: Catalog) -> None:
    with pytest.raises(InputError, match="--gpu"):
        _device(catalog)
    with pytest.raises(InputError, match="Quadro RTX 8000"):
        _device(catalog, "Your Quadro RTX 8000 GPU has compute capability 7.5.")

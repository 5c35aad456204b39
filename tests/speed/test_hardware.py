"""Links and arithmetic of cards, as their data sheets have them."""

from __future__ import annotations

import pytest

from recommender.catalog.catalog import Catalog
from recommender.errors import NotModelledError
from recommender.speed.hardware import hardware_of


@pytest.mark.parametrize(
    ("name", "kind", "gb_per_s"),
    [
        ("H100-SXM", "switched", 450),
        ("B200", "switched", 900),
        ("MI300X", "switched", 448),
        ("L40S", "pcie", 31.5),
        ("H100-NVL", "pcie", 63),  # the bridge joins pairs only
        ("A40", "pcie", 31.5),
        ("RTX4090", "staged", 31.5),
        ("RTX6000-Ada", "pcie", 31.5),
    ],
)
def test_links(catalog: Catalog, name: str, kind: str, gb_per_s: float) -> None:
    found = hardware_of(catalog.gpu(name))
    assert found.link == kind
    assert found.link_bytes_per_s == pytest.approx(gb_per_s * 1e9)


@pytest.mark.parametrize(
    ("name", "weights", "tera"),
    [
        ("H100-SXM", "bf16", 989),
        ("H100-SXM", "fp8", 1979),
        ("H100-SXM", "int4", 989),  # weight-only
        ("H100-SXM", "nvfp4", 989),  # no FP4 arithmetic
        ("H100-SXM", "mxfp4", 989),
        ("B200", "nvfp4", 9000),
        ("B200", "mxfp4", 4500),  # 8-bit activations
        ("A100-80GB-SXM", "fp8", 312),  # weight-only
        ("A100-80GB-SXM", "int8", 624),
    ],
)
def test_arithmetic(catalog: Catalog, name: str, weights: str, tera: float) -> None:
    assert hardware_of(catalog.gpu(name)).peak_flops(weights) == tera * 1e12


@pytest.mark.parametrize(
    ("name", "family"),
    [("H200-SXM", "hopper"), ("B300", "blackwell-dc"), ("RTX5090", "blackwell-gfx"), ("A40", "ampere-gfx")],
)
def test_families(catalog: Catalog, name: str, family: str) -> None:
    assert hardware_of(catalog.gpu(name)).family == family


def test_unknown_flops_are_refused_by_name(catalog: Catalog) -> None:
    with pytest.raises(NotModelledError, match=r"MI308X.*16-bit"):
        hardware_of(catalog.gpu("MI308X"))

from __future__ import annotations

from collections import Counter
from datetime import date
from pathlib import Path

import pytest

from recommender.catalog.catalog import Catalog
from recommender.catalog.offers import COLUMNS, Offer, read_offers
from recommender.errors import Fault


def _offer(catalog: Catalog, provider: str, instance_type: str, region: str = "global") -> Offer:
    return next(offer for offer in catalog.offers if offer.key == (provider, instance_type, region))


def test_every_row_of_the_price_lists_is_there(catalog: Catalog) -> None:
    assert len(catalog.offers) == 1618
    assert Counter(offer.segment for offer in catalog.offers) == {
        "hyperscaler": 1124,
        "neocloud": 329,
        "marketplace": 155,
        "serverless": 10,
    }
    assert len({offer.key for offer in catalog.offers}) == 1618


def test_prices_are_exact_micro_dollars_of_the_whole_instance(catalog: Catalog) -> None:
    p5 = _offer(catalog, "aws", "p5.48xlarge", "us-east-1")
    assert (p5.gpu, p5.gpus) == ("H100-SXM", 8)
    assert p5.prices["on_demand"] == 55_040_000
    t4 = _offer(catalog, "azure", "Standard_NC4as_T4_v3", "eastus")
    assert t4.prices == {"on_demand": 526_000, "spot": 149_174}
    assert _offer(catalog, "lambda", "gpu_8x_h100_sxm_80gb").prices["on_demand"] == 31_920_000


def test_figures_nobody_can_order_are_indicative(catalog: Catalog) -> None:
    for offer in catalog.offers:
        if offer.instance_type.startswith(("cheapest-", "median-", "market-")) or "per-chip" in offer.instance_type:
            assert not offer.listed, offer.key
        if not offer.listed:
            assert "indicative: " in offer.notes or "looks like" in offer.notes, offer.key
    assert not _offer(catalog, "vultr", "vultr-l40s-bare-metal-on-demand").listed
    assert not _offer(catalog, "coreweave", "coreweave-h100-sxm-classic").listed
    assert _offer(catalog, "hyperstack", "NVIDIA H100 SXM").listed
    assert _offer(catalog, "oci", "BM.GPU.H100.8").listed


def test_a_spot_price_above_on_demand_is_no_price(catalog: Catalog) -> None:
    for name in ("runpod-a100-sxm-spot", "runpod-h100-sxm-spot", "runpod-rtx-4090-spot"):
        offer = _offer(catalog, "runpod", name)
        assert offer.prices == {}
        assert "spot figure of the source" in offer.notes


def test_what_the_source_marked_is_kept_and_marked(catalog: Catalog) -> None:
    assert sum(offer.stale for offer in catalog.offers) == 142
    placeholder = _offer(catalog, "runpod-community", "AMD Instinct MI300X OAM")
    assert placeholder.stale
    assert not placeholder.listed
    rack = _offer(catalog, "coreweave", "gb200-4x")
    assert rack.minimum_instances == 18
    assert rack.as_of == date(2026, 2, 1)
    assert all(offer.minimum_instances == 1 for offer in catalog.offers if offer is not rack)


def test_every_row_says_where_it_is_from(catalog: Catalog) -> None:
    assert all(offer.source and date(2025, 9, 1) <= offer.as_of <= date(2026, 10, 10) for offer in catalog.offers)


def test_unknown_memory_of_a_host_is_unknown(catalog: Catalog) -> None:
    assert _offer(catalog, "hyperstack", "NVIDIA H100 SXM").ram_bytes is None
    assert _offer(catalog, "aws", "p5.48xlarge", "us-east-1").ram_bytes == 2_048 * 10**9


def _read(tmp_path: Path, catalog: Catalog, **cells: str) -> list[Fault]:
    known = {
        "provider": "acme",
        "segment": "neocloud",
        "instance_type": "acme-8",
        "region": "moon",
        "gpu": "H100-SXM",
        "gpus": "8",
        "as_of": "2026-10-10",
        "source": "a quote",
        "usd_per_hour_on_demand": "20",
    }
    path = tmp_path / "acme.csv"
    path.write_text(",".join(COLUMNS) + "\n" + ",".join({**known, **cells}.get(key, "") for key in COLUMNS) + "\n")
    faults: list[Fault] = []
    list(read_offers(path, {gpu.name: gpu for gpu in catalog.gpus}, faults))
    return faults


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ({"gpu": "H100-SXN"}, "did you mean H100-SXM"),
        ({"gpu_memory_gb": "640"}, "is not the memory of H100-SXM"),
        ({"usd_per_hour_spot": "20"}, "spot is not below on-demand"),
        ({"usd_per_hour_spot": "25.5"}, "spot is not below on-demand"),
        ({"usd_per_hour_on_demand": "0"}, "cannot be read"),
        ({"usd_per_hour_on_demand": "-1"}, "cannot be read"),
        ({"usd_per_hour_on_demand": "$20"}, "cannot be read"),
        ({"usd_per_hour_on_demand": "0.0000001"}, "cannot be read"),
        ({"segment": "neoclouds"}, "did you mean neocloud"),
        ({"as_of": "2026-10"}, "YYYY-MM-DD"),
        ({"as_of": "2026-02-30"}, "YYYY-MM-DD"),
        ({"gpus": ""}, "empty"),
        ({"source": ""}, "empty"),
        ({"listed": "maybe"}, "yes | no"),
    ],
)
def test_a_wrong_cell_is_a_fault(tmp_path: Path, catalog: Catalog, cells: dict[str, str], expected: str) -> None:
    faults = _read(tmp_path, catalog, **cells)
    assert [fault for fault in faults if expected in str(fault) and fault.line == 2], faults


def test_a_right_row_is_none_and_memory_may_be_stated_loosely(tmp_path: Path, catalog: Catalog) -> None:
    assert _read(tmp_path, catalog) == []
    assert _read(tmp_path, catalog, gpu="L4", gpu_memory_gb="23") == []

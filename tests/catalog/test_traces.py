from __future__ import annotations

import json
from pathlib import Path

import pytest

from recommender.catalog.catalog import Catalog
from recommender.catalog.traces import KINDS, read_trace
from recommender.errors import InputError

NAMES = (
    "alpaca_helix",
    "azure_code_2023",
    "azure_conv_2023",
    "mooncake_conversation",
    "mooncake_synthetic",
    "servegen_deepseek_r1",
    "servegen_m_large",
    "servegen_m_mid",
    "servegen_m_small",
    "servegen_mm_image",
    "sharegpt_helix",
    "vidur_arxiv_summarization",
)


def test_all_twelve_data_sets_ship(catalog: Catalog) -> None:
    assert catalog.traces == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_cells_agree_with_the_totals_of_the_source(catalog: Catalog, name: str) -> None:
    trace = catalog.trace(name)
    assert trace.kind in KINDS
    assert trace.licence
    assert sum(count for count, _, _ in trace.cells) == trace.requests
    for side, column in ((trace.input, 1), (trace.output, 2)):
        mean = sum(cell[0] * cell[column] for cell in trace.cells) / trace.requests
        assert mean == pytest.approx(side.mean, rel=0.01)
    assert trace.lengths().maximum_tokens == trace.total.maximum


def test_what_is_partial_is_said(catalog: Catalog) -> None:
    assert catalog.trace("servegen_m_mid").partial == "35 of 109 client files missing"
    assert "35 of 109 client files missing" in str(catalog.trace("servegen_m_mid").lengths().notes)
    assert "text tokens only" in (catalog.trace("servegen_mm_image").partial or "")
    assert catalog.trace("azure_conv_2023").partial is None


def test_arrivals_keep_their_peaks(catalog: Catalog) -> None:
    arrivals = catalog.trace("AZURE_conv_2023").arrivals
    assert arrivals is not None
    assert arrivals["peak_to_mean_60s"] == 1.521
    assert catalog.trace("alpaca_helix").arrivals is None
    diurnal = catalog.trace("servegen_deepseek_r1").diurnal
    assert diurnal is not None
    assert diurnal["max_to_mean"] == 2.655


def test_an_unknown_name_is_refused_with_the_nearest(catalog: Catalog) -> None:
    with pytest.raises(InputError, match="azure_code_2023"):
        catalog.trace("azure_code")


def test_what_is_no_trace_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text("{")
    with pytest.raises(InputError, match="is not JSON"):
        read_trace(path)
    path.write_text(json.dumps({"name": "x"}))
    with pytest.raises(InputError, match="is not a trace"):
        read_trace(path)
    path.write_text("[1, 2]")
    with pytest.raises(InputError, match="is not a trace"):
        read_trace(path)

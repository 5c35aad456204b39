"""The overlays that docs/catalog.md shows are overlays: each block stands in a file and is checked."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from recommender import fit
from recommender.catalog.catalog import load_catalog
from recommender.catalog.validate import validate

DOCUMENT = Path(__file__).parents[2] / "docs" / "catalog.md"
BLOCKS = re.findall(r"```(csv|yaml)\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_each_example_is_an_overlay(number: int, tmp_path: Path) -> None:
    suffix, text = BLOCKS[number]
    path = tmp_path / f"mine.{suffix}"
    path.write_text(text, encoding="utf-8")
    assert "no fault" in str(validate((str(path),)))


def test_the_card_and_the_model_can_be_asked_for(tmp_path: Path) -> None:
    paths = []
    for number, (suffix, text) in enumerate(BLOCKS):
        paths.append(tmp_path / f"{number}.{suffix}")
        paths[-1].write_text(text, encoding="utf-8")
    catalog = load_catalog(tuple(map(str, paths)))
    assert {"my-model-1b"} <= {alias for entry in catalog.models for alias in entry.aliases}
    assert fit("my-model-1b", "MyCard-48GB", max_model_len=8192, catalog=catalog).starts
    assert any(offer.provider == "acme" for offer in catalog.offers)

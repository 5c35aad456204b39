"""Every scenario that ships is answered, proven, and without plans only where that is its point."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from recommender.answer import recommend
from recommender.catalog.catalog import shipped
from recommender.scenario_file.load import load

SHIPPED = sorted(shipped("scenarios").glob("*.yaml"))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_it_is_answered(path: Path) -> None:
    loaded = load(path)
    for scenario in (loaded.scenario, *loaded.variants.values()):
        answer = recommend(replace(scenario, search=replace(scenario.search, plans=1)), loaded.catalog)
        assert answer.status == ("infeasible" if path.stem == "infeasible" else "optimal")
        assert bool(answer.plans) == (path.stem != "infeasible")

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from recommender.catalog.catalog import Catalog, load_catalog
from recommender.memory.fit import Fit, Replica, fit_replica
from recommender.memory.weights import weight_choices

MEASURED = Path(__file__).parents[1] / "measured"


@pytest.fixture(scope="session")
def catalog() -> Catalog:
    return load_catalog()


@pytest.fixture(scope="session")
def measured() -> Path:
    return MEASURED


@pytest.fixture(scope="session")
def fit(catalog: Catalog) -> Callable[..., Fit]:
    """`fit_replica` by names, with the weights a model is published in unless others are named."""

    def by_name(model: str, gpu: str, *, weights: str | None = None, memory_model: str = "vllm", **asked: Any) -> Fit:
        resolved = catalog.resolve(model)
        choices = weight_choices(resolved.model, catalog.checkpoints_of(resolved.model.id), "0.33.0")
        if weights is None and resolved.checkpoint is not None:
            chosen = next(each for each in choices if each.checkpoint == resolved.checkpoint)
        else:
            wanted = weights or resolved.model.native
            chosen = next(each for each in choices if each.weights == wanted)
        replica = Replica(resolved.model, catalog.gpu(gpu), chosen.weights, chosen.checkpoint, **asked)
        return fit_replica(replica, memory_model)

    return by_name

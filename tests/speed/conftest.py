from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from recommender.catalog.catalog import Catalog, shipped_catalog
from recommender.speed.candidates import Candidates
from recommender.speed.constants import Constants, read_parameters
from recommender.speed.families import DATA
from recommender.speed.hardware import Hardware
from recommender.speed.shape import Shape


@pytest.fixture(scope="session")
def catalog() -> Catalog:
    return shipped_catalog()


@pytest.fixture(scope="session")
def measurements_file() -> Path:
    return Path(__file__).parent / "measurements.csv"


@pytest.fixture(scope="session")
def believed() -> Constants:
    """Constants as they are before anything is measured."""
    return Constants(read_parameters(DATA / "parameters.csv"), {})


@pytest.fixture(scope="session")
def rows_of() -> Callable[..., Candidates]:
    """Candidates of one shape on one GPU; any column may be a sequence, the others are repeated."""

    def build(shape: Shape, gpu: Hardware, engine: str = "vllm", **given: float | Sequence[float]) -> Candidates:
        columns: dict[str, float | Sequence[float]] = {
            "tp": 1, "pp": 1, "ep": 1, "dp": 1, "replicas": 1, "prompt_tokens": 1024, "output_tokens": 256,
            "concurrency": 1, "sequences": 1e9, "years": 0, "batched_tokens": 8192,
        } | given  # fmt: skip
        size = max(np.size(value) for value in columns.values())
        whole = ("tp", "pp", "ep", "dp", "replicas")
        filled = {
            name: np.broadcast_to(np.asarray(value, dtype=np.int64 if name in whole else np.float64), (size,)).copy()
            for name, value in columns.items()
        }
        zeros = np.zeros(size, dtype=np.int64)
        return Candidates((shape,), (gpu,), (engine,), shape=zeros, gpu=zeros, engine=zeros, **filled)

    return build

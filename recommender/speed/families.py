"""Which calibration family a model and a GPU belong to: kernels that are written once serve a whole family."""

from __future__ import annotations

import csv
from functools import lru_cache
from pathlib import Path

from recommender.catalog.gpus import Gpu
from recommender.catalog.models import Model

DATA = Path(__file__).parent / "data"
DENSE, OTHER_MOE, OTHER_GPU = "dense", "moe", "other"


def model_family(model: Model) -> str:
    """The family whose constants a model takes; `dense` and `moe` for architectures that have none of their own."""
    own = _families().get(model.architecture)
    return own or (OTHER_MOE if model.experts else DENSE)


def gpu_family(gpu: Gpu) -> str:
    """The family of GPUs with the same tensor cores and kind of memory."""
    capability = gpu.compute_capability
    if capability is not None:
        return _NVIDIA.get(capability, _NVIDIA.get((capability[0], -1), OTHER_GPU))
    return _AMD.get((gpu.target or "")[:5], OTHER_GPU)


# Minor -1 is any other minor of that major version.
_NVIDIA = {
    (7, -1): "volta",
    (8, 0): "ampere-dc",
    (8, 6): "ampere-gfx",
    (8, 9): "ada",
    (9, -1): "hopper",
    (10, -1): "blackwell-dc",
    (12, -1): "blackwell-gfx",
}
_AMD = {"gfx90": "cdna2", "gfx94": "cdna3", "gfx95": "cdna4"}


@lru_cache(maxsize=1)
def _families() -> dict[str, str]:
    with (DATA / "families.csv").open(encoding="utf-8", newline="") as file:
        return {row["architecture"]: row["family"] for row in csv.DictReader(file)}

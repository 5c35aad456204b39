"""From which engine version on a model class is known: the rows of model_classes.csv, each with its source."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from recommender.memory.support import Version, version_numbers

_TABLE = Path(__file__).with_name("model_classes.csv")


@dataclass(frozen=True, slots=True)
class ModelClass:
    """One class of the engine's model registry. `absent` is the newest version read that lacks it, empty for none."""

    architecture: str
    since: str
    absent: str
    source: str

    @property
    def number(self) -> Version:
        """The first version that was read to have it."""
        return version_numbers(self.since)


def model_class(architecture: str) -> ModelClass | None:
    """The row of an architecture; None where no registry was read for it."""
    return _rows().get(architecture)


def refusal_of_class(architecture: str, engine_version: str) -> tuple[str, str] | None:
    """(why this version does not serve the class, source), or None. A class without a row is not refused."""
    row = model_class(architecture)
    if row is None or version_numbers(engine_version) >= row.number:
        return None
    return f"vLLM {engine_version} does not know {architecture}: it needs {row.since} or newer", row.source


def doubt_of_class(architecture: str) -> str | None:
    """What is to be said of a class that no registry was read for."""
    if model_class(architecture) is not None:
        return None
    return f"from which vLLM version on {architecture} is served is not known"


@lru_cache(maxsize=1)
def _rows() -> dict[str, ModelClass]:
    with _TABLE.open(newline="", encoding="utf-8") as lines:
        return {row["architecture"]: ModelClass(**row) for row in csv.DictReader(lines)}

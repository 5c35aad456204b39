"""From which engine version on a model class is known: the rows of an engine's table, each with its source."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import lru_cache

from recommender.memory.support import Version, table_of, version_numbers

ENGINE_NAMES = {"vllm": "vLLM", "sglang": "SGLang", "tensorrt-llm": "TensorRT-LLM"}


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


def model_class(architecture: str, engine: str = "vllm") -> ModelClass | None:
    """The row of an architecture; None where no registry was read for it."""
    return _rows(engine).get(architecture)


def refusal_of_class(architecture: str, engine_version: str, engine: str = "vllm") -> tuple[str, str] | None:
    """(why this version does not serve the class, source), or None. A class without a row is not refused by vLLM, whose
    registries were all read; by the other engines it is.
    """
    row = model_class(architecture, engine)
    if row is None and engine != "vllm":
        return f"{architecture} is not known to be served by {ENGINE_NAMES[engine]}", ""
    if row is None or version_numbers(engine_version) >= row.number:
        return None
    return (
        f"{ENGINE_NAMES[engine]} {engine_version} does not know {architecture}: it needs {row.since} or newer",
        row.source,
    )


def doubt_of_class(architecture: str) -> str | None:
    """What is to be said of a class that no registry was read for."""
    if model_class(architecture) is not None:
        return None
    return f"from which vLLM version on {architecture} is served is not known"


@lru_cache(maxsize=4)
def _rows(engine: str) -> dict[str, ModelClass]:
    with table_of("model_classes", engine).open(newline="", encoding="utf-8") as lines:
        return {row["architecture"]: ModelClass(**row) for row in csv.DictReader(lines)}

"""Which GPU runs what from which engine version on: the rows of an engine's table, each with its source."""

from __future__ import annotations

import csv
import shlex
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from recommender.catalog.gpus import Gpu

_MIB = 2**20

Version = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Support:
    """One row: `verdict` is yes, no or cast (runs as float16). Empty conditions match anything."""

    topic: str  # engine | dtype | weights | kv
    what: str
    vendor: str
    capability_from: tuple[int, int] | None
    capability_to: tuple[int, int] | None
    target: str
    engine_from: Version
    engine_to: Version  # exclusive; empty: no end
    verdict: str
    arguments: tuple[str, ...]
    reserve_bytes: int
    note: str
    source: str

    def covers(self, gpu: Gpu, version: Version) -> bool:
        """Whether the row speaks of this GPU and engine version."""
        if self.vendor and self.vendor != gpu.vendor.casefold():
            return False
        if self.target and self.target != gpu.target:
            return False
        if self.capability_from and self.capability_to:
            capability = gpu.compute_capability
            if capability is None or not self.capability_from <= capability <= self.capability_to:
                return False
        return self.engine_from <= version and (not self.engine_to or version < self.engine_to)


def support(topic: str, what: str, gpu: Gpu, version: Version, engine: str = "vllm") -> Support | None:
    """The row that answers for a GPU and an engine version; None where nobody stated it."""
    rows = _rows(engine).get((topic, what), ())
    return next((row for row in rows if row.covers(gpu, version)), None)


def version_numbers(text: str) -> Version:
    """(0, 10, 1) from `0.10.1`, `0.10.1.post1` or `0.10.1rc2`: the numbers before anything else, always three; a patch
    that is not written is 0. Empty where there is no number.
    """
    numbers: list[int] = []
    for part in text.strip().removeprefix("v").split(".")[:3]:
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        numbers.append(int(digits))
    return (*numbers, 0, 0)[:3] if numbers else ()


def table_of(name: str, engine: str) -> Path:
    """A table of facts of one engine: those of vLLM under the plain name."""
    return Path(__file__).with_name(f"{name}.csv" if engine == "vllm" else f"{name}_{engine}.csv")


@lru_cache(maxsize=4)
def _rows(engine: str) -> dict[tuple[str, str], tuple[Support, ...]]:
    found: dict[tuple[str, str], list[Support]] = {}
    with table_of("compatibility", engine).open(newline="", encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            found.setdefault((row["topic"], row["what"]), []).append(_support(row))
    return {key: tuple(rows) for key, rows in found.items()}


def _support(row: dict[str, str]) -> Support:
    return Support(
        topic=row["topic"],
        what=row["what"],
        vendor=row["vendor"],
        capability_from=_capability(row["capability_from"]),
        capability_to=_capability(row["capability_to"]),
        target=row["target"],
        engine_from=version_numbers(row["engine_from"]),
        engine_to=version_numbers(row["engine_to"]),
        verdict=row["verdict"],
        arguments=tuple(shlex.split(row["arguments"])),
        reserve_bytes=int(row["reserve_mib"] or 0) * _MIB,
        note=row["note"],
        source=row["source"],
    )


def _capability(text: str) -> tuple[int, int] | None:
    if not text:
        return None
    major, minor = text.split(".")
    return int(major), int(minor)

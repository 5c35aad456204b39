"""The start-up logs that constants of the reserve are fitted to: what was logged beside weights and KV cache."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

from recommender.catalog.catalog import Catalog
from recommender.catalog.gpus import Gpu
from recommender.catalog.models import Model
from recommender.memory.engine import DATA
from recommender.memory.engine_rows import Version, parse_version


@dataclass(frozen=True, slots=True)
class StartupLog:
    """One log. GiB per GPU; None where it does not say, or where what it says is not of the GPU that binds.

    `seqs` and `tokens` are the limits it ran with, None where they are neither stated nor the default.
    """

    log: str
    model: Model
    quantised: bool
    gpu: Gpu
    version: str
    tp: int
    pp: int
    seqs: int | None
    tokens: int | None
    activation_gib: float | None
    non_torch_gib: float | None
    graphs_gib: float | None
    source: str

    @property
    def number(self) -> Version:
        """The version as numbers."""
        return parse_version(self.version)


def startup_logs(catalog: Catalog, engine: str = "vllm") -> tuple[StartupLog, ...]:
    """The logs that lie beside the engine's constants."""
    with logs_of(engine).open(newline="", encoding="utf-8") as lines:
        return tuple(_log(catalog, row) for row in csv.DictReader(lines))


def logs_of(engine: str) -> Path:
    """The file of an engine's logs."""
    return DATA / f"{engine}_logs.csv"


def _log(catalog: Catalog, row: dict[str, str]) -> StartupLog:
    found = catalog.resolve(row["model"])
    seqs, tokens = (int(row[name]) if row[name] else None for name in ("max_num_seqs", "max_num_batched_tokens"))
    activation, non_torch, graphs = (
        float(row[name]) if row[name] else None for name in ("activation_gib", "non_torch_gib", "graphs_gib")
    )
    return StartupLog(
        log=row["log"],
        model=found.model,
        quantised=(found.checkpoint.quantisation if found.checkpoint else found.model.quantisation) is not None,
        gpu=catalog.gpu(row["gpu"]),
        version=row["version"],
        tp=int(row["tp"]),
        pp=int(row["pp"]),
        seqs=seqs,
        tokens=tokens,
        activation_gib=activation,
        non_torch_gib=non_torch,
        graphs_gib=graphs,
        source=row["source"],
    )

"""Published measurements of serving speed: one row per run, in the catalog's names, with what was left out and why."""

from __future__ import annotations

import csv
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from pathlib import Path

from recommender.speed.dates import ENGINES, REFERENCE, released, years_after_reference
from recommender.speed.families import DATA

STALE_DAYS = 183
"""A run so long after its engine's release measured the release, not the date."""
_DOUBTFUL = re.compile("SUSPECT|MTP")
_BURST = re.compile("burst|offline")


@dataclass(frozen=True, slots=True)
class Measurement:
    """One run at a stated concurrency. Milliseconds and tokens a second are means; None where not published."""

    id: str
    source: str
    engine: str
    years: float  # of its engine, after the reference date
    gpu: str
    model: str
    weights: str
    kv_dtype: str
    tp: int
    pp: int
    ep: int
    dp: int
    replicas: int
    prompt_tokens: float
    output_tokens: float
    concurrency: float
    ttft_ms: float | None
    tpot_ms: float
    output_tokens_per_s: float | None
    burst: bool  # all requests at once rather than a steady number

    @property
    def group(self) -> tuple[str, str]:
        """What folds keep together: (GPU, model)."""
        return self.gpu, self.model

    @property
    def anchor(self) -> tuple[str, str, str, str]:
        """What shares an anchor: (GPU, model, engine, weights)."""
        return self.gpu, self.model, self.engine, self.weights


@dataclass(frozen=True, slots=True)
class Measurements:
    """Usable rows in file order, and the others counted by the reason they were left out."""

    rows: tuple[Measurement, ...]
    left_out: Mapping[str, int]


def read_measurements(path: Path) -> Measurements:
    """The usable rows of a CSV in the columns of tests/speed/measurements.csv."""
    rows: list[Measurement] = []
    left_out: Counter[str] = Counter()
    with path.open(encoding="utf-8", newline="") as file:
        for cells in csv.DictReader(file):
            found = _measurement(cells)
            if isinstance(found, str):
                left_out[found] += 1
            else:
                rows.append(found)
    return Measurements(tuple(rows), dict(sorted(left_out.items())))


def groups(rows: Iterable[Measurement]) -> tuple[tuple[str, str], ...]:
    """The (GPU, model) groups, sorted."""
    return tuple(sorted({row.group for row in rows}))


def _measurement(cells: Mapping[str, str]) -> Measurement | str:
    """The row, or why it is left out."""
    model, weights = _name("model", cells["model"]), _name("weights", cells["weight_dtype"])
    if cells["engine"] not in ENGINES:
        return "engine not modelled"
    if not model or not weights:
        return "model or dtype not in the catalog"
    if cells["confidence"] == "low" or _DOUBTFUL.search(cells["notes"]):
        return "doubtful: low confidence, folded nodes or speculative decoding"
    tpot = _number(cells["tpot_ms_mean"])
    if tpot is None:
        return "no time per output token"
    concurrency, prompt, output = (_number(cells[key]) for key in ("concurrency", "isl", "osl"))
    if concurrency is None or prompt is None or output is None:
        return "no stated concurrency or lengths"
    rate, ttft = _number(cells["output_tok_s"]), _number(cells["ttft_ms_mean"])
    if rate is not None and ttft is not None and not _agree(rate, ttft, tpot, concurrency, output):
        return "throughput contradicts concurrency and latency"
    tp, pp, ep, replicas = (int(_number(cells[key]) or 1) for key in ("tp", "pp", "ep", "replicas"))
    return Measurement(
        id=cells["id"],
        source=cells["source"],
        engine=cells["engine"],
        years=_years(cells),
        gpu=_name("gpu", cells["gpu"]) or cells["gpu"],
        model=model,
        weights=weights,
        kv_dtype="fp8" if cells["kv_dtype"].startswith("fp8") else "auto",
        tp=tp,
        pp=pp,
        ep=ep,
        dp=implied_dp(tp, pp, ep, 1),
        replicas=replicas,
        prompt_tokens=prompt,
        output_tokens=output,
        concurrency=concurrency,
        ttft_ms=ttft,
        tpot_ms=tpot,
        output_tokens_per_s=rate,
        burst=bool(_BURST.search(cells["notes"])),
    )


def _agree(output_tokens_per_s: float, ttft_ms: float, tpot_ms: float, concurrency: float, output: float) -> bool:
    """Whether rate times latency is within a factor of two of the concurrency (Little's law; runs have ramps)."""
    in_flight = output_tokens_per_s / output * (ttft_ms + (output - 1) * tpot_ms) / 1e3
    return 0.5 <= in_flight / concurrency <= 2


def implied_dp(tp: int, pp: int, ep: int, dp: int) -> int:
    """Data-parallel ranks: an expert-parallel group larger than tp x dp means attention is replicated to fill it."""
    return ep // tp if dp == 1 and pp == 1 and ep > tp and ep % tp == 0 else dp


def _years(cells: Mapping[str, str]) -> float:
    """Age of the engine: the run's date, or its version's where the run has none or came long after."""
    version = released(cells["engine"], cells["engine_version"]) if cells["engine_version"] else None
    run = _day(cells["date"])
    if run is None or (version is not None and (run - version).days > STALE_DAYS):
        run = version
    return years_after_reference(run or REFERENCE)


def _day(text: str) -> date | None:
    parts = [int(part) for part in text.split("-") if part.isdigit()]
    return date(parts[0], parts[1], parts[2] if len(parts) > 2 else 1) if len(parts) > 1 else None


def _number(text: str) -> float | None:
    """A positive finite number, None where the cell is empty or is not one."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value > 0 else None


def _name(kind: str, name: str) -> str | None:
    return _names().get((kind, name))


@lru_cache(maxsize=1)
def _names() -> dict[tuple[str, str], str]:
    with (DATA / "names.csv").open(encoding="utf-8", newline="") as file:
        return {(row["kind"], row["name"]): row["catalog"] for row in csv.DictReader(file)}

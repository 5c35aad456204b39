"""The ladder of one GPU, a line a rung, as text and as JSON."""

from __future__ import annotations

from typing import Any

from recommender.report.grid import grid, page, paragraph
from recommender.report.json_ import SCHEMA_VERSION
from recommender.report.record import plain
from recommender.report.words import hourly
from recommender.search.ladder import Ladder, Step
from recommender.search.rung_one import LengthRung
from recommender.units import plural, usd

_HEAD = ("rung", "adjustment", "GPUs", "tp x n", "weights", "KV", "max len", "KV tokens", "requests", "$/hour", "")
_LEFT = frozenset({1, 4, 5, 10})


def ladder_page(ladder: Ladder) -> str:
    """The rungs, and under them what each costs besides money."""
    title = f"{ladder.model} on {ladder.gpu}: {ladder.asked}, the cheapest adjustment first"
    rows = [_row(step) for step in ladder.steps]
    costs = [
        line
        for step in ladder.steps
        if step.change
        for line in paragraph(f"{step.rung} {step.name.replace('_', '-')} {step.change}: {step.cost}", "- ")
    ]
    saved = paragraph(_length_rung(ladder.length_rung)) if ladder.length_rung else []
    return page([paragraph(title), grid(_HEAD, rows, _LEFT), costs, saved, paragraph(_conclusion(ladder))])


def _length_rung(rung: LengthRung) -> str:
    """Rung 1 as the comparison of two numbers, and what it takes off the need."""
    reach = "all fit here" if rung.holds else "not even at that do all fit here"
    if rung.holds_up_to is not None:
        reach = f"up to {rung.holds_up_to:,} all would still fit here"
    worst = f"In the worst case it frees {_freed(rung.worst_case_tokens)}"
    if rung.statistical_tokens is None:
        real = ""
    else:
        need = "needs" if rung.requests == 1 else "need"
        freed = _freed(rung.statistical_tokens)
        real = f"; of what {plural(rung.requests, 'request')} in flight really {need}, {freed}"
    return f"Rung 1: {rung.shortest:,} is the least that serves the promised share; {reach}. {worst}{real}."


def _freed(tokens: tuple[int, int]) -> str:
    before, after = tokens
    return f"{100 * (before - after) / before:.0f} % ({before:,} -> {after:,} tokens)"


def _row(step: Step) -> tuple[str, ...]:
    return (
        str(step.rung),
        step.name.replace("_", "-"),
        f"{step.gpus:,}",
        f"{step.tp} x {step.replicas}",
        step.weights,
        step.kv_dtype,
        f"{step.max_model_len:,}",
        f"{step.kv_cache_tokens:,}",
        f"{step.requests:,}",
        hourly(step.micro_usd_per_hour),
        "serves" if step.feasible else f"{step.short.partition(' ')[0]} short",
    )


def _conclusion(ladder: Ladder) -> str:
    served = next((step for step in ladder.steps if step.feasible), None)
    if served is None:
        return f"No rung serves {ladder.asked} on this GPU."
    how = f"rung {served.rung} ({served.name.replace('_', '-')} {served.change})" if served.change else "no adjustment"
    return f"The first that serves {ladder.asked}: {how} on {plural(served.gpus, 'GPU')}."


def ladder_record(ladder: Ladder) -> dict[str, Any]:
    """The object that `ladder --format json` prints."""
    steps = [_step(step) for step in ladder.steps]
    return {"schema_version": SCHEMA_VERSION, **plain(ladder), "steps": steps}


def _step(step: Step) -> dict[str, Any]:
    record: dict[str, Any] = plain(step)
    micro, memory = record.pop("micro_usd_per_hour"), record.pop("memory")
    return {**record, "usd_per_hour": None if micro is None else usd(micro), "memory": memory}

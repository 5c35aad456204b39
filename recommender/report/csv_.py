"""Answers and listings as CSV: one row a plan, one row a catalog entry."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Any

from recommender.report.by_hour import COLUMNS as BY_HOUR
from recommender.report.by_hour import by_hour_cells
from recommender.report.json_ import decimal_text
from recommender.report.record import plain
from recommender.report.sizing import COLUMNS, sizing_cells
from recommender.report.speeds import COLUMNS as SPEED_COLUMNS
from recommender.report.speeds import speed_cells
from recommender.search.plan import Plan, Recommendation
from recommender.units import usd, usd_per_month

_TOGETHER = " + "  # between the parts of a mix


def encode(rows: Iterable[Mapping[str, Any]], head: Sequence[str]) -> str:
    """CSV text with a head; an unknown value is an empty cell."""
    text = io.StringIO()
    writer = csv.DictWriter(text, head, lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: cell(value) for key, value in row.items()} for row in rows)
    return text.getvalue()


def cell(value: Any) -> Any:
    """A value as it stands in a cell."""
    if isinstance(value, Decimal):
        return decimal_text(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bool):
        return "true" if value else "false"
    return "; ".join(str(cell(inner)) for inner in value) if isinstance(value, list | tuple) else value


ANSWER_HEAD = (
    "scenario",
    "status",
    "rank",
    "usd_per_hour",
    "usd_per_month",
    "gpus",
    "replicas_total",
    "served_concurrency",
    "headroom",
    "quality_untouched",
    "adjustments",
    "providers",
    "instance_types",
    "regions",
    "counts",
    "markets",
    "prices_as_of",
    "gpu",
    "tp",
    "replicas",
    "weights",
    "checkpoint",
    "kv_dtype",
    "max_model_len",
    "max_num_seqs",
    "max_num_batched_tokens",
    "output_tokens_per_s_upper_bound",
    "launch",
    "warnings",
    *COLUMNS,
    *SPEED_COLUMNS,
    *BY_HOUR,
)


def answers_csv(answers: Mapping[str, Recommendation]) -> str:
    """One row a plan; a scenario without a plan has one row that says so."""
    return encode((row for answer in answers.values() for row in _rows(answer)), ANSWER_HEAD)


def _rows(answer: Recommendation) -> Iterable[dict[str, Any]]:
    about = {"scenario": answer.scenario, "status": answer.status}
    if not answer.plans:
        yield about
    for plan in answer.plans:
        cells = (sizing_cells(answer, plan), speed_cells(plan), by_hour_cells(answer, plan))
        yield about | _plan(plan) | cells[0] | cells[1] | cells[2]


def _plan(plan: Plan) -> dict[str, Any]:
    offers, replicas, micro = plan.offers, plan.replicas, plan.micro_usd_per_hour
    bounds = (group.output_tokens_per_s_bound for group in replicas)
    return {
        "rank": plan.rank,
        "usd_per_hour": None if micro is None else usd(micro),
        "usd_per_month": None if micro is None else usd_per_month(micro),
        "gpus": plan.gpus,
        "replicas_total": plan.replicas_total,
        "served_concurrency": plan.served_concurrency,
        "headroom": round(plan.headroom, 6),
        "quality_untouched": plan.quality_untouched,
        "adjustments": [f"{step.name} {step.change}" for step in plan.adjustments],
        "providers": _mix(purchase.provider for purchase in offers),
        "instance_types": _mix(purchase.instance_type for purchase in offers),
        "regions": _mix(purchase.region for purchase in offers),
        "counts": _mix(purchase.count for purchase in offers),
        "markets": _mix(purchase.market for purchase in offers),
        "prices_as_of": _mix(purchase.as_of for purchase in offers),
        "gpu": _mix(group.gpu for group in replicas),
        "tp": _mix(group.tp for group in replicas),
        "replicas": _mix(group.count for group in replicas),
        "weights": _mix(group.weights for group in replicas),
        "checkpoint": _mix(group.checkpoint or "" for group in replicas),
        "kv_dtype": _mix(group.kv_dtype for group in replicas),
        "max_model_len": _mix(group.max_model_len for group in replicas),
        "max_num_seqs": _mix(group.max_num_seqs for group in replicas),
        "max_num_batched_tokens": _mix(group.max_num_batched_tokens for group in replicas),
        "output_tokens_per_s_upper_bound": _mix("" if bound is None else round(bound, 1) for bound in bounds),
        "launch": _mix(group.launch for group in replicas),
        "warnings": plan.warnings,
    }


def _mix(parts: Iterable[Any]) -> str:
    return _TOGETHER.join(str(cell(part)) for part in parts)


def flat_csv(records: Iterable[Any]) -> str:
    """Dataclasses of one kind as CSV, nested ones under dotted names."""
    rows = [dict(_flat(plain(record))) for record in records]
    return encode(rows, list(rows[0]) if rows else [])


def _flat(record: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for key, value in record.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value

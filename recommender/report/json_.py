"""The answer as JSON: fixed key order, money as exact decimal numbers, the same bytes for the same answer."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Any

from recommender.memory.fit import Fit
from recommender.report.by_hour import by_hour_record
from recommender.report.record import plain
from recommender.report.speeds import plan_record, speed_record
from recommender.search.plan import Certificate, LeftOut, Plan, Purchase, Recommendation, ReplicaGroup, Sizing
from recommender.units import usd, usd_per_month

SCHEMA_VERSION = 1


def encode(value: Any) -> str:
    """JSON text with two spaces of indent. Decimals become numbers with the digits they have, never through a float."""
    return "".join(_pieces(value, "\n")) + "\n"


def _pieces(value: Any, line: str) -> Iterable[str]:
    if isinstance(value, Mapping):
        yield from _collection("{}", [(f"{json.dumps(str(key))}: ", inner) for key, inner in value.items()], line)
    elif isinstance(value, str):
        yield json.dumps(value, ensure_ascii=False)
    elif isinstance(value, Sequence):
        yield from _collection("[]", [("", inner) for inner in value], line)
    elif isinstance(value, Decimal):
        yield decimal_text(value)
    elif isinstance(value, date):
        yield json.dumps(value.isoformat())
    else:
        yield json.dumps(value, allow_nan=False)


def _collection(brackets: str, items: list[tuple[str, Any]], line: str) -> Iterable[str]:
    if not items:
        yield brackets
        return
    yield brackets[0]
    for place, (key, inner) in enumerate(items):
        yield f"{',' if place else ''}{line}  {key}"
        yield from _pieces(inner, f"{line}  ")
    yield f"{line}{brackets[1]}"


def decimal_text(value: Decimal) -> str:
    """Plain digits without trailing zeros: `4.58`, `1200`."""
    if not value.is_finite():
        raise ValueError(f"{value} has no JSON form")
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def answer_record(answer: Recommendation) -> dict[str, Any]:
    """The object that `run --format json` prints for one scenario."""
    return {
        "schema_version": SCHEMA_VERSION,
        "scenario": answer.scenario,
        "question": answer.question,
        "model": answer.model,
        "concurrency": answer.concurrency,
        "rank": answer.rank,
        "as_of": answer.as_of,
        "status": answer.status,
        "certificate": _certificate(answer.certificate),
        "plans": [_plan(plan) for plan in answer.plans],
        "cheapest_quality_untouched": _plan(answer.cheapest_quality_untouched),
        "cheapest_no_checkpoint_needed": _plan(answer.cheapest_no_checkpoint_needed),
        "cheapest_on_fresh_prices": _plan(answer.cheapest_on_fresh_prices),
        "left_out": [_left_out(left) for left in answer.left_out],
        "refusals": [plain(refusal) for refusal in answer.refusals],
        "defaults": dict(answer.defaults),
        "catalog": plain(answer.catalog),
        "warnings": list(answer.warnings),
        "sizing": _sizing(answer.sizing),
        "replays": [plain(replayed) for replayed in answer.replays],
        "by_hour": by_hour_record(answer.by_hour),
    }


def answers_record(answers: Mapping[str, Recommendation]) -> dict[str, Any]:
    """One object for several answers: that of the empty name at the top, the others under `variants`."""
    base = answer_record(answers[""]) if "" in answers else {"schema_version": SCHEMA_VERSION}
    variants = {name: answer_record(answer) for name, answer in answers.items() if name}
    return {**base, "variants": variants} if variants else base


def fit_record(fit: Fit) -> dict[str, Any]:
    """The object that `fit --format json` prints; its keys are those of Fit."""
    return {"schema_version": SCHEMA_VERSION, **plain(fit)}


def _money(micro: int | None) -> Decimal | None:
    return None if micro is None else usd(micro)


def _certificate(certificate: Certificate) -> dict[str, Any]:
    return {
        "bound_usd_per_hour": _money(certificate.bound_micro_usd_per_hour),
        "gap": certificate.gap,
        "candidates": certificate.candidates,
        "feasible_candidates": certificate.feasible_candidates,
        "solver": certificate.solver,
        "cross_check": certificate.cross_check,
        "deterministic_time": certificate.deterministic_time,
        "plans_proven": certificate.plans_proven,
    }


def _sizing(sizing: Sizing | None) -> dict[str, Any] | None:
    if sizing is None:
        return None
    record: dict[str, Any] = plain(sizing)
    for kind in ("statistical", "worst_case"):
        record[f"{kind}_usd_per_hour"] = _money(record.pop(f"{kind}_micro_usd_per_hour"))
    saved = sizing.saved_micro_usd_per_hour
    return {**record, "saved_usd_per_month": None if saved is None else usd_per_month(saved)}


def _plan(plan: Plan | None) -> dict[str, Any] | None:
    if plan is None:
        return None
    micro = plan.micro_usd_per_hour
    return {
        "rank": plan.rank,
        "usd_per_hour": _money(micro),
        "usd_per_month": None if micro is None else usd_per_month(micro),
        "gpus": plan.gpus,
        "replicas_total": plan.replicas_total,
        "served_concurrency": plan.served_concurrency,
        "headroom": round(plan.headroom, 6),
        "quality_untouched": plan.quality_untouched,
        "adjustments": [plain(step) for step in plan.adjustments],
        "offers": [_offer(purchase) for purchase in plan.offers],
        "replicas": [_replica(group) for group in plan.replicas],
        "speed": None if plan.speed is None else plan_record(plan.speed),
        "warnings": list(plan.warnings),
    }


def _offer(purchase: Purchase) -> dict[str, Any]:
    record: dict[str, Any] = plain(purchase)
    micro = record.pop("micro_usd_per_hour")
    first = ("provider", "instance_type", "region", "also_in", "count", "market")
    return {key: record.pop(key) for key in first} | {"usd_per_hour": _money(micro)} | record


def _replica(group: ReplicaGroup) -> dict[str, Any]:
    record: dict[str, Any] = plain(group)
    bound, launch = record.pop("output_tokens_per_s_bound"), record.pop("launch")
    for key in ("speed", "full_speed", "speed_unknown"):
        record.pop(key)
    return {**record, "speed": _speed(group, bound), "launch": launch}


def _speed(group: ReplicaGroup, bound: float | None) -> dict[str, Any]:
    """One replica's speed at the requests it is given, and at those it holds."""
    record: dict[str, Any] = {"output_tokens_per_s_upper_bound": None if bound is None else round(bound, 1)}
    if group.speed is None or group.full_speed is None:
        return {**record, "unknown": group.speed_unknown}
    full = {"concurrency": round(group.full_speed.concurrency), **speed_record(group.full_speed)}
    return {**record, **speed_record(group.speed), "at_capacity": full}


def _left_out(left: LeftOut) -> dict[str, Any]:
    return {
        "what": left.what,
        "how_to_include": left.how_to_include,
        "offers": left.offers,
        "cheapest_usd_per_hour": _money(left.cheapest_micro_usd_per_hour),
        "cheapest": left.cheapest,
        "quality_untouched_usd_per_hour": _money(left.quality_untouched_micro_usd_per_hour),
    }

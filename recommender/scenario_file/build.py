"""The Scenario of a form that has passed every check."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from recommender.memory.calibration import calibration_of
from recommender.scenario import Cap, Limits, OwnCards, Scenario, Search, Sla, Workload
from recommender.scenario_file.forms import RUNGS, AdjustmentsForm, Form, LimitsForm, ScenarioForm
from recommender.workload.lengths import Lengths


def scenario_from_form(form: ScenarioForm, lengths: Lengths, name: str, base_dir: Path) -> Scenario:
    """The scenario, its defaults listed; paths are taken from `base_dir`."""
    return Scenario(
        name=name,
        model=form.model,
        workload=Workload(form.workload.concurrency, lengths),
        sizing=form.sizing.mode,
        epsilon=form.sizing.epsilon,
        sla=Sla(form.sla.served_share),
        search=Search(**{key: getattr(form.search, key) for key in type(form.search).model_fields}),
        limits=_limits(form.limits),
        hardware=tuple(OwnCards(**own.model_dump()) for own in form.hardware),
        forbidden_rungs=_forbidden(form.adjustments),
        rank=form.rank,
        engine=form.engine,
        engine_version=form.engine_version,
        gpu_memory_utilization=form.gpu_memory_utilization,
        enforce_eager=form.enforce_eager,
        max_num_batched_tokens=form.max_num_batched_tokens,
        memory_model=form.memory_model,
        memory_margin=form.memory_margin,
        calibration=None if form.calibration is None else calibration_of(base_dir / form.calibration),
        speed=form.speed,
        as_of=form.as_of,
        group_by=form.group_by,
        catalog_overlays=tuple(str(base_dir / path) for path in form.catalog),
        defaults=tuple(_defaults(form)),
    )


def _limits(form: LimitsForm) -> Limits:
    stock = (
        Cap(cap.instances, "instances", "stock", cap.provider, cap.region, cap.gpu, cap.instance_type)
        for cap in form.stock
    )
    quota = (Cap(cap.gpus, "gpus", "quota", cap.provider, cap.region, cap.gpu, cap.instance_type) for cap in form.quota)
    return Limits(form.usd_per_month, form.watts, (*stock, *quota))


def _forbidden(form: AdjustmentsForm) -> frozenset[str]:
    if form.allow is not None:
        return frozenset(RUNGS) - frozenset(form.allow)
    return frozenset(form.forbid or ())


def _defaults(form: Form, prefix: str = "") -> Iterable[tuple[str, Any]]:
    """(key, value) of everything the file left to us."""
    for key in type(form).model_fields:
        value = getattr(form, key)
        if isinstance(value, Form):
            yield from _defaults(value, f"{prefix}{key}.")
        elif key not in form.model_fields_set and key != "variants":
            yield f"{prefix}{key}", _plain(value)


def _plain(value: Any) -> Any:
    return [_plain(inner) for inner in value] if isinstance(value, tuple | list) else value

"""The Scenario of a form that has passed every check."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recommender.errors import Fault, InputError
from recommender.memory.calibration import calibration_of
from recommender.memory.pool_engine import default_version_of
from recommender.scenario import Cap, Limits, LogFile, OwnCards, OwnRuns, Scenario, Search, Sla, Workload
from recommender.scenario_file.forms import (
    RUNGS,
    AdjustmentsForm,
    AnchorForm,
    Form,
    LimitsForm,
    RateForm,
    ScenarioForm,
    StepForm,
    WorkloadForm,
)
from recommender.scenario_file.service_level import default_speed
from recommender.scenario_file.sizing import default_mode
from recommender.workload.lengths import Lengths, asking
from recommender.workload.replica import StepTime

if TYPE_CHECKING:
    from recommender.speed.cost import Api
    from recommender.workload.prefix import SharedPrefix
    from recommender.workload.rate import Rate


def scenario_from_form(form: ScenarioForm, lengths: Lengths, name: str, base_dir: Path) -> Scenario:
    """The scenario, its defaults listed; paths are taken from `base_dir`."""
    mode = form.sizing.mode or default_mode(form.workload.lengths, form.memory_model)
    sla, version = Sla(**form.sla.model_dump()), _engine_version(form)
    speed = _speed(form, sla)
    filled = {"sizing.mode": mode, "speed": speed, "sla.percentile": "mean", "engine_version": version}
    return Scenario(
        name=name,
        model=form.model,
        workload=_workload(form.workload, lengths, base_dir),
        sizing=mode,
        epsilon=form.sizing.epsilon,
        step_time=_step_time(form.sizing.step_ms),
        step_time_stated="step_ms" in form.sizing.model_fields_set,
        sla=sla,
        search=Search(**{key: getattr(form.search, key) for key in type(form.search).model_fields}),
        limits=_limits(form.limits),
        hardware=tuple(OwnCards(**own.model_dump()) for own in form.hardware),
        forbidden_rungs=_forbidden(form.adjustments),
        rank=form.rank,
        engine=form.engine,
        engine_version=version,
        gpu_memory_utilization=form.gpu_memory_utilization,
        enforce_eager=form.enforce_eager,
        max_num_batched_tokens=form.max_num_batched_tokens,
        memory_model=form.memory_model,
        memory_margin=form.memory_margin,
        calibration=None if form.calibration is None else calibration_of(base_dir / form.calibration),
        speed=speed,
        anchors=_anchors(form, base_dir),
        as_of=form.as_of,
        group_by=form.group_by,
        catalog_overlays=tuple(str(base_dir / path) for path in form.catalog),
        hosted_api=_hosted_api(form),
        defaults=_listed(form, filled, limited=sla.timed),
    )


def _speed(form: ScenarioForm, sla: Sla) -> str:
    rate = form.workload.rate_per_s
    unstated = rate is not None and rate.request_s is None and "step_ms" not in form.sizing.model_fields_set
    return form.speed or default_speed(limited=sla.timed, timed_rate=unstated)


def _hosted_api(form: ScenarioForm) -> Api | None:
    if form.hosted_api is None:
        return None
    from recommender.speed.cost import Api

    return Api(form.hosted_api.usd_per_million_input, form.hosted_api.usd_per_million_output)


def _anchors(form: ScenarioForm, base_dir: Path) -> tuple[OwnRuns, ...]:
    """The runs of every result file. Raises InputError with what is wrong with any of them."""
    found: list[OwnRuns] = []
    faults: list[Fault] = []
    for each in form.anchors:
        try:
            found.append(_own_runs(each, form, base_dir))
        except InputError as error:
            faults += error.faults
    if faults:
        raise InputError(faults)
    return tuple(found)


def _own_runs(form: AnchorForm, scenario: ScenarioForm, base_dir: Path) -> OwnRuns:
    from recommender.speed.benchmarks.read import read_runs
    from recommender.speed.setup import Setup

    path = base_dir / form.file
    sizes = {name: getattr(form, name) for name in ("tp", "pp", "ep", "dp", "replicas", "weights", "kv_dtype")}
    version = form.engine_version or _engine_version(scenario)
    setup = Setup(form.model or scenario.model, form.gpu, engine=scenario.engine, engine_version=version, **sizes)
    return OwnRuns(setup, read_runs(path), str(path))


def _engine_version(form: ScenarioForm) -> str:
    """The version asked for, else the one that answers assume of this engine."""
    if form.engine == "vllm" or "engine_version" in form.model_fields_set:
        return form.engine_version
    return default_version_of(form.engine)


def _workload(form: WorkloadForm, lengths: Lengths, base_dir: Path) -> Workload:
    rate = form.rate_per_s
    return Workload(
        concurrency=form.concurrency,
        lengths=lengths if form.max_tokens is None else asking(lengths, form.max_tokens),
        rate=None if rate is None else _rate(rate),
        request_s=None if rate is None or rate.request_s is None else float(rate.request_s),
        shared_prefix=_prefix(form),
        log=_log(form.lengths.get("trace"), base_dir),
        hourly=tuple(map(float, form.hourly)),
    )


def _rate(form: RateForm) -> Rate:
    from recommender.workload.rate import Rate

    peak = None if form.peak_factor is None else float(form.peak_factor)
    return Rate(float(form.value), peak, tuple(map(float, form.hourly)))


def _prefix(form: WorkloadForm) -> SharedPrefix | None:
    if form.shared_prefix is None:
        return None
    from recommender.workload.prefix import SharedPrefix

    return SharedPrefix(form.shared_prefix.tokens, float(form.shared_prefix.share))


def _log(trace: Any, base_dir: Path) -> LogFile | None:
    """The file behind `lengths: {trace: ...}`."""
    if trace is None:
        return None
    block = trace if isinstance(trace, dict) else {"path": trace}
    columns = tuple(sorted((role, str(column)) for role, column in (block.get("columns") or {}).items()))
    return LogFile(base_dir / str(block["path"]), columns, block.get("timestamp_unit"))


def _step_time(form: StepForm) -> StepTime:
    return StepTime(*(float(each / 1000) for each in (form.base, form.per_decode, form.per_prompt_token)))


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


def _listed(form: ScenarioForm, filled: Mapping[str, str], *, limited: bool) -> tuple[tuple[str, Any], ...]:
    """The defaults that have a say in the answer: step times and confidence only where something is timed by them."""
    rate = form.workload.rate_per_s
    unstated = rate is not None and rate.request_s is None
    timed, predicted = unstated and filled["speed"] == "ignore", unstated and filled["speed"] == "model"
    silent: dict[str, Callable[[Any], bool]] = {
        "workload.": lambda value: value in (None, []),
        "anchors": lambda value: True,
        "hosted_api": lambda value: True,
        "sizing.step_ms.": lambda value: not timed,
        "sla.confidence": lambda value: not (limited or predicted),
        "sla.percentile": lambda value: form.sla.ttft_ms is None,
        "sla.": lambda value: value is None,
    }
    listed = []
    for key, value in _defaults(form):
        rule = next((rule for start, rule in silent.items() if key.startswith(start)), None)
        if rule is None or not rule(value):
            listed.append((key, filled.get(key, value)))
    return tuple(listed)


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

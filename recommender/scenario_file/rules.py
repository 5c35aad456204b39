"""What no single key of a scenario can say: keys that exclude, need or make nonsense of one another."""

from __future__ import annotations

from decimal import Decimal

from recommender.errors import Fault, InputError, NotModelledError
from recommender.memory.engine import engine_constants
from recommender.memory.pool_engine import pool_engine, pool_engines
from recommender.scenario_file.document import Document, Trail
from recommender.scenario_file.service_level import service_level_faults
from recommender.scenario_file.sizing import sizing_faults

# What is modelled for vLLM alone, with the values that have no effect on another engine.
_VLLM_ONLY: dict[Trail, tuple[object, ...]] = {
    ("memory_model",): (None, "vllm"),
    ("calibration",): (None,),
    ("sizing", "mode"): (None, "worst_case", "statistical"),
    ("search", "pp"): (None, [1]),
}


def rule_faults(document: Document) -> dict[Trail, Fault]:
    """The faults between keys."""
    faults = sizing_faults(document) | service_level_faults(document)
    if document.at(("adjustments", "allow")) is not None and document.at(("adjustments", "forbid")) is not None:
        trail: Trail = ("adjustments", "forbid")
        faults[trail] = document.fault(trail, "stands beside allow", expected="one of the two")
    return faults | _hardware_faults(document) | _version_faults(document) | _engine_faults(document)


def _engine_faults(document: Document) -> dict[Trail, Fault]:
    """Keys that another engine than vLLM has no answer to yet."""
    engine = document.at(("engine",))
    if engine not in pool_engines():
        return {}
    return {
        trail: document.fault(trail, f"is not modelled for {engine} yet", expected="engine: vllm, or leave it out")
        for trail, without_effect in _VLLM_ONLY.items()
        if document.at(trail) not in without_effect
    }


def _version_faults(document: Document) -> dict[Trail, Fault]:
    """An engine version that is not known of the engine."""
    trail: Trail = ("engine_version",)
    version, engine = document.at(trail), document.at(("engine",)) or "vllm"
    if not isinstance(version, str | Decimal) or engine not in ("vllm", *pool_engines()):
        return {}
    try:
        engine_constants(engine, str(version)) if engine == "vllm" else pool_engine(engine, str(version))
    except NotModelledError as error:
        return {trail: document.fault(trail, error.faults[0].what)}
    except InputError:  # no version at all, which its own key says
        return {}
    return {}


def _hardware_faults(document: Document) -> dict[Trail, Fault]:
    """Machines that own cards do not fill."""
    faults: dict[Trail, Fault] = {}
    hardware = document.at(("hardware",))
    for place in range(len(hardware) if isinstance(hardware, list) else 0):
        trail: Trail = ("hardware", place, "count")
        count, size = document.at(trail), document.at(("hardware", place, "gpus_per_instance"))
        if isinstance(count, int) and isinstance(size, int) and size > 0 and count % size:
            what = f"{count} cards do not fill machines of {size}"
            faults[trail] = document.fault(trail, what, expected=f"a multiple of {size}")
    return faults

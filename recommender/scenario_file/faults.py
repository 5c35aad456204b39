"""Every fault of a scenario file in the order of its lines, each with what was expected and the nearest valid value."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, get_args

from pydantic import ValidationError

from recommender.errors import Fault, nearest, show
from recommender.scenario_file.document import Document, Trail
from recommender.scenario_file.forms import Form, ScenarioForm
from recommender.scenario_file.later import later_key_fault
from recommender.scenario_file.meant import chosen_instead, meant_key, meant_lengths

_SHAPES = {
    "model_type": "a mapping",
    "dict_type": "a mapping",
    "list_type": "a list",
    "too_short": "at least one value",
}


def form_faults(document: Document, error: ValidationError) -> dict[Trail, Fault]:
    """What pydantic found, as faults of the file. Keys whose value could not even be read are not reported twice."""
    faults: dict[Trail, Fault] = {}
    for found in error.errors(include_url=False):
        trail = _written(document, found["loc"])
        if trail not in document.faults:
            faults[trail] = _fault(document, trail, found)
    return faults


def _written(document: Document, trail: Trail) -> Trail:
    """The trail without the index that a single value got when it was read as a list of one."""
    return tuple(
        step
        for place, step in enumerate(trail)
        if isinstance(step, str) or isinstance(document.at(trail[:place]), list)
    )


def _fault(document: Document, trail: Trail, found: Any) -> Fault:
    kind, context = found["type"], found.get("ctx", {})
    if kind == "extra_forbidden":
        return later_key_fault(document, trail) or _unknown_key(document, trail)
    if kind == "missing":
        return document.fault(trail, "is missing", expected=_description(trail))
    if kind == "value":
        return document.fault(trail, context["what"], context["expected"], context["suggestion"])
    suggestion = meant_lengths(found["input"]) if trail[-1:] == ("lengths",) else None
    return document.fault(trail, f"{show(found['input'])} is not valid", _SHAPES.get(kind, found["msg"]), suggestion)


def _unknown_key(document: Document, trail: Trail) -> Fault:
    if instead := chosen_instead(trail):
        return document.fault(trail, "is not a key of a scenario", instead)
    if meant := meant_key(trail):
        return document.fault(trail, "is not a known key", suggestion=meant)
    key, siblings = str(trail[-1]), list(_form_at(trail[:-1]).model_fields)
    near = nearest(key, siblings)
    elsewhere = [path for path in scenario_keys() if path.rsplit(".", 1)[-1] == key]
    suggestion = elsewhere[0] if elsewhere else near[0] if near else None
    return document.fault(trail, "is not a known key", None if suggestion else " | ".join(siblings), suggestion)


def _description(trail: Trail) -> str:
    description = _form_at(trail[:-1]).model_fields[str(trail[-1])].description or ""
    return description.rstrip(".").lower()


def _form_at(trail: Trail) -> type[Form]:
    form: type[Form] = ScenarioForm
    for step in trail:
        if isinstance(step, str):
            form = _inner_form(form.model_fields[step].annotation) or form
    return form


def _inner_form(annotation: Any) -> type[Form] | None:
    """The form that a key holds, directly, in a list, or as one of what it may be."""
    for inner in get_args(annotation) or (annotation,):
        if isinstance(inner, type) and issubclass(inner, Form):
            return inner
    return None


def scenario_keys(form: type[Form] = ScenarioForm, prefix: str = "") -> tuple[str, ...]:
    """Every key of a scenario, dotted, in the order of the schema; those of list items under the list's name."""
    keys: list[str] = []
    for name, field in form.model_fields.items():
        inner = _inner_form(field.annotation)
        keys.append(prefix + name)
        if inner is not None:
            keys.extend(scenario_keys(inner, f"{prefix}{name}."))
    return tuple(keys)


def in_order(faults: Iterable[Fault]) -> list[Fault]:
    """The faults by line, each once."""
    return sorted(dict.fromkeys(faults), key=lambda fault: (fault.line or 0, fault.key or "", fault.what))

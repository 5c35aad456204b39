"""A Scenario from a file or a mapping, or one report of everything that is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from recommender.catalog.catalog import Catalog, shipped_catalog
from recommender.errors import Fault, InputError
from recommender.scenario import Scenario
from recommender.scenario_file.build import scenario_from_form
from recommender.scenario_file.document import Document, Trail, dotted, read_document
from recommender.scenario_file.faults import form_faults, in_order
from recommender.scenario_file.forms import KEYS, ScenarioForm
from recommender.scenario_file.later import later_key_fault
from recommender.scenario_file.names import name_faults, with_names_of
from recommender.scenario_file.rules import rule_faults
from recommender.workload.forms import lengths_from_form
from recommender.workload.lengths import Lengths

_LENGTHS: Trail = ("workload", "lengths")
_REPLACED_WHOLE = ("lengths", "adjustments")  # a patch of these means "this instead", not "this too"


@dataclass(frozen=True, slots=True)
class Loaded:
    """A scenario, its variants by name, and the catalog they are answered from."""

    scenario: Scenario
    variants: dict[str, Scenario]
    catalog: Catalog


def load(path: str | Path) -> Loaded:
    """What a file asks, and the catalog it names. Raises InputError with the faults of all of it."""
    document = read_document(path)
    name, base_dir = Path(path).stem, Path(path).parent
    faults: list[Fault] = []
    catalog = _catalog(document, base_dir, faults)
    readings = {"": _Reading(document, name, base_dir, catalog)}
    variants = document.at(("variants",))
    for variant in variants if isinstance(variants, dict) else ():
        faults.extend(_variant_faults(document, variant))
        if isinstance(variants[variant], dict) and variant:
            readings[variant] = _Reading(_patched(document, variant), f"{name}: {variant}", base_dir, catalog)
    faults.extend(fault for reading in readings.values() for fault in reading.faults)
    if faults or catalog is None:
        raise InputError(in_order(faults))
    scenarios = {key: reading.scenario() for key, reading in readings.items()}
    return Loaded(scenarios.pop(""), scenarios, catalog)


def scenario_from_mapping(value: dict[str, Any], name: str, catalog: Catalog, base_dir: Path | None = None) -> Scenario:
    """The scenario that a mapping with the keys of a scenario file describes. Raises InputError with every fault."""
    reading = _Reading(Document("", value, {}), name, base_dir or Path(), catalog)
    if reading.faults:
        raise InputError(in_order(replace(fault, file=None) for fault in reading.faults))
    return reading.scenario()


def _catalog(document: Document, base_dir: Path, faults: list[Fault]) -> Catalog | None:
    """The shipped catalog with the file's overlays; None, and faults, where they are unfit."""
    overlays = document.at(("catalog",))
    listed = overlays if isinstance(overlays, list) else [overlays]
    paths = tuple(str(base_dir / overlay) for overlay in listed if isinstance(overlay, str))
    try:
        return shipped_catalog(paths)
    except InputError as error:
        faults.extend(error.faults)
        return None


class _Reading:
    """One scenario being read: its form, its lengths and its faults."""

    def __init__(self, document: Document, name: str, base_dir: Path, catalog: Catalog | None) -> None:
        self._name, self._base_dir = name, base_dir
        self._form: ScenarioForm | None = None
        document = with_names_of(catalog, document) if catalog else document
        faults = dict(document.faults)
        try:
            self._form = ScenarioForm.model_validate(_without_empty(document.value))
        except ValidationError as error:
            faults |= form_faults(document, error)
        faults |= rule_faults(document)
        faults |= name_faults(document, catalog) if catalog else {}
        self._lengths, about_lengths = _lengths(document, base_dir, catalog)
        unread = [dotted(trail) for trail in document.faults]
        self.faults = [*faults.values(), *(each for each in about_lengths if not _within(each.key, unread))]

    def scenario(self) -> Scenario:
        """The scenario; only where there are no faults."""
        if self._form is None or self._lengths is None:
            raise InputError(self.faults)
        return scenario_from_form(self._form, self._lengths, self._name, self._base_dir)


def _lengths(document: Document, base_dir: Path, catalog: Catalog | None) -> tuple[Lengths | None, Iterable[Fault]]:
    form = document.at(_LENGTHS)
    later = [later_key_fault(document, (*_LENGTHS, word)) for word in form] if isinstance(form, dict) else []
    if not isinstance(form, dict) or any(later):
        return None, [fault for fault in later if fault]
    if "max_tokens" in form:
        trail: Trail = (*_LENGTHS, "max_tokens")
        return None, [document.fault(trail, "stands beside lengths, not in them", suggestion="workload.max_tokens")]
    trace_lookup = None if catalog is None else lambda name: catalog.trace(name).lengths()
    try:
        return lengths_from_form(_with_floats(form), base_dir, trace_lookup=trace_lookup, key="workload.lengths"), ()
    except InputError as error:
        return None, [_placed(document, fault) for fault in error.faults]


def _within(key: str | None, unread: Iterable[str]) -> bool:
    """Whether a fault is about a value that could not even be read."""
    return key is not None and any(each.startswith(key) for each in unread)


def _placed(document: Document, fault: Fault) -> Fault:
    """A fault of the lengths with its line in the file."""
    trail = tuple(step for step in re.split(r"[.\[\]]+", fault.key or "") if step)
    what = f"{fault.file}: {fault.what}" if fault.file else fault.what
    return replace(fault, what=what, file=document.file, line=document.line(trail))


def _with_floats(value: Any) -> Any:
    """The value with fractions as floats: lengths are statistics, not money."""
    if isinstance(value, dict):
        return {key: _with_floats(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_with_floats(inner) for inner in value]
    return float(value) if isinstance(value, Decimal) else value


def _without_empty(value: Any, *, names: bool = False) -> Any:
    """The value without the keys that are left empty: an empty key means its default.

    Unknown ones stay, to be named as faults; keys that are `names` of one's own say elsewhere that they are empty.
    """
    if isinstance(value, dict):
        kept = {key: inner for key, inner in value.items() if inner is not None or not (names or key in KEYS)}
        return {key: _without_empty(inner, names=key == "variants") for key, inner in kept.items()}
    return [_without_empty(inner) for inner in value] if isinstance(value, list) else value


def _patched(document: Document, variant: str) -> Document:
    """The document with one variant's patch applied, the patch's own lines kept."""
    prefix: Trail = ("variants", variant)
    patch = document.at(prefix)
    base = {key: value for key, value in document.value.items() if key != "variants"}
    lines = document.lines | {
        trail[2:]: line for trail, line in document.lines.items() if trail[:2] == prefix and len(trail) > 2
    }
    return Document(document.file, _merged(base, patch), lines, document.faults)


def _merged(base: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in patch.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merged(merged[key], value) if both and key not in _REPLACED_WHOLE else value
    return merged


def _variant_faults(document: Document, variant: str) -> Iterable[Fault]:
    """Variants without a name or a key of their own, and keys that a variant cannot change."""
    if not variant.strip():
        yield document.fault(("variants", variant), "has no name", expected="a word before the colon")
    if variant.strip() and document.at(("variants", variant)) in (None, {}):
        expected = "the keys in which it differs from the scenario"
        yield document.fault(("variants", variant), "is empty", expected=expected)
    for key in ("catalog", "variants"):
        trail: Trail = ("variants", variant, key)
        if document.at(trail) is not None:
            yield document.fault(trail, "cannot differ between variants", expected="the key in the scenario itself")

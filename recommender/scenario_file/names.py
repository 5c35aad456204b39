"""Names of a scenario that the catalog does not know, each with the nearest one that it does."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from recommender.catalog.catalog import Catalog
from recommender.errors import Fault, InputError, nearest, show
from recommender.scenario_file.document import Document, Trail


def name_faults(document: Document, catalog: Catalog) -> dict[Trail, Fault]:
    """Unknown models, GPUs, providers, regions and instance types."""
    known = _known(catalog)
    faults: dict[Trail, Fault] = {}
    for kind, trail in _places(document):
        name = document.at(trail)
        if isinstance(name, str) and name not in known[kind]:
            what = f"{show(name)} is no {_WORDS.get(kind, kind)} of the catalog"
            faults[trail] = document.fault(trail, what, suggestion=_suggestion(name, known[kind]))
    return faults | _model_fault(document, catalog)


_WORDS = {"gpu": "GPU", "instance_type": "instance type"}


def _suggestion(name: str, known: Sequence[str]) -> str | None:
    """All of a family where the name is that of one (`H100`), else the one name that is spelled most like it."""
    folded = name.strip().casefold()
    family = [each for each in known if folded in re.split(r"[-_./ ]", each.casefold())]
    return " or ".join(family[:4] or nearest(name, known)) or None


def with_names_of(catalog: Catalog, document: Document) -> Document:
    """The document with names that differ from the catalog's by no more than case written as there."""
    known = {kind: {name.casefold(): name for name in names} for kind, names in _known(catalog).items()}
    value = document.value
    for kind, trail in _places(document):
        name = document.at(trail)
        written = known[kind].get(name.strip().casefold()) if isinstance(name, str) else None
        if written is not None and written != name:
            value = _replaced(value, trail, written)
    return replace(document, value=value)


def _replaced(value: Any, trail: Trail, new: str) -> Any:
    """A copy of the containers along a trail with another value at its end."""
    if not trail:
        return new
    copy = value.copy()
    copy[trail[0]] = _replaced(value[trail[0]], trail[1:], new)
    return copy


def _known(catalog: Catalog) -> dict[str, list[str]]:
    return {
        "gpu": [gpu.name for gpu in catalog.gpus],
        "provider": sorted({offer.provider for offer in catalog.offers}),
        "region": sorted({offer.region for offer in catalog.offers}),
        "instance_type": sorted({offer.instance_type for offer in catalog.offers}),
    }


def _places(document: Document) -> Iterable[tuple[str, Trail]]:
    """(kind, key) of every name in the file."""
    for kind in ("gpu", "provider", "region"):
        yield from ((kind, trail) for trail in _items(document, ("search", f"{kind}s")))
    for limit in ("stock", "quota"):
        for item in _items(document, ("limits", limit)):
            yield from ((kind, (*item, kind)) for kind in ("gpu", "provider", "region", "instance_type"))
    for own in ("hardware", "anchors"):
        yield from (("gpu", (*item, "gpu")) for item in _items(document, (own,)))


def _items(document: Document, trail: Trail) -> Iterable[Trail]:
    """The keys of a list's items; of the value itself where it is no list."""
    value = document.at(trail)
    return [(*trail, place) for place in range(len(value))] if isinstance(value, list) else [trail]


def _model_fault(document: Document, catalog: Catalog) -> dict[Trail, Fault]:
    name = document.at(("model",))
    if not isinstance(name, str):
        return {}
    try:
        catalog.resolve(name)
    except InputError as error:
        first = error.faults[0]
        what = ": ".join(part for part in (first.file, first.file and first.key, first.what) if part)
        return {("model",): document.fault(("model",), what, first.expected, first.suggestion)}
    return {}

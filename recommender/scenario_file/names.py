"""Names of a scenario that the catalog does not know, each with the nearest one that it does."""

from __future__ import annotations

from collections.abc import Iterable

from recommender.catalog.catalog import Catalog
from recommender.errors import Fault, InputError, nearest
from recommender.scenario_file.document import Document, Trail


def name_faults(document: Document, catalog: Catalog) -> dict[Trail, Fault]:
    """Unknown models, GPUs, providers, regions and instance types."""
    known = {
        "gpu": [gpu.name for gpu in catalog.gpus],
        "provider": sorted({offer.provider for offer in catalog.offers}),
        "region": sorted({offer.region for offer in catalog.offers}),
        "instance_type": sorted({offer.instance_type for offer in catalog.offers}),
    }
    faults: dict[Trail, Fault] = {}
    for kind, trail in _places(document):
        name = document.at(trail)
        if isinstance(name, str) and name not in known[kind]:
            near = nearest(name, known[kind])
            what = f"{name!r} is no {kind.replace('_', ' ')} of the catalog"
            faults[trail] = document.fault(trail, what, suggestion=near[0] if near else None)
    return faults | _model_fault(document, catalog)


def _places(document: Document) -> Iterable[tuple[str, Trail]]:
    """(kind, key) of every name in the file."""
    for kind in ("gpu", "provider", "region"):
        yield from ((kind, trail) for trail in _items(document, ("search", f"{kind}s")))
    for limit in ("stock", "quota"):
        for item in _items(document, ("limits", limit)):
            yield from ((kind, (*item, kind)) for kind in ("gpu", "provider", "region", "instance_type"))
    for item in _items(document, ("hardware",)):
        yield "gpu", (*item, "gpu")


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

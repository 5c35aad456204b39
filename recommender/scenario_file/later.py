"""Keys that are known but not answered yet: refused by name, with what to use instead."""

from __future__ import annotations

from recommender.errors import Fault
from recommender.scenario_file.document import Document, Trail

_CONCURRENCY = "workload.concurrency, the requests at once"
_SPREAD = "nothing: data-parallel attention and spread experts are always tried for mixtures of experts"

_MERGED = "a checkpoint with the adapter merged: adapters of their own take memory before the cache, not counted yet"

LATER_KEYS = {
    "lora": _MERGED,
    "workloads": "`workload`, one model a scenario",
    "sla.queueing": _CONCURRENCY,
    "search.dp": _SPREAD,
    "search.ep": _SPREAD,
}


def later_key_fault(document: Document, trail: Trail) -> Fault | None:
    """The refusal of a key that belongs to a later version; None where it is no such key."""
    instead = LATER_KEYS.get(".".join(step for step in trail if isinstance(step, str)))
    return document.fault(trail, "is not modelled yet", expected=instead) if instead else None

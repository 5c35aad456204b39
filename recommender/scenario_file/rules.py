"""What no single key of a scenario can say: keys that exclude, need or make nonsense of one another."""

from __future__ import annotations

from recommender.errors import Fault
from recommender.scenario_file.document import Document, Trail


def rule_faults(document: Document) -> dict[Trail, Fault]:
    """The faults between keys."""
    faults: dict[Trail, Fault] = {}
    form, sizing = document.at(("workload", "lengths")), document.at(("sizing", "mode"))
    if isinstance(form, dict) and form and "fixed" not in form and sizing is None:
        what = "must be written where lengths are a distribution"
        faults["sizing",] = document.fault(("sizing",), what, expected="sizing: {mode: worst_case}")
    if document.at(("sizing", "epsilon")) is not None and sizing in (None, "worst_case"):
        trail: Trail = ("sizing", "epsilon")
        faults[trail] = document.fault(
            trail, "has no effect: sizing for the worst case takes no risk", expected="no epsilon"
        )
    if document.at(("adjustments", "allow")) is not None and document.at(("adjustments", "forbid")) is not None:
        trail = ("adjustments", "forbid")
        faults[trail] = document.fault(trail, "stands beside allow", expected="one of the two")
    return faults | _hardware_faults(document)


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

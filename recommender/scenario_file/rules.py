"""What no single key of a scenario can say: keys that exclude, need or make nonsense of one another."""

from __future__ import annotations

from recommender.errors import Fault
from recommender.scenario_file.document import Document, Trail
from recommender.scenario_file.sizing import sizing_faults


def rule_faults(document: Document) -> dict[Trail, Fault]:
    """The faults between keys."""
    faults = sizing_faults(document)
    if document.at(("adjustments", "allow")) is not None and document.at(("adjustments", "forbid")) is not None:
        trail: Trail = ("adjustments", "forbid")
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

"""Constants that are fitted to start-up logs, and where an engine's data file says `fitted` for them.

The file beside it (`vllm_fitted.csv`) is written by `python -m recommender.memory.refit`; nobody edits it by hand.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WORD = "fitted"
HEADER = ("key", "since", "field", "place", "value", "logs", "how")


@dataclass(frozen=True, slots=True)
class Fitted:
    """One constant: its place in the data file (`place` in a list, else 0), its value and from how many logs."""

    key: str
    since: str
    field: str
    place: int
    value: str
    logs: int
    how: str

    @property
    def at(self) -> tuple[str, str, str, int]:
        """Its place in the data file."""
        return self.key, self.since, self.field, self.place


def read_fitted(path: Path) -> tuple[Fitted, ...]:
    """The constants of a file that `write_fitted` wrote; none where there is no such file."""
    if not path.is_file():
        return ()
    with path.open(newline="", encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    return tuple(
        Fitted(
            row["key"],
            row["since"],
            row["field"],
            int(row["place"]),
            row["value"],
            int(row["logs"]),
            row["how"],
        )
        for row in rows
    )


def write_fitted(path: Path, found: Iterable[Fitted]) -> None:
    """Write them, sorted by place."""
    with path.open("w", newline="", encoding="utf-8") as lines:
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerow(HEADER)
        writer.writerows([getattr(each, name) for name in HEADER] for each in sorted(found, key=lambda each: each.at))


def places(data: Mapping[str, Any]) -> list[tuple[str, str, str, int]]:
    """Everything a data file leaves to the fit."""
    return [
        (key, row["since"], field, place)
        for key, rows in data.items()
        if isinstance(rows, list)
        for row in rows
        for field, value in row.items()
        for place, word in enumerate(value if isinstance(value, list) else [value])
        if word == WORD
    ]


def filled_in(data: Mapping[str, Any], found: Iterable[Fitted]) -> dict[str, Any]:
    """The data with every `fitted` replaced by its value. KeyError where one was never fitted."""
    values = {each.at: each.value for each in found}

    def of(key: str, since: str, field: str, value: Any) -> Any:
        if isinstance(value, list):
            return [values[key, since, field, at] if word == WORD else word for at, word in enumerate(value)]
        return values[key, since, field, 0] if value == WORD else value

    return {
        key: [{field: of(key, row["since"], field, value) for field, value in row.items()} for row in rows]
        if isinstance(rows, list)
        else rows
        for key, rows in data.items()
    }

"""One row of a catalog table, read with every fault named by file, line and column."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from pathlib import Path

from recommender.errors import Fault, InputError, nearest

# A plain decimal of bounded size: no sign, exponent, NaN or digit of another script.
_PLAIN = re.compile(r"\d{1,15}(?:\.\d{1,9})?", re.ASCII)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)

LONGEST_TEXT = 50_000_000
"""Of a catalog file, in characters: a hundred times the largest one shipped."""


@dataclass(slots=True)
class Row:
    """The cells of one line by column name; what is wrong with them is added to `faults`."""

    file: str
    line: int
    cells: dict[str, str]
    faults: list[Fault] = field(default_factory=list)

    def fault(self, key: str, what: str, expected: str, suggestion: str | None = None) -> None:
        """Note that a cell is wrong."""
        self.faults.append(Fault(what, self.file, self.line, key, expected, suggestion))

    def text(self, key: str) -> str:
        """The cell, empty where the column is absent."""
        return self.cells.get(key, "")

    def required(self, key: str) -> str:
        """The cell, which must not be empty."""
        cell = self.cells.get(key, "")
        if not cell:
            self.fault(key, "empty", "a value")
        return cell

    def word(self, key: str, choices: Sequence[str], default: str | None = None) -> str:
        """The cell, one of `choices` (or `default` where it is empty)."""
        cell = self.cells.get(key, "") or (default or "")
        if cell not in choices:
            near = nearest(cell, choices)
            self.fault(key, f"{cell!r} is not known", " | ".join(choices), near[0] if near else None)
        return cell

    def scaled(self, key: str, factor: int = 1) -> int | None:
        """The positive decimal of the cell times `factor`, exact; None where the cell is empty or wrong."""
        cell = self.cells.get(key, "")
        if not cell:
            return None
        if _PLAIN.fullmatch(cell):
            value = Decimal(cell) * factor
            whole = int(value)
            if whole == value and whole > 0:
                return whole
        kind = "a positive whole number" if factor == 1 else f"a positive decimal, whole when multiplied by {factor:,}"
        self.fault(key, f"{cell!r} cannot be read", kind)
        return None

    def whole(self, key: str, default: int = 0) -> int:
        """The positive whole number of the cell, which must be there unless there is a default."""
        if not self.cells.get(key, "") and default:
            return default
        number = self.scaled(key)
        if number is None and not self.cells.get(key, ""):
            self.fault(key, "empty", "a positive whole number")
        return number or 0

    def day(self, key: str) -> date:
        """The ISO date of the cell."""
        cell = self.cells.get(key, "")
        if _DATE.fullmatch(cell):
            try:
                return date.fromisoformat(cell)
            except ValueError:
                pass
        self.fault(key, f"{cell!r} is not a date", "YYYY-MM-DD")
        return date.min


def read_text(path: Path) -> str:
    """The text of a file. Raises InputError where it cannot be read as UTF-8, or has no end."""
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(LONGEST_TEXT + 1)
    except OSError as error:
        raise InputError(Fault(f"cannot be read: {error.strerror}", str(path))) from None
    except UnicodeDecodeError:
        raise InputError(Fault("is not UTF-8 text", str(path))) from None
    if len(text) > LONGEST_TEXT:
        raise InputError(Fault("is too large", str(path), expected=f"at most {LONGEST_TEXT:,} characters"))
    return text


def rows(path: Path, columns: Sequence[str], required: Sequence[str], faults: list[Fault]) -> Iterator[Row]:
    """Each line of a CSV file whose header names known `columns`, among them all the `required` ones."""
    reader = csv.reader(io.StringIO(read_text(path), newline=""), strict=True)
    name = str(path)
    try:
        header = next(reader, [])
        if problems := _header_faults(name, header, columns, required):
            faults.extend(problems)
            return
        for cells in reader:
            if len(cells) == len(header):
                yield Row(name, reader.line_num, dict(zip(header, cells, strict=True)), faults)
            elif cells:
                faults.append(Fault(f"{len(cells)} cells", name, reader.line_num, expected=f"{len(header)} cells"))
    except csv.Error as error:
        faults.append(Fault(f"is not readable as CSV: {error}", name, reader.line_num))


def _header_faults(file: str, header: list[str], columns: Sequence[str], required: Sequence[str]) -> list[Fault]:
    """What is wrong with the column names."""
    faults = [Fault("column is missing", file, 1, key) for key in required if key not in header]
    for key in header:
        if key not in columns:
            near = nearest(key, columns)
            faults.append(Fault("unknown column", file, 1, key, suggestion=near[0] if near else None))
        elif header.count(key) > 1:
            faults.append(Fault("column appears twice", file, 1, key))
    return faults

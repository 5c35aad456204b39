"""The index of the model files: `python -m recommender.catalog.index [FOLDER]` writes it, validation checks it."""

from __future__ import annotations

import csv
import io
import sys
from pathlib import Path

from recommender.catalog.catalog import shipped
from recommender.catalog.entries import INDEX_COLUMNS, Entry, read_entries
from recommender.errors import Fault, InputError


def index_text(models: Path, faults: list[Fault]) -> str:
    """The index that belongs to the YAML files of a folder, one line a model, by id."""
    entries = [entry for path in sorted(models.glob("*.yaml")) for _, entry in read_entries(path, faults)]
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(INDEX_COLUMNS)
    writer.writerows(_row(entry) for entry in sorted(entries, key=lambda entry: (entry.id.casefold(), entry.id)))
    return written.getvalue()


def _row(entry: Entry) -> tuple[str, ...]:
    return (
        entry.id,
        " ".join(entry.aliases),
        entry.base or "",
        entry.native,
        entry.same_as or "",
        entry.file.name,
        str(entry.document),
    )


def main() -> None:
    """Write the index of the given catalog folder (the shipped one by default)."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else shipped("catalogs")
    faults: list[Fault] = []
    text = index_text(folder / "models", faults)
    if faults:
        raise SystemExit(str(InputError(faults)))
    (folder / "models" / "index.csv").write_text(text, "utf-8")


if __name__ == "__main__":
    main()

"""The path of a scenario, given as a path or as the name of one that ships with the package."""

from __future__ import annotations

from pathlib import Path

from recommender.catalog.catalog import shipped
from recommender.errors import Fault, InputError, nearest


def find_scenario(name: str) -> Path:
    """A file on disk first, else a shipped scenario of that name. Raises InputError with the nearest name."""
    path = Path(name)
    if path.exists():
        return path
    known = {each.stem: each for each in sorted(shipped("scenarios").glob("*.yaml"))}
    if path.parent in (Path(), Path("scenarios")) and path.stem in known and path.suffix in ("", ".yaml", ".yml"):
        return known[path.stem]
    near = nearest(path.stem, known)
    expected = "a YAML file, or a shipped scenario: " + ", ".join(known)
    raise InputError(Fault("there is no such scenario", name, expected=expected, suggestion=near[0] if near else None))

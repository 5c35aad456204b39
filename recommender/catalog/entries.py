"""Catalog entries of models: found by a small index, their config values parsed only when asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from recommender.catalog.table import read_text, rows
from recommender.errors import Fault, InputError

INDEX_COLUMNS = ("id", "aliases", "base", "native", "same_as", "file", "document")
KEYS = ("id", "aliases", "base", "native", "same_as", "source", "config")
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_BREAK = "\n---\n"


@dataclass(frozen=True, slots=True)
class Entry:
    """One model of the catalog, unparsed. `document` counts the YAML documents of its file from 1.

    `base` is the repository it quantises. `same_as` is the model whose config values it shares.
    """

    id: str
    aliases: tuple[str, ...]
    base: str | None
    native: str
    same_as: str | None
    file: Path
    document: int


@dataclass(frozen=True, slots=True)
class Values:
    """What the entry's document says beyond the index."""

    source: str
    config: dict[str, Any] | None


def read_index(path: Path, faults: list[Fault]) -> Iterator[tuple[int, Entry]]:
    """(line, entry) that an index names, without reading the files it points to."""
    for row in rows(path, INDEX_COLUMNS, INDEX_COLUMNS, faults):
        yield (
            row.line,
            Entry(
                id=row.required("id"),
                aliases=tuple(row.text("aliases").split()),
                base=row.text("base") or None,
                native=row.required("native"),
                same_as=row.text("same_as") or None,
                file=path.parent / row.required("file"),
                document=row.whole("document"),
            ),
        )


def read_entries(path: Path, faults: list[Fault]) -> Iterator[tuple[int, Entry]]:
    """(line, entry) of one YAML file, each of its documents read and checked."""
    line = 1
    for number, text in enumerate(read_text(path).removeprefix("---\n").split(_BREAK), 1):
        found = _document(path, text, line, faults)
        if found is not None:
            yield line, _entry(path, number, found)
        line += text.count("\n") + 2


def read_values(entry: Entry) -> Values:
    """Source and config values of one entry, parsing its document alone."""
    documents = read_text(entry.file).removeprefix("---\n").split(_BREAK)
    faults: list[Fault] = []
    found = (
        _document(entry.file, documents[entry.document - 1], 1, faults) if entry.document <= len(documents) else None
    )
    if faults or found is None or found["id"] != entry.id:
        what = f"{entry.id} is not document {entry.document} of this file: the index is out of date"
        raise InputError(faults or Fault(what, str(entry.file)))
    return Values(found["source"], found.get("config"))


def _entry(path: Path, number: int, found: dict[str, Any]) -> Entry:
    """The entry of a checked document."""
    return Entry(
        id=found["id"],
        aliases=tuple(found.get("aliases", ())),
        base=found.get("base"),
        native=found["native"],
        same_as=found.get("same_as"),
        file=path,
        document=number,
    )


def _document(path: Path, text: str, line: int, faults: list[Fault]) -> dict[str, Any] | None:
    """One parsed document whose keys have the right types; None, with its faults noted, where it has not."""
    file = str(path)
    try:
        # An alias repeats a node: a few lines of them can stand for billions of nodes. No entry needs one.
        if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(text, Loader=_LOADER)):
            faults.append(Fault("YAML aliases are not allowed here", file, line))
            return None
        found = yaml.load(text, Loader=_LOADER)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        at = line + mark.line if mark else line
        faults.append(Fault(f"is not readable as YAML: {getattr(error, 'problem', None) or error}", file, at))
        return None
    problems = _problems(found)
    faults.extend(Fault(what, file, line, key) for key, what in problems)
    return None if problems else found


def _problems(found: object) -> list[tuple[str, str]]:
    """(key, what is wrong) of one parsed document."""
    if not isinstance(found, dict):
        return [("", "is not a mapping with id, native, source and config (or same_as)")]
    problems = [(str(key), "unknown key") for key in found if key not in KEYS]
    problems += [(key, "missing or not text") for key in ("id", "native", "source") if not _is_text(found.get(key))]
    problems += [(key, "is not text") for key in ("base", "same_as") if key in found and not _is_text(found[key])]
    aliases = found.get("aliases", [])
    if not isinstance(aliases, list) or not all(_is_text(alias) for alias in aliases):
        problems.append(("aliases", "is not a list of names"))
    if ("config" in found) == ("same_as" in found):
        problems.append(("config", "give either config or same_as"))
    elif "config" in found and not isinstance(found["config"], dict):
        problems.append(("config", "is not a mapping"))
    return problems


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())

"""A YAML text as plain values, with the line of every key.

Built from parser events, so depth, size and aliases are bounded before anything is expanded. Plain scalars follow the
YAML 1.2 core schema (`yes` and `on` are text, `010` is not eight); fractions are Decimals of the digits written.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from recommender.errors import Fault, InputError

MAX_BYTES = 2**20
MAX_DEPTH = 24
MAX_VALUES = 200_000  # after aliases are expanded
MAX_ALIASES = 100
MAX_TEXT = 1_000  # characters of one key or value
MAX_DIGITS = 30

Trail: TypeAlias = tuple[str | int, ...]

_NULL = {"", "~", "null", "Null", "NULL"}
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_WHOLE = re.compile(r"[-+]?(?:0|[1-9][0-9]*|[1-9][0-9]{0,2}(?:_[0-9]{3})+)")
_FRACTION = re.compile(r"(?=.*[.eE])[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")


def dotted(trail: Trail) -> str:
    """A key as a person writes it: `limits.stock[0].instances`."""
    text = ""
    for step in trail:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


@dataclass(frozen=True, slots=True)
class Document:
    """Plain values (dict, list, str, int, Decimal, bool, None), the line of each key, and the faults of reading."""

    file: str
    value: Any
    lines: dict[Trail, int]
    faults: dict[Trail, Fault] = field(default_factory=dict)

    def at(self, trail: Trail) -> Any:
        """The value of a key; None where there is none."""
        value = self.value
        for step in trail:
            try:
                value = value[step]
            except (KeyError, IndexError, TypeError):
                return None
        return value

    def line(self, trail: Trail) -> int | None:
        """The line of a key, or of the nearest key around it."""
        while trail and trail not in self.lines:
            trail = trail[:-1]
        return self.lines.get(trail)

    def fault(self, trail: Trail, what: str, expected: str | None = None, suggestion: str | None = None) -> Fault:
        """A fault at a key of this file."""
        return Fault(what, self.file, self.line(trail), dotted(trail) or None, expected, suggestion)


def read_document(path: str | Path) -> Document:
    """The document in a file. Raises InputError where the file cannot be read or is no YAML."""
    file = str(path)
    try:
        raw = _read_bytes(Path(path))
        text = raw.decode("utf-8-sig")
    except OSError as error:
        raise InputError(Fault(f"cannot be read: {error.strerror or error}", file)) from None
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise InputError(Fault("is not UTF-8 text", file, line, expected="a YAML file")) from None
    if "\0" in text:
        raise InputError(Fault("is a binary file", file, expected="a YAML file"))
    return parse_document(text, file)


def _read_bytes(path: Path) -> bytes:
    with path.open("rb") as stream:
        raw = stream.read(MAX_BYTES + 1)
    if len(raw) > MAX_BYTES:
        raise InputError(Fault(f"is larger than {MAX_BYTES:,} bytes", str(path), expected="a scenario file"))
    return raw


def parse_document(text: str, file: str) -> Document:
    """The document in a text. Raises InputError at the first fault of syntax; others are kept in `faults`."""
    builder = _Builder(file)
    try:
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            builder.take(event)
    except yaml.MarkedYAMLError as error:
        raise InputError(_syntax_fault(error, text, file)) from None
    except yaml.YAMLError as error:
        raise InputError(Fault(f"is not YAML: {str(error).splitlines()[0]}", file)) from None
    if builder.documents != 1 or builder.value is None:
        what = "is empty" if builder.documents < 2 else "holds several YAML documents"
        raise InputError(Fault(what, file, expected="one scenario, at least `model:` and `workload:`"))
    return Document(file, builder.value, builder.lines, builder.faults)


def _syntax_fault(error: yaml.MarkedYAMLError, text: str, file: str) -> Fault:
    line = error.problem_mark.line if error.problem_mark else 0
    written = next(iter(text.splitlines()[line : line + 1]), "")
    if "\t" in written[: len(written) - len(written.lstrip())] or "\t" in (error.problem or ""):
        return Fault("is indented with a tab", file, line + 1, expected="spaces")
    return Fault(f"is not YAML: {error.problem or error.context}", file, line + 1)


@dataclass(slots=True)
class _Level:
    """A list or mapping being read."""

    container: dict[str, Any] | list[Any]
    trail: Trail
    anchor: str | None
    key: str | None = None
    awaits_value: bool = False
    repeated: bool = False
    size: int = 1


class _Builder:
    """Plain values from YAML events, without recursion."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.value: Any = None
        self.documents = 0
        self.lines: dict[Trail, int] = {}
        self.faults: dict[Trail, Fault] = {}
        self._levels: list[_Level] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._aliases = 0
        self._values = 0

    def take(self, event: yaml.Event) -> None:
        """One more event of the parser."""
        line = event.start_mark.line + 1 if event.start_mark else 1
        match event:
            case yaml.DocumentStartEvent():
                self.documents += 1
            case yaml.ScalarEvent():
                self._refuse_tag(event, line)
                self._scalar(event, line)
            case yaml.AliasEvent():
                self._alias(str(event.anchor), line)
            case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                self._refuse_tag(event, line)
                self._open(event, line)
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                self._close(line)

    def _stop(self, what: str, line: int, expected: str | None = None) -> InputError:
        return InputError([*self.faults.values(), Fault(what, self.file, line, expected=expected)])

    def _refuse_tag(self, event: Any, line: int) -> None:
        if event.tag not in (None, "!"):
            raise self._stop(f"the tag {event.tag} is not allowed", line, "plain values")

    def _open(self, event: Any, line: int) -> None:
        if len(self._levels) >= MAX_DEPTH:
            raise self._stop(f"is nested more than {MAX_DEPTH} deep", line)
        trail = self._place(line)
        container: dict[str, Any] | list[Any] = {} if isinstance(event, yaml.MappingStartEvent) else []
        self._levels.append(_Level(container, trail, event.anchor))

    def _close(self, line: int) -> None:
        level = self._levels.pop()
        self._keep(level.container, level.size, level.anchor, line)

    def _scalar(self, event: yaml.ScalarEvent, line: int) -> None:
        if len(event.value) > MAX_TEXT:
            raise self._stop(f"holds a text of more than {MAX_TEXT:,} characters", line)
        level = self._levels[-1] if self._levels else None
        if level is not None and isinstance(level.container, dict) and not level.awaits_value:
            self._key(level, event.value, line)
            return
        trail = self._place(line)
        plain, _ = event.implicit
        self._keep(self._resolve(event.value, trail, line) if plain else event.value, 1, event.anchor, line)

    def _key(self, level: _Level, key: str, line: int) -> None:
        level.key, level.awaits_value = key, True
        level.repeated = key in level.container
        trail = (*level.trail, key)
        if level.repeated:
            first = self.lines[trail]
            self.faults[trail] = Fault(f"is written twice (first in line {first})", self.file, line, dotted(trail))
        else:
            self.lines[trail] = line

    def _place(self, line: int) -> Trail:
        """Where the value that starts now belongs."""
        if not self._levels:
            return ()
        level = self._levels[-1]
        if isinstance(level.container, list):
            trail: Trail = (*level.trail, len(level.container))
            self.lines[trail] = line
            return trail
        if not level.awaits_value or level.key is None:
            raise self._stop("a key must be a plain word", line)
        return (*level.trail, level.key)

    def _keep(self, value: Any, size: int, anchor: str | None, line: int) -> None:
        if anchor is not None:
            self._anchors[anchor] = (value, size)
        self._values += 1
        if not self._levels:
            self.value = value
            return
        level = self._levels[-1]
        level.size += size
        if max(level.size, self._values) > MAX_VALUES:
            raise self._stop(f"holds more than {MAX_VALUES:,} values", line)
        if isinstance(level.container, list):
            level.container.append(value)
            return
        if not level.repeated and level.key is not None:
            level.container[level.key] = value
        level.awaits_value = False

    def _alias(self, name: str, line: int) -> None:
        self._aliases += 1
        if self._aliases > MAX_ALIASES:
            raise self._stop(f"uses more than {MAX_ALIASES} aliases", line)
        if name not in self._anchors:
            raise self._stop(f"the alias *{name} stands for nothing before it", line)
        self._place(line)
        value, size = self._anchors[name]
        self._keep(value, size, None, line)

    def _resolve(self, text: str, trail: Trail, line: int) -> Any:
        """A plain scalar as null, truth value, whole number, Decimal or text."""
        if text in _NULL:
            return None
        if text in _BOOL:
            return _BOOL[text]
        whole, fraction = _WHOLE.fullmatch(text), _FRACTION.fullmatch(text)
        if whole and len(text) <= MAX_DIGITS:
            return int(text)
        if fraction and len(text) <= MAX_DIGITS and abs((number := Decimal(text)).adjusted()) <= MAX_DIGITS:
            return number
        if whole or fraction:
            self._bad_number("is out of any range", text, trail, line)
            return None
        if _NOT_FINITE.fullmatch(text):
            self._bad_number("is not a finite number", text, trail, line)
            return None
        return text

    def _bad_number(self, what: str, text: str, trail: Trail, line: int) -> None:
        short = text if len(text) <= MAX_DIGITS else f"{text[:12]}... ({len(text):,} characters)"
        self.faults[trail] = Fault(f"{short} {what}", self.file, line, dotted(trail) or None)

"""Every refusal and its report: what is wrong, where, what was expected, and the nearest valid value."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong with what a person gave us."""

    what: str
    file: str | None = None
    line: int | None = None
    key: str | None = None
    expected: str | None = None
    suggestion: str | None = None

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.file, self.line) if part is not None)
        parts = [part for part in (place, self.key, self.what) if part]
        text = ": ".join(parts)
        if self.expected:
            text += f" (expected {self.expected})"
        if self.suggestion:
            text += f"; did you mean {self.suggestion}?"
        return text


class RecommenderError(Exception):
    """Anything this package raises on purpose; `exit_code` is what the command line ends with."""

    exit_code = 3


class InternalError(RecommenderError):
    """Two independent computations disagree: a fault of this program, never shown as an answer."""


class InputError(RecommenderError):
    """The input is wrong. Carries every fault found, not only the first."""

    exit_code = 2

    def __init__(self, faults: Iterable[Fault] | Fault | str) -> None:
        if isinstance(faults, str):
            faults = [Fault(faults)]
        elif isinstance(faults, Fault):
            faults = [faults]
        self.faults = tuple(faults)
        super().__init__("\n".join(str(fault) for fault in self.faults))


class NotModelledError(InputError):
    """An architecture, attention kind or option that is not modelled: refused by name, never approximated."""


def show(value: object) -> str:
    """A value as a person wrote it, shortened; no word of the program's own language."""
    if value is None:
        return "an empty value"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        text = f"[{', '.join(show(each) for each in value[:8])}{', ...' if len(value) > 8 else ''}]"
        return text if len(text) <= 80 else "a list"
    text = str(value)
    return repr(text if len(text) <= 40 else text[:37] + "...") if isinstance(value, str) else text


def nearest(word: str, choices: Iterable[str], count: int = 1) -> list[str]:
    """The `count` choices nearest to `word`, compared without case, best first; empty where none is near.

    One that begins with the word, or has it among its parts, is nearer than one that is merely spelled alike.
    """
    by_folded = {choice.casefold(): choice for choice in choices}
    folded = word.casefold()
    begin = [each for each in by_folded if len(folded) > 1 and each.startswith(folded)]
    parts = [each for each in by_folded if len(folded) > 1 and folded in re.split(r"[-_./ ]", each)]
    close = difflib.get_close_matches(folded, list(by_folded), n=count, cutoff=0.5)
    return [by_folded[hit] for hit in list(dict.fromkeys([*begin, *parts, *close]))[:count]]

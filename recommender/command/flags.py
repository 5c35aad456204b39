"""Faults of the library's arguments, said of the options that were typed."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace

from recommender.errors import Fault, InputError


def flag(key: str) -> str:
    """An argument as it is typed: `--max-model-len`."""
    return f"--{key.replace('_', '-')}"


def as_typed(error: InputError, options: Collection[str]) -> InputError:
    """The faults with the names of these options as they are typed; those of a file keep the file's words."""
    return InputError(_as_typed(fault, options) for fault in error.faults)


def _as_typed(fault: Fault, options: Collection[str]) -> Fault:
    if fault.file is not None or fault.key is None or fault.key not in options:
        return fault
    expected = flag(fault.expected) if fault.expected and fault.expected in options else fault.expected
    what = re.sub(r"\b[a-z]+(?:_[a-z]+)+\b", lambda word: flag(word[0]) if word[0] in options else word[0], fault.what)
    return replace(fault, key=flag(fault.key), what=what, expected=expected)

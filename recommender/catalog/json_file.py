"""JSON from anyone's files: regular files of bounded size, with bounded values and nesting, each key once."""

from __future__ import annotations

import json
import os
import stat
from collections import Counter
from pathlib import Path
from typing import Any, BinaryIO

from recommender.errors import Fault, InputError

_DEEPEST = 32
_SEPARATORS = (b",", b"[", b"{")  # each value of a JSON text follows one of them
_KEY_SHOWN = 60


def read_object(path: Path, *, most_bytes: int, most_values: int) -> dict[str, Any]:
    """The JSON object that a file holds. Raises InputError where it is anything else, or larger than allowed."""
    return parse_object(read_regular(path, most_bytes), str(path), most_values=most_values)


def read_regular(path: Path, most_bytes: int) -> bytes:
    """What a regular file holds (through symbolic links, as download caches use them), never a pipe or a device."""
    descriptor, size = open_regular(path)
    with os.fdopen(descriptor, "rb") as file:
        if size <= most_bytes:
            data = read_bytes(file, most_bytes + 1, str(path))  # it may have grown meanwhile
            if len(data) <= most_bytes:
                return data
    raise InputError(Fault("is too large", str(path), expected=f"at most {most_bytes:,} bytes"))


def read_bytes(file: BinaryIO, most_bytes: int, name: str) -> bytes:
    """So many bytes of an open file, fewer at its end. Raises InputError where the system refuses to read them."""
    try:
        return file.read(most_bytes)
    except OSError as error:
        raise InputError(Fault(f"cannot be read: {error.strerror}", name)) from None


def open_regular(path: Path) -> tuple[int, int]:
    """(descriptor, size) of a regular file opened for reading. Raises InputError."""
    try:
        # Without O_NONBLOCK, opening a pipe that nobody writes to would wait for ever.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        raise InputError(Fault(f"cannot be read: {error.strerror}", str(path))) from None
    except ValueError:
        raise InputError(Fault("is no file name", repr(str(path)))) from None
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        os.close(descriptor)
        raise InputError(Fault("is not a regular file", str(path)))
    return descriptor, found.st_size


def parse_object(data: bytes, file: str, *, most_values: int) -> dict[str, Any]:
    """The JSON object of a text. Values are counted before they are built, so that memory stays bounded."""
    if sum(data.count(sign) for sign in _SEPARATORS) > most_values:
        raise InputError(Fault("holds too many values", file, expected=f"at most {most_values:,}"))
    try:
        found = json.loads(data.decode("utf-8-sig"), object_pairs_hook=_each_once)
    except UnicodeDecodeError:
        raise InputError(Fault("is not UTF-8 text", file)) from None
    except json.JSONDecodeError as error:
        raise InputError(Fault(f"is not readable as JSON: {error.msg}", file, error.lineno)) from None
    except RecursionError:
        raise _too_deep(file) from None
    except _KeyTwiceError as error:
        raise InputError(Fault("appears twice", file, key=error.key)) from None
    except ValueError:
        raise InputError(Fault("is not readable as JSON: a number of thousands of digits", file)) from None
    if not isinstance(found, dict):
        raise InputError(Fault("is not a JSON object", file))
    _check_depth(found, file)
    return found


class _KeyTwiceError(Exception):
    """A key that one object has twice: readers differ in which of the two values they take."""

    def __init__(self, key: str) -> None:
        self.key = repr(key[:_KEY_SHOWN])[1:-1]
        super().__init__(key)


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _KeyTwiceError(Counter(key for key, _ in pairs).most_common(1)[0][0])
    return found


def _check_depth(found: dict[str, Any], file: str) -> None:
    """Raises InputError where values nest deeper than any config does."""
    level: list[Any] = [found]
    for _ in range(_DEEPEST):
        inner = [each.values() if isinstance(each, dict) else each for each in level]
        level = [value for values in inner for value in values if isinstance(value, dict | list)]
        if not level:
            return
    raise _too_deep(file)


def _too_deep(file: str) -> InputError:
    return InputError(Fault("is nested too deeply", file, expected=f"at most {_DEEPEST} levels"))

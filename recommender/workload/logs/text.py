"""The bytes of a text file, plain or gzipped, and its first lines."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import IO

from recommender.errors import Fault, InputError

_HEAD_BYTES = 65_536
_BINARY_BYTES = 1_024  # a NUL further on is a broken line


def open_text(path: Path) -> IO[bytes]:
    """The file's bytes, unzipped where it is gzipped."""
    if path.suffix == ".gz":
        unzipped: IO[bytes] = gzip.open(path, "rb")  # type: ignore[assignment]  # noqa: SIM115
        return unzipped
    return path.open("rb")


def first_lines(path: Path, head_bytes: int = _HEAD_BYTES) -> list[str]:
    """The first lines of a text file, at least one. Raises InputError for what is no text."""
    try:
        with open_text(path) as stream:
            head = stream.read(head_bytes)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(Fault(f"cannot be read: {error}", str(path))) from None
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InputError(Fault("is UTF-16 text", str(path), expected="UTF-8"))
    if b"\0" in head[:_BINARY_BYTES]:
        raise InputError(Fault("is binary, not text", str(path)))
    lines = head.decode("utf-8-sig", errors="replace").splitlines()
    if len(head) == head_bytes and len(lines) > 1:
        lines.pop()
    if not lines or not lines[0].strip():
        raise InputError(Fault("is empty", str(path)))
    return lines

"""A progress bar on standard error, where a person is watching it."""

from __future__ import annotations

import sys
from collections.abc import Callable

_WIDTH = 40


def bar(what: str) -> Callable[[int, int], None] | None:
    """A callback that draws how much of `what` is done and wipes it at the end; None where nobody would see it."""
    stream = sys.stderr
    if stream is None or not stream.isatty():
        return None

    def draw(done: int, whole: int) -> None:
        filled = _WIDTH * done // max(whole, 1)
        line = f"{what} [{'#' * filled}{' ' * (_WIDTH - filled)}] {done:,} of {whole:,} requests"
        stream.write(f"\r{line}" if done < whole else f"\r{' ' * len(line)}\r")
        stream.flush()

    return draw

"""Where answers and errors go: standard output or a file written whole, standard error, and the exit code."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar

from recommender.errors import Fault, InputError, RecommenderError

_STANDARD = "standard output"
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
INTERRUPTED = 130  # 128 + SIGINT, as shells count
INTERNAL = 3

_P = ParamSpec("_P")
_R = TypeVar("_R")


def emit(text: str, output: Path | None) -> None:
    """Print the text, or write it to a file that appears only once it is complete."""
    if output is None:
        _print(text)
        return
    try:
        _write(text, output)
    except OSError as error:
        raise InputError(Fault(f"cannot be written: {error.strerror or error}", str(output))) from None


def _print(text: str) -> None:
    if sys.stdout is None:  # the shell's `>&-`
        raise InputError(Fault("cannot be written: it is closed", _STANDARD))
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has seen enough
        _silence()
    except OSError as error:
        _silence()
        raise InputError(Fault(f"cannot be written: {error.strerror or error}", _STANDARD)) from None


def _silence() -> None:
    """What is left to flush at the end must not complain either."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _write(text: str, output: Path) -> None:
    if output.exists() and not output.is_file():  # a pipe or a device: nothing to replace
        output.write_text(text, encoding="utf-8")
        return
    target = output.resolve()  # through a symbolic link, so that it stays one
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def note(text: str) -> None:
    """One line on standard error, where there is one."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            print(text, file=sys.stderr)  # noqa: T201


def report(error: RecommenderError) -> None:
    """Every fault on standard error, one a line."""
    faults = error.faults if isinstance(error, InputError) else (error,)
    if len(faults) > 1:
        note(f"{len(faults)} faults:")
    for fault in faults:
        note(f"error: {fault}")


def failed(error: Exception) -> int:
    """The exit code of what no command turned into one, after a line about it: a full disk at the help, or us."""
    if isinstance(error, OSError) and error.errno in _FULL:
        _silence()
        error = InputError(Fault(f"cannot be written: {error.strerror}", _STANDARD))
    if isinstance(error, InputError):
        report(error)
        return error.exit_code
    note(f"internal error: {type(error).__name__}: {error} (--debug shows where)")
    return INTERNAL


def guarded(command: Callable[_P, _R]) -> Callable[_P, _R]:
    """The command with refusals printed and turned into exit codes; an interrupt ends it quietly."""

    @functools.wraps(command)
    def run(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return command(*args, **kwargs)
        except RecommenderError as error:
            report(error)
            raise SystemExit(error.exit_code) from None
        except KeyboardInterrupt:
            raise SystemExit(INTERRUPTED) from None

    return run

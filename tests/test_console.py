from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("gpus > /dev/full", "error: standard output: cannot be written: No space left on device\n"),
        ("--help > /dev/full", "error: standard output: cannot be written: No space left on device\n"),
        ("--version > /dev/full", "error: standard output: cannot be written: No space left on device\n"),
        ("gpus --output /dev/full", "error: /dev/full: cannot be written: No space left on device\n"),
        ("gpus >&-", "error: standard output: cannot be written: it is closed\n"),
    ],
)
def test_standard_output_that_cannot_be_written_is_one_clear_line(command: str, said: str) -> None:
    line = f"{sys.executable} -m recommender {command}"
    result = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False, timeout=60)
    assert (result.returncode, result.stderr) == (2, said)


def test_notes_do_not_reach_the_answer_where_standard_error_is_closed() -> None:
    line = f"{sys.executable} -m recommender ask '4 concurrent 4K requests on L4' --format json 2>&-"
    result = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False, timeout=60)
    assert result.returncode == 0
    assert list(json.loads(result.stdout)["variants"]) == ["llama-3.1-8b", "llama-3.1-70b"]


def test_a_reader_that_stops_early_is_no_error() -> None:
    command = f"{sys.executable} -m recommender offers --format csv | head -1; exit ${{PIPESTATUS[0]}}"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, timeout=60)
    assert (result.returncode, result.stderr) == (0, "")


def test_an_interrupt_is_quiet(tmp_path: Path) -> None:
    fifo = tmp_path / "slow.yaml"
    os.mkfifo(fifo)
    command = [sys.executable, "-m", "recommender", "run", str(fifo)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=_heeding_interrupts) as process:
        writer = _opened_once_it_is_read(fifo)
        try:
            errors = _errors_once_interrupted(process)
        finally:
            os.close(writer)
            process.kill()
    assert (process.returncode, errors) == (130, "")


def _errors_once_interrupted(process: subprocess.Popen[str]) -> str:
    """A signal that comes just before a read blocks is seen only after it: what a person would do is press again."""
    for _ in range(10):
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=3)[1]
    raise TimeoutError("interrupts are not heeded")


def _heeding_interrupts() -> None:
    """A shell starts background jobs deaf to interrupts, and their children inherit it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _opened_once_it_is_read(fifo: Path) -> int:
    for _ in range(400):
        with contextlib.suppress(OSError):
            return os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
        time.sleep(0.05)
    raise TimeoutError(fifo)


def test_an_internal_error_is_one_line_and_debug_shows_more(monkeypatch: pytest.MonkeyPatch) -> None:
    code = (
        "import sys, recommender.command.listings as l, recommender.cli as c\n"
        "def broken(*a): raise ZeroDivisionError('oops')\n"
        "l.listing = broken\n"
        "sys.argv = ['recommender', 'gpus', *sys.argv[1:]]\n"
        "c.main()"
    )
    plain, debug = (
        subprocess.run([sys.executable, "-c", code, *more], capture_output=True, text=True, check=False)
        for more in ([], ["--debug"])
    )
    assert (plain.returncode, plain.stdout) == (3, "")
    assert plain.stderr == "internal error: ZeroDivisionError: oops (--debug shows where)\n"
    assert "Traceback" in debug.stderr


def test_standard_input_that_is_closed_is_one_clear_line() -> None:
    line = f"{sys.executable} -m recommender verify - <&-"
    result = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False, timeout=60)
    assert (result.returncode, result.stderr) == (2, "error: standard input: cannot be read: it is closed\n")

"""A load-test tool's result file as runs, whatever the tool."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from recommender.catalog.json_file import parse_object, read_regular
from recommender.errors import Fault, InputError
from recommender.speed.benchmarks.aiperf import aiperf_requests_run, aiperf_run, is_aiperf
from recommender.speed.benchmarks.guidellm import guidellm_runs, is_guidellm
from recommender.speed.benchmarks.run import Run
from recommender.speed.benchmarks.vllm import is_vllm, vllm_run

MOST_BYTES = 256 * 10**6
MOST_VALUES = 20_000_000
_LONGEST_LINE_VALUES = 1_000_000
_EXPECTED = "a result of vllm bench serve, guidellm, aiperf or genai-perf"


def read_runs(path: Path) -> tuple[Run, ...]:
    """The runs of a result file. Raises InputError with what is wrong with it."""
    data = read_regular(path, MOST_BYTES)
    if path.suffix == ".jsonl":
        lines = [line for line in data.split(b"\n") if line.strip()]
        return (aiperf_requests_run([_line(line, path) for line in lines], str(path)),)
    return _runs(parse_object(data, str(path), most_values=MOST_VALUES), str(path))


def _runs(found: Mapping[str, Any], file: str) -> tuple[Run, ...]:
    if is_vllm(found):
        return (vllm_run(found, file),)
    if is_guidellm(found):
        return guidellm_runs(found, file)
    if is_aiperf(found):
        return (aiperf_run(found, file),)
    raise InputError(Fault("is not a known result", file, expected=_EXPECTED))


def _line(line: bytes, path: Path) -> Mapping[str, Any]:
    return parse_object(line, str(path), most_values=_LONGEST_LINE_VALUES)

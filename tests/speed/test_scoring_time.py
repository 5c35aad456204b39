"""100,000 configurations in 3 CPU seconds: the benchmark itself, as a test."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[1] / "benchmarks" / "speed.py"


def test_scoring_keeps_its_limit(capsys: pytest.CaptureFixture[str]) -> None:
    spec = importlib.util.spec_from_file_location("speed_benchmark", BENCHMARK)
    assert spec is not None
    assert spec.loader is not None
    benchmark = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(benchmark)
    assert (benchmark.ROWS, benchmark.LIMIT_S) == (100_000, 3.0)
    assert benchmark.main() == 0
    assert "100,000 configurations scored" in capsys.readouterr().out

"""What the main job costs, in CPU seconds (user + system) and peak memory, against the limits the project sets itself.

Run with `make bench`. Machines differ and are shared, so these are not timed tests; the exit code says whether a limit
was passed here. Each figure is the best of `ROUNDS`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROUNDS = 3
COMMAND = [sys.executable, "-m", "recommender"]
REFERENCE = "scenarios/llama70b-50x8k.yaml"
MILLION = 1_000_000


@dataclass(frozen=True)
class Figure:
    """One measured cost and its limit."""

    what: str
    value: float
    limit: float
    unit: str

    def __str__(self) -> str:
        verdict = "ok" if self.value <= self.limit else "OVER"
        return f"{self.what:<62} {self.value:>8.3f} {self.unit:<5} limit {self.limit:>7.2f}  {verdict}"


def process(arguments: list[str]) -> tuple[float, float]:
    """(CPU seconds, peak MB) of one whole process."""
    code = (
        "import resource, subprocess, sys\n"
        "subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)\n"
        "used = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
        "print(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)\n"
    )
    run = subprocess.run([sys.executable, "-c", code, *arguments], check=True, capture_output=True, text=True)
    cpu, peak = run.stdout.split()
    return float(cpu), float(peak)


def cpu_s(work: Callable[[], object]) -> float:
    """CPU seconds of a call in this process, the best of some rounds."""
    best = float("inf")
    for _ in range(ROUNDS):
        before = time.process_time()
        work()
        best = min(best, time.process_time() - before)
    return best


def whole_process() -> list[Figure]:
    """`--help` and the reference question, as a person runs them."""
    helped = min(process([*COMMAND, "--help"])[0] for _ in range(ROUNDS))
    runs = [process([*COMMAND, "run", REFERENCE]) for _ in range(ROUNDS)]
    return [
        Figure("recommender --help", helped, 0.3, "CPU s"),
        Figure("recommender run (ten ranked plans, full catalog)", min(cpu for cpu, _ in runs), 2.5, "CPU s"),
        Figure("  its peak memory", max(peak for _, peak in runs), 400, "MB"),
    ]


def in_process() -> list[Figure]:
    """The reference question with catalog and solver already loaded."""
    from recommender import load_scenario, recommend
    from recommender.answer import shipped_catalog
    from recommender.search.asked import look_up
    from recommender.search.solver import solve

    catalog, scenario = shipped_catalog(), load_scenario(REFERENCE)
    recommend(scenario, catalog)

    def optimum() -> None:
        asked = look_up(scenario, catalog)
        solve(asked.problem(asked.columns), plans=1)

    return [
        Figure("in process: the optimum", cpu_s(optimum), 0.25, "CPU s"),
        Figure("in process: the whole answer, ten plans", cpu_s(lambda: recommend(scenario, catalog)), 1.0, "CPU s"),
    ]


def million_candidates() -> list[Figure]:
    """One million distinct candidate replicas through the memory model."""
    import numpy as np

    from recommender.answer import shipped_catalog
    from recommender.memory.capacity import ReplicaColumns, Setting, WorstCase, memory_model

    catalog = shipped_catalog()
    model = catalog.model("llama-3.1-70b")
    gpus = tuple(gpu for gpu in catalog.gpus if gpu.memory_bytes is not None and gpu.engine == "vllm")
    setting = Setting(model=model, gpus=gpus, weights=(("bf16", None), ("fp8", None)), kv_dtypes=("auto", "fp8"))
    rng = np.random.default_rng(1)
    ones = np.ones(MILLION, dtype=np.int64)
    columns = ReplicaColumns(
        gpu=rng.integers(0, len(gpus), MILLION),
        tp=2 ** rng.integers(0, 4, MILLION),
        weights=rng.integers(0, 2, MILLION),
        kv_dtype=rng.integers(0, 2, MILLION),
        max_model_len=16 * rng.integers(64, 8192, MILLION),
        max_num_batched_tokens=ones * 0,
        extra_reserve_bytes=ones * 0,
        pp=ones,
        ep=ones,
        dp=ones,
    )
    model_of = memory_model("vllm")
    used = cpu_s(lambda: model_of.capacity(setting, columns, 50, WorstCase()))
    return [Figure("one million candidates through the memory model", used, 1.0, "CPU s")]


def main() -> int:
    """Prints every figure; 1 where one is over its limit."""
    os.chdir(Path(__file__).parents[2])
    figures = [*whole_process(), *in_process(), *million_candidates()]
    for figure in figures:
        print(figure)  # noqa: T201
    return int(any(figure.value > figure.limit for figure in figures))


if __name__ == "__main__":
    raise SystemExit(main())

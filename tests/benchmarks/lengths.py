"""What reading logs and replaying plans costs, in CPU seconds (user + system) and peak memory, against set limits.

Run with `python tests/benchmarks/lengths.py`; it writes some 600 MB to a temporary folder. Machines differ and are
shared, so these are no timed tests; the exit code says whether a limit was passed here.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from run import Figure, process

CSV_ROWS = 10_000_000
JSON_ROWS = 2_000_000
REPLAYED = 100_000
SUMMARISE = "import sys; from recommender.workload.readers import summarise; summarise(sys.argv[1])"


def one_call_s(work: Callable[[], object]) -> float:
    """CPU seconds of a call in this process, the first time it is made."""
    before = time.process_time()
    work()
    return time.process_time() - before


def requests(rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Arrival seconds, prompts and outputs of so many random requests."""
    random = np.random.default_rng(1)
    prompts = np.clip(random.lognormal(7, 1.1, rows), 1, 120_000).astype(np.int64)
    outputs = np.clip(random.lognormal(5, 1, rows), 1, 8_000).astype(np.int64)
    return random.exponential(0.06, rows).cumsum(), prompts, outputs


def write_csv(path: Path) -> None:
    """A log as Azure publishes it, with seven decimals of a second."""
    seconds, prompts, outputs = requests(CSV_ROWS)
    with path.open("w") as stream:
        stream.write("TIMESTAMP,ContextTokens,GeneratedTokens\n")
        for first in range(0, CSV_ROWS, 500_000):
            part = slice(first, first + 500_000)
            nanoseconds = (seconds[part] * 1e9).astype("timedelta64[ns]")
            times = (np.datetime64("2024-05-10T00:00:00", "ns") + nanoseconds).astype(str)
            rows = zip(times, prompts[part], outputs[part], strict=True)
            stream.writelines(f"{at[:10]} {at[11:27]},{prompt},{output}\n" for at, prompt, output in rows)


def write_jsonl(path: Path) -> None:
    """A log as Mooncake publishes it."""
    seconds, prompts, outputs = requests(JSON_ROWS)
    rows = zip((seconds * 1000).astype(np.int64), prompts, outputs, strict=True)
    with path.open("w") as stream:
        stream.writelines(
            f'{{"timestamp": {at}, "input_length": {prompt}, "output_length": {output}, "hash_ids": [{prompt}]}}\n'
            for at, prompt, output in rows
        )


def reading(folder: Path) -> list[Figure]:
    """Logs summarised by a process of their own, and again from the cache."""
    os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
    figures = []
    for name, write, rows, limit in (
        ("log.csv", write_csv, CSV_ROWS, 8),
        ("log.jsonl", write_jsonl, JSON_ROWS, 6),
    ):
        write(folder / name)
        command = [sys.executable, "-c", SUMMARISE, str(folder / name)]
        cpu, peak = process(command)
        again, _ = process(command)
        figures += [
            Figure(f"{rows / 1e6:.0f} million rows of {name} summarised", cpu, limit, "CPU s"),
            Figure("  its peak memory", peak, 600, "MB"),
            Figure("  a second run on the same file", again, 0.5, "CPU s"),
        ]
    return figures


def sizing() -> list[Figure]:
    """In-flight quantiles, what the search reads, and a replay."""
    from recommender.workload.inflight import inflight_of, sum_of
    from recommender.workload.replay import replay_in_loop
    from recommender.workload.replica import Server, StepTime
    from recommender.workload.source import lengths_of

    lengths = lengths_of("mooncake_conversation")
    need = inflight_of(lengths, 50).statistical_tokens
    sums = sum_of(lengths, 65_536, 16, 0.01)
    server, step = Server(need // 16, 50, 8_192), StepTime(0.020, 0.0001, 0.00005)
    return [
        Figure("need of 1,000 requests at 1 %", one_call_s(lambda: inflight_of(lengths, 1000)), 0.2, "CPU s"),
        Figure("need of every number up to 256", one_call_s(lambda: sums.quantiles(np.arange(257))), 1, "CPU s"),
        Figure(
            f"replay of {REPLAYED:,} requests",
            one_call_s(lambda: replay_in_loop(lengths, 50, server, step, lengths.maximum_tokens, count=REPLAYED)),
            60,
            "CPU s",
        ),
    ]


def main() -> int:
    """Print every figure; 1 where one is over its limit."""
    with tempfile.TemporaryDirectory() as folder:
        figures = [*sizing(), *reading(Path(folder))]
    print(*figures, sep="\n")  # noqa: T201
    return int(any(figure.value > figure.limit for figure in figures))


if __name__ == "__main__":
    sys.exit(main())

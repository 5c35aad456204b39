"""What scoring 100,000 configurations costs, in CPU seconds, against the limit the project sets itself.

Run with `python tests/benchmarks/speed.py`; the exit code says whether the limit was passed here.
"""

from __future__ import annotations

import time

import numpy as np

from recommender.catalog.catalog import shipped_catalog
from recommender.errors import NotModelledError
from recommender.speed.build import stored_shape
from recommender.speed.candidates import Candidates
from recommender.speed.hardware import hardware_of
from recommender.speed.predict import prepare, shipped_knowledge
from recommender.speed.slo import Target, largest_concurrency

ROWS = 100_000
LIMIT_S = 3.0
MODELS = ("meta-llama/Llama-3.1-70B-Instruct", "deepseek-ai/DeepSeek-R1", "openai/gpt-oss-120b", "Qwen/Qwen3-32B")


def candidates() -> Candidates:
    """Configurations over every GPU of the catalog whose speed is modelled, drawn with a fixed seed."""
    catalog, random = shipped_catalog(), np.random.default_rng(0)
    gpus = []
    for gpu in catalog.gpus:
        try:
            gpus.append(hardware_of(gpu))
        except NotModelledError:
            continue
    shapes = []
    for name in MODELS:
        model = catalog.model(name)
        shapes += [stored_shape(catalog, model, model.native, kv_dtype) for kv_dtype in ("auto", "fp8")]

    def drawn(*choices: int) -> np.ndarray:
        return random.choice(choices, ROWS)

    return Candidates(
        shapes=tuple(shapes),
        gpus=tuple(gpus),
        engines=("vllm", "sglang", "tensorrt-llm"),
        shape=random.integers(0, len(shapes), ROWS),
        gpu=random.integers(0, len(gpus), ROWS),
        engine=random.integers(0, 3, ROWS),
        tp=drawn(1, 2, 4, 8),
        pp=drawn(1, 2),
        ep=drawn(1),
        dp=drawn(1, 2, 8),
        replicas=drawn(1, 2, 3),
        prompt_tokens=random.uniform(1, 32_000, ROWS),
        output_tokens=random.uniform(1, 4_000, ROWS),
        concurrency=drawn(1, 8, 64, 500).astype(np.float64),
        sequences=random.uniform(1, 2_000, ROWS),
        years=random.uniform(-0.9, 0.3, ROWS),
        batched_tokens=drawn(2048, 8192).astype(np.float64),
    )


def main() -> int:
    """Prints both figures; 1 where scoring took longer than the limit."""
    rows, knowledge = candidates(), shipped_knowledge()
    start = time.process_time()
    prepared = prepare(rows, knowledge)
    prepared.steady(rows.concurrency)
    scored = time.process_time() - start
    start = time.process_time()
    largest_concurrency(prepared, Target(ttft_ms=2000, tpot_ms=50), np.full(ROWS, 4096))
    searched = time.process_time() - start
    print(f"{ROWS:,} configurations scored in {scored:.2f} CPU s (limit {LIMIT_S:.1f})")  # noqa: T201
    print(f"largest concurrency that meets a service level, for each of them: {searched:.2f} CPU s")  # noqa: T201
    return int(scored > LIMIT_S)


if __name__ == "__main__":
    raise SystemExit(main())

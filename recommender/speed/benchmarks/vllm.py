"""Results of `vllm bench serve --save-result`: summaries in milliseconds, totals and rates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recommender.speed.benchmarks.run import LIMITS, LITTLE_TOLERANCE, TOLERANCE, Report, Run, failures, little

MOST_COUNT = 1e12
MOST_SECONDS = 1e8


def is_vllm(found: Mapping[str, Any]) -> bool:
    """Whether a JSON object has the fields of such a result."""
    return "mean_tpot_ms" in found and "total_output_tokens" in found


def vllm_run(found: Mapping[str, Any], file: str) -> Run:
    """The run of a result. Raises InputError with everything wrong with it."""
    report = Report(file)
    completed = report.number(found.get("completed"), "completed", MOST_COUNT)
    failed = report.number(found.get("failed", 0), "failed", MOST_COUNT, zero=True)
    duration = report.number(found.get("duration"), "duration", MOST_SECONDS)
    prompt = report.number(found.get("total_input_tokens"), "total_input_tokens", MOST_COUNT)
    output = report.number(found.get("total_output_tokens"), "total_output_tokens", MOST_COUNT)
    rate = report.number(found.get("request_throughput"), "request_throughput", LIMITS["requests_per_s"])
    tokens = report.number(found.get("output_throughput"), "output_throughput", LIMITS["output_tokens_per_s"])
    ttft = report.number(found.get("mean_ttft_ms"), "mean_ttft_ms", LIMITS["ttft_ms"])
    tpot = report.number(found.get("mean_tpot_ms"), "mean_tpot_ms", LIMITS["tpot_ms"])
    report.done()
    report.agree("request_throughput", rate, completed / duration, TOLERANCE, "completed over duration")
    report.agree("output_throughput", tokens, output / duration, TOLERANCE, "total_output_tokens over duration")
    warnings = failures(report, completed, failed)
    implied = little(rate, ttft, tpot, output / completed)
    concurrency, queued = _concurrency(found, report, implied)
    report.done()
    return Run(
        model=found["model_id"] if isinstance(found.get("model_id"), str) else None,
        completed=int(completed),
        failed=int(failed),
        prompt_tokens=prompt / completed,
        output_tokens=output / completed,
        concurrency=concurrency,
        ttft_ms=None if queued else ttft,
        tpot_ms=tpot,
        output_tokens_per_s=tokens,
        source=f"vllm bench serve result {file}",
        warnings=warnings,
    )


def _concurrency(found: Mapping[str, Any], report: Report, implied: float) -> tuple[float, bool]:
    """(requests in flight, whether all were sent at once): the stated limit where the run kept to it."""
    stated = found.get("max_concurrency")
    if stated is None:
        return max(implied, 1.0), found.get("request_rate") in ("inf", float("inf"))
    limit = report.number(stated, "max_concurrency", LIMITS["concurrency"])
    if implied > limit * (1 + LITTLE_TOLERANCE):
        report.fault("max_concurrency", f"{limit:g} contradicts rate times latency, {implied:.4g} in flight")
    return max(min(limit, implied), 1.0), False

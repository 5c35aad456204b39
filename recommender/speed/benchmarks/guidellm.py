"""Results of guidellm: one run per benchmark of its JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recommender.speed.benchmarks.run import LIMITS, LITTLE_TOLERANCE, Report, Run, failures, little, mapping

MOST_COUNT = 1e12


def is_guidellm(found: Mapping[str, Any]) -> bool:
    """Whether a JSON object has the fields of such a result."""
    runs = found.get("benchmarks")
    return isinstance(runs, list) and any("metrics" in mapping(each) for each in runs)


def guidellm_runs(found: Mapping[str, Any], file: str) -> tuple[Run, ...]:
    """The runs of a result. Raises InputError with everything wrong with any of them."""
    report = Report(file)
    runs = [_run(mapping(each), report, at) for at, each in enumerate(found["benchmarks"])]
    report.done()
    return tuple(run for run in runs if run is not None)


def _run(benchmark: Mapping[str, Any], report: Report, at: int) -> Run | None:
    """One benchmark; None where something is wrong with it."""
    before, metrics = len(report.faults), mapping(benchmark.get("metrics"))
    answered = _count(metrics, "successful")
    completed, failed, cut = (answered or 0.0, _count(metrics, "errored") or 0.0, _count(metrics, "incomplete") or 0.0)
    if answered == 0 or cut > completed:
        what = f"{completed:.0f} requests were answered, {failed:.0f} failed, {cut:.0f} were cut off at its end"
        said = f"benchmarks[{at}].metrics.request_totals"
        report.fault(said, what, "more answered than cut off; what is cut off is in no figure")
        return None

    def mean(metric: str, most: float) -> float:
        value = mapping(mapping(metrics.get(metric)).get("successful")).get("mean")
        return report.number(value, f"benchmarks[{at}].metrics.{metric}.successful.mean", most)

    rate = mean("requests_per_second", LIMITS["requests_per_s"])
    concurrency = mean("request_concurrency", LIMITS["concurrency"])
    prompt, output = (
        mean("prompt_token_count", LIMITS["prompt_tokens"]),
        mean("output_token_count", LIMITS["output_tokens"]),
    )
    ttft, tpot = mean("time_to_first_token_ms", LIMITS["ttft_ms"]), mean("inter_token_latency_ms", LIMITS["tpot_ms"])
    if answered is None:
        what = "does not say how many requests were answered"
        report.fault(f"benchmarks[{at}].metrics.request_totals.successful", what, "a number")
    warnings = failures(report, completed, failed)
    if cut:
        warnings = (*warnings, f"{cut:.0f} of {completed + failed + cut:.0f} requests were cut off at its end")
    key = f"benchmarks[{at}].metrics.request_concurrency"
    report.agree(key, concurrency, little(rate, ttft, tpot, output), LITTLE_TOLERANCE, "rate times latency")
    if len(report.faults) > before:
        return None
    return Run(
        model=None,
        completed=int(completed),
        failed=int(failed),
        prompt_tokens=prompt,
        output_tokens=output,
        concurrency=max(concurrency, 1.0),
        ttft_ms=None if _all_at_once(benchmark) else ttft,
        tpot_ms=tpot,
        output_tokens_per_s=rate * output,
        source=f"guidellm result {report.file}, benchmark {at + 1}",
        warnings=warnings,
    )


def _all_at_once(benchmark: Mapping[str, Any]) -> bool:
    """Whether all requests were sent at its start (`throughput`): their first tokens wait for the whole queue.

    The strategy is in `config` (guidellm benchmark/outputs/csv.py), before 0.4 in `args`.
    """
    settings = (mapping(benchmark.get(key)) for key in ("config", "args"))
    return any(mapping(each.get("strategy")).get("type_") == "throughput" for each in settings)


def _count(metrics: Mapping[str, Any], kind: str) -> float | None:
    """Requests of a kind: their total, or those with a latency; None where the file says neither."""
    total = mapping(metrics.get("request_totals")).get(kind)
    count = mapping(mapping(metrics.get("request_latency")).get(kind)).get("count") if total is None else total
    usable = isinstance(count, int | float) and not isinstance(count, bool) and 0 <= count <= MOST_COUNT
    return float(count) if usable and count is not None else None

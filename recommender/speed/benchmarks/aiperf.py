"""Results of aiperf and genai-perf: the summary (profile_export_*.json) or one line per request (.jsonl)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from recommender.speed.benchmarks.run import LIMITS, Report, Run, failures, little, mapping

MOST_COUNT = 1e12
TWICE = 0.5
"""Between the time of a request and the sum of its parts: clients and networks add to it, but not as much again."""
_TO_MS = {"ms": 1.0, "s": 1e3, "sec": 1e3, "seconds": 1e3, "us": 1e-3, "ns": 1e-6}


def is_aiperf(found: Mapping[str, Any]) -> bool:
    """Whether a JSON object has the fields of such a summary, those of a run that did not stream among them."""
    return "avg" in mapping(found.get("request_throughput")) or "avg" in mapping(found.get("inter_token_latency"))


def aiperf_run(found: Mapping[str, Any], file: str) -> Run:
    """The run of a summary. Raises InputError with everything wrong with it."""
    report = Report(file)

    def average(metric: str, most: float) -> float:
        return report.number(mapping(found.get(metric)).get("avg"), f"{metric}.avg", most)

    rate = average("request_throughput", LIMITS["requests_per_s"])
    tokens = average("output_token_throughput", LIMITS["output_tokens_per_s"])
    prompt = average("input_sequence_length", LIMITS["prompt_tokens"])
    output = average("output_sequence_length", LIMITS["output_tokens"])
    ttft, tpot = (_milliseconds(found, name, report) for name in ("time_to_first_token", "inter_token_latency"))
    completed = average("request_count", MOST_COUNT)
    failed = _failed(found, report)
    report.done()
    report.agree("output_token_throughput", tokens, rate * output, 0.05, "request_throughput times output length")
    warnings = failures(report, completed, failed)
    if found.get("was_cancelled") is True:
        warnings = (*warnings, "was stopped before its end")
    report.done()
    return Run(
        model=_model(found),
        completed=int(completed),
        failed=int(failed),
        prompt_tokens=prompt,
        output_tokens=output,
        concurrency=max(little(rate, ttft, tpot, output), 1.0),
        ttft_ms=ttft,
        tpot_ms=tpot,
        output_tokens_per_s=tokens,
        source=f"aiperf summary {file}",
        warnings=warnings,
    )


def _failed(found: Mapping[str, Any], report: Report) -> float:
    """Requests that failed or were cancelled: their count, or the sum of the list of errors where that is null."""
    counted = mapping(found.get("error_request_count")).get("avg")
    summary = found.get("error_summary")
    if counted is not None or not isinstance(summary, list):
        return report.number(counted or 0, "error_request_count.avg", MOST_COUNT, zero=True)
    counts = [
        report.number(mapping(each).get("count"), f"error_summary[{at}].count", MOST_COUNT)
        for at, each in enumerate(summary)
    ]
    return sum(counts)


def _milliseconds(found: Mapping[str, Any], metric: str, report: Report) -> float:
    """The average of a metric in milliseconds, by its own unit."""
    entry = mapping(found.get(metric))
    if entry.get("avg") is None:
        report.fault(f"{metric}.avg", "is missing", "a run that streams its answers (--streaming)")
        return math.nan
    factor = _TO_MS.get(str(entry.get("unit")).lower())
    if factor is None:
        report.fault(f"{metric}.unit", f"{entry.get('unit', '')!r} is not a unit of time", " | ".join(_TO_MS))
        return math.nan
    return report.number(entry.get("avg"), f"{metric}.avg", LIMITS["ttft_ms"] / factor) * factor


def _model(found: Mapping[str, Any]) -> str | None:
    """The model named in the tool's own settings."""
    settings = mapping(found.get("input_config"))
    names = mapping(settings.get("endpoint")).get("model_names") or settings.get("model_names") or settings.get("model")
    first = names[0] if isinstance(names, list) and names else names
    return first if isinstance(first, str) else None


def aiperf_requests_run(lines: Sequence[Mapping[str, Any]], file: str) -> Run:
    """The run of one line per request: times in nanoseconds since the epoch, metrics with their units."""
    report = Report(file)
    served = [
        each for each in lines if not each.get("error") and not mapping(each.get("metadata")).get("was_cancelled")
    ]
    found = [_request(each, report) for each in served if not report.faults]
    report.done()
    failed = len(lines) - len(served)
    warnings = failures(report, len(served), failed)
    if not found:
        report.fault("metrics", "no request succeeded")
    report.done()
    first, last = min(each[0] for each in found), max(each[1] for each in found)
    seconds = (last - first) / 1e9
    ttft, prompt, output = (sum(each[at] for each in found) / len(found) for at in (2, 4, 5))
    gaps = [each[3] for each in found if each[5] > 1]
    if not gaps:
        report.fault("metrics.inter_token_latency", "no request has a second token", "answers of several tokens")
        report.done()
    tpot = sum(gaps) / len(gaps)
    busy = sum(each[1] - each[0] for each in found) / 1e9
    parts = sum(each[2] + max(each[5] - 1, 0.0) * each[3] for each in found) / 1e3
    how = "time to first token and latencies between tokens"
    report.agree("metadata.request_end_ns", busy / len(found), parts / len(found), TWICE, how)
    report.done()
    return Run(
        model=None,
        completed=len(served),
        failed=failed,
        prompt_tokens=prompt,
        output_tokens=output,
        concurrency=max(busy / seconds, 1.0),
        ttft_ms=ttft,
        tpot_ms=tpot,
        output_tokens_per_s=output * len(found) / seconds,
        source=f"aiperf requests {file}",
        warnings=warnings,
    )


def _request(each: Mapping[str, Any], report: Report) -> tuple[float, ...]:
    """(start ns, end ns, TTFT ms, TPOT ms, prompt tokens, output tokens) of one request."""
    metadata, metrics = mapping(each.get("metadata")), mapping(each.get("metrics"))
    start = report.number(metadata.get("request_start_ns"), "metadata.request_start_ns", 1e20)
    end = report.number(metadata.get("request_end_ns"), "metadata.request_end_ns", 1e20)
    if end <= start:
        report.fault("metadata.request_end_ns", "ends before it starts")
    averages = {
        name: {**mapping(metrics.get(name)), "avg": mapping(metrics.get(name)).get("value")} for name in metrics
    }
    lengths = [
        report.number(mapping(metrics.get(name)).get("value"), f"metrics.{name}.value", LIMITS["prompt_tokens"])
        for name in ("input_sequence_length", "output_sequence_length")
    ]
    ttft = _milliseconds(averages, "time_to_first_token", report)
    one_token = lengths[1] == 1  # it has no time between tokens
    tpot = 0.0 if one_token else _milliseconds(averages, "inter_token_latency", report)
    return (start, end, ttft, tpot, *lengths)

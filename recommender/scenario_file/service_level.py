"""Limits on speed: what they need from other keys, and where they say nothing."""

from __future__ import annotations

from collections.abc import Iterable

from recommender.errors import Fault
from recommender.scenario_file.document import Document, Trail

LIMITS = ("ttft_ms", "tpot_ms", "output_tokens_per_s", "requests_per_s")
TOTALS = ("output_tokens_per_s", "requests_per_s")

_SPLIT = "lengths: {fixed: {input, output}}"
_Found = Iterable[tuple[Trail, str, str]]


def default_speed(*, limited: bool, timed_rate: bool) -> str:
    """Whether speed takes part where a scenario does not say: where something depends on it."""
    return "model" if limited or timed_rate else "ignore"


def service_level_faults(document: Document) -> dict[Trail, Fault]:
    """The faults between `sla`, `speed` and the workload; keys that could not even be read are not judged again."""
    sla = document.at(("sla",))
    written = [name for name in LIMITS if isinstance(sla, dict) and sla.get(name) is not None]
    found = (
        *_without_effect(document, written),
        *_needs(document, written),
        *_ignored(document, written),
        *_hosted_api(document),
    )
    return {
        trail: document.fault(trail, what, expected) for trail, what, expected in found if trail not in document.faults
    }


def _without_effect(document: Document, written: list[str]) -> _Found:
    if document.at(("sla", "percentile")) is not None and "ttft_ms" not in written:
        yield ("sla", "percentile"), "has no effect: it is that of the time to first token", "sla.ttft_ms beside it"
    rate = document.at(("workload", "rate_per_s"))
    predicted = rate is not None and not (isinstance(rate, dict) and rate.get("request_s") is not None)
    predicted = predicted and document.at(("speed",)) != "ignore" and document.at(("sizing", "step_ms")) is None
    if document.at(("sla", "confidence")) is not None and not written and not predicted:
        yield ("sla", "confidence"), "has no effect: nothing limits speed", f"one of {', '.join(LIMITS)} beside it"


def _needs(document: Document, written: list[str]) -> _Found:
    fixed = document.at(("workload", "lengths", "fixed"))
    total_only = fixed is not None and not isinstance(fixed, dict)
    for name in written:
        if total_only:
            yield ("sla", name), "a fixed total does not say how much of it is prompt", _SPLIT
        elif name in TOTALS and document.at(("workload", "rate_per_s")) is not None:
            yield ("sla", name), "stands beside rate_per_s, which asks for a throughput already", "one of the two"
        elif document.at(("memory_model",)) == "article":
            yield ("sla", name), "the article plans by memory alone", "memory_model: vllm"


def _hosted_api(document: Document) -> _Found:
    api, fixed = document.at(("hosted_api",)), document.at(("workload", "lengths", "fixed"))
    if not isinstance(api, dict):
        return
    if not any(api.values()):
        yield ("hosted_api",), "an API that costs nothing is never dearer", "its dollars per million tokens"
    if fixed is not None and not isinstance(fixed, dict):
        yield ("hosted_api",), "a fixed total does not say how much of it is prompt", _SPLIT


def _ignored(document: Document, written: list[str]) -> _Found:
    if document.at(("speed",)) == "ignore" and written:
        keys = ", ".join(f"sla.{name}" for name in written)
        yield ("speed",), f"ignore leaves {keys} without effect", "model, or no such limit"
    rate, step = document.at(("workload", "rate_per_s")), document.at(("sizing", "step_ms"))
    if document.at(("speed",)) == "model" and rate is not None and step is not None:
        yield ("sizing", "step_ms"), "stands beside speed: model, which predicts these times", "one of the two"

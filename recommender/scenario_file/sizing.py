"""How a scenario's requests are counted: what its keys on load, lengths and sizing leave open, and where they clash."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from recommender.errors import Fault
from recommender.scenario_file.document import Document, Trail

LEAST_RISK = Decimal("1e-9")  # below it a sum's far tail is lost in the rounding of the transform

_CONCURRENCY: Trail = ("workload", "concurrency")
_RATE: Trail = ("workload", "rate_per_s")
_HOURLY: Trail = ("workload", "hourly")
_PREFIX: Trail = ("workload", "shared_prefix")
_MAX_TOKENS: Trail = ("workload", "max_tokens")
_MODE: Trail = ("sizing", "mode")
_EPSILON: Trail = ("sizing", "epsilon")
_STEP: Trail = ("sizing", "step_ms")


def default_mode(lengths: Mapping[str, Any], memory_model: str) -> str:
    """The sizing of a scenario that states none: the article's memory model knows the worst case only."""
    return "worst_case" if "fixed" in lengths or memory_model == "article" else "statistical"


def sizing_faults(document: Document) -> dict[Trail, Fault]:
    """The faults between load, lengths and sizing; keys that could not even be read are not judged again."""
    if not isinstance(document.at(("workload",)), dict):
        return {}
    asked = _Asked(document)
    found = (*_load(asked), *_mode(asked), *_risk(asked), *_prefix(asked))
    return {
        trail: document.fault(trail, what, expected) for trail, what, expected in found if trail not in document.faults
    }


_Found = Iterable[tuple[Trail, str, str]]


class _Asked:
    """What a document writes about load, lengths and sizing."""

    def __init__(self, document: Document) -> None:
        lengths, rate = document.at(("workload", "lengths")), document.at(_RATE)
        self.concurrency, self.rate = document.at(_CONCURRENCY), rate
        self.hourly = document.at(_HOURLY)
        self.prefix, self.max_tokens = document.at(_PREFIX), document.at(_MAX_TOKENS)
        self.epsilon, self.step = document.at(_EPSILON), document.at(_STEP)
        self.article = document.at(("memory_model",)) == "article"
        self.lengths = lengths if isinstance(lengths, dict) else {}
        self.total_only = "fixed" in self.lengths and not isinstance(self.lengths["fixed"], dict)
        written = document.at(_MODE)
        self.mode = written or default_mode(self.lengths, "article" if self.article else "vllm")
        self.stated_s = isinstance(rate, dict) and rate.get("request_s") is not None


def _load(asked: _Asked) -> _Found:
    if asked.concurrency is None and asked.rate is None:
        yield _CONCURRENCY, "is missing", "requests at once, or rate_per_s"
    if asked.concurrency is not None and asked.rate is not None:
        yield _RATE, "stands beside concurrency", "one of the two"
    if asked.hourly is not None and asked.rate is not None:
        yield _HOURLY, "stands beside rate_per_s, not in it", "rate_per_s: {value, hourly}"
    split = "lengths: {fixed: {input, output}}"
    if asked.rate is not None and asked.total_only and not asked.stated_s:
        yield _RATE, "a fixed total does not say how long an answer takes", f"{split}, or rate_per_s: {{request_s}}"
    if asked.max_tokens is not None and asked.total_only:
        yield _MAX_TOKENS, "a fixed total already holds what clients ask for", split


def _mode(asked: _Asked) -> _Found:
    if asked.mode not in ("statistical", "trace_replay"):
        return
    if asked.total_only:
        what = "a fixed total does not say how much of it is prompt"
        yield _MODE, what, "worst_case, or lengths: {fixed: {input, output}}"
    if asked.article:
        yield _MODE, "the article's memory model counts the worst case only", "worst_case, or memory_model: vllm"


def _risk(asked: _Asked) -> _Found:
    if asked.epsilon is not None and asked.mode == "worst_case" and asked.rate is None:
        yield _EPSILON, "has no effect: sizing for the worst case takes no risk", "no epsilon"
    if isinstance(asked.epsilon, int | Decimal) and 0 < asked.epsilon < LEAST_RISK:
        yield _EPSILON, "is too small to be computed", "at least 1e-9"
    timed = (asked.rate is not None and not asked.stated_s) or asked.mode == "trace_replay"
    if asked.step is not None and not timed:
        yield _STEP, "has no effect: nothing is timed", "rate_per_s without request_s, or mode: trace_replay"


def _prefix(asked: _Asked) -> _Found:
    if asked.prefix is None or asked.mode == "statistical":
        return
    why = (
        "the replay does not model it" if asked.mode == "trace_replay" else "the worst case counts every request whole"
    )
    yield _PREFIX, f"has no effect: {why}", "sizing: {mode: statistical}"

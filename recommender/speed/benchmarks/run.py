"""One load-test run of an engine, and the checks it must pass before anything is learned from it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from recommender.errors import Fault, InputError

MOST_FAILED = 0.1
"""Share of failed requests above which a run says more about its failures than about speed."""
TOLERANCE = 0.02
"""Between a rate and the count over the duration it is made of."""
LITTLE_TOLERANCE = 0.25
"""Between the stated concurrency and the one that rate and latency imply: ramps at both ends are part of a run."""
# Nothing real lies outside: milliseconds up to an hour, tokens, requests at once, tokens a second.
LIMITS = {
    "ttft_ms": 3.6e6,
    "tpot_ms": 3.6e6,
    "prompt_tokens": 1e7,
    "output_tokens": 1e7,
    "concurrency": 1e6,
    "output_tokens_per_s": 1e9,
    "requests_per_s": 1e7,
}


@dataclass(frozen=True, slots=True)
class Run:
    """Means over the requests that succeeded. `ttft_ms` is None where the run queued all requests at its start.

    `model` is the name the tool recorded, None where it recorded none.
    """

    model: str | None
    completed: int
    failed: int
    prompt_tokens: float
    output_tokens: float
    concurrency: float
    ttft_ms: float | None
    tpot_ms: float
    output_tokens_per_s: float
    source: str
    warnings: tuple[str, ...] = ()


@dataclass(slots=True)
class Report:
    """What is wrong with a file, gathered: all of it is reported at once."""

    file: str
    faults: list[Fault] = field(default_factory=list)

    def fault(self, key: str, what: str, expected: str | None = None) -> None:
        """Note one fault."""
        self.faults.append(Fault(what, self.file, None, key, expected))

    def number(self, value: Any, key: str, most: float, *, zero: bool = False) -> float:
        """A finite number in (0, most], or [0, most]; NaN, with its fault noted, where it is not."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.fault(key, "is missing" if value is None else "is not a number", "a number")
        elif value != value or value > most or value < 0 or (value == 0 and not zero):
            shown = f"{value:.6g}" if isinstance(value, float) or abs(value) < 10**18 else "a number of that size"
            self.fault(key, f"{shown} cannot be", f"{'0' if zero else 'above 0'} up to {most:g}")
        else:
            return float(value)
        return math.nan

    def agree(self, key: str, stated: float, computed: float, tolerance: float, how: str) -> None:
        """Note where two figures that must agree do not, or where one is beyond all numbers."""
        if not abs(stated - computed) <= tolerance * max(stated, computed) < math.inf:
            self.fault(key, f"{stated:.6g} contradicts {how}, {computed:.6g}")

    def done(self) -> None:
        """Raise InputError where there was a fault."""
        if self.faults:
            raise InputError(self.faults)


def mapping(value: Any) -> Mapping[str, Any]:
    """The value where it is a mapping, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def little(requests_per_s: float, ttft_ms: float, tpot_ms: float, output_tokens: float) -> float:
    """Requests in flight that a rate and a mean latency imply (Little's law)."""
    return requests_per_s * (ttft_ms + max(output_tokens - 1, 0.0) * tpot_ms) / 1e3


def failures(report: Report, completed: float, failed: float) -> tuple[str, ...]:
    """Warnings of a run with failed requests; a fault where too many of them failed."""
    share = failed / max(completed + failed, 1)
    if share > MOST_FAILED:
        report.fault(
            "failed", f"{failed:.0f} of {completed + failed:.0f} requests failed", f"at most {MOST_FAILED:.0%}"
        )
    return (f"{failed:.0f} of {completed + failed:.0f} requests failed",) if failed else ()

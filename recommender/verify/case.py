"""One comparison as causes are looked for in it, and a cause."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from recommender.units import GIB
from recommender.verify.configuration import Configuration
from recommender.verify.log import StartupLog
from recommender.verify.prediction import Prediction
from recommender.verify.readings import Readings

WORTH_NAMING = 0.003
"""Share of the budget below which a gap is not explained: the rounding of the log, and what two boots differ by."""
REMAINS = 0.25
"""Something else explains a gap where it leaves at most this share of it."""


@dataclass(frozen=True, slots=True)
class Cause:
    """`explains_bytes` is the part of the gap on one GPU that it accounts for, as far as that is known."""

    what: str
    reasoning: str
    explains_bytes: int


@dataclass(frozen=True, slots=True)
class Case:
    """Everything a cause is looked for in. `gaps` are predicted less logged, by the name of the line."""

    log: StartupLog
    configuration: Configuration
    prediction: Prediction
    readings: Readings
    gaps: Mapping[str, int | float]
    budget: int

    def gap(self, *names: str) -> int:
        """The first of these gaps that is known and worth naming, in bytes; 0 where there is none."""
        for name in names:
            if name in self.gaps:
                gap = int(self.gaps[name])
                return gap if abs(gap) > WORTH_NAMING * self.budget else 0
        return 0


def gib(count_bytes: int) -> str:
    """Bytes as GiB with two places."""
    return f"{count_bytes / GIB:.2f} GiB"

"""Predictions with their bands for any number of candidates: the physics, the constants and the anchors together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from recommender.speed.anchors import Anchor, Factors, Key, apply, factors_of, shipped_anchors
from recommender.speed.candidates import Candidates, Float, Int
from recommender.speed.constants import Constants, shipped_constants
from recommender.speed.evidence import Bands, evidence_of, shipped_bands
from recommender.speed.steady import Steady, steady_state
from recommender.speed.step import Costs, costs_of

LOW, HIGH = 0.1, 0.9
"""Ends of the 80 % band."""


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What predictions rest on: fitted constants, anchors by group, and the bands of each class of evidence."""

    constants: Constants
    anchors: Mapping[Key, Anchor]
    bands: Bands

    def with_anchors(self, anchors: Mapping[Key, Anchor]) -> Knowledge:
        """The same with a user's own anchors, which replace shipped ones of the same group."""
        return Knowledge(self.constants, {**self.anchors, **anchors}, self.bands)


@dataclass(frozen=True, slots=True)
class Prepared:
    """Candidates with everything that does not depend on their load."""

    rows: Candidates
    costs: Costs
    factors: Factors
    evidence: Int
    bands: Bands

    def steady(self, concurrency: Float) -> Steady:
        """What each candidate does with so many requests in flight."""
        rows = self.rows.at(concurrency)
        return apply(steady_state(rows, self.costs), self.factors, rows)

    def step_times(self, sequences: Float) -> tuple[Float, Float, Float]:
        """Seconds of (a step, each further sequence in it, each prompt token in it), about so many sequences a rank."""
        costs, factor = self.costs, self.factors.tpot
        step = costs.step_s(sequences) + costs.chunk_s(sequences)
        base = step - costs.per_sequence_s * sequences
        return base * factor, costs.per_sequence_s * factor, costs.prompt_s / self.rows.prompt_tokens * factor

    def ratio(self, metric: str, level: float) -> Float:
        """Measured over predicted that a share `level` of such predictions stayed below."""
        return self.bands.ratio(self.evidence, metric, level)


def shipped_knowledge() -> Knowledge:
    """What travels with the package."""
    return Knowledge(shipped_constants(), shipped_anchors(), shipped_bands())


def prepare(rows: Candidates, knowledge: Knowledge) -> Prepared:
    """Candidates ready for any load."""
    factors = factors_of(rows, knowledge.anchors)
    evidence = evidence_of(rows, knowledge.constants, factors)
    return Prepared(rows, costs_of(rows, knowledge.constants), factors, evidence, knowledge.bands)

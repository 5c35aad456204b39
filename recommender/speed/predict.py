"""Predictions with their bands for any number of candidates: the physics, the constants and the anchors together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from recommender.speed.anchors import Anchor, Factors, Key, apply, factors_of, shipped_anchors
from recommender.speed.candidates import Bool, Candidates, Float, Int
from recommender.speed.constants import Constants, shipped_constants
from recommender.speed.covered import ROUNDING, reach_of
from recommender.speed.evidence import Bands, Evidence, evidence_of, shipped_bands
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
    """Candidates with everything that does not depend on their load.

    `evidence` is the class up to `measured_at_once` requests on a replica: what is asked beyond that is founded on
    the GPU at best.
    """

    rows: Candidates
    costs: Costs
    factors: Factors
    evidence: Int
    measured_at_once: Float
    bands: Bands

    def where(self, mask: Bool | Int) -> Prepared:
        """The rows that `mask` picks."""
        return Prepared(
            self.rows.where(mask),
            self.costs.where(mask),
            self.factors.where(mask),
            self.evidence[mask],
            self.measured_at_once[mask],
            self.bands,
        )

    def steady(self, concurrency: Float) -> Steady:
        """What each candidate does with so many requests in flight."""
        rows = self.rows.at(concurrency)
        return apply(steady_state(rows, self.costs), self.factors, rows)

    def step_times(self, sequences: Float) -> tuple[Float, Float, Float, Float]:
        """Seconds of (a step, each further sequence in it, each prompt token in it, what any prompt in it adds), about
        so many sequences a rank.
        """
        costs, factor = self.costs, self.factors.tpot
        base = costs.step_s(sequences) - costs.per_sequence_s * sequences
        token = costs.prompt_s / self.rows.prompt_tokens
        return base * factor, costs.per_sequence_s * factor, token * factor, costs.chunk_s(sequences) * factor

    def evidence_at(self, concurrency: Float) -> Int:
        """The class of each prediction with so many requests in flight."""
        running = np.minimum(concurrency / self.rows.replicas, self.rows.sequences)
        beyond = running > self.measured_at_once * ROUNDING
        return np.where(beyond, np.maximum(self.evidence, Evidence.KNOWN_GPU), self.evidence)

    def covered(self, concurrency: Float) -> Float:
        """So many requests in flight, or the most at which the class of evidence is that of fewer."""
        most: Float = np.minimum(concurrency, self.measured_at_once * ROUNDING * self.rows.replicas)
        return most

    def ratio(self, metric: str, level: float, concurrency: Float) -> Float:
        """Measured over predicted that a share `level` of such predictions stayed below."""
        return self.bands.ratio(self.evidence_at(concurrency), metric, level)

    def worst_ratio(self, metric: str, level: float, concurrency: Float) -> Float:
        """The same on the side that a promise needs: what lies beyond all measurements is never called better."""
        side = np.maximum if level >= 0.5 else np.minimum
        within = self.bands.ratio(self.evidence, metric, level)
        worst: Float = side(within, self.ratio(metric, level, concurrency))
        return worst


def shipped_knowledge() -> Knowledge:
    """What travels with the package."""
    return Knowledge(shipped_constants(), shipped_anchors(), shipped_bands())


def prepare(rows: Candidates, knowledge: Knowledge) -> Prepared:
    """Candidates ready for any load."""
    factors = factors_of(rows, knowledge.anchors)
    evidence = evidence_of(rows, knowledge.constants, factors)
    reach = reach_of(rows)
    beyond = (rows.prompt_tokens > reach.prompt_tokens * ROUNDING) | (
        rows.output_tokens > reach.output_tokens * ROUNDING
    )
    evidence = np.where(beyond, np.maximum(evidence, Evidence.KNOWN_GPU), evidence)
    return Prepared(rows, costs_of(rows, knowledge.constants), factors, evidence, reach.concurrency, knowledge.bands)

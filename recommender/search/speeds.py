"""How fast candidate replicas serve: what the limits on speed leave of the requests that memory holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from recommender.catalog.catalog import Catalog
from recommender.errors import Fault, InputError, NotModelledError
from recommender.memory.capacity import Capacity, Reason, ReplicaColumns, Setting
from recommender.scenario import Scenario
from recommender.search.plan import Plan
from recommender.speed.anchors import Anchor, by_key
from recommender.speed.candidates import Float
from recommender.speed.own import anchor_of
from recommender.speed.predict import Knowledge, Prepared, prepare, shipped_knowledge
from recommender.speed.replicas import candidates_of, modelled
from recommender.speed.service import PredictedService, rates_per_s
from recommender.speed.slo import Seen, Target, largest_concurrency, worst_seen
from recommender.workload.lengths import mean_request, mean_tokens

WITHOUT_SPEED = "no limits on speed, and at a rate request_s, sizing.step_ms or speed: ignore"


@dataclass(frozen=True, slots=True)
class Speeds:
    """What all rows of a question share: mean lengths, the limits, and what predictions rest on."""

    prompt_tokens: float
    output_tokens: float
    target: Target
    knowledge: Knowledge

    def limited(self, setting: Setting, columns: ReplicaColumns, held: Capacity) -> Capacity:
        """What memory holds, cut to the requests at which every limit is kept; per data-parallel rank."""
        asked = np.flatnonzero((held.sequences > 0) & modelled(setting)[columns.gpu])
        sequences, reason = np.zeros_like(held.sequences), held.reason.copy()
        reason[held.sequences > 0] = Reason.SPEED_UNKNOWN
        if len(asked):
            rows, memory = columns.where(asked), held.where(asked)
            prepared = self.prepared(setting, rows, memory)
            most = largest_concurrency(prepared, self.target, memory.sequences * rows.dp)
            sequences[asked] = most // rows.dp
            reason[asked] = np.where(sequences[asked] > 0, Reason.FITS, Reason.TOO_SLOW)
        return replace(held, sequences=sequences, reason=reason)

    def prepared(self, setting: Setting, columns: ReplicaColumns, held: Capacity) -> Prepared:
        """Rows that hold a request, on cards whose speed is modelled, ready for any load."""
        try:
            rows = candidates_of(setting, columns, held, self.prompt_tokens, self.output_tokens)
        except NotModelledError as error:
            raise NotModelledError(Fault(error.faults[0].what, key="speed", expected=WITHOUT_SPEED)) from None
        return prepare(rows, self.knowledge)

    def rates_per_s(self, prepared: Prepared, in_flight: Float) -> Float:
        """Requests a second that one engine of each row answers with so many in flight."""
        return rates_per_s(prepared, in_flight, self.target.confidence)

    def service(self, prepared: Prepared) -> PredictedService:
        """How long requests take on an engine of the one row."""
        return PredictedService(prepared, self.target.confidence)

    def alone(self, prepared: Prepared) -> Seen:
        """What one request by itself sees on each row, on the side that is planned on."""
        return worst_seen(prepared, self.target, np.ones(len(prepared.rows), dtype=np.int64))


def speeds_of(scenario: Scenario, anchors: Sequence[Anchor]) -> Speeds | None:
    """The speeds that take part in the choice; None where nothing depends on them."""
    if not scenario.sla.timed and not scenario.paced_by_model:
        return None
    knowledge = shipped_knowledge().with_anchors(by_key(anchors))
    return Speeds(*mean_request(scenario.workload.lengths), target_of(scenario), knowledge)


def target_of(scenario: Scenario) -> Target:
    """The limits of a scenario for each request.

    A total that so many requests at once must reach is each one's part of it: then it is reached however they are
    spread over replicas, since no replica gives its requests less.
    """
    sla, requests = scenario.sla, scenario.workload.concurrency or 1
    _, output = mean_tokens(scenario.workload.lengths)
    totals = [float(sla.output_tokens_per_s or 0), float(sla.requests_per_s or 0) * output]
    return Target(
        ttft_ms=None if sla.ttft_ms is None else float(sla.ttft_ms),
        tpot_ms=None if sla.tpot_ms is None else float(sla.tpot_ms),
        ttft_percentile=None if sla.percentile is None else float(sla.percentile),
        request_tokens_per_s=max(totals) / requests or None,
        confidence=float(sla.confidence),
    )


def unused_anchors(anchors: Sequence[Anchor], plans: Sequence[Plan]) -> Iterator[str]:
    """Why a user's own run shows in no figure, for each such run: what it was taken on is in no plan that is listed."""
    listed = {
        (group.gpu, group.memory.model, group.memory.engine, group.weights) for plan in plans for group in plan.replicas
    }
    for anchor in anchors if plans else ():
        if anchor.key not in listed:
            what = f"{anchor.source} was measured with {anchor.weights} weights of {anchor.model} on {anchor.gpu}"
            yield f"{what}, which no plan listed uses: it corrects none of their figures"


def anchors_of(scenario: Scenario, catalog: Catalog) -> tuple[tuple[Anchor, ...], tuple[str, ...]]:
    """The anchors of a user's own runs, and what to warn of. Raises InputError with every run that does not hold."""
    anchors: list[Anchor] = []
    warnings: list[str] = []
    faults: list[Fault] = []
    files = [Path(own.file).resolve() for own in scenario.anchors]
    for place, own in enumerate(scenario.anchors):
        if files[place] in files[:place]:
            faults.append(Fault("is given twice: a run counts once", own.file, key=f"anchors[{place}].file"))
        try:
            anchor, found = anchor_of(own.runs, own.setup, catalog, own.file)
        except InputError as error:
            faults += [_placed(fault, f"anchors[{place}]") for fault in error.faults]
            continue
        anchors.append(anchor)
        warnings += found
    if faults:
        raise InputError(faults)
    return tuple(anchors), tuple(warnings)


def _placed(fault: Fault, anchor: str) -> Fault:
    """A fault of the result file as it is; one of the set-up under the scenario's key."""
    if fault.file is not None:
        return fault
    return replace(fault, key=f"{anchor}.{fault.key}" if fault.key not in (None, "anchors") else anchor)

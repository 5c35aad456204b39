"""Every replica that could be started, and what each holds: one row per GPU type, layout and terms.

Offers of one GPU type share these rows: a candidate (offer, layout, terms) takes its memory from the row of its GPU.
Every row that holds nothing carries the reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from recommender.catalog.gpus import Gpu
from recommender.catalog.models import Model
from recommender.memory.capacity import Demand, Reason
from recommender.memory.compatibility import Verdict, compatible
from recommender.scenario import Scenario
from recommender.search.evaluation import Evaluation, Open
from recommender.search.layouts import Layout, layouts_of
from recommender.search.load import Load
from recommender.search.problem import Integers
from recommender.search.speeds import Speeds
from recommender.search.terms import Terms

_LIMITS = {
    Reason.FITS: "fits",
    Reason.MAX_MODEL_LEN: "max_model_len",
    Reason.TOO_SLOW: "speed",
    Reason.SPEED_UNKNOWN: "speed",
}
STARTS = ("fits", "max_model_len", "speed")
"""The limits of rows where weights and reserve fit, whether or not a request does."""

REASONS = {
    Reason.MEMORY_UNKNOWN: "nobody stated what the engine sees of this card's memory",
    Reason.WEIGHTS: "the weights and the reserve alone exceed the memory",
    Reason.MAX_MODEL_LEN: "not one request of max-model-len fits, so the engine refuses to start",
    Reason.NOT_MODELLED: "its weights or its cache are not modelled",
    Reason.LOADING: "the 16-bit weights that are quantised while loading exceed the memory",
    Reason.UTILIZATION: "the utilization leaves no room for the CUDA context",
    Reason.TOO_LONG: "max-model-len is longer than the model allows",
    Reason.TOO_SLOW: "even one request by itself misses a limit on speed",
    Reason.SPEED_UNKNOWN: "its memory bandwidth or FLOP/s are not known, so neither is its speed",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One candidate replica. `sequences` 0: it holds nothing, see `reason`. `kv_cache_bytes` are per GPU.

    `sequences` are units of the load (requests at once, or parts of a rate), `slots` requests at once in any case.
    """

    gpu: str
    layout: Layout
    terms: int
    verdict: Verdict
    sequences: int
    kv_cache_bytes: int
    limit: str  # fits | compatibility | memory | max_model_len | speed
    reason: str
    slots: int = 0
    max_num_batched_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Pattern:
    """The replicas one instance hosts: (layout, index of terms, count), and the requests they hold together."""

    replicas: tuple[tuple[Layout, int, int], ...]
    sequences: int

    @property
    def gpus(self) -> int:
        """GPUs in use."""
        return sum(layout.gpus * count for layout, _, count in self.replicas)

    @property
    def count(self) -> int:
        """Replicas."""
        return sum(count for *_, count in self.replicas)


@dataclass(slots=True)
class Candidates:
    """All rows of a question, and what an instance of each size holds at best."""

    terms: tuple[Terms, ...]
    rows: dict[tuple[str, Layout, int], Row]  # (gpu, layout, terms)
    uniform: bool
    evaluation: Evaluation
    _by_gpu: dict[str, list[Row]] = field(default_factory=dict)
    _loads: dict[tuple[str, Layout, int], Load] = field(default_factory=dict)
    _held: dict[str, Integers] = field(default_factory=dict)
    _best: dict[tuple[str, int], Integers] = field(default_factory=dict)

    def most(self, gpu: str, gpus: int) -> Integers:
        """The most requests an instance of so many GPUs serves, for each of the terms, no replica beyond the demand."""
        if (gpu, gpus) not in self._best:
            held = self._replica(gpu)
            best = np.zeros((gpus + 1, len(self.terms)), dtype=np.int64)
            for size in range(1, gpus + 1):
                options = [best[size - used] + held[used] for used in range(1, min(size, len(held) - 1) + 1)]
                best[size] = np.max([best[size - 1], *options], axis=0)
            self._best |= {(gpu, size): best[size] for size in range(1, gpus + 1)}
        return self._best[gpu, gpus]

    def pattern(self, gpu: str, terms: int, gpus: int) -> Pattern:
        """The replicas that hold the most requests on an instance of so many GPUs; of those the fewest replicas."""
        return _pack(self._items(gpu, terms, gpus), gpus)

    def equal_pattern(self, gpu: str, terms: int, gpus: int) -> Pattern:
        """Like `pattern`, with all replicas on the instance of one size."""
        equal = [_pack([item], gpus) for item in self._items(gpu, terms, gpus)]
        return max(equal, key=lambda pattern: (pattern.sequences, pattern.gpus, -pattern.count), default=Pattern((), 0))

    def load_on(self, row: Row) -> Load:
        """The load as an engine of this row sees it."""
        key = (row.gpu, row.layout, row.terms)
        if key not in self._loads:
            asked = (row.gpu, row.layout, row.terms, row.verdict)
            engine = row.slots // row.layout.dp
            self._loads[key] = self.evaluation.load_on(asked, row.max_num_batched_tokens, engine)
        return self._loads[key]

    def expected(self, row: Row) -> int:
        """Requests a row holds on the middle of the interval, where `slots` may count on its low end."""
        if not self.evaluation.safe_side:
            return row.slots
        held = self.evaluation.capacity([(row.gpu, row.layout, row.terms, row.verdict)], safe_side=False)
        return row.layout.dp * int(held.sequences[0])

    def of_gpu(self, gpu: str) -> list[Row]:
        """The rows of one GPU type."""
        if not self._by_gpu:
            for row in self.rows.values():
                self._by_gpu.setdefault(row.gpu, []).append(row)
        return self._by_gpu.get(gpu, [])

    def _replica(self, gpu: str) -> Integers:
        """Requests one replica holds, by GPUs and terms: of milder terms the best where precisions may be mixed."""
        if gpu not in self._held:
            rows = self.of_gpu(gpu)
            largest = max((row.layout.gpus for row in rows), default=0)
            held = np.zeros((largest + 1, len(self.terms)), dtype=np.int64)
            for row in rows:
                at = row.layout.gpus, row.terms
                held[at] = max(held[at], min(row.sequences, self.evaluation.enough))
            if not self.uniform and self.terms:
                held = np.stack([held[:, self._milder(t)].max(axis=1) for t in range(len(self.terms))], axis=1)
            self._held[gpu] = held
        return self._held[gpu]

    def _milder(self, terms: int) -> list[int]:
        return [i for i, each in enumerate(self.terms) if each.milder(self.terms[terms])]

    def _items(self, gpu: str, terms: int, gpus: int) -> list[tuple[int, Layout, int]]:
        """(requests, layout, terms) of each replica size that holds any; of equal layouts the simplest."""
        allowed = [terms] if self.uniform else self._milder(terms)
        best: dict[int, Row] = {}
        for row in self.of_gpu(gpu):
            if not row.sequences or row.layout.gpus > gpus or row.terms not in allowed:
                continue
            known = best.get(row.layout.gpus)
            if known is None or self._preference(row) > self._preference(known):
                best[row.layout.gpus] = row
        return [(min(row.sequences, self.evaluation.enough), row.layout, row.terms) for _, row in sorted(best.items())]

    def _preference(self, row: Row) -> tuple[int, tuple[int, ...], int]:
        layout = row.layout
        simple = (-layout.pp, -layout.dp, -int(layout.ep > 1), -layout.tp)
        return min(row.sequences, self.evaluation.enough), simple, -row.terms


def _pack(items: Sequence[tuple[int, Layout, int]], gpus: int) -> Pattern:
    """An unbounded knapsack of replicas into one instance: most requests, fewest GPUs idle, fewest replicas."""
    best: list[tuple[int, int, int, tuple[int, ...]]] = [(0, 0, 0, ())]
    for size in range(1, gpus + 1):
        options = [best[size - 1]]
        for index, (sequences, layout, _) in enumerate(items):
            if layout.gpus <= size:
                held, used, fewer, chosen = best[size - layout.gpus]
                options.append(
                    (held + sequences, used + layout.gpus, fewer - 1, tuple(sorted((*chosen, index), reverse=True)))
                )
        best.append(max(options))
    held, _, _, chosen = best[gpus]
    counted = [(items[i][1], items[i][2], chosen.count(i)) for i in sorted(set(chosen))]
    return Pattern(tuple(counted), held)


def candidates_of(
    scenario: Scenario,
    model: Model,
    gpus: Mapping[str, Gpu],
    sizes: Mapping[str, int],
    terms: tuple[Terms, ...],
    enough: int,
    demand: Demand,
    load: Load,
    speeds: Speeds | None = None,
) -> Candidates:
    """The rows of every GPU of `sizes` (its largest instance), each layout up to that size, each of the terms."""
    verdicts = _Verdicts(scenario, model)
    asked = [
        (gpu, layout, index, verdicts.of(gpus[gpu], layout, each))
        for gpu, largest in sorted(sizes.items())
        for layout in layouts_of(scenario, model, largest)
        for index, each in enumerate(terms)
    ]
    asked = [row for row in asked if not row[3].ok or row[3].cast == terms[row[2]].cast]
    rows = {(gpu, layout, i): _refused(gpu, layout, i, verdict) for gpu, layout, i, verdict in asked if not verdict.ok}
    open_rows = [row for row in asked if row[3].ok]
    evaluation = Evaluation(scenario, model, gpus, terms, demand, load, enough, speeds)
    if open_rows:
        rows |= _rows(evaluation, open_rows)
    return Candidates(terms, rows, scenario.search.uniform_precision, evaluation)


@dataclass(slots=True)
class _Verdicts:
    """Compatibility, asked once for all lengths."""

    scenario: Scenario
    model: Model
    _known: dict[tuple[object, ...], Verdict] = field(default_factory=dict)

    def of(self, gpu: Gpu, layout: Layout, terms: Terms) -> Verdict:
        """Whether a replica at these terms runs on this GPU in this layout."""
        spread = layout.ep > 1
        key = (gpu.name, layout.tp, spread, id(terms.choice), terms.kv_dtype)
        if key not in self._known:
            self._known[key] = compatible(
                self.model,
                gpu,
                tp=layout.tp,
                weights=terms.choice.weights,
                quantisation=terms.choice.quantisation,
                kv_dtype=terms.kv_dtype,
                engine=self.scenario.engine,
                engine_version=self.scenario.engine_version,
                expert_parallel=spread,
            )
        return self._known[key]


def _refused(gpu: str, layout: Layout, terms: int, verdict: Verdict) -> Row:
    return Row(gpu, layout, terms, verdict, 0, 0, "compatibility", verdict.reason)


def _rows(evaluation: Evaluation, asked: list[Open]) -> dict[tuple[str, Layout, int], Row]:
    held = evaluation.capacity(asked, evaluation.safe_side)
    carried = evaluation.carried(asked, held)
    rows = {}
    for k, (gpu, layout, i, verdict) in enumerate(asked):
        reason = Reason(int(held.reason[k]))
        kind = _LIMITS.get(reason, "memory")
        units, slots = layout.dp * int(carried[k]), layout.dp * int(held.sequences[k])
        text = REASONS.get(reason, "" if units else "it holds too few requests to count")
        if reason == Reason.MAX_MODEL_LEN and evaluation.scenario.engine != "vllm":
            text = "not one request of max-model-len fits, so the engine takes shorter ones only"
        kept, tokens = int(held.kv_cache_bytes[k]), int(held.max_num_batched_tokens[k])
        rows[gpu, layout, i] = Row(gpu, layout, i, verdict, units, kept, kind, text, slots, tokens)
    return rows

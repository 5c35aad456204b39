"""The article's ladder for one GPU type: rung by rung what fits, and what the rung costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from recommender.errors import Fault, InputError, nearest
from recommender.memory.fit import Fit, fit_replica
from recommender.search.asked import Asked
from recommender.search.candidates import Row
from recommender.search.layouts import Layout
from recommender.search.plans import Question, replica_of
from recommender.search.terms import EVALUATE, Terms

STARTS = ("fits", "max_model_len")  # weights and reserve fit, whether or not a request does


@dataclass(frozen=True, slots=True)
class Step:
    """One rung, taken on top of the ones before it (rung 4 and 5 start over from rung 1, quality untouched)."""

    rung: int
    name: str
    change: str
    tp: int
    replicas: int
    gpus: int
    weights: str
    kv_dtype: str
    max_model_len: int
    kv_cache_tokens: int
    requests: int
    feasible: bool
    cost: str
    micro_usd_per_hour: int | None
    memory: Fit


@dataclass(frozen=True, slots=True)
class Ladder:
    """All rungs on one GPU type."""

    scenario: str
    model: str
    gpu: str
    concurrency: int
    steps: tuple[Step, ...]


def ladder(asked: Asked, question: Question, gpu: str) -> Ladder:
    """The rungs on one GPU type, from the fewest GPUs whose native weights fit. Raises InputError where none do."""
    if gpu not in asked.gpus:
        hint = nearest(gpu, asked.gpus)
        raise InputError(Fault(f"unknown GPU {gpu!r}", suggestion=hint[0] if hint else None))
    return Ladder(
        scenario=asked.scenario.name,
        model=asked.model.id,
        gpu=gpu,
        concurrency=asked.scenario.workload.concurrency,
        steps=tuple(_Rungs(asked, question, gpu).steps()),
    )


class _Rungs:
    """The walk over the rungs of one GPU type."""

    def __init__(self, asked: Asked, question: Question, gpu: str) -> None:
        self.asked, self.question, self.gpu = asked, question, gpu
        self.demand = asked.scenario.workload.concurrency
        self.longest = max(each.max_model_len for each in asked.terms)
        self.shortest = min(each.max_model_len for each in asked.terms)

    def steps(self) -> Iterator[Step]:
        """Baseline and rungs 1 to 5."""
        native = next(each for each in self.asked.terms if each.untouched)
        tp = self._fewest(native)
        yield self._step(0, "as it is", "", self._row(tp, native.choice.weights, "auto", self.longest), 1, "nothing")
        at = (native.choice.weights, "auto", self.shortest)
        if self.shortest < self.longest:
            change = f"{self.longest} -> {self.shortest}"
            yield self._step(1, "max_model_len", change, self._row(tp, *at), 1, "longer requests are refused")
        yield from self._precision(tp)
        yield from self._more(tp, *at)
        held = self._row(tp, *at).sequences
        if 0 < held < self.demand:
            change = f"{self.demand} -> {held}"
            yield self._step(5, "max_num_seqs", change, self._row(tp, *at), 1, f"{self.demand - held} requests queue")

    def _precision(self, tp: int) -> Iterator[Step]:
        """Rungs 2 and 3 on the same GPUs: KV dtype, then ever smaller weights."""
        kv = "fp8" if any(each.kv_dtype == "fp8" for each in self.asked.terms) else "auto"
        seen = {0}
        for terms in sorted(self.asked.terms, key=lambda each: each.rungs):
            if terms.kv_dtype != kv or terms.max_model_len != self.shortest or terms.cast or terms.rungs.batched_tokens:
                continue
            row = self.asked.candidates.rows.get((self.gpu, Layout(1, 1, tp, 1), self.asked.terms.index(terms)))
            if row is None or row.limit == "compatibility":
                continue
            if terms.rungs.weights == 0 and kv == "fp8":
                yield self._step(2, "kv_dtype", "auto -> fp8", row, 1, EVALUATE)
            elif terms.rungs.weights not in seen:
                seen.add(terms.rungs.weights)
                change = f"{self.asked.model.native} -> {terms.choice.weights}"
                yield self._step(3, "weights", change, row, 1, EVALUATE)

    def _more(self, tp: int, weights: str, kv: str, length: int) -> Iterator[Step]:
        """Rung 4, quality untouched: larger tensor parallel sizes, then replicas of what takes the fewest GPUs."""
        rows = self.asked.candidates.of_gpu(self.gpu)
        sizes = sorted({row.layout.tp for row in rows if _plain(row.layout) and row.layout.tp > tp})
        tried = [self._row(tp, weights, kv, length)]
        for size in sizes:
            row = self._row(size, weights, kv, length)
            if row.limit not in STARTS:
                continue
            tried.append(row)
            yield self._step(4, "gpus", f"tp {tp} -> {size}", row, 1, "money; the links between GPUs bound the speed")
            if row.sequences >= self.demand:
                return
        holding = [row for row in tried if row.sequences]
        if holding:
            best = min(holding, key=lambda row: (-(-self.demand // row.sequences) * row.layout.tp, row.layout.tp))
            replicas = -(-self.demand // best.sequences)
            if replicas > 1:
                yield self._step(4, "gpus", f"{replicas} replicas of tp {best.layout.tp}", best, replicas, "money")

    def _fewest(self, native: Terms) -> int:
        index = self.asked.terms.index(native)
        rows = [row for row in self.asked.candidates.of_gpu(self.gpu) if row.terms == index and _plain(row.layout)]
        fitting = [row.layout.tp for row in rows if row.limit in STARTS]
        if not fitting:
            reason = max(rows, key=lambda row: row.layout.tp).reason if rows else "no offer of it is in the search"
            raise InputError(
                Fault(f"{self.asked.model.id} at its native weights does not start on {self.gpu}: {reason}")
            )
        return min(fitting)

    def _row(self, tp: int, weights: str, kv: str, length: int) -> Row:
        index = next(
            i
            for i, each in enumerate(self.asked.terms)
            if (each.choice.weights, each.kv_dtype, each.max_model_len) == (weights, kv, length)
        )
        return self.asked.candidates.rows[self.gpu, Layout(1, 1, tp, 1), index]

    def _step(self, rung: int, name: str, change: str, row: Row, replicas: int, cost: str) -> Step:
        terms = self.asked.terms[row.terms]
        seqs = max(1, min(row.sequences, -(-self.demand // replicas)))
        memory = fit_replica(replica_of(self.question, row, seqs), self.asked.scenario.memory_model)
        requests = row.sequences * replicas
        return Step(
            rung=rung,
            name=name,
            change=change,
            tp=row.layout.tp,
            replicas=replicas,
            gpus=row.layout.gpus * replicas,
            weights=terms.choice.weights,
            kv_dtype=terms.kv_dtype,
            max_model_len=terms.max_model_len,
            kv_cache_tokens=memory.kv_cache_tokens * replicas,
            requests=requests,
            feasible=requests >= self.demand,
            cost=cost,
            micro_usd_per_hour=_cheapest(self.asked, self.gpu, row.layout.tp, replicas),
            memory=memory,
        )


def _plain(layout: Layout) -> bool:
    return layout.pp == layout.dp == layout.ep == 1


def _cheapest(asked: Asked, gpu: str, tp: int, replicas: int) -> int | None:
    """Micro-dollars an hour of the cheapest admitted offer of one kind that hosts so many replicas."""
    costs: Sequence[int] = [
        column.micro_usd_per_hour * max(column.minimum, -(-replicas // (column.gpus // tp)))
        for column in asked.columns
        if column.gpu == gpu and column.gpus >= tp and column.micro_usd_per_hour is not None
    ]
    return min(costs, default=None)

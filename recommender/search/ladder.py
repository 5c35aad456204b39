"""The article's ladder for one GPU type: rung by rung what fits, and what the rung costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from recommender.errors import Fault, InputError, nearest
from recommender.memory.fit import Fit, fit_replica
from recommender.search.asked import Asked
from recommender.search.candidates import STARTS, Row
from recommender.search.layouts import Layout
from recommender.search.plans import Question, replica_of
from recommender.search.prefill import prefill_tokens_per_s
from recommender.search.rung_one import LengthRung, length_rung
from recommender.search.terms import EVALUATE, Terms


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
    short: str  # what is missing, in words
    cost: str
    micro_usd_per_hour: int | None
    memory: Fit


@dataclass(frozen=True, slots=True)
class Ladder:
    """All rungs on one GPU type."""

    scenario: str
    model: str
    gpu: str
    asked: str  # what is to be served, in words
    concurrency: int | None
    steps: tuple[Step, ...]
    length_rung: LengthRung | None = None  # None where the model's own maximum is what is promised


def ladder(asked: Asked, question: Question, gpu: str) -> Ladder:
    """The rungs on one GPU type, from the fewest GPUs whose native weights fit. Raises InputError where none do."""
    if gpu not in asked.gpus:
        hint = nearest(gpu, asked.gpus)
        raise InputError(Fault(f"unknown GPU {gpu!r}", suggestion=hint[0] if hint else None))
    rungs = _Rungs(asked, question, gpu)
    return Ladder(
        scenario=asked.scenario.name,
        model=asked.model.id,
        gpu=gpu,
        asked=asked.load.words(asked.load.demand),
        concurrency=asked.scenario.workload.concurrency,
        steps=tuple(rungs.steps()),
        length_rung=rungs.length_rung(),
    )


class _Rungs:
    """The walk over the rungs of one GPU type."""

    def __init__(self, asked: Asked, question: Question, gpu: str) -> None:
        self.asked, self.question, self.gpu = asked, question, gpu
        self.load, self.demand = asked.load, asked.load.demand
        self.longest = max(each.max_model_len for each in asked.terms)
        self.shortest = min(each.max_model_len for each in asked.terms)

    def steps(self) -> Iterator[Step]:
        """Baseline and rungs 1 to 5."""
        base = self._mildest()
        tp = self._fewest(base)
        first = self._step(0, "as it is", "", self._row(tp, base, self.longest), 1, "nothing")
        yield first
        short = self._row(tp, base, self.shortest)
        if self.shortest < self.longest:
            change = f"{self.longest} -> {self.shortest}"
            yield self._step(1, "max_model_len", change, short, 1, "longer requests are refused")
        yield from self._fewer_tokens(tp, base, first.memory.max_num_batched_tokens)
        yield from self._precision(tp, base)
        yield from self._more(tp, base)
        if 0 < short.sequences < self.demand:
            queueing = self.load.words(self.demand - short.sequences)
            yield self._step(5, "max_num_seqs", self.load.less(short.sequences), short, 1, f"{queueing} queue")

    def length_rung(self) -> LengthRung | None:
        """What rung 1 saves on the GPUs that the walk starts with."""
        if self.shortest == self.longest:
            return None
        base = self._mildest()
        row = self._row(self._fewest(base), base, self.shortest)
        memory = self._step(1, "max_model_len", "", row, 1, "").memory
        return length_rung(self.question, self.longest, self.shortest, row, memory)

    def _mildest(self) -> Terms:
        """The terms the walk starts from: native weights, or what comes nearest to them and starts on this GPU."""
        for terms in sorted(self.asked.terms, key=lambda each: each.rungs):
            if terms.rungs.batched_tokens or terms.kv_dtype != "auto" or terms.max_model_len != self.longest:
                continue
            if any(row.limit in STARTS for row in self._rows(terms)):
                return terms
        raise InputError(self._no_start())

    def _no_start(self) -> Fault:
        """Why there is nothing to walk on. Reasons are those of tensor parallelism alone, as the walk is."""
        every = self.asked.candidates.of_gpu(self.gpu)
        rows = [row for row in every if _plain(row.layout)]
        if every and not rows:
            what = "the ladder walks on tensor parallelism alone, which this leaves out"
            return Fault(what, key="search.pp", expected="1 among its sizes")
        what = f"{self.asked.model.id} does not start on {self.gpu} at any weights"
        what += ", but with pipeline stages or spread experts" if any(row.limit in STARTS for row in every) else ""
        if rows:
            return Fault(f"{what}: {max(rows, key=lambda row: row.layout.tp).reason}")
        sold = max((column.gpus for column in self.asked.columns if column.gpu == self.gpu), default=0)
        if sold:
            why = f"no instance of {self.gpu} in the search has the GPUs for it: {sold} at most"
            return Fault(why, key="search.tp", expected=f"sizes up to {sold}")
        return Fault(f"{what}: no instance of it is in the search")

    def _rows(self, terms: Terms) -> list[Row]:
        """The tensor parallel rows of one GPU at some terms."""
        index = self.asked.terms.index(terms)
        return [row for row in self.asked.candidates.of_gpu(self.gpu) if row.terms == index and _plain(row.layout)]

    def _fewest(self, terms: Terms) -> int:
        return min(row.layout.tp for row in self._rows(terms) if row.limit in STARTS)

    def _fewer_tokens(self, tp: int, base: Terms, default: int) -> Iterator[Step]:
        """The sub-rung of rung 1: smaller engine steps leave more for the cache, above all under sliding windows."""
        for terms in sorted(self.asked.terms, key=lambda each: each.rungs):
            same = terms.choice == base.choice and terms.kv_dtype == "auto" and terms.cast == base.cast
            tokens = terms.max_num_batched_tokens
            if not same or terms.max_model_len != self.shortest or tokens is None or tokens >= default:
                continue
            row = next(row for row in self._rows(terms) if row.layout.tp == tp)
            cost = f"prompts are read {tokens:,} tokens a step: {self._slower(row, default, tokens)}"
            yield self._step(1, "max_num_batched_tokens", f"{default} -> {tokens}", row, 1, cost)

    def _slower(self, row: Row, default: int, tokens: int) -> str:
        """What smaller steps cost in the speed of reading prompts."""
        before, after = (prefill_tokens_per_s(self.question, row, each) for each in (default, tokens))
        if before is None or after is None:
            return "slower prefill, by how much is not modelled here"
        return f"about {before:,.0f} -> {after:,.0f} prompt tokens a second"

    def _precision(self, tp: int, base: Terms) -> Iterator[Step]:
        """Rungs 2 and 3 on the same GPUs: KV dtype, then ever smaller weights."""
        kv = "fp8" if any(each.kv_dtype == "fp8" for each in self.asked.terms) else "auto"
        seen = {base.rungs.weights}
        for terms in sorted(self.asked.terms, key=lambda each: each.rungs):
            if (
                terms.kv_dtype != kv
                or terms.max_model_len != self.shortest
                or terms.cast != base.cast
                or terms.rungs.batched_tokens
            ):
                continue
            row = self.asked.candidates.rows.get((self.gpu, Layout(1, 1, tp, 1), self.asked.terms.index(terms)))
            if row is None or row.limit == "compatibility":
                continue
            if terms.choice == base.choice and kv == "fp8":
                yield self._step(2, "kv_dtype", "auto -> fp8", row, 1, EVALUATE)
            elif terms.rungs.weights not in seen:
                seen.add(terms.rungs.weights)
                change = f"{self.asked.model.native} -> {terms.choice.weights}"
                yield self._step(3, "weights", change, row, 1, EVALUATE)

    def _more(self, tp: int, base: Terms) -> Iterator[Step]:
        """Rung 4, quality as at the start: larger tensor parallel sizes, then replicas of the thriftiest one."""
        rows = self.asked.candidates.of_gpu(self.gpu)
        sizes = sorted({row.layout.tp for row in rows if _plain(row.layout) and row.layout.tp > tp})
        tried = [self._row(tp, base, self.shortest)]
        for size in sizes:
            row = self._row(size, base, self.shortest)
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

    def _row(self, tp: int, base: Terms, length: int) -> Row:
        """The row at the terms of the start but for the length."""
        index = next(
            i
            for i, each in enumerate(self.asked.terms)
            if (each.choice, each.kv_dtype, each.max_model_len, each.max_num_batched_tokens, each.cast)
            == (base.choice, base.kv_dtype, length, base.max_num_batched_tokens, base.cast)
        )
        return self.asked.candidates.rows[self.gpu, Layout(1, 1, tp, 1), index]

    def _step(self, rung: int, name: str, change: str, row: Row, replicas: int, cost: str) -> Step:
        terms = self.asked.terms[row.terms]
        seqs = 1
        if row.sequences:
            load = self.question.candidates.load_on(row)
            seqs = max(1, load.slots(min(row.sequences, -(-self.demand // replicas))))
        memory = fit_replica(replica_of(self.question, row, seqs), self.asked.scenario.memory_model)
        missing = self.demand - row.sequences * replicas
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
            requests=row.slots * replicas,
            feasible=missing <= 0,
            short=self.load.words(missing) if missing > 0 else "",
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

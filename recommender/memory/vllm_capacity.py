"""The `vllm` memory model over many candidates at once: what `fit_vllm` works out for one replica, in arrays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from recommender.catalog.gpus import Gpu
from recommender.errors import InputError
from recommender.memory.capacity import Capacity, Demand, Int, Reason, ReplicaColumns, Setting
from recommender.memory.engine import EngineConstants, engine_constants
from recommender.memory.kv import KvPool
from recommender.memory.reserve import GRAPH_SIZES, SCRATCH_FROM_SEQS, ReserveTerms
from recommender.memory.startup import CONTEXT_BYTES, Physics, Stage, stages_of, usable_bytes

Truth = NDArray[np.bool_]

CHUNK = 16_384
"""Rows worked on together: their arrays stay in the processor's cache."""
TERMS = tuple(field.name for field in fields(ReserveTerms))


class VllmMemory:
    """The `vllm` memory model: the driver's bytes, the engine's rules, measured reserves."""

    def capacity(self, setting: Setting, columns: ReplicaColumns, limit: int, demand: Demand) -> Capacity:
        """How many requests, up to `limit`, each candidate holds."""
        table = _Table(setting, columns)
        rows = len(columns)
        zeros = [np.zeros(rows, dtype=np.int64) for _ in range(3)]
        found = Capacity(zeros[0], zeros[1], zeros[2], table.reasons[table.ids])
        for pool, chosen in table.by_pool():
            for start in range(0, len(chosen), CHUNK):
                at = chosen[start : start + CHUNK]
                _rows(table, columns, at, pool, demand).solve(limit, found, at)
        return found


class _Table:
    """Everything about the distinct (GPU, tp, pp, ep, weights, KV dtype) of the candidates, one entry each."""

    def __init__(self, setting: Setting, columns: ReplicaColumns) -> None:
        self.setting = setting
        self.constants: EngineConstants = engine_constants(setting.engine, setting.engine_version)
        self.ids, keys = _distinct(columns)
        share = setting.gpu_memory_utilization or self.constants.gpu_memory_utilization
        self.usable = [usable_bytes(gpu.memory_bytes or 0, share) for gpu in setting.gpus]
        self.stages, self.reasons = self._stages(keys)
        self.gpu = keys[0]
        depth = max((len(stages) for stages in self.stages), default=1)
        # Shallower pipelines repeat their last stage, which changes no minimum over stages.
        padded = [stages and (*stages, *(stages[-1],) * (depth - len(stages))) for stages in self.stages]
        self.depth = [_StageTable([each[level] if each else None for each in padded]) for level in range(depth)]

    def _stages(self, keys: Sequence[Int]) -> tuple[list[tuple[Stage, ...]], Int]:
        cache: dict[tuple[object, ...], tuple[tuple[Stage, ...], Reason]] = {}
        stages, reasons = [], []
        for gpu, *shape in zip(*(key.tolist() for key in keys), strict=True):
            card = self.setting.gpus[gpu]
            # Cards that differ in nothing the physics looks at share their entry.
            key = (card.multiprocessors, card.compute_capability, card.memory_bytes is None, *shape)
            if key not in cache:
                cache[key] = self._physics(card, *shape)
            held, reason = cache[key]
            if reason == Reason.FITS and (card.memory_bytes or 0) - self.usable[gpu] < CONTEXT_BYTES:
                reason = Reason.UTILIZATION
            stages.append(held)
            reasons.append(reason)
        return stages, np.array(reasons, dtype=np.int64)

    def _physics(
        self, card: Gpu, tp: int, pp: int, ep: int, dp: int, weights: int, kv_dtype: int
    ) -> tuple[tuple[Stage, ...], Reason]:
        if card.memory_bytes is None:
            return (), Reason.MEMORY_UNKNOWN
        if dp > 1:
            return (), Reason.NOT_MODELLED
        word, checkpoint = self.setting.weights[weights]
        physics = Physics(
            model=self.setting.model,
            gpu=card,
            weights=word,
            checkpoint=checkpoint,
            kv_dtype=self.setting.kv_dtypes[kv_dtype],
            tp=tp,
            pp=pp,
            ep=ep,
            enforce_eager=self.setting.enforce_eager,
        )
        try:
            return stages_of(physics, self.constants), Reason.FITS
        except InputError:
            return (), Reason.NOT_MODELLED

    def by_pool(self) -> Iterator[tuple[KvPool, Int]]:
        """Rows by the way a request grows in their pool; rows that are refused outright belong to none."""
        kinds: dict[tuple[object, ...], tuple[int, KvPool]] = {}
        of_entry = np.full(len(self.stages), -1, dtype=np.int64)
        for entry, (stages, reason) in enumerate(zip(self.stages, self.reasons.tolist(), strict=True)):
            if reason != Reason.FITS:
                continue
            pool = stages[-1].pool
            growth = tuple((g.page.growth, g.page.block_size, g.page.window, g.page.states) for g in pool.groups)
            of_entry[entry] = kinds.setdefault(growth, (len(kinds), pool))[0]
        of_row = of_entry[self.ids]
        for number, pool in kinds.values():
            yield pool, np.flatnonzero(of_row == number)


class _StageTable:
    """The same stage of every entry, as columns."""

    def __init__(self, stages: Sequence[Stage | None]) -> None:
        self.weights = _integers(stage.weights_bytes if stage else 0 for stage in stages)
        self.bytes_per_block = _integers(stage.pool.bytes_per_block if stage else 0 for stage in stages)
        self.terms = {name: _integers(getattr(stage.terms, name) if stage else 0 for stage in stages) for name in TERMS}


@dataclass(frozen=True, slots=True)
class _StageRows:
    """One stage of the rows of a chunk."""

    left: Int  # usable memory without weights, extra reserve and memory outside torch
    bytes_per_block: Int
    terms: dict[str, Int]

    def at(self, rows: Int) -> _StageRows:
        """The same for some of the rows."""
        return _StageRows(
            self.left[rows], self.bytes_per_block[rows], {name: column[rows] for name, column in self.terms.items()}
        )

    def available(self, seqs: Int, batched_tokens: Int) -> Int:
        """Bytes for the KV cache: `ReserveTerms.at`, in arrays."""
        terms = self.terms
        rows = np.minimum(seqs, batched_tokens)
        forward = batched_tokens * terms["forward_bytes_per_token"] + terms["forward_extra_bytes"]
        sampler = rows * terms["sampler_bytes_per_seq"] + batched_tokens * terms["sampler_bytes_per_token"]
        sampler += np.where(rows >= SCRATCH_FROM_SEQS, terms["scratch_bytes"], 0)
        peak = np.maximum(forward, sampler) + terms["peak_extra_bytes"]
        spent: Int = peak + rows * terms["persistent_bytes_per_seq"] + self._graphs(seqs, batched_tokens)
        return self.left - spent

    def _graphs(self, seqs: Int, batched_tokens: Int) -> Int:
        limit = self.terms["capture_maximum"]
        largest = np.minimum(np.minimum(2 * seqs, limit), batched_tokens)
        few = (largest >= 1).astype(np.int64) + (largest >= 2) + (largest >= 4)
        sizes = few + np.minimum(largest, 248) // 8 + (np.maximum(largest, 240) - 240) // 16
        return np.where(
            limit > 0, self.terms["graph_fixed_bytes"] + self.terms["graph_bytes"] * sizes // GRAPH_SIZES, 0
        )


@dataclass(frozen=True, slots=True)
class _Rows:
    """Candidates whose requests grow alike."""

    pool: KvPool
    demand: Demand
    model_maximum: int
    stages: tuple[_StageRows, ...]
    length: Int
    asked_tokens: Int  # max_num_batched_tokens as asked, 0 for the default
    tokens: Int  # the same with the default filled in
    batches: Int  # in flight at once
    null: Int  # blocks never handed out

    def at(self, rows: Int) -> _Rows:
        """Some of the rows."""
        return _Rows(
            self.pool,
            self.demand,
            self.model_maximum,
            tuple(stage.at(rows) for stage in self.stages),
            *(column[rows] for column in (self.length, self.asked_tokens, self.tokens, self.batches, self.null)),
        )

    def batched_tokens(self, seqs: Int) -> Int:
        """What the engine uses once max_num_seqs has cut its default."""
        return np.where(self.asked_tokens > 0, self.asked_tokens, np.minimum(self.tokens, seqs * self.length))

    def fits(self, seqs: Int) -> Truth:
        """Whether a replica started with that max_num_seqs starts, and holds so many requests."""
        tokens = self.batched_tokens(seqs)
        in_flight = tokens * self.batches
        needed = np.maximum(
            self.demand.blocks_needed(self.pool, seqs, self.length, in_flight),
            self.pool.request_blocks(self.length, in_flight),
        )
        needed += self.null
        fitting = self.length <= self.model_maximum
        for stage in self.stages:
            fitting &= stage.available(seqs, tokens) >= needed * stage.bytes_per_block
        return fitting

    def solve(self, limit: int, found: Capacity, at: Int) -> None:
        """Fills in the answer of each row, `at` being where it goes."""
        most = np.minimum(limit, self.tokens)
        seqs = np.where(self.fits(most), most, 0)
        short = np.flatnonzero(seqs == 0)
        if len(short):
            seqs[short] = self.at(short).largest(most[short])
        started = np.maximum(seqs, 1)
        tokens = self.batched_tokens(started)
        available, blocks = self.binding(started, tokens)
        unfit = np.where(blocks <= self.null, Reason.WEIGHTS, Reason.MAX_MODEL_LEN)
        found.sequences[at] = seqs
        found.kv_cache_bytes[at] = available
        found.max_num_batched_tokens[at] = tokens
        found.reason[at] = np.where(seqs > 0, Reason.FITS, unfit)

    def largest(self, most: Int) -> Int:
        """The largest fitting number below `most`, by bisection: what fits once fits with fewer requests too."""
        low, high = np.zeros_like(most), most - 1
        while (low < high).any():
            middle = (low + high + 1) // 2
            fitting = self.fits(middle)
            low = np.where(fitting, middle, low)
            high = np.where(fitting, high, np.maximum(middle - 1, low))
        return low

    def binding(self, seqs: Int, tokens: Int) -> tuple[Int, Int]:
        """(KV bytes, blocks) of the stage with the fewest blocks, of equal ones the one with the fewest bytes."""
        available = np.maximum(self.stages[-1].available(seqs, tokens), 0)
        blocks = available // self.stages[-1].bytes_per_block
        for stage in self.stages[-2::-1]:
            left = np.maximum(stage.available(seqs, tokens), 0)
            held = left // stage.bytes_per_block
            fewer = (held < blocks) | ((held == blocks) & (left < available))
            available, blocks = np.where(fewer, left, available), np.where(fewer, held, blocks)
        return available, blocks


def _rows(table: _Table, columns: ReplicaColumns, at: Int, pool: KvPool, demand: Demand) -> _Rows:
    """The rows `at`, with everything about them that does not depend on max_num_seqs."""
    entries = table.ids[at]
    gpu = table.gpu[entries]
    usable = np.array(table.usable, dtype=np.int64)[gpu] - columns.extra_reserve_bytes[at]
    length, pp, asked = columns.max_model_len[at], columns.pp[at], columns.max_num_batched_tokens[at]
    ahead = table.constants.in_flight_batches - 1
    return _Rows(
        pool=pool,
        demand=demand,
        model_maximum=table.setting.model.max_model_len,
        stages=tuple(_stage_rows(stage, entries, usable) for stage in table.depth),
        length=length,
        asked_tokens=asked,
        tokens=np.where(asked > 0, asked, _default_tokens(table, gpu, length)),
        batches=pp + ahead,
        null=np.array([table.constants.null_blocks(card) for card in table.setting.gpus], dtype=np.int64)[gpu],
    )


def _stage_rows(stage: _StageTable, entries: Int, usable: Int) -> _StageRows:
    return _StageRows(
        left=usable - stage.weights[entries] - stage.terms["non_torch_bytes"][entries],
        bytes_per_block=stage.bytes_per_block[entries],
        terms={name: column[entries] for name, column in stage.terms.items()},
    )


def _default_tokens(table: _Table, gpu: Int, length: Int) -> Int:
    """The engine's default max_num_batched_tokens of each row's card (V0: it depends on the length)."""
    tokens = np.zeros_like(length)
    for number, card in enumerate(table.setting.gpus):
        mine = gpu == number
        if not mine.any():
            continue
        if table.constants.generation(card) != "V0":
            tokens[mine] = table.constants.scheduler_default(card, 1)[1]
            continue
        lengths = length[mine]
        known = {each: table.constants.scheduler_default(card, each)[1] for each in np.unique(lengths).tolist()}
        tokens[mine] = [known[each] for each in lengths.tolist()]
    return tokens


def _distinct(columns: ReplicaColumns) -> tuple[Int, tuple[Int, ...]]:
    """(entry of each row, the distinct combinations as columns: gpu, tp, pp, ep, dp, weights, kv_dtype)."""
    parts = (columns.gpu, columns.tp, columns.pp, columns.ep, columns.dp, columns.weights, columns.kv_dtype)
    sizes = [int(part.max(initial=0)) + 1 for part in parts]
    packed = np.ravel_multi_index(parts, sizes)
    distinct, ids = np.unique(packed, return_inverse=True)
    return ids.astype(np.int64), tuple(part.astype(np.int64) for part in np.unravel_index(distinct, sizes))


def _integers(values: Iterable[int]) -> Int:
    return np.fromiter(values, dtype=np.int64)

"""The `vllm` memory model over many candidates at once: what `fit_vllm` works out for one replica, in arrays."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from recommender.memory.capacity import Capacity, Demand, Int, Reason, ReplicaColumns, Setting
from recommender.memory.kv import KvPool
from recommender.memory.physics_table import PhysicsTable, StageColumns, integers
from recommender.memory.reserve import GRAPH_SIZES, SCRATCH_FROM_SEQS

Truth = NDArray[np.bool_]

CHUNK = 16_384
"""Rows worked on together: their arrays stay in the processor's cache."""


class VllmMemory:
    """The `vllm` memory model: the driver's bytes, the engine's rules, measured reserves."""

    def capacity(self, setting: Setting, columns: ReplicaColumns, limit: int, demand: Demand) -> Capacity:
        """How many requests, up to `limit`, each candidate holds."""
        table = PhysicsTable(setting, columns)
        rows = len(columns)
        zeros = [np.zeros(rows, dtype=np.int64) for _ in range(3)]
        found = Capacity(zeros[0], zeros[1], zeros[2], table.reasons[table.ids])
        for pool, chosen in table.by_pool():
            for start in range(0, len(chosen), CHUNK):
                at = chosen[start : start + CHUNK]
                _rows(table, columns, at, pool, demand).solve(limit, found, at)
        return found


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
        prompts = np.maximum(batched_tokens, terms["prompt_tokens"])
        forward = prompts * terms["forward_bytes_per_token"] + terms["forward_extra_bytes"]
        sampler = rows * terms["sampler_bytes_per_seq"] + batched_tokens * terms["sampler_bytes_per_token"]
        sampler += np.where(rows >= SCRATCH_FROM_SEQS, terms["scratch_bytes"], 0)
        images = np.maximum(1, batched_tokens // np.maximum(1, terms["image_tokens"]))
        kept, encoder = images * terms["image_kept_bytes"], images * terms["image_encoder_bytes"]
        peak = np.maximum(np.maximum(forward, sampler) + kept, encoder) + terms["peak_extra_bytes"]
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
    checked: Int  # those of them that the start-up check takes off
    tight: Truth  # the utilization asks for more than is free

    def at(self, rows: Int) -> _Rows:
        """Some of the rows."""
        columns = ("length", "asked_tokens", "tokens", "batches", "null", "checked", "tight")
        taken = {name: getattr(self, name)[rows] for name in columns}
        return replace(self, stages=tuple(stage.at(rows) for stage in self.stages), **taken)

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
        fitting = (self.length <= self.model_maximum) & ~self.tight
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
        available, per_block = self.binding(started, tokens)
        none = np.where(self.null == 0, available < per_block, available <= self.checked * per_block)
        unfit = np.where(none, Reason.WEIGHTS, Reason.MAX_MODEL_LEN)
        unfit = np.where(self.tight, Reason.UTILIZATION, unfit)
        unfit = np.where(self.length > self.model_maximum, Reason.TOO_LONG, unfit)
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
        """(KV bytes, bytes a block) of the stage with the fewest blocks, of equal ones with the fewest bytes."""
        available = np.maximum(self.stages[-1].available(seqs, tokens), 0)
        per_block = self.stages[-1].bytes_per_block
        blocks = available // per_block
        for stage in self.stages[-2::-1]:
            left = np.maximum(stage.available(seqs, tokens), 0)
            held = left // stage.bytes_per_block
            fewer = (held < blocks) | ((held == blocks) & (left < available))
            available, blocks = np.where(fewer, left, available), np.where(fewer, held, blocks)
            per_block = np.where(fewer, stage.bytes_per_block, per_block)
        return available, per_block


def _rows(table: PhysicsTable, columns: ReplicaColumns, at: Int, pool: KvPool, demand: Demand) -> _Rows:
    """The rows `at`, with everything about them that does not depend on max_num_seqs."""
    entries = table.ids[at]
    gpu = table.gpu[entries]
    usable = table.usable[entries] - table.kept_free[entries] - columns.extra_reserve_bytes[at]
    length, pp, asked = columns.max_model_len[at], columns.pp[at], columns.max_num_batched_tokens[at]
    ahead = table.constants.in_flight_batches - 1
    return _Rows(
        pool=pool,
        demand=demand,
        model_maximum=table.setting.model.longest(table.constants.number),
        stages=tuple(_stage_rows(stage, entries, usable) for stage in table.depth),
        length=length,
        asked_tokens=asked,
        tokens=np.where(asked > 0, asked, _default_tokens(table, gpu, length)),
        batches=pp + ahead,
        null=integers(table.constants.null_blocks(card) for card in table.setting.gpus)[gpu],
        checked=np.full_like(gpu, int(table.constants.null_block_checked)),
        tight=table.tight[entries],
    )


def _stage_rows(stage: StageColumns, entries: Int, usable: Int) -> _StageRows:
    return _StageRows(
        left=usable - stage.weights_bytes[entries] - stage.terms["non_torch_bytes"][entries],
        bytes_per_block=stage.bytes_per_block[entries],
        terms={name: column[entries] for name, column in stage.terms.items()},
    )


def _default_tokens(table: PhysicsTable, gpu: Int, length: Int) -> Int:
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

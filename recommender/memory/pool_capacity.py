"""How many requests each candidate of SGLang or TensorRT-LLM holds: the twin of `fit_pool`, for the search."""

from __future__ import annotations

from functools import cache

import numpy as np

from recommender.errors import InputError
from recommender.memory.capacity import Capacity, Demand, Int, Reason, ReplicaColumns, Setting
from recommender.memory.kv import KvPool
from recommender.memory.pool_budget import budget_of, load_peak_of, margins, refuse_layout, weights_of
from recommender.memory.pool_cache import pool_of
from recommender.memory.pool_engine import pool_engine


class PoolMemory:
    """The memory model of an engine that forms one pool of tokens. What it leaves does not depend on max_num_seqs."""

    def capacity(self, setting: Setting, columns: ReplicaColumns, limit: int, demand: Demand) -> Capacity:
        """How many requests, up to `limit`, each candidate holds."""
        rows = _Rows(setting)
        parts = (columns.gpu, columns.tp, columns.pp, columns.ep, columns.dp, columns.weights, columns.kv_dtype)
        keys = np.stack([*parts, columns.max_num_batched_tokens], axis=1)
        distinct, ids = np.unique(keys, axis=0, return_inverse=True)
        ids = ids.reshape(-1)
        entries = [rows.entry(*(int(value) for value in key)) for key in distinct]
        pools = [pool for pool, *_ in entries]
        available = np.array([size for _, size, *_ in entries], dtype=np.int64)[ids] - columns.extra_reserve_bytes
        tokens = np.array([tokens for _, _, tokens, _ in entries], dtype=np.int64)[ids]
        reason = np.array([why for *_, why in entries], dtype=np.int64)[ids]
        sequences = np.zeros_like(available)
        for number, pool in enumerate(pools):
            at = np.flatnonzero(ids == number)
            if pool is None:
                continue
            pages = np.maximum(available[at], 0) // pool.bytes_per_block
            sequences[at] = rows.held(pool, pages, columns.max_model_len[at], tokens[at], limit, demand)
            reason[at] = rows.reasons(pages, columns.max_model_len[at], sequences[at])
        return Capacity(sequences, np.maximum(available, 0), tokens, reason)


class _Rows:
    """What all rows of a setting share."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.constants = pool_engine(setting.engine, setting.engine_version)
        self.weights = cache(self._weights)

    def entry(
        self, gpu: int, tp: int, pp: int, ep: int, dp: int, weights: int, kv_dtype: int, tokens: int
    ) -> tuple[KvPool | None, int, int, int]:
        """(pool, bytes for the cache, tokens of a step, reason) of one combination; no pool where it is refused."""
        setting, constants, card = self.setting, self.constants, self.setting.gpus[gpu]
        if card.memory_bytes is None:
            return None, 0, tokens, Reason.MEMORY_UNKNOWN
        word, checkpoint = setting.weights[weights]
        tokens = tokens or constants.step_tokens(card)
        share = setting.gpu_memory_utilization or constants.default_share(
            setting.model, card, tp=tp, tokens=tokens, enforce_eager=setting.enforce_eager
        )
        try:
            refuse_layout(constants, pp=pp, dp=dp, ep=ep)
            pool = pool_of(setting.model, constants, card, tp=tp, kv_dtype=setting.kv_dtypes[kv_dtype], weights=word)
            held = self.weights(weights, tp)
            budget = budget_of(constants, setting.model, card, tp=tp, weights_bytes=held, share=share, tokens=tokens)
            less, _ = margins(constants, setting.model, card, tp=tp, weights=word, checkpoint=checkpoint, share=share)
            peak = load_peak_of(constants, setting.model, word, checkpoint, tp)
        except InputError:
            return None, 0, tokens, Reason.NOT_MODELLED
        if peak > constants.free_bytes(card, tp):
            return None, 0, tokens, Reason.LOADING
        return pool, budget.available_bytes - (less if setting.safe_side else 0), tokens, Reason.FITS

    def _weights(self, weights: int, tp: int) -> int:
        word, checkpoint = self.setting.weights[weights]
        return weights_of(self.setting.model, word, checkpoint, tp)

    def held(self, pool: KvPool, pages: Int, length: Int, tokens: Int, limit: int, demand: Demand) -> Int:
        """The largest number of requests whose need the pages hold, by bisection; a whole one must fit."""
        most = min(limit, self.constants.most_requests or limit)
        low, high = np.zeros_like(pages), np.full_like(pages, most)
        whole = pool.request_blocks(length, tokens)
        high[(pages < whole) | (length > self.setting.model.max_model_len)] = 0
        while (low < high).any():
            middle = (low + high + 1) // 2
            fitting = np.maximum(demand.blocks_needed(pool, middle, length, tokens), whole) <= pages
            low = np.where(fitting & (low < high), middle, low)
            high = np.where(fitting, high, np.maximum(middle - 1, low))
        return low

    def reasons(self, pages: Int, length: Int, sequences: Int) -> Int:
        """Why a row holds nothing; FITS where it holds a request."""
        unfit = np.where(pages < 1, Reason.WEIGHTS, Reason.MAX_MODEL_LEN)
        unfit = np.where(length > self.setting.model.max_model_len, Reason.TOO_LONG, unfit)
        return np.where(sequences > 0, Reason.FITS, unfit)

"""The distinct physics of many candidates: one entry per GPU type, parallelism, weights and KV dtype, as columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields
from functools import cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from recommender.errors import InputError
from recommender.memory.calibration import Correction
from recommender.memory.capacity import Int, Reason, ReplicaColumns, Setting
from recommender.memory.engine import EngineConstants, engine_constants
from recommender.memory.kv import KvPool
from recommender.memory.reserve import ReserveTerms, extrapolated
from recommender.memory.startup import (
    Physics,
    Stage,
    fits_while_loading,
    stage_pools,
    stage_terms,
    stage_weights,
    usable_bytes,
)
from recommender.memory.uncertainty import reserve_margin_bytes, weights_margin_bytes
from recommender.memory.weights import load_peak_bytes

T = TypeVar("T")

TERMS = tuple(field.name for field in fields(ReserveTerms))
LOOK_UP = 2**22
"""Up to so many possible combinations a table finds the distinct ones; above, sorting does."""


class StageColumns:
    """The same pipeline stage of every entry; zeros where the entry is refused."""

    def __init__(self, stages: Sequence[Stage | None]) -> None:
        self.weights_bytes = integers(stage.weights_bytes if stage else 0 for stage in stages)
        self.bytes_per_block = integers(stage.pool.bytes_per_block if stage else 0 for stage in stages)
        self.terms = {name: integers(getattr(stage.terms, name) if stage else 0 for stage in stages) for name in TERMS}


class PhysicsTable:
    """`ids` gives each candidate's entry; `gpu`, `tp`, `reasons`, `usable`, `tight` and `depth` are by entry."""

    def __init__(self, setting: Setting, columns: ReplicaColumns) -> None:
        self.setting = setting
        self.constants: EngineConstants = engine_constants(setting.engine, setting.engine_version)
        self.ids, keys = _distinct(columns)
        share = setting.gpu_memory_utilization or self.constants.gpu_memory_utilization
        self.gpu, self.tp = keys[0], keys[1]
        self.usable = integers(usable_bytes(gpu.memory_bytes or 0, share) for gpu in setting.gpus)[self.gpu]
        parts = _Parts(setting, self.constants)
        found = [parts.entry(*key) for key in zip(*(key.tolist() for key in keys), strict=True)]
        self.stages = [stages for stages, _ in found]
        self.reasons = integers(reason for _, reason in found)
        self.tight = self._tight()
        self.kept_free = self._kept_free(parts, keys) if setting.safe_side else np.zeros_like(self.usable)
        deepest = max((len(stages) for stages in self.stages), default=1)
        # Shallower pipelines repeat their last stage, which changes no minimum over stages.
        padded = [stages and (*stages, *(stages[-1],) * (deepest - len(stages))) for stages in self.stages]
        self.depth = [StageColumns([each[level] if each else None for each in padded]) for level in range(deepest)]

    def _tight(self) -> NDArray[np.bool_]:
        """Whether an entry's utilization asks for more than is free once the context is taken."""
        cards = self.setting.gpus
        memory = integers(gpu.memory_bytes or 0 for gpu in cards)[self.gpu]
        pairs = zip(self.gpu.tolist(), self.tp.tolist(), strict=True)
        context = integers(self.constants.context_bytes(cards[gpu], tp) for gpu, tp in pairs)
        return memory - self.usable < context

    def _kept_free(self, parts: _Parts, keys: Sequence[Int]) -> Int:
        """What each entry keeps free so that its promise holds at the lower end of the interval."""
        rows = zip(self.stages, *(key.tolist() for key in keys), strict=True)
        return integers(parts.margin(stages, gpu, *shape) if stages else 0 for stages, gpu, *shape in rows)

    def by_pool(self) -> Iterator[tuple[KvPool, Int]]:
        """Candidates by the way a request grows in their pool; those that are refused outright belong to none."""
        kinds: dict[tuple[object, ...], tuple[int, KvPool]] = {}
        of_entry = np.full(len(self.stages), -1, dtype=np.int64)
        for entry, (stages, reason) in enumerate(zip(self.stages, self.reasons.tolist(), strict=True)):
            if reason == Reason.FITS:
                pool = stages[-1].pool
                growth = tuple((g.page.growth, g.page.block_size, g.page.window, g.page.states) for g in pool.groups)
                of_entry[entry] = kinds.setdefault(growth, (len(kinds), pool))[0]
        of_row = of_entry[self.ids]
        for number, pool in kinds.values():
            yield pool, np.flatnonzero(of_row == number)


class _Parts:
    """Weights, reserve and pool, each worked out once for what it depends on."""

    def __init__(self, setting: Setting, constants: EngineConstants) -> None:
        self.setting, self.constants = setting, constants
        # Cards that differ in nothing a part looks at share it: each stands for the first of its like.
        self.sized = _first_like(
            [(gpu.architecture, gpu.compute_capability, gpu.multiprocessors) for gpu in setting.gpus]
        )
        self.capable = _first_like([(gpu.vendor, gpu.compute_capability) for gpu in setting.gpus])
        self.weights = cache(self._weights)
        self.terms = cache(self._terms)
        self.pools = cache(self._pools)
        self.peaks = cache(self._peaks)

    def entry(
        self, gpu: int, tp: int, pp: int, ep: int, dp: int, weights: int, kv_dtype: int
    ) -> tuple[tuple[Stage, ...], Reason]:
        """(the stages, FITS), or (nothing, why)."""
        if self.setting.gpus[gpu].memory_bytes is None:
            return (), Reason.MEMORY_UNKNOWN
        parts = (
            self.weights(self.capable[gpu], tp, pp, ep, weights),
            self.terms(self.sized[gpu], tp, pp, ep, weights),
            self.pools(self.capable[gpu], tp, pp, weights, kv_dtype),
        )
        if None in parts:
            return (), Reason.NOT_MODELLED
        if not self._loads(gpu, tp, self.peaks(tp, pp, ep, weights)):
            return (), Reason.LOADING
        return tuple(Stage(*part) for part in zip(*parts, strict=True)), Reason.FITS  # type: ignore[arg-type]

    def _loads(self, gpu: int, tp: int, peak_bytes: int) -> bool:
        card = self.setting.gpus[gpu]
        return fits_while_loading(peak_bytes, card, self.constants.context_bytes(card, tp))

    def margin(
        self, stages: tuple[Stage, ...], gpu: int, tp: int, pp: int, ep: int, dp: int, weights: int, kv_dtype: int
    ) -> int:
        """How much less KV cache there may be than expected, on the fullest stage."""
        setting, (word, checkpoint) = self.setting, self.setting.weights[weights]
        outside = extrapolated(self.constants, setting.model, setting.gpus[gpu], tp=tp, pp=pp, ep=ep, weights=word)
        reserve = reserve_margin_bytes(self.constants, setting.model, tp=tp, pp=pp, extrapolated=outside)
        fullest = max(stage.weights_bytes for stage in stages)
        return reserve + weights_margin_bytes(setting.model, fullest, word, checkpoint)[0]

    def _weights(self, gpu: int, tp: int, pp: int, ep: int, weights: int) -> tuple[int, ...] | None:
        return _or_none(lambda: stage_weights(self._physics(gpu, tp, pp, ep, weights, 0), self.constants))

    def _peaks(self, tp: int, pp: int, ep: int, weights: int) -> int:
        word, checkpoint = self.setting.weights[weights]
        engine = {"engine": self.setting.engine, "engine_version": self.setting.engine_version}
        return load_peak_bytes(self.setting.model, word, checkpoint, **engine, tp=tp, pp=pp, ep=ep)

    def _terms(self, gpu: int, tp: int, pp: int, ep: int, weights: int) -> tuple[ReserveTerms, ...] | None:
        return _or_none(lambda: stage_terms(self._physics(gpu, tp, pp, ep, weights, 0), self.constants))

    def _pools(self, gpu: int, tp: int, pp: int, weights: int, kv_dtype: int) -> tuple[KvPool, ...] | None:
        return _or_none(lambda: stage_pools(self._physics(gpu, tp, pp, 1, weights, kv_dtype), self.constants))

    def _physics(self, gpu: int, tp: int, pp: int, ep: int, weights: int, kv_dtype: int) -> Physics:
        word, checkpoint = self.setting.weights[weights]
        return Physics(
            model=self.setting.model,
            gpu=self.setting.gpus[gpu],
            weights=word,
            checkpoint=checkpoint,
            kv_dtype=self.setting.kv_dtypes[kv_dtype],
            tp=tp,
            pp=pp,
            ep=ep,
            enforce_eager=self.setting.enforce_eager,
            correction=self._correction(gpu, tp, pp),
        )

    def _correction(self, gpu: int, tp: int, pp: int) -> Correction | None:
        if self.setting.calibration is None:
            return None
        return self.setting.calibration.correction_for(self.constants, self.setting.gpus[gpu], tp, pp)


def _first_like(traits: Sequence[object]) -> list[int]:
    first: dict[object, int] = {}
    return [first.setdefault(trait, number) for number, trait in enumerate(traits)]


def _or_none(work: Callable[[], T]) -> T | None:
    try:
        return work()
    except InputError:
        return None


def integers(values: Iterable[int]) -> Int:
    """The values as an int64 array."""
    return np.fromiter(values, dtype=np.int64)


def _distinct(columns: ReplicaColumns) -> tuple[Int, tuple[Int, ...]]:
    """(entry of each row, the distinct combinations as columns: gpu, tp, pp, ep, dp, weights, kv_dtype)."""
    parts = (columns.gpu, columns.tp, columns.pp, columns.ep, columns.dp, columns.weights, columns.kv_dtype)
    sizes = [int(part.max(initial=0)) + 1 for part in parts]
    packed = np.ravel_multi_index(parts, sizes)
    if np.prod(sizes, dtype=np.float64) <= LOOK_UP:
        present = np.zeros(int(np.prod(sizes)), dtype=np.bool_)
        present[packed] = True
        distinct, ids = np.flatnonzero(present), (np.cumsum(present) - 1)[packed]
    else:
        distinct, ids = np.unique(packed, return_inverse=True)
    return ids.astype(np.int64), tuple(part.astype(np.int64) for part in np.unravel_index(distinct, sizes))

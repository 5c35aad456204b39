"""What candidate replicas hold: one vectorised call of the memory model for rows of any GPU, layout and terms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from recommender.catalog.gpus import Gpu
from recommender.catalog.models import Model
from recommender.memory.capacity import Capacity, Demand, ReplicaColumns, Setting, memory_model
from recommender.memory.compatibility import Verdict
from recommender.scenario import Scenario
from recommender.search.layouts import Layout
from recommender.search.load import Arriving, Load
from recommender.search.problem import Integers
from recommender.search.speeds import Speeds
from recommender.search.terms import Terms
from recommender.speed.predict import Prepared
from recommender.speed.replicas import is_modelled
from recommender.speed.slo import Seen

Open = tuple[str, Layout, int, Verdict]
"""A compatible row before its memory is known: GPU, layout, index of terms, verdict."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What all rows of a question share."""

    scenario: Scenario
    model: Model
    gpus: Mapping[str, Gpu]
    terms: tuple[Terms, ...]
    demand: Demand
    load: Load
    enough: int  # units of the load beyond which more in one replica is of no use
    speeds: Speeds | None = None

    @property
    def safe_side(self) -> bool:
        """Whether plans count on the low end of what the reserve may leave."""
        return self.scenario.memory_margin == "safe" and self.scenario.memory_model == "vllm"

    def capacity(self, asked: Sequence[Open], safe_side: bool) -> Capacity:
        """What each row serves. Of a data-parallel replica one engine is evaluated, the experts spread over all."""
        setting, columns, held = self._held(asked, safe_side)
        return held if self.speeds is None else self.speeds.limited(setting, _spread(asked, columns), held)

    def carried(self, asked: Sequence[Open], served: Capacity) -> Integers:
        """Units of the load that one engine of each row carries when started for as many requests as it serves."""
        paced = self._paced
        if paced is None:
            return self.load.carried(served.sequences)
        load, speeds = paced
        units, some = np.zeros_like(served.sequences), np.flatnonzero(served.sequences > 0)
        if len(some):
            held = served.where(some)
            prepared = self._prepared(
                speeds, [asked[row] for row in some.tolist()], held.sequences, held.max_num_batched_tokens
            )
            units[some] = load.parts_of(speeds.rates_per_s(prepared, load.means(held.sequences)))
        return units

    def load_on(self, asked: Open, max_num_batched_tokens: int, sequences: int) -> Load:
        """The load on an engine of one row that serves so many requests."""
        paced = self._paced
        if paced is None:
            return self.load
        load, speeds = paced
        counts, tokens = np.array([max(sequences, 1)]), np.array([max_num_batched_tokens])
        return load.on(speeds.service(self._prepared(speeds, [asked], counts, tokens)))

    def alone(self, asked: Sequence[Open], max_num_batched_tokens: Integers) -> Seen | None:
        """What one request by itself sees on rows that memory lets start; None where no speed is looked at."""
        if self.speeds is None or not all(is_modelled(self.gpus[gpu]) for gpu, *_ in asked):
            return None
        ones = np.ones(len(asked), dtype=np.int64)
        return self.speeds.alone(self._prepared(self.speeds, asked, ones, max_num_batched_tokens))

    @property
    def _paced(self) -> tuple[Arriving, Speeds] | None:
        """The load and the speeds where requests take on every engine as long as is predicted for it."""
        if isinstance(self.load, Arriving) and self.load.service is None and self.speeds is not None:
            return self.load, self.speeds
        return None

    def _prepared(
        self, speeds: Speeds, asked: Sequence[Open], sequences: Integers, max_num_batched_tokens: Integers
    ) -> Prepared:
        """Rows that serve so many requests on each engine, ready for any load."""
        setting, columns = self._columns(asked, self.safe_side)
        none = np.zeros_like(sequences)
        held = Capacity(sequences, none, max_num_batched_tokens, none)
        return speeds.prepared(setting, _spread(asked, columns), held)

    def _held(self, asked: Sequence[Open], safe_side: bool) -> tuple[Setting, ReplicaColumns, Capacity]:
        """What memory holds of each row."""
        setting, columns = self._columns(asked, safe_side)
        most = self.load.looked_at(self.enough)
        model = memory_model(self.scenario.memory_model, self.scenario.engine)
        return setting, columns, model.capacity(setting, columns, most, self.demand)

    def _columns(self, asked: Sequence[Open], safe_side: bool) -> tuple[Setting, ReplicaColumns]:
        """The rows as the memory model takes them: one engine each."""
        scenario, picked = self.scenario, [self.terms[i] for _, _, i, _ in asked]
        names = sorted({gpu for gpu, *_ in asked})
        choices = list(dict.fromkeys((each.choice.weights, each.choice.checkpoint) for each in picked))
        kv_dtypes = ("auto", "fp8")
        utilization = scenario.gpu_memory_utilization
        setting = Setting(
            model=self.model,
            gpus=tuple(self.gpus[name] for name in names),
            weights=tuple(choices),
            kv_dtypes=kv_dtypes,
            engine=scenario.engine,
            engine_version=scenario.engine_version,
            gpu_memory_utilization=None if utilization is None else float(utilization),
            enforce_eager=scenario.enforce_eager,
            safe_side=safe_side,
            calibration=scenario.calibration,
        )
        columns = ReplicaColumns(
            gpu=_integers(names.index(gpu) for gpu, *_ in asked),
            tp=_integers(layout.tp for _, layout, _, _ in asked),
            weights=_integers(choices.index((each.choice.weights, each.choice.checkpoint)) for each in picked),
            kv_dtype=_integers(kv_dtypes.index(each.kv_dtype) for each in picked),
            max_model_len=_integers(each.max_model_len for each in picked),
            max_num_batched_tokens=_integers(
                each.max_num_batched_tokens or scenario.max_num_batched_tokens or 0 for each in picked
            ),
            extra_reserve_bytes=_integers(verdict.reserve_bytes for *_, verdict in asked),
            pp=_integers(layout.pp for _, layout, _, _ in asked),
            ep=_integers(layout.ep for _, layout, _, _ in asked),
            dp=np.ones(len(asked), dtype=np.int64),
        )
        return setting, columns


def _spread(asked: Sequence[Open], columns: ReplicaColumns) -> ReplicaColumns:
    """The columns with the data-parallel ranks of each replica, which share its steps."""
    return replace(columns, dp=_integers(layout.dp for _, layout, _, _ in asked))


def _integers(values: Iterable[int]) -> Integers:
    return np.fromiter(values, dtype=np.int64)

"""What the reserve says of models that its constants were not fitted to: each model left out in turn."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from recommender.answer import shipped_catalog
from recommender.catalog.models import Model
from recommender.memory.engine import constants_of, engine_constants, engine_data
from recommender.memory.engine_rows import parse_version
from recommender.memory.fit import Fit
from recommender.memory.fitted import Fitted, filled_in
from recommender.memory.refit import fitted_without
from recommender.memory.reserve import reserve_terms
from recommender.memory.startup_logs import StartupLog, startup_logs
from recommender.units import GIB


@dataclass(frozen=True)
class Unseen:
    """One log, predicted without any log of its model. Shares of utilization x total; over: too much is promised."""

    name: str
    gpu: str
    version: str
    error: float
    seen_error: float

    @property
    def release(self) -> str:
        """The first two numbers of the version."""
        return ".".join(map(str, parse_version(self.version)[:2]))


@cache
def logs() -> tuple[StartupLog, ...]:
    """The logs that constants are fitted to."""
    return startup_logs(shipped_catalog())


@cache
def without(model_id: str) -> tuple[Fitted, ...]:
    """The constants without a model."""
    return fitted_without(model_id, logs())


def unseen(row: dict[str, str], name: str, answer: Fit, available_gib: float, budget_gib: float) -> Unseen:
    """The error of one row under constants that never saw its model."""
    model = shipped_catalog().resolve(name).model
    seen = engine_constants("vllm", answer.engine_version)
    blind = constants_of(filled_in(engine_data("vllm"), without(model.id)), "vllm", answer.engine_version)
    more = _reserve_bytes(blind, model, answer, row) - _reserve_bytes(seen, model, answer, row)
    error = answer.kv_cache_bytes / GIB - available_gib
    return Unseen(name, answer.gpu, answer.engine_version, (error - more / GIB) / budget_gib, error / budget_gib)


def _reserve_bytes(constants: object, model: Model, answer: Fit, row: dict[str, str]) -> int:
    terms = reserve_terms(
        constants,  # type: ignore[arg-type]
        model,
        shipped_catalog().gpu(answer.gpu),
        tp=answer.tp,
        pp=answer.pp,
        weights=answer.weights,
        quantised=answer.weights not in ("bf16", "fp16"),
        enforce_eager=row.get("enforce_eager") == "True",
        layers=-(-model.layers // answer.pp),
    )
    return terms.at(answer.max_num_seqs, answer.max_num_batched_tokens).total_bytes

"""The terms replicas run on: weight dtype, KV dtype and max-model-len, ordered by the rungs of the ladder they take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from recommender.catalog.models import Model
from recommender.memory.weights import WeightChoice
from recommender.scenario import Scenario
from recommender.search.plan import Adjustment

EVALUATE = "evaluate answer quality first"


@dataclass(frozen=True, slots=True)
class Terms:
    """One combination. `rungs` is compared lexicographically: weights, KV dtype, max-model-len, cast to fp16."""

    choice: WeightChoice
    kv_dtype: str
    max_model_len: int
    rungs: tuple[int, int, int, int]

    @property
    def cast(self) -> bool:
        """Whether bf16 runs as fp16, on cards that have no bf16."""
        return bool(self.rungs[3])

    @property
    def untouched(self) -> bool:
        """Whether weights and KV cache stay native."""
        weights, kv, _, cast = self.rungs
        return weights == kv == cast == 0

    @property
    def name(self) -> str:
        """What ties are broken by."""
        checkpoint = self.choice.checkpoint.id if self.choice.checkpoint and self.choice.checkpoint.id else ""
        return f"{self.choice.weights} {self.choice.how} {checkpoint} {self.kv_dtype} {self.max_model_len}"

    def milder(self, other: Terms) -> bool:
        """Whether no rung of these terms is dearer than the other's and the length is the same."""
        return self.max_model_len == other.max_model_len and all(
            own <= others for own, others in zip(self.rungs, other.rungs, strict=True)
        )


def terms_of(
    model: Model, choices: Sequence[WeightChoice], scenario: Scenario, shortest: int, casts: Sequence[bool]
) -> tuple[Terms, ...]:
    """All terms a scenario allows, mildest first.

    `shortest` is the least max-model-len for the promised share; `casts` holds True where a searched card lacks bf16.
    """
    lengths = [model.max_model_len]
    if shortest < model.max_model_len and "max_model_len" not in scenario.forbidden_rungs:
        lengths.append(shortest)
    kv_dtypes = ["auto"] if "kv_dtype" in scenario.forbidden_rungs or model.kv_declared == "fp8" else ["auto", "fp8"]
    allowed = [choice for choice in choices if _allowed(choice, scenario)]
    wanted = scenario.search.kv_dtypes
    terms = [
        Terms(choice, kv, length, (choice.rung, int(kv == "fp8"), int(length < model.max_model_len), int(cast)))
        for choice in allowed
        for kv in kv_dtypes
        if wanted is None or kv in wanted
        for length in lengths
        for cast in casts
    ]
    return tuple(sorted(terms, key=lambda each: (each.rungs, each.name)))


def _allowed(choice: WeightChoice, scenario: Scenario) -> bool:
    wanted = scenario.search.weights
    if wanted is not None and choice.weights not in wanted and not (choice.how == "native" and "native" in wanted):
        return False
    return choice.rung == 0 or "weights" not in scenario.forbidden_rungs


def adjustments_of(terms: Terms, model: Model, spread: str | None) -> tuple[Adjustment, ...]:
    """The rungs that terms take, in the ladder's order; `spread` describes rung 4 where it is taken."""
    weights, kv, length, cast = terms.rungs
    taken = []
    if length:
        change = f"{model.max_model_len} -> {terms.max_model_len}"
        taken.append(Adjustment(1, "max_model_len", change, "longer requests are refused"))
    if kv:
        taken.append(Adjustment(2, "kv_dtype", "auto -> fp8", EVALUATE))
    if weights:
        taken.append(Adjustment(3, "weights", f"{model.native} -> {terms.choice.weights}", EVALUATE))
    if cast:
        taken.append(Adjustment(3, "weights", "bf16 run as fp16", EVALUATE))
    if spread:
        taken.append(Adjustment(4, "gpus", spread, "the links between GPUs bound the speed"))
    return tuple(taken)

"""The terms replicas run on: dtypes, max-model-len and batched tokens, ordered by the rungs of the ladder they take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from recommender.catalog.models import Model
from recommender.memory.longest_length import longest_length
from recommender.memory.weights import WeightChoice
from recommender.scenario import Scenario
from recommender.search.plan import Adjustment

EVALUATE = "evaluate answer quality first"


class Rungs(NamedTuple):
    """How far each rung is taken, dearest first: what terms are compared by. `cast` is bf16 run as fp16."""

    weights: int  # 0 native, 1 eight bit, 2 four bit
    kv_dtype: int
    batched_tokens: int  # fewer than the engine's default: slower prefill, same answers
    max_model_len: int
    cast: int

    @property
    def quality(self) -> tuple[int, int, int]:
        """The rungs that touch answers."""
        return self.weights, self.kv_dtype, self.cast


@dataclass(frozen=True, slots=True)
class Terms:
    """One combination; `max_num_batched_tokens` None is the scenario's, or the engine's default for the card."""

    choice: WeightChoice
    kv_dtype: str
    max_model_len: int
    max_num_batched_tokens: int | None
    rungs: Rungs

    @property
    def cast(self) -> bool:
        """Whether bf16 runs as fp16, on cards that have no bf16."""
        return bool(self.rungs.cast)

    @property
    def untouched(self) -> bool:
        """Whether weights and KV cache stay native."""
        return not any(self.rungs.quality)

    @property
    def name(self) -> str:
        """What ties are broken by."""
        checkpoint = self.choice.checkpoint.id if self.choice.checkpoint and self.choice.checkpoint.id else ""
        limits = f"{self.max_model_len} {self.max_num_batched_tokens}"
        return f"{self.choice.weights} {self.choice.how} {checkpoint} {self.kv_dtype} {limits}"

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
    longest = longest_length(model, scenario.engine, scenario.engine_version)
    lengths = [longest]
    if shortest < longest and "max_model_len" not in scenario.forbidden_rungs:
        lengths.append(shortest)
    kv_dtypes = ["auto"] if "kv_dtype" in scenario.forbidden_rungs or model.kv_declared == "fp8" else ["auto", "fp8"]
    allowed = [choice for choice in choices if _allowed(choice, scenario)]
    wanted = scenario.search.kv_dtypes
    batched = (None, *sorted(set(scenario.search.max_num_batched_tokens), reverse=True))
    terms = [
        Terms(
            choice,
            kv,
            length,
            tokens,
            Rungs(choice.rung, int(kv == "fp8"), fewer, int(length < longest), int(cast)),
        )
        for choice in allowed
        for kv in kv_dtypes
        if wanted is None or kv in wanted
        for fewer, tokens in enumerate(batched)
        for length in lengths
        for cast in casts
    ]
    return tuple(sorted(terms, key=lambda each: (each.rungs, each.name)))


def _allowed(choice: WeightChoice, scenario: Scenario) -> bool:
    wanted = scenario.search.weights
    if wanted is not None and choice.weights not in wanted and not (choice.how == "native" and "native" in wanted):
        return False
    return choice.rung == 0 or "weights" not in scenario.forbidden_rungs


def adjustments_of(terms: Terms, model: Model, longest: int, gpus: Adjustment | None) -> tuple[Adjustment, ...]:
    """The rungs that terms take, in the ladder's order, from `longest` on; `gpus` is rung 4 where it is taken."""
    weights, kv, batched, length, cast = terms.rungs
    taken = []
    if length:
        change = f"{longest} -> {terms.max_model_len}"
        taken.append(Adjustment(1, "max_model_len", change, "longer requests are refused"))
    if batched:
        change = f"default -> {terms.max_num_batched_tokens}"
        taken.append(
            Adjustment(1, "max_num_batched_tokens", change, "prompts are read in smaller steps: slower prefill")
        )
    if kv:
        taken.append(Adjustment(2, "kv_dtype", "auto -> fp8", EVALUATE))
    if weights:
        taken.append(Adjustment(3, "weights", f"{model.native} -> {terms.choice.weights}", EVALUATE))
    if cast:
        taken.append(Adjustment(3, "dtype", "bf16 run as fp16", EVALUATE))
    return (*taken, gpus) if gpus else tuple(taken)

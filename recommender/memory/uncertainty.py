"""How far a prediction may be off: an 80 % interval around the reserve and the weights, and what it decides."""

from __future__ import annotations

from recommender.catalog.models import Checkpoint, Model
from recommender.memory.engine import EngineConstants
from recommender.memory.published import published
from recommender.memory.weights import stored_as

PLAIN = ("bf16", "fp16", "fp32")
EIGHT_BIT = ("fp8", "int8")
# Weights that no published size confirms, against those that start-up logs of 50 public set-ups printed: how much more
# they were than computed, in thousandths. Four-bit files keep more layers in 16 bit than their format asks for.
COMPUTED_PERMILLE = 10
FOUR_BIT_PERMILLE = 40
FOUR_BIT_MIXTURE_PERMILLE = 130


def reserve_margin_bytes(
    constants: EngineConstants, model: Model, *, tp: int, pp: int, extrapolated: tuple[str, ...]
) -> int:
    """Half of the interval around the reserve of one GPU. The version's own reason is part of its row already."""
    beyond = [reason for reason in extrapolated if reason != constants.extrapolated]
    alone = not model.experts and tp == 1 and pp == 1
    like_measured = not beyond and (alone or not constants.uncertainty.dense_only)
    return constants.uncertainty.measured_bytes if like_measured else constants.uncertainty.other_bytes


def weights_margin_bytes(
    model: Model, weights_bytes: int, weights: str, checkpoint: Checkpoint | None
) -> tuple[int, int]:
    """(how much more, how much less) the weights may be; nothing where plain 16 bit or the files' own size says so."""
    if weights in PLAIN or published(model, stored_as(model, weights, checkpoint), checkpoint).confirmed:
        return 0, 0
    less = weights_bytes * COMPUTED_PERMILLE // 1000
    if weights in EIGHT_BIT:
        return less, less
    mixed = model.experts or any(layers.kind == "linear" for layers in model.attention)
    return weights_bytes * (FOUR_BIT_MIXTURE_PERMILLE if mixed else FOUR_BIT_PERMILLE) // 1000, less

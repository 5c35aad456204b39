"""Where the bytes of a replica's weights come from, in words."""

from __future__ import annotations

from recommender.catalog.models import Checkpoint, Model
from recommender.memory.published import published
from recommender.memory.weights import stored_as


def weights_source(model: Model, weights: str, checkpoint: Checkpoint | None) -> str:
    """Where the weights' bytes come from, and whether the files' own size agrees with the config."""
    if checkpoint is None:
        return model.source
    said = published(model, stored_as(model, weights, checkpoint), checkpoint).source
    return said if checkpoint.source in said else f"{said}; {checkpoint.source}"

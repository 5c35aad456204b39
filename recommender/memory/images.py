"""What profiling a multimodal model with its largest images takes: encoder, pixel values and embeddings.

Read from profile_run of vLLM 0.8.3 (worker/model_runner.py, v1/worker/gpu_model_runner.py) and 0.19.1: V1 encodes as
many of the largest images as max_num_batched_tokens holds, at least one, and keeps their pixels and embeddings while it
runs and samples the language model; V0 runs prompts made of such images, however long one is.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from recommender.catalog.models import Model

_TABLE = Path(__file__).with_name("largest_images.csv")
_WHOLE_VECTORS = 2
"""A block's input and its norm, beside what tensor parallelism splits."""
_SPLIT_VECTORS = 6
"""Queries, keys and values, and their contiguous copies (vLLM 0.8.3 and 0.19.1, vision attention)."""
_V0_VECTORS = 2
"""Embeddings of the text and of the image beside hidden states: start-up logs of 0.8.3 and 0.9.2 within 0.05 GiB."""


@dataclass(frozen=True, slots=True)
class LargestImage:
    """The largest image of a model class: tokens in the prompt, patches in the tower, elements of its pixel tensor;
    `doubt` says where the engine profiles with something else.
    """

    tokens: int
    patches: int
    values: int
    doubt: str
    source: str


@dataclass(frozen=True, slots=True)
class ImageTerms:
    """Bytes of one largest image of so many tokens (0: none is known): kept beside the language model, the encoder's
    peak. `prompt_tokens`: the least that the language model itself is run on. `deep_bytes_per_token`: buffers of deeper
    levels that feed its first layers, for each token of a step.
    """

    tokens: int = 0
    kept_bytes: int = 0
    encoder_bytes: int = 0
    prompt_tokens: int = 0
    deep_bytes_per_token: int = 0


def largest_image(model: Model) -> LargestImage | None:
    """The largest image of the model's class; None for text alone and where no processor was read."""
    return _rows().get(model.architecture) if model.multimodal else None


def image_terms(model: Model, tp: int, *, generation: str, pixel_bytes: int) -> ImageTerms:
    """What one largest image takes on a rank under an engine core that keeps pixels in so many bytes a value."""
    image = largest_image(model)
    if image is None:
        return ImageTerms()
    pixels = image.values * pixel_bytes
    hidden = 2 * image.tokens * model.hidden_size
    block = _WHOLE_VECTORS * tp + _SPLIT_VECTORS
    encoder = pixels + 2 * image.patches * _width(model) * block // tp
    if generation == "V0":
        return ImageTerms(image.tokens, pixels + _V0_VECTORS * hidden, encoder, image.tokens)
    levels = _levels(model)
    kept = pixels + hidden * (1 + levels)
    return ImageTerms(image.tokens, kept, encoder, deep_bytes_per_token=2 * levels * model.hidden_size)


def _width(model: Model) -> int:
    """Hidden size of the vision tower."""
    return next((tensor.outputs for tensor in model.tensors if tensor.name == "vision.block_norms"), 0)


def _levels(model: Model) -> int:
    """Embeddings of deeper levels that each image token brings along."""
    return next((tensor.count // 2 for tensor in model.tensors if tensor.name == "vision.deepstack.norm"), 0)


@lru_cache(maxsize=1)
def _rows() -> dict[str, LargestImage]:
    with _TABLE.open(newline="", encoding="utf-8") as lines:
        return {
            row["architecture"]: LargestImage(
                int(row["tokens"]), int(row["patches"]), int(row["values"]), row["doubt"], row["source"]
            )
            for row in csv.DictReader(lines)
        }

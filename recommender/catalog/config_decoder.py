"""What a reader of one model class hands back: the language side of a model, tensors and caches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from recommender.catalog.config_fields import Fields
from recommender.catalog.config_layers import vector
from recommender.catalog.models import AttentionLayers, RotaryCache, Tensor


@dataclass(frozen=True, slots=True)
class Decoder:
    """The language side: sizes, every tensor of it (embeddings and head among them) and every cache."""

    hidden: int
    layers: int
    vocabulary: int
    heads: int
    kv_heads: int
    intermediate: int
    tied: bool
    tensors: tuple[Tensor, ...]
    attention: tuple[AttentionLayers, ...]
    rotary: tuple[RotaryCache, ...]
    rotary_dim: int
    experts: int = 0
    experts_per_token: int = 0
    moe_intermediate: int = 0
    other_buffer_bytes: int = 0
    tp_divides: tuple[tuple[str, int], ...] = ()

    def __post_init__(self) -> None:
        # A kind of layer that does not occur has an empty tuple of layers; what lies outside of all layers, range(0).
        object.__setattr__(self, "tensors", tuple(tensor for tensor in self.tensors if tensor.layers != ()))
        object.__setattr__(self, "attention", tuple(group for group in self.attention if group.layers))


def embeddings(vocabulary: int, hidden: int, *, tied: bool) -> Iterator[Tensor]:
    """The embedding and, unless it is tied to it, the head."""
    embedding = Tensor("embed_tokens.weight", "embedding", vocabulary, hidden, 1, "vocabulary", quantised=False)
    yield embedding
    if not tied:
        yield replace(embedding, name="lm_head.weight", group="lm_head")


def block_norms(hidden: int, layers: int, copies: int = 2) -> Iterator[Tensor]:
    """`copies` norm vectors in every layer, and the final one."""
    yield vector("norm", "layernorm", hidden, range(layers), copies=copies)
    yield vector("norm", "norm", hidden, range(0))


def sizes(fields: Fields) -> tuple[int, int, int]:
    """(hidden size, layers, vocabulary) as current configs name them."""
    return fields.integer("hidden_size"), fields.layers(), fields.integer("vocab_size")

"""What vision towers are made of: matrices, vectors and blocks of them, beside the language model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from recommender.catalog.models import Split, Tensor


@dataclass(frozen=True, slots=True)
class Tower:
    """A vision tower: its tensors and the buffers each rank holds."""

    tensors: tuple[Tensor, ...]
    buffer_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Encoder:
    """A stack of transformer blocks: sizes, and what has a bias."""

    hidden: int
    intermediate: int
    layers: int
    heads: int
    attention_width: int
    norm_vectors: int = 2  # 2: layer norms with a bias
    attention_bias: bool = True
    mlp_bias: bool = True
    gated: bool = False
    split: bool = True


def matrix(
    name: str, outputs: int, inputs: int, *, split: Split = "none", heads: int = 0, count: int = 1, bias: bool = False
) -> Iterator[Tensor]:
    """A matrix of the tower and its bias (whole where the inputs are split)."""
    weight = Tensor(f"vision.{name}.weight", "vision", outputs, inputs, count, split, quantised=False, heads=heads)
    yield weight
    if bias:
        yield replace(weight, name=f"vision.{name}.bias", inputs=1, split="none" if split == "inputs" else split)


def vectors(name: str, size: int, count: int = 1) -> Tensor:
    """`count` vectors, whole on every rank."""
    return Tensor(f"vision.{name}", "vision", size, 1, count, "none", quantised=False)


def blocks(at: Encoder) -> Iterator[Tensor]:
    """The blocks: attention, MLP and two norms each."""
    out: Split = "outputs" if at.split else "none"
    back: Split = "inputs" if at.split else "none"
    heads, count, wide = at.heads, at.layers, 3 * at.attention_width
    yield from matrix("qkv", wide, at.hidden, split=out, heads=heads, count=count, bias=at.attention_bias)
    yield from matrix(
        "out_proj", at.hidden, at.attention_width, split=back, heads=heads, count=count, bias=at.attention_bias
    )
    up = at.intermediate * (2 if at.gated else 1)
    yield from matrix("fc1", up, at.hidden, split=out, heads=heads, count=count, bias=at.mlp_bias)
    yield from matrix("fc2", at.hidden, at.intermediate, split=back, heads=heads, count=count, bias=at.mlp_bias)
    yield vectors("block_norms", at.hidden, 2 * at.norm_vectors * count)

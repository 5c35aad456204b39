"""Mamba-2 layers, as hybrid models have them beside attention.

Read from vLLM 0.33.0 model_executor/layers/mamba/mamba_mixer2.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from recommender.catalog.config_attention import compact
from recommender.catalog.config_layers import Heads, linear, vector
from recommender.catalog.models import AttentionLayers, LayerIndices, StateTensor, Tensor


@dataclass(frozen=True, slots=True)
class Mamba2:
    """The geometry of a Mamba-2 layer."""

    heads: int
    head_dim: int
    groups: int
    state: int
    kernel: int
    conv_bias: bool
    bias: bool

    @property
    def width(self) -> int:
        """Channels of all heads together."""
        return self.heads * self.head_dim


def mamba2_tensors(at: Mamba2, hidden: int, layers: LayerIndices, prefix: str = "mixer") -> Iterator[Tensor]:
    """Heads are split, groups too until there are more ranks than groups."""
    grouped = at.groups * at.state
    module, name = f"{prefix}.in_proj", f"{prefix}.in_proj"
    parts = (("z", at.width), ("x", at.width), ("B", grouped), ("C", grouped), ("dt", at.heads))
    for part, width in parts:
        by_group = part in ("B", "C")
        yield from linear(
            "mixer",
            module,
            name,
            width,
            hidden,
            layers,
            split="kv_heads" if by_group else "outputs",
            heads=at.groups if by_group else 0,
            bias=at.bias,
        )
    yield from _conv(at, layers, prefix, grouped)
    yield replace(vector("mixer", f"{prefix}.A", at.heads, layers, split="outputs"), element_bytes=4)
    yield vector("mixer", f"{prefix}.D", at.heads, layers, split="outputs")
    yield vector("mixer", f"{prefix}.dt_bias", at.heads, layers, split="outputs")
    yield vector("norm", f"{prefix}.norm", at.width, layers, split="outputs")
    name = f"{prefix}.out_proj"
    yield from linear("mixer", name, name, hidden, at.width, layers, split="inputs", bias=at.bias)


def _conv(at: Mamba2, layers: LayerIndices, prefix: str, grouped: int) -> Iterator[Tensor]:
    name = f"{prefix}.conv1d"
    yield from linear(
        "mixer", name, name, at.width, at.kernel, layers, split="outputs", bias=at.conv_bias, quantised=False
    )
    for _ in ("B", "C"):
        yield from linear(
            "mixer",
            name,
            name,
            grouped,
            at.kernel,
            layers,
            split="kv_heads",
            heads=at.groups,
            bias=at.conv_bias,
            quantised=False,
        )


def mamba2_layers(at: Mamba2, layers: LayerIndices, dtype: str) -> AttentionLayers:
    """What one request keeps in those layers."""
    back = at.kernel - 1
    return AttentionLayers(
        kind="linear",
        layers=len(layers),
        kv_heads=0,
        head_dim=0,
        v_head_dim=0,
        indices=layers,
        recurrence="mamba2",
        state=(
            StateTensor("conv", at.width * back, at.groups, 2 * at.state * back, "auto"),
            StateTensor("ssm", at.width * at.state, 0, 0, dtype),
        ),
    )


def full_layers(at: Heads, layers: LayerIndices) -> AttentionLayers:
    """Ordinary attention in those layers."""
    return AttentionLayers("full", len(layers), at.kv_heads, at.head_dim, at.v_head_dim, indices=layers)


def layers_of(kinds: list[str], kind: str) -> LayerIndices:
    """The layers of one kind."""
    return compact(tuple(index for index, found in enumerate(kinds) if found == kind))

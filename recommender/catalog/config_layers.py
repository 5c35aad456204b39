"""The tensors of grouped-query attention, of dense MLPs and of mixtures of experts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from recommender.catalog.models import LayerIndices, Split, Tensor


@dataclass(frozen=True, slots=True)
class Heads:
    """The head geometry of one kind of attention layer."""

    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    v_head_dim: int


def linear(
    group: str,
    module: str,
    name: str,
    outputs: int,
    inputs: int,
    layers: LayerIndices,
    *,
    split: Split,
    bias: bool = False,
    quantised: bool = True,
    heads: int = 0,
) -> Iterator[Tensor]:
    """A weight matrix in each of `layers`, and its bias. The bias of an input-sharded matrix is whole on each rank."""
    weight = Tensor(
        name=f"{name}.weight",
        group=group,
        outputs=outputs,
        inputs=inputs,
        count=len(layers),
        split=split,
        quantised=quantised,
        module=module,
        layers=layers,
        heads=heads,
    )
    yield weight
    if bias:
        whole = split == "inputs"
        yield replace(
            weight,
            name=f"{name}.bias",
            inputs=1,
            quantised=False,
            split="none" if whole else split,
        )


def vector(
    group: str, name: str, size: int, layers: LayerIndices, *, split: Split = "none", heads: int = 0, copies: int = 1
) -> Tensor:
    """A norm or other vector, `copies` times in each of `layers` (once where there are none: the final norm)."""
    return Tensor(
        name=name,
        group=group,
        outputs=size,
        inputs=1,
        count=copies * max(1, len(layers)),
        split=split,
        quantised=False,
        layers=layers,
        heads=heads,
    )


def grouped_query(
    at: Heads,
    layers: LayerIndices,
    *,
    qkv_bias: bool = False,
    o_bias: bool = False,
    gate: bool = False,
    group: str = "attention",
    prefix: str = "self_attn",
) -> Iterator[Tensor]:
    """q, k, v and o of grouped-query attention; `gate` doubles q (an output gate for each head)."""
    queries = at.heads * (2 if gate else 1)
    qkv, out = f"{prefix}.qkv_proj", f"{prefix}.o_proj"
    yield from linear(
        group, qkv, f"{prefix}.q_proj", queries * at.head_dim, at.hidden, layers, split="outputs", bias=qkv_bias
    )
    for part, width in (("k", at.head_dim), ("v", at.v_head_dim)):
        yield from linear(
            group,
            qkv,
            f"{prefix}.{part}_proj",
            at.kv_heads * width,
            at.hidden,
            layers,
            split="kv_heads",
            bias=qkv_bias,
            heads=at.kv_heads,
        )
    yield from linear(group, out, out, at.hidden, at.heads * at.v_head_dim, layers, split="inputs", bias=o_bias)


def dense_mlp(
    hidden: int,
    intermediate: int,
    layers: LayerIndices,
    *,
    bias: bool = False,
    gated: bool = True,
    group: str = "mlp",
    prefix: str = "mlp",
) -> Iterator[Tensor]:
    """Gate, up and down of an MLP (no gate where it is not gated)."""
    module = f"{prefix}.{'gate_up_proj' if gated else 'up_proj'}"
    for part in ("gate", "up") if gated else ("up",):
        yield from linear(
            group, module, f"{prefix}.{part}_proj", intermediate, hidden, layers, split="outputs", bias=bias
        )
    yield from linear(
        group, f"{prefix}.down_proj", f"{prefix}.down_proj", hidden, intermediate, layers, split="inputs", bias=bias
    )


def routed_experts(
    hidden: int,
    intermediate: int,
    experts: int,
    layers: LayerIndices,
    *,
    gated: bool = True,
    bias: bool = False,
    prefix: str = "mlp",
) -> Iterator[Tensor]:
    """Gate, up and down of every routed expert, as the engine's fused expert layer holds them."""
    name = f"{prefix}.experts"
    for tensor in dense_mlp(hidden, intermediate, layers, gated=gated, bias=bias, group="experts", prefix=name):
        yield replace(tensor, count=tensor.count * experts, experts=experts, module=name, quantised=True)


def router(
    hidden: int,
    experts: int,
    layers: LayerIndices,
    *,
    element_bytes: int | None = None,
    bias: bool = False,
    correction_bytes: int | None = None,
    quantised: bool = False,
    prefix: str = "mlp",
) -> Iterator[Tensor]:
    """The gate that picks experts and, where `correction_bytes` is given, its correction bias."""
    name = f"{prefix}.gate"
    for tensor in linear("router", name, name, experts, hidden, layers, split="none", bias=bias, quantised=quantised):
        yield replace(tensor, element_bytes=element_bytes)
    if correction_bytes is not None:
        correction = vector("router", f"{name}.e_score_correction_bias", experts, layers)
        yield replace(correction, element_bytes=correction_bytes)

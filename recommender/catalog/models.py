"""What a model is: its parameter tensors, its attention layers and its published checkpoints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Split = Literal["outputs", "inputs", "kv_heads", "vocabulary", "experts", "none"]
AttentionKind = Literal["full", "sliding", "chunked", "mla", "linear", "unknown"]


@dataclass(frozen=True, slots=True)
class Tensor:
    """One kind of parameter matrix (or vector: `inputs` 1), repeated `count` times over the whole model.

    `split` says what tensor parallelism does with it: shard the outputs or the inputs, shard by KV head (replicated once
    tp exceeds them), shard the padded vocabulary, shard each expert's hidden size (`experts`), or keep a copy on each GPU.
    `quantised` says whether quantised formats store it in fewer bits (linear weights) or leave it in 16 bit.
    """

    name: str
    group: str  # embedding | lm_head | attention | mlp | experts | shared_experts | router | norm | vision | other
    outputs: int
    inputs: int
    count: int
    split: Split
    quantised: bool

    @property
    def parameters(self) -> int:
        """Parameters of all copies together."""
        return self.outputs * self.inputs * self.count


@dataclass(frozen=True, slots=True)
class AttentionLayers:
    """Layers that keep the same cache: `layers` of one attention kind."""

    kind: AttentionKind
    layers: int
    kv_heads: int
    head_dim: int  # of K
    v_head_dim: int
    window: int | None = None


@dataclass(frozen=True, slots=True)
class Quantisation:
    """How a checkpoint stores its linear weights. `dtype` is the catalog's word: fp8, int8, int4, nvfp4 or mxfp4."""

    dtype: str
    method: str  # fp8 | fp8_block | compressed-tensors | awq | gptq | modelopt | mxfp4 ...
    bits: int
    group_size: int | None
    ignored: tuple[str, ...] = ()  # parameter groups left in 16 bit besides embeddings, head, norms and router


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A published (or computed) set of weights of a model. `bytes_total` is None where nobody stated it."""

    id: str | None  # Hugging Face repository; None: would have to be made
    model: str  # id of the model it is a checkpoint of
    weights: str  # bf16 | fp16 | fp8 | int8 | int4 | nvfp4 | mxfp4
    quantisation: Quantisation | None
    bytes_total: int | None
    size_kind: str  # index | repository | log | stated | computed
    source: str
    notes: str = ""


@dataclass(frozen=True, slots=True)
class Model:
    """One model: geometry and parameters, exact, from its config values."""

    id: str
    aliases: tuple[str, ...]
    base: str | None  # the repository this one is a quantisation of
    architecture: str
    native: str  # dtype of the publisher's primary release: bf16, fp16, fp8, mxfp4 ...
    kv_declared: str | None  # KV dtype the checkpoint itself declares (modelopt), else None
    quantisation: Quantisation | None  # of the native checkpoint
    hidden_size: int
    layers: int
    heads: int
    kv_heads: int
    intermediate_size: int
    vocabulary: int
    max_model_len: int
    tied_embeddings: bool
    experts: int  # 0: dense
    experts_per_token: int
    moe_intermediate_size: int
    rotary_dim: int
    multimodal: bool
    attention: tuple[AttentionLayers, ...]
    tensors: tuple[Tensor, ...]
    source: str

    @property
    def parameters(self) -> int:
        """Parameters of the whole model, tied embeddings once."""
        return sum(tensor.parameters for tensor in self.tensors)

"""What a model is: its parameter tensors, its attention layers and its published checkpoints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Split = Literal["outputs", "inputs", "kv_heads", "vocabulary", "heads", "none"]
AttentionKind = Literal["full", "sliding", "chunked", "mla", "compressed", "linear", "measured", "unknown"]
LayerIndices = range | tuple[int, ...]
EVERY_LINEAR = "Linear"
YARN_AS_WRITTEN = (0, 30)
"""The release from which max_position_embeddings of a YaRN config is taken as it is written (vLLM PR 56446)."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """One kind of parameter matrix (or vector: `inputs` 1), repeated `count` times over the whole model.

    `split` says what tensor parallelism does with it: shard the outputs or the inputs, shard whole KV heads (each
    rank keeps at least one, so they are replicated once tp exceeds them), shard the padded vocabulary, or keep a
    copy on each GPU (`none`). Experts are sharded alike inside each expert, or whole under expert parallelism.
    `quantised` says whether the engine stores it in fewer bits under a quantised checkpoint that does not exempt it.
    `module` is the engine's layer that holds it: tensors of one module (q, k and v) are one fused matrix there.
    `layers` are the decoder layers that have it, for pipeline stages; empty outside of the layers. `experts` is the
    number of copies in each of those layers that are experts, 0 for everything else.
    `element_bytes` is None for the model's own 16-bit dtype, 4 for what the engine keeps in float32.
    `heads` is how many heads the outputs hold where `split` is by KV head. `least` is the smallest part of a split size
    that the engine gives a rank (it pads below that). `multiple`: a rank's outputs of the module are padded to it.
    """

    name: str
    group: str  # embedding | lm_head | attention | mlp | experts | shared_experts | router | norm | indexer | mixer |
    #            vision | other | buffer (held on the GPU, no parameter)
    outputs: int
    inputs: int
    count: int
    split: Split
    quantised: bool
    module: str = ""
    layers: LayerIndices = range(0)
    experts: int = 0
    element_bytes: int | None = None
    heads: int = 0
    least: int = 1
    multiple: int = 1

    @property
    def parameters(self) -> int:
        """Parameters of all copies together."""
        return self.outputs * self.inputs * self.count


@dataclass(frozen=True, slots=True)
class StateTensor:
    """One recurrent tensor a linear (Mamba, GDN, KDA) layer keeps for each request, whatever its length.

    A rank holds `sharded // tp + max(1, groups // tp) * elements_per_group` elements: Mamba-2 groups are replicated
    once tp exceeds them; other layers have no groups (`elements_per_group` 0).
    `dtype` is `auto` (the model's 16-bit dtype unless the engine is told otherwise) or a dtype the config demands.
    """

    name: str  # conv | ssm
    sharded: int
    groups: int
    elements_per_group: int
    dtype: str  # auto | float32 | bfloat16 | float16

    def elements(self, tp: int) -> int:
        """Elements one of `tp` ranks keeps for one request and layer."""
        return self.sharded // tp + (max(1, self.groups // tp) * self.elements_per_group if self.groups else 0)


@dataclass(frozen=True, slots=True)
class AttentionLayers:
    """Layers that keep the same cache: `layers` of one attention kind.

    A token takes `kv_heads x (head_dim + v_head_dim)` elements in each of them, kv_heads being those of one rank,
    max(1, kv_heads // tp). What else the kinds carry:
    - full: nothing more; with an index (MiniMax M3), `indexer_head_dim` values in 16 bit a token in `indexer_layers`.
    - sliding: `window` tokens, as the config gives it.
    - chunked: `window` is the chunk (attention_chunk_size).
    - mla: one latent, replicated on every rank: kv_heads 1, head_dim = kv_lora_rank + qk_rope_head_dim, v_head_dim 0,
      and `latent_rank` = kv_lora_rank. With a sparse indexer, `indexer_head_dim` > 0 and `indexer_layers` of these
      layers keep their own index cache: indexer_head_dim fp8 values and one float32 scale per 128 of them a token.
    - compressed (DeepSeek V4): one latent of `head_dim`, replicated, for the last `window` tokens. Where
      `compress_ratio` > 0 also one for every compress_ratio tokens, and the state of the compressor that makes them;
      with `indexer_head_dim` > 0 all these layers keep a compressed index too (`indexer_layers` == `layers`).
      Layers of one ratio are one entry.
    - measured: nobody knows the layout; one token takes `measured_bytes` in each layer on each GPU, whatever tp.
    - linear: no cache that grows; `state` is what one request keeps per layer, `recurrence` names the layer type.
    Layers that read another layer's cache have none of their own: they are counted in `reused_layers`, not in `layers`.
    `indices` are the decoder layers (ascending), for pipeline stages and the engine's grouping; len(indices) == layers.
    """

    kind: AttentionKind
    layers: int
    kv_heads: int
    head_dim: int  # of K
    v_head_dim: int
    window: int | None = None
    indices: LayerIndices = range(0)
    latent_rank: int | None = None
    indexer_head_dim: int = 0
    indexer_layers: int = 0
    compress_ratio: int = 0
    state: tuple[StateTensor, ...] = ()
    recurrence: str | None = None  # mamba1 | mamba2 | gdn | kda
    reused_layers: int = 0
    measured_bytes: int = 0


@dataclass(frozen=True, slots=True)
class RotaryCache:
    """One cos/sin table that each GPU of each stage holds, shared by its layers."""

    positions: int
    dimension: int
    element_bytes: int | None = None  # None: the model's 16-bit dtype

    def size_bytes(self, dtype_bytes: int = 2) -> int:
        """Bytes of the table."""
        return self.positions * self.dimension * (self.element_bytes or dtype_bytes)


@dataclass(frozen=True, slots=True)
class Quantisation:
    """How a checkpoint stores its linear weights. `dtype` is the catalog's word: fp8, int8, int4, nvfp4 or mxfp4.

    `ignored` names what stays in 16 bit besides embeddings, head, norms and router: parameter groups ("attention") or
    module patterns as checkpoints write them ("re:.*self_attn.*", "model.layers.0.mlp.down_proj", "*visual*").
    `quantises_router`: routers are quantised too where the engine would; published checkpoints do not.
    `static_inputs`: activation scales are stored beside the weights. `zero_points`: the format stores them.
    `cut`: the list of ignored modules was cut where it was taken from and is continued over all layers.
    `scale_bytes` is the size of one scale of an FP8 block. `experts` is how routed experts are stored, where otherwise.
    `targets` are the modules stored so: patterns as in `ignored`, EVERY_LINEAR among them for those that no pattern
    names; empty for every linear layer. `named`: they are a list of single modules, each of which must be there. Where
    modules are stored in several ways, `schemes` has them all in the checkpoint's order, and the fields of this one are
    those of the scheme of the fewest bits.
    """

    dtype: str
    method: str  # fp8 | fp8_block | compressed-tensors | awq | gptq | modelopt | mxfp4 ...
    bits: int
    group_size: int | None
    ignored: tuple[str, ...] = ()
    quantises_router: bool = False
    static_inputs: bool = False
    zero_points: bool = False
    cut: bool = False
    scale_bytes: int = 4
    experts: Quantisation | None = None
    targets: tuple[str, ...] = ()
    named: bool = False
    schemes: tuple[Quantisation, ...] = ()

    @property
    def of_experts(self) -> Quantisation:
        """How routed experts are stored."""
        return self.experts or self


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A published (or computed) set of weights of a model. `bytes_total` is None where nobody stated it.

    `group_bytes` is what the engine loads of it by parameter group, sorted, where the headers of its files were read:
    16 bit for each element that is not quantised, scales and packed words as they are stored.
    """

    id: str | None  # Hugging Face repository; None: would have to be made
    model: str  # id of the model it is a checkpoint of
    weights: str  # bf16 | fp16 | fp8 | int8 | int4 | nvfp4 | mxfp4
    quantisation: Quantisation | None
    bytes_total: int | None
    size_kind: str  # index | repository | log | stated | computed | unknown (no size stated)
    source: str
    notes: str = ""
    kv_declared: str | None = None  # KV dtype this repository declares, which `auto` then means
    group_bytes: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Model:
    """One model: geometry and parameters, exact, from its config values.

    `kv_heads` and `intermediate_size` are those of the first layer that has any where layers differ. `max_model_len` is
    the longest request it takes; `default_max_model_len` is what the engine takes unasked, where that is shorter (long
    RoPE); `rescaled_max_model_len` is the longest one of releases that scaled YaRN's length once more.
    """

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
    rotary: tuple[RotaryCache, ...] = ()
    other_buffer_bytes: int = 0  # further buffers every rank holds (vision positions, normalisers)
    every_stage: tuple[str, ...] = ()  # groups outside the layers that each pipeline stage holds, not only one
    mtp_layers: int = 0  # speculative layers in the repository that are not loaded by default
    tp_divides: tuple[tuple[str, int], ...] = ()  # named sizes that tp must divide besides attention heads
    default_max_model_len: int | None = None
    rescaled_max_model_len: int | None = None

    def longest(self, engine_version: tuple[int, ...]) -> int:
        """The longest request this release of vLLM lets the model take."""
        before = self.rescaled_max_model_len
        return before if before is not None and engine_version < YARN_AS_WRITTEN else self.max_model_len

    def unasked_len(self, engine_version: tuple[int, ...]) -> int:
        """The length this release of vLLM takes where none is asked for."""
        return self.default_max_model_len or self.longest(engine_version)

    @property
    def parameters(self) -> int:
        """Parameters of the whole model, tied embeddings once."""
        return sum(tensor.parameters for tensor in self.tensors if tensor.group != "buffer")

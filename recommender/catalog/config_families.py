"""What the engine's model classes do that a config does not say: biases, norms, tied embeddings, windows.

Read from the model classes of vLLM 0.33.0 (vllm/model_executor/models/) and, where that engine runs a model through
transformers, from the transformers class of the same name; class defaults are those of the transformers configs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Window = Literal["uniform", "on_request", "listed"]


@dataclass(frozen=True, slots=True)
class Family:
    """One model class. A bias given as a word is the config key that turns it on; `key=true`: on by default."""

    qkv_bias: bool | str = False
    o_bias: bool | str = False
    mlp_bias: bool | str = False
    head_bias: bool | str = False
    gated: bool = True
    block_norms: int = 2  # vectors of the hidden size in each layer
    norm_vectors: int = 1  # 2: layer norms with a bias
    qk_norm: Literal["none", "head", "full", "sharded", "per_head"] = "none"
    qk_norm_key: str | None = None  # the config key that turns the q and k norms on
    tied: bool = False  # class default of tie_word_embeddings
    window: Window = "uniform"  # of the config: for every layer, if asked for, or as layer_types lists
    pattern: int | None = None  # every pattern-th layer is full, the others slide
    window_extra: int = 0  # tokens the engine adds to the config's window
    own_head_dim: bool = True  # False: the class ignores head_dim and divides
    default_head_dim: int | None = None
    default_intermediate: int | None = None  # as a multiple of the hidden size
    partial_rotary: float = 1.0
    rotary_caches: int = 1
    rotary_element_bytes: int | None = None
    positions: bool = False  # learned positions instead of rotary ones
    transformers_backend: bool = False  # no cos/sin table, only the inverse frequencies
    embedding_scale_bytes: int = 0
    sinks: bool = False  # a learned attention sink for each head
    mixture: str | None = None  # which mixture of experts (config_moe.py); None: dense


_LLAMA = Family(qkv_bias="attention_bias", o_bias="attention_bias", mlp_bias="mlp_bias")
_QWEN2 = Family(qkv_bias=True, window="on_request", own_head_dim=False)
_QWEN3 = Family(qkv_bias="attention_bias", qk_norm="head", window="on_request")
_OLMO2 = Family(qkv_bias="attention_bias", o_bias="attention_bias", qk_norm="full", transformers_backend=True)

# Classes whose transformers 5.24 config takes as many KV heads as heads where it does not say their number.
ALL_HEADS = (
    "ArceeForCausalLM",
    "Cohere2ForCausalLM",
    "CohereForCausalLM",
    "GPT2LMHeadModel",
    "GraniteForCausalLM",
    "GraniteMoeForCausalLM",
    "HunYuanMoEV1ForCausalLM",
    "LLaMAForCausalLM",
    "LlamaForCausalLM",
    "NemotronForCausalLM",
    "Olmo2ForCausalLM",
    "Olmo3ForCausalLM",
    "OlmoForCausalLM",
    "OlmoeForCausalLM",
    "Phi3ForCausalLM",
)

FAMILIES: dict[str, Family] = {
    "LLaMAForCausalLM": _LLAMA,
    "LlamaForCausalLM": _LLAMA,
    "AquilaForCausalLM": _LLAMA,
    "TeleChat3ForCausalLM": _LLAMA,
    "MistralForCausalLM": _LLAMA,
    "Ministral3ForCausalLM": _LLAMA,
    "ArceeForCausalLM": Family(
        qkv_bias="attention_bias",
        o_bias="attention_bias",
        mlp_bias="mlp_bias",
        gated=False,
        transformers_backend=True,
    ),
    "Qwen2ForCausalLM": _QWEN2,
    "MiMoForCausalLM": _QWEN2,
    "Qwen3ForCausalLM": _QWEN3,
    "Phi3ForCausalLM": Family(),
    "GraniteForCausalLM": _LLAMA,
    "OlmoForCausalLM": Family(
        qkv_bias="attention_bias", o_bias="attention_bias", block_norms=0, transformers_backend=True
    ),
    "Olmo2ForCausalLM": _OLMO2,
    "Olmo3ForCausalLM": _OLMO2,
    "SmolLM3ForCausalLM": Family(
        qkv_bias="attention_bias",
        o_bias="attention_bias",
        mlp_bias="mlp_bias",
        tied=True,
        window="on_request",
        transformers_backend=True,
    ),
    "GlmForCausalLM": Family(
        qkv_bias="attention_bias", default_head_dim=128, partial_rotary=0.5, transformers_backend=True
    ),
    "Glm4ForCausalLM": Family(qkv_bias="attention_bias", block_norms=4, default_head_dim=128, partial_rotary=0.5),
    "SeedOssForCausalLM": Family(
        qkv_bias="attention_bias=true",
        o_bias="attention_out_bias",
        mlp_bias="mlp_bias",
        default_head_dim=128,
        transformers_backend=True,
    ),
    "CohereForCausalLM": Family(block_norms=1, qk_norm="per_head", qk_norm_key="use_qk_norm", tied=True),
    "Cohere2ForCausalLM": Family(
        block_norms=1, qk_norm="per_head", qk_norm_key="use_qk_norm", tied=True, pattern=4, window_extra=1
    ),
    "GemmaForCausalLM": Family(tied=True, default_head_dim=256, embedding_scale_bytes=2),
    "Gemma2ForCausalLM": Family(
        qkv_bias="attention_bias",
        o_bias="attention_bias",
        block_norms=4,
        tied=True,
        pattern=2,
        default_head_dim=256,
        embedding_scale_bytes=2,
    ),
    "Gemma3ForCausalLM": Family(
        qkv_bias="attention_bias",
        o_bias="attention_bias",
        block_norms=4,
        qk_norm="head",
        tied=True,
        pattern=6,
        default_head_dim=256,
        rotary_caches=2,
        embedding_scale_bytes=2,
    ),
    "InternLM2ForCausalLM": Family(qkv_bias="bias", o_bias="bias"),
    "InternLM3ForCausalLM": Family(qkv_bias="qkv_bias", o_bias="bias", mlp_bias="bias"),
    "Starcoder2ForCausalLM": Family(
        qkv_bias="use_bias=true",
        o_bias="use_bias=true",
        mlp_bias="use_bias=true",
        gated=False,
        norm_vectors=2,
        tied=True,
        transformers_backend=True,
    ),
    "NemotronForCausalLM": Family(
        qkv_bias="attention_bias",
        o_bias="attention_bias",
        mlp_bias="mlp_bias",
        gated=False,
        norm_vectors=2,
        partial_rotary=0.5,
    ),
    "StableLmForCausalLM": Family(qkv_bias="use_qkv_bias", norm_vectors=2, partial_rotary=0.25),
    "Exaone4ForCausalLM": Family(qk_norm="head", window="listed"),
    "Ernie4_5ForCausalLM": Family(qkv_bias="use_bias", o_bias="use_bias", mlp_bias="use_bias", tied=True),
    "GPT2LMHeadModel": Family(
        qkv_bias=True,
        o_bias=True,
        mlp_bias=True,
        gated=False,
        norm_vectors=2,
        tied=True,
        default_intermediate=4,
        positions=True,
    ),
    "GPTBigCodeForCausalLM": Family(
        qkv_bias=True,
        o_bias=True,
        mlp_bias=True,
        gated=False,
        norm_vectors=2,
        tied=True,
        default_intermediate=4,
        positions=True,
    ),
    "MixtralForCausalLM": Family(mixture="mixtral"),
    "Qwen2MoeForCausalLM": Family(qkv_bias="qkv_bias=true", window="on_request", mixture="qwen2_moe"),
    "Qwen3MoeForCausalLM": Family(qkv_bias="attention_bias", qk_norm="head", window="on_request", mixture="qwen3_moe"),
    "Glm4MoeForCausalLM": Family(
        qkv_bias="attention_bias",
        qk_norm="head",
        qk_norm_key="use_qk_norm",
        partial_rotary=0.5,
        mixture="glm4_moe",
    ),
    "MiniMaxM2ForCausalLM": Family(qkv_bias="attention_bias", qk_norm="sharded", mixture="minimax_m2"),
    "GraniteMoeForCausalLM": Family(qkv_bias="attention_bias", o_bias="attention_bias", mixture="granite_moe"),
    "Ernie4_5_MoeForCausalLM": Family(qkv_bias="use_bias", mlp_bias="use_bias", tied=True, mixture="ernie"),
    "PhiMoEForCausalLM": Family(qkv_bias=True, o_bias=True, head_bias=True, norm_vectors=2, mixture="phi"),
    "HunYuanMoEV1ForCausalLM": Family(
        qkv_bias="attention_bias",
        o_bias="attention_bias",
        qk_norm="head",
        qk_norm_key="use_qk_norm",
        transformers_backend=True,
        mixture="hunyuan",
    ),
    "OlmoeForCausalLM": Family(qk_norm="sharded", mixture="olmoe"),
    "GptOssForCausalLM": Family(
        qkv_bias=True,
        o_bias=True,
        pattern=2,
        rotary_element_bytes=4,
        sinks=True,
        mixture="gpt_oss",
    ),
}

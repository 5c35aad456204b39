"""What a transformers config class fills in where a config.json leaves a key out.

Read from transformers 5.24.0 models/*/configuration_*.py (MiniMax M3: vLLM 0.33.0 transformers_utils/configs/), by the
class that reads the language part. Configs nested in another (`text_config`) are written without the values that equal
these, so every one of them counts there. A config of its own writes its sizes, so a missing size is a broken file; the
rest counts there too.
"""

from __future__ import annotations

from collections.abc import Mapping

_SIZES = (
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "max_position_embeddings",
)
_LINEAR = (
    "linear_conv_kernel_dim=4 linear_key_head_dim=128 linear_value_head_dim=128 linear_num_key_heads=16"
    " linear_num_value_heads=32"
)
_DEEPSEEK = "kv_lora_rank=512 qk_rope_head_dim=64 v_head_dim=128 qk_nope_head_dim=128"

# `model_type` -> what its class fills in: first the sizes above (0: no such key), then the rest.
_FILLED: dict[str, tuple[tuple[int, ...], str]] = {
    "deepseek_v2": (
        (102400, 4096, 11008, 32, 32, 2048),
        f"first_k_dense_replace=0 n_shared_experts=2 q_lora_rank=1536 {_DEEPSEEK}",
    ),
    "deepseek_v3": (
        (129280, 7168, 18432, 61, 128, 4096),
        f"first_k_dense_replace=3 n_shared_experts=1 q_lora_rank=1536 num_experts_per_tok=8 n_routed_experts=256"
        f" moe_intermediate_size=2048 {_DEEPSEEK}",
    ),
    "deepseek_v32": (
        (129280, 7168, 18432, 61, 128, 163840),
        f"first_k_dense_replace=3 n_shared_experts=1 q_lora_rank=1536 num_experts_per_tok=8 index_head_dim=128"
        f" index_n_heads=64 {_DEEPSEEK}",
    ),
    "glm_moe_dsa": (
        (154880, 6144, 12288, 78, 64, 202752),
        "first_k_dense_replace=3 n_shared_experts=1 q_lora_rank=2048 num_experts_per_tok=8 index_head_dim=128"
        " index_n_heads=32 kv_lora_rank=512 qk_rope_head_dim=64 v_head_dim=256 qk_nope_head_dim=192",
    ),
    "deepseek_v4": ((129280, 4096, 0, 43, 64, 1048576), "n_shared_experts=1 num_experts_per_tok=6"),
    "ernie4_5": ((103424, 1024, 3072, 18, 16, 131072), "num_key_value_heads=2 head_dim=128"),
    "ernie4_5_moe": (
        (103424, 2560, 12288, 28, 20, 131072),
        "num_key_value_heads=4 moe_k=6 moe_num_shared_experts=2 moe_layer_start_index=1 moe_layer_interval=1",
    ),
    "exaone4": ((102400, 4096, 16384, 32, 32, 2048), "num_key_value_heads=32"),
    "falcon": ((65024, 4544, 0, 32, 71, 2048), "max_position_embeddings=2048 multi_query=true"),
    "gemma": ((256000, 3072, 24576, 28, 16, 8192), "num_key_value_heads=16 head_dim=256"),
    "gemma2": ((256000, 2304, 9216, 26, 8, 8192), "num_key_value_heads=4 head_dim=256 sliding_window=4096"),
    "gemma3_text": ((262208, 2304, 9216, 26, 8, 131072), "num_key_value_heads=4 head_dim=256 sliding_window=4096"),
    "gemma4_text": (
        (262144, 2304, 9216, 30, 8, 131072),
        "num_key_value_heads=4 head_dim=256 sliding_window=512 global_head_dim=512 hidden_size_per_layer_input=256",
    ),
    "glm": ((151552, 4096, 13696, 40, 32, 131072), "num_key_value_heads=2 head_dim=128 attention_bias=true"),
    "glm4": ((151552, 4096, 13696, 40, 32, 131072), "num_key_value_heads=2 head_dim=128 attention_bias=true"),
    "glm4_moe": (
        (151552, 4096, 10944, 46, 96, 131072),
        "num_key_value_heads=8 first_k_dense_replace=1 n_shared_experts=1 num_experts_per_tok=8",
    ),
    "glm4_moe_lite": (
        (154880, 2048, 10240, 47, 20, 202752),
        f"n_shared_experts=1 q_lora_rank=768 num_experts_per_tok=4 {_DEEPSEEK}",
    ),
    "gpt_bigcode": ((50257, 768, 0, 12, 12, 1024), "multi_query=true"),
    "gpt_oss": (
        (201088, 2880, 2880, 36, 64, 131072),
        "num_key_value_heads=8 head_dim=64 sliding_window=128 num_experts_per_tok=4",
    ),
    "granitemoehybrid": (
        (32000, 4096, 11008, 32, 32, 2048),
        "num_local_experts=8 num_experts_per_tok=2 shared_intermediate_size=1024",
    ),
    "jamba": ((65536, 4096, 14336, 32, 32, 262144), "num_key_value_heads=8 num_experts=16 num_experts_per_tok=2"),
    "llama": ((32000, 4096, 11008, 32, 32, 2048), ""),
    "llama4_text": (
        (202048, 5120, 8192, 48, 40, 131072),
        "num_key_value_heads=8 head_dim=128 num_local_experts=16 num_experts_per_tok=1 intermediate_size_mlp=16384"
        " interleave_moe_layer_step=1 no_rope_layer_interval=4 attention_chunk_size=8192",
    ),
    "minimax_m2": ((200064, 3072, 1536, 62, 48, 196608), "num_key_value_heads=8 head_dim=128 num_experts_per_tok=8"),
    "minimax_m3": ((0, 0, 0, 0, 0, 0), "dense_intermediate_size=12288 n_shared_experts=1"),
    "ministral3": ((131072, 4096, 14336, 34, 32, 262144), "num_key_value_heads=8 head_dim=128"),
    "mistral": ((32000, 4096, 14336, 32, 32, 131072), "num_key_value_heads=8 sliding_window=4096"),
    "mixtral": ((32000, 4096, 14336, 32, 32, 131072), "num_key_value_heads=8 num_experts_per_tok=2"),
    "nemotron_h": (
        (131072, 4096, 21504, 0, 32, 4096),
        "num_key_value_heads=8 head_dim=128 n_shared_experts=1 num_experts_per_tok=2",
    ),
    "olmoe": ((50304, 2048, 2048, 16, 16, 4096), "num_experts_per_tok=8"),
    "phimoe": ((32064, 4096, 6400, 32, 32, 131072), "num_key_value_heads=8 num_experts_per_tok=2"),
    "qwen2": ((151936, 4096, 22016, 32, 32, 32768), "num_key_value_heads=32 max_window_layers=28"),
    "qwen2_5_vl_text": ((152064, 8192, 29568, 80, 64, 32768), "num_key_value_heads=8"),
    "qwen2_moe": (
        (151936, 2048, 5632, 24, 16, 32768),
        "num_key_value_heads=16 shared_expert_intermediate_size=5632 num_experts_per_tok=4 max_window_layers=28",
    ),
    "qwen3": ((151936, 4096, 22016, 32, 32, 32768), "num_key_value_heads=32 head_dim=128 max_window_layers=28"),
    "qwen3_5_moe_text": (
        (248320, 2048, 0, 40, 16, 32768),
        f"num_key_value_heads=2 head_dim=256 shared_expert_intermediate_size=512 num_experts_per_tok=8"
        f" num_experts=256 moe_intermediate_size=512 {_LINEAR}",
    ),
    "qwen3_5_text": ((248320, 4096, 12288, 32, 16, 32768), f"num_key_value_heads=4 head_dim=256 {_LINEAR}"),
    "qwen3_moe": ((151936, 2048, 6144, 24, 32, 32768), "num_key_value_heads=4 num_experts_per_tok=8"),
    "qwen3_next": (
        (151936, 2048, 5632, 48, 16, 32768),
        f"num_key_value_heads=2 head_dim=256 shared_expert_intermediate_size=512 num_experts=512 num_experts_per_tok=10"
        f" {_LINEAR}",
    ),
    "qwen3_vl_moe_text": (
        (151936, 2048, 5632, 24, 16, 128000),
        "num_key_value_heads=16 num_experts_per_tok=4 num_experts=60 moe_intermediate_size=1408",
    ),
    "qwen3_vl_text": ((151936, 4096, 22016, 32, 32, 128000), "num_key_value_heads=32 head_dim=128"),
    "seed_oss": ((155136, 4096, 27648, 64, 80, 524288), "num_key_value_heads=8 head_dim=128"),
    "smollm3": ((128256, 2048, 11008, 36, 16, 32768), "num_key_value_heads=4"),
    "stablelm": ((50304, 2560, 6912, 32, 32, 4096), "num_key_value_heads=32"),
    "starcoder2": ((49152, 3072, 12288, 30, 24, 4096), "num_key_value_heads=2"),
}

# The class that reads a config -> the model_type of its transformers config class.
_TYPES = {
    "DeepseekV2ForCausalLM": "deepseek_v2",
    "DeepseekV3ForCausalLM": "deepseek_v3",
    "DeepseekV32ForCausalLM": "deepseek_v32",
    "DeepseekV4ForCausalLM": "deepseek_v4",
    "Ernie4_5ForCausalLM": "ernie4_5",
    "Ernie4_5_MoeForCausalLM": "ernie4_5_moe",
    "Exaone4ForCausalLM": "exaone4",
    "FalconForCausalLM": "falcon",
    "GPTBigCodeForCausalLM": "gpt_bigcode",
    "Gemma2ForCausalLM": "gemma2",
    "Gemma3ForCausalLM": "gemma3_text",
    "Gemma4ForCausalLM": "gemma4_text",
    "GemmaForCausalLM": "gemma",
    "Glm4ForCausalLM": "glm4",
    "Glm4MoeForCausalLM": "glm4_moe",
    "Glm4MoeLiteForCausalLM": "glm4_moe_lite",
    "GlmForCausalLM": "glm",
    "GlmMoeDsaForCausalLM": "glm_moe_dsa",
    "GptOssForCausalLM": "gpt_oss",
    "GraniteMoeHybridForCausalLM": "granitemoehybrid",
    "JambaForCausalLM": "jamba",
    "Llama4ForCausalLM": "llama4_text",
    "LlamaForCausalLM": "llama",
    "MiniMaxM2ForCausalLM": "minimax_m2",
    "MiniMaxM3ForCausalLM": "minimax_m3",
    "Ministral3ForCausalLM": "ministral3",
    "MistralForCausalLM": "mistral",
    "MixtralForCausalLM": "mixtral",
    "NemotronHForCausalLM": "nemotron_h",
    "OlmoeForCausalLM": "olmoe",
    "PhiMoEForCausalLM": "phimoe",
    "Qwen2ForCausalLM": "qwen2",
    "Qwen2MoeForCausalLM": "qwen2_moe",
    "Qwen3ForCausalLM": "qwen3",
    "Qwen3MoeForCausalLM": "qwen3_moe",
    "Qwen3NextForCausalLM": "qwen3_next",
    "Qwen3_5ForCausalLM": "qwen3_5_text",
    "Qwen3_5MoeForCausalLM": "qwen3_5_moe_text",
    "SeedOssForCausalLM": "seed_oss",
    "SmolLM3ForCausalLM": "smollm3",
    "StableLmForCausalLM": "stablelm",
    "Starcoder2ForCausalLM": "starcoder2",
}
# Where a composite's language part is of a class of its own.
_NESTED_TYPES = {
    "Qwen2ForCausalLM": "qwen2_5_vl_text",
    "Qwen3ForCausalLM": "qwen3_vl_text",
    "Qwen3MoeForCausalLM": "qwen3_vl_moe_text",
}


def class_defaults(architecture: str, *, nested: bool) -> Mapping[str, int | bool]:
    """What the config class read by `architecture` fills in: its sizes too where the config is nested in another."""
    known = (_NESTED_TYPES if nested else {}).get(architecture) or _TYPES.get(architecture)
    if known is None:
        return {}
    sizes, rest = _FILLED[known]
    filled: dict[str, int | bool] = {}
    for pair in rest.split():
        key, _, value = pair.partition("=")
        filled[key] = value == "true" if value in ("true", "false") else int(value)
    if nested:
        filled |= {key: size for key, size in zip(_SIZES, sizes, strict=True) if size}
    return filled

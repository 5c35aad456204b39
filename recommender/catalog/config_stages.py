"""What every pipeline stage builds although one would do: model classes that do not ask which stage they are.

Read from vLLM 0.33.0 model_executor/models/: classes without PPMissingLayer for these parts.
"""

from __future__ import annotations

_ALL = ("embedding", "lm_head", "norm", "other", "vision")
_VISION = ("vision",)

_EVERY_STAGE = {
    **dict.fromkeys(
        (
            "Cohere2ForCausalLM",
            "CohereForCausalLM",
            "FalconForCausalLM",
            "GPT2LMHeadModel",
            "Gemma2ForCausalLM",
            "Gemma3ForCausalLM",
            "Gemma4ForCausalLM",
            "GemmaForCausalLM",
            "GptOssForCausalLM",
            "GraniteMoeForCausalLM",
            "GraniteMoeHybridForCausalLM",
            "InternLM2ForCausalLM",
            "JambaForCausalLM",
            "MixtralForCausalLM",
            "NemotronHForCausalLM",
            "OlmoeForCausalLM",
            "PhiMoEForCausalLM",
            "Qwen2MoeForCausalLM",
            "Qwen3MoeForCausalLM",
            "StableLmForCausalLM",
        ),
        _ALL,
    ),
    "DeepseekV4ForCausalLM": ("other", "vision"),
    "Qwen3NextForCausalLM": ("embedding", "lm_head", "vision"),
    "Qwen3_5ForCausalLM": ("embedding", "vision"),
    "Qwen3_5MoeForCausalLM": ("embedding", "vision"),
}


def on_every_stage(architecture: str) -> tuple[str, ...]:
    """Groups of tensors outside the layers that each stage holds; vision towers always do."""
    return _EVERY_STAGE.get(architecture, _VISION)

"""bitsandbytes checkpoints and ModelOpt's mixed precision: what a GPU holds of them, and where they do not run."""

from __future__ import annotations

from typing import Any

import pytest
from test_compatibility import ask, dense

from recommender.catalog.catalog import Catalog
from recommender.catalog.config import model_from_config
from recommender.catalog.models import Model, Quantisation
from recommender.errors import InputError, NotModelledError
from recommender.memory.weights import rank_bytes, stored_as

LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "torch_dtype": "bfloat16",
    "tie_word_embeddings": False,
}
# As unsloth/Meta-Llama-3.1-8B-Instruct-bnb-4bit has it.
NF4: dict[str, Any] = {
    "quant_method": "bitsandbytes",
    "load_in_4bit": True,
    "load_in_8bit": False,
    "bnb_4bit_quant_type": "nf4",
    "bnb_4bit_use_double_quant": True,
    "bnb_4bit_quant_storage": "uint8",
    "llm_int8_skip_modules": None,
}
LAYER = {  # outputs x inputs of one layer's matrices, q, k, v and gate, up fused
    "q": (4096, 4096), "k": (1024, 4096), "v": (1024, 4096), "o": (4096, 4096),
    "gate": (14336, 4096), "up": (14336, 4096), "down": (4096, 14336),
}  # fmt: skip
PLAIN = 2 * 128256 * 4096 * 2 + (2 * 32 + 1) * 4096 * 2  # embedding, head, norms


def model(declared: dict[str, Any], **changes: Any) -> Model:
    return model_from_config({**LLAMA, "quantization_config": declared, **changes}, id="test/model")


def held(found: Model, **split: int) -> int:
    return rank_bytes(found, found.quantisation, **split).parameter_bytes


def test_four_bit_blocks_have_a_scale_of_32_bit_each() -> None:
    """Nested scales are unfolded: half a byte a weight, 4 bytes for 64 of them, 16 values a matrix."""
    elements = sum(outputs * inputs for outputs, inputs in LAYER.values())
    expected = 32 * (elements // 2 + 4 * elements // 64 + 7 * 16 * 4)
    assert held(model(NF4)) == expected + PLAIN


def test_eight_bit_has_a_scale_for_each_output() -> None:
    elements = sum(outputs * inputs for outputs, inputs in LAYER.values())
    outputs = sum(outputs for outputs, _ in LAYER.values())
    found = model({"quant_method": "bitsandbytes", "load_in_8bit": True, "load_in_4bit": False})
    assert (found.native, held(found)) == ("int8", 32 * (elements + 4 * outputs) + PLAIN)


def test_modules_that_are_skipped_stay_in_16_bit() -> None:
    """Unsloth's dynamic quants list single modules."""
    skipped = ["lm_head", "model.layers.3.mlp.down_proj", "model.layers.5.mlp"]
    found = model({**NF4, "llm_int8_skip_modules": skipped})
    more = [("down",), ("gate", "up", "down")]
    saved = sum(
        2 * n - (n // 2 + 4 * n // 64 + 64)
        for names in more
        for n in (LAYER[name][0] * LAYER[name][1] for name in names)
    )
    assert held(found) == held(model(NF4)) + saved


def test_bitsandbytes_runs_on_one_gpu_or_in_stages(catalog: Catalog) -> None:
    stored = model(NF4).quantisation
    version = "0.11.0"
    assert ask(catalog, dense(), "T4", quantisation=stored, engine_version=version).ok
    refused = ask(catalog, dense(), "H100-SXM", quantisation=stored, engine_version=version, tp=2)
    assert "Prequant BitsAndBytes models with tensor parallelism is not supported" in refused.reason
    assert ask(catalog, dense(), "H100-SXM", quantisation=stored).notes == (
        "needs the plugin vllm-bnb-plugin beside vLLM",
    )
    assert "not known to work" in ask(catalog, dense(), "H100-SXM", quantisation=stored, engine_version="0.30.0").reason
    assert (
        "not known to work"
        in ask(catalog, dense(), "H100-SXM", quantisation=stored, engine="sglang", engine_version="0.5.23").reason
    )


def test_experts_by_bitsandbytes_are_refused(catalog: Catalog) -> None:
    with pytest.raises(NotModelledError, match="bitsandbytes"):
        rank_bytes(catalog.model("Qwen/Qwen3-30B-A3B"), Quantisation("int4", "bitsandbytes", 4, 64))


def mixed(layers: dict[str, Any], **changes: Any) -> Model:
    return model({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": layers, **changes})


def listed(projection: str, algorithm: str, layers: range, **more: Any) -> dict[str, Any]:
    return {f"model.layers.{at}.{projection}": {"quant_algo": algorithm, **more} for at in layers}


def test_mixed_precision_counts_each_module_as_it_is_listed() -> None:
    """MLP in NVFP4, attention's output in FP8 in the second half, the rest plain."""
    every, half = range(32), range(16, 32)
    layers: dict[str, Any] = {}
    for name in ("gate", "up", "down"):
        layers |= listed(f"mlp.{name}_proj", "NVFP4", every, group_size=16)
    layers |= listed("self_attn.o_proj", "FP8", half)
    found = mixed(layers)
    assert found.quantisation is not None
    assert (found.native, [scheme.dtype for scheme in found.quantisation.schemes]) == ("nvfp4", ["fp8", "nvfp4"])

    def size(name: str) -> int:
        return LAYER[name][0] * LAYER[name][1]

    four = sum(size(name) // 2 + size(name) // 16 + 8 for name in ("gate", "up", "down"))
    eight = size("o") + 8  # a scale of the weight and one of its inputs
    plain = 2 * (size("q") + size("k") + size("v"))
    scales = 32 * 4 * 2  # of each attention layer's cache, as for every ModelOpt checkpoint
    expected = 32 * (four + plain) + 16 * eight + 16 * 2 * size("o")
    assert held(found) == expected + PLAIN + scales


def test_weight_only_nvfp4_has_no_scale_of_its_inputs() -> None:
    every = listed("mlp.down_proj", "NVFP4", range(32), group_size=16)
    only = listed("mlp.down_proj", "W4A16_NVFP4", range(32), group_size=16)
    assert held(mixed(every)) - held(mixed(only)) == 32 * 4


@pytest.mark.parametrize(
    ("layers", "what"),
    [
        ({}, "without the list of its layers"),
        (listed("mlp.down_proj", "FP8_PB_WO", range(2)), "FP8_PB_WO weights"),
        ({"lm_head": {"quant_algo": "NVFP4"}}, "outside the layers"),
        (listed("mlp.down_proj", "UNQUANTIZED", range(2)), "in which no layer is quantised"),
        ({"mtp.layers.0.mlp.down_proj": {"quant_algo": "NVFP4"}}, "in which no layer is quantised"),
    ],
)
def test_what_a_mixed_checkpoint_does_not_tell_is_refused(layers: dict[str, Any], what: str) -> None:
    with pytest.raises(InputError, match=what):
        mixed(layers)


def test_a_listed_module_that_the_model_does_not_have_is_refused() -> None:
    found = mixed(listed("mixer.in_proj", "FP8", range(32)))
    with pytest.raises(NotModelledError, match="names others than are modelled"):
        held(found)


def test_the_native_format_is_the_checkpoints_own() -> None:
    found = model(NF4)
    assert stored_as(found, "int4", None) == found.quantisation

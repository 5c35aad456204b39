"""Folders of models as people have them: a config.json, and safetensors files whose data are holes, not bytes."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Shapes = dict[str, tuple[str, tuple[int, ...]]]
BITS = {"BF16": 16, "F16": 16, "F32": 32, "F8_E4M3": 8, "I32": 32, "I64": 64, "U8": 8}

LLAMA_8B: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "num_hidden_layers": 32,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
FP8 = {
    "quant_method": "compressed-tensors",
    "config_groups": {
        "group_0": {
            "targets": ["Linear"],
            "weights": {"num_bits": 8, "type": "float", "strategy": "channel", "symmetric": True},
            "input_activations": {"num_bits": 8, "type": "float", "dynamic": True},
        }
    },
    "ignore": ["lm_head"],
}
AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}
LINEARS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def header_of(shapes: Shapes) -> dict[str, Any]:
    """The JSON header of a safetensors file with these tensors, one after the other."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, (dtype, shape) in shapes.items():
        size = math.prod(shape) * BITS[dtype] // 8
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [end, end + size]}
        end += size
    return header


def write_header(path: Path, header: Any, data_bytes: int) -> None:
    """A safetensors file with any header, and as many bytes of data, all of them a hole."""
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text)
    with path.open("r+b") as file:
        file.truncate(8 + len(text) + data_bytes)


def write_safetensors(path: Path, shapes: Shapes) -> int:
    """A safetensors file with these tensors; gives the bytes of their data."""
    header = header_of(shapes)
    size = max((entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"), default=0)
    write_header(path, header, size)
    return size


def write_folder(folder: Path, config: Mapping[str, Any], shapes: Shapes, shards: int = 1) -> Path:
    """A folder with a config and all tensors, in one file or in `shards` files with an index."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    if shards == 1:
        write_safetensors(folder / "model.safetensors", shapes)
        return folder
    names = list(shapes)
    weight_map, total = {}, 0
    for number in range(shards):
        file = f"model-{number + 1:05}-of-{shards:05}.safetensors"
        part = {name: shapes[name] for name in names[number::shards]}
        total += write_safetensors(folder / file, part)
        weight_map |= dict.fromkeys(part, file)
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


def llama_shapes(config: Mapping[str, Any], stored: str = "bf16") -> Shapes:
    """The tensors of a Llama checkpoint, in 16 bit, or with linear layers as `fp8` or `awq` files store them."""
    hidden, vocabulary = config["hidden_size"], config["vocab_size"]
    shapes: Shapes = {"model.embed_tokens.weight": ("BF16", (vocabulary, hidden))}
    for layer in range(config["num_hidden_layers"]):
        for name in LINEARS:
            shapes |= linear_shapes(f"model.layers.{layer}.{_block(name)}.{name}", *_sizes(config, name), stored)
        for norm in ("input_layernorm", "post_attention_layernorm"):
            shapes[f"model.layers.{layer}.{norm}.weight"] = ("BF16", (hidden,))
    shapes["model.norm.weight"] = ("BF16", (hidden,))
    if not config["tie_word_embeddings"]:
        shapes["lm_head.weight"] = ("BF16", (vocabulary, hidden))
    return shapes


def linear_shapes(module: str, outputs: int, inputs: int, stored: str) -> Shapes:
    """One linear layer as a file stores it."""
    if stored == "fp8":
        return {
            f"{module}.weight": ("F8_E4M3", (outputs, inputs)),
            f"{module}.weight_scale": ("BF16", (outputs, 1)),
        }
    if stored == "awq":
        return {
            f"{module}.qweight": ("I32", (inputs, outputs // 8)),
            f"{module}.qzeros": ("I32", (inputs // 128, outputs // 8)),
            f"{module}.scales": ("F16", (inputs // 128, outputs)),
        }
    return {f"{module}.weight": ("BF16", (outputs, inputs))}


def _block(name: str) -> str:
    return "mlp" if name in ("gate_proj", "up_proj", "down_proj") else "self_attn"


def _sizes(config: Mapping[str, Any], name: str) -> tuple[int, int]:
    hidden, wide = config["hidden_size"], config["intermediate_size"]
    kv_width = hidden // config["num_attention_heads"] * config["num_key_value_heads"]
    return {
        "q_proj": (hidden, hidden),
        "k_proj": (kv_width, hidden),
        "v_proj": (kv_width, hidden),
        "o_proj": (hidden, hidden),
        "gate_proj": (wide, hidden),
        "up_proj": (wide, hidden),
        "down_proj": (hidden, wide),
    }[name]

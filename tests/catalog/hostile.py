"""Configs that nobody should write: the shipped ones with values taken away, swapped and blown up, by a seed."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from functools import cache
from typing import Any

from recommender.answer import shipped_catalog
from recommender.catalog.entries import read_values

VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, -5, 2, 3, 7, 2**31, 2**53, 2**63, 10**30),
    *(1e308, -1e308, float("nan"), float("inf"), 0.5, 1e-300),
    *("", "x", "8", "-1", "nan", "\x00", "é" * 50, "LlamaForCausalLM"),
    *([], [1], [None], [[]], {}, {"a": 1}, [{}], ["full_attention"], ["linear_attention"] * 3, [0] * 100),
    *({"type": "yarn", "factor": 1e300}, {"rope_type": "linear", "factor": -2}),
    {"rope_type": "yarn", "factor": 1e-9, "original_max_position_embeddings": 1},
    *({"quant_method": "martian"}, {"quant_method": "fp8", "weight_block_size": [0, 0]}),
    *({"quant_method": "gptq", "bits": 3, "group_size": -7}, {"quant_method": "awq", "bits": "4"}),
    {"quant_method": "compressed-tensors", "config_groups": {"a": {}}},
    *(["LlamaForCausalLM"], ["Nope"]),
)
KEYS = (
    *("architectures", "model_type", "torch_dtype", "tie_word_embeddings", "quantization_config", "_hf_quant_config"),
    *("rope_scaling", "rope_parameters", "partial_rotary_factor", "max_position_embeddings", "layer_types"),
    *("hidden_size", "intermediate_size", "num_hidden_layers", "num_nextn_predict_layers", "head_dim"),
    *("num_key_value_heads", "num_experts", "sliding_window", "sliding_window_pattern", "full_attention_interval"),
    *("text_config", "vision_config", "compression_config", "kv_bytes_per_token"),
)
MOST_ENTRIES = 5  # of a list: long ones hold the same again and again


@cache
def shipped_configs() -> tuple[dict[str, Any], ...]:
    """The config values of every shipped model that has its own."""
    catalog = shipped_catalog()
    found = (read_values(entry).config for entry in catalog._entries.values())
    return tuple(config for config in found if config)


def hostile_config(seed: int) -> dict[str, Any]:
    """One config with up to three things wrong."""
    dice = random.Random(seed)
    config = copy.deepcopy(dice.choice(shipped_configs()))
    for _ in range(dice.choice((1, 1, 1, 2, 3))):
        _change(dice, config)
    return config


def _change(dice: random.Random, config: dict[str, Any]) -> None:
    how, places = dice.random(), [place for place in _places(config) if place]
    if how < 0.15 or not places:
        config[dice.choice(KEYS)] = copy.deepcopy(dice.choice(VALUES))
        return
    *outer, last = dice.choice(places)
    holder: Any = config
    for step in outer:
        holder = holder[step]
    value = holder[last]
    if how < 0.3:
        del holder[last]
    elif how < 0.45 and isinstance(value, int) and not isinstance(value, bool):
        near = (value + 1, value - 1, value * 2, value // 3, -value, float(value), str(value))
        holder[last] = dice.choice(near)
    elif how < 0.55 and isinstance(value, list) and value:
        holder[last] = dice.choice((value[:-1], value + value, value[:1], [value], [*value, None]))
    else:
        holder[last] = copy.deepcopy(dice.choice(VALUES))


def _places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield place
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _places(inner, (*place, key))
    elif isinstance(value, list):
        for at, inner in enumerate(value[:MOST_ENTRIES]):
            yield from _places(inner, (*place, at))

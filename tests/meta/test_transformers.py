"""Parameter totals against the transformers classes themselves, built without memory on PyTorch's meta device.

Needs the extra `meta`: pip install '.[test,meta]' && pytest -m slow tests/meta
"""

from __future__ import annotations

from typing import Any

import pytest

from recommender.catalog.catalog import Catalog, load_catalog
from recommender.catalog.config import known_architectures, model_from_config
from recommender.catalog.entries import read_values

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.slow

# What transformers keeps as a buffer and checkpoints hold as a weight.
WEIGHTS_AS_BUFFERS = ("correction_bias", "tid2eid")
STORAGE = ("quantization_config", "_hf_quant_config")
# Repository words for classes that transformers knows by another.
SAME_CLASS = {"kimi_k2": "deepseek_v3", "minimax_m3": "minimax_m3_vl_text"}
NOT_COMPARED = {
    "google/gemma-4-26B-A4B": "the catalog leaves out keys that only the transformers class reads",
    "google/gemma-4-31B-it": "the catalog leaves out keys that only the transformers class reads",
    "ibm-granite/granite-vision-3.3-2b": "the engine does not load the norm behind the tower",
    "moonshotai/Kimi-K2.5": "not a class of transformers",
    "moonshotai/Kimi-K3": "not a class of transformers",
    "nvidia/Llama-3_3-Nemotron-Super-49B-v1": "not a class of transformers",
    "sgl-project/DeepSeek-V4-Flash-FP8": "not a class of transformers",
    "sgl-project/DeepSeek-V4-Pro-FP8": "not a class of transformers",
    "XiaomiMiMo/MiMo-7B-Base": "not a class of transformers",
}


def own_configs(catalog: Catalog) -> list[Any]:
    """One case for each config of the catalog that is not a quantisation of another."""
    own = [entry for entry in catalog.models if entry.base is None and entry.id not in NOT_COMPARED]
    read = [(entry.id, read_values(entry).config) for entry in own]
    known = known_architectures()
    return [pytest.param(found, id=name) for name, found in read if found and found["architectures"][0] in known]


def built(config: dict[str, Any]) -> Any:
    """The network of a config, without memory."""
    left_out = ("model_type", "auto_map", "torch_dtype", *STORAGE)
    values = {key: value for key, value in config.items() if key not in left_out}
    if "siglip" in str((values.get("vision_config") or {}).get("model_type")):
        values["vision_config"] = {"vision_use_head": False, **values["vision_config"]}
    kind = config["model_type"]
    described = transformers.AutoConfig.for_model(SAME_CLASS.get(kind, kind), **values)
    named = getattr(transformers, config["architectures"][0], None)
    with torch.device("meta"):
        network = named(described) if named else transformers.AutoModelForCausalLM.from_config(described)
    network.tie_weights()
    return network


@pytest.mark.parametrize("config", own_configs(load_catalog()))
def test_parameter_total_is_that_of_the_class(config: dict[str, Any]) -> None:
    plain = {key: value for key, value in config.items() if key not in STORAGE}
    model = model_from_config(plain, id="tested")
    network = built(config)
    weights = {id(weight): weight.numel() for weight in network.parameters()}
    held = {id(buffer): buffer.numel() for name, buffer in network.named_buffers() if name.endswith(WEIGHTS_AS_BUFFERS)}
    assert model.parameters == sum(weights.values()) + sum(held.values())

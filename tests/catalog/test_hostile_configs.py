"""A broken config ends in an answer or in an error that says what is wrong, never in anything else, and soon.

`pytest -m slow tests/catalog` (or `make slow`) tries seventy times as many.
"""

from __future__ import annotations

import json
import os
import random
import time
from pathlib import Path
from typing import Any

import pytest
from folders import LLAMA_8B
from hostile import hostile_config

from recommender.answer import fit, shipped_catalog
from recommender.catalog.local import read_local
from recommender.catalog.repository import Repository, described
from recommender.errors import InputError
from recommender.memory.fit import Replica, fit_replica

GPUS = ("H100-SXM", "T4", "MI300X", "A100-80GB-SXM")
VERSIONS = (None, "0.6.4", "0.9.2", "0.19.0", "0.25.0")
LONGEST_S, LONGEST_MESSAGE = 5, 3_000


def answer_or_refusal(seed: int) -> bool:
    """Whether a config and replicas of it are answered; False where it is refused. Anything else is a fault of ours."""
    started = time.process_time()
    refusal = _refusal(seed)
    assert time.process_time() - started < LONGEST_S, seed
    assert refusal is None or 0 < len(refusal) < LONGEST_MESSAGE, seed
    return refusal is None


def _refusal(seed: int) -> str | None:
    dice, catalog = random.Random(seed), shipped_catalog()
    try:
        found = described(Repository("x", "config.json", hostile_config(seed), None, None, "a test"), catalog)
        for tp, pp in ((1, 1), (dice.choice((2, 3, 4, 8)), dice.choice((1, 1, 2)))):
            gpu, kv_dtype, version = dice.choice(GPUS), dice.choice(("auto", "fp8")), dice.choice(VERSIONS)
            replica = Replica(
                *(found.model, catalog.gpu(gpu), found.model.native, found.checkpoint, kv_dtype, tp, pp),
                engine_version=version,
            )
            held = fit_replica(replica)
            assert min(held.weights_bytes, held.kv_cache_tokens, held.kv_cache_bytes) >= 0, seed
    except InputError as error:
        return str(error)
    return None


def test_broken_configs() -> None:
    answered = sum(answer_or_refusal(seed) for seed in range(600))
    assert 60 < answered < 400  # the rest is refused by name


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 40_000, 4_000))
def test_many_broken_configs(first: int) -> None:
    assert sum(answer_or_refusal(seed) for seed in range(1_000_000 + first, 1_004_000 + first))


def refusal_of(folder: Path) -> str:
    with pytest.raises(InputError) as found:
        fit(str(folder), "H100-SXM")
    return str(found.value)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"layer_types": []}, "layer_types: 0 entries for 32 layers"),
        ({"layer_types": ["full_attention"] * 3}, "layer_types: 3 entries for 32 layers"),
        ({"num_key_value_heads": 0}, "num_key_value_heads: 0 is not usable"),
        ({"num_key_value_heads": 7}, "32 heads cannot share 7 KV heads"),
        ({"hidden_size": -4096}, "hidden_size: -4096 is not usable"),
        ({"hidden_size": [4096]}, "hidden_size: [4096] is not usable"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers: 1000000000 is not usable"),
        ({"quantization_config": {"quant_method": "martian"}}, "'martian' is not modelled"),
        ({"quantization_config": "fp8"}, "quantization_config: 'fp8' is not usable"),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, Any], said: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA_8B | change))
    assert said in refusal_of(tmp_path)


def test_heads_without_a_size(tmp_path: Path) -> None:
    """Granite 4 states no head_dim: 2 elements for 40 heads are none for each."""
    config = {
        "architectures": ["GraniteMoeHybridForCausalLM"],
        "hidden_size": 2,
        "num_hidden_layers": 2,
        "num_attention_heads": 40,
        "num_key_value_heads": 8,
        "intermediate_size": 8192,
        "shared_intermediate_size": 8192,
        "vocab_size": 100352,
        "max_position_embeddings": 131072,
        "layer_types": ["attention"] * 2,
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert "hidden_size: 2 elements for 40 heads leave none to each" in refusal_of(tmp_path)


def test_a_scaling_that_leaves_no_length(tmp_path: Path) -> None:
    scaling = {"rope_type": "yarn", "factor": 1e-9, "original_max_position_embeddings": 4096}
    (tmp_path / "config.json").write_text(
        json.dumps(LLAMA_8B | {"max_position_embeddings": 1, "rope_scaling": scaling})
    )
    assert "rope_scaling: scales the longest request to nothing" in refusal_of(tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes by name here")
@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
@pytest.mark.parametrize("kind", ["pipe", "folder", "loop", "device"])
def test_what_is_no_file_is_not_read(name: str, kind: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA_8B))
    place = tmp_path / name
    place.unlink(missing_ok=True)
    {
        "pipe": lambda: os.mkfifo(place),
        "folder": place.mkdir,
        "loop": lambda: place.symlink_to(place),
        "device": lambda: place.symlink_to("/dev/zero"),
    }[kind]()
    assert "is not a regular file" in (said := refusal_of(tmp_path)) or "symbolic links" in said


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="a file that cannot be read though it can be opened")
def test_a_file_that_cannot_be_read_once_it_is_open() -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_local("/proc/self/mem")


def test_a_list_of_patterns_that_would_take_for_ever(tmp_path: Path) -> None:
    stored = {
        "quant_method": "compressed-tensors",
        "format": "float-quantized",
        "config_groups": {
            "group_0": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float", "strategy": "channel"}}
        },
        "ignore": ["re:(.*.*)*z$"],
    }
    (tmp_path / "config.json").write_text(json.dumps(LLAMA_8B | {"quantization_config": stored}))
    assert "might take for ever" in refusal_of(tmp_path)

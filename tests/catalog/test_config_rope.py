"""The longest request by each kind of position scaling, as vLLM's _get_and_verify_max_len derives it."""

from __future__ import annotations

from typing import Any

import pytest
from test_config import LLAMA, model

from recommender.catalog.models import Model
from recommender.errors import InputError

NEW, OLD = (0, 30, 0), (0, 29, 0)
QWEN3 = {**LLAMA, "architectures": ["Qwen3ForCausalLM"], "head_dim": 128, "max_position_embeddings": 40_960}
DEEPSEEK_YARN = {"beta_fast": 32, "factor": 40, "original_max_position_embeddings": 4096}


def scaled(rope: dict[str, Any] | None, **changes: Any) -> Model:
    return model(LLAMA, rope_scaling=rope, **changes)


@pytest.mark.parametrize(
    ("rope", "expected"),
    [
        (None, 131_072),
        ({"rope_type": "default"}, 131_072),
        ({"rope_type": "default", "factor": 1.0}, 131_072),
        ({"type": "mrope", "mrope_section": [16, 24, 24]}, 131_072),
        ({"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192}, 131_072),
        ({"rope_type": "yarn", "factor": 4.0}, 131_072),
        ({"rope_type": "linear", "factor": 2.0}, 262_144),
        ({"type": "dynamic", "factor": 4.0}, 524_288),
        ({"type": "dynamic", "alpha": 1000.0}, 131_072),
    ],
)
def test_longest_request(rope: dict[str, Any] | None, expected: int) -> None:
    assert scaled(rope).max_model_len == expected


def test_yarn_by_release() -> None:
    """vLLM pull request 56446: a YaRN config's length is taken as written; before, original x factor."""
    rope = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32_768}
    found = model(QWEN3, rope_scaling=rope)
    assert (found.longest(OLD), found.longest(NEW)) == (131_072, 40_960)
    assert (found.unasked_len(OLD), found.unasked_len(NEW)) == (131_072, 40_960)


def test_yarn_that_agrees_with_itself() -> None:
    found = scaled({**DEEPSEEK_YARN, "type": "yarn"}, max_position_embeddings=163_840)
    assert {found.longest(OLD), found.longest(NEW)} == {163_840}


def test_long_rope_has_a_shorter_default_only() -> None:
    """Phi-3-mini-128k: 4,096 unasked, up to 131,072 asked for."""
    found = scaled({"type": "su", "long_factor": [1.0] * 48}, original_max_position_embeddings=4096)
    assert (found.max_model_len, found.unasked_len(NEW)) == (131_072, 4096)


def test_a_length_of_its_own_wins() -> None:
    assert model(LLAMA, model_max_length=200_000).max_model_len == 200_000


def test_gemma_3_is_scaled_already() -> None:
    rope = {"rope_type": "linear", "factor": 8.0}
    assert scaled(rope, model_type="gemma3_text").max_model_len == 131_072


@pytest.mark.parametrize(
    ("rope", "key"),
    [
        (DEEPSEEK_YARN, "rope_scaling.rope_type"),  # times 40 it would be 6.5 million tokens
        ({"rope_type": "yarm", "factor": 4.0}, "rope_scaling.rope_type"),
        ({"rope_type": 3, "factor": 4.0}, "rope_scaling.rope_type"),
        ({"rope_type": "yarn", "type": "linear", "factor": 4.0}, "rope_scaling.rope_type"),
        ({"rope_type": "linear"}, "rope_scaling.factor"),
        ({"rope_type": "linear", "factor": 0}, "rope_scaling.factor"),
        ({"rope_type": "linear", "factor": -2.0}, "rope_scaling.factor"),
        ({"rope_type": "linear", "factor": 1e30}, "rope_scaling.factor"),
        ({"rope_type": "linear", "factor": "4"}, "rope_scaling.factor"),
        ({"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 0}, "original_max_position_embeddings"),
        ({"rope_type": "default", "partial_rotary_factor": 1e30}, "rope_scaling.partial_rotary_factor"),
        ({"full_attention": {"factor": 8.0}}, "rope_scaling.full_attention.rope_type"),
    ],
)
def test_what_is_not_usable_is_named(rope: dict[str, Any], key: str) -> None:
    with pytest.raises(InputError, match=key):
        scaled(rope)


@pytest.mark.parametrize("share", [0, -0.5, 1.5, 1e30, True, "0.5"])
def test_shares_of_a_head_beyond_it_are_refused(share: object) -> None:
    with pytest.raises(InputError, match="partial_rotary_factor"):
        model(LLAMA, partial_rotary_factor=share)

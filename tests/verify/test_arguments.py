from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recommender.verify.arguments import command_line, dumped, read_value


def test_dictionary_of_arguments() -> None:
    text = (
        "{'model_tag': 'a/b', 'max_model_len': 8192, 'gpu_memory_utilization': 0.95, 'enable_lora': True, "
        "'x': None} and more"
    )
    assert dumped(text) == {
        "model_tag": "a/b",
        "max_model_len": 8192,
        "gpu_memory_utilization": Decimal("0.95"),
        "enable_lora": True,
        "x": None,
    }


def test_namespace_and_configuration_line_agree() -> None:
    inside = "model='a/b', max_model_len=8192, config_format=<ConfigFormat.AUTO: 'auto'>, kv_cache_dtype=auto"
    assert dumped(f"({inside})") == {**dumped(f"{inside}, cut"), "kv_cache_dtype": "auto"}


def test_what_lies_inside_another_value_is_not_taken() -> None:
    text = (
        "{'speculative_config': {'model': 'draft', 'max_model_len': 1}, 'lora_modules': [Path(name='model')], "
        "'chat_template': \"it's {'model': 'no'}\", 'model': 'right', 'max_model_len': 4096}"
    )
    assert (dumped(text)["model"], dumped(text)["max_model_len"]) == ("right", 4096)


@pytest.mark.parametrize("cut", range(1, 60))
def test_cut_dump_gives_what_is_whole(cut: int) -> None:
    text = "{'model': 'a/b', 'max_model_len': 8192, 'tensor_parallel_size': 2}"
    found = dumped(text[: len(text) - cut])
    assert found.items() <= dumped(text).items()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12", 12),
        ("-3", -3),
        ("0.9", Decimal("0.9")),
        ("'12'", "12"),
        ("None", None),
        ("torch.bfloat16", "torch.bfloat16"),
        ("9" * 40, "9" * 40),
        ("1e999999", "1e999999"),
    ],
)
def test_values(text: str, value: object) -> None:
    assert read_value(text) == value


def test_command_line() -> None:
    given = command_line(
        "$ vllm serve Qwen/Qwen3-8B --tensor-parallel-size 2 --max-model-len=32k --enforce-eager "
        "--no-enable-prefix-caching --kv-cache-dtype 'fp8' --gpu-memory-utilization 0.9"
    )
    assert given == {
        "model": "Qwen/Qwen3-8B",
        "tensor_parallel_size": 2,
        "max_model_len": "32k",
        "enforce_eager": True,
        "enable_prefix_caching": False,
        "kv_cache_dtype": "fp8",
        "gpu_memory_utilization": Decimal("0.9"),
    }


@given(st.text(alphabet="{}[]()<>'\"\\,:=abmodel_1 .\n", max_size=300))
def test_no_text_breaks_it(text: str) -> None:
    assert all(isinstance(name, str) for name in dumped(text))
    assert all(isinstance(name, str) for name in command_line(f"vllm serve {text}"))

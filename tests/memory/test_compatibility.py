"""What runs where: every refusal by name, and nothing allowed that nobody stated."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import recommender.memory
from recommender.catalog.catalog import Catalog, load_catalog
from recommender.catalog.config import model_from_config
from recommender.catalog.models import Model, Quantisation
from recommender.memory.compatibility import Verdict, compatible
from recommender.memory.support import version_numbers

FP8 = Quantisation("fp8", "compressed-tensors:channel", 8, None)
FP8_BLOCK = Quantisation("fp8", "fp8_block", 8, 128)
INT8 = Quantisation("int8", "compressed-tensors:channel", 8, None)
W4A16 = Quantisation("int4", "compressed-tensors:packed", 4, 128)
AWQ = Quantisation("int4", "awq", 4, 128)
GPTQ = Quantisation("int4", "gptq", 4, 128)
GPTQ8 = Quantisation("int8", "gptq", 8, -1)
NVFP4 = Quantisation("nvfp4", "modelopt", 4, 16)
MXFP4 = Quantisation("mxfp4", "mxfp4", 4, 32)
LATEST = "0.33.0"


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load_catalog()


def dense(**changes: Any) -> Model:
    config = {
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": 8192,
        "num_hidden_layers": 2,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "intermediate_size": 28672,
        "vocab_size": 128256,
        "max_position_embeddings": 8192,
        **changes,
    }
    return model_from_config(config, id="test/model")


def mixture(width: int) -> Model:
    return dense(
        architectures=["Qwen3MoeForCausalLM"],
        hidden_size=2048,
        num_attention_heads=32,
        num_key_value_heads=4,
        num_experts=128,
        num_experts_per_tok=8,
        moe_intermediate_size=width,
    )


def ask(catalog: Catalog, model: Model, gpu: str = "H100-SXM", tp: int = 1, **changes: Any) -> Verdict:
    stored = changes.pop("quantisation", None)
    asked: dict[str, Any] = {
        "weights": stored.dtype if stored else "bf16",
        "quantisation": stored,
        "kv_dtype": "auto",
        "engine": "vllm",
        "engine_version": LATEST,
        **changes,
    }
    return compatible(model, catalog.gpu(gpu), tp=tp, **asked)


@pytest.mark.parametrize(
    ("heads", "kv_heads", "tp", "expected"),
    [
        # github.com/vllm-project/vllm/issues/11147: six cards, 64 heads
        (64, 8, 6, "Total number of attention heads (64) must be divisible by tensor parallel size (6)."),
        # issues/2652: 52 heads on 8, 28 heads and 4 KV heads on 8; issues/414: 52 heads on 3; issues/4232: 40 on 6
        (52, 52, 8, "Total number of attention heads (52) must be divisible by tensor parallel size (8)."),
        (52, 52, 4, None),
        (52, 52, 3, "Total number of attention heads (52) must be divisible by tensor parallel size (3)."),
        (28, 4, 8, "Total number of attention heads (28) must be divisible by tensor parallel size (8)."),
        (28, 4, 4, None),
        (40, 8, 6, "Total number of attention heads (40) must be divisible by tensor parallel size (6)."),
        # 10 KV heads: 1, 2, 5 and 10 only
        (40, 10, 1, None),
        (40, 10, 2, None),
        (40, 10, 5, None),
        (40, 10, 10, None),
        (40, 10, 4, "10 KV heads cannot be split over 4 GPUs: neither divides the other"),
        (40, 10, 8, "10 KV heads cannot be split over 8 GPUs: neither divides the other"),
        (64, 4, 8, None),
    ],
)
def test_heads(heads: int, kv_heads: int, tp: int, expected: str | None, catalog: Catalog) -> None:
    sizes = {"intermediate_size": 35840, "vocab_size": 128000}
    model = dense(num_attention_heads=heads, num_key_value_heads=kv_heads, **sizes)
    verdict = ask(catalog, model, tp=tp)
    assert (verdict.reason or None) == expected
    assert verdict.ok is (expected is None)


def test_widths_and_vocabulary(catalog: Catalog) -> None:
    assert "28670 is not divisible by 4 (mlp.gate_proj)" in ask(catalog, dense(intermediate_size=28670), tp=4).reason
    odd = dense(num_attention_heads=72, num_key_value_heads=72, intermediate_size=9216, vocab_size=1000)
    assert "the padded vocabulary (1024) is not divisible by 3" in ask(catalog, odd, tp=3).reason
    assert not ask(catalog, dense(), tp=0).ok
    assert ask(catalog, mixture(768), tp=8).ok
    assert "12 is not divisible by 8" in ask(catalog, mixture(12), tp=8).reason
    assert ask(catalog, mixture(12), tp=8, expert_parallel=True).ok


@pytest.mark.parametrize(
    ("gpu", "version", "ok", "says"),
    [
        ("H100-SXM", LATEST, True, ""),
        ("V100-32GB", LATEST, False, "needs vLLM 0.10 or older"),
        ("V100-32GB", "0.10.2", True, ""),
        ("B200", "0.8.5", False, "Blackwell needs vLLM 0.9.0"),
        ("B200", LATEST, True, ""),
        ("TPU-v5e", LATEST, False, "vLLM does not run on TPU-v5e"),
        ("Gaudi3", LATEST, False, "vLLM does not run on Gaudi3"),
        ("Inferentia2", LATEST, False, "vLLM does not run on Inferentia2"),
        ("VR200", LATEST, False, "not known to work"),  # no compute capability published
        ("MI455X", LATEST, False, "not known to work"),
        ("MI300X", LATEST, True, ""),
        ("H100-SXM", "newest", False, "not a version"),
    ],
)
def test_cards_and_versions(gpu: str, version: str, ok: bool, says: str, catalog: Catalog) -> None:
    verdict = ask(catalog, dense(), gpu, engine_version=version)
    assert verdict.ok is ok
    assert says in verdict.reason


def test_another_engine_is_not_assumed_to_work(catalog: Catalog) -> None:
    assert "tgi" in ask(catalog, dense(), engine="tgi").reason


def test_bf16_runs_as_float16_on_turing_and_says_so(catalog: Catalog) -> None:
    verdict = ask(catalog, dense(), "T4")
    assert verdict.ok
    assert verdict.cast
    assert verdict.launch_arguments == ("--dtype", "half")
    assert "float16" in verdict.notes[0]
    assert not ask(catalog, dense(torch_dtype="float16"), "T4").cast
    assert not ask(catalog, dense(), "A10").cast


def test_models_without_float16_are_refused_there(catalog: Catalog) -> None:
    gemma = dense(architectures=["Gemma2ForCausalLM"], sliding_window=4096)
    assert "does not support float16" in ask(catalog, gemma, "T4").reason
    assert ask(catalog, gemma, "A10").ok


@pytest.mark.parametrize(
    ("gpu", "stored", "ok", "note"),
    [
        ("H100-SXM", FP8, True, ""),
        ("L4", FP8, True, ""),
        ("A100-80GB-SXM", FP8, True, "weights only"),
        ("RTX3090", FP8_BLOCK, True, "weights only"),
        ("T4", FP8, True, "weights only"),
        ("MI300X", FP8, True, ""),
        ("MI250X-device", FP8, False, ""),
        ("B200", INT8, False, ""),
        ("H100-SXM", INT8, True, ""),
        ("T4", AWQ, True, ""),
        ("T4", W4A16, True, ""),
        ("MI300X", AWQ, False, ""),
        ("MI300X", W4A16, False, ""),
        ("B200", NVFP4, True, ""),
        ("RTX5090", NVFP4, True, ""),
        ("H100-SXM", NVFP4, True, "weights only"),
        ("MI300X", NVFP4, False, ""),
        ("T4", MXFP4, False, ""),
        ("A100-80GB-SXM", MXFP4, True, "weights only"),
        ("MI300X", MXFP4, False, ""),  # emulated there
        ("MI355X", MXFP4, True, ""),
        ("H100-SXM", Quantisation("int4", "bitsandbytes", 4, None), True, ""),
    ],
)
def test_stored_weights_by_card(gpu: str, stored: Quantisation, ok: bool, note: str, catalog: Catalog) -> None:
    verdict = ask(catalog, dense(), gpu, quantisation=stored)
    assert verdict.ok is ok
    assert any(note in said for said in verdict.notes) or not note


def test_gptq_on_volta_with_an_old_engine(catalog: Catalog) -> None:
    assert ask(catalog, dense(), "V100-32GB", quantisation=GPTQ, engine_version="0.10.2").ok
    assert not ask(catalog, dense(), "V100-32GB", quantisation=AWQ, engine_version="0.10.2").ok


def test_fp8_experts_on_ampere_depend_on_the_engine(catalog: Catalog) -> None:
    """github.com/vllm-project/vllm/issues/18182."""
    old = ask(catalog, mixture(768), "A100-80GB-SXM", quantisation=FP8, engine_version="0.8.5")
    assert not old.ok
    assert "vLLM 0.9.0 or newer" in old.reason
    assert ask(catalog, mixture(768), "A100-80GB-SXM", quantisation=FP8).ok
    assert ask(catalog, dense(), "A100-80GB-SXM", quantisation=FP8, engine_version="0.8.5").ok


@pytest.mark.parametrize(
    ("gpu", "ok", "arguments", "reserve"),
    [
        ("H100-SXM", True, (), 0),
        ("L40S", True, (), 0),
        ("RTX5090", True, (), 0),
        ("MI300X", True, (), 0),
        ("A100-80GB-SXM", True, ("--attention-backend", "FLASHINFER"), 394 * 2**20),
        ("RTX3090", True, ("--attention-backend", "FLASHINFER"), 394 * 2**20),
        ("T4", False, (), 0),
        ("MI250X-device", False, (), 0),
        ("W7900", False, (), 0),
    ],
)
def test_fp8_cache(gpu: str, ok: bool, arguments: tuple[str, ...], reserve: int, catalog: Catalog) -> None:
    """github.com/vllm-project/vllm/issues/26431: below 8.9 only with FlashInfer, below 8.0 not at all."""
    verdict = ask(catalog, dense(), gpu, kv_dtype="fp8")
    assert (verdict.ok, verdict.launch_arguments, verdict.reserve_bytes) == (ok, arguments, reserve)


def test_flashinfer_has_no_heads_of_96(catalog: Catalog) -> None:
    phi = dense(hidden_size=3072, num_attention_heads=32, num_key_value_heads=32, head_dim=96)
    assert "no heads of 96" in ask(catalog, phi, "A100-80GB-SXM", kv_dtype="fp8").reason
    assert ask(catalog, phi, "H100-SXM", kv_dtype="fp8").ok


def test_a_declared_fp8_cache_counts_as_fp8(catalog: Catalog) -> None:
    declares = {"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}}
    model = dense(_hf_quant_config=declares)
    assert ask(catalog, model, "A100-80GB-SXM", quantisation=model.quantisation).launch_arguments == (
        "--attention-backend",
        "FLASHINFER",
    )
    assert ask(catalog, replace(model, kv_declared=None), "A100-80GB-SXM").launch_arguments == ()


@pytest.mark.parametrize(
    ("width", "tp", "version", "ok"),
    [
        # github.com/vllm-project/llm-compressor/issues/57: 29,568 / 4 leaves 96 of 128, / 2 leaves 64; 29,696 is padded
        (29_568, 4, "0.23.0", False),
        (29_568, 2, "0.23.0", False),
        (29_568, 1, "0.23.0", True),
        (29_696, 2, "0.23.0", True),
        (29_696, 4, "0.23.0", True),
        (29_696, 8, "0.23.0", True),
        (29_568, 4, "0.24.0", True),
        # issues/9913: 10,944 leaves 64 of 128 even on one GPU
        (10_944, 1, "0.23.0", False),
        (10_944, 1, "0.24.0", True),
    ],
)
def test_marlin_shapes_before_the_engine_padded_them(
    width: int, tp: int, version: str, ok: bool, catalog: Catalog
) -> None:
    verdict = ask(catalog, dense(intermediate_size=width), tp=tp, quantisation=GPTQ8, engine_version=version)
    assert verdict.ok is ok
    if not ok:
        assert "is not divisible by min_thread_k = 128" in verdict.reason
        assert "--quantization gptq" in verdict.reason


@pytest.mark.parametrize("stored", [AWQ, GPTQ, W4A16])
def test_scale_groups_never_cross_gpus(stored: Quantisation, catalog: Catalog) -> None:
    verdict = ask(catalog, dense(intermediate_size=29_568), tp=4, quantisation=stored)
    assert "7392 is not divisible by group_size = 128" in verdict.reason
    assert ask(catalog, dense(intermediate_size=29_568), tp=1, quantisation=stored).ok


@pytest.mark.parametrize(
    ("stored", "tp", "version", "ok"),
    [
        (W4A16, 1, LATEST, True),
        (W4A16, 4, LATEST, False),  # 768 / 4 = 192: groups would cross
        (AWQ, 4, LATEST, True),  # finer groups
        (GPTQ, 4, LATEST, True),
        (FP8_BLOCK, 2, "0.28.0", True),
        (FP8_BLOCK, 4, "0.28.0", False),
        (FP8_BLOCK, 4, LATEST, True),  # refined blocks
        (FP8_BLOCK, 8, LATEST, True),
        (FP8, 8, LATEST, True),
        (NVFP4, 4, LATEST, True),
    ],
)
def test_experts_of_768(stored: Quantisation, tp: int, version: str, ok: bool, catalog: Catalog) -> None:
    verdict = ask(catalog, mixture(768), tp=tp, quantisation=stored, engine_version=version)
    assert verdict.ok is ok
    whole = ask(catalog, mixture(768), tp=tp, quantisation=stored, engine_version=version, expert_parallel=True)
    assert whole.ok


def test_fp8_blocks_of_dense_layers(catalog: Catalog) -> None:
    narrow = dense(num_attention_heads=16, num_key_value_heads=2, hidden_size=1024, head_dim=64)
    verdict = ask(catalog, narrow, tp=2, quantisation=FP8_BLOCK)
    assert "output_partition_size = 64 is not divisible by weight quantization block_n = 128" in verdict.reason
    row = dense(intermediate_size=28_672 - 128)
    assert not ask(catalog, row, tp=4, quantisation=FP8_BLOCK).ok


def test_a_refusal_and_an_acceptance_name_their_sources(catalog: Catalog) -> None:
    assert "vLLM" in ask(catalog, dense()).source
    assert "18182" in ask(catalog, mixture(768), "A10", quantisation=FP8, engine_version="0.8.5").source
    assert ask(catalog, dense(), tp=3).source


def test_an_unknown_card_is_refused(catalog: Catalog) -> None:
    card = replace(catalog.gpu("H100-SXM"), compute_capability=None)
    asked = {"tp": 1, "weights": "bf16", "quantisation": None, "kv_dtype": "auto", "engine": "vllm"}
    assert not compatible(dense(), card, engine_version=LATEST, **asked).ok


@pytest.mark.parametrize(
    ("model_id", "gpu", "tp", "reason"),
    [
        ("deepseek-ai/DeepSeek-V3.2", "A100-80GB-SXM", 16, "sparse latent attention needs compute capability 9.0"),
        ("deepseek-ai/DeepSeek-V4-Flash", "L40S", 8, "sparse latent attention needs compute capability 9.0"),
        ("deepseek-ai/DeepSeek-V4-Flash", "H200-SXM", 8, ""),
        ("deepseek-ai/DeepSeek-V4-Flash", "H200-SXM", 16, "o_groups (8) is not divisible by 16"),
        ("deepseek-ai/DeepSeek-V3", "H200-SXM", 8, ""),
        ("deepseek-ai/DeepSeek-V3", "W7900", 8, "latent attention on W7900"),
    ],
)
def test_latent_attention_by_card(catalog: Catalog, model_id: str, gpu: str, tp: int, reason: str) -> None:
    model, card = catalog.model(model_id), catalog.gpu(gpu)
    verdict = compatible(
        model,
        card,
        tp=tp,
        weights=model.native,
        quantisation=model.quantisation,
        kv_dtype="auto",
        engine="vllm",
        engine_version=LATEST,
    )
    assert verdict.ok == (not reason), verdict.reason
    assert reason in verdict.reason


def test_every_row_of_the_table_has_a_source_and_a_verdict() -> None:
    path = Path(recommender.memory.__file__).with_name("compatibility.csv")
    rows = list(csv.DictReader(path.open()))
    assert len(rows) > 50
    for row in rows:
        assert row["source"]
        assert row["verdict"] in ("yes", "no", "cast")
        assert row["topic"] in ("engine", "dtype", "attention", "weights", "kv")
        assert row["note"] or row["verdict"] == "yes"


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("0.33.0", (0, 33, 0)), ("v0.8.5.post1", (0, 8, 5)), ("0.20.2rc1", (0, 20, 2)), ("0.29", (0, 29, 0)), ("x", ())],
)
def test_versions(text: str, numbers: tuple[int, ...]) -> None:
    assert version_numbers(text) == numbers


@pytest.mark.parametrize(
    ("short", "full"), [("0.9", "0.9.0"), ("0.11", "0.11.0"), ("0.29", "0.29.0"), ("0.33", "0.33.0")]
)
def test_a_version_without_its_patch_is_the_first_of_its_line(catalog: Catalog, short: str, full: str) -> None:
    for gpu in ("B200", "T4", "A100-80GB-SXM", "MI300X", "V100-32GB"):
        for stored in (None, FP8, FP8_BLOCK, W4A16, NVFP4):
            one, other = (
                ask(catalog, dense(), gpu, quantisation=stored, engine_version=each) for each in (short, full)
            )
            assert (one.ok, one.launch_arguments) == (other.ok, other.launch_arguments)

from __future__ import annotations

import copy
import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from folders import AWQ, FP8, LLAMA_8B, Shapes, llama_shapes, write_folder, write_safetensors
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recommender import fit, load_scenario, recommend
from recommender.catalog.catalog import Catalog, Resolved
from recommender.catalog.models import Checkpoint
from recommender.errors import Fault, InputError, NotModelledError
from recommender.memory.weights import WeightBytes, checkpoint_bytes, checkpoint_stages

TINY = {
    **LLAMA_8B,
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "num_hidden_layers": 2,
    "vocab_size": 1024,
    "max_position_embeddings": 2048,
}
NOVEL = {
    "architectures": ["NovelAttentionForCausalLM"],
    "hidden_size": 1024,
    "intermediate_size": 2048,
    "num_hidden_layers": 4,
    "num_attention_heads": 16,
    "vocab_size": 32000,
    "max_position_embeddings": 65536,
    "q_lora_rank": 512,
    "o_lora_rank": 512,
    "compress_ratios": [4, 128, 4, 128],
}


def weights(catalog: Catalog, name: str, **split: int) -> WeightBytes:
    resolved, files = served(catalog, name)
    model = resolved.repository or resolved.model
    return checkpoint_bytes(model, model.native, files, **split)


def served(catalog: Catalog, name: str) -> tuple[Resolved, Checkpoint]:
    resolved = catalog.resolve(name)
    return resolved, resolved.files[0]


def read_size(shapes: Shapes, without: str = "\0") -> int:
    bits = {"BF16": 16, "F16": 16, "F32": 16, "F8_E4M3": 8, "I32": 32, "U8": 8}  # unquantised F32 is served in 16
    return sum(bits[kind] * math.prod(shape) // 8 for name, (kind, shape) in shapes.items() if without not in name)


# The figures of two public threads: an 8B model in 16 bit, and its FP8 checkpoint of 9.08 GB.
@pytest.mark.parametrize(
    ("stored", "quantised", "total"),
    [("bf16", None, 16_060_522_496), ("fp8", FP8, 9_083_953_152), ("awq", AWQ, 5_727_854_592)],
)
@pytest.mark.parametrize("shards", [1, 3])
def test_a_folder_is_sized_by_the_bytes_of_its_files(
    tmp_path: Path, catalog: Catalog, stored: str, quantised: dict[str, Any] | None, total: int, shards: int
) -> None:
    config = LLAMA_8B | ({"quantization_config": quantised} if quantised else {})
    folder = write_folder(tmp_path / "model", config, llama_shapes(config, stored), shards)
    _, files = served(catalog, str(folder))
    assert (files.bytes_total, files.size_kind, files.id) == (total, "index", str(folder))
    held = weights(catalog, str(folder))
    assert abs(held.parameter_bytes - total) <= total // 1000  # the engine keeps channel scales in float32
    assert "agrees with the file headers" in held.source


def test_a_local_model_equals_the_same_model_of_the_catalog(tmp_path: Path, catalog: Catalog) -> None:
    folder = write_folder(tmp_path / "model", LLAMA_8B, llama_shapes(LLAMA_8B), shards=2)
    mine = fit(str(folder), "H100-SXM", tp=2, catalog=catalog)
    theirs = fit("meta-llama/Llama-3.1-8B", "H100-SXM", tp=2, catalog=catalog)
    assert (mine.weights_bytes, mine.kv_cache_tokens) == (theirs.weights_bytes, theirs.kv_cache_tokens)
    assert mine.model == mine.checkpoint == str(folder)


def test_a_config_alone_is_enough(tmp_path: Path, catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.json").write_text(json.dumps(LLAMA_8B))
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "config.json").write_text(json.dumps(LLAMA_8B))
    monkeypatch.chdir(tmp_path)
    named = {"mine.json": "mine.json", "./folder": "./folder", "folder": "folder", "folder/config.json": "folder"}
    for name, model_id in named.items():
        resolved, files = served(catalog, name)
        assert (resolved.model.id, resolved.model.parameters) == (model_id, 8_030_261_248)
        assert (files.bytes_total, files.size_kind) == (None, "unknown")
    monkeypatch.chdir(tmp_path / "folder")
    assert catalog.resolve("config.json").model.id == "."


def test_a_name_of_the_catalog_is_never_a_folder(
    tmp_path: Path, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("llama-3.1-8b", "meta-llama/Llama-3.1-8B"):
        write_folder(tmp_path / name, TINY, llama_shapes(TINY))
    monkeypatch.chdir(tmp_path)
    assert catalog.resolve("meta-llama/Llama-3.1-8B").model.parameters == 8_030_261_248
    assert catalog.resolve("./llama-3.1-8b").model.hidden_size == 256


@pytest.mark.parametrize(
    "name", ["./nothing", "/nothing/here", "~nobody/x", "nothing.json", "a\0b.json", "./" + "x" * 5000]
)
def test_a_path_that_is_not_there_is_refused(catalog: Catalog, name: str) -> None:
    with pytest.raises(InputError):
        catalog.resolve(name)


def test_an_unknown_id_is_not_looked_up_unasked(catalog: Catalog) -> None:
    with pytest.raises(InputError, match=r"unknown model 'nobody/some-model' .*hf://nobody/some-model to ask"):
        catalog.resolve("nobody/some-model")


def test_what_is_not_loaded_is_left_out_and_said(tmp_path: Path, catalog: Catalog) -> None:
    config = TINY | {"tie_word_embeddings": True, "num_nextn_predict_layers": 1}
    shapes = llama_shapes(config)
    loaded = read_size(shapes)
    shapes |= {"lm_head.weight": ("BF16", (1024, 256)), "model.layers.2.eh_proj.weight": ("BF16", (256, 512))}
    shapes |= {"model.layers.0.self_attn.rotary_emb.inv_freq": ("F32", (16,))}
    folder = write_folder(tmp_path / "model", config, shapes)
    _, files = served(catalog, str(folder))
    assert weights(catalog, str(folder)).parameter_bytes == loaded
    assert files.bytes_total == loaded + 1024 * 256 * 2 + 256 * 512 * 2 + 64
    for why in ("a copy of the tied output matrix", "MTP or draft layers", "buffers the engine makes itself"):
        assert why in files.source


def test_float32_files_are_served_in_16_bit(tmp_path: Path, catalog: Catalog) -> None:
    shapes: Shapes = {name: ("F32", shape) for name, (_, shape) in llama_shapes(TINY).items()}
    folder = write_folder(tmp_path / "model", TINY | {"torch_dtype": "float32"}, shapes)
    assert weights(catalog, str(folder)).parameter_bytes == read_size(shapes)


def test_a_second_copy_in_a_folder_counts_once(tmp_path: Path, catalog: Catalog) -> None:
    shapes = llama_shapes(TINY)
    folder = write_folder(tmp_path / "model", TINY, shapes, shards=2)
    write_safetensors(folder / "consolidated.safetensors", shapes)
    _, files = served(catalog, str(folder))
    assert files.bytes_total == read_size(shapes)
    assert "not loaded: consolidated.safetensors" in files.source
    (folder / "model.safetensors.index.json").unlink()  # without an index the shards are the model all the same
    assert served(catalog, str(folder))[1].bytes_total == read_size(shapes)
    for shard in folder.glob("model-*"):
        shard.unlink()
    assert served(catalog, str(folder))[1].bytes_total == read_size(shapes)  # now it is the only copy


def test_missing_shards_leave_the_total_of_the_index(tmp_path: Path, catalog: Catalog) -> None:
    shapes = llama_shapes(TINY)
    folder = write_folder(tmp_path / "model", TINY, shapes, shards=3)
    (folder / "model-00002-of-00003.safetensors").write_text(
        "version https://git-lfs.github.com/spec/v1\noid sha256:0\n"
    )
    (folder / "model-00003-of-00003.safetensors").unlink()
    _, files = served(catalog, str(folder))
    assert (files.bytes_total, files.group_bytes) == (read_size(shapes), ())
    assert "2 of 3 safetensors files are not here" in files.source
    (folder / "model.safetensors.index.json").unlink()
    assert served(catalog, str(folder))[1].bytes_total is None  # the numbering says one is missing


def test_groups_that_differ_from_the_config_are_sharded_as_they_are(tmp_path: Path, catalog: Catalog) -> None:
    """A checkpoint that left attention in 16 bit without saying so: its bytes, split over GPUs and stages."""
    config = LLAMA_8B | {"quantization_config": FP8}
    shapes = llama_shapes(config, "fp8")
    for name in [name for name in shapes if "self_attn" in name]:
        _, shape = shapes.pop(name)
        if name.endswith(".weight"):
            shapes[name] = ("BF16", shape)
    folder = write_folder(tmp_path / "model", config, shapes)
    held = weights(catalog, str(folder))
    assert held.parameter_bytes == pytest.approx(read_size(shapes), abs=32 * 64)  # and the KV scales of 32 layers
    assert "unlike its config: attention 2.68 GB" in held.source
    halves = dict(weights(catalog, str(folder), tp=2).groups)
    assert halves["attention"] == pytest.approx(dict(held.groups)["attention"] / 2, rel=0.001)
    resolved, files = served(catalog, str(folder))
    stages = checkpoint_stages(resolved.model, "fp8", files, pp=2)
    assert sum(stage.parameter_bytes for stage in stages) == pytest.approx(held.parameter_bytes, abs=16)
    assert "unlike its config" in fit(str(folder), "H100-SXM", catalog=catalog).sources["weights"]


def test_the_second_quantisation_file_is_read(tmp_path: Path, catalog: Catalog) -> None:
    shapes = llama_shapes(TINY)
    for name in [name for name in shapes if name.endswith("proj.weight")]:
        _, (outputs, inputs) = shapes.pop(name)
        stem = name.removesuffix("weight")
        shapes |= {name: ("U8", (outputs, inputs // 2)), f"{stem}weight_scale": ("F8_E4M3", (outputs, inputs // 16))}
        shapes |= {f"{stem}weight_scale_2": ("F32", ()), f"{stem}input_scale": ("F32", ())}
    folder = write_folder(tmp_path / "model", TINY, shapes)
    declared = {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "group_size": 16, "exclude_modules": ["lm_head"]}
    (folder / "hf_quant_config.json").write_text(json.dumps({"quantization": declared}))
    resolved = catalog.resolve(str(folder))
    assert (resolved.model.native, resolved.model.kv_declared) == ("nvfp4", "fp8")
    assert "agrees with the file headers" in weights(catalog, str(folder)).source
    (folder / "hf_quant_config.json").unlink()
    with pytest.raises(InputError, match=r"quantization_config: its files hold .*U8 weights, but it says nothing"):
        catalog.resolve(str(folder))


def test_a_config_that_promises_quantised_weights_its_files_lack_is_refused(tmp_path: Path, catalog: Catalog) -> None:
    folder = write_folder(tmp_path / "model", TINY | {"quantization_config": FP8}, llama_shapes(TINY))
    with pytest.raises(InputError, match="its files hold no quantised weight"):
        catalog.resolve(str(folder))


def test_a_quantised_folder_that_names_its_base_is_a_checkpoint_of_it(tmp_path: Path, catalog: Catalog) -> None:
    named = LLAMA_8B | {"quantization_config": FP8, "_name_or_path": "meta-llama/Llama-3.1-8B"}
    folder = write_folder(tmp_path / "model", named, llama_shapes(named, "fp8"))
    resolved = catalog.resolve(str(folder))
    assert resolved.model == catalog.model("meta-llama/Llama-3.1-8B")
    assert resolved.checkpoint is not None
    assert resolved.checkpoint.id == str(folder)
    found = fit(str(folder), "H100-SXM", catalog=catalog)
    assert (found.weights, found.checkpoint) == ("fp8", str(folder))
    # ... but not where the geometry is another, or nobody knows the base: then it is a model of its own
    for other in ({"num_hidden_layers": 31}, {"_name_or_path": "somebody/unknown"}, {"_name_or_path": ["odd"]}):
        config = named | other
        write_folder(tmp_path / "other", config, llama_shapes(config, "fp8"))
        alone = catalog.resolve(str(tmp_path / "other"))
        assert (alone.model.id, alone.checkpoint, alone.model.native) == (str(tmp_path / "other"), None, "fp8")


def test_files_are_read_anew_each_time(tmp_path: Path, catalog: Catalog) -> None:
    folder = write_folder(tmp_path / "model", TINY, llama_shapes(TINY))
    before = fit(str(folder), "L4", catalog=catalog).weights_bytes
    write_folder(folder, TINY | {"num_hidden_layers": 4}, llama_shapes(TINY | {"num_hidden_layers": 4}))
    assert fit(str(folder), "L4", catalog=catalog).weights_bytes > before


def test_an_unknown_attention_is_refused_with_the_keys_seen(tmp_path: Path, catalog: Catalog) -> None:
    folder = write_folder(tmp_path / "novel", NOVEL, llama_shapes(TINY))
    with pytest.raises(NotModelledError) as caught:
        catalog.resolve(str(folder))
    for part in (str(folder), "NovelAttentionForCausalLM", "compress_ratios", "kv_bytes_per_token as measured"):
        assert part in str(caught.value)


def novel(folder: Path, config: dict[str, Any] = NOVEL) -> tuple[Path, Shapes]:
    shapes = llama_shapes(config | {"num_key_value_heads": 16, "tie_word_embeddings": False})
    return write_folder(folder, config, shapes), shapes


def test_a_measured_cache_is_taken_to_the_byte(tmp_path: Path, catalog: Catalog) -> None:
    folder, shapes = novel(tmp_path / "novel")
    found = fit(str(folder), "H100-SXM", kv_bytes_per_token=15_570, catalog=catalog)
    assert found.kv_bytes_per_token == 15_570
    assert found.bytes_per_block == 16 * 15_570
    assert found.blocks == found.kv_cache_bytes // (16 * 15_570)
    assert found.weights_bytes == read_size(shapes)
    assert "KV cache as measured" in found.sources["weights"]


def test_a_measured_cache_does_not_shrink_with_more_gpus(tmp_path: Path, catalog: Catalog) -> None:
    folder, shapes = novel(tmp_path / "novel")
    one, two = (fit(str(folder), "H100-SXM", tp=tp, kv_bytes_per_token=15_570, catalog=catalog) for tp in (1, 2))
    assert two.kv_bytes_per_token == one.kv_bytes_per_token
    attention = read_size({name: each for name, each in shapes.items() if "self_attn" in name})
    assert two.weights_bytes == pytest.approx((one.weights_bytes + attention) / 2, rel=0.001)  # attention stays whole


def test_a_config_of_ones_own_may_carry_the_measured_figure(tmp_path: Path, catalog: Catalog) -> None:
    folder, _ = novel(tmp_path / "novel", NOVEL | {"kv_bytes_per_token": 15_570})
    assert fit(str(folder), "H100-SXM", catalog=catalog).kv_bytes_per_token == 15_570


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"kv_bytes_per_token": 3}, "3 bytes a token for 4 layers"),
        ({"kv_bytes_per_token": 15_570, "kv_dtype": "fp8"}, "the KV dtype they were measured with"),
        ({"kv_bytes_per_token": 15_570, "memory_model": "article"}, "full attention only"),
    ],
)
def test_a_measured_figure_that_says_nothing_is_refused(
    tmp_path: Path, catalog: Catalog, options: dict[str, Any], said: str
) -> None:
    folder, _ = novel(tmp_path / "novel")
    with pytest.raises(InputError, match=said):
        fit(str(folder), "H100-SXM", catalog=catalog, **options)


def test_a_measured_figure_is_for_what_is_not_known_only(tmp_path: Path, catalog: Catalog) -> None:
    known = write_folder(tmp_path / "known", TINY, llama_shapes(TINY))
    for name in (str(known), "llama-3.1-8b"):
        with pytest.raises(InputError, match="kv_bytes_per_token"):
            fit(name, "H100-SXM", kv_bytes_per_token=15_570, catalog=catalog)
    (tmp_path / "novel.json").write_text(json.dumps(NOVEL))  # no headers: nobody knows its weights
    with pytest.raises(NotModelledError, match="the headers of all its safetensors files"):
        fit(str(tmp_path / "novel.json"), "H100-SXM", kv_bytes_per_token=15_570, catalog=catalog)
    packed = llama_shapes(NOVEL | {"num_key_value_heads": 16, "tie_word_embeddings": False}, "awq")
    folder = write_folder(tmp_path / "packed", NOVEL, packed)
    with pytest.raises(NotModelledError, match="is packed as I32"):
        fit(str(folder), "H100-SXM", kv_bytes_per_token=15_570, catalog=catalog)


def damaged(folder: Path) -> list[tuple[str, Callable[[], object]]]:
    config, index = folder / "config.json", folder / "model.safetensors.index.json"
    shard = folder / "model-00001-of-00002.safetensors"
    return [
        ("config.json", lambda: config.write_text('{"a": 1, "a": 2}')),
        ("config.json", lambda: config.write_text("[" * 100_000)),
        ("config.json", lambda: config.write_bytes(b"\xff\x00")),
        ("config.json", lambda: config.write_text("{}" + " " * 5_000_000)),
        ("config.json", lambda: (config.unlink(), config.mkdir())),
        ("config.json", lambda: (config.unlink(), os.mkfifo(config))),
        ("config.json", lambda: (config.unlink(), config.symlink_to(config))),
        ("config.json", lambda: (config.unlink(), config.symlink_to("/dev/zero"))),
        ("index.json", lambda: index.write_text('{"weight_map": {"x": "model-00001-of-00002.safetensors"}}')),
        ("index.json", lambda: index.write_text("{}")),
        ("index.json", lambda: (index.unlink(), os.mkfifo(index))),
        ("00001-of-00002", lambda: os.truncate(shard, shard.stat().st_size - 1)),
        ("00001-of-00002", lambda: os.truncate(shard, 100)),
        ("00001-of-00002", lambda: os.truncate(shard, 0)),
        ("00001-of-00002", lambda: (shard.unlink(), os.mkfifo(shard))),
        ("00001-of-00002", lambda: (shard.unlink(), shard.mkdir())),
    ]


@pytest.mark.parametrize("case", range(16))
def test_damaged_files_end_in_one_fault_that_names_them(tmp_path: Path, catalog: Catalog, case: int) -> None:
    folder = write_folder(tmp_path / "model", TINY, llama_shapes(TINY), shards=2)
    name, damage = damaged(folder)[case]
    damage()
    with pytest.raises(InputError) as caught:
        catalog.resolve(str(folder))
    assert len(caught.value.faults) == 1
    assert name in (caught.value.faults[0].file or "")


@pytest.mark.parametrize(
    "changed",
    [
        {"hidden_size": "4096"},
        {"hidden_size": -1},
        {"hidden_size": float("nan")},
        {"hidden_size": 1e308},
        {"hidden_size": 10**4000},
        {"num_hidden_layers": 10**9},
        {"num_attention_heads": [32]},
        {"num_key_value_heads": {"a": 1}},
        {"vocab_size": True},
        {"torch_dtype": 16},
        {"rope_scaling": "linear"},
        {"max_position_embeddings": float("inf")},
        {"architectures": [["LlamaForCausalLM"]]},
        {"architectures": None},
        {"text_config": {"text_config": {"text_config": {"hidden_size": "x"}}}},
        {"quantization_config": {"quant_method": "fp8", "ignored_layers": ["x"] * 90_000}},
        {"quantization_config": {"quant_method": {"fp8": 1}}},
        {"quantization_config": {"quant_method": "compressed-tensors", "config_groups": [1]}},
    ],
)
def test_values_of_the_wrong_kind_are_refused_by_file_and_key(
    tmp_path: Path, catalog: Catalog, changed: dict[str, Any]
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA_8B | changed))
    with pytest.raises(InputError) as caught:
        catalog.resolve(str(tmp_path))
    (fault,) = caught.value.faults
    assert fault.file == str(tmp_path / "config.json")
    assert len(str(fault)) < 2_000


CONFIGS = [
    LLAMA_8B | {"quantization_config": FP8},
    TINY | {"quantization_config": AWQ, "rope_scaling": {"rope_type": "linear", "factor": 2.0}},
    {
        "architectures": ["DeepseekV3ForCausalLM"],
        "hidden_size": 1024,
        "intermediate_size": 2048,
        "moe_intermediate_size": 512,
        "num_hidden_layers": 4,
        "first_k_dense_replace": 1,
        "n_routed_experts": 8,
        "n_shared_experts": 1,
        "num_experts_per_tok": 2,
        "num_attention_heads": 16,
        "q_lora_rank": 256,
        "kv_lora_rank": 512,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
        "vocab_size": 32000,
        "max_position_embeddings": 4096,
    },
    {
        "architectures": ["Qwen3MoeForCausalLM"],
        "hidden_size": 2048,
        "intermediate_size": 6144,
        "moe_intermediate_size": 768,
        "num_hidden_layers": 2,
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "num_attention_heads": 32,
        "num_key_value_heads": 4,
        "head_dim": 128,
        "vocab_size": 151936,
        "max_position_embeddings": 40960,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
        "layer_types": ["full_attention", "full_attention"],
    },
]
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([-1, 0, 1, 3, 7, 2**31, 2**63, 10**30, 0.5, 1e308, -1e308, float("nan"), float("inf")]),
    st.sampled_from(["", "x", "4096", "\ud800", [], [0], [[1]], [None, "x"], {}, {"a": []}, {"rope_type": 3}]),
)


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_config_is_read_or_refused(tmp_path: Path, catalog: Catalog, data: st.DataObject) -> None:
    config = copy.deepcopy(data.draw(st.sampled_from(CONFIGS)))
    for _ in range(data.draw(st.integers(1, 3))):
        part = config
        while True:
            key = data.draw(st.sampled_from(sorted(part)))
            if not isinstance(part[key], dict) or not part[key] or data.draw(st.booleans()):
                break
            part = part[key]
        if data.draw(st.booleans()):
            part[key] = copy.deepcopy(data.draw(VALUES))  # drawn values are shared between examples
        else:
            del part[key]
        if not part:
            break
    (tmp_path / "config.json").write_text(json.dumps(config))
    faults: tuple[Fault, ...] = ()
    try:
        assert catalog.resolve(str(tmp_path)).model.parameters > 0
    except InputError as error:
        faults = error.faults
    assert all(fault.file == str(tmp_path / "config.json") for fault in faults)


def test_files_that_hold_too_little_are_refused(tmp_path: Path, catalog: Catalog) -> None:
    shapes = {name: each for name, each in llama_shapes(TINY).items() if "mlp" not in name}
    folder = write_folder(tmp_path / "model", TINY, shapes)
    with pytest.raises(InputError, match=r"its files hold .* its config describes"):
        fit(str(folder), "H100-SXM", catalog=catalog)


def test_names_nobody_knows_are_taken_in_proportion(tmp_path: Path, catalog: Catalog) -> None:
    shapes = {name.replace("mlp", "novel").replace("_proj", "_x"): each for name, each in llama_shapes(TINY).items()}
    shapes |= {"model.layers.0.novel.more.weight": ("BF16", (512, 512))}
    folder = write_folder(tmp_path / "model", TINY, shapes)
    held = weights(catalog, str(folder))
    assert held.parameter_bytes == pytest.approx(read_size(shapes), abs=16)
    assert "taken in proportion" in held.source


# KV bytes of 8,192 tokens as a public thread states them for configs with the names of their time.
@pytest.mark.parametrize(
    ("config", "cache_bytes"),
    [
        (
            {
                "architectures": ["GPTBigCodeForCausalLM"],
                "n_layer": 24,
                "n_embd": 2048,
                "n_head": 16,
                "n_inner": 8192,
                "multi_query": True,
                "vocab_size": 49152,
                "n_positions": 8192,
            },
            100_663_296,
        ),
        (
            {
                "architectures": ["GPT2LMHeadModel"],
                "n_layer": 12,
                "n_embd": 768,
                "n_head": 12,
                "vocab_size": 50257,
                "n_positions": 1024,
            },
            301_989_888,
        ),
    ],
)
def test_old_field_names_are_read(tmp_path: Path, catalog: Catalog, config: dict[str, Any], cache_bytes: int) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert fit(str(tmp_path), "L4", catalog=catalog).kv_bytes_per_token * 8192 == cache_bytes


@pytest.mark.parametrize(
    "keys", [["text_config"], ["llm_config"], ["language_config"], ["thinker_config", "text_config"]]
)
def test_the_language_part_is_found_where_it_is_nested(tmp_path: Path, catalog: Catalog, keys: list[str]) -> None:
    config: dict[str, Any] = {key: value for key, value in LLAMA_8B.items() if key != "architectures"}
    for key in reversed(keys):
        config = {key: config}
    (tmp_path / "config.json").write_text(json.dumps(config | {"architectures": LLAMA_8B["architectures"]}))
    assert fit(str(tmp_path), "H100-SXM", catalog=catalog).kv_bytes_per_token == 131_072


def test_a_missing_value_is_named_with_the_keys_looked_for_and_seen(tmp_path: Path, catalog: Catalog) -> None:
    nested = {"hidden_size": 4096, "num_hidden_layers": 2, "vocab_size": 10}
    (tmp_path / "config.json").write_text(json.dumps({"architectures": ["LlamaForCausalLM"], "text_config": nested}))
    with pytest.raises(InputError) as caught:
        catalog.resolve(str(tmp_path))
    for part in ("num_attention_heads, n_head, n_heads", "keys seen: architectures, hidden_size", "config.json"):
        assert part in str(caught.value)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", None])
def test_a_dtype_in_the_config_never_halves_the_weights(tmp_path: Path, catalog: Catalog, dtype: str | None) -> None:
    larger = {"hidden_size": 8192, "intermediate_size": 28672, "num_attention_heads": 64, "num_hidden_layers": 80}
    (tmp_path / "config.json").write_text(json.dumps(LLAMA_8B | larger | {"torch_dtype": dtype}))
    assert weights(catalog, str(tmp_path)).parameter_bytes == 141_107_412_992


def test_tied_embeddings_count_once(tmp_path: Path, catalog: Catalog) -> None:
    small = {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "tie_word_embeddings": True}
    config = LLAMA_8B | small | {"head_dim": 64}
    shapes = llama_shapes(config)
    folder = write_folder(tmp_path / "model", config, shapes)
    assert catalog.resolve(str(folder)).model.parameters == 1_235_814_400
    assert weights(catalog, str(folder)).parameter_bytes == 2 * 1_235_814_400


def test_a_scenario_may_name_a_folder(tmp_path: Path, catalog: Catalog) -> None:
    folder = write_folder(tmp_path / "model", LLAMA_8B, llama_shapes(LLAMA_8B), shards=2)
    asked = {
        "model": str(folder),
        "workload": {"concurrency": 8, "lengths": {"fixed": 4096}},
        "search": {"gpus": ["L40S"], "plans": 1},
    }
    (tmp_path / "mine.yaml").write_text(json.dumps(asked))
    answer = recommend(load_scenario(tmp_path / "mine.yaml"), catalog)
    replica = answer.plans[0].replicas[0]
    assert replica.launch.startswith(f"vllm serve {folder} ")
    (folder / "config.json").write_text(json.dumps(LLAMA_8B | {"vocab_size": "many"}))
    with pytest.raises(InputError, match=r"mine.yaml:1: model: .*config.json: vocab_size: 'many' is not usable"):
        load_scenario(tmp_path / "mine.yaml")


@pytest.mark.parametrize("name", ["Meta-Llama-3.1-8B-Instruct-FP8-dynamic", "Meta-Llama-3.1-70B-Instruct-FP8-dynamic"])
def test_a_named_repository_is_never_swapped_for_a_better_known_one(catalog: Catalog, name: str) -> None:
    assert fit(f"RedHatAI/{name}", "H100-SXM", tp=2, catalog=catalog).checkpoint == f"RedHatAI/{name}"


def test_values_that_are_impossible_together_are_refused(tmp_path: Path, catalog: Catalog) -> None:
    for changed in ({"vocab_size": 2**40}, {"head_dim": 2**40}, {"max_position_embeddings": 2**31, "head_dim": 2**20}):
        (tmp_path / "config.json").write_text(json.dumps(LLAMA_8B | changed))
        with pytest.raises(InputError, match=r"config.json: describes a model of [\d,]+ parameters or bytes"):
            catalog.resolve(str(tmp_path))

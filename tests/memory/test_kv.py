"""KV pools against the engine's own classes, row by row, and the rules that no row shows."""

from __future__ import annotations

import csv
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from recommender.catalog.catalog import Catalog
from recommender.catalog.models import AttentionLayers, Model
from recommender.errors import InputError, NotModelledError
from recommender.memory.cache_pages import CachePage, LayerCaches
from recommender.memory.engine import engine_constants
from recommender.memory.kv import KvPool, form_groups, kv_pool, kv_size

ENGINE = engine_constants("vllm", "0.33.0")
IN_FLIGHT = 2 * 8192


def pool_of(catalog: Catalog, model: Model, gpu: str = "H100-SXM", tp: int = 1, kv_dtype: str = "auto") -> KvPool:
    return kv_pool(model, ENGINE, catalog.gpu(gpu), tp=tp, kv_dtype=kv_dtype, weights="bf16")


def test_every_row_of_the_engines_own_classes_is_exact(catalog: Catalog, measured: Path) -> None:
    wrong, right = [], Counter[str]()
    for row in csv.DictReader((measured / "engine_kv.csv").open()):
        model = catalog.resolve(row["model"]).model
        pool = pool_of(catalog, model, tp=int(row["tp"]), kv_dtype=row["kv_dtype"])
        length = int(row["max_model_len"])
        blocks = pool.blocks(int(row["available_bytes"]))
        found = {
            "block_size": pool.block_size,
            "groups": len(pool.groups),
            "bytes_per_block": pool.bytes_per_block,
            "request_blocks": pool.request_blocks(length, IN_FLIGHT),
        }
        if row["estimated_max_model_len"]:
            assert found["request_blocks"] > blocks - 1
            found["estimated_max_model_len"] = pool.longest_request(blocks - 1, IN_FLIGHT, length)
        else:
            found["blocks"] = blocks
            found["tokens"] = kv_size(pool, ENGINE, "V1", blocks, length, IN_FLIGHT).tokens
        if found != {name: int(row[name]) for name in found}:
            wrong.append((row, found))
        else:
            right[row["model"]] += 1
    assert not wrong, wrong[:3]
    assert sum(right.values()) == 2532
    assert len(right) == 66


def layers(kind: str, count: int, **more: int) -> AttentionLayers:
    known = {"kv_heads": 8, "head_dim": 128, "v_head_dim": 128} | more
    return AttentionLayers(kind, count, indices=range(count), **known)  # type: ignore[arg-type]


def with_attention(catalog: Catalog, *attention: AttentionLayers) -> Model:
    return replace(catalog.model("llama-3.1-8b"), id="test/model", attention=attention)


def test_kv_heads_are_replicated_once_tp_exceeds_them(catalog: Catalog) -> None:
    model = with_attention(catalog, layers("full", 32, kv_heads=4))
    sizes = [pool_of(catalog, model, tp=tp).kv_bytes_per_token for tp in (1, 2, 4, 8)]
    assert sizes == [65_536, 32_768, 16_384, 16_384]


def test_fp8_halves_and_a_checkpoint_may_declare_it(catalog: Catalog) -> None:
    model = with_attention(catalog, layers("full", 32))
    declared = replace(model, kv_declared="fp8")
    assert pool_of(catalog, model).kv_bytes_per_token == 131_072
    assert pool_of(catalog, model, kv_dtype="fp8").kv_bytes_per_token == 65_536
    assert pool_of(catalog, declared).kv_bytes_per_token == 65_536


@pytest.mark.parametrize(
    ("length", "blocks"), [(16, 1 + 1), (1000, 63 + 1), (131_072, (1023 + IN_FLIGHT + 15) // 16 + 1)]
)
def test_a_sliding_layer_reserves_its_window_and_what_is_in_flight(catalog: Catalog, length: int, blocks: int) -> None:
    pool = pool_of(catalog, with_attention(catalog, layers("sliding", 32, window=1024)))
    assert pool.request_blocks(length, IN_FLIGHT) == blocks


def test_fewer_batched_tokens_shrink_what_a_sliding_request_reserves(catalog: Catalog) -> None:
    pool = pool_of(catalog, catalog.model("google/gemma-3-27b-it"))
    reserved = [pool.request_blocks(131_072, 2 * tokens) * pool.bytes_per_block for tokens in (2048, 8192, 16384)]
    assert [round(size / 1e9, 2) for size in reserved] == [13.26, 19.3, 27.35]
    assert round(pool.request_blocks(131_072, 8192) * pool.bytes_per_block / 1e9, 2) == 15.28


def page(growth: str, size: int, window: int = 0) -> CachePage:
    return CachePage(growth, 16, size, window=window)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("sliding", "full", "groups"),
    [(52, 10, [9, 9, 9, 9, 8, 8, 10]), (18, 18, [18, 18]), (13, 12, [13, 12]), (36, 12, [12, 12, 12, 12])],
)
def test_layers_are_grouped_by_the_smallest_kind(sliding: int, full: int, groups: list[int]) -> None:
    caches = [
        LayerCaches(page("sliding", 4096, 1024), sliding, tuple(range(sliding))),
        LayerCaches(page("full", 4096), full, tuple(range(full))),
    ]
    assert [group.parts[0].layers for group in form_groups(caches)] == groups


def test_smaller_pages_take_more_tokens_or_are_padded() -> None:
    caches = [LayerCaches(page("sliding", 4096, 128), 4, ()), LayerCaches(page("full", 1024), 4, ())]
    assert [group.page.block_size for group in form_groups(caches)] == [16, 64]
    caches = [LayerCaches(page("sliding", 4096, 128), 4, ()), LayerCaches(page("full", 3072), 4, ())]
    padded = form_groups(caches)[1]
    assert (padded.page.block_size, padded.page.page_bytes) == (16, 4096)


def test_full_layers_of_different_sizes_are_one_group(catalog: Catalog) -> None:
    model = with_attention(catalog, layers("full", 10), layers("full", 6, kv_heads=2))
    pool = pool_of(catalog, model)
    assert len(pool.groups) == 1
    assert pool.bytes_per_block == 16 * (10 * 4096 + 6 * 1024)


def test_before_groups_existed_sliding_layers_were_allocated_in_full(catalog: Catalog) -> None:
    model = catalog.model("google/gemma-2-27b-it")
    old = engine_constants("vllm", "0.8.5")
    pool = kv_pool(model, old, catalog.gpu("H100-SXM"), tp=1, kv_dtype="auto", weights="bf16")
    assert len(pool.groups) == 1
    assert pool.request_blocks(8192, IN_FLIGHT) == 512


def test_a_stage_holds_its_own_layers_of_every_group(catalog: Catalog) -> None:
    model = catalog.model("llama-3.1-70b")
    whole = pool_of(catalog, model)
    stage = kv_pool(model, ENGINE, catalog.gpu("H100-SXM"), tp=1, kv_dtype="auto", weights="bf16", stage=range(20))
    assert stage.bytes_per_block * 4 == whole.bytes_per_block


def test_ints_and_arrays_count_the_same_blocks(catalog: Catalog) -> None:
    lengths = np.array([1, 15, 16, 17, 8192, 131_072], dtype=np.int64)
    for name in ("google/gemma-3-27b-it", "Qwen/Qwen3.5-27B", "meta-llama/Llama-4-Scout-17B-16E-Instruct"):
        pool = pool_of(catalog, catalog.model(name))
        each = [pool.request_blocks(length, IN_FLIGHT) for length in lengths.tolist()]
        assert pool.request_blocks(lengths, np.full_like(lengths, IN_FLIGHT)).tolist() == each


def test_old_versions_print_blocks_times_their_size(catalog: Catalog) -> None:
    pool = pool_of(catalog, catalog.model("google/gemma-3-27b-it"))
    old = engine_constants("vllm", "0.19.0")
    assert kv_size(pool, old, "V1", 15_999, 8192, 8192).tokens == 15_999 // 7 * 16 == 36_560


def test_what_is_not_modelled_is_refused_by_name(catalog: Catalog) -> None:
    with pytest.raises(NotModelledError, match="unknown attention"):
        pool_of(catalog, with_attention(catalog, layers("unknown", 2)))
    with pytest.raises(NotModelledError, match="without a KV cache"):
        pool_of(catalog, with_attention(catalog))
    with pytest.raises(InputError, match="nvfp4"):
        pool_of(catalog, with_attention(catalog, layers("full", 2)), kv_dtype="nvfp4")
    old = engine_constants("vllm", "0.6.4")
    with pytest.raises(NotModelledError, match="latent"):
        kv_pool(catalog.model("deepseek-ai/DeepSeek-V3"), old, catalog.gpu("H100-SXM"), tp=1, kv_dtype="auto",
                weights="fp8")  # fmt: skip

from __future__ import annotations

import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest

from recommender.catalog.catalog import Catalog, load_catalog, shipped
from recommender.errors import InputError

LLAMA_70B = "meta-llama/Llama-3.1-70B-Instruct"


@pytest.mark.parametrize(
    "name",
    [
        LLAMA_70B,
        "META-LLAMA/llama-3.1-70b-instruct",
        "llama-3.1-70b",
        "Llama-3.1-70B",
        "llama3.1-70b",
        "Llama-3.1-70B-Instruct",
        "meta-llama/Meta-Llama-3.1-70B-Instruct",
        " llama-3.1-70b ",
    ],
)
def test_a_model_is_found_by_id_alias_or_the_last_part_of_its_id(catalog: Catalog, name: str) -> None:
    assert catalog.entry(name).id == LLAMA_70B


@pytest.mark.parametrize(
    ("alias", "model"),
    [
        ("llama-3.1-8b", "meta-llama/Llama-3.1-8B-Instruct"),
        ("llama-3.3-70b", "meta-llama/Llama-3.3-70B-Instruct"),
        ("llama-3-8b", "meta-llama/Meta-Llama-3-8B-Instruct"),
        ("qwen3-32b", "Qwen/Qwen3-32B"),
        ("mixtral-8x7b", "mistralai/Mixtral-8x7B-Instruct-v0.1"),
        ("gpt-oss-120b", "openai/gpt-oss-120b"),
        ("deepseek-v3", "deepseek-ai/DeepSeek-V3"),
        ("gemma-3-27b", "google/gemma-3-27b-it"),
        ("phi-4", "microsoft/phi-4"),
    ],
)
def test_the_short_name_goes_to_the_primary_release(catalog: Catalog, alias: str, model: str) -> None:
    assert catalog.entry(alias).id == model


def test_releases_of_the_same_geometry_share_their_values(catalog: Catalog) -> None:
    instruct, base = catalog.model(LLAMA_70B), catalog.model("meta-llama/Meta-Llama-3.1-70B")
    assert instruct.id == LLAMA_70B
    assert instruct.parameters == base.parameters == 70_553_706_496
    assert instruct.attention == base.attention


def test_a_model_is_parsed_once(catalog: Catalog) -> None:
    assert catalog.model("qwen3-8b") is catalog.model("Qwen/Qwen3-8B")


def test_a_quantised_repository_names_its_base_and_what_it_is(catalog: Catalog) -> None:
    found = catalog.resolve("RedHatAI/Llama-3.3-70B-Instruct-fp8-dynamic")
    assert found.model.id == "meta-llama/Llama-3.3-70B-Instruct"
    assert found.checkpoint is not None
    assert found.checkpoint.id == "RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic"
    assert found.checkpoint.weights == "fp8"
    assert found.repository is None


def test_a_repository_whose_config_is_known_brings_it_along(catalog: Catalog) -> None:
    found = catalog.resolve("nvidia/Llama-3.1-70B-Instruct-FP8")
    assert found.model.id == LLAMA_70B
    assert found.model.kv_declared is None
    assert found.checkpoint is not None
    assert found.checkpoint.weights == "fp8"
    assert found.repository is not None
    assert found.repository.kv_declared == "fp8"
    assert found.checkpoint.quantisation == found.repository.quantisation
    assert catalog.model("nvidia/Llama-3.1-70B-Instruct-FP8").kv_declared == "fp8"


def test_the_primary_release_is_no_checkpoint(catalog: Catalog) -> None:
    assert catalog.resolve("qwen3-32b").checkpoint is None


def test_an_unknown_model_is_refused_with_the_nearest_names(catalog: Catalog) -> None:
    with pytest.raises(InputError, match=r"did you mean .*llama-3\.1-70b"):
        catalog.model("lama-3.1-70b")
    with pytest.raises(InputError, match="unknown model ''"):
        catalog.model("")


def test_a_checkpoint_without_geometry_says_so(catalog: Catalog) -> None:
    with pytest.raises(InputError, match="known as a checkpoint, but its geometry is not in the catalog"):
        catalog.resolve("Qwen/Qwen3.8-2.4T-A95B")


def test_every_base_has_an_entry_and_every_alias_one_owner(catalog: Catalog) -> None:
    ids = {entry.id for entry in catalog.models}
    assert all(entry.base in ids for entry in catalog.models if entry.base)
    names = [name.casefold() for entry in catalog.models for name in entry.aliases]
    assert len(names) == len(set(names))


def test_the_stamp_names_version_content_and_dates(catalog: Catalog) -> None:
    assert catalog.stamp.version == "2026-10-10"
    assert catalog.stamp.newest_price == date(2026, 10, 10)
    assert catalog.stamp.oldest_price == date(2025, 9, 1)
    assert len(catalog.stamp.sha256) == 64
    assert load_catalog().stamp == catalog.stamp


OFFER = """provider,segment,instance_type,region,gpu,gpus,usd_per_hour_on_demand,as_of,source
acme,neocloud,acme-8xh100,here,H100-SXM,8,16.5,2026-11-01,a quote
lambda,neocloud,gpu_8x_h100_sxm_80gb,global,H100-SXM,8,30,2026-11-01,negotiated
"""


def test_an_overlay_adds_and_overrides_by_key(catalog: Catalog, tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(OFFER)
    mine = load_catalog((str(path),))
    assert len(mine.offers) == len(catalog.offers) + 1
    by_key = {offer.key: offer for offer in mine.offers}
    assert by_key["acme", "acme-8xh100", "here"].prices == {"on_demand": 16_500_000}
    assert by_key["lambda", "gpu_8x_h100_sxm_80gb", "global"].prices == {"on_demand": 30_000_000}
    assert mine.stamp.sha256 != catalog.stamp.sha256
    assert mine.stamp.newest_price == date(2026, 11, 1)


def test_an_overlay_may_bring_a_gpu_and_offers_of_it(tmp_path: Path) -> None:
    gpus = tmp_path / "gpus.csv"
    gpus.write_text(
        "name,vendor,architecture,engine,memory_gb_marketing,memory_bytes_reported,memory_confidence,spec_source\n"
        "X1,nvidia,X,vllm,100,106000000000,observed,a data sheet\n"
    )
    offers = tmp_path / "offers.csv"
    offers.write_text(OFFER.replace("H100-SXM", "X1"))
    mine = load_catalog((str(gpus), str(offers)))
    assert mine.gpu("x1").searched
    with pytest.raises(InputError, match="'X1' is not a GPU of the catalog"):
        load_catalog((str(offers),))


MODEL = """id: me/my-llama
aliases: [mine]
native: bf16
source: my own config
config: {architectures: [LlamaForCausalLM], hidden_size: 4096, intermediate_size: 14336, num_hidden_layers: 32,
  num_attention_heads: 32, num_key_value_heads: 8, vocab_size: 128256, max_position_embeddings: 8192,
  tie_word_embeddings: false, torch_dtype: bfloat16}
---
id: me/my-tune
native: bf16
source: same geometry
same_as: me/my-llama
"""


def test_an_overlay_may_bring_models(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(MODEL)
    mine = load_catalog((str(path),))
    assert mine.model("mine").parameters == 8_030_261_248
    assert mine.model("my-tune").parameters == 8_030_261_248
    assert mine.model("my-tune").id == "me/my-tune"


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        ("id: a/b\nnative: bf16\nsource: x\nconfig: [1]\n", 1, "is not a mapping"),
        ("id: a/b\nnative: bf16\nsource: x\n", 1, "give either config or same_as"),
        ("id: a/b\nnative: bf16\nsource: x\nconfig: {}\nsame: y\n", 1, "unknown key"),
        (MODEL + "---\nid: a/b\nnative: [bf16\n", 16, "is not readable as YAML"),
        ("id: &a a/b\nnative: bf16\nsource: *a\nconfig: {}\n", 1, "aliases are not allowed"),
        ("- 1\n- 2\n", 1, "is not a mapping"),
        ("id: a/b\naliases: x\nnative: bf16\nsource: x\nconfig: {}\n", 1, "is not a list of names"),
    ],
)
def test_a_broken_model_file_is_refused_by_line(tmp_path: Path, text: str, line: int, expected: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=expected) as refused:
        load_catalog((str(path),))
    assert (refused.value.faults[0].file, refused.value.faults[0].line) == (str(path), line)


def test_every_fault_of_every_overlay_is_in_one_report(tmp_path: Path) -> None:
    bad = tmp_path / "bad.csv"
    bad.write_text(OFFER.replace("16.5", "cheap").replace(",8,30,", ",eight,30,"))
    other = tmp_path / "other.csv"
    other.write_text("a,b\n1,2\n")
    with pytest.raises(InputError) as refused:
        load_catalog((str(bad), str(other)))
    places = {(fault.file, fault.line, fault.key) for fault in refused.value.faults}
    assert (str(bad), 2, "usd_per_hour_on_demand") in places
    assert (str(bad), 3, "gpus") in places
    assert (str(other), 1, None) in places
    with pytest.raises(InputError, match="cannot be read"):
        load_catalog((str(tmp_path / "absent.csv"),))


def test_the_same_key_twice_in_one_file_is_a_fault(tmp_path: Path) -> None:
    path = tmp_path / "twice.csv"
    path.write_text(OFFER + OFFER.splitlines()[1] + "\n")
    with pytest.raises(InputError, match="appears twice"):
        load_catalog((str(path),))


def test_loading_needs_no_heavy_library() -> None:
    code = "import sys; from recommender.catalog.catalog import load_catalog; load_catalog(); print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"pandas", "numpy", "ortools", "pydantic"}.isdisjoint(found.stdout.split())


def test_the_data_travels_with_the_package() -> None:
    assert (shipped("catalogs") / "gpus.csv").is_file()


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no device without an end here")
def test_an_overlay_without_an_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recommender.catalog.table.LONGEST_TEXT", 100_000)
    with pytest.raises(InputError, match="/dev/zero: is too large"):
        load_catalog(("/dev/zero",))

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_hub import COMMIT, FakeHub, fake_hub
from folders import LLAMA_8B, llama_shapes, write_folder, write_header, write_safetensors

from recommender import fit
from recommender.catalog import elsewhere
from recommender.catalog.catalog import Catalog
from recommender.errors import InputError

constants = pytest.importorskip("huggingface_hub.constants")
NAME = "hf://owner/name"


def point_at(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets the library's endpoint, as HF_ENDPOINT does before it is loaded."""
    monkeypatch.setattr(constants, "ENDPOINT", url)
    template = f"{url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty cache, no token, and no hub but one that a test starts."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    point_at("http://127.0.0.1:9", monkeypatch)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    elsewhere._once.cache_clear()
    yield
    elsewhere._once.cache_clear()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An 8B model of 16 GB in three files, all of them holes."""
    return write_folder(tmp_path / "served", LLAMA_8B, llama_shapes(LLAMA_8B), shards=3)


@pytest.fixture
def hub(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    with fake_hub(folder) as running:
        point_at(running.url, monkeypatch)
        yield running


def refused(catalog: Catalog, name: str = NAME) -> str:
    with pytest.raises(InputError) as caught:
        catalog.resolve(name)
    assert len(caught.value.faults) == 1
    return str(caught.value.faults[0])


def test_a_repository_is_sized_from_its_headers_and_nothing_else(hub: FakeHub, catalog: Catalog) -> None:
    resolved = catalog.resolve(NAME)
    (files,) = resolved.files
    assert (resolved.model.id, files.id, files.bytes_total) == ("owner/name", "owner/name", 16_060_522_496)
    assert files.source == f"Hugging Face hub, owner/name at {COMMIT}"
    assert dict(files.group_bytes)["mlp"] == 32 * 3 * 4096 * 14336 * 2
    assert sum(hub.sent.values()) < 1_000_000  # of 16 GB
    found = fit(NAME, "H100-SXM", catalog=catalog)
    assert found.weights_bytes == fit("llama-3.1-8b", "H100-SXM", catalog=catalog).weights_bytes
    assert "agrees with the file headers" in found.sources["weights"]


def test_a_header_longer_than_the_first_request_is_read(folder: Path, hub: FakeHub, catalog: Catalog) -> None:
    for shard in (*folder.glob("model-*"), folder / "model.safetensors.index.json"):
        shard.unlink()
    shapes = {f"model.layers.{layer}.mlp.up_proj.{'x' * 60}weight": ("BF16", (8, 8)) for layer in range(2000)}
    write_safetensors(folder / "model.safetensors", llama_shapes(LLAMA_8B) | shapes)
    (files,) = catalog.resolve(NAME).files
    assert files.bytes_total == 16_060_522_496 + 2000 * 128


def test_the_hub_is_asked_once_a_process(hub: FakeHub, catalog: Catalog) -> None:
    catalog.resolve(NAME)
    before = dict(hub.sent)
    catalog.resolve(NAME)
    assert hub.sent == before


def test_a_second_copy_in_a_repository_counts_once(folder: Path, hub: FakeHub, catalog: Catalog) -> None:
    write_safetensors(folder / "consolidated.safetensors", llama_shapes(LLAMA_8B))
    (files,) = catalog.resolve(NAME).files
    assert files.bytes_total == 16_060_522_496
    assert "consolidated.safetensors" not in hub.sent
    assert "not loaded: consolidated.safetensors" in files.source


def test_token_and_revision_are_those_of_the_library(
    hub: FakeHub, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_something")
    assert catalog.resolve(f"{NAME}@{COMMIT}").model.parameters == 8_030_261_248
    assert hub.tokens == {"Bearer hf_something"}
    assert "has no revision v9" in refused(catalog, f"{NAME}@v9")


def test_what_is_not_there_is_said(hub: FakeHub, folder: Path, catalog: Catalog) -> None:
    assert "does not exist, or is private" in refused(catalog, "hf://owner/other")
    (folder / "config.json").unlink()
    assert "has no config.json" in refused(catalog)


def test_a_gated_repository_asks_for_a_token(folder: Path, catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    with fake_hub(folder, gated=True) as running:
        point_at(running.url, monkeypatch)
        assert "is gated (expected its terms accepted, and a token" in refused(catalog)


def test_a_config_of_gigabytes_is_not_downloaded(hub: FakeHub, folder: Path, catalog: Catalog) -> None:
    with (folder / "config.json").open("r+b") as file:
        file.truncate(3 * 10**9)
    assert "config.json has 3,000,000,000 bytes" in refused(catalog)
    assert "config.json" not in hub.sent


@pytest.mark.parametrize(
    "header",
    [
        {"a": {"dtype": "BF16", "shape": [-1], "data_offsets": [0, 2]}},
        {"a": {"dtype": "BF17", "shape": [1], "data_offsets": [0, 2]}},
        {"a": {"dtype": "BF16", "shape": "x", "data_offsets": [0, 2]}},
        {"a": {"dtype": "BF16", "shape": [1], "data_offsets": [0, 2**70]}},
        {"a": 3},
        [],
    ],
)
def test_a_hostile_header_is_refused(hub: FakeHub, folder: Path, catalog: Catalog, header: object) -> None:
    write_header(folder / "model-00002-of-00003.safetensors", header, 2)
    assert NAME in refused(catalog)


def test_a_hostile_header_length_is_refused(hub: FakeHub, folder: Path, catalog: Catalog) -> None:
    (folder / "model-00002-of-00003.safetensors").write_bytes(b"\xff" * 64)
    assert "too big" in refused(catalog)


def cached(tmp_path: Path, folder: Path, names: list[str]) -> None:
    """The library's cache with some files of the repository, as links to blobs."""
    root = tmp_path / "cache" / "models--owner--name"
    snapshot = root / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    (root / "refs").mkdir()
    (root / "refs" / "main").write_text(COMMIT)
    (root / "blobs").mkdir()
    for name in names:
        (folder / name).rename(root / "blobs" / name)
        (snapshot / name).symlink_to(Path("../../blobs") / name)


def test_offline_the_cache_is_read_and_nothing_asked(
    tmp_path: Path, hub: FakeHub, folder: Path, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    cached(tmp_path, folder, [path.name for path in folder.iterdir()])
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    (files,) = catalog.resolve(NAME).files
    assert (files.id, files.bytes_total) == ("owner/name", 16_060_522_496)
    assert files.group_bytes
    assert files.source == f"Hugging Face cache, owner/name at {COMMIT} (the hub was not asked)"
    assert hub.sent == {}


def test_offline_without_weights_the_index_still_says_the_total(
    tmp_path: Path, folder: Path, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    cached(tmp_path, folder, ["config.json", "model.safetensors.index.json"])
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    (files,) = catalog.resolve(NAME).files
    assert (files.bytes_total, files.group_bytes) == (16_060_522_496, ())
    assert "3 of 3 safetensors files are not here" in files.source


def test_offline_without_a_cache_is_refused(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert "is not in the local cache, and HF_HUB_OFFLINE is set" in refused(catalog)


def test_a_hub_that_cannot_be_reached_leaves_the_cache(tmp_path: Path, folder: Path, catalog: Catalog) -> None:
    assert "is not in the local cache, and the hub cannot be reached" in refused(catalog)
    cached(tmp_path, folder, ["config.json"])
    assert "the hub was not asked" in catalog.resolve(NAME).files[0].source


def test_cached_files_need_no_second_request(tmp_path: Path, hub: FakeHub, folder: Path, catalog: Catalog) -> None:
    root = tmp_path / "cache" / "models--owner--name"
    snapshot = root / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    for shard in folder.glob("model-*"):
        (snapshot / shard.name).symlink_to(shard)
    assert catalog.resolve(NAME).files[0].bytes_total == 16_060_522_496
    assert set(hub.sent) == {"", "config.json", "model.safetensors.index.json"}


@pytest.mark.parametrize(
    "name", ["hf://", "hf://a/b/c", "hf://../x/y", "hf://a b", "hf://a/b@", "hf://a/b@c d", "hf://é/x"]
)
def test_what_is_no_repository_name_is_refused(catalog: Catalog, name: str) -> None:
    assert "is no repository" in refused(catalog, name)


def test_without_the_library_the_extra_is_named(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    assert "needs huggingface_hub (expected pip install 'recommender[hub]')" in refused(catalog)


def test_the_library_is_loaded_only_when_asked_for() -> None:
    code = (
        "import sys, json; from recommender.catalog.catalog import load_catalog;"
        "load_catalog().resolve('llama-3.1-8b'); print(json.dumps('huggingface_hub' in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) is False

from __future__ import annotations

import json
import os
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from folders import header_of, write_header, write_safetensors
from hypothesis import given, settings
from hypothesis import strategies as st

from recommender.catalog.json_file import parse_object, read_object
from recommender.catalog.safetensors import Index, StoredTensor, index_of, merged, read_tensors, tensors_of
from recommender.errors import InputError

TWO = {"a.weight": ("BF16", (4, 3)), "b.qweight": ("I32", (2, 2))}
PLAIN = {"dtype": "BF16", "shape": [2, 2], "data_offsets": [0, 8]}


def refused(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        read_tensors(path)
    assert len(caught.value.faults) == 1
    assert caught.value.faults[0].file == str(path)
    return str(caught.value.faults[0])


def test_a_header_gives_names_shapes_and_bytes(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "m.safetensors", TWO)
    assert read_tensors(tmp_path / "m.safetensors") == (
        StoredTensor("a.weight", "BF16", (4, 3), 24),
        StoredTensor("b.qweight", "I32", (2, 2), 16),
    )


def test_packed_words_are_bytes_and_not_parameters(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "m.safetensors", {"x.qweight": ("I32", (4096, 512))})
    (packed,) = read_tensors(tmp_path / "m.safetensors")
    assert packed.size_bytes == 4096 * 512 * 4  # eight 4-bit weights to a word: 4096 x 4096 of them


def test_scalars_and_empty_tensors_are_read(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "m.safetensors", {"z": ("F32", (0, 7)), "y": ("F32", ()), "x": ("F32", (0,))})
    assert [tensor.size_bytes for tensor in read_tensors(tmp_path / "m.safetensors")] == [0, 4, 0]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is no safetensors file: 0 bytes"),
        (b"\x01\x02", "is no safetensors file: 2 bytes"),
        (struct.pack("<Q", 2**63), "announces a header of 9,223,372,036,854,775,808 bytes"),
        (struct.pack("<Q", 24_000_000) + b"{}", "announces a header of 24,000,000 bytes but has 10 bytes"),
        (struct.pack("<Q", 2) + b"[]", "is not a JSON object"),
        (struct.pack("<Q", 2) + b"\xff\xfe", "is not UTF-8 text"),
        (struct.pack("<Q", 3) + b"{]}", "is not readable as JSON"),
        (struct.pack("<Q", 0), "is not readable as JSON"),
        (struct.pack("<Q", 200_000) + b"[" * 200_000, "is nested too deeply"),
        (struct.pack("<Q", 5_000_000) + b"," * 5_000_000, "holds too many values"),
        (struct.pack("<Q", 5_005) + b'{"a":' + b"9" * 5_000, "is not readable as JSON"),
    ],
)
def test_what_is_no_safetensors_file_is_refused(tmp_path: Path, data: bytes, said: str) -> None:
    (tmp_path / "m.safetensors").write_bytes(data)
    assert said in refused(tmp_path / "m.safetensors")


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("text", "a: 'text' is no tensor"),
        (None, "a: None is no tensor"),
        ({**PLAIN, "dtype": "BF17"}, "a.dtype: 'BF17' is no dtype"),
        ({**PLAIN, "dtype": ["BF16"]}, "a.dtype: ['BF16'] is no dtype"),
        ({**PLAIN, "dtype": None}, "a.dtype: None is no dtype"),
        ({**PLAIN, "shape": "2"}, "a.shape: '2' is no shape"),
        ({**PLAIN, "shape": [-2, -2]}, "a.shape: [-2, -2] is no shape"),
        ({**PLAIN, "shape": [2.0, 2]}, "a.shape: [2.0, 2] is no shape"),
        ({**PLAIN, "shape": [True, 4]}, "a.shape: [True, 4] is no shape"),
        ({**PLAIN, "shape": ["2", 2]}, "a.shape: ['2', 2] is no shape"),
        ({**PLAIN, "shape": [1e308]}, "a.shape: [1e+308] is no shape"),
        ({**PLAIN, "shape": [float("nan")]}, "a.shape: [nan] is no shape"),
        ({**PLAIN, "shape": [10**60]}, "is no shape"),
        ({**PLAIN, "shape": [2**40, 2**40]}, "is no size"),
        ({**PLAIN, "shape": [1] * 100}, "is no shape"),
        ({**PLAIN, "data_offsets": [8, 0]}, "a.data_offsets: data that ends at 0 begins at 8"),
        ({**PLAIN, "data_offsets": [0]}, "a.data_offsets: [0] are no offsets"),
        ({**PLAIN, "data_offsets": [-8, 0]}, "a.data_offsets: [-8, 0] are no offsets"),
        ({**PLAIN, "data_offsets": [0, 9]}, "a.data_offsets: 9 bytes of data for 8 of BF16 [2, 2]"),
        ({**PLAIN, "data_offsets": [4, 12]}, "a.data_offsets: its data begins at 4, but 0 bytes come before it"),
        ({"dtype": "F4", "shape": [3], "data_offsets": [0, 1]}, "is no size"),
        ({"shape": [1]}, "a.data_offsets: None are no offsets"),
    ],
)
def test_a_broken_tensor_is_refused_by_name(tmp_path: Path, entry: Any, said: str) -> None:
    write_header(tmp_path / "m.safetensors", {"a": entry}, 8)
    assert said in refused(tmp_path / "m.safetensors")


def test_overlapping_data_is_refused(tmp_path: Path) -> None:
    header = {"a": PLAIN, "b": {**PLAIN, "data_offsets": [4, 12]}}
    write_header(tmp_path / "m.safetensors", header, 12)
    assert "b.data_offsets: its data begins at 4, but 8 bytes come before it" in refused(tmp_path / "m.safetensors")


@pytest.mark.parametrize(("there", "said"), [(7, "is cut short: 7 bytes"), (9, "holds more than its header says")])
def test_a_file_of_another_length_is_refused(tmp_path: Path, there: int, said: str) -> None:
    write_header(tmp_path / "m.safetensors", {"a": PLAIN}, there)
    assert said in refused(tmp_path / "m.safetensors")


def test_a_tensor_twice_is_refused_in_one_file_and_across_files(tmp_path: Path) -> None:
    entry = json.dumps(PLAIN)
    text = f'{{"a\\u001b": {entry}, "a\\u001b": {entry}}}'.encode()
    (tmp_path / "m.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + bytes(8))
    assert "a\\x1b: appears twice" in refused(tmp_path / "m.safetensors")  # never an escape sequence in a terminal
    one = (StoredTensor("a", "BF16", (1,), 2),)
    with pytest.raises(InputError, match=r"y: a: is in x too"):
        merged([("x", one), ("y", one)])


def test_pipes_devices_folders_and_loops_are_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    for name in ("pipe", "folder", "/dev/zero"):
        assert "is not a regular file" in refused(tmp_path / name)
    for name in ("loop", "gone", "nowhere"):
        assert "cannot be read" in refused(tmp_path / name)


def test_a_link_to_a_file_is_read_as_download_caches_have_them(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "blob", TWO)
    (tmp_path / "m.safetensors").symlink_to(tmp_path / "blob")
    assert len(read_tensors(tmp_path / "m.safetensors")) == 2


def test_a_hostile_header_takes_little_memory(tmp_path: Path) -> None:
    hostile = b'{"a":[' + b"[]," * 1_200_000 + b"0]}"
    (tmp_path / "m.safetensors").write_bytes(struct.pack("<Q", len(hostile)) + hostile)
    tracemalloc.start()
    try:
        refused(tmp_path / "m.safetensors")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 250_000_000


def test_an_index_gives_files_and_total() -> None:
    found = {"metadata": {"total_size": 24.0}, "weight_map": {"a": "x.safetensors", "b": "x.safetensors"}}
    assert index_of(found, "i") == Index(24, {"a": "x.safetensors", "b": "x.safetensors"})
    assert index_of(found, "i").files == ("x.safetensors",)
    for metadata in ({}, {"total_size": 0}, {"total_size": None}):
        assert index_of({**found, "metadata": metadata}, "i").total_bytes is None


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({}, "weight_map: None names no files"),
        ({"weight_map": []}, "weight_map: [] names no files"),
        ({"weight_map": {}}, "names no files"),
        ({"weight_map": {"a": 3}}, "a: 3 is no file of this folder"),
        ({"weight_map": {"a": "../../x.safetensors"}}, "is no file of this folder"),
        ({"weight_map": {"a": "/etc/passwd"}}, "is no file of this folder"),
        ({"weight_map": {"a": "x\0.safetensors"}}, "is no file of this folder"),
        ({"weight_map": {"a": "x.safetensors"}, "metadata": 3}, "metadata: 3 is not usable"),
        ({"weight_map": {"a": "x.safetensors"}, "metadata": {"total_size": -1}}, "metadata.total_size: -1 is no size"),
        ({"weight_map": {"a": "x.safetensors"}, "metadata": {"total_size": "9"}}, "total_size: '9' is no size"),
        ({"weight_map": {"a": "x.safetensors"}, "metadata": {"total_size": 1e308}}, "is no size"),
        ({"weight_map": {"a": "x.safetensors"}, "metadata": {"total_size": float("nan")}}, "nan is no size"),
        ({"weight_map": {"a": "x.safetensors"}, "metadata": {"total_size": True}}, "True is no size"),
    ],
)
def test_a_broken_index_is_refused(found: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as caught:
        index_of(found, "model.safetensors.index.json")
    assert said in str(caught.value)


def test_large_and_growing_files_stop_at_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text("{}")
    os.truncate(path, 2**40)  # a hole: no disk, no memory
    with pytest.raises(InputError, match=r"is too large .*at most 1,000 bytes"):
        read_object(path, most_bytes=1000, most_values=10)


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6) | st.sampled_from(["BF16", "I32"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)
ENTRIES = st.fixed_dictionaries(
    {},
    optional={
        "dtype": st.sampled_from(["BF16", "F4", "U8", "X"]) | JUNK,
        "shape": st.lists(st.integers(-1, 5), max_size=3) | JUNK,
        "data_offsets": st.lists(st.integers(-1, 40), min_size=2, max_size=2) | JUNK,
    },
)


@settings(max_examples=300, deadline=None)
@given(header=st.dictionaries(st.text(max_size=8), ENTRIES | JUNK, max_size=4), size=st.none() | st.integers(0, 60))
def test_any_header_is_read_exactly_or_refused(header: dict[str, Any], size: int | None) -> None:
    refusal = None
    try:
        tensors = tensors_of(header, "file", data_bytes=size)
    except InputError as error:
        refusal = error
    if refusal is None:
        assert all(tensor.size_bytes >= 0 for tensor in tensors)
        assert size is None or sum(tensor.size_bytes for tensor in tensors) == size
    else:
        assert refusal.faults[0].file == "file"
        assert str(refusal).isprintable()


@settings(max_examples=300, deadline=None)
@given(text=st.binary(max_size=200) | JUNK.map(lambda value: json.dumps(value).encode()))
def test_any_text_is_an_object_or_refused(text: bytes) -> None:
    found, file = None, "file"
    try:
        found = parse_object(text, "file", most_values=1000)
    except InputError as error:
        file = error.faults[0].file or ""
    assert (isinstance(found, dict) or found is None, file) == (True, "file")


@settings(max_examples=100, deadline=None)
@given(
    shapes=st.dictionaries(
        st.text("abc.", min_size=1, max_size=6),
        st.tuples(st.sampled_from(["BF16", "F32", "I32", "U8"]), st.lists(st.integers(0, 6), max_size=3).map(tuple)),
        max_size=5,
    )
)
def test_every_sound_header_is_read(shapes: Any) -> None:
    tensors = tensors_of(header_of(shapes), "file", data_bytes=None)
    assert {tensor.name: (tensor.dtype, tensor.shape) for tensor in tensors} == shapes

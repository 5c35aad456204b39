"""What safetensors files hold, by their headers alone: names, dtypes, shapes and bytes of tensors; and their index.

The format is that of the safetensors README: 8 bytes with the header's length, a JSON header, then the data of every
tensor without gaps.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from recommender.catalog.json_file import open_regular, parse_object, read_bytes
from recommender.errors import Fault, InputError

BITS = {
    "F64": 64,
    "I64": 64,
    "U64": 64,
    "C64": 64,
    "F32": 32,
    "I32": 32,
    "U32": 32,
    "F16": 16,
    "BF16": 16,
    "I16": 16,
    "U16": 16,
    "F8_E4M3": 8,
    "F8_E5M2": 8,
    "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8,
    "F8_E5M2FNUZ": 8,
    "I8": 8,
    "U8": 8,
    "BOOL": 8,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    "F4": 4,
}
"""Bits of one element of each dtype (safetensors 0.6 tensor.rs)."""
HEADER_BYTES = 25_000_000
"""The longest header read: that of huggingface_hub 2.4 (SAFETENSORS_MAX_HEADER_LENGTH)."""
INDEX_BYTES = 64_000_000
VALUES = 4_000_000
_LENGTH_BYTES = 8
_METADATA = "__metadata__"
_MOST_DIMENSIONS = 16
_LARGEST = 2**50
_SHOWN = 80


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """One tensor of a file. `size_bytes` are those it takes there: packed words are bytes, never parameters."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    size_bytes: int

    @property
    def elements(self) -> int:
        """Elements of its dtype, whatever each of them packs."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class Index:
    """Which file holds each tensor of a model that is cut into several; `total_bytes` where the index states it."""

    total_bytes: int | None
    weight_map: Mapping[str, str]

    @property
    def files(self) -> tuple[str, ...]:
        """The files it names, sorted."""
        return tuple(sorted(set(self.weight_map.values())))


def read_tensors(path: Path) -> tuple[StoredTensor, ...]:
    """Every tensor of one safetensors file, sorted by name. Raises InputError where it is no such file or cut short."""
    descriptor, size = open_regular(path)
    with os.fdopen(descriptor, "rb") as file:
        length = _header_length(read_bytes(file, _LENGTH_BYTES, str(path)), size, str(path))
        header = read_bytes(file, length, str(path))
    if len(header) < length:
        raise InputError(Fault(f"ends within its header of {length:,} bytes", str(path)))
    found = parse_object(header, str(path), most_values=VALUES)
    return tensors_of(found, str(path), data_bytes=size - _LENGTH_BYTES - length)


def _header_length(first: bytes, size: int, file: str) -> int:
    if len(first) < _LENGTH_BYTES:
        raise InputError(Fault(f"is no safetensors file: {size} bytes", file))
    length = int.from_bytes(first, "little")
    if length > HEADER_BYTES:
        what = f"announces a header of {length:,} bytes"
        raise InputError(Fault(what, file, expected=f"at most {HEADER_BYTES:,}"))
    if length > size - _LENGTH_BYTES:
        raise InputError(Fault(f"announces a header of {length:,} bytes but has {size:,} bytes in all", file))
    return length


def tensors_of(header: Mapping[str, Any], file: str, *, data_bytes: int | None) -> tuple[StoredTensor, ...]:
    """The tensors of a parsed header, sorted by name, each checked against its dtype and shape, all against overlaps.

    `data_bytes` is what the file has after its header, where that is known.
    """
    placed = [
        (*_offsets(name, entry, file), _tensor(name, entry, file))
        for name, entry in header.items()
        if name != _METADATA
    ]
    end = 0
    for begin, after, tensor in sorted(placed, key=lambda each: each[:2]):
        if begin != end:
            what = f"its data begins at {begin}, but {end} bytes come before it"
            raise _fault(what, file, tensor.name, "data_offsets")
        if after - begin != tensor.size_bytes:
            what = f"{after - begin} bytes of data for {tensor.size_bytes} of {tensor.dtype} {list(tensor.shape)}"
            raise _fault(what, file, tensor.name, "data_offsets")
        end = after
    if data_bytes is not None and end != data_bytes:
        what = "is cut short" if end > data_bytes else "holds more than its header says"
        raise InputError(Fault(f"{what}: {data_bytes:,} bytes of data", file, expected=f"{end:,}"))
    return tuple(sorted((tensor for _, _, tensor in placed), key=lambda tensor: tensor.name))


def _tensor(name: str, entry: Any, file: str) -> StoredTensor:
    dtype, shape = entry.get("dtype"), entry.get("shape")
    if not isinstance(dtype, str) or dtype not in BITS:
        raise _fault(f"{_shown(dtype)} is no dtype", file, name, "dtype", ", ".join(BITS))
    if not isinstance(shape, list | tuple) or len(shape) > _MOST_DIMENSIONS or not all(map(_is_count, shape)):
        raise _fault(f"{_shown(shape)} is no shape", file, name, "shape", "a list of whole numbers from 0")
    elements = math.prod(shape)
    if elements > _LARGEST or elements * BITS[dtype] % 8:
        raise _fault(f"{_shown(shape)} of {dtype} is no size", file, name, "shape", f"at most {_LARGEST:,} elements")
    return StoredTensor(name, dtype, tuple(shape), elements * BITS[dtype] // 8)


def _offsets(name: str, entry: Any, file: str) -> tuple[int, int]:
    if not isinstance(entry, Mapping):
        raise _fault(f"{_shown(entry)} is no tensor", file, name, "", "an object with dtype, shape and data_offsets")
    offsets = entry.get("data_offsets")
    if not isinstance(offsets, list | tuple) or len(offsets) != 2 or not all(map(_is_count, offsets)):
        raise _fault(f"{_shown(offsets)} are no offsets", file, name, "data_offsets", "two whole numbers from 0")
    begin, after = offsets
    if after < begin:
        raise _fault(f"data that ends at {after} begins at {begin}", file, name, "data_offsets")
    return begin, after


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST


def index_of(found: Mapping[str, Any], file: str) -> Index:
    """The index a parsed model.safetensors.index.json is. Raises InputError."""
    weight_map = found.get("weight_map")
    if not isinstance(weight_map, Mapping) or not weight_map:
        raise InputError(Fault(f"{_shown(weight_map)} names no files", file, key="weight_map", expected="an object"))
    for tensor, name in weight_map.items():
        if not _is_file_name(name):
            what = f"{_shown(name)} is no file of this folder"
            raise _fault(what, file, tensor, "", "the name of a safetensors file, without folders")
    metadata = found.get("metadata") or {}
    if not isinstance(metadata, Mapping):
        raise InputError(Fault(f"{_shown(metadata)} is not usable", file, key="metadata", expected="an object"))
    return Index(_total(metadata.get("total_size"), file), dict(weight_map))


def _is_file_name(name: object) -> bool:
    """A plain name: an index cannot make us open files elsewhere."""
    return isinstance(name, str) and name.endswith(".safetensors") and not any(sign in name for sign in "/\\\0")


def _total(value: object, file: str) -> int | None:
    """Bytes of all tensors; older writers give a whole number as a float."""
    if value is None or value == 0:  # some writers leave a zero
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= _LARGEST:
        what = f"{_shown(value)} is no size"
        raise InputError(Fault(what, file, key="metadata.total_size", expected=f"bytes, from 1 to {_LARGEST:,}"))
    return value


def merged(files: Iterable[tuple[str, tuple[StoredTensor, ...]]]) -> tuple[StoredTensor, ...]:
    """The tensors of several files as one model, sorted by name. Raises InputError where two hold the same one."""
    placed = sorted(((tensor, file) for file, tensors in files for tensor in tensors), key=lambda each: each[0].name)
    for (tensor, file), (other, second) in pairwise(placed):
        if tensor.name == other.name:
            raise _fault(f"is in {file} too", second, tensor.name, "", "each tensor once; which file counts?")
    return tuple(tensor for tensor, _ in placed)


def _fault(what: str, file: str, name: str, part: str, expected: str | None = None) -> InputError:
    key = _shown(name)[1:-1]
    return InputError(Fault(what, file, key=f"{key}.{part}" if part else key, expected=expected))


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except (ValueError, RecursionError):
        return "what stands there"
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."

"""A model from a folder or a config.json of one's own, with whatever index and safetensors files lie beside it."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from recommender.catalog.json_file import open_regular, read_bytes, read_object
from recommender.catalog.repository import (
    CONFIG,
    CONFIG_BYTES,
    CONFIG_VALUES,
    INDEX,
    QUANT_CONFIG,
    Repository,
)
from recommender.catalog.safetensors import INDEX_BYTES, VALUES, Index, StoredTensor, index_of, merged, read_tensors
from recommender.errors import Fault, InputError

_SUFFIX = ".safetensors"
_SHARD = re.compile(r"-(\d{1,6})-of-(\d{1,6})\.safetensors$")
_POINTER = b"version https://git-lfs"  # what a clone without Git LFS has in place of a large file
_MOST_FILES = 100_000


def is_path(name: str) -> bool:
    """Whether a model's name can only be meant as a path: it says so by how it begins or ends."""
    return name.startswith((".", "~", "/", os.sep)) or name.endswith(".json") or Path(name).is_absolute()


def read_local(name: str, model_id: str | None = None, source: str | None = None) -> Repository:
    """What a folder or a config file says of a model, headers of safetensors files among it, never their data.

    Its id is `model_id`, or the path as it was written (the folder's where its config.json is named). Raises
    InputError.
    """
    path = Path(name).expanduser()
    folder, config = (path, path / CONFIG) if _is_folder(path, name) else (path.parent, path)
    shown = model_id or (name if folder == path else str(Path(name).parent) if path.name == CONFIG else name)
    found = read_object(config, most_bytes=CONFIG_BYTES, most_values=CONFIG_VALUES)
    if config.name != CONFIG:  # a config by another name has no files of its own beside it
        return Repository(shown, str(config), found, None, None, source or f"config values of {name}")
    beside = _optional(folder / QUANT_CONFIG, CONFIG_BYTES, CONFIG_VALUES)
    index = _index(folder)
    tensors, notes = _tensors(folder, index)
    what = "config and safetensors headers" if tensors is not None else "config"
    return Repository(
        id=shown,
        where=str(config),
        config=found if beside is None else {**found, "_hf_quant_config": beside},
        index=index,
        tensors=tensors,
        source=source or f"{what} of {shown}",
        notes=notes,
    )


def _is_folder(path: Path, name: str) -> bool:
    try:
        if not path.exists():
            raise InputError(
                Fault(f"there is no {name}", key="model", expected="a folder with a config.json, or a config file")
            )
        return path.is_dir()
    except (OSError, ValueError) as error:
        raise InputError(Fault(f"{name!r} cannot be looked up: {error}", key="model")) from None


def _optional(path: Path, most_bytes: int, most_values: int) -> dict[str, Any] | None:
    return read_object(path, most_bytes=most_bytes, most_values=most_values) if os.path.lexists(path) else None


def _index(folder: Path) -> Index | None:
    found = _optional(folder / INDEX, INDEX_BYTES, VALUES)
    return None if found is None else index_of(found, str(folder / INDEX))


def _tensors(folder: Path, index: Index | None) -> tuple[tuple[StoredTensor, ...] | None, tuple[str, ...]]:
    """(every tensor of the model, or None where files are missing; what there is to say)."""
    names, notes = weight_files(_names(folder), index)
    missing = [name for name in names if not _is_here(folder / name)]
    if not names or missing:
        said = f"{len(missing)} of {len(names)} safetensors files are not here" if names else "no safetensors files"
        return None, (*notes, said)
    found = [(name, read_tensors(folder / name)) for name in names]
    tensors = merged((str(folder / name), each) for name, each in found)
    check_index(index, found, str(folder / INDEX))
    return tensors, notes


def _names(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for _, entry in zip(range(_MOST_FILES + 1), entries, strict=False)]
    except OSError as error:
        raise InputError(Fault(f"cannot be read: {error.strerror}", str(folder))) from None
    if len(names) > _MOST_FILES:
        raise InputError(Fault(f"holds more than {_MOST_FILES:,} files", str(folder)))
    return sorted(name for name in names if name.endswith(_SUFFIX))


def weight_files(names: Sequence[str], index: Index | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(the safetensors files an engine loads of those there are, what it leaves aside), as vLLM picks them.

    The index decides; without one a single model.safetensors, else the shards. Mistral's second copy
    (consolidated...) counts only where it is the only one.
    """
    own = [name for name in names if not name.startswith("adapter_")]
    parts = [name for name in own if not name.startswith("consolidated")]
    if index is not None:
        chosen = list(index.files)
    elif "model.safetensors" in parts:
        chosen = ["model.safetensors"]
    else:
        chosen = _all_shards(parts or own)
    aside = sorted(set(names) - set(chosen))
    return tuple(chosen), (f"not loaded: {', '.join(aside[:4])}{' ...' if len(aside) > 4 else ''}",) if aside else ()


def _all_shards(names: Sequence[str]) -> list[str]:
    """The names with those that their numbering says are missing."""
    chosen = set(names)
    for name in names:
        found = _SHARD.search(name)
        if found and int(found[2]) <= _MOST_FILES:
            stem, width = name[: found.start()], len(found[1])
            chosen |= {f"{stem}-{n:0{width}}-of-{found[2]}{_SUFFIX}" for n in range(1, int(found[2]) + 1)}
    return sorted(chosen)


def _is_here(path: Path) -> bool:
    """Whether a weight file is there, and not the pointer that Git LFS leaves for one not downloaded."""
    if not os.path.lexists(path):
        return False
    descriptor, _ = open_regular(path)
    with os.fdopen(descriptor, "rb") as file:
        return read_bytes(file, len(_POINTER), str(path)) != _POINTER


def check_index(index: Index | None, found: Sequence[tuple[str, tuple[StoredTensor, ...]]], where: str) -> None:
    """Raises InputError where the index names a tensor that its file does not hold."""
    if index is None:
        return
    held = {name: {tensor.name for tensor in tensors} for name, tensors in found}
    for tensor, name in sorted(index.weight_map.items()):
        if tensor not in held.get(name, set()):
            raise InputError(Fault(f"is not in {name}", where, key=tensor[:80]))

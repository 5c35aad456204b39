"""A model from a repository of the Hugging Face hub: its config, index and safetensors headers, never its weights.

Token, cache, endpoint and offline mode are those of huggingface_hub: small files go through its cache, headers are
range requests. Nothing here is reached unless somebody wrote `hf://` before the name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from recommender.catalog.json_file import read_object
from recommender.catalog.local import check_index, read_local, weight_files
from recommender.catalog.repository import (
    CONFIG,
    CONFIG_BYTES,
    CONFIG_VALUES,
    INDEX,
    QUANT_CONFIG,
    Repository,
)
from recommender.catalog.safetensors import (
    INDEX_BYTES,
    VALUES,
    StoredTensor,
    index_of,
    merged,
    read_tensors,
    tensors_of,
)
from recommender.errors import Fault, InputError

SCHEME = "hf://"
_ADDRESS = re.compile(r"(?P<repository>[\w.-]{1,96}(?:/[\w.-]{1,96})?)(?:@(?P<revision>[\w./-]{1,200}))?", re.ASCII)
_AT_ONCE = 8
_MOST_FILES = 2_000  # each is a request; the largest models have a few hundred


def read_hub(name: str) -> Repository:
    """What a hub repository says of its model: asked for now, or as the local cache has it where the hub is off."""
    found = _ADDRESS.fullmatch(name.removeprefix(SCHEME))
    if found is None:
        raise InputError(Fault(f"{name!r} is no repository", key="model", expected="hf://owner/name or ...@revision"))
    try:
        library = import_module("huggingface_hub")
    except ImportError:
        what = f"{name} needs huggingface_hub"
        raise InputError(Fault(what, key="model", expected="pip install 'recommender[hub]'")) from None
    return _Remote(library, found["repository"], found["revision"]).read()


@dataclass(frozen=True, slots=True)
class _Listed:
    """The files of one commit of a repository, by name, with their sizes where the hub says them."""

    commit: str
    files: Mapping[str, int | None]


class _Remote:
    """One repository of the hub, asked through huggingface_hub."""

    def __init__(self, library: Any, repository: str, revision: str | None) -> None:
        self.library, self.repository, self.revision = library, repository, revision
        self.errors = import_module("huggingface_hub.errors")
        self.api = library.HfApi()

    def read(self) -> Repository:
        try:
            listed = self._listed()
            return self._cached() if listed is None else self._asked(listed)
        except InputError:
            raise
        # SafetensorsParsingError and the like derive from Exception alone; whatever the library raises is a refusal.
        except Exception as error:
            raise self._refusal(error) from None

    def _listed(self) -> _Listed | None:
        """What the repository holds, or None where the hub is off or cannot be reached."""
        try:
            info = self.api.model_info(self.repository, revision=self.revision, files_metadata=True)
        except self._typed():
            raise
        except (OSError, self.errors.HTTPError):  # offline mode is an OSError as well
            return None
        return _Listed(info.sha, {each.rfilename: each.size for each in info.siblings or ()})

    def _typed(self) -> tuple[type[Exception], ...]:
        """Refusals of the hub that no cache makes good."""
        return self.errors.RepositoryNotFoundError, self.errors.RevisionNotFoundError, self.errors.DisabledRepoError

    def _asked(self, listed: _Listed) -> Repository:
        config = self._object(listed, CONFIG, CONFIG_BYTES, CONFIG_VALUES)
        if config is None:
            raise self._fault(f"has no {CONFIG}")
        beside = self._object(listed, QUANT_CONFIG, CONFIG_BYTES, CONFIG_VALUES)
        found = self._object(listed, INDEX, INDEX_BYTES, VALUES)
        index = None if found is None else index_of(found, f"{self._shown}/{INDEX}")
        here = sorted(name for name in listed.files if name.endswith(".safetensors") and "/" not in name)
        names, notes = weight_files(here, index)
        tensors = None
        if names and set(names) <= set(here):
            headers = self._headers(listed, names)
            tensors = merged(headers)
            check_index(index, headers, f"{self._shown}/{INDEX}")
        else:
            notes = (*notes, "no complete set of safetensors files")
        return Repository(
            id=self.repository,
            where=f"{self._shown}/{CONFIG}",
            config=config if beside is None else {**config, "_hf_quant_config": beside},
            index=index,
            tensors=tensors,
            source=f"Hugging Face hub, {self.repository} at {listed.commit}",
            notes=notes,
        )

    def _object(self, listed: _Listed, name: str, most_bytes: int, most_values: int) -> dict[str, Any] | None:
        if name not in listed.files:
            return None
        if (listed.files[name] or 0) > most_bytes:  # before it is downloaded
            raise self._fault(f"{name} has {listed.files[name]:,} bytes", f"at most {most_bytes:,}")
        path = self.api.hf_hub_download(self.repository, name, revision=listed.commit)
        return read_object(Path(path), most_bytes=most_bytes, most_values=most_values)

    def _headers(self, listed: _Listed, names: Sequence[str]) -> list[tuple[str, tuple[StoredTensor, ...]]]:
        if len(names) > _MOST_FILES:
            raise self._fault(f"has {len(names):,} safetensors files", f"at most {_MOST_FILES:,}")
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return list(zip(names, pool.map(lambda name: self._header(listed, name), names), strict=True))

    def _header(self, listed: _Listed, name: str) -> tuple[StoredTensor, ...]:
        """The tensors of one file: from the cache where it was downloaded whole, else by a range request."""
        kept = self.library.try_to_load_from_cache(self.repository, name, revision=listed.commit)
        if isinstance(kept, str):
            return read_tensors(Path(kept))
        found = self.api.parse_safetensors_file_metadata(self.repository, name, revision=listed.commit)
        header = {
            key: {"dtype": tensor.dtype, "shape": tensor.shape, "data_offsets": tensor.data_offsets}
            for key, tensor in found.tensors.items()
        }
        return tensors_of(header, f"{self._shown}/{name}", data_bytes=None)

    def _cached(self) -> Repository:
        """The snapshot that the library's cache holds, read like any folder."""
        config = self.api.hf_hub_download(self.repository, CONFIG, revision=self.revision, local_files_only=True)
        folder = Path(config).parent
        source = f"Hugging Face cache, {self.repository} at {folder.name} (the hub was not asked)"
        return read_local(str(folder), self.repository, source)

    @property
    def _shown(self) -> str:
        return f"{SCHEME}{self.repository}{'@' if self.revision else ''}{self.revision or ''}"

    def _fault(self, what: str, expected: str | None = None) -> InputError:
        return InputError(Fault(what, self._shown, expected=expected))

    def _refusal(self, error: Exception) -> InputError:
        errors = self.errors
        if isinstance(error, errors.GatedRepoError):
            return self._fault("is gated", "its terms accepted, and a token: hf auth login, or HF_TOKEN")
        if isinstance(error, errors.RepositoryNotFoundError):
            return self._fault("does not exist, or is private and no token opens it", "hf auth login, or HF_TOKEN")
        if isinstance(error, errors.RevisionNotFoundError):
            return self._fault(f"has no revision {self.revision}")
        if isinstance(error, errors.LocalEntryNotFoundError):
            why = "HF_HUB_OFFLINE is set" if self._is_offline() else "the hub cannot be reached"
            return self._fault(f"is not in the local cache, and {why}")
        first = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        return self._fault(f"cannot be read: {first}")

    def _is_offline(self) -> bool:
        return bool(import_module("huggingface_hub.constants").HF_HUB_OFFLINE)

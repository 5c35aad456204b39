"""Models that are not in the catalog: which names mean a path or a repository of the hub, and reading those."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from recommender.catalog.hub import SCHEME, read_hub
from recommender.catalog.local import is_path, read_local
from recommender.catalog.repository import Repository, described

if TYPE_CHECKING:
    from recommender.catalog.catalog import Catalog, Resolved


def is_elsewhere(name: str) -> bool:
    """Whether a name can only mean a path or a repository of the hub."""
    return name.startswith(SCHEME) or is_path(name)


def exists(name: str) -> bool:
    """Whether a name that the catalog does not know is that of a file or folder."""
    try:
        return Path(name).exists()
    except (OSError, ValueError):
        return False


def read_elsewhere(name: str, catalog: Catalog, kv_bytes_per_token: int | None) -> Resolved:
    """The model of a path or a hub repository. Raises InputError, NotModelledError."""
    repository = _once(name) if name.startswith(SCHEME) else read_local(name)
    return described(repository, catalog, kv_bytes_per_token)


@lru_cache(maxsize=16)
def _once(name: str) -> Repository:
    """A hub repository, asked once a process: its headers are hundreds of requests. Files may change between calls."""
    return read_hub(name)


def hub_advice(name: str) -> str | None:
    """How a name that could be a repository of the hub is looked up there, which is never done unasked."""
    owner, _, rest = name.strip().partition("/")
    could_be = owner and rest and "/" not in rest and not any(sign.isspace() for sign in name.strip())
    return (
        f"a model of the catalog, a path, or {SCHEME}{name.strip()} to ask the Hugging Face hub" if could_be else None
    )

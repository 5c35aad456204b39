"""The catalog's names as people write them: models, GPUs and their families, providers, regions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import combinations

from recommender.catalog.catalog import Catalog
from recommender.errors import nearest
from recommender.units import GB

_LONGEST = 6  # words of a name
_MEANT = 0.65  # likeness from which a suggestion helps rather than puzzles
_PLAIN = re.compile(r"[a-z0-9]+(?:[-._/][a-z0-9]+)*")  # a sign before or behind a word is no part of a name
_PROVIDERS = {
    "amazon": "aws",
    "googlecloud": "gcp",
    "google": "gcp",
    "microsoft": "azure",
    "microsoftazure": "azure",
    "oracle": "oci",
    "oraclecloud": "oci",
    "lambdalabs": "lambda",
    "vast": "vastai",
}


def folded(words: str) -> str:
    """A name without what people leave out or vary: case, spaces, hyphens, dots, slashes."""
    return re.sub(r"[^a-z0-9]+", "", words.casefold())


class Names:
    """Looks up runs of words."""

    def __init__(self, catalog: Catalog) -> None:
        self._regions = {offer.region.casefold(): offer.region for offer in catalog.offers if offer.region != "global"}
        providers = {offer.provider for offer in catalog.offers}
        spoken = {folded(name): name for name in providers}
        spoken |= {word: name for word, name in _PROVIDERS.items() if name in providers}
        written = {name for entry in catalog.models for name in (entry.id, *entry.aliases)}
        self._written = sorted({*written, *(gpu.name for gpu in catalog.gpus), *providers, *self._regions})
        self._kinds: tuple[tuple[str, dict[str, tuple[str, ...]]], ...] = (
            ("model", _models(catalog)),
            ("gpus", _gpus({gpu.name: gpu.memory_bytes_marketing // GB for gpu in catalog.gpus})),
            ("providers", {word: (name,) for word, name in spoken.items()}),
        )

    def at(self, words: Sequence[str], place: int) -> tuple[str, tuple[str, ...], int]:
        """(kind, names, words used) of the longest name that begins at a word; no names and 1 where none does."""
        if words[place] in self._regions:
            return "regions", (self._regions[words[place]],), 1
        for length in range(min(_LONGEST, len(words) - place), 0, -1):
            run = words[place : place + length]
            if not all(map(_PLAIN.fullmatch, run)) or (length > 1 and len(run[0]) == 1):  # "a 100" is no A100
                continue
            for kind, names in self._kinds:
                found = next((names[key] for key in _spellings(kind, folded("".join(run))) if key in names), None)
                if found:
                    return kind, found, length
        return "", (), 1

    def nearest(self, words: str) -> str | None:
        """The nearest name of any kind, where one is near enough to be meant."""
        words = re.sub(r"[^\w\s./-]", "", words)
        near = nearest(words, self._written)
        meant = near and (
            near[0].casefold().startswith(words) or SequenceMatcher(None, words, near[0].casefold()).ratio() >= _MEANT
        )
        return near[0] if meant else None


def _spellings(kind: str, key: str) -> Iterable[str]:
    """A key as it is; for a GPU also without its maker in front and in the singular. A bare number names nothing."""
    keys = [key]
    if kind == "gpus":
        bare = key.removeprefix("nvidia").removeprefix("geforce").removeprefix("amd")
        keys += [bare, bare.removesuffix("s")]
    return (each for each in keys if not each.isdigit())


def _models(catalog: Catalog) -> dict[str, tuple[str, ...]]:
    """Models by id, alias and the last part of the id."""
    tails: dict[str, tuple[str, ...]] = {}
    exact: dict[str, tuple[str, ...]] = {}
    for entry in catalog.models:
        tails.setdefault(folded(entry.id.rpartition("/")[2]), (entry.id,))
        exact |= {folded(name): (entry.id,) for name in (entry.id, *entry.aliases)}
    return tails | exact


def _gpus(memory_gb: Mapping[str, int]) -> dict[str, tuple[str, ...]]:
    """GPUs by name, by family (`h100`: all of them), with their memory (`h100 80gb`) and without RTX (`a6000`)."""
    found: dict[str, list[str]] = {}
    for name in sorted(memory_gb):
        first, *others = name.casefold().split("-")
        for count in range(len(others) + 1):
            for parts in combinations(others, count):
                spoken = folded("".join((first, *parts)))
                short = spoken.removeprefix("rtx")
                sized = [] if "gb" in name.casefold() else [f"{each}{memory_gb[name]}gb" for each in (spoken, short)]
                for key in dict.fromkeys((spoken, short, *sized)):
                    found.setdefault(key, []).append(name)
    return {key: tuple(values) for key, values in found.items()}

"""Which card of the catalog a log was written on: by the names in it, the memory it states, what excludes others."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from recommender.catalog.gpus import Gpu
from recommender.errors import Fault, InputError
from recommender.units import GIB, show_gb
from recommender.verify.log import StartupLog

NEAR = 0.004
"""Share by which the memory of two cards of one type differs in published logs (H100: 79.10-79.33 GiB)."""
ALIKE = 0.025
"""The same where a driver shows it otherwise (WSL2: an RTX 4090 of 23.99 instead of 23.6 GiB): no card is assumed."""

_WORD = re.compile(r"[a-z]+\d+[a-z]*|\d+gb|[a-z]{2,}|\d{3,}")
_SAME = {
    "hbm3": "sxm",
    "sxm2": "sxm",
    "sxm4": "sxm",
    "sxm5": "sxm",
    "geforce": "",
    "nvidia": "",
    "amd": "",
    "tesla": "",
}
_NOISE = frozenset(("", "instinct", "generation", "edition", "graphics", "quadro", "with", "blackwell", "server"))

Defaults = Callable[[Gpu], bool]


@dataclass(frozen=True, slots=True)
class Device:
    """The card, how it was found, and which other cards the log would fit as well."""

    gpu: Gpu
    how: str
    others: tuple[str, ...]


def device_of(log: StartupLog, gpus: Sequence[Gpu], defaults: Defaults, named: Gpu | None = None) -> Device:
    """The card of a log. Raises InputError where the log does not say, or no card of the catalog has that memory.

    `defaults` gives the batched tokens a server takes on a card by default: it excludes cards of another default.
    """
    if named is not None:
        return Device(named, "as asked for", ())
    known = [gpu for gpu in gpus if gpu.memory_bytes is not None and gpu.engine == "vllm"]
    total = log.largest("total")
    said = _named(log.devices, known)
    if said:
        best = _nearest(said, total.value if total else None)
        how = f"named {log.devices[0]!r} in the log"
        return Device(best, how, tuple(gpu.name for gpu in said if gpu != best))
    if total is None:
        unknown = f" (it names {', '.join(log.devices)}, which the catalog does not know)" if log.devices else ""
        raise _unnamed(f"the log does not say on which GPU it was written{unknown}")
    near = _within(known, total.value, NEAR)
    near = [gpu for gpu in near if defaults(gpu)] or near
    if not near:
        raise _unnamed(f"no GPU of the catalog has {show_gb(total.value)}", _within(known, total.value, ALIKE))
    best = _nearest(near, total.value)
    how = f"by its memory of {total.value / GIB:.2f} GiB"
    return Device(best, how, tuple(gpu.name for gpu in near if gpu != best))


def _within(gpus: Iterable[Gpu], total: int, share: float) -> list[Gpu]:
    return [gpu for gpu in gpus if abs((gpu.memory_bytes or 0) - total) <= share * total]


def _unnamed(what: str, alike: Iterable[Gpu] = ()) -> InputError:
    names = " or ".join(gpu.name for gpu in alike) or None
    return InputError(Fault(what, key="--gpu", expected="a GPU of the catalog", suggestion=names))


def _nearest(gpus: Sequence[Gpu], total: int | None) -> Gpu:
    """The card whose memory is nearest (to 0.02 GiB); of equal ones an observed one, then the one of most bandwidth."""

    def order(gpu: Gpu) -> tuple[int, bool, int]:
        away = 0 if total is None else abs((gpu.memory_bytes or 0) - total) * 50 // GIB
        return away, gpu.memory_confidence != "observed", -(gpu.bandwidth_bytes_per_s or 0)

    return min(gpus, key=order)


def _named(devices: Iterable[str], gpus: Sequence[Gpu]) -> list[Gpu]:
    """Cards all of whose name stands in one of the log's; else those whose type does (H200 for H200-SXM)."""
    said = [_words(device) for device in devices]
    whole = [gpu for gpu in gpus if any(set(_words(gpu.name)) <= set(words) for words in said)]
    return whole or [gpu for gpu in gpus if any(_words(gpu.name)[0] in words for words in said)]


def _words(name: str) -> tuple[str, ...]:
    folded = name.casefold().replace("rtx pro ", "rtxpro").replace("rtx ", "rtx")
    words = (_SAME.get(word, word) for word in _WORD.findall(folded))
    return tuple(word for word in words if word not in _NOISE)

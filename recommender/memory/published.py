"""What a checkpoint's own size says that its config does not, and what that makes of the bytes each GPU holds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

from recommender.catalog.models import Checkpoint, Model, Quantisation
from recommender.errors import Fault, InputError
from recommender.memory.shards import Held, Split, file_groups, held
from recommender.memory.speculative import speculative_sizes
from recommender.units import show_gb

_MEASURED = ("index", "repository", "log")
# A file this near to the computed bytes holds what was computed: the rest is headers and rounding of stated sizes.
_SAME_FILE = Fraction(3, 1000)
_LEAST_RATIO = Fraction(4, 5)
_ONE = Fraction(1)


@dataclass(frozen=True, slots=True)
class Published:
    """How a checkpoint's files differ from what the config says: what to multiply by, and what to add.

    `stored` is for quantised tensors, where only the total size is known; `groups` for all bytes of a group, where
    headers were read; `extra` is what belongs to no group of the model, whole on each GPU. `confirmed`: the files' own
    size says that these are the bytes.
    """

    source: str
    stored: Fraction = _ONE
    groups: tuple[tuple[str, Fraction], ...] = ()
    extra: tuple[tuple[str, int], ...] = ()
    confirmed: bool = False

    def held(self, part: Held) -> tuple[tuple[str, int], ...]:
        """The bytes of a GPU by group, sorted, as the files have them."""
        sizes = dict(part.plain)
        for group, size in part.stored:
            sizes[group] = sizes.get(group, 0) + int(size * self.stored)
        for group, factor in self.groups:
            if group in sizes:
                sizes[group] = int(sizes[group] * factor)
        for group, size in self.extra:
            sizes[group] = sizes.get(group, 0) + size
        return tuple(sorted((group, size) for group, size in sizes.items() if size))


@lru_cache(maxsize=256)
def published(model: Model, stored: Quantisation | None, checkpoint: Checkpoint | None) -> Published:
    """What is known of a checkpoint's size, beside what its config says it holds."""
    if stored is not None and stored.method == "bitsandbytes":
        return Published("computed from the config; scales are unfolded as they are loaded, unlike in its files")
    if checkpoint is not None and checkpoint.group_bytes:
        return replace(_by_group(model, stored, checkpoint), confirmed=True)
    if checkpoint is None or checkpoint.bytes_total is None or checkpoint.size_kind not in _MEASURED:
        cut = "; its list of modules left in 16 bit was cut and is continued" if stored and stored.cut else ""
        return Published(f"computed from the config{cut}")
    return _by_total(model, stored, checkpoint, checkpoint.bytes_total)


def _by_total(model: Model, stored: Quantisation | None, checkpoint: Checkpoint, total: int) -> Published:
    """The total, less what is not loaded, spread over the quantised tensors: what is kept in 16 bit is exact."""
    whole = held(model, stored, Split(), 0)
    plain, quantised = sum(size for _, size in whole.plain), sum(size for _, size in whole.stored)
    said = f"{checkpoint.id or checkpoint.model}: {show_gb(total)} by {checkpoint.source}"
    rests = [
        (0, ""),
        *((size, f" less {show_gb(size)} of speculative layers") for size in speculative_sizes(model, stored)),
    ]
    for size, less in rests:
        if abs(Fraction(total - size, plain + quantised) - 1) <= _SAME_FILE:
            return Published(f"computed from the config, agrees with {said}{less}", confirmed=True)
    if stored is None:
        return Published("computed from the config (16 bit, exact)", confirmed=True)
    # A repository with speculative layers holds them: its whole total is used only where there are none.
    for size, less in rests[1:] or rests:
        ratio, factor = Fraction(total - size, plain + quantised), Fraction(total - size - plain, max(1, quantised))
        if quantised and ratio >= _LEAST_RATIO and factor <= Fraction(16, stored.bits):
            return Published(f"published size, {said}{less}", stored=factor, confirmed=True)
    return Published("computed from the config; the published size holds something else and is not used")


def _by_group(model: Model, stored: Quantisation | None, checkpoint: Checkpoint) -> Published:
    """Each group's own bytes. An output matrix that no file has is still held: the engine ties or makes it."""
    computed, read = dict(file_groups(model, stored)), dict(checkpoint.group_bytes)
    if "lm_head" in computed:
        read.setdefault("lm_head", computed["lm_head"])
    groups = sorted({*computed, *read})
    apart = {group: abs(computed.get(group, 0) - read.get(group, 0)) for group in groups}
    negligible = _SAME_FILE * sum(computed.values())
    # Where the totals agree, groups differ only in which of them a name was taken for.
    if abs(sum(read.values()) - sum(computed.values())) <= negligible:
        return Published(f"computed from the config, agrees with the file headers of {checkpoint.id}")
    if sum(read.values()) < _LEAST_RATIO * sum(computed.values()):
        what = f"its files hold {show_gb(sum(read.values()))}, its config describes {show_gb(sum(computed.values()))}"
        raise InputError(Fault(what, checkpoint.id, expected="all of its weights"))
    if any(size > negligible and not read.get(group) for group, size in computed.items()):
        ratio = Fraction(sum(read.values()), sum(computed.values()))
        said = "the names of its tensors do not tell its groups, all are taken in proportion"
        return Published(f"file headers of {checkpoint.id}; {said}", groups=tuple((each, ratio) for each in computed))
    unlike = [group for group in groups if apart[group] > negligible / len(groups)]
    said = ", ".join(f"{group} {show_gb(read.get(group, 0))}" for group in unlike)
    return Published(
        f"file headers of {checkpoint.id}; unlike its config: {said}",
        groups=tuple((group, Fraction(read.get(group, 0), size)) for group, size in sorted(computed.items()) if size),
        extra=tuple((group, read[group]) for group in groups if not computed.get(group)),
    )

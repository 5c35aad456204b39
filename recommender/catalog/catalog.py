"""The catalog: every fact an answer may stand on, loaded from dated files, and looked up by name."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Literal, TypeVar

from recommender.catalog.checkpoints import SIZE_KINDS, read_checkpoints
from recommender.catalog.elsewhere import exists, hub_advice, is_elsewhere, read_elsewhere
from recommender.catalog.entries import Entry, read_entries, read_index, read_values
from recommender.catalog.gpus import Gpu, read_gpus
from recommender.catalog.models import Checkpoint, Model
from recommender.catalog.offers import Offer, read_offers
from recommender.catalog.table import read_text
from recommender.catalog.traces import Trace, read_trace
from recommender.errors import Fault, InputError, NotModelledError, nearest
from recommender.search.plan import CatalogStamp

T = TypeVar("T")
DATA_SUFFIXES = (".csv", ".yaml", ".json")


@dataclass(frozen=True, slots=True)
class Resolved:
    """A model as somebody named it. `checkpoint` is set where the name is a quantised repository of `model`;

    `repository` is then the model as that repository's own config describes it, where its config is known.
    `files` are the weights of a model that is not from the catalog.
    """

    model: Model
    checkpoint: Checkpoint | None = None
    repository: Model | None = None
    files: tuple[Checkpoint, ...] = ()


@dataclass(frozen=True)
class Catalog:
    """GPUs, offers, model entries, checkpoints and trace names, each with its source and date.

    Models and traces are parsed when they are asked for, one at a time.
    """

    gpus: tuple[Gpu, ...]
    offers: tuple[Offer, ...]
    models: tuple[Entry, ...]
    checkpoints: tuple[Checkpoint, ...]
    traces: tuple[str, ...]
    stamp: CatalogStamp
    folder: Path
    _parsed: dict[str, Model] = field(default_factory=dict, repr=False, compare=False)
    _elsewhere: dict[str, Resolved] = field(default_factory=dict, repr=False, compare=False)

    def gpu(self, name: str) -> Gpu:
        """The GPU of that name, whatever its case. Raises InputError with the nearest names."""
        found = self._gpus.get(name.casefold())
        if found is None:
            counted = re.fullmatch(r"\s*([0-9]+) ?x ?(.+)", name, re.IGNORECASE)
            alone = counted[2] if counted else name
            expected = f"its name alone; how many is another key, as in --tp {counted[1]}" if counted else None
            raise _unknown("gpu", name, (gpu.name for gpu in self.gpus), expected, sought=alone)
        return found

    def model(self, name: str) -> Model:
        """The model of a Hugging Face id, an alias or the unique last part of an id, whatever its case.

        A quantised repository gives the model its own config describes; `resolve` gives the model it quantises.
        """
        return self._model(self.entry(name))

    def entry(self, name: str) -> Entry:
        """The unparsed entry of that name. Raises InputError with the nearest names."""
        ids = self._names.get(name.strip().casefold(), ())
        if len(ids) == 1:
            return self._entries[ids[0]]
        if ids:
            raise InputError(Fault(f"{name!r} could be any of {', '.join(ids)}", key="model"))
        if self._checkpoint(name) is not None:
            what = f"{name!r} is known as a checkpoint, but its geometry is not in the catalog"
            raise InputError(Fault(what, key="model", expected="its base model, or a model file of your own"))
        raise _unknown("model", name, [*(entry.id for entry in self.models), *self._names], hub_advice(name))

    def resolve(self, name: str, kv_bytes_per_token: int | None = None) -> Resolved:
        """The model of that name; for a quantised repository its base model and the checkpoint it is.

        A name that can only be a path, or that the catalog does not know and that exists, is a folder or config file;
        `hf://owner/name` is read from the Hugging Face hub. Only of those is a measured `kv_bytes_per_token` taken.
        """
        name = name.strip()
        known = name.casefold() in self._names or self._checkpoint(name) is not None
        if is_elsewhere(name) or (not known and exists(name)):
            found = read_elsewhere(name, self, kv_bytes_per_token)
            self._elsewhere[name] = found
            return found
        if kv_bytes_per_token is not None:
            what = "a measured figure is taken for a folder or hf:// repository of a model class that is not modelled"
            raise InputError(Fault(what, key="kv_bytes_per_token"))
        checkpoint = self._checkpoint(name)
        if name.casefold() not in self._names and checkpoint is not None and checkpoint.model in self._entries:
            return Resolved(self._model(self._entries[checkpoint.model]), checkpoint)
        entry = self.entry(name)
        own = self._model(entry)
        if entry.base is None or entry.base not in self._entries:
            return Resolved(own)
        given = next((c for c in self.checkpoints if c.id == entry.id and c.model == entry.base), None)
        if given is None:
            given = Checkpoint(entry.id, entry.base, own.native, own.quantisation, None, "unknown", own.source)
        given = replace(given, quantisation=own.quantisation, kv_declared=own.kv_declared)
        return Resolved(self._model(self._entries[entry.base]), given, own)

    def checkpoints_of(self, model_id: str) -> tuple[Checkpoint, ...]:
        """Checkpoints of exactly this model (not of models of the same geometry), the best known sizes first."""
        here = [each for each in self._elsewhere.values() if each.checkpoint is None and each.model.id == model_id]
        read = here[-1].files if here else ()
        known = model_id if read and model_id not in self._entries else self.entry(model_id).id
        found = [own for c in self.checkpoints if c.model == known and (own := self._as_published(c)) is not None]
        found = [*(c for c in found if c.id not in {each.id for each in read}), *read]
        return tuple(sorted(found, key=lambda c: (c.weights, c.id is None, SIZE_KINDS.index(c.size_kind), c.id or "")))

    def trace(self, name: str) -> Trace:
        """The request-length data set of that name, whatever its case. Raises InputError with the nearest names."""
        by_name = {known.casefold(): known for known in self.traces}
        if name.casefold() not in by_name:
            raise _unknown("trace", name, self.traces)
        return read_trace(self.folder / "traces" / f"{by_name[name.casefold()]}.json")

    @cached_property
    def _gpus(self) -> dict[str, Gpu]:
        return {gpu.name.casefold(): gpu for gpu in self.gpus}

    @cached_property
    def _entries(self) -> dict[str, Entry]:
        return {entry.id: entry for entry in self.models}

    @cached_property
    def _names(self) -> dict[str, tuple[str, ...]]:
        """Ids by every folded name: ids and aliases, and the last part of an id where nothing else is named so."""
        exact = {name.casefold(): (entry.id,) for entry in self.models for name in (entry.id, *entry.aliases)}
        tails: dict[str, tuple[str, ...]] = {}
        for entry in self.models:
            tail = entry.id.rpartition("/")[2].casefold()
            tails[tail] = (*tails.get(tail, ()), entry.id)
        return {**tails, **exact}

    def _checkpoint(self, name: str) -> Checkpoint | None:
        """The checkpoint whose repository has that id, or that unique last part of an id."""
        folded = name.strip().casefold()
        known = [c for c in self.checkpoints if c.id is not None]
        exact = [c for c in known if c.id.casefold() == folded]  # type: ignore[union-attr]
        tails = [c for c in known if c.id.casefold().rpartition("/")[2] == folded]  # type: ignore[union-attr]
        found = exact or tails
        return found[0] if len({c.id for c in found}) == 1 else None

    def _as_published(self, checkpoint: Checkpoint) -> Checkpoint | None:
        """The checkpoint as its own config states it, where the catalog has that; None where it is not modelled."""
        entry = self._entries.get(checkpoint.id or "")
        if entry is None or entry.base is None:
            return checkpoint
        try:
            own = self._model(entry)
        except NotModelledError:
            return None
        return replace(checkpoint, quantisation=own.quantisation, kv_declared=own.kv_declared)

    def _model(self, entry: Entry) -> Model:
        """The parsed model of an entry, kept for the next time."""
        if entry.id not in self._parsed:
            self._parsed[entry.id] = parse_model(entry, self._entries)
        return self._parsed[entry.id]


def parse_model(entry: Entry, entries: dict[str, Entry]) -> Model:
    """The model of an entry, from its own config values or those of the model it is the same as."""
    # Not at the top: listing GPUs and offers needs no architecture.
    from recommender.catalog.config import model_from_config

    values = read_values(entry)
    config = values.config
    if config is None:
        twin = entries.get(entry.same_as or "")
        config = None if twin is None else read_values(twin).config
    if config is None:
        raise InputError(Fault(f"{entry.id} is the same as {entry.same_as}, which has no config", str(entry.file)))
    return model_from_config(
        config, id=entry.id, aliases=entry.aliases, base=entry.base, native=entry.native, source=values.source
    )


@lru_cache(maxsize=4)
def shipped_catalog(overlays: tuple[str, ...] = ()) -> Catalog:
    """The catalog inside the package, with the user's overlays on top; read once per process."""
    return load_catalog(overlays)


def shipped(kind: Literal["catalogs", "scenarios"]) -> Path:
    """The folder of data that travels with the package (inside it when installed, beside it in a checkout)."""
    package = Path(__file__).resolve().parent.parent
    inside = package / "shipped" / kind
    return inside if inside.is_dir() else package.parent / kind


def load_catalog(overlays: tuple[str, ...] = (), folder: Path | None = None) -> Catalog:
    """The shipped catalog (or that of `folder`) with the rows of `overlays` put over it by key.

    An overlay is a CSV file with the columns of gpus.csv, checkpoints.csv or an offers file, or a YAML file of models.
    Raises InputError with every fault of every file.
    """
    folder = folder or shipped("catalogs")
    faults: list[Fault] = []
    over = overlay_kinds(overlays, faults)
    index = folder / "models" / "index.csv"
    gpus = _merge([folder / "gpus.csv", *over["gpus"]], read_gpus, lambda gpu: gpu.name, faults)
    by_name = {gpu.name: gpu for gpu in gpus}
    price_lists = [*sorted((folder / "offers").glob("*.csv")), *over["offers"]]
    offers = _merge(price_lists, lambda path, noted: read_offers(path, by_name, noted), lambda offer: offer.key, faults)
    models = _merge(
        [index, *over["models"]], lambda path, noted: _entries_of(path, index, noted), lambda e: e.id, faults
    )
    tables = [folder / "checkpoints.csv", *over["checkpoints"]]
    checkpoints = _merge(tables, read_checkpoints, lambda c: (c.model, c.id, c.weights, c.quantisation), faults)
    if faults:
        raise InputError(faults)
    traces = tuple(sorted(path.stem for path in (folder / "traces").glob("*.json")))
    return Catalog(gpus, offers, models, checkpoints, traces, _stamp(folder, overlays, offers), folder)


def _merge(
    paths: Iterable[Path],
    read: Callable[[Path, list[Fault]], Iterable[tuple[int, T]]],
    key: Callable[[T], Hashable],
    faults: list[Fault],
) -> tuple[T, ...]:
    """What the files hold, later files overriding earlier ones by key; a key twice in one file is a fault."""
    merged: dict[Hashable, T] = {}
    for path in paths:
        seen = set()
        for line, item in read(path, faults):
            if key(item) in seen:
                faults.append(Fault(f"{key(item)} appears twice", str(path), line))
            seen.add(key(item))
            merged[key(item)] = item
    return tuple(merged.values())


def _entries_of(path: Path, index: Path, faults: list[Fault]) -> Iterable[tuple[int, Entry]]:
    """The entries of the index, or of an overlay that has none."""
    return read_index(path, faults) if path == index else read_entries(path, faults)


def overlay_kinds(overlays: Iterable[str], faults: list[Fault]) -> dict[str, list[Path]]:
    """The overlay files by what they hold, told by their columns."""
    kinds: dict[str, list[Path]] = {"gpus": [], "offers": [], "models": [], "checkpoints": []}
    marks = {"memory_gb_marketing": "gpus", "instance_type": "offers", "size_kind": "checkpoints"}
    for overlay in overlays:
        path = Path(overlay)
        if path.suffix in (".yaml", ".yml"):
            kinds["models"].append(path)
            continue
        header = read_text(path).split("\n", 1)[0].strip().split(",")
        kind = next((kind for column, kind in marks.items() if column in header), None)
        if kind is None:
            told = " or ".join(f"{column} ({kind})" for column, kind in marks.items())
            expected = f"a YAML file of models, or a CSV file whose first line names {told}"
            faults.append(Fault("is no catalog overlay", overlay, 1, expected=expected))
        else:
            kinds[kind].append(path)
    return kinds


def _stamp(folder: Path, overlays: Iterable[str], offers: Iterable[Offer]) -> CatalogStamp:
    """Version, hash of every data file (and overlay) and range of price dates."""
    digest = hashlib.sha256()
    files = sorted(path for path in folder.rglob("*") if path.suffix in DATA_SUFFIXES or path.name == "VERSION")
    for name, path in [(path.relative_to(folder).as_posix(), path) for path in files] + [
        (Path(overlay).name, Path(overlay)) for overlay in overlays
    ]:
        content = path.read_bytes()
        digest.update(f"{name} {len(content)}\n".encode())
        digest.update(content)
    dates = [offer.as_of for offer in offers if offer.prices]
    return CatalogStamp(
        version=(folder / "VERSION").read_text("utf-8").strip(),
        sha256=digest.hexdigest(),
        oldest_price=min(dates, default=None),
        newest_price=max(dates, default=None),
    )


def _unknown(
    what: str, name: str, choices: Iterable[str], expected: str | None = None, sought: str | None = None
) -> InputError:
    """The refusal of a name that the catalog does not have, with those it has nearest to what was `sought`."""
    known, sought = list(choices), (sought or name).strip()
    near = [choice for choice in known if choice.casefold().startswith(sought.casefold())] if sought else []
    near = near or nearest(sought, known, count=3)
    suggestion = " or ".join(near[:4]) or None
    return InputError(Fault(f"unknown {what} {name!r}", key=what, expected=expected, suggestion=suggestion))

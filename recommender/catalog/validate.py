"""Whether a catalog holds together: every fault of its files, by file and line."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import median

from recommender.catalog.catalog import Catalog, load_catalog, overlay_kinds, parse_model, shipped
from recommender.catalog.checkpoints import read_checkpoints
from recommender.catalog.entries import Entry, read_index
from recommender.catalog.gpus import Gpu, read_gpus
from recommender.catalog.index import index_text
from recommender.catalog.offers import PRICES, Offer, read_offers
from recommender.catalog.table import read_text
from recommender.catalog.traces import KINDS, Trace, read_trace
from recommender.errors import Fault, InputError, NotModelledError, nearest
from recommender.units import GB, MICRO

Priced = tuple[Path, int, Offer]

# Micro-dollars an hour for each GB of GPU memory, any market. All prices shipped lie between 2,600 and 463,000; a price
# in another unit (per minute, per GPU of many, a minimum bid) does not.
LEAST_PER_GB, MOST_PER_GB = 1_000, 600_000
# On-demand prices of one GPU lie within a factor of 8.3 of its median over instance types.
MEDIAN_FACTOR = 10
# ... where at least so many instance types have a price.
MEDIAN_OFFERS = 4


def validate(overlays: tuple[str, ...] = ()) -> str:
    """One line that says what was checked. Raises InputError with every fault of the shipped catalog and overlays."""
    faults = validate_catalog(shipped("catalogs")) or _overlay_faults(overlays)
    if faults:
        raise InputError(faults)
    return summary(load_catalog(overlays))


def _overlay_faults(overlays: tuple[str, ...]) -> list[Fault]:
    """What is implausible or unreadable in overlays whose rows have the right form. Raises InputError where not."""
    catalog = load_catalog(overlays)
    gpus = {gpu.name: gpu for gpu in catalog.gpus}
    usual = usual_prices(catalog.offers)
    faults: list[Fault] = []
    kinds = overlay_kinds(overlays, faults)
    for path in kinds["offers"]:
        for line, offer in read_offers(path, gpus, faults):
            faults.extend(_price_faults((path, line, offer), gpus, usual))
    entries = {entry.id: entry for entry in catalog.models}
    for entry in catalog.models:
        if entry.file in kinds["models"]:
            faults.extend(_config_faults(entry, entries))
    return faults


def summary(catalog: Catalog) -> str:
    """What a catalog holds, in one line."""
    searched = sum(gpu.searched for gpu in catalog.gpus)
    listed = sum(offer.listed for offer in catalog.offers)
    real = sum(checkpoint.id is not None for checkpoint in catalog.checkpoints)
    return (
        f"catalog {catalog.stamp.version}: {len(catalog.gpus)} GPUs ({searched} searched), "
        f"{len(catalog.offers):,} offers ({listed:,} listed), {len(catalog.models)} models, "
        f"{len(catalog.checkpoints)} checkpoints ({real} published), {len(catalog.traces)} traces: no fault"
    )


def validate_catalog(folder: Path) -> list[Fault]:
    """Every fault of the catalog in a folder; empty where it holds together."""
    faults: list[Fault] = []
    gpus = {gpu.name: gpu for gpu in _unique_gpus(folder / "gpus.csv", faults)}
    offers = _all_offers(folder / "offers", gpus, faults)
    usual = usual_prices(offer for _, _, offer in offers)
    for each in offers:
        faults.extend(_price_faults(each, gpus, usual))
    faults.extend(_version_faults(folder / "VERSION", offers))
    models = _all_models(folder / "models", faults)
    _check_checkpoints(folder / "checkpoints.csv", models, faults)
    for path in sorted((folder / "traces").glob("*.json")):
        faults.extend(_trace_faults(path))
    return faults


def usual_prices(offers: Iterable[Offer]) -> dict[str, int]:
    """Median micro-dollars an hour for one GPU by GPU name, over the cheapest region of each instance type."""
    cheapest: dict[tuple[str, str, str], int] = {}
    for offer in offers:
        price = offer.prices.get("on_demand")
        if price is not None and not offer.stale:
            key = (offer.gpu, offer.provider, offer.instance_type)
            cheapest[key] = min(cheapest.get(key, price), price // max(1, offer.gpus))
    by_gpu = defaultdict(list)
    for (gpu, _, _), price in cheapest.items():
        by_gpu[gpu].append(price)
    return {gpu: int(median(prices)) for gpu, prices in by_gpu.items() if len(prices) >= MEDIAN_OFFERS}


def _unique_gpus(path: Path, faults: list[Fault]) -> Iterable[Gpu]:
    """The GPUs of the table, each name once and with its sources."""
    seen: set[str] = set()
    for line, gpu in read_gpus(path, faults):
        if gpu.name.casefold() in seen:
            faults.append(Fault(f"{gpu.name} appears twice", str(path), line, "name"))
        seen.add(gpu.name.casefold())
        if gpu.memory_bytes is not None and not gpu.memory_source and gpu.memory_verified:
            faults.append(Fault("memory without a source", str(path), line, "memory_source"))
        prices = [price for price in (gpu.price_usd_low, gpu.price_usd_typical, gpu.price_usd_high) if price]
        if prices != sorted(prices):
            faults.append(Fault("prices do not rise", str(path), line, "price_usd_typical"))
        if prices and not gpu.price_source:
            faults.append(Fault("price without a source", str(path), line, "price_source"))
        if gpu.multiprocessors is not None and not gpu.multiprocessors_source:
            faults.append(Fault("multiprocessors without a source", str(path), line, "multiprocessors_source"))
        yield gpu


def _all_offers(folder: Path, gpus: Mapping[str, Gpu], faults: list[Fault]) -> list[Priced]:
    """Every offer with its file and line; one provider a file, each key once."""
    found: list[Priced] = []
    seen: set[tuple[str, str, str]] = set()
    for path in sorted(folder.glob("*.csv")):
        for line, offer in read_offers(path, gpus, faults):
            if offer.key in seen:
                faults.append(Fault(f"{' '.join(offer.key)} appears twice", str(path), line))
            if offer.provider != path.stem:
                faults.append(Fault(f"{offer.provider!r} in this file", str(path), line, "provider", path.stem))
            seen.add(offer.key)
            found.append((path, line, offer))
    return found


def _price_faults(each: Priced, gpus: Mapping[str, Gpu], usual: Mapping[str, int]) -> list[Fault]:
    """What is implausible about the prices of one offer."""
    path, line, offer = each
    gpu = gpus.get(offer.gpu)
    if gpu is None or not offer.gpus:
        return []
    faults = []
    memory_gb = gpu.memory_bytes_marketing // GB
    for market, price in offer.prices.items():
        least, most = LEAST_PER_GB * memory_gb, MOST_PER_GB * memory_gb
        if market == "on_demand" and offer.gpu in usual and not offer.stale:
            least = max(least, usual[offer.gpu] // MEDIAN_FACTOR)
            most = min(most, usual[offer.gpu] * MEDIAN_FACTOR)
        if not least <= price / offer.gpus <= most:
            what = f"{price / offer.gpus / MICRO:.4f} USD for one {offer.gpu} hour is implausible"
            expected = f"{least / MICRO:.3f} to {most / MICRO:.2f}"
            faults.append(Fault(what, str(path), line, PRICES[market], expected))
    committed = [
        offer.prices[market] for market in ("reserved_3y", "reserved_1y", "on_demand") if market in offer.prices
    ]
    if committed != sorted(committed):
        faults.append(Fault("a longer commitment is dearer", str(path), line, PRICES["reserved_1y"]))
    return faults


def _version_faults(path: Path, offers: Iterable[Priced]) -> list[Fault]:
    """Whether the version is the newest price date."""
    newest = max((offer.as_of for _, _, offer in offers), default=None)
    version = read_text(path).strip()
    if newest is None or version == newest.isoformat():
        return []
    return [Fault(f"{version!r} is not the newest price date", str(path), 1, expected=newest.isoformat())]


def _all_models(folder: Path, faults: list[Fault]) -> dict[str, Entry]:
    """The entries of the index, which must be current, with unique names and readable configs."""
    index = folder / "index.csv"
    if index_text(folder, faults) != read_text(index):
        faults.append(Fault("is out of date: run python -m recommender.catalog.index", str(index)))
    lines = {entry.id: (line, entry) for line, entry in read_index(index, faults)}
    entries = {model: entry for model, (_, entry) in lines.items()}
    taken: dict[str, str] = {}
    for line, entry in lines.values():
        for name in (entry.id, *entry.aliases):
            owner = taken.setdefault(name.casefold(), entry.id)
            if owner != entry.id:
                faults.append(Fault(f"{name!r} already names {owner}", str(index), line, "aliases"))
        if entry.base is not None and entry.base not in entries:
            near = nearest(entry.base, entries)
            faults.append(
                Fault(
                    f"{entry.base!r} is not in the catalog", str(index), line, "base", None, near[0] if near else None
                )
            )
        faults.extend(_config_faults(entry, entries))
    return entries


def _config_faults(entry: Entry, entries: dict[str, Entry]) -> list[Fault]:
    """What keeps an entry from being read as a model. An architecture that is refused by name is no fault."""
    try:
        parse_model(entry, entries)
    except NotModelledError:
        return []
    except InputError as error:
        return [Fault(f"{entry.id}: {fault}", str(entry.file)) for fault in error.faults]
    return []


def _check_checkpoints(path: Path, models: Mapping[str, Entry], faults: list[Fault]) -> None:
    """Note checkpoints that appear twice, or whose model is a misspelt one of the catalog."""
    seen = set()
    folded = {model.casefold(): model for model in models}
    for line, checkpoint in read_checkpoints(path, faults):
        key = (checkpoint.model, checkpoint.id, checkpoint.weights, checkpoint.quantisation)
        if key in seen:
            faults.append(Fault(f"{checkpoint.id or checkpoint.model} appears twice", str(path), line))
        seen.add(key)
        known = folded.get(checkpoint.model.casefold())
        if known is not None and known != checkpoint.model:
            faults.append(Fault(f"{checkpoint.model!r} is misspelt", str(path), line, "model", suggestion=known))
        if checkpoint.id is None and checkpoint.size_kind not in ("computed", "stated", "index"):
            faults.append(Fault("without an id the size must be computed or stated", str(path), line, "size_kind"))


def _trace_faults(path: Path) -> list[Fault]:
    """What does not add up in a trace."""
    try:
        trace = read_trace(path)
    except InputError as error:
        return list(error.faults)
    return [Fault(what, str(path)) for what in _trace_problems(trace, path.stem)]


def _trace_problems(trace: Trace, stem: str) -> Iterable[str]:
    if trace.name != stem:
        yield f"is named {trace.name!r}, not as its file"
    if trace.kind not in KINDS:
        yield f"kind {trace.kind!r} is not one of {', '.join(KINDS)}"
    if not trace.licence or not trace.source:
        yield "has no licence or no source"
    if sum(count for count, _, _ in trace.cells) != trace.requests:
        yield f"cells do not add up to {trace.requests:,} requests"
    for side in (trace.input, trace.output, trace.total):
        tokens = [point for _, point in side.quantiles]
        if tokens != sorted(tokens) or not side.minimum <= tokens[0] <= tokens[-1] <= side.maximum:
            yield "quantiles do not rise from the minimum to the maximum"

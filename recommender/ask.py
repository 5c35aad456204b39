"""A question in a sentence turned into scenarios: a table of patterns, the catalog's names, and nothing guessed.

Every word must be understood or be one of the plain words that carry no condition; the rest is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from recommender.ask_grammar import either_or_faults, not_understood, take_exclusions, take_limits
from recommender.ask_items import take_items
from recommender.ask_names import Names
from recommender.ask_sentence import Item, Sentence
from recommender.catalog.catalog import Catalog, load_catalog
from recommender.errors import Fault, InputError
from recommender.report.words import joined
from recommender.scenario import Scenario, Search
from recommender.scenario_file.forms import WEIGHTS
from recommender.scenario_file.load import scenario_from_mapping
from recommender.units import plural

BOTH_MODELS = ("llama-3.1-8b", "llama-3.1-70b")  # where the question names none
MAX_CHARACTERS = 1_000


_SAID = {
    "concurrency": "the number of requests at once",
    "fixed": "the length of the requests",
    "usd_per_month": "the budget",
    "max_gpus": "the number of GPUs",
    "kv_dtypes": "the KV cache dtype",
    "rate_per_s": "the rate of requests",
    "engine": "the engine",
    "ttft_ms": "the time to the first token",
    "percentile": "the percentile of the time to the first token",
    "tpot_ms": "the time per output token",
    "output_tokens_per_s": "the tokens a second of all requests",
}
_LIMITS = ("ttft_ms", "percentile", "tpot_ms", "output_tokens_per_s")


@dataclass(slots=True)
class _Read:
    """What was understood so far: keys of a scenario with their values, and what there is to say about them."""

    keys: dict[str, Any] = field(default_factory=dict)
    excluded: list[Item] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)

    def set(self, key: str, value: Any) -> None:
        """One more key; the same key with another value is a fault."""
        if self.keys.setdefault(key, value) != value:
            self.faults.append(Fault(f"{_SAID[key]} is said twice, and differently", expected="one of the two"))

    def add(self, key: str, values: Iterable[Any]) -> None:
        """More values of a key that holds several."""
        held = self.keys.setdefault(key, [])
        held += [value for value in values if value not in held]


@dataclass(frozen=True, slots=True)
class Question:
    """The scenarios that a sentence asks, and how it was read where that is not plain."""

    scenarios: tuple[Scenario, ...]
    notes: tuple[str, ...]


def parse_question(
    text: str, model: str | None = None, *, partial: bool = False, catalog: Catalog | None = None
) -> list[Scenario]:
    """The scenarios that a sentence asks: one, or two where it names no model. Raises InputError with every fault."""
    return list(read_question(text, model, partial=partial, catalog=catalog or load_catalog()).scenarios)


def read_question(text: str, model: str | None, *, partial: bool, catalog: Catalog) -> Question:
    """The scenarios and the notes; `partial` ignores what is not understood, and what that may turn round."""
    if len(text) > MAX_CHARACTERS:
        raise InputError(Fault(f"the question is longer than {MAX_CHARACTERS:,} characters", expected="a sentence"))
    names, sentence = Names(catalog), Sentence(text)
    take_items(sentence, names)
    take_limits(sentence)
    take_exclusions(sentence)
    unknown = not_understood(sentence, names)
    ignored = {mark for each in unknown for mark in each.turned} if partial else set()
    read = _Read(faults=list(either_or_faults(sentence)))
    _meanings(sentence, read, ignored)
    read.notes += [f"ignored: {each.words!r} is not understood" for each in unknown if partial and each.ignorable]
    read.faults += [each.fault for each in unknown if not (partial and each.ignorable)]
    _without_excluded(read, catalog)
    models = _models(read, model)
    _require(read)
    if read.faults:
        raise InputError(read.faults)
    scenarios = tuple(scenario_from_mapping(_mapping(read, name, catalog), "question", catalog) for name in models)
    return Question(scenarios, tuple(read.notes))


def _meanings(sentence: Sentence, read: _Read, ignored: set[str]) -> None:
    """Every item of the sentence into the keys it stands for, in order."""
    words = sentence.words()
    for place, word in enumerate(words):
        item = sentence.item(word)
        if item is None or word in ignored:
            continue
        if item.kind == "cards":
            following = sentence.item(words[place + 1]) if place + 1 < len(words) else None
            _cards(read, item, following.text if following and following.kind == "gpus" else "")
        else:
            _MEANINGS.get(item.kind, _nothing)(read, item)
        read.notes += [item.note] if item.note else []


def _nothing(read: _Read, item: Item) -> None:
    """Words that belong together and carry no condition, or whose fault is reported with the others."""


def _names(read: _Read, item: Item) -> None:
    read.add(item.kind, item.values)


def _sets(key: str) -> Callable[[_Read, Item], None]:
    return lambda read, item: read.set(key, item.values[0])


def _first_token(read: _Read, item: Item) -> None:
    read.set("ttft_ms", item.values[0])
    for percentile in item.values[1:]:
        read.set("percentile", percentile)


def _cards(read: _Read, item: Item, gpu: str) -> None:
    """The most GPUs; a bare number of them is read as a bound, too, and that is said."""
    most = item.values[0] - (item.bound == "<")
    said = f"{item.text} {gpu}".strip()
    if most < 1:
        read.faults.append(Fault(f"{said!r} leaves no GPU", expected="at least 1"))
        return
    read.set("max_gpus", most)
    if item.bound != "<=":
        read.notes.append(f"{said!r} is read as: at most {plural(most, 'GPU')}{' of that kind' if gpu else ''}")


def _markets(read: _Read, item: Item) -> None:
    if len(item.values) > 1:
        what = f"{item.text!r} does not say for how long"
        read.faults.append(Fault(what, expected="'reserved 1 year' or 'reserved 3 years'"))
        return
    read.add("markets", item.values)


def _kv(read: _Read, item: Item) -> None:
    read.set("kv_dtypes", list(item.values))


def _native(read: _Read, _: Item) -> None:
    read.set("forbid", ["kv_dtype", "weights"])


def _quality_first(read: _Read, _: Item) -> None:
    read.set("rank", "quality_first")


def _excluded(read: _Read, item: Item) -> None:
    read.excluded.append(item)


_MEANINGS: dict[str, Callable[[_Read, Item], None]] = {
    "model": _names,
    "gpus": _names,
    "providers": _names,
    "regions": _names,
    "weights": _names,
    "markets": _markets,
    "kv": _kv,
    "native": _native,
    "quality": _quality_first,
    "money": _sets("usd_per_month"),
    "total": _sets("fixed"),
    "split": _sets("fixed"),
    "concurrency": _sets("concurrency"),
    "rate": _sets("rate_per_s"),
    "ttft": _first_token,
    "tpot": _sets("tpot_ms"),
    "pace": _sets("tpot_ms"),
    "throughput": _sets("output_tokens_per_s"),
    "engine": _sets("engine"),
    "excluded": _excluded,
}


def _without_excluded(read: _Read, catalog: Catalog) -> None:
    """What is kept out leaves what is named of its kind, or all else that the catalog has."""
    for item in read.excluded:
        for kind in dict.fromkeys(kind for kind, _ in item.values):
            out = [value for each, value in item.values if each == kind]
            if kind == "markets":
                _without_markets(read, item, out)
            elif kind == "kv":
                read.set("kv_dtypes", ["auto"])
            else:
                _without_names(read, item, kind, out, catalog)


def _without_names(read: _Read, item: Item, kind: str, out: Sequence[str], catalog: Catalog) -> None:
    every = {
        "gpus": [gpu.name for gpu in catalog.gpus if gpu.searched],
        "providers": sorted(offer.provider for offer in catalog.offers),
        "regions": sorted(offer.region for offer in catalog.offers),
        "weights": list(WEIGHTS),
    }[kind]
    named = read.keys.get(kind)
    left = [name for name in named or dict.fromkeys(every) if name not in out]
    if not left:
        read.faults.append(Fault(f"{item.text!r} leaves nothing of what is asked for"))
    if named is None:
        read.keys["any_provider"] = read.keys.get("any_provider", False) or kind == "providers"
        both = kind == "weights" and "fp8" in out and "weights" not in item.text and "kv_dtypes" not in read.keys
        read.keys |= {"kv_dtypes": ["auto"]} if both else {}
        also = ", and no fp8 KV cache" if both else ""
        read.notes.append(f"{item.text!r} is read as: any of the catalog's {_SORTS[kind]} but {joined(out)}{also}")
    read.keys[kind] = left


_SORTS = {"gpus": "GPUs", "providers": "providers", "regions": "regions", "weights": "weight dtypes"}


def _without_markets(read: _Read, item: Item, out: Sequence[str]) -> None:
    """On demand is what is searched unless another way of paying is named, so only that needs one."""
    left = [market for market in read.keys.get("markets", Search().markets) if market not in out]
    if not left:
        expected = "one that is wanted, such as 'spot' or 'reserved 1 year'"
        read.faults.append(Fault(f"{item.text!r} leaves no way of paying", expected=expected))
    elif "markets" in read.keys:
        read.keys["markets"] = left
    else:
        read.notes.append(f"{item.text!r} changes nothing: only prices on demand are searched unless others are named")


def _models(read: _Read, model: str | None) -> Iterable[str]:
    named = read.keys.get("model", [])
    if len(named) > 1:
        read.faults.append(Fault(f"names several models: {', '.join(named)}", expected="one a question"))
    if model is not None:
        if named:
            read.faults.append(Fault(f"names {named[0]} beside --model {model}", expected="one of the two"))
        return (model,)
    if not named:
        read.notes.append(f"no model is named: answered for {BOTH_MODELS[0]} and {BOTH_MODELS[1]}")
    return named or BOTH_MODELS


def _require(read: _Read) -> None:
    keys = read.keys
    if "concurrency" in keys and "rate_per_s" in keys:
        what = "the question says how many requests are at once, and how many come in a time"
        read.faults.append(Fault(what, expected="one of the two"))
    elif "concurrency" not in keys and "rate_per_s" not in keys:
        expected = "'50 concurrent' or '5 requests per second'"
        expected += "; `recommender budget` says how many a sum buys" if "usd_per_month" in keys else ""
        read.faults.append(Fault("the question does not say how many requests at once", expected=expected))
    if "fixed" not in keys:
        expected = "'8K requests' or '2K in 500 out'"
        read.faults.append(Fault("the question does not say how long the requests are", expected=expected))
    elif not isinstance(keys["fixed"], dict) and ("rate_per_s" in keys or any(key in keys for key in _LIMITS)):
        what = "how fast requests are answered depends on how much of them is prompt, which a total does not say"
        read.faults.append(Fault(what, expected="'7K in 1K out'"))


def _mapping(read: _Read, model: str, catalog: Catalog) -> dict[str, Any]:
    """What was read, as the keys of a scenario file."""
    keys = read.keys
    searched = ("gpus", "providers", "regions", "markets", "max_gpus", "weights", "kv_dtypes")
    search = {key: keys[key] for key in searched if key in keys}
    wanted = () if keys.get("any_provider") else keys.get("providers", ())
    sold = {offer.segment for offer in catalog.offers if offer.provider in wanted}
    if not sold <= set(Search().segments):  # a provider that is asked for by name is searched, whatever its kind
        search["segments"] = sorted({*Search().segments, *sold})
    load = {key: keys[key] for key in ("concurrency", "rate_per_s") if key in keys}
    mapping: dict[str, Any] = {
        "model": model,
        "workload": {**load, "lengths": {"fixed": keys["fixed"]}},
        "sla": {key: keys[key] for key in _LIMITS if key in keys} or None,
        "engine": keys.get("engine"),
        "search": search or None,
        "rank": keys.get("rank"),
        "limits": {"usd_per_month": keys["usd_per_month"]} if "usd_per_month" in keys else None,
        "adjustments": {"forbid": keys["forbid"]} if "forbid" in keys else None,
    }
    return {key: value for key, value in mapping.items() if value is not None}

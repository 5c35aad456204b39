"""A question in a sentence turned into scenarios: a table of patterns, the catalog's names, and nothing guessed.

Every word must be understood or be one of the plain words that carry no condition; the rest is refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from recommender.ask_names import Names
from recommender.ask_words import FILLERS, HINTS, NUMBERS
from recommender.catalog.catalog import Catalog, load_catalog
from recommender.errors import Fault, InputError
from recommender.scenario import Scenario, Search
from recommender.scenario_file.load import scenario_from_mapping
from recommender.units import HOURS_PER_MONTH, HOURS_PER_YEAR, parse_tokens

BOTH_MODELS = ("llama-3.1-8b", "llama-3.1-70b")  # where the question names none

_NUMBER = r"(\d[\d,]*(?:\.\d+)?)"
_COUNT = r"(\d[\d,]*k?)"
_TOKENS = r"(\d[\d,]*(?:\.\d+)?\s?k?)"
_PEOPLE = r"(?:users?|people|sessions?|clients?|agents?|developers?|conversations?|chats?|calls?|streams?)"
_MARKS = {0xD7: "x", 0x2019: "'"}  # a multiplication sign, a typographic apostrophe
_AT_ONCE = r"(?:at once|concurrently|simultaneously|at the same time|in parallel)"
_REQUESTS = r"(?:requests?|prompts? and answers?|sequences?)"
_AT_MOST = r"(?:(?:under|below|less than|at most|max(?:imum)?|up to|within|no more than|not more than)\s+)?"
_UNDER = rf"(?:(?:with|for|a|budget|of)\s+)*{_AT_MOST}"
_PER = r"\s*(?:/|per |an |a |each )\s*(h|hr|hour|mo|month|yr|year)\b(?: budget)?"


@dataclass(slots=True)
class _Read:
    """What was understood so far: keys of a scenario with their values, and what there is to say about them."""

    keys: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)

    def set(self, key: str, value: Any) -> None:
        """One more key; the same key with another value is a fault."""
        if self.keys.setdefault(key, value) != value:
            self.faults.append(Fault(f"{key} is said twice: {self.keys[key]} and {value}"))

    def add(self, key: str, value: Any) -> None:
        """One more value of a key that holds several."""
        values = self.keys.setdefault(key, [])
        if value not in values:
            values.append(value)


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
    """The scenarios and the notes; `partial` ignores what is not understood and says so in a note."""
    read, names = _Read(), Names(catalog)
    left = _take_patterns(_take_names(_plain(text), names, read), read)
    unknown = _not_understood(left, names)
    if partial:
        read.notes += [f"ignored: {fault.what}" for fault in unknown]
    else:
        read.faults += unknown
    models = _models(read, model)
    _require(read)
    if read.faults:
        raise InputError(read.faults)
    scenarios = tuple(scenario_from_mapping(_mapping(read, name, catalog), "question", catalog) for name in models)
    return Question(scenarios, tuple(read.notes))


def _plain(text: str) -> str:
    """The sentence in lower case, number words as digits, every mark between words as a comma of its own."""
    text = re.sub(r"\s+", " ", text.casefold().translate(_MARKS))
    text = re.sub(r"[.,](?!\d)|(?<!\d)[.,]|[?!;:()\"]", " , ", text)
    text = re.sub(r"\b(\d+)x(?=[a-z])", r"\1x ", text)
    return re.sub(r"[a-z]+", lambda word: NUMBERS.get(word[0], word[0]), text)


def _take_names(text: str, names: Names, read: _Read) -> str:
    """The text without the catalog's names, longest first; what they mean goes into `read`."""
    words, place = text.split(), 0
    left: list[str] = []
    while place < len(words):
        kind, values, length = names.at(words, place)
        if kind == "gpus":
            _cards(read, left, " ".join(words[place : place + length]))
        for value in values:
            read.add(kind, value)
        left += [] if values else [words[place]]
        place += length
    return " ".join(left)


def _cards(read: _Read, before: list[str], gpu: str) -> None:
    """What stands before a GPU: how many, or whose."""
    if before and (count := re.fullmatch(r"(\d+)x?", before[-1])):
        before.pop()
        read.set("max_gpus", int(count[1]))
        read.notes.append(f"'{count[0]} {gpu}' is read as: at most {count[1]} GPUs of that kind")
    if before and before[-1] in ("my", "our"):
        read.faults.append(Fault(f"'{before[-1]} {gpu}' is not understood", expected="`hardware:` in a scenario file"))


def _tokens(text: str) -> int:
    return parse_tokens(text.replace(" ", ""))


def _count(text: str) -> int:
    """A number of requests: here, unlike in tokens, k is a thousand."""
    number = int(text.rstrip("k").replace(",", ""))
    return number * 1000 if text.endswith("k") else number


def _split(read: _Read, found: re.Match[str]) -> None:
    read.set("fixed", {"input": _tokens(found[1]), "output": _tokens(found[2])})


def _total(read: _Read, found: re.Match[str]) -> None:
    read.set("fixed", _tokens(found[1]))


def _concurrency(read: _Read, found: re.Match[str]) -> None:
    read.set("concurrency", _count(found[1]))


def _people(read: _Read, found: re.Match[str]) -> None:
    read.set("concurrency", _count(found[1]))
    read.notes.append(f"{found[0].strip()!r} is read as {_count(found[1]):,} requests at once")


def _money(read: _Read, found: re.Match[str]) -> None:
    amount = Decimal(found[1].replace(",", "")) * (1000 if found[2] else 1)
    hours = {"h": 1, "m": HOURS_PER_MONTH, "y": HOURS_PER_YEAR}[found[3][0]]
    month = (amount * HOURS_PER_MONTH / hours).quantize(Decimal("0.000001"))
    read.set("usd_per_month", month)


def _money_without_period(read: _Read, found: re.Match[str]) -> None:
    read.faults.append(Fault(f"{found[0].strip()!r} is not understood", expected="$20/h or $5000 a month"))


def _market(read: _Read, found: re.Match[str]) -> None:
    read.add("markets", "spot" if found[0].lstrip().startswith("spot") else "on_demand")


def _reserved(read: _Read, found: re.Match[str]) -> None:
    read.add("markets", f"reserved_{found[1] or found[2]}y")


def _kv(read: _Read, _: re.Match[str]) -> None:
    read.set("kv_dtypes", ["fp8"])


def _native(read: _Read, _: re.Match[str]) -> None:
    read.set("forbid", ["kv_dtype", "weights"])


def _only(read: _Read, found: re.Match[str]) -> None:
    read.set("weights", [found[1]])
    read.set("kv_dtypes", ["auto"])


def _weights(read: _Read, found: re.Match[str]) -> None:
    bits = {"4": ["int4", "nvfp4", "mxfp4"], "8": ["fp8", "int8"]}
    read.set("weights", bits.get(found[1][0]) or [found[1]])


def _nothing(read: _Read, _: re.Match[str]) -> None:
    """Words that belong together and carry no condition."""


def _quality_first(read: _Read, _: re.Match[str]) -> None:
    read.set("rank", "quality_first")


_PATTERNS: tuple[tuple[str, Callable[[_Read, re.Match[str]], None]], ...] = (
    # money
    (rf"{_UNDER}(?:\$|usd ?){_NUMBER}(k)?(?: usd| dollars?)?{_PER}", _money),
    (rf"{_UNDER}{_NUMBER}(k)? ?(?:\$|usd|dollars?){_PER}", _money),
    (rf"{_UNDER}(?:\$|usd ?){_NUMBER}k?(?: usd| dollars?)?", _money_without_period),
    # lengths
    (
        rf"{_TOKENS}[ -]?(?:tokens? )?(?:of )?(?:in|inputs?|prompts?)\b(?: tokens?)?(?: ?[,+/&]| and| plus| with)*"
        rf" ?{_TOKENS}[ -]?(?:tokens? )?(?:of )?(?:out|outputs?|generated|completions?|answers?)\b(?: tokens?)?",
        _split,
    ),
    (rf"(?:of )?{_AT_MOST}{_TOKENS}[ -]?tokens?\b(?: each| long| total| context| {_REQUESTS})*", _total),
    (rf"(?:of )?{_AT_MOST}(\d[\d.,]*\s?k)[ -]?(?:{_REQUESTS}|context(?: length)?|long|total|length|each)\b", _total),
    (rf"(?:context(?: length)?|max[- ]model[- ]len|length)(?: of)? {_TOKENS}\b", _total),
    # requests at once
    (rf"{_COUNT} (?:concurrent|simultaneous|parallel)\b(?: {_PEOPLE}| {_REQUESTS})?", _concurrency),
    (rf"{_COUNT} (?:{_REQUESTS}|{_PEOPLE}) {_AT_ONCE}", _concurrency),
    (rf"(?:concurrency|concurrent {_REQUESTS})(?: of)? {_COUNT}\b", _concurrency),
    (rf"{_COUNT} {_PEOPLE}\b", _people),
    (rf"(\d[\d,]*) {_REQUESTS}\b(?! (?:per|a|each|/))", _people),
    (r"(\d[\d,]*)\s*x?(?=\s*\x00)", _people),  # `50 8K requests`: the count before a length that is read already
    (r"(?:each |of )?(\d[\d.]*k)(?=\s|$)", _total),
    (rf"{_AT_ONCE}|least expensive|most affordable|min(?:imum|imal)? (?:cost|price)", _nothing),
    # precision, quality and payment
    (r"fp8 kv(?:[- ]?cache)?\b|kv(?:[- ]?cache)? (?:in |as )?fp8", _kv),
    (r"(?:no|without|not?) quanti[sz](?:ation|ed|ing)|un-?quanti[sz]ed|full[- ]precision|quality untouched", _native),
    (r"(bf16|fp16) only|only (?:in )?(?:bf16|fp16)", _only),
    (r"(fp8|bf16|fp16|int8|int4|nvfp4|mxfp4|[48][- ]?bit)\b(?: weights| only| quanti[sz](?:ed|ation))*", _weights),
    (r"quality[- ]first|best quality", _quality_first),
    (r"spot(?: (?:instances?|prices?|market))?\b", _market),
    (r"on[- ]demand\b", _market),
    (r"(?:([13])[- ]years? )?(?:reserved|commit(?:ment|ted))(?: for ([13]) years?)?", _reserved),
)


def _take_patterns(text: str, read: _Read) -> str:
    """The text without what the patterns understand; a mark stays where a length stood."""
    for pattern, meaning in _PATTERNS:
        mark = "\x00" if meaning in (_split, _total) else "\x01"

        def take(found: re.Match[str], meaning: Callable[..., None] = meaning, mark: str = mark) -> str:
            meaning(read, found)
            return f" {mark} "

        text = re.sub(rf"(?<![\w.$-])(?:{pattern})(?!\w)", take, text)
    return text


def _not_understood(text: str, names: Names) -> list[Fault]:
    """A fault for each run of words that may be a condition."""
    runs: list[list[str]] = [[]]
    for word in text.split():
        if word in FILLERS or not re.search(r"\w", word):
            runs.append([])
        else:
            runs[-1].append(word)
    return [_fault(" ".join(run), names) for run in runs if run]


def _fault(words: str, names: Names) -> Fault:
    hint = next((hint for pattern, hint in HINTS if re.search(pattern, words)), None)
    return Fault(f"{words!r} is not understood", expected=hint, suggestion=None if hint else names.nearest(words))


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
    if "concurrency" not in read.keys:
        read.faults.append(Fault("the question does not say how many requests at once", expected="'50 concurrent'"))
    if "fixed" not in read.keys:
        expected = "'8K requests' or '2K in 500 out'"
        read.faults.append(Fault("the question does not say how long the requests are", expected=expected))


def _mapping(read: _Read, model: str, catalog: Catalog) -> dict[str, Any]:
    """What was read, as the keys of a scenario file."""
    keys = read.keys
    searched = ("gpus", "providers", "regions", "markets", "max_gpus", "weights", "kv_dtypes")
    search = {key: keys[key] for key in searched if key in keys}
    sold = {offer.segment for offer in catalog.offers if offer.provider in keys.get("providers", ())}
    if not sold <= set(Search().segments):  # a provider that is asked for by name is searched, whatever its kind
        search["segments"] = sorted({*Search().segments, *sold})
    mapping: dict[str, Any] = {
        "model": model,
        "workload": {"concurrency": keys["concurrency"], "lengths": {"fixed": keys["fixed"]}},
        "search": search or None,
        "rank": keys.get("rank"),
        "limits": {"usd_per_month": keys["usd_per_month"]} if "usd_per_month" in keys else None,
        "adjustments": {"forbid": keys["forbid"]} if "forbid" in keys else None,
    }
    return {key: value for key, value in mapping.items() if value is not None}

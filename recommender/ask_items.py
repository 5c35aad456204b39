"""What a question may say, as patterns: money, lengths, requests at once, GPUs counted, precision and payment."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import Decimal

from recommender.ask_names import Names
from recommender.ask_sentence import Item, Sentence, marks_of
from recommender.ask_speed import FIGURE, SPEED_PATTERNS
from recommender.ask_words import OWN_CARDS
from recommender.errors import Fault
from recommender.units import HOURS_PER_MONTH, HOURS_PER_YEAR, parse_decimal, parse_tokens

_NUMBER, _COUNT, _TOKENS, _THOUSANDS = (rf"({FIGURE}{unit})" for unit in ("", "k?", " ?[km]?", " ?[km]"))
_WHOLE = r"([0-9]{1,7})"
_PEOPLE = r"(?:users?|people|sessions?|clients?|agents?|developers?|conversations?|chats?|calls?|streams?)"
_REQUESTS = r"(?:requests?|prompts? and answers?|sequences?)"
_AT_ONCE = r"(?:at once|concurrently|simultaneously|at the same time|in parallel)"
_NO_RATE = r"(?! ?(?:/|per|a|an|each|every) ?(?:s|secs?|seconds?|mins?|minutes?|h|hr|hours?|days?|weeks?|months?)\b)"

_DOLLARS = (
    rf"(?:(?:us)?\$|usd) ?{_NUMBER} ?(k)?(?: ?(?:usd|dollars?))?",
    rf"{_NUMBER} ?(k)? ?(?:us\$|\$|usd|dollars?)",
)
_PER = r"(?: ?/ ?| per | an | a | each | every | )(hour|hourly|hr|h|month|monthly|mo|mth|year|yearly|yr)(?: budget)?"
_EACH = (
    r"(?: each|(?: ?/ ?| per | a | an | for each | for every )(?:gpu|card|replica|instance|machine|server|node|user))"
)

_IN = r"(?:in|inputs?|prompts?|isl)"
_OUT = r"(?:out|outputs?|generated|completions?|answers?|osl)"
_UNIT = r"(?:[ -]?tokens?)?"
_A_REQUEST = r"(?: each|(?: per | a | an |/)(?:requests?|users?|sequence))?"
_AND = r"(?:(?: (?:[,+/]|and|plus|with|then))* |[+/])"
_OF = r"(?: tokens?| lengths?)?(?: ,| of| at| is)?[ =]"

_WEIGHTS = r"(fp8|bf16|fp16|int8|int4|nvfp4|mxfp4|[48][- ]?bit)"
_BITS = {"4": ("int4", "nvfp4", "mxfp4"), "8": ("fp8", "int8")}
_YEARS = r"([13])[- ]?(?:years?|yrs?|y)"
_PRICES = r"(?: (?:instances?|prices?|pricing|market|gpus?))?"
_RESERVED = r"(?:reserved|reservations?|commit(?:ment|ted)?)"
_TOTAL = marks_of("total", "split")
_GPUS = marks_of("gpus")

Meaning = Callable[[re.Match[str]], Sequence[Item] | None]


def take_items(sentence: Sentence, names: Names) -> None:
    """Marks for everything in the sentence that is known on its own."""
    _take_names(sentence, names)
    for pattern, meaning in (*SPEED_PATTERNS, *_PATTERNS):
        sentence.take(pattern, meaning)
    sentence.take(rf"{_WHOLE}(?: ?x)?(?= {_GPUS})", _cards)
    sentence.take(rf"have(?= {marks_of('concurrency')})", _of("nothing"))
    sentence.take(rf"(?:my|our|own|existing)(?: own| existing)?(?: {marks_of('cards')})? {_GPUS}", _owned(sentence))


def _take_names(sentence: Sentence, names: Names) -> None:
    """The catalog's names, longest first."""
    words, place = sentence.words(), 0
    marked: list[str] = []
    while place < len(words):
        kind, values, length = names.at(words, place)
        text = " ".join(words[place : place + length])
        marked.append(sentence.mark(Item(kind, values, text)) if values else text)
        place += length
    sentence.text = " ".join(marked)


def _refused(text: str, expected: str) -> Item:
    return Item("unknown", (), text, fault=Fault(f"{text!r} is not understood", expected=expected))


def _money(found: re.Match[str]) -> list[Item]:
    amount = parse_decimal(found[1]) * (1000 if found[2] else 1)
    hours = {"h": 1, "m": HOURS_PER_MONTH, "y": HOURS_PER_YEAR}[found[3][0]]
    month = (amount * HOURS_PER_MONTH / hours).quantize(Decimal("0.000001"))
    return [Item("money", (month,), found[0])]


def _money_each(found: re.Match[str]) -> list[Item]:
    return [_refused(found[0], "the price of the whole set-up, such as '$20/h'")]


def _money_without_period(found: re.Match[str]) -> list[Item]:
    return [_refused(found[0], "$20/h or $5000 a month")]


def _split(found: re.Match[str]) -> list[Item]:
    sides = {"input": _tokens(found[1]), "output": _tokens(found[2])}
    if None in sides.values():
        return [_refused(found[0], "whole tokens, such as 8192 or 8K")]
    return [Item("split", (sides,), found[0])]


def _total(found: re.Match[str]) -> list[Item]:
    tokens = _tokens(found[1])
    return [_refused(found[0], "whole tokens, such as 8192 or 8K") if tokens is None else _length(tokens, found[0])]


def _length(tokens: int, text: str) -> Item:
    return Item("total", (tokens,), text)


def _tokens(text: str) -> int | None:
    try:
        return parse_tokens(text.replace(" ", ""))
    except ValueError:
        return None


def _people_count(text: str) -> int | None:
    """Here, unlike in tokens, k is a thousand; None where that is no whole number."""
    number = parse_decimal(text.removesuffix("k")) * (1000 if text.endswith("k") else 1)
    return int(number) if number == int(number) else None


def _concurrency(found: re.Match[str]) -> list[Item]:
    count = _people_count(found[1])
    return [_refused(found[0], "a whole number") if count is None else Item("concurrency", (count,), found[0])]


def _people(found: re.Match[str]) -> list[Item]:
    count = _people_count(found[1])
    if count is None:
        return [_refused(found[0], "a whole number")]
    note = f"{found[0]!r} is read as {count:,} requests at once"
    return [Item("concurrency", (count,), found[0], note=note)]


def _times(found: re.Match[str]) -> list[Item] | None:
    """`50x8k`: requests by length."""
    count, tokens = _people_count(found[1]), _tokens(found[2])
    if count is None or tokens is None:
        return None
    note = f"{found[0]!r} is read as {count:,} requests at once of {tokens:,} tokens"
    return [Item("concurrency", (count,), found[0], note=note), _length(tokens, "")]


def _cards(found: re.Match[str]) -> list[Item]:
    return [Item("cards", (int(found[1]),), found[0])]


def _owned(sentence: Sentence) -> Meaning:
    return lambda found: [_refused(sentence.spoken(found[0]), OWN_CARDS)]


def _engine(found: re.Match[str]) -> list[Item]:
    return [Item("engine", ("tensorrt-llm" if found[0].startswith("t") else found[0],), found[0])]


def _weights(found: re.Match[str]) -> list[Item]:
    return [Item("weights", _BITS.get(found[1][0]) or (found[1],), found[0])]


def _only(found: re.Match[str]) -> list[Item]:
    """One of the two dtypes that leave a KV cache of 8 bits out, too."""
    return [Item("weights", (found[1] or found[2],), found[0]), Item("kv", ("auto",), "")]


def _reserved(found: re.Match[str]) -> list[Item]:
    years = [group for group in found.groups() if group]
    return [Item("markets", tuple(f"reserved_{each}y" for each in years or "13"), found[0])]


def _of(kind: str, *values: str) -> Meaning:
    return lambda found: [Item(kind, values, found[0])]


_PATTERNS: tuple[tuple[str, Meaning], ...] = (
    # money
    *((f"{dollars}{_PER}{_EACH}", _money_each) for dollars in _DOLLARS),
    *((f"{dollars}{_EACH}{_PER}", _money_each) for dollars in _DOLLARS),
    *((f"{dollars}{_PER}", _money) for dollars in _DOLLARS),
    *((rf"{dollars}(?: ?/ ?\w+| (?:per|a|an|each|every) \w+)?", _money_without_period) for dollars in _DOLLARS),
    # lengths
    (rf"{_COUNT} ?x ?{_THOUSANDS}{_UNIT}(?: {_REQUESTS})?", _times),
    (
        rf"{_TOKENS}{_UNIT}(?: of)?[ -]{_IN}(?: tokens?)?{_AND}{_TOKENS}{_UNIT}(?: of)?[ -]{_OUT}(?: tokens?)?"
        rf"{_A_REQUEST}",
        _split,
    ),
    (rf"{_IN}{_OF}{_TOKENS}{_UNIT}{_AND}{_OUT}{_OF}{_TOKENS}{_UNIT}{_A_REQUEST}", _split),
    (rf"(?:of )?{_TOKENS}[ -]?tokens?(?: long| total| context| {_REQUESTS})*{_A_REQUEST}", _total),
    (rf"(?:of )?{_THOUSANDS}[ -]?(?:{_REQUESTS}|context(?: length| window)?|long|total|length|each)", _total),
    (rf"(?:context(?: length| window)?|max[- ]model[- ]len|length)(?: of| ,)? {_TOKENS}", _total),
    # requests at once
    (rf"{_COUNT} (?:concurrent|simultaneous|parallel)(?: {_PEOPLE}| {_REQUESTS})?{_NO_RATE}", _concurrency),
    (rf"{_COUNT} (?:{_REQUESTS} |{_PEOPLE} )?{_AT_ONCE}", _concurrency),
    (rf"(?:concurrency|concurrent {_REQUESTS})(?: of| ,)? {_COUNT}", _concurrency),
    (rf"{_COUNT} {_PEOPLE}{_NO_RATE}", _people),
    (rf"{_NUMBER} {_REQUESTS}{_NO_RATE}", _people),
    (rf"(?:each |of )?({FIGURE}k)", _total),
    (rf"{_NUMBER}(?: ?x)?(?= {_TOTAL})", _people),  # `50 8K requests`: the count before a length
    (rf"{_WHOLE} ?x? ?(?:gpus?|cards?|accelerators?)", _cards),
    (rf"{_AT_ONCE}|least expensive|most affordable", _of("nothing")),
    (rf"(?:lowest|min(?:imum|imal)?) (?:cost|price)(?!(?: ,| of| is)* {marks_of('money')})", _of("nothing")),
    # engine
    (r"(?:vllm|sglang|tensorrt[- ]?llm|trt[- ]?llm)", _engine),
    # precision, quality and payment
    (r"fp8[ -]kv(?:[- ]?cache)?|kv(?:[- ]?cache)? (?:in |as )?fp8", _of("kv", "fp8")),
    (
        r"(?:no|without|not) quanti[sz](?:ation|ed|ing)|un-?quanti[sz]ed|full[- ]precision|quality untouched",
        _of("native"),
    ),
    (r"(bf16|fp16) only|only (?:in )?(bf16|fp16)", _only),
    (rf"{_WEIGHTS}(?: weights| only| quanti[sz](?:ed|ation))*", _weights),
    (r"quality[- ]first|best quality", _of("quality")),
    (rf"spot{_PRICES}", _of("markets", "spot")),
    (rf"on[- ]?demand{_PRICES}", _of("markets", "on_demand")),
    (rf"{_YEARS} {_RESERVED}{_PRICES}|{_RESERVED}(?: for| of)? {_YEARS}|{_RESERVED}{_PRICES}", _reserved),
)

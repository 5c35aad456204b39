"""What a question says of speed: time to the first token, time a token, tokens a second, requests a second."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, ROUND_DOWN, Decimal

from recommender.ask_sentence import Item
from recommender.ask_words import EACH_OR_ALL
from recommender.errors import Fault
from recommender.units import parse_decimal

FIGURE = r"(?:[1-9][0-9]{0,2}(?:,[0-9]{3}){1,4}|[0-9]{1,15})(?:\.[0-9]{1,6})?"  # 1,500 yes, 1,5 no

_TIME = rf"(?P<number>{FIGURE})[ -]?(?P<unit>ms|msecs?|milliseconds?|s|secs?|seconds?)"
_UPPER = (
    r"(?P<upper>no more than|not over|not above|at most|less than|lower than|under|below|within|up to|max(?:imum)?"
    r"|<=|=<|<)"
)
_PLAIN = r"(?:is|are|be|of|at|in|after|by|must|should|comes?|arrives?|target|=)"
_BETWEEN = rf"(?: {_PLAIN})*(?: ?{_UPPER})?(?: {_PLAIN})* ?"
_AFTER_COLON = rf" ,(?: ?{_UPPER})? "

_QUANTILE = r"(?:p[0-9]{1,2}(?:\.[0-9])?|[0-9]{1,2}(?:st|nd|rd|th)?[ -]percentile|median)"
_OF_WHICH = rf"(?:(?:average|mean|avg|{_QUANTILE})(?: of)? )?"
_FIRST_TOKEN = (
    r"(?:ttft|(?:the )?(?:time|latency)[ -](?:to|till|until)[ -](?:the[ -])?(?:first|1st)[ -]token"
    r"|(?:to )?(?:the )?(?:first|1st)[ -]token(?: latency)?)"
)
_FIRST = rf"{_OF_WHICH}{_FIRST_TOKEN}(?: {_QUANTILE})?"
_EACH_TOKEN = (
    r"(?:tpot|itl|time per (?:output )?token|inter[- ]?token(?: latency)?|(?:per[- ]token|token|decode) latency"
    r"|latency per (?:output )?token|token every)"
)
_TOKEN = rf"{_OF_WHICH}{_EACH_TOKEN}(?: {_QUANTILE})?"
_A_TOKEN = r"(?: ?/ ?| per | a | an | each | every | for each | for every )(?:output |generated )?tok(?:en)?s?"
_AT_QUANTILE = (
    rf"(?: ,(?: at)?(?: the)? {_QUANTILE}(?= ,|$)"
    rf"|(?: (?:at|for))?(?: the)? {_QUANTILE}(?! {_EACH_TOKEN}| {_FIRST_TOKEN}))?"
)

_A_SECOND = r"(?:(?:tokens?|toks?)(?: ?/ ?| per | a | each | every )(?:s|secs?|seconds?)|tps)"
_PACE = rf"(?P<number>{FIGURE}) ?(?:(?:output|generated) )?{_A_SECOND}"
_THOUSANDS = rf"{FIGURE} ?[km]"
_ONE = r"(?:users?|requests?|streams?|sequences?|clients?|sessions?|conversations?|chats?)"
_FOR_EACH = rf"(?: each|(?: ?/ ?| per | a | each | every | for (?:a|each|every) ){_ONE})"
_NO_SUM = r"(?! (?:of|budget|cost|price|spend|users?|requests?|[0-9$]))"  # not the beginning of another total
_FOR_ALL = rf"(?: ,)?(?: in total| total| in all| overall| altogether| together| in aggregate| combined){_NO_SUM}"
_ALL = r"(?:total|overall|aggregate)(?: throughput(?: of)?)?"
_RATE = (
    rf"(?P<number>{FIGURE}) ?(?:rps|qps|(?:requests?|reqs?|queries|calls?|prompts?)"
    r"(?: ?/ ?| per | a | an | each | every )(?P<period>s|secs?|seconds?|m|mins?|minutes?|h|hr|hours?))"
)
_PERIODS_S = {"s": 1, "m": 60, "h": 3600}


def _ms(found: re.Match[str]) -> Decimal:
    return parse_decimal(found["number"]) * (1 if found["unit"].startswith("m") else 1000)


def _bound(found: re.Match[str]) -> str:
    """Set where the comparison stands between name and time, so that another one beside them is refused."""
    return "<=" if "upper" in found.re.groupindex and found["upper"] else ""


def _percentiles(text: str) -> list[Decimal]:
    said = re.findall(rf"(?<!\S){_QUANTILE}(?!\S)", text)
    return [Decimal(50) if each == "median" else Decimal(re.findall(r"[0-9.]+", each)[0]) for each in said]


def _first_token(found: re.Match[str]) -> list[Item]:
    """Values: milliseconds, then the percentile that is said."""
    return [Item("ttft", (_ms(found), *_percentiles(found[0])), found[0], bound=_bound(found))]


def _each_token(found: re.Match[str]) -> list[Item]:
    if _percentiles(found[0]):
        return [_refused(found[0], "a mean: percentiles are known of the first token alone")]
    return [Item("tpot", (_ms(found),), found[0], bound=_bound(found))]


def _pace(found: re.Match[str]) -> list[Item]:
    number = parse_decimal(found["number"])
    if not number:
        return [_refused(found[0], EACH_OR_ALL)]
    ms = f"{(1000 / number).quantize(Decimal('0.001'), ROUND_DOWN).normalize():f}"
    return [Item("pace", (Decimal(ms),), found[0], note=f"{found[0]!r} is read as: at most {ms} ms a token")]


def _throughput(found: re.Match[str]) -> list[Item]:
    return [Item("throughput", (parse_decimal(found["number"]),), found[0])]


def _of_whom(found: re.Match[str]) -> list[Item]:
    return [_refused(found[0], EACH_OR_ALL)]


def _written_out(found: re.Match[str]) -> list[Item]:
    return [_refused(found[0], "the number written out: of tokens 1K is 1,024, of a speed it is not said")]


def _rate(found: re.Match[str]) -> list[Item]:
    period_s = _PERIODS_S[(found["period"] or "s")[0]]
    a_second = (parse_decimal(found["number"]) / period_s).quantize(Decimal("0.000001"), ROUND_CEILING)
    return [Item("rate", (a_second,), found[0])]


def _refused(text: str, expected: str) -> Item:
    return Item("unknown", (), text, fault=Fault(f"{text!r} is not understood", expected=expected))


# A name before its time, a time before its name, a name with a colon: in this order `TTFT 1s, TPOT 30ms`, `1s TTFT,
# 30ms TPOT` and `TTFT: 1s, TPOT: 30ms` all pair what belongs together; what would not pair is left over and refused.
SPEED_PATTERNS: tuple[tuple[str, Callable[[re.Match[str]], Sequence[Item]]], ...] = (
    (rf"{_FIRST}{_BETWEEN}{_TIME}{_AT_QUANTILE}", _first_token),
    (rf"(?:a |1 )?{_TOKEN}{_BETWEEN}{_TIME}{_AT_QUANTILE}", _each_token),
    (rf"{_TIME} (?:for |to )?{_FIRST}", _first_token),
    (rf"{_TIME}(?:{_A_TOKEN}| {_TOKEN})(?: latency)?{_AT_QUANTILE}", _each_token),
    (rf"{_FIRST}{_AFTER_COLON}{_TIME}{_AT_QUANTILE}", _first_token),
    (rf"{_TOKEN}{_AFTER_COLON}{_TIME}{_AT_QUANTILE}", _each_token),
    (rf"{_PACE}{_FOR_EACH}{_FOR_ALL}", _of_whom),
    (rf"{_ALL} {_PACE}{_FOR_EACH}", _of_whom),
    (rf"{_THOUSANDS} ?(?:(?:output|generated) )?{_A_SECOND}(?:{_FOR_EACH}|{_FOR_ALL})?", _written_out),
    (rf"{_PACE}{_FOR_EACH}", _pace),
    (rf"{_PACE}{_FOR_ALL}", _throughput),
    (rf"{_ALL} {_PACE}", _throughput),
    (_PACE, _of_whom),
    (_RATE, _rate),
)

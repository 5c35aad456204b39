"""What an engine says it was started with: its argument dumps as (name, value) pairs, whatever their form."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal

Value = str | int | Decimal | bool | None

LONGEST_VALUE = 4_000
_PAIR = re.compile(r"""\s*(?:'(?P<quoted>\w{1,80})'\s*:|(?P<bare>\w{1,80})=)\s*""")
_NUMBER = re.compile(r"-?\d{1,18}(?:\.\d{1,18})?(?:[eE]-?\d{1,2})?")
_WORDS: Mapping[str, Value] = {"None": None, "True": True, "False": False}
_FLAG = re.compile(r"""(?<![\w-])--(?P<name>[A-Za-z][\w-]{1,60})(?:(?:=|\s+)(?P<value>"[^"]*"|'[^']*'|[^\s-]\S*))?""")
_SERVED = re.compile(r"vllm serve\s+(?P<model>[^\s-]\S{0,300})")
_OPENING, _CLOSING = "([{<", ")]}>"


def dumped(text: str) -> dict[str, Value]:
    """The pairs of a dump: `{'a': 1}`, `(a=1)` or `a=1, b=2`. Nested values stay text; a cut dump gives what it has."""
    inside = text[1:] if text[:1] in ("{", "(") else text
    pairs: dict[str, Value] = {}
    for piece, whole in _pieces(inside):
        found = _PAIR.match(piece)
        if found and whole:
            pairs.setdefault(found["quoted"] or found["bare"], read_value(piece[found.end() :]))
    return pairs


def _pieces(text: str) -> Iterator[tuple[str, bool]]:
    """(piece between commas of the outermost level, whether it is complete), in one pass."""
    start, depth, quote, escaped = 0, 0, "", False
    for place, sign in enumerate(text):
        if quote:
            quote = "" if sign == quote and not escaped else quote
            escaped = sign == "\\" and not escaped
        elif sign in "'\"":
            quote = sign
        elif sign in _OPENING:
            depth += 1
        elif sign in _CLOSING:
            if not depth:
                yield text[start:place], True
                return
            depth -= 1
        elif sign == "," and not depth:
            yield text[start:place], True
            start = place + 1
    yield text[start:], False


def read_value(text: str) -> Value:
    """One value as Python writes it; what is no number, word or string stays the text it is."""
    text = text.strip()[:LONGEST_VALUE]
    if text in _WORDS:
        return _WORDS[text]
    if _NUMBER.fullmatch(text):
        return int(text) if text.lstrip("-").isdecimal() else Decimal(text)
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text


def command_line(text: str) -> dict[str, Value]:
    """The arguments of an echoed command, names as the engine's dumps have them; a flag without value is True."""
    served = _SERVED.search(text)
    given: dict[str, Value] = {"model": read_value(served["model"])} if served else {}
    for found in _FLAG.finditer(text):
        name = found["name"].replace("-", "_").lower()
        if name.startswith("no_"):
            given.setdefault(name[3:], False)
        else:
            given.setdefault(name, True if found["value"] is None else read_value(found["value"]))
    return given

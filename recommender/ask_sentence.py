"""A question as it is read: plain words, and a mark for each thing that is understood already.

A mark is one private character, so that a pattern can ask what kind of thing stands beside a word.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from recommender.ask_words import NUMBERS
from recommender.errors import Fault

NAMED = ("model", "gpus", "providers", "regions", "markets", "weights", "kv")
SPEEDS = ("ttft", "tpot", "pace", "throughput")
QUANTITIES = ("money", "total", "split", "concurrency", "rate", "cards", *SPEEDS)
_KINDS = (*NAMED, *QUANTITIES, "engine", "native", "quality", "nothing", "unknown", "excluded")
_FIRST, _WIDTH = 0xF0000, 0x800  # a private plane of Unicode, so many marks a kind

_SPELLINGS = {
    **dict.fromkeys(map(ord, "\u2264\u2a7d\u2266"), "<="),
    **dict.fromkeys(map(ord, "\u2265\u2a7e\u2267"), ">="),
    **dict.fromkeys(map(ord, "\u2018\u2019"), "'"),
    **dict.fromkeys(map(ord, "\u201c\u201d\u201e\u00ab\u00bb"), '"'),
    0xD7: "x",
}

_SHORT = {"&": "and", "w/": "with", "w/o": "without"}


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that a question says: its kind, what it names or how much, and the words that said it.

    `bound` is the comparison before or after a quantity (one of <, <=, >, >=); `fault` is set where the words are
    known and cannot be asked. The values of an `excluded` item are (kind, value) of what is kept out.
    """

    kind: str
    values: tuple[Any, ...]
    text: str
    bound: str = ""
    fault: Fault | None = None
    note: str = ""


class Sentence:
    """The words of a question with the items that were found among them."""

    def __init__(self, text: str) -> None:
        self.text = plain(text)
        self._items: dict[str, Item] = {}

    def mark(self, item: Item) -> str:
        """A new mark that stands for an item."""
        mark = chr(_FIRST + _WIDTH * _KINDS.index(item.kind) + len(self._items))
        self._items[mark] = item
        return mark

    def item(self, mark: str) -> Item | None:
        """The item of a mark; None for a word."""
        return self._items.get(mark)

    def spoken(self, text: str) -> str:
        """The words of a text, its marks as they were said."""
        words = (self._items[word].text if word in self._items else word for word in text.split())
        return " ".join(filter(None, words)).replace(" ,", ",").strip(", ")

    def take(self, pattern: str, meaning: Callable[[re.Match[str]], Sequence[Item | str] | None]) -> None:
        """Replace whole words that a pattern knows by marks and words; None leaves them as they are."""

        def replaced(found: re.Match[str]) -> str:
            parts = meaning(found)
            words = (part if isinstance(part, str) else self.mark(part) for part in parts or ())
            return found[0] if parts is None else " ".join(words)

        self.text = re.sub(rf"(?<!\S)(?:{pattern})(?!\S)", replaced, self.text)

    def words(self) -> list[str]:
        """Words and marks in order."""
        return self.text.split()


def marks_of(*kinds: str) -> str:
    """A regular expression for one mark of one of the kinds."""
    firsts = (_FIRST + _WIDTH * _KINDS.index(kind) for kind in kinds)
    return "[" + "".join(f"{chr(first)}-{chr(first + _WIDTH - 1)}" for first in firsts) + "]"


def plain(text: str) -> str:
    """The text in lower case, number words as digits, punctuation as commas of their own.

    Only what stands where punctuation stands is punctuation: `-aws`, `!aws`, `1,5` and `~~H100~~` keep their signs.
    """
    text = re.sub(r"[\U000f0000-\U0010ffff]", "\ufffd", text.casefold().translate(_SPELLINGS))
    text = re.sub(r"(?m)^\s*[-*\u2022]\s+", " , ", text)  # a list, a line an item
    text = re.sub(r"\s[\u2013\u2014]+\s", " , ", re.sub(r"\s+", " ", text))
    text = re.sub(r"[()\"]|(?<=[^\s\d$]),|,(?=\D|$)", " , ", text)
    text = re.sub(r"(?<=[^\s.;:!?\u2026])[.;:!?\u2026]+(?=\s|$)|(?<!\S)[.;:?](?!\S)", " , ", text)
    text = re.sub(r"(?<=[a-z]):(?=[a-z\d$])|(?<!\S)'(?=\w)|(?<=\w)'(?!\S)", " , ", text)
    text = re.sub(r"(?<!\S)([<>]=?|=[<>])(?=[\d$])", r"\1 ", text)
    text = re.sub(r"(?<!\S)~(?=[\d$])", "", text)  # about so many
    text = re.sub(r"(?<!\S)(\d+)x(?=[a-z])", r"\1 x ", text)
    text = re.sub(r"[a-z]+", lambda word: NUMBERS.get(word[0], word[0]), text)
    return " ".join(_SHORT.get(word, word) for word in text.split())

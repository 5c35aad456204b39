"""What the words between the items of a question do: limits, exclusions, either-or, and what is not understood."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, pairwise

from recommender.ask_names import Names
from recommender.ask_sentence import NAMED, QUANTITIES, SPEEDS, Item, Sentence, marks_of
from recommender.ask_words import AT_ONCE, FILLERS, HINTS, INVERTERS, SPEED_LIMIT, UPPER_LIMIT
from recommender.errors import Fault

_QUANTITY, _NAME, _GPUS = marks_of(*QUANTITIES, "unknown"), marks_of(*NAMED), marks_of("gpus")
_CONDITIONS = ("gpus", "providers", "regions", "markets", "weights", "kv", "engine", "money", "cards", *SPEEDS)

_NOT = r"(?:no|not|never|nothing)"
_MORE = r"(?:more|higher|greater|larger|bigger|longer|dearer)"
_LESS = r"(?:less|fewer|lower|cheaper|smaller|shorter)"
_BEFORE = (
    (rf"{_NOT} (?:{_MORE} than|over|above|beyond|(?:to )?exceed(?:ing)?)", "<="),
    (rf"{_NOT} (?:{_LESS} than|under|below)", ">="),
    (rf"{_MORE} than|over|above|beyond|exceed(?:s|ing)?|in excess of|>", ">"),
    (rf"{_LESS} than|under|below|<", "<"),
    (r"at least|min(?:imum)?|>=|=>|starting (?:at|from)", ">="),
    (r"at most|max(?:imum)?|up to|within|<=|=<|capped at|limited to", "<="),
)
_AFTER = (
    (r"max(?:imum)?|tops|or (?:less|fewer|lower|below|under|cheaper|shorter)", "<="),
    (r"min(?:imum)?|(?:or|and) (?:more|above|higher|over|up|longer)|upwards?|\+|plus(?= ,|$)", ">="),
)
_OF = r"(?: (?:a|an|the|of|total|budget|price|cost|spend|about|around)(?: ,)?)*"

_SAID_NOT = (
    r"(?:but )?(?:no|not|never|neither|without|avoid(?:ing)?"
    r"|(?:do|does|ca|could|should|must|wo|would|is|are)n'?t|cannot)"
)
_ALL_BUT = (
    r"except(?: for)?|excluding|exclude|other than|apart from|rather than|instead of"
    r"|(?:any(?:thing|where)?|all|every(?:thing)?)(?: gpus?| cards?| providers?| clouds?| regions?)?"
    r" (?:but|except)(?: for)?"
)
_AT = r"(?: (?:on|at|in|from|with|using|use|run|any|a|an|the|via|want|rent|buy|be))*"
_NEXT = rf"(?: (?:or|nor|and){_AT} {_NAME}| , {_NAME})"
_NOT_WANTED = rf"(?P<not>{_SAID_NOT}|{_ALL_BUT}){_AT} (?P<names>{_NAME}{_NEXT}*)(?P<tail>(?:{_AT} {_NAME})*)"


def take_limits(sentence: Sentence) -> None:
    """Comparisons become the bounds of the quantities beside them; a lower limit is nothing that can be asked."""
    for words, bound in _BEFORE:
        sentence.take(rf"(?:{words}){_OF} ({_QUANTITY})(?P<gpus>)", _bounded(sentence, bound))
    sentence.take(rf"from ({marks_of('money')})(?P<gpus>)", _bounded(sentence, ">="))
    for words, bound in _AFTER:
        sentence.take(
            rf"({_QUANTITY})(?: (?P<gpus>{_GPUS}))?(?: gpus?| cards?)? (?:{words})", _bounded(sentence, bound)
        )


def _bounded(sentence: Sentence, bound: str) -> Callable[[re.Match[str]], list[Item | str] | None]:
    def meaning(found: re.Match[str]) -> list[Item | str] | None:
        item = sentence.item(found[1])
        if item is None or item.bound:
            return None
        text, gpus = sentence.spoken(found[0]), [found["gpus"]] if found["gpus"] else []
        if item.fault is not None:
            return [_refused(text, item.fault.expected)]
        wrong = _wrong_bound(item.kind, bound)
        if wrong:
            return [_refused(text, wrong), *gpus]
        return [replace(item, bound=bound, text=text), *gpus]

    return meaning


def _wrong_bound(kind: str, bound: str) -> str | None:
    """What is expected instead where a quantity cannot be bounded so; None where it can."""
    if kind in ("pace", "throughput"):
        return None if bound in (">", ">=") else "'at least', such as 'at least 20 tokens per second per user'"
    if bound not in (">", ">=") or (kind in ("concurrency", "rate") and bound == ">="):
        return None
    if kind in SPEEDS:
        return f"an upper limit, such as {SPEED_LIMIT}"
    return AT_ONCE if kind in ("concurrency", "rate") else UPPER_LIMIT


def _refused(text: str, expected: str | None) -> Item:
    return Item("unknown", (), text, fault=Fault(f"{text!r} is not understood", expected=expected))


def take_exclusions(sentence: Sentence) -> None:
    """Names behind a negation become what is kept out; what may mean two things is refused as a whole."""
    sentence.take(_NOT_WANTED, lambda found: _excluded(sentence, found))
    sentence.take(rf"({marks_of('excluded')}) but(?: on| at| in| with)? ({_NAME})", lambda found: [found[1], found[2]])


def _excluded(sentence: Sentence, found: re.Match[str]) -> list[Item | str]:
    all_but = re.fullmatch(_ALL_BUT, found["not"]) is not None
    names, positive, clear = _listed(sentence, found["names"].split(), all_but)
    text = sentence.spoken(found[0])
    if not clear or (found["tail"] and not positive):
        return [_refused(text, "each name with its own 'not', a comma before what is wanted")]
    if any(item.kind == "model" for item in names):
        return [_refused(text, "the model that is wanted")]
    kept_out = tuple((item.kind, value) for item in names for value in item.values)
    said = sentence.spoken(found[0].split(positive[0])[0]) if positive else text
    return [Item("excluded", kept_out, said), *positive, *found["tail"].split()]


def _listed(sentence: Sentence, words: Sequence[str], all_but: bool) -> tuple[list[Item], list[str], bool]:
    """(names that a negation covers, words after it that stand for themselves, whether it is clear which are which)."""
    names: list[Item] = []
    joint: list[str] = []
    for place, word in enumerate(words):
        item = sentence.item(word)
        if item is None:
            joint.append(word)
            continue
        same = bool(names) and item.kind == names[-1].kind
        if joint == [","] and not same and not all_but:  # `no spot, H100`
            return names, list(words[place - 1 :]), True
        clear = {",": same and all_but, "and": same and len(joint) == 1}.get(joint[0] if joint else "", True)
        if not clear:
            return names, [], False
        names.append(item)
        joint = []
    return names, [], True


def either_or_faults(sentence: Sentence) -> Iterator[Fault]:
    """A fault where an `or` joins pairs: `aws spot or gcp on-demand` is not every provider with every market."""
    words = sentence.words()
    parts = [_Part("", 0)]
    for place, word in enumerate(words):
        item = sentence.item(word)
        if word in ("or", "and", ",", "plus") and parts[-1].items:
            parts.append(_Part(word, place))
        elif word == "or":
            parts[-1].joint = word
        elif item is not None and item.kind in _CONDITIONS:
            parts[-1].start = parts[-1].start if parts[-1].items else place
            parts[-1].items.append(item)
            parts[-1].end = place + 1
    crossed = [(left, right) for left, right in pairwise(parts) if right.joint == "or" and _mixed(left, right)]
    crossed += [(left, right) for left, right in combinations(parts, 2) if len(_differing(left, right)) > 1]
    for left, right in crossed[:1]:
        said = sentence.spoken(" ".join(words[left.start : right.end]))
        yield Fault(f"{said!r} joins pairs, which cannot be asked at once", expected="one of them a question")


@dataclass(slots=True)
class _Part:
    """Conditions between two joints of a sentence."""

    joint: str
    start: int
    end: int = 0
    items: list[Item] = field(default_factory=list)

    @property
    def kinds(self) -> dict[str, list[tuple[object, ...]]]:
        """What is named, by kind."""
        return {each.kind: [item.values for item in self.items if item.kind == each.kind] for each in self.items}


def _mixed(left: _Part, right: _Part) -> bool:
    """Whether an `or` joins two kinds of things, and not the same kinds of which one differs."""
    if not left.items or not right.items or left.items[-1].kind == right.items[0].kind:
        return False
    return left.kinds.keys() != right.kinds.keys() or len(_differing(left, right)) > 1


def _differing(left: _Part, right: _Part) -> set[str]:
    """Kinds of which both parts name something, and not the same."""
    return {kind for kind in left.kinds.keys() & right.kinds.keys() if left.kinds[kind] != right.kinds[kind]}


@dataclass(frozen=True, slots=True)
class NotUnderstood:
    """Words that may be a condition; `turned` are the marks beside them that they may turn round.

    Where it cannot be told what they turn round (a clause that says no more than `no`), they cannot be ignored.
    """

    fault: Fault
    words: str
    turned: frozenset[str] = frozenset()
    ignorable: bool = True


def not_understood(sentence: Sentence, names: Names) -> list[NotUnderstood]:
    """Each run of words that is neither understood nor plain, in order."""
    words = sentence.words()
    found: list[NotUnderstood] = []
    start: int | None = None
    for place, word in enumerate([*words, ","]):
        item = sentence.item(word)
        plain = word == "," or word in FILLERS or item is not None
        if not plain and start is None:
            start = place
        if plain and start is not None:
            found.append(_run(sentence, names, words, start, place))
            start = None
        if item is not None and item.fault is not None:
            found.append(NotUnderstood(item.fault, item.text))
    return found


def _run(sentence: Sentence, names: Names, words: Sequence[str], start: int, end: int) -> NotUnderstood:
    run = words[start:end]
    said = " ".join(run)
    hint = next((hint for pattern, hint in HINTS if re.search(pattern, said)), None)
    fault = Fault(f"{said!r} is not understood", expected=hint, suggestion=None if hint else names.nearest(said))
    turning = any(word in INVERTERS or not word.isascii() or not re.search(r"\w", word) for word in run)
    before = _beside(sentence, words[:start][::-1], turning)
    after = _beside(sentence, words[end:], turning)
    turned = [mark for mark in (before, after) if mark]
    whole = sentence.spoken(" ".join([*([before] if before else []), *run, *([after] if after else [])]))
    alone = (start == 0 or words[start - 1] == ",") and (end == len(words) or words[end] == ",")
    unclear = turning and (alone or (not turned and INVERTERS.issuperset(run)))
    return NotUnderstood(fault, whole, frozenset(turned), ignorable=not unclear)


def _beside(sentence: Sentence, words: Sequence[str], turning: bool) -> str | None:
    """The condition next to a run of words; past plain words where the run may be a negation."""
    for word in words:
        item = sentence.item(word)
        if item is not None:
            kept = (*_CONDITIONS, "model") if turning else _CONDITIONS
            return word if item.kind in kept else None
        if word == "," or not turning:
            return None
    return None

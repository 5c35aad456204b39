"""A scenario's `lengths:` block, in any of its forms, turned into Lengths."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from recommender.errors import Fault, InputError, nearest, show
from recommender.units import parse_tokens
from recommender.workload import laws
from recommender.workload.cellfile import cells_from_rows
from recommender.workload.lengths import MAXIMUM_TOKENS, Cell, Lengths, asking
from recommender.workload.marginals import Joint, Marginal, through_buckets, through_quantiles

TraceLookup = Callable[[str], Lengths]
"""The Lengths of a shipped trace by name; raises InputError (with the nearest name) for an unknown one."""

_ASKED = "max_tokens"  # beside the form: what every client sends
_OF_A_REQUEST = ("input", "output", "prompt", "isl", "osl")  # what a person writes who leaves out the form
_DEPENDENCE = {"independent": 0.0, "comonotone": 1.0}


def lengths_from_form(
    form: Mapping[str, Any], base_dir: Path, *, trace_lookup: TraceLookup | None = None, key: str = "lengths"
) -> Lengths:
    """The distribution that a `lengths:` block states. Raises InputError with every fault; `key` begins their paths."""
    if not isinstance(form, Mapping):
        raise InputError(Fault(f"{show(form)} is not a block", key=key, expected=_one_of()))
    named = [word for word in form if word in _FORMS]
    unknown = [_unknown_form(word, key) for word in form if word not in _FORMS and word != _ASKED]
    if unknown or len(named) != 1:
        count = [] if unknown else [Fault("exactly one form is needed", key=key, expected=_one_of())]
        raise InputError([*unknown, *count])
    word = named[0]
    lengths = _FORMS[word](form[word], f"{key}.{word}", base_dir, trace_lookup)
    return _asking(lengths, form[_ASKED], f"{key}.{_ASKED}") if _ASKED in form else lengths


def _asking(lengths: Lengths, value: Any, key: str) -> Lengths:
    if lengths.total_only:
        what = "a fixed total already holds what clients ask for"
        raise InputError(Fault(what, key=key, expected="fixed: {input, output} beside it"))
    return asking(lengths, tokens(value, key))


def _one_of() -> str:
    return "one of " + ", ".join(sorted(_FORMS))


def _unknown_form(word: Any, key: str) -> Fault:
    if word in _OF_A_REQUEST:
        return Fault("is no form of lengths", key=f"{key}.{word}", suggestion="fixed: {input: 7K, output: 1K}")
    near = nearest(str(word), _FORMS)
    return Fault(
        "unknown form of lengths", key=f"{key}.{word}", expected=_one_of(), suggestion=near[0] if near else None
    )


def tokens(value: Any, key: str, *, least: int = 1) -> int:
    """Whole tokens from a number or a word such as 8K, between `least` and the longest request taken seriously."""
    expected = f"a whole number of tokens from {least:,} to {MAXIMUM_TOKENS:,}, such as 8192 or 8K"
    try:
        if isinstance(value, bool) or not isinstance(value, int | float | str) or value != value:
            raise ValueError
        whole = int(value) if isinstance(value, float) and value.is_integer() else value
        count = parse_tokens(whole if isinstance(whole, int) else str(whole))
    except (ValueError, ArithmeticError):
        raise InputError(Fault(f"{show(value)} is not a number of tokens", key=key, expected=expected)) from None
    if not least <= count <= MAXIMUM_TOKENS:
        raise InputError(Fault(f"{count:,} tokens cannot be", key=key, expected=expected))
    return count


def _block(value: Any, key: str, allowed: tuple[str, ...], needed: tuple[str, ...] = ()) -> Mapping[str, Any]:
    """`value` as a block with no key but the allowed and none of the needed missing."""
    if not isinstance(value, Mapping):
        raise InputError(Fault(f"{show(value)} is not a block", key=key, expected=f"the keys {', '.join(allowed)}"))
    faults = []
    for word in value:
        if word not in allowed:
            near = nearest(str(word), allowed)
            suggestion = near[0] if near else None
            faults.append(Fault("unknown key", key=f"{key}.{word}", expected=", ".join(allowed), suggestion=suggestion))
    faults += [Fault("missing", key=f"{key}.{word}") for word in needed if word not in value]
    if faults:
        raise InputError(faults)
    return value


def _both(read: Callable[[str], Any]) -> tuple[Any, Any]:
    """What `read` gives for input and for output, the faults of both in one report."""
    results: list[Any] = []
    errors: list[InputError] = []
    for side in ("input", "output"):
        try:
            results.append(read(side))
        except InputError as error:
            errors.append(error)
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise InputError(fault for error in errors for fault in error.faults)
    return results[0], results[1]


def _fixed(value: Any, key: str, _base: Path, _lookup: TraceLookup | None) -> Lengths:
    if not isinstance(value, Mapping):
        total = tokens(value, key, least=2)
        return Lengths((Cell(1.0, float(total), 0.0),), total, total_only=True, name=f"{total:,} tokens")
    block = _block(value, key, ("input", "output"), ("input", "output"))
    prompt, output = _both(lambda side: tokens(block[side], f"{key}.{side}"))
    name = f"{prompt:,} + {output:,} tokens"
    return Lengths((Cell(1.0, float(prompt), float(output)),), prompt + output, name=name, longest_prompt=prompt)


def _quantiles(value: Any, key: str, _base: Path, _lookup: TraceLookup | None) -> Lengths:
    block = _block(value, key, ("input", "output", "dependence"), ("input", "output"))
    prompt, output = _both(lambda side: _through_quantiles(block[side], f"{key}.{side}"))
    return _joined(prompt, output, block, key, "quantiles")


def _through_quantiles(value: Any, key: str) -> Marginal:
    if not isinstance(value, Mapping):
        raise InputError(Fault(f"{show(value)} is not a block", key=key, expected="p50, p90, p95, p99 ... and max"))
    if "max" not in value:
        raise InputError(Fault("the longest one is missing", key=f"{key}.max"))
    low = tokens(value.get("min", 1), f"{key}.min")
    points = [(tokens(value["max"], f"{key}.max"), 1.0)]
    faults = []
    for word, count in value.items():
        if word in ("min", "max"):
            continue
        share = percentile(word)
        if share is None:
            faults.append(Fault("unknown key", key=f"{key}.{word}", expected="p50, p90, p99.9 ..., min or max"))
        else:
            points.append((tokens(count, f"{key}.{word}"), share))
    points.sort(key=lambda point: point[1])
    lengths_only = [low, *(point[0] for point in points)]
    if not faults and lengths_only != sorted(lengths_only):
        faults.append(
            Fault("the lengths decrease as the percentiles rise", key=key, expected="min <= p50 <= ... <= max")
        )
    if faults:
        raise InputError(faults)
    return through_quantiles(points, low)


def percentile(word: Any) -> float | None:
    """0.99 from `p99`, 0.999 from `p99.9`; None for anything else."""
    try:
        share = float(str(word)[1:]) / 100 if str(word).startswith("p") else 0.0
    except ValueError:
        return None
    return share if 0 < share < 1 else None


def _histogram(value: Any, key: str, _base: Path, _lookup: TraceLookup | None) -> Lengths:
    if isinstance(value, Mapping) and "cells" in value:
        return _joint_cells(value, key)
    block = _block(value, key, ("input", "output", "dependence"), ("input", "output"))
    prompt, output = _both(lambda side: _through_buckets(block[side], f"{key}.{side}"))
    return _joined(prompt, output, block, key, "histogram")


def _joint_cells(value: Mapping[str, Any], key: str) -> Lengths:
    block = _block(value, key, ("cells", "max"))
    cells = cells_from_rows(block["cells"], key=f"{key}.cells")
    longest = round(max(cell.input_tokens + cell.output_tokens for cell in cells))
    lengths = Lengths(cells, longest, name="histogram")
    if "max" not in block:
        note = f"the longest request ({longest:,} tokens) is the largest cell's; write max where cells are means"
        return replace(lengths, notes=(note,))
    stated = tokens(block["max"], f"{key}.max")
    if stated < longest:
        raise InputError(Fault(f"{stated:,} is below the largest cell", key=f"{key}.max", expected=f">= {longest:,}"))
    return replace(lengths, maximum_tokens=stated)


def _through_buckets(value: Any, key: str) -> Marginal:
    block = _block(value, key, ("le", "count", "min"), ("le", "count"))
    edges, counts = block["le"], block["count"]
    if not isinstance(edges, list) or not isinstance(counts, list) or not edges or len(edges) != len(counts):
        what = "le and count are not two lists of one length"
        raise InputError(Fault(what, key=key, expected="an upper edge to each count"))
    upper = [tokens(edge, f"{key}.le[{place}]") for place, edge in enumerate(edges)]
    low = tokens(block.get("min", 1), f"{key}.min")
    wrong = [
        count for count in counts if isinstance(count, bool) or not isinstance(count, int | float) or not count >= 0
    ]
    if wrong or not 0 < sum(counts) < float("inf"):
        raise InputError(Fault("counts must be finite, none negative, and not all 0", key=f"{key}.count"))
    if sorted(set(upper)) != upper or upper[0] < low:
        raise InputError(Fault("the upper edges must increase, from min on", key=f"{key}.le"))
    return through_buckets(upper, counts, low)


def _parametric(value: Any, key: str, _base: Path, _lookup: TraceLookup | None) -> Lengths:
    block = laws.sides(value, key)
    (prompt, prompt_notes), (output, output_notes) = _both(lambda side: laws.law(block[side], f"{key}.{side}"))
    lengths = _joined(prompt, output, block, key, "parametric")
    return replace(lengths, notes=(*lengths.notes, *prompt_notes, *output_notes))


def _joined(prompt: Marginal, output: Marginal, block: Mapping[str, Any], key: str, name: str) -> Lengths:
    """Joint lengths of two laws; dependence nobody stated is taken as none, and said."""
    correlation, notes = _correlation(block, key)
    joint = Joint(prompt, output, correlation)
    longest = prompt.high + output.high
    return Lengths(joint.cells(), longest, totals=joint.totals(), name=name, notes=notes, longest_prompt=prompt.high)


def _correlation(block: Mapping[str, Any], key: str) -> tuple[float, tuple[str, ...]]:
    if "correlation" in block:
        stated = block["correlation"]
        if isinstance(stated, bool) or not isinstance(stated, int | float) or not -1 <= stated <= 1:
            raise InputError(
                Fault(f"{show(stated)} is not a correlation", key=f"{key}.correlation", expected="-1 to 1")
            )
        return float(stated), ()
    word = block.get("dependence")
    if word is None:
        note = "prompt and output are taken as independent: on public traces that errs by -18 % to +32 %"
        return 0.0, (note,)
    if not isinstance(word, str) or word not in _DEPENDENCE:
        near = nearest(str(word), _DEPENDENCE)
        expected = " or ".join(sorted(_DEPENDENCE))
        raise InputError(
            Fault(
                f"{show(word)} is unknown",
                key=f"{key}.dependence",
                expected=expected,
                suggestion=near[0] if near else None,
            )
        )
    return _DEPENDENCE[word], ()


def _preset(value: Any, key: str, _base: Path, lookup: TraceLookup | None) -> Lengths:
    if not isinstance(value, str) or lookup is None:
        raise InputError(
            Fault(f"{show(value)} is not a trace that is at hand", key=key, expected="the name of a shipped trace")
        )
    try:
        return lookup(value)
    except InputError as error:
        raise InputError([replace(fault, key=fault.key or key) for fault in error.faults]) from None


def _trace(value: Any, key: str, base: Path, _lookup: TraceLookup | None) -> Lengths:
    from recommender.workload.files import lengths_of_file

    allowed = ("path", "columns", "timestamp_unit")
    block = _block({"path": value} if isinstance(value, str) else value, key, allowed, ("path",))
    columns = _block(block.get("columns", {}), f"{key}.columns", ("input", "output", "timestamp"))
    unit = block.get("timestamp_unit")
    named = {role: str(column) for role, column in columns.items()}
    return _with_key(key, lambda: lengths_of_file(_path(block, key, base), columns=named, timestamp_unit=unit))


def _prometheus(value: Any, key: str, base: Path, _lookup: TraceLookup | None) -> Lengths:
    from recommender.workload.files import metrics_lengths

    allowed = ("path", "before", "model_name", "max_model_len")
    block = _block({"path": value} if isinstance(value, str) else value, key, allowed, ("path",))
    before = _path(block, key, base, "before") if "before" in block else None
    longest = tokens(block["max_model_len"], f"{key}.max_model_len") if "max_model_len" in block else None
    name = block.get("model_name")
    if not isinstance(name, str | None):
        raise InputError(
            Fault(f"{show(name)} is not a name", key=f"{key}.model_name", expected="a served model's name")
        )
    path = _path(block, key, base)
    return _with_key(key, lambda: metrics_lengths(path, before=before, model_name=name, longest=longest))


def _path(block: Mapping[str, Any], key: str, base: Path, word: str = "path") -> Path:
    if not isinstance(block[word], str) or "\0" in block[word]:
        raise InputError(Fault(f"{show(block[word])} is not a path", key=f"{key}.{word}"))
    return base / str(block[word])


def _with_key(key: str, read: Callable[[], Lengths]) -> Lengths:
    """What `read` gives; its faults get the scenario's key and what they say of the file's own keys."""
    try:
        return read()
    except InputError as error:
        faults = []
        for fault in error.faults:
            what = f"{fault.key}: {fault.what}" if fault.key else fault.what
            faults.append(replace(fault, what=what, key=key))
        raise InputError(faults) from None


_FORMS: dict[str, Callable[[Any, str, Path, TraceLookup | None], Lengths]] = {
    "fixed": _fixed,
    "quantiles": _quantiles,
    "histogram": _histogram,
    "parametric": _parametric,
    "preset": _preset,
    "trace": _trace,
    "prometheus": _prometheus,
}

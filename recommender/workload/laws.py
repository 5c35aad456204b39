"""Parametric length laws as benchmark tools write them (inference-perf's Distribution, guidellm's prompt_tokens_*)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from recommender.errors import Fault, InputError, NotModelledError, nearest, show
from recommender.workload.lengths import MAXIMUM_TOKENS
from recommender.workload.marginals import Marginal, fixed, lognormal, normal, uniform

_Z95 = 1.6448536269514722
_CUT_SHARE = 1e-6
_FAR = 4.753424308822899  # standard normal quantile of 1 - 1e-6
_PARAMETERS = {
    "fixed": ("value",),
    "uniform": ("min", "max"),
    "normal": ("mean", "std_dev", "min", "max"),
    "lognormal": ("median", "p95", "mean", "std_dev", "mu", "sigma", "min", "max"),
}
_GUIDELLM = {"": "mean", "_stdev": "std_dev", "_min": "min", "_max": "max"}
_GUIDELLM_SIDES = {"input": "prompt_tokens", "output": "output_tokens"}

Law = tuple[Marginal, tuple[str, ...]]


def sides(value: Any, key: str) -> Mapping[str, Any]:
    """`{input, output, correlation}` with guidellm's flat spelling brought into that form."""
    if not isinstance(value, Mapping):
        raise InputError(Fault(f"{show(value)} is not a block", key=key, expected="input and output"))
    block = dict(value)
    for side, stem in _GUIDELLM_SIDES.items():
        flat = {word: block.pop(stem + ending) for ending, word in _GUIDELLM.items() if stem + ending in block}
        if flat:
            block[side] = _from_guidellm(flat)
    known = ("input", "output", "correlation", "dependence")
    faults = [_unknown(word, key, known) for word in block if word not in known]
    faults += [Fault("missing", key=f"{key}.{side}") for side in ("input", "output") if side not in block]
    if faults:
        raise InputError(faults)
    return block


def _from_guidellm(flat: dict[str, Any]) -> dict[str, Any]:
    """guidellm: a mean alone is fixed, min and max without a deviation are uniform, else a clipped normal."""
    if "std_dev" in flat:
        return {"type": "normal", **flat}
    if "min" in flat and "max" in flat:
        return {"type": "uniform", "min": flat["min"], "max": flat["max"]}
    return {"type": "fixed", "value": flat.get("mean")}


def law(value: Any, key: str) -> Law:
    """One length's law from `{type: normal, mean: ...}` or `{normal: {mean: ...}}`, and what was assumed for it."""
    kind, parameters, key = _kind(value, key)
    if kind not in _PARAMETERS:
        if kind in ("skew_normal", "poisson"):
            raise NotModelledError(Fault(f"{kind} is not modelled", key=key, expected=", ".join(_PARAMETERS)))
        raise InputError(_unknown(kind, key, tuple(_PARAMETERS)))
    faults = [_unknown(word, key, _PARAMETERS[kind]) for word in parameters if word not in _PARAMETERS[kind]]
    faults += [fault for word, number in parameters.items() if (fault := _number_fault(number, f"{key}.{word}", word))]
    if faults:
        raise InputError(faults)
    numbers = {word: float(number) for word, number in parameters.items()}
    return _READERS[kind](numbers, key)


def _kind(value: Any, key: str) -> tuple[str, Mapping[str, Any], str]:
    if not isinstance(value, Mapping):
        return "fixed", {"value": value}, key
    if "type" in value:
        return str(value["type"]), {word: number for word, number in value.items() if word != "type"}, key
    if len(value) == 1:
        ((kind, parameters),) = value.items()
        if isinstance(parameters, Mapping):
            return str(kind), parameters, f"{key}.{kind}"
        return str(kind), {"value": parameters}, key
    raise InputError(Fault("the kind of law is missing", key=f"{key}.type", expected=", ".join(_PARAMETERS)))


def _unknown(word: Any, key: str, choices: tuple[str, ...]) -> Fault:
    near = nearest(str(word), choices)
    return Fault("unknown", key=f"{key}.{word}", expected=", ".join(choices), suggestion=near[0] if near else None)


def _number_fault(number: Any, key: str, word: str) -> Fault | None:
    if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
        return Fault(f"{show(number)} is not a finite number", key=key)
    if abs(number) > MAXIMUM_TOKENS:
        return Fault(f"{show(number)} is too large", key=key, expected=f"at most {MAXIMUM_TOKENS:,}")
    if word in ("std_dev", "sigma") and number < 0:
        return Fault(f"{show(number)} is negative", key=key)
    if word in ("value", "min", "max", "mean", "median", "p95") and number < 1:
        return Fault(f"{show(number)} is below one token", key=key)
    return None


def _need(numbers: Mapping[str, float], words: tuple[str, ...], key: str) -> tuple[float, ...]:
    missing = [Fault("missing", key=f"{key}.{word}") for word in words if word not in numbers]
    if missing:
        raise InputError(missing)
    return tuple(numbers[word] for word in words)


def _limits(numbers: Mapping[str, float], far: float, key: str) -> tuple[int, int, tuple[str, ...]]:
    """The shortest and longest length; without a stated longest one the law ends where 1 in a million lies beyond."""
    low = math.ceil(numbers.get("min", 1.0))
    if "max" in numbers:
        high, notes = math.floor(numbers["max"]), list[str]()
    else:
        high = min(max(math.ceil(far), low), MAXIMUM_TOKENS // 2)
        notes = [f"{key} has no longest length: cut at {high:,} tokens, beyond which {_CUT_SHARE:.4%} lie; write max"]
    if low > high:
        raise InputError(Fault(f"min {low:,} is above max {high:,}", key=key))
    return low, high, tuple(notes)


def _fixed(numbers: Mapping[str, float], key: str) -> Law:
    (value,) = _need(numbers, ("value",), key)
    return fixed(round(value)), ()


def _uniform(numbers: Mapping[str, float], key: str) -> Law:
    _need(numbers, ("min", "max"), key)
    low, high, _ = _limits(numbers, 0.0, key)
    return uniform(low, high), ()


def _normal(numbers: Mapping[str, float], key: str) -> Law:
    mean, std_dev = _need(numbers, ("mean", "std_dev"), key)
    low, high, notes = _limits(numbers, mean + _FAR * std_dev, key)
    if std_dev == 0:
        return fixed(min(max(round(mean), low), high)), ()
    return normal(mean, std_dev, low, high), notes


def _lognormal(numbers: Mapping[str, float], key: str) -> Law:
    mu, sigma = _log_moments(numbers, key)
    low, high, notes = _limits(numbers, math.exp(min(mu + _FAR * sigma, 60.0)), key)
    if sigma == 0:
        return fixed(min(max(round(math.exp(mu)), low), high)), ()
    return lognormal(mu, sigma, low, high), notes


def _log_moments(numbers: Mapping[str, float], key: str) -> tuple[float, float]:
    """Mean and deviation of the logarithm: stated, or from median and p95, or from those of the length."""
    pairs = (("median", "p95"), ("mean", "std_dev"), ("mu", "sigma"))
    given = [pair for pair in pairs if any(word in numbers for word in pair)]
    if len(given) != 1:
        expected = "median and p95, or mean and std_dev, or mu and sigma"
        raise InputError(Fault("the law is not stated once", key=key, expected=expected))
    first, second = _need(numbers, given[0], key)
    if given[0] == ("mu", "sigma"):
        return first, second
    if given[0] == ("median", "p95"):
        if second < first:
            raise InputError(Fault("p95 is below the median", key=f"{key}.p95"))
        return math.log(first), math.log(second / first) / _Z95
    variance = math.log1p((second / first) ** 2)
    return math.log(first) - variance / 2, math.sqrt(variance)


_READERS = {"fixed": _fixed, "uniform": _uniform, "normal": _normal, "lognormal": _lognormal}

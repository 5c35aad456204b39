"""The language part of a config.json and typed look-ups in it: old and new key names, bounds, clear errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recommender.errors import Fault, InputError

# Where composite (multimodal) configs keep their language model, outermost name first.
_LANGUAGE_KEYS = ("text_config", "llm_config", "language_config", "thinker_config", "text_model", "language_model")
_DEEPEST = 8
_LARGEST = 2**40
_MOST_LAYERS = 4096
_KEYS_SHOWN = 30


def is_nested(config: Mapping[str, Any]) -> bool:
    """Whether the language model's values are in an object of their own."""
    return any(isinstance(config.get(key), Mapping) for key in _LANGUAGE_KEYS)


def language_part(config: Mapping[str, Any]) -> dict[str, Any]:
    """The values of the language model inside a config, nested or not; the inner ones win over the outer ones."""
    part = dict(config)
    for _ in range(_DEEPEST):
        inner = next((part[key] for key in _LANGUAGE_KEYS if isinstance(part.get(key), Mapping)), None)
        if inner is None:
            return part
        rest = {key: value for key, value in part.items() if key not in _LANGUAGE_KEYS}
        part = {**rest, **inner}
    raise InputError(Fault("language configs nested too deeply", key=" or ".join(_LANGUAGE_KEYS)))


class Fields:
    """A config's values by name. Each look-up takes every name the value has had; a wrong type or size is an error.

    `defaults` are what the config's class fills in for keys that are left out: a key that is there and null stays so.
    """

    def __init__(self, values: Mapping[str, Any], where: str, defaults: Mapping[str, Any] | None = None) -> None:
        self.values = values
        self.where = where
        self.defaults = defaults or {}

    def __contains__(self, name: str) -> bool:
        return self.raw(name) is not None

    def is_null(self, name: str) -> bool:
        """Whether the config says null."""
        return name in self.values and self.values[name] is None

    def fault(self, what: str, key: str, expected: str | None = None) -> InputError:
        """The error that says `what` is wrong with `key` of this config."""
        return InputError(Fault(what, file=self.where, key=key, expected=expected))

    def raw(self, *names: str) -> tuple[str, Any] | None:
        """The first of `names` that has a value, with it; else what the class fills in where none of them is there."""
        stated = next(((name, self.values[name]) for name in names if self.values.get(name) is not None), None)
        if stated is not None or any(name in self.values for name in names):
            return stated
        return next(((name, self.defaults[name]) for name in names if name in self.defaults), None)

    def integer(self, *names: str, default: int | None = None, least: int = 1, most: int = _LARGEST) -> int:
        """A whole number under the first of `names` that is present; an error without one or a default."""
        found = self.raw(*names)
        if found is None:
            if default is None:
                raise self.missing(*names)
            return default
        name, value = found
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self.fault(f"{_shown(value)} is not usable", name, f"a whole number from {least} to {most}")
        return value

    def optional(self, *names: str, least: int = 1, most: int = _LARGEST) -> int | None:
        """A whole number, or None where no name has one."""
        return self.integer(*names, least=least, most=most) if self.raw(*names) else None

    def layers(self) -> int:
        """The number of decoder layers."""
        return self.integer("num_hidden_layers", "n_layer", "n_layers", "num_layers", most=_MOST_LAYERS)

    def optional_number(self, *names: str, above: float, most: float) -> float | None:
        """A number beyond `above`, at most `most`; None where no name has one."""
        found = self.raw(*names)
        if found is None:
            return None
        name, value = found
        if isinstance(value, bool) or not isinstance(value, int | float) or not above < value <= most:
            raise self.fault(f"{_shown(value)} is not usable", name, f"a number above {above:g}, at most {most:g}")
        return float(value)

    def share(self, *names: str, default: float) -> float:
        """A number above 0 and at most 1, or the default."""
        found = self.optional_number(*names, above=0, most=1)
        return default if found is None else found

    def flag(self, *names: str, default: bool = False) -> bool:
        """True or false, or the default."""
        found = self.raw(*names)
        if found is None:
            return default
        name, value = found
        if not isinstance(value, bool):
            raise self.fault(f"{_shown(value)} is not usable", name, "true or false")
        return value

    def text(self, *names: str, default: str = "") -> str:
        """A word, or the default."""
        found = self.raw(*names)
        if found is None:
            return default
        name, value = found
        if not isinstance(value, str):
            raise self.fault(f"{_shown(value)} is not usable", name, "a word")
        return value

    def mapping(self, *names: str) -> Mapping[str, Any]:
        """A nested object; empty where it is absent."""
        found = self.raw(*names)
        if found is None:
            return {}
        name, value = found
        if not isinstance(value, Mapping):
            raise self.fault(f"{_shown(value)} is not usable", name, "an object")
        return value

    def sequence(self, *names: str) -> list[Any]:
        """A list; empty where it is absent."""
        found = self.raw(*names)
        if found is None:
            return []
        name, value = found
        if not isinstance(value, list):
            raise self.fault(f"{_shown(value)} is not usable", name, "a list")
        return value

    def inner(self, *names: str) -> Fields:
        """The look-ups of a nested object."""
        return Fields(self.mapping(*names), self.where)

    def missing(self, *names: str) -> InputError:
        """The error that names the keys looked for and those seen."""
        seen = ", ".join(sorted(str(key) for key in self.values)[:_KEYS_SHOWN]) or "none"
        return self.fault(f"none of {', '.join(names)} is there; keys seen: {seen}", names[0], "a value")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."

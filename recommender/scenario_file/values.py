"""What a single value may be: each reads what was written, or says what was expected and the nearest valid value."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any, NoReturn

from pydantic_core import PydanticCustomError, core_schema

from recommender.errors import nearest, show
from recommender.units import micro_usd, parse_tokens


def refuse(value: Any, expected: str, suggestion: str | None = None) -> NoReturn:
    """Raise what pydantic collects as one fault."""
    context = {"what": f"{show(value)} is not valid", "expected": expected, "suggestion": suggestion}
    raise PydanticCustomError("value", "{what}", context)


class Value(ABC):
    """A kind of value: `read` for the text, `schema` for the published JSON schema."""

    @abstractmethod
    def read(self, value: Any) -> Any:
        """The value inside the program."""

    @abstractmethod
    def schema(self) -> dict[str, Any]:
        """Its JSON schema."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(self.read)

    def __get_pydantic_json_schema__(self, core: Any, handler: Any) -> dict[str, Any]:
        return self.schema()


@dataclass(frozen=True)
class Whole(Value):
    """A whole number within bounds."""

    low: int
    high: int

    def read(self, value: Any) -> int:
        """The number."""
        if not isinstance(value, int) or isinstance(value, bool) or not self.low <= value <= self.high:
            refuse(value, f"a whole number from {self.low:,} to {self.high:,}")
        return value

    def schema(self) -> dict[str, Any]:
        """An integer with its bounds."""
        return {"type": "integer", "minimum": self.low, "maximum": self.high}


@dataclass(frozen=True)
class Tokens(Value):
    """A number of tokens: 8192, 8K or 8k (both 8,192)."""

    low: int = 1
    high: int = 10**8

    def read(self, value: Any) -> int:
        """The tokens."""
        expected = f"tokens from {self.low:,} to {self.high:,}, such as 8192 or 8K"
        if not isinstance(value, int | str) or isinstance(value, bool):
            refuse(value, expected)
        try:
            tokens = parse_tokens(value)
        except ValueError:
            refuse(value, expected)
        if not self.low <= tokens <= self.high:
            refuse(value, expected)
        return tokens

    def schema(self) -> dict[str, Any]:
        """An integer, or text that ends in K or M."""
        whole = {"type": "integer", "minimum": self.low, "maximum": self.high}
        return {"anyOf": [whole, {"type": "string", "pattern": r"^\d+(\.\d+)?\s*[kKmM]?$"}]}


@dataclass(frozen=True)
class Number(Value):
    """A finite decimal number within bounds, exactly as written; `above` excludes the lower bound itself."""

    low: str
    high: str
    unit: str = ""
    above: bool = False

    def read(self, value: Any) -> Decimal:
        """The number, exact."""
        if not isinstance(value, int | Decimal) or isinstance(value, bool):
            refuse(value, self._expected())
        number = Decimal(value)
        if not Decimal(self.low) <= number <= Decimal(self.high) or (self.above and number == Decimal(self.low)):
            refuse(value, self._expected())
        return number

    def _expected(self) -> str:
        lower = f"above {self.low} and up to" if self.above else f"from {self.low} to"
        return f"{self.unit or 'a number'} {lower} {Decimal(self.high):,}"

    def schema(self) -> dict[str, Any]:
        """A number with its bounds."""
        lower = "exclusiveMinimum" if self.above else "minimum"
        return {"type": "number", lower: float(self.low), "maximum": float(self.high)}


@dataclass(frozen=True)
class Profile(Value):
    """Multipliers by the hour of a day or a week."""

    hours: tuple[int, ...] = (24, 168)

    def read(self, value: Any) -> tuple[Decimal, ...]:
        """The multipliers."""
        expected = f"{' or '.join(map(str, self.hours))} numbers from 0, not all 0"
        if not isinstance(value, list) or len(value) not in self.hours:
            refuse(value, expected)
        for number in value:
            if not isinstance(number, int | Decimal) or isinstance(number, bool) or number < 0:
                refuse(number, expected)
        if not any(value):
            refuse(value, expected)
        return tuple(Decimal(number) for number in value)

    def schema(self) -> dict[str, Any]:
        """A list of numbers."""
        return {"type": "array", "items": {"type": "number", "minimum": 0}, "format": "24 or 168 numbers"}


@dataclass(frozen=True)
class Money(Number):
    """Dollars, exact to a micro-dollar."""

    low: str = "0"
    high: str = "1000000000000"
    unit: str = "US dollars"

    def read(self, value: Any) -> Decimal:
        """The dollars, exact."""
        amount = super().read(value)
        try:
            micro_usd(amount)
        except ValueError:
            refuse(value, "US dollars with at most six decimals")
        return amount


@dataclass(frozen=True)
class Word(Value):
    """One of a few words; in `any_case` where it names a thing."""

    choices: tuple[str, ...]
    any_case: bool = False

    def read(self, value: Any) -> str:
        """The word."""
        word = value.casefold() if self.any_case and isinstance(value, str) else value
        if word not in self.choices:
            near = nearest(value, self.choices) if isinstance(value, str) else []
            refuse(value, " | ".join(self.choices), near[0] if near else None)
        return str(word)

    def schema(self) -> dict[str, Any]:
        """Text out of a list."""
        return {"type": "string", "enum": list(self.choices)}


@dataclass(frozen=True)
class Name(Value):
    """A name of the catalog, or a path."""

    what: str

    def read(self, value: Any) -> str:
        """The name."""
        if not isinstance(value, str) or not value.strip() or len(value) > 300:
            refuse(value, self.what)
        return value.strip()

    def schema(self) -> dict[str, Any]:
        """Text."""
        return {"type": "string", "minLength": 1, "maxLength": 300}


@dataclass(frozen=True)
class Switch(Value):
    """True or false."""

    def read(self, value: Any) -> bool:
        """The truth value."""
        if not isinstance(value, bool):
            refuse(value, "true or false")
        return value

    def schema(self) -> dict[str, Any]:
        """A truth value."""
        return {"type": "boolean"}


@dataclass(frozen=True)
class Day(Value):
    """A day, 2026-10-01."""

    def read(self, value: Any) -> date:
        """The day."""
        try:
            return date.fromisoformat(value)
        except (TypeError, ValueError):
            refuse(value, "a day such as 2026-10-01")

    def schema(self) -> dict[str, Any]:
        """Text in ISO form."""
        return {"type": "string", "format": "date"}


@dataclass(frozen=True)
class Version(Value):
    """An engine version, 0.33.0."""

    def read(self, value: Any) -> str:
        """The version as text; an unquoted 0.33 keeps its digits."""
        text = str(value) if isinstance(value, str | Decimal) else ""
        if not re.fullmatch(r"\d{1,4}\.\d{1,4}(\.\d{1,4})?(\.?(post|rc)\d{1,3})?", text):
            refuse(value, "a version such as 0.33.0")
        return text

    def schema(self) -> dict[str, Any]:
        """Text of digits and dots."""
        return {"type": ["string", "number"]}


@dataclass(frozen=True)
class Many(Value):
    """One or several values of a kind, without repetition; a single one may stand without brackets."""

    kind: Value

    def read(self, value: tuple[Any, ...]) -> tuple[Any, ...]:
        """The values in the order written."""
        twice = [item for place, item in enumerate(value) if item in value[:place]]
        if twice:
            refuse(twice[0], "each value once")
        return value

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> core_schema.CoreSchema:
        items = core_schema.list_schema(self.kind.__get_pydantic_core_schema__(source, handler), min_length=1)
        listed = core_schema.no_info_before_validator_function(_as_list, items)
        plain = core_schema.plain_serializer_function_ser_schema(list)
        return core_schema.no_info_after_validator_function(
            lambda value: self.read(tuple(value)), listed, serialization=plain
        )

    def schema(self) -> dict[str, Any]:
        """One value or a list of them."""
        return {"anyOf": [self.kind.schema(), {"type": "array", "items": self.kind.schema(), "minItems": 1}]}


def _as_list(value: Any) -> Any:
    return value if isinstance(value, list) else [value]

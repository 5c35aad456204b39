"""A vLLM start-up log as facts: what each process stated, with its line, and what the engine was started with."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from recommender.units import GIB
from recommender.verify import patterns
from recommender.verify.arguments import Value, command_line, dumped
from recommender.verify.stream import Message, Process, messages_of

_REQUEST = re.compile(r"Received request|Added request|\"(?:GET|POST) /")
"""Lines of a serving engine that repeat what users wrote: nothing in them is the engine's own word."""
LOADED = frozenset(("weights", "non_torch", "activation", "non_kv", "consumed", "torch_peak"))
MEMORY = LOADED | {"kv_cache", "pool", "blocks", "concurrency", "refused_len", "needed", "refused_pool"}
"""Figures that only an engine that has begun to load states; without one of them there is nothing to compare."""
REFUSALS = ("no_free_memory", "no_blocks", "no_request", "no_auto_fit", "out_of_memory")
DEVICES_KEPT = 8


@dataclass(frozen=True, slots=True)
class Figure:
    """One stated figure: bytes or a count (or a Decimal share). `half` is half a unit of its last printed digit."""

    value: int
    half: int
    line: int


@dataclass(frozen=True, slots=True)
class Stated:
    """What one process stated, by name; shares are in `shares`."""

    process: Process
    figures: Mapping[str, Figure]
    shares: Mapping[str, Decimal]

    def __contains__(self, name: str) -> bool:
        return name in self.figures


@dataclass(frozen=True, slots=True)
class StartupLog:
    """One start-up: the last one of the file that states memory."""

    version: str | None
    generation: str | None  # V0 | V1, where the engine says so
    given: Mapping[str, Value]  # arguments as given: by an echoed command, a namespace or the non-default arguments
    config: Mapping[str, Value]  # the engine's own configuration line
    processes: tuple[Stated, ...]
    signs: Mapping[str, int]  # what else was said, with its line
    devices: tuple[str, ...]
    startups: int
    first_line: int
    engines: tuple[str, ...] = ()  # where several wrote at once: each one's model and process

    def smallest(self, name: str) -> Figure | None:
        """The smallest figure of that name over all processes."""
        return min(self._all(name), key=lambda figure: figure.value, default=None)

    def largest(self, name: str) -> Figure | None:
        """The largest figure of that name over all processes."""
        return max(self._all(name), key=lambda figure: figure.value, default=None)

    def share(self, name: str) -> Decimal | None:
        """A share that the log states, the last one."""
        return next((each.shares[name] for each in reversed(self.processes) if name in each.shares), None)

    @property
    def refusal(self) -> str | None:
        """Which refusal ended the start-up; None where none did. Once a pool is formed, memory may run out later."""
        formed = self.largest("pool") is not None or self.largest("blocks") is not None
        return next(
            (name for name in REFUSALS if name in self.signs and not (formed and name == "out_of_memory")), None
        )

    @property
    def states_memory(self) -> bool:
        """Whether there is anything to compare."""
        return self.refusal is not None or any(MEMORY & set(each.figures) for each in self.processes)

    def _all(self, name: str) -> list[Figure]:
        return [each.figures[name] for each in self.processes if name in each]


Identity = tuple[str, ...]
"""What two engines of one replica have in common: model, parallelism, longest request, quantisation."""
_IDENTITY = ("model", "tensor_parallel_size", "pipeline_parallel_size", "max_seq_len", "quantization")


@dataclass(slots=True)
class _Startup:
    """A start-up while it is being read."""

    first_line: int
    version: str | None = None
    generation: str | None = None
    command: dict[str, Value] = field(default_factory=dict)
    namespace: dict[str, Value] = field(default_factory=dict)
    non_default: dict[str, Value] = field(default_factory=dict)
    config: dict[str, Value] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    figures: dict[str, dict[str, Figure]] = field(default_factory=dict)
    shares: dict[str, dict[str, Decimal]] = field(default_factory=dict)
    signs: dict[str, int] = field(default_factory=dict)
    devices: dict[str, None] = field(default_factory=dict)
    initialised: set[str] = field(default_factory=set)
    configured: dict[str, Identity] = field(default_factory=dict)  # by process

    @property
    def loaded(self) -> bool:
        """Whether an engine has stated memory, or why it does not start."""
        return any(name in self.signs for name in REFUSALS) or any(
            not MEMORY.isdisjoint(stated) for stated in self.figures.values()
        )

    def finished(self, count: int) -> StartupLog:
        """The start-up as it stands."""
        keys = sorted(self.names, key=lambda key: (self.names[key], key))
        return StartupLog(
            version=self.version,
            generation="V1" if "v1_lines" in self.signs else self.generation,
            given={**self.command, **self.namespace, **self.non_default},
            config=dict(self.config),
            processes=tuple(
                Stated(Process(key, self.names[key]), self.figures.get(key, {}), self.shares.get(key, {}))
                for key in keys
            ),
            signs=dict(self.signs),
            devices=tuple(self.devices),
            startups=count,
            first_line=self.first_line,
            engines=self.engines,
        )

    @property
    def engines(self) -> tuple[str, ...]:
        """The engines that all state memory here, where they are not the data-parallel ranks of one."""
        found = [key for key in self.configured if not MEMORY.isdisjoint(self.figures.get(key, {}))]
        alike = len({self.configured[key] for key in found}) == 1
        if len(found) < 2 or (alike and len({self.names[key] for key in found}) == len(found)):
            return ()
        return tuple(f"{self.configured[key][0]} (pid {key.rpartition('/')[2]})" for key in sorted(found))


def read_log(blocks: Iterable[bytes]) -> StartupLog | None:
    """The last start-up of a log that states memory, else the last one at all; None where it holds none."""
    count, best, current = 0, None, _Startup(1)
    for message in messages_of(blocks, patterns.WORDS):
        if _REQUEST.search(message.text):
            continue
        if _begins_anew(message, current):
            best, count, current = current, count + 1, _Startup(message.line, configured=dict(current.configured))
        _read(message, current)
    seen = current.loaded or bool(current.version or current.config or current.non_default or current.namespace)
    kept = best if best is not None and not current.loaded else current
    return kept.finished(count + seen) if seen or best is not None else None


def _begins_anew(message: Message, current: _Startup) -> bool:
    """Whether the engine starts again: an opening line after one of its processes has loaded."""
    if not current.loaded:
        return False
    engine = patterns.VERSION[0].search(message.text)
    if engine:
        return message.process.name in current.initialised or not current.initialised
    return bool(patterns.VERSION[1].search(message.text) or patterns.NON_DEFAULT.search(message.text))


def _read(message: Message, into: _Startup) -> None:
    text = message.text
    _read_opening(message, into)
    for pattern in (*patterns.RANK, *patterns.ENGINE):
        found = pattern.search(text)
        if found:
            _note(message, found.groupdict(), into)
    for name, sign in patterns.SIGNS.items():
        if sign.search(text):
            into.signs.setdefault(name, message.line)
    for device in patterns.DEVICE:
        if len(into.devices) < DEVICES_KEPT and (found := device.search(text)):
            into.devices.setdefault(found[1].replace("_", " ").strip())


def _read_opening(message: Message, into: _Startup) -> None:
    text = message.text
    for pattern in patterns.VERSION:
        if (found := pattern.search(text)) is not None:
            into.version = into.version or found["version"]
            if "generation" in pattern.groupindex:
                into.generation = found["generation"] or "V0"
                into.initialised.add(message.process.name)
    for pattern, dump in (
        (patterns.NON_DEFAULT, into.non_default),
        (patterns.NAMESPACE, into.namespace),
        (patterns.CONFIG, into.config),
    ):
        if (found := pattern.search(text)) is not None:
            pairs = dumped(text[found.end() :]) if not dump or dump is into.config else {}
            if dump is into.config and message.process.key:
                into.configured[message.process.key] = tuple(str(pairs.get(name)) for name in _IDENTITY)
            if not dump:
                dump.update(pairs)
    if not into.command and not into.loaded and patterns.COMMAND.search(text):
        into.command.update(command_line(text))


def _note(message: Message, groups: Mapping[str, str | None], into: _Startup) -> None:
    """Keep the figures of one line; a later line of the same process replaces an earlier one."""
    key = message.process.key
    if len(message.process.name) >= len(into.names.get(key, "")):
        into.names[key] = message.process.name
    for group, text in groups.items():
        if text is None:
            continue
        name, _, unit = group.rpartition("_")
        if unit in ("share", "x"):
            into.shares.setdefault(key, {})[name] = Decimal(text)
        into.figures.setdefault(key, {})[name] = _figure(text, unit, message.line)


def _figure(text: str, unit: str, line: int) -> Figure:
    number = Decimal(text.replace(",", ""))
    if unit == "gib":
        exponent = number.as_tuple().exponent
        decimals = max(2, -exponent if isinstance(exponent, int) else 2)  # 3.9 is 3.90 with its zero cut
        return Figure(round(number * GIB), round(GIB * Decimal(5).scaleb(-decimals - 1)), line)
    if unit in ("share", "x"):
        return Figure(round(number * 10**6), 5000 if unit == "x" else 0, line)
    return Figure(int(number), 0, line)

"""The messages of a log, whatever wraps them: terminal colours, JSON lines, prefixes of containers and of processes."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

LONGEST_LINE = 2**18
"""Characters of a line that are read; the longest that vLLM writes (its configuration) has some 20,000."""
PREFIX = 400
"""Characters in which a line names the process that wrote it."""
DEEPEST_WRAPPING = 3  # a JSON line inside docker's JSON file inside a collector's

_COLOUR = re.compile(
    r"(?:\x1b|\\u001b|\\x1b|\\033)\[[0-9;:?]*[ -/]*[@-~]|\x1b[@-Z\\-_]|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]"
)
_PROCESS = re.compile(
    r"\((?P<name>[A-Za-z][\w.() -]{0,80}?) (?:rank=(?P<rank>\d{1,6}) )?pid=(?P<pid>\d{1,10})"
    r"(?:, ip=(?P<ip>[\d.a-fA-F:]{1,45}))?\)"
)
_MESSAGE_KEYS = ("message", "msg", "log", "textPayload", "jsonPayload", "event", "body", "line", "@message", "text")
_PID_KEYS = ("pid", "process_id", "processId", "process")
_NAME_KEYS = ("processName", "process_name", "role")


@dataclass(frozen=True, slots=True)
class Process:
    """Who wrote a line. Names change while the engine starts (`Worker` becomes `Worker_TP0`); `key` does not."""

    key: str
    name: str


MAIN = Process("", "")


@dataclass(frozen=True, slots=True)
class Message:
    """One message, with the line of the file it stands in."""

    line: int
    process: Process
    text: str


def messages_of(blocks: Iterable[bytes], words: tuple[str, ...]) -> Iterator[Message]:
    """The messages in which one of the words stands. Memory stays bounded, whatever the file holds."""
    for number, line in _lines(blocks, words):
        if any(word in line for word in words):
            yield from _unwrapped(number, line, MAIN, DEEPEST_WRAPPING)


def _lines(blocks: Iterable[bytes], words: tuple[str, ...]) -> Iterator[tuple[int, str]]:
    """(number, line) of the pieces of the file that hold one of the words at all."""
    number, rest = 1, ""
    for text in _decoded(blocks):
        whole, newline, rest = (rest + text).rpartition("\n")
        if newline:
            if any(word in whole for word in words):
                yield from enumerate((line[:LONGEST_LINE] for line in whole.split("\n")), number)
            number += whole.count("\n") + 1
        rest = rest[:LONGEST_LINE]
    yield number, rest


def _decoded(blocks: Iterable[bytes]) -> Iterator[str]:
    """The blocks as text. PowerShell redirects in UTF-16; bytes that are no text become replacement characters."""
    decoder: codecs.IncrementalDecoder | None = None
    for block in blocks:
        if decoder is None:
            wide = block.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
            decoder = codecs.getincrementaldecoder("utf-16" if wide else "utf-8-sig")(errors="replace")
        yield decoder.decode(block)


def _unwrapped(number: int, line: str, process: Process, depth: int) -> Iterator[Message]:
    inner = _json_message(line) if depth and line.lstrip().startswith("{") else None
    if inner is not None:
        text, stated = inner
        for part in text.split("\n"):
            yield from _unwrapped(number, part, stated or process, depth - 1)
        return
    for part in _COLOUR.sub("", line.replace("\r", "\n")).split("\n"):  # progress bars end in a carriage return
        found = _PROCESS.search(part, 0, PREFIX)
        yield Message(number, _process(found) if found else process, part)


def _process(found: re.Match[str]) -> Process:
    rank = f" rank {found['rank']}" if found["rank"] else ""
    return Process(f"{found['ip'] or ''}/{found['pid']}", f"{found['name']}{rank}")


def _json_message(line: str) -> tuple[str, Process | None] | None:
    """(message, process) of a line that is a JSON object with a message; None where it is not."""
    try:
        record = json.loads(line.strip())
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict):
        return None
    for key in _MESSAGE_KEYS:
        value = record.get(key)
        if isinstance(value, dict):
            value = next((value[name] for name in _MESSAGE_KEYS if isinstance(value.get(name), str)), None)
        if isinstance(value, str):
            return value, _stated_process(record)
    return None


def _stated_process(record: dict[str, Any]) -> Process | None:
    pid = next((record[key] for key in _PID_KEYS if isinstance(record.get(key), int | str)), None)
    name = next((record[key] for key in _NAME_KEYS if isinstance(record.get(key), str)), None)
    return (
        None if pid is None and name is None else Process(f"/{pid or name}"[:100], str(name or f"process {pid}")[:100])
    )

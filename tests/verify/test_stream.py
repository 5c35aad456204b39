from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from recommender.verify.stream import LONGEST_LINE, MAIN, Process, messages_of

WORDS = ("Available KV cache",)
LINE = "(Worker_TP0 pid=443) INFO 04-22 01:38:03 [gpu_worker.py:436] Available KV cache memory: 67.44 GiB"


def _texts(content: bytes, size: int = 2**16) -> list[str]:
    return [message.text for message in messages_of(_blocks(content, size), WORDS)]


def _blocks(content: bytes, size: int) -> Iterator[bytes]:
    return (content[start : start + size] for start in range(0, len(content), size))


def test_message_knows_its_line_and_process() -> None:
    (message,) = messages_of([f"first\n{LINE}\nlast".encode()], WORDS)
    assert (message.line, message.process) == (2, Process("/443", "Worker_TP0"))


@pytest.mark.parametrize("size", [1, 7, 64, 10_000])
def test_blocks_may_cut_anywhere(size: int) -> None:
    content = f"x\n{LINE}\ny\n{LINE}é\n".encode()
    lines = [message.line for message in messages_of(_blocks(content, size), WORDS)]
    assert (_texts(content, size), lines) == ([LINE, f"{LINE}é"], [2, 4])


@pytest.mark.parametrize(
    "wrapped",
    [
        f"\x1b[0;36m{LINE}\x1b[0;0m",
        f"\x1b[0;36m(Worker_TP0 pid=443)\x1b[0;0m{LINE.removeprefix('(Worker_TP0 pid=443)')}",
        f"{LINE}\r",
        json.dumps({"time": 1, "level": "INFO", "message": LINE}),
        json.dumps({"log": f"{LINE}\n", "stream": "stderr", "time": "2026-01-01T00:00:00Z"}),
        json.dumps({"log": json.dumps({"msg": LINE}) + "\n"}),
        json.dumps({"jsonPayload": {"message": LINE}, "severity": "INFO"}),
        json.dumps({"message": f"\x1b[36m{LINE}\x1b[0m"}),
    ],
    ids=["coloured", "coloured name", "windows", "json", "docker", "json in docker", "nested", "coloured json"],
)
def test_wrapping_is_taken_off(wrapped: str) -> None:
    assert [text for text in _texts(f"{wrapped}\n".encode()) if text] == [LINE]


@pytest.mark.parametrize(
    "prefix",
    ["vllm-1  | ", "2026-04-19T12:18:36.268Z stdout F ", "Aug 22 20:20:14 host python[12764]: ", "65:"],
    ids=["compose", "kubernetes", "journal", "grep -n"],
)
def test_prefixes_hide_nothing(prefix: str) -> None:
    (message,) = messages_of([f"{prefix}{LINE}\n".encode()], WORDS)
    assert message.process.name == "Worker_TP0"


def test_process_that_a_json_line_states() -> None:
    record = {"message": "Available KV cache memory: 1.00 GiB", "process": 77, "processName": "EngineCore_DP1"}
    (message,) = messages_of([json.dumps(record).encode()], WORDS)
    assert message.process == Process("/77", "EngineCore_DP1")


@pytest.mark.parametrize(
    ("said", "process"),
    [
        ("(RayWorkerWrapper pid=345, ip=10.224.1.180) ", Process("10.224.1.180/345", "RayWorkerWrapper")),
        ("(VllmWorker rank=1 pid=3742) ", Process("/3742", "VllmWorker rank 1")),
        ("(MapWorker(MapBatches(vLLMEngineStageUDF)) pid=5, ip=10.0.0.1) ", None),
        ("", MAIN),
    ],
)
def test_processes_are_told_apart_by_pid(said: str, process: Process | None) -> None:
    (message,) = messages_of([f"{said}Available KV cache memory: 1.00 GiB".encode()], WORDS)
    assert message.process.key == (process.key if process else "10.0.0.1/5")
    assert process is None or message.process == process


def test_progress_bars_share_a_line_with_what_follows() -> None:
    content = f"Capturing: 10%\rCapturing: 99%\r{LINE}\n".encode()
    assert LINE in _texts(content)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le"])
def test_powershell_writes_utf_16(encoding: str) -> None:
    mark = "\ufeff" if encoding == "utf-16-le" else ""
    assert _texts(f"{mark}x\r\n{LINE}\r\n".encode(encoding), size=33)[0] == LINE


def test_endless_line_is_cut_and_what_follows_is_read() -> None:
    endless = b"Available KV cache" + b"x" * (3 * LONGEST_LINE)
    first, last = _texts(endless + f"\n{LINE}\n".encode())
    assert (len(first), last) == (LONGEST_LINE, LINE)


@pytest.mark.parametrize(
    "text", ['{"a":' * 5000, "{" * 5000, '{"message": 1e999999}', '{"log": "' + "1" * 5000 + '"', "[" * 99]
)
def test_broken_json_is_text(text: str) -> None:
    assert _texts(f"{text} Available KV cache\n".encode()) != []

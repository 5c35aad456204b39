"""Logs, cell files and scrapes as they break in the world: a clear error or a counted drop, in bounded memory."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from recommender.errors import InputError
from recommender.workload.logs import csv_file
from recommender.workload.prometheus import lengths_from_metrics, samples_of
from recommender.workload.readers import summarise
from recommender.workload.source import describe, lengths_of
from recommender.workload.traffic import from_log

HEAD = "prompt_tokens,completion_tokens\n"
TIMED = "timestamp,prompt_tokens,completion_tokens\n"
RECORD = '{"prompt_tokens": 10, "completion_tokens": 20}\n'

Write = Callable[[str, str | bytes], Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def written(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
        return path

    return written


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("utf32.csv", (HEAD + "1,2\n").encode("utf-32"), "UTF-16"),
        ("no-bom.csv", (HEAD + "1,2\n").encode("utf-16-le"), "is binary"),
        ("zipped.csv", gzip.compress((HEAD + "1,2\n").encode()), "is binary"),
        ("crc.csv.gz", gzip.compress((HEAD + "1,2\n").encode())[:-8] + bytes(8), "CRC"),
        ("behind.csv.gz", gzip.compress((HEAD + "1,2\n").encode()) + b"garbage", "cannot be read"),
        ("nothing.csv.gz", b"", "is empty"),
        ("twice.csv", "prompt_tokens,prompt_tokens,completion_tokens\n1,2,3\n", "'prompt_tokens' stands 2 times"),
        ("quote.csv", HEAD + '10,20\n"30,40\n50,60\n', "a quote that opens in row 2 is not closed"),
        ("quoted-head.csv", '"prompt_tokens,completion_tokens\n1,2\n', "no column with input tokens"),
        ("words.csv", HEAD + "a,b\n", "no request could be read of 1 row"),
        ("arrays.json", "[" * 900 + RECORD + "]" * 900, "holds no records"),
        ("objects.json", '{"a":' * 100_000 + "1" + "}" * 100_000, "is not JSON"),
        ("digits.json", '[{"prompt_tokens": ' + "9" * 5000 + ', "completion_tokens": 2}]', "thousands of digits"),
        ("scalar.json", "5", "holds no records"),
        ("lists.json", '{"input_lens": [], "output_lens": []}', "holds no records"),
        ("utf16.prom", "vllm:x 1\n".encode("utf-16"), "UTF-16"),
        ("other.prom", "node_load1 0.5\n", "the histogram is missing"),
    ],
)
def test_what_cannot_be_read_says_why(write: Write, name: str, content: str | bytes, message: str) -> None:
    path = write(name, content)
    with pytest.raises(InputError, match=message):
        describe(path)
    with pytest.raises(InputError, match=message):
        lengths_of(path)


@pytest.mark.parametrize(
    ("name", "content", "requests", "dropped"),
    [
        ("nul.csv", (HEAD + "10,20\n" * 500).encode() + b"\0\0,5\n7,8\n", 501, 1),
        ("nul.jsonl", (RECORD * 500).encode() + b"\0" + RECORD.encode(), 501, 0),
        ("deep.jsonl", RECORD + '{"a":' * 100_000 + "\n" + RECORD, 2, 1),
        ("deep-array.jsonl", RECORD + "[" * 900 + "]" * 900 + "\n" + RECORD, 2, 1),
        ("huge.json", '[{"prompt_tokens": ' + "9" * 400 + ', "completion_tokens": 2},' + RECORD + "]", 1, 1),
        ("nan.jsonl", '{"prompt_tokens": NaN, "completion_tokens": 2}\n' + RECORD, 1, 1),
        ("types.json", '[{"prompt_tokens": {"a": 1}, "completion_tokens": [1]}, 5, null,' + RECORD + "]", 1, 1),
        ("bool.csv", HEAD + "True,False\n10,20\n", 1, 1),
        ("int64.csv", HEAD + "9223372036854775808,1\n-9223372036854775809,1\n10,20\n", 1, 2),
        ("long.csv", HEAD + "1" * 3_000_000 + ",2\n10,20\n", 1, 1),
        ("surrogate.jsonl", '{"prompt_tokens": 10, "completion_tokens": 20, "\\ud800": "\\ud800"}\n', 1, 0),
        ("blank.csv", HEAD + "\n" * 1000 + "10,20\n", 1, 0),
    ],
)
def test_broken_rows_are_counted(write: Write, name: str, content: str | bytes, requests: int, dropped: int) -> None:
    summary = describe(write(name, content))
    assert (summary.requests, sum(count for _, count in summary.dropped)) == (requests, dropped)


@pytest.mark.parametrize(
    ("times", "duration_s", "unread"),
    [
        (["1970-01-01T00:00:00Z", "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"], 60, 1),
        (["2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z", "0001-01-01T00:00:00Z"], 60, 1),
        (["1960-01-01T00:00:00Z", "1960-01-01T00:01:00Z"], 60, 0),
        (["2026-01-01T00:00:00+02:00", "2025-12-31T22:00:30Z", "2025-12-31T17:00:45-0500"], 45, 0),
        (["2026-01-01T00:00:00Z", "2026-01-01T00:00:30Z", "2026-01-01T00:00:00+99:99"], 30, 1),
        (["inf", "1700000000", "1700000060"], 60, 1),
        (["nan", "1700000000", "1e300", "1700000060"], 60, 2),
        (["1700000060", "1700000000"], 60, 0),
    ],
    ids=["epoch 0", "year 1", "before 1970", "zones", "no zone", "inf", "nan and 1e300", "backwards"],
)
def test_odd_times_do_not_hide_the_others(write: Write, times: list[str], duration_s: float, unread: int) -> None:
    path = write("log.csv", TIMED + "".join(f"{time},10,20\n" for time in times))
    summary = summarise(path)
    assert summary.requests == len(times)
    assert summary.arrivals
    assert summary.arrivals.duration_s == duration_s
    assert (len(summary.notes), unread) in ((0, 0), (1, 1), (1, 2))
    assert from_log(path)[-1].arrival_s == duration_s


def test_times_that_say_nothing_leave_arrivals_out(write: Write) -> None:
    for number, value in enumerate(("nan", "1e300", "yesterday", "")):
        summary = summarise(write(f"{number}.csv", TIMED + f"{value},10,20\n" * 2))
        assert (summary.requests, summary.arrivals) == (2, None)


def test_a_very_slow_log_keeps_its_rate(write: Write) -> None:
    lengths = lengths_of(write("log.csv", TIMED + "2020-01-01T00:00:00Z,10,20\n2026-01-01T00:00:00Z,10,20\n"))
    assert lengths.arrivals
    assert lengths.arrivals.rate_per_s == pytest.approx(2 / (2192 * 86400), rel=1e-3)


def test_rows_are_split_between_segments_at_row_ends(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """Line ends within quotes are no row ends; rows much wider than the first are no fault."""
    monkeypatch.setattr(csv_file, "_READ_BYTES", 64)
    monkeypatch.setattr(csv_file, "_SEGMENT_BYTES", 128)
    rows = "".join(f'"a ""{row}""\n\n,{"x" * (row % 90)}",{row + 1},{row % 7 + 1}\n' for row in range(400))
    summary = summarise(write("log.csv", "prompt,prompt_tokens,completion_tokens\n" + rows))
    assert (summary.rows, summary.requests, summary.dropped) == (400, 400, ())
    assert summary.input.mean == 200.5
    monkeypatch.setattr(csv_file, "_MOST_HELD_BYTES", 1000)
    with pytest.raises(InputError, match="has rows that do not end within 1,000 bytes"):
        summarise(write("quote.csv", HEAD + "10,20\n" + '"' + "30,40\n" * 400), cache=False)


BOMBS = {
    "zeros.csv.gz": (b"", b"\0"),
    "line.csv.gz": (HEAD.encode(), b"1"),
    "commas.csv.gz": (HEAD.encode(), b","),
    "quote.csv.gz": (HEAD.encode() + b'"', b"10,20\n"),
    "line.jsonl.gz": (RECORD.encode() + b'{"a":"', b"x"),
    "spaces.json.gz": (b"[", b" "),
    "lists.json.gz": (b"[", b"[],"),
    "scrape.prom.gz": (b"", b"vllm:a 1\n"),
}
MEASURED = """
import sys
from recommender.errors import InputError
from recommender.workload.source import describe
try:
    describe(sys.argv[1])
except InputError as error:
    # Not ru_maxrss: over a fork and an exec it starts at what the process of the tests held.
    peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM:"))
    print(int(peak.split()[1]) // 1024, error)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
@pytest.mark.parametrize("name", BOMBS)
def test_small_files_that_unpack_to_much_are_refused_in_bounded_memory(write: Write, name: str) -> None:
    """300 MB out of some 1 MB; refused before anything is made of them."""
    head, piece = BOMBS[name]
    block = piece * (2**20 // len(piece))
    path = write(name, b"")
    with gzip.open(path, "wb", compresslevel=1) as stream:
        stream.write(head)
        for _ in range(300):
            stream.write(block)
    assert path.stat().st_size < 3_000_000
    run = subprocess.run([sys.executable, "-c", MEASURED, str(path)], capture_output=True, text=True, check=True)
    megabytes, _, said = run.stdout.partition(" ")
    assert name in said
    assert int(megabytes) < 600


CELLS: dict[str, Any] = {
    "bucketing": "half octaves",
    "requests": 3,
    "total_tokens": {"maximum": 100, "quantiles": [[0.5, 30]]},
    "cells": [[1, 10, 20], [2, 40, 20]],
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema_version": 99}, "schema_version: 99 is of another version"),
        ({"requests": 4}, "the cells count 3 requests, not 4: the file was changed"),
        ({"requests": "x"}, "the file was changed"),
        ({"total_tokens": {"maximum": 50}}, "a cell holds requests of 60 tokens"),
        ({"total_tokens": {"maximum": 1e400}}, "the longest request is not stated"),
        ({"cells": [[1e308, 1, 2], [1e308, 3, 4]]}, "requests cannot be"),
        ({"cells": [[10**400, 1, 2]]}, "not a finite number"),
        ({"cells": [[5e-324, 1, 2]]}, "requests cannot be"),
        ({"arrivals": {"rate_per_s": -5}}, "broken arrivals"),
        ({"arrivals": {"rate_per_s": 1, "peak_to_mean_60s": -1}}, "broken arrivals"),
        ({"arrivals": {"rate_per_s": 1, "duration_s": "long"}}, "broken arrivals"),
        ({"arrivals": {"rate_per_s": 1, "hourly": [-1] * 24}}, "broken arrivals"),
        ({"arrivals": {"rate_per_s": 1, "hourly": [1] * 23}}, "broken arrivals"),
        ({"log": {}}, "log: broken or incomplete"),
    ],
)
def test_a_cell_file_that_was_tampered_with_is_refused(write: Write, change: dict[str, Any], message: str) -> None:
    assert lengths_of(write("good.json", json.dumps(CELLS))).maximum_tokens == 100
    with pytest.raises(InputError, match=message):
        describe(write("cells.json", json.dumps(CELLS | change)))


EVEN = (("1.0", "0"), ("10.0", "5"), ("100.0", "10"), ("+Inf", "10"))


def metrics(buckets: tuple[tuple[str, str], ...], total: str, number: str) -> str:
    """A scrape whose prompts are so, and whose outputs are fine."""
    text = ""
    for name, rows, whole, count in (
        ("vllm:request_prompt_tokens", buckets, total, number),
        ("vllm:request_generation_tokens", EVEN, "200", "10"),
    ):
        text += "".join(f'{name}_bucket{{le="{edge}"}} {value}\n' for edge, value in rows)
        text += f"{name}_sum {whole}\n{name}_count {count}\n"
    return text


@pytest.mark.parametrize(
    ("buckets", "total", "number", "message"),
    [
        ((("1.0", "5"), ("10.0", "3"), ("+Inf", "3")), "20", "3", "counts fall"),
        ((*EVEN[:2], ("+Inf", "3")), "20", "3", "counts fall"),
        (EVEN, "NaN", "10", "no finite number"),
        (EVEN, "200", "+Inf", "no finite number"),
        ((("1.0", "0"), ("10.0", "+Inf")), "200", "10", "no finite number"),
        (EVEN, "200", "5", "its buckets count 10 requests, its _count 5"),
        (EVEN, "-200", "10", "its _sum means -20 tokens"),
        (EVEN, "1e300", "10", "its _sum means"),
        ((("+Inf", "9"),), "20", "9", "has no buckets of tokens"),
        (EVEN, "0", "0", "no request was counted"),
        (EVEN[:3], "2000", "12", "2 requests lie beyond the last bucket"),
    ],
)
def test_histograms_that_cannot_be(buckets: Any, total: str, number: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        lengths_from_metrics(samples_of(metrics(buckets, total, number)))


def test_a_missing_last_bucket_is_known_by_the_count() -> None:
    """Prometheus' +Inf bucket is _count: what lies beyond the last edge must not be lost."""
    whole = lengths_from_metrics(samples_of(metrics((*EVEN[:3], ("+Inf", "12")), "2000", "12")), longest=1000)
    without = lengths_from_metrics(samples_of(metrics(EVEN[:3], "2000", "12")), longest=1000)
    assert without.cells == whole.cells
    assert lengths_from_metrics(samples_of(metrics(EVEN[:3], "200", "10"))).maximum_tokens == 200


def test_parquet_with_structs_dates_and_odd_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def kept(name: str, **columns: Any) -> Path:
        pq.write_table(pa.table(columns), tmp_path / name)
        return tmp_path / name

    nested = kept("nested.parquet", usage=[{"prompt_tokens": 1, "completion_tokens": 2}], id=["a"])
    assert summarise(nested).cells == ((1, 1.0, 2.0),)
    far = pa.array([-(10**18), 1_720_000_000_000_000, 1_720_000_060_000_000], pa.timestamp("us"))
    dated = summarise(kept("far.parquet", input_tokens=[1] * 3, output_tokens=[2] * 3, timestamp=far))
    assert dated.arrivals
    assert dated.arrivals.duration_s == 60
    for name, column in {"lists": [[1], [2]], "booleans": [True, False], "nothing": pa.nulls(2)}.items():
        with pytest.raises(InputError, match="2 lengths missing or not a number"):
            summarise(kept(f"{name}.parquet", input_tokens=column, output_tokens=[1, 2]))
    words = kept("words.parquet", input_tokens=[1, 2], output_tokens=[1, 2], status=[["a"], ["b"]])
    assert summarise(words).requests == 2
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(nested.read_bytes()[:-10])
    with pytest.raises(InputError, match="cannot be read"):
        summarise(broken)

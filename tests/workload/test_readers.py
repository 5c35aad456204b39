"""Every format that a log comes in, written as its source writes it."""
# ruff: noqa: E501

import gzip
import json
import sys

import pytest

from recommender.errors import InputError
from recommender.workload import readers
from recommender.workload.readers import summarise
from recommender.workload.summary import LengthsSummary, written

AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:17:03.9799600,4808,10
2023-11-16 18:17:04.0319600,3180,8
2023-11-16 18:17:05.0000000,374,44
2023-11-16 18:17:06.0000000,396,109
"""
BURSTGPT = """Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type
5,12,3.1,ChatGPT,472,18,490,Conversation log
45,,9.8,GPT-4,1087,230,1317,API log
118,,0.2,GPT-4,417,0,417,API log
"""
LITELLM = """request_id,call_type,model,prompt_tokens,completion_tokens,total_tokens,startTime,endTime,completionStartTime,cache_hit,status
r1,acompletion,m,1200,300,1500,2026-07-01T10:00:00Z,2026-07-01T10:00:06.5Z,2026-07-01T10:00:00.5Z,False,success
r2,acompletion,m,900,100,1000,2026-07-01T10:00:02Z,2026-07-01T10:00:04.5Z,2026-07-01T10:00:02.5Z,False,success
r3,aembedding,e,50,0,50,2026-07-01T10:00:03Z,2026-07-01T10:00:03.1Z,,False,success
"""


@pytest.fixture
def write(tmp_path):
    def write(name, text):
        path = tmp_path / name
        content = text if isinstance(text, bytes) else text.encode()
        if path.suffix == ".gz":
            content = gzip.compress(content)
        path.write_bytes(content)
        return path

    return write


def lines(*records):
    return "".join(json.dumps(record) + "\n" for record in records)


def pairs(summary):
    """The requests of a summary of few, distinct requests, as (prompt, output)."""
    return sorted((prompt, output) for count, prompt, output in summary.cells for _ in range(count))


def test_azure(write):
    summary = summarise(write("AzureLLMInferenceTrace.csv", AZURE))
    assert pairs(summary) == [(374, 44), (396, 109), (3180, 8), (4808, 10)]
    assert (summary.input.mean, summary.output.mean, summary.total.maximum) == (2189.5, 42.75, 4818)
    assert summary.total.quantile(0.5) == 505
    assert summary.arrivals.duration_s == pytest.approx(2.02, abs=0.001)
    assert summary.dropped == ()
    assert summary.timestamps == "TIMESTAMP: date and time"


def test_burstgpt_counts_failures(write):
    summary = summarise(write("BurstGPT.csv", BURSTGPT))
    assert (summary.rows, summary.requests) == (3, 2)
    assert summary.dropped == (("no output (failed)", 1),)
    assert pairs(summary) == [(472, 18), (1087, 230)]
    assert summary.arrivals.duration_s == 40
    assert dict(summary.latency) == {"request_s": 6.45}
    assert summary.timestamps == "Timestamp: s"


def test_litellm_skips_embeddings_and_measures_latency(write):
    summary = summarise(write("spend.csv", LITELLM))
    assert pairs(summary) == [(900, 100), (1200, 300)]
    assert summary.dropped == (("not a generation (embedding and the like)", 1),)
    latency = dict(summary.latency)
    assert latency["ttft_s"] == 0.5
    assert latency["tpot_s"] == pytest.approx((6.0 / 299 + 2.0 / 99) / 2, abs=1e-6)
    assert summary.peak_concurrency == 2


def test_litellm_rows_that_never_reached_the_engine(write):
    more = LITELLM + "r4,acompletion,m,10,5,15,2026-07-01T10:00:05Z,2026-07-01T10:00:05Z,,True,success\n"
    more += "r5,acompletion,m,10,5,15,2026-07-01T10:00:06Z,2026-07-01T10:00:07Z,,False,failure\n"
    dropped = dict(summarise(write("spend.csv", more)).dropped)
    assert dropped["failed"] == dropped["answered from a cache in front of the engine"] == 1


MOONCAKE = [
    {"timestamp": 0, "input_length": 6755, "output_length": 500, "hash_ids": [46, 47]},
    {"timestamp": 27482, "input_length": 12035, "output_length": 343, "hash_ids": [46, 48]},
]
REQUESTS = [(6755, 500), (12035, 343)]
BAILIAN = [
    {"chat_id": 1, "parent_chat_id": -1, "timestamp": 61.1, "input_length": 200, "output_length": 30, "type": "text",
     "turn": 1, "hash_ids": [1]},
    {"chat_id": 2, "parent_chat_id": 1, "timestamp": 91.1, "input_length": 400, "output_length": 60, "type": "text",
     "turn": 2, "hash_ids": [1, 2]},
]  # fmt: skip
OPENAI = [
    {"id": "a", "object": "chat.completion", "created": 1720000000, "choices": [{"message": {"content": "{\"prompt_tokens\": 9}"}}],
     "usage": {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120, "prompt_tokens_details": {"cached_tokens": 64}}},
    {"id": "b", "object": "chat.completion", "created": 1720000060, "choices": [],
     "usage": {"prompt_tokens": 300, "completion_tokens": 40, "total_tokens": 340, "prompt_tokens_details": {"cached_tokens": 0}}},
]  # fmt: skip
AIPERF = [
    {"metadata": {"request_start_ns": 1720000000_000000000, "request_end_ns": 1720000002_000000000, "was_cancelled": False},
     "metrics": {"input_sequence_length": {"value": 550, "unit": "tokens"}, "output_sequence_length": {"value": 48, "unit": "tokens"}}, "error": None},
    {"metadata": {"request_start_ns": 1720000010_000000000, "request_end_ns": 1720000011_000000000, "was_cancelled": False},
     "metrics": {"input_sequence_length": {"value": 60, "unit": "tokens"}, "output_sequence_length": {"value": 7, "unit": "tokens"}}, "error": None},
    {"metadata": {"request_start_ns": 1720000012_000000000, "was_cancelled": True}, "metrics": {}, "error": {"code": 499}},
]  # fmt: skip
WEKA = [
    {"id": "c1", "hash_ids": [1], "requests": [{"t": 0.0, "in": 100, "out": 10}, {"t": 20.5, "in": 150, "out": 20}]},
    {"id": "c2", "hash_ids": [2], "requests": [{"t": 5.0, "in": 900, "out": 30}]},
]


@pytest.mark.parametrize(
    ("name", "text", "requests", "timestamps", "seconds"),
    [
        ("mooncake.jsonl", lines(*MOONCAKE), REQUESTS, "timestamp: ms", 27.482),
        ("bailian.jsonl", lines(*BAILIAN), [(200, 30), (400, 60)], "timestamp: s", 30),
        ("responses.jsonl", lines(*OPENAI), [(100, 20), (300, 40)], "created: s", 60),
        ("profile_export.jsonl", lines(*AIPERF), [(60, 7), (550, 48)], "metadata.request_start_ns: ns", 10),
        ("weka.jsonl", lines(*WEKA), [(100, 10), (150, 20), (900, 30)], "t: s", 20.5),
        ("mooncake.ndjson", lines(*MOONCAKE).replace("\n", "\r\n"), REQUESTS, "timestamp: ms", 27.482),
        ("mooncake.json", json.dumps(MOONCAKE, indent=1), REQUESTS, "timestamp: ms", 27.482),
        ("lines.json", lines(*MOONCAKE), REQUESTS, "timestamp: ms", 27.482),
        ("data.json", json.dumps({"object": "list", "data": OPENAI}), [(100, 20), (300, 40)], "created: s", 60),
        (
            "vidur.csv",
            "arrived_at,num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio\n0.5,900,100,1000,9\n2.0,50,5,55,10\n",
            [(50, 5), (900, 100)],
            "arrived_at: s",
            1.5,
        ),
        (
            "splitwise.csv",
            "request_id,request_type,application_id,arrival_timestamp,batch_size,prompt_size,token_size\n0,2,0,0.1,1,374,44\n1,2,0,3.1,1,396,109\n",
            [(374, 44), (396, 109)],
            "arrival_timestamp: s",
            3.0,
        ),
        (
            "guidellm_traces.csv",
            "prompt_tokens_count;output_tokens_count\n100;10\n200;20\n",
            [(100, 10), (200, 20)],
            "no timestamps",
            None,
        ),
        ("generic.csv", "isl\tosl\n10\t20\n30\t40\n", [(10, 20), (30, 40)], "no timestamps", None),
        (
            "epoch.csv",
            "ts,input_tokens,output_tokens\n1720000000123,10,20\n1720000005123,30,40\n",
            [(10, 20), (30, 40)],
            "ts: ms",
            5,
        ),
    ],
)  # fmt: skip
def test_formats(write, name, text, requests, timestamps, seconds):
    summary = summarise(write(name, text))
    assert pairs(summary) == requests
    assert summary.timestamps == timestamps
    assert (summary.arrivals and summary.arrivals.duration_s) == (seconds and pytest.approx(seconds))
    assert pairs(summarise(write(name + ".gz", text))) == requests


@pytest.mark.parametrize("name", ["rows.csv", "rows.jsonl", "rows.json", "profile_export.jsonl"])
def test_cancelled_requests_are_counted_apart_whatever_else_a_row_says(write, name):
    """aiperf keeps what a cancelled request had received by then: its length is not that of an answer."""
    said = [("ok", False), ("error", False), ("ok", True), ("error", True)]
    rows = [{"isl": 550, "osl": 48, "status": status, "was_cancelled": cancelled} for status, cancelled in said]
    if name == "rows.csv":
        text = "isl,osl,status,was_cancelled\n" + "".join(f"550,48,{status},{cut}\n" for status, cut in said)
    elif name == "rows.json":
        text = json.dumps(rows)
    elif name == "rows.jsonl":
        text = lines(*rows)
    else:
        cancelled = {"metadata": {**AIPERF[0]["metadata"], "was_cancelled": True}, "metrics": AIPERF[0]["metrics"]}
        text = lines(AIPERF[0], cancelled, cancelled, cancelled)
    summary = summarise(write(name, text))
    assert pairs(summary) == [(550, 48)]
    assert summary.dropped == (("failed", 3),)


def test_vllm_bench_lists(write):
    result = {
        "duration": 10.0, "completed": 2, "failed": 1, "total_input_tokens": 300, "total_output_tokens": 30,
        "input_lens": [100, 200, 50], "output_lens": [10, 20, 0], "ttfts": [0.1, 0.2, 0.0], "errors": ["", "", "boom"],
    }  # fmt: skip
    summary = summarise(write("bench.json", json.dumps(result)))
    assert pairs(summary) == [(100, 10), (200, 20)]
    assert summary.dropped == (("no output (failed)", 1),)


def test_guidellm_report_takes_successful_requests(write):
    def request(prompt, output):
        return {"request_id": "x", "input_metrics": {"text_tokens": prompt}, "output_metrics": {"text_tokens": output}}

    requests = {"errored": [request(7, 1)], "successful": [request(100, 10), request(200, 20)], "incomplete": []}
    report = {"metadata": {"version": 2}, "benchmarks": [{"config": {}, "requests": requests}]}
    assert pairs(summarise(write("guidellm.json", json.dumps(report)))) == [(100, 10), (200, 20)]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "usage.json",
            '[{"aggregation_timestamp": 1720000000, "n_requests": 40, "operation": "completion", "snapshot_id": "m",'
            ' "n_context_tokens_total": 60000, "n_generated_tokens_total": 12000}]',
        ),
        ("daily.csv", "date,model,prompt_tokens,completion_tokens,api_requests\n2026-07-01,m,60000,12000,40\n"),
        ("bench.json", '{"duration": 10, "completed": 40, "total_input_tokens": 60000, "total_output_tokens": 12000}'),
    ],
)
def test_sums_give_means_and_no_percentile(write, name, text):
    with pytest.raises(InputError, match=r"1,500\.0 tokens in, 300\.0 out over 40 requests; a spread cannot be read"):
        summarise(write(name, text))


def test_unknown_units_are_left_out_until_they_are_stated(write):
    text = "timestamp,prompt_tokens,completion_tokens\n0,10,20\n90000,30,40\n"
    assert summarise(write("log.csv", text)).arrivals is None
    assert "unit not stated" in summarise(write("log.csv", text)).timestamps
    assert summarise(write("log.csv", text), timestamp_unit="ms").arrivals.duration_s == 90
    assert summarise(write("log.csv", text), timestamp_unit="auto").arrivals.duration_s == 90_000
    with pytest.raises(InputError, match="timestamp_unit"):
        summarise(write("log.csv", text), timestamp_unit="minutes")


def test_columns_can_be_named(write):
    text = "when,a,b\n2026-01-01T00:00:00,10,20\n2026-01-01T00:00:30+00:00,30,40\n"
    summary = summarise(write("log.csv", text), columns={"input": "a", "output": "b", "timestamp": "when"})
    assert pairs(summary) == [(10, 20), (30, 40)]
    assert summary.arrivals.duration_s == 30
    with pytest.raises(InputError, match=r"columns\.input: no column 'aa'.*did you mean a"):
        summarise(write("log.csv", text), columns={"input": "aa", "output": "b"})
    with pytest.raises(InputError, match=r"columns: when, a, b"):
        summarise(write("log.csv", text))


def test_text_without_counts_is_refused_by_what_it_is(write):
    shared = json.dumps([{"id": "1", "conversations": [{"from": "human", "value": "hi"}]}])
    with pytest.raises(InputError, match="count its tokens first"):
        summarise(write("ShareGPT.json", shared))


@pytest.mark.parametrize(
    "text",
    [
        "\ufeff" + AZURE,
        AZURE.replace(",", ";"),
        AZURE.replace(",", "\t"),
        AZURE.replace("\n", "\r\n"),
        "\n".join(",".join(f'"{field}"' for field in line.split(",")) for line in AZURE.splitlines()),
        AZURE.replace("ContextTokens", " Context_Tokens "),
        AZURE.replace(",4808,", ", 4808 ,"),
    ],
    ids=["bom", "semicolons", "tabs", "crlf", "quotes", "spaces in names", "spaces in values"],
)
def test_csv_dialects(write, text):
    summary = summarise(write("azure.csv", text))
    assert pairs(summary) == [(374, 44), (396, 109), (3180, 8), (4808, 10)]
    assert summary.arrivals.duration_s == pytest.approx(2.02, abs=0.001)


BROKEN_ROWS = {
    "abc,10": "lengths missing or not a number",
    "12,": "lengths missing or not a number",
    ",": "lengths missing or not a number",
    "-5,10": "negative length",
    "10,-5": "negative length",
    "1000000000,5": "longer than 16,777,216 tokens",
    "10,0": "no output (failed)",
    "0,10": "no prompt",
    "1.5,10": "length not whole",
    "inf,10": "lengths missing or not a number",
    "1,2,3,4": "too many columns",
}


def test_every_broken_row_is_counted_once(write):
    text = "prompt_tokens,completion_tokens\n100,10\n" + "\n".join(BROKEN_ROWS) + "\n200.0,20\n"
    summary = summarise(write("log.csv", text))
    assert pairs(summary) == [(100, 10), (200, 20)]
    expected = {reason: list(BROKEN_ROWS.values()).count(reason) for reason in BROKEN_ROWS.values()}
    assert dict(summary.dropped) == expected
    assert summary.rows == 2 + len(BROKEN_ROWS)


def test_every_broken_line_is_counted_once(write):
    broken = [
        '{"prompt_tokens": "many", "completion_tokens": 5}',
        '{"prompt_tokens": null, "completion_tokens": 5}',
        '{"prompt_tokens": -3, "completion_tokens": 5}',
        '{"prompt_tokens": 7, "completion_tokens": 0}',
        '{"prompt_tokens": 99999999999, "completion_tokens": 1}',
        '{"prompt_tokens": 12345678901234567890123, "completion_tokens": 1}',
        '{"prompt_tokens": 10, "completion_tokens":',
        "[1, 2]",
        "nonsense",
        "{}",
    ]
    good = [
        '{"prompt_tokens": 100, "completion_tokens": 10}',
        '{"completion_tokens" : 20,"prompt_tokens":200}',
        '{"prompt_tokens": "300", "completion_tokens": 3e1}',
        '{"usage": {"input_tokens": 400, "output_tokens": 40}}',
        '{"note": "\\"prompt_tokens\\": 1", "prompt_tokens": 500, "completion_tokens": 50}',
        '{"prompt_tokens": 600, "inner": {"prompt_tokens": 1}, "completion_tokens": 60}',
        "",
    ]
    summary = summarise(write("log.jsonl", "\n".join(good[:1] + broken + good[1:])))
    assert pairs(summary) == [(100, 10), (200, 20), (300, 30), (400, 40), (500, 50), (600, 60)]
    assert dict(summary.dropped) == {
        "lengths missing or not a number": 3,
        "negative length": 1,
        "no output (failed)": 1,
        "longer than 16,777,216 tokens": 2,
        "not a JSON object": 3,
    }
    assert summary.rows == 16


def test_jsonl_reads_gateway_words_and_iso_times_without_decoding(write):
    def record(second, **more):
        time = f"2026-07-01T10:00:{second:02d}.250+02:00"
        return {"startTime": time, "prompt": "x" * 50, "prompt_tokens": 10 + second, "completion_tokens": 5, **more}

    text = lines(
        record(0, call_type="completion", status="success", cache_hit=False),
        record(1, call_type="aembedding", status="success", cache_hit=False),
        record(2, call_type="completion", status="failure", cache_hit=False),
        record(3, call_type="completion", status="success", cache_hit=True),
        record(20, call_type="completion", status="success", cache_hit=False),
    )
    summary = summarise(write("litellm.jsonl", text))
    assert pairs(summary) == [(10, 5), (30, 5)]
    assert summary.arrivals.duration_s == 20
    assert sum(count for _, count in summary.dropped) == 3


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.csv", b"", "is empty"),
        ("empty.jsonl", b"\n\n", "is empty"),
        ("header.csv", b"prompt_tokens,completion_tokens\n", "no request could be read of 0 rows"),
        ("binary.csv", bytes(range(256)), "is binary"),
        ("utf16.csv", "a,b\n1,2\n".encode("utf-16"), "is UTF-16"),
        ("truncated.csv.gz", gzip.compress(AZURE.encode() * 500)[:200], "cannot be read"),
        ("truncated.jsonl.gz", gzip.compress(lines(*MOONCAKE).encode() * 500)[:120], "cannot be read"),
        ("no.gz.csv.gz", AZURE.encode(), "cannot be read"),
        ("broken.json", b'{"a": [1, 2', "is not JSON"),
        ("deep.json", b"[" * 100_000, "is not JSON"),
        ("bare.json", b"[1, 2, 3]", "holds no records"),
        ("all_failed.csv", b"prompt_tokens,completion_tokens\n5,0\n6,0\n", "2 no output"),
        ("log.xlsx", b"PK", "no reader for .xlsx"),
        ("log", b"x", "no reader for a name without a suffix"),
        ("names.jsonl", b'{"a": 1}\n', "columns: a"),
        ("words.jsonl", b"a b c\n", "none of the first lines is a JSON object"),
    ],
)
def test_what_is_no_log_is_a_clear_error(write, tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        summarise(path)
    assert name in str(caught.value)


def test_a_missing_file_and_a_directory_are_clear_errors(tmp_path):
    with pytest.raises(InputError, match="No such file"):
        summarise(tmp_path / "none.csv")
    with pytest.raises(InputError, match="directory"):
        summarise(tmp_path)


def test_one_row_is_a_log(write):
    summary = summarise(write("one.csv", "prompt_tokens,completion_tokens\n100,10\n"))
    assert summary.lengths().maximum_tokens == 110
    assert summary.pearson is None


def test_a_summary_survives_its_file_and_sizes_the_same(write, tmp_path):
    summary = summarise(write("azure.csv", AZURE))
    text = written(summary.document())
    again = LengthsSummary.from_document(json.loads(text))
    assert again == summary
    assert written(again.document()) == text
    lengths = summary.lengths()
    assert lengths.maximum_tokens == 4818
    assert lengths.spread
    assert lengths.arrivals == summary.arrivals


def test_the_second_look_reads_the_cache_and_a_changed_file_does_not(write, monkeypatch):
    path = write("azure.csv", AZURE)
    first = summarise(path)
    monkeypatch.setattr(readers, "_read", lambda *_: pytest.fail("read again"))
    assert summarise(path) == first
    monkeypatch.undo()
    write("azure.csv", AZURE + "2023-11-16 18:17:07.0000000,50,5\n")
    assert summarise(path).requests == 5


def test_a_broken_or_unwritable_cache_is_no_error(write, monkeypatch, tmp_path):
    path = write("azure.csv", AZURE)
    first = summarise(path)
    for kept in (tmp_path.parent / "x").parent.rglob("lengths/*.json"):
        kept.write_text("{")
    assert summarise(path) == first
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    assert summarise(path) == first


def test_reading_the_cache_loads_neither_pandas_nor_numpy(write):
    import subprocess

    path = write("azure.csv", AZURE)
    summarise(path)
    code = (
        "import sys; from recommender.workload.readers import summarise; "
        f"summarise({str(path)!r}).lengths(); print([m for m in ('numpy', 'pandas') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_parquet(tmp_path):
    pytest.importorskip("pyarrow")
    import pandas as pd

    frame = pd.DataFrame(
        {
            "timestamp_start_unix_ms": [1720000000000, 1720000030000],
            "input_tokens": [100, 200],
            "output_tokens": [10, 20],
            "prompt": ["a", "b"],
        }
    )
    frame.to_parquet(tmp_path / "baseten.parquet")
    summary = summarise(tmp_path / "baseten.parquet")
    assert pairs(summary) == [(100, 10), (200, 20)]
    assert summary.arrivals.duration_s == 30
    frame["timestamp_start_unix_ms"] = pd.to_datetime(frame["timestamp_start_unix_ms"], unit="ms")
    frame.rename(columns={"timestamp_start_unix_ms": "timestamp"}).to_parquet(tmp_path / "dates.parquet")
    assert summarise(tmp_path / "dates.parquet").arrivals.duration_s == 30


def test_parquet_without_its_library_says_what_to_install(write, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match=r"needs pyarrow.*recommender\[parquet\]"):
        summarise(write("log.parquet", b"PAR1"))

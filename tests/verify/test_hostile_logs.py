from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Callable, Iterator

import pytest
import startup_logs as logs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from startup_logs import LOGS

from recommender.errors import RecommenderError
from recommender.verify.compare import Verification
from recommender.verify.log import read_log
from recommender.verify.page import verification_csv, verification_page, verification_record

Verify = Callable[..., Verification]
REAL = (LOGS / "llama-3.3-70b-fp8-tp2.log").read_text()
TEXTS = [*logs.STARTED.values(), logs.V0_6_4_REFUSES, logs.refusal("0.24.0", logs.NO_REQUEST), REAL]
FEW = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def _answers(verified: Verify, text: str) -> Verification | None:
    """The verification, shown in every form; None where it is refused by name. Anything else is a fault of ours."""
    try:
        found = verified(text, gpu="L40S")
    except RecommenderError:
        return None
    assert verification_page(found)
    assert verification_csv(found)
    assert json.dumps(verification_record(found), allow_nan=False)
    return found


@FEW
@given(st.sampled_from(TEXTS), st.floats(0, 1))
def test_log_may_end_anywhere(verified: Verify, text: str, share: float) -> None:
    _answers(verified, text[: int(len(text) * share)])


@FEW
@given(st.sampled_from(TEXTS), st.randoms(use_true_random=False))
def test_lines_may_be_missing_or_out_of_order(verified: Verify, text: str, order: random.Random) -> None:
    lines = text.splitlines(keepends=True)
    order.shuffle(lines)
    _answers(verified, "".join(lines[: len(lines) * 2 // 3]))


@FEW
@given(
    st.sampled_from(TEXTS),
    st.lists(
        st.tuples(st.floats(0, 1), st.text(alphabet="0123456789.,-eE{}()'\"=:x\x1b[m\x00\né", max_size=30)), max_size=8
    ),
)
def test_figures_may_be_anything(verified: Verify, text: str, changes: list[tuple[float, str]]) -> None:
    for share, piece in changes:
        place = int(len(text) * share)
        text = text[:place] + piece + text[place + len(piece) :]
    _answers(verified, text)


@FEW
@given(
    st.sampled_from(TEXTS),
    st.sampled_from(["0", "0.00", "-5.00", "9999999", "0.000000001", "00000"]),
    st.integers(0, 40),
)
def test_extreme_figures(verified: Verify, text: str, figure: str, which: int) -> None:
    places = [found.span() for found in re.finditer(r"(?<=[ (=])\d+(?:\.\d+)?(?= ?GiB|x| tokens)", text)]
    if places:
        start, end = places[which % len(places)]
        text = text[:start] + figure + text[end:]
    _answers(verified, text)


@FEW
@given(st.binary(max_size=3000))
def test_bytes_that_are_no_log(content: bytes) -> None:
    assert read_log([content]) is None or read_log([content]) == read_log([content[:1500], content[1500:]])


@FEW
@given(st.sampled_from(TEXTS), st.integers(1, 5000))
def test_blocks_do_not_matter(text: str, size: int) -> None:
    content = text.encode()
    assert read_log(content[at : at + size] for at in range(0, len(content), size)) == read_log([content])


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_wrapping_does_not_matter(text: str) -> None:
    plain = read_log([text.encode()])
    coloured = "".join(f"\x1b[0;36m{line}\x1b[0;0m\r\n" for line in text.splitlines())
    as_json = "".join(json.dumps({"ts": 1, "message": line}) + "\n" for line in text.splitlines())
    in_docker = "".join(json.dumps({"log": line + "\n", "stream": "stderr"}) + "\n" for line in text.splitlines())
    for wrapped in (coloured, as_json, in_docker):
        assert read_log([wrapped.encode()]) == plain
    assert read_log([coloured.encode("utf-16")]) == plain


def _huge(megabytes: int) -> Iterator[bytes]:
    """A start-up and then what a busy server writes."""
    yield logs.V1_0_28.encode()
    served = (
        b'(APIServer pid=1) INFO:     10.0.0.1:4272 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
        b"(APIServer pid=1) INFO 09-08 22:00:00 [loggers.py:282] Engine 000: Avg prompt throughput: 115.2 tokens/s, "
        b"Avg generation throughput: 29.5 tokens/s, Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 2.6%\n"
    )
    block = served * (2**16 // len(served))
    for _ in range(megabytes * 16):
        yield block


def test_huge_log_is_streamed() -> None:
    started = time.process_time()
    log = read_log(_huge(megabytes=64))
    assert log is not None
    assert (log.version, log.startups) == ("0.28.0", 1)
    assert time.process_time() - started < 10


@pytest.mark.parametrize(
    "line",
    [
        "Available KV cache (" * 12_000,
        "NVIDIA " * 30_000,
        "total_gpu_memory " + " " * 200_000,
        "non-default args: " + "{" * 200_000,
        "non-default args: {" + "'a': 1, " * 25_000,
        "init memory snapshot: " + "free_memory=1GiB, " * 10_000,
        "vllm serve " + "--a " * 40_000,
        "█ version 1." + "1." * 100_000,
    ],
    ids=lambda line: line[:20],
)
def test_hostile_lines_take_no_time(line: str) -> None:
    started = time.process_time()
    read_log([f"{line}\n".encode()])
    assert time.process_time() - started < 2

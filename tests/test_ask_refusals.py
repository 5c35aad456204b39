from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recommender.ask import parse_question, read_question
from recommender.catalog.catalog import load_catalog
from recommender.errors import InputError
from recommender.scenario import Limits, Search

CATALOG = load_catalog()
ASK = "50 concurrent 8K requests"
SIGNS = ("$", ",", ">", "<=", "+", "-aws", "1,5", "~4", "$20/h", "!")


def _refused(text: str, model: str | None = "llama-3.1-70b") -> str:
    with pytest.raises(InputError) as caught:
        parse_question(text, model, catalog=CATALOG)
    assert caught.value.exit_code == 2
    return str(caught.value)


@pytest.mark.parametrize(
    ("words", "named", "hint"),
    [
        ("with low latency", "'low latency'", "'30 ms per token'"),
        ("latency under 30 ms", "'latency under 30 ms'", "'30 ms per token'"),
        ("under 30 ms", "'under 30 ms'", "'30 ms per token'"),
        ("over 30 ms per token", "'over 30 ms per token'", "an upper limit"),
        ("first token after more than 1s", "'after more than 1s'", "'first token within 1 s'"),
        ("at most 20 tok/s per user", "'at most 20 tok/s per user'", "'at least'"),
        ("20 tokens per second", "'20 tokens per second'", "per user' or '1500 tokens per second in total'"),
        ("p99 TPOT under 30 ms", "'p99 tpot under 30 ms'", "a mean"),
        ("how fast", "'fast'", "`recommender speed`"),
        ("under 0/h", "'under 0/h'", "single quotes"),
        ("in europe", "'europe'", "a region's own name"),
        ("on nvidia", "'nvidia'", ""),
        ("over $20/h", "'over $20/h'", "an upper limit"),
        ("under $20", "'under $20'", "$20/h or $5000 a month"),
        ("on my H100s", "'my h100s'", "`hardware:`"),
        ("on llama-3.1-70", "'llama-3.1-70'", "did you mean"),
        ("with tensor parallel 4", "'tensor parallel 4'", ""),
        ("per second", "'per second'", "requests at once"),
        ("with ollama", "'ollama'", "vllm, sglang or tensorrt-llm"),
        ("not sglang", "'not'", ""),
        ("with HIPAA", "'hipaa'", ""),
        ("on a single machine", "'1'", ""),
        ("under €20/h", "'under €20/h'", ""),
    ],
)
def test_a_condition_that_is_not_understood_is_listed(words: str, named: str, hint: str) -> None:
    said = _refused(f"{ASK} {words}")
    assert f"{named} is not understood" in said
    assert hint in said


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("> $20/h", "'> $20/h'"),
        (">$20/h", "'> $20/h'"),
        (">= $20/h", "'>= $20/h'"),
        ("\u2265 $20/h", "'>= $20/h'"),
        ("$20/h +", "'$20/h +'"),
        ("$20/h+", "'$20/h+'"),
        ("$20/h or more", "'$20/h or more'"),
        ("at least $20/h", "'at least $20/h'"),
        ("from $20/h", "'from $20/h'"),
        ("minimum price of $20/h", "'minimum price of $20/h'"),
        ("not under $20/h", "'not under $20/h'"),
        ("$3/h each", "'$3/h each'"),
        ("$3 per hour per GPU", "'$3 per hour per gpu'"),
        ("> 4 H100", "'> 4'"),
        ("at least 4 GPUs", "'at least 4 gpus'"),
        ("4 H100 or more", "'4 h100 or more'"),
        ("4+ H100", "'4+'"),
        ("on 2.5 GPUs", "'2.5'"),
        ("!aws", "'!aws'"),
        ("! aws", "'!'"),
        ("!= aws", "'!='"),
        ("\u2260 aws", "'\u2260'"),
        ("-aws", "'-aws'"),
        ("- aws", "'-'"),
        ("\u274c H100", "'\u274c'"),
        ("~~H100~~", "'~~h100~~'"),
        ("[H100]", "'[h100]'"),
        ("H100+A100", "'h100+a100'"),
        ("no-H100", "'no-h100'"),
        ("H100\u200b", "'h100\\u200b'"),
        ("H100\uc5d0\uc11c", "'h100\uc5d0\uc11c'"),
        ("ohne H100", "'ohne'"),
        ("1,5/h", "'1,5/h'"),
        ("2,50 $/h", "'2,50 $/h'"),
        ("under 4,5k $/month", "'under 4,5k $/month'"),
        ("$1,50/h", "'$1,50/h'"),
        ("nothing but H100", "'nothing but'"),
        ("not only H100", "'not'"),
        ("ideally on H100", "'ideally'"),
    ],
)
def test_no_sign_is_dropped_and_no_wish_is_turned_round(words: str, named: str) -> None:
    assert f"{named} is not understood" in _refused(f"{ASK} {words}")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("1,5k users at 8k", "'1,5k'"),
        ("5,0 users at 8k", "'5,0'"),
        ("5000_0 users at 8k", "'5000_0'"),
        ("50 users at 1,5k tokens", "'1,5k'"),
        ("50 users at 4.096 tokens", "'4.096 tokens'"),
        ("1.5 users at 8k", "'1.5 users'"),
        ("50+ users at 8k", "'50+'"),
        ("> 50 concurrent 8k requests", "'> 50 concurrent'"),
        ("50 users, > 8k tokens", "'> 8k tokens'"),
        ("50 users, 8k+ tokens", "'8k+'"),
        ("\u0665\u0660 users at 8k", "'\u0665\u0660'"),
        ("50\uac1c \ub3d9\uc2dc \uc694\uccad 8K", "'50\uac1c \ub3d9\uc2dc \uc694\uccad'"),
        ("50 gleichzeitige Anfragen mit 8K", "'50 gleichzeitige anfragen mit'"),
        ("1000 users per day at 8k", "per day'"),
    ],
)
def test_figures_that_may_mean_something_else_are_refused(text: str, named: str) -> None:
    said = _refused(text)
    assert named in said
    assert "is not understood" in said


@pytest.mark.parametrize("words", ["not aws, gcp", "no H100 spot", "not on aws with fp8", "not in us-east-1 at aws"])
def test_a_negation_that_may_cover_more_or_less_is_refused_whole(words: str) -> None:
    assert f"{words.casefold()!r} is not understood" in _refused(f"{ASK} {words}")


@pytest.mark.parametrize(
    "words",
    [
        "aws spot or gcp on-demand",
        "aws spot or gcp",
        "H100 on aws or A100 on gcp",
        "H100 at aws, A100 at gcp",
        "spot at aws and on-demand at gcp",
        "aws under $20/h or gcp",
        "2 H100 or 4 A100",
    ],
)
def test_an_either_or_of_pairs_is_no_cross_product(words: str) -> None:
    assert f"{words.casefold()!r} joins pairs" in _refused(f"{ASK} {words}")


@pytest.mark.parametrize(
    ("words", "ignored"),
    [
        ("> $20/h", "> $20/h"),
        ("ohne H100", "ohne h100"),
        ("nicht auf H100", "nicht auf h100"),
        ("H100 is not allowed", "h100 not allowed"),
        ("\u274c H100", "\u274c h100"),
        ("- aws", "- aws"),
        ("no H100 spot", "no h100 spot"),
        ("4+ H100", "4+ h100"),
        ("no HIPAA", "no hipaa"),
    ],
)
def test_partial_never_turns_a_wish_round(words: str, ignored: str) -> None:
    question = read_question(f"{ASK} {words}", "llama-3.1-8b", partial=True, catalog=CATALOG)
    assert question.scenarios[0].search == Search()
    assert question.scenarios[0].limits == Limits()
    assert question.notes == (f"ignored: {ignored!r} is not understood",)


@pytest.mark.parametrize("words", ["spot? no.", "on aws, not wanted: H100", "aws spot or gcp on-demand"])
def test_partial_refuses_what_cannot_be_ignored(words: str) -> None:
    with pytest.raises(InputError):
        read_question(f"{ASK} {words}", "llama-3.1-8b", partial=True, catalog=CATALOG)


def test_every_word_that_is_not_understood_is_listed_at_once() -> None:
    said = _refused(f"{ASK} with low latency in europe, HIPAA")
    assert said.count("is not understood") == 3


def test_partial_answers_anyway_and_says_what_it_ignored() -> None:
    question = read_question(f"{ASK} with low latency", "llama-3.1-70b", partial=True, catalog=CATALOG)
    assert question.scenarios[0].workload.concurrency == 50
    assert question.notes == ("ignored: 'low latency' is not understood",)


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("8K requests", "how many requests at once"),
        ("50 users", "how long the requests are"),
        ("50 requests per day of 8k", "how many requests at once"),
        ("50 requests per second of 8k", "how much of them is prompt"),
        ("50 users, 8k, 30 ms per token", "how much of them is prompt"),
        ("cheapest GPU", "how many requests at once"),
        ("", "how long the requests are"),
    ],
)
def test_concurrency_and_length_are_asked_for_never_guessed(text: str, missing: str) -> None:
    assert missing in _refused(text)


@pytest.mark.parametrize("words", ["no spot", "without spot", "no commitment", "never spot"])
def test_what_is_off_anyway_may_be_ruled_out(words: str) -> None:
    question = read_question(f"{ASK} {words}", "llama-3.1-8b", partial=False, catalog=CATALOG)
    assert question.scenarios[0].search == Search()
    assert question.notes[0].startswith(f"'{words}' changes nothing")
    assert "leaves no way of paying" in _refused(f"{ASK} no on-demand")


def test_contradictions() -> None:
    assert "said twice" in _refused("50 concurrent 100 concurrent 8K requests")
    assert "said twice" in _refused("50 concurrent 8K requests of 4096 tokens")
    assert "several models" in _refused(f"{ASK} on llama-3.1-8b and llama-3.1-70b", None)
    assert "beside --model" in _refused(f"{ASK} on llama-3.1-8b")
    assert "the budget is said twice" in _refused(f"{ASK} under $20/h, under $30/h")
    assert "the engine is said twice" in _refused(f"{ASK} on vllm or sglang")
    assert "per output token is said twice" in _refused("50 users, 2k in 500 out, 30 ms a token, 20 tok/s per user")
    assert "one of the two" in _refused("50 concurrent, 5 requests per second, 2k in 500 out")
    assert "joins pairs" in _refused("50 users, 2k in 500 out, first token within 1s or 30 ms per token")
    assert "the KV cache dtype is said twice" in _refused(f"{ASK} bf16 only, fp8 KV cache")


def test_what_a_word_was_taken_for_is_said() -> None:
    notes = read_question("50 users at 8k context on 2 H100", "llama-3.1-8b", partial=False, catalog=CATALOG).notes
    assert notes == (
        "'50 users' is read as 50 requests at once",
        "'2 h100' is read as: at most 2 GPUs of that kind",
    )


def test_bounds_of_the_scenario_hold_for_questions_too() -> None:
    assert "workload.concurrency" in _refused("999999999 concurrent 8K requests")
    assert "no model" in _refused(ASK, "llama-9-900b") or "unknown" in _refused(ASK, "llama-9-900b")


@settings(max_examples=150, deadline=None)
@given(
    st.text(max_size=60)
    | st.lists(
        st.sampled_from(
            [*ASK.split(), *SIGNS, "20", "/h", "8k", "x", "on", "or", "no", "but", "h100", "spot", "fp8", "under", "2"]
        ),
        max_size=20,
    ).map(" ".join)
)
def test_any_text_is_a_question_or_an_input_error(text: str) -> None:
    try:
        scenarios = parse_question(text, "llama-3.1-8b", catalog=CATALOG)
    except InputError as error:
        scenarios = []
        assert error.faults  # noqa: PT017
    assert all(each.workload.rate or (each.workload.concurrency or 0) > 0 for each in scenarios)

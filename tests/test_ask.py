from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recommender.ask import parse_question, read_question
from recommender.catalog.catalog import Catalog, load_catalog
from recommender.errors import InputError
from recommender.scenario import Scenario

CATALOG = load_catalog()
H100 = ("H100-NVL", "H100-PCIe", "H100-SXM")
ASK = "50 concurrent 8K requests"


def _one(text: str, **options: Any) -> Scenario:
    (scenario,) = parse_question(text, "llama-3.1-70b", catalog=CATALOG, **options)
    return scenario


def _refused(text: str, model: str | None = "llama-3.1-70b") -> str:
    with pytest.raises(InputError) as caught:
        parse_question(text, model, catalog=CATALOG)
    assert caught.value.exit_code == 2
    return str(caught.value)


def test_the_question_of_the_front_page_is_the_scenario_of_the_front_page() -> None:
    scenario = _one("cheapest setup for 50 concurrent 8K requests")
    assert (scenario.model, scenario.workload.concurrency) == ("llama-3.1-70b", 50)
    assert scenario.workload.lengths.maximum_tokens == 8192
    assert scenario.search.gpus is None
    assert scenario.limits.caps == ()


def test_without_a_model_both_are_asked_and_it_is_said() -> None:
    question = read_question("cheapest setup for 50 concurrent 8K requests", None, partial=False, catalog=CATALOG)
    assert [each.model for each in question.scenarios] == ["llama-3.1-8b", "llama-3.1-70b"]
    assert question.notes == ("no model is named: answered for llama-3.1-8b and llama-3.1-70b",)


@pytest.mark.parametrize(
    ("text", "model"),
    [
        ("50 concurrent 8K requests on llama-3.1-70b", "meta-llama/Llama-3.1-70B-Instruct"),
        ("50 concurrent 8K requests of Llama 3.1 70B", "meta-llama/Llama-3.1-70B-Instruct"),
        ("Llama-3.1-8B for 50 concurrent 8K requests?", "meta-llama/Llama-3.1-8B-Instruct"),
        ("serve meta-llama/Llama-3.3-70B-Instruct: 50 concurrent 8k requests", "meta-llama/Llama-3.3-70B-Instruct"),
        ("Qwen3-32B, 50 concurrent 8k requests", "Qwen/Qwen3-32B"),
    ],
)
def test_model_names_inside_the_sentence(text: str, model: str) -> None:
    (scenario,) = parse_question(text, catalog=CATALOG)
    assert scenario.model == model


@pytest.mark.parametrize(
    ("text", "concurrency", "tokens"),
    [
        ("50 concurrent 8K requests", 50, 8192),
        ("50 concurrent requests of 8192 tokens", 50, 8192),
        ("50 concurrent 8,192-token requests", 50, 8192),
        ("50 8K requests", 50, 8192),
        ("50 x 8k tokens", 50, 8192),
        ("50 users at 8k context", 50, 8192),
        ("fifty users, up to 8k tokens each", 50, 8192),
        ("1,000 concurrent requests, 4k each", 1000, 4096),
        ("2k users with 1.5k tokens", 2000, 1536),
        ("concurrency of 12, context length 32k", 12, 32768),
        ("a hundred simultaneous users at 8k context", 100, 8192),
        ("20 requests of 4096 tokens at the same time", 20, 4096),
        ("200 agents in parallel at 128k context", 200, 131072),
    ],
)
def test_counts_and_lengths(text: str, concurrency: int, tokens: int) -> None:
    workload = _one(text).workload
    assert (workload.concurrency, workload.lengths.maximum_tokens) == (concurrency, tokens)
    assert workload.lengths.total_only


@pytest.mark.parametrize(
    "text",
    [
        "50 users with 2k in 500 out",
        "50 users, 2048 input tokens and 500 output tokens",
        "50 concurrent requests with 2k tokens in and 500 tokens out",
        "50 concurrent, 2K input / 500 output",
        "50 concurrent requests with 2k prompts and 500 generated",
    ],
)
def test_prompt_and_output(text: str) -> None:
    (cell,) = _one(text).workload.lengths.cells
    assert (cell.input_tokens, cell.output_tokens) == (2048, 500)


@pytest.mark.parametrize(
    ("words", "gpus"),
    [
        ("on H100", H100),
        ("on H100s", H100),
        ("on nvidia H100 SXM", ("H100-SXM",)),
        ("on H100-SXM", ("H100-SXM",)),
        ("on A100 80GB", ("A100-80GB-PCIe", "A100-80GB-SXM")),
        ("on L4", ("L4",)),
        ("on L40S or an RTX 4090", ("L40S", "RTX4090")),
        ("on a6000", ("RTXA6000",)),
        ("with MI300X", ("MI300X",)),
    ],
)
def test_gpus_by_name_and_by_family(words: str, gpus: tuple[str, ...]) -> None:
    assert _one(f"{ASK} {words}").search.gpus == gpus


def test_an_article_before_a_number_is_no_gpu() -> None:
    assert _one("a 100 concurrent 8K requests").search.gpus is None


@pytest.mark.parametrize("words", ["on 2 H100", "on 2x H100", "on 2xH100s", "on two H100s"])
def test_a_number_of_gpus_is_a_bound(words: str) -> None:
    search = _one(f"{ASK} {words}").search
    assert (search.gpus, search.max_gpus) == (H100, 2)


@pytest.mark.parametrize(
    ("words", "month"),
    [
        ("under $20/h", 14600),
        ("under $20 an hour", 14600),
        ("for less than 20 dollars per hour", 14600),
        ("below 20 USD/hr", 14600),
        ("$20/hour budget", 14600),
        ("under $5000 a month", 5000),
        ("max $5k/month", 5000),
        ("at most $5,000.50 per month", Decimal("5000.50")),
        ("under $60000 a year", 5000),
    ],
)
def test_money(words: str, month: Decimal) -> None:
    assert _one(f"{ASK} {words}").limits.usd_per_month == month


def test_providers_regions_and_how_it_is_paid() -> None:
    search = _one(f"{ASK} at AWS in us-east-1, spot").search
    assert (search.providers, search.regions, search.markets) == (("aws",), ("us-east-1",), ("spot",))
    assert _one(f"{ASK} on Google Cloud or Azure").search.providers == ("gcp", "azure")
    assert _one(f"{ASK} spot or on-demand").search.markets == ("spot", "on_demand")
    assert _one(f"{ASK} reserved for 1 year").search.markets == ("reserved_1y",)
    assert _one(f"{ASK}, 3-year commitment").search.markets == ("reserved_3y",)


def test_a_provider_asked_for_by_name_is_searched_whatever_its_kind() -> None:
    assert _one(f"{ASK} at vastai").search.segments == ("hyperscaler", "marketplace", "neocloud")


@pytest.mark.parametrize(
    ("words", "weights", "kv", "forbidden"),
    [
        ("in fp8", ("fp8",), None, set()),
        ("with int4 weights", ("int4",), None, set()),
        ("4-bit", ("int4", "nvfp4", "mxfp4"), None, set()),
        ("fp8 KV cache", None, ("fp8",), set()),
        ("bf16 only", ("bf16",), ("auto",), set()),
        ("no quantisation", None, None, {"kv_dtype", "weights"}),
        ("unquantized", None, None, {"kv_dtype", "weights"}),
        ("full precision", None, None, {"kv_dtype", "weights"}),
    ],
)
def test_precision(
    words: str, weights: tuple[str, ...] | None, kv: tuple[str, ...] | None, forbidden: set[str]
) -> None:
    scenario = _one(f"{ASK} {words}")
    assert (scenario.search.weights, scenario.search.kv_dtypes) == (weights, kv)
    assert scenario.forbidden_rungs == forbidden


def test_quality_first() -> None:
    assert _one(f"{ASK}, quality first").rank == "quality_first"


@pytest.mark.parametrize(
    ("words", "named", "hint"),
    [
        ("with low latency", "'low latency'", "no speed target yet"),
        ("in europe", "'europe'", "a region's own name"),
        ("not on aws", "'not'", "what is wanted"),
        ("on nvidia", "'nvidia'", ""),
        ("except A100", "'except'", "what is wanted"),
        ("over $20/h", "'over'", "an upper limit"),
        ("under $20", "'under $20'", "$20/h or $5000 a month"),
        ("on my H100s", "'my h100s'", "`hardware:`"),
        ("on llama-3.1-70", "'llama-3.1-70'", "did you mean"),
        ("with tensor parallel 4", "'tensor parallel 4'", ""),
        ("per second", "'per second'", "requests at once"),
        ("at p99 TTFT of 200 ms", "'p99 ttft'", "no speed target yet"),
        ("with sglang", "'sglang'", "vllm"),
        ("with HIPAA", "'hipaa'", ""),
        ("on a single machine", "'1'", ""),
        ("under €20/h", "'under €20/h'", ""),
    ],
)
def test_a_condition_that_is_not_understood_is_listed(words: str, named: str, hint: str) -> None:
    said = _refused(f"{ASK} {words}")
    assert f"{named} is not understood" in said
    assert hint in said


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
        ("50 requests per second of 8k", "how many requests at once"),
        ("cheapest GPU", "how many requests at once"),
        ("", "how long the requests are"),
    ],
)
def test_concurrency_and_length_are_asked_for_never_guessed(text: str, missing: str) -> None:
    assert missing in _refused(text)


def test_contradictions() -> None:
    assert "said twice" in _refused("50 concurrent 100 concurrent 8K requests")
    assert "said twice" in _refused("50 concurrent 8K requests of 4096 tokens")
    assert "several models" in _refused(f"{ASK} on llama-3.1-8b and llama-3.1-70b", None)
    assert "beside --model" in _refused(f"{ASK} on llama-3.1-8b")


def test_what_a_word_was_taken_for_is_said() -> None:
    notes = read_question("50 users at 8k context on 2 H100", "llama-3.1-8b", partial=False, catalog=CATALOG).notes
    assert notes == (
        "'2 h100' is read as: at most 2 GPUs of that kind",
        "'50 users' is read as 50 requests at once",
    )


def test_bounds_of_the_scenario_hold_for_questions_too() -> None:
    assert "workload.concurrency" in _refused("999999999 concurrent 8K requests")
    assert "no model" in _refused(ASK, "llama-9-900b") or "unknown" in _refused(ASK, "llama-9-900b")


@settings(max_examples=150, deadline=None)
@given(
    st.text(max_size=60)
    | st.lists(st.sampled_from([*ASK.split(), "$", "20", "/h", "8k", "x", "on", "h100", "-"])).map(" ".join)
)
def test_any_text_is_a_question_or_an_input_error(text: str) -> None:
    try:
        scenarios = parse_question(text, "llama-3.1-8b", catalog=CATALOG)
    except InputError as error:
        scenarios = []
        assert error.faults  # noqa: PT017
    assert all(each.workload.concurrency > 0 for each in scenarios)


def test_the_shipped_catalog_is_the_default() -> None:
    assert isinstance(CATALOG, Catalog)
    assert parse_question(ASK, "llama-3.1-8b")[0].model == "llama-3.1-8b"

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from recommender.ask import parse_question, read_question
from recommender.catalog.catalog import Catalog, load_catalog
from recommender.errors import InputError
from recommender.scenario import Scenario, Search

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
        ("1.5k users at 8k", 1500, 8192),
        ("max 50 concurrent 8K requests", 50, 8192),
        ("at least 50 concurrent 8K requests", 50, 8192),
        ("50 users max, <= 8k tokens", 50, 8192),
        ("50 x 8k", 50, 8192),
        ("50x8k", 50, 8192),
        ("50 users, 8k tokens/request", 50, 8192),
        ("50\u00d78k tokens", 50, 8192),
        ("I have 50 users, 8k each. What should I rent?", 50, 8192),
        ("- 50 users\n- 8k tokens", 50, 8192),
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
        "50 concurrent, 2k prompt 500 output",
        "50 concurrent, 2k prompt, 500 output",
        "50 concurrent, input 2k, output 500",
        "50 concurrent with prompts of 2k and outputs of 500",
        "50 concurrent, input: 2k, output: 500",
        "50 concurrent, ISL 2048 OSL 500",
        "50 concurrent, 2k in and 500 out per request",
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
        ("on H100 80GB", ("H100-PCIe", "H100-SXM")),
        ("on H100-94GB", ("H100-NVL",)),
        ("w/ an RTX 4090 24GB", ("RTX4090",)),
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
    ("words", "gpus", "most", "said"),
    [
        ("on 2 GPUs", None, 2, ("'2 gpus' is read as: at most 2 GPUs",)),
        ("on a single GPU", None, 1, ("'1 gpu' is read as: at most 1 GPU",)),
        ("at most 3 GPUs", None, 3, ()),
        ("<= 3 GPUs", None, 3, ()),
        ("4 H100 or fewer", H100, 4, ()),
        ("no more than 4 H100", H100, 4, ()),
        ("fewer than 4 H100", H100, 3, ("'fewer than 4 h100' is read as: at most 3 GPUs of that kind",)),
        ("< 4 H100", H100, 3, ("'< 4 h100' is read as: at most 3 GPUs of that kind",)),
    ],
)
def test_limits_on_the_number_of_gpus(
    words: str, gpus: tuple[str, ...] | None, most: int, said: tuple[str, ...]
) -> None:
    question = read_question(f"{ASK} {words}", "llama-3.1-8b", partial=False, catalog=CATALOG)
    search = question.scenarios[0].search
    assert (search.gpus, search.max_gpus) == (gpus, most)
    assert question.notes == said


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
        ("$5000 a month", 5000),
        ("$5000/month", 5000),
        ("5000 dollars per month", 5000),
        ("$5000 monthly", 5000),
        ("< $20/h", 14600),
        ("<$20/h", 14600),
        ("<= $20/h", 14600),
        ("\u2264 $20/h", 14600),
        ("up to $20/h", 14600),
        ("$20/h max", 14600),
        ("max budget: $20/h", 14600),
        ("no more than $20/h", 14600),
        ("not over $20/h", 14600),
        ("$1.5k/month", 1500),
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
    assert _one(f"{ASK} reserved 3 years").search.markets == ("reserved_3y",)
    assert _one(f"{ASK} spot, no on-demand").search.markets == ("spot",)
    assert _one(f"{ASK} 1 year reserved or spot").search.markets == ("reserved_1y", "spot")
    assert "'reserved' does not say for how long" in _refused(f"{ASK} reserved")


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
        ("only bf16", ("bf16",), ("auto",), set()),
        ("only in fp16", ("fp16",), ("auto",), set()),
        ("fp8 or int4", ("fp8", "int4"), None, set()),
        ("KV cache in fp8", None, ("fp8",), set()),
        ("no fp8 KV cache", None, ("auto",), set()),
        ("no 4-bit", ("bf16", "fp16", "fp8", "int8"), None, set()),
        ("no fp8 weights", ("bf16", "fp16", "int8", "int4", "nvfp4", "mxfp4"), None, set()),
        ("no fp8", ("bf16", "fp16", "int8", "int4", "nvfp4", "mxfp4"), ("auto",), set()),
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
    ("words", "kind", "out"),
    [
        ("not on H100", "gpus", H100),
        ("anything but H100", "gpus", H100),
        ("without using L4 or T4", "gpus", ("L4", "T4")),
        ("except aws", "providers", ("aws",)),
        ("except aws, gcp", "providers", ("aws", "gcp")),
        ("don't use aws", "providers", ("aws",)),
        ("neither aws nor gcp", "providers", ("aws", "gcp")),
        ("not on aws and not on gcp", "providers", ("aws", "gcp")),
        ("not in us-east-1", "regions", ("us-east-1",)),
    ],
)
def test_what_is_not_wanted_leaves_all_else(words: str, kind: str, out: tuple[str, ...]) -> None:
    question = read_question(f"{ASK} {words}", "llama-3.1-8b", partial=False, catalog=CATALOG)
    search = question.scenarios[0].search
    left = getattr(search, kind)
    assert len(left) > 25
    assert not set(left) & set(out)
    assert search.segments == Search().segments
    assert f"any of the catalog's {'GPUs' if kind == 'gpus' else kind} but " in question.notes[0]


def test_what_is_not_wanted_narrows_what_is() -> None:
    assert _one(f"{ASK} on H100 but not H100-NVL").search.gpus == ("H100-PCIe", "H100-SXM")
    assert _one(f"{ASK} not aws but gcp").search.providers == ("gcp",)
    assert _one(f"{ASK} H100 rather than A100").search.gpus == H100
    assert "leaves nothing" in _refused(f"{ASK} on L4, not on L4")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("spot on aws or gcp", Search(providers=("aws", "gcp"), markets=("spot",))),
        ("aws or gcp, spot or on-demand", Search(providers=("aws", "gcp"), markets=("spot", "on_demand"))),
        ("L4 or T4 on aws or gcp", Search(gpus=("L4", "T4"), providers=("aws", "gcp"))),
        ("2 L4 or T4", Search(gpus=("L4", "T4"), max_gpus=2)),
    ],
)
def test_an_either_or_of_one_kind_is_understood(words: str, expected: Search) -> None:
    assert _one(f"{ASK} {words}").search == expected


def test_the_shipped_catalog_is_the_default() -> None:
    assert isinstance(CATALOG, Catalog)
    assert parse_question(ASK, "llama-3.1-8b")[0].model == "llama-3.1-8b"

"""The shape of a scenario file: its keys, their kinds, bounds and defaults. Nothing but the border uses it."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from recommender.catalog.offers import MARKETS, SEGMENTS
from recommender.memory.fit import MAX_BATCHED_TOKENS
from recommender.scenario import ENGINE_VERSION, Search
from recommender.scenario_file.values import (
    Day,
    Many,
    Money,
    Name,
    Number,
    Profile,
    Switch,
    Tokens,
    Version,
    Whole,
    Word,
)
from recommender.workload.lengths import MAXIMUM_TOKENS

WEIGHTS = ("bf16", "fp16", "fp8", "int8", "int4", "nvfp4", "mxfp4")
RUNGS = ("max_model_len", "kv_dtype", "weights", "gpus")

_ONE_LENGTH_FORM: dict[str, Any] = {
    "minProperties": 1,
    "maxProperties": 1,
    "propertyNames": {"enum": ["fixed", "quantiles", "histogram", "parametric", "preset", "trace", "prometheus"]},
}
_CARDS = Whole(1, 10**7)
_GPU, _PROVIDER, _REGION = Name("a GPU of the catalog"), Name("a provider of the catalog"), Name("a region")
_INSTANCE_TYPE = Name("an instance type of the catalog")


class Form(BaseModel):
    """A mapping in which unknown keys are faults."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class RateForm(Form):
    """Requests that arrive at random, instead of a number at once."""

    value: Annotated[Decimal, Number("0", "1000000", "requests a second", above=True)]
    """Requests a second on average."""
    peak_factor: Annotated[Decimal | None, Number("1", "1000", "a factor")] = None
    """The busiest minute over the average; absent: from hourly and the log's own peaks, else 2.5."""
    hourly: Annotated[tuple[Decimal, ...], Profile()] = ()
    """Multipliers of the rate by the hour of a day (24) or a week (168); absent: a log's own, if a day long."""
    request_s: Annotated[Decimal | None, Number("0", "1000000", "seconds", above=True)] = None
    """Seconds a request takes at the busiest minute; absent: predicted, or from sizing.step_ms where that is stated."""


class PrefixForm(Form):
    """A system prompt that requests share."""

    tokens: Annotated[int, Tokens(high=MAXIMUM_TOKENS)]
    """Its length."""
    share: Annotated[Decimal, Number("0", "1", "a share", above=True)] = Decimal(1)
    """The share of the requests that begin with it."""


def _rate(value: Any) -> Any:
    """A rate written as a plain number."""
    return {"value": value} if isinstance(value, int | Decimal) and not isinstance(value, bool) else value


class WorkloadForm(Form):
    """What is asked of the model."""

    concurrency: Annotated[int | None, Whole(1, 10**7)] = None
    """Requests at once; this or rate_per_s."""
    hourly: Annotated[tuple[Decimal, ...], Profile()] = ()
    """Multipliers of concurrency by the hour of a day (24) or a week (168); concurrency is the busiest hour's."""
    rate_per_s: Annotated[RateForm | None, BeforeValidator(_rate, json_schema_input_type=RateForm | float | None)] = (
        None
    )
    """Requests a second: a number, or a mapping."""
    lengths: Annotated[dict[str, Any], Field(json_schema_extra=_ONE_LENGTH_FORM)]
    """How long they are: one of fixed, quantiles, histogram, parametric, preset, trace, prometheus."""
    max_tokens: Annotated[int | None, Tokens(high=MAXIMUM_TOKENS)] = None
    """What every client asks for: prompt + max_tokens must fit max_model_len."""
    shared_prefix: PrefixForm | None = None
    """A system prompt that requests share; held once."""


class StepForm(Form):
    """Milliseconds of an engine step, instead of predicted ones; the defaults are assumed where none are predicted."""

    base: Annotated[Decimal, Number("0", "100000", "milliseconds", above=True)] = Decimal("20")
    """Of any step."""
    per_decode: Annotated[Decimal, Number("0", "1000", "milliseconds")] = Decimal("0.1")
    """More for each request that decodes."""
    per_prompt_token: Annotated[Decimal, Number("0", "1000", "milliseconds")] = Decimal("0.05")
    """More for each prompt token computed."""


class SizingForm(Form):
    """How requests become a need of KV cache."""

    mode: Annotated[str | None, Word(("worst_case", "statistical", "trace_replay"))] = None
    """Absent: worst_case for fixed lengths, statistical for a distribution."""
    epsilon: Annotated[Decimal, Number("0", "0.5", "a risk", above=True)] = Decimal("0.01")
    """The share of the engine's steps that may need more than there is."""
    step_ms: StepForm = Field(default_factory=StepForm)
    """Times of an engine step in milliseconds, for rates and replays."""


class SlaForm(Form):
    """The service level."""

    served_share: Annotated[Decimal, Number("0", "1", "a share", above=True)] = Decimal(1)
    """Share of requests that must not exceed max_model_len."""
    ttft_ms: Annotated[Decimal | None, Number("0", "100000000", "milliseconds", above=True)] = None
    """The longest time to first token."""
    tpot_ms: Annotated[Decimal | None, Number("0", "100000000", "milliseconds", above=True)] = None
    """The longest time per output token, on average over requests."""
    percentile: Annotated[Decimal | None, Number("0", "99.9", "a percentile", above=True)] = None
    """Of the requests that ttft_ms must hold for; absent: on average over requests."""
    output_tokens_per_s: Annotated[Decimal | None, Number("0", "1000000000", "tokens a second", above=True)] = None
    """Output tokens a second of all replicas together, at least."""
    requests_per_s: Annotated[Decimal | None, Number("0", "1000000", "requests a second", above=True)] = None
    """Requests answered a second by all replicas together, at least."""
    confidence: Annotated[Decimal, Number("0.5", "0.95", "a share")] = Decimal("0.9")
    """The share of such predictions that kept the limit when measured."""


class AnchorForm(Form):
    """A benchmark of your own, and the set-up it was measured on: it corrects every plan on that GPU and model."""

    file: Annotated[str, Name("a path to a result file")]
    """What vllm bench serve, guidellm, aiperf or genai-perf saved."""
    gpu: Annotated[str, _GPU]
    """The GPU it ran on."""
    model: Annotated[str | None, Name("a model of the catalog")] = None
    """The model it served; absent: the scenario's."""
    weights: Annotated[str | None, Word(WEIGHTS, any_case=True)] = None
    """Its weights; absent: the model's own."""
    kv_dtype: Annotated[str, Word(("auto", "fp8"), any_case=True)] = "auto"
    """Its KV cache."""
    tp: Annotated[int, Whole(1, 1024)] = 1
    """Tensor-parallel size."""
    pp: Annotated[int, Whole(1, 1024)] = 1
    """Pipeline stages."""
    dp: Annotated[int, Whole(1, 1024)] = 1
    """Data-parallel ranks."""
    ep: Annotated[int, Whole(1, 1024)] = 1
    """GPUs that experts were spread over."""
    replicas: Annotated[int, Whole(1, 1024)] = 1
    """Replicas behind the address that was measured."""
    engine_version: Annotated[str | None, Version()] = None
    """Absent: the scenario's."""


class HostedApiForm(Form):
    """What a hosted API asks for the same model: plans say from which traffic on they are cheaper."""

    usd_per_million_input: Annotated[Decimal, Money()]
    """Dollars per million prompt tokens."""
    usd_per_million_output: Annotated[Decimal, Money()]
    """Dollars per million output tokens."""


class SearchForm(Form):
    """What may be bought and how it may be run. An absent list means everything the other keys allow."""

    gpus: Annotated[tuple[str, ...] | None, Many(_GPU)] = None
    """GPU names."""
    providers: Annotated[tuple[str, ...] | None, Many(_PROVIDER)] = None
    """Provider names."""
    segments: Annotated[tuple[str, ...], Many(Word(SEGMENTS, any_case=True))] = Search().segments
    """Kinds of seller."""
    regions: Annotated[tuple[str, ...] | None, Many(_REGION)] = None
    """Regions as providers name them."""
    markets: Annotated[tuple[str, ...], Many(Word(MARKETS, any_case=True))] = Search().markets
    """Ways of paying."""
    offers: Annotated[str, Word(("listed", "all"))] = "listed"
    """`all` adds indicative prices."""
    stale: Annotated[bool, Switch()] = False
    """Also prices that their own source marks as outdated."""
    placement: Annotated[str, Word(("one_region", "one_provider", "anywhere"))] = "one_region"
    """How far apart replicas may stand."""
    uniform_precision: Annotated[bool, Switch()] = True
    """One weight and one KV dtype for all replicas."""
    linear_sizes: Annotated[bool, Switch()] = False
    """Also assume 2, 4 and 8 GPUs at n times the price of a 1-GPU listing."""
    max_gpus: Annotated[int | None, _CARDS] = None
    """The most GPUs in all."""
    weights: Annotated[tuple[str, ...] | None, Many(Word(WEIGHTS, any_case=True))] = None
    """Weight dtypes."""
    kv_dtypes: Annotated[tuple[str, ...] | None, Many(Word(("auto", "fp8"), any_case=True))] = None
    """KV cache dtypes."""
    tp: Annotated[tuple[int, ...] | None, Many(Whole(1, 1024))] = None
    """Tensor-parallel sizes."""
    pp: Annotated[tuple[int, ...], Many(Whole(1, 1024))] = Search().pp
    """Pipeline stages."""
    max_num_batched_tokens: Annotated[tuple[int, ...], Many(Tokens(1, MAX_BATCHED_TOKENS))] = ()
    """Also try these numbers of tokens of one engine step, fewer than the engine's own."""
    plans: Annotated[int, Whole(1, 1000)] = 10
    """Ranked plans to list."""
    max_price_age_days: Annotated[int, Whole(0, 36500)] = 90
    """Older prices are warned about."""


class AdjustmentsForm(Form):
    """Which rungs of the ladder may be taken; give one of the two."""

    allow: Annotated[tuple[str, ...] | None, Many(Word(RUNGS))] = None
    """Only these rungs."""
    forbid: Annotated[tuple[str, ...] | None, Many(Word(RUNGS))] = None
    """All rungs but these."""


class StockForm(Form):
    """No more than so many instances of the offers that match every given field."""

    instances: Annotated[int, Whole(0, 10**7)]
    """Instances that can be had."""
    provider: Annotated[str | None, _PROVIDER] = None
    """Of this provider."""
    instance_type: Annotated[str | None, _INSTANCE_TYPE] = None
    """Of this type."""
    gpu: Annotated[str | None, _GPU] = None
    """With this GPU."""
    region: Annotated[str | None, _REGION] = None
    """In this region."""


class QuotaForm(Form):
    """No more than so many GPUs in the offers that match every given field."""

    gpus: Annotated[int, Whole(0, 10**7)]
    """GPUs that may be used."""
    provider: Annotated[str | None, _PROVIDER] = None
    """Of this provider."""
    region: Annotated[str | None, _REGION] = None
    """In this region."""
    gpu: Annotated[str | None, _GPU] = None
    """Of this GPU."""
    instance_type: Annotated[str | None, _INSTANCE_TYPE] = None
    """In this instance type."""


class LimitsForm(Form):
    """Limits on the whole purchase."""

    usd_per_month: Annotated[Decimal | None, Money()] = None
    """Budget; a month is 730 hours."""
    watts: Annotated[int | None, Whole(1, 10**10)] = None
    """Sum of the boards' power limits."""
    stock: list[StockForm] = []
    """What can be had, in instances."""
    quota: list[QuotaForm] = []
    """What may be used, in GPUs."""


class HardwareForm(Form):
    """Cards one has."""

    gpu: Annotated[str, _GPU]
    """The card."""
    gpus_per_instance: Annotated[int, Whole(1, 1024)]
    """Cards in one machine."""
    count: Annotated[int, _CARDS]
    """Cards in all."""
    usd_per_hour: Annotated[Decimal | None, Money()] = None
    """Cost of one machine, where known."""
    ram_gb: Annotated[Decimal | None, Number("0", "1000000", "GB", above=True)] = None
    """Host memory of one machine, in GB."""


class ScenarioForm(Form):
    """One question."""

    model: Annotated[str, Name("a model of the catalog")]
    """Hugging Face id or alias."""
    workload: WorkloadForm
    """What is asked of it."""
    sizing: SizingForm = Field(default_factory=SizingForm)
    """How concurrency becomes a need of KV cache."""
    sla: SlaForm = Field(default_factory=SlaForm)
    """The service level."""
    search: SearchForm = Field(default_factory=SearchForm)
    """What may be bought and how it may be run."""
    adjustments: AdjustmentsForm = Field(default_factory=AdjustmentsForm)
    """Rungs of the ladder that may be taken."""
    rank: Annotated[str, Word(("cost", "quality_first"))] = "cost"
    """What comes first."""
    limits: LimitsForm = Field(default_factory=LimitsForm)
    """Budget, power, stock and quota."""
    hardware: list[HardwareForm] = []
    """Own cards, searched instead of offers."""
    engine: Annotated[str, Word(("vllm", "sglang", "tensorrt-llm"))] = "vllm"
    """Inference engine."""
    engine_version: Annotated[str, Version()] = ENGINE_VERSION
    """Whose rules and constants apply; another engine than vLLM has a default of its own."""
    gpu_memory_utilization: Annotated[Decimal | None, Number("0", "1", "a share", above=True)] = None
    """Share of GPU memory, by the engine's own rule (see model.md); absent: the engine version's own."""
    enforce_eager: Annotated[bool, Switch()] = False
    """Run without CUDA graphs."""
    max_num_batched_tokens: Annotated[int | None, Tokens(1, MAX_BATCHED_TOKENS)] = None
    """Tokens of one engine step; absent: the engine's own for the card."""
    memory_model: Annotated[str, Word(("vllm", "article"))] = "vllm"
    """`vllm` is the engine's own rules, `article` the flat 2 GB rule."""
    memory_margin: Annotated[str, Word(("safe", "expected"))] = "safe"
    """`safe` plans on the low end of what the reserve may leave; `expected` on the middle."""
    calibration: Annotated[str | None, Name("a path to a calibration file")] = None
    """A file that `verify --save-calibration` wrote."""
    speed: Annotated[str | None, Word(("ignore", "model"))] = None
    """Whether speed takes part in the choice; absent: where sla limits it, or a rate asks how long requests take."""
    anchors: list[AnchorForm] = []
    """Benchmarks of your own that correct the speed model."""
    hosted_api: HostedApiForm | None = None
    """A hosted API to compare with."""
    as_of: Annotated[date | None, Day()] = None
    """Price date; absent: the catalog's newest."""
    catalog: Annotated[tuple[str, ...], Many(Name("a path to a catalog overlay"))] = ()
    """Overlays, relative to this file."""
    group_by: Annotated[str | None, Word(("gpu", "provider", "region"))] = None
    """List only the best plan of each."""
    variants: dict[str, dict[str, Any]] = {}
    """Named patches on this scenario, answered beside it."""


KEYS = frozenset(key for form in Form.__subclasses__() for key in form.model_fields)
"""Every key of any mapping in a scenario file."""

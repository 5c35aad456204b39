"""Hand-made answers: what the renderers are tested on, whatever the catalog says today."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from decimal import Decimal

from recommender.memory.fit import Fit, Totals
from recommender.search.need import Need
from recommender.search.plan import (
    Adjustment,
    CatalogStamp,
    Certificate,
    LeftOut,
    Plan,
    PlanSpeed,
    Purchase,
    Recommendation,
    Refusal,
    ReplicaGroup,
)
from recommender.speed.answer import Speed
from recommender.speed.cost import BreakEven, TokenCost

FIT = Fit(
    model="meta-llama/Llama-3.1-70B-Instruct",
    gpu="H100-SXM",
    tp=2,
    pp=1,
    dp=1,
    ep=1,
    weights="fp8",
    checkpoint="example/Llama-3.1-70B-FP8",
    kv_dtype="fp8",
    max_model_len=8192,
    max_num_seqs=50,
    max_num_batched_tokens=8192,
    gpu_memory_utilization=0.92,
    engine="vllm",
    engine_version="0.33.0",
    memory_model="vllm",
    memory_bytes=85_029_615_043,
    usable_bytes=78_227_245_839,
    weights_bytes=36_000_000_000,
    activation_bytes=1_500_000_000,
    non_torch_bytes=1_000_000_000,
    cuda_graph_bytes=800_000_000,
    reserve_bytes=3_300_000_000,
    kv_cache_bytes=38_927_245_839,
    kv_bytes_per_token=81_920,
    bytes_per_block=1_310_720,
    block_size=16,
    blocks=29_699,
    kv_cache_tokens=475_184,
    max_concurrency=58.005859375,
    starts=True,
    refusal=None,
    estimated_max_model_len=None,
    total=Totals(72_000_000_000, 77_854_491_678, 163_840),
    extrapolated=("no start-up log of this card",),
    launch_arguments=(),
    sources={"memory": "a published log", "weights": "the repository's index"},
    warnings=("a warning",),
)

LENGTH = Adjustment(1, "max_model_len", "131,072 -> 8,192", "longer requests are refused")
KV = Adjustment(2, "kv_dtype", "auto -> fp8", "evaluate answer quality first")
WEIGHTS = Adjustment(3, "weights", "bf16 -> fp8", "evaluate answer quality first")

PAIR = Purchase(
    provider="hyperstack",
    instance_type="n3-H100x2",
    region="CANADA-1",
    also_in=("NORWAY-1", "US-1", "US-2"),
    segment="neocloud",
    market="on_demand",
    gpu="H100-SXM",
    gpus_per_instance=2,
    count=1,
    micro_usd_per_hour=4_580_000,
    as_of=date(2026, 9, 28),
    source="https://example.org/prices",
    listed=True,
    assumed_size=False,
)

SPEED = Speed(
    model=FIT.model,
    gpu="H100-SXM",
    weights="fp8",
    engine="vllm",
    gpus=2,
    concurrency=50,
    ttft_ms=1843.26,
    tpot_ms=31.42,
    output_tokens_per_s=1498.7,
    requests_per_s=1.4636,
    ttft_ms_interval=(1013.8, 3547.7),
    tpot_ms_interval=(26.33, 36.85),
    output_tokens_per_s_interval=(1300.2, 1811.5),
    evidence="anchored",
    queue_ms=0.0,
    running=50.0,
    prompt_share=0.41,
    sources=("constants fitted on published measurements (docs/accuracy-speed.md)",),
    warnings=(),
)
FULL_SPEED = replace(SPEED, concurrency=57, tpot_ms=33.1, output_tokens_per_s=1601.2, requests_per_s=1.5637)
PLAN_SPEED = PlanSpeed(
    ttft_ms=SPEED.ttft_ms,
    ttft_ms_interval=SPEED.ttft_ms_interval,
    tpot_ms=SPEED.tpot_ms,
    tpot_ms_interval=SPEED.tpot_ms_interval,
    output_tokens_per_s=SPEED.output_tokens_per_s,
    output_tokens_per_s_interval=SPEED.output_tokens_per_s_interval,
    requests_per_s=SPEED.requests_per_s,
    evidence=SPEED.evidence,
    full_concurrency=57,
    full_output_tokens_per_s=FULL_SPEED.output_tokens_per_s,
    full_requests_per_s=FULL_SPEED.requests_per_s,
    prompt_share=SPEED.prompt_share,
    cost=TokenCost(Decimal("0.0499"), Decimal("0.5008"), Decimal("0.1061"), Decimal("0.8489")),
    full_cost=TokenCost(Decimal("0.0467"), Decimal("0.4688"), Decimal("0.0993"), Decimal("0.7945")),
    break_even=BreakEven(Decimal("22.7"), Decimal("0.2018"), Decimal("6357.4")),
)

REPLICA = ReplicaGroup(
    workload="sample",
    offer_index=0,
    count=1,
    gpu="H100-SXM",
    tp=2,
    pp=1,
    dp=1,
    ep=1,
    weights="fp8",
    weights_how="checkpoint",
    checkpoint="example/Llama-3.1-70B-FP8",
    kv_dtype="fp8",
    max_model_len=8192,
    max_num_seqs=50,
    max_num_batched_tokens=8192,
    concurrency=50,
    capacity=57,
    expected_capacity=57,
    memory=FIT,
    output_tokens_per_s_bound=93.05,
    launch="vllm serve example/Llama-3.1-70B-FP8 --tensor-parallel-size 2 --max-model-len 8192 --max-num-seqs 50 "
    "--kv-cache-dtype fp8",
    longest_max_model_len=9_488,
    need=Need(25_601 * 1_310_720, 0.86),
    speed=SPEED,
    full_speed=FULL_SPEED,
)

CHEAPEST = Plan(
    rank=1,
    micro_usd_per_hour=4_580_000,
    gpus=2,
    replicas_total=1,
    served_concurrency=50,
    headroom=Decimal("0.14"),
    adjustments=(LENGTH, KV, WEIGHTS),
    offers=(PAIR,),
    replicas=(REPLICA,),
    warnings=("stock unknown: the catalog knows prices, not what is available today",),
    speed=PLAN_SPEED,
)

FOUR = replace(PAIR, instance_type="n3-H100x4", gpus_per_instance=4, micro_usd_per_hour=9_160_000, also_in=())
NATIVE = replace(REPLICA, tp=4, weights="bf16", weights_how="native", checkpoint=None, kv_dtype="auto")
UNTOUCHED = replace(
    CHEAPEST,
    rank=2,
    micro_usd_per_hour=9_160_000,
    gpus=4,
    adjustments=(LENGTH,),
    offers=(FOUR,),
    replicas=(NATIVE,),
)

SMALL = replace(PAIR, instance_type="l40s", gpu="L40S", gpus_per_instance=1, count=3, micro_usd_per_hour=234_800)
MIX = replace(
    CHEAPEST,
    rank=3,
    micro_usd_per_hour=4_580_000 + 3 * 234_800,
    gpus=5,
    replicas_total=3,
    headroom=Decimal(0),
    offers=(PAIR, SMALL),
    replicas=(
        replace(REPLICA, concurrency=30, capacity=30, expected_capacity=30),
        replace(REPLICA, offer_index=1, gpu="L40S", tp=1, count=2, concurrency=10, output_tokens_per_s_bound=None),
    ),
)

CERTIFICATE = Certificate(
    status="optimal",
    bound_micro_usd_per_hour=4_580_000,
    gap=Decimal(0),
    candidates=12_345,
    feasible_candidates=678,
    solver="OR-Tools CP-SAT",
    cross_check="exhaustive enumeration: same optimum",
    deterministic_time=0.25,
    plans_proven=3,
)

ANSWER = Recommendation(
    scenario="sample",
    question="50 requests at once, 8,192 tokens, of meta-llama/Llama-3.1-70B-Instruct",
    model="meta-llama/Llama-3.1-70B-Instruct",
    concurrency=50,
    status="optimal",
    certificate=CERTIFICATE,
    plans=(CHEAPEST, UNTOUCHED, MIX),
    cheapest_quality_untouched=UNTOUCHED,
    cheapest_no_checkpoint_needed=CHEAPEST,
    cheapest_on_fresh_prices=None,
    left_out=(
        LeftOut("spot prices", "search.markets: [on_demand, spot]", 209, 2_100_000, "1 x aws p5", 5_000_000),
        LeftOut("marketplace offers", "search.segments: [hyperscaler, neocloud, marketplace]", 4, None, None, None),
    ),
    refusals=(Refusal("T4", "memory", "the weights alone exceed the memory", None),),
    defaults={"sizing.mode": "worst_case", "search.gpus": None, "search.uniform_precision": True},
    catalog=CatalogStamp("2026-10-10", "ac2f6997691f" + "0" * 52, date(2025, 9, 1), date(2026, 10, 10)),
    warnings=("a warning for the whole answer",),
    as_of=date(2026, 10, 10),
)

INFEASIBLE = replace(
    ANSWER,
    scenario="too little",
    status="infeasible",
    certificate=replace(CERTIFICATE, status="infeasible", bound_micro_usd_per_hour=None, gap=None, plans_proven=0),
    plans=(),
    cheapest_quality_untouched=None,
    cheapest_no_checkpoint_needed=None,
    left_out=(),
    refusals=(
        Refusal(None, "budget", "$2,000 a month is not enough", "limits.usd_per_month: 3,344 or more"),
        Refusal("T4", "memory", "the weights alone exceed the memory", None),
    ),
)

OWN = replace(PAIR, provider="own", market="owned", micro_usd_per_hour=None, gpu="RTXA6000", gpus_per_instance=6)
UNPRICED = replace(
    ANSWER,
    plans=(replace(UNTOUCHED, rank=1, micro_usd_per_hour=None, gpus=6, offers=(OWN,)),),
    cheapest_quality_untouched=None,
    cheapest_no_checkpoint_needed=None,
    certificate=replace(CERTIFICATE, bound_micro_usd_per_hour=None),
)

"""Scenarios that nobody should write, by a seed: the newer keys with what belongs in them and what does not."""

from __future__ import annotations

import copy
import random
from functools import cache
from typing import Any

from recommender.answer import shipped_catalog

COMMON = ("llama-3.1-8b", "llama-3.1-70b", "qwen2.5-0.5b", "qwen3-30b", "deepseek-ai/deepseek-v3")
COUNTS = (1, 2, 7, 50, 333, 10_000, 10**6, 10**7)
RATES = (0.000001, 0.001, 0.3, 4, 77, 5_000, 10**6)
TOKENS = (1, 2, 15, 16, 17, 128, 1000, 4096, 8192, 32_768, 131_072, 1_000_000, 10_000_000)
MILLISECONDS = (0.001, 1, 9, 20, 35, 80, 200, 1000, 5000, 10**6, 10**8)
WRONG: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1.5, 10**7, 10**30, -(10**30), 1e308, -1e308, float("nan"), float("inf"), 1e-300),
    *("", " ", "x", "8K", "1e5", "nan", "-3", "null", "é" * 30, "\x07"),
    *([], [None], [1, 2], [[]], ["x"], {}, {"a": 1}, [{}]),
)
CARDS = ("H100-SXM", "L40S", "A100-80GB-SXM", "B200", "MI300X", "RTX4090", "T4", "V100-32GB", "H200-SXM", "L4")


@cache
def _models() -> tuple[str, ...]:
    return tuple(sorted(shipped_catalog()._entries))


@cache
def _gpus() -> tuple[str, ...]:
    return tuple(gpu.name for gpu in shipped_catalog().gpus)


def hostile_scenario(seed: int, wrong: float = 0.3) -> dict[str, Any]:
    """One scenario file as a mapping; a share `wrong` of them has up to three values that do not belong there."""
    dice = random.Random(seed)
    value = _scenario(dice)
    if dice.random() < 0.2:
        patches = [_patch(dice, value) for _ in range(dice.choice((1, 1, 2)))]
        value["variants"] = {f"v{n}": patch for n, patch in enumerate(patches)}
    if dice.random() < wrong:
        for _ in range(dice.choice((1, 1, 2, 3))):
            _spoil(dice, value)
    return value


def _scenario(dice: random.Random) -> dict[str, Any]:
    maybe = lambda share: dice.random() < share  # noqa: E731
    value: dict[str, Any] = {
        "model": dice.choice(COMMON) if maybe(0.5) else dice.choice(_models()),
        "workload": _workload(dice),
    }
    if maybe(0.6):
        value["sla"] = _sla(dice)
    if maybe(0.2):
        value["sizing"] = _sizing(dice)
    if maybe(0.45):
        priced = maybe(0.6)
        value["hardware"] = [_cards(dice, priced) for _ in range(dice.choice((1, 1, 2, 3)))]
    else:
        value["search"] = _search(dice)
    if maybe(0.15):
        value["limits"] = _limits(dice)
    if maybe(0.15):
        value["adjustments"] = {
            dice.choice(("allow", "forbid")): dice.sample(["max_model_len", "kv_dtype", "weights", "gpus"], 2)
        }
    if maybe(0.1):
        value["rank"] = "quality_first"
    if maybe(0.25):
        value["engine"] = dice.choice(("sglang", "tensorrt-llm"))
    if maybe(0.1):
        value["engine_version"] = dice.choice(("0.6.4", "0.9.2", "0.19.0", "0.5.1", "1.0.0", "0.33.0"))
    if maybe(0.1):
        value["hosted_api"] = {
            "usd_per_million_input": dice.choice((0, 0.000001, 0.5, 10**9)),
            "usd_per_million_output": dice.choice((0, 0.8, 12, 10**12)),
        }
    for key, choices in {
        "speed": ("model", "ignore"),
        "memory_margin": ("safe", "expected"),
        "memory_model": ("article",),
        "enforce_eager": (True,),
        "gpu_memory_utilization": (0.5, 0.98, 1, 0.01),
        "max_num_batched_tokens": (1, 64, 2048, 1_000_000),
        "group_by": ("gpu", "provider", "region"),
        "as_of": ("2026-10-01", "2020-01-01", "2099-01-01"),
    }.items():
        if maybe(0.07):
            value[key] = dice.choice(choices)
    if dice.random() < 0.95:
        _without_contradictions(value)
    return value


def _without_contradictions(value: dict[str, Any]) -> None:
    """Most scenarios must get past the border."""
    sla, work, sizing = value.get("sla", {}), value["workload"], value.get("sizing", {})
    total_only = isinstance(work["lengths"].get("fixed"), int)
    if total_only or value.get("memory_model") == "article" or value.get("speed") == "ignore":
        for key in ("ttft_ms", "percentile", "tpot_ms", "output_tokens_per_s", "requests_per_s"):
            sla.pop(key, None)
    if total_only:
        value.pop("hosted_api", None)
        if "rate_per_s" in work:
            work["concurrency"] = 50
            del work["rate_per_s"]
    if "rate_per_s" in work:
        sla.pop("output_tokens_per_s", None)
        sla.pop("requests_per_s", None)
        if value.get("speed") == "model":
            sizing.pop("step_ms", None)
    if total_only or sizing.get("mode") == "worst_case":
        work.pop("shared_prefix", None)
    if "ttft_ms" not in sla:
        sla.pop("percentile", None)
    if not sla.keys() & {"ttft_ms", "tpot_ms", "output_tokens_per_s", "requests_per_s"}:
        sla.pop("confidence", None)
    if "rate_per_s" not in work and sizing.get("mode") != "trace_replay":
        sizing.pop("step_ms", None)
    if value.get("engine", "vllm") != "vllm":
        for key in ("memory_model", "engine_version"):
            value.pop(key, None)
        value.get("search", {}).pop("pp", None)
        sizing.pop("mode", None)
    elif value.get("engine_version") in ("0.5.1", "1.0.0"):
        del value["engine_version"]
    if sizing.get("mode") == "worst_case" and "rate_per_s" in work:
        del sizing["mode"]


def _workload(dice: random.Random) -> dict[str, Any]:
    work: dict[str, Any] = {"lengths": _lengths(dice)}
    hourly = [dice.choice((0, 1, 2, 30, 0.001, 10**6)) for _ in range(dice.choice((24, 24, 168)))]
    if dice.random() < 0.55:
        work["concurrency"] = dice.choice(COUNTS[:5] if dice.random() < 0.7 else COUNTS)
        if dice.random() < 0.15:
            work["hourly"] = hourly
    else:
        rate: dict[str, Any] = {"value": dice.choice(RATES[1:5] if dice.random() < 0.7 else RATES)}
        if dice.random() < 0.4:
            rate["peak_factor"] = dice.choice((1, 2, 1.0001, 50, 1000))
        if dice.random() < 0.2:
            rate["hourly"] = hourly
        if dice.random() < 0.2:
            rate["request_s"] = dice.choice((0.000001, 0.5, 9, 10**6))
        work["rate_per_s"] = rate
    if dice.random() < 0.1:
        work["max_tokens"] = dice.choice(TOKENS)
    if dice.random() < 0.15:
        work["shared_prefix"] = {"tokens": dice.choice(TOKENS[:9]), "share": dice.choice((1, 0.5, 0.001))}
    return work


def _lengths(dice: random.Random) -> dict[str, Any]:
    form = dice.choice(("split", "split", "split", "fixed", "preset", "quantiles", "histogram", "parametric"))
    usual = TOKENS[4:9] if dice.random() < 0.7 else TOKENS
    if form == "split":
        return {"fixed": {"input": dice.choice(usual), "output": dice.choice(usual)}}
    if form == "fixed":
        return {"fixed": dice.choice(usual)}
    if form == "preset":
        return {"preset": dice.choice(shipped_catalog().traces)}
    if form == "histogram":
        cells = [[dice.choice((1, 90, 10**6)), dice.choice(usual), dice.choice(usual)] for _ in range(3)]
        return {"histogram": {"cells": cells, "max": max(cell[1] + cell[2] for cell in cells)}}
    if form == "quantiles":
        low, mid, high = sorted(dice.sample(TOKENS[2:10], 3))
        each = {"p50": low, "p99": mid, "max": high}
        return {"quantiles": {"input": each, "output": dict(each)}}
    law = {"type": "lognormal", "median": dice.choice((1, 800)), "p95": 4000, "max": dice.choice((12000, 131_072))}
    return {"parametric": {"input": law, "output": {"type": "uniform", "min": 1, "max": dice.choice((2, 500, 4000))}}}


def _sla(dice: random.Random) -> dict[str, Any]:
    sla: dict[str, Any] = {}
    if dice.random() < 0.5:
        sla["ttft_ms"] = dice.choice(MILLISECONDS)
        if dice.random() < 0.5:
            sla["percentile"] = dice.choice((0.001, 1, 50, 90, 99, 99.9))
    if dice.random() < 0.5:
        sla["tpot_ms"] = dice.choice(MILLISECONDS)
    if dice.random() < 0.25:
        sla["output_tokens_per_s"] = dice.choice((0.000001, 1, 500, 5000, 10**6, 10**9))
    if dice.random() < 0.15:
        sla["requests_per_s"] = dice.choice((0.000001, 0.1, 3, 100, 10**6))
    if dice.random() < 0.3:
        sla["confidence"] = dice.choice((0.5, 0.8, 0.95, 0.51234567))
    if dice.random() < 0.15:
        sla["served_share"] = dice.choice((0.000001, 0.5, 0.99, 0.999999))
    return sla


def _sizing(dice: random.Random) -> dict[str, Any]:
    sizing: dict[str, Any] = {"mode": dice.choice(("worst_case", "statistical", "statistical", "trace_replay"))}
    if dice.random() < 0.3:
        sizing["epsilon"] = dice.choice((0.5, 0.000001, 1e-12))
    if dice.random() < 0.3:
        sizing["step_ms"] = {"base": dice.choice((0.001, 12, 100_000)), "per_decode": dice.choice((0, 0.05, 1000))}
    return sizing


def _cards(dice: random.Random, priced: bool) -> dict[str, Any]:
    size = dice.choice((1, 1, 2, 4, 8, 8, 3, 6, 16))
    cards: dict[str, Any] = {"gpu": dice.choice(CARDS) if dice.random() < 0.7 else dice.choice(_gpus())}
    cards |= {"gpus_per_instance": size, "count": size * dice.choice((1, 1, 2, 5, 125, 1000))}
    if priced:
        cards["usd_per_hour"] = dice.choice((0.000001, 1, 2.5, 40, 10**9))
    return cards


def _search(dice: random.Random) -> dict[str, Any]:
    search: dict[str, Any] = {"plans": dice.choice((1, 1, 2, 3, 5))}
    if dice.random() < 0.8:
        search["gpus"] = dice.sample(CARDS, dice.choice((1, 1, 2, 3)))
    for key, choices in {
        "markets": (["spot"], ["on_demand", "spot"], ["reserved_1y"], ["owned"]),
        "offers": ("all",),
        "stale": (True,),
        "placement": ("anywhere", "one_provider"),
        "uniform_precision": (False,),
        "linear_sizes": (True,),
        "max_gpus": (1, 8, 100),
        "weights": (["fp8"], ["int4", "bf16"], ["mxfp4"]),
        "kv_dtypes": (["fp8"], ["auto"]),
        "tp": ([1], [8], [3, 5], [1024]),
        "pp": ([2], [1, 2, 4]),
        "max_num_batched_tokens": ([512, 2048],),
    }.items():
        if dice.random() < 0.08:
            search[key] = dice.choice(choices)
    return search


def _limits(dice: random.Random) -> dict[str, Any]:
    limits: dict[str, Any] = {}
    if dice.random() < 0.5:
        limits["usd_per_month"] = dice.choice((0, 0.01, 500, 9000, 10**12))
    if dice.random() < 0.3:
        limits["watts"] = dice.choice((1, 700, 6000, 10**10))
    if dice.random() < 0.4:
        limits["quota"] = [{"gpus": dice.choice((0, 1, 8, 100)), "gpu": dice.choice(CARDS)}]
    if dice.random() < 0.3:
        limits["stock"] = [{"instances": dice.choice((0, 1, 9)), "gpu": dice.choice(CARDS)}]
    return limits


def _patch(dice: random.Random, value: dict[str, Any]) -> dict[str, Any]:
    other = _scenario(dice)
    keys = [key for key in other if key != "model"]
    patch = {key: other[key] for key in dice.sample(keys, min(len(keys), dice.choice((1, 2))))}
    if "workload" in patch:  # merged: the other way to say how much is taken away
        patch["workload"] = {"concurrency": None, "rate_per_s": None, "hourly": None} | patch["workload"]
    return copy.deepcopy(patch)


def _spoil(dice: random.Random, value: dict[str, Any]) -> None:
    places = [place for place in _places(value) if place]
    *outer, last = dice.choice(places)
    holder: Any = value
    for step in outer:
        holder = holder[step]
    how = dice.random()
    if how < 0.15:
        del holder[last]
    elif how < 0.25 and isinstance(holder, dict):
        holder[dice.choice(("x", "tpot", "ttft", "value", "file", "gpu", "anchors", "percentile"))] = 1
    else:
        holder[last] = copy.deepcopy(dice.choice(WRONG))


def _places(value: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value[:3]) if isinstance(value, list) else ()
    return [place, *(deeper for key, each in inner for deeper in _places(each, (*place, key)))]

"""How fast a configuration serves, as JSON and CSV; floats to six figures, an unknown cost is null."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recommender.report.csv_ import encode as encode_csv
from recommender.report.json_ import SCHEMA_VERSION, encode
from recommender.report.record import plain
from recommender.speed.benchmarked import Benchmarked
from recommender.speed.forecast import Forecast, Point
from recommender.speed.price import Price
from recommender.units import usd

_FIGURES = 6


def forecast_json(found: Forecast) -> str:
    """The object that `speed --format json` prints."""
    return encode(forecast_record(found))


def forecast_record(found: Forecast) -> dict[str, Any]:
    """The forecast as a mapping in fixed order."""
    record: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        **_setup(found),
        "prompt_tokens": found.prompt_tokens,
        "output_tokens": found.output_tokens,
        "holds": found.holds,
        "price": _price(found.price),
        "api": plain(found.api),
        "points": [_point(point) for point in found.points],
        "saturated": _point(found.saturated),
        "benchmarks": _benchmarked(found.benchmarked),
        "warnings": list(found.warnings),
        "sources": list(found.sources),
    }
    rounded: dict[str, Any] = _rounded(record)
    return rounded


def _setup(found: Forecast) -> dict[str, Any]:
    return {**plain(found.setup), "gpus": found.saturated.speed.gpus}


def _price(price: Price | None) -> dict[str, Any] | None:
    if price is None:
        return None
    offer = price.offer
    known = ("provider", "instance_type", "region", "gpus", "as_of", "source")
    return {
        "usd_per_hour": usd(price.micro_usd_per_hour),
        "how": price.how,
        "instances": price.instances if offer else None,
        "offer": {key: getattr(offer, key) for key in known} if offer else None,
        "idle_gpus": price.idle_gpus,
        "doubts": list(price.doubts),
    }


def _point(point: Point) -> dict[str, Any]:
    """The keys of `speed()` that change with the load, then costs."""
    speed = plain(point.speed)
    for key in ("model", "gpu", "weights", "engine", "gpus", "sources"):
        del speed[key]
    warnings = speed.pop("warnings")
    return {
        **speed,
        "output_tokens_per_s_each": point.output_tokens_per_s_each,
        "output_tokens_per_s_per_usd_per_hour": point.output_tokens_per_s_per_usd_per_hour,
        "usd_per_million_tokens": plain(point.cost),
        "usd_per_million_tokens_blended_interval": plain(point.blended_interval),
        "break_even": plain(point.break_even),
        "warnings": warnings,
    }


def _benchmarked(found: Benchmarked | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "tpot_factor": found.tpot_factor,
        "ttft_factor": found.ttft_factor,
        "files": [plain(each) for each in found.benchmarks],
    }


def _rounded(value: Any) -> Any:
    """Floats to so many figures: what lies behind is neither known nor the same on every machine."""
    if isinstance(value, float):
        return float(f"{value:.{_FIGURES}g}")
    if isinstance(value, Mapping):
        return {key: _rounded(inner) for key, inner in value.items()}
    return [_rounded(inner) for inner in value] if isinstance(value, list) else value


def forecast_csv(found: Forecast) -> str:
    """One row a load; `saturated` says which row is what the replicas hold at once."""
    about = forecast_record(found)
    points = [*about["points"], about["saturated"]]
    rows = [_csv_row(about, point, saturated=n == len(points) - 1) for n, point in enumerate(points)]
    return encode_csv(rows, list(rows[0]))


_ABOUT = ("model", "gpu", "gpus", "tp", "pp", "ep", "dp", "replicas", "weights", "kv_dtype", "engine", "engine_version")
_PLAIN = (
    "concurrency",
    "ttft_ms",
    "tpot_ms",
    "output_tokens_per_s",
    "output_tokens_per_s_each",
    "requests_per_s",
    "queue_ms",
    "evidence",
)
_BANDS = ("ttft_ms", "tpot_ms", "output_tokens_per_s")
_COSTS = ("input", "output", "blended", "output_alone")


def _csv_row(about: Mapping[str, Any], point: Mapping[str, Any], *, saturated: bool) -> dict[str, Any]:
    cost = point["usd_per_million_tokens"] or {}
    price = about["price"] or {}
    return {
        **{key: about[key] for key in (*_ABOUT, "prompt_tokens", "output_tokens")},
        "saturated": saturated,
        **{key: point[key] for key in _PLAIN},
        **{f"{key}_{end}": point[f"{key}_interval"][at] for key in _BANDS for at, end in enumerate(("low", "high"))},
        "usd_per_hour": price.get("usd_per_hour"),
        "output_tokens_per_s_per_usd_per_hour": point["output_tokens_per_s_per_usd_per_hour"],
        **{f"usd_per_million_{key}": cost.get(key) for key in _COSTS},
        "warnings": point["warnings"],
    }

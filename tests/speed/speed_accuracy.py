"""docs/accuracy-speed.md, its plot and the data files of recommender/speed, from the measured rows: `make speed`.

Everything that is called unseen was predicted by constants that had not been fitted on the row's (GPU, model) group.
"""

from __future__ import annotations

import csv
import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from recommender.catalog.catalog import shipped_catalog
from recommender.errors import InputError
from recommender.speed.answer import speed
from recommender.speed.calibrate import Calibration, calibrate, group_weights, write_data
from recommender.speed.evidence import Errors, Evidence
from recommender.speed.families import DATA
from recommender.speed.measurements import Measurement, groups
from recommender.speed.validation import FOLDS, REPEATS, Unseen, folds_of

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
MEASUREMENTS = HERE / "measurements.csv"
SATURATED = HERE / "saturated.csv"
TEXT = HERE / "accuracy_text.md"
PAGE, PLOT = ROOT / "docs" / "accuracy-speed.md", ROOT / "docs" / "accuracy-speed.svg"
TPOT, TTFT, RATE = 0, 1, 2
AT_ONCE = (256, 512, 1024)
"""Requests at once on a replica that saturated runs are tried with; memory may hold fewer."""
NAMES = ("time per output token", "time to first token", "throughput")
Float = NDArray[np.float64]
Bool = NDArray[np.bool_]


def errors_of(residuals: Float) -> Float:
    """Relative errors of residuals, where there are any."""
    finite = residuals[np.isfinite(residuals)]
    return np.abs(np.expm1(finite))


def summary(residuals: Float) -> str:
    """Cells: rows, median error, shares within 15 and 30 %, bias."""
    error, finite = errors_of(residuals), residuals[np.isfinite(residuals)]
    cells = (100 * np.median(error), 100 * (error <= 0.15).mean(), 100 * (error <= 0.3).mean())
    bias = math.exp(float(np.median(finite)))
    return f"{len(error):,} | {cells[0]:.1f} % | {cells[1]:.0f} % | {cells[2]:.0f} % | {bias:.2f}"


def over_deals(deals: Sequence[Unseen], metric: int, rows: Bool) -> str:
    """Cells: rows, mean over deals of the median error with its range, shares within 15 and 30 %, bias."""
    each = [errors_of(deal.errors[metric, rows]) for deal in deals]
    medians = [100 * float(np.median(error)) for error in each]
    within = [statistics.mean(100 * float((error <= most).mean()) for error in each) for most in (0.15, 0.3)]
    bias = math.exp(statistics.mean(float(np.nanmedian(deal.errors[metric, rows])) for deal in deals))
    spread = f"{statistics.mean(medians):.1f} % ({min(medians):.1f} to {max(medians):.1f})"
    return f"{len(each[0]):,} | {spread} | {within[0]:.0f} % | {within[1]:.0f} % | {bias:.2f}"


def steady_rows(found: Calibration) -> Bool:
    """Rows that neither burst nor ask for more than the memory holds."""
    rows = found.data.rows
    crowded = rows.concurrency / rows.replicas > rows.sequences
    return ~crowded & ~np.array([each.burst for each in found.measured])


def coverage(found: Calibration, metric: int) -> tuple[float, float]:
    """Share of unseen rows inside the 80 % band that the other folds' errors give: mean over deals, and its least."""
    shares, weights = [], group_weights(found.measured)
    for deal, unseen in enumerate(found.deals):
        fold = folds_of(found.measured, deal)
        inside = np.zeros(len(fold), dtype=bool)
        for held_out in range(FOLDS):
            inside |= (fold == held_out) & _within_band(unseen, metric, fold != held_out, weights)
        shares.append(100 * float(inside[np.isfinite(unseen.errors[metric])].mean()))
    return statistics.mean(shares), min(shares)


def _within_band(unseen: Unseen, metric: int, known: Bool, weights: Float) -> Bool:
    """Rows whose error lies between the 10 % and 90 % quantiles of the known rows of their class."""
    error = unseen.errors[metric]
    inside = np.zeros(len(error), dtype=bool)
    for evidence in np.unique(unseen.evidence):
        same = unseen.evidence == evidence
        others = known & same & np.isfinite(error)
        if others.any():
            found = Errors(error[others], weights[others])
            inside |= same & (error >= found.quantile(0.1)) & (error <= found.quantile(0.9))
    return inside


def prices() -> dict[str, float]:
    """The lowest listed on-demand dollars an hour of one GPU, by GPU."""
    lowest: dict[str, float] = {}
    for offer in shipped_catalog().offers:
        price = offer.prices.get("on_demand")
        if price is not None and not offer.stale and offer.segment in ("hyperscaler", "neocloud"):
            lowest[offer.gpu] = min(lowest.get(offer.gpu, math.inf), price / offer.gpus / 1e6)
    return lowest


def workloads(measured: Sequence[Measurement]) -> dict[tuple[object, ...], list[int]]:
    """Rows by engine, model, lengths and concurrency, where at least two kinds of GPU were measured."""
    found: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for at, each in enumerate(measured):
        if each.output_tokens_per_s is not None and not each.burst:
            key = (each.engine, each.model, each.prompt_tokens, each.output_tokens, each.concurrency)
            found[key].append(at)
    return {key: at for key, at in found.items() if len({measured[index].gpu for index in at}) > 1}


def gpus(each: Measurement) -> int:
    """GPUs of a measured configuration."""
    return each.tp * each.pp * each.dp * each.replicas


def ranking(found: Calibration) -> tuple[float, list[float], int]:
    """(Kendall's tau of tokens a second per GPU over pairs on different GPUs, regrets of the picks, workloads)."""
    price, taus, regrets = prices(), [], []
    measured = found.measured
    for deal in found.deals:
        for at in workloads(measured).values():
            rate = {i: (measured[i].output_tokens_per_s or 0.0) / gpus(measured[i]) for i in at}
            said = {i: rate[i] * math.exp(deal.errors[RATE, i]) for i in at}
            taus.append(
                _tau([(i, j) for i, j in combinations(at, 2) if measured[i].gpu != measured[j].gpu], rate, said)
            )
            sold = [i for i in at if measured[i].gpu in price]
            if len({measured[i].gpu for i in sold}) > 1:
                cost = {i: price[measured[i].gpu] / rate[i] for i in sold}
                pick = min(sold, key=lambda i: (price[measured[i].gpu] / said[i], i))
                regrets.append(cost[pick] / min(cost.values()) - 1)
    return statistics.mean(taus), regrets, len(workloads(measured))


def _tau(pairs: Sequence[tuple[int, int]], truth: Mapping[int, float], said: Mapping[int, float]) -> float:
    agree = [math.copysign(1, (truth[i] - truth[j]) * (said[i] - said[j])) for i, j in pairs]
    return statistics.mean(agree)


def group_table(found: Calibration) -> list[str]:
    """One line per GPU, model, engine and dtype with enough rows."""
    rows: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for at, each in enumerate(found.measured):
        rows[each.anchor].append(at)
    mean = np.nanmean([deal.errors for deal in found.deals], axis=0)
    lines = []
    for key, at in sorted(rows.items()):
        if len(at) >= 5:
            inside, unseen = found.inside[:, at], mean[:, at]
            cells = (
                f"{100 * np.median(errors_of(inside[TPOT])):.0f} %",
                f"{100 * np.median(errors_of(unseen[TPOT])):.0f} %",
                f"{math.exp(float(np.nanmedian(unseen[TPOT]))):.2f}",
                f"{100 * np.median(errors_of(unseen[RATE])):.0f} %" if np.isfinite(unseen[RATE]).any() else "",
            )
            lines.append(f"| {' | '.join(key)} | {len(at)} | {' | '.join(cells)} |")
    return lines


def anchored_table(found: Calibration, rows: Iterable[int]) -> list[str]:
    """One line per number of runs that anchor a group."""
    lines = []
    for runs in rows:
        tpot, rate = (errors_of(found.anchored[runs][metric]) for metric in (TPOT, RATE))
        cells = [
            " | ".join(
                (f"{100 * np.median(error):.1f} %", *(f"{100 * (error <= most).mean():.0f} %" for most in (0.15, 0.3)))
            )
            for error in (tpot, rate)
        ]
        lines.append(f"| {runs} | {' | '.join(cells)} |")
    return lines


def saturated_rates() -> list[tuple[tuple[str, str, str, str], float]]:
    """((source, GPU, model, weights), logarithm of predicted over measured) of runs with more requests than fit."""
    rates = []
    with SATURATED.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            best = max((_saturated(row, tp, at_once) for tp in _tps(row) for at_once in AT_ONCE), default=0.0)
            if best:
                key = (row["source"].split(" 1.")[0].split(" v")[0], row["gpu"], row["model"], row["weights"])
                rates.append((key, math.log(best / float(row["output_tok_s"]))))
    return rates


def _tps(row: Mapping[str, str]) -> list[int]:
    """The stated tensor parallel size, or those a submitter may have chosen from."""
    return [int(row["tp"])] if row["tp"] else [tp for tp in (1, 2, 4, 8) if int(row["gpus"]) % tp == 0]


def _saturated(row: Mapping[str, str], tp: int, at_once: int) -> float:
    """Tokens a second with so many requests on each replica; 0 where the model does not fit so."""
    pp, ep = int(row["pp"] or 1), int(row["ep"] or 1)
    replicas = max(int(row["gpus"]) // (pp * max(tp, ep)), 1)
    try:
        found = speed(
            row["model"],
            row["gpu"],
            int(row["isl"]),
            int(row["osl"]),
            at_once * replicas,
            tp=tp,
            pp=pp,
            ep=ep,
            replicas=replicas,
            weights=row["weights"],
            kv_dtype="auto" if row["weights"] == "bf16" else "fp8",
            engine=row["engine"],
        )
    except InputError:
        return 0.0
    return found.output_tokens_per_s


def saturated_table(rates: Sequence[tuple[tuple[str, str, str, str], float]]) -> list[str]:
    """One line per source, GPU, model and dtype."""
    grouped: dict[tuple[str, str, str, str], list[float]] = defaultdict(list)
    for key, rate in rates:
        grouped[key].append(rate)
    return [
        f"| {' | '.join(key)} | {len(each)} | {math.exp(statistics.median(each)):.2f} |"
        for key, each in sorted(grouped.items())
    ]


def page(found: Calibration) -> str:
    """The whole document."""
    everything = np.ones(len(found.measured), dtype=bool)
    dense = np.array([each.engine == "vllm" for each in found.measured]) & (found.data.rows.of_shape("experts") == 0)
    tau, regrets, asked = ranking(found)
    rates = saturated_rates()
    held = [coverage(found, metric) for metric in (TPOT, RATE, TTFT)]
    tables = {
        "ROWS": f"{len(found.measured):,}",
        "GROUPS_COUNT": f"{len(groups(found.measured))}",
        "DEALS": f"{REPEATS}",
        "INSIDE": "\n".join(f"| {name} | {summary(found.inside[m])} |" for m, name in enumerate(NAMES)),
        "DENSE": "\n".join(f"| {NAMES[m]} | {summary(found.inside[m, dense])} |" for m in (TPOT, RATE)),
        "UNSEEN": "\n".join(f"| {name} | {over_deals(found.deals, m, everything)} |" for m, name in enumerate(NAMES)),
        "STEADY": "\n".join(
            f"| {name} | {over_deals(found.deals, m, steady_rows(found))} |" for m, name in enumerate(NAMES)
        ),
        "FAMILIES": "\n".join(f"| {NAMES[m]} | {summary(_known_gpu(found.families, m))} |" for m in range(3)),
        "GPUS": "\n".join(f"| {NAMES[m]} | {summary(found.gpus.errors[m])} |" for m in range(3)),
        "ANCHORED": "\n".join(anchored_table(found, (1, 2, 3))),
        "COVERAGE": "\n".join(
            f"| {NAMES[m]} | {mean:.0f} % | {least:.0f} % |"
            for m, (mean, least) in zip((TPOT, RATE, TTFT), held, strict=True)
        ),
        "TAU": f"{tau:.2f}",
        "WORKLOADS": f"{asked}",
        "REGRET": f"{100 * statistics.median(regrets):.1f} %",
        "REGRET_MEAN": f"{100 * statistics.mean(regrets):.1f} %",
        "REGRET_90": f"{100 * float(np.quantile(regrets, 0.9)):.1f} %",
        "SATURATED": "\n".join(
            f"| {source} | {summary(np.array([rate for key, rate in rates if key[0] == source]))} |"
            for source in sorted({key[0] for key, _ in rates})
        ),
        "SATURATED_GROUPS": "\n".join(saturated_table(rates)),
        "GROUPS": "\n".join(group_table(found)),
        "LEFT_OUT": "\n".join(f"| {why} | {count:,} |" for why, count in found.left_out.items()) or "| none | 0 |",
    }
    text = TEXT.read_text(encoding="utf-8")
    for name, table in tables.items():
        text = text.replace(f"{{{{{name}}}}}", table)
    return text


def _known_gpu(unseen: Unseen, metric: int) -> Float:
    return unseen.errors[metric, unseen.evidence == Evidence.KNOWN_GPU]


def plot(found: Calibration, size: int = 520, margin: int = 50) -> str:
    """Predicted against measured time per output token, unseen groups of the first deal, both on log scales."""
    low, high = math.log10(2), math.log10(300)
    span = size - 2 * margin

    def at(milliseconds: float) -> float:
        return (math.log10(milliseconds) - low) / (high - low) * span

    marks: dict[str, list[str]] = {"vllm": [], "sglang": [], "tensorrt-llm": []}
    for each, error in zip(found.measured, found.deals[0].errors[TPOT], strict=True):
        predicted = each.tpot_ms * math.exp(float(error))
        if low <= math.log10(each.tpot_ms) <= high and low <= math.log10(predicted) <= high:
            marks[each.engine].append(f"M{margin + at(each.tpot_ms):.1f} {size - margin - at(predicted):.1f}h0")
    colours = {"vllm": "#1f6feb", "sglang": "#2b8a3e", "tensorrt-llm": "#d9480f"}
    ticks = [
        f'<text x="{margin + at(t):.1f}" y="{size - margin + 16}" text-anchor="middle">{t}</text>'
        f'<text x="{margin - 8}" y="{size - margin - at(t) + 4:.1f}" text-anchor="end">{t}</text>'
        for t in (2, 5, 10, 20, 50, 100, 200)
    ]
    bands = [
        f'<path d="M{margin} {size - margin - shift:.1f}L{size - margin - shift:.1f} {margin}" stroke="#ddd"/>'
        f'<path d="M{margin + shift:.1f} {size - margin}L{size - margin} {margin + shift:.1f}" stroke="#ddd"/>'
        for shift in (math.log10(1.3) / (high - low) * span,)
    ]
    edge, far = margin, size - margin
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size} {size}" font-family="sans-serif" '
            'font-size="11">',
            f'<rect width="{size}" height="{size}" fill="white"/>',
            f'<path d="M{edge} {edge}V{far}H{far}" fill="none" stroke="#888"/>',
            *bands,
            f'<path d="M{edge} {far}L{far} {edge}" stroke="#999" stroke-dasharray="4 3"/>',
            *ticks,
            *(
                f'<path d="{"".join(drawn)}" stroke="{colours[engine]}" stroke-width="3" stroke-linecap="round" '
                'stroke-opacity="0.45" fill="none"/>'
                for engine, drawn in marks.items()
            ),
            f'<text x="{size / 2}" y="{size - 12}" text-anchor="middle">measured ms per output token</text>',
            f'<text x="14" y="{size / 2}" text-anchor="middle" transform="rotate(-90 14 {size / 2})">predicted</text>',
            *(
                f'<text x="{edge + 8}" y="{edge + 4 + 16 * line}" fill="{colour}">{engine}</text>'
                for line, (engine, colour) in enumerate(colours.items())
            ),
            "</svg>\n",
        ]
    )


def main() -> int:
    """Calibrates, and writes the data files, the page and the plot."""
    found = calibrate(MEASUREMENTS, shipped_catalog())
    write_data(found, DATA)
    PAGE.write_text(page(found), encoding="utf-8")
    PLOT.write_text(plot(found), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

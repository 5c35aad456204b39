"""docs/accuracy.md and its plot, regenerated from the measured rows by `make accuracy`."""

from __future__ import annotations

import csv
import math
import re
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))

from test_startup_0_19 import answered as answered_0_19  # noqa: E402
from test_startup_mixed import LEFT_OUT, answered, budget_gib  # noqa: E402
from test_startup_pool_engines import PREDICTED, ROWS, predicted  # noqa: E402
from unseen import Unseen, unseen  # noqa: E402

from recommender.answer import shipped_catalog  # noqa: E402
from recommender.units import GIB  # noqa: E402

PAGE, PLOT = ROOT / "docs" / "accuracy.md", ROOT / "docs" / "accuracy.svg"
OTHERS = {"article formula (flat 2 GB)": 10.3, "llm-d-planner": 10.5, "AIConfigurator": 10.4}


@dataclass(frozen=True)
class Log:
    """One start-up log: what was logged and what is predicted, GiB per GPU; tokens where the log has them."""

    name: str
    gpu: str
    version: str
    kind: str
    logged_gib: float
    predicted_gib: float
    budget_gib: float
    logged_tokens: int | None
    predicted_tokens: int

    @property
    def share_of_budget(self) -> float:
        """The error as a share of utilization x total."""
        return abs(self.predicted_gib - self.logged_gib) / self.budget_gib

    @property
    def token_error(self) -> float:
        """The relative error of the token count."""
        return abs(self.predicted_tokens / self.logged_tokens - 1) if self.logged_tokens else math.nan


def kind_of(model: str) -> str:
    """The attention kinds of a model in words."""
    return " + ".join(sorted({layers.kind for layers in shipped_catalog().resolve(model).model.attention}))


def logs_0_19() -> list[Log]:
    """The rows of one machine and version, pipelines included."""
    found = []
    for row, answer in answered_0_19():
        found.append(
            Log(
                f"{row['model']} tp {row['tp']}" + (f" pp {row['pp']}" if row["pp"] != "1" else ""),
                "H100-SXM",
                "0.19.0",
                kind_of(row["model"]),
                float(row["kv_cache_memory_gib"]),
                answer.kv_cache_bytes / GIB,
                float(row["gpu_memory_utilization"]) * 79.19,
                int(row["kv_cache_tokens"]),
                answer.kv_cache_tokens,
            )
        )
    return found


def logs_mixed() -> list[Log]:
    """The rows of many versions and cards that can be predicted."""
    return [
        Log(
            f"{row['id']} {row['model_id']} tp {row['tp']}",
            answer.gpu,
            row["vllm_version"].removeprefix("~"),
            kind_of(row["model_id"]),
            float(row["available_kv_gib"]),
            answer.kv_cache_bytes / GIB,
            budget_gib(row),
            None,
            answer.kv_cache_tokens,
        )
        for row, answer in answered()
    ]


def unseen_0_19() -> list[Unseen]:
    """The rows of one machine and version, each model left out of the fit in turn."""
    return [
        unseen(
            row, row["model"], answer, float(row["kv_cache_memory_gib"]), float(row["gpu_memory_utilization"]) * 79.19
        )
        for row, answer in answered_0_19()
    ]


def unseen_mixed() -> list[Unseen]:
    """The rows of many versions and cards, each model left out of the fit in turn."""
    return [
        unseen(row, row["model_id"], answer, float(row["available_kv_gib"]), budget_gib(row))
        for row, answer in answered()
    ]


def unseen_rows(found: Sequence[Unseen]) -> list[str]:
    """A row for each architecture and release: errors of unseen models beside those in sample."""
    groups: dict[tuple[str, str], list[Unseen]] = defaultdict(list)
    for each in found:
        groups[shipped_catalog().gpu(each.gpu).architecture, each.release].append(each)
    rows = ["| GPU class | vLLM | logs | median | 90 % | worst | worst in sample |", "|---|---|---|---|---|---|---|"]
    for (gpu, version), members in sorted(groups.items()):
        worst = percent(max(abs(each.seen_error) for each in members))
        rows.append(
            f"| {gpu} | {version} | {len(members)} | {summary([abs(each.error) for each in members])} | {worst} |"
        )
    return rows


def unused() -> list[str]:
    """Every row of the mixed set that is not predicted, and why."""
    used = {log.name.split()[0] for log in logs_mixed()}
    rows = csv.DictReader((HERE / "startup_mixed.csv").open())
    return [f"- {row['id']}: {LEFT_OUT.get(row['id']) or _why(row)}." for row in rows if row["id"] not in used]


def _why(row: dict[str, str]) -> str:
    version = re.match(r"~?(\d+\.\d+)", row["vllm_version"])
    if "fork" in row["vllm_version"] or any(word in row["extra"] for word in ("Unsloth", "ffload", "MTP", "spec")):
        return "a fork, a wrapper, offloading or speculative decoding"
    if row["cpu_offload"]:
        return "weights are offloaded to the CPU"
    if version is None or tuple(map(int, version[1].split("."))) < (0, 6):
        return f"version {row['vllm_version'] or 'not stated'}"
    if not (row["available_kv_gib"] and row["max_model_len"] and row["weights_gib_per_gpu"]):
        return "no KV memory, length or weights logged"
    return f"the card is not one of the catalog, or not named ({row['gpu_name']})"


def percent(value: float, places: int = 2) -> str:
    """A share as percent."""
    return f"{100 * value:.{places}f} %"


def summary(errors: Sequence[float]) -> str:
    """Median, 90 % (by nearest rank) and worst."""
    ordered = sorted(errors)
    shown = (statistics.median(ordered), ordered[math.ceil(0.9 * len(ordered)) - 1], ordered[-1])
    return " | ".join(percent(error) for error in shown)


def grouped(logs: Iterable[Log]) -> list[str]:
    """A row for each GPU, version and attention kind."""
    groups: dict[tuple[str, str, str], list[Log]] = defaultdict(list)
    for log in logs:
        groups[log.gpu, log.version, log.kind].append(log)
    rows = ["| GPU | vLLM | attention | logs | median | 90 % | worst |", "|---|---|---|---|---|---|---|"]
    for (gpu, version, kind), members in sorted(groups.items()):
        rows.append(
            f"| {gpu} | {version} | {kind} | {len(members)} | {summary([m.share_of_budget for m in members])} |"
        )
    return rows


def exact_rows() -> list[str]:
    """Rows of the engine's own classes by attention kind; the tests hold all of them to be exact."""
    kinds: Counter[str] = Counter()
    for row in csv.DictReader((HERE / "engine_kv.csv").open()):
        kinds[kind_of(row["model"])] += 1
    rows = ["| attention | rows, all exact |", "|---|---|"]
    return [
        *rows,
        *(f"| {kind} | {count:,} |" for kind, count in sorted(kinds.items())),
        f"| all | {kinds.total():,} |",
    ]


def plot(logs: Sequence[Log]) -> str:
    """Predicted against logged KV memory on two logarithmic axes, as SVG."""
    size, margin, low, high = 480, 50, 1.0, 100.0

    def at(value: float) -> float:
        return (size - 2 * margin) * math.log(value / low) / math.log(high / low)

    dots = [
        f'<circle cx="{margin + at(log.logged_gib):.1f}" cy="{size - margin - at(log.predicted_gib):.1f}" r="3" '
        f'fill="{"#1f6feb" if log.version == "0.19.0" else "#d9480f"}" fill-opacity="0.6">'
        f"<title>{log.name}</title></circle>"
        for log in logs
        if low <= log.logged_gib <= high and low <= log.predicted_gib <= high
    ]
    ticks = [
        f'<text x="{margin + at(t):.1f}" y="{size - margin + 16}" text-anchor="middle">{t:g}</text>'
        f'<text x="{margin - 8}" y="{size - margin - at(t) + 4:.1f}" text-anchor="end">{t:g}</text>'
        for t in (1, 2, 5, 10, 20, 50, 100)
    ]
    edge, far = margin, size - margin
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size} {size}" font-family="sans-serif" '
            'font-size="11">',
            f'<rect width="{size}" height="{size}" fill="white"/>',
            f'<path d="M{edge} {edge}V{far}H{far}" fill="none" stroke="#888"/>',
            f'<path d="M{edge} {far}L{far} {edge}" stroke="#bbb" stroke-dasharray="4 3"/>',
            *ticks,
            *dots,
            f'<text x="{size / 2}" y="{size - 12}" text-anchor="middle">logged KV cache, GiB per GPU</text>',
            f'<text x="14" y="{size / 2}" text-anchor="middle" transform="rotate(-90 14 {size / 2})">predicted</text>',
            f'<text x="{edge + 8}" y="{edge + 4}" fill="#1f6feb">0.19.0 on one H100 machine</text>',
            f'<text x="{edge + 8}" y="{edge + 20}" fill="#d9480f">other versions and cards</text>',
            "</svg>\n",
        ]
    )


def page() -> str:
    """The whole document."""
    one, many = logs_0_19(), logs_mixed()
    tokens = [log.token_error for log in one]
    mean = statistics.mean(tokens)
    text = (HERE / "accuracy_text.md").read_text(encoding="utf-8")
    tables = {
        "KV_ROWS": "\n".join(exact_rows()),
        "TOKENS": f"| {len(one)} | {summary(tokens)} |",
        "BUDGET": f"| {len(one)} | {summary([log.share_of_budget for log in one])} |",
        "MIXED": f"| {len(many)} | {summary([log.share_of_budget for log in many])} |",
        "OTHERS": "\n".join(f"| {name} | {error} % |" for name, error in OTHERS.items()),
        "OURS": f"| recommender | {100 * mean:.2f} % |",
        "GROUPS": "\n".join(grouped([*one, *many])),
        "UNSEEN_0_19": f"| {len(one)} | {summary([abs(each.error) for each in unseen_0_19()])} |",
        "UNSEEN_MIXED": f"| {len(many)} | {summary([abs(each.error) for each in unseen_mixed()])} |",
        "UNSEEN_GROUPS": "\n".join(unseen_rows([*unseen_0_19(), *unseen_mixed()])),
        "LEFT_OUT": "\n".join(unused()),
        "ENGINES": "\n".join(engine_rows()),
    }
    for name, table in tables.items():
        text = text.replace(f"{{{{{name}}}}}", table)
    return text


def engine_rows() -> list[str]:
    """The logs of other engines as rows of the table."""
    rows = []
    for row in ROWS:
        found = predicted(row) if row in PREDICTED else None
        low, high = (size / GIB for size in found.kv_cache_bytes_interval or (0, 0)) if found else (0.0, 0.0)
        ours = (f"{found.kv_cache_bytes / GIB:.2f}", f"{low:.2f} to {high:.2f}") if found else ("arithmetic", "")
        what = f"{row['engine']} {row['version']} | {row['model']}, {row['gpu']} | {row['tp']}"
        rows.append(f"| {what} | {row['share']} | {row['kv_gib']} | {' | '.join(ours)} |")
    return rows


def main() -> int:
    """Writes the page and the plot."""
    PAGE.write_text(page(), encoding="utf-8")
    PLOT.write_text(plot([*logs_0_19(), *logs_mixed()]), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

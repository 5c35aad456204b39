"""The command line: a thin shell over the Python API. Everything heavy is imported inside the command that uses it."""

from __future__ import annotations

import sys
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from recommender.console import INTERNAL, emit, guarded, note


class Format(StrEnum):
    """How an answer is written."""

    table = "table"
    json = "json"
    csv = "csv"


class GroupBy(StrEnum):
    """Of what only the best plan is kept."""

    gpu = "gpu"
    provider = "provider"
    region = "region"


app = typer.Typer(
    help="The provably cheapest GPU set-up that serves a language model at your request lengths and service level.",
    epilog="Exit codes: 0 answered; 1 no plan is feasible; 2 the input is wrong; 3 internal error (see --debug).",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
catalog_app = typer.Typer(help="The facts that answers stand on.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(catalog_app, name="catalog")

Scenario = Annotated[str, typer.Argument(metavar="SCENARIO", help="A scenario file, or the name of a shipped one.")]
Written = Annotated[Format, typer.Option("--format", help="How the answer is written.")]
Output = Annotated[Path | None, typer.Option(help="Write to this file instead of standard output.")]
Overlays = Annotated[list[str] | None, typer.Option("--catalog", help="A catalog overlay; may be given again.")]
Contains = Annotated[str, typer.Argument(metavar="[TEXT]", help="Only rows whose names contain all these words.")]


def _version(wanted: bool) -> None:
    if wanted:
        from recommender import __version__

        emit(f"recommender {__version__}\n", None)
        raise typer.Exit


@app.callback()
def options(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an internal error.")] = False,
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show it.")] = False,
) -> None:
    """Options that stand before any command."""


@app.command()
@guarded
def run(
    scenario: Scenario,
    group_by: Annotated[GroupBy | None, typer.Option(help="Keep only the best plan of each.")] = None,
    written: Written = Format.table,
    output: Output = None,
) -> None:
    """The ranked, provably cheapest plans for a scenario and its variants."""
    from recommender.command.answers import age_notes, run_answers, show_answers

    answers = run_answers(scenario, group_by.value if group_by else None)
    emit(show_answers(answers, written.value), output)
    for line in age_notes(answers, date.today()):
        note(f"note: {line}")
    raise typer.Exit(0 if any(answer.plans for answer in answers.values()) else 1)


@app.command()
@guarded
def ask(
    question: Annotated[str, typer.Argument(help='A sentence: "cheapest setup for 50 concurrent 8K requests".')],
    model: Annotated[str | None, typer.Option(help="Hugging Face id or alias.")] = None,
    partial: Annotated[bool, typer.Option(help="Answer even where words are not understood, and list them.")] = False,
    catalog: Overlays = None,
    written: Written = Format.table,
    output: Output = None,
) -> None:
    """The answer to a question in a sentence; without a model, for llama-3.1-8b and llama-3.1-70b."""
    from recommender.command.answers import ask_answers, show_answers

    answers, notes = ask_answers(question, model, partial, tuple(catalog or ()))
    for line in notes:
        note(f"note: {line}")
    emit(show_answers(answers, written.value), output)
    raise typer.Exit(0 if any(answer.plans for answer in answers.values()) else 1)


@app.command()
@guarded
def budget(
    scenario: Scenario,
    usd_per_month: Annotated[str, typer.Option(help="Dollars for a month of 730 hours.")],
    written: Written = Format.table,
    output: Output = None,
) -> None:
    """The most requests at once that a budget buys, and the plan that serves them."""
    from recommender.command.answers import budget_answers, show_answers

    answers = budget_answers(scenario, usd_per_month)
    emit(show_answers(answers, written.value), output)
    raise typer.Exit(0 if any(answer.plans for answer in answers.values()) else 1)


@app.command()
@guarded
def ladder(
    scenario: Scenario,
    gpu: Annotated[str | None, typer.Option(help="The GPU; needed unless the scenario names a single one.")] = None,
    written: Written = Format.table,
    output: Output = None,
) -> None:
    """Rung by rung, for one GPU: what fits, and what the rung costs."""
    from recommender.command.answers import climb, show_ladder

    climbed = climb(scenario, gpu)
    emit(show_ladder(climbed, written.value), output)
    raise typer.Exit(0 if any(step.feasible for step in climbed.steps) else 1)


@app.command()
@guarded
def fit(
    model: Annotated[str, typer.Option(help="Catalog name, folder, config.json or hf://owner/name.")],
    gpu: Annotated[str, typer.Option(help="GPU name of the catalog.")],
    tp: Annotated[int, typer.Option(min=1, max=1024, help="Tensor-parallel size.")] = 1,
    pp: Annotated[int, typer.Option(min=1, max=1024, help="Pipeline-parallel size.")] = 1,
    dp: Annotated[int, typer.Option(min=1, max=1024, help="Data-parallel size.")] = 1,
    ep: Annotated[int, typer.Option(min=1, max=1024, help="Expert-parallel size.")] = 1,
    weights: Annotated[str | None, typer.Option(help="Weight dtype; absent: the model's own.")] = None,
    kv_dtype: Annotated[str, typer.Option(help="auto or fp8.")] = "auto",
    max_model_len: Annotated[str | None, typer.Option(help="Tokens, such as 8192 or 8K.")] = None,
    max_num_seqs: Annotated[int | None, typer.Option(min=1, max=10**7, help="Requests at once.")] = None,
    max_num_batched_tokens: Annotated[str | None, typer.Option(help="Tokens of one engine step.")] = None,
    gpu_memory_utilization: Annotated[float | None, typer.Option(help="Share of the memory, above 0 to 1.")] = None,
    kv_cache_memory_bytes: Annotated[int | None, typer.Option(min=1, help="KV cache per GPU, instead.")] = None,
    enforce_eager: Annotated[bool, typer.Option("--enforce-eager", help="Run without CUDA graphs.")] = False,
    engine: Annotated[str, typer.Option(help="Inference engine.")] = "vllm",
    engine_version: Annotated[str | None, typer.Option(help="Whose rules and constants apply.")] = None,
    memory_model: Annotated[str, typer.Option(help="vllm, or article: the flat 2 GB rule.")] = "vllm",
    concurrency: Annotated[int | None, typer.Option(min=1, max=10**7, help="Sets max-num-seqs.")] = None,
    kv_bytes_per_token: Annotated[int | None, typer.Option(min=1, help="Measured, for an unmodelled class.")] = None,
    catalog: Overlays = None,
    written: Written = Format.table,
    output: Output = None,
) -> None:
    """Whether one replica starts, and what it holds."""
    asked: dict[str, Any] = {
        key: value for key, value in locals().items() if key not in ("catalog", "written", "output")
    }
    from recommender.command.replica import fit_replica_of, show_fit

    found = fit_replica_of(asked, tuple(catalog or ()))
    emit(show_fit(found, written.value), output)
    raise typer.Exit(0 if found.starts else 1)


@app.command()
@guarded
def verify(
    log: Annotated[Path, typer.Argument(metavar="LOG", help="A vLLM start-up log: text, JSON lines, several ranks.")],
    model: Annotated[str | None, typer.Option(help="Hugging Face id or alias; absent: as in the log.")] = None,
    gpu: Annotated[str | None, typer.Option(help="GPU name of the catalog; absent: as in the log.")] = None,
    engine_version: Annotated[str | None, typer.Option(help="Where the log does not say which.")] = None,
    tolerance: Annotated[
        str | None, typer.Option(help="Share of the budget, such as 0.03 (the default) or 3%.")
    ] = None,
    save_calibration: Annotated[Path | None, typer.Option(help="Add what the log corrects to this file.")] = None,
    catalog: Overlays = None,
    written: Written = Format.table,
    output: Output = None,
) -> None:
    """A start-up log against what is predicted for it; exit 1 beyond the tolerance, 2 where it is none."""
    from recommender.command.verify import calibration_with, show_verification, verification_of

    found = verification_of(
        log, model=model, gpu=gpu, engine_version=engine_version, tolerance=tolerance, overlays=tuple(catalog or ())
    )
    emit(show_verification(found, written.value), output)
    if save_calibration is not None:
        emit(calibration_with(found, log, save_calibration), save_calibration)
    raise typer.Exit(1 if found.beyond else 0)


@app.command()
@guarded
def lengths(
    source: Annotated[str, typer.Argument(metavar="FILE|PRESET", help="A log, a cell file, metrics, or a trace.")],
    concurrency: Annotated[int | None, typer.Option(min=1, max=10**7, help="Adds what so many hold in flight.")] = None,
    epsilon: Annotated[float, typer.Option(help="Share of the engine's steps that may need more.")] = 0.01,
    max_model_len: Annotated[str | None, typer.Option(help="Tokens, such as 8K; absent: the longest request.")] = None,
    columns: Annotated[str | None, typer.Option(help="Of a log: input=NAME,output=NAME,timestamp=NAME.")] = None,
    timestamp_unit: Annotated[str | None, typer.Option(help="Of a log: s, ms, us, ns or auto.")] = None,
    written: Written = Format.table,
    output: Annotated[Path | None, typer.Option(help="Write the cell file that a scenario can use here.")] = None,
) -> None:
    """Request lengths of a log in a few kilobytes: quantiles, joint histogram, arrivals, need in flight."""
    from recommender.command.lengths import described, show_lengths

    found = described(
        source,
        columns=columns,
        timestamp_unit=timestamp_unit,
        concurrency=concurrency,
        epsilon=epsilon,
        max_model_len=max_model_len,
    )
    if output is not None:
        emit(show_lengths(found, Format.json if written == Format.table else written.value), output)
    if output is None or written == Format.table:
        emit(show_lengths(found, written.value), None)


@app.command()
@guarded
def models(
    text: Contains = "", catalog: Overlays = None, written: Written = Format.table, output: Output = None
) -> None:
    """The models of the catalog."""
    _list("models", text, catalog, written, output)


@app.command()
@guarded
def gpus(text: Contains = "", catalog: Overlays = None, written: Written = Format.table, output: Output = None) -> None:
    """The GPUs of the catalog."""
    _list("gpus", text, catalog, written, output)


@app.command()
@guarded
def offers(
    text: Contains = "", catalog: Overlays = None, written: Written = Format.table, output: Output = None
) -> None:
    """The offers of the catalog, with price, date and source."""
    _list("offers", text, catalog, written, output)


def _list(kind: str, text: str, overlays: list[str] | None, written: Format, output: Path | None) -> None:
    from recommender.command.listings import listing

    emit(listing(kind, text, tuple(overlays or ()), written.value), output)


@catalog_app.command()
@guarded
def validate(
    overlays: Annotated[list[str] | None, typer.Argument(metavar="[FILE]...", help="Catalog overlays.")] = None,
) -> None:
    """Checks the shipped catalog and any overlays; exit 2 lists every fault."""
    from recommender.command.listings import validated

    emit(validated(tuple(overlays or ())), None)


@app.command()
@guarded
def schema(output: Output = None) -> None:
    """The JSON schema of a scenario file, for editors."""
    from recommender.command.listings import scenario_schema

    emit(scenario_schema(), output)


@app.command()
@guarded
def init(path: Annotated[Path, typer.Argument(help="The file to write; it must not exist yet.")]) -> None:
    """Writes a small scenario to start from."""
    from recommender.command.listings import first_scenario

    emit(first_scenario(path), path)
    note(f"written: {path}; answer it with: recommender run {path}")


def main() -> None:
    """Run the command; whatever goes wrong inside us ends in one line and exit 3, or a traceback with --debug."""
    debug = "--debug" in sys.argv
    try:
        app(args=[word for word in sys.argv[1:] if word != "--debug"])
    except Exception as error:
        if debug:
            raise
        note(f"internal error: {type(error).__name__}: {error} (--debug shows where)")
        raise SystemExit(INTERNAL) from None

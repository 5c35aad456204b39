"""The command line: a thin shell over the Python API. Everything heavy is imported inside the command that uses it."""

from __future__ import annotations

import sys
from datetime import date
from pathlib import Path
from typing import Annotated, Any

import typer

from recommender.cli_lists import lists
from recommender.command import options as opt
from recommender.console import emit, failed, guarded, note

app = typer.Typer(
    help="The provably cheapest GPU set-up that serves a language model at your request lengths and service level.",
    epilog="Exit codes: 0 answered; 1 no plan is feasible; 2 the input is wrong; 3 internal error (see --debug).",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        from recommender import __version__

        emit(f"recommender {__version__}\n", None)
        raise typer.Exit


@app.callback()
def options(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an internal error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Options that stand before any command."""


@app.command()
@guarded
def run(
    scenario: opt.Scenario,
    group_by: Annotated[opt.GroupBy | None, typer.Option(help="Keep only the best plan of each.")] = None,
    written: opt.Written = opt.Format.table,
    output: opt.Output = None,
) -> None:
    """The cheapest plans for a scenario, ranked and proven. Its variants are answered beside it."""
    from recommender.command.answers import age_notes, run_answers, show_answers

    answers = run_answers(scenario, group_by.value if group_by else None)
    emit(show_answers(answers, written.value), output)
    for line in age_notes(answers, date.today()):
        note(f"note: {line}")
    raise typer.Exit(0 if any(answer.plans for answer in answers.values()) else 1)


@app.command()
@guarded
def ask(
    question: Annotated[
        str, typer.Argument(metavar="QUESTION", help='Such as "50 concurrent 8K requests under $20/h".')
    ],
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="As in `recommender models`; a folder, file or hf://.")
    ] = None,
    partial: opt.Partial = False,
    catalog: opt.Overlays = None,
    written: opt.Written = opt.Format.table,
    output: opt.Output = None,
) -> None:
    """The answer to a question in a sentence. Without a model, for llama-3.1-8b and llama-3.1-70b."""
    from recommender.command.answers import ask_answers, show_answers

    answers, notes = ask_answers(question, model, partial, tuple(catalog or ()))
    for line in notes:
        note(f"note: {line}")
    emit(show_answers(answers, written.value), output)
    raise typer.Exit(0 if any(answer.plans for answer in answers.values()) else 1)


@app.command()
@guarded
def budget(
    scenario: opt.Scenario,
    usd_per_month: Annotated[str, typer.Option(metavar="USD", help="Dollars for a month of 730 hours.")],
    written: opt.Written = opt.Format.table,
    output: opt.Output = None,
) -> None:
    """The most requests at once that a budget buys. And the plan that serves them."""
    from recommender.command.answers import budget_answers, show_answers

    answers = budget_answers(scenario, usd_per_month)
    emit(show_answers(answers, written.value), output)
    raise typer.Exit(0 if any(answer.plans for answer in answers.values()) else 1)


@app.command()
@guarded
def ladder(
    scenario: opt.Scenario,
    gpu: Annotated[
        str | None, typer.Option(metavar="NAME", help="Needed unless the scenario names a single GPU.")
    ] = None,
    written: opt.Written = opt.Format.table,
    output: opt.Output = None,
) -> None:
    """Rung by rung, for one GPU: what fits, and what the rung costs."""
    from recommender.command.answers import climb, show_ladder

    climbed = climb(scenario, gpu)
    emit(show_ladder(climbed, written.value), output)
    raise typer.Exit(0 if any(step.feasible for step in climbed.steps) else 1)


@app.command()
@guarded
def fit(
    model: Annotated[str, typer.Option(metavar="NAME", help="Catalog name, folder, config.json or hf://owner/name.")],
    gpu: Annotated[str, typer.Option(metavar="NAME", help="As in `recommender gpus`.")],
    tp: opt.Tp = 1,
    pp: opt.Pp = 1,
    dp: opt.Dp = 1,
    ep: opt.Ep = 1,
    weights: opt.Weights = None,
    kv_dtype: opt.KvDtype = "auto",
    max_model_len: Annotated[str | None, typer.Option(metavar="TOKENS", help="Such as 8192 or 8K.")] = None,
    max_num_seqs: Annotated[int | None, typer.Option(parser=opt.COUNT, metavar="N", help="Requests at once.")] = None,
    max_num_batched_tokens: Annotated[
        str | None, typer.Option(metavar="TOKENS", help="Tokens of one engine step.")
    ] = None,
    gpu_memory_utilization: opt.Utilization = None,
    kv_cache_memory_bytes: opt.CacheBytes = None,
    enforce_eager: Annotated[bool, typer.Option("--enforce-eager", help="Run without CUDA graphs.")] = False,
    engine: opt.Engine = "vllm",
    engine_version: Annotated[
        str | None, typer.Option(metavar="VERSION", help="Whose rules and constants apply.")
    ] = None,
    memory_model: Annotated[
        str, typer.Option(metavar="NAME", help="vllm (the engine's rules), or article: the flat 2 GB rule.")
    ] = "vllm",
    concurrency: opt.Concurrency = None,
    kv_bytes_per_token: opt.MeasuredBytes = None,
    catalog: opt.Overlays = None,
    written: opt.Written = opt.Format.table,
    output: opt.Output = None,
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
def speed(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="Catalog name, folder, config.json or hf://owner/name.")
    ],
    gpu: Annotated[str, typer.Argument(metavar="GPU", help="As in `recommender gpus`.")],
    isl: Annotated[str, typer.Option(metavar="TOKENS", help="Prompt tokens of a request, such as 1024 or 8K.")],
    osl: Annotated[str, typer.Option(metavar="TOKENS", help="Output tokens of a request.")],
    concurrency: opt.Loads = None,
    tp: opt.Tp = 1,
    pp: opt.Pp = 1,
    dp: opt.Dp = 1,
    ep: opt.Ep = 1,
    replicas: opt.Replicas = 1,
    weights: opt.Weights = None,
    kv_dtype: opt.KvDtype = "auto",
    engine: opt.Engine = "vllm",
    engine_version: Annotated[
        str | None, typer.Option(metavar="VERSION", help="Absent: as old as those that were measured.")
    ] = None,
    benchmark: opt.Benchmarks = None,
    usd_per_hour: opt.HourlyPrice = None,
    offer: opt.OfferName = None,
    api_usd_per_million_input: opt.ApiInput = None,
    api_usd_per_million_output: opt.ApiOutput = None,
    catalog: opt.Overlays = None,
    written: opt.Written = opt.Format.table,
    output: opt.Output = None,
) -> None:
    """How fast one configuration serves, and what its tokens cost. With an error band; over a curve, or at a load."""
    asked: dict[str, Any] = {
        key: value for key, value in locals().items() if key not in ("catalog", "written", "output")
    }
    from recommender.command.speed import forecast_of, show_forecast

    emit(show_forecast(forecast_of(asked, tuple(catalog or ())), written.value), output)


@app.command()
@guarded
def verify(
    log: Annotated[Path, typer.Argument(metavar="LOG", help="A vLLM start-up log; - reads standard input.")],
    model: Annotated[str | None, typer.Option(metavar="NAME", help="Absent: as in the log.")] = None,
    gpu: Annotated[str | None, typer.Option(metavar="NAME", help="Absent: as in the log.")] = None,
    engine_version: Annotated[str | None, typer.Option(metavar="VERSION", help="Where the log does not say.")] = None,
    tolerance: opt.Tolerance = None,
    save_calibration: opt.Calibration = None,
    catalog: opt.Overlays = None,
    written: opt.Written = opt.Format.table,
    output: opt.Output = None,
) -> None:
    """A start-up log against what is predicted for it. Exit code 1 beyond the tolerance, 2 where it is no log."""
    from recommender.command.verify import calibration_with, show_verification, verification_of

    found = verification_of(
        log, model=model, gpu=gpu, engine_version=engine_version, tolerance=tolerance, overlays=tuple(catalog or ())
    )
    emit(show_verification(found, written.value), output)
    if save_calibration is not None:
        emit(calibration_with(found, log, save_calibration), save_calibration)
        typer.echo(f"Wrote {save_calibration}.", err=True)
    raise typer.Exit(0 if found.agrees else 1)


@app.command()
@guarded
def lengths(
    source: Annotated[str, typer.Argument(metavar="FILE|PRESET", help="A log, a cell file, metrics, or a trace.")],
    concurrency: opt.InFlight = None,
    epsilon: opt.Epsilon = 0.01,
    max_model_len: Annotated[str | None, typer.Option(metavar="TOKENS", help="Absent: the longest request.")] = None,
    columns: Annotated[str | None, typer.Option(metavar="LIST", help="input=NAME,output=NAME,timestamp=NAME.")] = None,
    timestamp_unit: Annotated[str | None, typer.Option(metavar="UNIT", help="s, ms, us, ns or auto.")] = None,
    written: opt.Written = opt.Format.table,
    output: Annotated[Path | None, typer.Option(metavar="FILE", help="Write what a scenario can use here.")] = None,
) -> None:
    """The request lengths of a log, in a few kilobytes. Quantiles, joint histogram, arrivals, need in flight."""
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
        emit(show_lengths(found, opt.Format.json if written == opt.Format.table else written.value), output)
    if output is None or written == opt.Format.table:
        emit(show_lengths(found, written.value), None)


app.add_typer(lists)


def main() -> None:
    """Run the command; whatever goes wrong inside us ends in one line and exit 3, or a traceback with --debug."""
    debug = "--debug" in sys.argv
    try:
        app(args=[word for word in sys.argv[1:] if word != "--debug"])
    except Exception as error:
        if debug:
            raise
        raise SystemExit(failed(error)) from None

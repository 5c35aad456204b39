"""The part of the command line that shows what is known: models, GPUs, offers, the catalog, the scenario's schema."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recommender.command import options as opt
from recommender.console import emit, guarded, note

lists = typer.Typer(rich_markup_mode=None)
catalog_app = typer.Typer(help="The facts that answers stand on.", no_args_is_help=True, rich_markup_mode=None)
lists.add_typer(catalog_app, name="catalog")


@lists.command()
@guarded
def models(
    text: opt.Contains = "",
    catalog: opt.Overlays = None,
    written: opt.Written = opt.Format.table,
    output: opt.Output = None,
) -> None:
    """The models of the catalog."""
    _list("models", text, catalog, written, output)


@lists.command()
@guarded
def gpus(
    text: opt.Contains = "",
    catalog: opt.Overlays = None,
    written: opt.Written = opt.Format.table,
    output: opt.Output = None,
) -> None:
    """The GPUs of the catalog."""
    _list("gpus", text, catalog, written, output)


@lists.command()
@guarded
def offers(
    text: opt.Contains = "",
    catalog: opt.Overlays = None,
    written: opt.Written = opt.Format.table,
    output: opt.Output = None,
) -> None:
    """The offers of the catalog, with price, date and source."""
    _list("offers", text, catalog, written, output)


def _list(kind: str, text: str, overlays: list[str] | None, written: opt.Format, output: Path | None) -> None:
    from recommender.command.listings import listing

    emit(listing(kind, text, tuple(overlays or ()), written.value), output)


@catalog_app.command()
@guarded
def validate(
    overlays: Annotated[list[str] | None, typer.Argument(metavar="FILE", help="Catalog overlays.")] = None,
    written: opt.Written = opt.Format.table,
    output: opt.Output = None,
) -> None:
    """Checks the catalog and any overlays. Exit code 2 lists every fault."""
    from recommender.command.listings import validated

    emit(validated(tuple(overlays or ()), written.value), output)


@lists.command()
@guarded
def schema(output: opt.Output = None) -> None:
    """The JSON schema of a scenario file, for editors."""
    from recommender.command.listings import scenario_schema

    emit(scenario_schema(), output)


@lists.command()
@guarded
def init(path: Annotated[Path, typer.Argument(metavar="FILE", help="Must not exist yet.")]) -> None:
    """Writes a small scenario to start from."""
    from recommender.command.listings import first_scenario

    emit(first_scenario(path), path)
    note(f"written: {path}; answer it with: recommender run {path}")

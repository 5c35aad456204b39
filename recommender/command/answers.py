"""The commands that answer a scenario: `run`, `ask`, `budget` and `ladder`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from decimal import Decimal

from recommender.answer import budget, ladder, recommend
from recommender.catalog.catalog import load_catalog
from recommender.command.flags import as_typed
from recommender.errors import Fault, InputError
from recommender.progress import bar
from recommender.report import csv_, json_
from recommender.report.ladder import ladder_page, ladder_record
from recommender.report.table import answers_page
from recommender.scenario import Scenario
from recommender.scenario_file.find import find_scenario
from recommender.scenario_file.load import load
from recommender.search.ladder import Ladder
from recommender.search.plan import Recommendation
from recommender.units import parse_decimal, show_usd

WORTH_A_NOTE_DAYS = 30


def run_answers(name: str, group_by: str | None) -> dict[str, Recommendation]:
    """The answer to a scenario under the empty name, those to its variants under theirs."""
    loaded = load(find_scenario(name))
    asked = {"": loaded.scenario, **loaded.variants}
    progress = bar("replaying")
    return {key: recommend(_grouped(scenario, group_by), loaded.catalog, progress) for key, scenario in asked.items()}


def _grouped(scenario: Scenario, group_by: str | None) -> Scenario:
    return replace(scenario, group_by=group_by) if group_by else scenario


def ask_answers(
    question: str, model: str | None, partial: bool, overlays: tuple[str, ...]
) -> tuple[dict[str, Recommendation], list[str]]:
    """The answers to a question (by model, where it names none), and what has to be said about how it was read."""
    from recommender.ask import read_question

    catalog = load_catalog(overlays)
    asked = read_question(question, model, partial=partial, catalog=catalog)
    alone = len(asked.scenarios) == 1
    answers = {"" if alone else each.model: recommend(each, catalog) for each in asked.scenarios}
    return answers, list(asked.notes)


def budget_answers(name: str, usd_per_month: str) -> dict[str, Recommendation]:
    """The answers for the most requests at once that a monthly budget buys."""
    try:
        amount = parse_decimal(usd_per_month.strip().removeprefix("$").lstrip())
    except ValueError:
        amount = Decimal(-1)
    if not 0 < amount <= 10**12:
        what, expected = f"{usd_per_month!r} is not an amount of dollars", "a number such as 5000, 5,000 or 1499.50"
        raise InputError(Fault(what, key="--usd-per-month", expected=expected))
    loaded = load(find_scenario(name))
    asked = {"": loaded.scenario, **loaded.variants}
    answers = {key: budget(scenario, amount, loaded.catalog) for key, scenario in asked.items()}
    return {key: replace(answer, question=_bought(answer, show_usd(amount))) for key, answer in answers.items()}


def _bought(answer: Recommendation, amount: str) -> str:
    if not answer.plans:
        return f"${amount} a month buys nothing that serves even one request: {answer.question}"
    return f"The most that ${amount} a month buys: {answer.question}"


def climb(name: str, gpu: str | None) -> Ladder:
    """The ladder of a scenario on one GPU."""
    loaded = load(find_scenario(name))
    named = loaded.scenario.search.gpus or tuple(dict.fromkeys(own.gpu for own in loaded.scenario.hardware))
    if gpu is None and len(named) != 1:
        expected = f"one of {', '.join(named[:8])}" if named else "a GPU of the catalog, as in `recommender gpus`"
        raise InputError(Fault("is needed: the scenario does not name a single GPU", key="--gpu", expected=expected))
    try:
        return ladder(loaded.scenario, gpu or named[0], loaded.catalog)
    except InputError as error:
        raise as_typed(error, ("gpu",)) from None


def age_notes(answers: Mapping[str, Recommendation], today: date) -> list[str]:
    """What today's date has to say about the prices; it reaches no answer, so that answers stay the same."""
    newest = max((each.catalog.newest_price for each in answers.values() if each.catalog.newest_price), default=today)
    days = (today - newest).days
    return [f"the newest price of the catalog is {days} days old today"] if days > WORTH_A_NOTE_DAYS else []


def show_answers(answers: Mapping[str, Recommendation], written: str) -> str:
    """The answers as text of one format."""
    if written == "json":
        return json_.encode(json_.answers_record(answers))
    return csv_.answers_csv(answers) if written == "csv" else answers_page(answers)


def show_ladder(climbed: Ladder, written: str) -> str:
    """A ladder as text of one format."""
    if written == "json":
        return json_.encode(ladder_record(climbed))
    return csv_.flat_csv(ladder_record(climbed)["steps"]) if written == "csv" else ladder_page(climbed)

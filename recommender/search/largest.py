"""The largest concurrency that a purchase within the limits serves: the same model with its objective swapped."""

from __future__ import annotations

from ortools.sat.python import cp_model

from recommender.search.problem import Problem
from recommender.search.solver import DETERMINISTIC_LIMIT, SEED


def largest_concurrency(problem: Problem) -> tuple[int, bool]:
    """(requests at once, whether it is proven) over all settings and groups; 0 where nothing can be bought.

    The problem's demand is ignored: its capacities must be the replicas' whole capacities. Raises ValueError where no
    limit bounds what can be bought.
    """
    best, proven = 0, True
    for setting in range(len(problem.rank)):
        for group in dict.fromkeys(problem.groups):
            columns = [c for c in group if problem.capacity[c, setting] > 0]
            if not columns or _bound(problem, columns, setting) <= best:
                continue
            served, certain = _most(problem, columns, setting)
            best, proven = max(best, served), proven and certain
    return best, proven


def _most_instances(problem: Problem, column: int) -> int:
    """The most instances of a column that its tightest limit lets through."""
    bounds = [limit.bound // limit.weights[column] for limit in problem.limits if limit.weights[column] > 0]
    if not bounds:
        raise ValueError(f"nothing limits how many {problem.names[column]} can be bought")
    return max(0, min(bounds))


def _bound(problem: Problem, columns: list[int], setting: int) -> int:
    """Requests the group cannot exceed: each limit spent wholly on the column that serves most per unit of it."""
    alone = sum(_most_instances(problem, c) * int(problem.capacity[c, setting]) for c in columns)
    for limit in problem.limits:
        if all(limit.weights[c] > 0 for c in columns):
            best = max(int(problem.capacity[c, setting]) / limit.weights[c] for c in columns)
            alone = min(alone, int(limit.bound * best) + 1)
    return alone


def _most(problem: Problem, columns: list[int], setting: int) -> tuple[int, bool]:
    model = cp_model.CpModel()
    count = {}
    for c in columns:
        count[c] = model.new_int_var(0, _most_instances(problem, c), f"x{c}")
        if problem.minimum[c] > 1:
            bought = model.new_bool_var(f"z{c}")
            model.add(count[c] >= problem.minimum[c]).only_enforce_if(bought)
            model.add(count[c] == 0).only_enforce_if(~bought)
    for limit in problem.limits:
        model.add(sum(limit.weights[c] * count[c] for c in columns) <= limit.bound)
    model.maximize(sum(int(problem.capacity[c, setting]) * count[c] for c in columns))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = SEED
    solver.parameters.max_deterministic_time = DETERMINISTIC_LIMIT
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return 0, status == cp_model.INFEASIBLE
    return round(solver.objective_value), status == cp_model.OPTIMAL

"""CP-SAT chooses: the k best irreducible purchases of a Problem, each proven.

One integer per column (instances), one Boolean per setting (shown at it) and per group. A purchase is shown at the
mildest setting that serves the demand. After each find one clause forbids the purchase and everything that contains it
at the same or dearer rungs, so what is found next is again irreducible: whatever contains a cheaper purchase that
already serves the demand could lose an instance. Rounds end at the first that is not proven; what is then missing of
the list are the cheapest purchases of one column each, which mixes may lie between.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from ortools.sat.python import cp_model

from recommender.search.bounds import reachable
from recommender.search.problem import Bought, Problem, listed, of_one_kind, order

SEED = 20260901
DETERMINISTIC_LIMIT = 4.0  # CP-SAT's own units, over all rounds; the same on every machine
ORDER_LIMIT = 0.02
"""For the order among purchases of one cost; beyond it (thousands of like instances) the first found stands."""
LARGEST = 2**62
"""What sums in CP-SAT must stay below."""
MOST_TIES = 16
"""Purchases alike in all but their name that are gathered to name the first of them; of more, any are listed."""


@dataclass(frozen=True, slots=True)
class Solution:
    """Purchases in rank order. `proven` of them are certain; `bound` is the proven least cost."""

    status: str  # optimal | feasible | infeasible | unknown
    purchases: tuple[Bought, ...]
    proven: int
    bound: int | None
    deterministic_time: float


def solve(problem: Problem, plans: int, limit: float = DETERMINISTIC_LIMIT, *, cost_only: bool = False) -> Solution:
    """The `plans` best purchases, tier by tier (one tier unless quality comes first).

    `cost_only` is for questions about the least cost alone: of purchases that cost the same any one is given.
    """
    found: list[Bought] = []
    spent, proven, first_bound, complete = 0.0, 0, None, True
    for tier in sorted(set(problem.tier)):
        search = _Search(problem, tier, plans - len(found), found, cost_only)
        complete = search.run(limit - spent)
        spent += search.spent
        if first_bound is None:
            first_bound = search.first_bound
        found += search.found
        proven += len(search.found) if complete else search.proven
        if len(found) >= plans or not complete:
            break
    found.sort(key=lambda bought: order(problem, bought))
    if not complete and found and not cost_only:
        found += of_one_kind(problem, found)
    found = found[:plans]
    if not found:
        return Solution("infeasible" if complete else "unknown", (), 0, first_bound, spent)
    status = "optimal" if proven else "feasible"
    return Solution(status, tuple(found), min(proven, len(found)), first_bound, spent)


def _useful(problem: Problem, tier: int, columns: list[int]) -> list[int]:
    """Settings that serve anything and are not covered by one of equal rungs that serves as much everywhere."""
    kept: list[int] = []
    for s in range(len(problem.rank)):
        own = problem.capacity[columns, s]
        if problem.tier[s] > tier or not own.any():
            continue
        equal = [k for k in kept if (problem.tier[k], problem.rank[k]) == (problem.tier[s], problem.rank[s])]
        if any((problem.capacity[columns, k] >= own).all() for k in equal):
            continue
        kept = [k for k in kept if k not in equal or not (own >= problem.capacity[columns, k]).all()]
        kept.append(s)
    return kept


class _Search:
    """The rounds of one tier on one growing model."""

    def __init__(self, problem: Problem, tier: int, plans: int, before: list[Bought], cost_only: bool) -> None:
        self.problem, self.tier, self.plans, self.cost_only = problem, tier, plans, cost_only
        self.upper = reachable(problem, tier, plans)
        self.columns = [c for c in range(len(problem.names)) if self.upper[c] > 0]
        self.settings = _useful(problem, tier, self.columns)
        self.found: list[Bought] = []
        self.proven, self.spent = 0, 0.0
        self.first_bound: int | None = None
        self.model = cp_model.CpModel()
        self._purchase()
        self._settings()
        self._limits()
        self._objective()
        self._start()
        for bought in before:
            self._forbid(bought)

    def run(self, limit: float) -> bool:
        """Rounds until enough is found, ties of the last included; whether every round was proven."""
        if not self.columns or not self.settings:
            return True
        while not self._enough():
            status, counts, bound = self._round(limit - self.spent)
            if status == cp_model.INFEASIBLE:
                return True
            if self.first_bound is None:
                self.first_bound = bound
            if counts is None:
                return False
            bought = listed(self.problem, counts)
            if status != cp_model.OPTIMAL:
                self.found += [] if self.found else [bought]  # an unproven rank says little, unless it is all there is
                return False
            self.found.append(bought)
            self.proven += 1
            self._forbid(bought)
        return True

    def _enough(self) -> bool:
        """Whether nothing that belongs before the last wanted one is missing: ties but for the name are gathered."""
        if len(self.found) < self.plans:
            return False
        if self.cost_only or len(self.found) >= self.plans + MOST_TIES:
            return True
        if len(self.found) == self.plans:
            return False
        return order(self.problem, self.found[-1])[:-1] > order(self.problem, self.found[self.plans - 1])[:-1]

    def _purchase(self) -> None:
        """Counts per column, within its minimum, all from one group."""
        model, problem = self.model, self.problem
        self.count = {c: model.new_int_var(0, int(self.upper[c]), f"x{c}") for c in self.columns}
        groups = [frozenset(group) & set(self.columns) for group in problem.groups]
        groups = [group for group in dict.fromkeys(groups) if group]
        inside = [model.new_bool_var(f"g{i}") for i in range(len(groups))]
        model.add_exactly_one(inside) if inside else None
        for c in self.columns:
            bought = model.new_bool_var(f"z{c}")
            model.add(self.count[c] >= max(1, problem.minimum[c])).only_enforce_if(bought)
            model.add(self.count[c] == 0).only_enforce_if(~bought)
            member = [inside[i] for i, group in enumerate(groups) if c in group]
            if len(member) < len(groups):
                model.add_bool_or([~bought, *member])

    def _settings(self) -> None:
        """The setting shown: feasible, and no milder one is."""
        model, problem = self.model, self.problem
        # Implied by what is shown, and without a condition: what the linear relaxation bounds the cost by.
        most = {c: max(int(problem.capacity[c, s]) for s in self.settings) for c in self.columns}
        model.add(sum(most[c] * self.count[c] for c in self.columns) >= problem.demand)
        self.shown = {s: model.new_bool_var(f"s{s}") for s in self.settings}
        model.add_exactly_one(self.shown.values())
        feasible = {}
        for s in self.settings:
            feasible[s] = model.new_bool_var(f"f{s}")
            served = sum(int(problem.capacity[c, s]) * self.count[c] for c in self.columns)
            model.add(served >= problem.demand).only_enforce_if(feasible[s])
            model.add(served <= problem.demand - 1).only_enforce_if(~feasible[s])
            model.add_implication(self.shown[s], feasible[s])
        for s in self.settings:
            for milder in self.settings:
                if (problem.tier[milder], problem.rank[milder]) < (problem.tier[s], problem.rank[s]):
                    model.add_implication(self.shown[s], ~feasible[milder])
            if problem.tier[s] < self.tier:
                model.add(self.shown[s] == 0)

    def _limits(self) -> None:
        for limit in self.problem.limits:
            self.model.add(sum(limit.weights[c] * self.count[c] for c in self.columns) <= limit.bound)

    def _objective(self) -> None:
        """Cost first; among purchases of one cost rungs, then GPUs, then the most requests served."""
        problem, most = self.problem, {c: int(self.upper[c]) for c in self.columns}
        served = max(
            (sum(int(problem.capacity[c, s]) * most[c] for c in self.columns) for s in self.settings), default=0
        )
        held = self.model.new_int_var(0, served, "held")
        for s in self.settings:
            here = sum(int(problem.capacity[c, s]) * self.count[c] for c in self.columns)
            self.model.add(held <= here).only_enforce_if(self.shown[s])
        gpus = sum(problem.gpus[c] * self.count[c] for c in self.columns)
        ranks = sorted({problem.rank[s] for s in self.settings})
        rungs = sum(ranks.index(problem.rank[s]) * self.shown[s] for s in self.settings)
        gpu_weight = served + 1
        rung_weight = gpu_weight * (1 + sum(problem.gpus[c] * most[c] for c in self.columns))
        if rung_weight * (1 + len(ranks)) > LARGEST:  # of millions of instances the last requests play no part
            gpu_weight, rung_weight, held = 1, rung_weight // gpu_weight, self.model.new_constant(0)
        self.cost = sum(problem.prices[c] * self.count[c] for c in self.columns)
        self.rest = rungs * rung_weight + gpus * gpu_weight - held

    def _start(self) -> None:
        """A one-column purchase as the solver's first idea: with thousands of instances it may find none by itself."""
        alone = [
            (-(-self.problem.demand // int(self.problem.capacity[c, s])) * self.problem.prices[c], c, s)
            for c in self.columns
            for s in self.settings
            if self.problem.capacity[c, s] > 0
        ]
        if not alone:
            return
        _, column, setting = min(alone)
        count = -(-self.problem.demand // int(self.problem.capacity[column, setting]))
        for c in self.columns:
            self.model.add_hint(self.count[c], count if c == column else 0)

    def _forbid(self, bought: Bought) -> None:
        """No later purchase contains this one at the same or dearer rungs."""
        problem, model = self.problem, self.model
        shown_at = (problem.tier[bought.setting], problem.rank[bought.setting])
        clause = [self.shown[s] for s in self.settings if (problem.tier[s], problem.rank[s]) < shown_at]
        for column, count in bought.counts:
            if column not in self.count:
                return  # a purchase with this column is out of reach here anyway
            fewer = model.new_bool_var("")
            model.add(self.count[column] <= count - 1).only_enforce_if(fewer)
            clause.append(fewer)
        model.add_bool_or(clause)

    def _round(self, limit: float) -> tuple[object, dict[int, int] | None, int | None]:
        """(status, the next purchase, the bound on its cost): the least cost, then the best order at that cost."""
        start = self.spent
        if not self.problem.priced:
            self.model.minimize(self.rest)
            status, counts, _ = self._minimum(self.model, limit)
            return status, counts, 0
        self.model.minimize(self.cost)
        status, counts, bound = self._minimum(self.model, limit)
        if status != cp_model.OPTIMAL or counts is None or self.cost_only:
            return status, counts, bound
        model = self.model.clone()
        model.add(self.cost == self.problem.cost(counts))
        model.minimize(self.rest)
        _, ordered, _ = self._minimum(model, min(limit - (self.spent - start), ORDER_LIMIT))
        return status, counts if ordered is None else ordered, bound

    def _minimum(self, model: cp_model.CpModel, limit: float) -> tuple[object, dict[int, int] | None, int | None]:
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = SEED
        solver.parameters.max_deterministic_time = max(limit, 0.01)
        status = solver.solve(model)
        self.spent += solver.response_proto.deterministic_time
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return status, None, None
        counts = {c: int(solver.value(self.count[c])) for c in self.columns}
        return status, {c: n for c, n in counts.items() if n}, int(np.ceil(solver.best_objective_bound - 1e-6))

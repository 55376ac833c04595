"""Budgets for what calls cost: `make budgets` brings `budgets.toml` up to date.

A budget changes only where the cost has left it by more than `TOLERANCE`: small steps add up until one fails.
"""

from __future__ import annotations

import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

from tests.integration.call_costs import SERVER, Cost, Costs, measure, on_postgres, on_sqlite, prepare
from tests.postgres_server import PostgresServer

TOLERANCE = 0.05
#: Units of which a little more means nothing: PostgreSQL aligns its log and tidies up at will; on SQLite
#: a row may touch the page beside its own. In a batch of a hundred any other growth is far above.
SLACK = {"wal_bytes": 80, "wal_pages": 3}
FILE = Path(__file__).with_suffix(".toml")
POSTGRES = {"postgres16": 16, "postgres18": 18}
DATABASES = ("sqlite", *POSTGRES)
Budgets = dict[str, Costs]

_HEAD = """\
# What calls may cost, in units that are the same on every machine: see call_costs.py.
# test_budgets.py fails where a cost is more than 5 % above or below its budget.
# `make budgets` rewrites those; say in the commit why one grew.
"""


def read() -> Budgets:
    return tomllib.loads(FILE.read_text("utf-8")) if FILE.exists() else {}


def write(budgets: Budgets) -> None:
    FILE.write_text(_HEAD + "".join(_lines(budgets)), "utf-8")


def _lines(budgets: Budgets) -> Iterator[str]:
    for database, shapes in budgets.items():
        for shape, calls in shapes.items():
            yield f"\n[{database}.{shape}]\n"
            for call, cost in calls.items():
                units = ", ".join(f"{unit} = {n}" for unit, n in cost.items())
                yield f"{call} = {{ {units} }}\n"


def findings(budget: Costs, measured: Costs) -> list[str]:
    """What has left its budget, a sentence each."""
    return [
        _sentence(place, allowed, cost)
        for place, allowed, cost in _pairs(budget, measured)
        if _left(place.rpartition(" ")[2], allowed, cost)
    ]


def changed(budget: Costs, measured: Costs) -> Costs:
    """What was measured, with the old budgets of whatever has stayed within them."""
    return {
        shape: {call: _kept(budget.get(shape, {}).get(call, {}), cost) for call, cost in calls.items()}
        for shape, calls in measured.items()
    }


def _kept(budget: Cost, cost: Cost) -> Cost:
    return {unit: n if _left(unit, budget.get(unit), n) else budget[unit] for unit, n in cost.items()}


def _left(unit: str, allowed: int | None, cost: int | None) -> bool:
    if allowed is None or cost is None:
        return True
    return abs(cost - allowed) > TOLERANCE * allowed + SLACK.get(unit, 0)


def _pairs(budget: Costs, measured: Costs) -> Iterator[tuple[str, int | None, int | None]]:
    flat_budget, flat_measured = _flat(budget), _flat(measured)
    for place in {**flat_budget, **flat_measured}:
        yield place, flat_budget.get(place), flat_measured.get(place)


def _flat(costs: Costs) -> dict[str, int]:
    return {
        f"{shape}.{call}: {unit}": n
        for shape, calls in costs.items()
        for call, cost in calls.items()
        for unit, n in cost.items()
    }


def _sentence(place: str, allowed: int | None, cost: int | None) -> str:
    if allowed is None:
        return f"{place} is {cost} and has no budget"
    if cost is None:
        return f"{place} has a budget of {allowed} and is not measured"
    if cost > allowed:
        return f"{place} grew from {allowed} to {cost}"
    return f"{place} fell from {allowed} to {cost}: lower its budget"


def measured_on(database: str) -> Costs:
    """The costs on one database, with whatever it takes to start it."""
    with tempfile.TemporaryDirectory() as directory:
        if database == "sqlite":
            with on_sqlite(Path(directory, "store.db")) as file:
                prepare(file)
                return measure(file)
    with PostgresServer(POSTGRES[database], settings=SERVER) as server, on_postgres(server) as meter:
        prepare(meter)
        return measure(meter)


def main() -> int:
    budgets, new = read(), Budgets()
    for database in DATABASES:
        costs, budget = measured_on(database), budgets.get(database, {})
        for sentence in findings(budget, costs) or ["everything is within its budget"]:
            print(f"{database}: {sentence}")
        new[database] = changed(budget, costs)
    write(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())

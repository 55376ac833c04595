"""Arrivals, claims, renewals and finishes stay within their budgets on both databases: see `budgets.toml`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from interlock.core.timing import to_us
from interlock.store.postgres.statement import Statement
from tests.integration import budgets
from tests.integration.call_costs import (
    SERVER,
    SHAPES,
    Costs,
    PostgresMeter,
    SqliteMeter,
    measure,
    on_postgres,
    on_sqlite,
    prepare,
)
from tests.postgres_fixtures import StartPostgres

#: How a budget is brought up to date.
CURE = "If it must cost that: make budgets, and say in the commit why."
#: Shapes that are enough to see a renewal change.
FEW = {name: SHAPES[name] for name in ("plain", "renewed")}
AUDIT = {
    "sqlite": """
        CREATE TABLE audit (item INTEGER);
        CREATE TRIGGER audit AFTER UPDATE ON items BEGIN INSERT INTO audit VALUES (new.id); END;""",
    "postgres18": """
        CREATE TABLE audit (item bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY, title text);
        CREATE FUNCTION audit() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN INSERT INTO public.audit (title) VALUES (new.title); RETURN NULL; END $$;
        CREATE TRIGGER audit AFTER UPDATE ON interlock.items FOR EACH ROW EXECUTE FUNCTION audit();""",
}


def test_calls_on_sqlite_stay_within_their_budgets(tmp_path: Path) -> None:
    with on_sqlite(tmp_path / "store.db") as meter:
        prepare(meter)
        assert budgets.findings(budgets.read()["sqlite"], measure(meter)) == [], CURE


@pytest.mark.slow
@pytest.mark.parametrize("database", budgets.POSTGRES)
def test_calls_on_postgresql_stay_within_their_budgets(start_postgres: StartPostgres, database: str) -> None:
    server = start_postgres(budgets.POSTGRES[database], settings=SERVER)
    with on_postgres(server) as meter:
        prepare(meter)
        assert budgets.findings(budgets.read()[database], measure(meter)) == [], CURE


# -- what a budget catches ------------------------------------------------------------------------


class Renewals:
    """The renewals of one store, and what their budgets say once they do more."""

    def __init__(self, database: str, meter: PostgresMeter | SqliteMeter) -> None:
        self.database, self.meter, self.store = database, meter, meter.store
        prepare(meter, FEW)
        self.before = measure(meter, FEW, times=2)

    def grew(self) -> set[str]:
        sentences = budgets.findings(self.before, measure(self.meter, FEW, times=2))
        ours = [sentence for sentence in sentences if sentence.startswith("renewed.renewal: ")]
        assert all(" grew from " in sentence for sentence in ours)
        return {sentence.split(" ")[1] for sentence in ours}

    def do_more(self, more: Callable[[], object], patch: pytest.MonkeyPatch) -> None:
        renew = self.store.renew

        def renew_and_more(renewals: Any) -> Any:
            more()
            return renew(renewals)

        patch.setattr(self.store, "renew", renew_and_more)


@pytest.fixture(params=AUDIT)
def renewals(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Renewals]:
    if request.param == "sqlite":
        with on_sqlite(tmp_path / "store.db") as file:
            yield Renewals(request.param, file)
    else:
        server = request.getfixturevalue("start_postgres")(18, settings=SERVER)
        with on_postgres(server) as meter:
            yield Renewals(request.param, meter)


def test_each_unit_notices_its_own_growth(renewals: Renewals, monkeypatch: pytest.MonkeyPatch) -> None:
    assert renewals.grew() == set()

    with monkeypatch.context() as patch:
        renewals.do_more(lambda: [to_us(n) for n in range(10)], patch)
        assert renewals.grew() == {"python_calls"}

    with monkeypatch.context() as patch:
        renewals.do_more(renewals.store.database.lineage, patch)
        assert {"statements", "plan_nodes", "python_calls"} <= renewals.grew()

    with monkeypatch.context() as patch:
        texts, text = renewals.store.database.sql._texts, renewals.store.database.sql["renew"]
        table = "items" if renewals.database == "sqlite" else "interlock.items"
        more = f"AND (SELECT count(*) FROM {table} a JOIN {table} b USING (id)) > 0 RETURNING"
        patch.setitem(texts, "renew", like(text, text.replace("RETURNING", more)))
        assert {"plan_nodes", "buffers"} <= renewals.grew()

    renewals.meter.run(AUDIT[renewals.database])
    log = set() if renewals.database == "sqlite" else {"wal_bytes"}
    assert {"rows_written", *log} <= renewals.grew()


def like(statement: str, text: str) -> str:
    """Another text for a statement with the same parameters."""
    if not isinstance(statement, Statement):
        return text
    other = Statement(text)
    other.names, other.encoded = statement.names, other.encode()
    return other


def test_a_cost_that_fell_asks_for_a_lower_budget() -> None:
    budget: Costs = {"plain": {"claim": {"buffers": 100, "statements": 1}}}
    cheaper: Costs = {"plain": {"claim": {"buffers": 94, "statements": 1}}}
    dearer: Costs = {"plain": {"claim": {"buffers": 106, "statements": 1}}}
    much_the_same: Costs = {"plain": {"claim": {"buffers": 105, "statements": 1}}}
    assert budgets.findings(budget, cheaper) == ["plain.claim: buffers fell from 100 to 94: lower its budget"]
    assert budgets.findings(budget, dearer) == ["plain.claim: buffers grew from 100 to 106"]
    assert budgets.findings(budget, much_the_same) == []
    assert budgets.changed(budget, cheaper) == cheaper
    assert budgets.changed(budget, much_the_same) == budget


def test_what_has_no_budget_and_what_is_not_measured_any_more_fail() -> None:
    claim: Costs = {"plain": {"claim": {"buffers": 100}}}
    finish: Costs = {"plain": {"finish": {"buffers": 7}}}
    assert budgets.findings(claim, finish) == [
        "plain.claim: buffers has a budget of 100 and is not measured",
        "plain.finish: buffers is 7 and has no budget",
    ]
    assert budgets.changed(claim, finish) == finish

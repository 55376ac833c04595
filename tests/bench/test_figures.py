"""Every figure of `python -m bench` can be made: each once, at the smallest size.

The numbers mean nothing at this size. The figures themselves check that bare SQL leaves Interlock's rows and
that no item is lost or done twice. A peer that is not installed is left out and the test skipped, with the
reason; in CI it fails, because `.ci/run` installs every peer.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bench import churn, report
from bench.__main__ import FIGURES, make_plan
from bench.figure import Figure
from bench.plan import Plan
from tests.postgres_fixtures import RUN
from tests.postgres_server import PostgresServer

pytestmark = pytest.mark.filterwarnings("ignore")  # peers have warnings of their own


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest, postgres18: PostgresServer) -> Iterator[PostgresServer]:
    """One whose writes are durable, as the doctor wants it after bare SQL has written."""
    server = request.config.stash[RUN].own_server(18, fsync=True)
    yield server
    server.remove()


@pytest.fixture
def plan(server: PostgresServer, tmp_path: Path) -> Iterator[Plan]:
    quick = make_plan(server, tmp_path, quick=True, rounds=None, say=lambda _: None)
    yield replace(
        quick,
        drain_n=40,
        lanes_n=12,
        sqlite_n=40,
        limit_s=1,
        batches=(10,),
        lane_counts=(3,),
        backlog_n=2_000,
        claims_n=10,
        cost_sizes=(1_000, 2_000),
        costs_n=1,
        wakes_n=2,
        commands_n=1,
        locks_n=1,
        server_s=0.5,
        agents_max=20,
        agents_step=10,
        heartbeat_s=0.5,
        clients=2,
        waiting=2,
        processes=1,
    )
    server.drop_database("bench")


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_can_be_made(name: str, plan: Plan, tmp_path: Path) -> None:
    figures = FIGURES[name](plan)
    assert figures
    for figure in figures:
        assert all(row.samples or row.note for row in figure.rows), figure.title
    report.write_markdown(tmp_path / "page.md", {}, report.Made(on="today", trust=""), figures)
    report.write_json(tmp_path / "figures.json", {}, figures)
    _say_what_is_absent(figures)


def test_churn_can_be_measured(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(churn, "ROUNDS", 5)
    monkeypatch.setattr(churn, "ROUNDS_WITHOUT", 2)
    churn.main([50])
    header, _, row = capsys.readouterr().out.splitlines()
    assert header.count("|") == row.count("|")
    if "not here" in row:
        _absent([row])


def _say_what_is_absent(figures: list[Figure]) -> None:
    absent = {
        f"{row.subject} was {row.note}"
        for figure in figures
        for row in figure.rows
        if row.note.startswith("not measured")
    }
    if absent:
        _absent(sorted(absent))


def _absent(reasons: list[str]) -> None:
    (pytest.fail if os.environ.get("CI") else pytest.skip)("; ".join(reasons))

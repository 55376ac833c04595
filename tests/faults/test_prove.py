"""`interlock prove`: it passes as things are, it fails without each guard, and it leaves nothing behind."""

from __future__ import annotations

import ast
import json
import os
import signal
import subprocess
import sys
import time
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import psycopg
import pytest

from interlock import prove as proof
from interlock.core.errors import InvalidInput, StoreRefused, StoreUnavailable
from interlock.prove import guards, place, second_judge
from interlock.prove.report import FIRST, SECOND
from tests.patience import PATIENCE_S
from tests.postgres_fixtures import StartPostgres
from tests.postgres_server import PostgresServer

PROVE = (sys.executable, "-m", "interlock", "prove")
#: The rules that name the loss of each guard: of the history checker, and of the second judge.
NAMED = {
    "fence": ("acknowledged_is_kept", "no_late_write"),
    "lane": ("one_run_a_lane", "one_run_a_lane"),
    "lease": ("lock_ends_with_lease", "leases_end_in_time"),
    "dedupe": ("one_item_a_key", "one_item_a_key"),
}


@pytest.fixture
def tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary directory to look into."""
    path = tmp_path / "tmp"
    path.mkdir()
    monkeypatch.setenv("TMPDIR", str(path))
    monkeypatch.setattr("tempfile.tempdir", None)
    return path


def url_of(request: pytest.FixtureRequest, store: str) -> str | None:
    if store == "sqlite":
        return None
    server: PostgresServer = request.getfixturevalue(store)
    return server.url()


def prove(capsys: pytest.CaptureFixture[str], url: str | None, **more: Any) -> tuple[int, dict[str, Any]]:
    """A short proof with a small race; exit code and report."""
    given = {"seconds": 5.0, "seed": 7, "broken": None, "restart": None, "html": None, "evidence": None}
    code = proof.prove(**{**given, "racers": 6, **more}, url=url, as_json=True, color=False)  # type: ignore[arg-type]
    return code, json.loads(capsys.readouterr().out)


def databases(server: PostgresServer) -> list[str]:
    with psycopg.connect(server.url(), autocommit=True) as conn:
        rows = conn.execute("SELECT datname FROM pg_database WHERE datname LIKE 'interlock_prove%'")
        return [name for (name,) in rows]


# -- as it is, and without each guard -------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("store", ["sqlite", "postgres18"])
@pytest.mark.parametrize("guard", guards.GUARDS)
def test_without_a_guard_both_judges_name_the_violation(
    request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str], tmp: Path, guard: str, store: str
) -> None:
    code, found = prove(capsys, url_of(request, store), broken=guard)

    assert code == 1
    assert not found["ok"]
    named = {(each["judge"], each["rule"]) for each in found["findings"]}
    first, second = NAMED[guard]
    assert {(FIRST, first), (SECOND, second)} <= named, found["findings"][:20]
    assert list(tmp.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("store", ["sqlite", "postgres18"])
def test_as_it_is_nothing_is_violated_and_zombies_are_refused(
    request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str], tmp: Path, tmp_path: Path, store: str
) -> None:
    page = tmp_path / "proof.html"
    code, found = prove(capsys, url_of(request, store), racers=64, seconds=8.0, html=page)

    assert found["findings"] == []
    assert (code, found["ok"], found["violations"]) == (0, True, 0)
    assert found["racers"] == 64
    assert found["winners"] == found["rounds"]
    assert found["zombies_refused"] >= 2
    assert found["pushes_refused"] >= 2, "by the git server, and by the fence"
    assert found["kills"] >= 1
    assert found["edits"] >= 1
    assert 0 < found["recovery_s"] < PATIENCE_S
    assert found["attempts"] >= found["acknowledged"] + found["refused"]
    assert list(tmp.iterdir()) == []
    if store != "sqlite":
        assert databases(request.getfixturevalue(store)) == []

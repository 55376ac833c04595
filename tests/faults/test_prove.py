"""`interlock prove`: it passes as things are, it fails without each guard, and it leaves nothing behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
import psycopg
import pytest

from interlock import prove as proof
from interlock.core.errors import InvalidInput, StoreRefused, StoreUnavailable
from interlock.core.model import Item
from interlock.prove import guards, page
from interlock.prove.journal import JournalTail, ProcessJournal
from interlock.prove.place import with_database
from interlock.prove.report import FIRST, SECOND, ProofFinding, ProofReport
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
    code = proof.prove(**{**given, "racers": 6, **more}, url=url, as_json=True, color=False)
    return code, json.loads(capsys.readouterr().out)


def databases(server: PostgresServer, owner: str = "postgres") -> list[str]:
    """The databases of proofs. Other tests may prove on the same server at the same time, as another role."""
    with psycopg.connect(server.url(), autocommit=True) as conn:
        wanted = "datname LIKE 'interlock_prove%%' AND pg_get_userbyid(datdba) = %s"
        rows = conn.execute(f"SELECT datname FROM pg_database WHERE {wanted}".encode(), (owner,))
        return [name for (name,) in rows]


@pytest.fixture
def guest(postgres18: PostgresServer) -> Iterator[str]:
    """A role of the test's own that may create databases, and has no other right."""
    name = f"prove_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(postgres18.url(), autocommit=True) as conn:
        conn.execute(f"CREATE ROLE {name} LOGIN CREATEDB".encode())
        yield name
        for left in databases(postgres18, name):
            conn.execute(f"DROP DATABASE {left} WITH (FORCE)".encode())
        conn.execute(f"DROP ROLE {name}".encode())


def url_as(server: PostgresServer, role: str) -> str:
    return server.url().replace("postgres@", f"{role}@", 1)


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


# -- what it may touch ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"broken": "fence", "url": "https://interlock.example.com"}, "never of a server"),
        ({"broken": "handle"}, "There is no guard 'handle'"),
        ({"url": "git+https://example.com/a.git"}, "needs a database or a server"),
        ({"restart": "true"}, "no server to restart"),
        ({"seconds": 1.0}, "cannot take 1 s"),
        ({"html": Path("/nowhere/at/all.html")}, "does not exist"),
    ],
)
def test_what_it_cannot_do_is_said_in_one_sentence(given: dict[str, Any], told: str) -> None:
    usual = {"url": None, "seconds": 5.0, "seed": 1, "broken": None, "restart": None, "html": None}
    with pytest.raises(InvalidInput, match=told) as refused:
        proof.prove(**{**usual, **given}, evidence=None, as_json=True, color=False)
    assert refused.value.exit_code == 2
    assert refused.value.hint


def test_a_break_on_a_server_ends_with_exit_code_2() -> None:
    command = [*PROVE, "--break", "lane", "--store", "https://interlock.example.com"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 2
    assert (
        "A guard is only taken out of a store that the proof has created, never of a server." in answer.stderr
    )


def test_an_unreachable_database_is_one_sentence_and_a_hint(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="Cannot reach the database") as away:
        proof.prove(
            url=f"postgresql://nobody@/nowhere?host={tmp_path}",
            seconds=5.0,
            seed=1,
            broken=None,
            restart=None,
            html=None,
            evidence=None,
            as_json=True,
            color=False,
        )
    assert "--store" in away.value.hint


def test_a_role_that_may_not_create_databases_is_told_so(postgres18: PostgresServer) -> None:
    with psycopg.connect(postgres18.url(), autocommit=True) as conn:
        conn.execute("DROP ROLE IF EXISTS prove_guest")
        conn.execute("CREATE ROLE prove_guest LOGIN")
        guest = postgres18.url().replace("postgres@", "prove_guest@", 1)
        try:
            with pytest.raises(StoreRefused, match="needs one of its own") as refused:
                proof.prove(
                    url=guest,
                    seconds=5.0,
                    seed=1,
                    broken=None,
                    restart=None,
                    html=None,
                    evidence=None,
                    as_json=True,
                    color=False,
                )
        finally:
            conn.execute("DROP ROLE prove_guest")
    assert "CREATEDB" in refused.value.hint


def test_only_marked_old_and_unused_databases_are_dropped(postgres18: PostgresServer) -> None:
    from interlock.prove import place

    comment, old = place._COMMENT, int(time.time()) - 3 * 3_600
    made = {
        f"interlock_prove_{old}_abandoned": comment,
        f"interlock_prove_{int(time.time())}_running": comment,
        f"interlock_prove_{old}_unmarked": "mine",
        f"interlock_prove_{old}_used": comment,
    }
    used = with_database(postgres18.url(), f"interlock_prove_{old}_used")
    with psycopg.connect(postgres18.url(), autocommit=True) as conn:
        for name, text in made.items():
            conn.execute(f'CREATE DATABASE "{name}"'.encode())
            conn.execute(f"COMMENT ON DATABASE \"{name}\" IS '{text}'".encode())
        try:
            with psycopg.connect(used):
                place._drop_abandoned(conn)
            left = [name.rpartition("_")[2] for name in databases(postgres18)]
        finally:
            for name in made:
                conn.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)'.encode())
    assert {"running", "unmarked", "used"} <= set(left)
    assert "abandoned" not in left


# -- interruptions --------------------------------------------------------------------------------------


@contextmanager
def started(tmp: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """A proof whose workers run."""
    command = [*PROVE, "--seconds", "60", *options]
    environ = {**os.environ, "TMPDIR": str(tmp)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ
    ) as process:
        try:
            assert process.stdout is not None
            assert any("workers on" in line for line in process.stdout)
            yield process
        finally:
            process.kill()


def wait_until_nothing_is_left(tmp: Path) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        left = [str(path) for path in tmp.iterdir()]
        for process in psutil.process_iter():
            try:
                if process.environ().get("TMPDIR") == str(tmp) and process.pid != os.getpid():
                    left.append(f"{process.pid} {process.status()}")
            except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
                continue
        if not left:
            return
        assert time.monotonic() < deadline_s, left
        time.sleep(0.1)


def test_ctrl_c_leaves_nothing_behind(tmp_path: Path, postgres18: PostgresServer, guest: str) -> None:
    with started(tmp_path, "--store", url_as(postgres18, guest)) as process:
        assert len(databases(postgres18, guest)) == 1
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 130
        assert told == "Stopped. No process and no data of the proof is left.\n"
    wait_until_nothing_is_left(tmp_path)
    assert databases(postgres18, guest) == []


def test_a_killed_proof_leaves_no_process_and_no_file(tmp_path: Path) -> None:
    with started(tmp_path) as process:
        process.kill()
        process.wait()
        wait_until_nothing_is_left(tmp_path)


@pytest.mark.slow
def test_through_a_restart_of_the_server_nothing_is_lost(
    capsys: pytest.CaptureFixture[str], start_postgres: StartPostgres, tmp: Path, tmp_path: Path
) -> None:
    server = start_postgres(18, fsync=True)
    control = f"{server.program('pg_ctl')} restart -w -D {server.datadir} -m immediate"
    if os.geteuid() == 0:
        control = f"setpriv --reuid=nobody --regid={server._account.gid} --clear-groups {control}"
    code, found = prove(capsys, server.url(), seconds=5.0, seed=4, restart=f"cd / && {control}")
    assert found["findings"] == []
    assert code == 0
    assert found["outages"] >= 1


# -- the page and the journals --------------------------------------------------------------------------


def test_the_page_needs_no_other_file_and_escapes_everything(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    evil = "<script>alert('1')</script>"
    numbers = dict.fromkeys(ProofReport.PARTS, 1)
    finding = ProofFinding(judge=evil, rule=evil, text=evil)
    words = {"store": evil, "broken": evil, "ok": False, "findings": (finding,), "remains": evil}
    report = ProofReport(**{**numbers, **words})  # type: ignore[arg-type]
    lines = [
        {"t": 1.0, "who": evil, "state": "fault", "op": evil, "who_": evil, "item": 1, "run": 1},
        {
            "t": 2.0,
            "who": evil,
            "state": "refused",
            "op": "done",
            "by": evil,
            "code": evil,
            "item": 1,
            "run": 1,
        },
    ]
    text = page.rendered(report, [], lines)
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert not re.search(r"""(src|href)=|https?:|url\(|@import""", text)


def test_a_line_that_a_kill_has_cut_is_not_read(tmp_path: Path) -> None:
    journal, tail = ProcessJournal(tmp_path, "worker-1"), JournalTail(tmp_path)
    n = journal.attempt("done", run=1)
    with (tmp_path / "worker-1.jsonl").open("ab") as file:
        file.write(b'{"t": 1, "who"')
    assert [(line["op"], line["n"]) for line in tail.look()] == [("done", n)]
    assert tail.look() == []


def test_every_guard_is_where_it_was(tmp_path: Path) -> None:
    """A break that took nothing out would show nothing."""
    with pytest.raises(guards.GuardMissing):
        guards._replace(Item, "is_no_method", lambda found: found)
    with pytest.raises(guards.GuardMissing):
        guards.take_out("fence", object())  # type: ignore[arg-type]

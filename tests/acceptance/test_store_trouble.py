"""A database that is gone, foreign, damaged, read-only, of another age: a sentence, never a traceback."""

import os
import shutil
import stat
import uuid
from collections.abc import Iterator
from pathlib import Path

import apsw
import psycopg
import pytest
from psycopg import sql

from interlock.store.postgres import database as postgres_database
from tests.acceptance.command import Command, CommandHere


@pytest.fixture
def used(il: Command) -> Iterator[Command]:
    """A command whose database exists and holds one item."""
    il.ok("add", "Here first")
    yield il
    for path in (il.directory / ".interlock", *(il.directory / ".interlock").iterdir()):
        path.chmod(path.stat().st_mode | stat.S_IWUSR)


def database(il: Command) -> Path:
    return il.directory / ".interlock" / "interlock.db"


def change(il: Command, *statements: str) -> None:
    db = apsw.Connection(str(database(il)))
    for statement in statements:
        db.execute(statement)
    db.close()


def test_the_default_database_ignores_itself_in_git(used: Command):
    assert (used.directory / ".interlock" / ".gitignore").read_text() == "*\n"


def test_a_newer_schema_is_left_alone(used: Command):
    change(used, "INSERT INTO migrations (version, name, checksum, applied_us) VALUES (99, 'later', 'x', 0)")
    for args in (("ls",), ("add", "x"), ("migrate",), ("doctor",)):
        answer = used("--json", *args)
        assert (answer.code, answer.error["code"]) == (1, "schema_mismatch")
        assert "newer" in answer.error["hint"]


def test_a_schema_of_another_build_is_left_alone(used: Command):
    change(used, "UPDATE migrations SET checksum = 'other'")
    answer = used("--json", "ls")
    assert (answer.code, answer.error["code"]) == (1, "schema_mismatch")


def test_another_programs_database_is_left_alone(il: Command):
    db = apsw.Connection(str(il.directory / "theirs.db"))
    db.execute("CREATE TABLE precious (x)")
    db.close()
    answer = il("--json", "--url", "sqlite:///theirs.db", "add", "x")
    assert (answer.code, answer.error["code"]) == (1, "schema_mismatch")


def test_a_file_that_is_no_database_is_left_alone(il: Command):
    (il.directory / "notes.db").write_text("not a database, but long enough to be taken for a header\n" * 10)
    answer = il("--json", "--url", "sqlite:///notes.db", "add", "x")
    assert (answer.code, answer.error["code"]) == (1, "store_unavailable")
    assert (il.directory / "notes.db").read_text().startswith("not a database")


#: Root may write everywhere; without this capability it is bound like everybody else.
WITHOUT_OVERRIDE = ("setpriv", "--bounding-set", "-dac_override", "--inh-caps", "-dac_override")


@pytest.mark.skipif(os.geteuid() == 0 and not shutil.which("setpriv"), reason="root may write everywhere")
def test_a_read_only_database_says_so(used: Command):
    database(used).chmod(0o444)
    database(used).parent.chmod(0o555)
    used.under = WITHOUT_OVERRIDE if os.geteuid() == 0 else ()
    answer = used("--json", "add", "x")
    assert (answer.code, answer.error["code"]) == (1, "store_unavailable")
    assert "read-only" in answer.error["message"]


@pytest.mark.skipif(os.geteuid() == 0 and not shutil.which("setpriv"), reason="root may write everywhere")
@pytest.mark.parametrize("companion", ["-shm", "-wal"])
def test_a_read_only_companion_is_named_and_the_cure_helps(used: Command, companion: str):
    """It was made by another user, or came with a restore."""
    file = database(used).with_name(f"interlock.db{companion}")
    file.write_bytes(bytes(1 << 15))
    file.chmod(0o444)
    used.under = WITHOUT_OVERRIDE if os.geteuid() == 0 else ()
    answer = used("--json", "add", "x")
    assert (answer.code, answer.error["code"]) == (1, "store_unavailable")
    assert f"{file} is read-only" in answer.error["message"]
    assert "chmod" in answer.error["hint"]
    file.chmod(0o644)
    assert used("add", "x").code == 0
    assert len(used.ok("ls")["items"]) == 2


@pytest.mark.skipif(not shutil.which("prlimit"), reason="prlimit is missing")
def test_a_database_that_cannot_grow_says_so_and_adds_nothing(used: Command):
    used.under = ("prlimit", "--fsize=200000")
    lines = "".join(f'{{"title": "item {n}", "message": "{"x" * 300}"}}\n' for n in range(900))
    answer = used("--json", "add", "--batch", "-", stdin=lines)
    assert (answer.code, answer.error["code"]) == (1, "store_unavailable")
    assert "cannot grow: File too large" in answer.error["message"]
    assert "Nothing was changed" in answer.error["hint"]
    used.under = ()
    assert [item["title"] for item in used.ok("ls")["items"]] == ["Here first"]


@pytest.mark.skipif(not shutil.which("prlimit"), reason="prlimit is missing")
@pytest.mark.parametrize("limit", [0, 5_000, 60_000])
def test_a_database_for_which_there_is_no_room_says_so(il: Command, limit: int):
    (il.directory / ".interlock").mkdir()
    (il.directory / ".interlock" / ".gitignore").write_text("*\n")
    il.under = ("prlimit", f"--fsize={limit}")
    answer = il("--json", "add", "x")
    assert (answer.code, answer.error["code"]) == (1, "store_unavailable")
    assert "cannot grow" in answer.error["message"]
    il.under = ()
    il.ok("add", "x")


def test_a_directory_where_the_file_should_be_says_so(il: Command):
    (il.directory / "folder.db").mkdir()
    (il.directory / "folder.db" / "below").mkdir()
    answer = il("--json", "--url", "sqlite:///folder.db", "ls")
    assert (answer.code, answer.error["code"]) == (2, "invalid_input")
    assert answer.error["message"] == f"{il.directory}/folder.db is a directory, not a SQLite file."
    assert "folder.db/interlock.db" in answer.error["hint"]
    assert not list((il.directory / "folder.db" / "below").iterdir())


def test_a_database_that_another_writer_holds_says_so(used: Command):
    other = apsw.Connection(str(database(used)))
    other.execute("BEGIN IMMEDIATE")
    try:
        answer = used("--json", "add", "x", env={"INTERLOCK_BUSY_TIMEOUT_S": "0.2"})
        assert (answer.code, answer.error["code"]) == (1, "store_busy")
        assert len(used.ok("ls")["items"]) == 1  # readers never wait
    finally:
        other.execute("ROLLBACK")
        other.close()
    used.ok("add", "x")


def test_a_server_that_is_not_there_says_so_without_the_password(il: Command):
    url = "postgresql://someone:hunter2@127.0.0.1:1/nowhere"
    answer = il("--json", "--url", url, "ls", env={"INTERLOCK_BUSY_TIMEOUT_S": "0"})
    assert (answer.code, answer.error["code"]) == (1, "store_unavailable")
    assert "hunter2" not in answer.out


def test_a_database_that_does_not_exist_on_the_server_says_so(il: Command, pg_database18: str):
    answer = il("--json", "--url", pg_database18.replace("test_", "gone_"), "ls")
    assert (answer.code, answer.error["code"]) == (1, "store_refused")
    assert "exist" in answer.error["message"]


@pytest.mark.parametrize("command", ["ls", "doctor", "add x", "migrate", "migrate --check"])
def test_a_server_that_is_too_old_says_so(
    tmp_path: Path, pg_empty16: str, command: str, monkeypatch: pytest.MonkeyPatch
):
    """Taken out: the look at the version. The schema ended in a SyntaxError, and doctor was green."""
    monkeypatch.setattr(postgres_database, "OLDEST", 18)
    answer = CommandHere(tmp_path, url=pg_empty16)("--json", *command.split())
    assert (answer.code, answer.error["code"]) == (1, "store_refused")
    assert answer.error["message"].startswith("This server is PostgreSQL 16.")
    assert answer.error["message"].endswith("; Interlock needs PostgreSQL 18 or newer.")


@pytest.fixture
def role(pg_database18: str) -> Iterator[str]:
    """The address of a role that may look at everything, write nothing, and have one connection."""
    name = f"reader_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(pg_database18, autocommit=True) as owner:
        for statement in (
            "CREATE ROLE {} LOGIN CONNECTION LIMIT 1",
            "GRANT USAGE ON SCHEMA interlock TO {}",
            "GRANT SELECT ON ALL TABLES IN SCHEMA interlock TO {}",
        ):
            owner.execute(sql.SQL(statement).format(sql.Identifier(name)))
        yield pg_database18.replace("postgres@", f"{name}@")
        for statement in ("DROP OWNED BY {} CASCADE", "DROP ROLE {}"):
            owner.execute(sql.SQL(statement).format(sql.Identifier(name)))


def test_a_worker_that_lacks_a_right_ends_instead_of_trying_for_ever(il: Command, role: str) -> None:
    """Taken out: `answered` in `Worker._claim`. It says "Trying again." until somebody kills it."""
    answer = il("--json", "--url", role, "work", "--agent", "coder", "--exit-when-idle", "--", "true")
    assert answer.code == 1
    assert "permission denied" in answer.out + answer.err


def test_a_role_without_a_connection_left_is_told_so(il: Command, role: str) -> None:
    with psycopg.connect(role):
        answer = il("--json", "--url", role, "ls", env={"INTERLOCK_BUSY_TIMEOUT_S": "0"})
    assert (answer.code, answer.error["code"]) == (1, "store_unavailable")
    assert "no free connections" in answer.error["hint"]


def test_a_database_with_a_second_name_is_refused_under_both(used: Command):
    """Two names of one file (`cp -al`) have a log and locks each: two stores that write into it.

    Taken out: `require_one_name`. Both names give out the same fences.
    """
    file, other = database(used), used.directory / "other.db"
    os.link(file, other)
    for url in ("sqlite:///.interlock/interlock.db", "sqlite:///other.db"):
        answer = used("--json", "--url", url, "next", "--agent", "coder")
        assert (answer.code, answer.error["code"]) == (1, "store_unavailable")
        assert "second hard link" in answer.error["message"]
    other.unlink()
    used.ok("next", "--agent", "coder")

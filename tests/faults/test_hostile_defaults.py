"""A database and a role may have any defaults: what Interlock relies on, its sessions set for themselves."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from interlock.core.errors import StoreUnavailable
from interlock.core.model import NewItem
from interlock.service.contract import Report
from interlock.store.postgres.database import Database
from tests.acceptance.command import CommandHere
from tests.acceptance.test_plan import RELEASE
from tests.faults.processes import Crew
from tests.faults.stores import assert_kept, open_service, query
from tests.migration import migrating
from tests.postgres_server import PostgresServer

#: Every default that could get in the way, each as bad as an operator, or a program beside us, might set it.
HOSTILE = {
    "default_transaction_isolation": "serializable",
    "default_transaction_read_only": "on",
    "default_transaction_deferrable": "on",
    "client_encoding": "LATIN1",
    "statement_timeout": "10s",
    "lock_timeout": "1ms",
    "idle_in_transaction_session_timeout": "1ms",
    "idle_session_timeout": "10s",
    "transaction_timeout": "10s",
    "search_path": "trap, pg_catalog",
    "DateStyle": "SQL, DMY",
    "IntervalStyle": "sql_standard",
    "TimeZone": "Asia/Kathmandu",
    "bytea_output": "escape",
    "standard_conforming_strings": "off",
    "backslash_quote": "off",
    "array_nulls": "off",
    "transform_null_equals": "on",
    "quote_all_identifiers": "on",
    "extra_float_digits": "-15",
    "synchronous_commit": "off",
    "row_security": "off",
    "check_function_bodies": "off",
    "session_replication_role": "replica",
    "default_toast_compression": "pglz",
    "exit_on_error": "on",
    "restrict_nonsystem_relation_kind": "view, foreign-table",
    "jit": "on",
    "jit_above_cost": "1000000",
    "plan_cache_mode": "force_generic_plan",
    "enable_indexonlyscan": "off",
    "from_collapse_limit": "1",
    "join_collapse_limit": "1",
    "work_mem": "64kB",
}
#: Functions and operators of the same names as the server's own, which come first in the search path.
TRAPS = """
CREATE SCHEMA trap;
CREATE FUNCTION trap.set_config(text, text, boolean) RETURNS text LANGUAGE sql AS 'SELECT $2';
CREATE FUNCTION trap.unnest(bigint[]) RETURNS SETOF bigint LANGUAGE sql AS 'SELECT 0::bigint WHERE false';
CREATE FUNCTION trap.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS 'SELECT to_timestamp(1)';
CREATE FUNCTION trap.never(bigint, bigint) RETURNS boolean LANGUAGE sql AS 'SELECT false';
CREATE OPERATOR trap.= (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = trap.never);
CREATE FUNCTION trap.upper(text) RETURNS text LANGUAGE sql AS 'SELECT ''''';
"""
TEXT = r"☃ 'quoted' \back\slash \' \n %s $1 NULL {a,b} 日本語"


def spoil(server: PostgresServer, name: str, role: str) -> None:
    """Half of the defaults are the database's, half the role's."""
    with psycopg.connect(server.url(name), autocommit=True) as conn:
        conn.execute(TRAPS.encode())
        known = {row[0] for row in conn.execute("SELECT lower(name) FROM pg_settings")}
        kinds = (("DATABASE", name), ("ROLE", role))
        for n, (setting, value) in enumerate(HOSTILE.items()):
            if setting.lower() in known:
                kind, whose = kinds[n % 2]
                conn.execute(
                    sql.SQL("ALTER {} {} SET {} = {}").format(
                        sql.SQL(kind),
                        sql.Identifier(whose),
                        sql.Identifier(setting),
                        sql.SQL(", ").join(map(sql.Literal, value.split(", "))),
                    )
                )


@pytest.fixture(params=[16, 18])
def hostile(request: pytest.FixtureRequest) -> Iterator[str]:
    """The url of an empty database in which every default is hostile, as a role whose defaults are, too."""
    server: PostgresServer = request.getfixturevalue(f"postgres{request.param}")
    name = role = f"test_{uuid.uuid4().hex[:12]}"
    server.create_database(name)
    with psycopg.connect(server.url(), autocommit=True) as conn:
        conn.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(role)))
        conn.execute(
            sql.SQL("ALTER DATABASE {} OWNER TO {}").format(sql.Identifier(name), sql.Identifier(role))
        )
    spoil(server, name, role)
    yield server.url(name).replace("//postgres@", f"//{role}@")
    server.drop_database(name)
    with psycopg.connect(server.url(), autocommit=True) as conn:
        conn.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))


def test_a_whole_story_is_told_on_a_database_whose_defaults_are_all_hostile(
    hostile: str, tmp_path: Path
) -> None:
    """Every command, from the migration to the doctor."""
    il = CommandHere(tmp_path, url=hostile)
    il.ok("migrate")
    il.ok("agents", "set", "coder", "--max", "2", "--type", "task", "--label", "gpu")
    lane = "issue:acme/app#1"
    first = il.ok(
        "add", TEXT, "--lane", lane, "--message", TEXT, "--payload", '{"a": null}', "--lease", "0.1h"
    )
    second = il.ok("add", "second", "--lane", lane, "--agent", "coder", "--dedupe-key", "once")
    assert (first["decision"], second["decision"]) == ("admitted", "queued")
    assert il.ok("add", "second", "--lane", lane, "--dedupe-key", "once")["decision"] == "duplicate"
    assert il.ok("why", second["item"]["id"])
    lease = il.claim()
    assert (lease["item"]["title"], lease["messages"][0]["text"]) == (TEXT, TEXT)
    assert (lease["item"]["payload"], lease["lease_s"]) == ({"a": None}, 360.0)
    assert il.ok("renew", lease["run"])["runs"][0]["status"] == "running"
    il.ok("msg", lease["item"]["id"], TEXT)
    assert il.ok("inbox", lease["run"])["messages"][0]["text"] == TEXT
    assert il.ok("done", lease["run"], "--result", '{"x": "\\\\☃"}')["runs"][0]["promoted"] == [
        second["item"]["id"]
    ]
    again = il.claim()
    il.ok("fail", again["run"], "--error", TEXT)
    il.ok("retry", again["item"]["id"])
    back = il.claim()
    il.ok("release", back["run"])
    il.ok("cancel", back["item"]["id"], "--reason", TEXT)
    il.ok("pause", "project", "other", "--create", "--reason", TEXT)
    il.ok("resume", "project", "other")
    il.ok("lanes", "mode", "observe", "--project", "watched")
    plan = il.ok("plan", "create", "-", stdin=RELEASE)
    il.ok(
        "plan",
        "edit",
        plan["id"],
        "--base",
        plan["revision"],
        "-",
        stdin='{"operations": [{"op": "remove_task", "key": "mend"}]}',
    )
    built = il.claim()
    il.ok("done", built["run"])
    il.ok("plan", "cancel", plan["id"], "--reason", "enough")
    for look in (("ls", "--all"), ("show", 1), ("events",), ("stats",), ("lanes",), ("agents",), ("sweep",)):
        il.ok(*look, *(("--once",) if look == ("sweep",) else ()))
    for look in (("plan", "show"), ("plan", "stats"), ("plan", "history")):
        il.ok(*look, plan["id"])
    held = il("--json", "hold", "issue:acme/app#2", "--", "true")
    assert held.code == 0, held
    doctor = {check["name"]: check for check in il("--json", "doctor").json["checks"]}
    assert {name for name, check in doctor.items() if not check["ok"]} == {
        "writes_are_durable",  # the test's own server is quick
        "nothing_is_switched_off",
    }
    named = doctor["nothing_is_switched_off"]["detail"]
    assert all(
        word in named for word in ("enable_indexonlyscan", "plan_cache_mode", "session_replication_role")
    )
    assert "synchronous_commit" not in doctor["writes_are_durable"]["detail"]
    assert_kept(hostile)


def test_the_settings_of_a_session_are_ours(hostile: str) -> None:
    """All but `tcp_user_timeout`, which is 0 where it is not TCP. Taken out: each, one by one."""
    database = Database(hostile)
    with database.connection() as conn:
        rows = conn.execute("SELECT name, setting, unit FROM pg_settings").fetchall()
    database.close()
    found: dict[str, Any] = {name: setting + (unit or "") for name, setting, unit in rows}
    wanted = {
        "default_transaction_isolation": "read committed",
        "default_transaction_read_only": "off",
        "default_transaction_deferrable": "off",
        "client_connection_check_interval": "1000ms",
        "idle_in_transaction_session_timeout": "15000ms",
        "statement_timeout": "0ms",
        "lock_timeout": "20000ms",
        "idle_session_timeout": "0ms",
        "array_nulls": "on",
        "standard_conforming_strings": "on",
        "exit_on_error": "off",
        "jit": "off",
        "client_encoding": "UTF8",
        "synchronous_commit": "on",
        "search_path": "pg_catalog, pg_temp",
    }
    assert {name: found[name] for name in wanted} == wanted
    assert found.get("transaction_timeout", "60000ms") == "60000ms"
    assert not found.get("restrict_nonsystem_relation_kind")


def test_a_stricter_commit_stays(pg_database18: str) -> None:
    with psycopg.connect(pg_database18, autocommit=True) as conn:
        name = conn.info.dbname
        statement = sql.SQL("ALTER DATABASE {} SET synchronous_commit = remote_apply")
        conn.execute(statement.format(sql.Identifier(name)))
    database = Database(pg_database18)
    with database.connection() as conn:
        assert conn.execute("SHOW synchronous_commit").fetchone() == ("remote_apply",)
    database.close()


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_eight_first_users_at_once_migrate_once_whatever_the_isolation(
    crew: Crew, pg_empty18: str, isolation: str
) -> None:
    """Taken out: `READ COMMITTED` in `exclusively`; whoever waited sees an empty database and fails."""
    with psycopg.connect(pg_empty18, autocommit=True) as conn:
        statement = sql.SQL("ALTER DATABASE {} SET default_transaction_isolation = {}")
        conn.execute(statement.format(sql.Identifier(conn.info.dbname), sql.Literal(isolation)))
    outcomes = crew.race(8, migrating.start_and_add, pg_empty18)
    assert len({arrival for _, arrival in outcomes}) == 8
    assert query(pg_empty18, "SELECT count(*) FROM items") == [(8,)]
    assert_kept(pg_empty18)


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_a_database_of_another_encoding_is_refused_at_the_first_contact(
    postgres18: PostgresServer, encoding: str
) -> None:
    name = f"test_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(postgres18.url(), autocommit=True) as conn:
        statement = sql.SQL("CREATE DATABASE {} ENCODING {} LOCALE 'C' TEMPLATE template0")
        conn.execute(statement.format(sql.Identifier(name), sql.Literal(encoding)))
    with pytest.raises(StoreUnavailable, match=f"encoding is {encoding}") as refused:
        Database(postgres18.url(name))
    assert "ENCODING 'UTF8'" in refused.value.hint
    with psycopg.connect(postgres18.url(name)) as conn:
        assert conn.execute("SELECT FROM pg_namespace WHERE nspname = 'interlock'").fetchone() is None
    postgres18.drop_database(name)


@pytest.mark.parametrize("where", ["url", "environment"])
def test_the_encoding_of_a_client_plays_no_part(
    pg_database18: str, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    url = pg_database18 + ("&client_encoding=LATIN1" if where == "url" else "")
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    service = open_service(url)
    service.add([NewItem(title=TEXT)])
    lease = service.next("coder")[0]
    assert lease.item.title == TEXT
    assert service.done([Report(run=lease.run)])[0].refusal is None
    service.close()

"""The SQL of the page about PostgreSQL is what two roles need: no more, no less."""

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from docs.generate import ROOT
from interlock import app, settings
from interlock.core.errors import InterlockError
from interlock.core.model import NewItem
from interlock.service.contract import Report, Service

PAGE = ROOT / "docs" / "how-to" / "run-on-postgresql.md"


def sql_blocks() -> list[str]:
    return [part.partition("\n```")[0] for part in PAGE.read_text("utf-8").split("```sql\n")[1:]]


def open_as(server: Any, role: str) -> Service:
    parts = urlsplit(server.url())
    url = f"postgresql://{role}@/interlock?{parts.query}"
    return app.open_service(settings=settings.load(url=url, environ={}))


def execute(server: Any, role: str, database: str, block: str) -> None:
    with psycopg.connect(server.url(), user=role, dbname=database, autocommit=True) as connection:
        for statement in block.split(";"):
            if statement.strip():
                connection.execute(statement.encode())


def test_the_roles_of_the_page_can_do_what_it_says(start_postgres: Callable[..., Any]):
    make, grant, limit = sql_blocks()
    server = start_postgres(18)
    execute(server, "postgres", "postgres", make)
    with pytest.raises(InterlockError):
        open_as(server, "interlock_worker")
    open_as(server, "interlock_owner").close()
    with pytest.raises(InterlockError):
        open_as(server, "interlock_worker")
    execute(server, "interlock_owner", "interlock", grant)
    execute(server, "postgres", "postgres", limit)

    worker = open_as(server, "interlock_worker")
    worker.add([NewItem(title="Fix", lane="issue:a/b#1", payload="{}", dedupe_key="k", message="m")])
    lease = worker.next("coder")[0]
    worker.renew([Report(run=lease.run)])
    worker.done([Report(run=lease.run)])
    worker.set_agent("coder", max_concurrency=2)
    worker.pause_project("default", paused=True, why="freeze")
    worker.sweep()
    assert [c.name for c in worker.doctor() if not c.ok] == ["writes_are_durable"]
    worker.close()
    with psycopg.connect(server.url(), user="interlock_worker", dbname="interlock") as connection:
        for statement in (b"DROP TABLE interlock.events", b"ALTER TABLE interlock.items DROP COLUMN title"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement)
            connection.rollback()

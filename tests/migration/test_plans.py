"""A store from before plans becomes one with plans, with all its rows, while others have it open."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from interlock.core.plans.model import EdgeSpec, Graph, TaskSpec
from interlock.service.local import LocalService
from interlock.store import migrate
from tests.faults.stores import broken, open_service, open_store, query

BEFORE_PLANS = 2
OLD_ITEM = """
    INSERT INTO items (id, project, type, title, agent_key, policy, priority, position, ticket, sort_key,
        max_attempts, retry_lane, created_us, status, attempt, releases, message_count, delivered, seen,
        front, reason)
    VALUES (900, 'default', 'task', 'old', '', 'queue', 0, 2147483647, 1, 1, 3, 'yield', 1, 'pending',
        0, 0, 0, 0, 0, {false}, 'no_lane')
"""
WAITS_FOR_EVER = "UPDATE items SET status = 'waiting' WHERE id = 900"


@pytest.fixture
def old(url: str, backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database of the version before, with one item."""
    folder = tmp_path / "sql"
    shutil.copytree(migrate._ROOT, folder)
    for file in (folder / backend / "sql" / "migrations").glob("[0-9]*.sql"):
        if int(file.stem[:4]) > BEFORE_PLANS:
            file.unlink()
    with monkeypatch.context() as patch:
        patch.setattr(migrate, "_ROOT", folder)
        store = open_store(url, migrate=False)
        migrate.migrate(store.database)
        store.close()
    query(url, OLD_ITEM.format(false="0" if backend == "sqlite" else "false"))
    return url


def moved_on(url: str) -> LocalService:
    store = open_store(url, migrate=False)
    assert migrate.migrate(store.database) == len(migrate.migrations(store.database.backend)) - BEFORE_PLANS
    store.close()
    return open_service(url)


def test_items_from_before_are_claimed_and_plans_can_be_made(old: str) -> None:
    service = moved_on(old)
    service.set_agent("coder")
    edge = EdgeSpec(source="A", target="B")
    plan = service.create_plan("new", Graph(tasks=(TaskSpec(key="A"), TaskSpec(key="B")), edges=(edge,)))
    assert [t.status for t in plan.tasks] == ["pending", "waiting"]
    assert [lease.item.title for lease in service.next("coder", limit=5)] == ["old", "A"]
    assert broken(service.doctor()) == []
    service.close()


def test_only_a_task_may_wait_without_a_time(old: str) -> None:
    """The schema's own rule was widened, not lost."""
    moved_on(old).close()
    with pytest.raises(Exception, match=r"(?i)check constraint"):
        query(old, WAITS_FOR_EVER)


def test_a_connection_that_was_open_meanwhile_sees_the_new_rule(old: str, backend: str) -> None:
    other = open_store(old, migrate=False)
    assert other.database.applied()
    service = moved_on(old)
    plan = service.create_plan(
        "new", Graph(tasks=(TaskSpec(key="A"), TaskSpec(key="B")), edges=(EdgeSpec(source="A", target="B"),))
    )
    waiting = other.item(next(t.item for t in plan.tasks if t.key == "B"))  # type: ignore[arg-type]
    assert waiting is not None
    assert waiting.state.due_us is None
    if backend == "sqlite":
        assert query(old, "PRAGMA integrity_check") == [("ok",)]
    other.close()
    service.close()

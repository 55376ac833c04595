"""The service on a store is made of parts, each of which can be understood alone."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from interlock.service.contract import Service
from interlock.service.local import PARTS, LocalService, RepeatableOperations, function_of
from interlock.service.operations import OPERATIONS
from interlock.store.access import RepeatableRequest
from interlock.store.sqlite.store import SqliteStore


def test_no_part_inherits_from_another() -> None:
    """Before: `LocalService` inherited from seven classes, which used each other's private methods."""
    assert {part.__bases__ for part in PARTS} == {(object,)}
    assert LocalService.__bases__ == (RepeatableOperations,)


def test_every_operation_is_a_function_of_one_part() -> None:
    found = Counter(name for part in PARTS for name in vars(part) if not name.startswith("_"))
    assert [name for name, times in found.items() if times > 1] == []
    assert all(function_of(operation.name).__doc__ for operation in OPERATIONS)


def test_a_local_service_has_the_function_of_each_operation(tmp_path: Path) -> None:
    service = LocalService(SqliteStore(tmp_path / "interlock.db"))
    for name in (each for each in dir(Service) if not each.startswith("_")):
        assert getattr(service, name).__func__ is function_of(name), name
    service.close()


def test_the_answers_of_all_repeatable_operations_can_be_kept(tmp_path: Path) -> None:
    """Taken out: one of the bound functions; the server could not carry that operation out under a key."""
    service = LocalService(SqliteStore(tmp_path / "interlock.db"))
    repeatable = vars(service.answering(RepeatableRequest("key", "asked")))
    assert repeatable.keys() == {operation.name for operation in OPERATIONS if operation.kept}
    service.close()

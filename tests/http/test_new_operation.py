"""A new operation is an entry with its sentences and a function: server, client and documents follow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.core.cures import cure
from interlock.core.scopes import Needs
from interlock.http import application, execution, page, schemas
from interlock.http.cures import request_line
from interlock.remote import service as remote
from interlock.service import operations
from interlock.service.contract import Service
from interlock.service.maintenance import Maintenance
from interlock.service.manual import ENTRIES, ManualEntry
from interlock.service.operations import BY_NAME, OPERATIONS, ROOT, Operation
from tests.http.requests import ask
from tests.http.serving import Serving, local_service

GREET = Operation("greet", "POST", "/greetings", Needs.ADMIN, "greeting")


def _greet(_: Service, guest: str, *, loudly: bool = False) -> str:
    """Greet a guest."""
    return f"HELLO {guest}" if loudly else f"Hello {guest}"


@pytest.fixture
def serving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serving]:
    """A server with one operation more."""
    for module in (operations, application, execution, page, schemas):
        monkeypatch.setattr(module, "OPERATIONS", (*OPERATIONS, GREET))
    monkeypatch.setitem(BY_NAME, "greet", GREET)
    said = {"guest": "Who is greeted.", "loudly": "In capital letters."}
    monkeypatch.setitem(ENTRIES, "greet", ManualEntry(said, example={"guest": "Ada"}))
    for part in (Service, Maintenance):
        monkeypatch.setattr(part, "greet", _greet, raising=False)
    monkeypatch.setattr(remote.RemoteService, "greet", remote._use(GREET), raising=False)
    service = local_service(tmp_path / "interlock.db")
    service.greet = _greet.__get__(service)  # type: ignore[attr-defined]
    server = Serving(service)
    yield server
    server.stop()
    service.close()


def test_it_is_served_confined_documented_and_called_by_the_client(serving: Serving) -> None:
    assert serving.client().greet("Ada", loudly=True) == "HELLO Ada"  # type: ignore[attr-defined]
    body = {"guest": "Ada"}
    answer = ask(serving.url, "POST", f"{ROOT}/greetings", body, token=serving.token("admin"))
    assert answer.json == {"greeting": "Hello Ada"}
    assert ask(serving.url, "POST", f"{ROOT}/greetings", body, token=serving.token("read")).status == 403
    wrong = ask(serving.url, "POST", f"{ROOT}/greetings", {"guest": 1}, token=serving.token("admin"))
    assert wrong.status == 422
    described = schemas.document()["paths"][f"{ROOT}/greetings"]["post"]
    assert "Greet a guest." in str(described)
    assert "In capital letters." in str(described)
    assert "/greetings" in page.api()
    assert request_line(cure("greet", "greets her", guest="Ada")) == 'POST /v1/greetings {"guest": "Ada"}'

"""Which application answers a request, and how the answer is sent."""

from __future__ import annotations

import asyncio
import socket
from typing import Any
from urllib.parse import urlsplit

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from interlock.http.addresses import ANY, Addresses
from tests.http.serving import Serving
from tests.patience import PATIENCE_S


def _app(name: str) -> ASGIApp:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        scope["answered"] = name

    return app


@pytest.fixture
def addresses() -> Addresses:
    found = Addresses(_app("unknown"))
    found.add("/items/{item}", _app("show"), ["GET"])
    found.add("/items", _app("list"), ["GET"])
    found.add("/items", _app("add"), ["POST"])
    found.add("/items/{item}", _app("edit"), ["PATCH"])
    found.add("/items/near", _app("near"), ["GET"])
    found.add("/plans/{plan}/revisions/{revision}", _app("plan at"), ["GET"])
    found.add("/mounted", _app("mounted"), [ANY])
    return found


def _asked(addresses: Addresses, method: str, path: str) -> dict[str, Any]:
    scope: dict[str, Any] = {"type": "http", "method": method, "path": path}

    async def nothing(*_: Any) -> Any:
        return None

    asyncio.run(addresses(scope, nothing, nothing))
    return scope


@pytest.mark.parametrize(
    ("method", "path", "answered", "route", "parameters"),
    [
        ("GET", "/items", "list", "/items", {}),
        ("HEAD", "/items", "list", "/items", {}),
        ("POST", "/items", "add", "/items", {}),
        ("GET", "/items/7", "show", "/items/{item}", {"item": "7"}),
        ("PATCH", "/items/7", "edit", "/items/{item}", {"item": "7"}),
        ("GET", "/items/near", "near", "/items/near", {}),
        (
            "GET",
            "/plans/1/revisions/2",
            "plan at",
            "/plans/{plan}/revisions/{revision}",
            {"plan": "1", "revision": "2"},
        ),
        ("TRACE", "/mounted", "mounted", "/mounted", {}),
    ],
)
def test_an_address_is_found_with_its_parameters(
    addresses: Addresses, method: str, path: str, answered: str, route: str, parameters: dict[str, str]
) -> None:
    found = _asked(addresses, method, path)
    assert (found["answered"], found["route"], found["path_params"]) == (answered, route, parameters)


@pytest.mark.parametrize(
    "path", ["", "/", "/item", "/items/", "/items/7/", "/items//why", "/plans/1/revisions/"]
)
def test_what_is_no_address_is_unknown(addresses: Addresses, path: str) -> None:
    found = _asked(addresses, "GET", path)
    assert found["answered"] == "unknown"
    assert "route" not in found
    assert "methods" not in found


def test_a_method_that_an_address_does_not_take_is_unknown_and_its_methods_are_named(
    addresses: Addresses,
) -> None:
    found = _asked(addresses, "DELETE", "/items/7")
    assert (found["answered"], found["route"]) == ("unknown", "/items/{item}")
    assert sorted(found["methods"]) == ["GET", "HEAD", "PATCH"]


def test_the_head_and_the_body_of_an_answer_come_in_one_piece(serving: Serving) -> None:
    parts = urlsplit(serving.url)
    with socket.create_connection((parts.hostname, parts.port), PATIENCE_S) as client:
        for _ in range(50):
            client.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert client.recv(65_536).endswith(b'{"ok":true}')

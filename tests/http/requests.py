"""Plain requests to a server, as any program makes them."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tests.patience import PATIENCE_S


class Answered(NamedTuple):
    status: int
    headers: dict[str, str]
    text: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.text)


def ask(
    url: str,
    method: str,
    path: str,
    body: Any = None,
    *,
    token: str | None = None,
    headers: dict[str, str] | None = None,
) -> Answered:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
    sent = dict(headers or {})
    if token is not None:
        sent["Authorization"] = f"Bearer {token}"
    if body is not None:
        sent.setdefault("Content-Type", "application/json")
    data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
    try:
        connection.request(method, path, data, sent)
        answer = connection.getresponse()
        found = {name.lower(): value for name, value in answer.headers.items()}
        endless = answer.status == 200 and path.partition("?")[0].endswith("/events/stream")
        return Answered(answer.status, found, b"" if endless else answer.read())
    finally:
        connection.close()


def eventually(happens: Callable[[], bool]) -> None:
    """Wait for something; a server that does not answer counts as no."""
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            if happens():
                return
        except (OSError, http.client.HTTPException):
            pass
        assert time.monotonic() < deadline_s, "it does not come"
        time.sleep(0.02)

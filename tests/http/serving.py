"""A server in a thread of the test, and clients of it."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Any

import structlog

from interlock.core.names import USUAL_FIELDS
from interlock.http.application import Application
from interlock.http.arguments import RequestReader
from interlock.http.handlers import Server
from interlock.http.server import UvicornListener, configured
from interlock.remote.service import connect
from interlock.service.contract import Service
from interlock.service.local import LocalService
from interlock.store.sqlite.store import SqliteStore
from tests.patience import PATIENCE_S

#: Requests are not logged into the output of tests; defects are.
structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))


class Serving:
    """A server that serves one service at a time; another may take its place."""

    def __init__(self, service: LocalService, **more: Any) -> None:
        self.server = Server(
            service,
            RequestReader({}, USUAL_FIELDS),
            ready=lambda: {"ready": True, "checks": {}},
            webhook=more.get("webhook", lambda _, body: {"bytes": len(body)}),
            poll_s=more.get("poll_s", 0.05),
        )
        self.url = ""
        self.clients: list[Service] = []
        listening = threading.Event()

        def heard(url: str) -> None:
            self.url = url
            listening.set()

        self.app = Application(
            self.server,
            started=lambda: None,
            stopped=lambda: None,
            mounted=more.get("mounted", lambda _: ())(self.server),
            hosts=more.get("hosts"),
        )
        config = configured(self.app, proxies=more.get("proxies", ()), port=0)
        self.listener = UvicornListener(config, listening=heard, stopping=self.server.stop)
        self._thread = threading.Thread(target=self.listener.run, daemon=True)
        self._thread.start()
        assert listening.wait(PATIENCE_S), "the server does not start"

    def leave(self) -> None:
        """Close the clients."""
        while self.clients:
            self.clients.pop().close()

    def stop(self) -> None:
        self.leave()
        self.listener.should_exit = True
        self._thread.join(PATIENCE_S)

    def serve(self, local: LocalService, scope: str = "admin") -> Service:
        """Serve this service from now on, and give a client of it."""
        self.server.execution.serve(local)
        return self.client(scope)

    def token(self, scope: str = "admin") -> str:
        made = self.server.service.create_token("test", scope=scope).token
        assert made is not None
        return made

    def client(self, scope: str = "admin", *, patience_s: float = 5.0) -> Service:
        client: Any = connect(self.url, self.token(scope), patience_s=patience_s)
        self.clients.append(client)
        client.store = self.server.service.store  # for tests that look past the service
        return client  # type: ignore[no-any-return]


def local_service(path: Path, **more: Any) -> LocalService:
    return LocalService(SqliteStore(path, **more), poll_s=0.05)

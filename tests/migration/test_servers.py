"""An upgrade without a stop: servers of two versions side by side on one database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from interlock.core.errors import SchemaMismatch
from interlock.core.model import NewItem
from interlock.service.contract import Report
from interlock.store import migrate
from tests.faults.stores import assert_kept, open_service
from tests.http.requests import ask
from tests.http.serving import Serving
from tests.http.up import Up
from tests.migration.test_releases import NEXT, app_url, move_on

pytestmark = pytest.mark.parametrize("url", ["sqlite", "postgres18"], indirect=True)


@pytest.fixture
def old(url: str, tmp_path: Path) -> Iterator[Up]:
    """A server of the present version, as a process: it does not learn of the next version's files."""
    server = Up(tmp_path, INTERLOCK_URL=app_url(url))
    yield server
    for client in server.clients:
        client.close()
    server.end()


def test_a_server_that_a_newer_schema_serves_goes_on_beside_a_newer_server(
    old: Up, url: str, backend: str, next_version: Callable[..., Path]
) -> None:
    worker = old.client()
    worker.add([NewItem(title="begun before")])
    (lease,) = worker.next("coder")
    next_version(NEXT[backend], serves=len(migrate.migrations(backend)))
    assert move_on(url) == 1
    assert ask(old.url, "GET", "/readyz").status == 200
    with closing(open_service(url)) as service:
        new = Serving(service)
        try:
            new.client().add([NewItem(title="added through the newer server")])
            assert worker.done([Report(run=lease.run)])[0].status == "succeeded"
            (second,) = worker.next("coder", wait_s=20)
            assert second.item.title == "added through the newer server"
            assert new.client().done([Report(run=second.run)])[0].status == "succeeded"
            assert old.end() == 0
            old.start()  # as after a crash: it may start again meanwhile
            assert worker.add([NewItem(title="one more")])[0].decision == "admitted"
        finally:
            new.stop()
    assert_kept(url)


def test_a_server_that_a_newer_schema_does_not_serve_says_so_and_writes_nothing(
    old: Up, url: str, backend: str, next_version: Callable[..., Path]
) -> None:
    worker = old.client()
    worker.add([NewItem(title="begun before")])
    (lease,) = worker.next("coder", lease_s=600)
    next_version(NEXT[backend])
    assert move_on(url) == 1
    ready = ask(old.url, "GET", "/readyz")
    assert ready.status == 503
    assert ready.json["checks"]["schema"]["ok"] is False
    with pytest.raises(SchemaMismatch, match="has schema version"):
        worker.add([NewItem(title="refused")])
    with pytest.raises(SchemaMismatch):
        worker.done([Report(run=lease.run)])
    with closing(open_service(url)) as service:
        new = Serving(service)
        try:  # the newer server takes what the old one could not
            assert new.client().done([Report(run=lease.run)])[0].status == "succeeded"
        finally:
            new.stop()
    assert_kept(url)

"""Two servers on a PostgreSQL whose asynchronous standby takes over: what their clients see."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from interlock.core.model import NewItem
from interlock.remote.service import connect
from interlock.service.contract import Report
from tests.faults.pair import Pair
from tests.faults.processes import wait_until
from tests.faults.stores import assert_kept
from tests.http.requests import ask
from tests.http.up import Up
from tests.patience import PATIENCE_S
from tests.postgres_fixtures import StartPostgres


@pytest.fixture
def pair(start_postgres: StartPostgres) -> Iterator[Pair]:
    made = Pair(start_postgres(18), "failover", synchronous=False)
    yield made
    made.remove()


def test_servers_go_on_behind_a_failover_and_no_run_number_comes_twice(pair: Pair, tmp_path: Path) -> None:
    with ExitStack() as opened:
        ups = []
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            ups.append(Up(tmp_path / name, INTERLOCK_URL=pair.url))
            opened.callback(ups[-1].end)
        token = ups[0].token
        clients = [opened.enter_context(closing(connect(up.url, token, patience_s=PATIENCE_S))) for up in ups]
        clients[0].add([NewItem(title="kept")])
        (kept,) = clients[0].next("coder", lease_s=600)
        pair.lose_contact()
        clients[1].add([NewItem(title="lost with the old primary")])
        (lost,) = clients[1].next("coder", lease_s=600)
        pair.fail_over()

        assert clients[1].renew([Report(run=kept.run)])[0].refusal is None  # through the other server
        refused = clients[0].done([Report(run=lost.run)])[0].refusal
        assert refused is not None
        assert refused.code == "lease_lost"
        (added,) = clients[0].add([NewItem(title="after")])
        (again,) = clients[1].next("coder", wait_s=20)
        assert added.item is not None
        assert (again.item.id, again.item.title) == (added.item.id, "after")
        assert again.fence > lost.fence + 1_000_000
        assert clients[1].done([Report(run=kept.run), Report(run=again.run)])[1].status == "succeeded"
        wait_until(lambda: all(ask(up.url, "GET", "/readyz").status == 200 for up in ups), "both are ready")
        kinds = [event.kind for event in clients[0].events(limit=100)]
        assert kinds.count("store.changed") == 1
    assert_kept(pair.url)

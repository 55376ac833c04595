"""Two servers on one PostgreSQL: whoever asks either of them sees one store."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from interlock.core.model import NewItem
from interlock.remote.service import connect
from interlock.service.contract import ItemFilter, Report, Service
from interlock.service.local import LocalService
from interlock.store.postgres.database import Database
from interlock.store.postgres.store import PostgresStore
from tests.faults.stores import assert_kept
from tests.http.asking import ask
from tests.http.serving import Serving
from tests.patience import PATIENCE_S


@pytest.fixture
def both(pg_database18: str) -> Iterator[tuple[Serving, Serving]]:
    services = [LocalService(PostgresStore(Database(pg_database18)), poll_s=5.0) for _ in range(2)]
    servers = [Serving(service, poll_s=5.0) for service in services]
    yield servers[0], servers[1]
    for server, service in zip(servers, services, strict=True):
        server.stop()
        service.close()


def test_a_claim_that_waits_on_one_is_woken_by_the_other(both: tuple[Serving, Serving]) -> None:
    """Long before its next look: the history is watched."""
    first, second = both
    waiting = first.client()
    with ThreadPoolExecutor(1) as threads:
        claim = threads.submit(waiting.next, "coder", wait_s=60)
        _wait(first)
        time.sleep(0.2)
        second.client().add([NewItem(title="x")])
        begun_s = time.monotonic()
        (lease,) = claim.result()
    assert lease.item.title == "x"
    assert time.monotonic() - begun_s < PATIENCE_S


def test_a_lane_storm_over_both_keeps_one_run_a_lane(
    both: tuple[Serving, Serving], pg_database18: str
) -> None:
    lanes, count = 3, 60
    token = both[0].token()
    stop, done = threading.Event(), Counter[int]()
    with connected(both[0], token) as client:
        made = [client.add([NewItem(title=f"{n}", lane=f"l:{n % lanes}")])[0].item for n in range(count)]

    def work(n: int) -> None:
        with connected(both[n % 2], token) as client:
            while not stop.is_set():
                for lease in client.next(f"agent{n}", limit=2, wait_s=1):
                    (ended,) = client.done([Report(run=lease.run)])
                    assert ended.status == "succeeded"
                    done[lease.item.id] += 1
                if sum(done.values()) >= count:
                    stop.set()

    with ThreadPoolExecutor(6) as threads:
        for future in [threads.submit(work, n) for n in range(6)]:
            future.result()
    assert done == Counter({item.id: 1 for item in made if item is not None})
    service = both[1].server.service
    assert {i.status for i in service.items(ItemFilter(all=True))} == {"completed"}
    assert_kept(pg_database18, added=tuple(done))


def test_a_request_is_carried_out_once_whichever_server_gets_it(both: tuple[Serving, Serving]) -> None:
    token = both[0].token()
    body = {"items": [{"title": "x"}]}

    def send(n: int) -> int:
        answer = ask(
            both[n % 2].url, "POST", "/v1/items", body, token=token, headers={"Idempotency-Key": "one"}
        )
        assert answer.status == 200
        return int(answer.json["items"][0]["item"]["id"])

    with ThreadPoolExecutor(8) as threads:
        assert len(set(threads.map(send, range(16)))) == 1
    assert len(both[0].server.service.items(ItemFilter())) == 1


def connected(server: Serving, token: str) -> closing[Service]:
    return closing(connect(server.url, token, patience_s=PATIENCE_S))


def _wait(server: Serving) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not server.server.desk.waiting:
        assert time.monotonic() < deadline_s
        time.sleep(0.01)

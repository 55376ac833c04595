"""Two servers on one PostgreSQL: whoever asks either of them sees one store."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from interlock.core.model import NewItem
from interlock.remote.service import connect
from interlock.service.contract import EventView, ItemFilter, Report, Service
from interlock.service.local import LocalService
from interlock.store.postgres.database import Database
from interlock.store.postgres.store import PostgresStore
from tests.faults.stores import assert_kept
from tests.http.proxies import LosingProxy
from tests.http.requests import ask
from tests.http.serving import Serving
from tests.http.test_remote import STORM
from tests.http.up import Up
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
    lanes, count = 3, 60 * STORM
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
    assert {i.status for i in service.items(ItemFilter(all=True, limit=10_000))} == {"completed"}
    assert_kept(pg_database18, added=tuple(done))


@pytest.mark.slow
def test_two_servers_that_are_killed_in_turn_lose_and_double_nothing(
    pg_database18: str, tmp_path: Path
) -> None:
    """Workers on both, a proxy that loses answers before one of them, and a stream of events on the other."""
    servers = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        servers.append(Up(tmp_path / name, INTERLOCK_URL=pg_database18))
    token, stop = servers[0].token, threading.Event()
    ended: list[int] = []
    heard: list[int] = []

    def listen() -> None:
        with closing(connect(servers[1].url, token, patience_s=PATIENCE_S)) as client:
            for event in client.follow(after=0):
                heard.append(event.seq)
                if event.kind == "mode.set":
                    return

    with LosingProxy(servers[0].url, nth=5) as proxy:

        def work(n: int) -> int:
            url, count = (proxy.url if n % 2 else servers[1].url), 0
            with closing(connect(url, token, patience_s=PATIENCE_S)) as client:
                while not stop.is_set():
                    client.add([NewItem(title=f"{n}-{count}", lane="l:shared", agent=f"a{n}")])
                    (lease,) = client.next(f"a{n}", wait_s=60)
                    assert lease.item.title == f"{n}-{count}"
                    assert client.done([Report(run=lease.run)])[0].status == "succeeded"
                    ended.append(lease.item.id)
                    count += 1
            return count

        with ThreadPoolExecutor(5) as threads:
            listening = threads.submit(listen)
            workers = [threads.submit(work, n) for n in range(4)]
            for n in range(2 * STORM):
                before = len(ended)
                while len(ended) < before + 10 and not any(worker.done() for worker in workers):
                    time.sleep(0.01)
                servers[n % 2].kill()
                servers[n % 2].start()
            stop.set()
            counts = [worker.result() for worker in workers]
            with closing(connect(servers[0].url, token, patience_s=PATIENCE_S)) as client:
                client.set_mode(scope="lane", value="last", mode="enforce")
            listening.result(PATIENCE_S)
        assert proxy.lost
    for server in servers:
        server.end()
    with closing(LocalService(PostgresStore(Database(pg_database18)))) as service:
        items = service.items(ItemFilter(all=True, limit=10_000))
        assert Counter(i.title for i in items) == Counter(
            {f"{n}-{k}": 1 for n, count in enumerate(counts) for k in range(count)}
        )
        assert {i.status for i in items} == {"completed"}
        assert {i.attempt for i in items} == {1}
        told = [e.seq for e in all_events(service)]
    assert heard == told[: len(heard)], "each event once, in order"
    assert len(heard) >= len(ended)
    assert_kept(pg_database18, added=tuple(ended))


def all_events(service: LocalService) -> Iterator[EventView]:
    after = 0
    while found := service.events(after=after, limit=1_000):
        yield from found
        after = found[-1].seq


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
    while not server.server.claims.lines.waiting:
        assert time.monotonic() < deadline_s
        time.sleep(0.01)

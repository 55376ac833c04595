"""Claims while an old snapshot holds vacuum back: `python -m bench.churn [COUNT…]` prints a table.

One process finishes items one at a time after so many have come and gone: Interlock with its front and
without (claim, renew, finish), and two peers through their own workers (claim, finish). What came and went is
moved through its states by SQL.
"""

from __future__ import annotations

import math
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from bench.subject import NotAvailable, Order, Shift, Subject, Tally
from bench.subjects.pgboss_subject import PgBoss
from bench.subjects.pgqueuer_subject import PgQueuer
from interlock.core.model import NewItem
from interlock.service.contract import Report
from interlock.service.local import LocalService
from interlock.store.postgres.database import Database
from interlock.store.postgres.scan_starts import SLOW_US
from interlock.store.postgres.store import PostgresStore
from tests.postgres_server import PostgresServer, short_tempdir

_SQL = Path(__file__).parent / "sql" / "postgres"
COUNTS = (1_000, 200_000, 1_000_000)
ROUNDS = 200
#: Enough where each takes a second.
ROUNDS_WITHOUT = 20
#: A peer stops here; the rate then counts what it finished.
LIMIT_S = 60
PEERS: dict[str, Subject] = {"churn_pgqueuer.sql": PgQueuer(driver="asyncpg"), "churn_pgboss.sql": PgBoss()}


def measured(store: PostgresStore, slow_us: float, rounds: int) -> float:
    """Items a second."""
    store.claims.scan_starts.slow_us = slow_us  # type: ignore[assignment]
    store.claims.scan_starts.clear()
    service = LocalService(store)
    service.add([NewItem(title="work") for _ in range(rounds + 1)])
    service.done([Report(run=lease.run) for lease in service.next("coder")])
    begun_s = time.perf_counter()
    for _ in range(rounds):
        reports = [Report(run=lease.run) for lease in service.next("coder")]
        service.renew(reports)
        service.done(reports)
    return rounds / (time.perf_counter() - begun_s)


def peer_rate(peer: Subject, url: str, script: str, count: int) -> str:
    """Items a second of a peer's worker under a snapshot as old as its tables."""
    try:
        peer.setup(url)
    except NotAvailable as why:
        print(f"{peer.name}: {why}", file=sys.stderr)
        return "not here"
    with pinned(url):
        peer.fill(url, count)
        run(url, script)
        peer.fill(url, ROUNDS)
        tally = Tally()
        order = Order(url=url, worker=0, batch=1, total=ROUNDS, lanes=None, limit_s=LIMIT_S)
        peer.drain(Shift(order=order, tally=tally, begin=lambda: None, count=lambda _: len(tally.finished)))
    return f"{len(tally.finished) / (tally.ended_s - tally.started_s):.1f}"


@contextmanager
def pinned(url: str) -> Iterator[None]:
    """Hold a snapshot: vacuum removes nothing that dies meanwhile."""
    with psycopg.connect(url) as pin:
        pin.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        pin.execute("SELECT 1")
        yield


def run(url: str, script: str, **values: int) -> None:
    text = (_SQL / script).read_text("utf-8")
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", str(value))
    with psycopg.connect(url, autocommit=True, options="-c search_path=interlock,public") as conn:
        for statement in text.strip().split(";"):
            conn.execute(statement.encode())


def row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def main(counts: list[int]) -> None:
    peers = [peer.name for peer in PEERS.values()]
    with tempfile.TemporaryDirectory(dir=short_tempdir()) as folder:
        Path(folder).chmod(0o755)
        server = PostgresServer(18, Path(folder, "pg"), fsync=True)
        server.start()
        try:
            print(row("came and went", "Interlock, items/s", "without a front", *peers))
            print(row(*["---"] * (3 + len(peers))))
            for count in counts:
                url = server.create_database(f"of_{count}")
                store = PostgresStore(Database(url))
                with pinned(url):
                    run(url, "churn.sql", count=count)
                    bare, ours = measured(store, math.inf, ROUNDS_WITHOUT), measured(store, SLOW_US, ROUNDS)
                store.close()
                beside = [
                    peer_rate(peer, server.create_database(f"peer_{n}_{count}"), script, count)
                    for n, (script, peer) in enumerate(PEERS.items())
                ]
                print(row(f"{count:,}", f"{ours:.1f}", f"{bare:.1f}", *beside), flush=True)
        finally:
            server.stop("immediate")


if __name__ == "__main__":
    main([int(n) for n in sys.argv[1:]] or list(COUNTS))

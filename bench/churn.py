"""Claims while an old snapshot holds vacuum back: `python -m bench.churn [COUNT…]` prints a table.

One process claims, renews and finishes items one at a time, with its front and without, after so many items
have come and gone. Those are written by SQL, four versions each; the claims are Interlock's own.
"""

from __future__ import annotations

import math
import statistics
import sys
import tempfile
import time
from pathlib import Path

import psycopg

from interlock.core.model import NewItem
from interlock.service.contract import Report
from interlock.service.local import LocalService
from interlock.store.postgres.claims import SLOW_US
from interlock.store.postgres.database import Database
from interlock.store.postgres.store import PostgresStore
from interlock.testing.postgres import PostgresServer, short_tempdir

_CHURN = Path(__file__).parent / "sql" / "postgres" / "churn.sql"
COUNTS = (1_000, 200_000, 1_000_000)
ROUNDS = 200


def measured(store: PostgresStore, slow_us: float) -> tuple[float, float]:
    """Items a second, and the median of a claim in milliseconds."""
    store.claims.slow_us = slow_us  # type: ignore[assignment]
    store.claims._fronts.clear()
    service = LocalService(store)
    service.add([NewItem(title="work") for _ in range(ROUNDS + 1)])
    service.done([Report(run=lease.run) for lease in service.next("coder")])
    took, begun_s = [], time.perf_counter()
    for _ in range(ROUNDS):
        claim_s = time.perf_counter()
        leases = service.next("coder")
        took.append(time.perf_counter() - claim_s)
        reports = [Report(run=lease.run) for lease in leases]
        service.renew(reports)
        service.done(reports)
    return ROUNDS / (time.perf_counter() - begun_s), statistics.median(took) * 1e3


def row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def main(counts: list[int]) -> None:
    with tempfile.TemporaryDirectory(dir=short_tempdir()) as folder:
        Path(folder).chmod(0o755)
        server = PostgresServer(18, Path(folder, "pg"), fsync=True)
        server.start()
        try:
            print(row("came and went", "items/s", "without a front", "median claim, ms", "without a front"))
            print(row(*["---"] * 5))
            for count in counts:
                url = server.create_database(f"of_{count}")
                store = PostgresStore(Database(url))
                with psycopg.connect(url) as pin:
                    pin.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                    pin.execute("SELECT 1")
                    text = _CHURN.read_text("utf-8").replace("{count}", str(count)).strip()
                    with psycopg.connect(url, autocommit=True, options="-c search_path=interlock") as conn:
                        for statement in text.split(";"):
                            conn.execute(statement.encode())
                    bare, ours = measured(store, math.inf), measured(store, SLOW_US)
                store.close()
                rates = (f"{rate:.0f}" for rate, _ in (ours, bare))
                medians = (f"{ms:.1f}" for _, ms in (ours, bare))
                print(row(f"{count:,}", *rates, *medians), flush=True)
        finally:
            server.stop("immediate")


if __name__ == "__main__":
    main([int(n) for n in sys.argv[1:]] or list(COUNTS))

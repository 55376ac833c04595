"""What an arrival, a claim, a renewal and a finish cost, in units that are the same on every machine.

| unit | PostgreSQL | SQLite |
|---|---|---|
| `round_trips` | answers of the server, counted on the wire | none: the database is in the process |
| `statements` | statements that the server completed | statements that ran, one for each row of a batch |
| `rows_written` | rows inserted, updated and deleted, also by triggers | the same |
| `wal_bytes` | how far the log of the server moved | |
| `wal_pages` | | pages that were written to the log |
| `buffers` | pages of tables, indexes and sequences of ours that were asked for | pages that were asked for |
| `plan_nodes` | nodes in the plans of all statements that ran | lines of their query plans |
| `python_calls` | calls of functions of the package `interlock` | the same |

Not counted: calls inside of libraries, and comprehensions, which are functions only before Python 3.12. Each
call is measured several times and the least counts: a page split, or whatever else comes between, only adds.
Notices are off: another thread would send them at any moment.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count, starmap
from pathlib import Path
from types import FrameType
from typing import Any, Protocol, TypeVar

import apsw
import psycopg

import interlock
from interlock.core.model import NewItem
from interlock.service.contract import LeaseView, Report
from interlock.service.local import LocalService
from interlock.store.postgres.database import Database
from interlock.store.postgres.statement import Statement, StatementConnection
from interlock.store.postgres.store import PostgresStore
from interlock.store.sqlite.store import SqliteStore
from tests.postgres_server import PostgresServer
from tests.wire import CountingWire

Cost = dict[str, int]
#: What each call of each shape costs.
Costs = dict[str, dict[str, Cost]]
Shapes = Mapping[str, Callable[["Round"], None]]
T = TypeVar("T")

#: Until the driver has prepared every statement and the server keeps their plans.
WARM_UP = 12
#: Longer than the measurement, so that no claim has to sweep.
LEASE_S = 3_600.0
#: A server of its own writes nothing that it was not asked to.
SERVER = {"autovacuum": "off", "checkpoint_timeout": "1h", "max_wal_size": "4GB"}

_OURS = f"{Path(interlock.__file__).parent}{os.sep}"
#: A page in the log of SQLite, with its header.
_FRAME_BYTES = 4096 + 24
_INLINED = frozenset({"<listcomp>", "<dictcomp>", "<setcomp>"})
_ROWS_AND_BUFFERS = """
    SELECT (SELECT sum(n_tup_ins + n_tup_upd + n_tup_del) FROM pg_stat_user_tables),
        (SELECT sum(heap_blks_read + heap_blks_hit + coalesce(idx_blks_read + idx_blks_hit, 0)
            + coalesce(toast_blks_read + toast_blks_hit + tidx_blks_read + tidx_blks_hit, 0))
            FROM pg_statio_user_tables)
        + (SELECT sum(blks_read + blks_hit) FROM pg_statio_user_sequences)
"""


class Meter(Protocol):
    """A service on one database, and what calls of it cost."""

    service: LocalService
    #: How often each call is measured.
    times: int

    def cost(self, work: Callable[[], T]) -> tuple[T, Cost]:
        """What `work` gives, and its cost."""

    def settle(self) -> None:
        """Bring the database into the state in which it is some time after it was filled."""


# -- the shapes of work ---------------------------------------------------------------------------


class Round:
    """One pass of a shape and, with a meter, what its calls cost."""

    def __init__(self, service: LocalService, meter: Meter | None = None) -> None:
        self.service = service
        self._meter = meter
        self.costs: dict[str, Cost] = {}

    def measured(self, call: str, work: Callable[[], T]) -> T:
        if self._meter is None:
            return work()
        done, self.costs[call] = self._meter.cost(work)
        return done

    def add(self, items: int = 1, **fields: Any) -> None:
        views = self.service.add([NewItem(title="work", agent="coder", **fields) for _ in range(items)])
        assert len(views) == items

    def claim(self, items: int = 1, agent: str = "coder") -> list[LeaseView]:
        leases = self.service.next(agent, limit=items, lease_s=LEASE_S)
        assert len(leases) == items
        return leases

    def renew(self, leases: list[LeaseView]) -> None:
        assert not any(view.refusal for view in self.service.renew(_reports(leases)))

    def finish(self, leases: list[LeaseView]) -> None:
        assert not any(view.refusal for view in self.service.done(_reports(leases)))


def _reports(leases: list[LeaseView]) -> list[Report]:
    return [Report(run=lease.run) for lease in leases]


def _plain(work: Round, items: int = 1) -> None:
    work.measured("arrival", partial(work.add, items))
    leases = work.measured("claim", partial(work.claim, items))
    work.measured("finish", partial(work.finish, leases))


def _renewed(work: Round, items: int = 1) -> None:
    work.add(items)
    leases = work.claim(items)
    for _ in range(2):
        work.renew(leases)
    work.measured("renewal", partial(work.renew, leases))
    work.measured("finish", partial(work.finish, leases))


def _on_a_lane(work: Round) -> None:
    """The successor arrives while the owner runs, and the owner's finish promotes it."""
    lane = f"issue:acme/app#{next(_NUMBERS):06}"
    work.add(lane=lane)
    leases = work.measured("claim", work.claim)
    work.measured("arrival", partial(work.add, lane=lane))
    work.measured("renewal", partial(work.renew, leases))
    work.measured("finish", partial(work.finish, leases))
    work.finish(work.claim())


def _limited(work: Round) -> None:
    work.service.add([NewItem(title="work", agent="limited")])
    leases = work.measured("claim", partial(work.claim, agent="limited"))
    work.measured("finish", partial(work.finish, leases))


#: By the name under which the budgets are: what is done.
SHAPES: Shapes = {
    "plain": _plain,
    "renewed": _renewed,
    "lane": _on_a_lane,
    "limit": _limited,
    "hundred": partial(_plain, items=100),
    "hundred_renewed": partial(_renewed, items=100),
}
#: They use the statements that the others use.
LARGE = frozenset({"hundred", "hundred_renewed"})
_NUMBERS = count(1)


def prepare(meter: Meter, shapes: Shapes = SHAPES) -> None:
    """Fill the store, and do the work until every statement is prepared."""
    _fill(meter.service)
    for _ in range(WARM_UP):
        _work(meter, shapes)


def measure(meter: Meter, shapes: Shapes = SHAPES, times: int | None = None) -> Costs:
    """The least that each call costs, in a database that has just settled."""
    times = times or meter.times
    rounds = {shape: [Round(meter.service, meter) for _ in range(times)] for shape in shapes}
    for n in range(times):
        meter.settle()
        _work(meter, shapes)  # plans are made anew
        for shape, work in shapes.items():
            work(rounds[shape][n])
    return {shape: _least([each.costs for each in done]) for shape, done in rounds.items()}


def _work(meter: Meter, shapes: Shapes) -> None:
    """Everything once that has statements of its own."""
    for shape, work in shapes.items():
        if shape not in LARGE:
            work(Round(meter.service))


def _least(rounds: list[dict[str, Cost]]) -> dict[str, Cost]:
    first = rounds[0]
    return {
        call: {unit: min(each[call][unit] for each in rounds) for unit in cost}
        for call, cost in first.items()
    }


def _fill(service: LocalService) -> None:
    """Others have ended work, work that is ready, lanes with lines, and runs."""
    past = Round(service)
    for _ in range(10):
        past.add(100)
        past.finish(past.claim(100))
    lanes = [f"issue:acme/other#{n}" for n in range(300)]
    for _ in range(2):
        service.add([NewItem(title="theirs", agent="other", lane=lane) for lane in lanes])
    assert len(service.next("other", limit=10, lease_s=LEASE_S)) == 10
    service.add([NewItem(title="theirs", agent="other", priority=n % 3) for n in range(500)])
    service.set_agent("limited", max_concurrency=100)


# -- the two databases ----------------------------------------------------------------------------


@contextmanager
def _calls() -> Iterator[Counter[str]]:
    """Counts calls of our own functions in this thread."""
    calls: Counter[str] = Counter()

    def profile(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(_OURS) and code.co_name not in _INLINED:
            calls[code.co_qualname] += 1

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        yield calls
    finally:
        sys.setprofile(before)


class _Noted(StatementConnection):
    """A connection that notes which statements it sends."""

    ran: list[Statement]

    def execute(self, query: Any, params: Any = None, **options: Any) -> Any:
        if isinstance(query, Statement):
            self.ran.append(query)
        return super().execute(query, params, **options)


class _NotedDatabase(Database):
    def __init__(self, url: str, ran: list[Statement]) -> None:
        mine: Any = type("Mine", (_Noted,), {"ran": ran})
        self.connection_class = mine
        super().__init__(url, max_connections=1)


class PostgresMeter:
    """Measures on a server that nobody else uses."""

    times = 4

    def __init__(self, wire: CountingWire, watcher: psycopg.Connection[Any]) -> None:
        self._wire, self._watcher = wire, watcher
        self._ran: list[Statement] = []
        self.database = _NotedDatabase(wire.url, self._ran)
        self.database.notify = lambda: None  # type: ignore[method-assign]
        self.store = PostgresStore(self.database)
        self.store.claims.scan_starts.slow_us = 10**12  # after a slow claim the next is another one
        self.service = LocalService(self.store)

    def cost(self, work: Callable[[], T]) -> tuple[T, Cost]:
        rows, buffers = self._counters()
        self._ran.clear()
        place = self._place()
        with self._wire.counted() as counted, _calls() as calls:
            done = work()
        wal_bytes, ran = self._place() - place, list(self._ran)
        rows_after, buffers_after = self._counters()
        return done, {
            "round_trips": counted.round_trips,
            "statements": counted.statements,
            "rows_written": rows_after - rows,
            "wal_bytes": wal_bytes,
            "buffers": buffers_after - buffers,
            "plan_nodes": sum(map(self._nodes, ran)),
            "python_calls": calls.total(),
        }

    def settle(self) -> None:
        self.run("VACUUM ANALYZE")

    def run(self, script: str) -> None:
        """Change the database from outside."""
        self._watcher.execute(script.encode())

    def _counters(self) -> tuple[int, int]:
        with self.database.connection() as conn:
            for session in (conn, self._watcher):  # each counts for itself for up to a second
                session.execute("SELECT pg_stat_force_next_flush()")
        found = self._watcher.execute(_ROWS_AND_BUFFERS).fetchone()
        assert found is not None
        return int(found[0]), int(found[1])

    def _place(self) -> int:
        found = self._watcher.execute("SELECT pg_current_wal_insert_lsn() - '0/0'").fetchone()
        assert found is not None
        return int(found[0])

    def _nodes(self, text: Statement) -> int:
        """Of the plan that the server keeps for any parameters."""
        explained = self._watcher.execute(f"EXPLAIN (GENERIC_PLAN, FORMAT JSON) {text}".encode())
        found = explained.fetchone()
        assert found is not None
        return _count_nodes(found[0][0].get("Plan", {}))


def _count_nodes(plan: Mapping[str, Any]) -> int:
    return 1 + sum(map(_count_nodes, plan.get("Plans", ())))


@contextmanager
def on_postgres(server: PostgresServer, name: str = "costs") -> Iterator[PostgresMeter]:
    """A fresh database on a server that nobody else uses, with the settings of `SERVER`."""
    url = server.create_database(name)
    with ExitStack() as stack:
        wire = stack.enter_context(CountingWire(url))
        watcher = stack.enter_context(psycopg.connect(url, autocommit=True, prepare_threshold=None))
        meter = PostgresMeter(wire, watcher)
        stack.callback(meter.service.close)
        yield meter


class SqliteMeter:
    """Measures on a file that nobody else uses, whose log only grows."""

    times = 8

    def __init__(self, path: Path) -> None:
        self._log = Path(f"{path}-wal")
        self.store = SqliteStore(path)
        self.service = LocalService(self.store)
        self._db.wal_autocheckpoint(0)
        # Random numbers differ in size, and rows would begin elsewhere in their pages.
        bits = count(1 << 62)
        self._db.create_scalar_function("random", lambda *_: next(bits), 0)

    @property
    def _db(self) -> apsw.Connection:
        return self.store.database.db

    def cost(self, work: Callable[[], T]) -> tuple[T, Cost]:
        ran: list[tuple[str, Any]] = []

        def note(_: object, text: str, values: Any) -> bool:
            ran.append((text, values))
            return True

        before, self._db.exec_trace = self._counters(), note
        with _calls() as calls:
            done = work()
        self._db.exec_trace = None
        rows, wal_bytes, buffers = (after - was for after, was in zip(self._counters(), before, strict=True))
        return done, {
            "statements": len(ran),
            "rows_written": rows,
            "wal_pages": wal_bytes // _FRAME_BYTES,
            "buffers": buffers,
            "plan_nodes": sum(starmap(self._nodes, ran)),
            "python_calls": calls.total(),
        }

    def settle(self) -> None:
        """Nobody analyses a store of ours."""

    def run(self, script: str) -> None:
        """Change the database from outside."""
        self._db.execute(script)

    def _counters(self) -> tuple[int, int, int]:
        asked = (apsw.SQLITE_DBSTATUS_CACHE_HIT, apsw.SQLITE_DBSTATUS_CACHE_MISS)
        return (
            self._db.total_changes(),
            self._log.stat().st_size,
            sum(self._db.status(each)[0] for each in asked),
        )

    def _nodes(self, text: str, values: Any) -> int:
        return len(list(self._db.execute(f"EXPLAIN QUERY PLAN {text}", values)))


@contextmanager
def on_sqlite(path: Path) -> Iterator[SqliteMeter]:
    meter = SqliteMeter(path)
    try:
        yield meter
    finally:
        meter.service.close()

"""Everything that is measured, by store. Libraries are imported only when they are used."""

from __future__ import annotations

from bench.subject import Subject
from bench.subjects.bare_postgres import BarePostgres
from bench.subjects.bare_sqlite import BareSqlite
from bench.subjects.huey_subject import Huey
from bench.subjects.interlock_subject import Interlock
from bench.subjects.litequeue_subject import LiteQueue
from bench.subjects.pgqueuer_subject import PgQueuer
from bench.subjects.procrastinate_subject import Procrastinate

POSTGRES: tuple[Subject, ...] = (
    BarePostgres(),
    Interlock(store="postgres"),
    PgQueuer(driver="asyncpg"),
    PgQueuer(driver="asyncpg pool"),
    Procrastinate(),
)
LANES: tuple[Subject, ...] = (Interlock(store="postgres"), Procrastinate(), PgQueuer(driver="asyncpg"))
SQLITE: tuple[Subject, ...] = (
    BareSqlite(),
    Interlock(store="sqlite"),
    LiteQueue(full_sync=True),
    LiteQueue(full_sync=False),
    Huey(),
)

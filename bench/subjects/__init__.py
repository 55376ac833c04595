"""Everything that is measured, by store. Libraries are imported only when they are used."""

from __future__ import annotations

from bench.subject import Subject
from bench.subjects.bare_postgres import BarePostgres
from bench.subjects.bare_sqlite import BareSqlite
from bench.subjects.huey_subject import Huey
from bench.subjects.interlock_subject import Interlock
from bench.subjects.litequeue_subject import LiteQueue
from bench.subjects.narrow_sketch import NarrowSketch
from bench.subjects.pgboss_subject import PgBoss
from bench.subjects.pgqueuer_subject import PgQueuer
from bench.subjects.procrastinate_subject import Procrastinate

INTERLOCK_POSTGRES = Interlock(store="postgres")
INTERLOCK_SQLITE = Interlock(store="sqlite")
#: The same with one renewal of each run, as of any that takes longer than a third of its lease.
RENEWED_POSTGRES = Interlock(store="postgres", renewed=True)
#: The same as workers do it, one by one: each end asks for the next item.
CHAINED_POSTGRES = Interlock(store="postgres", chained=True)
PGBOSS = PgBoss()
PGBOSS_LANES = (PgBoss(lane_by="key_strict_fifo"), PgBoss(lane_by="groupConcurrency"))
PGQUEUERS = (PgQueuer(driver="asyncpg"), PgQueuer(driver="asyncpg pool"))
LITEQUEUES = (LiteQueue(full_sync=True), LiteQueue(full_sync=False))
HUEY = Huey()
SKETCH = NarrowSketch()

POSTGRES: tuple[Subject, ...] = (
    INTERLOCK_POSTGRES,
    RENEWED_POSTGRES,
    BarePostgres(),
    SKETCH,
    PGBOSS,
    *PGQUEUERS,
    Procrastinate(),
)
LANES: tuple[Subject, ...] = (INTERLOCK_POSTGRES, *PGBOSS_LANES, Procrastinate(), PGQUEUERS[0])
SQLITE: tuple[Subject, ...] = (INTERLOCK_SQLITE, BareSqlite(), *LITEQUEUES, HUEY)

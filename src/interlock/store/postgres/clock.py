"""The server's clock, watched by every process that reads it. A step is added to an offset once.

    store's time = server's clock + offset

A process that detects a step locks the clock, so that no run is claimed or renewed meanwhile, and reads it
again. If several processes detect the same step, one corrects it, and the others find a new offset.
"""

from __future__ import annotations

from interlock.core.model import US_PER_S, Event, EventKind
from interlock.core.serverclock import ClockReading, never_was, step_between
from interlock.store.clock import since_boot_us
from interlock.store.postgres.database import Database, only
from interlock.store.postgres.statement import StatementConnection
from interlock.store.rows import event_rows


class ServerClock:
    """This process's knowledge of its database's clock."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._last: ClockReading | None = None

    def stepped(self, clock_us: int, offset_us: int, sent_us: int) -> bool:
        """Whether a reading, requested at that time since boot, shows that the clock was set since the last
        one.

        If so, it must not be used, and `correct` must be called next."""
        if self._database.now is not None:
            return False  # a test's own clock
        reading = ClockReading(clock_us, offset_us, sent_us, since_boot_us())
        if self._last is not None and step_between(self._last, reading):
            return True
        if reading.good:
            self._last = reading
        return False

    def recall(self) -> None:
        """Before the first reading: the latest time in the store was once the clock's time.

        So the first reading shows a step back that no process has seen."""
        if self._last is not None or self._database.now is not None:
            return
        sent_us = since_boot_us()
        ((newest_us, clock_us, offset_us),) = self._database.rows("newest_time")
        if newest_us is not None and newest_us > clock_us:
            self._last = ClockReading(newest_us, offset_us, sent_us, since_boot_us())

    def correct(self) -> None:
        """Add a step to the offset, unless another process has. Every live run gets one grace period."""
        self._last = self._database.persistently(self._correct)

    def _correct(self) -> ClockReading:
        database, last = self._database, self._last
        with database.connection() as conn, database.transaction(conn):
            conn.execute(database.sql["stop_items"])
            offset_us = int(only(conn.execute(database.sql["lock_clock"]).fetchone()))
            sent_us = since_boot_us()
            reading = ClockReading(database.time(conn), offset_us, sent_us, since_boot_us())
            step_us = step_between(last, reading) if last is not None else 0
            if last is not None and step_us > 0 and self._was_passed(conn, last, reading):
                step_us = 0
            reading = reading._replace(clock_us=reading.clock_us - step_us, offset_us=offset_us - step_us)
            if step_us:
                self._shift(conn, step_us, reading.clock_us)
        return reading

    def _was_passed(self, conn: StatementConnection, first: ClockReading, second: ClockReading) -> bool:
        since_us, until_us = never_was(first, second)
        params = {"since_us": since_us, "until_us": until_us}
        return bool(only(conn.execute(self._database.sql["was_passed"], params).fetchone()))

    def _shift(self, conn: StatementConnection, step_us: int, now_us: int) -> None:
        sql = self._database.sql
        params = {"now_us": now_us, "step_us": step_us}
        conn.execute(sql["shift_clock"], params)
        if step_us > 0:
            conn.execute(sql["recall_deadlines"], params)
            conn.execute(sql["recall_edits"], params)
            conn.execute(sql["recall_agents"], params)
        conn.execute(sql["spare_runs"], params)
        data = {"step_s": round(step_us / US_PER_S, 3), "mercy": True}
        event = Event(kind=EventKind.CLOCK_STEPPED, at_us=now_us, data=data)
        conn.execute(sql["insert_events"], {"now_us": None, "rows": event_rows([event])})

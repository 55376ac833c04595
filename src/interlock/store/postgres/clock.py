"""The server's clock, watched by every process that reads it; a step is taken into an offset, once.

    store's time = server's clock + offset

Whoever notices a step locks the clock, so that nobody claims or renews meanwhile, reads it again and judges
again. Of many that notice the same step one finds it, and the others find another offset.
"""

from __future__ import annotations

from interlock.core.model import US_PER_S, Event, EventKind
from interlock.core.serverclock import Reading, never_was, step_between
from interlock.store.clock import since_boot_us
from interlock.store.postgres.database import Database, only
from interlock.store.postgres.statement import Connection
from interlock.store.postgres.transactions import EVENT_WIDTH
from interlock.store.rows import columns, event_row


class ServerClock:
    """What this process knows of the clock of its database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._last: Reading | None = None

    def stepped(self, clock_us: int, offset_us: int, sent_us: int) -> bool:
        """Whether a reading, asked for at that time since boot, shows that the clock was set since the last.

        If so it must not be used, and `correct` comes next."""
        if self._database.now is not None:
            return False  # a test's own clock
        reading = Reading(clock_us, offset_us, sent_us, since_boot_us())
        if self._last is not None and step_between(self._last, reading):
            return True
        if reading.good:
            self._last = reading
        return False

    def recall(self) -> None:
        """Before the first reading: the clock was once at the latest time that is written in the store.

        So a step back that no process has seen shows in the first reading."""
        if self._last is not None or self._database.now is not None:
            return
        sent_us = since_boot_us()
        ((newest_us, clock_us, offset_us),) = self._database.rows("newest_time")
        if newest_us is not None and newest_us > clock_us:
            self._last = Reading(newest_us, offset_us, sent_us, since_boot_us())

    def correct(self) -> None:
        """Take a step into the offset, unless somebody has done it. Every live run gets one span of mercy."""
        self._last = self._database.persistently(self._correct)

    def _correct(self) -> Reading:
        database, last = self._database, self._last
        with database.connection() as conn, database.transaction(conn):
            conn.execute(database.sql["stop_items"])
            offset_us = int(only(conn.execute(database.sql["lock_clock"]).fetchone()))
            sent_us = since_boot_us()
            reading = Reading(database.time(conn), offset_us, sent_us, since_boot_us())
            step_us = step_between(last, reading) if last is not None else 0
            if last is not None and step_us > 0 and self._was_passed(conn, last, reading):
                step_us = 0
            reading = reading._replace(clock_us=reading.clock_us - step_us, offset_us=offset_us - step_us)
            if step_us:
                self._shift(conn, step_us, reading.clock_us)
        return reading

    def _was_passed(self, conn: Connection, first: Reading, second: Reading) -> bool:
        since_us, until_us = never_was(first, second)
        params = {"since_us": since_us, "until_us": until_us}
        return bool(only(conn.execute(self._database.sql["was_passed"], params).fetchone()))

    def _shift(self, conn: Connection, step_us: int, now_us: int) -> None:
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
        conn.execute(sql["insert_events"], (None, *columns([event_row(event)[1:]], EVENT_WIDTH - 2)))

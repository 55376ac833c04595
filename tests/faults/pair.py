"""Two PostgreSQL servers that take turns as primary, under addresses that never change."""

from __future__ import annotations

from typing import Any

import psycopg

from tests.faults.processes import wait_until
from tests.postgres_server import PORT, SUPERUSER, PostgresServer


class Pair:
    """Two servers in two places. At any time one is the primary, and the other streams from it or is dead."""

    def __init__(self, primary: PostgresServer, database: str, *, synchronous: bool = True) -> None:
        self.primary = primary
        self.database = database
        self._synchronous = synchronous
        primary.create_database(database)
        place = primary.datadir.with_name(f"{primary.datadir.name}-other")
        self.standby = primary.start_standby(place)
        self._hosts = ",".join(str(server.datadir) for server in (primary, self.standby))
        self._moved = place.with_name(f"{place.name}-address")
        self._follow()

    @property
    def url(self) -> str:
        """Both hosts, in an order that does not change: clients use the one that takes writes."""
        return (
            f"postgresql://{SUPERUSER}@/{self.database}?host={self._hosts}&port={PORT},{PORT}"
            "&target_session_attrs=read-write"
        )

    @property
    def moved_url(self) -> str:
        """One address, which leads to the primary of the day."""
        return f"postgresql://{SUPERUSER}@/{self.database}?host={self._moved}&port={PORT}"

    def ask(self, statement: str, *, of: PostgresServer | None = None) -> list[tuple[Any, ...]]:
        with psycopg.connect((of or self.primary).url(self.database), autocommit=True) as conn:
            cursor = conn.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def lose_contact(self) -> None:
        """Return when the standby has what was committed until now, and gets no more."""
        lsn = self.ask("SELECT pg_current_wal_lsn()")[0][0]
        wait_until(
            lambda: self.ask(f"SELECT pg_last_wal_replay_lsn() >= '{lsn}'", of=self.standby)[0][0],
            "the standby has caught up",
        )
        self.ask("ALTER SYSTEM SET primary_conninfo = ''", of=self.standby)
        self.ask("SELECT pg_reload_conf()", of=self.standby)
        receivers = "SELECT count(*) FROM pg_stat_wal_receiver"
        wait_until(lambda: self.ask(receivers, of=self.standby) == [(0,)], "nothing is streamed")

    def fail_over(self) -> None:
        """The primary dies and the standby takes its place. Until `rebuild` it has no standby."""
        self.primary.stop("immediate")
        self.standby.promote()
        self.primary, self.standby = self.standby, self.primary
        self._lead_here()

    def rebuild(self) -> None:
        """Make a new standby in the place of the server that died."""
        place = self.standby.datadir
        self.standby.remove()
        self.primary.change(synchronous_standby_names="")  # it must not wait for one that is not there yet
        self.standby = self.primary.start_standby(place)
        self._follow()

    def _follow(self) -> None:
        self._lead_here()
        if self._synchronous:
            self.primary.change(synchronous_standby_names="*")
        state = "sync" if self._synchronous else "async"
        streams = f"SELECT count(*) FROM pg_stat_replication WHERE sync_state = '{state}'"
        wait_until(lambda: self.ask(streams) == [(1,)], f"the standby streams: {state}")

    def _lead_here(self) -> None:
        address = self._moved.with_suffix(".new")
        address.unlink(missing_ok=True)
        address.symlink_to(self.primary.datadir)
        address.rename(self._moved)

    def remove(self) -> None:
        for server in (self.primary, self.standby):
            server.remove()
        self._moved.unlink(missing_ok=True)

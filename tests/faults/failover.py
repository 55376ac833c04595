"""A primary and its standby, and processes that work on whichever of them takes writes.

The pair is reached by a URL of two hosts, or by one address that is moved at each failover.
"""

from __future__ import annotations

import random
import time
from multiprocessing.connection import Connection
from pathlib import Path

import psycopg

from interlock.core.model import NewItem
from interlock.service.contract import Report
from interlock.testing.postgres import PORT, SUPERUSER, PostgresServer
from tests.faults.processes import wait_until
from tests.faults.stores import open_service
from tests.faults.traffic import LANES, TROUBLE, Journal

DATABASE = "failover"


class Pair:
    """Two servers in two places. At any time one is the primary, and the other streams from it or is dead."""

    def __init__(self, primary: PostgresServer, place: Path, *, synchronous: bool = False) -> None:
        self.primary = primary
        self._synchronous = synchronous
        primary.create_database(DATABASE)
        self.standby = primary.start_standby(place)
        self._hosts = sorted(str(server.datadir) for server in (primary, self.standby))
        self._moved = place.with_name(f"{place.name}-address")
        self._follow()

    @property
    def url(self) -> str:
        """Both hosts, in an order that does not change."""
        return (
            f"postgresql://{SUPERUSER}@/{DATABASE}?host={','.join(self._hosts)}&port={PORT},{PORT}"
            "&target_session_attrs=read-write"
        )

    @property
    def moved_url(self) -> str:
        """One address, which leads to the primary of the day."""
        return f"postgresql://{SUPERUSER}@/{DATABASE}?host={self._moved}&port={PORT}"

    def ask(self, statement: str, *, of: PostgresServer | None = None) -> list[tuple[object, ...]]:
        with psycopg.connect((of or self.primary).url(DATABASE), autocommit=True) as conn:
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
        """The primary dies, and the standby takes its place."""
        self.primary.stop("immediate")
        self.standby.promote()
        self.primary, self.standby = self.standby, self.primary
        self._lead_here()

    def mend(self) -> None:
        """Make a new standby in the place of the dead server."""
        place = self.standby.datadir
        self.standby.remove()
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
        self.standby.remove()
        self._moved.unlink(missing_ok=True)


def work(talk: Connection, url: str, folder: Path, agent: str, seed: int) -> None:
    """Add, claim and finish until told to stop, and write down what was acknowledged, and when."""
    dice, journal, service = random.Random(seed), Journal(folder), open_service(url)
    while not talk.poll():
        asked = time.monotonic_ns()
        try:
            new = [NewItem(title="work", lane=dice.choice([*LANES, None])) for _ in range(3)]
            added = service.add(new)
            for view in added:
                journal.note("added", view.item and view.item.id, time.monotonic_ns())
            leases = service.next(agent, limit=2)
            now = time.monotonic_ns()
            for lease in leases:
                journal.note("claimed", lease.run, lease.fence, lease.item.id, lease.item.lane, asked, now)
            for ended in service.done([Report(run=lease.run) for lease in leases if dice.random() < 0.9]):
                if ended.refusal is None:
                    journal.note("done", ended.run, time.monotonic_ns())
        except TROUBLE:
            journal.note("trouble")
    service.close()

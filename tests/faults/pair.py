"""Two PostgreSQL servers that take turns as primary, under one address that never changes."""

from __future__ import annotations

import shutil
from urllib.parse import quote

from interlock.testing.postgres import PORT, PostgresServer


class Pair:
    """A primary and a synchronous standby. Clients know both, and use the one that takes writes."""

    def __init__(self, primary: PostgresServer, database: str) -> None:
        primary.create_database(database)
        self.primary = primary
        self.database = database
        self._other = primary.datadir.with_name(f"{primary.datadir.name}-other")
        self.standby = self._follow()
        hosts = ",".join(quote(str(s.datadir), safe="") for s in (self.primary, self.standby))
        self.url = f"postgresql://postgres@/{database}?host={hosts}&port={PORT},{PORT}&target_session_attrs=read-write"

    def fail_over(self) -> None:
        """The primary dies and the standby takes its place. Until `rebuild` it has no standby."""
        self.primary.stop("immediate")
        self.standby.promote()
        self._other, self.primary = self.primary.datadir, self.standby

    def rebuild(self) -> None:
        """Make a new standby in the place of the primary that died."""
        shutil.rmtree(self._other)
        self.standby = self._follow()

    def _follow(self) -> PostgresServer:
        self.primary.change(synchronous_standby_names="")  # it must not wait for one that is not there yet
        standby = self.primary.start_standby(self._other)
        self.primary.change(synchronous_standby_names="*")
        return standby

    def remove(self) -> None:
        for server in (self.primary, self.standby):
            server.remove()

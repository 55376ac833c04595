"""Databases with a past and a backlog, filled by SQL: a million arrivals would take minutes."""

from __future__ import annotations

from dataclasses import dataclass

import psycopg

from bench.databases import clear, interlock_at, sqlite_at
from bench.statements import statement
from bench.subject import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """What stands in a database before claims are timed, in order of arrival."""

    name: str
    finished: int = 0
    #: Ready items that name another agent and came first.
    for_others: int = 0
    #: Lanes of another agent, each with an owner that is ready and one item behind it.
    lanes: int = 0
    #: Ready items for anyone.
    pending: int

    def make(self, store: Store, url: str) -> None:
        """Fill an empty database, and leave it as a live one is: vacuumed, analysed, checkpointed."""
        clear(store, url)
        with interlock_at(store, url):
            pass
        steps = self._steps()
        if store == "postgres":
            with psycopg.connect(url, autocommit=True) as server:
                for name, parameters in steps:
                    server.execute(statement(store, name), parameters)
                server.execute("VACUUM ANALYZE")
                server.execute("CHECKPOINT")
        else:
            with sqlite_at(url) as file:
                file.execute("PRAGMA synchronous = OFF")
                for name, parameters in steps:
                    file.execute(statement(store, name), parameters)
                file.execute("PRAGMA synchronous = FULL; PRAGMA wal_checkpoint(TRUNCATE)")

    def _steps(self) -> list[tuple[str, dict[str, int | str]]]:
        steps: list[tuple[str, dict[str, int | str]]] = []
        last = 0
        if self.finished:
            steps += [("finished", {"first": 1, "last": self.finished})]
            steps += [("finished_runs", {}), ("finished_events", {})]
            last = self.finished
        if self.lanes:
            lines: dict[str, int | str] = {"first": last + 1, "last": last + 2 * self.lanes}
            steps += [("lanes", lines), ("lines", lines)]
            last += 2 * self.lanes
        for agent, count in (("somebody-else", self.for_others), ("", self.pending)):
            if count:
                steps.append(("pending", {"first": last + 1, "last": last + count, "agent": agent}))
                last += count
        return [*steps, ("count_on", {"last": last})]


def give_back(store: Store, url: str) -> None:
    """Make all claimed items ready again."""
    if store == "postgres":
        with psycopg.connect(url, autocommit=True) as server:
            server.execute(statement(store, "give_back"))
    else:
        with sqlite_at(url) as file:
            file.execute(statement(store, "give_back"))

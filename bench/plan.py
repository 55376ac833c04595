"""How much is measured, how often, and where."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bench.rounds import Say


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One run of the benchmark."""

    postgres_url: str
    directory: Path
    rounds: int
    warm_up: bool
    #: Items in a plain drain on PostgreSQL, on lanes, and on SQLite.
    drain_n: int
    lanes_n: int
    sqlite_n: int
    #: A drain stops after this time; a slow subject's rate then counts what it finished.
    limit_s: float
    #: The greatest backlog when the cost of a claim is measured.
    backlog_n: int
    say: Say

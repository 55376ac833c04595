"""How much is measured, how often, and where."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.rounds import Rounds


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One run of the benchmark."""

    #: Makes an empty database and answers its url.
    new_database: Callable[[str], str]
    #: The database that drains use in turn.
    postgres_url: str
    #: Processor time that the PostgreSQL server has used up to now.
    server_cpu_s: Callable[[], float]
    directory: Path
    rounds: Rounds
    #: Items in a plain drain on PostgreSQL, on lanes, and on SQLite.
    drain_n: int
    lanes_n: int
    sqlite_n: int
    #: A drain stops after this time; a slow subject's rate then counts what it finished.
    limit_s: float
    #: How many items a plain drain claims at once, and on how many lanes there is work.
    batches: tuple[int, ...] = (500, 100, 1)
    lane_counts: tuple[int, ...] = (300, 30, 3)
    #: The greatest backlog when the cost of a claim is measured, and how often a claim is timed.
    backlog_n: int
    claims_n: int
    #: Items in the stores on which every use case is timed, and how often.
    cost_sizes: tuple[int, ...]
    costs_n: int
    #: How often a waiting claim is woken, and how often a command is started.
    wakes_n: int
    commands_n: int
    #: How often each kind of lock is taken and given back.
    locks_n: int
    #: Tasks of small, middle and large plans, and how often each kind of edit is timed.
    plan_sizes: tuple[int, int, int]
    edits_n: int
    #: How long each rate of a server is measured, and how many clients, or claims that wait, in how many
    #: processes there are.
    server_s: float
    clients: int = 64
    waiting: int = 200
    processes: int = 4
    #: How many live agents one server is tried with, at most and more at each step, and how often they renew.
    agents_max: int = 6_000
    agents_step: int = 1_000
    heartbeat_s: float = 20.0

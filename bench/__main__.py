"""`python -m bench [names] [--quick] [--json FILE] [--markdown FILE]`: measure, print, keep."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from bench import machine, report
from bench.figure import Figure
from bench.figures import (
    claims,
    command,
    costs,
    dashboard,
    deliveries,
    drains,
    live_agents,
    locks,
    memory,
    plans,
    requests,
    server,
    start,
    trips,
    wakes,
    worker_latency,
    writes,
)
from bench.plan import Plan
from bench.report import Made
from bench.rounds import Rounds, Say
from tests.postgres_server import PostgresServer

FIGURES: dict[str, Callable[[Plan], list[Figure]]] = {
    "plain": drains.plain,
    "lanes": drains.lanes,
    "sqlite": drains.sqlite,
    "claims": claims.claims,
    "costs": costs.costs,
    "wakes": wakes.wakes,
    "command": command.command,
    "worker": worker_latency.worker_latency,
    "locks": locks.locks,
    "plans": plans.plans,
    "trips": trips.trips,
    "start": start.start,
    "deliveries": deliveries.deliveries,
    "requests": requests.requests,
    "server": server.server,
    "memory": memory.memory,
    "agents": live_agents.agents,
    "writes": writes.writes,
    "dashboard": dashboard.dashboard,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"figures to measure: {', '.join(FIGURES)}")
    parser.add_argument("--quick", action="store_true", help="one round of little: to see that all works")
    parser.add_argument("--rounds", type=int, default=None)
    parser.add_argument("--postgres", type=int, default=18, choices=(16, 18), help="major version")
    parser.add_argument("--json", type=Path, help="write the figures there")
    parser.add_argument(
        "--markdown",
        type=Path,
        help="write the tables there; a page with the markers keeps its other figures",
    )
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in FIGURES]
    if unknown:
        parser.error(f"no such figure: {', '.join(unknown)}; there are {', '.join(FIGURES)}")

    progress = Console(stderr=True, highlight=False)
    begun_s = time.monotonic()

    def say(text: str) -> None:
        progress.print(f"{time.monotonic() - begun_s:6.1f} s  {text}")

    with (
        PostgresServer(version=arguments.postgres, fsync=True) as server,
        tempfile.TemporaryDirectory(prefix="interlock-bench-") as directory,
    ):
        plan = make_plan(server, Path(directory), quick=arguments.quick, rounds=arguments.rounds, say=say)
        description = machine.describe(plan.postgres_url)
        made = Made(on=machine.today(), trust=machine.trust(quick=arguments.quick))
        figures: list[Figure] = []
        try:
            for name in arguments.names or FIGURES:
                for figure in FIGURES[name](plan):
                    figure.command = name
                    figures.append(figure)
        finally:  # what was measured before a failure is not lost
            report.show(Console(), description | {"measured": f"{made.on}{made.trust}"}, figures)
            if arguments.json:
                report.write_json(
                    arguments.json, description | {"measured": f"{made.on}{made.trust}"}, figures
                )
            if arguments.markdown:
                report.write_markdown(arguments.markdown, description, made, figures)
    return 0


def make_plan(server: PostgresServer, directory: Path, *, quick: bool, rounds: int | None, say: Say) -> Plan:
    postmaster = int((server.datadir / "postmaster.pid").read_text().splitlines()[0])
    return Plan(
        new_database=server.create_database,
        postgres_url=server.create_database("bench"),
        server_cpu_s=lambda: machine.cpu_s_of_tree(postmaster),
        directory=directory,
        rounds=Rounds(count=rounds or (1 if quick else 5), warm_up=not quick, say=say),
        drain_n=2_000 if quick else 60_000,
        lanes_n=600 if quick else 18_000,
        sqlite_n=500 if quick else 5_000,
        limit_s=2 if quick else 5,
        backlog_n=10_000 if quick else 1_000_000,
        claims_n=10 if quick else 100,
        cost_sizes=(1_000, 100_000) if quick else (1_000, 100_000, 1_000_000),
        costs_n=10 if quick else 25,
        wakes_n=20 if quick else 250,
        commands_n=3 if quick else 25,
        locks_n=20 if quick else 1_000,
        plan_sizes=(100, 200, 400) if quick else (100, 1_000, 10_000),
        edits_n=2 if quick else 40,
        server_s=2 if quick else 10,
        agents_max=200 if quick else 6_000,
        agents_step=100 if quick else 1_000,
        heartbeat_s=5.0 if quick else 20.0,
    )


if __name__ == "__main__":
    sys.exit(main())

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
from bench.figures import plain
from bench.plan import Plan
from bench.rounds import Figure, Say
from interlock.testing.postgres import PostgresServer

FIGURES: dict[str, Callable[[Plan], list[Figure]]] = {
    "plain": plain.plain,
    "lanes": plain.lanes,
    "sqlite": plain.sqlite,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"figures to measure: {', '.join(FIGURES)}")
    parser.add_argument("--quick", action="store_true", help="one round of little: to see that all works")
    parser.add_argument("--rounds", type=int, default=None)
    parser.add_argument("--postgres", type=int, default=18, choices=(16, 18), help="major version")
    parser.add_argument("--json", type=Path, help="write the figures there")
    parser.add_argument("--markdown", type=Path, help="write the tables there")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in FIGURES]
    if unknown:
        parser.error(f"no such figure: {', '.join(unknown)}; there are {', '.join(FIGURES)}")

    console = Console()
    progress = Console(stderr=True, highlight=False)
    begun_s = time.monotonic()

    def say(text: str) -> None:
        progress.print(f"{time.monotonic() - begun_s:6.1f} s  {text}")

    with (
        PostgresServer(version=arguments.postgres, fsync=True) as server,
        tempfile.TemporaryDirectory(prefix="interlock-bench-") as directory,
    ):
        url = server.create_database("bench")
        plan = make_plan(url, Path(directory), quick=arguments.quick, rounds=arguments.rounds, say=say)
        description = machine.describe(url)
        figures = [figure for name in arguments.names or FIGURES for figure in FIGURES[name](plan)]
    report.show(console, description, figures)
    if arguments.json:
        report.write_json(arguments.json, description, figures)
    if arguments.markdown:
        arguments.markdown.write_text(report.markdown(description, figures), encoding="utf-8")
    return 0


def make_plan(url: str, directory: Path, *, quick: bool, rounds: int | None, say: Say) -> Plan:
    return Plan(
        postgres_url=url,
        directory=directory,
        rounds=rounds or (1 if quick else 3),
        warm_up=not quick,
        drain_n=2_000 if quick else 20_000,
        lanes_n=600 if quick else 3_000,
        sqlite_n=500 if quick else 3_000,
        limit_s=2 if quick else 8,
        backlog_n=10_000 if quick else 1_000_000,
        say=say,
    )


if __name__ == "__main__":
    sys.exit(main())

"""F: how long a person waits for the command."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from bench.databases import clear, interlock_at
from bench.figure import Figure, Sample, Target
from bench.plan import Plan
from bench.rounds import Rounds
from bench.subject import NotAvailable
from interlock.core.model import NewItem
from interlock.service.contract import Report

SHOW = "interlock show ITEM"
PYTHON = "python -c pass"
HOLD = "interlock hold LANE -- true"
SHOW_MAX_MS = 250
HOLD_MAX_MS = 300


def command(plan: Plan) -> list[Figure]:
    """F. One command from a shell, on SQLite."""
    plan.rounds.say("commands")
    url = str(plan.directory / "command.db")
    item = make_item(url)
    installed = str(Path(sys.executable).with_name("interlock"))
    environment = {**os.environ, "INTERLOCK_URL": f"sqlite:///{url}"}

    def timed(*words: str) -> Callable[[], Sample]:
        return lambda: time_command(words, environment, plan.directory)

    quiet = Rounds(count=plan.commands_n, warm_up=True, say=lambda _: None)
    rows = quiet.interleave(
        {
            PYTHON: timed(sys.executable, "-c", "pass"),
            "interlock --version": timed(installed, "--version"),
            SHOW: timed(installed, "show", str(item)),
            HOLD: timed(installed, "hold", "issue:acme/app#1", "--", "true"),
        }
    )
    title = f"F. Commands on SQLite, {plan.commands_n} runs each"
    figure = Figure(name="command", title=title, unit="ms", rows=rows, base=PYTHON)
    figure.targets = [
        Target.at_most(f"F, {SHOW}: p50", figure.median(SHOW), SHOW_MAX_MS, "ms"),
        Target.at_most(f"F, {HOLD}: p50", figure.median(HOLD), HOLD_MAX_MS, "ms"),
    ]
    return [figure]


def make_item(url: str) -> int:
    """An item with a past: added, claimed, done."""
    clear("sqlite", url)
    with interlock_at("sqlite", url) as service:
        added = service.add([NewItem(title="a page to write", payload='{"page": 1}')])[0]
        leases = service.next("coder")
        service.done([Report(run=lease.run) for lease in leases])
    assert added.item is not None
    return added.item.id


def time_command(words: tuple[str, ...], environment: dict[str, str], directory: Path) -> Sample:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun_s = time.perf_counter()
    try:
        done = subprocess.run(
            words, env=environment, cwd=directory, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        raise NotAvailable("the command is not installed beside this Python") from None
    span_s = time.perf_counter() - begun_s
    assert done.returncode == 0, done.stderr
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Sample(value=1_000 * span_s, note=f"{1_000 * cpu_s:.0f} ms of processor time in the last run")

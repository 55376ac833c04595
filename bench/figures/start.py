"""N: the processor time of the commands that agents call around every use of a tool."""

from __future__ import annotations

import os
import pty
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from bench.databases import clear, interlock_at
from bench.figure import Figure, Sample, Target
from bench.figures.server import up
from bench.plan import Plan
from bench.rounds import Rounds
from interlock.core.model import NewItem

PYTHON = "python -c pass"
TYPER, RICH = "python -c 'import typer'", "python -c 'import rich.console, rich.table'"
HOOK, HOOK_LOOKS = "hook, soon after another", "hook that asks the store"
SHOW, SHOW_PIPE, SHOW_TERMINAL = "show --json", "show into a pipe", "show on a terminal"
NEXT, RENEW, DONE = "next --json", "renew --json", "done --json"
DONE_TERMINAL = "done on a terminal"
#: Ratios to PYTHON.
BOUNDS = {HOOK: 5, SHOW: 8, NEXT: 8, DONE: 8, RENEW: 8, SHOW_TERMINAL: 10, DONE_TERMINAL: 10}
EVENT = '{"hook_event_name": "PreToolUse", "tool_name": "Read", "tool_input": {}}'
LEASE_S = 3_600.0


def start(plan: Plan) -> list[Figure]:
    """N. Each command in a process of its own, on SQLite and behind a server, its modules compiled before."""
    plan.rounds.say("start-up")
    url = str(plan.directory / "start.db")
    handles = _claim(url, 4 * (plan.commands_n + 3))
    figures = [_figure(plan, "start", "SQLite", {"INTERLOCK_URL": f"sqlite:///{url}"}, handles)]
    with up(plan.directory, "sqlite", url) as (address, token):
        remote = {"INTERLOCK_URL": address, "INTERLOCK_TOKEN": token}
        figures.append(_figure(plan, "start-server", "a server", remote, handles))
    return figures


def _figure(plan: Plan, name: str, where: str, store: dict[str, str], handles: Iterator[str]) -> Figure:
    runs = plan.commands_n
    kept = next(handles)
    # Without this a machine whose Python writes no bytecode would compile all our modules at each start.
    dropped = {"PYTHONDONTWRITEBYTECODE", "INTERLOCK_RUN"}
    environment = {name: value for name, value in os.environ.items() if name not in dropped}
    environment |= store
    of_run = {**environment, "INTERLOCK_RUN": kept}
    installed = str(Path(sys.executable).with_name("interlock"))
    memories = plan.directory / ".interlock" / "hooks"

    def python(code: str) -> Callable[[], Sample]:
        return lambda: _run([sys.executable, "-c", code], environment, plan.directory)

    def command(*words: str, terminal: bool = False) -> Callable[[], Sample]:
        return lambda: _run([installed, *words], environment, plan.directory, terminal=terminal)

    def done(*, terminal: bool) -> Callable[[], Sample]:
        words = [installed, "done"] if terminal else [installed, "--json", "done"]
        return lambda: _run([*words, next(handles)], environment, plan.directory, terminal=terminal)

    def hook(*, forgotten: bool) -> Sample:
        for memory in memories.glob("*") if forgotten else ():
            memory.unlink()
        return _run([installed, "hook"], of_run, plan.directory, stdin=EVENT)

    quiet = Rounds(count=runs, warm_up=True, say=lambda _: None)
    rows = quiet.interleave(
        {
            PYTHON: python("pass"),
            HOOK_LOOKS: lambda: hook(forgotten=True),
            HOOK: lambda: hook(forgotten=False),
            SHOW: command("--json", "show", "1"),
            NEXT: command("--json", "next", "--agent", "coder"),
            RENEW: command("--json", "renew", kept),
            DONE: done(terminal=False),
            SHOW_PIPE: command("show", "1"),
            SHOW_TERMINAL: command("show", "1", terminal=True),
            DONE_TERMINAL: done(terminal=True),
            TYPER: python("import typer"),
            RICH: python("import rich.console, rich.table"),
        }
    )
    figure = Figure(
        name=name, title=f"N. Start-up on {where}, {runs} runs each", unit="ms", rows=rows, base=PYTHON
    )
    ratios = {row.subject: figure.ratio(row) for row in rows}
    figure.targets = [
        Target.at_most(f"N, {where}, {subject}: ratio to {PYTHON}", ratios[subject], bound)
        for subject, bound in BOUNDS.items()
    ]
    return figure


def _claim(url: str, count: int) -> Iterator[str]:
    """Handles of running items, and as many items that wait."""
    clear("sqlite", url)
    with interlock_at("sqlite", url) as service:
        service.add([NewItem(title="a page to write", payload='{"page": 1}') for _ in range(2 * count)])
        leases = service.next("coder", limit=count, lease_s=LEASE_S)
    return iter([lease.run for lease in leases])


def _run(
    words: list[str], environment: dict[str, str], directory: Path, *, stdin: str = "", terminal: bool = False
) -> Sample:
    """The processor time of a process, in ms."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    if terminal:
        _on_terminal(words, environment, directory)
    else:
        subprocess.run(
            words, env=environment, cwd=directory, input=stdin, capture_output=True, text=True, check=True
        )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Sample(value=1_000 * spent_s)


def _on_terminal(words: list[str], environment: dict[str, str], directory: Path) -> None:
    ours, theirs = pty.openpty()
    environment = {**environment, "TERM": "xterm-256color", "COLUMNS": "120", "LINES": "40"}
    process = subprocess.Popen(
        words, env=environment, cwd=directory, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    with suppress(OSError):  # what Linux says when the other side is closed
        while os.read(ours, 1 << 16):
            pass
    os.close(ours)
    assert process.wait() == 0, words

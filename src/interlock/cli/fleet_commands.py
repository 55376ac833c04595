"""`fleet`: start, show and stop the workers that a fleet.toml names."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from interlock.cli import typer
from interlock.cli.command import Group
from interlock.cli.invocation import Invocation, invocation_of
from interlock.cli.output import tell
from interlock.core.errors import Exit, InterlockError, InvalidInput, NotFound, NotTrusted

if TYPE_CHECKING:
    from interlock.fleet.directory import FleetDirectory
    from interlock.fleet.fleetfile import FleetFile
    from interlock.fleet.journal import Said

fleet = Group("Run the workers that a fleet.toml names, and keep them running.")

_File = Annotated[
    str | None,
    typer.Option(
        "--file", metavar="FILE", help="The file; default: fleet.toml at the root of the working tree."
    ),
]
#: How often commands look whether something has changed.
_LOOK_S = 0.2
#: How long a detached supervisor may take to start its workers.
_READY_S = 60.0
#: `down` kills a supervisor that has not ended by then.
_MARGIN_S = 5.0
_LINES_MAX = 100_000


@fleet.callback()
def show_help(ctx: typer.Context) -> int:
    """Run the workers that a fleet.toml names, and keep them running."""
    if ctx.invoked_subcommand is None:
        sys.stdout.write(ctx.get_help())
    return Exit.OK


@fleet.command("up")
def up(
    ctx: typer.Context,
    file: _File = None,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Run in the background, until interlock fleet down.")
    ] = False,
) -> int:
    """Start the workers of fleet.toml, start crashed ones again, and show them until Ctrl-C.

    Ctrl-C drains: runs may end. A second Ctrl-C stops them, and gives their items back. If this process is
    killed, its workers go on, and the next `fleet up` adopts them.
    """
    call = invocation_of(ctx)
    chosen = _read(_place(file), named=file is not None)
    os.chdir(chosen.path.parent)
    directory = _directory(call, chosen.path)
    _check(call, chosen, directory)
    return _detach(call, chosen.path, directory) if detach else _up(call, chosen, directory)


@fleet.command("status")
def status(ctx: typer.Context, file: _File = None) -> int:
    """Show the workers of a fleet: state, restarts, current items and last lines."""
    from interlock.cli.views import fleet as view
    from interlock.fleet.directory import SUPERVISOR
    from interlock.fleet.fleet_supervisor import observed

    call, path, directory = _known(ctx, file)
    rows = observed(directory)
    pid = directory.read(SUPERVISOR).pid if directory.is_alive(SUPERVISOR) else None
    answer = {
        "file": str(path),
        "running": pid is not None,
        "pid": pid,
        "workers": [view.as_json(row) for row in rows],
    }
    return call.out.answer(answer, partial(view.print_status, str(path), pid, rows))


@fleet.command("logs")
def logs(
    ctx: typer.Context,
    worker: Annotated[
        str | None, typer.Argument(metavar="WORKER", help="Only this worker; default: all of them.")
    ] = None,
    *,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep printing until Ctrl-C.")] = False,
    lines: Annotated[str, typer.Option("--lines", "-n", metavar="N", help="The last N lines.")] = "200",
    file: _File = None,
) -> int:
    """Print what the workers of a fleet said, with the output of their commands.

    A worker keeps between 4 and 8 MiB. The whole output of one run: `interlock log RUN`.
    """
    from interlock.cli.reader import while_read
    from interlock.core.names import check_number, unknown
    from interlock.fleet.journal import Journal, merged
    from interlock.service.item_fields import whole

    count = whole("--lines", lines)
    check_number("--lines", count, 0, _LINES_MAX)
    call, path, directory = _known(ctx, file)
    names = directory.names()
    if worker is not None and worker not in names:
        error = unknown("worker", worker, names)
        raise NotFound(f"{path} has started no worker {worker}.", error.hint or "interlock fleet status")
    if not names:
        tell(f"The fleet of {path} has not been started yet. interlock fleet up starts it.")
        return Exit.OK
    journals = {
        name: Journal(directory.log(name), directory.former_log(name))
        for name in ([worker] if worker is not None else names)
    }
    wide = max(map(len, journals), default=0) if len(journals) > 1 else 0
    kept = list(merged({name: journal.replay() for name, journal in journals.items()}))
    with while_read():
        for name, said in kept[-count:] if count else ():
            _print_said(call, name, said, wide)
        while follow:
            for name, said in merged({name: journal.read() for name, journal in journals.items()}):
                _print_said(call, name, said, wide)
            sys.stdout.flush()
            time.sleep(_LOOK_S)
    return Exit.OK


@fleet.command("down")
def down(
    ctx: typer.Context,
    drain: Annotated[bool, typer.Option("--drain", help="Let current runs end first.")] = False,
    file: _File = None,
) -> int:
    """Stop the workers of a fleet, also those whose supervisor was killed.

    Commands get SIGINT, then SIGTERM, then SIGKILL, and their items are given back.
    """
    from interlock.fleet.directory import SUPERVISOR
    from interlock.fleet.fleet_supervisor import FleetSupervisor

    call, path, directory = _known(ctx, file)
    running = directory.is_alive(SUPERVISOR)
    alive = sum(directory.is_alive(name) for name in directory.names())
    if running:
        _stop_supervisor(directory, drain=drain)
    if any(directory.is_alive(name) for name in directory.names()):
        # Its supervisor is dead. Without entries every worker is left over.
        times = 1 if drain else 2
        left = FleetSupervisor(
            directory, (), cwd=path.parent, environ={}, tell=lambda _name, _said: None, left_over=times
        )
        left.run(lambda: left.ask(times))
    stopped = "1 worker was stopped" if alive == 1 else f"{alive} workers were stopped"
    text = (
        f"The fleet of {path} is down; {stopped}."
        if running or alive
        else f"The fleet of {path} does not run."
    )
    return call.out.answer({"file": str(path), "was_running": running, "workers": alive}, text)


# -- the file and its place -----------------------------------------------------------------------------


def _place(file: str | None) -> Path:
    from interlock.fleet.fleetfile import NAME
    from interlock.settings.places import here, worktree_root

    return here() / file if file is not None else worktree_root(here()) / NAME


def _read(path: Path, *, named: bool) -> FleetFile:
    """The checked file. One that the user has not named needs trust: it may have come with a clone."""
    from interlock.fleet import fleetfile
    from interlock.settings import trust

    found, data = fleetfile.find(path)
    if not named and not trust.is_trusted(found, data, os.environ):
        raise NotTrusted(
            f"{found} names commands, and you do not trust it yet.",
            "Look at the file and its scripts, then run interlock trust.",
        )
    return fleetfile.parse(found, data)


def _directory(call: Invocation, path: Path) -> FleetDirectory:
    from interlock.fleet.directory import FleetDirectory

    return FleetDirectory(call.settings.home, call.settings.root, path)


def _known(ctx: typer.Context, file: str | None) -> tuple[Invocation, Path, FleetDirectory]:
    """The fleet of a file, which need not be readable or even there any more."""
    from interlock.fleet.fleetfile import located

    call, path = invocation_of(ctx), located(_place(file))
    if path.parent.is_dir():
        os.chdir(path.parent)
    directory = _directory(call, path)
    if not directory.path.is_dir() and not path.exists():
        raise NotFound(
            f"There is no {path}.", "interlock init --recipe claude writes one; or name another with --file."
        )
    return call, path, directory


# -- up -------------------------------------------------------------------------------------------------


def _check(call: Invocation, chosen: FleetFile, directory: FleetDirectory) -> None:
    """Raise, before anything starts, if the workers could not work; and set their pools."""
    from interlock.core.names import agent_key, pool_key
    from interlock.fleet.directory import SUPERVISOR
    from interlock.fleet.fleet_supervisor import already_running
    from interlock.worker.rundirectory import Home
    from interlock.worker.worktrees import Workspaces

    directory.make()
    if (lock := directory.lock(SUPERVISOR)) is None:
        raise already_running(directory)
    os.close(lock)
    settings = call.settings
    for spec in chosen.workers:
        if spec.worktree:
            home = Home(settings.root, settings.url, settings.home, worktrees=settings.worktrees)
            try:
                Workspaces(home).check()
            except InterlockError as error:
                where = f"workers.{spec.name}.worktree in {chosen.path}"
                what = f"{error.sentence[:1].lower()}{error.sentence[1:]}"
                raise InvalidInput(f"{where}: {what}", error.hint) from None
            break
    with call.service() as service:
        if not _pools(chosen):
            return
        limits = {pool_key(pool.name): pool.max for pool in service.pools()}
        members = {agent.key: agent.pool for agent in service.agents()}
        for spec in chosen.workers:
            if spec.pool is not None and pool_key(spec.pool) not in {*limits, *map(pool_key, chosen.pools)}:
                raise InvalidInput(
                    f"workers.{spec.name}.pool in {chosen.path}: there is no pool {spec.pool}.",
                    f"Add the table [pools.{spec.pool}] with the line max = 4.",
                )
        for name, most in chosen.pools.items():
            if limits.get(pool_key(name)) != most:
                service.set_pool(name, max_concurrency=most, by=settings.actor)
        for agent, pool in _pools(chosen).items():
            if members.get(agent_key(agent)) != pool_key(pool):
                service.set_agent(agent, pool=pool, by=settings.actor)


def _pools(chosen: FleetFile) -> dict[str, str]:
    """The pools of agents."""
    return {worker.agent: worker.pool for worker in chosen.workers if worker.pool is not None}


def _up(call: Invocation, chosen: FleetFile, directory: FleetDirectory) -> int:
    from interlock.cli.views import fleet as view
    from interlock.cli.views.status_screen import StatusScreen
    from interlock.fleet.fleet_supervisor import FleetSupervisor
    from interlock.fleet.journal import OUTPUT
    from interlock.worker.status_lines import StatusLine

    screen = StatusScreen(call.out)
    wide = max(len(spec.name) for spec in chosen.workers)

    def say(name: str, said: Said) -> None:
        if said.kind == OUTPUT or not said.text.strip():
            return
        text = said.text if call.out.json else f"{name:{wide}} {said.text}"
        data = {"worker": name, **({"status": said.status} if said.status else {})}
        line = StatusLine(kind=said.kind, text=text, run=said.run, item=said.item, data=data)
        screen.tell(line if said.at is None else replace(line, at=said.at))

    def own(kind: str, text: str) -> None:
        screen.tell(StatusLine(kind=kind, text=text))

    supervisor = FleetSupervisor(
        directory, chosen.workers, cwd=chosen.path.parent, environ=_environ(call), tell=say
    )
    count = len(chosen.workers)
    started = f"The fleet of {chosen.path} is up: {'1 worker' if count == 1 else f'{count} workers'}."
    title = f"Fleet {chosen.path}"
    with screen.showing(
        lambda width: view.picture(title, supervisor.rows, supervisor.asked, width), count + 4, frame_s=1.0
    ):
        supervisor.run(lambda: own("up", started))
        own("down", "The fleet is down.")
    return Exit.OK


def _environ(call: Invocation) -> dict[str, str]:
    """The environment of workers: ours, with the store that this command has chosen."""
    import shutil

    from interlock.settings.store_url import absolute_url

    environ = {**os.environ, "INTERLOCK_URL": absolute_url(call.settings)}
    own = Path(sys.executable).parent
    if shutil.which("interlock") is None and (own / "interlock").exists():
        environ["PATH"] = os.pathsep.join(filter(None, (environ.get("PATH"), str(own))))
    return environ


def _detach(call: Invocation, path: Path, directory: FleetDirectory) -> int:
    """Start the same in the background, and wait until it has started its workers."""
    from interlock.fleet.directory import SUPERVISOR
    from interlock.fleet.fleet_supervisor import already_running

    log = directory.log(SUPERVISOR)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    output = os.open(log, flags, 0o600)
    url = ["--url", call.url] if call.url else []
    try:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "interlock", *url, "fleet", "up", "--file", str(path)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    finally:
        os.close(output)
    ready = _wait(
        lambda: process.poll() is not None or directory.read(SUPERVISOR).pid == process.pid, _READY_S
    )
    if process.poll() == Exit.HELD:  # another one was faster; the log is its own
        raise already_running(directory)
    if not ready or process.poll() is not None:
        said = log.read_text(errors="replace").strip().splitlines()
        raise InterlockError(
            f"The fleet of {path} did not start: {said[-1] if said else 'no reason was given'}", f"See {log}."
        )
    process.returncode = 0  # it goes on without us
    return call.out.answer(
        {"file": str(path), "pid": process.pid, "log": str(log)},
        f"The fleet of {path} runs in process {process.pid}.\n"
        "interlock fleet status shows it, interlock fleet logs --follow prints what it says, and"
        " interlock fleet down stops it.",
    )


# -- down -----------------------------------------------------------------------------------------------


def _stop_supervisor(directory: FleetDirectory, *, drain: bool) -> None:
    """Ask the supervisor to end, and wait; kill it if it does not."""
    import signal
    from contextlib import suppress

    from interlock.fleet.directory import SUPERVISOR
    from interlock.fleet.fleet_worker import KILL_S, STOP_S

    pid = directory.holders([SUPERVISOR]).get(SUPERVISOR)
    if pid is None:
        if not directory.is_alive(SUPERVISOR):
            return
        raise InvalidInput(
            "The fleet runs, and its process cannot be seen from here.", "Ask the user who started it."
        )
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGINT if drain else signal.SIGTERM)
        os.kill(pid, signal.SIGCONT)
    if drain:
        tell("Draining: no more items are claimed. interlock fleet down stops what still runs.")
        _wait(lambda: not directory.is_alive(SUPERVISOR), None)
    elif not _wait(lambda: not directory.is_alive(SUPERVISOR), STOP_S + KILL_S + _MARGIN_S):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        _wait(lambda: not directory.is_alive(SUPERVISOR), _MARGIN_S)


def _wait(is_so: Callable[[], bool], timeout_s: float | None) -> bool:
    """Whether it is so in time."""
    until_s = None if timeout_s is None else time.monotonic() + timeout_s
    while not is_so():
        if until_s is not None and time.monotonic() > until_s:
            return False
        time.sleep(_LOOK_S)
    return True


def _print_said(call: Invocation, name: str, said: Said, wide: int) -> None:
    from interlock.cli.views import words

    if call.out.json:
        call.out.print_json(
            {
                "worker": name,
                "event": said.kind,
                "at": said.at,
                "run": said.run,
                "item": said.item,
                "text": said.text,
            }
        )
        return
    at = words.clock(said.at) if said.at is not None else "        "
    before = f"{name:{wide}} " if wide else ""
    sys.stdout.write(f"{at} {before}{words.uncoloured(said.shown)}\n")

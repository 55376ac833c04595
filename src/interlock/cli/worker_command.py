"""`work`: run a command for every item, under its lease."""

from __future__ import annotations

import os
import signal
import socket
import threading
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

from interlock.cli import typer
from interlock.cli.invocation import invocation_of, mention_near_agent
from interlock.cli.options import LeaseLength, OnlyTypes, OwnLabels, RunsAccount
from interlock.cli.values import name_or_none, span_or_none, whole_or_none
from interlock.core.errors import CommandUnusable, InvalidInput
from interlock.core.names import BATCH_MAX, LEASE_MAX_S, LEASE_MIN_S, check_number
from interlock.service.item_fields import whole

if TYPE_CHECKING:
    from interlock.worker.worker import Worker


def work(
    ctx: typer.Context,
    command: Annotated[
        list[str] | None, typer.Argument(metavar="-- COMMAND…", help="The command to run for each item.")
    ] = None,
    *,
    agent: Annotated[str, typer.Option(metavar="NAME", help="The agent to work as.")],
    max_: Annotated[str, typer.Option("--max", metavar="N", help="Limit of runs at once.")] = "1",
    worktree: Annotated[bool, typer.Option("--worktree", help="Give each run its own git worktree.")] = False,
    type_: OnlyTypes = None,
    label: OwnLabels = None,
    lease: LeaseLength = None,
    limit: Annotated[str | None, typer.Option(metavar="N", help="End after N runs.")] = None,
    exit_when_idle: Annotated[
        bool, typer.Option("--exit-when-idle", help="End when no work is left.")
    ] = False,
    account: RunsAccount = None,
    echo: Annotated[
        bool, typer.Option("--echo", help="With --json: print the output of commands, too.")
    ] = False,
) -> int:
    """Run a command for each item: claim, start, keep the lease, report how it ended.

    The command's exit code says how: 0 done, 75 give the item back, any other failed. It finds its item in
    INTERLOCK_ITEM, INTERLOCK_PAYLOAD and other variables. Ctrl-C drains, a second Ctrl-C stops what runs.
    """
    from interlock.cli.hold_command import cannot_run
    from interlock.cli.store_commands import notifier_of, webhooks_of
    from interlock.cli.views.status_screen import StatusScreen
    from interlock.cli.views.worker_slots import slots as slots_of
    from interlock.github.run_feedback import account_reporter, reactions_of_runs, salvage_comments
    from interlock.github.wiring import start_check
    from interlock.process.provider_limits import LimitRules
    from interlock.settings.store_url import absolute_url
    from interlock.worker.rundirectory import Home
    from interlock.worker.status_lines import StatusLine
    from interlock.worker.worker import Worker, WorkerOptions

    call = invocation_of(ctx)
    slots, runs, lease_s = (
        whole("--max", max_),
        whole_or_none("--limit", limit),
        span_or_none("--lease", lease),
    )
    check_number("--max", slots, 1, BATCH_MAX)
    if runs is not None:
        check_number("--limit", runs, 1, 10**9)
    if lease_s is not None:
        check_number("--lease", lease_s, LEASE_MIN_S, LEASE_MAX_S)
    login = name_or_none("--account", account)
    if not command:
        raise InvalidInput(
            "There is no command.", "Put it after --, as in interlock work --agent a -- ./run.sh."
        )
    options = WorkerOptions(
        agent=agent,
        command=tuple(command),
        slots=slots,
        types=tuple(type_ or ()),
        labels=tuple(label or ()),
        lease_s=lease_s,
        worktree=worktree,
        limit=runs,
        exit_when_idle=exit_when_idle,
        limits=LimitRules.of(call.settings),
        log_share_s=call.settings.log_share_s,
    )
    url = absolute_url(call.settings)
    screen = StatusScreen(call.out, echo=echo)

    def said(text: str) -> None:
        screen.tell(StatusLine(kind="github", text=text))

    with (
        call.service() as service,
        start_check(
            service, call.settings, lambda text: screen.tell(StatusLine(kind="unseen", text=text))
        ) as unwanted,
    ):
        mention_near_agent(service, agent)
        worker = Worker(
            service,
            replace(
                options,
                shown=reactions_of_runs(service, os.environ, said),
                report_account=account_reporter(service, os.environ, login, said),
            ),
            home=Home(
                call.settings.root,
                url,
                call.settings.home,
                call.settings.former,
                worktrees=call.settings.worktrees,
            ),
            url=url,
            tell=screen.tell,
            echo=screen.echo,
            unwanted=unwanted,
            salvaged=salvage_comments(service, said),
        )
        call.outage.on_change = worker.report_outage
        notifier_of(call, service).start()
        if (webhooks := webhooks_of(call, service)) is not None:
            webhooks.start()
        _drain_on_signals(worker)
        try:
            with screen.showing(partial(slots_of, worker), slots):
                return worker.run()
        except CommandUnusable as error:
            return cannot_run(call, command[0], error)


def _drain_on_signals(worker: Worker) -> None:
    """A thread handles signals: the main thread may hold a lock or wait for a database.

    It reads them from a socket. Python itself calls a handler only when the main thread continues: a signal
    just before a wait would be handled after the wait.
    """
    theirs, ours = socket.socketpair()
    ours.setblocking(False)
    wanted = [
        number
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) is not signal.SIG_IGN  # under nohup it stays ignored
    ]
    signal.set_wakeup_fd(ours.fileno(), warn_on_full_buffer=False)
    for number in wanted:
        signal.signal(number, lambda *_: None)

    def listen() -> None:
        with ours:  # as long as the main thread listens
            for number in iter(lambda: theirs.recv(1), b""):
                if number[0] in wanted:
                    worker.drain()

    threading.Thread(target=listen, name="interlock-signals", daemon=True).start()

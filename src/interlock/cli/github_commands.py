"""`github`: take in what GitHub sends, decide what was left, send what is owed, check the set-up."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated

from interlock.cli import typer, views
from interlock.cli.command import Group
from interlock.cli.invocation import invocation_of
from interlock.cli.options import Limit, limit_of
from interlock.cli.output import tell
from interlock.cli.values import repository
from interlock.core.errors import Exit, InterlockError, InvalidInput, StoreBusy, StoreUnavailable
from interlock.core.names import check_number
from interlock.service.contract import CheckView

#: How long `send --watch` pauses.
_EVERY_S = 5.0

github = Group("Turn GitHub's events into work, and look at what is known and owed.")


@github.callback()
def show_help(ctx: typer.Context) -> int:
    """Turn GitHub's events into work, and look at what is known and owed."""
    if ctx.invoked_subcommand is None:
        sys.stdout.write(ctx.get_help())
    return Exit.OK


@github.command("ingest")
def ingest(
    ctx: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="The payload as GitHub sent it; - reads it.")],
    *,
    event: Annotated[str, typer.Option(metavar="NAME", help="The header X-GitHub-Event, such as issues.")],
    delivery: Annotated[str, typer.Option(metavar="ID", help="The header X-GitHub-Delivery.")],
) -> int:
    """Keep a webhook's delivery, decide on it, and do what follows.

    The number is read again from GitHub; without a token, what the delivery says has to do.
    """
    from interlock import app

    call = invocation_of(ctx)
    body = _read(file)
    with app.open_intake(call.settings) as intake:
        found = intake.ingest(event, delivery, body)
    with _series_apart():
        app.keep_series_of(call.settings, event, body)
    _mention_unheard(event)
    return call.out.answer(found, lambda out: views.github.ingested(out, found))


@contextmanager
def _series_apart() -> Iterator[None]:
    """Reconcile series; a failure is told, and the command has done its own work all the same."""
    try:
        yield
    except InterlockError as error:
        tell(f"Series were not reconciled: {error.sentence} `interlock series reconcile` tries again.")


def _mention_unheard(event: str) -> None:
    """Say so if nothing is made of an event with this name, which may be a typo. It is taken all the same."""
    from interlock.core.names import nearest
    from interlock.github import rules
    from interlock.github.series import hearing

    known = {*hearing.EVENTS, *(each.partition(".")[0] for each in rules.EVENTS), "check_suite"}
    if event not in known:
        near = nearest(event, known, 0.8)
        meant = f" Did you mean {near!r}?" if near else ""
        tell(f"Nothing follows from an event called {event!r}; what it names is looked at.{meant}")


@github.command("status")
def status(
    ctx: typer.Context,
    number: Annotated[str, typer.Argument(metavar="NUMBER", help="An issue or a pull request.")],
    *,
    repo: Annotated[
        str | None,
        typer.Option(metavar="OWNER/NAME", help="Its repository; default: the only one that was seen."),
    ] = None,
) -> int:
    """Show what Interlock knows about an issue or pull request, and what it owes for it."""
    from interlock import app
    from interlock.service.intake import whole

    call = invocation_of(ctx)
    wanted = whole("number", number.removeprefix("#"))
    check_number("number", wanted, 1, 2**31)
    with call.reading(stand_in=False) as service:
        found = app.standing_of(service, repo, wanted)
    return call.out.answer(found, lambda out: views.github.number(out, found))


@github.command("sweep")
def sweep(
    ctx: typer.Context,
    *,
    again: Annotated[
        bool, typer.Option("--again", help="First let what waits for a person be tried again.")
    ] = False,
) -> int:
    """Decide on deliveries that were left, and carry out what is owed; 100 of each at most.

    Any number of sweeps may run at once, on any number of machines.
    """
    from interlock import app

    call = invocation_of(ctx)
    with app.open_intake(call.settings) as intake:
        swept = intake.sweep(again=again)
    return call.out.answer(
        swept,
        f"{swept.decided} decided, {swept.carried_out} carried out, {swept.put_off} put off.",
    )


@github.command("send")
def send(
    ctx: typer.Context,
    *,
    limit: Limit = "100",
    again: Annotated[
        bool, typer.Option("--again", help="First let what waits for a person be tried again.")
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Go on sending, every 5 s; a signal ends it.")
    ] = False,
) -> int:
    """Send what is owed to GitHub: comments, reactions, labels, assignees, workflow starts and ends.

    It needs a token that may write issues, pull requests, statuses and actions, as far as those are owed.
    Any number of senders may run at once, on any number of machines.
    """
    from interlock import app

    call = invocation_of(ctx)
    count = limit_of(limit)
    with app.open_sender(call.settings) as sender:
        while True:
            try:
                passed = sender.send(count, again=again)
                again = False
                if passed.tried or not watch:
                    call.out.answer(passed, partial(views.github.passed, found=passed))
            except (StoreUnavailable, StoreBusy) as error:
                if not watch:
                    raise
                call.out.error(error.code, error.sentence, error.hint)
            if not watch:
                return Exit.OK
            time.sleep(_EVERY_S)


@github.command("doctor")
def doctor(
    ctx: typer.Context,
    *,
    repo: Annotated[
        str | None, typer.Option(metavar="OWNER/NAME", help="The repository; default: GITHUB_REPOSITORY.")
    ] = None,
) -> int:
    """Check the token, the repository's rules, labels and webhook, limits and the clock; exit 1 if one fails.

    It only reads.
    """
    from interlock import app
    from interlock.github import checkup, client
    from interlock.github.tokens import is_given

    call = invocation_of(ctx)
    chosen = repository(repo)
    if not is_given(os.environ):
        checks = [checkup.NO_TOKEN]
    else:
        acting, away = [], []
        try:
            acting = app.accounts_of_runs(call.settings)
        except InterlockError as error:
            away = [CheckView(name="store", ok=False, detail=error.sentence, mend=error.hint)]
        with client.from_environment(os.environ) as asked:
            checks = checkup.check_up(asked, chosen, acting)
        checks += away
    well = all(check.ok for check in checks)
    call.out.answer({"ok": well, "checks": checks}, lambda out: views.figures.checks(out, checks))
    return Exit.OK if well else Exit.ERROR


@github.command("reconcile")
def reconcile(
    ctx: typer.Context,
    *,
    repo: Annotated[
        list[str] | None,
        typer.Option(metavar="OWNER/NAME", help="A repository, or several; default: all that were seen."),
    ] = None,
) -> int:
    """Make up for deliveries that never came: take in what changed, and see what hosted agents have ended.

    A repository that is new is followed from now on, and its series are reconciled where somebody has begun
    with them. Any number may run at once.
    """
    from interlock import app

    call = invocation_of(ctx)
    names = [repository(each) for each in repo or ()]
    with app.open_reconciler(call.settings) as reconciler:
        found, ended = list(reconciler.look_at_all(names)), reconciler.see_hosted()
        checked = reconciler.see_checks()
    with _series_apart():
        app.keep_series(call.settings, [each.repository for each in found])
    return call.out.answer(
        {"repositories": found, "checked": checked, "ended": ended},
        lambda out: views.github.reconciled(out, found, ended),
    )


@github.command("import")
def import_(
    ctx: typer.Context,
    *,
    repo: Annotated[
        str | None, typer.Option(metavar="OWNER/NAME", help="The repository; default: GITHUB_REPOSITORY.")
    ] = None,
    label: Annotated[
        list[str] | None, typer.Option(metavar="LABEL", help="Only issues with it. May be repeated.")
    ] = None,
    query: Annotated[
        str, typer.Option(metavar="WORDS", help="Only issues that GitHub's search finds with these words.")
    ] = "",
    limit: Limit = "100",
) -> int:
    """Make work of issues that are open already, as the rules say, the oldest first."""
    from interlock import app

    call = invocation_of(ctx)
    chosen, count = repository(repo), limit_of(limit)
    with app.open_reconciler(call.settings) as reconciler:
        found = reconciler.take_in(chosen, label or [], query, count)
    words = (
        f"{len(found)} issue{'s' if len(found) != 1 else ''} taken in" if found else "Nothing new was found"
    )
    return call.out.answer({"repository": chosen, "numbers": found}, f"{words}.")


@github.command("host")
def host(
    ctx: typer.Context,
    item: Annotated[str, typer.Argument(metavar="ITEM", help="An item to hand over.")],
) -> int:
    """Hand an item to the agent that GitHub hosts; `github reconcile` sees what became of it.

    The item is claimed without a lease, and the agent is assigned to its issue; that needs a user's token.
    Exit 1 if GitHub does not take it.
    """
    from interlock.github import client, hosted
    from interlock.service.intake import whole

    call, number = invocation_of(ctx), whole("item", item)
    with call.service() as service, client.from_environment(os.environ) as asked:
        started = hosted.start(service, asked, number)
    call.out.answer(started, started.why)
    return Exit.OK if started.run is not None else Exit.ERROR


def _read(file: str) -> bytes:
    """The payload, cut one byte above the limit of a delivery."""
    from interlock.github.delivery import BODY_MAX_BYTES

    if file == "-":
        return sys.stdin.buffer.read(BODY_MAX_BYTES + 1)
    try:
        with Path(file).open("rb") as stream:
            return stream.read(BODY_MAX_BYTES + 1)
    except OSError as error:
        raise InvalidInput(
            f"{file} cannot be read: {error.strerror}.", "Name a file, or - to read it."
        ) from None

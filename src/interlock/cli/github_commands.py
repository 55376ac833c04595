"""`github`: ingest deliveries, decide on pending ones, send effects, check the set-up."""

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

github = Group("Turn GitHub's events into work, and send effects to GitHub.")


@github.callback()
def show_help(ctx: typer.Context) -> int:
    """Turn GitHub's events into work, and send effects to GitHub."""
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
    """Store a webhook's delivery, decide on it, and execute its orders.

    The number is read again from GitHub; without a token, the delivery's own data is used.
    """
    from interlock.github.series.triggers import repository_of
    from interlock.github.tokens import is_given
    from interlock.github.wiring import open_intake
    from interlock.service.series import reconcile_begun

    call = invocation_of(ctx)
    body = _read(file)
    with open_intake(call.settings) as intake:
        found = intake.ingest(event, delivery, body)
    about = repository_of(event, body)
    if about is not None and is_given(os.environ):
        with _reporting_series_failure(), call.service() as service:
            reconcile_begun(service, [about])
    _warn_of_unknown_event(event)
    return call.out.answer(found, lambda out: views.github.ingested(out, found))


@contextmanager
def _reporting_series_failure() -> Iterator[None]:
    """Reconcile series. A failure is only reported: the command's own work is done."""
    try:
        yield
    except InterlockError as error:
        tell(f"Series were not reconciled: {error.sentence} `interlock series reconcile` tries again.")


def _warn_of_unknown_event(event: str) -> None:
    """Warn if events of this name create no work: it may be a typo. The delivery is stored anyway."""
    from interlock.core.names import nearest
    from interlock.github import rules
    from interlock.github.series import triggers

    known = {*triggers.EVENTS, *(each.partition(".")[0] for each in rules.EVENTS), "check_suite"}
    if event not in known:
        near = nearest(event, known, 0.8)
        meant = f" Did you mean {near!r}?" if near else ""
        tell(f"Event {event!r} creates no work.{meant}")


@github.command("status")
def status(
    ctx: typer.Context,
    number: Annotated[str, typer.Argument(metavar="NUMBER", help="An issue or a pull request.")],
    *,
    repo: Annotated[
        str | None,
        typer.Option(metavar="OWNER/NAME", help="Its repository; default: the only known one."),
    ] = None,
) -> int:
    """Show what Interlock knows about an issue or pull request, and its unsent effects."""
    from interlock.github.wiring import number_view_of
    from interlock.service.item_fields import whole

    call = invocation_of(ctx)
    wanted = whole("number", number.removeprefix("#"))
    check_number("number", wanted, 1, 2**31)
    with call.reading(stand_in=False) as service:
        found = number_view_of(service, repo, wanted)
    return call.out.answer(found, lambda out: views.github.number(out, found))


@github.command("sweep")
def sweep(
    ctx: typer.Context,
    *,
    again: Annotated[
        bool, typer.Option("--again", help="Retry entries that wait for a person first.")
    ] = False,
) -> int:
    """Decide on pending deliveries and execute their orders, at most 100 of each.

    Any number of sweeps may run at once, on any number of machines.
    """
    from interlock.github.wiring import open_intake

    call = invocation_of(ctx)
    with open_intake(call.settings) as intake:
        swept = intake.sweep(again=again)
    return call.out.answer(
        swept,
        f"{swept.decided} decided, {swept.carried_out} carried out, {swept.put_off} postponed.",
    )


@github.command("send")
def send(
    ctx: typer.Context,
    *,
    limit: Limit = "100",
    again: Annotated[
        bool, typer.Option("--again", help="Retry entries that wait for a person first.")
    ] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Keep sending, every 5 s, until a signal.")] = False,
) -> int:
    """Send the outbox to GitHub: comments, reactions, labels, assignees and workflow starts.

    It needs a token that may write issues, pull requests, statuses and actions.
    Any number of them may run at once, on any number of machines.
    """
    from interlock.github.wiring import open_outbox_relay

    call = invocation_of(ctx)
    count = limit_of(limit)
    with open_outbox_relay(call.settings) as relay:
        while True:
            try:
                passed = relay.send(count, again=again)
                again = False
                if passed.tried or not watch:
                    call.out.answer(passed, partial(views.github.passed, found=passed))
            except (StoreUnavailable, StoreBusy) as error:
                if not watch:
                    raise
                call.out.error(error)
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
    from interlock.github import checkup, client
    from interlock.github.tokens import is_given
    from interlock.github.wiring import accounts_of_runs

    call = invocation_of(ctx)
    chosen = repository(repo)
    if not is_given(os.environ):
        checks = [checkup.NO_TOKEN]
    else:
        accounts, away = [], []
        try:
            accounts = accounts_of_runs(call.settings)
        except InterlockError as error:
            away = [
                CheckView(name="store", ok=False, detail=error.sentence, mend=error.hint, cures=error.cures)
            ]
        with client.from_environment(os.environ) as asked:
            checks = checkup.check_up(asked, chosen, accounts)
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
        typer.Option(metavar="OWNER/NAME", help="A repository, repeatable; default: all known ones."),
    ] = None,
) -> int:
    """Catch up on missed deliveries and on runs that hosted agents have ended.

    A new repository is followed from now on. Its series are reconciled after the first `interlock series
    reconcile`. Any number may run at once.
    """
    from interlock.github.wiring import open_reconciler
    from interlock.service.series import reconcile_begun

    call = invocation_of(ctx)
    names = [repository(each) for each in repo or ()]
    with open_reconciler(call.settings) as reconciler:
        found, ended = list(reconciler.look_at_all(names)), reconciler.see_hosted()
        checked = reconciler.see_checks()
    with _reporting_series_failure(), call.service() as service:
        reconcile_begun(service, [each.repository for each in found])
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
        str, typer.Option(metavar="WORDS", help="Only issues that match this GitHub search.")
    ] = "",
    limit: Limit = "100",
) -> int:
    """Create work for already open issues by the rules, oldest first."""
    from interlock.github.wiring import open_reconciler

    call = invocation_of(ctx)
    chosen, count = repository(repo), limit_of(limit)
    with open_reconciler(call.settings) as reconciler:
        found = reconciler.take_in(chosen, label or [], query, count)
    words = (
        f"{len(found)} issue{'s' if len(found) != 1 else ''} ingested" if found else "Nothing new was found"
    )
    return call.out.answer({"repository": chosen, "numbers": found}, f"{words}.")


@github.command("host")
def host(
    ctx: typer.Context,
    item: Annotated[str, typer.Argument(metavar="ITEM", help="An item to hand over.")],
) -> int:
    """Hand an item to the agent hosted by GitHub; `github reconcile` records its outcome.

    The item is claimed without a lease, and the agent is assigned to its issue. This needs a user's token.
    Exit 1 if GitHub refuses.
    """
    from interlock.github import client, hosted_agents
    from interlock.service.item_fields import whole

    call, number = invocation_of(ctx), whole("item", item)
    with call.service() as service, client.from_environment(os.environ) as asked:
        started = hosted_agents.start(service, asked, number)
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

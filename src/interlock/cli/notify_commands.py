"""`notify`: test the receivers of notices, and send due notices."""

from __future__ import annotations

import os
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Annotated

from interlock.cli import typer, views
from interlock.cli.command import Group
from interlock.cli.invocation import Invocation, invocation_of
from interlock.cli.output import tell
from interlock.core.errors import Exit, InvalidInput
from interlock.core.record import Record

if TYPE_CHECKING:
    from interlock.cli.page import Console
    from interlock.notify.receiver import Receiver

notify = Group("Send notices of questions and dead letters to receivers.")


class ReceiverCheck(Record):
    """How a receiver took the test notice."""

    receiver: str
    ok: bool
    #: The status of its answer; null if the notice was not accepted.
    status: int | None
    seconds: float
    signed: bool
    #: Whether notices link to the dashboard.
    linked: bool
    #: Why it was not accepted; null if it was.
    problem: str | None


@notify.callback()
def show_help(ctx: typer.Context) -> int:
    """Send notices of questions and dead letters to receivers."""
    if ctx.invoked_subcommand is None:
        sys.stdout.write(ctx.get_help())
    return Exit.OK


@notify.command("test")
def test(ctx: typer.Context) -> int:
    """Send a test notice to each receiver in notify_urls, and show the answers; exit 1 if one fails.

    It uses the settings and the secret of this machine, and no store.
    """
    from interlock.notify.receiver import keys_of
    from interlock.notify.webhooks import send_test, subjects_of
    from interlock.service.relay import EffectFailed, EffectLimited, EffectUnavailable
    from interlock.settings.store_url import scheme_of

    call = invocation_of(ctx)
    subjects_of(call.settings)
    checks = []
    signed, linked = bool(keys_of(os.environ)), bool(call.settings.public_url)
    delivery = f"test-{os.urandom(8).hex()}"
    for receiver in _receivers(call):
        status, problem, begun = None, None, time.monotonic()
        try:
            status = send_test(receiver, call.settings, os.environ, delivery=delivery).status
        except (EffectFailed, EffectLimited, EffectUnavailable) as error:
            problem = str(error)
        checks.append(
            ReceiverCheck(
                receiver=receiver.host,
                ok=problem is None,
                status=status,
                seconds=round(time.monotonic() - begun, 3),
                signed=signed,
                linked=linked,
                problem=problem,
            )
        )
    well = all(check.ok for check in checks)
    call.out.answer({"ok": well, "receivers": checks}, partial(_print_checks, checks=checks))
    if not call.out.json and scheme_of(call.settings.url) == "http":
        tell("The server sends notices with its own settings, not with those of this machine.")
    return Exit.OK if well else Exit.ERROR


@notify.command("send")
def send(
    ctx: typer.Context,
    *,
    again: Annotated[
        bool, typer.Option("--again", help="Retry effects that wait for a person first.")
    ] = False,
) -> int:
    """Send the notices that are due, once. Servers, sweepers and workers do so by themselves.

    The first call for a receiver begins at the present: earlier events give no notices.
    """
    from interlock.cli.store_commands import webhooks_of

    call = invocation_of(ctx)
    _receivers(call)
    with call.service() as service:
        webhooks = webhooks_of(call, service)
        if webhooks is None:
            raise InvalidInput(
                "Notices are sent from the database.", "Call it where INTERLOCK_URL names the database."
            )
        passed = webhooks.run(again=again)
    return call.out.answer(passed, partial(views.github.passed, found=passed))


def _receivers(call: Invocation) -> tuple[Receiver, ...]:
    from interlock.notify.receiver import receivers_of

    found = receivers_of(call.settings)
    if not found:
        raise InvalidInput(
            "No receiver is set.", "Set notify_urls, such as INTERLOCK_NOTIFY_URLS='[\"https://HOST/PATH\"]'."
        )
    return found


def _print_checks(console: Console, *, checks: list[ReceiverCheck]) -> None:
    from interlock.cli.page import Text
    from interlock.cli.views.words import harmless

    for check in checks:
        if check.ok:
            console.print(f"{check.receiver}: accepted ({check.status}) in {check.seconds:.1f} s.")
        else:
            console.print(Text(harmless(f"{check.receiver}: failed. {check.problem}"), style="red"))
    if checks and not checks[0].signed:
        console.print("Not signed: INTERLOCK_NOTIFY_SECRET is not set.")
    if checks and not checks[0].linked:
        console.print("Without a link to the dashboard: public_url is not set.")

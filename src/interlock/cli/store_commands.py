"""The store itself: sweep, migrate, doctor."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Annotated, cast

from interlock.cli import typer, views
from interlock.cli.invocation import Invocation, invocation_of
from interlock.cli.output import tell
from interlock.core.errors import Exit, InvalidInput, StoreBusy, StoreUnavailable
from interlock.core.names import check_number
from interlock.service.contract import CheckView, SweepView
from interlock.service.item_fields import span_s

if TYPE_CHECKING:
    from interlock.notify.notifier import Notifier
    from interlock.notify.webhooks import Webhooks
    from interlock.service.contract import LaneService, Service
    from interlock.service.opening import OpenedService


def sweep(
    ctx: typer.Context,
    once: Annotated[bool, typer.Option("--once", help="Sweep once, then end.")] = False,
    every: Annotated[str, typer.Option(metavar="SPAN", help="Pause between sweeps.")] = "1s",
) -> int:
    """Expire lost leases, bring back due retries, repair stranded lanes, in a loop; --once sweeps once.

    It ends with Ctrl-C. Any number of sweepers may run at once, on
    any number of machines.
    """
    call = invocation_of(ctx)
    every_s = span_s("--every", every)
    check_number("--every", every_s, 0.05, 3600)
    if not once:
        tell(f"Sweeping every {every_s:g} s; stop with Ctrl-C.")
    with call.service() as service:
        notifier, webhooks = notifier_of(call, service), webhooks_of(call, service)
        if webhooks is not None and not once:
            webhooks.start()  # a slow receiver must not delay a sweep
        while True:
            try:
                _print_sweep(call, service.sweep(), quiet=not once)
                notifier.run()
                if webhooks is not None and once:
                    webhooks.run()
            except (StoreUnavailable, StoreBusy) as error:
                if once:
                    raise
                # A restart of the database must not end the sweeper: it frees the locks.
                call.out.error(error)
            if once:
                return Exit.OK
            time.sleep(every_s)


def webhooks_of(call: Invocation, service: OpenedService) -> Webhooks | None:
    """Sends notices to the receivers of the settings; None without receivers, or behind a server, which sends
    them."""
    if not call.settings.notify_urls or service.store is None:
        return None
    from interlock.notify.webhooks import Webhooks

    return Webhooks(service.store, call.settings, tell=tell)


def notifier_of(call: Invocation, service: Service) -> Notifier:
    """Runs the users' commands of the settings for their events."""
    from interlock.core.notices import NOTICES
    from interlock.notify.notifier import Notifier

    chosen = {name: getattr(call.settings, name) for name in NOTICES}
    commands = {name: command for name, command in chosen.items() if command is not None}
    return Notifier(service, commands, directory=call.settings.root, tell=tell)


def _print_sweep(call: Invocation, swept: SweepView, *, quiet: bool) -> None:
    if call.out.json:
        call.out.print_json(swept)
    elif not quiet or swept.expired or swept.reentered or swept.promoted:
        call.out.page.print(
            f"{swept.expired} expired, {swept.reentered} came back, {swept.promoted} promoted,"
            f" {swept.forgotten_keys} dedupe keys forgotten."
            + (f" {swept.pruned} items pruned." if swept.pruned else "")
        )


def migrate(
    ctx: typer.Context,
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit 1 if a migration is missing.")
    ] = False,
    sql: Annotated[bool, typer.Option("--sql", help="Change nothing; print the SQL that would run.")] = False,
    after_restore: Annotated[
        bool,
        typer.Option(
            "--after-restore",
            help="After restoring a backup: skip the run numbers given out since.",
        ),
    ] = False,
    replaces: Annotated[
        str | None,
        typer.Option(metavar="STORE", help="This store replaces STORE, which is gone; see doctor."),
    ] = None,
) -> int:
    """Bring the database to this version's schema."""
    from interlock.service import administration

    if check + sql + after_restore + (replaces is not None) > 1:
        raise InvalidInput(
            "--check, --sql, --after-restore and --replaces exclude each other.", "Use one of them at a time."
        )
    call = invocation_of(ctx)
    if replaces is not None:
        lineage = administration.take_over(call.settings, replaces)
        return call.out.answer(
            lineage, f"Store {lineage.store} replaces {replaces} and may push past its fences."
        )
    if after_restore:
        last = administration.after_restore(call.settings)
        return call.out.answer(
            {"last_run": last}, f"Run numbers continue after {last}: no fence is given out twice."
        )
    answer = administration.migrate(call.settings, check=check or sql)
    if call.out.json:
        call.out.print_json(answer)
    elif sql:
        call.out.page.print(answer.sql or "-- nothing to do")
    elif answer.missing:
        call.out.print_problem(
            f"The database has schema version {answer.version}; missing migrations: {answer.missing}.",
            "Run interlock migrate.",
        )
    else:
        if answer.moved_to is not None:
            call.out.page.print(f"The store was moved to {answer.moved_to}.")
        ran = f"{answer.applied} applied just now" if answer.applied else "nothing to do"
        call.out.page.print(f"The database has schema version {answer.version}; {ran}.")
    return Exit.ERROR if check and answer.missing else Exit.OK


def doctor(ctx: typer.Context) -> int:
    """Check every invariant and the environment; exit 1 if one fails."""
    from interlock import app
    from interlock.settings.store_url import store_location

    call = invocation_of(ctx)
    unread = call.settings.unknown_variables(os.environ)
    with call.reading_lanes() as store:
        place = store_location(call.settings)
        none = f"There is no store yet, so nothing in it was checked; `interlock add` creates it: {place}."
        where = f"The store is {place}." if call.has_store else none
        checks = [
            *(store.doctor() if call.has_store else ()),
            *(app.series_checks(store) if call.has_store else ()),
            *_around(call, store),
            CheckView(name="store", ok=True, detail=where, mend=""),
            CheckView(
                name="environment",
                ok=not unread,
                detail=f"Unknown variables: {', '.join(unread)}."
                if unread
                else "Every INTERLOCK_ variable is known.",
                mend="Correct the spelling or unset it." if unread else "",
            ),
        ]
    well = all(check.ok for check in checks)
    call.out.answer({"ok": well, "checks": checks}, lambda out: views.figures.checks(out, checks))
    return Exit.OK if well else Exit.ERROR


def _around(call: Invocation, store: LaneService) -> list[CheckView]:
    """Checks of a worker's surroundings. A store in git is the remote itself."""
    from interlock.push import survey
    from interlock.settings.store_url import scheme_of

    if scheme_of(call.settings.url) == "git" or not call.has_store:
        return []
    lineage = cast("Service", store).lineage()
    return [survey.lineage_check(lineage), *survey.remote_checks(call.settings.root, lineage)]

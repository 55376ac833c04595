"""`interlock prune`: what ended long ago goes, with its history and its logs."""

from __future__ import annotations

import contextlib
import time
from typing import Annotated

from interlock.cli import typer
from interlock.cli.invocation import invocation_of
from interlock.core.names import TIMEOUT_MAX_S, check_number
from interlock.service.intake import span_s
from interlock.service.pruning import Pruned


def prune(
    ctx: typer.Context,
    older_than: Annotated[
        str, typer.Option("--older-than", metavar="SPAN", help="How long ago it must have ended, as in 90d.")
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing; say what would go.")] = False,
    vacuum: Annotated[
        bool,
        typer.Option("--vacuum", help="Give the space back to the disk (SQLite); nobody writes meanwhile."),
    ] = False,
) -> int:
    """Let items and plans go that ended long ago, with their runs, messages and events.

    Dead letters, unfinished plans and whatever something else needs stay.
    """
    from interlock import app
    from interlock.settings.places import inside

    call = invocation_of(ctx)
    older_than_s = span_s("--older-than", older_than)
    check_number("--older-than", older_than_s, 0, TIMEOUT_MAX_S * 1_000)
    found = Pruned()
    logs = inside(call.settings.root, call.settings.home / "logs")
    for step in app.prune(
        settings=call.settings, older_than_s=older_than_s, really=not dry_run, vacuum=vacuum
    ):
        found = found.plus(step)
        for run in step.runs if not dry_run else ():
            log = logs / f"run-{run}.log"
            with contextlib.suppress(OSError):
                if log.stat().st_mtime < time.time() - older_than_s:
                    log.unlink()
    answer = {
        "items": found.items,
        "plans": found.plans,
        "runs": len(found.runs),
        "events": found.events,
        "deliveries": found.deliveries,
        "dry_run": dry_run,
    }
    counted = (
        f"items {found.items:,}, plans {found.plans:,}, runs {len(found.runs):,}, events {found.events:,}"
        + (f", deliveries of GitHub {found.deliveries:,}" if found.deliveries else "")
    )
    told = f"Would go: {counted}." if dry_run else f"Gone: {counted}."
    if not dry_run and found and not vacuum:
        told += f"\n{app.space_of(call.settings)}"
    return call.out.answer(answer, told)

"""`interlock prune`: delete old ended items and plans, with their history and logs."""

from __future__ import annotations

import contextlib
import time
from typing import Annotated

from interlock.cli import typer
from interlock.cli.invocation import invocation_of
from interlock.core.names import TIMEOUT_MAX_S, check_number
from interlock.service.item_fields import span_s
from interlock.service.retention import Pruned
from interlock.settings import Settings


def prune(
    ctx: typer.Context,
    older_than: Annotated[
        str, typer.Option("--older-than", metavar="SPAN", help="Minimum age since the end, as in 90d.")
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Delete nothing; print what would be deleted.")
    ] = False,
    vacuum: Annotated[
        bool,
        typer.Option("--vacuum", help="Return the space to the disk (SQLite); writers wait meanwhile."),
    ] = False,
) -> int:
    """Delete old items and plans, with their runs, messages and events.

    Dead letters, unfinished plans and items that others depend on stay.
    """
    from interlock.service import administration
    from interlock.settings.places import inside

    call = invocation_of(ctx)
    older_than_s = span_s("--older-than", older_than)
    check_number("--older-than", older_than_s, 0, TIMEOUT_MAX_S * 1_000)
    found = Pruned()
    logs = inside(call.settings.root, call.settings.home / "logs")
    for step in administration.prune(
        call.settings, older_than_s=older_than_s, really=not dry_run, vacuum=vacuum
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
    told = f"Would delete: {counted}." if dry_run else f"Deleted: {counted}."
    if not dry_run and found and not vacuum:
        told += f"\n{_space_of(call.settings)}"
    return call.out.answer(answer, told)


def _space_of(settings: Settings) -> str:
    """What becomes of the disk space of deleted rows."""
    from interlock.settings.store_url import scheme_of

    if scheme_of(settings.url) == "sqlite":
        return "The file keeps its size, and new rows use the space; --vacuum gives it back to the disk."
    return "Autovacuum makes the space free for new rows; VACUUM FULL would give it back to the disk."

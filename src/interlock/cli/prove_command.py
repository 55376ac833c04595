"""`interlock prove`: a storm on this machine and store, judged twice."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from interlock.cli import typer
from interlock.cli.invocation import invocation_of
from interlock.service.item_fields import span_s


def prove(
    ctx: typer.Context,
    *,
    store: Annotated[
        str | None,
        typer.Option(metavar="URL", help="The database or server to try; default: a temporary SQLite file."),
    ] = None,
    seconds: Annotated[
        str | None, typer.Option(metavar="N", help="Approximate seconds; default: 60.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(metavar="S", help="Repeat the schedules of an earlier proof.")
    ] = None,
    break_: Annotated[
        str | None,
        typer.Option(
            "--break",
            metavar="GUARD",
            help="Remove a guard, so that it must fail: fence, lane, lease or dedupe.",
        ),
    ] = None,
    restart_cmd: Annotated[
        str | None, typer.Option(metavar="COMMAND", help="A shell command that restarts the store's server.")
    ] = None,
    html: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the report as one HTML page.")
    ] = None,
    evidence: Annotated[
        str | None, typer.Option(metavar="DIRECTORY", help="Keep events, items and journals there, as JSON.")
    ] = None,
) -> int:
    """Try to make this Interlock break its promises, with real processes that crash, and judge the outcome.

    It works on a store of its own and touches no other data. Two judges that share no code read the history
    and what every process was told. It fails on the first violation.
    """
    from interlock import prove as proof

    call = invocation_of(ctx)
    return proof.prove(
        url=store or call.url,
        seconds=proof.SECONDS if seconds is None else span_s("--seconds", seconds),
        seed=seed,
        broken=break_,
        restart=restart_cmd,
        html=None if html is None else Path(html),
        evidence=None if evidence is None else Path(evidence),
        as_json=call.out.json,
        color=call.out.color,
    )

"""`interlock recap`: what happened while you were away."""

from __future__ import annotations

import sys
from typing import Annotated

from interlock.cli import typer, views
from interlock.cli.invocation import invocation_of
from interlock.cli.options import Limit, limit_of
from interlock.core.errors import Exit, InvalidInput
from interlock.core.names import RECAP_MAX
from interlock.service.item_fields import span_s


def recap(
    ctx: typer.Context,
    *,
    since: Annotated[str, typer.Option(metavar="SPAN", help="How far back: the last 8h, 45m, 3d …")] = "8h",
    limit: Limit = "20",
    markdown: Annotated[
        bool, typer.Option("--markdown", help="As Markdown, for a message or an issue.")
    ] = False,
) -> int:
    """Show what finished, failed, waits for you or was superseded while you were away."""
    call = invocation_of(ctx)
    window_s, count = span_s("--since", since), limit_of(limit)
    if count > RECAP_MAX:
        raise InvalidInput(
            f"--limit is {count:,}, and a section has at most {RECAP_MAX} rows.",
            "`interlock ls --all` and `interlock events` list everything.",
        )
    with call.reading() as service:
        answer = service.recap(window_s=window_s, limit=count)
    if markdown and not call.out.json:
        sys.stdout.write(views.recap.markdown(answer))
        sys.stdout.flush()
        return Exit.OK
    return call.out.answer(answer, lambda out: views.recap.shown(out, answer))

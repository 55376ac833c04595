"""Options and arguments that several commands share, and how their values are read."""

from __future__ import annotations

from typing import Annotated

from interlock.cli import typer
from interlock.core.names import BATCH_MAX, check_number
from interlock.service.intake import span_s, whole

Reason = Annotated[str, typer.Option(metavar="TEXT", help="Why, for the history.")]
Create = Annotated[
    bool, typer.Option("--create", help="Also if nobody knows the name yet; else that is refused.")
]
Limit = Annotated[str, typer.Option(metavar="N", help="At most N, up to 1000.")]
Every = Annotated[str, typer.Option(metavar="SPAN", help="Time between two looks.")]
OnlyLane = Annotated[str | None, typer.Option(metavar="LANE", help="Only this lane.")]
OnlyTypes = Annotated[
    list[str] | None, typer.Option("--type", metavar="TYPE", help="Only items of this type; repeatable.")
]
LeaseLength = Annotated[
    str | None, typer.Option(metavar="SPAN", help="Length of the lease, as in 90s or 5m.")
]
RunsAccount = Annotated[
    str | None,
    typer.Option(metavar="LOGIN", help="GitHub account of the command; default: that of its token."),
]
OwnLabels = Annotated[list[str] | None, typer.Option(metavar="LABEL", help="A label you have; repeatable.")]
ItemOrHandle = Annotated[
    str | None,
    typer.Argument(metavar="ITEM|HANDLE", help="Default: the item of INTERLOCK_RUN."),
]

FromPerson = Annotated[
    bool, typer.Option("--from-person", help="A person wrote it; default outside of a run.")
]
FromAgent = Annotated[
    str | None, typer.Option(metavar="NAME", help="This agent wrote it; default: the one of INTERLOCK_RUN.")
]
FromBot = Annotated[
    bool, typer.Option("--from-bot", help="Our own bot wrote it: it starts, wakes and supersedes nothing.")
]
FromSystem = Annotated[bool, typer.Option("--from-system", help="Another system wrote it: CI, Dependabot, …")]
FromOutsider = Annotated[
    bool,
    typer.Option(
        "--from-outsider", help="Somebody wrote it who may start nothing, as a stranger on a public issue."
    ),
]
MessageReason = Annotated[
    str | None, typer.Option("--reason", metavar="NAME", help="Why the message came, as in issue_commented.")
]
SourceUrl = Annotated[
    str | None, typer.Option(metavar="URL", help="Where the message was written, as its comment on GitHub.")
]


def limit_of(text: str) -> int:
    """The greatest number of rows wanted."""
    count = whole("--limit", text)
    check_number("--limit", count, 1, BATCH_MAX)
    return count


def every_s_of(text: str) -> float:
    """The time between two looks."""
    every_s = span_s("--every", text)
    check_number("--every", every_s, 0.1, 3600)
    return every_s

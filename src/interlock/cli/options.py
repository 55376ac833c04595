"""Options and arguments that several commands share, and how their values are read."""

from __future__ import annotations

from typing import Annotated

from interlock.cli import typer
from interlock.core.names import BATCH_MAX, check_number
from interlock.service.item_fields import span_s, whole

Reason = Annotated[str, typer.Option(metavar="TEXT", of="cancel.why")]
Create = Annotated[bool, typer.Option("--create", of="pause_agent.create")]
Limit = Annotated[str, typer.Option(metavar="N", help="At most N, up to 1000.")]
Every = Annotated[str, typer.Option(metavar="SPAN", help="Time between polls.")]
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

FromPerson = Annotated[bool, typer.Option("--from-person", of="add.from_person")]
FromAgent = Annotated[
    str | None, typer.Option(metavar="NAME", help="This agent wrote it; default: the one of INTERLOCK_RUN.")
]
FromBot = Annotated[bool, typer.Option("--from-bot", of="add.from_bot")]
FromSystem = Annotated[bool, typer.Option("--from-system", of="add.from_system")]
FromOutsider = Annotated[
    bool,
    typer.Option("--from-outsider", of="add.from_outsider"),
]
MessageReason = Annotated[str | None, typer.Option("--reason", metavar="NAME", of="msg.reason")]
SourceUrl = Annotated[str | None, typer.Option(metavar="URL", of="msg.url")]


def limit_of(text: str) -> int:
    """The greatest number of rows wanted."""
    count = whole("--limit", text)
    check_number("--limit", count, 1, BATCH_MAX)
    return count


def every_s_of(text: str) -> float:
    """The time between two polls."""
    every_s = span_s("--every", text)
    check_number("--every", every_s, 0.1, 3600)
    return every_s

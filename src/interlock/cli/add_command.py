"""`add`: one item from options, or many from lines of JSON."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from interlock.cli import typer, views
from interlock.cli.invocation import Invocation, caller_of, invocation_of, mention_near_agent
from interlock.cli.options import (
    FromAgent,
    FromBot,
    FromOutsider,
    FromPerson,
    FromSystem,
    MessageReason,
    SourceUrl,
)
from interlock.cli.values import file_text, name_or_none, parse_json, text_of
from interlock.core.errors import Exit, InvalidInput
from interlock.core.model import ArrivalDecision, NewItem, Policy, RetryLane
from interlock.core.names import BATCH_MAX, MESSAGE_MAX_BYTES
from interlock.service.contract import HolderView
from interlock.service.item_fields import new_item, sent_by, traced

if TYPE_CHECKING:
    from interlock.cli.page import Console

_Option = typer.Option


def add(
    ctx: typer.Context,
    title: Annotated[str | None, typer.Argument(metavar="TITLE", of="add.title")] = None,
    *,
    lane: Annotated[
        str | None,
        _Option(metavar="LANE", of="add.lane"),
    ] = None,
    no_lane: Annotated[bool, _Option("--no-lane", of="add.no_lane")] = False,
    agent: Annotated[str | None, _Option(metavar="NAME", of="add.agent")] = None,
    policy: Annotated[
        str | None,
        _Option(
            metavar="POLICY",
            autocompletion=lambda: list(Policy),
            of="add.policy",
        ),
    ] = None,
    type_: Annotated[str | None, _Option("--type", metavar="TYPE", of="add.type")] = None,
    priority: Annotated[str | None, _Option(metavar="N", of="add.priority")] = None,
    payload: Annotated[
        str | None, _Option(metavar="JSON", help="A JSON object, @FILE, or - for stdin.")
    ] = None,
    message: Annotated[
        str | None, _Option(metavar="TEXT", help="The item's first message, or - for stdin.")
    ] = None,
    author: Annotated[
        str | None, _Option(metavar="NAME", help="Who wrote the message; default: you.")
    ] = None,
    dedupe_key: Annotated[str | None, _Option(metavar="KEY", of="add.dedupe_key")] = None,
    project: Annotated[str | None, _Option(metavar="NAME", of="add.project")] = None,
    position: Annotated[str | None, _Option(metavar="N", of="add.position")] = None,
    run_at: Annotated[str | None, _Option(metavar="TIME", of="add.run_at")] = None,
    lease: Annotated[
        str | None, _Option(metavar="SPAN", help="Length of its leases, as in 90s or 5m.")
    ] = None,
    timeout: Annotated[str | None, _Option(metavar="SPAN", help="Maximum time of a run, as in 2h.")] = None,
    claim_within: Annotated[
        str | None,
        _Option(metavar="SPAN", of="add.claim_within_s"),
    ] = None,
    max_attempts: Annotated[str | None, _Option(metavar="N", of="add.max_attempts")] = None,
    retry_lane: Annotated[
        str | None,
        _Option(
            metavar="yield|keep",
            autocompletion=lambda: list(RetryLane),
            of="add.retry_lane",
        ),
    ] = None,
    label: Annotated[
        list[str] | None, _Option(metavar="LABEL", help="A label an agent must have; repeatable.")
    ] = None,
    from_person: FromPerson = False,
    from_agent: FromAgent = None,
    from_bot: FromBot = False,
    from_system: FromSystem = False,
    from_outsider: FromOutsider = False,
    reason: MessageReason = None,
    source_url: SourceUrl = None,
    batch: Annotated[
        str | None,
        _Option(metavar="FILE", help="Items from a file (or -), one JSON object a line, same names."),
    ] = None,
) -> int:
    """Add an item, or many with --batch.

    The answer is its decision: admitted, queued, coalesced, superseding, rejected, duplicate or observed.
    """
    call = invocation_of(ctx)
    fields: dict[str, Any] = {
        "title": title,
        "lane": lane,
        "no_lane": no_lane or None,
        "agent": name_or_none("--agent", agent),
        "policy": policy,
        "type": type_,
        "priority": priority,
        "payload": None if payload is None else text_of("payload", payload),
        "message": text_of("message", "-", MESSAGE_MAX_BYTES) if message == "-" else message,
        "author": author,
        "dedupe_key": dedupe_key,
        "project": project,
        "position": position,
        "run_at": run_at,
        "lease": lease,
        "timeout": timeout,
        "claim_within": claim_within,
        "max_attempts": max_attempts,
        "retry_lane": retry_lane,
        "labels": label or None,
        "from_person": from_person or None,
        "from_agent": name_or_none("--from-agent", from_agent),
        "from_bot": from_bot or None,
        "from_system": from_system or None,
        "from_outsider": from_outsider or None,
        "reason": reason,
        "url": source_url,
    }
    if batch is None:
        if title is None:
            raise InvalidInput(
                "There is no title.", "Type interlock add TITLE, or interlock add --batch FILE."
            )
        arrivals = [(_new_item(call, fields), fields)]  # bad input must not open a store
    else:
        if title is not None:
            raise InvalidInput(
                "A title and --batch exclude each other.", "In a batch each line has its own title."
            )
        arrivals = _batch(call, batch, fields)
    with call.service() as service:
        mention_near_agent(service, agent)
        sender = caller_of(service)
        parent = os.environ.get("TRACEPARENT")
        answers = service.add([traced(sent_by(*each, sender), parent) for each in arrivals])
        shown = answers[0].item or answers[0].holder
        why = None
        if batch is None and shown is not None and not call.out.json:
            why = service.why(shown.item if isinstance(shown, HolderView) else shown.id)

    def show(console: Console) -> None:
        for answer in answers:
            views.arrivals.answer(console, answer, why)

    call.out.answer(answers[0] if batch is None else {"added": answers}, show)
    rejected = any(answer.decision == ArrivalDecision.REJECTED and answer.item is None for answer in answers)
    return Exit.HELD if rejected else Exit.OK


def _new_item(call: Invocation, fields: Mapping[str, Any]) -> NewItem:
    settings = call.settings
    return new_item(fields, author=settings.actor, types=settings.types, lanes=settings.lanes)


def _batch(call: Invocation, name: str, shared: Mapping[str, Any]) -> list[tuple[NewItem, dict[str, Any]]]:
    """The items of all lines, with their fields. All are read before one is added: a bad line changes
    nothing."""
    lines = [(n, line) for n, line in enumerate(file_text("batch", name).splitlines(), 1) if line.strip()]
    if not lines:
        raise InvalidInput("The batch has no items.", "Write one JSON object a line.")
    if len(lines) > BATCH_MAX:
        raise InvalidInput(
            f"The batch has {len(lines):,} items.", f"At most {BATCH_MAX:,} are allowed; split it."
        )
    arrivals = []
    for n, line in lines:
        try:
            fields = parse_json("line", line)
            if not isinstance(fields, dict):
                raise InvalidInput("The line is not a JSON object.", 'Write {"title": "…"}.')
            given = {**shared, **fields}
            arrivals.append((_new_item(call, given), given))
        except InvalidInput as error:
            sentence, hint = f"Line {n}: {error.sentence}", f"{error.hint} Nothing was added.".strip()
            raise type(error)(sentence, hint, error.cures) from None
    return arrivals

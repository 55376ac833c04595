"""The commands of a worker: claim, renew, end a run, read and write messages."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated

from interlock.cli import typer, views
from interlock.cli.invocation import Invocation, caller_of, invocation_of, mention_near_agent
from interlock.cli.options import (
    FromAgent,
    FromBot,
    FromOutsider,
    FromPerson,
    FromSystem,
    LeaseLength,
    MessageReason,
    OnlyTypes,
    OwnLabels,
    SourceUrl,
    limit_of,
)
from interlock.cli.output import Output, tell
from interlock.cli.values import json_text, name_or_none, span_or_none, text_of, whole_or_none
from interlock.core.costs import Spender
from interlock.core.errors import Exit, InterlockError, InvalidInput, UnknownRun
from interlock.core.handles import read_handle
from interlock.core.names import MESSAGE_MAX_BYTES, WAIT_MAX_S, agent_key, check_number
from interlock.core.states import ItemStatus
from interlock.process.briefing import mark_ended
from interlock.service.contract import BudgetView, ItemFilter, LaneService, NextWish, Report, RunView, Service
from interlock.service.item_fields import is_cut, quota_limit, signature, span_s, stated_sender, whole

_Handles = Annotated[
    list[str] | None, typer.Argument(metavar="HANDLE…", help="From next; default: INTERLOCK_RUN.")
]
_Seen = Annotated[str | None, typer.Option(metavar="N", of="inbox.seen")]


def claim(
    ctx: typer.Context,
    *,
    agent: Annotated[str, typer.Option(metavar="NAME", of="next.agent")],
    type_: OnlyTypes = None,
    label: OwnLabels = None,
    limit: Annotated[str, typer.Option(metavar="N", of="next.limit")] = "1",
    wait: Annotated[str, typer.Option(metavar="SPAN", help="Wait for work, at most 60 s.")] = "0",
    lease: LeaseLength = None,
    worker: Annotated[str | None, typer.Option(metavar="NAME", of="next.worker")] = None,
    item: Annotated[str | None, typer.Option(metavar="ITEM", of="next.item")] = None,
    external: Annotated[bool, typer.Option("--external", of="next.external")] = False,
) -> int:
    """Claim the next item; its handle is the right to end it."""
    call = invocation_of(ctx)
    count, wait_s = limit_of(limit), span_s("--wait", wait)
    check_number("--wait", wait_s, 0, WAIT_MAX_S)
    lease_s = span_or_none("--lease", lease)
    number = whole_or_none("item", item)
    with call.service() as service:
        mention_near_agent(service, agent)
        leases = service.next(
            agent,
            types=type_ or (),
            labels=label or (),
            limit=count,
            wait_s=wait_s,
            lease_s=lease_s,
            worker=worker,
            item=number,
            external=external,
        )
        why, listed, pool = None, None, None
        budgets: list[BudgetView] = []
        if not leases and not call.out.json:
            key = agent_key(agent)
            why = service.why(number) if number is not None else None
            listed = next((each for each in service.agents() if each.key == key), None)
            if listed is not None and listed.pool is not None:
                pool = next((each for each in service.pools() if each.name == listed.pool), None)
            with suppress(InterlockError):  # a server of an earlier version knows no budgets
                budgets = _used_up(service)
    call.out.answer(
        {"leases": leases},
        lambda out: views.runs.leases(out, agent, leases, agent=listed, pool=pool, budgets=budgets, why=why),
    )
    return Exit.OK if leases else Exit.NO_WORK


def _used_up(service: Service) -> list[BudgetView]:
    """The budgets that claims have used up; those of projects only where an item waits."""
    spent = [each for each in service.budgets().budgets if not each.left_usd]
    ready = (ItemStatus.PENDING.value,)
    return [
        each
        for each in spent
        if each.scope != Spender.PROJECT
        or service.items(ItemFilter(statuses=ready, project=each.name, limit=1))
    ]


def renew(ctx: typer.Context, handles: _Handles = None, seen: _Seen = None) -> int:
    """Renew your leases; the answer reports cancel requests and new messages."""
    reports = _reports(handles, seen)
    return _send(ctx, lambda lanes: lanes.renew(reports))


def done(
    ctx: typer.Context,
    handles: _Handles = None,
    seen: _Seen = None,
    result: Annotated[
        str | None, typer.Option(metavar="JSON", help="Kept with the run: JSON, @FILE or -.")
    ] = None,
    *,
    next_: Annotated[
        bool, typer.Option("--next", help="Claim your agent's next item in the same transaction.")
    ] = False,
    type_: OnlyTypes = None,
    label: OwnLabels = None,
    lease: LeaseLength = None,
) -> int:
    """Report that the work is finished.

    With --next, your agent's next item is claimed in the same transaction. The work is finished even if
    there is none.
    """
    reports = _reports(handles, seen, result=None if result is None else json_text("result", result))
    if not next_:
        if type_ or label or lease is not None:
            raise InvalidInput("--type, --label and --lease choose the next item.", "Add --next.")
        return _send(ctx, lambda lanes: lanes.done(reports))
    wish = NextWish(types=type_ or (), labels=label or (), lease_s=span_or_none("--lease", lease))
    call = invocation_of(ctx)
    with call.connection() as service:
        found = service.done(reports, next=wish)
    call.out.answer(found, lambda out: views.runs.ends_and_leases(out, found, call.out.refuse))
    return _code(found.runs)


def fail(
    ctx: typer.Context,
    handles: _Handles = None,
    seen: _Seen = None,
    error: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What went wrong: text, @FILE or -.")
    ] = None,
    no_retry: Annotated[
        bool, typer.Option("--no-retry", help="Fail for good, even with attempts left.")
    ] = False,
) -> int:
    """Report that the attempt failed.

    The item is retried after a back-off while attempts are left.
    """
    text = None if error is None else text_of("error", error, MESSAGE_MAX_BYTES)
    reports = _reports(handles, seen, error=text, retry=not no_retry)
    return _send(ctx, lambda lanes: lanes.fail(reports))


def release(
    ctx: typer.Context,
    handles: _Handles = None,
    *,
    seen: _Seen = None,
    item: Annotated[
        str | None, typer.Option(metavar="ITEM", help="As an operator: take this item back from its run.")
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="At a quota limit: the item waits until then.")
    ] = None,
    for_: Annotated[
        str | None, typer.Option("--for", metavar="SPAN", help="The same for a span, as in 2h.")
    ] = None,
    whole_agent: Annotated[
        bool, typer.Option("--whole-agent", help="Pause all work of your agent until then.")
    ] = False,
    whole_pool: Annotated[
        bool, typer.Option("--whole-pool", help="Pause all agents of its pool until then.")
    ] = False,
    reason: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Why, for the history; with --until, --for or --item.")
    ] = None,
) -> int:
    """Give the item back without a result.

    It is offered again at once, unless it was asked to stop; the third time in a row it waits out a back-off.
    With --until or --for it waits until then, 7 days at most, and its lane is freed.
    """
    call = invocation_of(ctx)
    met = quota_limit(until, for_, why=reason or "", whole_agent=whole_agent, whole_pool=whole_pool)
    if item is None:
        if reason is not None and met is None:
            raise InvalidInput(
                "A reason goes with --until, --for or --item.", "A holder needs only its handle."
            )
        reports = [report._replace(wall=met) for report in _reports(handles, seen)]
        code = _send(ctx, lambda lanes: lanes.release(reports))
        if code == Exit.OK and met is not None and is_cut(met, time.time()):
            tell("The wait was cut to 7 days. If the quota limit lasts longer, report it again.")
        return code
    if handles or seen is not None or met is not None:
        raise InvalidInput(
            "--item cannot be combined with a handle, --seen, --until or --for.", "Use one or the other."
        )
    if not reason:
        raise InvalidInput("--reason is missing.", "Pass --reason for the history.")
    number = whole("item", item)
    with call.service() as service:
        change = service.take_back(number, why=reason, by=call.settings.actor)
    return call.out.answer(
        {"changes": [change]}, lambda out: views.items.change(out, "was taken from its run", change)
    )


def ask(
    ctx: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[HANDLE] QUESTION", help="What you need to know; a run knows its handle."),
    ] = None,
    timeout: Annotated[
        str | None,
        typer.Option(
            metavar="SPAN",
            help="How long it keeps its lane (default: 72h), or with --keep-lease its lease"
            " (default: 1h, or the setting question_lease_s).",
        ),
    ] = None,
    *,
    yield_lane: Annotated[bool, typer.Option("--yield-lane", of="ask.yield_lane")] = False,
    keep_lease: Annotated[bool, typer.Option("--keep-lease", of="ask.keep_lease")] = False,
    close: Annotated[
        bool, typer.Option("--close", help="Ask nothing: the open question was answered here.")
    ] = False,
) -> int:
    """End your run with a question to a person.

    No attempt is lost. The next message of a person brings the item back, with question and answer.
    With --keep-lease the run goes on: `interlock inbox` prints the answer when it is there.
    """
    call, span = invocation_of(ctx), span_or_none("--timeout", timeout)
    if close:
        return _close_question(call, words or [])
    run, text = _asked(words or [])
    if span is None and keep_lease:
        span = call.settings.question_lease_s
    with call.service() as service:
        answer = service.ask(run, text, timeout_s=span, yield_lane=yield_lane, keep_lease=keep_lease)
    if answer.refusal is None and not keep_lease:
        mark_ended(run)
    call.out.answer({"runs": [answer]}, lambda out: views.runs.asked(out, text, answer, call.out.refuse))
    return Exit.LEASE_LOST if answer.refusal is not None else Exit.OK


def _close_question(call: Invocation, words: list[str]) -> int:
    if len(words) > 1:
        raise InvalidInput("--close takes no question.", "Pass the handle alone.")
    with call.service() as service:
        answer = service.close_question(_handles(words or None)[0])
    call.out.answer({"runs": [answer]}, lambda out: views.runs.reports(out, [answer], call.out.refuse))
    return Exit.LEASE_LOST if answer.refusal is not None else Exit.OK


def inbox(
    ctx: typer.Context,
    handle: Annotated[str | None, typer.Argument(metavar="HANDLE", help="Default: INTERLOCK_RUN.")] = None,
    seen: _Seen = None,
) -> int:
    """Read the messages your run has not seen yet; once they are printed they count as read."""
    call = invocation_of(ctx)
    run = _handles([handle] if handle else None)[0]
    mark = whole_or_none("--seen", seen) or 0
    with call.lanes() as service:
        messages = service.inbox(run, seen=mark)
        call.out.answer({"messages": messages}, lambda out: views.runs.inbox(out, messages))
        if messages:
            _mark_read(call.out, service, Report(run=run, seen=messages[-1].n))
    return Exit.OK


def msg(
    ctx: typer.Context,
    item: Annotated[str, typer.Argument(metavar="ITEM", of="msg.item")],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The message, or - for stdin.")],
    *,
    author: Annotated[str | None, typer.Option(metavar="NAME", help="Who wrote it; default: you.")] = None,
    from_person: FromPerson = False,
    from_agent: FromAgent = None,
    from_bot: FromBot = False,
    from_system: FromSystem = False,
    from_outsider: FromOutsider = False,
    reason: MessageReason = None,
    source_url: SourceUrl = None,
) -> int:
    """Send a message to an item: its run reads it, or the next one.

    Inside of a run it is written by the run's agent.
    """
    call = invocation_of(ctx)
    number = whole("item", item)
    message = text_of("message", text, MESSAGE_MAX_BYTES) if text == "-" else text
    stated = stated_sender(
        from_person=from_person,
        from_agent=name_or_none("--from-agent", from_agent),
        from_bot=from_bot,
        from_system=from_system,
        from_outsider=from_outsider,
    )
    actor = call.settings.actor
    with call.lanes() as service:
        who, signed = signature(stated, author, caller=actor, sender=stated or caller_of(service))
        change = service.msg(
            number, message, author=signed, sender=who, reason=reason or "", url=source_url or ""
        )
    if author is not None and call.settings.url.lower().startswith("http"):
        with call.reading() as look:
            kept = next((m for m in look.show(change.item.id).messages if m.n == change.n), None)
        if kept is not None and kept.author != author:
            tell(f"It is signed by {kept.author}, not {author}: an agent's token writes as its agent.")
    return call.out.answer(change, lambda out: views.items.told(out, number, change))


def _mark_read(out: Output, service: LaneService, report: Report) -> None:
    """Mark messages as read only after printing: a reader that is gone by then must get them again."""
    try:
        service.renew([report])
    except InterlockError as error:
        out.print_problem(
            f"These messages are still unread: {error.sentence}", "The next inbox prints them again."
        )


def _asked(given: list[str]) -> tuple[str, str]:
    """The handle and the question; inside of a run the question alone will do."""
    with suppress(UnknownRun):
        if len(given) == 1 and read_handle(given[0]):
            given = []  # a handle is no question
    if not given:
        raise InvalidInput("QUESTION is missing.", 'Ask what you need to know: interlock ask HANDLE "…".')
    if len(given) > 2:
        raise InvalidInput("There are too many arguments.", 'Put the question in quotes: interlock ask "…".')
    return (given[0], given[1]) if len(given) > 1 else (_handles(None)[0], given[0])


def _handles(given: list[str] | None) -> list[str]:
    handles = given or os.environ.get("INTERLOCK_RUN", "").split()
    if not handles:
        raise InvalidInput("HANDLE is missing.", "Use the handle that `next` returned, or set INTERLOCK_RUN.")
    return handles


def _reports(
    given: list[str] | None,
    seen: str | None,
    *,
    result: str | None = None,
    error: str | None = None,
    retry: bool = True,
) -> list[Report]:
    handles = _handles(given)
    mark = whole_or_none("--seen", seen) or 0
    if mark and len(handles) > 1:
        raise InvalidInput(
            "--seen works for one run only.", "Each run has its own read mark: report them one by one."
        )
    return [Report(run=handle, seen=mark, result=result, error=error, retry=retry) for handle in handles]


def _send(ctx: typer.Context, send: Callable[[LaneService], list[RunView]]) -> int:
    """Send reports and print all answers; exit 5 if one of them is a refusal."""
    call = invocation_of(ctx)
    with call.lanes() as lanes:
        answers = send(lanes)
    call.out.answer({"runs": answers}, lambda out: views.runs.reports(out, answers, call.out.refuse))
    return _code(answers)


def _code(answers: list[RunView]) -> int:
    return Exit.LEASE_LOST if any(answer.refusal is not None for answer in answers) else Exit.OK

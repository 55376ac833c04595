"""Endings: what happens to an item when its run ends, in any way. All ends use one finish.

A run's report is accepted iff the item's current run *is* that run, by its number and by the bits in its
handle; any other report is refused and counted.

=============  ==========================  ===================================================
the run        under a cancel request      otherwise
=============  ==========================  ===================================================
succeeded      completed                   completed
failed         superseded / cancelled      parked in back-off, or failed after the last attempt
released       superseded / cancelled      pending; the third in a row is parked
released       superseded / cancelled      (at a quota limit) waiting until it ends, off its lane
released       superseded / cancelled      (with a question) waiting for a person, its lane kept
released       superseded / cancelled      (by a set-up fault) pending with its lane, after a pause
released       superseded / cancelled      (its open question timed out) waiting for a person, its lane kept
lost           superseded / cancelled      pending again with its lane, or failed
timed out      superseded / cancelled      pending again with its lane, or failed
cancelled      superseded / cancelled      (cannot be)
=============  ==========================  ===================================================

If a shut gate asked the run to stop, only a success or a final failure ends the item. After any other end it
is pending again and waits for the gate. Neither an attempt nor a release is counted.

A hold that failed for good ends cancelled: a hold cannot be retried.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, assert_never

from interlock.core.claims import check_seen
from interlock.core.commands import (
    CommandAnswer,
    EndExternal,
    Finish,
    FinishAnswer,
    Outcome,
    Question,
    QuotaLimit,
)
from interlock.core.cures import cure
from interlock.core.errors import CycleExpired, LeaseLost, Refusal
from interlock.core.handles import Handle
from interlock.core.lanes import carry_messages, newest_replacement, promote, quote_question, reenter
from interlock.core.ledger import Ledger
from interlock.core.model import (
    A_PERSON,
    FOLLOW_UP,
    Event,
    EventKind,
    Item,
    ItemId,
    Reason,
    RetryLane,
    RunId,
    RunRecord,
    Sender,
    SenderKind,
    State,
    Streak,
    Unread,
)
from interlock.core.names import TITLE_MAX_CHARS
from interlock.core.plans.model import EDIT_TYPE, plan_of_lane
from interlock.core.states import ItemStatus, RunStatus, check_run_move
from interlock.core.timing import (
    QUESTION_TIMEOUT_S,
    QUOTA_LIMIT_MAX_S,
    RELEASES_BEFORE_BACK_OFF,
    back_off_s,
    clock,
    to_us,
)
from interlock.core.wakeups import one_more, record_wake_limit, starts_nothing, why_nothing

_STATUS_OF = {
    Outcome.DONE: RunStatus.SUCCEEDED,
    Outcome.FAIL: RunStatus.FAILED,
    Outcome.RELEASE: RunStatus.RELEASED,
    Outcome.CANCEL: RunStatus.CANCELLED,
    Outcome.YIELD: RunStatus.CANCELLED,
}
_EVENT_OF: dict[RunStatus, EventKind] = {
    s: EventKind(f"run.{s}") for s in RunStatus if s is not RunStatus.RUNNING
}


def any_accepted(answers: Sequence[FinishAnswer]) -> bool:
    """Whether a report was accepted. Only then it may bring its agent the next item: a report that is sent
    again, because its answer was lost, is refused and must not claim a second one."""
    return any(answer.refusal is None for answer in answers)


def finish(ledger: Ledger, command: Finish) -> FinishAnswer:
    """A run reports its end; refused unless it is still the item's current run."""
    item = ledger.items.get(command.item)
    if item is None or not item.is_run_of(command.run, command.bits):
        return refuse(ledger, command.run, command.bits, command.outcome, item)
    check_seen(item, command.seen)
    status = _STATUS_OF[command.outcome]
    if item.stops_for_good and status is RunStatus.RELEASED:
        status = RunStatus.CANCELLED
    if command.question is not None and may_ask(ledger, item):
        item = _ask(ledger, item, command.question)
    why = command.quota_limit.why or None if command.quota_limit else None
    if command.fault_s is not None:
        why = command.error
    promoted = end_run(ledger, item, status, Reason.REPORTED, command, why=why)
    limit = command.quota_limit
    if limit is not None and (limit.whole_agent or limit.whole_pool):
        _limit_agents(ledger, item, limit, command.pool_agents)
    follow_up = dict(ledger.out.payload_copies).get(item.id) if ledger.out.payload_copies else None
    return FinishAnswer(command.run, command.item, status, None, promoted, follow_up)


def end_external(ledger: Ledger, command: EndExternal) -> CommandAnswer:
    """End an external run whose end was observed, iff it is still the item's current run."""
    item, status = ledger.items[command.item], _STATUS_OF[command.outcome]
    if item.state.run != command.run:
        now = f"has run {item.state.run}" if item.state.run is not None else f"is {item.status}"
        sentence = f"Run {command.run} is not the current run of item {item.id}, which {now}."
        return CommandAnswer(item=item.id, changed=False, refusal=sentence)
    if not item.external:
        return CommandAnswer(
            item=item.id,
            changed=False,
            refusal=f"Run {command.run} of item {item.id} is not external.",
            hint="Only its holder reports its end.",
            cures=(cure("cancel", "asks it to stop", item=item.id, why=None),),
        )
    if item.stops_for_good and status is RunStatus.RELEASED:
        status = RunStatus.CANCELLED
    elif not item.stops_for_good and status is RunStatus.CANCELLED:
        item = ledger.change(item, cancel_into=ItemStatus.CANCELLED, cancel_why=command.why)
    if command.outcome is Outcome.YIELD:
        ledger.event(EventKind.SERIES_YIELDED, item, command.why, run=command.run, by=command.by)
    error = command.why if status is RunStatus.FAILED else None
    report = Finish(command.run, item.id, command.outcome, result=command.result, error=error)
    promoted = end_run(ledger, item, status, Reason.SEEN_OUTSIDE, report, why=command.why, by=command.by)
    return CommandAnswer(item=item.id, changed=True, promoted=promoted)


def may_ask(ledger: Ledger, item: Item) -> bool:
    """Whether an item may ask: not if it was asked to stop or a newer item replaces it."""
    return not item.stops_for_good and newest_replacement(ledger, item) is None


def _ask(ledger: Ledger, item: Item, question: Question) -> Item:
    """Record the question, also as a message: the next run sees it next to the answer."""
    agent = item.state.run_agent or ""
    sender = Sender(SenderKind.AGENT, agent)
    item = ledger.add_message(
        item.id, question.text, ticket=question.ticket, origin=item.id, author=agent, sender=sender
    )
    ledger.event(
        EventKind.QUESTION_ASKED,
        item,
        Reason.ASKED,
        run=item.state.run,
        agent=agent,
        n=item.state.message_count,
        question=question.text,
        until_us=ledger.now_us + to_us(question.timeout_s),
    )
    return item


def _limit_agents(ledger: Ledger, item: Item, limit: QuotaLimit, others: Sequence[str]) -> None:
    """Stop the agent, and the others of its pool, until the quota limit that its run has hit ends."""
    until_us, agent = _limit_until_us(ledger, limit), item.state.run_agent
    if until_us <= ledger.now_us:
        return
    assert agent is not None
    for name in dict.fromkeys((agent, *others)):
        known = [each for each in ledger.out.quota_limits if each[0] == name]
        if any(until_us <= earlier_us for _, earlier_us, _ in known):
            continue  # of two limits in one batch the later one counts
        for earlier in known:
            ledger.out.quota_limits.remove(earlier)
        ledger.out.quota_limits.append((name, until_us, limit.why))
        ledger.event(
            EventKind.AGENT_WALLED,
            None,
            Reason.QUOTA_WALL,
            run=item.state.run,
            agent=name,
            until_us=until_us,
            why=limit.why or None,
        )


def _limit_until_us(ledger: Ledger, limit: QuotaLimit) -> int:
    """When a quota limit ends, at most `QUOTA_LIMIT_MAX_S` from now."""
    until_us = ledger.now_us + to_us(limit.for_s or 0.0) if limit.until_us is None else limit.until_us
    return min(until_us, ledger.now_us + to_us(QUOTA_LIMIT_MAX_S))


def refuse(ledger: Ledger, run: RunId, bits: int | None, wanted: str, item: Item | None) -> FinishAnswer:
    """Explain what happened since a late write, and count it."""
    ended = ended_run(ledger, run, bits)
    mine = None if ended is None else item
    if not _was_reported(ended):
        ledger.event(EventKind.RUN_REFUSED, mine, _why_refused(ended), run=run, wanted=wanted)
    return FinishAnswer(run, mine and mine.id, None, explain_loss(run, ended, mine))


def ended_run(ledger: Ledger, run: RunId, bits: int | None) -> RunRecord | None:
    """The end of the run with this handle, before or in this transaction; null if no run had the handle."""
    here = (r for r in ledger.out.runs if r.run == run)
    ended = ledger.snapshot.ended_runs.get(run) or next(here, None)
    return ended if ended is not None and ended.bits == bits else None


def refused_writes(
    handles: Sequence[Handle], ended: Mapping[Handle, RunRecord], wanted: str, now_us: int
) -> list[Event]:
    """The events that count writes refused outside a decision."""
    return [
        Event(
            kind=EventKind.RUN_REFUSED,
            at_us=now_us,
            reason=_why_refused(ended.get(handle)),
            item=ended[handle].item if handle in ended else None,
            run=handle.run,
            data={"wanted": wanted},
        )
        for handle in handles
        if not _was_reported(ended.get(handle))
    ]


def _was_reported(ended: RunRecord | None) -> bool:
    """Whether the run reported its end: later writes with its handle are late, not a zombie's."""
    return ended is not None and ended.reason == Reason.REPORTED


def _why_refused(ended: RunRecord | None) -> Reason:
    """The refusal if the run has ended or this store has no run with this handle."""
    return Reason.FOREIGN_HANDLE if ended is None else Reason.LEASE_LOST


def explain_loss(run: int, ended: RunRecord | None, item: Item | None) -> Refusal:
    """Why a run may no longer write, and what to do. Without an `ended` run, the store does not know it."""
    if ended is None:
        sentence = f"There is no run {run} with this handle in this store; nothing was changed."
        hint = (
            "Check the handle for typing errors. If it is right, stop working on the item and discard the"
            " result: the store was replaced or restored, lost the run in a failover, or is another one."
        )
        return Refusal(code=LeaseLost.code, sentence=sentence, hint=hint)
    if item is not None and item.state.reason == Reason.EDIT_CYCLE_EXPIRED:
        plan = plan_of_lane(item.spec.lane or "")
        sentence = f"Run {run} did not answer in time: the edit cycle of plan {plan} has expired."
        hint = "Discard this edit. The next batch contains its completions again."
        return Refusal(code=CycleExpired.code, sentence=sentence, hint=hint)
    agent = f"of {ended.agent} " if ended.agent else ""
    how = f"{agent}ended as {ended.status} ({ended.reason})"
    now = f" Item {item.id} is {item.status}{_run_in_words(item)}." if item is not None else ""
    hint = "Stop working on it and discard the result."
    if ended.status is RunStatus.SUCCEEDED:
        hint = "Its result is already recorded."
    return Refusal(
        code=LeaseLost.code,
        sentence=f"Run {run} {how}; the write was refused.{now}",
        hint=hint,
        cures=(cure("next", "claims another item", agent=ended.agent or None),),
    )


def _run_in_words(item: Item) -> str:
    """The run of an item: its agent, its start and its deadline."""
    state = item.state
    if state.run is None or state.run_started_us is None:
        return ""
    run = f"{'external ' if item.external else ''}run {state.run}"
    since = f" with {run} of {state.run_agent} since {clock(state.run_started_us)}"
    if state.due_us is None:
        return since
    until = clock(state.due_us) + (" unless renewed" if state.due_us == state.lease_until_us else "")
    return f"{since}, until {until}"


def expire(ledger: Ledger, item: Item) -> tuple[ItemId, ...]:
    """End a run past its deadline, bring back a due item, or end one that was not claimed in time."""
    state = item.state
    if not item.overdue(ledger.now_us):
        return ()
    if state.ready:
        return _end_unclaimed(ledger, item)
    if item.asking and not item.asking_live:
        return _time_out(ledger, item)
    if item.status is not ItemStatus.IN_PROGRESS:
        return reenter(ledger, item, Reason.DUE)
    assert state.run_started_us is not None
    timeout_s = item.spec.timeout_s
    if state.revoke_us is not None and state.revoke_us <= ledger.now_us:
        return end_run(ledger, item, RunStatus.CANCELLED, Reason.CANCEL_GRACE_OVER)
    if timeout_s is not None and state.run_started_us + to_us(timeout_s) <= ledger.now_us:
        return end_run(ledger, item, RunStatus.TIMED_OUT, Reason.RUN_TIMEOUT)
    assert not item.external, "no lease of an external run can end"
    if item.asking_live and state.run_worker is None and not item.stops_for_good:
        return _end_unanswered(ledger, item)
    return end_run(ledger, item, RunStatus.LOST, Reason.LEASE_EXPIRED)


def _end_unanswered(ledger: Ledger, item: Item) -> tuple[ItemId, ...]:
    """The open question of a live run was not answered in time: the run ends with it, as `ask` ends one."""
    state, ticket = item.state, item.spec.ticket
    assert state.run is not None
    asked = Question(ledger.questions.get(item.id, ""), ticket, QUESTION_TIMEOUT_S)
    if may_ask(ledger, item):
        item = quote_question(ledger, item, A_PERSON, ticket)
        ledger.event(
            EventKind.QUESTION_TIMED_OUT,
            item,
            Reason.ASKED,
            run=state.run,
            status=ItemStatus.WAITING if item.spec.lane is None else ItemStatus.PENDING,
            until_us=ledger.now_us + to_us(asked.timeout_s),
        )
    report = Finish(state.run, item.id, Outcome.RELEASE, question=asked)
    return end_run(ledger, item, RunStatus.RELEASED, Reason.ASKED, report)


def _time_out(ledger: Ledger, item: Item) -> tuple[ItemId, ...]:
    """The question was not answered in time: the item keeps asking, and gives up its lane."""
    owned, lane = item.active, item.spec.lock_lane
    due_us = ledger.now_us + to_us(QUESTION_TIMEOUT_S)
    item = ledger.change(item, status=ItemStatus.WAITING, due_us=due_us)
    ledger.event(EventKind.QUESTION_TIMED_OUT, item, Reason.ASKED, status=item.status, until_us=due_us)
    return promote(ledger, lane, None) if owned and lane is not None else ()


def _end_unclaimed(ledger: Ledger, item: Item) -> tuple[ItemId, ...]:
    """End an item that was not claimed in time, and promote the next on its lane. If it could not be claimed,
    its time starts again."""
    if item.id in ledger.snapshot.held_back:
        assert item.spec.claim_within_s is not None
        ledger.change(item, claim_by_us=ledger.now_us + to_us(item.spec.claim_within_s))
        return ()
    item = ledger.change(item, status=ItemStatus.CANCELLED, ended_us=ledger.now_us, reason=Reason.UNCLAIMED)
    ledger.event(EventKind.ITEM_CANCELLED, item, Reason.UNCLAIMED)
    lane = item.spec.lock_lane
    return promote(ledger, lane, None) if lane is not None else ()


def end_run(
    ledger: Ledger,
    item: Item,
    status: RunStatus,
    reason: Reason | str,
    report: Finish | None = None,
    *,
    why: str | None = None,
    by: str | None = None,
) -> tuple[ItemId, ...]:
    """End the item's run, decide the item's next state, and promote the next on its lane.

    `why` and `by` are the operator's, for the history; `why` may also be a set-up fault.
    """
    state = item.state
    assert state.run is not None and state.run_agent is not None and state.run_started_us is not None
    check_run_move(state.run, RunStatus.RUNNING, status)
    ledger.out.runs.append(
        RunRecord(
            run=state.run,
            item=item.spec.id,
            attempt=state.attempt,
            agent=state.run_agent,
            worker=state.run_worker,
            started_us=state.run_started_us,
            ended_us=ledger.now_us,
            status=status,
            reason=reason,
            result=report.result if report else None,
            error=report.error if report else None,
            bits=state.run_bits,
        )
    )
    if item.spec.lane is not None:
        ledger.set_last_agent(item.spec.lane, state.run_agent)
    unread = _unread(ledger, item, report)
    after = _next_state(ledger, item, status, reason, report)
    own = _unread_without_wake(ledger, item, after, unread) if unread else {}
    item = ledger.set_state(item, after)
    kind, span_us = _EVENT_OF[status], ledger.now_us - state.run_started_us
    if status is RunStatus.SUCCEEDED:
        seen = {"why": why, "by": by} if why is not None else {}
        ledger.event(kind, item, reason, run=state.run, agent=state.run_agent, span_us=span_us, **own, **seen)
    else:
        ledger.event(
            kind,
            item,
            reason,
            run=state.run,
            agent=state.run_agent,
            span_us=span_us,
            item_status=item.state.status,
            attempt=state.attempt,
            why=why,
            by=by,
            **own,
        )
        _log_settling(ledger, item)
    if (unread or after.absorbed_by is not None) and item.terminal and not own:
        _settle_messages(ledger, item, unread)
    lane = item.spec.lane or item.spec.observed_lane
    if lane is None or item.active:
        return ()
    return promote(ledger, lane, state.run)


def _next_state(
    ledger: Ledger, item: Item, status: RunStatus, reason: Reason | str, report: Finish | None
) -> State:
    before = item.state
    if status is RunStatus.SUCCEEDED:
        return _ended_state(ledger, before, ItemStatus.COMPLETED, reason)
    exhausted = before.attempt >= item.spec.max_attempts
    no_retry = report is not None and not report.retry
    if item.stops_for_good:
        assert before.cancel_into is not None
        return _ended_state(ledger, before, before.cancel_into, before.cancel_why or reason)
    if before.cancel_into is not None and not (status is RunStatus.FAILED and no_retry):  # its lane was shut
        return _released(ledger, item, before.cancel_why or reason, report)
    match status:
        case RunStatus.CANCELLED:
            return _ended_state(ledger, before, ItemStatus.CANCELLED, reason)
        case RunStatus.LOST | RunStatus.TIMED_OUT:
            if exhausted:
                return _failed(ledger, item, Reason.ATTEMPTS_EXHAUSTED)
            return _pending_again(before, reason)
        case RunStatus.FAILED:
            if exhausted or no_retry:
                why = Reason.NO_RETRY if no_retry else Reason.ATTEMPTS_EXHAUSTED
                return _failed(ledger, item, why)
            return _park(ledger, item, before, report, Reason.BACK_OFF)
        case RunStatus.RELEASED:
            return _released(ledger, item, reason, report)
        case _:
            raise AssertionError(f"a run cannot end {status}")


def _released(ledger: Ledger, item: Item, reason: Reason | str, report: Finish | None) -> State:
    """The state of an item that its run gave back, or an operator took back. No attempt is lost."""
    before = item.state
    newer = newest_replacement(ledger, item)
    if newer is not None:
        gone = _ended_state(ledger, before, ItemStatus.SUPERSEDED, Reason.NEWER_ARRIVAL)
        return gone._replace(absorbed_by=newer.id)
    returned = before._replace(attempt=before.attempt - 1)
    if report is not None and report.question is not None:
        return _asking(ledger, item, returned, report.question)
    limit = report.quota_limit if report is not None else None
    if limit is not None and (until_us := _limit_until_us(ledger, limit)) > ledger.now_us:
        waiting = _pending_again(returned, Reason.QUOTA_WALL, before.releases)
        return waiting._replace(status=ItemStatus.WAITING, due_us=until_us)
    if report is not None and report.fault_s is not None:
        return _after_setup_fault(ledger, item, returned, report.fault_s)
    if before.cancel_into is not None:
        return _pending_again(returned, reason, before.releases)
    releases = before.releases + 1
    if releases >= RELEASES_BEFORE_BACK_OFF:
        return _park(ledger, item, returned, report, Reason.RELEASED_OFTEN, releases)
    return _pending_again(returned, reason, releases)


def _ended_state(ledger: Ledger, before: State, status: ItemStatus, reason: Reason | str) -> State:
    """End the item: clear the fields of its run, and keep its read mark."""
    return State(
        status=status,
        attempt=before.attempt,
        absorbed_by=before.absorbed_by if status is ItemStatus.SUPERSEDED else None,
        message_count=before.message_count,
        delivered=before.delivered,
        seen=before.seen,
        first_claimed_us=before.first_claimed_us,
        ended_us=ledger.now_us,
        reason=reason,
        streak=before.streak,
        last_agent=before.run_agent,
    )


def _failed(ledger: Ledger, item: Item, why: Reason) -> State:
    """End the item as failed: a dead letter, which may be retried. A hold ends cancelled, as its process has
    ended."""
    status = ItemStatus.CANCELLED if item.is_hold else ItemStatus.FAILED
    return _ended_state(ledger, item.state, status, why)


def _pending_again(before: State, reason: Reason | str, releases: int = 0) -> State:
    """Make the item pending again at once, still the owner of its lane. The next attempt reads all messages
    again."""
    return State(
        status=ItemStatus.PENDING,
        attempt=before.attempt,
        releases=releases,
        message_count=before.message_count,
        first_claimed_us=before.first_claimed_us,
        reason=reason,
        streak=before.streak,
        last_agent=before.run_agent,
    )


def _asking(ledger: Ledger, item: Item, before: State, question: Question) -> State:
    keeps = item.spec.lane is not None and not question.yields
    return _pending_again(before, Reason.ASKED, before.releases)._replace(
        status=ItemStatus.PENDING if keeps else ItemStatus.WAITING,
        due_us=ledger.now_us + to_us(question.timeout_s),
    )


def _park(
    ledger: Ledger, item: Item, before: State, report: Finish | None, reason: Reason, releases: int = 0
) -> State:
    keep = item.spec.retry_lane is RetryLane.KEEP and item.spec.lane is not None
    nth = max(before.attempt, releases - RELEASES_BEFORE_BACK_OFF + 1, 1)
    pause_s = back_off_s(ledger.timing, nth, report.jitter if report else 0.5)
    return _pending_again(before, reason, releases)._replace(
        status=ItemStatus.PENDING if keep else ItemStatus.WAITING,
        due_us=ledger.now_us + to_us(pause_s),
    )


def _after_setup_fault(ledger: Ledger, item: Item, before: State, pause_s: float) -> State:
    """After a set-up fault: offer the item again after a pause, still the owner of its lane."""
    again = _pending_again(before, Reason.SETUP_FAULT, before.releases)
    if not pause_s:
        return again
    status = ItemStatus.WAITING if item.spec.lane is None else ItemStatus.PENDING
    return again._replace(status=status, due_us=ledger.now_us + to_us(pause_s))


def _log_settling(ledger: Ledger, item: Item) -> None:
    match item.status:
        case ItemStatus.FAILED:
            pass  # the run's event is enough
        case ItemStatus.WAITING | ItemStatus.PENDING:
            if item.state.due_us is not None:
                ledger.event(EventKind.ITEM_PARKED, item, item.state.reason, until_us=item.state.due_us)
        case ItemStatus.SUPERSEDED:
            ledger.event(EventKind.ITEM_SUPERSEDED, item, item.state.reason, by_item=item.state.absorbed_by)
        case ItemStatus.CANCELLED:
            ledger.event(EventKind.ITEM_CANCELLED, item, item.state.reason)
        case ItemStatus.DEFERRED | ItemStatus.IN_PROGRESS | ItemStatus.COMPLETED | ItemStatus.COALESCED:
            raise AssertionError(f"an ended run cannot leave its item {item.status}")
        case other:
            assert_never(other)


def _unread(ledger: Ledger, item: Item, report: Finish | None) -> list[Unread]:
    """The messages that the ending run has not read. Those that it got at its claim count as read."""
    state = item.state
    mark = max(state.seen, state.delivered, report.seen if report else 0)
    if state.message_count <= mark:
        return []
    unread = [m for m in ledger.unread.get(item.id, ()) if m.n > mark]
    here = (m for m in ledger.out.messages if m.item == item.id and m.n > mark)
    return unread + [Unread(m.n, m.ticket, m.sender, m.agent) for m in here]


def _unread_without_wake(ledger: Ledger, item: Item, after: State, unread: list[Unread]) -> dict[str, Any]:
    """The event's note on unread messages that start nothing: they stay with the ended item."""
    ends = after.ended_us is not None and _successor(ledger, after) is None
    if not ends or not all(starts_nothing(item, m.sender, m.agent) for m in unread):
        return {}
    return {"unread": len(unread), "unread_why": why_nothing({m.sender for m in unread})}


def _successor(ledger: Ledger, state: State) -> Item | None:
    """The item that gets all messages of a superseded one."""
    newer = ledger.items.get(state.absorbed_by) if state.absorbed_by else None
    return newer if newer is not None and not newer.terminal else None


def _settle_messages(ledger: Ledger, item: Item, unread: list[Unread]) -> None:
    """Keep the messages of an ended item that no run has read: a superseded item passes all of its messages
    to its successor, otherwise the unread ones become a follow-up item."""
    newer = _successor(ledger, item.state)
    if newer is not None:
        carry_messages(ledger, item, newer)
    elif unread:
        _follow_up(ledger, item, unread)


def _follow_up(ledger: Ledger, item: Item, unread: list[Unread]) -> None:
    """Make an item of unread messages, in order. It waits for a person if none wrote any of them and there
    were as many wake-ups in a row as may be."""
    ticket, count = min(m.ticket for m in unread), len(unread)
    mark = item.state.message_count - count
    spec = item.spec
    if spec.type == EDIT_TYPE:  # a message that came too late for an edit becomes separate work, not an edit
        spec = spec._replace(type="task", lane=None)
    chain = spec.id if spec.lane is None else spec.lane
    streak: Streak | None = ledger.streak(chain)
    if not any(m.sender is SenderKind.PERSON for m in unread):
        streak = one_more(ledger, chain)
    if streak is not None and spec.lane is not None:
        ledger.set_streak(chain, streak)
    title = spec.title if item.follow_up else f"{FOLLOW_UP}{spec.title}"
    waits = ItemStatus.DEFERRED if spec.lane is not None else ItemStatus.PENDING
    # It joins its lane's line before the promotion, which may then choose it.
    child = ledger.add(
        spec._replace(
            id=ledger.spare_id(),
            title=title[:TITLE_MAX_CHARS],
            ticket=ticket,
            sort_key=ledger.sort_key(spec.priority, ticket),
            created_us=ledger.now_us,
            plan=None,
        ),
        State(
            status=waits if streak is not None else ItemStatus.WAITING,
            message_count=count,
            reason=Reason.UNREAD_MESSAGES if streak is not None else Reason.LOOP,
            streak=0 if spec.lane is not None else (streak or ledger.streak(chain)).wakes,
        ),
    )
    ledger.out.payload_copies.append((item.id, child.id))
    ledger.move_messages(item.id, child.id, after=mark, shift=-mark)
    ledger.change(ledger.items[item.id], message_count=mark)
    ledger.event(
        EventKind.ITEM_ADDED, child, Reason.UNREAD_MESSAGES, status=child.status, follows_item=item.id
    )
    if streak is None:
        record_wake_limit(ledger, child)

"""Questions of live runs: a run asks a person, keeps its lease, and goes on when it has the answer.

    asked ──┬── a person's message ── the run gets it, and is no longer asking
            ├── closed by the run ─── it was answered where the run works, such as at its terminal
            ├── the run ends ──────── the question ends with it
            └── nobody answers ────── the run ends as with `ask`: its item waits for the answer

A run with a worker is renewed by it, as always: its lease stays short, so a dead worker frees the item within
one lease. Nobody renews the lease of a run without a worker while its prompt is open: it lasts until the
question times out. Renewals never shorten it before that.
"""

from __future__ import annotations

from interlock.core.commands import AskLive, CloseQuestion, FinishAnswer
from interlock.core.endings import may_ask, refuse
from interlock.core.ledger import Ledger
from interlock.core.model import EventKind, Item, Reason
from interlock.core.states import RunStatus
from interlock.core.timing import deadline_us, to_us


def ask_live(ledger: Ledger, command: AskLive) -> FinishAnswer:
    """A live run asks a person. Asking the same again changes nothing; another question replaces the first.

    A run that was asked to stop, or whose item a newer one replaces, asks nobody.
    """
    item = ledger.items.get(command.item)
    if item is None or not item.is_run_of(command.run, command.bits):
        return refuse(ledger, command.run, command.bits, "ask", item)
    same = item.asking_live and ledger.questions.get(item.id) == command.question
    if not same and may_ask(ledger, item):
        until_us = ledger.now_us + to_us(command.timeout_s)
        if item.state.run_worker is None and not item.external:
            item = _leased_until(ledger, item, until_us)
        item = ledger.change(item, reason=Reason.ASKED)
        ledger.questions[item.id] = command.question
        ledger.event(
            EventKind.QUESTION_ASKED,
            item,
            Reason.ASKED,
            run=item.state.run,
            agent=item.state.run_agent,
            question=command.question,
            until_us=item.state.due_us if item.state.run_worker is None else None,
            live=True,
        )
    return FinishAnswer(command.run, item.id, RunStatus.RUNNING)


def close_question(ledger: Ledger, command: CloseQuestion) -> FinishAnswer:
    """The question of a live run was answered where it works. Without an open question this is a renewal."""
    item = ledger.items.get(command.item)
    if item is None or not item.is_run_of(command.run, command.bits):
        return refuse(ledger, command.run, command.bits, "close_question", item)
    if item.asking_live:
        ledger.event(EventKind.QUESTION_ANSWERED, item, Reason.ANSWERED, run=item.state.run, live=True)
        item = ledger.change(item, reason=Reason.ANSWERED)
    if item.state.run_lease_s is not None:
        item = _leased_until(ledger, item, ledger.now_us + to_us(item.state.run_lease_s))
    return FinishAnswer(command.run, item.id, RunStatus.RUNNING)


def _leased_until(ledger: Ledger, item: Item, until_us: int) -> Item:
    """The item with its run's lease until then, but not past the grace of a cancel request."""
    spec, state = item
    if state.revoke_us is not None:
        until_us = min(until_us, state.revoke_us)
    assert state.run_started_us is not None
    due_us = deadline_us(spec, until_us, state.run_started_us, state.revoke_us)
    return ledger.change(item, lease_until_us=until_us, due_us=due_us)

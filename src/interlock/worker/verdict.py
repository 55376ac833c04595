"""What became of a run, in words: the store's answer to the report of its end."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime

from interlock.core.commands import Outcome
from interlock.core.errors import InterlockError
from interlock.core.model import Reason
from interlock.core.why import span
from interlock.service.contract import EndedRunView, RunView, Service
from interlock.service.itemview import ItemView
from interlock.worker.job import Notice
from interlock.worker.spool import End

_HOW_MAX_CHARS = 120


def ended_run(service: Service, *, item: int, run: int) -> EndedRunView | None:
    """A run as the store has ended it; None if it goes on, or the store cannot be asked."""
    with contextlib.suppress(InterlockError):
        return next((view for view in service.show(item).runs if view.run == run and view.ended_at), None)
    return None


def reported_run(service: Service, *, item: int, run: int) -> EndedRunView | None:
    """The same, if the run was ended by a report rather than by the store or an operator."""
    ended = ended_run(service, item=item, run=run)
    return ended if ended is not None and ended.reason == Reason.REPORTED else None


def already(run: int, status: str) -> str:
    """For a run whose command reported by itself, so that there was nothing left to report."""
    return f"Run {run} had already reported itself: {status}"


def verdict(service: Service, end: End, answer: RunView | InterlockError, lane: str | None) -> Notice:
    """What to say about an end that was reported."""
    status = "refused"
    if isinstance(answer, RunView) and answer.refusal is None:
        kind, text, status = "ended", _ended(end, answer), answer.status
    elif (before := reported_run(service, item=end.item, run=end.fence)) is not None:
        kind, text, status = "ended", already(end.fence, before.status), before.status
    elif isinstance(answer, RunView):
        assert answer.refusal is not None
        kind, text = "refused", answer.refusal.message
    else:
        kind, text = "refused", answer.sentence
    data = {"outcome": end.outcome, "status": status}
    return Notice(kind=kind, text=text, run=end.fence, item=end.item, lane=lane, data=data)


def _ended(end: End, answer: RunView) -> str:
    failed = end.outcome is Outcome.FAIL
    how = (end.error or "").partition("\n")[0].rstrip(".")[:_HOW_MAX_CHARS] if failed else ""
    text = f"Run {end.fence} {answer.status}" + (f" ({how[:1].lower()}{how[1:]})" if how else "")
    return f"{text}; item {end.item} {_item_now(answer.item, failed)}" if answer.item else text


def _item_now(item: ItemView, failed: bool) -> str:
    if item.run_at is None or item.ended_at is not None:
        return f"is {item.status}"
    in_s = max(0.0, (item.run_at - datetime.now(UTC)).total_seconds())
    return f"{'is tried again' if failed else 'comes back'} in {span(in_s)}"

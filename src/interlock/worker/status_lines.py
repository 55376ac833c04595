"""The status lines of a worker, for people and logs: one line for each event."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from interlock.core.commands import Outcome
from interlock.core.errors import InterlockError
from interlock.core.model import Reason
from interlock.core.timing import span
from interlock.service.contract import EndedRunView, RunView
from interlock.service.item_view import ItemView
from interlock.worker.spool import RunEnd

_ERROR_SHOWN_CHARS = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusLine:
    """One event in a worker."""

    kind: str
    text: str
    run: int | None = None
    item: int | None = None
    lane: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    at: datetime = field(default_factory=lambda: datetime.now(UTC))


def drain_line(asked: int, at_work: int, ended: int = 0) -> StatusLine:
    """The worker was asked to end for the nth time. `at_work` runs continue, and `ended` ones have an
    unreported end."""
    one = at_work == 1
    owed = f"; {ended} {'result waits' if ended == 1 else 'results wait'} to be reported" if ended else ""
    if asked == 1:
        rest = f"{at_work} still at work; a second Ctrl-C stops {'it' if one else 'them'}"
        rest = rest if at_work else "nothing runs"
        return StatusLine(kind="draining", text=f"Draining: no more items are claimed, {rest}{owed}.")
    rest = f" {at_work} at work, to give {'its item' if one else 'their items'} back"
    return StatusLine(kind="stopping", text=f"Stopping{rest if at_work else '; nothing runs'}{owed}.")


def refused_line(end: RunEnd, error: InterlockError) -> StatusLine:
    """A run has ended, and the server refuses its result from this worker's token."""
    text = (
        f"Run {end.fence} has ended, and its result waits on disk: {error.sentence} A worker here with a"
        " valid token reports it."
    )
    return StatusLine(kind="trouble", text=text, run=end.fence, item=end.item)


def end_line(
    end: RunEnd, answer: RunView | InterlockError, earlier: EndedRunView | None, lane: str | None
) -> StatusLine:
    """A run's end was reported. `earlier` is the end that its own command reported before."""
    status = "refused"
    if isinstance(answer, RunView) and answer.refusal is None:
        kind, text, status = "ended", _ended(end, answer), answer.status
    elif earlier is not None:
        kind, text, status = "ended", already_reported(earlier), earlier.status
    elif isinstance(answer, RunView):
        assert answer.refusal is not None
        kind, text = "refused", answer.refusal.message
    else:
        kind, text = "refused", answer.sentence
    data = {"outcome": end.outcome, "status": status}
    return StatusLine(kind=kind, text=text, run=end.fence, item=end.item, lane=lane, data=data)


def unsaved_line(end: RunEnd, error: OSError) -> StatusLine:
    """The end of a run is not on disk while it is reported."""
    text = f"The end of run {end.fence} cannot be written to disk: {error.strerror or error}."
    return StatusLine(
        kind="unkept", text=f"{text} It is reported all the same.", run=end.fence, item=end.item
    )


def unanswered_lines(
    runs: Sequence[int], spool: Path, unkept: Callable[[int], OSError | None]
) -> Iterator[StatusLine]:
    """The unanswered ends of a leaving worker: on disk, or only in its memory."""
    kept = [run for run in runs if unkept(run) is None]
    if kept:
        what = "1 result is" if len(kept) == 1 else f"{len(kept)} results are"
        text = f"{what} not reported yet. On disk, in {spool}: the next worker here delivers it."
        yield StatusLine(kind="spooled", text=text, data={"runs": kept})
    for run in runs:
        error = unkept(run)
        if error is not None:
            text = (
                f"The end of run {run} is lost with this worker: the store did not answer, and it could not"
                f" be written to disk ({error.strerror or error}). Its lease ends the run."
            )
            yield StatusLine(kind="unreported", text=text, run=run)


def already_reported(earlier: EndedRunView) -> str:
    """The command had reported its own end, so the worker has nothing to report."""
    if earlier.reason == Reason.ASKED:
        return f"Run {earlier.run} asked a person, whose answer brings its item back"
    return f"Run {earlier.run} had already reported itself: {earlier.status}"


def _ended(end: RunEnd, answer: RunView) -> str:
    failed = end.outcome is Outcome.FAIL
    how = (end.error or "").partition("\n")[0].rstrip(".")[:_ERROR_SHOWN_CHARS] if failed else ""
    text = f"Run {end.fence} {answer.status}" + (f" ({how[:1].lower()}{how[1:]})" if how else "")
    text += f"; item {end.item} {_item_now(answer.item)}" if answer.item else ""
    return f"{text}; {answer.followed_up}" if answer.followed_up else text


def _item_now(item: ItemView) -> str:
    if item.run_at is None or item.ended_at is not None:
        return f"is {item.status}"
    in_s = max(0.0, (item.run_at - datetime.now(UTC)).total_seconds())
    return f"comes back in {span(round(in_s))}"

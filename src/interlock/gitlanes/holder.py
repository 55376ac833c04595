"""What the holder of a lane in git writes: its end, its renewals, its pushes; all fenced.

A write is accepted iff the owner document names exactly this run, by its number and the digest of its handle,
and the pinned push succeeds: the server refuses a push that was decided on an older document.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from hashlib import sha256
from hmac import compare_digest

from interlock.core.checking import check_batch, check_report
from interlock.core.claiming import MESSAGES_AT_ONCE, renewed
from interlock.core.commands import Finish, Outcome
from interlock.core.ending import explain_loss
from interlock.core.errors import LeaseLost, UnknownRun
from interlock.core.handles import handle_numbers
from interlock.core.model import Item, ItemId
from interlock.core.timing import Timing, to_us
from interlock.git.refusals import RefMove
from interlock.gitlanes import commit_message
from interlock.gitlanes.lane import Lane
from interlock.gitlanes.remote import Change, LaneRemote
from interlock.service.answers import ended_view, kept_view, message_view, refused_view
from interlock.service.contract import MessageView, Report, RunView

#: A renewal makes a commit once this share of the lease is gone; holders renew every third.
RENEWED_AFTER = 0.25


class Keeping:
    """The use cases of whoever holds a lane."""

    def __init__(self, remote: LaneRemote, timing: Timing, now: Callable[[], int]) -> None:
        self.remote = remote
        self._timing = timing
        self._now = now

    def done(self, reports: Sequence[Report]) -> list[RunView]:
        """The work of these runs is done."""
        return self._finish(reports, Outcome.DONE)

    def fail(self, reports: Sequence[Report]) -> list[RunView]:
        """These runs failed; their items are tried again while attempts are left."""
        return self._finish(reports, Outcome.FAIL)

    def release(self, reports: Sequence[Report]) -> list[RunView]:
        """These runs give their items back unworked."""
        return self._finish(reports, Outcome.RELEASE)

    def _finish(self, reports: Sequence[Report], outcome: Outcome) -> list[RunView]:
        """Each run ends in a commit of its own; runs of two lanes have nothing to do with each other."""
        _check_reports(reports)
        return [self._finish_one(report, outcome) for report in reports]

    def _finish_one(self, report: Report, outcome: Outcome) -> RunView:
        run, item = handle_numbers(report.run)
        command = Finish(
            run=run,
            item=item,
            outcome=outcome,
            seen=report.seen,
            result=report.result,
            error=report.error,
            retry=report.retry,
            jitter=random.random(),  # noqa: S311  (spreads retries; nothing secret)
        )

        def step(lane: Lane) -> Change[RunView]:
            refused = _refusal(lane, report.run)
            if refused is not None:
                return Change(after=lane, answer=refused)
            decision, after = lane.decide(lane.items, [command], self._now(), self._timing)
            view = ended_view(report.run, decision.answers[0], decision.after)
            return Change(after=after, answer=view, happened=commit_message.told(decision.events))

        return self.remote.transact(self.remote.find(item), step, holder=True)

    def renew(self, reports: Sequence[Report]) -> list[RunView]:
        """Keep the leases of these runs, and learn of cancel requests and unread messages.

        Where `expires_at` is what it was, nothing was written: it was early, and only a look.
        """
        _check_reports(reports)
        return [self._renew(report) for report in reports]

    def _renew(self, report: Report) -> RunView:
        item = handle_numbers(report.run)[1]

        def step(lane: Lane) -> Change[RunView]:
            refused = _refusal(lane, report.run)
            if refused is not None:
                return Change(after=lane, answer=refused)
            before = lane.items[item]
            kept = self._kept(before, report.seen)
            if self._is_news(before, kept):
                after = lane.kept(kept)
                return Change(
                    after=after, answer=kept_view(report.run, kept), happened=(commit_message.kept(kept),)
                )
            return Change(after=lane, answer=kept_view(report.run, before))

        return self.remote.transact(self.remote.find(item), step, holder=True)

    def _kept(self, item: Item, seen: int) -> Item:
        """The running item renewed. With the first renewal after a cancel request its grace begins."""
        now_us = self._now()
        if item.state.cancel_into is not None and item.state.revoke_us is None:
            revoke_us = now_us + to_us(self._timing.cancel_grace_s)
            item = item._replace(state=item.state._replace(revoke_us=revoke_us))
        return renewed(item, seen, now_us)

    def _is_news(self, before: Item, after: Item) -> bool:
        """Whether a renewal is worth a commit: not while most of the lease is left and nothing else is to be
        said. Then it was only a look, and the lease ends when it did before."""
        old, new = before.state, after.state
        assert (
            old.lease_until_us is not None and new.lease_until_us is not None and new.run_lease_s is not None
        )
        gained_us = new.lease_until_us - old.lease_until_us
        early = 0 <= gained_us < to_us(new.run_lease_s * RENEWED_AFTER)
        return not early or new.seen > old.seen or new.revoke_us != old.revoke_us

    def touch(self, handle: str) -> RefMove:
        """A new owner commit for the lane this handle holds, not yet pushed; raises `LeaseLost`.

        Pushed together with a branch in one atomic push, it lets only the lane's owner push.
        """
        item = handle_numbers(handle)[1]
        lane = self.remote.read(self.remote.find(item))
        refused = _refusal(lane, handle)
        if refused is not None and refused.refusal is not None:
            raise LeaseLost(refused.refusal.message, refused.refusal.hint)
        kept = self._kept(lane.items[item], 0)
        happened = (f"{commit_message.kept(kept)} and pushes",)
        return self.remote.commits(lane, Change(after=lane.kept(kept), answer=None, happened=happened))[0]

    def inbox(self, run: str, *, seen: int = 0) -> list[MessageView]:
        """Unread messages of a run; `seen` moves its read mark first. Reading is fenced like writing."""
        view = self.renew([Report(run=run, seen=seen)])[0]
        if view.refusal is not None:
            raise LeaseLost(view.refusal.message, view.refusal.hint)
        assert view.item is not None
        item = ItemId(view.item.id)
        lane = self.remote.read(self.remote.find(item))
        after = view.item.messages - view.unread
        return [message_view(m) for m in lane.messages(item, after, MESSAGES_AT_ONCE)]


def digest(handle: str) -> str:
    """What may be known of a handle to everybody."""
    return sha256(handle.encode()).hexdigest()


def _refusal(lane: Lane, handle: str) -> RunView | None:
    """Nothing if this handle is that of the run that the owner document names; equality, nothing else."""
    run, item = handle_numbers(handle)
    owner = lane.owner.run
    if owner is not None and (owner.run, owner.item) == (run, item):
        if compare_digest(owner.handle, digest(handle)):
            return None
        raise UnknownRun(
            f"The handle {handle} was never issued by this store.",
            "Use the handle that was given to the run, and check INTERLOCK_URL.",
        )
    ended = next((r for r in lane.queue.ended if r.run == run), None)
    now = lane.items.get(item)
    return refused_view(handle, explain_loss(run, ended, now), now)


def _check_reports(reports: Sequence[Report]) -> None:
    check_batch("runs", len(reports))
    for report in reports:
        check_report(report.seen, report.result, report.error)

"""Lanes on a git remote, without a server or a database: `LaneService` on refs moved by compare-and-swap.

Each lane has two refs, `refs/interlock/owner/<id>` and `refs/interlock/queue/<id>`. Each is a chain of
commits that hold JSON; their `git log` is the history. The rules are those of the databases. The differences:

- There is no store clock. A claimer may expire a lease once it has itself seen the owner's commit unchanged
  for the lease and a margin, or once the owner's workflow run is known to have ended.
- Tickets follow the order of successful pushes.
- Agents and projects are not stored, and only an owner that a gate blocks is overtaken.

A run's write is accepted iff the owner document names exactly this run, by its number and the digest of its
handle, and the pinned push succeeds. The server refuses a push that was decided on an older document.

Anyone with write access to the remote can break a lane by hand. Handles protect against mistakes and guesses,
not against an attacker with that access.
"""

from __future__ import annotations

import random
import secrets
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path

from interlock.core import names
from interlock.core.claims import MESSAGES_AT_ONCE, Claim, renewed, started
from interlock.core.commands import (
    Cancel,
    CommandAnswer,
    EndExternal,
    Finish,
    GateSet,
    Outcome,
    Overtake,
    SendMessage,
    SetGate,
)
from interlock.core.endings import explain_loss
from interlock.core.errors import (
    InterlockError,
    InvalidInput,
    ItemEnded,
    LeaseLost,
    NotFound,
    Refusal,
    UnknownRun,
    UnreadableState,
)
from interlock.core.handles import read_handle
from interlock.core.model import (
    A_PERSON,
    AHEAD_MAX,
    ANOTHER_SYSTEM,
    Item,
    ItemId,
    Mode,
    ModeRule,
    NewItem,
    RecentRun,
    RunId,
    Sender,
    SenderKind,
    mode_for,
)
from interlock.core.prediction import Facts, Series, predict
from interlock.core.record import replace as replace_record
from interlock.core.states import ItemStatus
from interlock.core.timing import Timing, to_us
from interlock.core.validation import (
    check_batch,
    check_quota_limit,
    check_report,
    checked_arrivals,
    checked_claim,
    checked_end,
    checked_gate,
    checked_mode,
    checked_sender,
    gated_lane,
    given_reason,
    signed,
)
from interlock.core.why import Explanation, explain
from interlock.git.refusals import RefMove
from interlock.gitlanes.commit_message import event_lines, renewed_line, started_line
from interlock.gitlanes.documents import GateRun, mend_hint
from interlock.gitlanes.first_seen import FirstSeen
from interlock.gitlanes.history import Holder, LaneHistory
from interlock.gitlanes.lane import Deadlines, HasEnded, Lane, UnreadableLane
from interlock.gitlanes.lanes_snapshot import LanesSnapshot, gate_of, items_on, with_gates
from interlock.gitlanes.notes import GitNotes
from interlock.gitlanes.remote import CUT_BEYOND, Change, LaneRemote
from interlock.gitlanes.repair import repaired
from interlock.process.reaction import PostedReaction, PreviousRun
from interlock.process.workplace import ActionsRun
from interlock.service.contract import (
    AddView,
    ChangeView,
    CheckView,
    GateView,
    LaneView,
    LeaseView,
    MessageView,
    RecentRunView,
    Report,
    RunView,
    WhyView,
)
from interlock.service.item_view import ItemView, maybe_moment
from interlock.service.prediction_facts import series_of
from interlock.service.queries import lane_query, run_query
from interlock.service.view_builders import (
    NAMED,
    add_view,
    ended_view,
    external_check,
    gate_view,
    holder_view,
    recent_run_view,
    refused_view,
    renewed_view,
    why_view,
)

LEASE_MIN_S = 900.0
MARGIN_SHARE = 0.1
#: A waiting claim polls less and less often, up to every `poll_s * POLL_MAX_FACTOR`, to spare the remote.
POLL_GROWTH, POLL_MAX_FACTOR = 1.5, 10.0
LINE_SHOWN = 20
#: The operations that a command performs on lanes in git.
_CURES = ("cancel", "msg")
#: How long after its end a run's leftover reaction is looked for.
LEFT_SHOWN_S = 86_400.0
#: How many unreadable lanes a check names.
BROKEN_SHOWN = 5
#: A renewal makes a commit once this share of the lease has passed. Holders renew after each third.
RENEWED_AFTER = 0.25


class GitLanes:
    """The lanes of one remote. Every call is safe from several threads and processes at once."""

    def __init__(
        self,
        url: str,
        directory: Path,
        *,
        timing: Timing | None = None,
        lease_min_s: float = LEASE_MIN_S,
        margin_share: float = MARGIN_SHARE,
        poll_s: float = 1.0,
        actions: ActionsRun | None = None,
        has_ended: HasEnded = lambda _: False,
        reaction: Callable[[], PostedReaction | None] = lambda: None,
        now: Callable[[], int] = lambda: time.time_ns() // 1_000,
        first_seen: FirstSeen | None = None,
        pause: Callable[[float], None] = time.sleep,
        cut_beyond: int = CUT_BEYOND,
    ) -> None:
        self.remote = LaneRemote(url, directory, cut_beyond=cut_beyond, pause=pause)
        self._timing = timing or Timing()
        self._lease_min_s = lease_min_s
        self._margin_share = margin_share
        self._poll_s = poll_s
        self._actions = actions
        self._has_ended = has_ended
        self._reaction = reaction
        self._previous_runs: dict[str, PreviousRun] = {}
        self._now = now
        self._first_seen = first_seen or FirstSeen(self.remote.first_seen)
        self._pause = pause

    @property
    def objects(self) -> Path:
        """The directory of git objects with the commits of `new_owner_commit`."""
        return self.remote.objects

    # -- arrivals -------------------------------------------------------------------------------------

    def add(self, items: Sequence[NewItem]) -> list[AddView]:
        """Decide on arrivals on one lane, in order, in one commit."""
        new = checked_arrivals(items)
        if not new:
            return []
        lane_name = new[0].lane
        if lane_name is None or any(n.lane != lane_name for n in new):
            raise InvalidInput(
                "A store in git takes items of one lane at a time.",
                "Give every item the same `lane`; work without a lane needs a database.",
                fields=("lane",),
            )

        def step(lane: Lane) -> Change[list[AddView]]:
            now_us, timed = self._timed(lane)
            due = lane.overdue(timed, now_us)
            modes = self.remote.modes
            decision, after = lane.decide(timed, due, now_us, self._timing, arrivals=new, modes=modes)
            shown = {**decision.after, **after.items}  # with the documented deadlines
            views = [add_view(a, shown) for a in decision.answers[len(due) :]]
            return Change(after=after, answer=views, lines=event_lines(decision.events))

        return self.remote.transact(self.remote.ref_id(lane_name), step, name=lane_name)

    # -- claims ---------------------------------------------------------------------------------------

    def next(
        self,
        agent: str,
        *,
        types: Sequence[str] = (),
        labels: Sequence[str] = (),
        limit: int = 1,
        wait_s: float = 0.0,
        lease_s: float | None = None,
        worker: str | None = None,
        item: int | None = None,
        external: bool = False,
    ) -> list[LeaseView]:
        """Claim up to `limit` items, waiting up to `wait_s` for the first.

        With `item`, only that one: nothing while it cannot be claimed, an `ItemEnded` once it has ended.
        `external` is for work that is done outside. Such a run has no lease to renew. It ends only when its
        end is reported or seen (`end_external`), not by time or with a workflow run.
        """
        claim = checked_claim(agent, types, labels, limit, lease_s, worker, external=external)
        names.check_number("wait", wait_s, 0, names.WAIT_MAX_S)
        if item is not None:
            claim = replace(claim, item=ItemId(item))
        asked_s = time.monotonic()
        deadline_s = asked_s + wait_s
        pause_s = self._poll_s
        while True:
            leases = self._claim(claim, asked_s)
            left_s = deadline_s - time.monotonic()
            if leases or left_s <= 0:
                return leases
            self._pause(min(left_s, pause_s * random.uniform(0.75, 1.25)))  # noqa: S311  (not a secret)
            pause_s = min(pause_s * POLL_GROWTH, self._poll_s * POLL_MAX_FACTOR)

    def _claim(self, claim: Claim, asked_s: float) -> list[LeaseView]:
        ref_ids = [self.remote.find(claim.item)] if claim.item is not None else self._candidates(claim)
        leases: list[LeaseView] = []
        for ref_id in ref_ids:
            more = True
            while more and len(leases) < claim.limit:
                lease = self.remote.transact(ref_id, lambda lane: self._begin(lane, claim, asked_s))
                leases += [lease] if lease is not None else []
                more = lease is not None and lease.item.observed_lane is not None  # else the lane is held
        return leases

    def _candidates(self, claim: Claim) -> list[str]:
        """Lanes with an item that this claim may start, or with a passed deadline: the highest priority
        first, then the oldest."""
        found = []
        for lane in with_gates(self.remote.read_all()):
            if isinstance(lane, UnreadableLane):  # counts as held
                continue
            now_us, timed = self._timed(lane)
            startable = lane.startable(claim)
            if startable is not None:
                spec = startable[0].spec
                found.append(((-spec.priority, spec.created_us), lane.ref_id))
            elif lane.overdue(timed, now_us):
                found.append(((names.PRIORITY_MAX, 0), lane.ref_id))
        return [ref_id for _, ref_id in sorted(found)]

    def _begin(self, lane: Lane, claim: Claim, asked_s: float) -> Change[LeaseView | None]:
        waited_s = int(1000 * (time.monotonic() - asked_s)) / 1000
        now_us, timed = self._timed(lane)
        decision, after = lane.decide(timed, lane.overdue(timed, now_us), now_us, self._timing)
        lines = event_lines(decision.events)
        if claim.item is not None:
            after.require_unended(claim.item)
        found, series = self._startable(after, claim)
        if found is None:
            return Change(after=after, answer=None, lines=lines)
        item, overtaken = found
        if overtaken is not None:
            shut = after.gated_by(None)
            overtake = Overtake(item=item.id, owner=overtaken.id)
            decision, moved = shut.decide(shut.items, [overtake], now_us, self._timing)
            after, item = moved.with_gate_of(after), moved.queue.items[item.id]
            lines = (*lines, *event_lines(decision.events))
        lease_s = max(claim.lease_s or item.spec.lease_s or self._timing.lease_s, self._lease_min_s)
        item = started(item, claim, RunId(after.owner.last_run + 1), lease_s, now_us)
        handle = f"{item.state.run}.{item.id}.{secrets.token_hex(8)}"
        if (previous := after.previous_run()) is not None:
            self._previous_runs[handle] = previous
        if claim.external:  # the run outlives this process and its workflow run
            after = after.with_start(item, _digest(handle), None)
        else:
            after = after.with_start(item, _digest(handle), self._actions, self._reaction())
        state = item.state
        assert state.run is not None
        payload = after.queue.payloads.get(item.id) or lane.queue.payloads.get(item.id)
        lease = LeaseView(
            run=handle,
            fence=state.run,
            expires_at=maybe_moment(state.due_us),
            lease_s=state.run_lease_s,
            renew_within_s=None if state.run_lease_s is None else round(state.run_lease_s / 3, 3),
            item=ItemView(item, payload),
            messages=after.messages(item.id, 0, MESSAGES_AT_ONCE),
            waited_s=waited_s,
        )
        return Change(after=after, answer=lease, lines=(*lines, started_line(item)), series=series)

    def _startable(self, lane: Lane, claim: Claim) -> tuple[tuple[Item, Item | None] | None, Lane | None]:
        """What a claim may start on a lane. If the lane has a gate and the item is not exempt, also the
        series whose owner must not change until then."""
        found, gate = lane.startable(claim), lane.queue.gate
        if found is None or gate is None or found[0].spec.type in gate.exempt:
            return found, None
        series = self.remote.look_with(lane.ref_id, gate.series)
        if isinstance(series, Lane) and lane.is_open_for(series):
            return found, series
        return lane.gated_by(None).startable(claim), None

    def previous_run(self, run: str) -> PreviousRun | None:
        """The previous run on its lane, if it showed a reaction on GitHub. Only for runs claimed here."""
        return self._previous_runs.get(run)

    @property
    def series_notes(self) -> GitNotes:
        """The notes about series."""
        return GitNotes(self.remote)

    def orphaned_reactions(self) -> list[PostedReaction]:
        """Reactions on GitHub of runs that died, unless a later run removes them."""
        since_us = self._now() - to_us(LEFT_SHOWN_S)
        found = []
        for lane in self.remote.read_all():
            if isinstance(lane, UnreadableLane):
                continue
            run, previous = lane.owner.run, lane.previous_run()
            if run is not None:
                if run.sign is not None and run.actions is not None and self._has_ended(run.actions):
                    found.append(run.sign)
            elif previous is not None and previous.reaction is not None and previous.lost:
                found += [previous.reaction] if previous.ended_us > since_us else []
        return found

    # -- the holder's writes --------------------------------------------------------------------------

    def done(self, reports: Sequence[Report]) -> list[RunView]:
        """The work of these runs is done."""
        return self._finish(reports, Outcome.DONE)

    def fail(self, reports: Sequence[Report]) -> list[RunView]:
        """These runs failed. Their items are retried while attempts are left."""
        return self._finish(reports, Outcome.FAIL)

    def release(self, reports: Sequence[Report]) -> list[RunView]:
        """These runs return their items unworked."""
        return self._finish(reports, Outcome.RELEASE)

    def _finish(self, reports: Sequence[Report], outcome: Outcome) -> list[RunView]:
        """Each run ends in a separate commit, because two lanes have no common ref."""

        def finish(lane: Lane, report: Report) -> Change[RunView]:
            handle = read_handle(report.run)
            jitter = random.random()  # noqa: S311  (spreads retries; nothing secret)
            said = report.seen, report.result, report.error, report.retry
            command = Finish(
                *(handle.run, handle.item, outcome, *said, jitter),
                quota_limit=report.wall,
                fault_s=report.fault_s,
            )
            decision, after = lane.decide(lane.items, [command], self._now(), self._timing)
            view = ended_view(report.run, decision.answers[0], decision.after)
            return Change(after=after, answer=view, lines=event_lines(decision.events))

        return self._write_as_holders(reports, finish, outcome)

    def renew(self, reports: Sequence[Report]) -> list[RunView]:
        """Extend the leases of these runs, and learn of cancel requests and unread messages.

        An early renewal writes nothing: `expires_at` does not change.
        """

        def renew(lane: Lane, report: Report) -> Change[RunView]:
            before = lane.items[read_handle(report.run).item]
            after = self._renewed(before, report.seen)
            if not _worth_a_commit(before, after):
                return Change(after=lane, answer=renewed_view(report.run, before))
            view = renewed_view(report.run, after)
            return Change(after=lane.with_renewal(after), answer=view, lines=(renewed_line(after),))

        return self._write_as_holders(reports, renew)

    def _write_as_holders(
        self,
        reports: Sequence[Report],
        write: Callable[[Lane, Report], Change[RunView]],
        outcome: Outcome | None = None,
    ) -> list[RunView]:
        """Fenced writes: `write` decides only while the reported run owns the lane."""
        check_batch("reports", reports, Report)
        for _, seen, result, error, retry, limit, fault_s in reports:
            check_report(seen, result, error, retry, fault_s)
            check_quota_limit(limit)
            if limit is not None and (limit.whole_agent or limit.whole_pool):
                raise InvalidInput(
                    "A store in git has no agents, so a quota limit cannot apply to one.",
                    "Omit `whole_agent`, so that only the item waits, or use a database.",
                    fields=("whole_agent",),
                )

        def transact(report: Report) -> RunView:
            def step(lane: Lane) -> Change[RunView]:
                refused = _refusal(lane, report.run)
                return write(lane, report) if refused is None else Change(after=lane, answer=refused)

            run, item, _ = read_handle(report.run)
            try:
                ref_id = self.remote.find(item)
            except NotFound:  # no lane of this remote
                return refused_view(report.run, explain_loss(run, None, None), None)
            again = None if outcome is None else f"{outcome} {report.run}"
            try:
                return self.remote.transact(ref_id, step, holder=_holder(report.run), again=again)
            except NotFound:  # both refs were deleted
                return refused_view(report.run, explain_loss(run, None, None), None)
            except LeaseLost as lost:  # unreadable, and no proof that this run holds the lane
                refusal = Refusal(code=lost.code, sentence=lost.sentence, hint=lost.hint, cures=lost.cures)
                return refused_view(report.run, refusal, None)

        return [transact(report) for report in reports]

    def _renewed(self, item: Item, seen: int) -> Item:
        """The running item renewed. The grace begins with the first renewal after a cancel request."""
        now_us = self._now()
        if item.state.cancel_into is not None and item.state.revoke_us is None:
            revoke_us = now_us + to_us(self._timing.cancel_grace_s)
            item = item._replace(state=item.state._replace(revoke_us=revoke_us))
        return renewed(item, seen, now_us)

    def new_owner_commit(self, handle: str) -> RefMove:
        """A new owner commit for the lane of this run, not pushed yet; raises `LeaseLost`.

        Pushed with a branch in one atomic push, it fences the branch: only the lane's owner can push.
        """
        run, item, _ = read_handle(handle)
        try:
            lane = self.remote.read(self.remote.find(item))
        except NotFound:
            raise explain_loss(run, None, None).error() from None
        except UnreadableState:
            (renewed,) = self.renew([Report(run=handle)])  # repairs the lane, if the run holds it
            if renewed.refusal is not None:
                raise renewed.refusal.error() from None
            lane = self.remote.read(self.remote.find(item))
        refused = _refusal(lane, handle)
        if refused is not None and refused.refusal is not None:
            raise refused.refusal.error()
        after = self._renewed(lane.items[item], 0)
        lines = (f"{renewed_line(after)} and pushes",)
        return self.remote.commits(lane, Change(after=lane.with_renewal(after), answer=None, lines=lines))[0]

    def inbox(self, run: str, *, seen: int = 0) -> list[MessageView]:
        """Unread messages of a run. `seen` moves its read mark first. Reads are fenced like writes."""
        view = self.renew([Report(run=run, seen=seen)])[0]
        if view.refusal is not None:
            raise view.refusal.error()
        assert view.item is not None
        item = ItemId(view.item.id)
        lane = self.remote.read(self.remote.find(item))
        return [*lane.messages(item, view.item.messages - view.unread, MESSAGES_AT_ONCE)]

    def end_external(
        self, item: int, run: int, outcome: str, *, why: str, by: str = "", result: str | None = None
    ) -> ChangeView:
        """End an external run that was seen to end: with `done`, `fail`, `release`, `cancel` or `yield`.

        The end is written iff the owner document names this run and the run is external. Otherwise it raises
        `LeaseLost`.
        """
        end = checked_end(item, run, outcome, why=why, by=by, result=result)
        return self._operate(item, lambda _: end, refused=LeaseLost)

    def external(self, *, limit: int = 100) -> list[ItemView]:
        """Items with external runs, the longest first. Interlock cannot see what these runs do."""
        names.check_whole("limit", limit, 1, names.BATCH_MAX)
        return _external(self.remote.read_all(), limit)

    # -- messages and operators -----------------------------------------------------------------------

    def msg(
        self,
        item: int,
        text: str,
        *,
        author: str = "",
        sender: Sender = A_PERSON,
        reason: str = "",
        url: str = "",
    ) -> ChangeView:
        """Append a message to an item, or to the item that absorbed it."""
        names.check_message(text)
        names.check_cause(reason, url)
        names.check_text("author", author, names.NAME_MAX_CHARS)
        who = checked_sender(sender)

        def tell(lane: Lane) -> SendMessage:
            target = lane.last_absorber(ItemId(item))
            ticket = lane.queue.last_ticket + 1
            return SendMessage(
                item=target, ticket=ticket, text=text, author=author, sender=who, reason=reason, url=url
            )

        return self._operate(item, tell)

    def sender_of(self, run: str) -> Sender:
        """The sender for the run with this handle: its agent, also after the run has ended.

        A handle that no run here has proves nothing and is no error: the sender is another system. Ended runs
        are known by number only, not by handle.
        """
        names.check_text("handle", run)
        try:
            number, item, _ = read_handle(run)
            lane = self.remote.read(self.remote.find(item))
        except (UnknownRun, NotFound, UnreadableState):
            return ANOTHER_SYSTEM
        handle = lane.handle_of(number, item)
        if handle is not None and compare_digest(handle, _digest(run)):
            return Sender(SenderKind.AGENT, lane.items[item].state.run_agent or "", number, lane.name)
        ended = next((r for r in lane.queue.ended if (r.run, r.item) == (number, item)), None)
        if ended is None:
            return ANOTHER_SYSTEM
        return Sender(SenderKind.AGENT, ended.agent, number, lane.name)

    def cancel(self, item: int, *, why: str, by: str = "", force: bool = False) -> ChangeView:
        """An operator cancels an item. A running one gets its grace unless `force`."""
        names.check_flag("force", force)
        command = Cancel(item=ItemId(item), why=given_reason(why), by=signed(by), force=force)
        return self._operate(item, lambda _: command)

    def _operate(
        self,
        item: int,
        build: Callable[[Lane], SendMessage | Cancel | EndExternal],
        refused: type[InterlockError] = ItemEnded,
    ) -> ChangeView:
        def step(lane: Lane) -> Change[ChangeView]:
            command = build(lane)
            lane.require(command.item)
            now_us, timed = self._timed(lane)
            decision, after = lane.decide(timed, [command], now_us, self._timing)
            moved: CommandAnswer = decision.answers[0]
            if not moved.changed:
                raise refused(moved.refusal, moved.hint or "See git log of the lane.", moved.cures)
            if isinstance(command, SendMessage):
                after = replace(after, queue=replace(after.queue, last_ticket=command.ticket))
            view = ChangeView(
                item=ItemView(decision.after[command.item]), promoted=moved.promoted, n=moved.n or None
            )
            return Change(after=after, answer=view, lines=event_lines(decision.events))

        return self.remote.transact(self.remote.find(item), step)

    # -- gates ----------------------------------------------------------------------------------------

    def set_gate(
        self,
        lane: str,
        *,
        series: str,
        open: bool,  # noqa: A002  (the answer's name for it)
        exempt: Sequence[str] = (),
        why: str,
        by: str = "",
        run: int | None = None,
    ) -> GateView:
        """Open or shut a lane.

        While it is shut, only items of exempt types start there. A run of another type is asked to stop. Its
        item is queued again and can be claimed when the gate opens.

        A gate opens only while every other lane of its series is shut and has no active run. It opens for the
        current run of the series, or with `run` only for that run. Otherwise it is shut, and `waits_for` says
        why. Once that run has ended, the lane counts as shut.
        """
        name, gate = gated_lane(lane), checked_gate(lane, series, open, exempt, run)
        command = SetGate(lane=name, gate=gate, why=given_reason(why), by=signed(by))

        def step(lane: Lane) -> Change[GateSet]:
            if not open:
                return self._gate(lane, command)
            series = self.remote.look_with(lane.ref_id, gate.series)
            held = series.owner.run if isinstance(series, Lane) else None
            if held is None or run not in (None, held.run):
                change = self._gate(lane, replace_record(command, gate=gate._replace(open=False)))
                return replace(change, answer=replace_record(change.answer, waits_for=gate.series))
            assert isinstance(series, Lane)
            return self._gate(lane, command, series)

        made = self.remote.transact(self.remote.ref_id(name), step, name=name)
        assert made.gate is not None
        return gate_view(made.lane, made.gate, made.run, made.waits_for)

    def remove_gate(self, lane: str, *, why: str, by: str = "") -> bool:
        """Remove the gate of a lane. False if it had none."""
        name = gated_lane(lane)
        command = SetGate(lane=name, gate=None, why=given_reason(why), by=signed(by))

        ref_id = self.remote.ref_id(name)
        return self.remote.transact(ref_id, lambda lane: self._gate(lane, command), name=name).changed

    def _gate(self, lane: Lane, command: SetGate, series: Lane | None = None) -> Change[GateSet]:
        """The lane with another gate, which opens for the run of this series.

        Opening a gate moves the owner's ref of the series, and so does starting a run. So if two processes
        both find the other lanes shut, only one succeeds. The series was read before those lanes.
        """
        seen, busy = lane, None
        if series is not None:  # a gate that is open for an earlier run of the series is shut
            seen = lane.gated_by(series)
            busy = self._other_busy_lane(seen, series)
        now_us, timed = self._timed(seen)
        decision, after = seen.decide(timed, [command], now_us, self._timing, busy_gate=busy)
        made: GateSet = decision.answers[0]
        if after is seen:
            return Change(after=lane, answer=made)
        opened = series is not None and made.gate is not None and made.gate.open
        run = _run_of(series) if opened else None
        after = replace(after, queue=replace(after.queue, gate_run=run))
        lines = event_lines(decision.events)
        return Change(after=after, answer=made, lines=lines, series=series if opened else None)

    def _other_busy_lane(self, lane: Lane, series: Lane) -> str | None:
        """Another lane of the series that is open or has an active run; None if this lane is already open. An
        unreadable lane counts as held."""
        gate = lane.queue.gate
        if gate is not None and gate.open and gate.series == series.name:
            return None
        for other in self.remote.read_all():
            if other.ref_id == lane.ref_id:
                continue
            queue = other.queue
            if isinstance(other, UnreadableLane):
                queue = queue or LaneHistory(self.remote.repository, other).whole_queue
            if queue is None or queue.gate is None or queue.gate.series != series.name:
                continue
            if isinstance(other, UnreadableLane):
                return other.name or other.ref_id
            view = gate_of(other.gated_by(series))
            if view is not None and (view.open or view.run is not None):
                return other.name
        return None

    def gates(
        self, *, series: str | None = None, lane: str | None = None, limit: int = 100
    ) -> list[GateView]:
        """Gates by lane, in the state that their series gives them; with `series`, only its gates, and with
        `lane` only the gate of that lane."""
        names.check_whole("limit", limit, 1, names.BATCH_MAX)
        return self.at_once().gates(series=series, lane=lane, limit=limit)

    def at_once(self) -> LanesSnapshot:
        """A snapshot of all lanes: one fetch instead of one for each lane."""
        return LanesSnapshot(self.remote.read_all())

    def lanes(
        self, *, prefix: str = "", after: str = "", number: int | None = None, limit: int = 100
    ) -> list[LaneView]:
        """Lanes that are held or have a line, and unreadable lanes, which count as held. By name; with
        `number`, those of the issues and pull requests with this number."""
        query = lane_query(prefix, after, number, limit, names.BATCH_MAX)
        views = []
        for lane in with_gates(self.remote.read_all()):
            if isinstance(lane, UnreadableLane):
                views.append(_lane_view(lane.name or lane.ref_id, unreadable=lane.error.sentence))
                continue
            self._ages_us(lane)
            if lane.holder is not None or lane.line:
                mode = self._mode(lane)
                views.append(_lane_view(lane.name, lane.holder, lane.line, gate=gate_of(lane), mode=mode))
        found = (view for view in views if query.fits(view.lane))
        return sorted(found, key=lambda view: view.lane)[: query.limit]

    def _mode(self, lane: Lane) -> Mode:
        project = lane.holder.spec.project if lane.holder is not None else ""
        return mode_for(self.remote.modes, project, lane.name)

    def modes(self) -> list[ModeRule]:
        """Every mode that was set, for projects and lane prefixes; all other lanes are enforced."""
        self.remote.read_modes()
        if self.remote.modes_error is not None:
            raise self.remote.modes_error
        return [*self.remote.modes]

    def set_mode(self, *, scope: str, value: str, mode: str, by: str = "") -> None:
        """Enforce or observe the lanes of a project or prefix. The mode applies to later arrivals."""
        rule = checked_mode(scope, value, mode)
        who = signed(by)
        signature = f" by {who}" if who else ""
        self.remote.set_mode(rule, (f"{rule.scope} {rule.value}: {rule.mode}{signature}",))

    def on_lane(self, lane: str) -> list[ItemView]:
        """The unfinished items of a lane with their payloads: its owner, then its line."""
        name = names.lane_key(lane)
        found = self.remote.read(self.remote.ref_id(name), name)
        self._ages_us(found)
        return items_on(found)

    def recent_runs(
        self,
        *,
        lane: str | None = None,
        agent: str | None = None,
        worker: str = "",
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 1_000,
    ) -> list[RecentRunView]:
        """Runs that hold lanes, and the last 20 that ended on each lane, newest first. They can be limited to
        one lane, an agent, a prefix of worker names, or a window of time."""
        query = run_query(lane, agent, worker, since, until, limit)
        if query.lane is not None:
            read: Sequence[Lane | UnreadableLane] = [self.remote.look(self.remote.ref_id(query.lane))]
        else:
            read = self.remote.read_all()
        runs = [run for lane in read if isinstance(lane, Lane) for run in lane.recent_runs()]
        found = sorted(filter(query.fits, runs), key=_recency, reverse=True)
        return [recent_run_view(run) for run in found[:limit]]

    def why(self, item: int) -> WhyView:
        """What an item waits for and what will unblock it, by the deadlines of this machine."""
        explained = self._explain(self.remote.read(self.remote.find(item)), item)
        cures = tuple(cure for cure in explained.cures if cure.operation in _CURES)
        return why_view(replace_record(explained, cures=cures))

    def hindered(self, item: int) -> str | None:
        """Why no agent may start a ready item: its lane's gate. Git stores no agent limits."""
        lane = self.remote.read(self.remote.find(item))
        return None if lane.queue.gate is None else self._explain(lane, item).hindered

    def _explain(self, lane: Lane, item: int) -> Explanation:
        series = Series()
        if lane.queue.gate is not None:
            beside = self.remote.look_with(lane.ref_id, lane.queue.gate.series)
            lane = lane.gated_by(beside)
            if isinstance(beside, Lane):
                series = series_of(beside.holder, beside.line[:AHEAD_MAX], beside.queue.payloads)
            else:
                gone = beside.owner_oid is None and beside.queue_oid is None
                series = Series(lost="is not there" if gone else "cannot be read")
        now_us, timed = self._timed(lane)
        snapshot = lane.snapshot(timed, now_us)
        found = snapshot.items[lane.require(ItemId(item)).id]
        facts = Facts(
            now_us=now_us,
            snapshot=snapshot,
            series=series,
            timing=self._timing,
            ahead=sum(i.line < found.line for i in lane.line) if found.status is ItemStatus.DEFERRED else 0,
            agents=None,
        )
        return explain(predict(found, facts))

    def mend(self, lane: str, *, why: str, by: str = "") -> LaneView:
        """Rebuild an unreadable lane from the last readable state in its history."""
        name, now_us = names.lane_key(lane), self._now()
        after = repaired(self.remote, name, given_reason(why), signed(by), now_us, self._timing)
        return _lane_view(name, after.holder, after.line)

    def doctor(self) -> list[CheckView]:
        """Check that every lane is readable and that its chains of commits do not grow without limit."""
        lanes = self.remote.read_all()
        unreadable = [lane.error.sentence for lane in lanes if isinstance(lane, UnreadableLane)]
        long = [
            f"{lane.name} has more than {lane.owner.kept.commits} commits: {lane.owner.kept.why}"
            for lane in lanes
            if isinstance(lane, Lane) and lane.owner.kept is not None
        ]
        return [
            _check(
                "lanes can be read",
                f"Lanes that were ever used: {len(lanes)}.",
                unreadable,
                mend_hint("LANE"),
            ),
            _check(
                "chains are cut",
                f"A new owner begins new chains beyond {self.remote.cut_beyond} commits.",
                long,
                "Let the server accept forced pushes to refs/interlock/* and new refs/interlock/history/*.",
            ),
            _check(
                "modes can be read",
                "Lanes are enforced unless a mode was set.",
                [] if self.remote.modes_error is None else [self.remote.modes_error.sentence],
                "" if self.remote.modes_error is None else self.remote.modes_error.hint,
            ),
            external_check(_external(lanes, limit=NAMED + 1)),
        ]

    def close(self) -> None:
        """Pack loose objects. No connection stays open between calls."""
        self.remote.close()

    def _timed(self, lane: Lane) -> tuple[int, dict[ItemId, Item]]:
        """The time, and the lane's items with the deadlines of this machine."""
        now_us = self._now()
        deadlines = Deadlines(
            ages_us=self._ages_us(lane),
            now_us=now_us,
            grace_s=self._timing.cancel_grace_s,
            margin_share=self._margin_share,
            has_ended=self._has_ended,
        )
        return now_us, lane.timed_items(deadlines)

    def _ages_us(self, lane: Lane) -> Mapping[str, int]:
        return self._first_seen.ages_us(lane.ref_id, lane.clock_keys())


def _digest(handle: str) -> str:
    """The public digest of a handle."""
    return sha256(handle.encode()).hexdigest()


def _external(lanes: Sequence[Lane | UnreadableLane], limit: int) -> list[ItemView]:
    holders = [lane.holder for lane in lanes if isinstance(lane, Lane)]
    found = [held for held in holders if held is not None and held.external]
    return [ItemView(i) for i in sorted(found, key=lambda i: (i.state.run_started_us, i.id))[:limit]]


def _check(name: str, promise: str, broken: Sequence[str], mend: str) -> CheckView:
    more = f"; and {len(broken) - BROKEN_SHOWN} more" if len(broken) > BROKEN_SHOWN else ""
    detail = f"{'; '.join(broken[:BROKEN_SHOWN])}{more}" if broken else promise
    return CheckView(name=name, ok=not broken, detail=detail, mend=mend if broken else "")


def _recency(run: RecentRun) -> tuple[int, int]:
    """The sort key of recent runs: active ones first, then by their ends. Run numbers order only one lane."""
    return run.ended_us or sys.maxsize, run.run


def _holder(handle: str) -> Holder:
    run, item, _ = read_handle(handle)
    return Holder(run, item, _digest(handle))


def _refusal(lane: Lane, handle: str) -> RunView | None:
    """None if this is exactly the handle of the run in the owner document; else the refusal."""
    run, item, _ = read_handle(handle)
    mine = lane.handle_of(run, item)
    if mine is not None:
        if compare_digest(mine, _digest(handle)):
            return None
        return refused_view(handle, explain_loss(run, None, None), None)
    ended = next((r for r in lane.queue.ended if r.run == run), None)
    now = lane.items.get(item) if ended is not None else None
    return refused_view(handle, explain_loss(run, ended, now), now)


def _worth_a_commit(before: Item, after: Item) -> bool:
    """False for an early renewal that changes neither the read mark nor the grace."""
    old, new = before.state, after.state
    early = True  # an external run has no lease to renew
    if new.run_lease_s is not None:
        assert old.lease_until_us is not None and new.lease_until_us is not None
        early = 0 <= new.lease_until_us - old.lease_until_us < to_us(new.run_lease_s * RENEWED_AFTER)
    return not early or new.seen > old.seen or new.revoke_us != old.revoke_us


def _run_of(series: Lane | None) -> GateRun:
    """The run that a gate of the series can be open for."""
    assert series is not None and series.owner.run is not None
    return GateRun(series.owner.run.run, series.owner.run.handle)


def _lane_view(
    name: str,
    holder: Item | None = None,
    line: Sequence[Item] = (),
    *,
    unreadable: str | None = None,
    gate: GateView | None = None,
    mode: Mode = Mode.ENFORCE,
) -> LaneView:
    return LaneView(
        lane=name,
        mode=mode.value,
        holder=holder_view(holder),
        waiting=len(line),
        line=tuple(i.id for i in line[:LINE_SHOWN]),
        unreadable=unreadable,
        gate=gate,
        waiting_since=maybe_moment(min((i.spec.created_us for i in line[:LINE_SHOWN]), default=None)),
    )

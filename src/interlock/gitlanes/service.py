"""Lanes on a git remote, with no server and no database: `LaneService` on refs moved by compare-and-swap.

Each lane has two refs, `refs/interlock/owner/<id>` and `refs/interlock/queue/<id>`, each a chain of commits
that hold JSON; `git log` of them is the history. The rules are those of the databases. The differences:

- There is no store clock. A taker may end a lease once it has itself seen the owner's commit unchanged for
  the lease and a margin, or knows that the owner's workflow run has ended.
- Tickets follow the order in which pushes won.
- Agents and projects are not stored, and only an owner that a gate keeps waiting is overtaken.

A run's write is accepted iff the owner document names exactly this run, by its number and the digest of its
handle, and the pinned push succeeds: the server refuses a push that was decided on an older document.

Anyone who may write to the remote can break a lane by hand. Handles protect against mistakes and guesses, not
against somebody with that access and bad intent.
"""

from __future__ import annotations

import random
import secrets
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path

from interlock.core import names
from interlock.core.checking import (
    check_batch,
    check_report,
    check_wall,
    checked,
    checked_end,
    checked_gate,
    checked_mode,
    checked_sender,
    checked_wish,
    gated_lane,
    given_reason,
    signed,
)
from interlock.core.claiming import MESSAGES_AT_ONCE, Claim, renewed, started
from interlock.core.commands import (
    Cancel,
    EndExternal,
    Finish,
    GateSet,
    Moved,
    Outcome,
    Overtake,
    SetGate,
    Tell,
)
from interlock.core.ending import explain_loss
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
from interlock.core.why import Explanation, explain
from interlock.git.refusals import RefMove
from interlock.gitlanes.at_once import LanesAtOnce, gate_of, items_on, with_gates
from interlock.gitlanes.commit_message import event_lines, renewed_line, started_line
from interlock.gitlanes.documents import GateRun, mend_hint
from interlock.gitlanes.first_seen import FirstSeen
from interlock.gitlanes.history import Holder, LaneHistory
from interlock.gitlanes.lane import Deadlines, HasEnded, Lane, UnreadableLane
from interlock.gitlanes.mending import mended
from interlock.gitlanes.remote import CUT_BEYOND, Change, LaneRemote
from interlock.process.sign import Before, Sign
from interlock.process.workplace import ActionsRun
from interlock.service.answers import (
    NAMED,
    add_view,
    ended_view,
    external_check,
    gate_view,
    holder_view,
    kept_view,
    recent_run_view,
    refused_view,
    why_view,
)
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
from interlock.service.foresight import series_of
from interlock.service.itemview import ItemView, maybe_moment

LEASE_MIN_S = 900.0
MARGIN_SHARE = 0.1
#: A waiting claim looks less and less often, down to `poll_s * POLL_MAX_FACTOR`, to spare the remote.
POLL_GROWTH, POLL_MAX_FACTOR = 1.5, 10.0
LINE_SHOWN = 20
#: How long after its end a run's sign is looked for that nobody took away.
LEFT_SHOWN_S = 86_400.0
#: How many broken lanes a check names.
BROKEN_SHOWN = 5
#: A renewal makes a commit once this share of the lease is gone; holders renew every third.
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
        sign: Callable[[], Sign | None] = lambda: None,
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
        self._sign = sign
        self._befores: dict[str, Before] = {}
        self._now = now
        self._first_seen = first_seen or FirstSeen(self.remote.first_seen)
        self._pause = pause

    @property
    def objects(self) -> Path:
        """The directory of git objects that has the commits made by `touch`."""
        return self.remote.objects

    # -- arrivals -------------------------------------------------------------------------------------

    def add(self, items: Sequence[NewItem]) -> list[AddView]:
        """Decide on arrivals on one lane, in order, in one commit."""
        check_batch("items", items, NewItem)
        if not items:
            return []
        new = [checked(i) for i in items]
        lane_name = new[0].lane
        if lane_name is None or any(n.lane != lane_name for n in new):
            raise InvalidInput(
                "A store in git takes items of one lane at a time.",
                "Give every item the same --lane; work without a lane needs a database.",
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

        With `item`, only that one: nothing while it cannot be claimed, an `ItemEnded` once it never can be.
        `external` is for work that is done outside: the run has no lease to renew, neither time nor the end
        of a workflow run ends it, and it ends when its end is reported or seen (`end_external`).
        """
        wish = checked_wish(agent, types, labels, limit, lease_s, worker, external=external)
        names.check_number("wait", wait_s, 0, names.WAIT_MAX_S)
        if item is not None:
            wish = replace(wish, item=ItemId(item))
        asked_s = time.monotonic()
        deadline_s = asked_s + wait_s
        pause_s = self._poll_s
        while True:
            leases = self._claim(wish, asked_s)
            left_s = deadline_s - time.monotonic()
            if leases or left_s <= 0:
                return leases
            self._pause(min(left_s, pause_s * random.uniform(0.75, 1.25)))  # noqa: S311  (not a secret)
            pause_s = min(pause_s * POLL_GROWTH, self._poll_s * POLL_MAX_FACTOR)

    def _claim(self, wish: Claim, asked_s: float) -> list[LeaseView]:
        ref_ids = [self.remote.find(wish.item)] if wish.item is not None else self._candidates(wish)
        leases: list[LeaseView] = []
        for ref_id in ref_ids:
            more = True
            while more and len(leases) < wish.limit:
                lease = self.remote.transact(ref_id, lambda lane: self._begin(lane, wish, asked_s))
                leases += [lease] if lease is not None else []
                more = lease is not None and lease.item.observed_lane is not None  # else the lane is held
        return leases

    def _candidates(self, wish: Claim) -> list[str]:
        """Lanes with an item that this wish may start, or with a deadline that has passed: the highest
        priority first, then the oldest."""
        found = []
        for lane in with_gates(self.remote.read_all()):
            if isinstance(lane, UnreadableLane):  # counts as held
                continue
            now_us, timed = self._timed(lane)
            startable = lane.startable(wish)
            if startable is not None:
                spec = startable[0].spec
                found.append(((-spec.priority, spec.created_us), lane.ref_id))
            elif lane.overdue(timed, now_us):
                found.append(((names.PRIORITY_MAX, 0), lane.ref_id))
        return [ref_id for _, ref_id in sorted(found)]

    def _begin(self, lane: Lane, wish: Claim, asked_s: float) -> Change[LeaseView | None]:
        waited_s = int(1000 * (time.monotonic() - asked_s)) / 1000
        now_us, timed = self._timed(lane)
        decision, after = lane.decide(timed, lane.overdue(timed, now_us), now_us, self._timing)
        lines = event_lines(decision.events)
        if wish.item is not None:
            after.require_unended(wish.item)
        found, series = self._startable(after, wish)
        if found is None:
            return Change(after=after, answer=None, lines=lines)
        item, overtaken = found
        if overtaken is not None:
            shut = after.gated_by(None)
            overtake = Overtake(item=item.id, owner=overtaken.id)
            decision, moved = shut.decide(shut.items, [overtake], now_us, self._timing)
            after, item = moved.with_gate_of(after), moved.queue.items[item.id]
            lines = (*lines, *event_lines(decision.events))
        lease_s = max(wish.lease_s or item.spec.lease_s or self._timing.lease_s, self._lease_min_s)
        item = started(item, wish, RunId(after.owner.last_run + 1), lease_s, now_us)
        handle = f"{item.state.run}.{item.id}.{secrets.token_hex(8)}"
        if (before := after.before()) is not None:
            self._befores[handle] = before
        if wish.external:  # it outlives this process and its workflow run
            after = after.with_start(item, _digest(handle), None)
        else:
            after = after.with_start(item, _digest(handle), self._actions, self._sign())
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

    def _startable(self, lane: Lane, wish: Claim) -> tuple[tuple[Item, Item | None] | None, Lane | None]:
        """What a wish may start on a lane; and the series whose owner must still be the same then, if the
        lane has a gate and the item is not exempt."""
        found, gate = lane.startable(wish), lane.queue.gate
        if found is None or gate is None or found[0].spec.type in gate.exempt:
            return found, None
        series = self.remote.beside(lane.ref_id, gate.series)
        if isinstance(series, Lane) and lane.is_open_for(series):
            return found, series
        return lane.gated_by(None).startable(wish), None

    def before(self, run: str) -> Before | None:
        """The run before this one on its lane, if it showed a sign on GitHub; only who claimed is told."""
        return self._befores.get(run)

    def left(self) -> list[Sign]:
        """Signs on GitHub of runs that died, where no later run has seen to them."""
        since_us = self._now() - to_us(LEFT_SHOWN_S)
        found = []
        for lane in self.remote.read_all():
            if isinstance(lane, UnreadableLane):
                continue
            run, before = lane.owner.run, lane.before()
            if run is not None:
                if run.sign is not None and run.actions is not None and self._has_ended(run.actions):
                    found.append(run.sign)
            elif before is not None and before.sign is not None and before.lost:
                found += [before.sign] if before.ended_us > since_us else []
        return found

    # -- the holder's writes --------------------------------------------------------------------------

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
        """Each run ends in a commit of its own: two lanes have no common ref."""

        def finish(lane: Lane, report: Report) -> Change[RunView]:
            handle = read_handle(report.run)
            jitter = random.random()  # noqa: S311  (spreads retries; nothing secret)
            said = report.seen, report.result, report.error, report.retry
            command = Finish(
                *(handle.run, handle.item, outcome, *said, jitter),
                wall=report.wall,
                fault_s=report.fault_s,
            )
            decision, after = lane.decide(lane.items, [command], self._now(), self._timing)
            view = ended_view(report.run, decision.answers[0], decision.after)
            return Change(after=after, answer=view, lines=event_lines(decision.events))

        return self._as_holders(reports, finish, outcome)

    def renew(self, reports: Sequence[Report]) -> list[RunView]:
        """Extend the leases of these runs, and learn of cancel requests and unread messages.

        An early renewal writes nothing: `expires_at` stays what it was.
        """

        def renew(lane: Lane, report: Report) -> Change[RunView]:
            before = lane.items[read_handle(report.run).item]
            after = self._renewed(before, report.seen)
            if not _worth_a_commit(before, after):
                return Change(after=lane, answer=kept_view(report.run, before))
            view = kept_view(report.run, after)
            return Change(after=lane.with_renewal(after), answer=view, lines=(renewed_line(after),))

        return self._as_holders(reports, renew)

    def _as_holders(
        self,
        reports: Sequence[Report],
        write: Callable[[Lane, Report], Change[RunView]],
        outcome: Outcome | None = None,
    ) -> list[RunView]:
        """Fenced writes: `write` decides only while the lane's owner is the run of the report."""
        check_batch("reports", reports, Report)
        for _, seen, result, error, retry, wall, fault_s in reports:
            check_report(seen, result, error, retry, fault_s)
            check_wall(wall)
            if wall is not None and wall.whole_agent:
                raise InvalidInput(
                    "A store in git knows no agents, so none can wait as a whole.",
                    "Leave --whole-agent out: the item alone waits. Or use a database.",
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
            except NotFound:  # somebody deleted both refs
                return refused_view(report.run, explain_loss(run, None, None), None)
            except LeaseLost as lost:  # they cannot be read, and do not prove that this run holds the lane
                refusal = Refusal(code=lost.code, sentence=lost.sentence, hint=lost.hint)
                return refused_view(report.run, refusal, None)

        return [transact(report) for report in reports]

    def _renewed(self, item: Item, seen: int) -> Item:
        """The running item renewed. The grace begins with the first renewal after a cancel request."""
        now_us = self._now()
        if item.state.cancel_into is not None and item.state.revoke_us is None:
            revoke_us = now_us + to_us(self._timing.cancel_grace_s)
            item = item._replace(state=item.state._replace(revoke_us=revoke_us))
        return renewed(item, seen, now_us)

    def touch(self, handle: str) -> RefMove:
        """A new owner commit for the lane of this run, not pushed yet; raises `LeaseLost`.

        Pushed together with a branch in one atomic push, it lets only the lane's owner push.
        """
        run, item, _ = read_handle(handle)
        try:
            lane = self.remote.read(self.remote.find(item))
        except NotFound:
            raise explain_loss(run, None, None).error() from None
        except UnreadableState:
            (renewed,) = self.renew([Report(run=handle)])  # mends the lane, if the run holds it
            if renewed.refusal is not None:
                raise LeaseLost(renewed.refusal.message, renewed.refusal.hint) from None
            lane = self.remote.read(self.remote.find(item))
        refused = _refusal(lane, handle)
        if refused is not None and refused.refusal is not None:
            raise LeaseLost(refused.refusal.message, refused.refusal.hint)
        after = self._renewed(lane.items[item], 0)
        lines = (f"{renewed_line(after)} and pushes",)
        return self.remote.commits(lane, Change(after=lane.with_renewal(after), answer=None, lines=lines))[0]

    def inbox(self, run: str, *, seen: int = 0) -> list[MessageView]:
        """Unread messages of a run; `seen` moves its read mark first. Reading is fenced like writing."""
        view = self.renew([Report(run=run, seen=seen)])[0]
        if view.refusal is not None:
            raise LeaseLost(view.refusal.message, view.refusal.hint)
        assert view.item is not None
        item = ItemId(view.item.id)
        lane = self.remote.read(self.remote.find(item))
        return [*lane.messages(item, view.item.messages - view.unread, MESSAGES_AT_ONCE)]

    def end_external(
        self, item: int, run: int, outcome: str, *, why: str, by: str = "", result: str | None = None
    ) -> ChangeView:
        """The end of an external run was seen from outside: `done`, `fail`, `release`, `cancel` or `yield`.

        Written iff the owner document names this run and it is external; otherwise raises `LeaseLost`.
        """
        end = checked_end(item, run, outcome, why=why, by=by, result=result)
        return self._operate(item, lambda _: end, refused=LeaseLost)

    def external(self, *, limit: int = 100) -> list[ItemView]:
        """Items whose runs are external, the longest first: what they do is not seen here."""
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

        def tell(lane: Lane) -> Tell:
            target = lane.last_absorber(ItemId(item))
            ticket = lane.queue.last_ticket + 1
            return Tell(
                item=target, ticket=ticket, text=text, author=author, sender=who, reason=reason, url=url
            )

        return self._operate(item, tell)

    def sender_of(self, run: str) -> Sender:
        """Who writes in the run with this handle: its agent, also after the run has ended.

        A handle that no run here has proves nothing, and is no error: another system writes. Of an ended run
        only the number is known, not the handle.
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
        """An operator ends an item; a running one gets its grace unless `force`."""
        names.check_flag("force", force)
        command = Cancel(item=ItemId(item), why=given_reason(why), by=signed(by), force=force)
        return self._operate(item, lambda _: command)

    def _operate(
        self,
        item: int,
        build: Callable[[Lane], Tell | Cancel | EndExternal],
        refused: type[InterlockError] = ItemEnded,
    ) -> ChangeView:
        def step(lane: Lane) -> Change[ChangeView]:
            command = build(lane)
            lane.require(command.item)
            now_us, timed = self._timed(lane)
            decision, after = lane.decide(timed, [command], now_us, self._timing)
            moved: Moved = decision.answers[0]
            if not moved.changed:
                raise refused(moved.refusal, moved.hint or "See git log of the lane.")
            if isinstance(command, Tell):
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
        """Open or shut a lane. While it is shut, nothing starts there but items of exempt types; a run of
        another type is asked to stop, and its item is offered again when the gate opens.

        A gate opens only while every other lane of its series is shut and no run goes on there, and for the
        run that the series has now, or with `run` only for that one. Otherwise it is shut, and `waits_for`
        says why. Once that run has ended the lane is shut, even if nobody shuts it.
        """
        name, gate = gated_lane(lane), checked_gate(lane, series, open, exempt, run)
        command = SetGate(lane=name, gate=gate, why=given_reason(why), by=signed(by))

        def step(lane: Lane) -> Change[GateSet]:
            if not open:
                return self._gate(lane, command)
            series = self.remote.beside(lane.ref_id, gate.series)
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
        """Let a lane go on without a gate. False if it had none."""
        name = gated_lane(lane)
        command = SetGate(lane=name, gate=None, why=given_reason(why), by=signed(by))

        ref_id = self.remote.ref_id(name)
        return self.remote.transact(ref_id, lambda lane: self._gate(lane, command), name=name).changed

    def _gate(self, lane: Lane, command: SetGate, series: Lane | None = None) -> Change[GateSet]:
        """The lane with another gate, which opens for the run of this series.

        Whoever opens one moves the owner's ref of the series, as does whoever starts a run: so two of them
        who both found the other lanes shut do not both succeed. The series was read before those.
        """
        seen, busy = lane, None
        if series is not None:  # what is open for an earlier run of the series is shut
            seen = lane.gated_by(series)
            busy = self._busy(seen, series)
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

    def _busy(self, lane: Lane, series: Lane) -> str | None:
        """Another lane of the series that is open, or where a run goes on; None if this one is open already.
        A lane that cannot be read counts as held."""
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

    def gates(self, *, series: str | None = None, limit: int = 100) -> list[GateView]:
        """Gates in the order of their lanes, as they are for their series now; with `series` those of one."""
        names.check_whole("limit", limit, 1, names.BATCH_MAX)
        return self.at_once().gates(series=series, limit=limit)

    def at_once(self) -> LanesAtOnce:
        """All lanes of this moment: for whoever reads many, one fetch instead of one for each."""
        return LanesAtOnce(self.remote.read_all())

    def lanes(self, *, prefix: str = "", limit: int = 100) -> list[LaneView]:
        """Lanes that are held or have a line, and unreadable lanes, which count as held."""
        names.check_whole("limit", limit, 1, names.BATCH_MAX)
        beginning = names.folded_lane(names.check_text("prefix", prefix, names.NAME_MAX_CHARS))
        views = []
        for lane in with_gates(self.remote.read_all()):
            if isinstance(lane, UnreadableLane):
                views.append(_lane_view(lane.name or lane.ref_id, unreadable=lane.error.sentence))
                continue
            self._ages_us(lane)
            if lane.holder is not None or lane.line:
                mode = self._mode(lane)
                views.append(_lane_view(lane.name, lane.holder, lane.line, gate=gate_of(lane), mode=mode))
        return [view for view in views if view.lane.startswith(beginning)][:limit]

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
        """Enforce or observe the lanes of a project or prefix. It counts for what arrives from then on."""
        rule = checked_mode(scope, value, mode)
        who = signed(by)
        signature = f" by {who}" if who else ""
        self.remote.set_mode(rule, (f"{rule.scope} {rule.value}: {rule.mode}{signature}",))

    def on_lane(self, lane: str) -> list[ItemView]:
        """The unfinished items of a lane with their payloads, its owner first, then its line."""
        name = names.lane_key(lane)
        found = self.remote.read(self.remote.ref_id(name), name)
        self._ages_us(found)
        return items_on(found)

    def recent_runs(
        self, *, lane: str | None = None, worker: str = "", limit: int = 1_000
    ) -> list[RecentRunView]:
        """Runs that hold lanes, and the last 20 that ended on each, on one lane or of workers whose names
        begin with a text; the newest first."""
        names.check_whole("limit", limit, 1, 10_000)
        names.check_text("worker", worker, names.NAME_MAX_CHARS)
        if lane:
            key = names.lane_key(lane)
            read: Sequence[Lane | UnreadableLane] = [self.remote.look(self.remote.ref_id(key))]
        else:
            read = self.remote.read_all()
        runs = [run for lane in read if isinstance(lane, Lane) for run in lane.recent_runs()]
        runs = [run for run in runs if (run.worker or "").startswith(worker)]
        return [recent_run_view(run) for run in sorted(runs, key=_lately, reverse=True)[:limit]]

    def why(self, item: int) -> WhyView:
        """What an item waits for, and what will move it, by the deadlines that hold on this machine."""
        return why_view(self._explain(self.remote.read(self.remote.find(item)), item))

    def hindered(self, item: int) -> str | None:
        """Why nobody may start an item that is ready: its lane's gate. Git stores no limits of agents."""
        lane = self.remote.read(self.remote.find(item))
        return None if lane.queue.gate is None else self._explain(lane, item).hindered

    def _explain(self, lane: Lane, item: int) -> Explanation:
        series = Series()
        if lane.queue.gate is not None:
            beside = self.remote.beside(lane.ref_id, lane.queue.gate.series)
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
        """Rebuild a lane that cannot be read from the last readable state in its history."""
        name, now_us = names.lane_key(lane), self._now()
        after = mended(self.remote, name, given_reason(why), signed(by), now_us, self._timing)
        return _lane_view(name, after.holder, after.line)

    def doctor(self) -> list[CheckView]:
        """Check that every lane can be read and that its chains of commits do not grow without end."""
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
        """Pack loose objects. Nothing is kept open between calls."""
        self.remote.close()

    def _timed(self, lane: Lane) -> tuple[int, dict[ItemId, Item]]:
        """The time, and the lane's items with the deadlines that hold on this machine."""
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
    """What everybody may know of a handle."""
    return sha256(handle.encode()).hexdigest()


def _external(lanes: Sequence[Lane | UnreadableLane], limit: int) -> list[ItemView]:
    holders = [lane.holder for lane in lanes if isinstance(lane, Lane)]
    found = [held for held in holders if held is not None and held.external]
    return [ItemView(i) for i in sorted(found, key=lambda i: (i.state.run_started_us, i.id))[:limit]]


def _check(name: str, promise: str, broken: Sequence[str], mend: str) -> CheckView:
    more = f"; and {len(broken) - BROKEN_SHOWN} more" if len(broken) > BROKEN_SHOWN else ""
    detail = f"{'; '.join(broken[:BROKEN_SHOWN])}{more}" if broken else promise
    return CheckView(name=name, ok=not broken, detail=detail, mend=mend if broken else "")


def _lately(run: RecentRun) -> tuple[int, int]:
    """Numbers of runs grow on each lane only: what ended last comes first, and what goes on before that."""
    return run.ended_us or sys.maxsize, run.run


def _holder(handle: str) -> Holder:
    run, item, _ = read_handle(handle)
    return Holder(run, item, _digest(handle))


def _refusal(lane: Lane, handle: str) -> RunView | None:
    """None if this handle is that of the run in the owner document; equality, nothing else."""
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
    """False for a renewal that came early and changes neither the read mark nor the grace."""
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
    )

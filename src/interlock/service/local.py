"""The service on a store: one function per use case, where core meets store.

Every shell goes through here; nothing here knows how a shell looks or which database is behind it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from interlock.core import names
from interlock.core.checking import (
    check_batch,
    check_report,
    check_wall,
    checked,
    checked_edit,
    checked_end,
    checked_reason,
    checked_sender,
    checked_wish,
    given_reason,
    signed,
)
from interlock.core.claiming import MESSAGES_AT_ONCE, Agent, Claim, check_mark, narrowed
from interlock.core.commands import (
    Arrive,
    Cancel,
    Command,
    Edit,
    EndExternal,
    Finish,
    Moved,
    Outcome,
    Question,
    Retry,
    TakeBack,
    Tell,
)
from interlock.core.continuity import RUN_MAX, Lineage
from interlock.core.ending import explain_loss
from interlock.core.errors import (
    EditRefused,
    InterlockError,
    InvalidInput,
    ItemEnded,
    LeaseLost,
    StaleRevision,
)
from interlock.core.handles import Handle, read_handle
from interlock.core.ledger import Decision
from interlock.core.model import A_PERSON, ItemId, NewItem, Policy, RunId, Sender
from interlock.core.overtaking import OVERTAKE_AFTER_S
from interlock.core.plans.model import EDIT_TYPE
from interlock.core.policies import NO_POLICIES, Policies
from interlock.core.record import replace
from interlock.core.timing import QUESTION_TIMEOUT_S
from interlock.service import sweeper
from interlock.service.answers import (
    NAMED,
    add_view,
    ended_view,
    external_check,
    kept_view,
    message_views,
    refused_view,
)
from interlock.service.blocking import Blocking
from interlock.service.contract import (
    AddView,
    ChangeView,
    CheckView,
    LeaseView,
    MessageView,
    Report,
    RunView,
    SweepView,
)
from interlock.service.fleet import Fleet
from interlock.service.gating import Gating
from interlock.service.itemview import ItemView, maybe_moment, moment
from interlock.service.keeping import Keeping
from interlock.service.notices import Notices
from interlock.service.planning import Planning
from interlock.service.presence import Presence
from interlock.service.pruning import Retention
from interlock.store.bulk import in_bulk
from interlock.store.port import ClaimedItem, Load, Renewal, Store

POLL_S = 1.0
#: The longest question: people read it on one screen.
QUESTION_MAX_BYTES = 10_000
IN_VAIN_FIRST_S, IN_VAIN_MAX_S = 0.002, 0.25
#: A process says so often that an agent asks for work, and several times before it would count as gone.
SEEN_EVERY_S, SEEN_IN_TIME = 5.0, 4
#: What a command on an item raises where its usual refusal does not fit.
_REFUSALS: dict[str, type[InterlockError]] = {kind.code: kind for kind in (EditRefused, StaleRevision)}


class LocalService(Planning, Fleet, Blocking, Gating, Notices, Presence, Keeping):
    """Interlock on a database in reach of this process."""

    def __init__(
        self,
        store: Store,
        *,
        poll_s: float = POLL_S,
        retention_s: float | None = None,
        policies: Policies = NO_POLICIES,
    ) -> None:
        super().__init__(store)
        self._policies = policies
        self._poll_s = poll_s
        self._retention = Retention(retention_s) if retention_s is not None else None
        #: When this process said last that an agent is there, and how often it does.
        self._known: dict[str, tuple[float, float]] = {}
        self._swept_to = ""
        #: Says why a run must not start; servers have one that asks GitHub.
        self.last_look: Callable[[LeaseView], str | None] | None = None

    def count_history(self) -> bool:
        """Bring the counters of `metrics` up to the history, step by step; whether there is more to count."""
        from interlock.service import metering  # noqa: PLC0415  (for servers)

        return metering.fold(self.store)

    # -- arrivals ---------------------------------------------------------------------------------

    def policy_of(self, new: NewItem) -> Policy:
        """The policy that an arrival has here: its own, or a default one if its caller named none."""
        if self._policies is NO_POLICIES or not new.policy_open:
            return new.policy
        return self._policies.applied(checked(new)).policy

    def add(self, items: Sequence[NewItem]) -> list[AddView]:
        """Decide on arrivals, in order, in one transaction."""
        check_batch("items", items, NewItem)
        if not items:
            return []
        new = [checked(i) for i in items]
        if self._policies is not NO_POLICIES:
            new = [self._policies.applied(each) for each in new]
        tickets = self.store.tickets(len(new))
        keys = tuple((n.project, n.dedupe_key) if n.dedupe_key is not None else None for n in new)
        lanes = tuple(sorted({n.lane for n in new if n.lane is not None}))
        heard = {
            (n.lane, names.agent_key(n.agent))
            for n in new
            if n.lane is not None and n.policy is Policy.COALESCE
        }
        load = Load(lanes=lanes, keys=keys, arrivals=len(new), names=tuple(sorted(heard)))

        def build(ids: Sequence[ItemId]) -> list[Command]:
            return [Arrive(item=n, id=i, ticket=t) for n, i, t in zip(new, ids, tickets, strict=True)]

        def answer(decision: Decision) -> list[AddView]:
            return [add_view(a, decision.after) for a in decision.answers]

        return answer(self.store.transact(load, build, self._note(answer)))

    # -- claims -----------------------------------------------------------------------------------

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
        `external` is for work that is done outside: the run has no lease to renew, and ends when its end is
        reported or seen (`end_external`).
        """
        wish = checked_wish(agent, types, labels, limit, lease_s, worker, external=external)
        if item is not None:
            wish = self._only(wish, ItemId(item))
        names.check_number("wait", wait_s, 0, names.WAIT_MAX_S)
        asked_s = time.monotonic()
        deadline_s = asked_s + wait_s
        in_vain_s = 0.0
        while True:
            waited_s = int(1000 * (time.monotonic() - asked_s)) / 1000
            self._make_known(wish.agent, agent.strip())
            claimed, agent_now = self._claim(wish)
            if wish.item is not None and not claimed:
                self._require_unended(wish.item)
            left_s = deadline_s - time.monotonic()
            if claimed or left_s <= 0:
                return self._leases(claimed, waited_s)
            allowed = narrowed(wish, agent_now)
            # Ready items that this agent cannot take now (it is full, say) wake it in vain: look less often.
            time.sleep(min(left_s, self._poll_s if allowed is None else in_vain_s))
            if allowed is not None:
                woken = self.store.wait_for_work(allowed, min(max(0.0, left_s - in_vain_s), self._poll_s))
                in_vain_s = min(max(2 * in_vain_s, IN_VAIN_FIRST_S), IN_VAIN_MAX_S) if woken else 0.0

    def _only(self, wish: Claim, item: ItemId) -> Claim:
        self._require(item)
        if wish.limit != 1:
            raise InvalidInput("A limit and one item are given at once.", "Use one or the other.")
        return replace(wish, item=item)

    def _require_unended(self, item: ItemId) -> None:
        found = self._require(item)
        if found.terminal:
            raise ItemEnded(
                f"Item {item} has already ended as {found.status} ({found.state.reason}).",
                f"`interlock show {item}` tells more.",
                reason=found.state.reason,
            )

    def _claim(self, wish: Claim) -> tuple[list[ClaimedItem], Agent | None]:
        note = self._note_claim()
        answer = self.store.claim(wish, due_first=True, note=note)
        if answer.due:
            sweeper.move_due(self.store, sweeper.Swept())
            answer = self.store.claim(wish, due_first=False, note=note)
        return answer.claimed, answer.agent

    def _make_known(self, key: str, name: str) -> None:
        now_s = time.monotonic()
        said_s, every_s = self._known.get(key, (0.0, 0.0))
        if now_s - said_s >= every_s:
            after_s = self.store.see_agent(key, name) or OVERTAKE_AFTER_S
            self._known[key] = now_s, min(SEEN_EVERY_S, after_s / SEEN_IN_TIME)

    def unwanted(self, run: str) -> str | None:
        """Why a run must not start, by a last look at where its item came from. None if it may.

        Else its item is cancelled, or waits, and the run should be released. Where nobody can look, it may.
        A run that is over is refused.
        """
        handle = read_handle(run)
        item = self._item_of(handle)
        if not item.is_run_of(handle.run, handle.bits):
            raise explain_loss(handle.run, self._ended_run(handle), item).error()
        if self.last_look is None:
            return None
        payload = self.store.payloads([item.id]).get(item.id)
        return self.last_look(self._lease(ClaimedItem(item, payload), 0.0))

    def act_as(self, run: str, account: str) -> None:
        """Name the GitHub account that a run writes with: its comments on the run's lane are the agent's own.

        A run that is over is refused.
        """
        login, handle = names.check_name("account", account).lower(), read_handle(run)
        item = self._item_of(handle)
        if not item.is_run_of(handle.run, handle.bits):
            raise explain_loss(handle.run, self._ended_run(handle), item).error()
        self.store.github.keep_account(handle.run, item.id, login)

    def claimed(self, kept: Sequence[tuple[int, int, int]]) -> list[LeaseView]:
        """The leases that a request got which was answered before, as far as they are not lost meanwhile."""
        items = [(self.store.item(ItemId(item)), RunId(run), bits) for item, run, bits in kept]
        held = [item for item, run, bits in items if item is not None and item.is_run_of(run, bits)]
        payloads = self.store.payloads([item.id for item in held])
        return self._leases([ClaimedItem(item, payloads.get(item.id)) for item in held], 0.0)

    @in_bulk
    def _leases(self, claimed: Sequence[ClaimedItem], waited_s: float) -> list[LeaseView]:
        return [self._lease(c, waited_s) for c in claimed]

    def _lease(self, claimed: ClaimedItem, waited_s: float) -> LeaseView:
        item, payload = claimed
        spec, state = item
        assert state.run is not None and state.run_bits is not None
        lease_s = state.run_lease_s
        messages = self.store.messages(spec.id, 0, MESSAGES_AT_ONCE) if state.message_count else ()
        return LeaseView(
            str(Handle(state.run, spec.id, state.run_bits)),
            state.run,
            maybe_moment(state.due_us),
            lease_s,
            None if lease_s is None else round(lease_s / 3, 3),
            ItemView(item, payload),
            tuple(message_views(messages)) if messages else (),
            waited_s,
        )

    # -- the holder's writes ----------------------------------------------------------------------

    def done(self, reports: Sequence[Report]) -> list[RunView]:
        """The work of these runs is done."""
        return self._finish(reports, Outcome.DONE)

    def fail(self, reports: Sequence[Report]) -> list[RunView]:
        """These runs failed; their items are tried again while attempts are left."""
        return self._finish(reports, Outcome.FAIL)

    def release(self, reports: Sequence[Report]) -> list[RunView]:
        """These runs give their items back unworked; one at a wall waits until that is over."""
        return self._finish(reports, Outcome.RELEASE)

    def ask(
        self, run: str, question: str, *, timeout_s: float = QUESTION_TIMEOUT_S, yield_lane: bool = False
    ) -> RunView:
        """End a run with a question to a person, whose next message brings the item back.

        It keeps its lane until `timeout_s` is over, unless it yields it.
        """
        handle = read_handle(run)
        names.check_text("question", question, QUESTION_MAX_BYTES)
        if not question.strip():
            raise InvalidInput("The question is empty.", "Say what you need to know.")
        names.check_number("time-out", timeout_s, 1, names.RUN_AFTER_MAX_S)
        names.check_flag("yield_lane", yield_lane)
        item = self.store.item(handle.item)
        if item is not None and item.spec.type == EDIT_TYPE:
            raise InvalidInput(
                "An edit of a plan cannot wait for a person: its tasks would wait with it.",
                "Answer with `interlock plan edit`, or no change, and let a task ask.",
            )
        if item is not None and item.held:
            raise InvalidInput(
                "A hold cannot wait for a person: its command ends with it, and nobody would get the answer.",
                "Ask in your command's own way, or let a worker run it: `interlock add`, `interlock work`.",
            )
        asked = Question(question, self.store.tickets(1)[0], timeout_s, yield_lane)
        command = Finish(handle.run, handle.item, Outcome.RELEASE, bits=handle.bits, question=asked)
        load = Load(items=(handle.item,), runs=(handle.run,))

        def answer(decision: Decision) -> RunView:
            return ended_view(run, decision.answers[0], decision.after)

        decision = self.store.transact(load, lambda _: [command], self._note(answer))
        sweeper.move_due_tasks(self.store, decision)
        return answer(decision)

    def _finish(self, reports: Sequence[Report], outcome: Outcome) -> list[RunView]:
        import random  # noqa: PLC0415  (looking needs none)

        handles = _read_handles(reports)
        commands = [
            Finish(run, item, outcome, seen, result, error, retry, random.random(), bits, wall, None, fault_s)  # noqa: S311  (no secret)
            for (_, seen, result, error, retry, wall, fault_s), (run, item, bits) in zip(
                reports, handles, strict=True
            )
        ]
        load = Load(
            items=tuple(sorted({h.item for h in handles})),
            runs=tuple(h.run for h in handles),
            walled=self._walled(reports, handles),
        )

        def answer(decision: Decision) -> list[RunView]:
            return [
                ended_view(report.run, ended, decision.after)
                for report, ended in zip(reports, decision.answers, strict=True)
            ]

        decision = self.store.transact(load, lambda _: commands, self._note(answer))
        sweeper.move_due_tasks(self.store, decision)
        return answer(decision)

    def _walled(self, reports: Sequence[Report], handles: Sequence[Handle]) -> tuple[str, ...]:
        """The agents that these reports put behind a wall; a run never changes its agent."""
        named = [h.item for r, h in zip(reports, handles, strict=True) if r.wall and r.wall.whole_agent]
        found = filter(None, map(self.store.item, named))
        return tuple({i.state.run_agent for i in found if i.state.run_agent is not None})

    def renew(self, reports: Sequence[Report]) -> list[RunView]:
        """Keep the leases of these runs, and learn of cancel requests and unread messages."""
        return self._renew(reports, "renew")

    def _renew(self, reports: Sequence[Report], wanted: str) -> list[RunView]:
        """The same; the history names what was `wanted` of runs that have lost their leases."""
        handles = _read_handles(reports)
        wishes = [Renewal(handle=h, seen=r.seen) for h, r in zip(handles, reports, strict=True)]
        kept = self.store.renew(wishes)
        late = [h for h in handles if h not in kept]
        ended = self.store.refuse(late, wanted) if late else {}
        views = []
        for report, handle in zip(reports, handles, strict=True):
            if handle in kept:
                check_mark(kept[handle], report.seen)
                views.append(kept_view(report.run, kept[handle]))
                continue
            now = self.store.item(handle.item) if handle in ended else None
            refusal = explain_loss(handle.run, ended.get(handle), now)
            views.append(refused_view(report.run, refusal, now))
        return views

    def inbox(self, run: str, *, seen: int = 0) -> list[MessageView]:
        """Unread messages of a run; `seen` moves its read mark first. Reading is fenced like writing."""
        view = self._renew([Report(run=run, seen=seen)], "inbox")[0]
        if view.refusal is not None:
            raise LeaseLost(view.refusal.message, view.refusal.hint)
        assert view.item is not None
        after = view.item.messages - view.unread
        found = self.store.messages(ItemId(view.item.id), after, MESSAGES_AT_ONCE)
        return message_views(found)

    def end_external(
        self, item: int, run: int, outcome: str, *, why: str, by: str = "", result: str | None = None
    ) -> ChangeView:
        """The end of an external run was seen from outside: `done`, `fail`, `release`, `cancel` or `yield`.

        If the item's current run is another one, or is not external, nothing is changed, and `LeaseLost` is
        raised.
        """
        end = checked_end(item, run, outcome, why=why, by=by, result=result)
        return self._operate(end, refused=LeaseLost)

    # -- fences in git ----------------------------------------------------------------------------

    def lineage(self) -> Lineage:
        """The name of this store, and the stores that it comes from."""
        return self.store.lineage()

    def pass_fence(self, run: str, *, fence: int, armed_us: int) -> bool:
        """A run met a fence that is ahead of it and belongs to this store's lineage: later runs get numbers
        above it. False if the fence was armed in this store's name by somebody else.

        Raises `LeaseLost` if the run is over: then the fence is that of a later run.
        """
        names.check_whole("fence", fence, 1, RUN_MAX - 1)
        names.check_whole("time", armed_us, 0, names.RUN_AT_MAX_US)
        view = self.renew([Report(run=run)])[0]
        if view.refusal is not None:
            raise LeaseLost(view.refusal.message, view.refusal.hint)
        assert view.item is not None
        return self.store.leap(fence, armed_us=armed_us, run=read_handle(run).run, lane=view.item.lane)

    # -- operators and messages -------------------------------------------------------------------

    def take_back(self, item: int, *, why: str, by: str = "") -> ChangeView:
        """An operator takes an item from its run and offers it again."""
        return self._operate(TakeBack(item=ItemId(item), why=given_reason(why), by=signed(by)))

    def cancel(self, item: int, *, why: str, by: str = "", force: bool = False) -> ChangeView:
        """An operator ends an item; a running one gets its grace unless `force`."""
        names.check_flag("force", force)
        return self._operate(Cancel(item=ItemId(item), why=given_reason(why), by=signed(by), force=force))

    def retry(self, item: int, *, why: str = "", by: str = "", sender: Sender = A_PERSON) -> ChangeView:
        """An operator brings a failed or cancelled item back, or ends a back-off."""
        who = checked_sender(sender)
        return self._operate(Retry(item=ItemId(item), why=checked_reason(why), by=signed(by), sender=who))

    def edit(
        self,
        item: int,
        changes: Mapping[str, Any],
        *,
        by: str = "",
        sender: Sender = A_PERSON,
        expected: str | None = None,
    ) -> ChangeView:
        """Change fields of an item that has not started.

        They are title, type, agent, labels, priority and position, and `run_at_us` or `run_after_s`. With
        `expected`, only if the item still has that version: `StaleRevision` otherwise.
        """
        return self._operate(checked_edit(ItemId(item), changes, by, sender, expected))

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
        """Send a message to an item; if the item was absorbed, its absorber gets the message."""
        names.check_message(text)
        names.check_cause(reason, url)
        names.check_text("author", author, names.NAME_MAX_CHARS)
        who = checked_sender(sender)
        ticket = self.store.tickets(1)[0]
        tell = Tell(
            item=ItemId(item), ticket=ticket, text=text, author=author, sender=who, reason=reason, url=url
        )
        return self._operate(tell)

    def _operate(
        self,
        command: Cancel | TakeBack | EndExternal | Retry | Edit | Tell,
        refused: type[InterlockError] = ItemEnded,
    ) -> ChangeView:
        while True:
            self._require(command.item)
            try:
                decision = self._decide(command)
            except KeyError:
                self._require(command.item)  # pruned meanwhile
                raise
            sweeper.move_due_tasks(self.store, decision)
            moved: Moved = decision.answers[0]
            if moved.forward_to is None:
                break
            command = replace(command, item=moved.forward_to)
        if not moved.changed:
            refused = _REFUSALS.get(moved.code, refused)
            raise refused(moved.refusal, moved.hint or f"`interlock show {command.item}` tells more.")
        return _changed(command.item, decision)

    def _decide(self, command: Cancel | TakeBack | EndExternal | Retry | Edit | Tell) -> Decision:
        load = Load(items=(command.item,), rearm=isinstance(command, Retry))

        def answer(decision: Decision) -> ChangeView | None:
            return _changed(command.item, decision) if decision.answers[0].changed else None

        return self.store.transact(load, lambda _: [command], self._note(answer))

    # -- upkeep -----------------------------------------------------------------------------------

    def sweep(self) -> SweepView:
        """Move whatever time alone must move. Looks at what is due, and at 200 lanes."""
        swept = sweeper.sweep(self.store, self._swept_to)
        self._swept_to = swept.onward
        return SweepView(
            expired=swept.expired,
            reentered=swept.reentered,
            promoted=swept.promoted,
            forgotten_keys=swept.forgotten_keys,
            pruned=self._retention.step(self.store).items if self._retention is not None else 0,
        )

    def doctor(self) -> list[CheckView]:
        """Check every invariant against the database. Reads the whole store: not for every second."""
        views = []
        for finding in self.store.findings():
            shown = "; ".join(finding.broken[:5])
            more = len(finding.broken) - 5
            detail = shown + (f"; and {more} more" if more > 0 else "") if finding.broken else finding.promise
            mend = finding.mend if finding.broken else ""
            views.append(CheckView(name=finding.name, ok=not finding.broken, detail=detail, mend=mend))
        outside = external_check(self.external(limit=NAMED + 1))
        return [*views, self._stalled(), self._walls(), outside, self._blocks(), self._rivals()]

    def _stalled(self) -> CheckView:
        """Lanes with a line whose owner waits for an agent that does not come."""
        found = self.store.stalled(NAMED + 1)
        named = [f"{lane} (item {item} waits for {agent})" for lane, item, agent in found[:NAMED]]
        more = " and more" if len(found) > NAMED else ""
        waits = "The owner of a lane waits for an agent that is unknown, cannot do it or is gone"
        detail = f"{waits}: {', '.join(named)}{more}."
        mend = f"interlock why {found[0][1]}" if found else ""
        well = "Every lane with a line has an owner that runs or that its agent can start."
        return CheckView(name="stalled_lanes", ok=not found, detail=detail if found else well, mend=mend)

    def _walls(self) -> CheckView:
        """Which agents are behind a wall. That is no fault, but explains why nothing starts."""
        walled = (a for a in self.store.agents() if a.wall_us is not None)
        shown = [f"{a.name} until {moment(a.wall_us or 0):%Y-%m-%d %H:%M} UTC" for a in walled]
        detail = f"Agents behind a wall start nothing: {', '.join(shown)}."
        return CheckView(name="walls", ok=True, detail=detail if shown else "No agent is behind a wall.")

    def _blocks(self) -> CheckView:
        """What waits for something outside. That is no fault, but explains why nothing starts."""
        found = self.blocks(limit=NAMED + 1)
        waits = [f"{b.lane or f'item {b.item}'} for {b.blocker}" for b in found[:NAMED]]
        more = " and more" if len(found) > NAMED else ""
        detail = f"Work waits for something outside: {', '.join(waits)}{more}."
        return CheckView(name="blocks", ok=True, detail=detail if found else "Nothing is blocked.")

    def _rivals(self) -> CheckView:
        """Issues that several open pull requests would close. People decide which one is merged."""
        found = self.store.github.contested(NAMED + 1)
        named = [f"{name}#{issue} by {pulls}" for name, issue, pulls in found[:NAMED]]
        more = " and more" if len(found) > NAMED else ""
        detail = f"Several open pull requests would close one issue: {', '.join(named)}{more}."
        well = "No two open pull requests close the same issue."
        return CheckView(name="rival_pull_requests", ok=True, detail=detail if found else well)

    def close(self) -> None:
        """Give the database connections back."""
        self.store.close()


def _changed(item: ItemId, decision: Decision) -> ChangeView:
    moved: Moved = decision.answers[0]
    return ChangeView(item=ItemView(decision.after[item]), promoted=moved.promoted, n=moved.n or None)


def _read_handles(reports: Sequence[Report]) -> list[Handle]:
    check_batch("reports", reports, Report)
    for _, seen, result, error, retry, wall, fault_s in reports:
        check_report(seen, result, error, retry, fault_s)
        check_wall(wall)
    return [read_handle(report.run) for report in reports]

"""The writes of a run: its leases, its end, its question, its messages and its fences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import overload

from interlock.core import names
from interlock.core.claims import MESSAGES_AT_ONCE, check_seen
from interlock.core.commands import (
    AskLive,
    CloseQuestion,
    Command,
    Finish,
    FinishAnswer,
    Outcome,
    Question,
)
from interlock.core.continuity import RUN_MAX, Lineage
from interlock.core.endings import explain_loss
from interlock.core.errors import InvalidInput
from interlock.core.handles import Handle, read_handle
from interlock.core.ledger import LedgerChanges
from interlock.core.model import ItemId
from interlock.core.plans.model import EDIT_TYPE
from interlock.core.timing import LIVE_QUESTION_TIMEOUT_S, QUESTION_TIMEOUT_S
from interlock.core.validation import check_batch, check_quota_limit, check_report, checked_claim
from interlock.service import sweeper
from interlock.service.access import RequestNotes
from interlock.service.claims import PresenceReports, lease_views
from interlock.service.contract import DoneView, MessageView, NextWish, Report, RunView
from interlock.service.gathering import Gathering, Steps, Write, gathered, text_parts
from interlock.service.view_builders import ended_view, message_views, refused_view, renewed_view
from interlock.store.port import EndsAndClaim, Load, Renewal, Store

#: The longest question: people read it on one screen.
QUESTION_MAX_BYTES = 10_000

_NO_RUN = "no-run"


class RunOperations:
    """Operations of a run's holder. A run that has ended is refused."""

    def __init__(
        self, store: Store, gathering: Gathering, presence: PresenceReports, notes: RequestNotes
    ) -> None:
        self._store, self._gathering, self._presence, self._notes = store, gathering, presence, notes

    @overload
    def done(self, /, reports: Sequence[Report]) -> list[RunView]: ...
    @overload
    def done(self, /, reports: Sequence[Report], *, next: NextWish) -> DoneView: ...
    @gathered
    def done(
        self,
        reports: Sequence[Report],
        *,
        next: NextWish | None = None,  # noqa: A002  (as requests name it)
    ) -> Steps[list[RunView] | DoneView]:
        """Report these runs as done. With `next`, claim in the same transaction.

        The ends stand even if nothing can be claimed. Nothing is claimed if all runs are refused.
        """
        if next is None:
            return (yield from self._finish(reports, Outcome.DONE))
        return (yield from self._finish_and_claim(reports, next))

    @gathered
    def fail(self, reports: Sequence[Report]) -> Steps[list[RunView]]:
        """Report these runs as failed. Their items are retried while attempts are left."""
        return self._finish(reports, Outcome.FAIL)

    @gathered
    def release(self, reports: Sequence[Report]) -> Steps[list[RunView]]:
        """Give the items of these runs back. An item at a quota limit waits until the limit ends."""
        return self._finish(reports, Outcome.RELEASE)

    def ask(
        self,
        run: str,
        question: str,
        *,
        timeout_s: float | None = None,
        yield_lane: bool = False,
        keep_lease: bool = False,
    ) -> RunView:
        """End a run with a question to a person. The person's next message brings the item back.

        It keeps its lane for `timeout_s`, unless it yields the lane. With `keep_lease` the run goes on, and
        gets the answer as a message. Without a worker, its lease then lasts for `timeout_s`, and the run ends
        with the question if nobody answers by then.
        """
        handle = read_handle(run)
        names.check_text("question", question, QUESTION_MAX_BYTES)
        if not question.strip():
            raise InvalidInput("The question is empty.", "Ask what you need to know.")
        if timeout_s is None:
            timeout_s = LIVE_QUESTION_TIMEOUT_S if keep_lease else QUESTION_TIMEOUT_S
        names.check_number("time-out", timeout_s, 1, names.RUN_AFTER_MAX_S)
        names.check_flag("yield_lane", yield_lane)
        names.check_flag("keep_lease", keep_lease)
        if yield_lane and keep_lease:
            raise InvalidInput(
                "`yield_lane` and `keep_lease` cannot be combined.",
                "Pass one of them.",
                fields=("yield_lane", "keep_lease"),
            )
        item = self._store.item(handle.item)
        if item is not None and item.spec.type == EDIT_TYPE:
            raise InvalidInput(
                "An edit of a plan cannot ask a person: the tasks of the plan would wait for the answer.",
                "Answer the edit, and let a task ask.",
            )
        if keep_lease:
            return self._change(run, AskLive(handle.run, handle.item, handle.bits, question, timeout_s))
        if item is not None and item.is_hold:
            raise InvalidInput(
                "A hold cannot ask a person: its command ends with its run, before the answer comes.",
                "Ask in the command itself, or add an item for a worker.",
            )
        asked = Question(question, self._store.tickets(1)[0], timeout_s, yield_lane)
        command = Finish(handle.run, handle.item, Outcome.RELEASE, bits=handle.bits, question=asked)
        load = Load(items=(handle.item,), runs=(handle.run,))

        def answer(decision: LedgerChanges) -> RunView:
            return ended_view(run, decision.answers[0], decision.after)

        decision = self._store.transact(load, lambda _: [command], self._notes.note(answer))
        sweeper.move_due_tasks(self._store, decision)
        return answer(decision)

    def close_question(self, run: str) -> RunView:
        """Let a run that asks a person go on: its question was answered where the run works, such as at its
        terminal. Its lease is renewed. Without an open question this is a renewal."""
        handle = read_handle(run)
        return self._change(run, CloseQuestion(handle.run, handle.item, handle.bits))

    def _change(self, run: str, command: AskLive | CloseQuestion) -> RunView:
        """Carry out a command on a live run that goes on."""

        def answer(decision: LedgerChanges) -> RunView:
            done: FinishAnswer = decision.answers[0]
            if done.refusal is not None:
                return ended_view(run, done, decision.after)
            return renewed_view(run, decision.after[command.item])

        load = Load(items=(command.item,), runs=(command.run,))
        return answer(self._store.transact(load, lambda _: [command], self._notes.note(answer)))

    def _finish(self, reports: Sequence[Report], outcome: Outcome) -> Steps[list[RunView]]:
        load, commands, answer = self._ends(reports, _read_handles(reports), outcome)
        write = Write(load, lambda _ids, _tickets: commands, self._notes.note(answer))

        def parts() -> int:
            return len(reports) + sum(text_parts(r.result, r.error) for r in reports)

        decision = yield from self._gathering.transact(outcome, write, parts, self._notes.request)
        sweeper.move_due_tasks(self._store, decision)
        return answer(decision)

    def _finish_and_claim(self, reports: Sequence[Report], wish: NextWish) -> Steps[DoneView]:
        if not isinstance(wish, NextWish):
            raise InvalidInput("`next` is no wish.", "Pass a NextWish.")
        handles = _read_handles(reports)
        agent, types, labels, limit, lease_s, worker = wish
        if agent is None:
            agents = self._store.run_agents(handles)
            agent = next((agents[handle] for handle in handles if handle in agents), None)
        # No such run: its report is refused, and nothing is claimed for that agent.
        claim = checked_claim(_NO_RUN if agent is None else agent, types, labels, limit, lease_s, worker)
        load, commands, answer = self._ends(reports, handles, Outcome.DONE)
        if agent is not None and self._presence.see(claim.agent, agent.strip()):
            sweeper.move_due(self._store, sweeper.Swept())  # `finish_and_claim` does not
        note = self._notes.note_done(answer)

        def both() -> EndsAndClaim:
            return self._store.finish_and_claim(load, lambda _: commands, claim, note)

        done = yield from self._gathering.by_itself(both, self._notes.request)
        sweeper.move_due_tasks(self._store, done.decision)
        return DoneView(answer(done.decision), lease_views(self._store, done.claimed, 0.0))

    def _ends(
        self, reports: Sequence[Report], handles: Sequence[Handle], outcome: Outcome
    ) -> tuple[Load, Sequence[Command], Callable[[LedgerChanges], list[RunView]]]:
        """What ends these runs: what is loaded, what is decided on, and how the decision is answered."""
        from random import random  # noqa: PLC0415  (looking needs none)

        limited = self._limited_agents(reports, handles)
        commands = [
            Finish(
                run,
                item,
                outcome,
                seen,
                result,
                error,
                retry,
                random(),  # noqa: S311  (no secret)
                bits,
                limit,
                None,
                fault_s,
                limited.get(item, ()) if limit is not None and limit.whole_pool else (),
            )
            for (_, seen, result, error, retry, limit, fault_s), (run, item, bits) in zip(
                reports, handles, strict=True
            )
        ]
        load = Load(
            items=tuple(sorted({h.item for h in handles})),
            runs=tuple([h.run for h in handles]),
            limited_agents=tuple({agent for agents in limited.values() for agent in agents}),
        )

        def answer(decision: LedgerChanges) -> list[RunView]:
            return [
                ended_view(report.run, ended, decision.after)
                for report, ended in zip(reports, decision.answers, strict=True)
            ]

        return load, commands, answer

    def _limited_agents(
        self, reports: Sequence[Report], handles: Sequence[Handle]
    ) -> dict[ItemId, tuple[str, ...]]:
        """The agents that these reports put at a quota limit, by item. A run never changes its agent.

        An agent that joins the pool at the same moment counts as joining it afterwards.
        """
        limits = {h.item: r.wall for r, h in zip(reports, handles, strict=True) if r.wall is not None}
        named = [item for item, limit in limits.items() if limit.whole_agent or limit.whole_pool]
        runs = {i.id: i.state.run_agent for i in filter(None, map(self._store.item, named))}
        pools: dict[str, str | None] = {}
        if any(limits[item].whole_pool for item in runs):
            pools = {agent.key: agent.pool for agent in self._store.agents()}
        found = {}
        for item, agent in runs.items():
            pool = pools.get(agent) if agent is not None and limits[item].whole_pool else None
            others = [key for key, other in pools.items() if pool is not None and other == pool]
            found[item] = tuple(dict.fromkeys([*([agent] if agent else []), *others]))
        return found

    @gathered
    def renew(self, reports: Sequence[Report]) -> Steps[list[RunView]]:
        """Renew the leases of these runs. The answer reports cancel requests and unread messages."""
        return self._renew(reports, "renew")

    def _renew(self, reports: Sequence[Report], wanted: str) -> Steps[list[RunView]]:
        """The same; for runs that lost their leases, the history records what they `wanted`."""
        handles = _read_handles(reports)
        renewals = [Renewal(handle=h, seen=r.seen) for h, r in zip(handles, reports, strict=True)]
        kept = yield from self._gathering.renew(renewals)
        late = [h for h in handles if h not in kept]
        ended = self._store.refuse(late, wanted) if late else {}
        views = []
        for report, handle in zip(reports, handles, strict=True):
            if handle in kept:
                check_seen(kept[handle], report.seen)
                views.append(renewed_view(report.run, kept[handle]))
                continue
            now = self._store.item(handle.item) if handle in ended else None
            refusal = explain_loss(handle.run, ended.get(handle), now)
            views.append(refused_view(report.run, refusal, now))
        return views

    @gathered
    def inbox(self, run: str, *, seen: int = 0) -> Steps[list[MessageView]]:
        """Unread messages of a run; `seen` moves its read mark first. Reading is fenced like writing."""
        view = (yield from self._renew([Report(run=run, seen=seen)], "inbox"))[0]
        if view.refusal is not None:
            raise view.refusal.error()
        assert view.item is not None
        after = view.item.messages - view.unread
        found = self._store.messages(ItemId(view.item.id), after, MESSAGES_AT_ONCE)
        return message_views(found)

    def lineage(self) -> Lineage:
        """The name of this store, and the stores that it comes from."""
        return self._store.lineage()

    def pass_fence(self, run: str, *, fence: int, armed_us: int) -> bool:
        """Report a fence of this store's lineage that is ahead of the run: later runs get numbers above it.
        False if another process armed the fence in this store's name.

        Raises `LeaseLost` if the run has ended: then the fence belongs to a later run.
        """
        names.check_whole("fence", fence, 1, RUN_MAX - 1)
        names.check_whole("time", armed_us, 0, names.RUN_AT_MAX_US)
        view = self.renew([Report(run=run)])[0]
        if view.refusal is not None:
            raise view.refusal.error()
        assert view.item is not None
        return self._store.skip_runs(fence, armed_us=armed_us, run=read_handle(run).run, lane=view.item.lane)


def _read_handles(reports: Sequence[Report]) -> list[Handle]:
    check_batch("reports", reports, Report)
    for _, seen, result, error, retry, limit, fault_s in reports:
        is_plain = result is None and error is None and limit is None and fault_s is None
        if is_plain and type(seen) is int and seen == 0 and retry is True:
            continue  # it says nothing but its handle
        check_report(seen, result, error, retry, fault_s)
        check_quota_limit(limit)
    return [read_handle(report.run) for report in reports]

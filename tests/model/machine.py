"""One state machine that says the same to the reference and to every store, and compares after each step."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from unittest import mock

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from interlock.core.errors import InterlockError
from interlock.core.model import A_PERSON, Mode, NewItem, Sender
from interlock.core.model import Item as StoredItem
from interlock.core.states import ItemStatus, RunStatus
from interlock.core.timing import Timing
from interlock.service.contract import AddView, ChangeView, GateView, LeaseView, MessageView, Report, RunView
from tests.clock import Clock
from tests.model.commands import DAY_S, IN_LINE, LABELS, READY, Command, Fields, Place, arrivals, commands
from tests.model.records import SECOND, WAKES_MAX, Added, Finished, Item, Message, Refused, Run
from tests.model.reference import Reference
from tests.model.subjects import Subject, differences, expected

START_US = 1_800_000_000 * SECOND
SERIES = "series:acme/app/RFC-093"
WINDOW_S = 366.0 * DAY_S
OUTCOMES = {"done": RunStatus.SUCCEEDED, "fail": RunStatus.FAILED, "release": RunStatus.RELEASED}

Answer = tuple[Any, ...]


def _read(subject: Subject, run: int, seen: int) -> list[MessageView]:
    return subject.service.inbox(subject.handles[run], seen=seen)


class StoresKeepTheRules(RuleBasedStateMachine):
    """The stores do what the reference does, and what must always hold always holds."""

    def __init__(self, subjects: Sequence[Subject], clock: Clock) -> None:
        super().__init__()
        self.clock = clock
        self.clock.now_us = START_US
        self.model = Reference(START_US)
        self.subjects = subjects
        self.texts = 0
        self.accepted: list[str] = []  # the text of every message that was taken in
        self.forgotten: set[int] = set()  # runs whose holder has died
        self.last_run: dict[tuple[str, str], int] = {}
        self.noted = 0
        self.agreed = True
        for subject in subjects:
            subject.restart()

    @initialize(
        batch=st.lists(arrivals(), min_size=1, max_size=4), ageing_s=st.sampled_from((0.0, 0.0, 20.0))
    )
    def begin(self, batch: list[Fields], ageing_s: float) -> None:
        self.model.ageing_step_s = ageing_s
        for subject in self.subjects:
            subject.store.timing = Timing(ageing_step_s=ageing_s, wakes_max=WAKES_MAX)
        self.add(batch)

    @rule(command=commands())
    def say(self, command: Command) -> None:
        getattr(self, command.name)(**command.told)

    # -- saying the same to all -------------------------------------------------------------------

    def _ask(self, command: Callable[[Subject], Any], jitter: float = 0.5) -> list[tuple[Subject, Any]]:
        """What each store answers; an error is its code."""
        self.agreed = False
        answers = []
        for subject in self.subjects:
            with mock.patch("random.random", return_value=jitter):
                try:
                    answers.append((subject, command(subject)))
                except InterlockError as error:
                    answers.append((subject, error.code))
            subject.learn_items(self.model)
        return answers

    def _agree(self, subject: Subject, what: str, wanted: Any, found: Any) -> None:
        wrong = differences(wanted, found, what)
        assert not wrong, f"{subject.name}: " + "; ".join(map(str, wrong))

    def _text(self) -> str:
        self.texts += 1
        return f"text {self.texts}"

    def _item_at(self, place: Place) -> Item:
        items = list(self.model.items.values())
        if place.live:
            items = [i for i in items if not i.ended] or items
        return items[-1 - place.n % len(items)]

    def _runs_at(self, places: Sequence[int], *, live: bool) -> list[Run]:
        """Runs, counted from the newest, of holders that still speak."""
        runs = [r for r in self.model.runs.values() if r.number not in self.forgotten]
        if live:
            runs = [r for r in runs if self.model.holds(r)]
        return [runs[-1 - place % len(runs)] for place in places] if runs else []

    # -- arrivals ---------------------------------------------------------------------------------

    def add(self, batch: Sequence[Fields]) -> None:
        self._tick()
        news = [self._new(fields) for fields in batch]
        wanted = self.model.add(news)
        for new, answer in zip(news, wanted, strict=True):
            if answer.arrival is not None and new.message is not None:
                self.accepted.append(new.message)
        for subject, views in self._ask(lambda s: s.service.add(news)):
            found = [self._added(subject, view) for view in views]
            self._agree(subject, "answers", [self._wanted_add(a) for a in wanted], found)

    def add_kin(self, which: Place, *, message: bool, **more: Any) -> None:
        """Something more for the same agent, lane and policy: what policies are made for."""
        self._add_kin(self._item_at(which), message=message, **more)

    def _add_kin(self, item: Item, *, message: bool, **more: Any) -> None:
        new = item.new
        names = ("policy", "agent", "lane", "project", "payload", "no_lane", "max_attempts", "retry_lane")
        fields = {name: getattr(new, name) for name in names}
        if message:
            fields["message"] = "said"
        self.add([{**fields, **more}])

    def _new(self, fields: Fields) -> NewItem:
        """Titles and texts are new each time, and times count from now."""
        told = dict(fields, title=self._text())
        if "message" in told:
            told["message"] = self._text()
        if "run_in_s" in told:
            told["run_at_us"] = self.clock.now_us + told.pop("run_in_s") * SECOND
        if told["lane"] is None and told.get("priority"):
            told["no_lane"] = True
        return NewItem(**told)

    def _wanted_add(self, added: Added) -> Answer:
        item = self.model.items[added.item] if added.item else None
        holder = self.model.items[added.holder] if added.holder else None
        return (
            added.verdict,
            added.reason,
            item and (item.id, item.status),
            holder and self._holder(holder),
            added.place,
            added.arrival,
        )

    @staticmethod
    def _holder(item: Item) -> Answer:
        run = item.run
        return item.id, run and run.number, run.agent if run else item.agent or None

    @staticmethod
    def _added(subject: Subject, view: AddView) -> Answer:
        item, holder = view.item, view.holder
        return (
            view.decision,
            view.reason,
            item and (subject.items[item.id], item.status),
            holder and (subject.items[holder.item], holder.run and subject.runs[holder.run], holder.agent),
            view.position,
            view.arrival and subject.items[view.arrival],
        )

    # -- claims -----------------------------------------------------------------------------------

    def next(self, agent: str, *, labels: tuple[str, ...] = LABELS[0], **wish: Any) -> list[Run]:
        self._tick()
        agent = self._agent(agent)
        runs = self.model.next(agent, labels=labels, **wish)
        self._claimed(runs, self._ask(lambda s: s.service.next(agent, labels=labels, **wish)))
        return runs

    def next_item(self, which: Place, agent: str) -> None:
        """One item by its number, for the agent it is for or for another."""
        self._tick()
        item, agent, labels = self._item_at(which), self._agent(agent), LABELS[0]
        refused, runs = None, []
        try:
            runs = self.model.next(agent, labels=labels, only=item)
        except Refused as error:
            refused = error.code
        answers = self._ask(lambda s: s.service.next(agent, labels=labels, item=s.item_ids[item.id]))
        if refused is None:
            self._claimed(runs, answers)
            return
        for subject, answer in answers:
            self._agree(subject, "answer", refused, answer)

    def _claimed(self, runs: list[Run], answers: list[tuple[Subject, Any]]) -> None:
        for subject, leases in answers:
            claimed = [subject.items[lease.item.id] for lease in leases]
            self._agree(subject, "claimed", [r.item for r in runs], claimed)
            for run, lease in zip(runs, leases, strict=True):
                subject.learn_run(run.number, lease)
                self._agree(subject, "lease", self._wanted_lease(run), self._lease(subject, lease))
                self._run_numbers_grow(subject, lease)

    def _agent(self, name: str) -> str:
        """An agent by name, or that of the first item that is ready or waits in line."""
        status = {READY: ItemStatus.PENDING, IN_LINE: ItemStatus.DEFERRED}.get(name)
        found = next((i.agent for i in self.model.items.values() if i.status is status), None)
        return name if status is None else found or "coder"

    def work(
        self, agent: str, *, times: int, told: bool, kin: int, outcome: str, seen: int, wait: bool
    ) -> None:
        """What runs are mostly about: one starts, perhaps hears something, perhaps more of the same arrives,
        and it ends, or not; its back-off is waited out, or not; and so again."""
        for _ in range(times):
            for run in self.next(agent):
                item = self.model.items[run.item]
                if told:
                    self.stores_agree()
                    self._tell(item, "ann", sender=A_PERSON)
                for _ in range(kin):
                    self.stores_agree()
                    self._add_kin(item, message=told)
                self.stores_agree()
                if outcome in OUTCOMES:
                    self._finish(outcome, [run], seen)
                elif outcome == "vanish":
                    self.forgotten.add(run.number)
                if (outcome == "vanish" or wait) and item.deadline_us is not None:
                    self._set_clock(item.deadline_us)

    def _wanted_lease(self, run: Run) -> dict[str, Any]:
        item = self.model.items[run.item]
        return {
            "attempt": run.attempt,
            "agent": run.agent,
            "expires_us": item.deadline_us,
            "payload": item.payload and json.loads(item.payload),
            "messages": [self._wanted_message(item, n, m) for n, m in self.model.numbered(item)],
        }

    def _lease(self, subject: Subject, lease: LeaseView) -> dict[str, Any]:
        return {
            "attempt": lease.item.attempt,
            "agent": lease.item.run_agent,
            "expires_us": lease.expires_at and round(lease.expires_at.timestamp() * SECOND),
            "payload": lease.item.payload,
            "messages": [self._message(subject, m) for m in lease.messages],
        }

    def _wanted_message(self, item: Item, n: int, message: Message) -> Answer:
        elsewhere = message.origin if message.origin != item.id else None
        payload = self.model.items[elsewhere].payload if elsewhere else None
        return (
            n,
            message.text,
            message.author,
            message.sender.kind,
            elsewhere,
            payload and json.loads(payload),
        )

    @staticmethod
    def _message(subject: Subject, view: MessageView) -> Answer:
        return (
            view.n,
            view.text,
            view.author,
            view.sender,
            view.origin and subject.items[view.origin],
            view.payload,
        )

    def _run_numbers_grow(self, subject: Subject, lease: LeaseView) -> None:
        lane = lease.item.lane
        if lane is not None:
            before = self.last_run.get((subject.name, lane), 0)
            assert lease.fence > before, f"{subject.name}: run {lease.fence} of {lane} comes after {before}"
            self.last_run[subject.name, lane] = lease.fence

    # -- what holders say -------------------------------------------------------------------------

    def finish(self, outcome: str, which: Sequence[int], seen: int, *, live: bool, **more: Any) -> None:
        """Handles may be stale, and the same one may come twice."""
        self._finish(outcome, self._runs_at(which, live=live), seen, **more)

    def _finish(
        self, outcome: str, runs: list[Run], seen: int, *, retry: bool = True, jitter: float = 0.5
    ) -> None:
        self._tick()
        status, seen = OUTCOMES[outcome], self._mark(runs, seen)
        ended = [self.model.finish(r, status, seen=seen, retry=retry, jitter=jitter) for r in runs]
        wanted = [self._wanted_end(run, end) for run, end in zip(runs, ended, strict=True)]

        def tell(subject: Subject) -> list[RunView]:
            reports = [Report(run=subject.handles[r.number], seen=seen, retry=retry) for r in runs]
            views: list[RunView] = getattr(subject.service, outcome)(reports)
            return views

        for subject, views in self._ask(tell, jitter):
            self._agree(subject, "answers", wanted, [self._ended(subject, v) for v in views])

    def _wanted_end(self, run: Run, end: Finished) -> Answer:
        item = self.model.items[run.item]
        code = "lease_lost" if end.status is None else None
        return end.status or "refused", item.id, item.status, end.promoted, code

    @staticmethod
    def _ended(subject: Subject, view: RunView) -> Answer:
        assert view.item is not None
        promoted = [subject.items[i] for i in view.promoted]
        code = view.refusal.code if view.refusal else None
        return view.status, subject.items[view.item.id], view.item.status, promoted, code

    def renew(self, which: Sequence[tuple[int, int]], *, live: bool) -> None:
        runs = self._runs_at([place for place, _ in which], live=live)
        marks = [self._mark([run], seen) for run, (_, seen) in zip(runs, which, strict=False)]
        kept = [self.model.renew(run, seen) for run, seen in zip(runs, marks, strict=True)]
        for run, keeps in zip(runs, kept, strict=True):
            if not keeps:
                self.model.refuse(run)
        wanted = [self._wanted_renewal(run, keeps) for run, keeps in zip(runs, kept, strict=True)]

        def tell(subject: Subject) -> list[RunView]:
            told = zip(runs, marks, strict=True)
            return subject.service.renew([Report(run=subject.handles[r.number], seen=n) for r, n in told])

        for subject, views in self._ask(tell):
            self._agree(subject, "answers", wanted, [self._renewal(v) for v in views])

    def _wanted_renewal(self, run: Run, keeps: bool) -> Answer:
        if not keeps:
            return "refused", None, False, 0
        item = self.model.items[run.item]
        unread = len(item.messages) - run.seen
        return "running", item.deadline_us, run.cancel_into is not None, unread

    @staticmethod
    def _renewal(view: RunView) -> Answer:
        expires_us = view.expires_at and round(view.expires_at.timestamp() * SECOND)
        return view.status, expires_us, view.cancel_requested, view.unread

    def inbox(self, which: int, seen: int, *, live: bool) -> None:
        for run in self._runs_at([which], live=live):
            seen = self._mark([run], seen)
            wanted: Any
            try:
                told = self.model.inbox(run, seen)
                wanted = [self._wanted_message(self.model.items[run.item], n, m) for n, m in told]
            except Refused as refused:
                wanted = refused.code
            for subject, answer in self._ask(partial(_read, run=run.number, seen=seen)):
                found = answer if isinstance(answer, str) else [self._message(subject, m) for m in answer]
                self._agree(subject, "messages", wanted, found)

    def _mark(self, runs: Sequence[Run], seen: int) -> int:
        """A read mark that no store refuses: none is above the last message."""
        return min((seen, *(len(self.model.items[run.item].messages) for run in runs)))

    def crash(self, which: int) -> None:
        """A holder dies: nobody will say anything for this run any more."""
        self.forgotten.update(run.number for run in self._runs_at([which], live=True))

    # -- time -------------------------------------------------------------------------------------

    def time_passes(self, seconds: int) -> None:
        if self.clock.now_us + seconds * SECOND < START_US + 300 * DAY_S * SECOND:
            self._set_clock(self.clock.now_us + seconds * SECOND)

    def a_deadline_comes(self, which: int, off_us: int) -> None:
        ahead = sorted({i.moves_us for i in self.model.items.values() if i.moves_us is not None})
        if ahead:
            self._set_clock(ahead[which % len(ahead)] + off_us)

    def _set_clock(self, now_us: int) -> None:
        self.clock.now_us = self.model.now_us = now_us

    def _tick(self) -> None:
        """Where the queue goes by time, nothing that makes items happens at the same moment as another."""
        if self.model.ageing_step_s:
            self._set_clock(self.clock.now_us + 1)

    def sweep(self) -> None:
        self._tick()
        wanted = self.model.sweep()
        for subject, found in self._ask(lambda s: s.service.sweep()):
            self._agree(subject, "swept", dataclasses.asdict(wanted), dataclasses.asdict(found))

    # -- operators and messages -------------------------------------------------------------------

    def cancel(self, which: Place, *, force: bool) -> None:
        item, why = self._item_at(which), self._text()
        self._operate(
            item,
            lambda: (item.id, None, self.model.cancel(item, why, force=force)),
            lambda s, i: s.service.cancel(i, why=why, force=force),
        )

    def take_back(self, which: Place) -> None:
        item = self._item_at(which)
        self._operate(
            item,
            lambda: (item.id, None, self.model.take_back(item)),
            lambda s, i: s.service.take_back(i, why="stuck"),
        )

    def retry(self, which: Place) -> None:
        item = self._item_at(which)
        self._operate(
            item,
            lambda: (item.id, None, self.model.retry(item)),
            lambda s, i: s.service.retry(i, why="again"),
        )

    def msg(self, which: Place, author: str, *, sender: Sender) -> None:
        self._tell(self._item_at(which), author, sender=sender)

    def _tell(self, item: Item, author: str, *, sender: Sender) -> None:
        text = self._text()

        def tell() -> Answer:
            told, n, promoted = self.model.tell(item, text, author, sender=sender)
            self.accepted.append(text)
            return told.id, n, promoted

        self._operate(item, tell, lambda s, i: s.service.msg(i, text, author=author, sender=sender))

    def _operate(
        self, item: Item, reference: Callable[[], Answer], ask: Callable[[Subject, int], ChangeView]
    ) -> None:
        self._tick()
        wanted: Any
        try:
            wanted = reference()
        except Refused as refused:
            wanted = refused.code
        for subject, answer in self._ask(lambda s: ask(s, s.item_ids[item.id])):
            found = answer
            if not isinstance(answer, str):
                promoted = [subject.items[i] for i in answer.promoted]
                found = (subject.items[answer.item.id], answer.n, promoted)
            self._agree(subject, "answer", wanted, found)

    # -- agents, projects, modes ------------------------------------------------------------------

    def set_agent_paused(self, to: tuple[str, bool]) -> None:
        agent, paused = self._agent(to[0]), to[1]
        self.model.pause_agent(agent, "lunch", paused=paused)
        self._ask(lambda s: s.service.pause_agent(agent, paused=paused, why="lunch", create=True))

    def set_project_paused(self, to: tuple[str, bool]) -> None:
        project, paused = to
        self.model.pause_project(project, "freeze", paused=paused)
        self._ask(lambda s: s.service.pause_project(project, paused=paused, why="freeze", create=True))

    def set_max(self, to: tuple[str, int | None]) -> None:
        agent, most = self._agent(to[0]), to[1]
        self.model.set_agent(agent, max=most)
        self._ask(lambda s: s.service.set_agent(agent, max_concurrency=most, unlimited=most is None))

    def set_skills(self, to: tuple[str, tuple[str, ...], tuple[str, ...]]) -> None:
        agent, types, labels = to
        self.model.set_agent(agent, types=types, labels=labels)
        self._ask(lambda s: s.service.set_agent(agent, types=types, labels=labels))

    def set_mode(self, to: tuple[str, str, Mode]) -> None:
        scope, value, mode = to
        self.model.set_mode(scope, value, mode)
        self._ask(lambda s: s.service.set_mode(scope=scope, value=value, mode=mode.value))

    def set_gate(self, to: tuple[str, tuple[str, ...] | None]) -> None:
        lane, exempt = to
        wanted = self.model.set_gate(lane, exempt)

        def turn(subject: Subject) -> GateView:
            is_open, exempted = exempt is None, exempt or ()
            return subject.service.set_gate(lane, series=SERIES, open=is_open, exempt=exempted, why="turn")

        for subject, view in self._ask(turn):
            self._agree(subject, "run", wanted, view.run and subject.runs[view.run])

    def remove_gate(self, lane: str) -> None:
        wanted = self.model.remove_gate(lane)
        for subject, gone in self._ask(lambda s: s.service.remove_gate(lane, why="turn")):
            self._agree(subject, "removed", wanted, gone)

    # -- looking ----------------------------------------------------------------------------------

    def look(self) -> None:
        """Counters agree, every item can say what it waits for, and a guessed handle is worth nothing."""
        self._compare_stats()
        self._compare(thorough=True)
        for subject in self.subjects:
            for item_id in subject.items:
                assert subject.service.why(item_id).why
        for number in list(self.subjects[0].handles)[-1:]:
            for subject in self.subjects:
                run, item, bits = subject.handles[number].split(".")
                guess = f"{run}.{item}.{int(bits, 16) ^ 1:016x}"
                (view,) = subject.service.done([Report(run=guess)])
                assert view.refusal is not None
                assert (view.refusal.code, view.item) == ("lease_lost", None)
            self.model.refuse_guess(number)

    def _compare_stats(self) -> None:
        wanted = self.model.counts()
        views = [(s, s.service.stats(window_s=WINDOW_S)) for s in self.subjects]
        for subject, view in views:
            self._agree(subject, "stats", wanted, {name: getattr(view, name) for name in wanted})
            self._agree(subject, "all stats", dataclasses.asdict(views[0][1]), dataclasses.asdict(view))

    # -- after every step -------------------------------------------------------------------------

    @invariant()
    def stores_agree(self) -> None:
        self._compare()

    def _compare(self, *, thorough: bool = False) -> None:
        wanted = expected(self.model)
        lines = sorted(self.model.history[self.noted :])
        self.noted = len(self.model.history)
        first: tuple[list[Answer], list[StoredItem]] | None = None
        for subject in self.subjects:
            stored, news = subject.stored(), subject.news()
            found = subject.snapshot(stored, thorough=thorough)
            self._agree(subject, "", {name: wanted[name] for name in found}, found)
            self._agree(subject, "history", lines, sorted(map(subject.line_of, news)))
            self._a_lane_has_one_owner_and_no_line_without_one(subject, stored)
            self._no_input_is_lost(subject, stored)
            first = first or (news, stored)
            self._agree(subject, "history in detail", first[0], news)
            self._same_rows(subject, stored, first[1])
        self.agreed = True

    def _same_rows(self, subject: Subject, mine: list[StoredItem], others: list[StoredItem]) -> None:
        """Fields that are nobody's business but the rules' are the same in every store, too."""
        for item, other in zip(mine, others, strict=True):
            for name in ("delivered", "seen", "front", "run_lease_s"):
                wanted, found = getattr(other.state, name), getattr(item.state, name)
                self._agree(subject, f"{name} of item {subject.items[item.id]}", wanted, found)

    @staticmethod
    def _a_lane_has_one_owner_and_no_line_without_one(subject: Subject, items: list[StoredItem]) -> None:
        owned = [i.spec.lane for i in items if i.active and i.spec.lane is not None]
        assert len(owned) == len(set(owned)), f"{subject.name}: two items own one lane"
        shut = {i.spec.observed_lane for i in items if i.active}
        lines = {i.spec.lane for i in items if i.status is ItemStatus.DEFERRED}
        assert lines <= {*owned, *shut}, f"{subject.name}: a line has no owner"

    def _no_input_is_lost(self, subject: Subject, items: list[StoredItem]) -> None:
        """Every message is on exactly one item, and every item has ended or something will move it: a claim,
        its time, or the end of its lane's owner."""
        texts = Counter(row[0] for row in subject.rows("SELECT text FROM messages"))
        for text in self.accepted:
            assert texts[text] == 1, f"{subject.name}: {text!r} is there {texts[text]} times"
        for item in items:
            by_time = item.status in (ItemStatus.WAITING, ItemStatus.IN_PROGRESS) and not item.external
            assert not by_time or item.state.due_us is not None, f"{subject.name}: what moves item {item.id}?"

    def teardown(self) -> None:
        """At last time passes and everything is swept: what is left waits for an agent or for its turn."""
        if not self.agreed:
            return  # the step that failed tells more
        self._compare_stats()
        # A deadline that came may have set the clock back, behind others that are still to come.
        waits = [item.deadline_us for item in self.model.items.values() if item.deadline_us is not None]
        self._set_clock(max(self.clock.now_us, *waits, 0) + 2 * DAY_S * SECOND)
        self.sweep()
        self._compare(thorough=True)
        for subject in self.subjects:
            left = {i.status for i in subject.stored() if not (i.terminal or i.external)}
            assert left <= {ItemStatus.PENDING, ItemStatus.DEFERRED}
            allowed = self.model.complaints() & {"agents_within_limit"}
            self._agree(subject, "complaints", allowed, subject.complaints())

"""Rows in plain dictionaries, so that the rules can be tried without a database.

A `World` loads snapshots for `decide` and writes its decisions down in the stated order; it has no rule of
its own. After every write it checks what the schema and the doctor check in a real store: one owner a lane,
messages numbered from one without gaps, no line without somebody to lead it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from interlock.core.commands import (
    Arrival,
    Arrive,
    Cancel,
    Command,
    CommandAnswer,
    Expire,
    Finish,
    FinishAnswer,
    GateSet,
    Outcome,
    Overtake,
    Repair,
    Retry,
    SendMessage,
    SetGate,
    TakeBack,
)
from interlock.core.decide import decide
from interlock.core.ledger import LedgerChanges, Snapshot
from interlock.core.model import (
    A_PERSON,
    UNPOSITIONED,
    US_PER_S,
    CheckedItem,
    Event,
    EventKind,
    Gate,
    Item,
    ItemId,
    Mode,
    ModeRule,
    NewMessage,
    RunId,
    RunRecord,
    Sender,
    Streak,
    Unread,
)
from interlock.core.overtaking import AgentPresence
from interlock.core.prediction import Facts, predict
from interlock.core.states import ItemStatus
from interlock.core.timing import Timing, deadline_us, to_us
from interlock.core.why import Explanation, explain

LANE, SERIES = "issue:acme/app#42", "series:acme/app/RFC-093"
START_US = 1_800_000_000 * US_PER_S
FIRST_SPARE_ID = 10_000


class World:
    """One store's worth of items, messages, runs and history."""

    def __init__(self, *, timing: Timing | None = None) -> None:
        self.timing = timing or Timing()
        self.now_us = START_US
        self.modes: tuple[ModeRule, ...] = ()
        self.items: dict[ItemId, Item] = {}
        self.messages: dict[tuple[ItemId, int], NewMessage] = {}
        self.payloads: dict[ItemId, str] = {}
        self.runs: dict[RunId, RunRecord] = {}
        self.events: list[Event] = []
        self.keys: dict[tuple[str, str], ItemId] = {}
        self.streaks: dict[str, Streak] = {}
        self.last_agents: dict[str, str] = {}
        self.gates: dict[str, Gate] = {}
        #: The signs of life of agents.
        self.presence: dict[str, AgentPresence] = {}
        #: Another lane of the series that is open or worked on.
        self.busy_gate: str | None = None
        self._last_id = 0
        self._last_ticket = 0
        self._last_run = 0
        self._spare_id = FIRST_SPARE_ID

    # -- commands ---------------------------------------------------------------------------------

    def arrival(self, title: str = "work", *, lane: str | None = LANE, **fields: Any) -> Arrive:
        """An arrival with the next id and ticket, not decided yet."""
        self._last_id += 1
        self._last_ticket += 1
        new = CheckedItem(title=title, lane=lane, **fields)
        return Arrive(item=new, id=ItemId(self._last_id), ticket=self._last_ticket)

    def add(self, title: str = "work", *, lane: str | None = LANE, **fields: Any) -> Arrival:
        answer: Arrival = self.decide(self.arrival(title, lane=lane, **fields))[0]
        return answer

    def put(self, title: str = "work", *, lane: str | None = LANE, **fields: Any) -> ItemId:
        """Add an item that must get a row of its own; its id."""
        arrived = self.add(title, lane=lane, **fields).arrived
        assert arrived is not None
        return arrived

    def start(self, item: ItemId, agent: str = "coder", *, lease_s: float | None = None) -> RunId:
        """What a claim does to the row of a ready item."""
        found = self.items[item]
        spec, state = found.spec, found.state
        assert found.status is ItemStatus.PENDING, f"{found.status} cannot be claimed"
        assert state.due_us is None, "its time has not come"
        assert not state.gated, "its lane is shut"
        self._last_run += 1
        span_s = lease_s or spec.lease_s or self.timing.lease_s
        until_us = self.now_us + to_us(span_s)
        self.items[item] = Item(
            spec,
            state._replace(
                status=ItemStatus.IN_PROGRESS,
                attempt=state.attempt + 1,
                run=RunId(self._last_run),
                run_agent=agent,
                run_started_us=self.now_us,
                run_lease_s=span_s,
                lease_until_us=until_us,
                claim_by_us=None,
                due_us=deadline_us(spec, until_us, self.now_us, None),
                delivered=state.message_count,
                seen=0,
                first_claimed_us=state.first_claimed_us or self.now_us,
            ),
        )
        return RunId(self._last_run)

    def put_running(self, title: str = "work", *, lane: str | None = LANE, **fields: Any) -> ItemId:
        item = self.put(title, lane=lane, **fields)
        self.start(item, fields.get("agent", "").strip().lower() or "anyone")
        return item

    def finish(
        self, item: ItemId, outcome: Outcome, *, run: RunId | None = None, **fields: Any
    ) -> FinishAnswer:
        current = run or self.run_of(item)
        answer: FinishAnswer = self.decide(Finish(run=current, item=item, outcome=outcome, **fields))[0]
        return answer

    def done(self, item: ItemId, **fields: Any) -> FinishAnswer:
        return self.finish(item, Outcome.DONE, **fields)

    def fail(self, item: ItemId, **fields: Any) -> FinishAnswer:
        return self.finish(item, Outcome.FAIL, **fields)

    def release(self, item: ItemId, **fields: Any) -> FinishAnswer:
        return self.finish(item, Outcome.RELEASE, **fields)

    def expire(self, item: ItemId) -> CommandAnswer:
        return self._moved(Expire(item=item))

    def cancel(self, item: ItemId, why: str = "not needed", **fields: Any) -> CommandAnswer:
        return self._moved(Cancel(item=item, why=why, **fields))

    def take_back(self, item: ItemId, why: str = "stuck", *, by: str | None = None) -> CommandAnswer:
        return self._moved(TakeBack(item=item, why=why, by=by))

    def retry(self, item: ItemId, why: str = "", *, by: str | None = None) -> CommandAnswer:
        return self._moved(Retry(item=item, why=why, by=by))

    def tell(self, item: ItemId, text: str, *, sender: Sender = A_PERSON) -> CommandAnswer:
        return self._moved(self.telling(item, text, sender=sender))

    def telling(self, item: ItemId, text: str, *, sender: Sender = A_PERSON) -> SendMessage:
        """A message with the next ticket, not decided yet."""
        self._last_ticket += 1
        return SendMessage(item=item, ticket=self._last_ticket, text=text, sender=sender)

    def repair(self, lane: str = LANE) -> CommandAnswer:
        return self._moved(Repair(lane=lane))

    def overtake(self, item: ItemId, owner: ItemId) -> CommandAnswer:
        return self._moved(Overtake(item=item, owner=owner))

    def _moved(self, command: Command) -> CommandAnswer:
        answer: CommandAnswer = self.decide(command)[0]
        return answer

    def gate(self, *, is_open: bool, exempt: tuple[str, ...] = (), run: RunId | None = None) -> GateSet:
        """Open or shut the lane."""
        gate = Gate(series=SERIES, open=is_open, exempt=exempt)
        answer: GateSet = self.decide(SetGate(lane=LANE, gate=gate, why="its turn", run=run))[0]
        return answer

    def set_mode(self, mode: Mode) -> None:
        """One mode for every lane."""
        self.modes = (ModeRule(scope="lane", value=LANE[:6], mode=mode),)

    # -- time -------------------------------------------------------------------------------------

    def pass_s(self, seconds: float) -> None:
        self.now_us += to_us(seconds)

    # -- looking ----------------------------------------------------------------------------------

    def status(self, item: ItemId) -> str:
        return self.items[item].status.value

    def statuses(self, *items: ItemId) -> list[str]:
        return [self.status(i) for i in items]

    def texts(self, item: ItemId) -> list[str]:
        """What an item was told, in the order in which it is read."""
        held = [m for (owner, _), m in self.messages.items() if owner == item]
        return [m.text for m in sorted(held, key=lambda m: (m.ticket, m.n))]

    def kinds(self) -> list[str]:
        return [str(e.kind) for e in self.events]

    def last(self, kind: EventKind) -> Event:
        """The newest event of a kind."""
        return [e for e in self.events if e.kind is kind][-1]

    def run_of(self, item: ItemId) -> RunId:
        """The run that an item has now."""
        run = self.items[item].state.run
        assert run is not None, f"item {item} has no run"
        return run

    def owner(self, lane: str = LANE) -> ItemId | None:
        return next((i.id for i in self.items.values() if i.spec.lane == lane and i.active), None)

    def line(self, lane: str = LANE) -> list[ItemId]:
        waiting = [i for i in self.items.values() if i.spec.lane == lane and i.status is ItemStatus.DEFERRED]
        return [i.id for i in sorted(waiting, key=lambda i: i.line)]

    def newest(self) -> Item:
        """The item that a rule made last: a follow-up."""
        return self.items[max(self.items)]

    def why(self, item: ItemId, **facts: Any) -> Explanation:
        """What is said about an item, with what else there is to know."""
        known = Facts(now_us=self.now_us, snapshot=self._snapshot(()), timing=self.timing, **facts)
        return explain(predict(self.items[item], known))

    # -- load, decide, write ----------------------------------------------------------------------

    def decide(self, *commands: Command) -> list[Any]:
        """Decide on all commands in one transaction and write the outcome down."""
        spare = tuple(ItemId(self._spare_id + n) for n in range(len(commands) + len(self.items)))
        decision = decide(self._snapshot(commands), commands, self.now_us, self.timing, spare)
        self._write(decision, commands)
        self._spare_id += sum(i.id >= FIRST_SPARE_ID for i in decision.born)
        self._check()
        return decision.answers

    def _snapshot(self, commands: Sequence[Command]) -> Snapshot:
        lanes = {i.spec.lane for i in self.items.values() if i.spec.lane is not None}
        lines = {}
        for lane in lanes:
            positions = [self.items[i].spec.position for i in self.line(lane)]
            lines[lane] = (len(positions), tuple(p for p in positions if p != UNPOSITIONED))
        unread = {
            i.id: tuple(
                sorted(
                    Unread(n, m.ticket, m.sender, m.agent)
                    for (owner, n), m in self.messages.items()
                    if owner == i.id
                )
            )[i.state.delivered :]
            for i in self.items.values()
            if i.state.run is not None and i.state.message_count > i.state.delivered
        }
        wanted = {(c.item.project, c.item.dedupe_key) for c in commands if isinstance(c, Arrive)}
        return Snapshot(
            items=dict(self.items),
            lines=lines,
            unread=unread,
            streaks=dict(self.streaks),
            last_agents=dict(self.last_agents),
            gates=dict(self.gates),
            presence=self.presence,
            busy_gate=self.busy_gate,
            seen_keys={k: i for k, i in self.keys.items() if k in wanted},
            ended_runs=dict(self.runs),
            modes=self.modes,
        )

    def _write(self, decision: LedgerChanges, commands: Sequence[Command]) -> None:
        for command in commands:
            if isinstance(command, Arrive) and command.item.dedupe_key is not None:
                self.keys.setdefault((command.item.project, command.item.dedupe_key), command.id)
        for item in (*decision.settled, *decision.born, *decision.raised):
            self.items[item.id] = item
            self._check_one_owner(item.spec.lane)
        for move in decision.moves:
            taken = [k for k in self.messages if k[0] == move.source and k[1] > move.after]
            for key in taken:
                message = self.messages.pop(key)
                self._keep(message._replace(item=move.target, n=message.n + move.shift))
        for message in decision.messages:
            self._keep(message)
        self.streaks.update({lane: Streak(wakes, run) for lane, wakes, run in decision.streaks})
        self.last_agents.update(decision.last_agents)
        gates = {**self.gates, **dict(decision.gates)}
        self.gates = {lane: gate for lane, gate in gates.items() if gate is not None}
        self.payloads.update(decision.payloads)
        for source, target in decision.payload_copies:
            if source in self.payloads:
                self.payloads[target] = self.payloads[source]
        for run in decision.runs:
            assert run.run not in self.runs, f"run {run.run} ended twice"
            self.runs[run.run] = run
        self.events += decision.events
        for forgotten in decision.forgotten_keys:
            self.keys.pop(forgotten, None)
        for project, passed, item_id in decision.passed_keys:
            self.keys[project, passed] = item_id

    def _keep(self, message: NewMessage) -> None:
        key = (message.item, message.n)
        assert key not in self.messages, f"item {key[0]} has two messages numbered {key[1]}"
        self.messages[key] = message

    # -- what a real store checks -----------------------------------------------------------------

    def _check_one_owner(self, lane: str | None) -> None:
        owners = [i.id for i in self.items.values() if lane is not None and i.spec.lane == lane and i.active]
        assert len(owners) <= 1, f"lane {lane} has the owners {owners}"

    def _check(self) -> None:
        for item in self.items.values():
            numbers = sorted(n for owner, n in self.messages if owner == item.id)
            if not item.terminal:
                assert numbers == list(range(1, item.state.message_count + 1)), f"messages of {item.id}"
            if item.status is ItemStatus.DEFERRED:
                lane = item.spec.lane
                assert any(
                    o.active and lane in (o.spec.lane, o.spec.observed_lane) for o in self.items.values()
                ), f"nobody leads lane {lane}"
            assert item.terminal == (item.state.ended_us is not None)
            assert (item.status is ItemStatus.IN_PROGRESS) == (item.state.run is not None)
            gate = self.gates.get(item.spec.lane or "")
            shut = gate is not None and gate.shuts(item.spec.type)
            assert item.state.gated == (shut and item.status is ItemStatus.PENDING), f"flag of {item.id}"

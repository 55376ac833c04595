"""The history checker: could this event log have come from a store that keeps its promises?

The demo and `tests/faults` create the traffic and the faults; this module replays the resulting log. It is
written from the promises and shares no code with the rules that it checks.

Lines are replayed by their numbers. A store numbers the lines of a transaction after its last lock, so this
is the order of events on an item and on a lane. Run numbers must grow in that order. So must times, unless
the clock is set: `check_times` reports where they do not.

The checker cannot see actions without a line: renewals, reads, payloads.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Self

from interlock.service.contract import EventView

ACTIVE = ("pending", "in_progress")
UNFINISHED = ("waiting", "deferred", *ACTIVE)
RETRIED = ("failed", "cancelled")
#: Statuses of a task that may get a new dependency. An item in back-off that keeps its lane is `pending` too.
BACK_TO_WAITING = ("pending", "deferred")
#: Kinds of lines that do not affect who holds a lane.
UNMODELLED = (
    "plan",
    "question",
    "cancel",
    "message",
    "agent",
    "pool",
    "budget",
    "project",
    "mode",
    "store",
    "clock",
    "block",
    "gate",
)
#: Reasons why messages start no work.
_MUTE = ("own_message", "outsider")
#: How many items of a dedupe key a violation names.
NAMED = 5
ENDINGS = ("succeeded", "failed", "cancelled", "timed_out", "lost", "released")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedEvent:
    """One event of the log, with the fields that the checks need."""

    seq: int
    at_us: int
    kind: str
    reason: str = ""
    item: int | None = None
    run: int | None = None
    lane: str | None = None
    agent: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, event: EventView) -> Self:
        """An event from the service."""
        same = ("seq", "kind", "reason", "item", "run", "lane", "agent", "data")
        values = {name: getattr(event, name) for name in same}
        return cls(at_us=round(event.at.timestamp() * 1e6), **values)

    def __str__(self) -> str:
        about = [f"{name} {value}" for name, value in (("item", self.item), ("run", self.run)) if value]
        return f"#{self.seq} {self.kind}({', '.join([*about, self.lane or 'no lane'])})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A broken promise in the history: `rule` is a stable name, `text` is for people."""

    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.text}"


@dataclass(slots=True)
class ReplayedRun:
    """One run, from its `run.started` to the line that ended it."""

    number: int
    item: int
    lane: str | None
    agent: str
    started: LoggedEvent
    ended: LoggedEvent | None = None

    def ended_before(self, line: LoggedEvent) -> bool:
        """Whether the run had ended when the line was written."""
        return self.ended is not None and self.ended.seq < line.seq

    @property
    def outcome(self) -> str:
        return self.ended.kind.removeprefix("run.") if self.ended else "running"


@dataclass(slots=True)
class ReplayedItem:
    """One item, in its state after the lines so far."""

    id: int
    lane: str | None
    status: str
    #: In observe mode nothing is blocked: other runs may share its lane.
    observed: bool = False
    run: int | None = None
    absorbed_by: int | None = None
    #: The plan whose task it is.
    plan: int | None = None
    #: It ended with unread messages that all came from its own side.
    muted: bool = False
    #: It may not start until a person has sent a message.
    stopped: bool = False


class History:
    """A replayed log. `violations` is empty if every promise held."""

    def __init__(self, lines: Iterable[LoggedEvent]) -> None:
        self.lines = sorted(lines, key=lambda line: line.seq)
        self.violations: list[Violation] = []
        self.items: dict[int, ReplayedItem] = {}
        self.runs: dict[int, ReplayedRun] = {}
        self.refused: list[LoggedEvent] = []
        self.kinds: Counter[str] = Counter(line.kind for line in self.lines)
        self._owners: dict[str, set[int]] = defaultdict(set)
        self._last_run: dict[str, int] = {}
        self._in_cycle: set[int] = set()
        seqs = Counter(line.seq for line in self.lines)
        for seq in (seq for seq, count in seqs.items() if count > 1):
            self._report("numbered_once", f"the number {seq} was given to {seqs[seq]} lines")
        for line in self.lines:
            self._replay(line)
        self._check_refusals()
        self._check_absorbed()

    # -- questions --------------------------------------------------------------------------------

    def runs_of(self, item: int) -> list[ReplayedRun]:
        return [run for run in self.runs.values() if run.item == item]

    def running(self, item: int) -> ReplayedRun | None:
        """The live run of an item."""
        return next((run for run in self.runs_of(item) if run.ended is None), None)

    def succeeded(self, item: int) -> ReplayedRun | None:
        return next((run for run in self.runs_of(item) if run.outcome == "succeeded"), None)

    def broken(self, *rules: str) -> list[str]:
        """The violations of these rules, as texts."""
        return [v.text for v in self.violations if v.rule in rules]

    def movers(self) -> dict[int, str]:
        """Every unfinished item that will be moved, with what will move it."""
        held = {i.lane for i in self.items.values() if i.status in ACTIVE}
        found = {}
        for item in self.items.values():
            match item.status:
                case "pending":
                    found[item.id] = "a claim"
                case "in_progress":
                    found[item.id] = "the end of its run, or of its lease"
                case "waiting" if item.stopped:
                    found[item.id] = "a person's message"
                case "waiting":
                    found[item.id] = "the sweeper, when it is due"
                case "deferred" if item.lane in held:
                    found[item.id] = "the end of its lane's owner"
        return found

    def check_inputs(self, added: Iterable[int] = ()) -> None:
        """No input is lost: every added item has ended, or something will move it."""
        movers = self.movers()
        for item in self.items.values():
            if item.status in UNFINISHED and item.id not in movers:
                self._report("nothing_lost", f"item {item.id} is {item.status} and nothing moves it")
        for item_id in sorted(set(added) - set(self.items)):
            self._report("nothing_lost", f"item {item_id} was acknowledged and left no line")

    def check_acknowledged(self, done: Iterable[tuple[int, int]]) -> None:
        """Every acknowledged `done`, given as (run, item), is recorded exactly once for that run."""
        done = list(done)
        for (run, item), count in Counter(done).items():
            if count > 1:
                self._report("acknowledged_once", f"run {run} was acknowledged {count} times")
            known = self.runs.get(run)
            if known is None or known.item != item or known.ended is None:
                self._report(
                    "acknowledged_is_kept", f"run {run} of item {item} was acknowledged, not recorded"
                )
            elif known.ended.kind != "run.succeeded":
                self._report(
                    "acknowledged_is_kept", f"run {run} was acknowledged as done, recorded as {known.ended}"
                )
        twice = Counter(item for _, item in set(done))
        for item in (item for item, count in twice.items() if count > 1):
            self._report("acknowledged_once", f"item {item} was acknowledged as done by {twice[item]} runs")

    def check_store(self, statuses: Mapping[int, str]) -> None:
        """The items' rows match the log: no change without a line, no line without a change."""
        for item_id in sorted(set(statuses) | set(self.items)):
            logged = self.items[item_id].status if item_id in self.items else "unknown"
            kept = statuses.get(item_id, "missing")
            if logged != kept:
                self._report("rows_match_lines", f"item {item_id} is {kept}, its lines say {logged}")

    def check_keys(self, acknowledged: Iterable[tuple[str, int]]) -> None:
        """Every dedupe key, given with the item of each of its arrivals, has one item."""
        items: dict[str, set[int]] = defaultdict(set)
        for key, item in acknowledged:
            items[key].add(item)
        for key, found in sorted(items.items()):
            if len(found) > 1:
                *others, last = map(str, sorted(found)[:NAMED])
                named = f"{', the first are' if len(found) > NAMED else ':'} {', '.join(others)} and {last}"
                self._report("one_item_a_key", f"{key!r} has {len(found)} items{named}")

    def check_leases(self, promised: Mapping[int, tuple[int, int]], *, now_us: int) -> None:
        """No lease ends early or late. For each run: the end of its last acknowledged lease, and when a sweep
        must have ended it after that. `now_us` is the time of the judgement, on the store's clock."""
        if any(self.kinds[kind] for kind in ("clock.stepped", "store.changed", "store.leapt")):
            return  # deadlines were moved
        for number, (until_us, limit_us) in promised.items():
            run = self.runs.get(number)
            if run is None or run.outcome not in ("running", "lost"):
                continue
            ended_us = run.ended.at_us if run.ended is not None else None
            if (ended_us or now_us) > limit_us:
                late_s = ((ended_us or now_us) - until_us) / 1e6
                self._report("lock_ends_with_lease", f"run {number} kept {run.lane} {late_s:.1f} s too long")
            elif ended_us is not None and ended_us < until_us:
                self._report(
                    "leases_last", f"run {number} was lost {(until_us - ended_us) / 1e6:.1f} s early"
                )

    def check_pushes(
        self, *, armed: Iterable[tuple[float, int]], pushed: Iterable[tuple[float, int]]
    ) -> None:
        """No push of a run is accepted that was sent after a later run had armed. Each is given as the time,
        on one clock, and the run."""
        later = sorted(armed)
        for sent, run in pushed:
            by = max((other for at, other in later if at < sent), default=0)
            if by > run:
                self._report("late_push", f"a push of run {run} was accepted after run {by} had armed")

    def check_times(self) -> None:
        """The times of an item's events, and of runs on a lane, grow with their numbers.

        Times of refusals are not compared, because a refusal takes no lock.
        """
        last: dict[tuple[str, int | str], LoggedEvent] = {}
        for line in self.lines:
            if line.kind == "clock.stepped":
                last.clear()
            if line.kind == "run.refused" or line.item is None:
                continue
            item = self.items.get(line.item)
            of_lane = line.kind.startswith("run.") and item is not None and not item.observed
            about: list[tuple[str, int | str]] = [("item", line.item)]
            if of_lane and line.lane is not None:
                about.append(("lane", line.lane))
            for key in about:
                before = last.get(key)
                if before is not None and line.at_us < before.at_us:
                    text = f"{line} is {before.at_us - line.at_us} us older than {before}"
                    self._report("times_grow", text)
                last[key] = line

    # -- the model --------------------------------------------------------------------------------

    def _replay(self, line: LoggedEvent) -> None:
        match line.kind.partition("."):
            case ("run", _, "started"):
                self._start(line)
            case ("run", _, "refused"):
                self.refused.append(line)
            case ("run", _, ending) if ending in ENDINGS:
                self._end(line, ending)
            case ("item", _, what):
                self._move_item(line, what)
            case ("lane", _, "promoted"):
                self._move(line, line.item, ("deferred",), "pending")
            case ("lane", _, "overtaken"):
                self._move(line, line.item, ("pending",), "deferred")
                self._move(line, line.data.get("by_item"), ("deferred",), "pending")
            case ("plan", _, "cycle_opened"):
                self._in_cycle.add(line.data["plan"])
            case ("plan", _, "cycle_closed"):
                self._in_cycle.discard(line.data["plan"])
            case ("wake", _, "stopped"):
                self._stop(line)
            case ("question", _, "timed_out"):
                self._move(line, line.item, ("pending", "waiting"), line.data.get("status", ""))
            case (kind, _, _) if kind in UNMODELLED:
                pass
            case _:
                self._report("known_kind", f"{line} is of no known kind")

    def _move_item(self, line: LoggedEvent, what: str) -> None:
        match what:
            case "added" | "observed":
                status = line.data.get("status", "")
                kept = status == "cancelled" and line.reason in _MUTE
                if not kept and status not in ("waiting", "deferred", "pending"):
                    self._report("lawful_birth", f"{line} begins as {status!r}")
                parent = self.items.get(line.data.get("follows_item", 0))
                if parent is not None and parent.muted:
                    self._report("nothing_wakes_itself", f"{line} follows mute messages of item {parent.id}")
                # A follow-up stays in the mode of its parent.
                observed = what == "observed" or (parent is not None and parent.observed)
                self._create(line, status, observed=observed)
            case "coalesced":
                self._create(line, "coalesced", absorbed_by=line.data.get("into_item"))
            case "superseded":
                # The line of its run may already have moved it.
                self._move(line, line.item, (*UNFINISHED, *RETRIED, "superseded"), "superseded")
                if line.item in self.items:
                    self.items[line.item].absorbed_by = line.data.get("by_item")
            case "cancelled":
                self._move(line, line.item, (*UNFINISHED, "cancelled"), "cancelled")
            case "reentered":
                found = (*BACK_TO_WAITING, "waiting", *RETRIED)
                self._move(line, line.item, found, line.data.get("status", ""))
                self._continue(line)
            case "edited":
                self._move(line, line.item, (*BACK_TO_WAITING, "waiting"), line.data.get("status", ""))
            case "parked" | "retried" | "duplicate" | "rejected":
                pass  # the item's status does not change
            case _:
                self._report("known_kind", f"{line} is of no known kind")

    def _stop(self, line: LoggedEvent) -> None:
        """An item that has never run waits for a person. One in back-off just stays in back-off."""
        item = self.items.get(line.item) if line.item is not None else None
        if item is not None and item.status == "waiting":
            item.stopped = not self.runs_of(item.id)

    def _continue(self, line: LoggedEvent) -> None:
        item = self.items.get(line.item) if line.item is not None else None
        if item is not None and item.stopped:
            if line.reason not in ("woken_by_message", "operator"):
                self._report(
                    "a_loop_waits_for_a_person", f"{line} was started by {line.reason or 'no cause'}"
                )
            item.stopped = False

    def _create(
        self, line: LoggedEvent, status: str, *, observed: bool = False, absorbed_by: int | None = None
    ) -> None:
        if line.item is None or line.item in self.items:
            self._report("added_once", f"{line} adds an item that is there already, or none")
            return
        plan = line.data.get("plan") if "task" in line.data else None
        self.items[line.item] = ReplayedItem(
            line.item, line.lane, "", observed, absorbed_by=absorbed_by, plan=plan
        )
        self._put(line, self.items[line.item], status)

    def _start(self, line: LoggedEvent) -> None:
        if line.run is None or line.item is None or line.run in self.runs:
            self._report("numbered_once", f"{line} starts a run whose number was used before, or none")
            return
        self.runs[line.run] = ReplayedRun(line.run, line.item, line.lane, line.agent or "", line)
        self._move(line, line.item, ("pending",), "in_progress")
        item = self.items.get(line.item)
        if item is None:
            return
        item.run = line.run
        if item.plan in self._in_cycle:
            self._report("no_start_in_a_cycle", f"{line} is of plan {item.plan}, whose editor owes an edit")
        if line.lane is not None and not item.observed:
            before = self._last_run.get(line.lane, 0)
            if line.run <= before:
                self._report("run_numbers_grow", f"{line} came after run {before} of the same lane")
            self._last_run[line.lane] = max(before, line.run)

    def _end(self, line: LoggedEvent, ending: str) -> None:
        run = self.runs.get(line.run) if line.run is not None else None
        if run is None:
            self._report("started_before_ended", f"{line} ends a run that never started")
            return
        if run.ended is not None:
            self._report("ends_once", f"{line} ends a run that {run.ended} had ended")
            return
        run.ended = line
        item = self.items.get(run.item)
        if item is not None and item.run != run.number:
            self._report("fenced", f"{line} ends a run that is not its item's current one, {item.run}")
            return
        after = "completed" if ending == "succeeded" else line.data.get("item_status", "")
        self._move(line, run.item, ("in_progress",), after)
        if item is not None:
            item.run = None
            item.muted = line.data.get("unread_why") in _MUTE

    def _move(self, line: LoggedEvent, item_id: int | None, before: Sequence[str], after: str) -> None:
        item = self.items.get(item_id) if item_id is not None else None
        if item is None:
            self._report("added_once", f"{line} is about item {item_id}, which was never added")
            return
        if item.status not in before:
            rule = "promoted_before_started" if line.kind == "run.started" else "lawful_move"
            self._report(rule, f"{line} found its item {item.status}, not {' or '.join(before)}")
        self._put(line, item, after)

    def _put(self, line: LoggedEvent, item: ReplayedItem, status: str) -> None:
        item.status = status
        if item.lane is None or item.observed:
            return
        owners = self._owners[item.lane]
        if status in ACTIVE:
            owners.add(item.id)
        else:
            owners.discard(item.id)
        if len(owners) > 1:
            running = [i for i in owners if self.items[i].status == "in_progress"]
            rule = "one_run_a_lane" if len(running) > 1 else "one_owner_a_lane"
            self._report(rule, f"after {line} lane {item.lane} is held by items {sorted(owners)}")

    # -- checks of the whole log ------------------------------------------------------------------

    def _check_refusals(self) -> None:
        """A refused write changes nothing, and only ended runs are refused. The history has no data on a
        foreign handle: its run was claimed from another store, or in a past that this store has lost."""
        for line in self.refused:
            if line.reason == "foreign_handle":
                continue
            run = self.runs.get(line.run) if line.run is not None else None
            if run is None:
                self._report("refused_with_reason", f"{line} refused a run that never started")
            elif run.ended is None:
                self._report("refused_with_reason", f"{line} refused a run that had not ended")
            elif not run.ended_before(line):
                text = f"{line} was refused, and then {run.ended} was accepted"
                self._report("refused_changes_nothing", text)

    def _check_absorbed(self) -> None:
        """Absorbed items lead to an existing item, without cycles."""
        for item in self.items.values():
            seen, at = {item.id}, item
            while at.absorbed_by is not None and at.status in ("superseded", "coalesced"):
                if at.absorbed_by not in self.items or at.absorbed_by in seen:
                    self._report("absorbed_travels", f"item {at.id} went into item {at.absorbed_by}")
                    break
                seen.add(at.absorbed_by)
                at = self.items[at.absorbed_by]

    def _report(self, rule: str, text: str) -> None:
        self.violations.append(Violation(rule=rule, text=text))


def seconds(first: LoggedEvent, last: LoggedEvent) -> float:
    """The time between two lines, on the store's clock."""
    return (last.at_us - first.at_us) / 1e6


def most_at_once(runs: Iterable[ReplayedRun]) -> int:
    """The most of these runs that were live at the same time."""
    changes: list[tuple[int, int]] = []
    for run in runs:
        changes.append((run.started.at_us, 1))
        if run.ended is not None:
            changes.append((run.ended.at_us, -1))  # sorts before a start at the same time
    return max(accumulate((change for _, change in sorted(changes)), initial=0))

"""The history checker: could this event log have come from a store that keeps its promises?

The demo and `tests/faults` make the traffic and the faults; this module replays what they left. It is
written from the promises and shares no code with the rules it checks.

Lines are replayed by their numbers: a store numbers the lines of a transaction after its last lock, so this
is the order in which things happened to an item and to a lane. Run numbers must grow in that order. So must
times, unless somebody sets the clock: `check_times` says where they do not.

The checker cannot see what leaves no line: a renewal, a read, a payload.
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
#: Statuses of a task that may get a new dependency; a back-off that keeps its lane is `pending` too.
BACK_TO_WAITING = ("pending", "deferred")
#: Kinds of lines that say nothing about who holds what.
UNMODELLED = (
    "plan",
    "question",
    "cancel",
    "message",
    "agent",
    "pool",
    "project",
    "mode",
    "store",
    "clock",
    "block",
    "gate",
)
#: Reasons for which messages start nothing.
_MUTE = ("own_message", "outsider")
ENDINGS = ("succeeded", "failed", "cancelled", "timed_out", "lost", "released")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
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
        """An event as the service answers it."""
        same = ("seq", "kind", "reason", "item", "run", "lane", "agent", "data")
        values = {name: getattr(event, name) for name in same}
        return cls(at_us=round(event.at.timestamp() * 1e6), **values)

    def __str__(self) -> str:
        about = [f"{name} {value}" for name, value in (("item", self.item), ("run", self.run)) if value]
        return f"#{self.seq} {self.kind}({', '.join([*about, self.lane or 'no lane'])})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A promise that the history breaks: `rule` is a stable name, `text` is for people."""

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
    started: Line
    ended: Line | None = None

    def ended_before(self, line: Line) -> bool:
        """Whether the run had ended when the line was written."""
        return self.ended is not None and self.ended.seq < line.seq

    @property
    def outcome(self) -> str:
        return self.ended.kind.removeprefix("run.") if self.ended else "running"


@dataclass(slots=True)
class ReplayedItem:
    """One item, as the lines so far leave it."""

    id: int
    lane: str | None
    status: str
    #: In observe mode nothing is held back: other runs may share its lane.
    observed: bool = False
    run: int | None = None
    absorbed_by: int | None = None
    #: The plan whose task it is.
    plan: int | None = None
    #: It ended with unread messages, and only its own side had written them.
    muted: bool = False
    #: It may not start before a person has spoken.
    stopped: bool = False


class History:
    """A replayed log. `violations` is empty if every promise held."""

    def __init__(self, lines: Iterable[Line]) -> None:
        self.lines = sorted(lines, key=lambda line: line.seq)
        self.violations: list[Violation] = []
        self.items: dict[int, ReplayedItem] = {}
        self.runs: dict[int, ReplayedRun] = {}
        self.refused: list[Line] = []
        self.kinds: Counter[str] = Counter(line.kind for line in self.lines)
        self._owners: dict[str, set[int]] = defaultdict(set)
        self._last_run: dict[str, int] = {}
        self._in_cycle: set[int] = set()
        seqs = Counter(line.seq for line in self.lines)
        for seq in (seq for seq, count in seqs.items() if count > 1):
            self._break("numbered_once", f"the number {seq} was given to {seqs[seq]} lines")
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
        """Every unfinished item that something will move, and what that is."""
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
        """No input is lost: every added item has ended, or something moves it next."""
        movers = self.movers()
        for item in self.items.values():
            if item.status in UNFINISHED and item.id not in movers:
                self._break("nothing_lost", f"item {item.id} is {item.status} and nothing moves it")
        for item_id in sorted(set(added) - set(self.items)):
            self._break("nothing_lost", f"item {item_id} was acknowledged and left no line")

    def check_acknowledged(self, done: Iterable[tuple[int, int]]) -> None:
        """Every acknowledged `done`, given as (run, item), is recorded for that run, and once."""
        done = list(done)
        for (run, item), count in Counter(done).items():
            if count > 1:
                self._break("acknowledged_once", f"run {run} was acknowledged {count} times")
            known = self.runs.get(run)
            if known is None or known.item != item or known.ended is None:
                self._break(
                    "acknowledged_is_kept", f"run {run} of item {item} was acknowledged, not recorded"
                )
            elif known.ended.kind != "run.succeeded":
                self._break(
                    "acknowledged_is_kept", f"run {run} was acknowledged as done, recorded as {known.ended}"
                )
        twice = Counter(item for _, item in set(done))
        for item in (item for item, count in twice.items() if count > 1):
            self._break("acknowledged_once", f"item {item} was acknowledged as done by {twice[item]} runs")

    def check_store(self, statuses: Mapping[int, str]) -> None:
        """The items' rows agree with the log: no change without a line, no line without a change."""
        for item_id in sorted(set(statuses) | set(self.items)):
            logged = self.items[item_id].status if item_id in self.items else "unknown"
            kept = statuses.get(item_id, "missing")
            if logged != kept:
                self._break("rows_match_lines", f"item {item_id} is {kept}, its lines say {logged}")

    def check_times(self) -> None:
        """The times of what happened to an item, and of runs on a lane, grow with their numbers.

        A refusal takes no lock: its time is compared with nothing.
        """
        last: dict[tuple[str, int | str], Line] = {}
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
                    self._break("times_grow", text)
                last[key] = line

    # -- the model --------------------------------------------------------------------------------

    def _replay(self, line: Line) -> None:
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
                self._break("known_kind", f"{line} is of no known kind")

    def _move_item(self, line: Line, what: str) -> None:
        match what:
            case "added" | "observed":
                status = line.data.get("status", "")
                kept = status == "cancelled" and line.reason in _MUTE
                if not kept and status not in ("waiting", "deferred", "pending"):
                    self._break("lawful_birth", f"{line} begins as {status!r}")
                parent = self.items.get(line.data.get("follows_item", 0))
                if parent is not None and parent.muted:
                    self._break("nothing_wakes_itself", f"{line} follows mute messages of item {parent.id}")
                self._create(line, status, observed=what == "observed")
            case "coalesced":
                self._create(line, "coalesced", absorbed_by=line.data.get("into_item"))
            case "superseded":
                # The line of its run may have moved it already.
                self._move(line, line.item, (*UNFINISHED, *RETRIED, "superseded"), "superseded")
                if line.item in self.items:
                    self.items[line.item].absorbed_by = line.data.get("by_item")
            case "cancelled":
                self._move(line, line.item, (*UNFINISHED, "cancelled"), "cancelled")
            case "reentered":
                found = (*BACK_TO_WAITING, "waiting", *RETRIED)
                self._move(line, line.item, found, line.data.get("status", ""))
                self._go_on(line)
            case "edited":
                self._move(line, line.item, (*BACK_TO_WAITING, "waiting"), line.data.get("status", ""))
            case "parked" | "retried" | "duplicate" | "rejected":
                pass  # the item's status does not change
            case _:
                self._break("known_kind", f"{line} is of no known kind")

    def _stop(self, line: Line) -> None:
        """An item that has never run waits for a person; one in back-off only goes on waiting."""
        item = self.items.get(line.item) if line.item is not None else None
        if item is not None and item.status == "waiting":
            item.stopped = not self.runs_of(item.id)

    def _go_on(self, line: Line) -> None:
        item = self.items.get(line.item) if line.item is not None else None
        if item is not None and item.stopped:
            if line.reason not in ("woken_by_message", "operator"):
                self._break("a_loop_waits_for_a_person", f"{line} was started by {line.reason or 'nobody'}")
            item.stopped = False

    def _create(
        self, line: Line, status: str, *, observed: bool = False, absorbed_by: int | None = None
    ) -> None:
        if line.item is None or line.item in self.items:
            self._break("added_once", f"{line} adds an item that is there already, or none")
            return
        plan = line.data.get("plan") if "task" in line.data else None
        self.items[line.item] = ReplayedItem(
            line.item, line.lane, "", observed, absorbed_by=absorbed_by, plan=plan
        )
        self._put(line, self.items[line.item], status)

    def _start(self, line: Line) -> None:
        if line.run is None or line.item is None or line.run in self.runs:
            self._break("numbered_once", f"{line} starts a run whose number was used before, or none")
            return
        self.runs[line.run] = ReplayedRun(line.run, line.item, line.lane, line.agent or "", line)
        self._move(line, line.item, ("pending",), "in_progress")
        item = self.items.get(line.item)
        if item is None:
            return
        item.run = line.run
        if item.plan in self._in_cycle:
            self._break("no_start_in_a_cycle", f"{line} is of plan {item.plan}, whose editor owes an edit")
        if line.lane is not None and not item.observed:
            before = self._last_run.get(line.lane, 0)
            if line.run <= before:
                self._break("run_numbers_grow", f"{line} came after run {before} of the same lane")
            self._last_run[line.lane] = max(before, line.run)

    def _end(self, line: Line, ending: str) -> None:
        run = self.runs.get(line.run) if line.run is not None else None
        if run is None:
            self._break("started_before_ended", f"{line} ends a run that never started")
            return
        if run.ended is not None:
            self._break("ends_once", f"{line} ends a run that {run.ended} had ended")
            return
        run.ended = line
        item = self.items.get(run.item)
        if item is not None and item.run != run.number:
            self._break("fenced", f"{line} ends a run that is not its item's current one, {item.run}")
            return
        after = "completed" if ending == "succeeded" else line.data.get("item_status", "")
        self._move(line, run.item, ("in_progress",), after)
        if item is not None:
            item.run = None
            item.muted = line.data.get("unread_why") in _MUTE

    def _move(self, line: Line, item_id: int | None, before: Sequence[str], after: str) -> None:
        item = self.items.get(item_id) if item_id is not None else None
        if item is None:
            self._break("added_once", f"{line} is about item {item_id}, which was never added")
            return
        if item.status not in before:
            rule = "promoted_before_started" if line.kind == "run.started" else "lawful_move"
            self._break(rule, f"{line} found its item {item.status}, not {' or '.join(before)}")
        self._put(line, item, after)

    def _put(self, line: Line, item: ReplayedItem, status: str) -> None:
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
            self._break(rule, f"after {line} lane {item.lane} is held by items {sorted(owners)}")

    # -- checks of the whole log ------------------------------------------------------------------

    def _check_refusals(self) -> None:
        """A refused write changes nothing, and only a run that has ended is refused. Of a foreign handle the
        history knows nothing: its run was claimed from another store, or in a past that this one has lost."""
        for line in self.refused:
            if line.reason == "foreign_handle":
                continue
            run = self.runs.get(line.run) if line.run is not None else None
            if run is None:
                self._break("refused_with_reason", f"{line} refused a run that never started")
            elif run.ended is None:
                self._break("refused_with_reason", f"{line} refused a run that had not ended")
            elif not run.ended_before(line):
                text = f"{line} was refused, and then {run.ended} was accepted"
                self._break("refused_changes_nothing", text)

    def _check_absorbed(self) -> None:
        """Absorbed items lead to an item that exists, and never in a circle."""
        for item in self.items.values():
            seen, at = {item.id}, item
            while at.absorbed_by is not None and at.status in ("superseded", "coalesced"):
                if at.absorbed_by not in self.items or at.absorbed_by in seen:
                    self._break("absorbed_travels", f"item {at.id} went into item {at.absorbed_by}")
                    break
                seen.add(at.absorbed_by)
                at = self.items[at.absorbed_by]

    def _break(self, rule: str, text: str) -> None:
        self.violations.append(Violation(rule=rule, text=text))


def seconds(first: Line, last: Line) -> float:
    """The time between two lines, on the store's clock."""
    return (last.at_us - first.at_us) / 1e6


def most_at_once(runs: Iterable[ReplayedRun]) -> int:
    """How many of these runs lived at the same time, at most."""
    changes: list[tuple[int, int]] = []
    for run in runs:
        changes.append((run.started.at_us, 1))
        if run.ended is not None:
            changes.append((run.ended.at_us, -1))  # sorts before a start at the same time
    return max(accumulate((change for _, change in sorted(changes)), initial=0))

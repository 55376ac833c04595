"""The storm: what is done to the store and to the processes, and the wait until all work has ended.

One thread directs it. It reads the journals, picks victims by dice of the seed, and sends signals. It waits
for lines of the journals and never for a fixed time, so on a slow machine the proof only takes longer.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import time
from collections.abc import Callable
from typing import Any

from interlock.core.errors import InterlockError
from interlock.core.model import NewItem
from interlock.prove.crew import Crew
from interlock.prove.journal import Journal, Line, Tail
from interlock.prove.place import LEASE_S, Place
from interlock.prove.pusher import make_remote
from interlock.prove.roles import AGENTS, DRAIN, OVER, PUSH_TYPE, TYPE
from interlock.service.contract import ItemFilter, Service

RACERS, WORKERS, PUSHERS, LANES = 64, 6, 2, 5
#: How long a process works on an item that the director has chosen for a fault.
VICTIM_HOLD_S = 1.4 * LEASE_S
LOOK_S = 0.02
PATIENCE_S = 60.0
#: Without a new event for this time, all work has ended or is stuck.
QUIET_S = 1.5 * LEASE_S + 1.5
ROUNDS_MAX = 5
#: How long before its end the storm begins no new round of faults.
LAST_ROUND_S = 2.0
_RESTART_MAX_S = 120.0
_PAGE = 1_000

Tell = Callable[[str], None]


class ProofStuck(InterlockError):
    """The proof timed out waiting for a process."""

    code = "proof_stuck"


class Storm:
    """One proof from the race to the drained store."""

    def __init__(
        self,
        place: Place,
        service: Service,
        crew: Crew,
        *,
        seconds: float,
        seed: int,
        guard: str | None,
        restart: str | None,
        racers: int,
        tell: Tell,
    ) -> None:
        self._place, self._service, self._crew, self._tell = place, service, crew, tell
        self._seconds, self._guard, self._restart = seconds, guard, restart
        self._dice = random.Random(f"{seed}/director")  # noqa: S311  (a schedule, no secret)
        self._journal = Journal(place.directory, "director")
        self.tail = Tail(place.directory)
        self.racers = max(2, min(racers, place.room))
        self.rounds = max(1, min(ROUNDS_MAX, round(seconds / 10)))
        self.lanes = [f"prove:{place.project}/{n}" for n in range(LANES)]
        self._order = {
            "seed": seed,
            "directory": str(place.directory),
            "project": place.project,
            "lanes": self.lanes,
            "lease_s": LEASE_S,
            "guard": guard,
        }
        self.has_git = shutil.which("git") is not None
        self.remote = ""
        self._began_s = time.monotonic()
        self._incarnations = 0
        self.faults = 0

    def play(self) -> None:
        """All scenes, one after the other."""
        self._prepare()
        self._race()
        self._storm()
        self._drain()

    # -- scenes -------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        self._journal.note("is", "lease", lease_us=round(LEASE_S * 1e6))
        names = [*AGENTS, "racer", *(f"pusher-{n}" for n in range(PUSHERS))]
        for name in names:
            # An absent agent may not keep a lane from the others here: each has all labels.
            self._service.set_agent(f"{name}-{self._place.project}", labels=[self._place.project], by="prove")
        if self.has_git:
            self.remote = make_remote(self._place.directory / "remote.git")

    def _race(self) -> None:
        """All racers add one item at the same moment, and then claim it at the same moment."""
        self._tell(f"{self.racers} processes race for one item, {self.rounds} times")
        self._crew.make_gates(2 * self.rounds)
        names = [f"racer-{n:02}" for n in range(self.racers)]
        for name in names:
            self._start(name, "racer")
        self._all(names, "ready")
        for number in range(self.rounds):
            self._crew.open(2 * number)
            self._all(names, "added", round=number)
            self._crew.open(2 * number + 1)
            self._all(names, "raced", round=number)
        self._until(lambda: not any(name in self._crew.pids for name in names), "all racers to end")

    def _storm(self) -> None:
        self._tell(f"{WORKERS} workers on {LANES} lanes, with kill -9, SIGSTOP, plans and fenced pushes")
        self._start("sweeper", "sweeper")
        self._start("planner", "planner")
        for number in range(WORKERS):
            self._start(f"worker-{number}", "worker")
        for number in range(PUSHERS if self.has_git else 0):
            self._start(f"pusher-{number}", "pusher", remote=self.remote)
        for lane in self.lanes:
            self._add(TYPE, lane, 0.0)
        first, end_s = True, self._began_s + self._seconds - QUIET_S - LAST_ROUND_S
        while first or time.monotonic() < end_s:
            self._round(self.faults)
            first = False
        self._tell(f"{self.faults} faults; now all work is finished")

    def _round(self, number: int) -> None:
        """One kill and two pauses at once: a worker and a pusher sleep past their leases, and wake up while
        their successors hold the lanes."""
        zombie_lane, victim_lane, push_lane = (f"{self.lanes[0]}-{word}" for word in ("late", "dead", "push"))
        late, dead = self._add(TYPE, zombie_lane, VICTIM_HOLD_S), self._add(TYPE, victim_lane, VICTIM_HOLD_S)
        sleeping = [(late, self._stop_holder(late))]
        if self.has_git:
            pushed = self._add(PUSH_TYPE, push_lane, VICTIM_HOLD_S / 3)
            sleeping.append((pushed, self._stop_holder(pushed)))
        self._kill_holder(dead)
        if self._dice.random() < 0.5:
            self._kill_anyone()
        if self._place.kill_sessions is not None and number:
            self._outage("killed backends", self._place.kill_sessions)
        if self._restart is not None and number and self._dice.random() < 0.6:
            self._outage("restart", self._run_restart)
        for item, (name, run) in sleeping:
            # Without leases nobody follows; then the pause itself must end.
            patience_s = 3 * LEASE_S if self._guard == "lease" else PATIENCE_S
            self._until(
                lambda item=item, run=run: self._successor(item, run) is not None,
                f"a successor of run {run}",
                patience_s=patience_s,
                may_fail=self._guard is not None,
            )
            self._crew.resume(name)
            self._journal.note("is", "SIGCONT", who_=name, item=item, run=run)
        for item, (name, run) in sleeping:
            self._until(
                lambda name=name, run=run: self._has_written(name, run),
                f"{name} to write late",
                may_fail=self._guard is not None,
            )
            self._until(
                lambda item=item: self._is_free(item), f"item {item} to end", may_fail=self._guard is not None,
                patience_s=3 * LEASE_S if self._guard is not None else PATIENCE_S,
            )

    def _drain(self) -> None:
        """Add nothing more, and let the workers end what there is. Cancel what waits for a time or a person."""
        (self._place.directory / DRAIN).touch()
        wanted = ItemFilter(project=self._place.project, limit=_PAGE)
        seq, since_s = -1, time.monotonic()
        while True:
            self._turn(0.1)
            left = self._service.items(wanted)
            newest = self._service.events(limit=1, newest=True)
            now_seq = newest[-1].seq if newest else 0
            if now_seq != seq:
                seq, since_s = now_seq, time.monotonic()
            if not left or time.monotonic() - since_s > QUIET_S:
                break
            if all(item.status == "waiting" for item in left):
                for item in left:
                    self._service.cancel(item.id, why="the proof is over", by="prove")
        (self._place.directory / OVER).touch()
        names = [name for name in self._crew.pids if not name.startswith("racer")]
        self._until(lambda: not any(name in self._crew.pids for name in names), "all processes to end")
        self.tail.look()

    # -- faults -------------------------------------------------------------------------------------

    def _stop_holder(self, item: int) -> tuple[str, int]:
        """SIGSTOP to the process that works on an item, in the middle of its work; process and run."""
        while True:
            holder = self._holder(item)
            if self._crew.stop(holder["who"]):
                self.tail.look()
                if self._is_holding(holder):
                    self._note_fault("SIGSTOP", holder)
                    return holder["who"], holder["run"]
                self._crew.resume(holder["who"])

    def _kill_holder(self, item: int) -> None:
        holder = self._holder(item)
        self._crew.kill(holder["who"])
        self._note_fault("kill -9", holder)
        self._replace(holder["who"])

    def _kill_anyone(self) -> None:
        """kill -9 to any worker, in whatever it does."""
        names = sorted(name for name in self._crew.pids if name.startswith("worker") and not self._is_stopped(name))
        name = self._dice.choice(names)
        self._crew.kill(name)
        self.tail.look()
        last = self.tail.last.get(name, {})
        working = last.get("op") == "work" and last.get("state") in ("hold", "forgot")
        self._note_fault("kill -9", {"who": name, **({"item": last["item"], "run": last["run"]} if working else {})})
        self._replace(name)

    def _note_fault(self, what: str, holder: Line) -> None:
        self.faults += 1
        self._journal.note("fault", what, who_=holder["who"], item=holder.get("item"), run=holder.get("run"))

    def _outage(self, what: str, act: Callable[[], int]) -> None:
        self.faults += 1
        self._journal.note("fault", what)
        try:
            count = act()
        except InterlockError:
            raise
        except Exception as error:  # the server is just restarting
            self._journal.note("failed", what, error=str(error)[:200])
            return
        self._journal.note("is", what, count=count)

    def _run_restart(self) -> int:
        assert self._restart is not None
        answer = subprocess.run(
            self._restart, shell=True, capture_output=True, text=True, timeout=_RESTART_MAX_S, check=False  # noqa: S602
        )
        if answer.returncode:
            raise ProofStuck(
                f"The command of --restart-cmd failed with exit code {answer.returncode}.",
                (answer.stderr or answer.stdout).strip()[-300:],
            )
        return 1

    def _replace(self, name: str) -> None:
        self._incarnations += 1
        self._start(f"{name.partition('.')[0]}.{self._incarnations}", "worker")

    # -- questions ----------------------------------------------------------------------------------

    def _holder(self, item: int) -> Line:
        """The line of the process that works on an item."""
        found: list[Line] = []

        def look() -> bool:
            for line in reversed(self.tail.lines):
                if line["state"] == "hold" and line["item"] == item and self._is_holding(line):
                    found.append(line)
                    return True
            return False

        self._until(look, f"a process to work on item {item}")
        return found[0]

    def _is_holding(self, hold: Line) -> bool:
        """Whether a process works, in no request: the last that it has noted is its beginning or a renewal."""
        last = self.tail.last[hold["who"]]
        return last == hold or (last["op"] == "renew" and last["state"] == "ack" and last["run"] == hold["run"])

    def _is_stopped(self, name: str) -> bool:
        signals = (line["op"] for line in reversed(self.tail.lines) if line.get("who_") == name)
        return next(signals, "") == "SIGSTOP"

    def _successor(self, item: int, run: int) -> Line | None:
        """A later run of the item that is at work."""
        return next(
            (
                line
                for line in reversed(self.tail.lines)
                if line["state"] == "hold" and line["item"] == item and line["run"] > run
            ),
            None,
        )

    def _has_written(self, name: str, run: int) -> bool:
        """Whether a resumed process has had the answer to its last write."""
        last = [line for line in self.tail.lines if line["who"] == name and line.get("run") == run]
        return any(line["op"] in ("done", "fail", "release") and line["state"] != "attempt" for line in last)

    def _is_free(self, item: int) -> bool:
        """Whether an item was done."""
        return any(
            line["state"] == "ack" and line["op"] == "done" and line["item"] == item
            for line in self.tail.lines
            if "item" in line
        )

    # -- acting and waiting -------------------------------------------------------------------------

    def _start(self, name: str, role: str, **more: Any) -> None:
        self._crew.start(name, role, **self._order, **more)

    def _add(self, kind: str, lane: str, hold_s: float) -> int:
        payload = json.dumps({"hold_s": round(hold_s, 3)}) if hold_s else None
        new = NewItem(
            title="prepared for a fault" if hold_s else "first work",
            project=self._place.project,
            type=kind,
            labels=(self._place.project,),
            lane=lane,
            payload=payload,
            priority=100,
            max_attempts=50,
            author="prove",
        )
        n = self._journal.attempt("add", key=None, lane=lane)
        view = self._service.add([new])[0]
        assert view.item is not None
        item = view.item.id
        self._journal.note(
            "ack", "add", n=n, key=None, lane=lane, decision=view.decision, item=item, arrival=view.arrival
        )
        return item

    def _all(self, names: list[str], state: str, **facts: Any) -> None:
        """Wait until each of these processes has noted a state."""
        missing = set(names)
        at = 0

        def done() -> bool:
            nonlocal at
            for line in self.tail.lines[at:]:
                if line["state"] == state and all(line.get(k) == v for k, v in facts.items()):
                    missing.discard(line["who"])
            at = len(self.tail.lines)
            return not missing

        self._until(done, f"all racers to be {state}")

    def _until(
        self, holds: Callable[[], bool], what: str, *, patience_s: float = PATIENCE_S, may_fail: bool = False
    ) -> bool:
        """Take turns until the condition holds."""
        deadline_s = time.monotonic() + patience_s
        while True:
            self._turn(0.0)
            if holds():
                return True
            if time.monotonic() > deadline_s:
                if may_fail:
                    return False
                raise ProofStuck(
                    f"The proof waited {patience_s:g} s for {what}.",
                    "The machine may be too busy, or the store too slow; try again with less other work.",
                )
            time.sleep(LOOK_S)

    def _turn(self, pause_s: float) -> None:
        time.sleep(pause_s)
        self._crew.look()
        self.tail.look()

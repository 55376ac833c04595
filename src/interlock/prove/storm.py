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
from contextlib import suppress
from functools import partial
from typing import Any

from interlock.core.errors import InterlockError, ItemEnded
from interlock.core.model import NewItem
from interlock.prove.crew import ProcessCrew
from interlock.prove.journal import JournalTail, Line, ProcessJournal
from interlock.prove.place import LEASE_S, PUSH_LEASE_S, ProofPlace
from interlock.prove.pusher import make_remote
from interlock.prove.roles import AGENTS, DRAIN, OVER, PUSH, WORK, type_of
from interlock.service.contract import ItemFilter, Service

RACERS, WORKERS, PUSHERS, LANES = 64, 6, 2, 5
#: How long a process works on an item that the director has chosen for a fault.
VICTIM_HOLD_S = 1.4 * LEASE_S
LOOK_S = 0.05
PATIENCE_S = 60.0
#: The longest that the work which is left may take.
DRAIN_MAX_S = 120.0
ROUNDS_MAX = 5
#: How long before its end the storm begins no new round of faults.
LAST_ROUND_S = 6.0
_RESTART_MAX_S = 120.0
_PAGE = 1_000

Tell = Callable[[str], None]


class ProofStuck(InterlockError):
    """The proof timed out waiting for a process."""

    code = "proof_stuck"


class ProofStorm:
    """One proof from the race to the drained store."""

    def __init__(
        self,
        place: ProofPlace,
        service: Service,
        crew: ProcessCrew,
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
        self._journal = ProcessJournal(place.directory, "director")
        self.tail = JournalTail(place.directory)
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
            self._add(WORK, lane, 0.0)
        first, end_s = True, self._began_s + self._seconds - LAST_ROUND_S
        while first or time.monotonic() < end_s:
            self._round(first=first)
            first = False
        self._tell(f"{self.faults} faults; now all work is finished")

    def _round(self, *, first: bool) -> None:
        """One kill and two pauses at once: a worker and a pusher sleep past their leases, and wake up while
        their successors hold the lanes."""
        sleeping = [self._strike("SIGSTOP", WORK, "late", VICTIM_HOLD_S)]
        if self.has_git:
            sleeping.append(self._strike("SIGSTOP", PUSH, "push", VICTIM_HOLD_S))
        self._strike("kill -9", WORK, "dead", VICTIM_HOLD_S)
        if self._dice.random() < 0.5:
            self._kill_anyone()
        if self._place.kill_sessions is not None:
            self._outage("killed backends", self._place.kill_sessions)
        if self._restart is not None and (first or self._dice.random() < 0.6):
            self._outage("restart", self._run_restart)
        broken = self._guard is not None
        # Without leases nobody follows; then the pause itself must end.
        patience_s = 3 * PUSH_LEASE_S if self._guard == "lease" else PATIENCE_S
        for victim in sleeping:
            self._until(
                partial(self._successor, victim),
                f"a successor of run {victim['run']}",
                patience_s=patience_s,
                may_fail=broken,
            )
            self._crew.resume(victim["who"])
            self._journal.note("is", "SIGCONT", who_=victim["who"], item=victim["item"], run=victim["run"])
        for victim in sleeping:
            self._until(partial(self._has_written, victim), f"{victim['who']} to write late", may_fail=broken)

    def _drain(self) -> None:
        """Add nothing more, and let the workers end what there is. Cancel what waits for a time or a
        person."""
        (self._place.directory / DRAIN).touch()
        wanted = ItemFilter(project=self._place.project, limit=_PAGE)
        seq, since_s = -1, time.monotonic()
        deadline_s = since_s + DRAIN_MAX_S
        while time.monotonic() < deadline_s:
            self._turn(0.1)
            left = self._service.items(wanted)
            newest = self._service.events(limit=1, newest=True)
            now_seq = newest[-1].seq if newest else 0
            if now_seq != seq:
                seq, since_s = now_seq, time.monotonic()
            if not self._nothing_is_added():
                continue
            if not left or self._all_answered(since_s + PUSH_LEASE_S + 1.0):
                break
            if all(item.status == "waiting" for item in left):
                for item in left:
                    with suppress(ItemEnded):  # with the item before it
                        self._service.cancel(item.id, why="the proof is over", by="prove")
        (self._place.directory / OVER).touch()
        names = [name for name in self._crew.pids if not name.startswith("racer")]
        self._until(lambda: not any(name in self._crew.pids for name in names), "all processes to end")
        self.tail.look()

    def _nothing_is_added(self) -> bool:
        """Whether each process knows that nothing may be added any more."""
        drained = {line["who"] for line in self.tail.lines if line["state"] == "ack" and line.get("drain")}
        adding = {name for name in self._crew.pids if name.startswith(("worker", "planner"))}
        return adding <= drained

    def _all_answered(self, after_s: float) -> bool:
        """Whether each process was answered after this time: all leases were over by then, each worker has
        looked for work, and the sweeper has swept."""
        return all(self.tail.answered_s.get(name, 0.0) > after_s for name in self._crew.pids)

    # -- faults -------------------------------------------------------------------------------------

    def _strike(self, signal: str, kind: str, lane: str, hold_s: float) -> Line:
        """Add an item, and send a signal to the process that works on it, in the middle of its work; gives
        its line.

        On a busy machine the work may have ended before the signal comes: then another item is tried.
        """
        while True:
            item = self._add(kind, f"{self.lanes[0]}-{lane}", hold_s)
            self._until(partial(self._is_begun, item), f"a process to work on item {item}")
            while (holder := self._holder(item)) is not None:
                if signal == "kill -9":
                    self._crew.kill(holder["who"])
                    self._note_fault(signal, holder)
                    self._replace(holder["who"])
                    return holder
                if self._crew.stop(holder["who"]):
                    self.tail.look()
                    if self._is_holding(holder):
                        self._note_fault(signal, holder)
                        return holder
                    self._crew.resume(holder["who"])
                self._turn(LOOK_S)

    def _kill_anyone(self) -> None:
        """kill -9 to any worker, in whatever it does."""
        names = sorted(
            name for name in self._crew.pids if name.startswith("worker") and not self._is_stopped(name)
        )
        name = self._dice.choice(names)
        self._crew.kill(name)
        self.tail.look()
        last = self.tail.last.get(name, {})
        working = last.get("op") == "work" and last.get("state") in ("hold", "forgot")
        self._note_fault(
            "kill -9", {"who": name, **({"item": last["item"], "run": last["run"]} if working else {})}
        )
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
        log = self._place.directory / "restart.log"
        with log.open("wb") as said:  # a pipe would stay open as long as the server that it starts
            ended = subprocess.run(  # noqa: S602  (the user's own command)
                self._restart, shell=True, stdout=said, stderr=said, timeout=_RESTART_MAX_S, check=False
            )
        if ended.returncode:
            raise ProofStuck(
                f"The command of --restart-cmd failed with exit code {ended.returncode}.",
                log.read_text(errors="replace").strip()[-300:],
            )
        return 1

    def _replace(self, name: str) -> None:
        self._incarnations += 1
        self._start(f"{name.partition('.')[0]}.{self._incarnations}", "worker")

    # -- questions ----------------------------------------------------------------------------------

    def _holder(self, item: int) -> Line | None:
        """The line of the process that works on an item now, in no request."""
        holds = (line for line in self._holds(item) if self._is_holding(line))
        return next(holds, None)

    def _is_begun(self, item: int) -> bool:
        return self._holder(item) is not None or self._is_done(item)

    def _holds(self, item: int) -> list[Line]:
        """What processes have noted when they began to work on an item, the last one first."""
        found = [line for line in self.tail.lines if line["state"] == "hold" and line["item"] == item]
        return found[::-1]

    def _is_holding(self, hold: Line) -> bool:
        """Whether a process works, in no request: it has noted last that it began, or that it renewed."""
        last = self.tail.last[hold["who"]]
        return last == hold or (
            last["op"] == "renew" and last["state"] == "ack" and last["run"] == hold["run"]
        )

    def _is_stopped(self, name: str) -> bool:
        signals = (line["op"] for line in reversed(self.tail.lines) if line.get("who_") == name)
        return next(signals, "") == "SIGSTOP"

    def _successor(self, victim: Line) -> bool:
        """Whether a later run of the item is at work, or was."""
        return any(line["run"] > victim["run"] for line in self._holds(victim["item"]))

    def _has_written(self, victim: Line) -> bool:
        """Whether a resumed process has had the answer to its last write."""
        return any(
            line["op"] in ("done", "fail", "release") and line["state"] != "attempt"
            for line in self.tail.lines
            if line["who"] == victim["who"] and line.get("run") == victim["run"]
        )

    def _is_done(self, item: int) -> bool:
        return any(
            line["state"] == "ack" and line["op"] == "done" and line["item"] == item
            for line in self.tail.lines
        )

    # -- acting and waiting -------------------------------------------------------------------------

    def _start(self, name: str, role: str, **more: Any) -> None:
        self._crew.start(name, role, **self._order, **more)

    def _add(self, kind: str, lane: str, hold_s: float) -> int:
        payload = json.dumps({"hold_s": round(hold_s, 3)}) if hold_s else None
        new = NewItem(
            title="prepared for a fault" if hold_s else "first work",
            project=self._place.project,
            type=type_of(self._place.project, kind),
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
        self,
        holds: Callable[[], object],
        what: str,
        *,
        patience_s: float = PATIENCE_S,
        may_fail: bool = False,
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

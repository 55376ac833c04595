"""The stage of the demo: a store, the agents' processes, and waits for conditions on the store's events.

One thread does everything in turns: it reads the agents' reports and the store's events, sweeps and draws.
Scenes wait for conditions on the events and never for a fixed time, so on a slow machine the demo only takes
longer.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from interlock import app, settings
from interlock.core.errors import InterlockError, InvalidInput, StoreBusy
from interlock.core.model import NewItem, Policy
from interlock.demo.processes import AgentProcess, Crew
from interlock.proof.checker import History, LoggedEvent, seconds
from interlock.service.contract import ItemFilter, Service
from interlock.service.item_view import ItemView
from interlock.settings import Settings

if TYPE_CHECKING:
    from interlock.demo.screen import Silent

#: The style of remarks, which explain the events.
REMARK = "italic"
#: The agent that is limited to one run at a time although it has two processes. It takes only chores.
LIMITED = "emil"
ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: Longer than any demo: a run of this span ends when its scene orders it to finish.
ENDLESS = 900.0
SECONDS = 30.0
SECONDS_MIN, SECONDS_MAX = 10.0, 300.0
LEASE_MIN_S = 1.5
SWEEP_EVERY_S = 0.5
LISTEN_S = 0.08
PATIENCE_S = 40.0
PROBE_BUSY_S = 0.4
_ITEMS_MAX = 1_000


class DemoStuck(InterlockError):
    """The demo timed out waiting for a condition."""

    code = "demo_stuck"


@dataclass(frozen=True, slots=True, kw_only=True)
class SentSignal:
    """A signal to an agent in mid-run. The next message gives its time on the store's clock."""

    item: int
    run: int
    message: int


@contextmanager
def open_stage(*, length_s: float, url: str | None, keep: bool, screen: Silent) -> Iterator[Stage]:
    """A stage on an open store. It leaves no processes and no temporary files behind."""
    if not SECONDS_MIN <= length_s <= SECONDS_MAX:
        raise InvalidInput(
            f"The demo cannot take {length_s:g} s.", f"Use {SECONDS_MIN:g} to {SECONDS_MAX:g}."
        )
    with ExitStack() as cleanup:
        # Signals must not interrupt the clean-up: they are blocked first and unblocked last.
        cleanup.callback(signal.pthread_sigmask, signal.SIG_UNBLOCK, ENDING_SIGNALS)
        directory = Path(tempfile.mkdtemp(prefix="interlock-demo-")).resolve()
        if url is not None or not keep:
            cleanup.callback(shutil.rmtree, directory, ignore_errors=True)
        stage = Stage(length_s / SECONDS, url, directory, screen, keep=keep)
        cleanup.callback(stage.service.close)
        if url is not None:
            cleanup.push(lambda kind, *_: stage.cancel_unfinished() if kind else None)
        cleanup.callback(stage.crew.end)
        cleanup.callback(signal.pthread_sigmask, signal.SIG_BLOCK, ENDING_SIGNALS)
        yield stage


class Stage:
    """Plays the scenes: it acts on the store and the agents, and records its actions and the events."""

    def __init__(self, pace: float, url: str | None, directory: Path, screen: Silent, *, keep: bool) -> None:
        token = uuid.uuid4().hex[:4]
        self.pace = pace
        self.lease_s = max(2.0 * pace, LEASE_MIN_S)
        self.project = f"demo-{token}"
        # In a shared store, unique names separate the demo's agents and lanes from others.
        self._suffix = f"-{token}" if url else ""
        self._repository = f"acme/app{self._suffix}"
        self.url = url or f"sqlite:///{directory}/interlock.db"
        #: Whether the store is the demo's own and outlives it.
        self.kept = keep and url is None
        environ = _environ(self.url, pace, self.lease_s)
        # The configuration of the current directory must not affect the demo's own store.
        cwd = None if url else directory
        self._settings: Settings = settings.load(environ=environ, directory=cwd)
        self.service: Service = app.open_service(settings=self._settings)
        self.crew = Crew(directory, environ, cwd=cwd)
        self._screen = screen
        self.headline, self.narration, self.alarm = "Starting", "", False
        self.scene, self.scenes = 0, 0
        newest = self.service.events(limit=1, newest=True)
        self._cursor = newest[-1].seq if newest else 0
        #: The demo's events, and the history replayed from them.
        self.lines: list[LoggedEvent] = []
        self.history = History([])
        self.items: dict[int, ItemView] = {}
        #: The texts of arrivals and messages, which some run must read.
        self.inputs: list[str] = []
        #: The results that agents reported, and those that the store acknowledged: nonce to run.
        self.offered: dict[str, int] = {}
        self.acknowledged: dict[str, int] = {}
        self.signals: list[SentSignal] = []
        #: The longest time from the beginning of a sweep to the end of the next one.
        self.sweep_gap_s = 0.0
        self._began_s = self._swept_s = time.monotonic()

    def cancel_unfinished(self) -> None:
        """Cancel all items of an interrupted demo, because no agent will work on them."""
        with suppress(InterlockError):  # it must not hide why the demo ends
            for item in self.service.items(ItemFilter(project=self.project, limit=_ITEMS_MAX)):
                self.service.cancel(item.id, why="the demo was stopped", force=True)

    # -- names ------------------------------------------------------------------------------------

    def agent(self, name: str) -> str:
        """An agent's name in the store."""
        return name + self._suffix if name else ""

    def shown(self, agent: str | None) -> str:
        """An agent's name on the screen."""
        return (agent or "").removesuffix(self._suffix) or "anyone"

    def lane(self, place: str) -> str:
        """The lane of `#41` or of `release-2.4`."""
        return (
            f"{'issue:' if '#' in place else 'branch:'}{self._repository}{'' if '#' in place else '/'}{place}"
        )

    def place(self, lane: str | None) -> str:
        """A lane on the screen: `#41` or `release-2.4`."""
        return (lane or "").partition(self._repository)[2].removeprefix("/")

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._began_s

    # -- acting -----------------------------------------------------------------------------------

    def start(self, name: str, *, label: str = "", instead: AgentProcess | None = None) -> None:
        """Start a process of an agent."""
        arguments = (self.agent(name), _type_for(name), self.project)
        self.crew.start(arguments, name=name, label=label or name, instead=instead)

    def add(
        self,
        place: str,
        title: str,
        message: str,
        *,
        agent: str = "",
        work: float = ENDLESS,
        policy: Policy = Policy.QUEUE,
        priority: int = 0,
        failures: int = 0,
    ) -> int:
        """Add an item and return its id. An attempt takes `work` seconds at the usual pace."""
        new = NewItem(
            title=title,
            project=self.project,
            type=_type_for(agent),
            labels=(self.project,),
            agent=self.agent(agent),
            lane=self.lane(place),
            policy=policy,
            priority=priority,
            payload=json.dumps({"work_s": round(work * self.pace, 3), "failures": failures}),
            message=message,
            author="demo",
            max_attempts=10,
        )
        arrival = self.service.add([new])[0].arrival
        assert arrival is not None  # none of the scenes uses the policy `reject`
        self.inputs.append(message)
        self.step()
        return arrival

    def kill(self, agent: AgentProcess) -> SentSignal:
        """kill -9 in mid-run. The store is not told that the run has ended."""
        agent.kill()
        sent = self._note(self.service, agent, f"{agent.name} was killed while it worked on this.")
        self._act(agent, "kill -9", "is dead, and Interlock is not told.")
        return sent

    def stop(self, agent: AgentProcess) -> None:
        """SIGSTOP in mid-run.

        It may stop the process during a write to an embedded database, which is then locked for all. So if
        the next message cannot be written, the process is resumed for a moment and stopped again.
        """
        brief = replace(self._settings, busy_timeout_s=PROBE_BUSY_S)
        with closing(app.open_service(settings=brief)) as probe:
            while True:
                agent.stop()
                try:
                    self._note(probe, agent, f"{agent.name} was paused while it worked on this.")
                    break
                except StoreBusy:
                    agent.resume()
                    time.sleep(LISTEN_S)
        self._act(agent, "SIGSTOP", "is paused and does not know it.")

    def resume(self, agent: AgentProcess) -> None:
        """SIGCONT. The agent then reports success as its next action."""
        agent.finish(blindly=True)
        self._act(agent, "SIGCONT", "wakes up and reports success …")
        agent.resume()

    def _note(self, service: Service, agent: AgentProcess, text: str) -> SentSignal:
        assert agent.item is not None and agent.run is not None
        n = service.msg(agent.item, text, author="demo").n
        assert n is not None
        self.inputs.append(text)
        self.signals.append(SentSignal(item=agent.item, run=agent.run, message=n))
        return self.signals[-1]

    # -- narration --------------------------------------------------------------------------------

    def begin(self, headline: str, narration: str) -> None:
        """Begin a scene."""
        self.scene += 1
        self.headline = headline
        self._screen.line(self, f"{self.scene}/{self.scenes}  {headline}", "bold cyan")
        self.narrate(narration)

    def narrate(self, text: str, *, alarm: bool = False, style: str = REMARK) -> None:
        """Explain what is visible now."""
        self.narration, self.alarm = text, alarm
        self._screen.line(self, text, style)
        self.step()

    def _act(self, agent: AgentProcess, signal_name: str, then: str) -> None:
        self.narrate(f"{signal_name} {agent.pid}: {agent.name} {then}", alarm=True, style="bold yellow")

    # -- questions --------------------------------------------------------------------------------

    def count(self, *kinds: str) -> int:
        """The number of events of these kinds."""
        return sum(line.kind in kinds for line in self.lines)

    def signal_event(self, sent: SentSignal) -> LoggedEvent:
        """The event of the message that followed a signal."""
        found = (e for e in self.lines if e.kind == "message.added" and e.item == sent.item)
        return next(e for e in found if e.data["n"] == sent.message)

    def outlived_s(self, sent: SentSignal) -> float:
        """How long the agent kept its lock after a signal, until the end of its run."""
        ended = self.history.runs[sent.run].ended
        assert ended is not None  # the scenes wait for it
        return seconds(self.signal_event(sent), ended)

    # -- waiting ----------------------------------------------------------------------------------

    def until(self, holds: Callable[[], bool], what: str) -> None:
        """Take turns until the condition holds."""
        deadline_s = time.monotonic() + PATIENCE_S
        while not holds():
            if time.monotonic() > deadline_s:
                raise DemoStuck(
                    f"The demo waited {PATIENCE_S:g} s for {what}.",
                    f"The machine may be too busy; try --seconds {min(SECONDS_MAX, 60 * self.pace):g}.",
                )
            self.step(LISTEN_S)

    def pause(self, span: float) -> None:
        """Pause, so that people have time to look."""
        end_s = time.monotonic() + span * self.pace
        while (left_s := end_s - time.monotonic()) > 0:
            self.step(min(left_s, LISTEN_S))

    def everyone_idle(self) -> None:
        self.until(lambda: all(a.state == "idle" for a in self.crew.agents), "all agents to be idle")

    def step(self, listen_s: float = 0.0) -> None:
        """One turn of everything: agents, sweeper, events, screen."""
        heard = self.crew.listen(listen_s)
        if (fallen := self.crew.ended_by_itself()) is not None:
            raise DemoStuck(
                f"The agent {fallen.name} ended by itself.", self.crew.log.read_text()[-500:].strip()
            )
        if time.monotonic() - self._swept_s >= SWEEP_EVERY_S:
            before_s, self._swept_s = self._swept_s, time.monotonic()
            self.service.sweep()
            self.sweep_gap_s = max(self.sweep_gap_s, time.monotonic() - before_s)
        for line in self._read_events():
            self._screen.event(self, line)
        for agent, fact in heard:
            match fact["state"]:
                case "finishing":
                    self.offered[fact["nonce"]] = fact["run"]
                case "acknowledged":
                    self.acknowledged[fact["nonce"]] = fact["run"]
                case "refused":
                    self._screen.line(self, f"{agent.name} was refused: {fact['sentence']}", "bold yellow")
                case _:
                    pass  # the process object keeps the state
        self._screen.refresh(self)

    def _read_events(self) -> list[LoggedEvent]:
        """The new events. Others may use the same store; their events are skipped."""
        found = self.service.events(after=self._cursor)
        if found:
            self._cursor = found[-1].seq
        # The event of a refused renewal names its run and item, but no project.
        items = {e.item for e in found if e.project == self.project} | self.items.keys()
        new = [LoggedEvent.of(e) for e in found if e.item is not None and e.item in items]
        if new:
            self.look()
            self.lines += new
            self.history = History(self.lines)
        return new

    def look(self) -> None:
        """Read the current state of all items."""
        wanted = ItemFilter(all=True, project=self.project, limit=_ITEMS_MAX)
        self.items = {item.id: item for item in self.service.items(wanted)}


def _type_for(agent: str) -> str:
    return "demo.chore" if agent == LIMITED else "demo"


def _environ(url: str, pace: float, lease_s: float) -> dict[str, str]:
    """The environment of the demo and its agents: short spans, and none of the user's settings."""
    rest = {name: value for name, value in os.environ.items() if not name.startswith("INTERLOCK_")}
    return {
        **rest,
        "INTERLOCK_URL": url,
        "INTERLOCK_LEASE_S": f"{lease_s:g}",
        "INTERLOCK_BACK_OFF_FIRST_S": f"{1.2 * pace:g}",
        "INTERLOCK_BACK_OFF_MAX_S": "60",
    }

"""The stage of the demo: a store, the agents' processes, and the waiting on what the store says.

One thread does everything in turns: it hears the agents, reads the store's events, sweeps and draws. Scenes
wait for conditions on the events and never for a fixed time, so a slow machine only makes the demo longer.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from interlock import app, settings
from interlock.core.errors import InterlockError, InvalidInput, StoreBusy
from interlock.core.model import NewItem, Policy
from interlock.demo.history import Blow, History
from interlock.demo.processes import AgentProcess, Crew
from interlock.service.contract import EventView, ItemFilter, Service

SECONDS = 30.0
SECONDS_MIN, SECONDS_MAX = 10.0, 300.0
LEASE_MIN_S = 1.5
SWEEP_EVERY_S = 0.5
LISTEN_S = 0.08
PATIENCE_S = 40.0
PROBE_BUSY_S = 0.4
AUTHOR = "demo"


class Stuck(InterlockError):
    """The demo waited for something that never came."""

    code = "demo_stuck"


class Saying(Enum):
    """What kind of thing the demo itself says, beside the events."""

    SCENE = "a new scene begins"
    ACT = "the demo does something to an agent"
    REMARK = "what is to be seen now"


class Screen(Protocol):
    """Where the demo is shown."""

    def happened(self, stage: Stage, event: EventView) -> None: ...

    def said(self, stage: Stage, text: str, kind: Saying) -> None: ...

    def refresh(self, stage: Stage) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """Something an agent must get to read: the text of an arrival or a message."""

    item: int
    text: str


@dataclass(slots=True)
class Notes:
    """What the demo did and was told, to be held against the store's history at the end."""

    inputs: list[Input] = field(default_factory=list)
    #: Results that agents offered, and those whose recording was acknowledged: nonce to run.
    offered: dict[str, int] = field(default_factory=dict)
    acknowledged: dict[str, int] = field(default_factory=dict)
    #: From the beginning of a sweep to the end of the next one, at most.
    sweep_gap_s: float = 0.0


class Stage:
    """A context: inside it agents live; after it neither a process nor a temporary file is left."""

    def __init__(self, *, seconds: float, url: str | None, keep: bool, screen: Screen) -> None:
        if not SECONDS_MIN <= seconds <= SECONDS_MAX:
            raise InvalidInput(
                f"The demo cannot take {seconds:g} s.", f"Use {SECONDS_MIN:g} to {SECONDS_MAX:g}."
            )
        token = uuid.uuid4().hex[:4]
        self.pace = seconds / SECONDS
        self.lease_s = max(2.0 * self.pace, LEASE_MIN_S)
        self.project = f"demo-{token}"
        # In a store of others, names of its own keep the demo's agents and lanes apart from theirs.
        self._suffix = f"-{token}" if url else ""
        self.repository = f"acme/app{self._suffix}"
        self.keep = keep
        self.screen = screen
        self.notes = Notes()
        self.headline, self.narration, self.alarm = "Starting", "", False
        self.scene, self.scenes = 0, 0
        self._began_s = time.monotonic()
        self._swept_s = time.monotonic()
        self._given_url = url

    def __enter__(self) -> Self:
        self.directory = Path(tempfile.mkdtemp(prefix="interlock-demo-")).resolve()
        try:
            self.url = self._given_url or f"sqlite:///{self.directory}/interlock.db"
            environ = _environ(self.url, self.pace, self.lease_s)
            # A store of its own must not be bent by the configuration of the directory one happens to be in.
            cwd = None if self._shared else self.directory
            self._settings = settings.load(environ=environ, directory=cwd)
            self.service: Service = app.open_service(settings=self._settings)
        except BaseException:
            shutil.rmtree(self.directory, ignore_errors=True)
            raise
        self.history = History(self.service, self.project)
        self.crew = Crew(self.directory, environ, cwd=cwd, kind="demo", label=self.project)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Whoever presses Ctrl-C now gets what he wants, but not half of it.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
        try:
            self._clear_up(interrupted=kind is not None)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _clear_up(self, *, interrupted: bool) -> None:
        self.crew.end()
        try:
            if self._shared and interrupted:
                self._leave_nothing_unfinished()
            self.service.close()
        finally:
            if not self.keep or self._shared:
                shutil.rmtree(self.directory, ignore_errors=True)

    def _leave_nothing_unfinished(self) -> None:
        """The store is not ours: an interrupted demo leaves no item there that waits for nobody."""
        try:
            for item in self.service.items(ItemFilter(project=self.project, limit=1_000)):
                self.service.cancel(item.id, why="the demo was stopped", force=True)
        except InterlockError:
            return  # the way out must not hide why we leave

    @property
    def _shared(self) -> bool:
        return self._given_url is not None

    # -- names ------------------------------------------------------------------------------------

    def agent(self, name: str) -> str:
        """An agent's name in the store."""
        return name + self._suffix if name else ""

    def shown(self, agent: str | None) -> str:
        """An agent's name on the screen."""
        return (agent or "").removesuffix(self._suffix) or "anyone"

    def shown_lane(self, lane: str | None) -> str:
        """A lane's name on the screen."""
        return (lane or "").replace(self.repository, "acme/app")

    def lane(self, kind: str, name: str) -> str:
        return f"{kind}:{self.repository}{'#' if kind == 'issue' else '/'}{name}"

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._began_s

    # -- acting -----------------------------------------------------------------------------------

    def start(self, name: str, *, label: str | None = None, kind: str | None = None) -> None:
        self.crew.start(name, self.agent(name), label=label, kind=kind)

    def add(
        self,
        title: str,
        *,
        lane: str,
        message: str,
        work: tuple[float, ...] = (1.5,),
        agent: str = "",
        policy: Policy = Policy.QUEUE,
        priority: int = 0,
        failures: int = 0,
        kind: str = "demo",
    ) -> int:
        """Add an item; `work` says how long its attempts take, at the usual pace. Gives the arrival's id."""
        spans_s = [round(span * self.pace, 3) for span in work]
        new = NewItem(
            title=title,
            project=self.project,
            type=kind,
            labels=(self.project,),
            agent=self.agent(agent),
            lane=lane,
            policy=policy,
            priority=priority,
            payload=json.dumps({"work_s": spans_s, "failures": failures}),
            message=message,
            author=AUTHOR,
            max_attempts=10,
        )
        arrival = self.service.add([new])[0].arrival
        assert arrival is not None  # none of the scenes uses the policy `reject`
        self.notes.inputs.append(Input(item=arrival, text=message))
        self.turn()
        return arrival

    def kill(self, agent: AgentProcess) -> Blow:
        """kill -9 in mid-run. Nobody tells the store that the run is over."""
        item, run = agent.item, agent.run
        assert item is not None and run is not None
        agent.kill()
        blow = self._blow(self.service, agent, item, run, f"{agent.name} was killed while it worked on this.")
        self._act(agent, "kill -9", "is dead, and nobody tells Interlock.")
        return blow

    def stop(self, agent: AgentProcess) -> Blow:
        """SIGSTOP in mid-run.

        Whoever stops a process may catch it inside a write to an embedded database, which then is locked for
        all. So the note that follows is also a test: if it cannot be written, the process goes on for a
        moment and is stopped again.
        """
        item, run = agent.item, agent.run
        assert item is not None and run is not None
        probe = app.open_service(settings=replace(self._settings, busy_timeout_s=PROBE_BUSY_S))
        text = f"{agent.name} was paused while it worked on this."
        try:
            while True:
                agent.stop()
                try:
                    blow = self._blow(probe, agent, item, run, text)
                    break
                except StoreBusy:
                    agent.resume()
                    time.sleep(LISTEN_S)
        finally:
            probe.close()
        self._act(agent, "SIGSTOP", "is paused and knows nothing of it.")
        return blow

    def _blow(self, service: Service, agent: AgentProcess, item: int, run: int, text: str) -> Blow:
        n = service.msg(item, text, author=AUTHOR).n
        assert n is not None
        self.notes.inputs.append(Input(item=item, text=text))
        return Blow(agent=agent.name, item=item, run=run, note=n)

    def resume(self, agent: AgentProcess) -> None:
        """SIGCONT. What it waited for has come meanwhile, so its next act is to report success."""
        agent.finish(blindly=True)
        self._act(agent, "SIGCONT", "wakes up and reports success …")
        agent.resume()

    def show(self, headline: str, narration: str) -> None:
        """Begin a scene."""
        self.scene += 1
        self.headline = headline
        self.screen.said(self, f"{self.scene}/{self.scenes}  {headline}", Saying.SCENE)
        self.narrate(narration)

    def narrate(self, text: str, *, alarm: bool = False, kind: Saying = Saying.REMARK) -> None:
        """Say what is to be seen now."""
        self.narration, self.alarm = text, alarm
        self.screen.said(self, text, kind)
        self.turn()

    def _act(self, agent: AgentProcess, what: str, then: str) -> None:
        self.narrate(f"{what} {agent.pid}: {agent.name} {then}", alarm=True, kind=Saying.ACT)

    # -- waiting ----------------------------------------------------------------------------------

    def until(self, holds: Callable[[], bool], what: str) -> None:
        """Go on until the events say so."""
        deadline_s = time.monotonic() + PATIENCE_S
        while not holds():
            if time.monotonic() > deadline_s:
                raise Stuck(
                    f"The demo waited {PATIENCE_S:g} s for {what}.",
                    f"The machine may be too busy; try --seconds {min(SECONDS_MAX, 60 * self.pace):g}.",
                )
            self.turn(LISTEN_S)

    def rest(self, span: float) -> None:
        """Give people time to look."""
        end_s = time.monotonic() + span * self.pace
        while (left_s := end_s - time.monotonic()) > 0:
            self.turn(min(left_s, LISTEN_S))

    def turn(self, listen_s: float = 0.0) -> None:
        """One turn of everything: agents, sweeper, events, screen."""
        heard = self.crew.listen(listen_s)
        if (fallen := self.crew.fallen()) is not None:
            raise Stuck(f"The agent {fallen.name} ended by itself.", self.crew.log.read_text()[-500:].strip())
        if time.monotonic() - self._swept_s >= SWEEP_EVERY_S:
            self._sweep()
        for event in self.history.read():
            self.screen.happened(self, event)
        for agent, fact in heard:
            self._hear(agent, fact)
        self.screen.refresh(self)

    def _sweep(self) -> None:
        before_s, self._swept_s = self._swept_s, time.monotonic()
        self.service.sweep()
        self.notes.sweep_gap_s = max(self.notes.sweep_gap_s, time.monotonic() - before_s)

    def _hear(self, agent: AgentProcess, fact: Mapping[str, Any]) -> None:
        match fact["state"]:
            case "finishing":
                self.notes.offered[fact["nonce"]] = fact["run"]
            case "acknowledged":
                self.notes.acknowledged[fact["nonce"]] = fact["run"]
            case "refused":
                self.screen.said(self, f"{agent.name} was told: {fact['sentence']}", Saying.ACT)
            case _:
                pass  # the agent keeps its own state


def _environ(url: str, pace: float, lease_s: float) -> dict[str, str]:
    """The environment of the demo and its agents: none of the user's own settings, short spans."""
    rest = {name: value for name, value in os.environ.items() if not name.startswith("INTERLOCK_")}
    return {
        **rest,
        "INTERLOCK_URL": url,
        "INTERLOCK_LEASE_S": f"{lease_s:g}",
        "INTERLOCK_BACK_OFF_FIRST_S": f"{1.2 * pace:g}",
        "INTERLOCK_BACK_OFF_MAX_S": "60",
    }

"""The demo on a terminal: a headline, lanes, agents and the events as they come; or plain lines elsewhere."""

from __future__ import annotations

import time
from collections import deque
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

from rich import box
from rich.console import Console, Group, RenderableType
from rich.layout import Layout
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from interlock.demo import words
from interlock.demo.processes import AgentProcess
from interlock.demo.scenes import LANES
from interlock.demo.stage import Saying, Stage
from interlock.service.contract import EventView
from interlock.service.itemview import ItemView

#: Below this the picture is no help, and plain lines are printed.
WIDTH_MIN, HEIGHT_MIN = 72, 22
WIDE = 110
_FRAME_EVERY_S = 0.125
_LINES_KEPT = 200
_FRAME = "bright_black"

_SAID = {Saying.SCENE: "bold cyan", Saying.ACT: "bold yellow", Saying.REMARK: "italic"}
_STATES = {
    "starting": ("·", "bright_black", "starting"),
    "idle": ("○", "bright_black", "idle"),
    "working": ("●", "green", ""),
    "finishing": ("●", "green", "reporting"),
    "acknowledged": ("✓", "bold green", "done"),
    "released": ("○", "magenta", "gave it back"),
    "refused": ("✗", "bold white on red", "REFUSED"),
    "killed": ("✝", "bold red", "killed -9"),
    "stopped": ("‖", "bold yellow", "paused"),
}


class Silent:
    """Shows nothing: only the facts at the end are wanted."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return

    def happened(self, stage: Stage, event: EventView) -> None:
        """Another event."""

    def said(self, stage: Stage, text: str, kind: Saying) -> None:
        """The demo comments on what it does."""

    def refresh(self, stage: Stage) -> None:
        """Time has passed."""


class Lines(Silent):
    """One line for each thing, with the seconds since the start: for files, pipes and small terminals."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def happened(self, stage: Stage, event: EventView) -> None:
        style, text = words.line(stage, event)
        self._print(stage, Text(f"  {text}", style=style))

    def said(self, stage: Stage, text: str, kind: Saying) -> None:
        self._print(stage, Text(text, style=_SAID[kind]))

    def _print(self, stage: Stage, text: Text) -> None:
        clock = (f"{stage.elapsed_s:5.1f} s  ", words.QUIET)
        self._console.print(Text.assemble(clock, text), soft_wrap=True)


class Picture(Silent):
    """The whole terminal, drawn some times a second."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, screen=True, auto_refresh=False, transient=True)
        self._lines: deque[Text] = deque(maxlen=_LINES_KEPT)
        self._drawn_s = 0.0
        #: How far the store's clock is ahead of ours; the smallest gap seen is the truest.
        self._ahead_s: float | None = None

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.__exit__(kind, error, trace)

    def happened(self, stage: Stage, event: EventView) -> None:
        ahead_s = event.at.timestamp() - time.time()
        self._ahead_s = ahead_s if self._ahead_s is None else max(self._ahead_s, ahead_s)
        style, text = words.line(stage, event)
        self._append(stage, Text(f" {text} " if style == words.LOUD else text, style=style))

    def said(self, stage: Stage, text: str, kind: Saying) -> None:
        if kind is not Saying.REMARK:  # that stands in the headline
            self._append(stage, Text(text, style=_SAID[kind]))

    def _append(self, stage: Stage, text: Text) -> None:
        clock = (f"{stage.elapsed_s:5.1f}  ", words.QUIET)
        self._lines.append(Text.assemble(clock, text, no_wrap=True, overflow="ellipsis"))

    def refresh(self, stage: Stage) -> None:
        if time.monotonic() - self._drawn_s < _FRAME_EVERY_S:
            return
        self._live.update(self._draw(stage), refresh=True)
        self._drawn_s = time.monotonic()

    # -- drawing ----------------------------------------------------------------------------------

    def _draw(self, stage: Stage) -> RenderableType:
        width, height = self._console.width, self._console.height
        stage.history.look()
        rows = max(len(LANES), len(stage.crew.agents)) + 3
        agents_width = 40 if width >= WIDE else 32
        layout = Layout()
        layout.split_column(
            Layout(self._head(stage), size=4),
            Layout(name="now", size=rows),
            Layout(self._stream(height - 4 - rows)),
        )
        layout["now"].split_row(
            Layout(self._lanes(stage, wide=width >= WIDE)), Layout(self._agents(stage), size=agents_width)
        )
        return layout

    def _head(self, stage: Stage) -> RenderableType:
        style = "bold red" if stage.alarm else "cyan"
        progress = Text()
        for number in range(1, stage.scenes + 1):
            past, now = number < stage.scene, number == stage.scene
            progress.append(
                "● " if past or now else "○ ", "green" if past else "bold cyan" if now else _FRAME
            )
        progress.append(f" {stage.elapsed_s:3.0f} s", _FRAME)
        top = Table.grid(expand=True)
        top.add_column(ratio=1)
        top.add_column(justify="right", no_wrap=True)
        top.add_row(Text(stage.headline, style="bold", no_wrap=True, overflow="ellipsis"), progress)
        said = Text(stage.narration, style=style, no_wrap=True, overflow="ellipsis")
        return _panel(Group(top, said), Text("interlock demo", style="bold " + style), border=style)

    def _lanes(self, stage: Stage, *, wide: bool) -> RenderableType:
        table = _columns()
        table.add_column("lane", no_wrap=True, width=27 if wide else 11)
        table.add_column("held by", no_wrap=True, width=7)
        table.add_column("lease", no_wrap=True, width=16 if wide else 11)
        table.add_column("line", no_wrap=True, overflow="ellipsis", ratio=1)
        for kind, name in LANES:
            lane = stage.lane(kind, name)
            label = stage.shown_lane(lane) if wide else words.place(stage, lane)
            table.add_row(*self._lane(stage, lane, label, wide=wide))
        return _panel(table, f"lanes, leases of {stage.lease_s:g} s")

    def _lane(self, stage: Stage, lane: str, label: str, *, wide: bool) -> tuple[Text, Text, Text, Text]:
        items = [i for i in stage.history.items.values() if i.lane == lane]
        owner = next((i for i in items if i.status in ("pending", "in_progress")), None)
        if owner is None:
            return Text(label, style=_FRAME), Text("free", style=_FRAME), Text(), _last(stage, items, lane)
        behind = Text()
        if owner.messages > 1:
            behind.append(f"{owner.messages} {'messages' if wide else 'msg'} ", style="blue")
        if line := [stage.shown(i.agent) for i in items if i.status == "deferred"]:
            behind.append("← " + ", ".join(line), style="yellow")
        if owner.run is None:
            return Text(label, style="bold"), Text(stage.shown(owner.agent)), Text("to start", "cyan"), behind
        return Text(label, style="bold"), _holder(stage, owner), self._lease(stage, owner, wide=wide), behind

    def _lease(self, stage: Stage, item: ItemView, *, wide: bool) -> Text:
        """How much of the lease is left, as the store's clock has it."""
        if item.expires_at is None:
            return Text()
        bar = 10 if wide else 5
        now_s = datetime.now(UTC).timestamp() + (self._ahead_s or 0.0)
        left_s = max(item.expires_at.timestamp() - now_s, 0.0)
        share = min(left_s / stage.lease_s, 1.0)
        full = round(share * bar)
        style = "green" if share > 0.5 else "yellow" if share > 0.25 else "bold red"
        return Text.assemble(("━" * full, style), ("─" * (bar - full), _FRAME), (f" {left_s:.1f} s", style))

    def _agents(self, stage: Stage) -> RenderableType:
        table = _columns()
        table.add_column("agent", no_wrap=True, width=6)
        table.add_column("", width=1)
        table.add_column("does", no_wrap=True, overflow="ellipsis", ratio=1)
        for agent in stage.crew.agents:
            table.add_row(*_agent(stage, agent))
        return _panel(table, f"agents, {len(stage.crew.agents)} processes")

    def _stream(self, height: int) -> RenderableType:
        return _panel(Group(*list(self._lines)[-max(height - 2, 1) :]), "what happens")


def _panel(content: RenderableType, title: Text | str, border: str = _FRAME) -> Panel:
    return Panel(content, title=title, title_align="left", box=box.ROUNDED, border_style=border)


def _columns() -> Table:
    return Table(box=None, expand=True, pad_edge=False, padding=(0, 1, 0, 0), header_style=_FRAME)


def _last(stage: Stage, items: list[ItemView], lane: str) -> Text:
    """What a free lane remembers: who comes back to it, or who had it last."""
    if parked := [i for i in items if i.status == "waiting"]:
        return Text(f"{stage.shown(parked[0].agent)} retries", style="blue")
    runs = [run for run in stage.history.runs.values() if run.lane == lane and run.how == "succeeded"]
    return Text(f"✓ {stage.shown(runs[-1].agent)}" if runs else "", style=_FRAME)


def _holder(stage: Stage, owner: ItemView) -> Text:
    name = stage.shown(owner.run_agent)
    process = next((a for a in stage.crew.agents if a.name == name and a.run == owner.run), None)
    if process is not None and process.state in ("killed", "stopped"):
        glyph, style, _ = _STATES[process.state]
        return Text(f"{name} {glyph}", style=style)
    return Text(name, style="bold green")


def _agent(stage: Stage, agent: AgentProcess) -> tuple[Text, Text, Text]:
    glyph, style, said = _STATES[agent.state]
    item = stage.history.items.get(agent.item or 0)
    if agent.state == "idle":
        said, style = _waiting(stage, agent) or (said, style)
    elif item is not None and agent.state in ("working", "stopped", "finishing", "killed"):
        said = f"{said or agent.doing} {words.place(stage, item.lane)}"
    name = Text(agent.label, style="bold" if agent.alive else style)
    return name, Text(glyph, style=style), Text(said, style=style)


def _waiting(stage: Stage, agent: AgentProcess) -> tuple[str, str] | None:
    """Why an idle agent is idle, where there is work for it."""
    mine = [i for i in stage.history.items.values() if i.agent == stage.agent(agent.name)]
    if any(i.status == "pending" for i in mine) and any(i.status == "in_progress" for i in mine):
        return "at its limit", "yellow"
    deferred = next((i for i in mine if i.status == "deferred"), None)
    return (f"waits for {words.place(stage, deferred.lane)}", "yellow") if deferred else None

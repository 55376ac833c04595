"""The demo's output: on a terminal a headline, lanes, agents and live events; elsewhere plain lines."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console, Group, RenderableType
from rich.layout import Layout
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from interlock.demo import words
from interlock.demo.processes import AgentProcess
from interlock.demo.scenes import PLACES
from interlock.demo.stage import REMARK, Stage
from interlock.demo.words import QUIET
from interlock.proof.checker import LoggedEvent
from interlock.service.item_view import ItemView

#: A smaller terminal gets plain lines.
WIDTH_MIN, HEIGHT_MIN = 72, 22
_FRAME_EVERY_S = 0.125
_LINES_KEPT = 200

#: An agent's state as a sign, a style and a word.
_STATES = {
    "starting": ("·", QUIET, "starting"),
    "idle": ("○", QUIET, "idle"),
    "working": ("●", "green", ""),
    "finishing": ("●", "green", "reporting"),
    "acknowledged": ("✓", "bold green", "done"),
    "released": ("○", "magenta", "gave it back"),
    "refused": ("✗", words.LOUD, "REFUSED"),
    "killed": ("✝", "bold red", "killed -9"),
    "stopped": ("‖", "bold yellow", "paused"),
}


class Silent:
    """Shows nothing, because only the JSON at the end is wanted."""

    def event(self, stage: Stage, line: LoggedEvent) -> None:
        """Show an event of the store."""
        style, text = words.sentence(stage, line)
        self.line(stage, f"  {text}", style)

    def line(self, stage: Stage, text: str, style: str) -> None:
        """Show a line from the demo itself: a new scene, an action, or a remark."""

    def refresh(self, stage: Stage) -> None:
        """Redraw after time has passed."""


class Lines(Silent):
    """One line for each event, with the seconds since the start: for files, pipes and small terminals."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def line(self, stage: Stage, text: str, style: str) -> None:
        clock = (f"{stage.elapsed_s:5.1f} s  ", QUIET)
        self._console.print(Text.assemble(clock, (text, style)), soft_wrap=True)


class Picture(Silent):
    """The whole terminal, drawn several times a second. Remarks are in its headline."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._lines: deque[Text] = deque(maxlen=_LINES_KEPT)
        self._drawn_s = 0.0
        #: How far the store's clock is ahead of ours. The greatest observed value is the most accurate.
        self._ahead_s = float("-inf")

    def event(self, stage: Stage, line: LoggedEvent) -> None:
        self._ahead_s = max(self._ahead_s, line.at_us / 1e6 - time.time())
        super().event(stage, line)

    def line(self, stage: Stage, text: str, style: str) -> None:
        if style != REMARK:
            self._lines.append(_one_line(Text.assemble((f"{stage.elapsed_s:5.1f}  ", QUIET), (text, style))))

    def refresh(self, stage: Stage) -> None:
        if time.monotonic() - self._drawn_s < _FRAME_EVERY_S:
            return
        self._live.update(self._draw(stage), refresh=True)
        self._drawn_s = time.monotonic()

    # -- drawing ----------------------------------------------------------------------------------

    def _draw(self, stage: Stage) -> RenderableType:
        stage.look()
        head_rows, now_rows = 4, max(len(PLACES), len(stage.crew.agents)) + 3
        stream_rows = max(self._live.console.height - head_rows - now_rows - 2, 1)
        now = Layout(size=now_rows)
        now.split_row(Layout(self._lanes(stage), ratio=3), Layout(_agents(stage), ratio=2))
        layout = Layout()
        layout.split_column(
            Layout(_head(stage), size=head_rows),
            now,
            Layout(_panel(Group(*list(self._lines)[-stream_rows:]), "what happens")),
        )
        return layout

    def _lanes(self, stage: Stage) -> Panel:
        table = _table("lane", "held by", "lease", "", "line")
        table.columns[2].min_width, table.columns[-1].ratio = 8, 1
        for place in PLACES:
            table.add_row(place, *self._lane(stage, place))
        return _panel(table, f"lanes, leases of {stage.lease_s:g} s")

    def _lane(self, stage: Stage, place: str) -> list[RenderableType]:
        items = [i for i in stage.items.values() if stage.place(i.lane) == place]
        owner = next((i for i in items if i.status in ("pending", "in_progress")), None)
        if owner is None:
            return [Text("free", style=QUIET), "", "", _last(stage, items)]
        behind = Text(f"{owner.messages} msg " if owner.messages > 1 else "", style="blue")
        if waiting := [stage.shown(i.agent) for i in items if i.status == "deferred"]:
            behind.append("← " + ", ".join(waiting), style="yellow")
        if owner.run is None or owner.expires_at is None:
            return [stage.shown(owner.agent), Text("to start", "cyan"), "", behind]
        left_s = max(owner.expires_at.timestamp() - time.time() - self._ahead_s, 0.0)
        share = left_s / stage.lease_s
        style = "green" if share > 0.5 else "yellow" if share > 0.25 else "bold red"
        bar = ProgressBar(total=1.0, completed=share, width=8, complete_style=style, finished_style=style)
        return [_holder(stage, owner), bar, Text(f"{left_s:.1f} s", style=style), behind]


@contextmanager
def open_screen(console: Console, *, silent: bool) -> Iterator[Silent]:
    """The picture if it fits, else lines; nothing if only JSON is wanted."""
    small = console.width < WIDTH_MIN or console.height < HEIGHT_MIN
    if silent:
        yield Silent()
    elif small or not sys.stdout.isatty() or console.is_dumb_terminal:
        yield Lines(console)
    else:
        with Live(console=console, screen=True, auto_refresh=False, transient=True) as live:
            yield Picture(live)


def _head(stage: Stage) -> Panel:
    style = "bold red" if stage.alarm else "cyan"
    top = Table.grid(expand=True)
    top.add_column(ratio=1)
    top.add_column(justify="right", no_wrap=True)
    done, left = "● " * stage.scene, "○ " * (stage.scenes - stage.scene)
    progress = Text.assemble((done, "green"), (f"{left} {stage.elapsed_s:3.0f} s", QUIET))
    top.add_row(_one_line(Text(stage.headline, style="bold")), progress)
    return _panel(Group(top, _one_line(Text(stage.narration, style=style))), "interlock demo", style)


def _agents(stage: Stage) -> Panel:
    table = _table("agent", "", "does")
    table.columns[-1].ratio = 1
    for agent in stage.crew.agents:
        sign, style, does = _STATES[agent.state]
        item = stage.items.get(agent.item or 0)
        if agent.state == "idle":
            does, style = _why_idle(stage, agent) or (does, style)
        elif item is not None and agent.state in ("working", "stopped", "finishing", "killed"):
            does = f"{does or agent.doing} {stage.place(item.lane)}"
        table.add_row(Text(agent.label, style="bold"), Text(sign, style=style), Text(does, style=style))
    return _panel(table, f"agents, {len(stage.crew.agents)} processes")


def _panel(content: RenderableType, title: str, border: str = QUIET) -> Panel:
    return Panel(content, title=title, title_align="left", border_style=border)


def _table(*columns: str) -> Table:
    table = Table(box=None, expand=True, pad_edge=False, padding=(0, 1, 0, 0), header_style=QUIET)
    for column in columns:
        table.add_column(column, no_wrap=True, overflow="ellipsis")
    return table


def _one_line(text: Text) -> Text:
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def _last(stage: Stage, items: list[ItemView]) -> Text:
    """The note on a free lane: the item that returns to it, or its last holder."""
    if parked := [i for i in items if i.status == "waiting"]:
        return Text(f"{stage.shown(parked[0].agent)} retries", style="blue")
    ids = {item.id for item in items}
    runs = [r for r in stage.history.runs.values() if r.item in ids and r.outcome == "succeeded"]
    return Text(f"✓ {stage.shown(runs[-1].agent)}" if runs else "", style=QUIET)


def _holder(stage: Stage, owner: ItemView) -> Text:
    name = stage.shown(owner.run_agent)
    process = next((a for a in stage.crew.agents if a.run == owner.run), None)
    if process is not None and process.state in ("killed", "stopped"):
        sign, style, _ = _STATES[process.state]
        return Text(f"{name} {sign}", style=style)
    return Text(name, style="bold green")


def _why_idle(stage: Stage, agent: AgentProcess) -> tuple[str, str] | None:
    """Why an agent is idle although there is work for it."""
    mine = [i for i in stage.items.values() if i.agent == stage.agent(agent.name)]
    if {"pending", "in_progress"} <= {i.status for i in mine}:
        return "at its limit", "yellow"
    deferred = next((i for i in mine if i.status == "deferred"), None)
    return (f"waits for {stage.place(deferred.lane)}", "yellow") if deferred else None

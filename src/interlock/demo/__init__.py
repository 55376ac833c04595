"""`interlock demo`: half a minute of real agent processes on one store, and a check of what happened.

Nothing is faked. The agents are processes of their own, the signals are real, and every number at the end
comes from the store's events.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from interlock.service.contract import to_json

if TYPE_CHECKING:
    from rich.console import Console

    from interlock.demo.screen import Silent

_INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Show Interlock at work. 0 if every check holds, 1 if one is broken, 130 if it was interrupted."""
    options = _parser().parse_args(argv)
    with _ending_by_signal():
        try:
            return _run(options)
        except KeyboardInterrupt:
            sys.stderr.write("Stopped. No agent of the demo is left running.\n")
            return _INTERRUPTED


def _run(options: argparse.Namespace) -> int:
    from interlock.demo import scenes, summary  # noqa: PLC0415  (`interlock --help` must not pay for this)
    from interlock.demo.stage import Stage  # noqa: PLC0415

    console = _console(color=not options.no_color)
    screen = _screen(console, json_wanted=options.json)
    stage = Stage(seconds=options.seconds, url=options.url, keep=options.keep, screen=screen)
    with stage, screen:
        outcome = summary.outcome(stage, scenes.play(stage))
    if options.json:
        sys.stdout.write(json.dumps(to_json(outcome), ensure_ascii=False) + "\n")
        sys.stdout.flush()
    else:
        summary.write(console, outcome)
    return 0 if outcome.ok else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="interlock demo", description="Show Interlock at work: real processes, crashes among them."
    )
    parser.add_argument("--seconds", type=float, default=30.0, help="about how long (default 30)")
    parser.add_argument("--url", help="a store to use instead of a throw-away SQLite file")
    parser.add_argument("--keep", action="store_true", help="keep the SQLite file, to look at it afterwards")
    parser.add_argument("--json", action="store_true", help="print only the outcome, as JSON")
    parser.add_argument("--no-color", action="store_true", help="no colours")
    return parser


def _console(*, color: bool) -> Console:
    from rich.console import Console  # noqa: PLC0415

    return Console(no_color=True if not color else None, highlight=False, markup=False, emoji=False)


def _screen(console: Console, *, json_wanted: bool) -> Silent:
    from interlock.demo import screen  # noqa: PLC0415

    if json_wanted:
        return screen.Silent()
    small = console.width < screen.WIDTH_MIN or console.height < screen.HEIGHT_MIN
    if not sys.stdout.isatty() or console.is_dumb_terminal or small:
        return screen.Lines(console)
    return screen.Picture(console)


@contextmanager
def _ending_by_signal() -> Iterator[None]:
    """The first signal that asks for an end interrupts the demo; later ones do not disturb its end."""
    asked = False

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        nonlocal asked
        if not asked:
            asked = True
            raise KeyboardInterrupt

    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, interrupt) for number in signals]
    try:
        yield
    finally:
        for number, handler in zip(signals, before, strict=True):
            signal.signal(number, handler)

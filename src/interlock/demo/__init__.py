"""`interlock demo`: half a minute of real agent processes on one store, and a check of the results.

Nothing is faked. The agents are separate processes, the signals are real, and every number at the end comes
from the store's events.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from rich.console import Console

from interlock.core.errors import Exit
from interlock.demo import scenes, summary
from interlock.demo.screen import open_screen
from interlock.demo.stage import ENDING_SIGNALS, open_stage
from interlock.service.contract import to_json

_INTERRUPTED = 130


def show(*, seconds: float, url: str | None, keep: bool, as_json: bool, color: bool) -> int:
    """Play and check all scenes. Returns 0 if every check holds, 1 if one fails, 130 if interrupted."""
    console = Console(no_color=None if color else True, highlight=False, markup=False, emoji=False)
    with interrupted_once():
        try:
            with (
                open_screen(console, silent=as_json) as screen,
                open_stage(length_s=seconds, url=url, keep=keep, screen=screen) as stage,
            ):
                found, story = summary.conclude(stage, scenes.play(stage))
        except KeyboardInterrupt:
            sys.stderr.write("Stopped. No agent of the demo is left running.\n")
            return _INTERRUPTED
    if as_json:
        sys.stdout.write(json.dumps(to_json(found), ensure_ascii=False) + "\n")
        sys.stdout.flush()
    else:
        summary.write(console, found, story)
    return Exit.OK if found["ok"] else Exit.ERROR


@contextmanager
def interrupted_once() -> Iterator[None]:
    """The first ending signal interrupts the demo. Later ones are ignored while it cleans up."""
    asked = False

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        nonlocal asked
        if not asked:
            asked = True
            raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in ENDING_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

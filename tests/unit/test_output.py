"""What `--json` prints is JSON, also of what was kept before such numbers were refused; frames are seen."""

import io
import json

import pytest
from rich.console import Console

from interlock.cli.output import Output
from interlock.cli.views.live import redraw
from interlock.core.store_outage import StoreOutage


def test_infinities_and_nan_are_printed_as_null(capsys: pytest.CaptureFixture[str]) -> None:
    Output().print_json({"a": [float("inf"), {"b": float("nan")}], "c": 1.5})
    assert json.loads(capsys.readouterr().out) == {"a": [None, {"b": None}], "c": 1.5}


def test_frames_follow_each_other_on_a_terminal_that_cannot_be_drawn_over() -> None:
    printed = io.StringIO()
    console = Console(file=printed, force_terminal=True, _environ={"TERM": "dumb"})
    frames = iter(["one", "two", None])
    redraw(console, lambda: next(frames), 0.0, StoreOutage())
    assert printed.getvalue() == "one\ntwo\n"

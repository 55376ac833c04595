"""What people see fits their terminal: nothing collapses, nothing new is cut off, failures are red."""

import io
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.text import Text

from interlock.cli.views import history, items, live, words
from interlock.service.contract import EndedRunView, EventView

ERROR = "Traceback (most recent call last):\n  File x\nValueError: the token was refused, its key is older\n"


def printed(width: int, *, color: bool = False) -> tuple[Console, io.StringIO]:
    out = io.StringIO()
    console = Console(
        file=out,
        width=width,
        color_system="standard" if color else None,
        force_terminal=color,
        highlight=False,
    )
    return console, out


def run(**more: object) -> EndedRunView:
    known = {"run": 7, "attempt": 1, "status": "failed", "agent": "an-agent-whose-name-is-rather-long" * 2}
    now = datetime.now(UTC)
    times = {"started_at": now - timedelta(minutes=3), "ended_at": now}
    given: dict[str, object] = {"worker": None, "reason": "reported", "result": None, "error": ERROR}
    wanted = {**given, **known, **times, **more}
    return EndedRunView(**{name: value for name, value in wanted.items() if name in EndedRunView.PARTS})  # type: ignore[arg-type]


def event(seq: int, kind: str = "run.failed", **data: object) -> EventView:
    known: dict[str, object] = {
        "seq": seq,
        "at": datetime.now(UTC),
        "kind": kind,
        "project": "default",
        "item": 1,
    }
    rest: dict[str, object] = {"run": 3, "lane": "issue:acme/app#42", "agent": "coder", "reason": "reported"}
    wanted = {**known, **rest, "data": data, "span_s": None}
    return EventView(**{name: value for name, value in wanted.items() if name in EventView.PARTS})  # type: ignore[arg-type]


@pytest.mark.parametrize("width", [80, 100, 120])
def test_the_runs_of_an_item_never_collapse(width: int) -> None:
    console, out = printed(width)
    items._runs(console, [run(), run(run=8, status="succeeded", error=None, result={"files": 3})])
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    assert lines[0].split() == ["RUN", "TRY", "STATUS", "AGENT", "STARTED", "TOOK"]
    assert lines[1].endswith("3 min ago  3 min")
    assert "ValueError: the token was refused, its key is older" in lines[2]
    assert "and 2 lines before it" in lines[3]
    assert '{"files": 3}' in lines[5]


def test_failures_are_red() -> None:
    console, out = printed(80, color=True)
    items._runs(console, [run()])
    history.line(console, event(1))
    red = [line for line in out.getvalue().splitlines() if "\x1b[1;31m" in line or "\x1b[31m" in line]
    assert len(red) == 3, "the run's status, its error, and the event"


def test_an_event_is_cut_at_a_word() -> None:
    told = event(1, error="it was refused by the server")
    shown = [history.text(told, width=width).plain for width in (80, 110)]
    assert shown[0].endswith(" · issue:acme/app#42…")
    assert shown[1].endswith(" error=it was…")
    assert history.text(event(1), width=200).plain.endswith("issue:acme/app#42 · reported")
    assert words.shorten_at_word(Text("x" * 100), 10).plain == "x" * 9 + "…"


def test_rates_have_one_unit_and_what_is_set_is_not_rounded() -> None:
    assert words.rates(2.0, 0.05) == ["120.0/min", "3.0/min"]
    assert words.rates(2.0, 0.0) == ["2.0/s", "0.0/s"]
    assert words.rates(0.0005, 0.5) == ["1.8/h", "1800.0/h"]
    assert [words.exactly(s) for s in (1.5, 90, 150, 3_600, 5_400, 259_200)] == [
        *("1.5 s", "90 s", "150 s", "1 h", "90 min", "3 d")
    ]


@given(st.lists(st.integers(0, 60), min_size=4, max_size=4), st.integers(20, 60))
def test_the_parts_of_top_fit_and_the_newest_events_are_among_them(needs: list[int], room: int) -> None:
    given_rows = live.shares(needs, room)
    headers = sum(1 for rows in given_rows[:-1] if rows)
    assert sum(given_rows) + headers + 2 * len(needs) <= room
    assert given_rows[-1] >= min(needs[-1], 3)
    assert all(0 <= rows <= need for rows, need in zip(given_rows, needs, strict=True))
    if sum(given_rows) < sum(needs):
        assert sum(given_rows) + headers + 2 * len(needs) >= room - 1, "no room is wasted"

"""What people see fits their terminal: nothing collapses, nothing new is cut off, failures are red."""

import io
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from interlock.cli.page import Text
from interlock.cli.views import agents, figures, history, items, live, plans, words, workers
from interlock.service.contract import AgentView, EndedRunView, EventView, GroupView, WorkerView
from interlock.service.plan_view import PlanSummary

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
    items._runs(console, [run(), run(run=8, status="succeeded", error=None, result={"files": 3})], 5)
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    assert lines[0].split() == ["RUN", "TRY", "STATUS", "AGENT", "STARTED", "TOOK"]
    assert lines[1].endswith("3 min ago  3 min")
    assert "ValueError: the token was refused, its key is older" in lines[2]
    assert "2 lines come before it; all of them: interlock --json show 5" in lines[3]
    assert '{"files": 3}' in lines[5]


def test_failures_are_red() -> None:
    console, out = printed(80, color=True)
    items._runs(console, [run()], 5)
    history.line(console, event(1))
    red = [line for line in out.getvalue().splitlines() if "\x1b[1;31m" in line or "\x1b[31m" in line]
    assert len(red) == 3, "the run's status, its error, and the event"


@pytest.mark.parametrize("width", [80, 120])
def test_no_part_of_an_event_is_cut_from_a_history(width: int) -> None:
    console, out = printed(width)
    told = event(
        1_234, "question.answered", by="ann", why="the release of Friday needs the old endpoint as well"
    )
    history.listing(console, [told, event(1_235)], filtered=False)
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    said = " ".join(out.getvalue().split())
    assert "item 1 · run 3 · coder · reported · issue:acme/app#42 by=ann why=the release of Friday" in said
    assert "needs the old endpoint as well 1235 " in said
    begins = [line.index("item 1") for line in lines if "item 1" in line]
    assert begins == [begins[0]] * 2, "the longest name of an event does not move the others"
    assert all(line.startswith(" " * begins[0]) for line in lines if "item 1" not in line)


def test_an_event_with_a_page_of_text_takes_four_lines() -> None:
    console, out = printed(80)
    history.line(console, event(1, error="a word and another\n" * 200))
    lines = out.getvalue().splitlines()
    assert len(lines) == 4
    assert lines[-1].endswith("…")


def test_where_an_event_has_one_line_it_is_cut_at_a_word_and_the_lane_goes_first() -> None:
    told = event(1, error="it was refused by the server")
    shown = [history.text(told, width=width).plain for width in (80, 120)]
    assert shown[0].endswith(" · coder · reported…")
    assert shown[1].endswith(" error=it was refused by the…")
    assert history.text(event(1), width=200).plain.endswith("reported · issue:acme/app#42")
    assert words.shorten_at_word(Text("x" * 100), 10).plain == "x" * 9 + "…"


def agent(name: str, **more: object) -> AgentView:
    known: dict[str, object] = dict.fromkeys(AgentView.PARTS) | {"name": name, "key": name, "running": 1}
    known["overtake_after_s"] = 60.0
    return AgentView(**{**known, "pending": 2, "types": (), "labels": (), "paused": False, **more})  # type: ignore[arg-type]


@pytest.mark.parametrize("width", [80, 120])
def test_agents_fit_whatever_holds_them_back(width: int) -> None:
    now = datetime.now(UTC)
    why = "the quota of the provider is used up, and nobody knows when there is more of it"
    found = [
        agent(
            "reviewer-of-the-frontend",
            types=("issue_triage", "pr_review", "build_failure"),
            pool="gpus",
            max=3,
            overtake_after_s=300.0,
        ),
        agent("coder", walled_until=now + timedelta(hours=6), wall_reason=why, last_seen_at=now),
        agent("tester", paused=True, paused_reason=why, last_seen_at=now - timedelta(minutes=4.5)),
    ]
    console, out = printed(width)
    agents.agents(console, found)
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    assert lines[0].split() == ["AGENT", "RUNS", "PENDING", "POOL", "TYPES", "LABELS", "LAST", "CLAIM"]
    said = " ".join(out.getvalue().split())
    assert all(word in said for word in ("reviewer-of-the-fro", "1 of 3", "issue_triage", "build_failure"))
    assert "1 min ago" in said, "the store knows the last claim to half a minute, and not better"
    assert "5 min ago" in said
    assert f"(in 6 h): {why}" in said
    assert f"tester is paused: {why}" in said


def test_rates_have_one_unit_and_what_is_set_is_not_rounded() -> None:
    assert words.rates(2.0, 0.05) == ["120.0/min", "3.0/min"]
    assert words.rates(2.0, 0.0) == ["2.0/s", "0.0/s"]
    assert words.rates(0.0005, 0.5) == ["1.8/h", "1800.0/h"]
    assert [words.exactly(s) for s in (1.5, 90, 150, 3_600, 5_400, 259_200)] == [
        *("1.5 s", "90 s", "150 s", "1 h", "90 min", "3 d")
    ]


LONG = "a-name-that-is-so-long-that-nobody-would-type-it-twice"


@pytest.mark.parametrize("width", [80, 120])
def test_no_table_loses_a_column_to_a_long_name(width: int) -> None:
    now, ones = datetime.now(UTC), dict.fromkeys
    plan: Any = {"name": LONG, "status": "running", "paused": True, "editing": True, "created_at": now}
    plan = PlanSummary(**ones(PlanSummary.PARTS, 1) | plan | {"ended_at": None})
    worker: Any = {"host": LONG, "agent": LONG, "pid": 123456, "folder": f"/home/{LONG}", "alive": True}
    worker = WorkerView(**ones(WorkerView.PARTS, 1) | worker | {"since": now, "last_seen_at": now})
    group: Any = {"name": LONG}
    group = GroupView(**ones(GroupView.PARTS, 1) | group)
    shown: list[tuple[int, Callable[[Console], None]]] = [
        (9, lambda to: plans.listing(to, [plan], unfinished=True)),
        (8, lambda to: workers.workers(to, [worker])),
        (7, lambda to: figures._groups(to, "agent", [group])),
    ]
    for headers, show in shown:
        console, out = printed(width)
        show(console)
        lines = out.getvalue().splitlines()
        assert max(map(len, lines)) <= width
        assert len(re.split(r" {2,}", lines[0].strip())) == headers, lines[0]
        assert "…" not in out.getvalue()


@given(st.lists(st.integers(0, 60), min_size=4, max_size=4), st.integers(16, 60), st.booleans())
def test_the_parts_of_top_fit_and_every_part_has_a_row(needs: list[int], room: int, spaced: bool) -> None:
    given_rows = live.shares(needs, room, spaced=spaced)
    used = sum(given_rows) + sum(1 for rows in given_rows[:-1] if rows) + (2 if spaced else 1) * len(needs)
    assert used <= room
    assert all(min(need, 1) <= rows <= need for rows, need in zip(given_rows, needs, strict=True))
    if room >= 19 and not spaced:  # 24 lines, four of them at the top
        assert all(rows >= min(need, 3) for rows, need in zip(given_rows, needs, strict=True))
    if sum(given_rows) < sum(needs):
        assert used >= room - 1, "no room is wasted"

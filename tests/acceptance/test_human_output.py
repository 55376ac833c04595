"""What people see: plain when piped, fitting a narrow terminal, with colours only where wanted."""

import io
import json
import os
import pty
import re
import subprocess
from contextlib import closing

import pytest
from rich.console import Console

from interlock import app
from interlock.cli.page import Text
from interlock.cli.views import arrivals, live
from interlock.core.model import NewItem
from tests.acceptance.command import PROGRAM, Command, CommandHere
from tests.patience import PATIENCE_S

ESCAPE = "\x1b["


def on_terminal(il: Command, *args: str, columns: int = 80, **env: str) -> str:
    """What the command writes to a terminal of that width."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [*PROGRAM, *args],
        cwd=il.directory,
        env=il.environment({"TERM": "xterm-256color", "COLUMNS": str(columns), **env}),
        stdin=slave,
        stdout=slave,
        stderr=slave,
    )
    os.close(slave)
    seen = b""
    try:
        while chunk := os.read(master, 65536):
            seen += chunk
    except OSError:
        pass  # the other end was closed
    os.close(master)
    process.wait(timeout=PATIENCE_S)
    return seen.decode().replace("\r\n", "\n")


@pytest.fixture
def busy(il: Command) -> Command:
    """A store in which something of everything is going on."""
    lane = "issue:enterprise-organisation/monorepo-frontend#4711"
    title = "Fix the login page when the session cookie has expired and nobody notices"
    message, payload = "users see a blank page", {"repository": "acme/app"}
    items = [
        {
            "title": title,
            "lane": lane,
            "agent": "coder",
            "priority": 8,
            "message": message,
            "payload": payload,
        },
        {"title": "Review it", "lane": lane},
        {"title": "Nightly bump", "run_at": "+2h"},
        {"title": "Write the docs"},
    ]
    lines = [json.dumps(item) for item in items]
    il.ok("add", "--batch", "-", stdin="\n".join(lines))
    il.claim("coder", "--worker", "host-1")
    return il


LOOKS = [
    ("ls",),
    ("ls", "--all"),
    ("show", "1"),
    ("why", "2"),
    ("lanes",),
    ("agents",),
    ("events",),
    ("stats",),
    ("doctor",),
]


def test_piped_output_is_plain_and_whole(busy: Command):
    here = CommandHere(busy.directory)
    for args in LOOKS:
        answer = here(*args)
        assert answer.code == 0
        assert ESCAPE not in answer.out
        assert "…" not in answer.out
        assert not re.search(r" +$", answer.out, re.MULTILINE)
    listed = busy("ls").out
    assert "issue:enterprise-organisation/monorepo-frontend#4711" in listed
    assert "and nobody notices" in listed


@pytest.mark.parametrize("columns", [80, 120])
def test_nothing_is_wider_than_the_terminal_and_lanes_keep_their_number(busy: Command, columns: int):
    for args in LOOKS:
        shown = on_terminal(busy, "--no-color", *args, columns=columns)
        assert all(len(line) <= columns for line in shown.splitlines()), shown
    assert "#4711" in on_terminal(busy, "--no-color", "ls", columns=columns)


def test_colours_are_for_terminals_that_want_them(busy: Command):
    assert ESCAPE in on_terminal(busy, "ls")
    assert ESCAPE not in on_terminal(busy, "ls", NO_COLOR="1")
    assert ESCAPE not in on_terminal(busy, "--no-color", "ls")
    assert ESCAPE in on_terminal(busy, "show", "99")
    assert ESCAPE not in on_terminal(busy, "show", "99", "--no-color")


def test_control_characters_of_others_do_not_reach_the_terminal(busy: Command):
    evil = "\x1b[2J\x1b]0;owned\x07\x9b31m\x7f"
    busy.ok("msg", 1, f"line one\nline two {evil}", "--author", f"eve{evil}")
    busy.ok("fail", busy.ok("next", "--agent", "other")["leases"][0]["run"], "--error", evil)
    busy.ok("cancel", 1, "--reason", f"because {evil}")
    here = CommandHere(busy.directory)
    for args in (("show", "1"), ("show", "4"), ("why", "1"), ("events",), ("ls", "--all")):
        assert not set(here(*args).out) & set("\x1b\x07\x9b\x7f"), args
    assert "line two \\x1b[2J" in here("show", "1").out


def test_colours_in_the_output_of_an_agent_are_removed(il: Command):
    printed = r"printf '\033]0;title\007\033[1;31mred\033[0m \033[2Kand \033(Bplain'; sleep 0.6"
    work = ("work", "--agent", "coder", "--limit", "1", "--", "sh", "-c", printed)
    il.ok("add", "a")
    assert " 1 | red and plain\n" in il(*work).out
    il.ok("add", "b")
    table = on_terminal(il, *work, NO_COLOR="1")
    assert "red and plain" in table
    assert "\\x1b" not in table
    assert not re.search(r"\x1b\[[0-9;]*m", table)


def test_answers_say_who_holds_and_what_to_type(busy: Command):
    queued = busy("add", "Third", "--lane", "issue:enterprise-organisation/monorepo-frontend#4711").out
    for word in ("queued", "place 2", "coder", "run 1", "since", "until", "interlock why"):
        assert word in queued
    assert "coder" in busy("why", 2).out
    state, onward, *_ = busy("why", 2).out.splitlines()
    assert state.startswith("Item 2 ")
    assert state.endswith(".")
    assert onward.startswith("  next  ")
    shown = busy("show", 1).out
    for word in ("in_progress", "host-1", "users see a blank page", '"acme/app"', "run.started"):
        assert word in shown


def test_superseding_says_who_was_asked_to_stop_and_until_when(il: Command):
    new = ("--lane", "branch:main", "--agent", "coder", "--policy", "supersede")
    il.ok("add", "First", *new)
    il.claim()
    said = il("add", "Second", *new).out
    assert re.search(
        r"superseding +Item 2 waits for branch:main, place 1 in the line;"
        r" coder \(run 1\) was asked to stop and has until \S.*? \(in 1\d s\)\.",
        said,
    ), said
    assert re.search(r"held by .* asked to stop, has until", said)
    assert "it moves up when run 1 ends\n" in said
    third = il("add", "Third", *new).out
    assert "Item 3 waits for branch:main, place 1 in the line; coder (run 1) was asked to stop" in third


def test_top_prints_one_frame_where_nobody_watches_and_ends_on_q(busy: Command):
    frame = busy("top").out
    for word in ("Lanes held: 1, 1 with a line", "Running: 1", "Waiting: 1 pending", "run.started"):
        assert word in frame
    assert set(busy.ok("top")) == {
        *("stats", "lanes", "running", "pending", "deferred", "waiting", "events", "pools", "stopped"),
        *("asking", "github"),
    }

    master, slave = pty.openpty()
    process = subprocess.Popen(
        [*PROGRAM, "top", "--every", "30s"],
        cwd=busy.directory,
        env=busy.environment({"TERM": "xterm-256color"}),
        stdin=slave,
        stdout=slave,
        stderr=slave,
    )
    os.close(slave)
    seen = b""
    while b"run.started" not in seen:
        seen += os.read(master, 65536)
    os.write(master, b"q")
    assert process.wait(timeout=PATIENCE_S) == 0
    os.close(master)


def test_top_on_a_small_terminal_shows_some_of_everything(busy: Command):
    for n in range(8):
        busy.ok("add", f"More {n}", "--lane", f"more:{n}", "--agent", "coder")
    with closing(app.open_service(f"sqlite:///{busy.directory}/.interlock/interlock.db")) as service:
        frame = live.look(service)
    console = Console(width=80, file=io.StringIO(), color_system=None)
    console.print(live.draw(frame, 80, 24))
    shown = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert len(shown) <= 24
    assert all(len(line) <= 80 for line in shown)
    parts = {line.partition(":")[0]: n for n, line in enumerate(shown)}
    assert parts["Running"] < parts["Waiting"] < parts["Lanes held"]
    assert (
        shown[parts["Waiting"]] == "Waiting: 9 pending   1 deferred   1 waiting   4 shown, all: interlock ls"
    )
    assert shown[parts["Lanes held"]].startswith(
        "Lanes held: 9, 1 with a line   3 shown, all: interlock lanes"
    )
    assert "#4711" in shown[parts["Lanes held"] + 2], "the lane with a line behind it comes first"
    assert "item.added" in shown[-1]


def test_top_lists_what_is_due_later_and_begins_with_what_goes_next(il: Command):
    il.ok("add", "Later", "--run-at", "+2h")
    il.ok("add", "Sooner", "--run-at", "+1h")
    il.ok("add", "Plain")
    il.ok("add", "Urgent", "--priority", 5)
    frame = il("top").out
    assert "Waiting: 2 pending   2 waiting\n" in frame
    listed = frame.partition("Waiting: ")[2].partition("Lanes held")[0].splitlines()[2:6]
    assert [line.split()[0] for line in listed] == ["4", "3", "2", "1"]
    assert "0.0/min claimed  0.0/min done" in frame, "the same unit as with claims"


def test_top_counts_the_statuses_that_its_line_has_no_room_for():
    counted = [Text(f"3 {word}") for word in ("in_progress", "pending", "superseded", "coalesced")]
    assert live.fitting(counted, 80).plain == "3 in_progress   3 pending   3 superseded   3 coalesced"
    assert live.fitting(counted, 53).plain == "3 in_progress   3 pending   2 more: interlock stats"
    assert live.fitting(counted, 10).plain == "4 more: interlock stats"


def test_the_history_of_an_item_that_is_not_there_is_refused(busy: Command):
    for more in ((), ("--follow",)):
        answer = busy("events", "--item", "77", *more)
        assert (answer.code, answer.err.splitlines()[0]) == (1, "There is no item 77 in this store.")
    assert busy("events", "--item", "1", "--after", "9999").out.startswith("No event matches.")
    assert busy("events", "--lane", "no:lane").out.startswith("No event matches.")


def test_the_doctor_does_not_tick_checks_of_a_store_that_is_not_there(il: Command):
    checks = il.ok("doctor")["checks"]
    assert [check["name"] for check in checks] == ["store", "environment"]
    assert checks[0]["detail"].startswith("There is no store yet, so nothing in it was checked; ")
    il.ok("add", "a")
    assert len(il.ok("doctor")["checks"]) > 20


def test_the_doctor_names_the_whole_place_of_the_store(il: Command):
    deep = il.directory / "a-rather-long-name-of-a-directory" / "and-another-one-that-is-longer-still"
    deep.mkdir(parents=True)
    there = Command(deep)
    there.ok("add", "a")
    place = str(deep / ".interlock" / "interlock.db")
    assert place in "".join(line.strip() for line in there("doctor", env={"COLUMNS": "80"}).out.splitlines())


def test_what_an_operator_said_is_shown_with_the_reason_of_a_cancel(busy: Command):
    busy.ok("cancel", 4, "--reason", "nobody reads them")
    assert "nobody reads them (operator)" in busy("show", 4).out


def test_help_names_every_command_and_completion_offers_them(il: Command):
    shown = il("--help").out
    for name in ("add", "next", "doctor", "agents", "lanes", "completion"):
        assert f" {name} " in shown
    assert il().out == shown
    script = il("completion", "bash").out
    assert "_INTERLOCK_COMPLETE" in script
    asked = {"_INTERLOCK_COMPLETE": "complete_bash", "COMP_WORDS": "interlock re", "COMP_CWORD": "1"}
    assert set(il(env=asked).out.split()) == {"recap", "renew", "release", "restore", "retry", "resume"}
    asked |= {"COMP_WORDS": "interlock add --policy co", "COMP_CWORD": "3"}
    assert il(env=asked).out.split() == ["coalesce"]
    assert il("--version").out.startswith("interlock ")


def test_a_claim_of_an_agent_that_starts_nothing_says_why(any_il: Command) -> None:
    """It said that there is no work, though work was waiting."""
    il = CommandHere(any_il.directory, any_il.url)
    for n in range(3):
        il.ok("add", f"item {n}")
    il.ok("agents", "set", "coder", "--max", 1)
    il.ok("pause", "agent", "Coder", "--reason", "wrong model")
    resume = "`interlock resume agent coder` lets it start again.\n"
    paused = il("next", "--agent", " CODER")
    assert (paused.code, paused.out) == (3, f"coder is paused: wrong model. {resume}")
    il.ok("resume", "agent", "coder")
    run = il.claim()["run"]
    assert il("next", "--agent", "coder").out == "coder is full: it has 1 of 1 runs.\n"
    il.ok("release", run, "--for", "2h", "--whole-agent", "--reason", "quota")
    walled = il("next", "--agent", "coder").out
    assert re.fullmatch(rf"coder starts nothing until \S.*? \(in 2 h\): quota\. {re.escape(resume)}", walled)
    il.ok("pools", "set", "gpu", "--max", 1)
    for name in ("a", "b"):
        il.ok("agents", "set", name, "--pool", "gpu")
    il.claim("a")
    assert il("next", "--agent", "b").out == "b shares the pool gpu, which is full: 1 of 1 runs.\n"


def test_a_claim_of_one_item_that_cannot_be_claimed_says_why(il: Command) -> None:
    il.ok("add", "first", "--lane", "a:1")
    second = il.ok("add", "second", "--lane", "a:1")["item"]["id"]
    answer = il("next", "--agent", "coder", "--item", second)
    assert answer.code == 3
    assert "No work for coder" in answer.out
    assert f"Item {second} is next in line on lane a:1" in answer.out
    assert il("--json", "next", "--agent", "coder", "--item", second).json == {"leases": []}
    il.ok("cancel", second, "--reason", "not needed")
    refused = il("--json", "next", "--agent", "coder", "--item", second)
    assert (refused.code, refused.error["code"]) == (1, "item_ended")


def test_add_does_not_tell_to_claim_what_a_worker_has_taken_already(il: Command):
    console = Console(width=80, file=io.StringIO(), color_system=None)
    il.ok("agents", "set", "coder")
    with closing(app.open_service(f"sqlite:///{il.directory}/.interlock/interlock.db")) as service:
        (answer,) = service.add([NewItem(title="some work", agent="coder")])
        service.next("coder")
        arrivals.answer(console, answer, service.why(1))
    said = console.file.getvalue()  # type: ignore[attr-defined]
    assert "interlock next" not in said
    assert "hint  interlock why 1 " in said


def test_ls_finds_items_by_a_text_and_by_a_label(il: Command):
    il.ok("add", "Fix the Login page", "--label", "gpu")
    il.ok("add", "work", "--lane", "branch:acme/app/login", "--type", "review")
    il.ok("add", "work", "--type", "build")
    assert [item["id"] for item in il.ok("ls", "--grep", "LOGIN")["items"]] == [1, 2]
    assert [item["id"] for item in il.ok("ls", "--label", "gpu")["items"]] == [1]
    assert [item["id"] for item in il.ok("ls", "--type", "review", "--type", "build")["items"]] == [2, 3]
    assert il("ls", "--grep", "logout").out.startswith("No item matches.\n")


def test_a_token_on_a_terminal_comes_with_lines_to_copy(il: Command) -> None:
    told = on_terminal(
        il, "token", "create", "laptop", "--scope", "read", INTERLOCK_PUBLIC_URL="https://a.example"
    )
    assert "export INTERLOCK_URL=https://a.example" in told
    assert told.count("il_") == 2

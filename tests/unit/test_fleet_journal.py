"""What a worker's log adds up to."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from interlock.fleet import directory as directories
from interlock.fleet.directory import FleetDirectory, rotate
from interlock.fleet.journal import LINE_MAX_BYTES, Journal, merged, read_line

AT = datetime(2026, 11, 19, 12, 0, tzinfo=UTC)


def line(event: str, text: str = "", **more: Any) -> bytes:
    return json.dumps({"event": event, "at": AT.isoformat(), "text": text, **more}).encode() + b"\n"


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "a.log", tmp_path / "a.log.1")


def say(tmp_path: Path, *lines: bytes) -> None:
    with (tmp_path / "a.log").open("ab") as log:
        log.write(b"".join(lines))


def test_a_workers_runs_and_state(tmp_path: Path, journal: Journal) -> None:
    assert (journal.replay(), journal.state, journal.last) == ([], "starting", None)
    say(tmp_path, line("ready", "Worker w works"))
    journal.read()
    assert journal.state == "ready"
    say(
        tmp_path, line("started", "Run 1 started", run=1, item=7, title="Fix"), line("started", run=2, item=8)
    )
    say(tmp_path, line("output", "reading", run=1))
    journal.read()
    assert journal.runs == {1: (7, "Fix"), 2: (8, "")}
    assert journal.last is not None
    assert journal.last.shown == "1 | reading"
    for event in ("ended", "lost"):
        say(tmp_path, line(event, run=1 if event == "ended" else 2))
    say(tmp_path, line("draining", "Draining"))
    journal.read()
    assert (journal.state, journal.runs) == ("draining", {})
    say(tmp_path, line("started", run=3, item=9), line("ready"))
    journal.read()
    assert (journal.state, journal.runs) == ("ready", {}), "a new process has no runs of the former one"


def test_half_a_line_waits_for_its_other_half(tmp_path: Path, journal: Journal) -> None:
    whole = line("ready", "Worker w works")
    say(tmp_path, whole[:10])
    assert journal.read() == []
    say(tmp_path, whole[10:])
    assert [said.kind for said in journal.read()] == ["ready"]
    say(tmp_path, b"x" * (LINE_MAX_BYTES + 1))
    assert journal.read() == []
    say(tmp_path, b"\n", whole)
    assert [said.kind for said in journal.read()][-1] == "ready"


@pytest.mark.parametrize(
    ("raw", "kind", "text"),
    [
        (b"Traceback (most recent call last):", "printed", "Traceback (most recent call last):"),
        (b"[1, 2]", "printed", "[1, 2]"),
        (b"{", "printed", "{"),
        (b"\xff", "printed", "\N{REPLACEMENT CHARACTER}"),
        (b'{"error": {"message": "No store.", "hint": "Make one."}}', "error", "No store. Make one."),
        (b'{"error": {"message": 3}}', "error", ""),
        (b'{"event": 3, "text": [], "run": true, "at": 7}', "", ""),
        (b'{"event": "x", "at": "2026-01-01"}', "x", ""),
    ],
)
def test_any_line_can_be_read(raw: bytes, kind: str, text: str) -> None:
    said = read_line(raw)
    assert (said.kind, said.text, said.run, said.at) == (kind, text, None, None)


def test_why_a_process_ended_is_kept(tmp_path: Path, journal: Journal) -> None:
    say(tmp_path, b'{"error": {"message": "No store.", "hint": ""}}\n', b"\n")
    journal.read()
    assert journal.problem == "No store."
    journal.begin()
    assert (journal.problem, journal.state) == ("", "starting")


def test_a_long_log_moves_and_nothing_is_read_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directories, "LOG_MAX_BYTES", 1_000)
    directory = FleetDirectory(tmp_path, tmp_path, tmp_path / "fleet.toml")
    directory.make()
    journal = Journal(directory.log("a"), directory.former_log("a"))
    read = []
    with directory.log("a").open("ab", buffering=0) as log:  # as the worker has it
        for n in range(60):
            log.write(line("output", str(n), run=1))
            read += journal.read()
            if rotate(directory, "a"):
                journal.moved()
    assert [said.text for said in read] == [str(n) for n in range(60)]
    assert directory.log("a").stat().st_size < 1_000
    again = Journal(directory.log("a"), directory.former_log("a")).replay()
    assert [said.text for said in again] == [str(n) for n in range(60 - len(again), 60)]


def test_lines_of_several_workers_are_in_the_order_of_their_times() -> None:
    def said(text: str, after_s: float | None) -> Any:
        at = None if after_s is None else (AT + timedelta(seconds=after_s)).isoformat()
        return read_line(json.dumps({"event": "x", "text": text, "at": at}).encode())

    lines = merged(
        {"a": [said("1", 1), said("beside 1", None), said("4", 4)], "b": [said("2", 2), said("3", 3)]}
    )
    assert [(name, line.text) for name, line in lines] == [
        ("a", "1"),
        ("a", "beside 1"),
        ("b", "2"),
        ("b", "3"),
        ("a", "4"),
    ]

"""Whatever a person mistypes: one sentence, a hint, the right exit code, nothing changed."""

from pathlib import Path
from typing import Any

import pytest

from interlock import app, settings
from interlock.service.contract import ItemFilter, to_json
from tests.acceptance.command import Command, CommandHere

FORGED = "1.1.0123456789abcdef"

USAGE = "usage"
INVALID = "invalid_input"
LARGE = "too_large"

#: What is typed, the exit code, the error's code, a word of the sentence.
MISTAKES = [
    (["add", "x", "--policy", "nope"], 2, INVALID, "nope"),
    (["add", "x", "--message", ""], 2, INVALID, "message is empty"),
    (["msg", "1", " "], 2, INVALID, "message is empty"),
    (["hold", "a", "--message", "", "--", "true"], 2, INVALID, "message is empty"),
    (["add", "x", "--retry-lane", "maybe"], 2, INVALID, "maybe"),
    (["add", "x", "--payload", "{bad"], 2, INVALID, "JSON"),
    (["add", "x", "--payload", "[1]"], 2, INVALID, "object"),
    (["add", "x", "--payload", '{"a": NaN}'], 2, INVALID, "NaN"),
    (["add", "x", "--payload", '{"a": 1e999}'], 2, INVALID, "1e999"),
    (["add", "x", "--payload", '{"a": 1, "a": 2}'], 2, INVALID, "the key 'a' is duplicated"),
    (["add", "x", "--payload", '{"b": [{"a": 1, "a": 1}]}'], 2, INVALID, "duplicated"),
    (["done", FORGED, "--result", '{"a": 1, "a": 2}'], 2, INVALID, "duplicated"),
    (["add", "--batch", "twice.jsonl"], 2, INVALID, "Line 2: The line is not valid JSON: the key 'title'"),
    (["add", "x", "--payload", "@missing.json"], 2, INVALID, "missing.json"),
    (["add", "x", "--payload", "@large.json"], 2, LARGE, "1,048,576"),
    (["add", "x", "--payload", "@latin1.json"], 2, INVALID, "UTF-8"),
    (["add", "x", "--payload", "@deep.json"], 2, INVALID, "JSON"),
    (["add", "x", "--lane", "a b"], 2, INVALID, "invalid character"),
    (["add", "x", "--lane", "../../etc"], 2, INVALID, "lane"),
    (["add", "x", "--lane", "l" * 201], 2, LARGE, "201"),
    (["add", "x", "--lane", "a", "--no-lane"], 2, INVALID, "lane"),
    (["add", "x", "--agent", "two words"], 2, INVALID, "invalid character"),
    (["add", "x", "--agent", ""], 2, INVALID, "agent is empty"),
    (["hold", "a", "--agent", " ", "--", "true"], 2, INVALID, "agent is empty"),
    (["add", "x", "--priority", "1" * 20], 2, INVALID, "out of range"),
    (["add", "x", "--type", "ty\tpe"], 2, INVALID, "invalid character"),
    (["add", "x", "--label", "é"], 2, INVALID, "invalid character"),
    (["add", "two\nlines"], 2, INVALID, "line break"),
    (["add", " "], 2, INVALID, "empty"),
    (["add", "t" * 501], 2, LARGE, "501"),
    (["add"], 2, INVALID, "title"),
    (["add", "x", "--run-at", "yesterday"], 2, INVALID, "yesterday"),
    (["add", "x", "--run-at", "+5y"], 2, INVALID, "+5y"),
    (["add", "x", "--run-at", "+999999999d"], 2, INVALID, "delay"),
    (["add", "x", "--priority", "high"], 2, INVALID, "high"),
    (["add", "x", "--priority", "1001"], 2, INVALID, "1,001"),
    (["add", "x", "--lease", "0"], 2, INVALID, "lease"),
    (["add", "x", "--timeout", "forever"], 2, INVALID, "forever"),
    (["add", "x", "--max-attempts", "0"], 2, INVALID, "attempts"),
    (["add", "x", "--position", "-1"], 2, INVALID, "position"),
    (["add", "x", "--position", "1.5"], 2, INVALID, "whole number"),
    (["add", "x", "--what"], 2, USAGE, "--what"),
    (["add", "x", "y"], 2, USAGE, "y"),
    (["add", "--batch", "missing.jsonl"], 2, INVALID, "missing.jsonl"),
    (["add", "--batch", "bad.jsonl"], 2, INVALID, "Line 2"),
    (["add", "--batch", "unknown.jsonl"], 2, INVALID, "colour"),
    (["add", "--batch", "many.jsonl"], 2, INVALID, "1,001"),
    (["adds", "x"], 2, USAGE, "adds"),
    (["next"], 2, USAGE, "--agent"),
    (["next", "--agent", " "], 2, INVALID, "name"),
    (["next", "--agent", "a", "--limit", "0"], 2, INVALID, "limit"),
    (["next", "--agent", "a", "--limit", "1001"], 2, INVALID, "limit"),
    (["next", "--agent", "a", "--wait", "61"], 2, INVALID, "wait"),
    (["done"], 2, INVALID, "HANDLE"),
    (["done", "1"], 2, "unknown_run", "not a handle"),
    (["renew", "1.2.3"], 2, "unknown_run", "not a handle"),
    (["show", FORGED], 5, "lease_lost", "no run"),
    (["done", FORGED, "--result", "{bad"], 2, INVALID, "JSON"),
    (["done", FORGED, "--seen", "x"], 2, INVALID, "seen"),
    (["done", FORGED, "--seen", "0.5"], 2, INVALID, "whole number"),
    (["done", FORGED, FORGED, "--seen", "3"], 2, INVALID, "--seen"),
    (["release", "--item", "1"], 2, INVALID, "reason"),
    (["release", FORGED, "--item", "1", "--reason", "r"], 2, INVALID, "--item"),
    (["show", "99"], 1, "not_found", "99"),
    (["show", "1" * 30], 2, INVALID, "number"),
    (["why", "99"], 1, "not_found", "99"),
    (["why", "abc"], 2, INVALID, "neither the number of an item nor the handle of a run"),
    (["msg", "99", "hello"], 1, "not_found", "99"),
    (["msg", "one", "hello"], 2, INVALID, "one"),
    (["cancel", "99", "--reason", "r"], 1, "not_found", "99"),
    (["cancel", "1"], 2, USAGE, "--reason"),
    (["cancel", "1", "--reason", " "], 2, INVALID, "reason"),
    (["pause", "agent", " ", "--reason", "r"], 2, INVALID, "name is empty"),
    (["resume", "agent", ""], 2, INVALID, "name is empty"),
    (["agents", "pause", "", "--reason", "r"], 2, INVALID, "name is empty"),
    (["agents", "set", " "], 2, INVALID, "name is empty"),
    (["retry", "1", "--reason", "r" * 1001], 2, LARGE, "1,001"),
    (["retry", "1"], 1, "item_ended", "pending"),
    (["ls", "--status", "gone"], 2, INVALID, "gone"),
    (["ls", "--limit", "0"], 2, INVALID, "limit"),
    (["ls", "--limit", "1001"], 2, INVALID, "limit"),
    (["events", "--after", "x"], 2, INVALID, "after"),
    (["stats", "--window", "0"], 2, INVALID, "window"),
    (["agents", "set", "a", "--max", "0"], 2, INVALID, "0"),
    (["agents", "set", "a", "--max", "few"], 2, INVALID, "few"),
    (["agents", "pause", "a"], 2, USAGE, "--reason"),
    (["agents", "shout"], 2, USAGE, "shout"),
    (["lanes", "mode", "maybe", "--project", "p"], 2, INVALID, "maybe"),
    (["lanes", "mode", "observe"], 2, INVALID, "No lanes were given"),
    (["lanes", "mode", "--project", "p"], 2, INVALID, "mode is missing"),
    (["pause", "agent"], 2, INVALID, "NAME is missing"),
    (["pause", "--reason", "r"], 2, INVALID, "NAME is missing"),
    (["pause", "agent", "a"], 2, INVALID, "--reason is missing"),
    (["pause", "planet", "earth", "--reason", "r"], 2, INVALID, "planet"),
    (["migrate", "--check", "--sql"], 2, INVALID, "--sql"),
    (["completion", "tcsh"], 2, INVALID, "tcsh"),
    (["--url", "mysql://host/db", "ls"], 2, INVALID, "mysql"),
    (["--url", "interlock.db", "ls"], 2, INVALID, "scheme"),
    (["--url", "git+https://host/repo", "ls"], 2, INVALID, "git store"),
    (["--url", "https://", "ls"], 2, INVALID, "not complete"),
    (["--url", "https://host:port", "ls"], 2, INVALID, "no host and port"),
    (["--url", "https://[host", "ls"], 2, INVALID, "no host and port"),
    (["--url", "sqlite:///missing/directory/x.db", "ls"], 2, INVALID, "does not exist"),
]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with one pending item, and the files the mistakes name."""
    directory = tmp_path_factory.mktemp("bad")
    Command(directory).ok("add", "Here first", "--lane", "issue:acme/app#1")
    (directory / "large.json").write_text('{"a": "' + "x" * (1 << 20) + '"}')
    (directory / "latin1.json").write_bytes('{"a": "é"}'.encode("latin-1"))
    (directory / "deep.json").write_text("[" * 100_000)
    (directory / "bad.jsonl").write_text('{"title": "fine"}\n{"title": \n')
    (directory / "unknown.jsonl").write_text('{"title": "fine", "colour": "red"}\n')
    (directory / "twice.jsonl").write_text('{"title": "fine"}\n{"title": "one", "title": "other"}\n')
    (directory / "many.jsonl").write_text('{"title": "one too many"}\n' * 1_001)
    return directory


def everything(directory: Path) -> list[Any]:
    service = app.open_service(settings=settings.load(environ={}, directory=directory))
    try:
        found = [service.items(ItemFilter(all=True)), service.events(), service.agents()]
        return [to_json(rows) for rows in found]
    finally:
        service.close()


@pytest.mark.parametrize(
    ("typed", "code", "kind", "word"), MISTAKES, ids=[" ".join(m[0])[:40] for m in MISTAKES]
)
def test_a_mistake_is_named_with_a_hint_and_changes_nothing(
    store: Path, typed: list[str], code: int, kind: str, word: str
):
    before = everything(store)
    il = CommandHere(store)
    answer = il(*typed, "--json") if kind == USAGE else il("--json", *typed)
    assert answer.code == code
    assert answer.error["code"] == kind
    assert word in answer.error["message"]
    assert answer.err == ""
    assert everything(store) == before


@pytest.mark.parametrize(
    "typed", [["add", "x", "--policy", "nope"], ["adds", "x"], ["show", "99"], ["done", "1.1"]]
)
def test_for_people_an_error_is_two_lines_on_standard_error(store: Path, typed: list[str]):
    answer = Command(store)(*typed)
    assert answer.code in (1, 2)
    assert answer.out == ""
    sentence, hint = answer.err.splitlines()
    assert sentence.endswith((".", "?"))
    assert hint


def test_a_mistyped_url_lists_every_kind_of_store(store: Path):
    answer = CommandHere(store)("--json", "--url", "mysql://host/db", "ls")
    assert all(form in answer.error["hint"] for form in ("sqlite:///", "postgresql://", "git+https://"))


def test_a_local_copy_that_cannot_be_written_is_not_blamed_on_the_url(tmp_path: Path):
    (tmp_path / ".interlock").write_text("a file in the way")
    answer = CommandHere(tmp_path)("--json", "--url", "git+file:///nowhere/x.git", "lanes")
    assert answer.code != 0
    assert "INTERLOCK_URL" not in answer.error["hint"]
    assert answer.error["hint"]


def test_a_dash_reads_the_message_from_standard_input(tmp_path: Path):
    il = CommandHere(tmp_path)
    il.ok("add", "x", "--message", "-", stdin="what was said\n")
    (lease,) = il.ok("next", "--agent", "a")["leases"]
    assert [message["text"] for message in lease["messages"]] == ["what was said\n"]


def test_a_message_beyond_the_limit_is_refused(store: Path):
    answer = CommandHere(store)("--json", "msg", "1", "-", stdin="x" * ((1 << 20) + 1))
    assert (answer.code, answer.error["code"]) == (2, LARGE)
    lines = '{"title": "t", "message": "' + "x" * ((1 << 20) + 1) + '"}'
    answer = CommandHere(store)("--json", "add", "--batch", "-", stdin=lines)
    assert (answer.code, answer.error["code"]) == (2, LARGE)

"""`interlock.connect()`: the same gate, names and defaults as the command, for Python programs."""

import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, get_type_hints

import pytest

import interlock
from interlock.client import Interlock, ItemFields
from interlock.core.errors import InvalidInput
from interlock.core.model import Policy, RetryLane

CONFIG = """
[types.pr_review]
policy = "supersede"
priority = 5
lease_s = 300
max_attempts = 7
"""


@pytest.fixture
def il(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Interlock]:
    """A connection from a directory whose configuration has defaults for one type."""
    (tmp_path / ".interlock").mkdir()
    (tmp_path / ".interlock" / "config.toml").write_text(CONFIG)
    for name in os.environ:
        if name.startswith("INTERLOCK_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("USER", "alice")
    monkeypatch.chdir(tmp_path)
    with interlock.connect() as connection:
        yield connection


def test_the_defaults_of_a_type_hold_and_what_is_given_goes_before_them(il: Interlock):
    item = il.add("Review", type="pr_review", lane="issue:acme/app#7", priority=9).item
    assert item is not None
    assert (item.policy, item.priority, item.lease_s, item.max_attempts) == ("supersede", 9, 300.0, 7)
    plain = il.add("Task", lane=None, policy=None).item
    assert plain is not None
    assert (plain.policy, plain.priority, plain.lease_s, plain.max_attempts) == ("queue", 0, None, 3)


def test_every_field_can_be_given(il: Interlock):
    at = datetime.now(UTC) + timedelta(hours=2)
    answer = il.add(
        "All of it",
        project="acme",
        type="rfc",
        agent="Coder",
        lane="series:acme/RFC-9",
        policy=Policy.LATEST,
        priority=-5,
        position=7,
        payload={"n": 1},
        message="hello",
        author="bob",
        dedupe_key="k",
        labels=["a", "b"],
        run_at=at,
        lease_s=60,
        timeout_s="2h",
        max_attempts=9,
        retry_lane=RetryLane.KEEP,
        from_bot=True,
    )
    assert answer.item is not None
    shown = il.service.show(answer.item.id)
    item = shown.item
    assert (item.project, item.type, item.agent, item.lane) == ("acme", "rfc", "coder", "series:acme/RFC-9")
    assert (item.policy, item.priority, item.position, item.labels) == ("latest", -5, 7, ("a", "b"))
    assert (item.lease_s, item.timeout_s, item.max_attempts, item.retry_lane) == (60.0, 7200.0, 9, "keep")
    assert (item.run_at, item.payload) == (at, {"n": 1})
    assert [(m.text, m.author) for m in shown.messages] == [("hello", "bob")]


def test_a_field_that_does_not_exist_is_refused_and_the_known_ones_are_named(il: Interlock):
    misspelt: dict[str, Any] = {"prority": 5}
    with pytest.raises(InvalidInput, match="'prority' does not exist") as refused:
        il.add("Typo", **misspelt)
    assert "priority" in refused.value.hint


def test_the_types_of_the_arguments_name_every_field_there_is(il: Interlock):
    unknown: dict[str, Any] = {"no such field": 1}
    with pytest.raises(InvalidInput) as refused:
        il.add("x", **unknown)
    known = refused.value.hint.removeprefix("Known are ").removesuffix(".").split(", ")
    assert set(known) == {"title", *get_type_hints(ItemFields)}


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"payload": {"when": datetime(2027, 1, 1, tzinfo=UTC)}}, "cannot be written as JSON"),
        ({"payload": [1]}, "not a JSON object"),
        ({"policy": "first"}, "does not exist"),
        ({"priority": 1.5}, "not a whole number"),
        ({"labels": [1]}, "not a list of texts"),
        ({"run_at": 5}, "not a text"),
        ({"run_at": datetime(1969, 7, 20, tzinfo=UTC)}, "between 1970 and 9999"),
    ],
    ids=str,
)
def test_fields_that_make_no_sense_are_refused_in_a_sentence(
    il: Interlock, fields: dict[str, Any], says: str
):
    with pytest.raises(InvalidInput, match=says):
        il.add("x", **fields)
    assert il.next("anyone").lease is None


def test_messages_and_cancellations_are_signed_by_the_actor(il: Interlock):
    item = il.add("Work", message="please").item
    assert item is not None
    assert il.msg(item.id, "and hurry").n == 2
    il.msg(item.id, "no rush", author="bob")
    assert il.cancel(item.id, why="not needed").item.status == "cancelled"
    shown = il.service.show(item.id)
    assert [m.author for m in shown.messages] == ["alice", "alice", "bob"]
    assert shown.events[-1].data["by"] == "alice"

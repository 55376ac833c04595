"""`interlock.connect()`: the same gate, names and defaults as the command, for Python programs."""

import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, get_type_hints

import pytest

import interlock
from interlock.client import Interlock, ItemFields
from interlock.core import errors
from interlock.core.errors import InterlockError, InvalidInput, LeaseLost
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


@pytest.fixture(params=["sqlite", "postgres"])
def any_connection(request: pytest.FixtureRequest, tmp_path: Path) -> Interlock:
    """A connection that the test closes itself, to either store."""
    if request.param == "sqlite":
        return interlock.connect(f"sqlite:///{tmp_path}/interlock.db")
    return interlock.connect(request.getfixturevalue("pg_database18"))


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
        from_system=True,
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
    with pytest.raises(InvalidInput, match="Unknown field 'prority'") as refused:
        il.add("Typo", **misspelt)
    assert "priority" in refused.value.hint


def test_the_types_of_the_arguments_name_every_field_there_is(il: Interlock):
    unknown: dict[str, Any] = {"no such field": 1}
    with pytest.raises(InvalidInput) as refused:
        il.add("x", **unknown)
    known = refused.value.hint.removeprefix("Use one of ").removesuffix(".").split(", ")
    assert set(known) == {"title", *get_type_hints(ItemFields)}


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"payload": {"when": datetime(2027, 1, 1, tzinfo=UTC)}}, "cannot be serialized as JSON"),
        ({"payload": [1]}, "not a JSON object"),
        ({"policy": "first"}, "cannot be 'first'"),
        ({"priority": 1.5}, "not a whole number"),
        ({"labels": [1]}, "not a list of strings"),
        ({"run_at": 5}, "not a string"),
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


def test_an_item_that_has_not_started_is_edited(il: Interlock):
    item = il.add("old", agent="coder", labels=["gpu"], run_at="+1h").item
    assert item is not None
    changed = il.edit(item.id, title="new", agent=None, labels=None, priority=3, run_at=None).item
    assert (changed.title, changed.agent, changed.labels, changed.priority) == ("new", None, (), 3)
    assert changed.status == "pending"
    with pytest.raises(InvalidInput, match="lane"):
        il.edit(item.id, lane="branch:main")  # type: ignore[call-arg]


def test_messages_and_cancellations_are_signed_by_the_actor(il: Interlock):
    item = il.add("Work", message="please").item
    assert item is not None
    assert il.msg(item.id, "and hurry").n == 2
    il.msg(item.id, "no rush", author="bob")
    assert il.cancel(item.id, why="not needed").item.status == "cancelled"
    shown = il.show(item.id)
    assert [m.author for m in shown.messages] == ["alice", "alice", "bob"]
    assert shown.events[-1].data["by"] == "alice"


def test_a_program_looks_around_with_the_words_of_the_command(il: Interlock):
    first, second = il.add("First", lane="a:1").item, il.add("Second", lane="a:1", agent="ada").item
    assert first is not None
    assert second is not None
    assert [i.id for i in il.ls()] == [first.id, second.id]
    assert [i.title for i in il.ls(statuses=["deferred"], agent="Ada", lane="a:1")] == ["Second"]
    assert il.why(second.id).why == il.show(second.id).why
    il.cancel(first.id, why="not needed")
    assert [i.id for i in il.ls()] == [second.id]
    assert len(il.ls(all=True)) == 2
    assert [e.kind for e in il.events(item=first.id)] == ["item.added", "item.cancelled"]
    assert il.events(newest=True, limit=1)[0].kind == "lane.promoted"
    assert il.stats(window_s=60).promotions == 1


def test_every_error_is_an_attribute_of_the_package(il: Interlock):
    below = {k for k, v in vars(errors).items() if isinstance(v, type) and issubclass(v, InterlockError)}
    assert below == set(interlock.__all__) - {"__version__", "connect", "session_lock"}
    assert all(getattr(interlock, name) is getattr(errors, name) for name in below)
    with pytest.raises(interlock.NotFound):
        il.show(99)
    with pytest.raises(AttributeError, match="LeaseLots"):
        interlock.LeaseLots  # type: ignore[attr-defined]  # noqa: B018


def test_what_is_printed_of_a_connection_and_its_leases_tells_what_they_are(il: Interlock, tmp_path: Path):
    assert repr(il) == f"<interlock on {tmp_path}/.interlock/interlock.db>"
    assert repr(il.next("ada")) == "<no work>"
    il.add("Fix the login", lane="issue:acme/app#42")
    with (claimed := il.next("ada")) as lease:
        assert lease is not None
        held = "<lease of item 1 'Fix the login' on issue:acme/app#42, run 1, held>"
        assert (repr(claimed), repr(lease)) == (f"<claimed: {held}>", held)
        assert lease.handle not in repr(lease)
        il.service.take_back(1, why="mine")
        assert lease.renew().refusal is not None
        assert repr(lease) == held.replace("held>", "lost>")
        with pytest.raises(LeaseLost):
            lease.done()


def test_a_closed_connection_refuses_in_words(any_connection: Interlock):
    il = any_connection
    il.add("Work", max_attempts=1)
    lease = il.next("ada", renew=False).lease
    assert lease is not None
    il.close()
    il.close()
    assert repr(il).endswith(", closed>")
    of_lease: tuple[Callable[[], Any], ...] = (lease.done, lease.inbox, lease.renew)
    for call in (*of_lease, il.ls, il.stats, lambda: il.add("x"), lambda: il.next("ada")):
        with pytest.raises(interlock.Closed, match="is closed"):
            call()


@pytest.mark.parametrize("call", ["done", "inbox"])
def test_a_lost_lease_that_the_block_has_dealt_with_is_not_raised_again(il: Interlock, call: str):
    """Taken out: `_loss_told`; then leaving the block raises it a second time."""
    il.add("Work")
    with il.next("ada", renew=False) as lease:
        assert lease is not None
        il.service.take_back(1, why="mine")
        with pytest.raises(LeaseLost):
            getattr(lease, call)()
    assert il.show(1).item.status == "pending"
    assert il.stats().refused_writes == 1


def test_a_loss_that_the_block_has_not_heard_of_is_raised_when_it_ends(il: Interlock):
    il.add("Work")
    claimed = il.next("ada", renew=False)
    with pytest.raises(LeaseLost), claimed:
        il.service.take_back(1, why="mine")


def test_a_run_ends_and_the_next_item_has_a_block_of_its_own(any_connection: Interlock):
    with any_connection as il:
        for title in ("first", "second", "third"):
            il.add(title, lane="issue:acme/app#1", type="review")
        il.add("other", type="task")
        titles, fences = [], []
        claimed = il.next("coder", types=["review"], lease_s=120)
        while claimed:
            with claimed as lease:
                assert lease is not None
                assert not lease.lost
                titles.append(lease.item.title)
                fences.append(lease.fence)
                claimed = lease.done_and_next({"title": lease.item.title})
                assert lease.ended
        assert titles == ["first", "second", "third"], "it claims as the lease was claimed"
        assert fences == sorted(set(fences))
        assert il.show(1).runs[0].result == {"title": "first"}


def test_nothing_is_claimed_with_an_end_that_is_refused(il: Interlock):
    il.add("first")
    il.add("second")
    with il.next("coder") as lease:
        assert lease is not None
        il.cancel(lease.item.id, why="over", force=True)
        with pytest.raises(LeaseLost):
            lease.done_and_next()
    assert il.show(2).item.status == "pending"


def test_a_hold_has_no_next_item(il: Interlock):
    with il.hold("deploy:production", agent="coder") as lease:
        assert lease is not None
        with pytest.raises(InvalidInput, match="hold"):
            lease.done_and_next()
        assert not lease.ended

"""`interlock.connect("git+…")`: lanes from Python without a server, and clear words about the rest."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import interlock
from interlock.client import Interlock
from interlock.core.errors import Held, InvalidInput, LeaseLost
from interlock.service.contract import Service
from tests.git_fixtures import bare_repository, git_identity, http_remote, remote_url

__all__ = ["bare_repository", "git_identity", "http_remote", "remote_url"]

LANE, SERIES = "issue:acme/app#42", "series:acme/app/rfc-093"


@pytest.fixture
def il(remote_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Interlock]:
    """A connection to lanes in the test's repository, over `file://` and over HTTP."""
    for name in os.environ:
        if name.startswith("INTERLOCK_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("USER", "alice")
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    with interlock.connect(f"git+{remote_url}") as connection:
        yield connection


def test_work_is_added_claimed_and_ended(il: Interlock):
    assert il.add("First", lane=LANE, agent="coder").decision == "admitted"
    second = il.add("Second", payload={"repository": "acme/app", "issue_number": 42})
    assert (second.decision, second.position) == ("queued", 1), "the payload gives the same lane"
    with il.next("coder") as lease:
        assert lease is not None
        (held,) = il.service.lanes()
        assert (held.lane, held.holder and held.holder.run, held.line) == (
            LANE,
            lease.fence,
            (second.arrival,),
        )
        assert second.arrival is not None
        assert f"run {lease.fence} of coder" in il.why(second.arrival).why
        il.msg(lease.item.id, "One more thing.")
        assert [m.text for m in lease.inbox()] == ["One more thing."]
    assert il.cancel(second.arrival, why="not needed").item.status == "cancelled"
    assert not il.next("coder")


def test_a_lane_is_held_for_the_length_of_a_block(il: Interlock):
    with il.hold("deploy:production", agent="ann") as lease:
        assert lease is not None
        with pytest.raises(Held, match="is held by ann"):
            il.hold("deploy:production", agent="bob")
        with pytest.raises(Held, match="did not become free in time"):
            il.hold("deploy:production", agent="bob", wait_s=0.1)
        assert len(il.service.lanes()[0].line) == 0, "whoever gave up left the line"
    with il.hold("deploy:production", agent="bob", wait_s=None) as again:
        assert again is not None
        assert again.fence == lease.fence + 1
    assert il.service.lanes() == []


def test_a_hold_says_what_the_gate_of_its_lane_waits_for(il: Interlock):
    assigned = il.add("Assignment", lane=SERIES, agent="series").arrival
    (active,) = il.service.next("series", item=assigned, external=True)
    il.service.set_gate(LANE, series=SERIES, open=False, why="#41 is active")
    with pytest.raises(Held, match="not the active one of series rfc-093"):
        il.hold(LANE, agent="ann")
    assert il.service.lanes(prefix=LANE) == []
    il.service.set_gate(LANE, series=SERIES, open=True, why="#42 is active")
    with il.hold(LANE, agent="ann") as lease:
        assert lease is not None
        il.service.set_gate(LANE, series=SERIES, open=False, why="#43 is active")
        lease.beat()
        assert lease.cancel_requested
    il.service.end_external(active.item.id, active.fence, "done", why="merged")
    with pytest.raises(LeaseLost):
        il.service.end_external(active.item.id, active.fence, "done", why="merged")


#: Operations of a database, with arguments that fit.
ELSEWHERE: dict[str, tuple[Any, ...]] = {
    "ls": (),
    "show": (1,),
    "events": (),
    "stats": (),
}


def test_what_it_cannot_do_names_a_store_that_can(il: Interlock):
    for name, args in ELSEWHERE.items():
        with pytest.raises(InvalidInput, match=r"^The git store does not support `\w+`\.") as refused:
            getattr(il, name)(*args)
        assert "postgresql://" in refused.value.hint
    il.add("Work", lane=LANE, agent="coder")
    with il.next("coder") as lease:
        assert lease is not None
        with pytest.raises(InvalidInput, match="does not support `ask`"):
            lease.ask("Which one?")
        lease.done()
    with pytest.raises(InvalidInput, match="store in git takes items of one lane"):
        il.add("Work without a lane")
    with pytest.raises(AttributeError):
        il.service.no_such_thing  # type: ignore[attr-defined]  # noqa: B018
    assert hasattr(Service, "create_plan")
    with pytest.raises(InvalidInput, match="does not support `create_plan`"):
        il.service.create_plan("work", {})  # type: ignore[arg-type]

"""Random days of issues and pull requests: whatever was delivered when, what is open is what is wanted."""

from __future__ import annotations

import os
from collections.abc import Callable

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interlock.github.desired_work import wanted
from interlock.github.facts import from_answer
from interlock.github.rulefile import parse
from tests.conformance.conftest import clock, empty_file, kept_databases, open_service  # noqa: F401
from tests.github.desk import RULES, Desk
from tests.github.hooks import Delivery
from tests.github.issues import Issue
from tests.github.test_intake import OpenDesk, backend, desk, open_desk  # noqa: F401

# ruff: noqa: F811  (fixtures)

STORIES = int(os.environ.get("INTERLOCK_GITHUB_STORIES", "12"))

Act = Callable[[Issue], object]


def _of_pull(act: Act) -> Act:
    """What only a pull request has done to it."""
    return lambda number: act(number) if number.pull is not None else None


def _branch(number: Issue) -> str:
    return number.the_pull().head_ref


ACTS: dict[str, Act] = {
    "bug": lambda i: i.label("bug", by="alice"),
    "no bug": lambda i: i.unlabel("bug", by="alice"),
    "docs": lambda i: i.label("documentation", by="alice"),
    "no docs": lambda i: i.unlabel("documentation", by="alice"),
    "coder": lambda i: i.assign("coder-bot", by="alice"),
    "no coder": lambda i: i.unassign("coder-bot", by="alice"),
    "critic": lambda i: i.assign("critic-bot", by="stranger"),
    "no critic": lambda i: i.unassign("critic-bot", by="alice"),
    "title": lambda i: i.edit(by="alice", title=f"Crash {i.github.next_id()}"),
    "done": lambda i: i.close(by="alice"),
    "dropped": lambda i: i.close(by="alice", reason="not_planned"),
    "reopen": lambda i: i.reopen(by="alice"),
    "push": _of_pull(lambda i: i.repo.commit({"a": str(i.github.next_id())}, by="bob", branch=_branch(i))),
    "draft": _of_pull(lambda i: i.to_draft(by="bob")),
    "ready": _of_pull(lambda i: i.ready(by="bob")),
    "review": _of_pull(lambda i: i.request_review("critic-bot", by="bob")),
    "no review": _of_pull(lambda i: i.withdraw_review_request("critic-bot", by="bob")),
}


@settings(max_examples=STORIES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_what_is_open_in_the_end_is_what_the_number_wants(desk: Desk, data: st.DataObject) -> None:
    pull = data.draw(st.booleans(), label="pull request")
    if pull:
        branch = f"fix-{desk.github.next_id()}"
        desk.repo.commit({"a": branch}, by="bob", branch=branch)
        number = desk.repo.pull("Fix", by="bob", head=branch)
    else:
        number = desk.repo.issue("Crash", by="alice")
    waiting: list[Delivery] = []
    for name in data.draw(st.lists(st.sampled_from(sorted(ACTS)), max_size=12), label="acts"):
        ACTS[name](number)
        waiting += desk.new()
        for _ in range(data.draw(st.integers(0, 2), label="deliveries now")):
            if waiting:
                at = data.draw(st.integers(0, len(waiting) - 1), label="which")
                again = data.draw(st.booleans(), label="and once more later")
                desk.take([waiting[at] if again else waiting.pop(at)])
    waiting += desk.new()
    desk.take(data.draw(st.permutations(waiting), label="the rest"))
    after_all = desk.take()
    assert after_all == []
    known = desk.client.get(
        "/repos/{+repo}/{kind}/{number}",
        repo="acme/app",
        kind="pulls" if pull else "issues",
        number=number.number,
    )
    facts = from_answer({"id": desk.repo.id, "full_name": "acme/app"}, known.body)
    expected = {(k.type, k.agent): each.priority for k, (each, _) in wanted(facts, parse(RULES)).items()}
    lane = f"issue:acme/app#{number.number}"
    found = [(i.type, i.agent or "", i.priority) for i in desk.open() if i.lane == lane]
    assert {(kind, agent): priority for kind, agent, priority in found} == expected
    assert len(found) == len(expected), "none is there twice"
    assert desk.owed() == 0


def test_every_act_of_a_story_does_something(desk: Desk) -> None:
    """A story whose acts did nothing would prove nothing."""
    desk.repo.commit({"a": "1"}, by="bob", branch="fix")
    pull = desk.repo.pull("Fix", by="bob", head="fix")
    for name in ("bug", "docs", "coder", "critic", "title", "push", "draft", "ready", "review", "no review"):
        before = len(desk.github.deliveries)
        ACTS[name](pull)
        assert len(desk.github.deliveries) > before, name

"""Which work an issue or pull request wants, and what a change of it leads to."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.core.record import replace
from interlock.github.desired_work import Wanted, orders_for, wanted
from interlock.github.facts import NumberFacts, NumberState, from_json, to_json
from interlock.github.orders import (
    AddItems,
    AdjustPriority,
    ItemLocation,
    NotifyAgents,
    Order,
    UpdateBlocks,
    WithdrawWork,
    WorkKey,
)
from interlock.github.rulefile import parse
from interlock.github.rules import Rules, default_rules

RULES = replace(default_rules(), agents={"coder-bot": "coder", "critic-bot": "critic"})
ISSUE = NumberFacts(
    repository=7,
    name="acme/app",
    number=42,
    pull=False,
    state=NumberState.OPEN,
    title="Crash at start",
    author="alice",
    url="https://github.example/acme/app/issues/42",
)
HERE = ItemLocation("acme/app", "issue:acme/app#42")
PULL = replace(ISSUE, pull=True, head="a" * 40, branch="fix", base="main")
TRIAGE, WORK, REVIEW = WorkKey("issue_triage", ""), WorkKey("issue_work", "coder"), WorkKey("pr_review", "")


class World:
    """What Interlock has made for one number, if no item ever starts."""

    def __init__(self, rules: Rules = RULES) -> None:
        self.rules = rules
        self.before: NumberFacts | None = None
        self.was: dict[WorkKey, Wanted] = {}
        self.open: dict[WorkKey, int] = {}

    def see(self, facts: NumberFacts) -> list[Order]:
        now = wanted(facts, self.rules)
        found = orders_for(self.before, self.was, facts, now, HERE)
        for each in found:
            match each:
                case AddItems(key=WorkKey() as key, items=(item,)):
                    self.open[key] = item.priority or 0
                case AdjustPriority():
                    self.open[each.key] = each.priority
                case WithdrawWork():
                    gone = list(self.open) if each.key is None else [each.key]
                    for key in gone:
                        self.open.pop(key, None)
                case _:
                    pass
        self.before, self.was = facts, {key: each for key, (each, _) in now.items()}
        return found


def messages(found: list[Order]) -> dict[WorkKey | None, str]:
    """What the new items say why they are there."""
    return {each.key: each.items[0].message.text for each in found if isinstance(each, AddItems)}


def withdrawn(key: WorkKey | None, reason: str, *, stop: bool) -> list[Order]:
    return [WithdrawWork(place=HERE, key=key, reason=reason, stop=stop, url=ISSUE.url)]


def blocks(*blockers: str) -> Order:
    return UpdateBlocks(place=HERE, blockers=blockers, url=ISSUE.url)


def test_an_open_issue_wants_triage_and_its_labels_say_how_urgent_it_is() -> None:
    world = World()
    world.see(ISSUE)
    assert world.open == {TRIAGE: 0}
    assert messages(world.see(replace(ISSUE, labels=("bug",)))) == {TRIAGE: "Labelled bug."}
    assert world.open == {TRIAGE: 8}
    assert world.see(replace(ISSUE, labels=())) == [AdjustPriority(place=HERE, key=TRIAGE, priority=0)]


def test_an_assigned_agent_gets_work_and_loses_it_with_the_assignment() -> None:
    world = World()
    world.see(ISSUE)
    world.see(replace(ISSUE, assignees=("alice", "coder-bot")))
    assert set(world.open) == {TRIAGE, WORK}
    assert world.see(ISSUE) == withdrawn(WORK, "not_wanted", stop=True)


def test_a_removed_label_stops_no_run_that_it_alone_had_started() -> None:
    world = World(parse('defaults = false\n[[rule]]\nevent = "issues.labeled"\nlabel = "go"\ntype = "work"'))
    world.see(replace(ISSUE, labels=("go",)))
    assert world.see(ISSUE) == withdrawn(WorkKey("work", ""), "not_wanted", stop=False)


def test_how_an_issue_is_closed_decides_whether_its_run_is_stopped() -> None:
    def closed_as(state: NumberState) -> list[Order]:
        world = World()
        world.see(ISSUE)
        return world.see(replace(ISSUE, state=state))

    assert closed_as(NumberState.COMPLETED) == withdrawn(None, "closed", stop=False)
    assert closed_as(NumberState.DROPPED) == withdrawn(None, "closed_undone", stop=True)
    assert closed_as(NumberState.DELETED) == withdrawn(None, "deleted", stop=True)
    assert closed_as(NumberState.TRANSFERRED) == withdrawn(None, "transferred", stop=True)


def test_an_issue_that_is_closed_at_first_sight_wants_nothing_until_it_is_reopened() -> None:
    world = World()
    assert world.see(replace(ISSUE, state=NumberState.COMPLETED)) == []
    assert set(messages(world.see(replace(ISSUE, reopened=True)))) == {TRIAGE}


def test_who_knows_only_that_an_issue_was_reopened_starts_no_work() -> None:
    """An older version, and who has no token, do not know GitHub's event by which it was."""
    known = {**to_json(ISSUE), "reopened": True}
    asked = {**known, "reopening": 7}
    world = World()
    world.see(from_json(known))
    assert world.see(from_json(asked)) == [], "the first look with a token"
    assert world.see(from_json(known)) == [], "a delivery, read without one"
    assert world.see(from_json(asked)) == []
    assert set(messages(world.see(from_json({**known, "reopening": 9})))) == {TRIAGE}


def test_an_issue_that_was_closed_unseen_and_reopened_is_worked_on_again() -> None:
    world = World()
    world.see(ISSUE)
    assert set(messages(world.see(replace(ISSUE, reopened=True)))) == {TRIAGE}


def test_a_pull_request_is_reviewed_once_for_each_head_and_not_as_a_draft() -> None:
    world = World()
    world.see(replace(PULL, draft=True))
    assert world.open == {}
    world.see(PULL)
    assert set(world.open) == {REVIEW}
    assert messages(world.see(replace(PULL, head="b" * 40))) == {REVIEW: f"The newest commit is {'b' * 40}."}
    assert world.see(replace(PULL, head="b" * 40, draft=True)) == withdrawn(REVIEW, "not_wanted", stop=True)


def test_whoever_is_asked_for_a_review_gets_it() -> None:
    world = World()
    world.see(replace(PULL, reviewers=("critic-bot", "alice")))
    assert set(world.open) == {REVIEW, WorkKey("pr_review", "critic")}


def test_an_edit_tells_whoever_runs_and_starts_nothing() -> None:
    world = World()
    world.see(ISSUE)
    (told,) = world.see(replace(ISSUE, title="Crash at exit", body="other"))
    assert isinstance(told, NotifyAgents)
    assert told.message.text.splitlines() == [
        "The title is now: Crash at exit",
        "The description was edited. Read it again.",
    ]


def test_the_same_facts_again_lead_to_nothing() -> None:
    world = World()
    world.see(replace(PULL, labels=("bug",), assignees=("coder-bot",)))
    assert world.see(replace(PULL, labels=("bug",), assignees=("coder-bot",))) == []


def test_facts_are_stored_and_read_again() -> None:
    facts = replace(PULL, labels=("bug", "go"), state=NumberState.MERGED, blockers=("acme/app#3",))
    assert from_json(to_json(facts)) == facts
    assert from_json({**to_json(facts), "of a later version": 1}) == facts


@st.composite
def histories(draw: st.DrawFn) -> list[NumberFacts]:
    """The life of a number: what may change does, in any combination."""
    pull = draw(st.booleans())
    some = st.lists(st.sampled_from(["bug", "security", "go"]), max_size=3, unique=True).map(
        lambda names: tuple(sorted(names))
    )
    logins = st.lists(st.sampled_from(["alice", "coder-bot", "critic-bot"]), max_size=2, unique=True).map(
        lambda names: tuple(sorted(names))
    )
    changes: dict[str, st.SearchStrategy[Any]] = {
        "state": st.sampled_from(
            [NumberState.OPEN, NumberState.OPEN, NumberState.COMPLETED, NumberState.DROPPED]
        ),
        "labels": some,
        "assignees": logins,
        "title": st.sampled_from(["one", "two"]),
    }
    if pull:
        changes |= {"draft": st.booleans(), "head": st.sampled_from(["a", "b"]), "reviewers": logins}
    life = [PULL if pull else ISSUE]
    for name in draw(st.lists(st.sampled_from(sorted(changes)), max_size=12)):
        life.append(replace(life[-1], **{name: draw(changes[name])}))
    return life


@settings(deadline=None)
@given(histories(), st.data())
def test_whatever_deliveries_were_missed_the_same_items_are_open(
    life: list[NumberFacts], data: st.DataObject
) -> None:
    """Each delivery reads the number as it is then; the last one is read by somebody, at the latest by a
    reconcile. In between any may be missing, and any may be read twice."""
    seen_all, seen_some = World(), World()
    for facts in life:
        seen_all.see(facts)
    for facts in [each for each in life[:-1] if data.draw(st.booleans())]:
        seen_some.see(facts)
        seen_some.see(facts)
    seen_some.see(life[-1])
    assert seen_some.open == seen_all.open


def test_a_blocked_issue_wants_what_it_wanted_and_waits() -> None:
    world = World()
    world.see(replace(ISSUE, assignees=("coder-bot",)))
    blocked = replace(ISSUE, assignees=("coder-bot",), blockers=("acme/app#3",))
    assert world.see(blocked) == [blocks("acme/app#3")]
    assert world.see(replace(blocked, sub_issues=("acme/app#4",))) == [blocks("acme/app#4")]
    free = [blocks("acme/app#3", "acme/app#4")]
    assert world.see(replace(blocked, blockers=())) == free
    assert set(world.open) == {TRIAGE, WORK}


def test_one_that_is_blocked_at_first_sight_waits_before_anything_is_made() -> None:
    first, *_ = World().see(replace(ISSUE, blockers=("acme/app#3",)))
    assert first == blocks("acme/app#3")

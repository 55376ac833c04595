"""Deliveries become items: in any order, repeated, at once, and across crashes, the same ones."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from threading import Barrier, BrokenBarrierError, local
from typing import Any

import pytest

from interlock.core.errors import InvalidInput, TooLarge
from interlock.core.model import NewItem
from interlock.github import status_publisher, withdrawal
from interlock.github.delivery import BODY_MAX_BYTES
from interlock.github.number_views import number_view
from interlock.service import event_cursor
from interlock.service.contract import ItemFilter, Report
from interlock.store.github import GitHubStore
from interlock.store.sqlite.database import SqliteDatabase
from tests.clock import Clock
from tests.conformance.conftest import (  # noqa: F401  (fixtures)
    OpenService,
    clock,
    empty_file,
    kept_databases,
    open_service,
)
from tests.github.desk import Desk
from tests.github.fake import FakeGitHub, Repository

LANE = "issue:acme/app#1"


@pytest.fixture(params=("sqlite", "postgres18"))
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


OpenDesk = Callable[..., Desk]


@pytest.fixture
def open_desk(
    github: FakeGitHub,
    repo: Repository,
    open_service: OpenService,  # noqa: F811
    clock: Clock,  # noqa: F811
) -> Iterator[OpenDesk]:
    """Desks on one store, as in several processes, or each on its own."""
    with ExitStack() as opened:

        def open_one(*, elsewhere: bool = False) -> Desk:
            desk = Desk(github, repo, open_service(elsewhere=elsewhere), clock)
            opened.enter_context(desk.client)
            return desk

        yield open_one


@pytest.fixture
def desk(open_desk: OpenDesk) -> Desk:
    made = open_desk()
    made.rules()
    return made


def test_an_issue_becomes_an_item_with_all_that_an_agent_needs(desk: Desk) -> None:
    issue = desk.repo.issue("Crash at start", by="alice", labels=["bug"])
    taken = desk.take()
    assert {each.status for each in taken} == {"decided"}
    (item,) = desk.open()
    assert (item.type, item.lane, item.priority, item.status) == ("issue_triage", LANE, 8, "pending")
    assert (item.title, item.project) == ("#1 Crash at start", "acme/app")
    assert desk.service.show(item.id).item.payload == {
        "event_type": "issues.opened",
        "repository": "acme/app",
        "issue_number": 1,
        "title": "Crash at start",
        "author": "alice",
        "url": f"{desk.github.html_url}/acme/app/issues/1",
        "labels": ["bug"],
        "label": "bug",
    }
    assert desk.said(item) == [("Opened by alice. Labelled bug.", "issue_opened")]
    assert issue.number == 1


def test_a_delivery_that_comes_again_does_nothing(desk: Desk) -> None:
    desk.repo.issue("Crash", by="alice")
    deliveries = desk.new()
    desk.take(deliveries)
    before = desk.state()
    assert [each.status for each in desk.take(deliveries)] == ["repeated"]
    assert desk.state() == before


def test_an_assigned_agent_gets_work_and_loses_it_with_the_assignment(desk: Desk) -> None:
    issue = desk.repo.issue("Crash", by="alice", assignees=["coder-bot"])
    desk.take()
    types = {(i.type, i.agent): i for i in desk.open()}
    assert set(types) == {("issue_triage", None), ("issue_work", "coder")}
    assert desk.said(types["issue_work", "coder"]) == [("Assigned to coder-bot.", "issue_assigned")]
    issue.unassign("coder-bot", by="alice")
    desk.take()
    assert [i.type for i in desk.open()] == ["issue_triage"]


def test_a_label_changes_the_priority_of_what_waits(desk: Desk) -> None:
    issue = desk.repo.issue("Crash", by="alice")
    desk.take()
    assert [i.priority for i in desk.open()] == [0]
    issue.label("bug", by="alice")
    desk.take()
    (item,) = desk.open()
    assert item.priority == 8
    assert desk.said(item) == [("Opened by alice.", "issue_opened"), ("Labelled bug.", "issue_labeled")]
    issue.unlabel("bug", by="alice")
    desk.take()
    assert [i.priority for i in desk.open()] == [0]


@pytest.mark.parametrize(
    ("reason", "asked"), [("completed", False), ("not_planned", True)], ids=["completed", "not_planned"]
)
def test_a_closed_issue_ends_what_waits_and_stops_a_run_only_if_it_was_dropped(
    desk: Desk, reason: str, asked: bool
) -> None:
    issue = desk.repo.issue("Crash", by="alice", assignees=["coder-bot"])
    desk.take()
    handle = desk.run("helper")
    issue.close(by="alice", reason=reason)
    desk.take()
    (running,) = desk.open()
    assert (running.status, running.cancel_requested) == ("in_progress", asked)
    ended = [i for i in desk.service.items(ItemFilter(all=True)) if i.status == "cancelled"]
    assert [i.type for i in ended] == ["issue_work"]
    assert issue.shapes.issue(issue)["html_url"] in (ended[0].cancel_reason or "")
    assert handle


def test_what_ran_as_its_issue_was_closed_is_not_tried_again(desk: Desk) -> None:
    issue = desk.repo.issue("Crash", by="alice")
    desk.take()
    handle = desk.run("helper")
    issue.close(by="alice", reason="completed")
    desk.take()
    desk.intake.sweep()
    assert [i.status for i in desk.open()] == ["in_progress"], "the agent itself may have closed it"
    desk.service.fail([Report(run=handle, error="it broke")])
    assert [i.reason for i in desk.open()] == ["back_off"]
    desk.intake.sweep()
    assert desk.open() == []
    (ended,) = desk.service.items(ItemFilter(all=True))
    assert (ended.status, (ended.cancel_reason or "").partition(":")[0]) == ("cancelled", "closed")


def test_what_ran_before_anybody_looked_is_not_gone_through(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_cursor, "POLL_EVENTS", 2)
    monkeypatch.setattr(event_cursor, "POLLS_MAX", 1)
    desk.service.add([NewItem(title=f"old {n}") for n in range(9)])
    desk.intake.sweep()
    mark = desk.store.mark(withdrawal.MARK)
    assert mark is not None
    assert mark.seq == desk.service.events(newest=True, limit=1)[-1].seq


def test_a_store_without_repositories_is_not_gone_through(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_cursor, "POLL_EVENTS", 2)
    monkeypatch.setattr(event_cursor, "POLLS_MAX", 1)
    for n in range(2):
        desk.service.add([NewItem(title=f"{n} {k}") for k in range(9)])
        desk.intake.sweep()
        newest = desk.service.events(newest=True, limit=1)[-1].seq
        for name in (withdrawal.MARK, status_publisher.MARK):
            mark = desk.store.mark(name)
            assert mark is not None
            assert mark.seq == newest


def test_what_failed_before_the_first_sweep_of_a_known_repository_is_withdrawn(desk: Desk) -> None:
    desk.service.add([NewItem(title="old", agent="other")])
    desk.intake.sweep()
    issue = desk.repo.issue("Crash", by="alice")
    desk.take()
    handle = desk.run("helper")
    issue.close(by="alice", reason="completed")
    desk.take()
    desk.service.fail([Report(run=handle, error="it broke")])
    desk.intake.sweep()
    assert [i.title for i in desk.open()] == ["old"]


def test_what_failed_on_an_issue_that_was_reopened_is_tried_again(desk: Desk) -> None:
    issue = desk.repo.issue("Crash", by="alice")
    desk.take()
    handle = desk.run("helper")
    issue.close(by="alice", reason="completed")
    desk.take()
    desk.service.fail([Report(run=handle, error="it broke")])
    issue.reopen(by="alice")
    desk.take()
    desk.intake.sweep()
    assert [i.type for i in desk.open()] == ["issue_triage"]


def test_an_issue_that_was_closed_and_reopened_between_two_looks_is_worked_on_again(desk: Desk) -> None:
    """GitHub says of an issue that it was reopened, not how often: its events do."""
    issue = desk.repo.issue("Crash", by="alice", assignees=["coder-bot"])
    desk.take()
    for _ in range(2):
        for agent in ("helper", "coder"):
            desk.finish(desk.run(agent))
        assert desk.open() == []
        issue.close(by="coder-bot")
        issue.reopen(by="alice")
        desk.take(desk.new()[:1])
        assert [(i.type, i.agent) for i in desk.open()] == [("issue_triage", None), ("issue_work", "coder")]


def test_an_issue_that_is_closed_at_first_sight_makes_nothing_until_it_is_reopened(desk: Desk) -> None:
    issue = desk.repo.issue("Crash", by="alice")
    issue.close(by="alice")
    deliveries = desk.new()
    desk.take(reversed(deliveries))
    assert desk.open() == []
    issue.reopen(by="alice")
    desk.take()
    assert [i.type for i in desk.open()] == ["issue_triage"]


def test_a_push_supersedes_the_review_of_the_old_head_and_a_merge_ends_it(desk: Desk) -> None:
    desk.repo.commit({"a": "1"}, by="alice", branch="fix")
    pull = desk.repo.pull("Fix", by="alice", head="fix")
    desk.take()
    (first,) = desk.open()
    assert (first.type, first.policy) == ("pr_review", "supersede")
    assert desk.service.show(first.id).item.payload["pr_number"] == pull.number  # type: ignore[index]
    desk.run("critic")
    desk.repo.commit({"a": "2"}, by="alice", branch="fix")
    desk.take()
    (running, newer) = desk.open()
    assert (running.cancel_requested, newer.status) == (True, "deferred")
    pull.to_draft(by="alice")
    desk.take()
    assert [i.id for i in desk.open()] == [first.id]
    pull.ready(by="alice")
    desk.take()
    assert len(desk.open()) == 2
    pull.merge(by="boss")
    desk.take()
    assert [i.id for i in desk.open()] == [first.id]


def test_a_deleted_issue_ends_everything(desk: Desk) -> None:
    issue = desk.repo.issue("Crash", by="alice")
    desk.take()
    issue.delete(by="boss")
    desk.take()
    assert desk.open() == []


def test_a_transferred_issue_ends_here_and_begins_there(desk: Desk) -> None:
    other = desk.github.repository("acme/other", admin=["boss"])
    other.hook()
    issue = desk.repo.issue("Crash", by="alice")
    desk.take()
    issue.transfer(other, by="boss")
    desk.take()
    assert [(i.lane, i.project) for i in desk.open()] == [("issue:acme/other#1", "acme/other")]


@pytest.mark.parametrize("late", [False, True], ids=["in order", "late"])
def test_a_renamed_or_transferred_repository_keeps_its_lanes(desk: Desk, late: bool) -> None:
    issue = desk.repo.issue("Crash", by="alice")
    before = desk.new()
    if not late:
        desk.take(before)
    desk.repo.rename("tool", by="boss")
    issue.label("bug", by="alice")
    desk.take()
    desk.repo.transfer("umbrella", by="boss")
    issue.assign("coder-bot", by="alice")
    desk.take()
    desk.take(before)
    expected = "issue:acme/tool#1" if late else LANE  # as it was called at first sight
    assert {i.lane for i in desk.open()} == {expected}
    assert {i.type for i in desk.open()} == {"issue_triage", "issue_work"}
    assert len({i.project for i in desk.open()}) == 1
    assert desk.store.github.repository_named("umbrella/tool") is not None
    work = next(i for i in desk.open() if i.type == "issue_work")
    assert desk.service.show(work.id).item.payload["repository"] == "umbrella/tool"  # type: ignore[index]


def test_another_repository_that_takes_the_old_name_is_not_mistaken_for_it(desk: Desk) -> None:
    old = desk.repo.issue("Crash", by="alice")
    late = desk.new()
    desk.repo.rename("tool", by="boss")
    other = desk.github.repository("acme/app", admin=["boss"])
    other.hook()
    other.issue("Another", by="boss")
    desk.take()
    old.label("bug", by="alice")
    desk.take()
    desk.take(late)
    found = {(i.title, i.project) for i in desk.open()}
    assert found == {("#1 Crash", "acme/tool"), ("#1 Another", "acme/app")}


@pytest.mark.slow
def test_every_order_of_deliveries_gives_the_same_items_lanes_and_messages(
    desk: Desk, open_desk: OpenDesk, backend: str
) -> None:
    issue = desk.repo.issue("Crash", by="alice")
    issue.label("bug", by="alice")
    issue.assign("coder-bot", by="alice")
    issue.comment("@critic: look", by="alice")
    deliveries = desk.new()
    desk.take(deliveries)
    assert [row[:2] for row in desk.wanted()] == [
        ("issue_comment", "critic"),
        ("issue_triage", ""),
        ("issue_work", "coder"),
    ]
    assert len(deliveries) == 4
    every = list(itertools.permutations(deliveries))
    # A database of PostgreSQL takes long to make.
    for order in every if backend == "sqlite" else random.Random(7).sample(every, 3):
        other = open_desk(elsewhere=True)
        other.take([*order, *order])
        assert other.state() == desk.state()


def test_a_long_day_in_random_order_gives_the_same_too(desk: Desk, open_desk: OpenDesk) -> None:
    issue = desk.repo.issue("Crash", by="alice", labels=["bug"], assignees=["coder-bot"])
    issue.edit(by="alice", title="Crash at start")
    issue.close(by="alice", reason="not_planned")
    issue.reopen(by="alice")
    issue.comment("once", by="alice").edit("one", by="alice")
    issue.comment("never", by="alice").delete(by="alice")
    deliveries = desk.new()
    desk.take(deliveries)
    for seed in range(4):
        other = open_desk(elsewhere=True)
        again = [*deliveries, *deliveries]
        random.Random(seed).shuffle(again)
        other.take(again)
        assert other.state() == desk.state()


def test_looks_in_between_give_the_same_items(desk: Desk) -> None:
    """Each event looked at as it happens, or all at the end: the same is open."""
    issue = desk.repo.issue("Crash", by="alice")
    desk.take()
    for act in (
        lambda: issue.label("bug", by="alice"),
        lambda: issue.assign("coder-bot", by="alice"),
        lambda: issue.close(by="alice", reason="not_planned"),
        lambda: issue.reopen(by="alice"),
    ):
        act()
        desk.take()
    assert [row[:4] for row in desk.wanted()] == [
        ("issue_triage", "", LANE, 8),
        ("issue_work", "coder", LANE, 8),
    ]


def test_two_deliveries_of_one_number_at_once_are_decided_one_after_the_other(
    desk: Desk, open_desk: OpenDesk
) -> None:
    """Both look, and only then both write. Without the comparison of revisions, the older look could win."""
    issue = desk.repo.issue("Crash", by="alice")
    issue.label("bug", by="alice")
    first, second = desk.new()[-2:]
    other = open_desk()

    def assign() -> None:
        issue.assign("coder-bot", by="alice")

    desk.github.faults.before(assign, on="GET /repos/acme/app/issues/1")
    with ThreadPoolExecutor(2) as pool:
        both = [
            pool.submit(who.intake.ingest, each.event, each.guid, each.body)
            for who, each in ((desk, first), (other, second))
        ]
        assert {each.result().status for each in both} == {"decided"}
    desk.take()
    assert [row[:2] for row in desk.wanted()] == [("issue_triage", ""), ("issue_work", "coder")]
    assert desk.owed() == 0


def test_an_old_look_never_overwrites_a_newer_one(
    desk: Desk, open_desk: OpenDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One looks, another sees the issue closed and writes that, then the first writes: it has to look again.

    Without the comparison of revisions in `advance` the issue stays open for us.
    """
    issue = desk.repo.issue("Crash", by="alice")
    desk.take()
    issue.label("bug", by="alice")
    (labeled,) = desk.new()
    kind = type(desk.store.github)
    other, real = open_desk(), kind.advance

    def late(*args: Any) -> bool:
        monkeypatch.setattr(kind, "advance", real)
        issue.close(by="alice", reason="not_planned")
        desk.new()
        (closed,) = desk.github.deliveries[-1:]
        other.take([closed])
        assert desk.open() == []
        return real(*args)

    monkeypatch.setattr(kind, "advance", late)
    desk.take([labeled])
    assert desk.open() == []


def test_an_answer_that_is_older_than_its_event_is_waited_for(desk: Desk) -> None:
    issue = desk.repo.issue("Crash", by="alice")
    desk.take()
    desk.github.clock.advance(5)
    with desk.github.faults.stale_reads():
        issue.close(by="alice")
        (late,) = desk.take()
        assert late.status == "put_off"
        assert len(desk.open()) == 1
    desk.clock.advance(10)
    assert desk.intake.sweep().decided == 1
    assert desk.open() == []


def test_while_github_is_away_deliveries_are_kept_and_decided_later(desk: Desk) -> None:
    desk.repo.issue("Crash", by="alice")
    with desk.github.faults.outages():
        (kept,) = desk.take()
        assert (kept.status, desk.open()) == ("put_off", [])
    assert desk.intake.sweep().decided == 0, "it is not due yet"
    desk.clock.advance(60)
    assert desk.intake.sweep().decided == 1
    assert len(desk.open()) == 1


def test_rules_with_a_mistake_keep_deliveries_until_it_is_mended(desk: Desk) -> None:
    desk.rules("rule = 3\n")
    desk.repo.issue("Crash", by="alice")
    (kept,) = desk.take()
    assert kept.status == "put_off"
    assert ".github/interlock.toml of acme/app" in kept.outcome
    desk.rules()
    desk.clock.advance(60)
    desk.intake.sweep()
    assert len(desk.open()) == 1


def test_a_repository_says_in_its_rules_what_its_events_make(desk: Desk) -> None:
    desk.rules(
        """
        [[rule]]
        event = "pull_request"
        path = "docs/*"
        type = "docs_review"
        lane = "docs"
        agent = "writer"
        timeout = "10m"
        """
    )
    desk.repo.commit({"docs/a.md": "1"}, by="alice", branch="docs")
    desk.repo.pull("Words", by="alice", head="docs")
    desk.take()
    (item,) = desk.open()
    assert (item.type, item.agent, item.lane, item.timeout_s) == ("docs_review", "writer", "docs", 600)
    desk.repo.numbers[1].close(by="alice")
    desk.take()
    assert desk.open() == [], "also on another lane"


def test_what_took_on_other_work_stays_when_its_own_reason_goes(desk: Desk) -> None:
    """Two keys of one agent share an item: the first goes, the second is still wanted."""
    desk.rules('[[rule]]\nevent = "issues.labeled"\nlabel = "go"\ntype = "label_work"\nagent = "coder"\n')
    issue = desk.repo.issue("Crash", by="alice", labels=["go"])
    desk.take()
    issue.assign("coder-bot", by="alice")
    desk.take()
    assert [(i.type, i.agent) for i in desk.open()] == [("issue_triage", None), ("label_work", "coder")]
    issue.unlabel("go", by="alice")
    desk.take()
    assert [(i.type, i.agent) for i in desk.open()] == [("issue_triage", None), ("issue_work", "coder")]
    issue.unassign("coder-bot", by="alice")
    desk.take()
    assert [i.type for i in desk.open()] == ["issue_triage"]


def test_an_edited_title_is_told_to_whoever_is_there_and_starts_nothing(desk: Desk) -> None:
    issue = desk.repo.issue("Crash", by="alice")
    desk.take()
    issue.edit(by="alice", title="Crash at start")
    desk.take()
    (item,) = desk.open()
    assert desk.said(item)[1:] == [("The title is now: Crash at start", "issue_edited")]
    desk.finish(desk.run("helper"))
    issue.edit(by="alice", title="Crash")
    desk.take()
    assert desk.open() == []


def test_a_blocked_issue_waits_for_its_blocker_and_keeps_its_place(desk: Desk) -> None:
    blocker = desk.repo.issue("First", by="alice")
    issue = desk.repo.issue("Then", by="alice", assignees=["coder-bot"])
    desk.take()
    before = desk.state()
    (first, triage, work) = desk.open()
    (lease,) = desk.service.next("helper", item=triage.id)
    issue.add_blocker(blocker, by="alice")
    desk.take()
    (refused,) = desk.service.done([Report(run=lease.run)])
    assert refused.refusal is not None, "the run was stopped"
    assert desk.state() == before, "all of it waits, as it was"
    assert {i.ticket for i in desk.open()} == {first.ticket, triage.ticket, work.ticket}
    assert [i.blocked_by for i in desk.open()] == [(), ("acme/app#1",), ("acme/app#1",)]
    assert [each.item.id for each in desk.service.next("coder", limit=9)] == [first.id]
    blocker.close(by="alice")
    desk.take()
    assert [i.blocked_by for i in desk.open()][-2:] == [(), ()]
    (lease,) = desk.service.next("coder")
    assert lease.item.id == triage.id
    blocker.reopen(by="alice")
    desk.take()
    assert [i.blocked_by for i in desk.open()][-2:] == [("acme/app#1",), ("acme/app#1",)]
    issue.remove_blocker(blocker, by="alice")
    desk.take()
    assert desk.service.blocks() == []


def test_what_is_made_while_an_issue_is_blocked_never_starts(desk: Desk) -> None:
    """Also on a lane of its own, which a rule has chosen."""
    desk.rules("[[rule]]\nevent = 'issues.labeled'\nlabel = 'go'\ntype = 'apart'\nlane = 'none'\n")
    desk.new()
    blocker, issue = desk.repo.issue("First", by="alice"), desk.repo.issue("Then", by="alice")
    issue.add_blocker(blocker, by="alice")
    desk.new()
    issue.label("go", by="alice")
    desk.take()
    assert {i.type for i in desk.open()} == {"issue_triage", "apart"}
    assert desk.service.next("coder", limit=9) == []
    blocker.close(by="alice")
    desk.take()
    assert len(desk.service.next("coder", limit=9)) == 2


def test_a_closed_issue_leaves_no_block(desk: Desk) -> None:
    blocker, issue = desk.repo.issue("First", by="alice"), desk.repo.issue("Then", by="alice")
    issue.add_blocker(blocker, by="alice")
    desk.take()
    assert len(desk.service.blocks()) == 1
    issue.close(by="alice")
    desk.take()
    assert desk.service.blocks() == []


def test_a_late_block_does_not_outlive_its_reason(desk: Desk, open_desk: OpenDesk) -> None:
    """One process is about to block, while another hears that the blocker is gone."""
    blocker, issue = desk.repo.issue("First", by="alice"), desk.repo.issue("Then", by="alice")
    desk.take()
    issue.add_blocker(blocker, by="alice")
    (added, *_) = desk.new()
    other, real = open_desk(), desk.service.block

    def meanwhile(**options: Any) -> Any:
        desk.service.block = real  # type: ignore[method-assign]
        issue.remove_blocker(blocker, by="alice")
        other.take(desk.new())
        return real(**options)

    desk.service.block = meanwhile  # type: ignore[method-assign]
    desk.take([added])
    assert desk.service.blocks() == []


def test_an_issue_waits_for_its_open_sub_issues(desk: Desk) -> None:
    parent, child = desk.repo.issue("Whole", by="alice"), desk.repo.issue("Part", by="alice")
    desk.take()
    (whole, part) = desk.open()
    (lease,) = desk.service.next("helper", item=whole.id)
    parent.add_child(child, by="alice")
    desk.take()
    desk.service.renew([Report(run=lease.run)])
    assert desk.service.show(whole.id).item.run == lease.fence, "who divides an issue goes on"
    desk.service.release([Report(run=lease.run)])
    assert [each.item.id for each in desk.service.next("helper", limit=9)] == [part.id]
    child.close(by="alice")
    desk.take()
    assert [each.item.id for each in desk.service.next("helper", limit=9)] == [whole.id]


def test_sub_issues_need_not_block(desk: Desk) -> None:
    desk.repo.commit({".github/interlock.toml": "sub_issues_block = false\n"})
    desk.new()
    parent, child = desk.repo.issue("Whole", by="alice"), desk.repo.issue("Part", by="alice")
    parent.add_child(child, by="alice")
    desk.take()
    assert desk.service.blocks() == []


class Crash(Exception):
    """The process dies here."""


#: Every step that writes: a process may die before or after it.
STEPS = [
    *(("store", name) for name in ("keep_delivery", "advance", "add", "decide_delivery", "carry_out")),
    *(("service", name) for name in ("add", "edit", "cancel")),
]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", range(len(STEPS)), ids=[f"{where}.{name}" for where, name in STEPS])
def test_a_crash_between_any_two_steps_leads_to_each_thing_once(
    desk: Desk, open_desk: OpenDesk, monkeypatch: pytest.MonkeyPatch, step: int, after: bool
) -> None:
    broken = open_desk(elsewhere=True)
    where, name = STEPS[step]
    owner = type(broken.store.github) if where == "store" else broken.service
    real: Callable[..., Any] = getattr(owner, name)
    crashes = itertools.count()

    def dies(*args: Any, **options: Any) -> Any:
        if after:
            real(*args, **options)
        next(crashes)
        raise Crash

    issue = desk.repo.issue("Crash", by="alice", assignees=["coder-bot"])
    for act in (
        lambda: None,
        lambda: issue.label("bug", by="alice"),
        lambda: issue.unlabel("bug", by="alice"),
        lambda: issue.unassign("coder-bot", by="alice"),
        lambda: issue.edit(by="alice", title="Crash at start"),
        lambda: issue.comment("@critic: look", by="alice"),
        lambda: issue.comment("me too\n/interlock priority 7", by="alice"),
        lambda: issue.comment("@coder: this is spam", by="stranger"),
    ):
        act()
        deliveries = desk.new()
        desk.take(deliveries)
        for each in deliveries:
            with monkeypatch.context() as patch:
                patch.setattr(owner, name, dies)
                with suppress(Crash):
                    broken.intake.ingest(each.event, each.guid, each.body)
            if name == "keep_delivery" and not after:
                broken.take([each])  # GitHub saw no answer, and somebody sends it again
        broken.intake.sweep()
    assert next(crashes) > 0
    assert broken.state() == desk.state()
    assert broken.owed() == 0


def test_many_sweepers_at_once_do_everything_once(desk: Desk, open_desk: OpenDesk) -> None:
    for n in range(6):
        desk.repo.issue(f"Crash {n}", by="alice", assignees=["coder-bot"])
    for each in desk.new():
        desk.intake.keep(each.event, each.guid, each.body)
    desks = [desk, *(open_desk() for _ in range(3))]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda each: each.intake.sweep(), desks))
    desk.clock.advance(60)
    desk.intake.sweep()
    assert len(desk.open()) == 12
    assert all(len(desk.said(item)) == 1 for item in desk.open())
    assert desk.owed() == 0


def test_a_sweep_is_bounded(desk: Desk) -> None:
    for n in range(3):
        desk.repo.issue(f"Crash {n}", by="alice")
    for each in desk.new():
        desk.intake.keep(each.event, each.guid, each.body)
    assert [desk.intake.sweep(limit=2).decided for _ in range(3)] == [2, 1, 0]


def test_an_unchanged_number_costs_nothing_of_the_allowance(desk: Desk) -> None:
    desk.repo.issue("Crash", by="alice")
    desk.take()
    asked = len(desk.github.requests)
    for guid in ("again-1", "again-2"):
        first = desk.github.deliveries[-1]
        desk.intake.ingest(first.event, guid, first.body)
    found = [status for _, path, status in desk.github.requests[asked:] if path.endswith("issue_number}")]
    assert found == [304, 304]


def test_without_a_token_the_facts_in_deliveries_have_to_do(desk: Desk) -> None:
    issue = desk.repo.issue("Crash", by="alice", labels=["bug"])
    opened, labeled = desk.new()
    desk.github.clock.advance(5)
    issue.close(by="alice")
    (closed,) = desk.new()
    asked = len(desk.github.requests)
    for each in (labeled, closed, opened):
        desk.blind.ingest(each.event, each.guid, each.body)
    assert len(desk.github.requests) == asked
    assert desk.open() == [], "an older delivery changes nothing"


@pytest.mark.parametrize(
    ("part", "says"), [({"updated_at": ...}, "'updated_at' is missing"), ({"labels": 7}, "malformed")]
)
def test_without_a_token_a_delivery_that_says_too_little_waits_and_says_why(
    desk: Desk, part: dict[str, Any], says: str
) -> None:
    desk.repo.issue("Crash", by="alice")
    (opened,) = desk.new()
    issue = {k: v for k, v in {**opened.payload["issue"], **part}.items() if v is not ...}
    body = json.dumps({**opened.payload, "issue": issue}).encode()
    heard: list[tuple[str, str, str]] = []
    desk.blind.on_postponed = lambda *told: heard.append(told)
    assert desk.blind.ingest("issues", opened.guid, body).status == "put_off"
    (seen,) = number_view(desk.service, desk.store.github, None, 1).deliveries
    assert says in str(seen.why)
    assert "Without a token" in str(seen.why)
    assert heard == [(opened.guid, "issues", seen.why)]
    desk.clock.advance(60)
    assert desk.intake.sweep().decided == 1, "with a token GitHub says the rest"
    assert len(desk.open()) == 1


@pytest.mark.parametrize(
    ("event", "delivery", "body", "says"),
    [
        ("Issues!", "d1", b"{}", "valid event name"),
        ("issues", "d 1", b"{}", "valid delivery id"),
        ("issues", "d1", b"{", "not valid JSON"),
        ("issues", "d1", b"[]", "not a JSON object"),
    ],
)
def test_what_is_no_delivery_is_refused_and_not_kept(
    desk: Desk, event: str, delivery: str, body: bytes, says: str
) -> None:
    with pytest.raises(InvalidInput, match=says):
        desk.intake.ingest(event, delivery, body)
    assert desk.owed() == 0


def test_a_delivery_that_is_too_large_is_refused(desk: Desk) -> None:
    with pytest.raises(TooLarge):
        desk.intake.ingest("issues", "d1", b" " * (BODY_MAX_BYTES + 1))


def test_odd_names_and_texts_are_no_obstacle(desk: Desk) -> None:
    odd = desk.github.repository("acme/.github", admin=["boss"])
    odd.hook()
    odd.issue("\u0007 a\ttitle \u202e with\u0000 all sorts", by="boss")
    desk.take()
    (item,) = desk.open()
    assert (item.title, item.project) == ("#1 a title \u202e with all sorts", f"acme/github.{odd.id}")
    body = {
        "repository": {"id": 1 << 70, "full_name": "a/b"},
        "issue": {"number": 1 << 70, "title": "\ud800"},
    }
    assert desk.intake.ingest("issues", "odd", json.dumps(body).encode()).status == "decided"
    nameless = {"repository": {"id": 5}, "issue": {"number": 1}}
    assert desk.intake.ingest("issues", "nameless", json.dumps(nameless).encode()).status == "decided"
    assert [each.id for each in desk.store.github.repositories(0, 10)] == [odd.id]


def test_a_delivery_that_could_not_be_understood_does_not_use_up_its_id(desk: Desk) -> None:
    desk.repo.issue("Crash", by="alice")
    (good,) = desk.new()
    mangled = json.dumps({**good.payload, "repository": None}).encode()
    assert desk.intake.ingest("issues", good.guid, mangled).outcome == "The payload contains no repository."
    assert desk.take([good])[0].status == "decided"
    assert len(desk.open()) == 1
    assert desk.take([good])[0].status == "repeated"


def test_one_that_failed_may_come_corrected(desk: Desk) -> None:
    desk.repo.issue("Crash", by="alice")
    (good,) = desk.new()
    wrong = {**good.payload, "issue": {**good.payload["issue"], "number": 99}}
    assert desk.intake.ingest("issues", good.guid, json.dumps(wrong).encode()).status == "put_off"
    assert desk.take([good])[0].status == "decided"
    assert len(desk.open()) == 1


@pytest.mark.parametrize(
    ("event", "why"),
    [("issues", "has 'comment'"), ("pull_request", "lacks 'pull_request'"), ("workflow_run", "lacks 'workf")],
)
def test_an_event_that_contradicts_its_payload_is_refused_and_not_kept(
    desk: Desk, event: str, why: str
) -> None:
    desk.repo.issue("Crash", by="alice").comment("hello", by="alice")
    comment = desk.new()[-1]
    with pytest.raises(InvalidInput, match=f"not belong to event '{event}': it {why}"):
        desk.intake.ingest(event, "a", comment.body)
    assert not desk.store.github.has_delivery("a")


def test_deliveries_that_share_a_commit_are_each_decided_or_put_off_by_themselves(desk: Desk) -> None:
    for n in range(4):
        desk.repo.issue(f"Crash {n}", by="alice")
    deliveries = desk.new()
    for each in deliveries:
        told = json.loads(each.body)
        if told["issue"]["title"] == "Crash 1":
            del told["issue"]["state"]
        assert desk.blind.keep(each.event, each.guid, json.dumps(told).encode())
    commits = itertools.count()
    if isinstance(database := desk.store.database, SqliteDatabase):
        database.db.set_commit_hook(lambda: next(commits) < 0)
    swept = desk.blind.sweep()
    assert (swept.decided, swept.put_off) == (3, 1)
    assert sorted(item.title for item in desk.open()) == ["#1 Crash 0", "#3 Crash 2", "#4 Crash 3"]
    assert next(commits) < 2 * len(deliveries), "the sweep itself makes some too"


def _kept(desk: Desk, count: int) -> None:
    """Deliveries of new issues that nothing has decided on."""
    for n in range(count):
        desk.repo.issue(f"Crash {n}", by="alice")
    for each in desk.new():
        assert desk.blind.keep(each.event, each.guid, each.body)


def test_deliveries_and_what_is_recorded_of_their_orders_share_transactions(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taken out: the shared transaction of `together` on PostgreSQL; each delivery has its own."""
    _kept(desk, 5)
    begun, seen = itertools.count(), {"advance": set[int](), "carry_out": set[int]()}
    current = [next(begun)]
    database: Any = desk.store.database
    transaction = database.transaction

    def beginning(*of: Any) -> Any:
        if not isinstance(database, SqliteDatabase) or not database.is_part:
            current[0] = next(begun)
        return transaction(*of)

    def noting(name: str) -> Callable[..., Any]:
        real: Callable[..., Any] = getattr(GitHubStore, name)

        def noted(*args: Any, **options: Any) -> Any:
            found = real(*args, **options)
            seen[name].add(current[0])
            return found

        return noted

    monkeypatch.setattr(database, "transaction", beginning)
    for name in seen:
        monkeypatch.setattr(GitHubStore, name, noting(name))
    swept = desk.blind.sweep()
    assert (swept.decided, swept.carried_out) == (5, 5)
    assert [len(transactions) for transactions in seen.values()] == [1, 1]


@pytest.mark.parametrize("name", ["advance", "decide_delivery", "carry_out"])
def test_a_crash_in_a_shared_transaction_loses_and_doubles_nothing(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Taken out: the roll-back in `transaction`; what was written before the crash stays, half done."""
    _kept(desk, 5)
    owner = type(desk.store.github)
    real: Callable[..., Any] = getattr(owner, name)
    calls = itertools.count(1)

    def dies(*args: Any, **options: Any) -> Any:
        if next(calls) > 3:
            raise KeyboardInterrupt
        return real(*args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, dies)
        with pytest.raises(KeyboardInterrupt):
            desk.blind.sweep()
    desk.blind.sweep()
    assert sorted(item.title for item in desk.open()) == [f"#{n + 1} Crash {n}" for n in range(5)]
    assert desk.owed() == 0
    assert not desk.store.github.undecided(10)


def test_two_servers_that_decide_in_opposite_orders_do_everything_once(
    desk: Desk, open_desk: OpenDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each holds a number that the other wants next. Taken out: the repetition after a deadlock; one of the
    sweeps fails."""
    _kept(desk, 2)
    desks = [desk, open_desk()]
    met, first = Barrier(2), local()
    advance = GitHubStore.advance

    def meeting(*args: Any, **options: Any) -> bool:
        found = advance(*args, **options)
        if not hasattr(first, "done"):
            first.done = True
            with suppress(BrokenBarrierError):  # where one writes at a time, the other waits for the commit
                met.wait(1)
        return found

    due = desks[1].store.github.due_deliveries
    monkeypatch.setattr(desks[1].store.github, "due_deliveries", lambda limit: due(limit)[::-1])
    monkeypatch.setattr(GitHubStore, "advance", meeting)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda each: each.blind.sweep(), desks))
    desk.clock.advance(60)
    desk.blind.sweep()
    assert sorted(item.title for item in desk.open()) == ["#1 Crash 0", "#2 Crash 1"]
    assert desk.owed() == 0


def test_the_arrivals_of_several_numbers_share_a_transaction(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taken out: `_add_together`; each number adds its own."""
    _kept(desk, 5)
    add, calls = desk.service.add, []

    def counted(items: Any) -> Any:
        calls.append(len(items))
        return add(items)

    monkeypatch.setattr(desk.service, "add", counted)
    swept = desk.blind.sweep()
    assert (swept.decided, swept.carried_out, calls) == (5, 5, [5])
    assert sorted(item.title for item in desk.open()) == [f"#{n + 1} Crash {n}" for n in range(5)]
    assert desk.owed() == 0


def test_an_arrival_that_is_refused_holds_up_no_other_number(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taken out: the `except` of `_add_together`; the sweep fails and nothing is added."""
    _kept(desk, 4)
    add = desk.service.add

    def refusing(items: Any) -> Any:
        if any(item.title.endswith("Crash 1") for item in items):
            raise InvalidInput("This title is not allowed.")
        return add(items)

    monkeypatch.setattr(desk.service, "add", refusing)
    swept = desk.blind.sweep()
    assert (swept.decided, swept.carried_out, swept.put_off) == (4, 3, 1)
    assert sorted(item.title for item in desk.open()) == ["#1 Crash 0", "#3 Crash 2", "#4 Crash 3"]

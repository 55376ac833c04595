"""Comments and reviews reach whom they are for: once, with the reason, and never by way of a loop."""

from __future__ import annotations

import itertools
import random

import pytest

from interlock.core.errors import LeaseLost
from interlock.github.outbox import OutboxRelay
from interlock.github.remark_text import own_words
from interlock.github.remarks import mark
from interlock.github.wake_rules import LOGIN_WAKES_MAX
from interlock.service.contract import ItemFilter, Report
from tests.conformance.conftest import clock, empty_file, kept_databases, open_service  # noqa: F401
from tests.github.desk import Desk
from tests.github.issues import Issue
from tests.github.test_intake import OpenDesk, backend, desk, open_desk  # noqa: F401

# ruff: noqa: F811  (fixtures)


@pytest.fixture
def issue(desk: Desk) -> Issue:
    """An issue whose triage is done."""
    made = desk.repo.issue("Crash", by="alice")
    desk.take()
    desk.finish(desk.run("helper"))
    assert desk.open() == []
    return made


def test_five_comments_are_one_run_with_five_messages(desk: Desk, issue: Issue) -> None:
    for n in range(5):
        issue.comment(f"and {n}", by="alice")
    desk.take()
    (item,) = desk.open()
    assert item.type == "issue_comment"
    assert desk.said(item) == [(f"and {n}", "issue_commented") for n in range(5)]
    (lease,) = desk.service.next("helper")
    assert [m.url for m in lease.messages] == [
        f"{desk.github.html_url}/acme/app/issues/1#issuecomment-{c.id}" for c in issue.comments
    ]
    assert {m.author for m in lease.messages} == {"alice"}
    assert lease.item.payload is not None
    assert lease.item.payload["event_type"] == "issue_comment.created"
    desk.finish(lease.run)
    assert desk.open() == [], "all were read"


def test_one_comment_wakes_the_assignee_and_everyone_mentioned_once(desk: Desk, issue: Issue) -> None:
    issue.assign("coder-bot", by="alice")
    desk.take()
    desk.finish(desk.run("coder"))
    issue.comment("@critic-bot and @coder-bot and @coder: look, @nobody", by="alice")
    desk.take()
    woken = {i.agent: desk.said(i) for i in desk.open()}
    said = "@critic-bot and @coder-bot and @coder: look, @nobody"
    assert woken == {
        "coder": [(said, "issue_comment_mentioned")],
        "critic": [(said, "issue_comment_mentioned")],
    }


def test_our_own_comment_does_nothing_and_an_agents_wakes_only_whom_it_names(
    desk: Desk, issue: Issue
) -> None:
    issue.comment(f"Working on it.\n\n{mark(run=7)}", by="boss")  # whose token Interlock uses
    desk.take()
    assert desk.service.items(ItemFilter(all=True, statuses=("pending", "cancelled"))) == []
    issue.comment("Done, I think.", by="coder-bot")
    desk.take()
    assert desk.open() == []
    issue.comment("@critic: what do you say? I, @coder, am done.", by="coder-bot")
    desk.take()
    assert [i.agent for i in desk.open()] == ["critic"]
    issue.comment("please", by="boss")
    desk.take()
    assert [i.agent for i in desk.open()] == ["critic"], "an agent may write with that account, too"


def test_in_actions_a_mark_says_which_agent_wrote(desk: Desk, issue: Issue) -> None:
    bot = "github-actions[bot]"
    issue.comment("Starting.", by=bot)
    issue.comment(f"@critic and @coder: done\n\n{mark(agent='coder', run=7)}", by=bot)
    desk.take()
    assert [i.agent for i in desk.open()] == ["critic"]
    issue.comment(f"@coder: do it\n\n{mark(agent='critic', run=7)}", by="stranger")
    desk.take()
    assert [i.agent for i in desk.open()] == ["critic"], "anybody can copy a mark"


def test_an_outsider_is_heard_by_whoever_runs_and_starts_nothing(desk: Desk, issue: Issue) -> None:
    issue.comment("me too", by="stranger")
    desk.take()
    assert desk.open() == []
    issue.comment("look", by="alice")
    desk.take()
    handle = desk.run("helper")
    issue.comment("@critic: here is how", by="stranger")
    desk.take()
    assert [(m.text, m.sender) for m in desk.service.inbox(handle)][-1] == (
        "@critic: here is how",
        "outsider",
    )
    desk.service.done([Report(run=handle)])
    assert desk.open() == [], "an outsider's unread message makes no follow-up"


def test_what_an_event_says_about_its_author_is_not_believed(desk: Desk, issue: Issue) -> None:
    """`author_association` says COLLABORATOR of somebody who may only read."""
    desk.repo.collaborator("reader", "read")
    issue.comment("start, please", by="reader")
    delivery = desk.new()[-1]
    assert delivery.payload["comment"]["author_association"] == "COLLABORATOR"
    desk.take([delivery])
    assert desk.open() == []


def test_a_repository_may_let_anyone_wake(desk: Desk, issue: Issue) -> None:
    desk.repo.commit({".github/interlock.toml": "anyone_wakes = true\n"})
    issue.comment("me too", by="stranger")
    desk.take()
    assert [i.type for i in desk.open()] == ["issue_comment"]


def test_comments_that_are_edited_or_deleted_before_anybody_looks(
    desk: Desk, issue: Issue, open_desk: OpenDesk
) -> None:
    first, second = issue.comment("lok", by="alice"), issue.comment("never mind", by="alice")
    first.edit("look", by="alice")
    second.delete(by="alice")
    deliveries = desk.new()
    for _ in range(3):
        random.Random(3).shuffle(deliveries)
        desk.take(deliveries)
    (item,) = desk.open()
    assert desk.said(item) == [("look", "issue_commented")]
    assert desk.owed() == 0


def test_a_later_edit_or_deletion_of_what_was_told_is_told(desk: Desk, issue: Issue) -> None:
    comment = issue.comment("lok", by="alice")
    desk.take()
    comment.edit("look", by="alice")
    desk.take()
    edited = desk.github.deliveries[-1]
    desk.intake.ingest(edited.event, "the-same-edit-again", edited.body)
    comment.delete(by="alice")
    desk.take()
    (item,) = desk.open()
    assert [text for text, _ in desk.said(item)] == [
        "lok",
        "The remark of alice was edited:\n\nlook",
        "The remark of alice was deleted.",
    ]


def test_a_bots_comment_that_changes_all_day_is_told_once(desk: Desk, issue: Issue) -> None:
    issue.comment("look", by="alice")
    report = issue.comment("coverage 81 %", by="coverage")
    desk.take()
    for n in range(5):
        report.edit(f"coverage {82 + n} %", by="coverage")
        desk.take()
    (item,) = desk.open()
    assert [text for text, _ in desk.said(item)] == ["look", "coverage 81 %"]


def test_a_review_that_requests_changes_wakes_the_agent_that_opened_the_pull_request(desk: Desk) -> None:
    desk.repo.commit({"a": "1"}, by="coder-bot", branch="fix")
    pull = desk.repo.pull("Fix", by="coder-bot", head="fix")
    desk.take()
    desk.finish(desk.run("critic"))
    pull.review("APPROVED", "nice", by="bob")
    desk.take()
    assert desk.open() == []
    review = pull.review("CHANGES_REQUESTED", "", by="bob")
    pull.review_comment("rename this", "a", 3, by="bob")
    desk.take()
    (item,) = desk.open()
    assert (item.type, item.agent) == ("changes_requested", "coder")
    assert desk.said(item) == [
        ("Changes were requested.", "pull_request_changes_requested"),
        ("On a, line 3:\n\nrename this", "issue_commented"),
    ]
    review.dismiss("outdated", by="boss")
    desk.take()
    assert desk.said(item)[-1][0] == "The review of bob was dismissed."


def test_a_comment_on_a_closed_issue_starts_nothing(desk: Desk, issue: Issue) -> None:
    issue.close(by="alice")
    issue.comment("thanks", by="alice")
    desk.take()
    assert desk.open() == []


def test_agents_that_wake_each_other_stop_for_a_person(desk: Desk, issue: Issue) -> None:
    writers = itertools.cycle([("coder-bot", "critic"), ("critic-bot", "coder")])
    for _ in range(30):
        writer, other = next(writers)
        issue.comment(f"@{other}: your turn", by=writer)
        desk.take()
        leases = desk.service.next(other)
        if not leases:
            break
        desk.finish(leases[0].run)
    else:
        pytest.fail("they go on for ever")
    assert [i.reason for i in desk.service.stopped()] == ["loop"]


def rounds_of(desk: Desk, issue: Issue, by: str, most: int) -> int:
    """How many runs there are if an agent comments with an account at the end of each."""
    runs = 0
    for n in range(most):
        issue.comment(f"Done with part {n}.", by=by)
        desk.take()
        leases = desk.service.next("helper")
        if not leases:
            return runs
        runs += 1
        desk.finish(leases[0].run)
        desk.take()
    return runs


def test_an_agent_that_comments_with_the_account_of_our_token_does_not_wake_itself(
    desk: Desk, issue: Issue
) -> None:
    assert rounds_of(desk, issue, "boss", 3) == 0
    assert desk.open() == []


def test_what_is_written_with_the_account_of_our_token_reaches_whoever_runs(desk: Desk, issue: Issue) -> None:
    issue.comment("look", by="alice")
    desk.take()
    (lease,) = desk.service.next("helper")
    issue.comment("half of it is done", by="boss")
    desk.take()
    assert [m.text for m in desk.service.inbox(lease.run)][-1] == "half of it is done"
    desk.finish(lease.run)
    assert desk.open() == [], "no follow-up is made of it"


def in_step(desk: Desk, seconds: float = 0) -> None:
    """Let time pass at GitHub as in the store."""
    desk.clock.advance(seconds)
    desk.github.clock.stop(desk.clock.now_us / 1e6)


@pytest.mark.parametrize("heard", ["while the run is live", "after its end"])
def test_a_run_that_comments_with_a_persons_account_is_the_only_one(
    desk: Desk, issue: Issue, heard: str
) -> None:
    in_step(desk)
    issue.comment("please", by="alice")
    desk.take()
    runs = 0
    while runs < 4 and (leases := desk.service.next("helper")):
        runs += 1
        desk.service.act_as(leases[0].run, "Alice")
        in_step(desk, 10)
        issue.comment(f"Done with part {runs}.", by="alice")
        if heard == "while the run is live":
            desk.take()
            assert [m.text for m in desk.service.inbox(leases[0].run)][-1] == f"Done with part {runs}."
        desk.service.done([Report(run=leases[0].run, seen=1)])
        in_step(desk, 10)
        desk.take()
    assert (runs, desk.open()) == (1, [])
    issue.comment("and the tests?", by="alice")
    desk.take()
    assert len(desk.open()) == 1, "no run writes with her account now"


def test_what_another_person_writes_meanwhile_is_followed_up(desk: Desk, issue: Issue) -> None:
    issue.comment("please", by="alice")
    desk.take()
    (lease,) = desk.service.next("helper")
    desk.service.act_as(lease.run, "alice")
    issue.comment("and the tests?", by="bob")
    other = desk.repo.issue("Slow", by="alice")
    desk.take()
    other.comment("very", by="alice")
    desk.take()
    desk.service.done([Report(run=lease.run, seen=1)])
    assert {i.lane: [text for text, _ in desk.said(i)][-1] for i in desk.open()} == {
        "issue:acme/app#1": "and the tests?",
        "issue:acme/app#2": "very",
    }, "and so is hers elsewhere"


@pytest.mark.parametrize("of_the_run", [True, False])
def test_who_opened_the_pull_request_of_a_live_run_writes_for_the_agent(
    desk: Desk, issue: Issue, of_the_run: bool
) -> None:
    issue.comment("please", by="bob")
    desk.take()
    (lease,) = desk.service.next("helper")
    branch = f"interlock/run-{lease.fence}" if of_the_run else "by-hand"
    desk.repo.commit({"fix": "1"}, by="alice", branch=branch)
    desk.repo.pull("Fix", f"Closes #{issue.number}", by="alice", head=branch)
    desk.take()
    issue.comment("see my pull request", by="alice")
    desk.take()
    desk.service.done([Report(run=lease.run, seen=1)])
    on_lane = [i for i in desk.open() if i.lane == lease.item.lane]
    assert len(on_lane) == (0 if of_the_run else 1)


def test_an_account_is_kept_for_a_live_run_only(desk: Desk, issue: Issue) -> None:
    issue.comment("please", by="alice")
    desk.take()
    (lease,) = desk.service.next("helper")
    desk.finish(lease.run)
    with pytest.raises(LeaseLost):
        desk.service.act_as(lease.run, "alice")
    assert desk.store.github.accounts(10) == []


def test_an_agent_with_a_persons_token_is_stopped_until_another_person_comes(
    desk: Desk, issue: Issue
) -> None:
    runs = rounds_of(desk, issue, "alice", 40)
    assert LOGIN_WAKES_MAX < runs < 20
    (waiting,) = desk.service.stopped()
    assert waiting.reason == "loop"
    issue.comment("go on", by="bob")
    desk.take()
    (lease,) = desk.service.next("helper")
    assert [m.text for m in lease.messages][-1] == "go on", "nothing was lost"
    desk.finish(lease.run)
    assert rounds_of(desk, issue, "alice", 2) == 2


@pytest.mark.parametrize("by", ["alice", "stranger"])
def test_commands_are_obeyed_from_people_who_may_write(desk: Desk, by: str) -> None:
    issue = desk.repo.issue("Crash", by="alice", labels=["bug"])
    desk.take()
    issue.comment("/interlock priority 9", by=by)
    desk.take()
    (item,) = desk.open()
    assert item.priority == (9 if by == "alice" else 8)
    issue.comment("/interlock cancel", by=by)
    desk.take()
    assert (desk.open() == []) == (by == "alice")
    issue.comment("/interlock retry", by=by)
    desk.take()
    (item,) = desk.open()
    assert item.status == "pending"
    assert len(desk.said(item)) == 1, "commands are no messages"


def test_a_command_is_obeyed_once(desk: Desk, issue: Issue) -> None:
    issue.comment("look", by="alice")
    issue.comment("/interlock cancel\n/interlock priority much", by="alice")
    desk.take()
    assert desk.open() == []
    last = desk.github.deliveries[-1]
    issue.comment("again", by="alice")
    desk.take()
    desk.intake.ingest(last.event, "sent-again-under-another-id", last.body)
    assert len(desk.open()) == 1


def test_commands_are_answered_once_and_the_answer_is_no_message(desk: Desk, issue: Issue) -> None:
    issue.comment("look, @coder", by="alice")
    desk.take()
    handle = desk.run("coder")
    desk.service.ask(handle, "Which branch?")
    (item,) = desk.open()
    issue.comment("/interlock status\n/interlock why\n/interlock ask\n/interlock dance", by="alice")
    commanded = desk.new()
    for _ in range(2):
        desk.take(commanded)
        assert OutboxRelay(desk.client, desk.store.github.outbox).send(10).stopped == ""
    said = [own_words(comment.body).strip() for comment in issue.comments[2:]]
    assert len(said) == 4
    assert said[0] == f"- item {item.id} (issue_comment for coder): pending ({item.reason}), priority 0"
    assert "Which branch?" in said[1]
    assert said[2] == f"- item {item.id} (issue_comment for coder) asks: Which branch?"
    assert said[3] == "There is no command dance. Use cancel, retry, priority, ask, why, status."
    assert issue.comments[2].body.startswith("> /interlock status\n")
    before = desk.state()
    desk.take()
    assert desk.state() == before, "our answers came back, and did nothing"
    issue.comment("/interlock cancel", by="stranger")
    desk.take()
    assert OutboxRelay(desk.client, desk.store.github.outbox).send(10).sent == 0


def test_without_a_token_comments_are_told_and_wake_nobody(desk: Desk) -> None:
    issue = desk.repo.issue("Crash", by="alice")
    desk.repo.commit({"a": "1"}, by="alice", branch="fix")
    pull = desk.repo.pull("Fix", by="alice", head="fix")
    desk.github.clock.advance(5)  # so that the comment, which comes first, is newer than the pull request
    pull.comment("first sight of it", by="alice")
    issue.comment("look", by="alice")
    issue.comment("wrong", by="alice").delete(by="alice")
    *others, _lost, deleted = desk.new()
    for each in (deleted, *reversed(others)):
        desk.blind.ingest(each.event, each.guid, each.body)
    desk.blind.sweep()
    triage = next(i for i in desk.open() if i.type == "issue_triage")
    assert [text for text, _ in desk.said(triage)] == ["Opened by alice.", "look"]
    assert {(i.type, i.lane) for i in desk.open()} == {
        ("issue_triage", "issue:acme/app#1"),
        ("pr_review", "issue:acme/app#2"),
    }


def test_comments_reach_a_run_in_the_order_of_github_however_they_were_delivered(desk: Desk) -> None:
    desk.github.clock.stop(desk.github.now())
    issue = desk.repo.issue("Crash", by="alice", assignees=["coder-bot"])
    desk.take()
    desk.finish(desk.run("critic"))
    (work,) = desk.open()
    desk.service.msg(work.id, "from a shell")
    said = [f"comment {n}" for n in range(4)]
    for n, text in enumerate(said):
        if n == 2:
            desk.github.clock.stop(desk.github.now() + 60)
        issue.comment(text, by="alice")
    one, two, three, four = desk.new()
    desk.take([four, one, three])
    (lease,) = desk.service.next("coder")
    texts = [message.text for message in lease.messages]
    assert [text for text in texts if text in said] == [said[0], said[2], said[3]]
    assert texts.index("from a shell") < texts.index(said[0])
    desk.take([two])
    assert [m.text for m in desk.service.inbox(lease.run, seen=max(m.n for m in lease.messages))] == [said[1]]
    assert [text for text, _ in desk.said(lease.item) if text in said] == said

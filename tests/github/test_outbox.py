"""The outbox against the fake, on both databases: each effect happens once, whatever goes wrong."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from string import Template
from typing import Any

import pytest

from interlock.core.errors import GitHubRefused, InvalidInput
from interlock.core.model import NewItem
from interlock.github.client import GitHub
from interlock.github.effects import (
    KINDS,
    Assignment,
    AssignmentRemoval,
    Comment,
    CommitStatus,
    Dispatch,
    IssueRef,
    LabelAddition,
    Reaction,
    ReactionRemoval,
    ReactionTarget,
    StickyComment,
    read_effect,
    salvage_comment,
)
from interlock.github.outbox import LEASE_S, OutboxRelay
from interlock.github.remarks import mark, marks
from interlock.github.status_publisher import StatusPublisher
from interlock.github.tokens import AppToken, PlainToken
from interlock.service.contract import Report
from interlock.service.local import LocalService
from interlock.service.relay import OUTAGE, SendPass
from interlock.store.outbox import Effect, LeasedEffect, OutboxEntry, OutboxStore
from interlock.store.port import Store
from interlock.store.postgres.database import Database
from interlock.store.postgres.store import PostgresStore
from interlock.store.sqlite.store import SqliteStore
from tests.acceptance.command import Command
from tests.github.fake import FakeGitHub, Repository
from tests.github.fixtures import key_pair
from tests.github.issues import Issue
from tests.patience import PATIENCE_S

#: More than there can be due in a test.
ALL = 1_000


class Desk:
    """A database whose clock is the fake's, and senders on it."""

    def __init__(self, github: FakeGitHub, repo: Repository, store: Store) -> None:
        self.github, self.repo, self.store = github, repo, store
        store.github.repository(repo.id, repo.full_name)
        self.outbox: OutboxStore = store.github.outbox
        self.issue = repo.issue("one", by="carol")
        self._clients: list[GitHub] = []
        #: Another connection to the database, as another process has one.
        self.open_again: Callable[[], Store]

    def at(self, issue: Issue | None = None) -> IssueRef:
        return IssueRef(self.repo.id, (issue or self.issue).number)

    def client(self, token: str = "") -> GitHub:
        secret = token or self.github.token("alice")
        clock = self.github.clock
        made = GitHub(
            PlainToken(secret), api_url=self.github.api_url, clock=clock, sleep=clock.advance, patience_s=5
        )
        self._clients.append(made)
        return made

    def enqueue(self, *effects: Effect) -> None:
        self.outbox.enqueue(effects)

    def send(self, client: GitHub | None = None) -> SendPass:
        return OutboxRelay(client or self.client(), self.outbox).send(ALL)

    def pass_s(self, seconds: float) -> None:
        self.github.clock.advance(seconds)

    def send_all(self) -> None:
        """Until nothing is owed, however long that takes."""
        for _ in range(40):
            passed = self.send()
            if passed.next_s is None:
                return
            self.pass_s(passed.next_s + 0.001)
        raise AssertionError("something is owed for ever")

    def told(self, issue: Issue | None = None) -> list[OutboxEntry]:
        return list(reversed(self.outbox.effects(*self.at(issue), 100)))

    def outcomes(self) -> list[str | None]:
        return [each.outcome for each in self.told()]

    def close(self) -> None:
        for client in self._clients:
            client.close()
        self.store.close()


@pytest.fixture(params=["sqlite", "postgres18"])
def desk(
    request: pytest.FixtureRequest, github: FakeGitHub, repo: Repository, tmp_path: Path
) -> Iterator[Desk]:
    def now() -> int:
        return int(github.clock() * 1e6)

    def opened() -> Store:
        if request.param == "sqlite":
            return SqliteStore(tmp_path / "interlock.db", now=now)
        return PostgresStore(Database(request.getfixturevalue("pg_database18"), now=now))

    desk = Desk(github, repo, opened())
    desk.open_again = opened
    yield desk
    desk.close()


def texts(issue: Issue) -> list[str]:
    return [comment.body.split("\n")[0] for comment in issue.comments]


#: A row of each kind, as version 1.0 wrote it.
RECORDED = {
    "comment": '{"text": "text 0", "agent": "coder"}',
    "sticky": '{"text": "state 0", "agent": "", "topic": "item-12"}',
    "progress": '{"item": 1, "topic": "item-1.c2ebc35feb6e"}',
    "react": '{"subject": "comment", "id": $comment, "content": "eyes"}',
    "unreact": '{"subject": "comment", "id": $comment, "content": "eyes", "reaction": null}',
    "label": '{"labels": ["bug", "new/one"]}',
    "assign": '{"logins": ["Bob"], "after": [{"number": 1, "logins": ["alice"]}], "while_running": true}',
    "unassign": '{"logins": ["alice"], "while_running": false}',
    "dispatch": '{"workflow": "agent.yml", "ref": "main", "inputs": {"number": "1"}, "mark_input": "mark",'
    ' "after": [], "while_running": false}',
    "status": '{"sha": "$sha", "state": "pending", "description": "coder holds the lane", "url": "",'
    ' "context": "interlock/lane"}',
    "lane": "{}",
}
#: What of them the newest version does not send: the desk's repository is to be shown nothing.
NOTHING_TO_SHOW = ("progress", "lane")


@pytest.mark.parametrize("kind", RECORDED)
def test_a_row_that_the_version_before_wrote_is_read_and_sent(desk: Desk, kind: str) -> None:
    desk.repo.workflow("agent.yml", inputs=["number", "mark"])
    pull = desk.repo.pull("topic", by="carol", head="topic", files={"a": "1"})
    comment = pull.comment("look", by="bob")
    sha = desk.repo.refs()["refs/heads/main"]
    data = Template(RECORDED[kind]).substitute(comment=comment.id, sha=sha)
    effect = read_effect(kind, data)
    assert json.loads(effect.row(desk.at(), "a").data) == json.loads(data)
    desk.enqueue(Effect(desk.repo.id, pull.number, "old", kind, data))
    service = LocalService(desk.store)
    passed = OutboxRelay(desk.client(), desk.outbox, publisher=StatusPublisher(service, desk.store)).send(1)
    assert (passed.sent, passed.dropped) == ((0, 1) if kind in NOTHING_TO_SHOW else (1, 0))


def test_every_kind_of_effect_has_a_recorded_row() -> None:
    assert set(RECORDED) == set(KINDS)


@pytest.mark.parametrize(
    ("kind", "data", "said"),
    [
        ("wave", "{}", "cannot send effects of kind 'wave'"),
        ("comment", "{}", "misses or does not know: text"),
        ("label", "[", "The effect cannot be read"),
    ],
)
def test_a_row_that_cannot_be_read_waits_for_a_person(desk: Desk, kind: str, data: str, said: str) -> None:
    desk.enqueue(Effect(*desk.at(), "new", kind, data))
    desk.send_all()
    (dead,) = desk.outbox.dead(10)
    assert said in (dead.outcome or "")


# What each effect does


def test_comments_come_in_order_each_once_and_carry_their_mark(desk: Desk) -> None:
    desk.enqueue(*(Comment(text=f"text {n}", agent="coder").row(desk.at(), f"c{n}") for n in range(3)))
    desk.enqueue(Comment(text="another text").row(desk.at(), "c1"))
    assert desk.send().sent == 3
    assert texts(desk.issue) == ["text 0", "text 1", "text 2"]
    assert marks(desk.issue.comments[1].body) == {"effect": "c1", "agent": "coder"}
    assert [each.made for each in desk.told()] == [comment.id for comment in desk.issue.comments]
    assert desk.send() == SendPass(next_s=None)


def test_a_sticky_comment_is_one_however_often_it_is_owed(desk: Desk) -> None:
    for n in range(3):
        desk.enqueue(StickyComment(topic="item-12", text=f"state {n}").row(desk.at(), f"s{n}"))
        desk.send()
    desk.enqueue(StickyComment(topic="item-13", text="another").row(desk.at(), "other"))
    desk.send()
    assert texts(desk.issue) == ["state 2", "another"]
    assert desk.outcomes() == ["posted", "edited", "edited", "posted"]


def test_a_sticky_comment_that_somebody_deleted_is_made_anew(desk: Desk) -> None:
    desk.enqueue(StickyComment(topic="item-12", text="state 1").row(desk.at(), "s1"))
    desk.send()
    desk.issue.comments[0].delete(by="alice")
    desk.enqueue(StickyComment(topic="item-12", text="state 2").row(desk.at(), "s2"))
    desk.send()
    desk.enqueue(StickyComment(topic="item-12", text="state 3").row(desk.at(), "s3"))
    desk.send()
    assert texts(desk.issue) == ["state 3"]


def test_a_sticky_comment_is_found_again_when_the_database_has_forgotten_it(desk: Desk) -> None:
    desk.enqueue(StickyComment(topic="item-12", text="state 1").row(desk.at(), "s1"))
    desk.send()
    desk.pass_s(3600)
    desk.store.github.prune(int(desk.github.clock() * 1e6), 100)
    assert desk.told() == []
    desk.enqueue(StickyComment(topic="item-12", text="state 2").row(desk.at(), "s2"))
    desk.send()
    assert texts(desk.issue) == ["state 2"]


def test_a_mark_that_somebody_copied_is_not_taken_for_ours(desk: Desk) -> None:
    stolen = f"mine\n\n{mark(effect='c1', sticky='item-12')}"
    desk.issue.comment(stolen, by="mallory")
    desk.github.faults.drop(on="POST")
    desk.enqueue(Comment(text="text").row(desk.at(), "c1"))
    desk.enqueue(StickyComment(topic="item-12", text="state").row(desk.at(), "s1"))
    desk.send_all()
    assert texts(desk.issue) == ["mine", "text", "state"]


def test_a_reaction_comes_and_goes_by_its_id(desk: Desk) -> None:
    comment = desk.issue.comment("look", by="bob")
    subject = ReactionTarget("comment", comment.id)
    desk.enqueue(Reaction.on(subject).row(desk.at(), "eyes:run-1"))
    client = desk.client()
    desk.send(client)
    assert [reaction.content for reaction in comment.reactions] == ["eyes"]
    assert desk.told()[0].made == comment.reactions[0].id
    desk.enqueue(ReactionRemoval.on(subject).row(desk.at(), "no-eyes:run-1"))
    desk.send(client)
    assert comment.reactions == []
    assert sum(client.counted.values()) == 2


def test_a_reaction_goes_also_if_nobody_knows_its_id(desk: Desk) -> None:
    subject = ReactionTarget("issue", desk.issue.number)
    desk.issue.react("eyes", by="alice")
    desk.issue.react("eyes", by="bob")
    desk.enqueue(ReactionRemoval.on(subject).row(desk.at(), "no-eyes"))
    desk.send()
    assert [reaction.user for reaction in desk.issue.reactions] == ["bob"]
    desk.enqueue(ReactionRemoval.on(subject).row(desk.at(), "no-eyes:again"))
    desk.send()
    assert [reaction.user for reaction in desk.issue.reactions] == ["bob"]


def test_a_reaction_on_a_comment_that_was_deleted_is_dropped(desk: Desk) -> None:
    comment = desk.issue.comment("look", by="bob")
    comment.delete(by="bob")
    subject = ReactionTarget("comment", comment.id)
    desk.enqueue(
        Reaction.on(subject).row(desk.at(), "eyes"), ReactionRemoval.on(subject).row(desk.at(), "no-eyes")
    )
    passed = desk.send()
    assert (passed.sent, passed.dropped) == (1, 1)


def test_labels_are_added_once(desk: Desk) -> None:
    desk.enqueue(
        LabelAddition(labels=["bug"]).row(desk.at(), "l1"),
        LabelAddition(labels=["bug", "new/one"]).row(desk.at(), "l2"),
    )
    assert desk.send().sent == 2
    assert desk.issue.labels == ["bug", "new/one"]


def test_assignees_come_and_go(desk: Desk) -> None:
    desk.enqueue(
        Assignment(logins=["Bob", "alice"]).row(desk.at(), "a1"),
        AssignmentRemoval(logins=["alice"]).row(desk.at(), "a2"),
    )
    desk.send()
    assert desk.issue.assignees == ["bob"]
    assert desk.outcomes() == ["assigned", "unassigned"]


def test_a_name_that_github_drops_without_a_word_waits_for_a_person(desk: Desk) -> None:
    desk.enqueue(
        Assignment(logins=["bob", "stranger"]).row(desk.at(), "a1"), Comment(text="text").row(desk.at(), "c1")
    )
    desk.send_all()
    assert desk.issue.assignees == ["bob"]
    assert texts(desk.issue) == ["text"]
    (dead,) = desk.outbox.dead(10)
    assert dead.outcome == (
        "GitHub did not assign stranger, and does not say why:"
        " may they be assigned in this repository, and by this token?"
    )


def test_the_hosted_agent_is_assigned_once_the_repository_has_it(desk: Desk) -> None:
    desk.enqueue(Assignment(logins=["copilot-swe-agent[bot]"]).row(desk.at(), "a1"))
    assert desk.send().put_off == 1
    desk.repo.hosted_agent = True
    desk.send_all()
    assert desk.issue.assignees == ["Copilot"]


def test_a_status_shows_the_last_state_that_was_owed(desk: Desk) -> None:
    sha = desk.repo.refs()["refs/heads/main"]
    for n, state in enumerate(("pending", "failure", "success")):
        desk.enqueue(
            CommitStatus(sha=sha, state=state, description="coder holds the lane").row(desk.at(), f"lane:{n}")
        )
    desk.github.faults.lose_answers(on="/statuses/")
    desk.send_all()
    assert [(s.context, s.state) for s in desk.repo.newest_statuses(sha)] == [("interlock/lane", "success")]


def test_salvaged_work_is_told_once(desk: Desk) -> None:
    for _ in range(2):
        desk.enqueue(
            salvage_comment(item=5, run=12, ref="refs/interlock/salvage/12").row(desk.at(), "salvage:run-12")
        )
    desk.send()
    (comment,) = desk.issue.comments
    assert "it is kept as `refs/interlock/salvage/12`" in comment.body


def test_what_no_effect_can_be_called_is_refused(desk: Desk) -> None:
    with pytest.raises(InvalidInput, match="cannot be the name"):
        Comment(text="text").row(desk.at(), "a b")
    with pytest.raises(InvalidInput, match="'wave' is not a reaction"):
        Reaction.on(ReactionTarget("issue", 1), "wave").row(desk.at(), "a")


# Workflow runs


def test_a_workflow_is_started_and_its_run_is_kept(desk: Desk) -> None:
    desk.repo.workflow("agent.yml", inputs=["number"])
    desk.enqueue(Dispatch(workflow="agent.yml", ref="main", inputs={"number": "1"}).row(desk.at(), "d1"))
    desk.send()
    (run,) = desk.repo.workflow_runs.values()
    assert desk.told()[0].made == run.id
    assert run.inputs == {"number": "1"}


def test_a_start_whose_answer_was_lost_is_found_by_the_mark_in_its_title(desk: Desk) -> None:
    desk.repo.workflow("agent.yml", inputs=["number", "mark"], run_name="agent {mark}")
    desk.repo.run("agent.yml", event="workflow_dispatch", title="agent [interlock:other]")
    desk.github.faults.lose_answers(on="/dispatches")
    inputs = {"number": "1"}
    desk.enqueue(
        Dispatch(workflow="agent.yml", ref="main", inputs=inputs, mark_input="mark").row(desk.at(), "d1")
    )
    desk.send()
    run = list(desk.repo.workflow_runs.values())[-1]
    desk.send_all()
    assert len(desk.repo.workflow_runs) == 2
    assert (desk.told()[0].made, desk.outcomes()) == (run.id, ["had started already"])


def test_a_start_that_never_reached_github_is_sent_again(desk: Desk) -> None:
    desk.repo.workflow("agent.yml", inputs=["number"])
    old = desk.repo.run("agent.yml", event="workflow_dispatch")
    desk.pass_s(3600)
    desk.github.faults.drop(on="/dispatches")
    desk.enqueue(Dispatch(workflow="agent.yml", ref="main", inputs={"number": "1"}).row(desk.at(), "d1"))
    desk.send_all()
    (new,) = (run for run in desk.repo.workflow_runs.values() if run is not old)
    assert desk.told()[0].made == new.id


def test_a_start_that_cannot_be_recognised_is_never_sent_twice_blindly(desk: Desk) -> None:
    desk.repo.workflow("agent.yml", inputs=["number"])
    desk.github.faults.lose_answers(on="/dispatches")
    desk.enqueue(Dispatch(workflow="agent.yml", ref="main", inputs={"number": "1"}).row(desk.at(), "d1"))
    desk.send_all()
    assert len(desk.repo.workflow_runs) == 1
    (dead,) = desk.outbox.dead(10)
    assert "may be that run, or not" in (dead.outcome or "")
    desk.store.github.try_again(10)
    desk.send_all()
    assert len(desk.repo.workflow_runs) == 2, "a person wanted it"


# Runs


def test_progress_of_a_run_that_lost_its_lease_is_dropped_and_clean_up_is_not(desk: Desk) -> None:
    run = lost_run(desk)
    subject = ReactionTarget("issue", desk.issue.number)
    desk.enqueue(
        Comment(text="half done").row(desk.at(), "progress", run=run),
        Reaction.on(subject).row(desk.at(), "eyes", run=run),
        ReactionRemoval.on(subject).row(desk.at(), "no-eyes"),
        Comment(text="done").row(desk.at(), "result"),
    )
    passed = desk.send()
    assert (passed.sent, passed.dropped) == (2, 2)
    assert texts(desk.issue) == ["done"]
    assert desk.issue.reactions == []
    assert desk.outcomes()[0] == f"not sent: run {run} lost its lease"


def test_progress_of_a_live_run_and_of_one_that_ended_well_is_sent(desk: Desk) -> None:
    service = LocalService(desk.store)
    service.add([NewItem(title="work"), NewItem(title="work")])
    live, ended = service.next("coder", limit=2)
    service.done([Report(run=ended.run)])
    desk.enqueue(
        Comment(text="of the live one").row(desk.at(), "a", run=live.fence),
        Comment(text="of the ended one").row(desk.at(), "b", run=ended.fence),
    )
    assert desk.send().sent == 2


def lost_run(desk: Desk) -> int:
    service = LocalService(desk.store)
    service.add([NewItem(title="work", max_attempts=1)])
    (lease,) = service.next("coder", limit=1)
    desk.pass_s(3600)
    service.sweep()
    return lease.fence


# What goes wrong


class Killed(BaseException):
    """The process ends here."""


class Killer:
    """Ends the process before or after its n-th step: a call of the outbox, or a request."""

    def __init__(self, n: int) -> None:
        self.left = n

    def step(self, work: Callable[..., Any]) -> Callable[..., Any]:
        def stepped(*args: Any, **options: Any) -> Any:
            self._tick()
            done = work(*args, **options)
            self._tick()
            return done

        return stepped

    def _tick(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise Killed


class MortalOutbox:
    """The outbox of a process that is killed."""

    def __init__(self, outbox: OutboxStore, killer: Killer) -> None:
        self._outbox, self._killer = outbox, killer

    def __getattr__(self, name: str) -> Any:
        return self._killer.step(getattr(self._outbox, name))


def until_survived(desk: Desk, effects_of: Callable[[int], list[Effect]]) -> Iterator[int]:
    """Owe effects, kill their sender at its n-th step, and let another one go on; for each n there is."""
    n, survived = 0, False
    while not survived:
        n += 1
        desk.enqueue(*effects_of(n))
        killer, client = Killer(n), desk.client()
        client.send = killer.step(client.send)  # type: ignore[method-assign]
        try:
            OutboxRelay(client, MortalOutbox(desk.outbox, killer)).send(ALL)  # type: ignore[arg-type]
            survived = True
        except Killed:
            desk.pass_s(LEASE_S + 1)
        desk.send_all()
        yield n
        desk.pass_s(60)


def test_a_crash_between_any_two_steps_leaves_each_effect_once_and_in_order(desk: Desk) -> None:
    """Without the looks in `_comment` and `_sticky` some are there twice."""
    issues: list[Issue] = []

    def story(n: int) -> list[Effect]:
        issues.append(desk.repo.issue(f"of step {n}", by="carol"))
        place, subject = desk.at(issues[-1]), ReactionTarget("issue", issues[-1].number)
        return [
            Reaction.on(subject).row(place, "eyes"),
            Comment(text="begun").row(place, "c1"),
            StickyComment(topic="item-1", text="state 1").row(place, "s1"),
            StickyComment(topic="item-1", text="state 2").row(place, "s2"),
            ReactionRemoval.on(subject).row(place, "no-eyes"),
            Comment(text="done").row(place, "c2"),
        ]

    for n in until_survived(desk, story):
        assert texts(issues[-1]) == ["begun", "state 2", "done"], n
        assert issues[-1].reactions == [], n
        assert all(each.done_us for each in desk.told(issues[-1]))
    assert len(issues) > 30


def test_a_crash_while_a_workflow_is_started_starts_it_once(desk: Desk) -> None:
    """Without the look in `_dispatch` some start twice."""
    desk.repo.workflow("agent.yml", inputs=["number", "mark"], run_name="{number} {mark}")

    def start(n: int) -> list[Effect]:
        place, inputs = IssueRef(desk.repo.id, n), {"number": str(n)}
        return [Dispatch(workflow="agent.yml", ref="main", inputs=inputs, mark_input="mark").row(place, "d1")]

    steps = list(until_survived(desk, start))
    started = [int(run.inputs["number"]) for run in desk.repo.workflow_runs.values()]
    assert started == steps
    assert len(steps) > 5


def test_a_crash_during_any_other_effect_leaves_it_done(desk: Desk) -> None:
    sha = desk.repo.refs()["refs/heads/main"]
    made: list[Issue] = []

    def others(n: int) -> list[Effect]:
        made.append(desk.repo.issue(f"of step {n}", by="carol"))
        place = desk.at(made[-1])
        return [
            LabelAddition(labels=["bug"]).row(place, "l1"),
            Assignment(logins=["bob"]).row(place, "a1"),
            CommitStatus(sha=sha, state="success").row(place, f"lane:{n}"),
        ]

    for n in until_survived(desk, others):
        assert (made[-1].labels, made[-1].assignees) == (["bug"], ["bob"]), n
        assert [status.state for status in desk.repo.newest_statuses(sha)] == ["success"], n


@pytest.mark.parametrize("fault", ["lose_answers", "drop", "fail"])
def test_an_answer_that_is_lost_is_not_sent_again_blindly(desk: Desk, fault: str) -> None:
    for n in range(3):
        getattr(desk.github.faults, fault)(1, on="POST")
        desk.enqueue(Comment(text=f"text {n}").row(desk.at(), f"c{n}"))
        desk.send_all()
    getattr(desk.github.faults, fault)(1, on="POST")
    desk.enqueue(StickyComment(topic="item-1", text="state").row(desk.at(), "s1"))
    desk.send_all()
    assert texts(desk.issue) == ["text 0", "text 1", "text 2", "state"]
    assert {each.tries for each in desk.told()} == {1}


@pytest.mark.parametrize(("status", "retry_after_s"), [(429, 300), (403, 300), (403, None)])
def test_a_limit_is_waited_for_and_is_no_failure(desk: Desk, status: int, retry_after_s: int | None) -> None:
    desk.github.faults.throttle(1, status=status, retry_after_s=retry_after_s, on="POST")
    desk.enqueue(Comment(text="text").row(desk.at(), "c1"))
    other = desk.repo.issue("two", by="carol")
    desk.enqueue(Comment(text="text").row(desk.at(other), "c1"))
    client = desk.client()
    passed = desk.send(client)
    assert (passed.sent, passed.put_off) == (0, 1)
    assert "pause" in passed.stopped
    assert sum(client.counted.values()) == 1, "nothing else is tried meanwhile"
    assert desk.told()[0].tries == 0
    desk.pass_s(retry_after_s or 60)
    assert desk.send(client).sent == 2
    assert texts(desk.issue) == texts(other) == ["text"]


def test_an_outage_ends_the_pass_and_everything_is_sent_when_it_is_over(desk: Desk) -> None:
    issues = [desk.repo.issue(str(n), by="carol") for n in range(6)]
    desk.enqueue(*(Comment(text="text").row(desk.at(issue), "c1") for issue in issues))
    with desk.github.faults.outages():
        passed = desk.send()
        assert (passed.sent, passed.put_off) == (0, OUTAGE)
        assert "server error" in passed.stopped
        for _ in range(8):
            desk.pass_s(120)
            desk.send()
    desk.send_all()
    assert [texts(issue) for issue in issues] == [["text"]] * 6


def test_a_number_that_is_stuck_keeps_its_order_and_holds_up_no_other(desk: Desk) -> None:
    other = desk.repo.issue("two", by="carol")
    desk.github.faults.fail(on=f"POST /repos/acme/app/issues/{desk.issue.number}/comments")
    for issue in (desk.issue, other):
        desk.enqueue(*(Comment(text=f"text {n}").row(desk.at(issue), f"c{n}") for n in range(3)))
    desk.send()
    assert (texts(desk.issue), texts(other)) == ([], ["text 0", "text 1", "text 2"])
    desk.send_all()
    assert texts(desk.issue) == ["text 0", "text 1", "text 2"]


def test_what_github_refuses_again_and_again_waits_for_a_person(desk: Desk) -> None:
    refuse = desk.github.faults.refuse
    refuse(403, "Unable to create comment because issue is locked.", 5, on="/comments")
    desk.enqueue(Comment(text="text 1").row(desk.at(), "c1"), Comment(text="text 2").row(desk.at(), "c2"))
    desk.send_all()
    assert texts(desk.issue) == ["text 2"]
    (dead,) = desk.outbox.dead(10)
    assert (dead.name, dead.tries) == ("c1", 5)
    assert "issue is locked" in (dead.outcome or "")
    desk.store.github.try_again(10)
    desk.send_all()
    assert texts(desk.issue) == ["text 2", "text 1"]


def test_a_token_that_is_over_makes_no_dead_letters(desk: Desk) -> None:
    desk.enqueue(Comment(text="text").row(desk.at(), "c1"))
    for _ in range(10):
        with pytest.raises(GitHubRefused, match="401"):
            desk.send(desk.client("ghp_" + "x" * 36))
        desk.pass_s(60)
    assert desk.told()[0].tries == 0
    desk.send_all()
    assert texts(desk.issue) == ["text"]


def test_no_more_is_sent_than_github_allows(desk: Desk) -> None:
    """Without `github_pace` the fake refuses the 81st."""
    desk.enqueue(*(Comment(text=f"text {n}").row(desk.at(), f"c{n}") for n in range(90)))
    passed = desk.send()
    assert (passed.sent, passed.put_off, passed.stopped) == (80, 0, "")
    assert passed.next_s is not None
    assert 0 < passed.next_s <= 60  # the clock goes on while it sends
    desk.pass_s(passed.next_s + 1)
    assert desk.send().sent == 10


def test_senders_of_one_database_together_keep_to_the_hour(desk: Desk) -> None:
    """500 creations an hour, whoever sends them: the fake, which counts, never has to refuse one."""
    other = desk.open_again()
    place = desk.at()
    desk.enqueue(*(Comment(text=f"text {n}").row(place, f"c{n}") for n in range(520)))
    senders = [OutboxRelay(desk.client(), each.github.outbox) for each in (desk.store, other)]
    begun, sent = desk.github.clock(), 0
    for _ in range(10):
        sent += sum(sender.send(ALL).sent for sender in senders)
        desk.pass_s(61)
    assert sent == 500
    assert desk.github.clock() - begun < 3600
    assert {status for method, _, status in desk.github.requests if method == "POST"} == {201}
    desk.pass_s(3600)
    assert senders[1].send(ALL).sent == 20
    other.close()


def test_a_sender_that_is_too_slow_does_not_post_what_another_may_be_posting(desk: Desk) -> None:
    desk.enqueue(Comment(text="text").row(desk.at(), "c1"))
    ticks = iter([0.0, LEASE_S - 1])
    passed = OutboxRelay(desk.client(), desk.outbox, clock=lambda: next(ticks)).send(1)
    assert (passed.sent, passed.put_off) == (0, 1)
    assert texts(desk.issue) == []


def test_a_lease_that_ran_out_meanwhile_settles_nothing(desk: Desk) -> None:
    """The one who was slow posts; the next one finds it by its mark."""
    desk.enqueue(Comment(text="text").row(desk.at(), "c1"))
    late: list[LeasedEffect] = []

    class Slow(MortalOutbox):
        def settle(self, taken: LeasedEffect, **how: Any) -> bool:
            late.append(taken)
            desk.pass_s(LEASE_S + 1)
            desk.send_all()
            return desk.outbox.settle(taken, **how)

    OutboxRelay(desk.client(), Slow(desk.outbox, Killer(0))).send(1)  # type: ignore[arg-type]
    assert texts(desk.issue) == ["text"]
    assert desk.outcomes() == ["was there already"]
    assert not desk.outbox.settle(late[0], made=1, outcome="late")


# Several senders


def test_two_senders_at_once_send_each_effect_once_and_in_order(
    github: FakeGitHub, repo: Repository, tmp_path: Path, database: str
) -> None:
    """Two real processes. Without the lease both take the same number, and comments are there twice."""
    github.faults.limits.creations_per_minute = 10_000
    store = opened(database, tmp_path)
    store.github.repository(repo.id, repo.full_name)
    issues = [repo.issue(str(n), by="carol") for n in range(10)]
    names = [f"c{n}" for n in range(5)]
    store.github.outbox.enqueue(
        [Comment(text=name).row(IssueRef(repo.id, issue.number), name) for issue in issues for name in names]
    )
    command = Command(
        tmp_path,
        database.format(folder=tmp_path),
        env={"GH_TOKEN": github.token("alice"), "GITHUB_API_URL": github.api_url},
    )
    both = threading.Event()
    waiting = [github.faults.hold(on="POST", until=both) for _ in range(2)]
    senders = [command.start("--json", "github", "send", "--limit", "60") for _ in range(2)]
    assert all(each.wait(PATIENCE_S) for each in waiting), "each sends while the other does"
    both.set()
    ended = [json.loads(sender.communicate(timeout=PATIENCE_S)[0]) for sender in senders]
    assert [texts(issue) for issue in issues] == [names] * 10
    assert sum(each["sent"] for each in ended) == 50
    assert all(each["sent"] for each in ended)
    store.close()


def test_a_sender_that_watches_sends_what_is_owed_later(
    github: FakeGitHub, repo: Repository, tmp_path: Path, database: str
) -> None:
    store = opened(database, tmp_path)
    store.github.repository(repo.id, repo.full_name)
    issue = repo.issue("one", by="carol")
    command = Command(
        tmp_path,
        database.format(folder=tmp_path),
        env={"GH_TOKEN": github.token("alice"), "GITHUB_API_URL": github.api_url},
    )
    sender = command.start("github", "send", "--watch")
    assert sender.stdout is not None
    for name in ("c1", "c2"):
        store.github.outbox.enqueue([Comment(text=name).row(IssueRef(repo.id, issue.number), name)])
        assert sender.stdout.readline() == b"1 sent.\n"
    sender.terminate()
    sender.communicate(timeout=PATIENCE_S)
    assert texts(issue) == ["c1", "c2"]
    store.close()


@pytest.fixture(params=["sqlite", "postgres18"])
def database(request: pytest.FixtureRequest) -> str:
    """A url with `{folder}` in it."""
    if request.param == "sqlite":
        return "sqlite:///{folder}/shared.db"
    return str(request.getfixturevalue("pg_database18"))


def opened(database: str, folder: Path) -> Store:
    if database.startswith("sqlite"):
        return SqliteStore(folder / "shared.db")
    return PostgresStore(Database(database))


def test_an_app_finds_its_own_comment_again(desk: Desk) -> None:
    private, public = key_pair()
    app = desk.github.app_named("interlock", owner="boss", public_key=public)
    desk.issue.comment(f"mine\n\n{mark(effect='c1')}", by="other[bot]")
    desk.github.faults.lose_answers(on="POST /repos")
    desk.enqueue(Comment(text="text").row(desk.at(), "c1"))
    clock = desk.github.clock
    token = AppToken(
        app_id=str(app.id), installation_id=str(app.installation_id), private_key=private, clock=clock
    )
    with GitHub(token, api_url=desk.github.api_url, clock=clock, sleep=clock.advance) as client:
        assert desk.send(client).put_off == 1
        desk.pass_s(60)
        assert desk.send(client).sent == 1
    assert texts(desk.issue) == ["mine", "text"]

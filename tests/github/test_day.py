"""A day of a repository, with people, agents and GitHub at their worst, ends as a plain model predicts.

People open, label, assign, block, close and reopen issues, and open, push to and merge pull requests.
Deliveries come twice, late, in any order or never. Three agents work, fail and die. GitHub limits requests,
throttles, loses answers, and is away for ten minutes. In the end everything is sent, and what is open is what
the model says.

`INTERLOCK_GITHUB_DAY=5000` makes the day longer, `INTERLOCK_GITHUB_SEED=…` repeats one that was printed.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from interlock.core.errors import GitHubLimited, GitHubRefused, GitHubUnavailable
from interlock.core.names import ATTEMPTS_MAX
from interlock.github.client import GitHub
from interlock.github.database_cache import StoredAnswers
from interlock.github.dispatch import StartCheck
from interlock.github.intake import Intake
from interlock.github.lookup import Reader
from interlock.github.outbox import OutboxRelay
from interlock.github.reconciler import Reconciler
from interlock.github.remarks import marks
from interlock.github.status_publisher import StatusPublisher
from interlock.github.tokens import PlainToken
from interlock.service.contract import ItemFilter, LeaseView, Report
from interlock.service.item_view import ItemView
from interlock.service.local import LocalService
from interlock.settings import TypeDefaults
from interlock.store.sqlite.store import SqliteStore
from tests.github.fake import FakeGitHub, Repository
from tests.github.hooks import Delivery
from tests.github.issues import Issue
from tests.github.stored_orders import open_orders

DELIVERIES = int(os.environ.get("INTERLOCK_GITHUB_DAY", "1000"))
ISSUES, PULLS = max(5, DELIVERIES // 5), max(2, DELIVERIES // 25)
START = 2_000_000_000.0
DAY_S = 24 * 3600.0
OUTAGE_S = 600.0
TYPES = ("issue_triage", "issue_work", "issue_comment", "pr_review")
AWAY = (GitHubLimited, GitHubRefused, GitHubUnavailable)
RULES = """
progress_comments = true

[agents]
coder-bot = "coder"
critic-bot = "critic"
"""
PRIORITIES = {"bug": 8, "documentation": 3}


class Day:
    """One repository, one store on the same clock, and everybody who acts."""

    def __init__(self, github: FakeGitHub, repo: Repository, store: SqliteStore, seed: int) -> None:
        self.github, self.repo, self.store, self.random = github, repo, store, random.Random(seed)
        self.service = LocalService(store)
        self.client = GitHub(
            PlainToken(github.token("boss")),
            api_url=github.api_url,
            cache=StoredAnswers(store.github),
            clock=github.clock,
            sleep=github.clock.advance,
            patience_s=5,
        )
        reader = Reader(self.client)
        # Nobody gives up: what failed too often would be a dead letter, and no longer wanted.
        types = {name: TypeDefaults(max_attempts=ATTEMPTS_MAX) for name in TYPES}
        self.intake = Intake(self.service, store, reader, types=types)
        self.look = StartCheck(self.service, store.github, reader, self.intake, lambda _: None)
        publisher = StatusPublisher(self.service, store)
        self.sender = OutboxRelay(self.client, store.github.outbox, publisher=publisher, clock=github.clock)
        self.reconciler = Reconciler(self.intake, self.service, store.github, self.client)
        self.issues: list[Issue] = []
        self.pulls: list[Issue] = []
        #: Comments of people who may write, by their number, each with the agents that had the issue then.
        self.said: dict[int, dict[str, set[str]]] = {}
        self.ever_closed: set[int] = set()
        self.waiting: deque[Delivery] = deque()
        self.runs: list[LeaseView] = []
        self.counts: Counter[str] = Counter()
        self.seen = 0

    # People

    def act(self) -> None:
        pick = self.random
        if len(self.issues) < ISSUES and pick.random() < 0.45:
            self.open_issue()
        elif len(self.pulls) < PULLS and pick.random() < 0.2:
            self.open_pull()
        elif self.pulls and pick.random() < 0.25:
            self.change_pull(pick.choice(self.pulls))
        elif self.issues:
            self.change_issue(pick.choice(self.issues))

    def open_issue(self) -> None:
        labels = [name for name in PRIORITIES if self.random.random() < 0.2]
        agents = [login for login in ("coder-bot", "critic-bot") if self.random.random() < 0.15]
        made = self.repo.issue(f"Issue {len(self.issues)}", by="alice", labels=labels, assignees=agents)
        self.issues.append(made)

    def open_pull(self) -> None:
        branch = f"branch-{len(self.pulls)}"
        there = [issue for issue in self.issues if issue.state == "open"]
        body = f"Fixes #{self.random.choice(there).number}" if there and self.random.random() < 0.7 else ""
        files = {branch: branch}
        made = self.repo.pull(f"Pull {branch}", body, by="bob", head=branch, files=files)
        self.pulls.append(made)

    def change_issue(self, issue: Issue) -> None:
        others = [each for each in self.issues if each is not issue and each not in issue.blocked_by]
        match self.random.choice(
            ["label", "unlabel", "assign", "comment", "comment", "edit", "close", "block"]
        ):
            case "label":
                issue.label(self.random.choice(list(PRIORITIES)), by="alice")
            case "unlabel":
                issue.unlabel(self.random.choice(list(PRIORITIES)), by="alice")
            case "assign" if issue.state == "open":
                issue.assign(self.random.choice(["coder-bot", "critic-bot"]), by="alice")
            case "comment" if issue.state == "open":
                text = f"Comment {self.github.next_id()}"
                issue.comment(text, by=self.random.choice(["alice", "bob"]))
                self.said.setdefault(issue.number, {})[text] = agents_of(issue)
            case "edit":
                issue.edit(by="alice", title=f"Issue {self.github.next_id()}")
            case "close" if issue.state == "open":
                self.close(issue, self.random.choice(["completed", "not_planned"]))
            case "close":
                issue.reopen(by="alice")
            case "block" if issue.blocked_by and self.random.random() < 0.5:
                issue.remove_blocker(issue.blocked_by[0], by="alice")
            case "block" if others and len(issue.blocked_by) < 3:
                issue.add_blocker(self.random.choice(others), by="alice")
            case _:
                pass

    def change_pull(self, pull: Issue) -> None:
        if pull.state != "open":
            return
        match self.random.choice(["push", "push", "draft", "ready", "merge", "close", "edit"]):
            case "push":
                files = {f"more-{pull.number}": str(self.github.next_id())}
                self.repo.commit(files, by="bob", branch=pull.the_pull().head_ref)
            case "draft" if not pull.the_pull().draft:
                pull.to_draft(by="bob")
            case "ready" if pull.the_pull().draft:
                pull.ready(by="bob")
            case "close":
                pull.close(by="bob")
            case "edit":
                there = [issue for issue in self.issues if issue.state == "open"]
                pull.edit(by="bob", body=f"Closes #{self.random.choice(there).number}" if there else "")
            case _:
                pass

    def close(self, issue: Issue, reason: str = "completed") -> None:
        issue.close(by="alice", reason=reason)
        self.ever_closed.add(issue.number)

    # GitHub

    def deliver(self) -> None:
        """What is new waits for a while; some of it is lost, some comes twice."""
        for delivery in self.github.deliveries[self.seen :]:
            chance = self.random.random()
            self.counts["lost" if chance < 0.1 else "repeated" if chance < 0.2 else "once"] += 1
            self.waiting += [delivery] * (0 if chance < 0.1 else 2 if chance < 0.2 else 1)
        self.seen = len(self.github.deliveries)
        while self.waiting and self.random.random() < 0.8:
            late = self.random.randrange(min(20, len(self.waiting)))
            self.waiting.rotate(-late)
            delivery = self.waiting.popleft()
            self.waiting.rotate(late)
            answer = self.intake.ingest(delivery.event, delivery.guid, delivery.body)
            self.counts[answer.status] += 1

    def trouble(self) -> None:
        faults = self.github.faults
        match self.random.random():
            case chance if chance < 0.02:
                faults.throttle(retry_after_s=30)
            case chance if chance < 0.04:
                faults.lose_answers()
            case chance if chance < 0.06:
                faults.fail(502)
            case _:
                pass

    # Agents

    def work(self) -> None:
        agent = self.random.choice(["coder", "critic", "helper"])
        for lease in self.service.next(agent, lease_s=1800):
            # An item that a pull request makes needless ends: what the model says of it would depend on when.
            if self.has_pull(lease) or self.look(lease) is not None:
                self.service.release([Report(run=lease.run)])
                self.counts["not started"] += 1
            else:
                self.runs.append(lease)
        if self.runs and self.random.random() < 0.6:
            self.end(self.runs.pop(self.random.randrange(len(self.runs))))

    def has_pull(self, lease: LeaseView) -> bool:
        number = (lease.item.payload or {}).get("issue_number")
        pulls = [pull for pull in self.pulls if pull.state == "open"]
        return any(issue.number == number for pull in pulls for issue in pull.closes())

    def end(self, lease: LeaseView) -> None:
        chance = self.random.random()
        if chance < 0.25:
            self.counts["died"] += 1  # its lease runs out
        elif chance < 0.4:
            self.service.fail([Report(run=lease.run, error="it broke")])
            self.counts["failed"] += 1
        else:
            self.done(lease)

    def done(self, lease: LeaseView) -> None:
        """What an agent has done is closed, and it has read all that was said."""
        payload = lease.item.payload or {}
        number = payload.get("pr_number") or payload["issue_number"]
        found = next(each for each in (*self.issues, *self.pulls) if each.number == number)
        if found.state == "open":
            if found.pull is not None:
                closes = found.closes()
                found.merge(by="boss")
                self.ever_closed.update(each.number for each in closes)
            else:
                self.close(found)
        with suppress(Exception):  # the lease may be lost
            read = max((m.n for m in self.service.inbox(lease.run)), default=0)
            self.service.done([Report(run=lease.run, seen=read)])
            self.counts["done"] += 1

    # Cron

    def sweep(self) -> None:
        self.service.sweep()
        self.intake.sweep()
        self.sender.send(200)

    def reconcile(self) -> None:
        try:
            list(self.reconciler.look_at_all(["acme/app"]))
        except AWAY:
            self.counts["reconcile put off"] += 1

    def live(self) -> None:
        """The whole day."""
        end, next_sweep, next_look = self.github.clock() + DAY_S, 0.0, 0.0
        outage = self.github.clock() + DAY_S * self.random.uniform(0.3, 0.6)
        pause_s = DAY_S / (DELIVERIES / 1.4)
        while len(self.github.deliveries) < DELIVERIES or self.github.clock() < end:
            self.github.clock.advance(self.random.expovariate(1 / pause_s))
            now = self.github.clock()
            self.github.faults.outage = outage <= now < outage + max(OUTAGE_S, 3 * pause_s)
            self.counts["outage"] += self.github.faults.outage
            if len(self.github.deliveries) < DELIVERIES:
                self.act()
                self.trouble()
            self.deliver()
            if self.random.random() < 0.3:
                self.work()
            if now >= next_sweep:
                self.sweep()
                next_sweep = now + 300
            if now >= next_look:
                self.reconcile()
                next_look = now + 3600

    def settle(self) -> None:
        """GitHub is well again; whoever still works dies; all that is owed is done."""
        self.github.faults.over()
        self.github.faults.outage = False
        self.waiting.clear()  # the rest never comes
        for _ in range(200):
            self.github.clock.advance(3601)
            self.service.sweep()
            while self.intake.sweep(again=True).decided:
                pass
            self.reconcile()
            passed = self.sender.send(1_000)
            if passed.next_s is None and not open_orders(self.store) and not self.store.github.undecided(1):
                return
        raise AssertionError("something is owed for ever")

    def told(self, number: int) -> str:
        """All that is known of a number, for whoever looks for a mistake."""
        done = self.store.github.orders(self.repo.id, number, 50)
        lane = ItemFilter(lane=f"issue:acme/app#{number}", all=True, limit=100)
        items = [(i.id, i.type, i.agent, i.status, i.reason, i.attempt) for i in self.service.items(lane)]
        known = self.store.github.known(self.repo.id, number)
        follows = [(each.name, each.outcome) for each in reversed(done)]
        return f"#{number}: {known and known.facts} {known and known.wanted}\n  {follows}\n  {items}"

    def close_all(self) -> None:
        self.client.close()
        self.service.close()


# The model


def wanted(number: Issue) -> dict[tuple[str, str], int]:
    """The open items of a number, by type and agent, each with its priority."""
    if number.state != "open":
        return {}
    labelled = [PRIORITIES[label] for label in number.labels if label in PRIORITIES]
    if number.pull is not None:
        return {} if number.pull.draft else {("pr_review", ""): max(labelled, default=5)}
    priority = max(labelled, default=0)
    work = {("issue_work", agent): priority for agent in agents_of(number)}
    return {("issue_triage", ""): priority, **work}


def agents_of(number: Issue) -> set[str]:
    return {user.removesuffix("-bot") for user in number.assignees}


def assert_heard(number: Issue, then: set[str], by: list[str]) -> None:
    """A comment is for each agent that has the issue, and for anyone if none has it. Nobody loses one.

    Intake reads the issue some time after the comment: an agent that was assigned meanwhile may get it too.
    """
    assert len(by) == len(set(by)), "nobody heard it twice"
    if then or by != [""]:
        assert by, "somebody heard it"
        assert then <= set(by) <= agents_of(number)


def waits_for(number: Issue) -> set[str]:
    return {f"acme/app#{each.number}" for each in number.blocked_by if each.state == "open"}


def lane_state(pull: Issue, pulls: list[Issue]) -> str:
    issues = {each.number for each in pull.closes()}
    rivals = [
        each
        for each in pulls
        if each is not pull and each.state == "open" and issues & {one.number for one in each.closes()}
    ]
    return "failure" if rivals else "success"


@pytest.fixture
def day(github: FakeGitHub, repo: Repository, tmp_path: Path) -> Iterator[Day]:
    seed = int(os.environ.get("INTERLOCK_GITHUB_SEED") or time.time_ns())
    print(f"INTERLOCK_GITHUB_SEED={seed}")
    for login in ("coder-bot", "critic-bot"):
        repo.collaborator(login)
    repo.make_label("documentation", by="boss")
    repo.commit({".github/interlock.toml": RULES})
    github.faults.limits.hourly["user"] = 700
    github.clock.stop(START)
    random.seed(seed)  # for the pauses of client and outbox
    store = SqliteStore(tmp_path / "interlock.db", now=lambda: int(github.clock() * 1e6))
    made = Day(github, repo, store, seed)
    made.reconcile()
    made.seen = len(github.deliveries)
    yield made
    made.close_all()


@pytest.mark.slow
def test_a_day_ends_in_the_state_that_a_plain_model_predicts(day: Day) -> None:
    day.live()
    day.settle()
    print(dict(day.counts), len(day.github.requests))
    numbers = [*day.issues, *day.pulls]
    items: dict[str, list[ItemView]] = {}
    for item in day.service.items(ItemFilter(limit=10_000)):
        items.setdefault(item.lane or "", []).append(item)
    found, expected = {}, {}
    for number in numbers:
        there = items.pop(f"issue:acme/app#{number.number}", [])
        shown = {(i.type, i.agent or ""): i.priority for i in there}
        assert len(shown) == len(there), f"#{number.number} has something twice"
        found[number.number], expected[number.number] = shown, wanted(number)
        # The priority of what had a run when it changed stays as it was.
        begun = [(i.type, i.agent or "") for i in there if i.first_claimed_at is not None]
        expected[number.number].update({key: shown[key] for key in begun if key in wanted(number)})
        if there and number.pull is None:
            assert {b for i in there for b in i.blocked_by} == waits_for(number), f"#{number.number}"
        if number.number not in day.ever_closed:
            heard = [(m.text, i.agent or "") for i in there for m in day.service.show(i.id).messages]
            for text, then in day.said.get(number.number, {}).items():
                assert_heard(number, then, [agent for each, agent in heard if each == text])
    wrong = {number: (found[number], each) for number, each in expected.items() if found[number] != each}
    assert not wrong, "\n".join(day.told(number) for number in wrong)
    assert items == {}, "no other lane has anything"
    shown_on_github(day)
    assert_the_day_was_bad(day)


def shown_on_github(day: Day) -> None:
    """Each open pull request says who holds its lane, each item has one comment with its last state."""
    for pull in day.pulls:
        if pull.state == "open":
            statuses = day.repo.newest_statuses(pull.the_pull().head_sha)
            (state,) = [each.state for each in statuses if each.context == "interlock/lane"]
            assert state == lane_state(pull, day.pulls), f"#{pull.number}"
    words = {"pending": "Queued", "deferred": "Queued", "completed": "Done", "failed": "Failed"}
    words |= {"cancelled": "Cancelled", "superseded": "Superseded"}
    topics: Counter[str] = Counter()
    for number in (*day.issues, *day.pulls):
        for comment in number.comments:
            topic = marks(comment.body).get("sticky")
            if topic is not None:
                topics[topic] += 1
                item = day.service.show(int(topic.removeprefix("item-").partition(".")[0])).item
                if not item.blocked_by and item.status in words and item.run_at is None:
                    assert comment.body.startswith(f"**{words[item.status]}**"), comment.body
    assert topics, "comments were made"
    assert set(topics.values()) == {1}, "each once"
    open_items = day.service.items(ItemFilter(limit=10_000))
    assert {f"item-{item.id}" for item in open_items} <= {topic.partition(".")[0] for topic in topics}


def assert_the_day_was_bad(day: Day) -> None:
    """A day on which nothing happened would prove nothing."""
    assert len(day.github.deliveries) >= DELIVERIES
    if DELIVERIES < 1_000:
        return
    for what in ("lost", "repeated", "put_off", "outage", "died", "failed", "done"):
        assert day.counts[what], what

"""One issue from opened to merged, and an idle hour, with every request to GitHub counted by its route."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from interlock.github import work_reaction
from interlock.github.client import GitHub
from interlock.github.database_cache import StoredAnswers
from interlock.github.dispatch import StartCheck
from interlock.github.intake import Intake
from interlock.github.lookup import Reader
from interlock.github.outbox import OutboxRelay
from interlock.github.reconciler import Reconciler
from interlock.github.status_publisher import StatusPublisher
from interlock.github.tokens import PlainToken
from interlock.service.contract import Report
from interlock.service.local import LocalService
from interlock.store.sqlite.store import SqliteStore
from tests.github.fake import FakeGitHub, Repository
from tests.github.issues import Issue
from tests.github.server import serve

RULES = """
progress_comments = {comments}

[agents]
coder-bot = "coder"
critic-bot = "critic"
"""


class Spent:
    """Requests by method and route, with the status of each answer."""

    def __init__(self, requests: list[tuple[str, str, int]]) -> None:
        self.requests = requests

    @property
    def sent(self) -> int:
        return len(self.requests)

    @property
    def counted(self) -> int:
        """Those that cost something of the hourly allowance: an unchanged answer does not."""
        return sum(status != 304 for *_, status in self.requests)

    @property
    def creations(self) -> int:
        return sum(method == "POST" for method, *_ in self.requests)

    def by_route(self) -> Counter[str]:
        return Counter(f"{method} {route}" for method, route, status in self.requests if status != 304)


class House:
    """A repository whose deliveries all come, a store, and everything that asks GitHub."""

    def __init__(self, directory: Path, github: FakeGitHub, *, comments: bool) -> None:
        self.github = github
        self.repo: Repository = github.repository(
            "acme/app", admin=["boss"], write=["alice", "coder-bot", "critic-bot"], labels=["bug"]
        )
        self.repo.hook()
        self.repo.commit({".github/interlock.toml": RULES.format(comments=str(comments).lower())})
        self.store = SqliteStore(directory / "store.db", now=lambda: int(github.clock() * 1e6))
        self.service = LocalService(self.store)
        self._token = PlainToken(github.token("boss"))
        self.client = self.open_client()
        reader = Reader(self.client)
        self.intake = Intake(self.service, self.store, reader)
        self.look = StartCheck(self.service, self.store.github, reader, self.intake, lambda _: None)
        publisher = StatusPublisher(self.service, self.store)
        self.sender = OutboxRelay(self.client, self.store.github.outbox, publisher=publisher)
        self.reconciler = Reconciler(self.intake, self.service, self.store.github, self.client)
        self.seen = len(github.deliveries)

    def open_client(self) -> GitHub:
        return GitHub(
            self._token,
            api_url=self.github.api_url,
            cache=StoredAnswers(self.store.github),
            clock=self.github.clock,
            sleep=self.github.clock.advance,
        )

    def close(self) -> None:
        self.client.close()
        self.service.close()

    def spent(self) -> Spent:
        """What was asked since the last time."""
        found, self.github.requests[:] = list(self.github.requests), []
        return Spent(found)

    def step(self) -> None:
        """Deliveries come, and what is owed is sent, a minute later."""
        for each in self.github.deliveries[self.seen :]:
            self.intake.ingest(each.event, each.guid, each.body)
        self.seen = len(self.github.deliveries)
        self.github.clock.advance(60)
        self.sender.send(100)

    @contextmanager
    def run(self, agent: str) -> Iterator[None]:
        """An agent's run, as a worker leads it: the last look, 👀, its end."""
        (lease,) = self.service.next(agent)
        assert self.look(lease) is None
        message = work_reaction.message_of_item(lease.item)
        assert message is not None
        shown = work_reaction.WorkReaction(message, lambda _: self.open_client(), lambda _: None)
        shown.show()
        self.step()
        yield
        shown.hide()
        read = max((m.n for m in self.service.inbox(lease.run)), default=0)
        self.service.done([Report(run=lease.run, seen=read)])
        self.step()

    def issue(self, name: str) -> Issue:
        """From opened to merged: labelled, assigned, commented, solved, reviewed, changed, merged."""
        issue = self.repo.issue(name, by="alice")
        self.step()
        issue.label("bug", by="alice")
        self.step()
        with self.run("helper"):  # triage
            pass
        issue.assign("coder-bot", by="alice")
        self.step()
        issue.comment("Please keep it small.", by="alice")
        self.step()
        with self.run("coder"):
            body = f"Fixes #{issue.number}"
            pull = self.repo.pull(name, body, by="coder-bot", head=name, files={name: "1"})
        with self.run("critic"):
            pull.review("CHANGES_REQUESTED", "Not yet.", by="critic-bot")
        with self.run("coder"):
            self.repo.commit({name: "2"}, by="coder-bot", branch=name)
        with self.run("critic"):
            pull.review("APPROVED", "Good.", by="critic-bot")
        pull.merge(by="alice")
        self.step()
        return issue

    def idle_hour(self, every_s: float = 600.0) -> None:
        """Nothing happens; sweeps and sends come every minute, a reconcile every ten."""
        for minute in range(60):
            self.github.clock.advance(60)
            self.service.sweep()
            self.intake.sweep()
            self.sender.send(100)
            if minute * 60 % every_s == 0:
                list(self.reconciler.look_at_all(["acme/app"]))
                self.reconciler.see_hosted()


@contextmanager
def house(directory: Path, *, comments: bool) -> Iterator[House]:
    github = FakeGitHub(directory / "github")
    with serve(github):
        made = House(directory, github, comments=comments)
        try:
            yield made
        finally:
            made.close()


def shown(spent: Spent) -> str:
    """For people who look where requests go."""
    return json.dumps(dict(spent.by_route().most_common()), indent=2)

"""An intake on a real store, fed with what the fake GitHub delivers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from interlock.github.client import GitHub
from interlock.github.database_cache import StoredAnswers
from interlock.github.intake import Ingested, Intake
from interlock.github.lookup import Reader
from interlock.github.tokens import PlainToken
from interlock.service.contract import ItemFilter, Report, Service
from interlock.service.item_view import ItemView
from interlock.store.port import Store
from tests.clock import Clock
from tests.github.fake import FakeGitHub, Repository
from tests.github.hooks import Delivery
from tests.github.stored_orders import open_orders

RULES = """
[agents]
coder-bot = "coder"
critic-bot = "critic"
"""


class Desk:
    """One store, one GitHub, and what a test says about both."""

    def __init__(self, github: FakeGitHub, repo: Repository, service: Service, clock: Clock) -> None:
        self.github, self.repo, self.service, self.clock = github, repo, service, clock
        self.store: Store = service.store  # type: ignore[attr-defined]
        self.client = GitHub(
            PlainToken(github.token("boss")),
            api_url=github.api_url,
            cache=StoredAnswers(self.store.github),
            sleep=lambda _: None,
        )
        self.intake = Intake(service, self.store, Reader(self.client))
        self.blind = Intake(service, self.store, None)
        self._taken = len(github.deliveries)
        for login in ("coder-bot", "critic-bot"):
            repo.collaborator(login)

    def rules(self, text: str = "") -> None:
        """Commit a repository's rules."""
        self.repo.commit({".github/interlock.toml": RULES + text})

    def new(self) -> list[Delivery]:
        """What was delivered since the last time."""
        found = self.github.deliveries[self._taken :]
        self._taken = len(self.github.deliveries)
        return found

    def take(self, deliveries: Iterable[Delivery] | None = None) -> list[Ingested]:
        """Ingest deliveries; the new ones, if none are named."""
        given = self.new() if deliveries is None else deliveries
        return [self.intake.ingest(each.event, each.guid, each.body) for each in given]

    # What came of it

    def open(self) -> list[ItemView]:
        return self.service.items(ItemFilter(limit=1000))

    def wanted(self) -> list[tuple[Any, ...]]:
        """The open items without their numbers."""
        return sorted((i.type, i.agent or "", i.lane or "", i.priority, i.status) for i in self.open())

    def said(self, item: ItemView) -> list[tuple[str, str]]:
        """The messages of an item, each with its reason."""
        return [(m.text, m.reason or "") for m in self.service.show(item.id).messages]

    def state(self) -> list[Any]:
        """Open items, lanes and messages, however they came about."""
        items = sorted(self.open(), key=lambda i: (i.lane or "", i.type, i.agent or ""))
        return [(i.type, i.agent, i.lane, i.priority, i.status, self.said(i)) for i in items]

    def owed(self) -> int:
        return len(open_orders(self.store)) + len(self.store.github.undecided(100))

    def run(self, agent: str = "coder") -> str:
        """Claim what is there for an agent; the handle."""
        (lease,) = self.service.next(agent)
        return lease.run

    def finish(self, handle: str) -> None:
        """Read all messages, and be done."""
        messages = self.service.inbox(handle)
        read = max((m.n for m in messages), default=0)
        (view,) = self.service.done([Report(run=handle, seen=read)])
        assert view.refusal is None, view.refusal

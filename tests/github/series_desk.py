"""Series on a real store and the fake GitHub: keepers, issues, and what a test says about both."""

from __future__ import annotations

from typing import Any

from interlock.core.series.standing import Choices, Mode
from interlock.github.answers import StoredAnswers
from interlock.github.client import GitHub
from interlock.github.series import looking
from interlock.github.series.acting import Acting, Assigning, Owed
from interlock.github.series.cycle import Acquired, Context, Rules
from interlock.github.series.keeper import Cycle, Keeper
from interlock.github.series.overview import Overview, SeriesView
from interlock.github.tokens import PlainToken
from interlock.service.contract import Service
from interlock.store.port import Store
from tests.github.fake import FakeGitHub, Repository
from tests.github.issues import Issue

BOT = "coder-bot"
GATED = True


class SeriesDesk:
    """One store, one GitHub."""

    def __init__(
        self, github: FakeGitHub, repo: Repository, service: Service, rules: Rules | None = None
    ) -> None:
        self.github, self.repo, self.service = github, repo, service
        self.store: Store = service.store  # type: ignore[attr-defined]
        repo.collaborator(BOT)
        repo.collaborator("alice")
        self.rules = rules or Rules(assigning=Assigning(login=BOT), choices=Choices(gated=GATED))
        self._clients: list[GitHub] = []

    def client(self) -> GitHub:
        made = GitHub(
            PlainToken(self.github.token("boss")),
            api_url=self.github.api_url,
            cache=StoredAnswers(self.store.github),
            sleep=lambda _: None,
        )
        self._clients.append(made)
        return made

    def close(self) -> None:
        for client in self._clients:
            client.close()

    def acting(self, client: GitHub, found: looking.Repository) -> Acting:
        return Owed(self.store.github.outbox, found, True, client)

    def keeper(self, rules: Rules | None = None) -> Keeper:
        """A keeper of its own, as another process has."""
        client = self.client()
        found = looking.find(client, self.repo.full_name)
        known = self.store.github.repository(found.id, found.name)
        return Keeper(
            Context(
                lanes=self.service,
                notes=self.store.github,
                github=client,
                repository=found,
                rules=rules or self.rules,
                acting=self.acting(client, found),
                lane_name=known.lane_name,
            )
        )

    def mode(self, mode: Mode, **choices: Any) -> None:
        gated = self.rules.choices.gated
        self.rules = Rules(assigning=Assigning(login=BOT), choices=Choices(mode=mode, gated=gated, **choices))

    # -- what happens -------------------------------------------------------------------------------

    def issue(self, micro: int, series: str = "RFC-093", **more: Any) -> Issue:
        return self.repo.issue(f"{series}-{micro:02}: Part {micro}", by="alice", **more)

    def reconcile(self) -> list[Cycle]:
        return self.keeper().reconcile()

    def acquire(self, issue: Issue, login: str | None = None) -> Acquired:
        return self.keeper().acquire(issue.number, login=login)

    def merge(self, issue: Issue) -> None:
        """A merged pull request closes it."""
        head = f"fix-{issue.number}-{len(self.repo.numbers)}"
        pull = self.repo.pull(
            f"Fix {head}", f"Closes #{issue.number}", by="bob", head=head, files={head: "x"}
        )
        pull.merge(by="boss")

    # -- what came of it ----------------------------------------------------------------------------

    def view(self, series: str = "RFC-093") -> SeriesView:
        lane_name = self.repo.full_name.lower()
        overview = Overview(self.service, self.store.github, "acme/app", lane_name, self.rules)
        (found,) = overview.status([series])
        return found

    def state(self, series: str = "RFC-093") -> Issue:
        """The state issue that is open."""
        found = [
            issue
            for issue in self.repo.numbers.values()
            if issue.title == f"{series} Series State" and issue.state == "open" and not issue.deleted
        ]
        assert len(found) == 1, found
        return found[0]

    def assigned(self) -> dict[int, list[str]]:
        """Open issues of series that somebody is assigned to."""
        return {
            number: sorted(issue.assignees)
            for number, issue in self.repo.numbers.items()
            if issue.assignees and issue.state == "open" and not issue.deleted and "RFC-" in issue.title
        }

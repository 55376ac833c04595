"""Series on a real store and the fake GitHub: keepers, issues, and what a test says about both."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from interlock.app import open_service
from interlock.core.series.standing import Choices, Mode
from interlock.github.answers import StoredAnswers
from interlock.github.client import GitHub
from interlock.github.series import looking
from interlock.github.series.acting import Acting, Assigning, Direct, Owed
from interlock.github.series.cycle import Acquired, Context, Rules
from interlock.github.series.keeper import Cycle, Keeper
from interlock.github.series.overview import Overview, SeriesView
from interlock.github.tokens import PlainToken
from interlock.gitlanes.notes import GitNotes
from interlock.gitlanes.service import GitLanes
from interlock.service.contract import Service
from interlock.store.series_port import SeriesNotes
from tests.github.fake import FakeGitHub, Repository
from tests.github.issues import Issue

BOT = "coder-bot"


class SeriesDesk:
    """One store, one GitHub. The store is that of a url: a database, or a git remote."""

    def __init__(
        self, github: FakeGitHub, repo: Repository, url: str, rules: Rules | None = None, *, directory: Path
    ) -> None:
        self.github, self.repo = github, repo
        repo.collaborator(BOT)
        repo.collaborator("alice")
        self.rules = rules or Rules(assigning=Assigning(login=BOT))
        self._clients: list[GitHub] = []
        self._directory, self._url = directory, url
        if url.startswith("git+"):
            self.lanes: Any = self.git_lanes()
            self.notes: SeriesNotes = GitNotes(self.lanes.remote)
        else:
            self.lanes = open_service(url)
            self.notes = self.lanes.store.github

    @property
    def in_git(self) -> bool:
        return isinstance(self.lanes, GitLanes)

    @property
    def service(self) -> Service:
        service: Service = self.lanes
        return service

    def git_lanes(self, name: str = "lanes", **more: Any) -> GitLanes:
        return GitLanes(self._url.removeprefix("git+"), self._directory / name, pause=lambda _: None, **more)

    def client(self, clock: Callable[[], float] = time.time) -> GitHub:
        cache = None if self.in_git else StoredAnswers(self.lanes.store.github)
        made = GitHub(
            PlainToken(self.github.token("boss")),
            api_url=self.github.api_url,
            cache=cache,
            clock=clock,
            sleep=lambda _: None,
        )
        self._clients.append(made)
        return made

    def close(self) -> None:
        for client in self._clients:
            client.close()
        self.lanes.close()

    def keeper(self, *, lanes: Any = None, clock: Callable[[], float] = time.time) -> Keeper:
        """A keeper of its own, as another process has."""
        client = self.client(clock)
        found = looking.find(client, self.repo.full_name)
        lanes = lanes or self.lanes
        in_git = isinstance(lanes, GitLanes)
        outbox = None if in_git else lanes.store.github.outbox
        acting: Acting = Direct(client, found) if outbox is None else Owed(outbox, found, True, client)
        if not in_git:
            lanes.store.github.repository(found.id, found.name)
        return Keeper(
            Context(
                lanes=lanes,
                notes=GitNotes(lanes.remote) if in_git else lanes.store.github,
                github=client,
                repository=found,
                rules=self.rules,
                acting=acting,
                lane_name=found.name.lower(),
                clock=clock,
                mend=lanes.mend if in_git else None,
                counts=lanes.counts if in_git else None,
            )
        )

    def mode(self, mode: Mode, **choices: Any) -> None:
        self.rules = Rules(assigning=Assigning(login=BOT), choices=Choices(mode=mode, **choices))

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
        overview = Overview(self.lanes, self.notes, "acme/app", lane_name, self.rules)
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

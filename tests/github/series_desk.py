"""Series on a real store and the fake GitHub: keepers, issues, and what a test says about both."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from interlock.app import open_service
from interlock.core.series.snapshot import RolloutStage, SeriesOptions
from interlock.github.client import GitHub
from interlock.github.database_cache import StoredAnswers
from interlock.github.series import issues, members
from interlock.github.series.context import SeriesContext, SeriesStore
from interlock.github.series.controller import SeriesController
from interlock.github.series.effects import (
    AssignmentMethod,
    DirectSeriesEffects,
    OutboxSeriesEffects,
    SeriesEffects,
)
from interlock.github.series.options import SeriesRules
from interlock.github.series.overview import Overview
from interlock.github.tokens import PlainToken
from interlock.gitlanes.notes import GitNotes
from interlock.gitlanes.service import GitLanes
from interlock.service.contract import Service
from interlock.service.local import LocalService
from interlock.service.series import Acquired, Cycle, SeriesView
from interlock.store.port import Store
from interlock.store.postgres.database import Database
from interlock.store.postgres.store import PostgresStore
from interlock.store.series_notes import SeriesNotes
from interlock.store.sqlite.store import SqliteStore
from tests.github.fake import FakeGitHub, Repository
from tests.github.issues import Issue
from tests.patience import PATIENCE_S

BOT = "coder-bot"


class Fate:
    """Something happens before or after the n-th of a keeper's requests to GitHub and writes to its store."""

    def __init__(self, nth: int, what: Callable[[], object]) -> None:
        self.left, self._what = nth, what

    def sharing(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def shared(*args: Any, **named: Any) -> Any:
            self._pass()
            answer = call(*args, **named)
            self._pass()
            return answer

        return shared

    def _pass(self) -> None:
        self.left -= 1
        if self.left == 0:
            self._what()


class Doomed:
    """A store, or a part of it, whose calls share a fate."""

    def __init__(self, inner: Any, fate: Fate) -> None:
        self._inner, self._fate = inner, fate

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        return self._fate.sharing(found) if callable(found) else found


def _store(url: str, github: FakeGitHub) -> Store:
    def now() -> int:
        return int(github.clock() * 1e6)

    if url.startswith("sqlite:"):
        return SqliteStore(Path(url.removeprefix("sqlite:///")), now=now)
    return PostgresStore(Database(url, now=now))


class SeriesDesk:
    """One store, one GitHub. The store is that of a url: a database, or a git remote."""

    def __init__(
        self,
        github: FakeGitHub,
        repo: Repository,
        url: str,
        rules: SeriesRules | None = None,
        *,
        directory: Path,
        in_step: bool = False,
    ) -> None:
        """With `in_step` a database has GitHub's clock."""
        self.github, self.repo = github, repo
        repo.collaborator(BOT)
        repo.collaborator("alice")
        self.rules = rules or SeriesRules(assigning=AssignmentMethod(login=BOT))
        self._clients: list[GitHub] = []
        self._directory, self._url = directory, url
        if url.startswith("git+"):
            self.lanes: Any = self.git_lanes()
            self.notes: SeriesNotes = GitNotes(self.lanes.remote)
        else:
            self.lanes = LocalService(_store(url, github)) if in_step else open_service(url)
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
            timeout_s=PATIENCE_S,
            clock=clock,
            sleep=lambda _: None,
        )
        self._clients.append(made)
        return made

    def close(self) -> None:
        for client in self._clients:
            client.close()
        self.lanes.close()

    def keeper(
        self, *, lanes: Any = None, clock: Callable[[], float] = time.time, fate: Fate | None = None
    ) -> SeriesController:
        """A keeper of its own, as another process has, whose requests and writes `fate` counts."""
        client = self.client(clock)
        found = issues.find(client, self.repo.full_name)
        lanes = lanes or self.lanes
        in_git = isinstance(lanes, GitLanes)
        outbox = None if in_git else lanes.store.github.outbox
        notes: Any = GitNotes(lanes.remote) if in_git else lanes.store.github
        if fate is not None:
            client._sent = fate.sharing(client._sent)  # type: ignore[method-assign]
            if in_git:
                repository = lanes.remote.repository
                repository.push = fate.sharing(repository.push)
            else:
                lanes, notes, outbox = Doomed(lanes, fate), Doomed(notes, fate), Doomed(outbox, fate)
        effects: SeriesEffects = (
            DirectSeriesEffects(client, found)
            if outbox is None
            else OutboxSeriesEffects(outbox, found, True, client)
        )
        if not in_git:
            lanes.store.github.repository(found.id, found.name)
        at_once, mend = (lanes.at_once, lanes.mend) if in_git else (None, None)
        context = SeriesContext(
            store=SeriesStore(lanes=lanes, notes=notes, mend=mend, at_once=at_once),
            github=client,
            repository=found,
            rules=self.rules,
            effects=effects,
            authors=members.Authors(client, found),
            lane_name=found.name.lower(),
            clock=clock,
        )
        named = Overview(context.store, "acme/app", context.lane_name, self.rules)
        return SeriesController(named, self.rules, lambda: context)

    def mode(self, mode: RolloutStage, **choices: Any) -> None:
        self.rules = SeriesRules(
            assigning=AssignmentMethod(login=BOT), choices=SeriesOptions(stage=mode, **choices)
        )

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
        store = SeriesStore(lanes=self.lanes, notes=self.notes)
        (found,) = Overview(store, "acme/app", self.repo.full_name.lower(), self.rules).status([series])
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

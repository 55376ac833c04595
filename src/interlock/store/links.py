"""A database's data about synced runs: their pull requests and commits, and the checks of those.

A pull request has one row, whose head moves. A commit in no pull request has its own row, under number 0. A
look writes its whole result in one transaction. If another look has written since, it is repeated.
"""

from __future__ import annotations

from collections.abc import Sequence

from interlock.core.row import NamedTuple
from interlock.store.tables import Ask, Tables


class Head(NamedTuple):
    """A pull request, or a commit in none, as last read. The first revision is 1."""

    repository: int
    #: The pull request; 0 for a commit in none. Then `commit_id` is its id; otherwise that is empty.
    number: int
    commit_id: str
    revision: int
    #: The newest commit.
    head: str
    branch: str
    url: str
    #: `open`, `merged` or `closed`; None for a commit in no pull request.
    outcome: str | None
    #: `pending`, `success`, `failure` or `cancelled`; None if it is unknown or has no checks.
    ci_outcome: str | None
    #: The reason in words.
    ci_why: str
    #: Whether a run is linked to it.
    followed: bool
    # Written by the store: since when this is the head, since when its checks have this outcome, and when it
    # was last read.
    head_us: int = 0
    ci_us: int = 0
    looked_us: int = 0


class Link(NamedTuple):
    """A link from a pull request or a commit to its run."""

    run: int
    item: int
    repository: int
    number: int
    commit_id: str
    #: `trailer`, `branch`, or `closes`: the pull request closes the issue that the run worked on.
    how: str


class RunsItem(NamedTuple):
    """A run's item, and its lane."""

    run: int
    item: int
    lane: str | None


class LinkedRun(NamedTuple):
    """A link with its pull request or commit."""

    run: int
    item: int
    repository: int
    number: int
    commit_id: str
    how: str
    linked_us: int
    #: The repository's name.
    name: str
    head: str
    branch: str
    url: str
    outcome: str | None
    ci_outcome: str | None
    ci_why: str
    head_us: int
    ci_us: int
    #: Whether it is the item's newest pull request.
    newest: bool


class StoredWorkflowRun(NamedTuple):
    """A workflow run in its newest attempt."""

    repository: int
    id: int
    #: The commit that it checks.
    head: str
    attempt: int
    name: str
    status: str
    conclusion: str | None
    url: str
    logs_url: str
    #: When GitHub deletes the logs, by its default.
    logs_until_us: int
    #: JSON: a list of `{"name", "url", "expires_at"}`.
    artifacts: str
    begun_us: int


class LinkStore:
    """Links, heads and workflow runs. Each call is one idempotent transaction."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def head(self, repository: int, number: int, commit_id: str = "") -> Head | None:
        of = {"repository": repository, "number": number, "commit_id": commit_id}
        found = self._tables.read("links/head", **of)
        return Head(*found[0])._replace(followed=bool(found[0][10])) if found else None

    def advance(self, head: Head, links: Sequence[Link], runs: Sequence[StoredWorkflowRun]) -> bool:
        """Write the result of a look. False, and nothing is written, unless the stored revision is one
        less."""
        fields = {name: value for name, value in head._asdict().items() if not name.endswith("_us")}

        def work(ask: Ask) -> bool:
            if not ask("links/advance", **fields):
                return False
            for link in sorted(links):
                ask("links/link", **link._asdict())
            for run in sorted(runs, key=lambda each: each.id):
                ask("links/keep_workflow_run", **run._asdict())
            return True

        return self._tables.writing(work)

    def runs(self, runs: Sequence[int]) -> dict[int, RunsItem]:
        """The items of these runs. Unknown runs are left out."""
        rows = self._tables.read("links/runs", runs=runs) if runs else []
        return {row[0]: RunsItem(*row) for row in rows}

    def of_run(self, run: int, limit: int) -> list[LinkedRun]:
        """The links of a run, the newest first."""
        return self._followed("of_run", run=run, limit=limit)

    def of_items(self, items: Sequence[int]) -> list[LinkedRun]:
        """The links of items, by item, each item's newest first."""
        return self._followed("of_items", items=items) if items else []

    def of_number(self, repository: int, number: int, limit: int) -> list[LinkedRun]:
        return self._followed("of_number", repository=repository, number=number, limit=limit)

    def workflow_runs(self, repository: int, head: str, limit: int) -> list[StoredWorkflowRun]:
        """The workflow runs of a commit, the newest first."""
        of = {"repository": repository, "head": head, "limit": limit}
        rows = self._tables.read("links/workflow_runs", **of)
        return [StoredWorkflowRun(*row) for row in rows]

    def longest_unseen(self, limit: int) -> list[tuple[int, int, str]]:
        """Open pull requests of runs, and commits with pending checks, as (repository, number, commit); the
        least recently read first."""
        rows = self._tables.read("links/longest_unseen", limit=limit)
        return [(repository, number, commit) for repository, number, commit in rows]

    def _followed(self, name: str, **params: object) -> list[LinkedRun]:
        rows = self._tables.read(f"links/{name}", **params)
        return [LinkedRun(*row)._replace(newest=bool(row[-1])) for row in rows]

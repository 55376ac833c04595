"""What a database keeps of runs in sync: pull requests and commits that come from a run, and their checks.

A pull request has one row, whose head moves. A commit that is in no pull request has a row of its own, under
number 0. Whoever looks at one writes all that the look found, in one transaction, and only if nobody else
has written since: then it looks again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from interlock.core.row import NamedTuple


class Head(NamedTuple):
    """A pull request, or a commit in none, as it was looked at last. The first revision is 1."""

    repository: int
    #: 0: a commit in no pull request, and `commit_id` is its id; else that is empty.
    number: int
    commit_id: str
    revision: int
    #: The newest commit.
    head: str
    branch: str
    url: str
    #: `open`, `merged` or `closed`; None of a commit in no pull request.
    outcome: str | None
    #: `pending`, `success`, `failure` or `cancelled`; None if nothing checks it, or nobody knows.
    ci_outcome: str | None
    #: In words.
    ci_why: str
    #: Whether a run is linked to it.
    followed: bool
    # Written by the store: since when the head is the newest, the outcome of its checks is this one, and when
    # it was looked at.
    head_us: int = 0
    ci_us: int = 0
    looked_us: int = 0


class Link(NamedTuple):
    """A run that a pull request or a commit comes from."""

    run: int
    item: int
    repository: int
    number: int
    commit_id: str
    #: `trailer`, `branch`, or `closes`: the pull request closes the issue that the run worked on.
    how: str


class RunsItem(NamedTuple):
    """A run's item, and the lane of that."""

    run: int
    item: int
    lane: str | None


class Followed(NamedTuple):
    """A link with what it leads to."""

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
    #: Whether it speaks for its item: the pull request was opened last.
    newest: bool


class WorkflowRun(NamedTuple):
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
    #: Until when GitHub keeps the logs, if nobody changed its default.
    logs_until_us: int
    #: JSON: a list of `{"name", "url", "expires_at"}`.
    artifacts: str
    begun_us: int


class LinkStore(Protocol):
    """Links, heads and workflow runs. Each call is a transaction of its own, and may be repeated."""

    def head(self, repository: int, number: int, commit_id: str = "") -> Head | None: ...
    #: Write what a look found. False, and nothing written, unless the head's revision is one less.
    def advance(self, head: Head, links: Sequence[Link], runs: Sequence[WorkflowRun]) -> bool: ...
    #: Of those of these runs that the store has had, their items.
    def runs(self, runs: Sequence[int]) -> dict[int, RunsItem]: ...
    #: The newest first.
    def of_run(self, run: int, limit: int) -> list[Followed]: ...
    #: By item, and each item's newest first.
    def of_items(self, items: Sequence[int]) -> list[Followed]: ...
    def of_number(self, repository: int, number: int, limit: int) -> list[Followed]: ...
    #: The workflow runs of a commit, the newest first.
    def workflow_runs(self, repository: int, head: str, limit: int) -> list[WorkflowRun]: ...
    #: Open pull requests of runs, and commits whose checks go on, by repository, number and commit: those
    #: that were looked at the longest ago first.
    def longest_unseen(self, limit: int) -> list[tuple[int, int, str]]: ...

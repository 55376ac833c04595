"""Recovers lost deliveries: processes every change that GitHub lists as if it had been delivered.

Each change has an id made of its subject and its time. So several processes may reconcile at once, and a
late delivery of the same change has no effect. A new repository is followed from then on; `take_open`
handles issues that were open before.

Lists do not show reviews, nor deleted or transferred numbers. The check before a run's start does.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from interlock.core.errors import GitHubRefused
from interlock.core.record import Record
from interlock.github import hosted_agents
from interlock.github.client import GitHub
from interlock.github.hosted_agents import Reconciled
from interlock.github.intake import Intake
from interlock.github.orders import lane_repository
from interlock.service.contract import Service
from interlock.store.github import GitHubStore, KnownRepository

_REPO = "/repos/{+repo}"
#: The most changes of a kind that one pass processes; the next continues from there.
CHANGES_MAX = 300
#: The most repositories that are read if none is named.
REPOSITORIES_MAX = 1_000
#: The most pull requests whose checks one pass reads again.
CHECKS_MAX = 50
#: The most blocks that are searched for those of a repository.
BLOCKED_MAX = 1_000
#: The most failed deliveries of a webhook that are fetched, and the most that are listed to find them.
FETCHED_MAX, LISTED_MAX = 50, 300
#: Reads lag behind writes, and times are whole seconds: each pass begins this long before the last ended.
OVERLAP = timedelta(minutes=2)
#: The kinds of remarks by event, with the list of all remarks in a repository.
_REMARKS = {
    "issue_comment": _REPO + "/issues/comments",
    "pull_request_review_comment": _REPO + "/pulls/comments",
}


class MissedEvents(Record):
    """The unknown changes that one pass over a repository found."""

    repository: str
    #: Changed issues and pull requests, and remarks.
    numbers: int
    remarks: int
    #: Failed deliveries that were fetched from GitHub.
    deliveries: int
    #: Whether changes remain for the next pass.
    more: bool


class Reconciler:
    """Reads changes from GitHub and passes them to an intake, which decides."""

    def __init__(self, intake: Intake, service: Service, store: GitHubStore, github: GitHub) -> None:
        self._intake, self._service, self._store, self._github = intake, service, store, github

    def followed(self) -> list[str]:
        """The names of the known repositories."""
        return [each.name for each in self._store.repositories(0, REPOSITORIES_MAX)]

    def look_at_all(self, names: Sequence[str] = ()) -> Iterator[MissedEvents]:
        """Read these repositories, or all followed ones, and decide on the changes."""
        for name in names or self.followed():
            yield self.look(name)
            self._decide()
            self._look_at_blocked(name)

    def _look_at_blocked(self, name: str) -> None:
        """Read blocked issues again: a blocker in another repository causes no delivery here."""
        known = self._store.repository_named(name)
        lane = f"issue:{lane_repository(known)}#" if known is not None else ""
        blocked = dict.fromkeys(each.lane for each in self._service.blocks(limit=BLOCKED_MAX) if each.lane)
        for each in blocked:
            number = each.removeprefix(lane)
            if known is not None and each.startswith(lane) and number.isdecimal():
                self._intake.look(known, int(number))

    def see_checks(self) -> int:
        """Read the checks of runs' open pull requests, the least recently read first; gives how many.

        The next pass continues with the others.
        """
        looked = 0
        for repository, number, commit_id in self._store.links.longest_unseen(CHECKS_MAX):
            if self._github.limits.wait("core", background=True) is not None:
                break  # the rest of the rate limit is reserved for people
            (known,) = self._store.repositories(repository - 1, 1)
            self._intake.look_again(known, number, commit_id)
            looked += 1
        return looked

    def see_hosted(self) -> list[Reconciled]:
        """Write the ends of runs of hosted agents."""
        return hosted_agents.reconcile(self._service, self._github)

    def take_in(self, name: str, labels: Sequence[str], words: str, limit: int) -> list[int]:
        """Create work for already open issues; gives the new ones."""
        found = self.take_open(name, labels, words, limit)
        self._decide()
        return found

    def _decide(self) -> None:
        while self._intake.sweep().decided:
            pass

    def follow(self, name: str) -> KnownRepository:
        """Find a repository by its name on GitHub. A new one is followed from now on."""
        found = self._github.get(_REPO, repo=name).body
        known = self._store.repository(found["id"], found["full_name"])
        if not known.swept_to:
            query = {"state": "all", "sort": "updated", "direction": "desc"}
            newest = next(self._github.pages(_REPO + "/issues", limit=1, query=query, repo=known.name), None)
            begun = newest["updated_at"] if newest else found["created_at"]
            self._store.set_swept(known.id, _shifted(begun, OVERLAP + timedelta(seconds=1)))
            known = self._store.repository(known.id, known.name)
        return known

    def look(self, name: str) -> MissedEvents:
        """Process the changes in a repository since the last pass."""
        known = self.follow(name)
        since = _shifted(known.swept_to, -OVERLAP)
        query = {"state": "all", "sort": "updated", "direction": "asc", "since": since}
        pages = self._github.pages(
            _REPO + "/issues", limit=CHANGES_MAX, background=True, query=query, repo=known.name
        )
        changed = list(pages)
        numbers = sum(self._keep_issue(known, issue) for issue in changed)
        more = len(changed) == CHANGES_MAX
        # A remark changes its number, so remarks are listed up to the same time as numbers.
        until = changed[-1]["updated_at"] if more else None
        remarks = sum(self._keep_remarks(known, kind, since, until) for kind in _REMARKS)
        found = MissedEvents(
            repository=known.name,
            numbers=numbers,
            remarks=remarks,
            deliveries=self._fetch_failed(known),
            more=more,
        )
        if changed:
            self._store.set_swept(known.id, changed[-1]["updated_at"])
        return found

    def take_open(self, name: str, labels: Iterable[str], words: str, limit: int) -> list[int]:
        """Process open issues by labels, or by the words of a search; gives the new ones."""
        known = self.follow(name)
        if words:
            query = {"q": " ".join((f"repo:{known.name}", "is:issue", "is:open", *_labels(labels), words))}
            listed = self._github.pages("/search/issues", limit=limit, within="items", query=query)
        else:
            query = {"state": "open", "labels": ",".join(labels), "direction": "asc"}
            listed = self._github.pages(_REPO + "/issues", limit=CHANGES_MAX, query=query, repo=known.name)
        issues = islice((issue for issue in listed if "pull_request" not in issue), limit)
        return [issue["number"] for issue in issues if self._keep_issue(known, issue)]

    def _keep_issue(self, repository: KnownRepository, issue: Mapping[str, Any]) -> bool:
        name = f"look:{repository.id}:{issue['number']}:{issue['updated_at']}"
        return self._keep(repository, "issues", name, {"issue": issue})

    def _keep_remarks(self, repository: KnownRepository, kind: str, since: str, until: str | None) -> int:
        query = {"sort": "created", "direction": "asc", "since": since}
        pages = self._github.pages(
            _REMARKS[kind], limit=CHANGES_MAX, background=True, query=query, repo=repository.name
        )
        # An older remark that was edited since is not passed on again.
        new = (each for each in pages if since <= each["created_at"] <= (until or "9"))
        return sum(
            self._keep(repository, kind, f"look:{kind}:{each['id']}", _payload(kind, each)) for each in new
        )

    def _keep(self, repository: KnownRepository, event: str, name: str, parts: Mapping[str, Any]) -> bool:
        where = {"id": repository.id, "full_name": repository.name}
        return self._intake.keep(event, name, json.dumps({"repository": where, **parts}).encode())

    def _fetch_failed(self, repository: KnownRepository) -> int:
        """Fetch failed deliveries of the repository's webhooks. Only administrators may do this."""
        try:
            return sum(self._fetched(repository, hook) for hook in self._hooks(repository))
        except GitHubRefused as refused:
            if refused.status in (403, 404):
                return 0
            raise

    def _hooks(self, repository: KnownRepository) -> Iterator[int]:
        for hook in self._github.pages(_REPO + "/hooks", limit=10, background=True, repo=repository.name):
            if hook["active"]:
                yield hook["id"]

    def _fetched(self, repository: KnownRepository, hook: int) -> int:
        route = _REPO + "/hooks/{hook}/deliveries"
        listed = list(
            self._github.pages(route, limit=LISTED_MAX, background=True, repo=repository.name, hook=hook)
        )
        through = {each["guid"] for each in listed if 200 <= each["status_code"] < 300}
        failed = {each["guid"]: each for each in reversed(listed) if each["guid"] not in through}
        new = [each for each in failed.values() if not self._store.has_delivery(each["guid"])]
        for each in new[:FETCHED_MAX]:
            found = self._github.get(route + "/{id}", repo=repository.name, hook=hook, id=each["id"]).body
            payload = found["request"]["payload"]
            self._intake.keep(each["event"], each["guid"], json.dumps(payload).encode())
        return len(new[:FETCHED_MAX])


def _payload(kind: str, remark: Mapping[str, Any]) -> dict[str, Any]:
    """A remark in the form of its event, with the fields that the intake reads."""
    part = "issue" if kind == "issue_comment" else "pull_request"
    address = remark[f"{part}_url"]
    return {"action": "created", part: {"number": int(address.rsplit("/", 1)[1])}, "comment": remark}


def _shifted(time: str, by: timedelta) -> str:
    return (datetime.fromisoformat(time) + by).strftime("%Y-%m-%dT%H:%M:%SZ")


def _labels(labels: Iterable[str]) -> Iterator[str]:
    return (f'label:"{label}"' for label in labels)

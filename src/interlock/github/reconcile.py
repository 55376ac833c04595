"""Makes up for deliveries that never came: what GitHub lists as changed is taken in as if it had been sent.

Each change has an id made of what it is and when it was changed, so several may reconcile at once, and a
delivery that comes late after all leads to nothing more. A repository that is seen for the first time is
followed from then on; `take_open` is for what was open before.

Lists do not show reviews, nor what was deleted or transferred. The last look before a run does.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from interlock.core.errors import GitHubRefused
from interlock.core.record import Record
from interlock.github import hosted
from interlock.github.client import GitHub
from interlock.github.hosted import Reconciled
from interlock.github.intake import Intake
from interlock.github.orders import named
from interlock.service.contract import Service
from interlock.store.github_port import GitHubStore, Repository

_REPO = "/repos/{+repo}"
#: How many changes of a kind one look takes in; the next goes on from there.
CHANGES_MAX = 300
#: How many repositories are looked at where none is named.
REPOSITORIES_MAX = 1_000
#: At the checks of how many pull requests one look looks again.
CHECKS_MAX = 50
#: Among how many blocks those of a repository are looked for.
BLOCKED_MAX = 1_000
#: How many failed deliveries of a webhook are fetched, and among how many they are looked for.
FETCHED_MAX, LISTED_MAX = 50, 300
#: Reads lag behind writes, and times are whole seconds: each look begins so long before the end of the last.
OVERLAP = timedelta(minutes=2)
#: Remarks by the event that they come with, and where all of a repository's are listed.
_REMARKS = {
    "issue_comment": _REPO + "/issues/comments",
    "pull_request_review_comment": _REPO + "/pulls/comments",
}


class Missed(Record):
    """What one look at a repository found that was not known."""

    repository: str
    #: Issues and pull requests that changed, and remarks.
    numbers: int
    remarks: int
    #: Deliveries that had failed, fetched from GitHub.
    deliveries: int
    #: There was more than one look takes in: look again.
    more: bool


class Reconciler:
    """Asks GitHub what changed, and hands it to an intake, which decides."""

    def __init__(self, intake: Intake, service: Service, store: GitHubStore, github: GitHub) -> None:
        self._intake, self._service, self._store, self._github = intake, service, store, github

    def followed(self) -> list[str]:
        """The repositories that were seen, by their names."""
        return [each.name for each in self._store.repositories(0, REPOSITORIES_MAX)]

    def look_at_all(self, names: Sequence[str] = ()) -> Iterator[Missed]:
        """Look at these repositories, or at all that are followed, and decide on what was found."""
        for name in names or self.followed():
            yield self.look(name)
            self._decide()
            self._look_at_blocked(name)

    def _look_at_blocked(self, name: str) -> None:
        """Look again at what waits for other issues: of one in another repository no delivery comes here."""
        known = self._store.repository_named(name)
        lane = f"issue:{named(known)}#" if known is not None else ""
        blocked = dict.fromkeys(each.lane for each in self._service.blocks(limit=BLOCKED_MAX) if each.lane)
        for each in blocked:
            number = each.removeprefix(lane)
            if known is not None and each.startswith(lane) and number.isdecimal():
                self._intake.look(known, int(number))

    def see_checks(self) -> int:
        """Look at the checks of open pull requests of runs, those of the longest ago first; gives how many.

        Whoever reconciles again goes on with the next ones.
        """
        looked = 0
        for repository, number, commit_id in self._store.links.longest_unseen(CHECKS_MAX):
            if self._github.limits.wait("core", background=True) is not None:
                break  # what is left of the allowance is kept for people
            (known,) = self._store.repositories(repository - 1, 1)
            self._intake.look_again(known, number, commit_id)
            looked += 1
        return looked

    def see_hosted(self) -> list[Reconciled]:
        """Write the ends of runs of hosted agents."""
        return hosted.reconcile(self._service, self._github)

    def take_in(self, name: str, labels: Sequence[str], words: str, limit: int) -> list[int]:
        """Make work of issues that are open already; gives the new ones."""
        found = self.take_open(name, labels, words, limit)
        self._decide()
        return found

    def _decide(self) -> None:
        while self._intake.sweep().decided:
            pass

    def follow(self, name: str) -> Repository:
        """A repository by its name on GitHub. One that is new is followed from now on."""
        found = self._github.get(_REPO, repo=name).body
        known = self._store.repository(found["id"], found["full_name"])
        if not known.swept_to:
            query = {"state": "all", "sort": "updated", "direction": "desc"}
            newest = next(self._github.pages(_REPO + "/issues", limit=1, query=query, repo=known.name), None)
            begun = newest["updated_at"] if newest else found["created_at"]
            self._store.set_swept(known.id, _moved(begun, OVERLAP + timedelta(seconds=1)))
            known = self._store.repository(known.id, known.name)
        return known

    def look(self, name: str) -> Missed:
        """Take in what changed in a repository since the last look."""
        known = self.follow(name)
        since = _moved(known.swept_to, -OVERLAP)
        query = {"state": "all", "sort": "updated", "direction": "asc", "since": since}
        pages = self._github.pages(
            _REPO + "/issues", limit=CHANGES_MAX, background=True, query=query, repo=known.name
        )
        changed = list(pages)
        numbers = sum(self._take(known, issue) for issue in changed)
        more = len(changed) == CHANGES_MAX
        # Remarks change the number that they are on, so they are listed as far as the numbers are.
        until = changed[-1]["updated_at"] if more else None
        remarks = sum(self._hear(known, kind, since, until) for kind in _REMARKS)
        found = Missed(
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
        """Take in open issues by labels, or by the words of a search; gives the new ones."""
        known = self.follow(name)
        if words:
            query = {"q": " ".join((f"repo:{known.name}", "is:issue", "is:open", *_labels(labels), words))}
            listed = self._github.pages("/search/issues", limit=limit, within="items", query=query)
        else:
            query = {"state": "open", "labels": ",".join(labels), "direction": "asc"}
            listed = self._github.pages(_REPO + "/issues", limit=CHANGES_MAX, query=query, repo=known.name)
        issues = islice((issue for issue in listed if "pull_request" not in issue), limit)
        return [issue["number"] for issue in issues if self._take(known, issue)]

    def _take(self, repository: Repository, issue: Mapping[str, Any]) -> bool:
        name = f"look:{repository.id}:{issue['number']}:{issue['updated_at']}"
        return self._keep(repository, "issues", name, {"issue": issue})

    def _hear(self, repository: Repository, kind: str, since: str, until: str | None) -> int:
        query = {"sort": "created", "direction": "asc", "since": since}
        pages = self._github.pages(
            _REMARKS[kind], limit=CHANGES_MAX, background=True, query=query, repo=repository.name
        )
        # What was written earlier and edited since is told of nobody anew.
        new = (each for each in pages if since <= each["created_at"] <= (until or "9"))
        return sum(
            self._keep(repository, kind, f"look:{kind}:{each['id']}", _payload(kind, each)) for each in new
        )

    def _keep(self, repository: Repository, event: str, name: str, parts: Mapping[str, Any]) -> bool:
        where = {"id": repository.id, "full_name": repository.name}
        return self._intake.keep(event, name, json.dumps({"repository": where, **parts}).encode())

    def _fetch_failed(self, repository: Repository) -> int:
        """Fetch deliveries that a webhook of the repository did not get through. Only administrators may."""
        try:
            return sum(self._fetched(repository, hook) for hook in self._hooks(repository))
        except GitHubRefused as refused:
            if refused.status in (403, 404):
                return 0
            raise

    def _hooks(self, repository: Repository) -> Iterator[int]:
        for hook in self._github.pages(_REPO + "/hooks", limit=10, background=True, repo=repository.name):
            if hook["active"]:
                yield hook["id"]

    def _fetched(self, repository: Repository, hook: int) -> int:
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
    """A remark as the event about it has it, as far as the intake looks at it."""
    part = "issue" if kind == "issue_comment" else "pull_request"
    address = remark[f"{part}_url"]
    return {"action": "created", part: {"number": int(address.rsplit("/", 1)[1])}, "comment": remark}


def _moved(time: str, by: timedelta) -> str:
    return (datetime.fromisoformat(time) + by).strftime("%Y-%m-%dT%H:%M:%SZ")


def _labels(labels: Iterable[str]) -> Iterator[str]:
    return (f'label:"{label}"' for label in labels)

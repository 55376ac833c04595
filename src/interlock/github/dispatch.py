"""Whether a run that is about to start is still wanted: GitHub is asked once more, just before.

Deliveries may be late or lost. So an issue that was closed meanwhile ends its item here, and so does an open
pull request that closes the issue, where the run would begin the same work anew. A run that goes on with
something (a comment, a later attempt) starts all the same: the pull request may be its own.

Only items that GitHub's events made are looked at. If GitHub does not answer, the run starts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress

from interlock.core.errors import GitHubLimited, GitHubRefused, GitHubUnavailable, ItemEnded
from interlock.core.record import Record
from interlock.github.closing import closes
from interlock.github.reading import Gone, Reader
from interlock.github.wanted import ENDS
from interlock.service.contract import LeaseView, Service
from interlock.store.github_port import GitHubStore

#: Who did it, in the history.
_BY = "github"


class _Subject(Record):
    repository: str
    number: int
    pull: bool
    #: It begins something, and nobody has said anything since.
    fresh: bool


class LastLook:
    """Asks GitHub for one worker."""

    def __init__(
        self, service: Service, store: GitHubStore, reader: Reader, tell: Callable[[str], None]
    ) -> None:
        self._service, self._store, self._reader, self._tell = service, store, reader, tell
        self._lock = threading.Lock()  # runs start in threads of their own

    def __call__(self, lease: LeaseView) -> str | None:
        """Why a run must not start; its item is then cancelled. None if it may."""
        subject = _subject(lease)
        if subject is None:
            return None
        try:
            with self._lock:
                why = self._unwanted(subject)
        except (GitHubLimited, GitHubRefused, GitHubUnavailable) as error:
            self._tell(f"Item {lease.item.id} starts without a last look at GitHub: {error.sentence}")
            return None
        if why is not None:
            with suppress(ItemEnded):  # somebody else was first
                self._service.cancel(lease.item.id, why=why, by=_BY)
        return why

    def _unwanted(self, subject: _Subject) -> str | None:
        known = self._store.repository_named(subject.repository)
        if known is None:
            return None
        found = self._reader.facts(known.id, known.name, subject.number, pull=subject.pull)
        if isinstance(found, Gone) or not found.open:
            where = f"{known.name}#{subject.number}" if isinstance(found, Gone) else found.url
            return f"{ENDS[found.state][0]}: {where}"
        if subject.fresh and not subject.pull:
            for pull in self._reader.open_pulls(found.name):
                if subject.number in closes(f"{pull['title']}\n{pull['body'] or ''}", found.name):
                    return f"has_pull_request: {pull['html_url']}"
        return None


def _subject(lease: LeaseView) -> _Subject | None:
    """The issue or pull request that an event made an item for."""
    payload = lease.item.payload
    if not isinstance(payload, Mapping) or not isinstance(payload.get("event_type"), str):
        return None
    repository, pull = payload.get("repository"), "pr_number" in payload
    number = payload.get("pr_number" if pull else "issue_number")
    if not isinstance(repository, str) or not isinstance(number, int):
        return None
    begins = payload["event_type"].startswith("issues.") and lease.item.attempt == 1
    said = any(message.reason and "comment" in message.reason for message in lease.messages)
    return _Subject(repository=repository, number=number, pull=pull, fresh=begins and not said)

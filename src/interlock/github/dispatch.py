"""Whether a run that is about to start is still wanted: GitHub is asked once more, just before.

Deliveries may be late or lost. So an issue that was closed meanwhile ends its item here, and so does an open
pull request that closes the issue, where the run would begin the same work anew. If the issue waits for
others, so does its work. A run that goes on with
something (a comment, a later attempt) starts all the same: the pull request may be its own.

Only items that GitHub's events made are looked at. If GitHub does not answer, the run starts.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import suppress

from interlock.core.errors import GitHubLimited, GitHubRefused, GitHubUnavailable, ItemEnded
from interlock.github import facts as facts_of
from interlock.github.about import About, about
from interlock.github.closing import closes
from interlock.github.facts import Facts
from interlock.github.intake import Intake
from interlock.github.reading import Gone, Reader
from interlock.github.wanted import ENDS
from interlock.service.contract import LeaseView, Service
from interlock.store.github_port import GitHubStore, Repository

#: Who did it, in the history.
_BY = "github"


class LastLook:
    """Asks GitHub for one worker."""

    def __init__(
        self,
        service: Service,
        store: GitHubStore,
        reader: Reader,
        intake: Intake,
        tell: Callable[[str], None],
    ) -> None:
        self._service, self._store, self._reader, self._tell = service, store, reader, tell
        self._intake = intake
        self._lock = threading.Lock()  # runs start in threads of their own

    def __call__(self, lease: LeaseView) -> str | None:
        """Why a run must not start; its item is then cancelled, or waits. None if it may."""
        of = about(lease.item.payload)
        if of is None or not of.event:
            return None
        known = self._store.repository_named(of.repository)
        if known is None:
            return None
        try:
            with self._lock:
                found = self._reader.facts(known.id, known.name, of.number, pull=of.pull)
                why = self._unwanted(known, of, found, fresh=_is_fresh(of, lease))
                if why is None and isinstance(found, Facts) and found.waits_for:
                    return self._waits(known, of)
        except (GitHubLimited, GitHubRefused, GitHubUnavailable) as error:
            self._tell(f"Item {lease.item.id} starts without a last look at GitHub: {error.sentence}")
            return None
        if why is not None:
            with suppress(ItemEnded):  # somebody else was first
                self._service.cancel(lease.item.id, why=why, by=_BY)
        return why

    def _waits(self, known: Repository, of: About) -> str | None:
        """Let work wait as its issue does, where nobody has noticed before; gives for what."""
        self._intake.look(known, of.number)
        now = self._store.known(known.id, of.number)
        facts = facts_of.from_json(json.loads(now.facts)) if now is not None else None
        return f"waits for {', '.join(facts.waits_for)}" if facts is not None and facts.waits_for else None

    def _unwanted(self, known: Repository, of: About, found: Facts | Gone, *, fresh: bool) -> str | None:
        if isinstance(found, Gone) or not found.open:
            where = f"{known.name}#{of.number}" if isinstance(found, Gone) else found.url
            return f"{ENDS[found.state][0]}: {where}"
        if fresh and not of.pull:
            for pull in self._reader.open_pulls(found.name):
                if of.number in closes(f"{pull['title']}\n{pull['body'] or ''}", found.name):
                    return f"has_pull_request: {pull['html_url']}"
        return None


def _is_fresh(of: About, lease: LeaseView) -> bool:
    """Whether it begins something, and nobody has said anything since."""
    begins = of.event.startswith("issues.") and lease.item.attempt == 1
    return begins and not any(message.reason and "comment" in message.reason for message in lease.messages)

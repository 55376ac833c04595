"""Whether a run that is about to start is still wanted: GitHub is asked once more, just before.

Deliveries may be late or lost. So an issue that was closed meanwhile ends its item here, and so does a pull
request that closes the issue, open or merged meanwhile, where the run would begin the same work anew. If the
issue waits for others, so does its work. A run that goes on with something (a comment, a later attempt)
starts all the same: the pull request may be its own.

Only items that GitHub's events made are looked at. If GitHub does not answer, the run starts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from interlock.core.errors import GitHubLimited, GitHubRefused, GitHubUnavailable, ItemEnded
from interlock.github import facts as facts_of
from interlock.github.about import About, about
from interlock.github.closing import closes
from interlock.github.facts import Facts
from interlock.github.intake import Intake
from interlock.github.reading import Gone, Reader
from interlock.github.rules import ENDING
from interlock.github.wanted import ENDS
from interlock.service.contract import LeaseView, Service
from interlock.service.itemview import ItemView
from interlock.store.github_port import GitHubStore, Repository

#: Who did it, in the history.
_BY = "github"
#: The branch that a worker gives a run.
_BRANCH = re.compile(r"interlock/run-(\d{1,18})", re.ASCII)


class LastLook:
    """Asks GitHub for a worker, or for all workers of a server. Safe to use from several threads."""

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

    def __call__(self, lease: LeaseView) -> str | None:
        """Why a run must not start; its item is then cancelled, or waits. None if it may."""
        of = about(lease.item.payload)
        if of is None or not of.event or of.event in ENDING:
            return None
        known = self._store.repository_named(of.repository)
        if known is None:
            return None
        try:
            found = self._reader.facts(known.id, known.name, of.number, pull=of.pull)
            why = self._unwanted(known, of, found)
            if why is None and isinstance(found, Facts) and _is_fresh(of, lease):
                why = self._under_way(found, lease.item)
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

    def _unwanted(self, known: Repository, of: About, found: Facts | Gone) -> str | None:
        if not isinstance(found, Gone) and found.open:
            return None
        where = f"{known.name}#{of.number}" if isinstance(found, Gone) else found.url
        return f"{ENDS[found.state][0]}: {where}"

    def _under_way(self, found: Facts, item: ItemView) -> str | None:
        """The pull request that does the work already: open, or merged since the item is there."""
        pulls = list(self._reader.open_pulls(found.name))
        ours = self._of_lane(pulls, item.lane)
        pulls += [p for p in self._reader.merged_pulls(found.name) if _at(p["merged_at"]) > item.created_at]
        for pull in pulls:
            text = f"{pull['title']}\n{pull['body'] or ''}"
            if found.number in closes(text, found.name) or pull["number"] in ours:
                return f"has_pull_request: {pull['html_url']}"
        return None

    def _of_lane(self, pulls: Sequence[Mapping[str, Any]], lane: str | None) -> set[int]:
        """Those on branches of runs that had the lane, whatever their texts say."""
        named = {pull["number"]: _BRANCH.fullmatch(pull["head"]["ref"]) for pull in pulls}
        runs = {number: int(match[1]) for number, match in named.items() if match}
        known = self._store.links.runs(list(runs.values())) if runs and lane is not None else {}
        return {number for number, run in runs.items() if run in known and known[run].lane == lane}


def _at(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _is_fresh(of: About, lease: LeaseView) -> bool:
    """Whether it begins something, and nobody has said anything since."""
    begins = of.event.startswith("issues.") and lease.item.attempt == 1
    return begins and not any(message.reason and "comment" in message.reason for message in lease.messages)

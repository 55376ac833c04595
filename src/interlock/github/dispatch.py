"""Checks on GitHub, just before a run starts, whether the run is still wanted.

Deliveries may be late or lost. So this check ends the item of an issue that was closed meanwhile. It also
ends the item if a pull request that closes the issue was opened or merged meanwhile, and the run would repeat
its work. If the issue waits for others, so does its work. A run that continues work (a comment, a later
attempt) starts anyway: the pull request may be its own.

Only items from GitHub's events are checked. If GitHub does not answer, the run starts.
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
from interlock.github.closing_keywords import closes
from interlock.github.desired_work import ENDS
from interlock.github.facts import NumberFacts
from interlock.github.intake import Intake
from interlock.github.lookup import MissingNumber, Reader
from interlock.github.rules import ENDING
from interlock.github.subject import Subject, subject_of
from interlock.service.contract import LeaseView, Service
from interlock.service.item_view import ItemView
from interlock.store.github import GitHubStore, KnownRepository

#: The actor in the history.
_BY = "github"
#: The branch that a worker gives a run.
_BRANCH = re.compile(r"interlock/run-(\d{1,18})", re.ASCII)


class StartCheck:
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
        of = subject_of(lease.item.payload)
        if of is None or not of.event or of.event in ENDING:
            return None
        known = self._store.repository_named(of.repository)
        if known is None:
            return None
        try:
            found = self._reader.facts(known.id, known.name, of.number, pull=of.pull)
            why = self._unwanted(known, of, found)
            if why is None and isinstance(found, NumberFacts) and _is_fresh(of, lease):
                why = self._under_way(found, lease.item)
            if why is None and isinstance(found, NumberFacts) and found.waits_for:
                return self._waits(known, of)
        except (GitHubLimited, GitHubRefused, GitHubUnavailable) as error:
            self._tell(f"Item {lease.item.id} starts without a check on GitHub: {error.sentence}")
            return None
        if why is not None:
            with suppress(ItemEnded):  # another process was first
                self._service.cancel(lease.item.id, why=why, by=_BY)
        return why

    def _waits(self, known: KnownRepository, of: Subject) -> str | None:
        """Make work wait for its issue's blockers if a delivery was lost. Gives the blockers."""
        self._intake.look(known, of.number)
        now = self._store.known(known.id, of.number)
        facts = facts_of.from_json(json.loads(now.facts)) if now is not None else None
        return f"waits for {', '.join(facts.waits_for)}" if facts is not None and facts.waits_for else None

    def _unwanted(
        self, known: KnownRepository, of: Subject, found: NumberFacts | MissingNumber
    ) -> str | None:
        if not isinstance(found, MissingNumber) and found.open:
            return None
        where = f"{known.name}#{of.number}" if isinstance(found, MissingNumber) else found.url
        return f"{ENDS[found.state][0]}: {where}"

    def _under_way(self, found: NumberFacts, item: ItemView) -> str | None:
        """The pull request that already does the work: open, or merged since the item arrived."""
        pulls = list(self._reader.open_pulls(found.name))
        ours = self._of_lane(pulls, item.lane)
        pulls += [p for p in self._reader.merged_pulls(found.name) if _time(p["merged_at"]) > item.created_at]
        for pull in pulls:
            text = f"{pull['title']}\n{pull['body'] or ''}"
            if found.number in closes(text, found.name) or pull["number"] in ours:
                return f"has_pull_request: {pull['html_url']}"
        return None

    def _of_lane(self, pulls: Sequence[Mapping[str, Any]], lane: str | None) -> set[int]:
        """Pull requests on branches of the lane's runs, whatever their texts say."""
        named = {pull["number"]: _BRANCH.fullmatch(pull["head"]["ref"]) for pull in pulls}
        runs = {number: int(match[1]) for number, match in named.items() if match}
        known = self._store.links.runs(list(runs.values())) if runs and lane is not None else {}
        return {number for number, run in runs.items() if run in known and known[run].lane == lane}


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _is_fresh(of: Subject, lease: LeaseView) -> bool:
    """Whether it begins new work, without a comment since."""
    begins = of.event.startswith("issues.") and lease.item.attempt == 1
    return begins and not any(message.reason and "comment" in message.reason for message in lease.messages)

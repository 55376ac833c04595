"""Keeps runs in sync with GitHub: links a pull request to its runs, and reads its checks.

A run is linked to a pull request
- by the trailer `Interlock-Run: 7@STORE` in one of its commits, if the store is this one;
- by its branch `interlock/run-7`, unless its commits or the run's lane show that another run 7 is meant;
- else by the issue that it closes: to the last run that worked on that issue.

A delivery only triggers a look. Each look reads the checks again, and is written only on top of the look
before it. So the order of deliveries does not matter, and checks of a replaced head have no effect. The
outcome of checks never changes a run or an item.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from interlock.core.ci import CheckVerdict, PullOutcome, verdict
from interlock.core.model import ItemId
from interlock.core.trailers import Trailer, run_of_branch, trailers
from interlock.github import facts as facts_of
from interlock.github.ci import Unreadable
from interlock.github.facts import NumberFacts, NumberState
from interlock.github.lookup import Reader
from interlock.github.orders import item_location, lane_repository
from interlock.store.github import KnownRepository
from interlock.store.links import Head, Link, LinkedRun, RunsItem, StoredWorkflowRun
from interlock.store.port import Store

#: How many races a look may lose before it gives up: the other process has looked.
RACES_MAX = 10
#: The most items of an issue that are searched for its last run, and the most runs of one pull request.
ITEMS_MAX, LINKS_MAX = 20, 50
#: The most workflow runs of a commit that are stored.
RUNS_MAX = 50
#: If earlier heads had checks and a new one has none after this time, none are expected.
SILENT_US = 3_600 * 1_000_000
#: The repository in the name of a lane.
_OF_REPOSITORY = re.compile(r"(?:issue|branch|series):(?P<name>[^/#:]+/[^/#:]+)")
_OUTCOMES = {NumberState.OPEN: PullOutcome.OPEN, NumberState.MERGED: PullOutcome.MERGED}


class RunSync:
    """Links runs in one store. Without a reader it has only deliveries: no trailers and no checks."""

    def __init__(
        self,
        store: Store,
        reader: Reader | None,
        *,
        merged: Callable[[Sequence[LinkedRun]], None] | None = None,
    ) -> None:
        self._store, self._reader, self._merged = store, reader, merged

    def look(self, repository: KnownRepository, number: int) -> str:
        """Read a known pull request, and write its runs and the state of its checks.

        Gives its state in words; empty if no run is linked to it.
        """
        links = self._store.github.links
        for _ in range(RACES_MAX):
            was = links.head(repository.id, number)  # before the facts, so that another writer wins
            known = self._store.github.known(repository.id, number)
            facts = facts_of.from_json(json.loads(known.facts)) if known is not None else None
            if facts is None or not facts.pull or not facts.head:
                return ""
            new = was is None or was.head != facts.head
            found = self._linked(repository, facts, self._messages(facts) if new else ())
            followed = bool(found) or (was is not None and was.followed)
            now = Head(
                repository=repository.id,
                number=number,
                commit_id="",
                revision=was.revision + 1 if was is not None else 1,
                head=facts.head,
                branch=facts.branch,
                url=facts.url,
                outcome=_OUTCOMES.get(facts.state, PullOutcome.CLOSED),
                ci_outcome=None,
                ci_why="",
                followed=followed,
            )
            if not followed and was is not None and now[4:8] == was[4:8]:
                return ""
            if self._written(repository, now, was, facts.base, found):
                if self._merged is not None and PullOutcome.MERGED == now.outcome != (was and was.outcome):
                    self._merged(links.of_number(repository.id, number, LINKS_MAX))
                return f"#{number} linked to {_runs(found)}" if found else ""
        return ""

    def look_at_commit(self, repository: KnownRepository, run: Mapping[str, Any]) -> str:
        """Read the commit of a workflow run outside any pull request: a run may have pushed it."""
        links, sha = self._store.github.links, str(run["head_sha"])
        branch, message = run.get("head_branch") or "", (run.get("head_commit") or {}).get("message") or ""
        for _ in range(RACES_MAX):
            was = links.head(repository.id, 0, sha)
            found = self._by_name(repository, branch, trailers(message), 0, sha)
            if not found:
                return ""
            now = Head(
                repository=repository.id,
                number=0,
                commit_id=sha,
                revision=was.revision + 1 if was is not None else 1,
                head=sha,
                branch=branch,
                url=f"{run['repository']['html_url']}/commit/{sha}",
                outcome=None,
                ci_outcome=None,
                ci_why="",
                followed=True,
            )
            if self._written(repository, now, was, "", found):
                return f"{sha[:12]} linked to {_runs(found)}"
        return ""

    def look_again(self, repository: KnownRepository, number: int, commit_id: str) -> None:
        """Read a linked pull request or commit again, for changes without a delivery."""
        if number:
            self.look(repository, number)
            return
        links = self._store.github.links
        was = links.head(repository.id, 0, commit_id)
        if was is not None:
            self._written(repository, was._replace(revision=was.revision + 1), was, "", ())

    # Which runs

    def _linked(self, repository: KnownRepository, facts: NumberFacts, messages: Iterable[str]) -> list[Link]:
        """The runs that a pull request is linked to."""
        said = tuple(dict.fromkeys(each for message in messages for each in trailers(message)))
        found = self._by_name(repository, facts.branch, said, facts.number, "")
        if found or self._store.github.links.of_number(repository.id, facts.number, 1):
            return found
        last = (self._last_run(repository, issue) for issue in facts.closes)
        return [Link(each.run, each.item, repository.id, facts.number, "", "closes") for each in last if each]

    def _by_name(
        self, repository: KnownRepository, branch: str, said: Sequence[Trailer], number: int, commit_id: str
    ) -> list[Link]:
        """The runs that a branch or trailers name, if they belong to this store."""
        lineage = self._store.lineage()
        ours = {each.run for each in said if each.store and lineage.goes_on_from(each.store)}
        others = {each.run for each in said if each.store} - ours
        by_branch = run_of_branch(branch)
        unsure = {each.run for each in said if not each.store}
        if by_branch is not None and by_branch not in others:
            unsure.add(by_branch)
        wanted = sorted(ours | unsure)[-LINKS_MAX:]
        known = self._store.github.links.runs(wanted)
        sure = ours & known.keys()
        likely = {run for run in unsure if run in known and not _is_elsewhere(repository, known[run])}
        return [
            Link(
                run,
                known[run].item,
                repository.id,
                number,
                commit_id,
                "branch" if run == by_branch and run not in sure else "trailer",
            )
            for run in sorted(sure | likely)
        ]

    def _last_run(self, repository: KnownRepository, issue: int) -> RunsItem | None:
        """The last run that worked on an issue."""
        github, lane = self._store.github, item_location(repository, issue).lane
        items = [each.item for each in github.orders(repository.id, issue, ITEMS_MAX)]
        owner = self._store.owner(lane)
        last: RunsItem | None = None
        for item in {*(each for each in items if each), *([owner.id] if owner else [])}:
            found = self._store.item(ItemId(item))
            if found is None:
                continue
            ended = [each.run for each in self._store.runs(found.id)]
            run = max((*ended, found.state.run or 0), default=0)
            if run and (last is None or run > last.run):
                last = RunsItem(run, item, lane)
        return last

    def _messages(self, facts: NumberFacts) -> Iterable[str]:
        return self._reader.ci.messages(facts.name, facts.number) if self._reader is not None else ()

    # Checks

    def _written(
        self, repository: KnownRepository, now: Head, was: Head | None, base: str, links: Sequence[Link]
    ) -> bool:
        """Read the checks, and write the result; false if another process was first."""
        found = self._judged(repository.name, now, was, base) if now.followed else None
        runs: Sequence[StoredWorkflowRun] = ()
        if found is not None and self._reader is not None:
            before = self._store.github.links.workflow_runs(repository.id, now.head, RUNS_MAX)
            runs = self._reader.ci.workflow_runs(repository.id, repository.name, now.head, before)
            runs = [each for each in runs if each not in before]
        if found is not None:
            now = now._replace(ci_outcome=found.outcome, ci_why=found.why)
        return self._store.github.links.advance(now, links, runs)

    def _judged(self, repo: str, now: Head, was: Head | None, base: str) -> CheckVerdict:
        if self._reader is None:
            return CheckVerdict(outcome=None, why="no token to read checks with")
        checks = self._reader.ci.checks(repo, now.head)
        if isinstance(checks, Unreadable):
            return CheckVerdict(outcome=None, why=checks.why)
        required = self._reader.ci.required(repo, base) if base else ()
        return verdict(checks, required, expected=self._is_expected(now, was))

    def _is_expected(self, now: Head, was: Head | None) -> bool:
        """Whether checks are expected: the previous head had some, or this one did, and it is new."""
        if was is None or was.ci_outcome is None:
            return False
        return was.head != now.head or self._store.now_us() < was.head_us + SILENT_US


def _is_elsewhere(repository: KnownRepository, run: RunsItem) -> bool:
    """Whether a run worked on another repository."""
    found = _OF_REPOSITORY.match(run.lane or "")
    return found is not None and found["name"] not in (lane_repository(repository), repository.name.lower())


def _runs(links: Sequence[Link]) -> str:
    numbers = ", ".join(str(link.run) for link in links[:3])
    return f"run{'s' if len(links) > 1 else ''} {numbers}{' and more' if len(links) > 3 else ''}"

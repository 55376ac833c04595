"""Agents that GitHub hosts: an assignment starts them, and their result is read from GitHub.

    start      claim the item as an external run, assign the agent, and read back whether GitHub took it
    became     how the work ended, by GitHub's facts; None while it continues. Pure
    reconcile  list the external runs, read GitHub, write each end iff its run is unchanged

A process that dies between the claim and the assignment leaves an orphaned run: the next reconcile finds no
assignment since the run began, and releases the item.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from interlock.core.commands import Outcome
from interlock.core.errors import GitHubRefused, GitHubUnavailable, InvalidInput, ItemEnded, LeaseLost
from interlock.core.record import Record
from interlock.github import effects
from interlock.github.client import GitHub
from interlock.github.closing_keywords import closes
from interlock.github.facts import NumberState, from_answer, login
from interlock.github.subject import subject_of
from interlock.service.contract import Report, Service
from interlock.service.item_view import ItemView

AGENT, LOGIN = "copilot", "copilot-swe-agent[bot]"
#: How long an item waits after GitHub dropped its assignment: a person has to change a setting.
FAULT_S = 600.0
#: A missing assignment is ignored until the run is this old: it may still be starting.
SETTLED_AFTER = timedelta(minutes=5)
#: GitHub's times are whole seconds, and its clock is not the store's.
_SKEW = timedelta(minutes=1)
PULLS_MAX, TIMELINE_MAX = 100, 500
_BY = "github"
SERIES_TYPE = "series.assignment"
_REPO = "/repos/{+repo}"


class HostedIssue(Record):
    """The issue of an item."""

    repository: str
    number: int


class HostedStart(Record):
    """The result of a start."""

    item: int
    #: The external run; None if none was started, or it was released.
    run: int | None
    #: What was done, or why there is no run: a sentence.
    why: str


class Pull(Record):
    """A pull request of the agent that closes the issue."""

    url: str
    state: NumberState
    #: Whether it was closed or merged since the run began.
    ended_since: bool


class ObservedIssue(Record):
    """The work of a run, as GitHub shows it."""

    #: The state of the issue.
    state: NumberState
    url: str
    assigned: bool
    #: Whether the agent was assigned since the run began; None if that was not read.
    assigned_since: bool | None
    pulls: tuple[Pull, ...]


class HostedRunEnd(Record):
    """How a run ended, and the fact that shows it."""

    outcome: Outcome
    why: str
    pull_request: str | None = None


class Reconciled(Record):
    """A run whose end was seen and written."""

    item: int
    run: int
    outcome: str
    why: str


# -- its start ------------------------------------------------------------------------------------------


def start(
    service: Service, github: GitHub, item: int, *, agent: str = AGENT, assignee: str = LOGIN
) -> HostedStart:
    """Claim an item for a hosted agent and assign it. If GitHub drops it, the item is released."""
    place = hosted_issue_of(service.show(item).item)
    if place is None:
        raise InvalidInput(
            f"Item {item} has no GitHub issue.",
            "Its payload needs repository and issue_number.",
        )
    if github.token.kind != "user":
        raise InvalidInput(
            "GitHub starts a hosted agent only for a user.",
            "Set INTERLOCK_GITHUB_TOKEN to a personal token. GitHub ignores those of apps and jobs.",
        )
    found = service.next(agent, item=item, external=True)
    if not found:
        return HostedStart(item=item, run=None, why=f"Item {item} cannot be claimed now.")
    (lease,) = found
    try:
        why = _assigned(github, place, assignee)
    except GitHubUnavailable as error:
        if error.uncertain:  # the agent may be running: the next reconcile checks
            return HostedStart(item=item, run=lease.fence, why=f"Assignment uncertain: {error.sentence}")
        why = error.sentence
    except GitHubRefused as error:
        why = error.sentence
    except BaseException:
        service.release([Report(run=lease.run)])
        raise
    if why is None:
        sentence = f"{assignee} is assigned to {place.repository}#{place.number}."
        return HostedStart(item=item, run=lease.fence, why=sentence)
    service.release([Report(run=lease.run, error=why, fault_s=FAULT_S)])
    return HostedStart(item=item, run=None, why=why)


def _assigned(github: GitHub, place: HostedIssue, assignee: str) -> str | None:
    """Assign the agent; gives the reason if GitHub refused. Other assignees stay."""
    request = effects.Assignment(logins=[assignee]).request(place.repository, place.number)
    issue = request.send(github).body
    if not effects.not_assigned(issue, [assignee]):
        return None
    return (
        f"GitHub did not assign {assignee} to {place.repository}#{place.number}: the agent is not enabled"
        " there, or the token's user may not use it."
    )


def hosted_issue_of(item: ItemView) -> HostedIssue | None:
    """The issue that an item came from."""
    of = subject_of(item.payload)
    return None if of is None or of.pull else HostedIssue(repository=of.repository, number=of.number)


# -- its end --------------------------------------------------------------------------------------------


def run_end_of(seen: ObservedIssue) -> HostedRunEnd | None:
    """How the work ended, by the first fact that decides it; None while it continues."""
    merged = [pull for pull in seen.pulls if pull.state is NumberState.MERGED and pull.ended_since]
    if merged:
        return HostedRunEnd(outcome=Outcome.DONE, why=f"merged: {merged[0].url}", pull_request=merged[0].url)
    match seen.state:
        case NumberState.COMPLETED:
            return HostedRunEnd(outcome=Outcome.DONE, why=f"closed: {seen.url}")
        case NumberState.DROPPED | NumberState.TRANSFERRED | NumberState.DELETED | NumberState.MERGED:
            return HostedRunEnd(outcome=Outcome.CANCEL, why=f"{seen.state}: {seen.url}")
        case NumberState.OPEN:
            pass
    if any(pull.state is NumberState.OPEN for pull in seen.pulls):
        return None
    dropped = [pull for pull in seen.pulls if pull.ended_since]
    if dropped:
        # A person rejected it. The agent would not start again, as it is already assigned.
        why = f"closed unmerged: {dropped[0].url}"
        return HostedRunEnd(outcome=Outcome.CANCEL, why=why, pull_request=dropped[0].url)
    if seen.assigned or seen.assigned_since is None:
        return None
    if seen.assigned_since:
        return HostedRunEnd(outcome=Outcome.CANCEL, why=f"unassigned: {seen.url}")
    return HostedRunEnd(outcome=Outcome.RELEASE, why=f"never assigned: {seen.url}")


def look(
    github: GitHub, place: HostedIssue, assignee: str, since: datetime, *, settled: bool
) -> ObservedIssue:
    """Read the work on an issue since a time from GitHub."""
    url = f"{place.repository}#{place.number}"
    try:
        answer = github.get(_REPO + "/issues/{number}", repo=place.repository, number=place.number)
    except GitHubRefused as refused:
        if refused.status != 410:
            raise
        return ObservedIssue(
            state=NumberState.DELETED, url=url, assigned=False, assigned_since=None, pulls=()
        )
    if answer.moved and answer.body["number"] != place.number:
        return ObservedIssue(
            state=NumberState.TRANSFERRED, url=url, assigned=False, assigned_since=None, pulls=()
        )
    issue = answer.body
    facts = from_answer({"id": 0, "full_name": place.repository}, issue)
    assigned = bool(effects.assigned(issue, [assignee]))
    was = None
    if facts.open and not assigned and settled:
        was = _was_assigned(github, place, assignee, since)
    return ObservedIssue(
        state=facts.state,
        url=facts.url,
        assigned=assigned,
        assigned_since=was,
        pulls=_pulls(github, place, assignee, since),
    )


def _pulls(github: GitHub, place: HostedIssue, assignee: str, since: datetime) -> tuple[Pull, ...]:
    """The agent's pull requests for an issue, the most recently changed first."""
    query = {"state": "all", "sort": "updated", "direction": "desc"}
    found = []
    for each in github.pages(_REPO + "/pulls", limit=PULLS_MAX, query=query, repo=place.repository):
        text = f"{each['title']}\n{each['body'] or ''}"
        if login(each["user"]) in effects.names_of(assignee) and place.number in closes(
            text, place.repository
        ):
            facts = from_answer({"id": 0, "full_name": place.repository}, each)
            ended_since = not facts.open and _time(each["closed_at"]) >= since - _SKEW
            found.append(Pull(url=facts.url, state=facts.state, ended_since=ended_since))
    return tuple(found)


def _was_assigned(github: GitHub, place: HostedIssue, assignee: str, since: datetime) -> bool:
    entries = github.pages(
        _REPO + "/issues/{number}/timeline",
        limit=TIMELINE_MAX,
        repo=place.repository,
        number=place.number,
    )
    return any(
        each.get("event") == "assigned"
        and login(each.get("assignee")) in effects.names_of(assignee)
        and _time(each["created_at"]) >= since - _SKEW
        for each in entries
    )


def reconcile(
    service: Service,
    github: GitHub,
    *,
    agents: Mapping[str, str] | None = None,
    now: datetime | None = None,
) -> list[Reconciled]:
    """Write the ends of hosted agents' runs, as GitHub shows them. `agents` maps their names to assignees.

    An end is written only if the run read before is still the item's current one, and external.
    """
    known = {AGENT: LOGIN} if agents is None else agents
    done = []
    for item in service.external():
        # The series assigns its own issues.
        assignee = None if item.type == SERIES_TYPE else known.get(item.run_agent or "")
        place = None if assignee is None else hosted_issue_of(service.show(item.id).item)
        if assignee is None or place is None or item.run is None or item.started_at is None:
            continue
        settled = (now or datetime.now(UTC)) - item.started_at >= SETTLED_AFTER
        end = run_end_of(look(github, place, assignee, item.started_at, settled=settled))
        if end is None:
            continue
        result = json.dumps({"pull_request": end.pull_request}) if end.pull_request else None
        with suppress(LeaseLost, ItemEnded):  # it changed meanwhile: the next reconcile handles it
            service.end_external(item.id, item.run, end.outcome, why=end.why, by=_BY, result=result)
            done.append(Reconciled(item=item.id, run=item.run, outcome=end.outcome, why=end.why))
    return done


def _time(text: Any) -> datetime:
    return datetime.fromisoformat(str(text))

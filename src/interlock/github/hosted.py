"""Agents that GitHub hosts: an assignment starts them, and what becomes of their work is seen on GitHub.

    start      claim the item as an external run, assign the agent, and read back whether GitHub took it
    became     how the work ended, by what GitHub shows of it; None while it goes on. Pure
    reconcile  read which external runs there are, look at GitHub, write each end iff its run is unchanged

Whoever dies between the claim and the assignment leaves a run that nobody works for: the next reconcile finds
no assignment since the run began, and gives the item back.
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
from interlock.github.about import about
from interlock.github.client import GitHub
from interlock.github.closing import closes
from interlock.github.facts import State, from_answer, login
from interlock.service.contract import Report, Service
from interlock.service.itemview import ItemView

AGENT, LOGIN = "copilot", "copilot-swe-agent[bot]"
#: After an assignment that GitHub did not take, how long the item waits: somebody has to change a setting.
FAULT_S = 600.0
#: Nothing is concluded from a missing assignment before a run is this old: its start may still be under way.
SETTLED_AFTER = timedelta(minutes=5)
#: GitHub's times are whole seconds, and its clock is not the store's.
_SKEW = timedelta(minutes=1)
PULLS_MAX, TIMELINE_MAX = 100, 500
_BY = "github"
SERIES_TYPE = "series.assignment"
_REPO = "/repos/{+repo}"


class Place(Record):
    """The issue that an item is about."""

    repository: str
    number: int


class Started(Record):
    """What came of a start."""

    item: int
    #: The external run; None if none was started, or it was given back.
    run: int | None
    #: Why there is none, or how it came about: a sentence.
    why: str


class Pull(Record):
    """A pull request of the agent that closes the issue."""

    url: str
    state: State
    #: Whether it was closed or merged since the run began.
    ended_since: bool


class Seen(Record):
    """What GitHub shows of a run's work."""

    #: The issue's.
    state: State
    url: str
    assigned: bool
    #: Whether the agent was assigned since the run began; None if nobody needed to look.
    assigned_since: bool | None
    pulls: tuple[Pull, ...]


class End(Record):
    """How a run ended, and by which fact."""

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
) -> Started:
    """Claim an item for a hosted agent and assign it. If GitHub does not take it, the item is given back."""
    place = place_of(service.show(item).item)
    if place is None:
        raise InvalidInput(
            f"Item {item} is about no issue of GitHub.",
            "Its payload needs repository and issue_number, as the intake of events makes it.",
        )
    if github.token.kind != "user":
        raise InvalidInput(
            "GitHub starts a hosted agent only for a user.",
            "Set INTERLOCK_GITHUB_TOKEN to a personal token; those of apps and jobs are ignored silently.",
        )
    found = service.next(agent, item=item, external=True)
    if not found:
        return Started(item=item, run=None, why=f"Item {item} cannot be claimed now.")
    (lease,) = found
    try:
        why = _assigned(github, place, assignee)
    except GitHubUnavailable as error:
        if error.uncertain:  # it may be at work: a reconcile finds out
            return Started(item=item, run=lease.fence, why=f"Perhaps assigned: {error.sentence}")
        why = error.sentence
    except GitHubRefused as error:
        why = error.sentence
    except BaseException:
        service.release([Report(run=lease.run)])
        raise
    if why is None:
        sentence = f"{assignee} is assigned to {place.repository}#{place.number}."
        return Started(item=item, run=lease.fence, why=sentence)
    service.release([Report(run=lease.run, error=why, fault_s=FAULT_S)])
    return Started(item=item, run=None, why=why)


def _assigned(github: GitHub, place: Place, assignee: str) -> str | None:
    """Assign; gives why GitHub did not do it. Whoever is assigned already is left so."""
    request = effects.assign(place.repository, place.number, [assignee])
    issue = github.send(request.method, request.route, request.body, **request.options()).body
    if not effects.not_assigned(issue, [assignee]):
        return None
    return (
        f"GitHub dropped {assignee} from the assignees of {place.repository}#{place.number} without a word: "
        "the agent is not enabled there, or the token's user may not use it."
    )


def place_of(item: ItemView) -> Place | None:
    """The issue that an item came from."""
    of = about(item.payload)
    return None if of is None or of.pull else Place(repository=of.repository, number=of.number)


# -- its end --------------------------------------------------------------------------------------------


def became(seen: Seen) -> End | None:
    """How the work ended, by the first fact that decides it; None while it goes on."""
    merged = [pull for pull in seen.pulls if pull.state is State.MERGED and pull.ended_since]
    if merged:
        return End(outcome=Outcome.DONE, why=f"merged: {merged[0].url}", pull_request=merged[0].url)
    match seen.state:
        case State.COMPLETED:
            return End(outcome=Outcome.DONE, why=f"closed: {seen.url}")
        case State.DROPPED | State.TRANSFERRED | State.DELETED | State.MERGED:
            return End(outcome=Outcome.CANCEL, why=f"{seen.state}: {seen.url}")
        case State.OPEN:
            pass
    if any(pull.state is State.OPEN for pull in seen.pulls):
        return None
    dropped = [pull for pull in seen.pulls if pull.ended_since]
    if dropped:
        # Somebody decided against it. The agent would not begin again: it is assigned already.
        why = f"closed unmerged: {dropped[0].url}"
        return End(outcome=Outcome.CANCEL, why=why, pull_request=dropped[0].url)
    if seen.assigned or seen.assigned_since is None:
        return None
    if seen.assigned_since:
        return End(outcome=Outcome.CANCEL, why=f"unassigned: {seen.url}")
    return End(outcome=Outcome.RELEASE, why=f"never assigned: {seen.url}")


def look(github: GitHub, place: Place, assignee: str, since: datetime, *, settled: bool) -> Seen:
    """What GitHub shows of the work on an issue since a time."""
    url = f"{place.repository}#{place.number}"
    try:
        answer = github.get(_REPO + "/issues/{number}", repo=place.repository, number=place.number)
    except GitHubRefused as refused:
        if refused.status != 410:
            raise
        return Seen(state=State.DELETED, url=url, assigned=False, assigned_since=None, pulls=())
    if answer.moved and answer.body["number"] != place.number:
        return Seen(state=State.TRANSFERRED, url=url, assigned=False, assigned_since=None, pulls=())
    issue = answer.body
    facts = from_answer({"id": 0, "full_name": place.repository}, issue)
    assigned = bool(effects.assigned(issue, [assignee]))
    was = None
    if facts.open and not assigned and settled:
        was = _was_assigned(github, place, assignee, since)
    return Seen(
        state=facts.state,
        url=facts.url,
        assigned=assigned,
        assigned_since=was,
        pulls=_pulls(github, place, assignee, since),
    )


def _pulls(github: GitHub, place: Place, assignee: str, since: datetime) -> tuple[Pull, ...]:
    """The agent's pull requests for an issue, those first that changed last."""
    query = {"state": "all", "sort": "updated", "direction": "desc"}
    found = []
    for each in github.pages(_REPO + "/pulls", limit=PULLS_MAX, query=query, repo=place.repository):
        text = f"{each['title']}\n{each['body'] or ''}"
        if login(each["user"]) in effects.names_of(assignee) and place.number in closes(
            text, place.repository
        ):
            facts = from_answer({"id": 0, "full_name": place.repository}, each)
            ended_since = not facts.open and _at(each["closed_at"]) >= since - _SKEW
            found.append(Pull(url=facts.url, state=facts.state, ended_since=ended_since))
    return tuple(found)


def _was_assigned(github: GitHub, place: Place, assignee: str, since: datetime) -> bool:
    entries = github.pages(
        _REPO + "/issues/{number}/timeline",
        limit=TIMELINE_MAX,
        repo=place.repository,
        number=place.number,
    )
    return any(
        each.get("event") == "assigned"
        and login(each.get("assignee")) in effects.names_of(assignee)
        and _at(each["created_at"]) >= since - _SKEW
        for each in entries
    )


def reconcile(
    service: Service,
    github: GitHub,
    *,
    agents: Mapping[str, str] | None = None,
    now: datetime | None = None,
) -> list[Reconciled]:
    """Write the ends of hosted agents' runs that GitHub shows. `agents` maps their names to assignees.

    An end is written only if the run that was read before the look is still the item's, and external.
    """
    known = {AGENT: LOGIN} if agents is None else agents
    done = []
    for item in service.external():
        # Who is assigned to an issue of a series is the series' own concern.
        assignee = None if item.type == SERIES_TYPE else known.get(item.run_agent or "")
        place = None if assignee is None else place_of(service.show(item.id).item)
        if assignee is None or place is None or item.run is None or item.started_at is None:
            continue
        settled = (now or datetime.now(UTC)) - item.started_at >= SETTLED_AFTER
        end = became(look(github, place, assignee, item.started_at, settled=settled))
        if end is None:
            continue
        result = json.dumps({"pull_request": end.pull_request}) if end.pull_request else None
        with suppress(LeaseLost, ItemEnded):  # it changed meanwhile: the next look sees what is now
            service.end_external(item.id, item.run, end.outcome, why=end.why, by=_BY, result=result)
            done.append(Reconciled(item=item.id, run=item.run, outcome=end.outcome, why=end.why))
    return done


def _at(text: Any) -> datetime:
    return datetime.fromisoformat(str(text))

"""Simulated events with the contexts that GitHub gives to a workflow, for the events that agents listen to.

An occurrence is one such event with its run. Two occurrences on the same thing must get one key, and two on
different things must get different keys. The checks test concurrency groups by this.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from interlock.actions.expressions import InputValues, KnownObject, Opaque

#: Events of issues and pull requests; a comment may be on either, with the same event.
ISSUE_EVENTS = frozenset({"issues", "issue_comment"})
PULL_REQUEST_EVENTS = frozenset({"pull_request", "pull_request_target", "pull_request_review"}) | frozenset(
    {"pull_request_review_comment", "issue_comment"}
)
DISCUSSION_EVENTS = frozenset({"discussion", "discussion_comment"})
#: Events that an agent's answer causes, so that the answer may start the agent again.
ANSWERED_EVENTS = ISSUE_EVENTS | PULL_REQUEST_EVENTS | DISCUSSION_EVENTS
#: People talk to an agent through these events. A workflow that listens to one counts as an agent's.
CONVERSATION_EVENTS = ANSWERED_EVENTS - {"pull_request", "pull_request_target"}
#: The name of the repository, unless a job runs only in one with another name.
REPOSITORY = "octo/app"
#: The first event of a thing, which occurs once.
BIRTH = "opened"


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrence:
    """One event on one thing, caused by a person or by the agent's own account."""

    event: str
    #: `issue`, `pull request` or `discussion`.
    thing: str
    number: int
    #: The run that it starts; unique.
    run: int
    #: The name of the workflow that it starts, and the activity types that start it.
    workflow: str
    types: tuple[str, ...] = ()
    by_bot: bool = False
    repository: str = REPOSITORY
    #: The inputs of a called workflow. Otherwise only a dispatch has inputs.
    inputs: Mapping[str, Any] | None = None
    #: Further known data of the event: its `action`, its `label`, the `login` of its sender and the commit
    #: (`sha`) of its pull request.
    told: Mapping[str, str] = field(default_factory=dict)

    @property
    def subject(self) -> str:
        return f"{self.thing} {self.number}"

    @property
    def comes_back(self) -> bool:
        """Whether an agent that works on a thing can cause this event on the same thing."""
        return self.event in ANSWERED_EVENTS and set(self.types) != {BIRTH}

    def contexts(self) -> dict[str, Any]:
        """The contexts for expressions. A called workflow gets those of its caller's event."""
        event = self._event()
        login = self.told.get("login") or _login(self.by_bot)
        on_pull_request = "pull_request" in event
        branch = f"refs/pull/{self.number}/merge" if on_pull_request else "refs/heads/main"
        github = {
            "event_name": self.event,
            "event": event,
            "workflow": self.workflow,
            "repository": self.repository,
            "repository_owner": self.repository.partition("/")[0],
            "repository_id": "1",
            "actor": login,
            "triggering_actor": login,
            "actor_id": Opaque("the agent's id") if self.by_bot else "583231",
            "ref": "refs/heads/main" if self.event == "pull_request_target" else branch,
            "ref_name": "main" if self.event == "pull_request_target" else branch.split("/", 2)[2],
            "ref_type": "branch",
            "ref_protected": Opaque("ref_protected"),
            "head_ref": f"change-{self.number}" if on_pull_request else "",
            "base_ref": "main" if on_pull_request else "",
            "sha": f"commit-of-run-{self.run}" if on_pull_request else "commit-of-main",
            "run_id": f"run-{self.run}",
            "run_number": f"{self.run}",
            "run_attempt": "1",
            "server_url": "https://github.com",
            "api_url": "https://api.github.com",
            "graphql_url": "https://api.github.com/graphql",
        }
        given: Any = {} if self.inputs is None else InputValues(self.inputs)
        unknown = {name: Opaque(name, varies=True) for name in ("needs", "strategy", "matrix")}
        return {"github": KnownObject("github", github), "inputs": given, **unknown}

    def _event(self) -> Mapping[str, Any]:
        author = _user(self.by_bot, self.told.get("login"))
        event: dict[str, Any] = {
            "action": self.told.get("action") or Opaque("the action"),
            "sender": author,
            "repository": self._repository(),
            # The action decides which of these exist.
            **{name: Opaque(f"event.{name}") for name in ("label", "assignee", "changes", "milestone")},
        }
        if label := self.told.get("label"):
            event["label"] = KnownObject(f"label {label}", {"name": label})
        if self.event == "schedule":
            return {"schedule": Opaque("the schedule"), "repository": self._repository()}
        if self.thing == "discussion":
            event["discussion"] = KnownObject(self.subject, {"number": float(self.number)})
        elif self.event in ISSUE_EVENTS:
            on_pull_request = {"pull_request": KnownObject(f"link to {self.subject}")}
            event["issue"] = KnownObject(
                self.subject,
                {"number": float(self.number), "pull_request": None}
                | (on_pull_request if self.thing == "pull request" else {}),
            )
        else:
            event["pull_request"] = self._pull_request()
            if self.event.startswith("pull_request") and "review" not in self.event:
                event["number"] = float(self.number)
        if self.event.endswith("comment"):
            event["comment"] = KnownObject(f"comment of run {self.run}", {"user": author})
        if self.event == "pull_request_review":
            event["review"] = KnownObject(f"review of run {self.run}", {"user": author})
        return event

    def _repository(self) -> KnownObject:
        owner, _, name = self.repository.partition("/")
        fields = {"full_name": self.repository, "name": name, "default_branch": "main"}
        return KnownObject("repository", {**fields, "owner": KnownObject("owner", {"login": owner})})

    def _pull_request(self) -> KnownObject:
        repository = self._repository()
        sha = {"sha": self.told["sha"]} if "sha" in self.told else {}
        head = KnownObject(
            f"head of {self.subject}", {"ref": f"change-{self.number}", "repo": repository, **sha}
        )
        base = KnownObject("base", {"ref": "main", "repo": repository})
        return KnownObject(
            self.subject, {"number": float(self.number), "head": head, "base": base, "draft": False}
        )


def occurrences(
    event: str, *, types: Sequence[str], workflow: str, runs: Iterator[int]
) -> Iterator[Occurrence]:
    """For each kind of thing: two by people on one thing, one on another, and one by the agent's account.

    An event that occurs only once has one occurrence on each thing.
    """
    once = set(types) == {BIRTH}
    for thing, events in (
        ("issue", ISSUE_EVENTS),
        ("pull request", PULL_REQUEST_EVENTS),
        ("discussion", DISCUSSION_EVENTS),
    ):
        for number, by_bot in (
            ((7, False), (7, False), (8, False), (7, True))[once:] if event in events else ()
        ):
            yield Occurrence(
                event=event,
                thing=thing,
                number=number,
                run=next(runs),
                workflow=workflow,
                types=tuple(types),
                by_bot=by_bot,
            )


def _login(by_bot: bool) -> str | Opaque:
    # The agent's login is unknown, so a comparison with it stays undecided.
    return Opaque("the agent's login") if by_bot else "octocat"


def _user(by_bot: bool, login: str | None) -> KnownObject:
    kind = "Bot" if by_bot else "User"
    return KnownObject(f"the {kind.lower()}", {"login": login or _login(by_bot), "type": kind})


def variations(occurrence: Occurrence) -> Iterator[tuple[str, tuple[Occurrence, ...]]]:
    """Occurrences of one event on one thing that differ in one part, with the name of that part."""
    types = occurrence.types or _USUAL_TYPES.get(occurrence.event, ())
    usual = {"action": types[0] if types else "", "login": "octocat", "sha": "commit-1"}
    found = {
        "github.event.action": ("action", types),
        "github.actor or github.event.sender.login": ("login", ("octocat", "monalisa")),
        "github.event.pull_request.head.sha": ("sha", ("commit-1", "commit-2")),
    }
    if "labeled" in types:
        found["github.event.label.name"] = ("label", ("bug", "feature"))
    for name, (part, values) in found.items():
        labelled = {"action": "labeled"} if part == "label" else {}
        yield name, tuple(replace(occurrence, told=usual | labelled | {part: value}) for value in values)


#: The default activity types of a workflow that names none, if they occur more than once on a thing.
_USUAL_TYPES = {
    "issues": ("opened", "edited", "labeled", "closed"),
    "issue_comment": ("created", "edited"),
    "pull_request": ("opened", "synchronize"),
    "pull_request_target": ("opened", "synchronize"),
    "pull_request_review": ("submitted", "edited"),
    "pull_request_review_comment": ("created", "edited"),
    "discussion": ("created", "edited", "labeled"),
    "discussion_comment": ("created", "edited"),
}
#: The permissions that a token needs to cause an event of these types again. For other types, any of
#: `_WRITES` is enough.
_WRITES_OF = {"synchronize": frozenset({"contents"})}
_WRITES = frozenset({"issues", "pull-requests", "discussions"})


def can_cause(occurrence: Occurrence, writes: frozenset[str] | None) -> bool:
    """Whether a token with these write permissions can cause such an event."""
    if writes is None or "*" in writes:
        return True
    types = (set(occurrence.types) or {*_USUAL_TYPES.get(occurrence.event, ())}) - {BIRTH, "created"}
    types = (
        types if occurrence.event.startswith("pull_request") and "review" not in occurrence.event else set()
    )
    return any(_WRITES_OF.get(each, _WRITES) & writes for each in types or {""})

"""Made-up events with the contexts that GitHub gives to a workflow, for the events that agents listen to.

An occurrence is one such event with its run. Two on the same thing must get one key, two on different things
must not: the checks test concurrency groups by this.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from interlock.actions.expressions import Given, Opaque, Record

#: About an issue or a pull request; a comment may be on either, with the same event.
ISSUE_EVENTS = frozenset({"issues", "issue_comment"})
PULL_REQUEST_EVENTS = frozenset({"pull_request", "pull_request_target", "pull_request_review"}) | frozenset(
    {"pull_request_review_comment", "issue_comment"}
)
DISCUSSION_EVENTS = frozenset({"discussion", "discussion_comment"})
#: Events that an agent causes when it answers, so that its own answer may start it again.
ANSWERED_EVENTS = ISSUE_EVENTS | PULL_REQUEST_EVENTS | DISCUSSION_EVENTS
#: People talk to an agent through these; a workflow that listens to one is taken for an agent's.
CONVERSATION_EVENTS = ANSWERED_EVENTS - {"pull_request", "pull_request_target"}
#: The repository, unless a job runs only in one of another name.
REPOSITORY = "octo/app"
#: The first event of a thing, which comes once.
BIRTH = "opened"


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrence:
    """One event on one thing, caused by a person or by the agent's own account."""

    event: str
    #: `issue`, `pull request` or `discussion`.
    thing: str
    number: int
    #: Which run it starts; no two are alike.
    run: int
    #: The name of the workflow that it starts, and the activity types for which it does.
    workflow: str
    types: tuple[str, ...] = ()
    by_bot: bool = False
    repository: str = REPOSITORY
    #: What a called workflow was given; only a dispatch has inputs otherwise.
    inputs: Mapping[str, Any] | None = None
    #: What the event says beside that, if it is known: its `action`, its `label`, the `login` of its sender
    #: and the commit (`sha`) of its pull request.
    told: Mapping[str, str] = field(default_factory=dict)

    @property
    def subject(self) -> str:
        return f"{self.thing} {self.number}"

    @property
    def comes_back(self) -> bool:
        """Whether an agent at work on a thing can cause this event on the same thing."""
        return self.event in ANSWERED_EVENTS and set(self.types) != {BIRTH}

    def contexts(self) -> dict[str, Any]:
        """The contexts an expression sees. A called workflow sees those of the event of its caller."""
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
        given: Any = {} if self.inputs is None else Given(self.inputs)
        unknown = {name: Opaque(name, varies=True) for name in ("needs", "strategy", "matrix")}
        return {"github": Record("github", github), "inputs": given, **unknown}

    def _event(self) -> Mapping[str, Any]:
        author = _user(self.by_bot, self.told.get("login"))
        event: dict[str, Any] = {
            "action": self.told.get("action") or Opaque("the action"),
            "sender": author,
            "repository": self._repository(),
            # Which of these exist depends on the action.
            **{name: Opaque(f"event.{name}") for name in ("label", "assignee", "changes", "milestone")},
        }
        if label := self.told.get("label"):
            event["label"] = Record(f"label {label}", {"name": label})
        if self.event == "schedule":
            return {"schedule": Opaque("the schedule"), "repository": self._repository()}
        if self.thing == "discussion":
            event["discussion"] = Record(self.subject, {"number": float(self.number)})
        elif self.event in ISSUE_EVENTS:
            on_pull_request = {"pull_request": Record(f"link to {self.subject}")}
            event["issue"] = Record(
                self.subject,
                {"number": float(self.number), "pull_request": None}
                | (on_pull_request if self.thing == "pull request" else {}),
            )
        else:
            event["pull_request"] = self._pull_request()
            if self.event.startswith("pull_request") and "review" not in self.event:
                event["number"] = float(self.number)
        if self.event.endswith("comment"):
            event["comment"] = Record(f"comment of run {self.run}", {"user": author})
        if self.event == "pull_request_review":
            event["review"] = Record(f"review of run {self.run}", {"user": author})
        return event

    def _repository(self) -> Record:
        owner, _, name = self.repository.partition("/")
        fields = {"full_name": self.repository, "name": name, "default_branch": "main"}
        return Record("repository", {**fields, "owner": Record("owner", {"login": owner})})

    def _pull_request(self) -> Record:
        repository = self._repository()
        sha = {"sha": self.told["sha"]} if "sha" in self.told else {}
        head = Record(f"head of {self.subject}", {"ref": f"change-{self.number}", "repo": repository, **sha})
        base = Record("base", {"ref": "main", "repo": repository})
        return Record(
            self.subject, {"number": float(self.number), "head": head, "base": base, "draft": False}
        )


def occurrences(
    event: str, *, types: Sequence[str], workflow: str, runs: Iterator[int]
) -> Iterator[Occurrence]:
    """Two on one thing by people, one on another, and one by the agent's account, for each kind of thing.

    Of an event that comes once, there is only one on each.
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


def _user(by_bot: bool, login: str | None) -> Record:
    kind = "Bot" if by_bot else "User"
    return Record(f"the {kind.lower()}", {"login": login or _login(by_bot), "type": kind})


def variations(occurrence: Occurrence) -> Iterator[tuple[str, tuple[Occurrence, ...]]]:
    """The same event on the same thing, with one part that changes between two of them, and its name."""
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


#: Activity types that start a workflow which names none, as far as they come more than once on a thing.
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
#: What a token must be able to write to cause an event of these types again; of all others, any of the last.
_WRITES_OF = {"synchronize": frozenset({"contents"})}
_WRITES = frozenset({"issues", "pull-requests", "discussions"})


def can_cause(occurrence: Occurrence, writes: frozenset[str] | None) -> bool:
    """Whether a token that may write so much can cause an event like this one."""
    if writes is None or "*" in writes:
        return True
    types = (set(occurrence.types) or {*_USUAL_TYPES.get(occurrence.event, ())}) - {BIRTH, "created"}
    types = (
        types if occurrence.event.startswith("pull_request") and "review" not in occurrence.event else set()
    )
    return any(_WRITES_OF.get(each, _WRITES) & writes for each in types or {""})

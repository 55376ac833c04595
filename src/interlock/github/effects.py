"""Effects on GitHub, one class per kind: its request, its row in the outbox, how it is sent once.

The parts of a class are the JSON of its row, so rows of earlier versions are read with the defaults of parts
that they lack. An effect's name is its mark at GitHub, and a number has each name once: enqueueing it again
changes nothing.

A reaction, a label, an assignment, a status and a cancellation are idempotent (`GitHubRequest.again`). A
comment and a workflow run are not: `sent_before` looks for an earlier try. Nor is a request for a review:
only those are asked who are not yet.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol, Self

from interlock.core.errors import GitHubRefused, GitHubUnavailable, InvalidInput
from interlock.core.record import Record, as_dict, replace
from interlock.core.row import NamedTuple
from interlock.github.remarks import from_answer, has_mark, marked
from interlock.service.relay import EffectFailed, EffectOutcome, EffectUncertain
from interlock.store.outbox import Effect, LeasedEffect

if TYPE_CHECKING:
    from interlock.github.client import GitHub, GitHubAnswer
    from interlock.github.lookup import Reader
    from interlock.github.status_publisher import StatusPublisher

#: The reaction of a run at work.
EYES = "eyes"
REACTIONS = ("+1", "-1", "laugh", "confused", "heart", "hooray", "rocket", EYES)
STATES = ("error", "failure", "pending", "success")
#: The status that shows the holder of a pull request's lane.
LANE_CONTEXT = "interlock/lane"
#: GitHub refuses longer texts.
DESCRIPTION_MAX = 140
#: How many comments are searched for a mark, and how many workflow runs.
COMMENTS_LOOKED_AT, RUNS_LOOKED_AT = 1_000, 100
#: A clock here may be ahead of GitHub's.
SKEW_S = 600.0
#: What the value of a mark may have.
_NAME = re.compile(r"[A-Za-z0-9_@#+=:./\[\]-]{1,200}")

_REPO = "/repos/{+repo}"
_ISSUE = _REPO + "/issues/{number}"
_REACTIONS_ON = {
    "issue": _REPO + "/issues/{subject}/reactions",
    "comment": _REPO + "/issues/comments/{subject}/reactions",
    "review_comment": _REPO + "/pulls/comments/{subject}/reactions",
}


#: Issues, and logins that they must no longer be assigned to.
After = Sequence[tuple[int, Sequence[str]]]


class IssueRef(NamedTuple):
    """An issue or a pull request; number 0 is the repository itself."""

    repository: int
    number: int


class ReactionTarget(NamedTuple):
    """The subject of a reaction.

    An `issue` (also a pull request) by its number, a `comment` or a `review_comment` by its id.
    """

    kind: str
    id: int


class GitHubRequest(Record):
    """One request, not sent yet."""

    method: str
    #: A URI template, and what goes into it.
    route: str
    values: Mapping[str, object]
    body: Any = None
    #: A repetition is harmless.
    again: bool = True

    def send(self, github: GitHub) -> GitHubAnswer:
        return github.send(self.method, self.route, self.body, again=self.again, **self.values)


def _request(
    method: str, route: str, body: Any = None, *, again: bool = True, **values: object
) -> GitHubRequest:
    return GitHubRequest(method=method, route=route, values=values, body=body, again=again)


class OneRequest(Protocol):
    """An effect that is one request."""

    def request(self, repo: str, number: int) -> GitHubRequest: ...


class Sending:
    """An effect in delivery, leased by a sender."""

    def __init__(
        self,
        taken: LeasedEffect,
        github: GitHub,
        reader: Reader,
        publisher: StatusPublisher | None,
        is_late: Callable[[], bool],
    ) -> None:
        """`is_late`: another sender may soon take the effect, so only repeatable requests may begin."""
        self.taken, self.github, self._reader = taken, github, reader
        self._publisher, self._is_late = publisher, is_late

    @property
    def issue_ref(self) -> IssueRef:
        return IssueRef(self.taken.repository, self.taken.number)

    @property
    def publisher(self) -> StatusPublisher:
        if self._publisher is None:
            raise EffectFailed("This sender has no store to render the text from.")
        return self._publisher

    def ask(self, what: OneRequest | GitHubRequest) -> GitHubAnswer:
        where = self.taken.repo, self.taken.number
        request = what if isinstance(what, GitHubRequest) else what.request(*where)
        if not request.again and self._is_late():
            raise GitHubUnavailable("It took so long that another sender may have taken it.")
        return request.send(self.github)

    def ask_unless(self, what: OneRequest | GitHubRequest, *refusals: int) -> GitHubAnswer | None:
        """None if GitHub refuses with one of these statuses."""
        try:
            return self.ask(what)
        except GitHubRefused as refused:
            if refused.status in refusals:
                return None
            raise

    def comment_with(self, *, since_us: int | None = None, **mark: str) -> int | None:
        """The id of our comment with a mark, if it is there."""
        query = {} if since_us is None else {"since": _stamp(since_us / 1e6 - SKEW_S)}
        repo, number = self.taken.repo, self.taken.number
        comments = self.github.pages(
            f"{_ISSUE}/comments", limit=COMMENTS_LOOKED_AT, query=query, repo=repo, number=number
        )
        for comment in comments:
            remark = from_answer("issue_comment", number, comment)
            # Anybody can copy a mark.
            if has_mark(remark.text, **mark) and remark.author in self._reader.own(remark, comment):
                return remark.id
        return None


#: What the outbox can send, by kind.
KINDS: dict[str, type[GitHubEffect]] = {}


class GitHubEffect(Record, ABC):
    """Something to do on GitHub."""

    #: Its name in the outbox.
    kind = ""
    #: Dropped once its run has ended in any way.
    while_running = False

    def __init_subclass__(cls, *, kind: str = "") -> None:
        super().__init_subclass__()
        cls.kind = kind
        if kind:
            KINDS[kind] = cls

    def row(self, place: IssueRef, name: str, *, run: int | None = None) -> Effect:
        """The row that the outbox keeps.

        With `run` it tells that run's progress, and is dropped if the run loses its lease before it is sent.
        """
        data = json.dumps(self._data())
        return Effect(*place, _checked(name), self.kind, data, self._thing(), run)

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        return cls(**{part: data[part] for part in cls.PARTS if part in data})

    def sent_before(self, sending: Sending) -> EffectOutcome | None:  # noqa: ARG002  (most are harmless to repeat)
        """The result of an earlier attempt whose answer was lost; None if it did nothing."""
        return None

    @abstractmethod
    def send(self, sending: Sending) -> EffectOutcome:
        """Do it on GitHub."""

    def _data(self) -> dict[str, Any]:
        return as_dict(self)

    def _thing(self) -> str:
        """What it makes, changes or removes, if other effects do so too: see `Effect.thing`."""
        return ""


# Comments


class Comment(GitHubEffect, kind="comment"):
    """A new comment on an issue or a pull request."""

    text: str
    #: The author.
    agent: str = ""

    def request(self, repo: str, number: int) -> GitHubRequest:
        """Its `id` is in the answer."""
        body = {"body": self.text}
        return _request("POST", f"{_ISSUE}/comments", body, again=False, repo=repo, number=number)

    def sent_before(self, sending: Sending) -> EffectOutcome | None:
        taken = sending.taken
        found = sending.comment_with(since_us=taken.enqueued_us, effect=taken.name)
        return None if found is None else EffectOutcome(outcome="was there already", made=found)

    def send(self, sending: Sending) -> EffectOutcome:
        answer = sending.ask(self._marked(sending.taken))
        return EffectOutcome(outcome="posted", made=answer.body["id"])

    def _marked(self, taken: LeasedEffect) -> Self:
        parts = {name: value for name, value in self._mark(taken).items() if value}
        return replace(self, text=marked(self.text, **parts))

    def _mark(self, taken: LeasedEffect) -> dict[str, str]:
        return {"effect": taken.name, "agent": self.agent}


class StickyComment(Comment, kind="sticky"):
    """The one comment of a topic: made by the first effect, and edited by the next ones."""

    topic: str

    def edit_request(self, repo: str, comment: int) -> GitHubRequest:
        """404 if it was deleted."""
        route = _REPO + "/issues/comments/{comment}"
        return _request("PATCH", route, {"body": self.text}, repo=repo, comment=comment)

    def sent_before(self, sending: Sending) -> EffectOutcome | None:  # noqa: ARG002  (the topic is looked for anyway)
        return None

    def send(self, sending: Sending) -> EffectOutcome:
        made = sending.taken.made
        if made is not None and self._edited(sending, made):
            return EffectOutcome(outcome="edited", made=made)
        found = sending.comment_with(sticky=self.topic)
        if found is not None and found != made and self._edited(sending, found):
            return EffectOutcome(outcome="edited", made=found)
        return super().send(sending)

    def _edited(self, sending: Sending, comment: int) -> bool:
        """False if it was deleted."""
        request = self._marked(sending.taken).edit_request(sending.taken.repo, comment)
        return sending.ask_unless(request, 404, 410) is not None

    def _mark(self, taken: LeasedEffect) -> dict[str, str]:
        return {**super()._mark(taken), "sticky": self.topic}

    def _thing(self) -> str:
        return f"sticky:{_checked(self.topic)}"


class ProgressComment(GitHubEffect, kind="progress"):
    """The one comment on an item. Its text is rendered when it is sent."""

    item: int
    topic: str

    def send(self, sending: Sending) -> EffectOutcome:
        made = sending.taken.made
        found = sending.publisher.progress(sending.issue_ref, self.item, there=made is not None)
        if found is None:
            return EffectOutcome(outcome="not sent: nothing to show", made=made, dropped=True)
        if made is not None and (sending.taken.last or "").endswith(f": {found.line}"):
            return EffectOutcome(outcome=f"unchanged: {found.line}", made=made)
        sent = StickyComment(text=found.text, topic=self.topic).send(sending)
        return replace(sent, outcome=f"{sent.outcome}: {found.line}")

    def _thing(self) -> str:
        return f"sticky:{_checked(self.topic)}"


def salvage_comment(*, item: int, run: int, ref: str) -> Comment:
    """A comment on where the work is that a dead run left: in the clone of its worker, not on GitHub."""
    return Comment(
        text=f"Run {run} ended before its work was pushed. Nothing is lost: it is kept as `{ref}` in the"
        f" clone of its worker, and the next run here gets it. `interlock show {item}` names the machine. To"
        " look at it there, and to let others fetch it:\n\n"
        f"```sh\ngit show {ref}\ngit push origin {ref}:refs/heads/salvage-run-{run}\n```"
    )


# Reactions


class Reaction(GitHubEffect, kind="react"):
    """A reaction, which one account has once."""

    #: Kind and id of what it is on.
    subject: str
    id: int
    content: str = EYES

    @classmethod
    def on(cls, subject: ReactionTarget, content: str = EYES) -> Self:
        return cls(subject=subject.kind, id=subject.id, content=_one_of(content, REACTIONS, "reaction"))

    def request(self, repo: str, number: int = 0) -> GitHubRequest:  # noqa: ARG002
        """Its `id` is in the answer, to take it away."""
        body = {"content": self.content}
        return _request("POST", _REACTIONS_ON[self.subject], body, repo=repo, subject=self.id)

    def send(self, sending: Sending) -> EffectOutcome:
        answer = sending.ask_unless(self, 404, 410)
        if answer is None:
            outcome = "not sent: its subject was deleted, or the token cannot see it"
            return EffectOutcome(outcome=outcome, dropped=True)
        return EffectOutcome(outcome="reacted", made=answer.body["id"])

    def _thing(self) -> str:
        return f"reaction:{self.subject}:{self.id}:{self.content}"


class ReactionRemoval(Reaction, kind="unreact"):
    """Remove our reaction. Without its id it is looked up: GitHub answers a repetition with the existing
    one."""

    reaction: int | None = None

    def removal_request(self, repo: str, reaction: int) -> GitHubRequest:
        """404 if it is gone."""
        route = _REACTIONS_ON[self.subject] + "/{reaction}"
        return _request("DELETE", route, repo=repo, subject=self.id, reaction=reaction)

    def send(self, sending: Sending) -> EffectOutcome:
        reaction = sending.taken.made if sending.taken.made is not None else self.reaction
        if reaction is None:
            answer = sending.ask_unless(self, 404, 410)
            if answer is None:
                return EffectOutcome(outcome="its subject was deleted")
            reaction = int(answer.body["id"])
        gone = sending.ask_unless(self.removal_request(sending.taken.repo, reaction), 404, 410)
        return EffectOutcome(outcome="was removed already" if gone is None else "removed")


# Labels and assignees


class LabelAddition(GitHubEffect, kind="label"):
    """More labels."""

    labels: Sequence[str]

    def request(self, repo: str, number: int) -> GitHubRequest:
        return _request("POST", f"{_ISSUE}/labels", {"labels": list(self.labels)}, repo=repo, number=number)

    def send(self, sending: Sending) -> EffectOutcome:
        sending.ask(self)
        return EffectOutcome(outcome="labelled")


class _Start(GitHubEffect):
    """An effect that starts an agent, if needed only once other issues are seen unassigned."""

    after: After = ()
    while_running: bool = False

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        after = [(each["number"], each["logins"]) for each in data.get("after") or ()]
        return super().from_data({**data, "after": after})

    def _data(self) -> dict[str, Any]:
        return {
            **as_dict(self),
            "after": [{"number": number, "logins": list(logins)} for number, logins in self.after],
        }

    def _check_others(self, sending: Sending) -> None:
        for number, logins in self.after:
            if left := still_assigned(sending.github, sending.taken.repo, number, logins):
                raise EffectFailed(f"#{number} is still assigned to {', '.join(left)}.")


class Assignment(_Start, kind="assign"):
    """More assignees."""

    logins: Sequence[str]

    def request(self, repo: str, number: int) -> GitHubRequest:
        """GitHub drops names silently: check the answer with `not_assigned`."""
        return _assignees("POST", repo, number, self.logins)

    def send(self, sending: Sending) -> EffectOutcome:
        self._check_others(sending)
        answer = sending.ask(self)
        if dropped := not_assigned(answer.body, self.logins):
            raise EffectFailed(
                f"GitHub did not assign {', '.join(dropped)}, and does not say why:"
                " may they be assigned in this repository, and by this token?"
            )
        return EffectOutcome(outcome="assigned")


class AssignmentRemoval(GitHubEffect, kind="unassign"):
    """Fewer assignees."""

    logins: Sequence[str]
    while_running: bool = False

    def request(self, repo: str, number: int) -> GitHubRequest:
        """Check the answer with `assigned`."""
        return _assignees("DELETE", repo, number, self.logins)

    def send(self, sending: Sending) -> EffectOutcome:
        answer = sending.ask_unless(self, 404, 410)
        if answer is None:
            return EffectOutcome(outcome="the issue was deleted")
        if left := assigned(answer.body, self.logins):
            raise EffectFailed(f"GitHub left {', '.join(left)} assigned, and does not say why.")
        return EffectOutcome(outcome="unassigned")


def _assignees(method: str, repo: str, number: int, logins: Sequence[str]) -> GitHubRequest:
    body = {"assignees": list(logins)}
    return _request(method, f"{_ISSUE}/assignees", body, repo=repo, number=number)


def assigned(issue: Mapping[str, Any], logins: Iterable[str]) -> tuple[str, ...]:
    """The logins that an issue is assigned to, by GitHub's answer."""
    there = {str(user["login"]).lower() for user in issue.get("assignees") or ()}
    return tuple(login for login in logins if there & names_of(login))


def not_assigned(issue: Mapping[str, Any], logins: Iterable[str]) -> tuple[str, ...]:
    """The logins that GitHub dropped."""
    wanted = tuple(logins)
    return tuple(login for login in wanted if login not in assigned(issue, wanted))


def still_assigned(github: GitHub, repo: str, number: int, logins: Iterable[str]) -> tuple[str, ...]:
    """Those of the logins that an open issue is assigned to, read back; none if it is gone."""
    try:
        issue = github.get(_ISSUE, repo=repo, number=number).body
    except GitHubRefused as refused:
        if refused.status in (404, 410):
            return ()
        raise
    return assigned(issue, logins) if issue["state"] == "open" else ()


def names_of(login: str) -> set[str]:
    """A bot is assigned by `name[bot]`; the hosted agent is then listed under another name."""
    known = login.lower()
    return {known, "copilot"} if known == "copilot-swe-agent[bot]" else {known}


# Workflow runs


class Dispatch(_Start, kind="dispatch"):
    """Start a workflow. `mark_input` names an input that the workflow shows in its `run-name`."""

    workflow: str
    ref: str
    inputs: Mapping[str, str]
    mark_input: str = ""

    def request(self, repo: str, number: int = 0) -> GitHubRequest:  # noqa: ARG002
        """`workflow_run_id` is in the answer."""
        body = {"ref": self.ref, "inputs": dict(self.inputs), "return_run_details": True}
        route = _REPO + "/actions/workflows/{workflow}/dispatches"
        return _request("POST", route, body, again=False, repo=repo, workflow=self.workflow)

    def sent_before(self, sending: Sending) -> EffectOutcome | None:
        """A run does not show its inputs: only its title can carry the mark."""
        taken = sending.taken
        since = _stamp(taken.enqueued_us / 1e6 - SKEW_S)
        branch = self.ref.removeprefix("refs/heads/")
        runs = sending.github.pages(
            _REPO + "/actions/workflows/{workflow}/runs",
            limit=RUNS_LOOKED_AT,
            within="workflow_runs",
            query={"event": "workflow_dispatch", "branch": branch, "created": f">={since}"},
            repo=taken.repo,
            workflow=self.workflow,
        )
        unmarked: list[Mapping[str, Any]] = []
        for run in runs:
            if _run_mark(taken) in str(run.get("display_title") or ""):
                return EffectOutcome(outcome="had started already", made=int(run["id"]))
            if not self.mark_input and str(run["created_at"]) >= since:
                unmarked.append(run)
        if unmarked:
            raise EffectUncertain(
                f"GitHub did not answer when {self.workflow} was started, and"
                f" {unmarked[-1]['html_url']} may be that run, or not: if it is not, send it again."
            )
        return None

    def send(self, sending: Sending) -> EffectOutcome:
        self._check_others(sending)
        inputs = dict(self.inputs)
        if self.mark_input:
            inputs[self.mark_input] = _run_mark(sending.taken)
        answer = sending.ask(replace(self, inputs=inputs))
        return EffectOutcome(outcome="started", made=int(answer.body["workflow_run_id"]))


def _run_mark(taken: LeasedEffect) -> str:
    """A workflow's runs are of all numbers, and a name is of one."""
    return f"[interlock:{taken.number}:{taken.name}]"


# Statuses


class CommitStatus(GitHubEffect, kind="status"):
    """A commit status under a name. The newest of a name counts."""

    sha: str
    state: str
    description: str = ""
    url: str = ""
    context: str = LANE_CONTEXT

    def request(self, repo: str, number: int = 0) -> GitHubRequest:  # noqa: ARG002
        state = _one_of(self.state, STATES, "state")
        body = {"state": state, "context": self.context, "description": self.description[:DESCRIPTION_MAX]}
        if self.url:
            body["target_url"] = self.url
        return _request("POST", _REPO + "/statuses/{sha}", body, repo=repo, sha=self.sha)

    def send(self, sending: Sending) -> EffectOutcome:
        sending.ask(self)
        return EffectOutcome(outcome=self.state)


class LaneStatus(GitHubEffect, kind="lane"):
    """The status with the lane's holder on a pull request's newest commit. Both are read when it is sent."""

    def send(self, sending: Sending) -> EffectOutcome:
        found = sending.publisher.lane(sending.issue_ref)
        if found is None:
            return EffectOutcome(outcome="not sent: nothing to show", dropped=True)
        line = f"{found.state} on {found.sha[:12]}: {found.description}"
        if sending.taken.last != line and sending.ask_unless(found, 403, 404, 422) is None:
            why = "the commit is gone, or the token has no permission to write statuses"
            return EffectOutcome(outcome=f"not sent: {why}", dropped=True)
        return EffectOutcome(outcome=line)

    def _thing(self) -> str:
        return "lane"


def read_effect(kind: str, data: str) -> GitHubEffect:
    """The effect in a row of the outbox; `EffectFailed` if this version cannot read it."""
    if kind not in KINDS:
        raise EffectFailed(f"This version of Interlock cannot send effects of kind '{kind}'.")
    try:
        return KINDS[kind].from_data(json.loads(data))
    except (LookupError, TypeError, ValueError) as error:
        raise EffectFailed(f"The effect cannot be read: {error!r}.") from error


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            f"'{name[:40]}' cannot be the name of an effect.",
            "It has up to 200 letters, digits and _ @ # + = : . / [ ] -.",
        )
    return name


def _one_of(given: str, known: Sequence[str], what: str) -> str:
    if given not in known:
        raise InvalidInput(f"'{given[:40]}' is not a {what} on GitHub.", f"It has {', '.join(known)}.")
    return given


def _stamp(epoch_s: float) -> str:
    return datetime.fromtimestamp(max(0.0, epoch_s), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

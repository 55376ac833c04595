"""What is done on GitHub, as requests: for the outbox, and for whoever has no database.

Who may repeat what: a reaction, a label, an assignment, a status and a cancellation are the same when sent
twice (`again`). A comment and a dispatch are not: look for the mark first (`marked`, `has_mark`). Nor is a
request for a review: look who is asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from interlock.core.errors import GitHubRefused, InvalidInput
from interlock.core.record import Record
from interlock.core.row import NamedTuple
from interlock.github.remarks import mark, marks

if TYPE_CHECKING:
    from interlock.github.client import GitHub

#: "I have seen this and am at work."
EYES = "eyes"
REACTIONS = ("+1", "-1", "laugh", "confused", "heart", "hooray", "rocket", EYES)
STATES = ("error", "failure", "pending", "success")
#: The status that says who holds the lane of a pull request.
LANE_CONTEXT = "interlock/lane"
#: How long GitHub gives a cancelled workflow run before it ends its jobs by force. Only then we do.
FORCE_AFTER_S = 300.0
#: GitHub refuses longer texts.
COMMENT_MAX, DESCRIPTION_MAX = 65_536, 140
_CUT = "\n\n… (cut)"

_REPO = "/repos/{+repo}"
_ISSUE = _REPO + "/issues/{number}"
_RUN = _REPO + "/actions/runs/{run_id}"


class Request(Record):
    """One request, not sent yet."""

    method: str
    #: A URI template, and what goes into it.
    route: str
    values: Mapping[str, object]
    body: Any = None
    #: A repetition changes nothing more.
    again: bool = True

    def options(self) -> dict[str, Any]:
        """What `GitHub.send` takes beside method, route and body."""
        return {"again": self.again, **self.values}


class Subject(NamedTuple):
    """What a reaction is on.

    An `issue` (also a pull request) by its number, a `comment` or a `review_comment` by its id.
    """

    kind: str
    id: int


_REACTIONS_ON = {
    "issue": _REPO + "/issues/{subject}/reactions",
    "comment": _REPO + "/issues/comments/{subject}/reactions",
    "review_comment": _REPO + "/pulls/comments/{subject}/reactions",
}


# Comments


def marked(text: str, **parts: str | int) -> str:
    """A comment's text with its hidden mark, as long as GitHub allows."""
    hidden = mark(**parts)
    room = COMMENT_MAX - len(hidden) - 2
    shown = text if len(text) <= room else text[: room - len(_CUT)] + _CUT
    return f"{shown}\n\n{hidden}"


def has_mark(text: str, **parts: str | int) -> bool:
    """Whether a text has a mark with these parts, whatever else the mark says."""
    found = marks(text)
    return all(found.get(name) == str(value) for name, value in parts.items())


def comment(repo: str, number: int, text: str) -> Request:
    """A new comment on an issue or a pull request. Its `id` is in the answer."""
    values = {"repo": repo, "number": number}
    return Request(method="POST", route=f"{_ISSUE}/comments", values=values, body={"body": text}, again=False)


def edit_comment(repo: str, comment_id: int, text: str) -> Request:
    """Another text for a comment. 404 if somebody deleted it."""
    values = {"repo": repo, "comment": comment_id}
    return Request(
        method="PATCH", route=_REPO + "/issues/comments/{comment}", values=values, body={"body": text}
    )


def salvaged(*, item: int, run: int, ref: str) -> str:
    """What a comment says of work that a dead run left. It is in the clone of the worker, not at GitHub."""
    return (
        f"Run {run} ended before its work was pushed. Nothing is lost: it is kept as `{ref}` in the clone of"
        f" its worker, and the next run here gets it. `interlock show {item}` names the machine. To look"
        " at it there, and to let others fetch it:\n\n"
        f"```sh\ngit show {ref}\ngit push origin {ref}:refs/heads/salvage-run-{run}\n```"
    )


# Reactions


def react(repo: str, subject: Subject, content: str = EYES) -> Request:
    """A reaction, which one account has once. Its `id` is in the answer, to take it away."""
    _one_of(content, REACTIONS, "reaction")
    return Request(
        method="POST",
        route=_REACTIONS_ON[subject.kind],
        values={"repo": repo, "subject": subject.id},
        body={"content": content},
    )


def unreact(repo: str, subject: Subject, reaction_id: int) -> Request:
    """Take a reaction away. 404 if it is gone."""
    return Request(
        method="DELETE",
        route=_REACTIONS_ON[subject.kind] + "/{reaction}",
        values={"repo": repo, "subject": subject.id, "reaction": reaction_id},
    )


# Labels, assignees, reviewers


def label(repo: str, number: int, labels: Sequence[str]) -> Request:
    """More labels."""
    values = {"repo": repo, "number": number}
    return Request(method="POST", route=f"{_ISSUE}/labels", values=values, body={"labels": list(labels)})


def unlabel(repo: str, number: int, name: str) -> Request:
    """One label less. 404 if it is not there."""
    values = {"repo": repo, "number": number, "name": name}
    return Request(method="DELETE", route=_ISSUE + "/labels/{name}", values=values)


def assign(repo: str, number: int, logins: Sequence[str]) -> Request:
    """More assignees. GitHub drops names without a word: ask the answer with `not_assigned`."""
    values = {"repo": repo, "number": number}
    body = {"assignees": list(logins)}
    return Request(method="POST", route=f"{_ISSUE}/assignees", values=values, body=body)


def unassign(repo: str, number: int, logins: Sequence[str]) -> Request:
    """Fewer assignees: ask the answer with `assigned`."""
    values = {"repo": repo, "number": number}
    body = {"assignees": list(logins)}
    return Request(method="DELETE", route=f"{_ISSUE}/assignees", values=values, body=body)


def assigned(issue: Mapping[str, Any], logins: Iterable[str]) -> tuple[str, ...]:
    """Those of the logins that an issue is assigned to, by what GitHub answered about it."""
    there = {str(user["login"]).lower() for user in issue.get("assignees") or ()}
    return tuple(login for login in logins if there & names_of(login))


def still_assigned(github: GitHub, repo: str, number: int, logins: Iterable[str]) -> tuple[str, ...]:
    """Those of the logins that an open issue is assigned to, read back; none if it is gone."""
    try:
        issue = github.get(_ISSUE, repo=repo, number=number).body
    except GitHubRefused as refused:
        if refused.status in (404, 410):
            return ()
        raise
    return assigned(issue, logins) if issue["state"] == "open" else ()


def not_assigned(issue: Mapping[str, Any], logins: Iterable[str]) -> tuple[str, ...]:
    """Those of the logins that GitHub dropped."""
    wanted = tuple(logins)
    return tuple(login for login in wanted if login not in assigned(issue, wanted))


def request_review(repo: str, number: int, logins: Sequence[str]) -> Request:
    """Ask people to review a pull request. A repetition may tell them once more."""
    values = {"repo": repo, "number": number}
    body = {"reviewers": list(logins)}
    route = _REPO + "/pulls/{number}/requested_reviewers"
    return Request(method="POST", route=route, values=values, body=body, again=False)


# Workflows and statuses


def dispatch(repo: str, workflow: str, ref: str, inputs: Mapping[str, str]) -> Request:
    """Start a workflow. `workflow_run_id` is in the answer."""
    return Request(
        method="POST",
        route=_REPO + "/actions/workflows/{workflow}/dispatches",
        values={"repo": repo, "workflow": workflow},
        body={"ref": ref, "inputs": dict(inputs), "return_run_details": True},
        again=False,
    )


def cancel_run(repo: str, run_id: int) -> Request:
    """Ask a workflow run to end. 409 if it has ended."""
    return Request(method="POST", route=f"{_RUN}/cancel", values={"repo": repo, "run_id": run_id})


def force_cancel_run(repo: str, run_id: int) -> Request:
    """End a workflow run that did not end within `FORCE_AFTER_S` of its cancellation. 409 if it has ended."""
    return Request(method="POST", route=f"{_RUN}/force-cancel", values={"repo": repo, "run_id": run_id})


def status(
    repo: str, sha: str, state: str, *, description: str = "", url: str = "", context: str = LANE_CONTEXT
) -> Request:
    """What a commit shows under a name; the newest one of a name counts."""
    _one_of(state, STATES, "state")
    body = {"state": state, "context": context, "description": description[:DESCRIPTION_MAX]}
    if url:
        body["target_url"] = url
    return Request(
        method="POST", route=_REPO + "/statuses/{sha}", values={"repo": repo, "sha": sha}, body=body
    )


def names_of(login: str) -> set[str]:
    """A bot is assigned by `name[bot]`; the hosted agent is then listed under another name."""
    known = login.lower()
    return {known, "copilot"} if known == "copilot-swe-agent[bot]" else {known}


def _one_of(given: str, known: Sequence[str], what: str) -> None:
    if given not in known:
        raise InvalidInput(f"'{given[:40]}' is no {what} of GitHub.", f"It has {', '.join(known)}.")

"""The operations of GitHub's REST interface that the fake has, by the paths of GitHub's description."""

from __future__ import annotations

import base64
import re
import urllib.parse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tests.git_fixtures import git
from tests.github.actions import LOGS_EXPIRE_S, CheckRun, WorkflowRun
from tests.github.fake import FakeGitHub, Refused, Repository, Token, blob_named, invalid, not_found
from tests.github.hooks import Delivery, Hook
from tests.github.issues import Comment, Issue, Reaction, Review, ReviewComment
from tests.github.openapi import NEW_VERSION
from tests.github.shapes import Json, Shapes

if TYPE_CHECKING:
    from tests.github.server import Meter

R = "/repos/{owner}/{repo}"
#: Values that contain slashes: `x-multi-segment` in the description.
_LONG = {"ref": ".+", "path": ".*"}
_CONTENTS = ("+1", "-1", "laugh", "confused", "heart", "hooray", "rocket", "eyes")
#: What the events of an issue lack that its timeline has.
_TIMELINE_ONLY = ("commented", "cross-referenced", "committed", "reviewed")
_SEARCH = re.compile(r'(-?)(\w+):("[^"]*"|\S+)|(\S+)')


@dataclass
class Answer:
    status: int
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Call:
    """One request that may be carried out."""

    github: FakeGitHub
    _repo: Repository | None
    token: Token | None
    values: dict[str, str]
    query: dict[str, str]
    body: Any
    version: str
    path: str
    meter: Meter

    @property
    def repo(self) -> Repository:
        assert self._repo is not None
        return self._repo

    @property
    def by(self) -> str:
        assert self.token is not None
        return self.token.login

    @property
    def shapes(self) -> Shapes:
        return Shapes(self.github, self.version)

    @property
    def fields(self) -> Json:
        return self.body if isinstance(self.body, dict) else {}

    def number(self, name: str) -> int:
        return int(self.values[name])

    def issue(self, name: str = "issue_number") -> Issue:
        issue = self.repo.numbers.get(self.number(name))
        if issue is None:
            raise not_found()
        if issue.deleted:
            raise Refused(410, "This issue was deleted")
        if issue.moved_to is not None:
            there = issue.moved_to
            url = f"{self.github.api_url}/repositories/{there.repo.id}/issues/{there.number}"
            _, _, rest = self.path.partition(f"/issues/{issue.number}")
            raise Refused(301, "Moved Permanently", headers={"location": url + rest})
        return issue

    def pull(self) -> Issue:
        issue = self.repo.numbers.get(self.number("pull_number"))
        if issue is None or issue.pull is None:
            raise not_found()
        return issue

    def comment(self) -> Comment:
        wanted = self.number("comment_id")
        for issue in self.repo.numbers.values():
            for comment in issue.comments:
                if comment.id == wanted and issue.moved_to is None:
                    return comment
        raise not_found()

    def review_comment(self) -> ReviewComment:
        wanted = self.number("comment_id")
        for issue in self.repo.numbers.values():
            for comment in issue.pull.review_comments if issue.pull else ():
                if comment.id == wanted:
                    return comment
        raise not_found()

    def review(self) -> Review:
        wanted = self.number("review_id")
        for review in self.pull().the_pull().reviews:
            if review.id == wanted:
                return review
        raise not_found()

    def run(self) -> WorkflowRun:
        run = self.repo.workflow_runs.get(self.number("run_id"))
        if run is None:
            raise not_found()
        return run

    def sha(self, name: str = "ref") -> str:
        sha = self.repo.sha_of(self.values[name])
        if sha is None:
            raise invalid(f"No commit found for SHA: {self.values[name]}")
        return sha

    def issue_with_id(self, issue_id: int) -> Issue:
        for repo in self.github.repos.values():
            for issue in repo.numbers.values():
                if issue.id == issue_id and issue.pull is None:
                    return issue
        raise invalid("The provided sub-issue or dependency does not exist")

    def page(
        self, found: Sequence[Any], shape: Callable[[Any], Any], key: str | None = None, **more: Any
    ) -> Answer:
        """One page of a list, and the links to the others."""
        size = min(100, max(1, _whole(self.query.get("per_page"), 30)))
        page, last = max(1, _whole(self.query.get("page"), 1)), max(1, -(-len(found) // size))
        shapes = [shape(each) for each in found[(page - 1) * size : page * size]]
        links = {"prev": page - 1, "next": page + 1, "last": last, "first": 1}
        if page <= 1:
            del links["prev"], links["first"]
        if page >= last:
            del links["next"], links["last"]
        text = ", ".join(f'<{self._paged(number)}>; rel="{rel}"' for rel, number in links.items())
        body: Any = shapes if key is None else {"total_count": len(found), **more, key: shapes}
        return Answer(200, body, {"link": text} if text else {})

    def _paged(self, page: int) -> str:
        path = self.path
        if self._repo is not None:  # GitHub's links name the repository by its id
            path = re.sub(r"^/repos/[^/]+/[^/]+", f"/repositories/{self._repo.id}", path)
        return f"{self.github.api_url}{path}?{urllib.parse.urlencode({**self.query, 'page': page})}"


@dataclass
class Route:
    method: str
    template: str
    handler: Callable[[Call], Answer]
    scope: str = "metadata"
    needs: str = "read"
    creates: bool = False
    login: bool = False
    app_only: bool = False
    resource: str = "core"

    def __post_init__(self) -> None:
        parts = re.split(r"\{(\w+)\}", self.template)
        pattern = "".join(
            re.escape(part) if i % 2 == 0 else f"(?P<{part}>{_form(part)})" for i, part in enumerate(parts)
        )
        self._pattern = re.compile(f"^{pattern}$")

    def match(self, method: str, path: str) -> dict[str, str] | None:
        found = self._pattern.match(path) if method == self.method else None
        return {k: urllib.parse.unquote(v) for k, v in found.groupdict().items()} if found else None


def _form(name: str) -> str:
    """What a value of a path looks like. A workflow may be named by its file."""
    if name.endswith(("_number", "_id")) and name != "workflow_id":
        return r"\d{1,18}"
    return _LONG.get(name, "[^/]+")


ROUTES: list[Route] = []


def route(
    method: str, template: str, **more: Any
) -> Callable[[Callable[[Call], Answer]], Callable[[Call], Answer]]:
    def add(handler: Callable[[Call], Answer]) -> Callable[[Call], Answer]:
        ROUTES.append(Route(method, template, handler, **more))
        return handler

    return add


def _whole(text: str | None, otherwise: int) -> int:
    return int(text) if text and re.fullmatch(r"\d{1,9}", text) else otherwise


def _since(call: Call) -> float:
    text = call.query.get("since")
    if text is None:
        return 0
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError as error:
        raise invalid("Invalid request.\n\nsince is no time") from error


# Accounts and limits


@route("GET", "/user", login=True)
def user(call: Call) -> Answer:
    if call.token is not None and call.token.kind != "user":
        raise Refused(403, "Resource not accessible by integration")
    scopes = ", ".join(call.token.scopes) if call.token else ""
    return Answer(200, call.shapes.myself(call.by), {"x-oauth-scopes": scopes})


@route("GET", "/rate_limit")
def rate_limit(call: Call) -> Answer:
    kind = call.token.kind if call.token else "none"
    who = call.token.login if call.token else "anonymous"
    if kind == "actions" and call.token:
        who = f"repository {call.token.repo_id}"
    resources = {}
    for name in ("core", "search"):
        headers = call.meter.headers(who, kind, name)
        numbers = ("limit", "remaining", "used", "reset")
        resources[name] = {key: int(headers[f"x-ratelimit-{key}"]) for key in numbers}
    return Answer(200, {"resources": resources, "rate": resources["core"]})


@route("GET", "/app", app_only=True, login=True)
def app(call: Call) -> Answer:
    assert call.token is not None
    assert call.token.app is not None
    return Answer(200, call.shapes.app(call.token.app))


@route("POST", "/app/installations/{installation_id}/access_tokens", app_only=True)
def access_token(call: Call) -> Answer:
    assert call.token is not None
    assert call.token.app is not None
    app = call.github.app_named(call.token.app)
    if app.installation_id != call.number("installation_id"):
        raise not_found()
    token = call.github.installation_token(app, call.fields.get("permissions"))
    assert token.expires_at is not None
    permissions = token.permissions or {"issues": "write", "metadata": "read"}
    body = {
        "token": token.text,
        "expires_at": call.github.stamp(token.expires_at),
        "permissions": permissions,
        "repository_selection": "all",
    }
    return Answer(201, body)


# Repositories


@route("GET", R)
def repository(call: Call) -> Answer:
    return Answer(200, call.shapes.full_repo(call.repo, call.token.login if call.token else None))


@route("PATCH", R, scope="administration", needs="admin")
def edit_repository(call: Call) -> Answer:
    name = call.fields.get("name")
    if name and name != call.repo.name:
        if not re.fullmatch(r"[A-Za-z0-9_.-]{1,100}", name):
            raise Refused(
                422,
                "Repository update failed.",
                [{"resource": "Repository", "code": "custom", "field": "name"}],
            )
        if call.github.find(f"{call.repo.owner}/{name}") is not None:
            raise Refused(422, "Repository update failed.", ["name already exists on this account"])
        call.repo.rename(name, by=call.by)
    return Answer(200, call.shapes.full_repo(call.repo, call.by))


@route("GET", R + "/collaborators/{username}/permission")
def permission(call: Call) -> Answer:
    username = call.values["username"]
    if username.lower() not in call.github.users:
        raise not_found()
    role = call.repo.role(username)
    short = {"maintain": "write", "triage": "read"}.get(role, role)
    user = {**call.shapes.known_user(username), "role_name": role}
    return Answer(200, {"permission": short, "role_name": role, "user": user})


@route("GET", R + "/assignees/{assignee}", scope="issues")
def assignable(call: Call) -> Answer:
    if not call.repo.is_collaborator(call.values["assignee"]):
        raise not_found()
    return Answer(204)


# Labels


@route("GET", R + "/labels", scope="issues")
def labels(call: Call) -> Answer:
    return call.page(list(call.repo.labels.values()), lambda each: call.shapes.label(call.repo, each.name))


@route("POST", R + "/labels", scope="issues", needs="write")
def make_label(call: Call) -> Answer:
    name = call.fields["name"]
    if not name.strip():
        raise Refused(
            422, "Validation Failed", [{"resource": "Label", "code": "missing_field", "field": "name"}]
        )
    if call.repo.label_named(name):
        raise Refused(
            422, "Validation Failed", [{"resource": "Label", "code": "already_exists", "field": "name"}]
        )
    color = call.fields.get("color") or "ededed"
    _check_color(color)
    call.repo.make_label(name, by=call.by, color=color, description=call.fields.get("description"))
    return Answer(201, call.shapes.label(call.repo, name))


def _check_color(color: str) -> None:
    if not re.fullmatch(r"[0-9a-fA-F]{6}", color):
        raise Refused(422, "Validation Failed", [{"resource": "Label", "code": "invalid", "field": "color"}])


@route("GET", R + "/labels/{name}", scope="issues")
def label(call: Call) -> Answer:
    if call.repo.label_named(call.values["name"]) is None:
        raise not_found()
    return Answer(200, call.shapes.label(call.repo, call.values["name"]))


@route("PATCH", R + "/labels/{name}", scope="issues", needs="write")
def edit_label(call: Call) -> Answer:
    label = call.repo.label_named(call.values["name"])
    if label is None:
        raise not_found()
    new, old = call.fields.get("new_name") or label.name, label.name
    _check_color(call.fields.get("color") or label.color)
    if new.lower() != old.lower() and call.repo.label_named(new):
        raise Refused(
            422, "Validation Failed", [{"resource": "Label", "code": "already_exists", "field": "name"}]
        )
    del call.repo.labels[old.lower()]
    label.name, label.color = new, call.fields.get("color") or label.color
    label.description = call.fields.get("description", label.description)
    call.repo.labels[new.lower()] = label
    for issue in call.repo.numbers.values():
        issue.labels = [new if name == old else name for name in issue.labels]
    return Answer(200, call.shapes.label(call.repo, new))


@route("DELETE", R + "/labels/{name}", scope="issues", needs="write")
def delete_label(call: Call) -> Answer:
    label = call.repo.labels.pop(call.values["name"].lower(), None)
    if label is None:
        raise not_found()
    for issue in call.repo.numbers.values():
        issue.labels = [name for name in issue.labels if name != label.name]
    return Answer(204)


# Issues


@route("GET", R + "/issues", scope="issues")
def issues(call: Call) -> Answer:
    query, since = call.query, _since(call)
    state, wanted = query.get("state", "open"), [n for n in query.get("labels", "").split(",") if n]
    found = [
        issue
        for issue in call.repo.numbers.values()
        if state in ("all", issue.state)
        and not issue.deleted
        and issue.number not in call.github.faults.unlisted
        and issue.moved_to is None
        and issue.updated_at >= since
        and all(name.lower() in {label.lower() for label in issue.labels} for name in wanted)
        and _assigned(issue, query.get("assignee", "*any"))
        and issue.user.lower() == query.get("creator", issue.user).lower()
    ]
    by_update = query.get("sort") == "updated"
    found.sort(key=lambda i: (i.updated_at if by_update else i.created_at, i.number))
    if query.get("direction", "desc") == "desc":
        found.reverse()
    return call.page(found, call.shapes.issue)


def _assigned(issue: Issue, who: str) -> bool:
    if who == "none":
        return not issue.assignees
    if who == "*":
        return bool(issue.assignees)
    return who == "*any" or who.lower() in {login.lower() for login in issue.assignees}


@route("POST", R + "/issues", scope="issues", creates=True)
def make_issue(call: Call) -> Answer:
    title = str(call.fields["title"])
    if not title.strip():
        raise Refused(
            422, "Validation Failed", [{"resource": "Issue", "code": "missing_field", "field": "title"}]
        )
    may = call.repo.may(call.by, "triage") or (call.token is not None and call.token.kind != "user")
    issue = call.repo.issue(
        title,
        call.fields.get("body"),
        by=call.by,
        labels=_label_names(call.fields.get("labels", [])) if may else (),  # dropped silently
        assignees=call.fields.get("assignees", []) if may else (),
    )
    return Answer(201, call.shapes.issue(issue), {"location": call.shapes.issue(issue)["url"]})


def _label_names(given: list[Any]) -> list[str]:
    names = [each if isinstance(each, str) else each.get("name") for each in given]
    return [name for name in names if name and name.strip()]


@route("GET", R + "/issues/{issue_number}", scope="issues")
def issue(call: Call) -> Answer:
    return Answer(200, call.shapes.issue(call.issue()))


@route("PATCH", R + "/issues/{issue_number}", scope="issues")
def edit_issue(call: Call) -> Answer:
    issue, fields = call.issue(), call.fields
    if issue.user != call.by:
        _needs(call, "triage")
    title = fields.get("title")
    issue.edit(by=call.by, title=None if title is None else str(title), body=fields.get("body"))
    if call.repo.may(call.by, "triage") or (call.token is not None and call.token.kind != "user"):
        if "labels" in fields:
            _set_labels(call, issue, _label_names(fields["labels"]))
        if "assignees" in fields:
            wanted = [
                each if isinstance(each, str) else each.get("login", "") for each in fields["assignees"]
            ]
            gone = [a for a in issue.assignees if a.lower() not in {login.lower() for login in wanted}]
            issue.unassign(*gone, by=call.by)
            issue.assign(*wanted, by=call.by)
    if fields.get("state") == "closed":
        issue.close(by=call.by, reason=fields.get("state_reason") or "completed")
    elif fields.get("state") == "open":
        issue.reopen(by=call.by)
    return Answer(200, call.shapes.issue(issue))


def _needs(call: Call, role: str) -> None:
    if call.token is not None and call.token.kind == "user" and not call.repo.may(call.by, role):
        raise Refused(403, "Must have admin rights to Repository.")


def _set_labels(call: Call, issue: Issue, names: list[str]) -> None:
    wanted = {name.lower() for name in names}
    for name in [name for name in issue.labels if name.lower() not in wanted]:
        issue.unlabel(name, by=call.by)
    issue.label(*names, by=call.by)


@route("GET", R + "/issues/{issue_number}/labels", scope="issues")
def issue_labels(call: Call) -> Answer:
    return call.page(call.issue().labels, lambda name: call.shapes.label(call.repo, name))


def _labels_given(call: Call) -> list[str]:
    given = call.body.get("labels", []) if isinstance(call.body, dict) else call.body
    return _label_names([given] if isinstance(given, str) else given or [])


@route("POST", R + "/issues/{issue_number}/labels", scope="issues", needs="triage")
def add_labels(call: Call) -> Answer:
    issue = call.issue()
    issue.label(*_labels_given(call), by=call.by)
    return Answer(200, [call.shapes.label(call.repo, name) for name in issue.labels])


@route("PUT", R + "/issues/{issue_number}/labels", scope="issues", needs="triage")
def set_labels(call: Call) -> Answer:
    issue = call.issue()
    _set_labels(call, issue, _labels_given(call))
    return Answer(200, [call.shapes.label(call.repo, name) for name in issue.labels])


@route("DELETE", R + "/issues/{issue_number}/labels/{name}", scope="issues", needs="triage")
def remove_label(call: Call) -> Answer:
    issue = call.issue()
    if not issue.unlabel(call.values["name"], by=call.by):
        raise Refused(404, "Label does not exist")
    return Answer(200, [call.shapes.label(call.repo, name) for name in issue.labels])


@route("POST", R + "/issues/{issue_number}/assignees", scope="issues")
def add_assignees(call: Call) -> Answer:
    issue = call.issue()
    if call.repo.may(call.by, "triage") or (call.token is not None and call.token.kind != "user"):
        issue.assign(*call.fields.get("assignees", []), by=call.by)  # else dropped without a word
    return Answer(201, call.shapes.issue(issue))


@route("DELETE", R + "/issues/{issue_number}/assignees", scope="issues")
def remove_assignees(call: Call) -> Answer:
    issue = call.issue()
    if call.repo.may(call.by, "triage") or (call.token is not None and call.token.kind != "user"):
        issue.unassign(*call.fields.get("assignees", []), by=call.by)
    return Answer(200, call.shapes.issue(issue))


@route("GET", R + "/issues/{issue_number}/events", scope="issues")
def issue_events(call: Call) -> Answer:
    entries = call.issue().timeline_shapes(call.shapes)
    return call.page([each for each in entries if each["event"] not in _TIMELINE_ONLY], lambda entry: entry)


@route("GET", R + "/issues/{issue_number}/timeline", scope="issues")
def timeline(call: Call) -> Answer:
    return call.page(call.issue().timeline_shapes(call.shapes), lambda entry: entry)


# Relations of issues


@route("GET", R + "/issues/{issue_number}/sub_issues", scope="issues")
def sub_issues(call: Call) -> Answer:
    return call.page(call.issue().children, call.shapes.issue)


@route("POST", R + "/issues/{issue_number}/sub_issues", scope="issues", needs="triage")
def add_sub_issue(call: Call) -> Answer:
    issue, child = call.issue(), call.issue_with_id(call.fields["sub_issue_id"])
    if child is issue or child in _ancestors(issue):
        raise invalid("Validation Failed: sub-issues may not form a circle")
    if child.parent is not None:
        if not call.fields.get("replace_parent"):
            raise invalid("Validation Failed: the sub-issue already has a parent")
        child.parent.remove_child(child, by=call.by)
    issue.add_child(child, by=call.by)
    return Answer(201, call.shapes.issue(issue))


def _ancestors(issue: Issue) -> list[Issue]:
    found = []
    while issue.parent is not None:
        issue = issue.parent
        found.append(issue)
    return found


@route("DELETE", R + "/issues/{issue_number}/sub_issue", scope="issues", needs="triage")
def remove_sub_issue(call: Call) -> Answer:
    issue, child = call.issue(), call.issue_with_id(call.fields["sub_issue_id"])
    if child not in issue.children:
        raise not_found()
    issue.remove_child(child, by=call.by)
    return Answer(200, call.shapes.issue(issue))


@route("GET", R + "/issues/{issue_number}/parent", scope="issues")
def parent(call: Call) -> Answer:
    parent = call.issue().parent
    if parent is None:
        raise not_found()
    return Answer(200, call.shapes.issue(parent))


@route("GET", R + "/issues/{issue_number}/dependencies/blocked_by", scope="issues")
def blocked_by(call: Call) -> Answer:
    return call.page(call.issue().blocked_by, call.shapes.issue)


@route("GET", R + "/issues/{issue_number}/dependencies/blocking", scope="issues")
def blocking(call: Call) -> Answer:
    return call.page(call.issue().blocks, call.shapes.issue)


@route("POST", R + "/issues/{issue_number}/dependencies/blocked_by", scope="issues", needs="triage")
def add_blocker(call: Call) -> Answer:
    issue, other = call.issue(), call.issue_with_id(call.fields["issue_id"])
    if other is issue or other in issue.blocked_by:
        raise invalid("Validation Failed: the dependency is there already, or the issue itself")
    issue.add_blocker(other, by=call.by)
    return Answer(201, call.shapes.issue(issue))


@route(
    "DELETE", R + "/issues/{issue_number}/dependencies/blocked_by/{issue_id}", scope="issues", needs="triage"
)
def remove_blocker(call: Call) -> Answer:
    issue = call.issue()
    for other in issue.blocked_by:
        if other.id == call.number("issue_id"):
            issue.remove_blocker(other, by=call.by)
            return Answer(200, call.shapes.issue(issue))
    raise not_found()


# Comments


@route("GET", R + "/issues/comments", scope="issues")
def all_comments(call: Call) -> Answer:
    since = _since(call)
    found = [
        c for i in call.repo.numbers.values() if not i.deleted for c in i.comments if c.updated_at >= since
    ]
    found.sort(key=lambda c: (c.updated_at if call.query.get("sort") == "updated" else c.created_at, c.id))
    if call.query.get("direction") == "desc":
        found.reverse()
    return call.page(found, call.shapes.comment)


@route("GET", R + "/issues/{issue_number}/comments", scope="issues")
def comments(call: Call) -> Answer:
    since = _since(call)
    return call.page([c for c in call.issue().comments if c.updated_at >= since], call.shapes.comment)


@route("POST", R + "/issues/{issue_number}/comments", scope="issues", creates=True)
def make_comment(call: Call) -> Answer:
    if not call.fields["body"].strip():
        raise Refused(
            422, "Validation Failed", [{"resource": "IssueComment", "code": "missing_field", "field": "body"}]
        )
    if len(call.fields["body"]) > 65_536:
        raise Refused(
            422,
            "Validation Failed",
            [
                {
                    "resource": "IssueComment",
                    "code": "custom",
                    "field": "body",
                    "message": "body is too long (maximum is 65536 characters)",
                }
            ],
        )
    shape = call.shapes.comment(call.issue().comment(call.fields["body"], by=call.by))
    return Answer(201, shape, {"location": shape["url"]})


@route("GET", R + "/issues/comments/{comment_id}", scope="issues")
def comment(call: Call) -> Answer:
    return Answer(200, call.shapes.comment(call.comment()))


@route("PATCH", R + "/issues/comments/{comment_id}", scope="issues")
def edit_comment(call: Call) -> Answer:
    comment = call.comment()
    if comment.user != call.by:
        _needs(call, "write")
    comment.edit(call.fields["body"], by=call.by)
    return Answer(200, call.shapes.comment(comment))


@route("DELETE", R + "/issues/comments/{comment_id}", scope="issues")
def delete_comment(call: Call) -> Answer:
    comment = call.comment()
    if comment.user != call.by:
        _needs(call, "write")
    comment.delete(by=call.by)
    return Answer(204)


# Reactions


def _reactions(call: Call, reactions: list[Reaction]) -> Answer:
    wanted = call.query.get("content")
    return call.page([r for r in reactions if wanted in (None, r.content)], call.shapes.reaction)


def _react(call: Call, subject: Issue | Comment | ReviewComment) -> Answer:
    reaction, new = subject.react(call.fields["content"], by=call.by)
    return Answer(201 if new else 200, call.shapes.reaction(reaction))


def _unreact(call: Call, reactions: list[Reaction]) -> Answer:
    for reaction in reactions:
        if reaction.id == call.number("reaction_id"):
            if reaction.user != call.by:
                _needs(call, "write")
            reactions.remove(reaction)
            return Answer(204)
    raise not_found()


@route("GET", R + "/issues/{issue_number}/reactions", scope="issues")
def issue_reactions(call: Call) -> Answer:
    return _reactions(call, call.issue().reactions)


@route("POST", R + "/issues/{issue_number}/reactions", scope="issues")
def react_to_issue(call: Call) -> Answer:
    return _react(call, call.issue())


@route("DELETE", R + "/issues/{issue_number}/reactions/{reaction_id}", scope="issues")
def unreact_to_issue(call: Call) -> Answer:
    return _unreact(call, call.issue().reactions)


@route("GET", R + "/issues/comments/{comment_id}/reactions", scope="issues")
def comment_reactions(call: Call) -> Answer:
    return _reactions(call, call.comment().reactions)


@route("POST", R + "/issues/comments/{comment_id}/reactions", scope="issues")
def react_to_comment(call: Call) -> Answer:
    return _react(call, call.comment())


@route("DELETE", R + "/issues/comments/{comment_id}/reactions/{reaction_id}", scope="issues")
def unreact_to_comment(call: Call) -> Answer:
    return _unreact(call, call.comment().reactions)


@route("GET", R + "/pulls/comments", scope="pull_requests")
def all_review_comments(call: Call) -> Answer:
    since = _since(call)
    found = [
        c
        for i in call.repo.numbers.values()
        if i.pull is not None
        for c in i.pull.review_comments
        if c.updated_at >= since
    ]

    def shown(comment: ReviewComment) -> Json:  # this list leaves out what it has no line for
        return {key: value for key, value in call.shapes.review_comment(comment).items() if value is not None}

    return call.page(sorted(found, key=lambda c: c.id), shown)


@route("GET", R + "/pulls/comments/{comment_id}/reactions", scope="pull_requests")
def review_comment_reactions(call: Call) -> Answer:
    return _reactions(call, call.review_comment().reactions)


@route("POST", R + "/pulls/comments/{comment_id}/reactions", scope="pull_requests")
def react_to_review_comment(call: Call) -> Answer:
    return _react(call, call.review_comment())


@route("DELETE", R + "/pulls/comments/{comment_id}/reactions/{reaction_id}", scope="pull_requests")
def unreact_to_review_comment(call: Call) -> Answer:
    return _unreact(call, call.review_comment().reactions)


# Pull requests


@route("GET", R + "/pulls", scope="pull_requests")
def pulls(call: Call) -> Answer:
    query, state = call.query, call.query.get("state", "open")
    found = [i for i in call.repo.numbers.values() if i.pull and state in ("all", i.state)]
    if "head" in query:
        found = [i for i in found if f"{call.repo.owner}:{i.the_pull().head_ref}" == query["head"]]
    if "base" in query:
        found = [i for i in found if i.the_pull().base_ref == query["base"]]
    by_update = query.get("sort") == "updated"
    found.sort(key=lambda i: (i.updated_at if by_update else i.created_at, i.number))
    if query.get("direction", "desc" if query.get("sort", "created") == "created" else "asc") == "desc":
        found.reverse()
    return call.page(found, call.shapes.pull)


@route("POST", R + "/pulls", scope="pull_requests", creates=True)
def make_pull(call: Call) -> Answer:
    fields, refs = call.fields, call.repo.refs()
    head, base = fields["head"].rpartition(":")[2], fields["base"]
    for name, value in (("head", head), ("base", base)):
        if f"refs/heads/{value}" not in refs:
            raise Refused(
                422, "Validation Failed", [{"resource": "PullRequest", "field": name, "code": "invalid"}]
            )
    if not call.repo.compared(refs[f"refs/heads/{base}"], refs[f"refs/heads/{head}"])[0]:
        message = f"No commits between {base} and {head}"
        raise Refused(
            422, "Validation Failed", [{"resource": "PullRequest", "code": "custom", "message": message}]
        )
    for other in call.repo.numbers.values():
        if (
            other.pull
            and other.state == "open"
            and (other.pull.head_ref, other.pull.base_ref) == (head, base)
        ):
            message = f"A pull request already exists for {call.repo.owner}:{head}."
            raise Refused(
                422, "Validation Failed", [{"resource": "PullRequest", "code": "custom", "message": message}]
            )
    title = fields.get("title") or f"Pull request of {head}"
    draft = bool(fields.get("draft"))
    pull = call.repo.pull(title, fields.get("body"), by=call.by, head=head, base=base, draft=draft)
    return Answer(201, call.shapes.pull(pull, full=True))


@route("GET", R + "/pulls/{pull_number}", scope="pull_requests")
def pull(call: Call) -> Answer:
    return Answer(200, call.shapes.pull(call.pull(), full=True))


@route("PATCH", R + "/pulls/{pull_number}", scope="pull_requests")
def edit_pull(call: Call) -> Answer:
    pull, fields = call.pull(), call.fields
    if pull.user != call.by:
        _needs(call, "write")
    pull.edit(by=call.by, title=fields.get("title"), body=fields.get("body"))
    if fields.get("state") == "closed":
        pull.close(by=call.by)
    elif fields.get("state") == "open":
        if pull.the_pull().merged_at is not None:
            raise invalid("Validation Failed", resource="PullRequest", code="invalid", field="state")
        pull.reopen(by=call.by)
    return Answer(200, call.shapes.pull(pull, full=True))


@route("GET", R + "/pulls/{pull_number}/commits", scope="pull_requests")
def pull_commits(call: Call) -> Answer:
    pull = call.pull().the_pull()
    shas, _ = call.repo.compared(pull.base_sha, pull.head_sha)
    return call.page(shas[:250], lambda sha: call.shapes.commit(call.repo, sha))


@route("GET", R + "/pulls/{pull_number}/files", scope="pull_requests")
def files(call: Call) -> Answer:
    pull = call.pull().the_pull()
    url = f"{call.shapes.repo_url(call.repo)}/contents"

    def shape(file: Any) -> Json:
        blob = git(call.repo.bare, "rev-parse", f"{pull.head_sha}:{file.path}", check=False)
        return {
            "sha": blob if len(blob) == 40 else None,
            "filename": file.path,
            "status": "modified",
            "additions": file.added,
            "deletions": file.deleted,
            "changes": file.added + file.deleted,
            "blob_url": f"{url}/{file.path}",
            "raw_url": f"{url}/{file.path}",
            "contents_url": f"{url}/{file.path}",
        }

    return call.page(call.repo.compared(pull.base_sha, pull.head_sha)[1], shape)


@route("PUT", R + "/pulls/{pull_number}/merge", scope="contents", needs="write")
def merge(call: Call) -> Answer:
    issue = call.pull()
    if issue.state == "closed" or issue.the_pull().draft:
        raise Refused(405, "Pull Request is not mergeable")
    if call.fields.get("sha", issue.the_pull().head_sha) != issue.the_pull().head_sha:
        raise Refused(409, "Head branch was modified. Review and try the merge again.")
    sha = issue.merge(by=call.by, message=call.fields.get("commit_title"))
    return Answer(200, {"sha": sha, "merged": True, "message": "Pull Request successfully merged"})


@route("GET", R + "/pulls/{pull_number}/requested_reviewers", scope="pull_requests")
def requested(call: Call) -> Answer:
    users = [call.shapes.known_user(login) for login in call.pull().the_pull().reviewers]
    return Answer(200, {"users": users, "teams": []})


@route(
    "POST",
    R + "/pulls/{pull_number}/requested_reviewers",
    scope="pull_requests",
    needs="triage",
    creates=True,
)
def request_reviewers(call: Call) -> Answer:
    pull, wanted = call.pull(), call.fields.get("reviewers", [])
    for login in wanted:
        if not call.repo.is_collaborator(login):
            message = "Reviews may only be requested from collaborators."
            raise Refused(422, message)
        if login.lower() == pull.user.lower():
            raise Refused(422, "Review cannot be requested from pull request author.")
    pull.request_review(*wanted, by=call.by)
    return Answer(201, call.shapes.pull(pull))


@route("DELETE", R + "/pulls/{pull_number}/requested_reviewers", scope="pull_requests", needs="triage")
def withdraw_reviewers(call: Call) -> Answer:
    call.pull().withdraw_review_request(*call.fields.get("reviewers", []), by=call.by)
    return Answer(200, call.shapes.pull(call.pull()))


@route("GET", R + "/pulls/{pull_number}/reviews", scope="pull_requests")
def reviews(call: Call) -> Answer:
    me = call.token.login if call.token else None
    found = [r for r in call.pull().the_pull().reviews if r.state != "PENDING" or r.user == me]
    return call.page(found, call.shapes.review)


@route("POST", R + "/pulls/{pull_number}/reviews", scope="pull_requests", creates=True)
def make_review(call: Call) -> Answer:
    fields, pull = call.fields, call.pull()
    states = {"APPROVE": "APPROVED", "REQUEST_CHANGES": "CHANGES_REQUESTED", "COMMENT": "COMMENTED"}
    state = states.get(fields.get("event") or "", "PENDING")
    if state in ("APPROVED", "CHANGES_REQUESTED") and pull.user == call.by:
        word = "approve" if state == "APPROVED" else "request changes on"
        raise Refused(422, "Unprocessable Entity", [f"Review Can not {word} your own pull request"])
    comments = fields.get("comments") or []
    made = pull.review(
        state, fields.get("body") or "", by=call.by, comments=comments, commit_id=fields.get("commit_id")
    )
    return Answer(200, call.shapes.review(made))


@route("POST", R + "/pulls/{pull_number}/reviews/{review_id}/events", scope="pull_requests", creates=True)
def submit_review(call: Call) -> Answer:
    review = call.review()
    if review.state != "PENDING":
        raise invalid("Can not submit a review that was submitted")
    states = {"APPROVE": "APPROVED", "REQUEST_CHANGES": "CHANGES_REQUESTED", "COMMENT": "COMMENTED"}
    review.state, review.body = states[call.fields["event"]], call.fields.get("body") or review.body
    review.issue.submit(review, by=call.by)
    return Answer(200, call.shapes.review(review))


@route("PUT", R + "/pulls/{pull_number}/reviews/{review_id}/dismissals", scope="pull_requests", needs="write")
def dismiss(call: Call) -> Answer:
    review = call.review()
    if review.state not in ("APPROVED", "CHANGES_REQUESTED"):
        raise invalid("Can not dismiss a commented pull request review")
    review.dismiss(call.fields["message"], by=call.by)
    return Answer(200, call.shapes.review(review))


@route("GET", R + "/pulls/{pull_number}/comments", scope="pull_requests")
def review_comments(call: Call) -> Answer:
    return call.page(call.pull().the_pull().review_comments, call.shapes.review_comment)


@route("POST", R + "/pulls/{pull_number}/comments", scope="pull_requests", creates=True)
def make_review_comment(call: Call) -> Answer:
    fields = call.fields
    if not call.repo.has(fields["commit_id"]):
        raise invalid(
            "Validation Failed", resource="PullRequestReviewComment", code="invalid", field="commit_id"
        )
    made = call.pull().review_comment(
        fields["body"], fields["path"], fields.get("line"), by=call.by, commit_id=fields["commit_id"]
    )
    shape = call.shapes.review_comment(made)
    return Answer(201, shape, {"location": shape["url"]})


@route("POST", R + "/pulls/{pull_number}/comments/{comment_id}/replies", scope="pull_requests", creates=True)
def reply(call: Call) -> Answer:
    first = call.review_comment()
    made = call.pull().review_comment(
        call.fields["body"], first.path, first.line, by=call.by, in_reply_to=first.id
    )
    return Answer(
        201, call.shapes.review_comment(made), {"location": call.shapes.review_comment(made)["url"]}
    )


@route("GET", R + "/pulls/comments/{comment_id}", scope="pull_requests")
def review_comment(call: Call) -> Answer:
    return Answer(200, call.shapes.review_comment(call.review_comment()))


@route("PATCH", R + "/pulls/comments/{comment_id}", scope="pull_requests")
def edit_review_comment(call: Call) -> Answer:
    comment = call.review_comment()
    if comment.user != call.by:
        _needs(call, "write")
    comment.edit(call.fields["body"], by=call.by)
    return Answer(200, call.shapes.review_comment(comment))


@route("DELETE", R + "/pulls/comments/{comment_id}", scope="pull_requests")
def delete_review_comment(call: Call) -> Answer:
    comment = call.review_comment()
    if comment.user != call.by:
        _needs(call, "write")
    comment.delete(by=call.by)
    return Answer(204)


# Git


def _full_ref(call: Call) -> str:
    return f"refs/{call.values['ref']}"


@route("GET", R + "/git/ref/{ref}", scope="contents")
def ref(call: Call) -> Answer:
    sha = call.repo.refs().get(_full_ref(call))
    if sha is None:
        raise not_found()
    return Answer(200, call.shapes.ref(call.repo, _full_ref(call), sha))


@route("GET", R + "/git/matching-refs/{ref}", scope="contents")
def matching_refs(call: Call) -> Answer:
    found = sorted((r, s) for r, s in call.repo.refs().items() if r.startswith(_full_ref(call)))
    return call.page(found, lambda pair: call.shapes.ref(call.repo, *pair))


@route("POST", R + "/git/refs", scope="contents", needs="write")
def make_ref(call: Call) -> Answer:
    ref, sha = call.fields["ref"], call.fields["sha"]
    if not ref.startswith("refs/") or ref.count("/") < 2 or not _good_ref(call, ref):
        raise Refused(422, "Reference name must start with 'refs/' and have at least two slashes.")
    if not re.fullmatch(r"[0-9a-f]{40}", sha) or not call.repo.has(sha):
        raise Refused(422, "Object does not exist")
    if ref in call.repo.refs():
        raise Refused(422, "Reference already exists")
    git(call.repo.bare, "update-ref", ref, sha, "0" * 40)
    call.repo.moved(ref, None, sha, by=call.by)
    shape = call.shapes.ref(call.repo, ref, sha)
    return Answer(201, shape, {"location": shape["url"]})


def _good_ref(call: Call, ref: str) -> bool:
    if "\0" in ref or ref.startswith("-"):
        return False
    clash = any(known.startswith(f"{ref}/") or ref.startswith(f"{known}/") for known in call.repo.refs())
    return not clash and git(call.repo.bare, "check-ref-format", "--normalize", ref, check=False) == ref


@route("PATCH", R + "/git/refs/{ref}", scope="contents", needs="write")
def move_ref(call: Call) -> Answer:
    ref, sha = _full_ref(call), call.fields["sha"]
    old = call.repo.refs().get(ref)
    if old is None:
        raise Refused(422, "Reference does not exist")
    if not re.fullmatch(r"[0-9a-f]{40}", sha) or not call.repo.has(sha):
        raise Refused(422, "Object does not exist")
    base = git(call.repo.bare, "merge-base", old, sha, check=False)
    if base != old and not call.fields.get("force"):
        raise Refused(422, "Update is not a fast forward")
    git(call.repo.bare, "update-ref", ref, sha, old)
    call.repo.moved(ref, old, sha, by=call.by)
    return Answer(200, call.shapes.ref(call.repo, ref, sha))


@route("DELETE", R + "/git/refs/{ref}", scope="contents", needs="write")
def delete_ref(call: Call) -> Answer:
    ref = _full_ref(call)
    old = call.repo.refs().get(ref)
    if old is None:
        raise Refused(422, "Reference does not exist")
    git(call.repo.bare, "update-ref", "-d", ref)
    call.repo.moved(ref, old, None, by=call.by)
    return Answer(204)


@route("GET", R + "/git/commits/{commit_sha}", scope="contents")
def git_commit(call: Call) -> Answer:
    sha = call.values["commit_sha"]
    if not re.fullmatch(r"[0-9a-f]{40}", sha) or not call.repo.has(sha):
        raise not_found()
    return Answer(200, call.shapes.git_commit(call.repo, sha))


@route("GET", R + "/commits/{ref}", scope="contents")
def commit(call: Call) -> Answer:
    return Answer(200, call.shapes.commit(call.repo, call.sha()))


@route("GET", R + "/contents/{path}", scope="contents")
def contents(call: Call) -> Answer:
    path = call.values["path"]
    sha = call.repo.sha_of(call.query.get("ref", call.repo.default_branch))
    if sha is None:
        raise Refused(404, f"No commit found for the ref {call.query.get('ref')}")
    blob = _blob(call, sha, path)
    if blob is None:
        raise not_found()
    return Answer(200, _file(call, path, blob))


def _blob(call: Call, sha: str, path: str) -> str | None:
    return None if not path or "\0" in path else blob_named(call.repo.bare, sha, path)


def _file(call: Call, path: str, blob: str) -> Json:
    text = call.repo.blob(blob)
    url, html = (
        f"{call.shapes.repo_url(call.repo)}/contents/{path}",
        f"{call.github.html_url}/{call.repo.full_name}",
    )
    git_url = f"{call.shapes.repo_url(call.repo)}/git/blobs/{blob}"
    return {
        "type": "file",
        "encoding": "base64",
        "size": len(text),
        "name": path.rsplit("/", 1)[-1],
        "path": path,
        "content": base64.encodebytes(text).decode(),
        "sha": blob,
        "url": url,
        "git_url": git_url,
        "html_url": f"{html}/blob/main/{path}",
        "download_url": f"{html}/raw/main/{path}",
        "_links": {"git": git_url, "self": url, "html": f"{html}/blob/main/{path}"},
    }


@route("PUT", R + "/contents/{path}", scope="contents", needs="write")
def write_contents(call: Call) -> Answer:
    path, branch = call.values["path"], call.fields.get("branch") or call.repo.default_branch
    sha = call.repo.refs().get(f"refs/heads/{branch}")
    if sha is None:
        raise Refused(404, f"Branch {branch} not found")
    old = _blob(call, sha, path)
    if old is not None and "sha" not in call.fields:
        raise invalid('Invalid request.\n\n"sha" wasn\'t supplied.')
    if old != call.fields.get("sha"):
        raise Refused(409, f"{path} does not match {call.fields.get('sha')}")
    try:
        text = base64.b64decode(call.fields["content"]).decode()
    except ValueError as error:
        raise invalid("content is not valid Base64") from error
    if not re.fullmatch(r"[\w.-]+(/[\w.-]+)*", path) or ".git" in path.split("/") or ".." in path.split("/"):
        raise invalid("path contains a malformed path component")
    made = call.repo.commit({path: text}, by=call.by, branch=branch, message=call.fields["message"])
    blob = _blob(call, made, path)
    assert blob is not None
    content = {k: v for k, v in _file(call, path, blob).items() if k not in ("content", "encoding")}
    status = 200 if old else 201
    return Answer(status, {"content": content, "commit": call.shapes.git_commit(call.repo, made)})


# Statuses and checks


@route("POST", R + "/statuses/{sha}", scope="statuses", needs="write")
def make_status(call: Call) -> Answer:
    sha, fields = call.values["sha"], call.fields
    if not re.fullmatch(r"[0-9a-f]{40}", sha) or not call.repo.has(sha):
        raise invalid(f"No commit found for SHA: {sha}")
    made = call.repo.status(
        sha,
        fields["state"],
        by=call.by,
        context=fields.get("context") or "default",
        description=fields.get("description"),
        target_url=fields.get("target_url"),
    )
    shape = call.shapes.status(call.repo, made)
    return Answer(201, shape, {"location": shape["url"]})


@route("GET", R + "/commits/{ref}/statuses", scope="statuses")
def statuses(call: Call) -> Answer:
    sha = call.sha()
    found = [s for s in reversed(call.repo.statuses) if s.sha == sha]
    return call.page(found, lambda each: call.shapes.status(call.repo, each))


@route("GET", R + "/commits/{ref}/status", scope="statuses")
def combined_status(call: Call) -> Answer:
    sha = call.repo.sha_of(call.values["ref"])
    if sha is None:
        raise not_found()
    return Answer(200, call.shapes.combined_status(call.repo, sha))


@route("GET", R + "/commits/{ref}/check-runs", scope="checks")
def check_runs(call: Call) -> Answer:
    sha, query = call.sha(), call.query
    found = [
        run
        for run in reversed(call.repo.check_runs.values())
        if run.suite.head_sha == sha
        and query.get("check_name", run.name) == run.name
        and query.get("status", run.status) == run.status
    ]
    if query.get("filter", "latest") == "latest":
        found = list({(run.suite.id, run.name): run for run in reversed(found)}.values())
    return call.page(found, call.shapes.check_run, "check_runs")


@route("GET", R + "/commits/{ref}/check-suites", scope="checks")
def check_suites(call: Call) -> Answer:
    sha = call.sha()
    found = [suite for suite in call.repo.suites.values() if suite.head_sha == sha]
    return call.page(found, call.shapes.check_suite, "check_suites")


@route("GET", R + "/commits/{commit_sha}/pulls", scope="pull_requests")
def pulls_of_commit(call: Call) -> Answer:
    sha = call.sha("commit_sha")
    found = []
    for issue in call.repo.numbers.values():
        if issue.pull and sha in call.repo.compared(issue.pull.base_sha, issue.pull.head_sha)[0]:
            found.append(issue)
    return call.page(found, call.shapes.pull)


def _an_app(call: Call) -> str:
    if call.token is None or call.token.app is None:
        raise Refused(403, "You must authenticate via a GitHub App.")
    return call.token.app


@route("POST", R + "/check-runs", scope="checks", needs="write")
def make_check_run(call: Call) -> Answer:
    app, fields = _an_app(call), call.fields
    sha = fields["head_sha"]
    if not re.fullmatch(r"[0-9a-f]{40}", sha) or not call.repo.has(sha):
        raise invalid(f"No commit found for SHA: {sha}")
    run = call.repo.check_run(
        sha, fields["name"], by=call.by, app=app, status=fields.get("status") or "queued"
    )
    return _changed_check(call, run, 201)


@route("PATCH", R + "/check-runs/{check_run_id}", scope="checks", needs="write")
def edit_check_run(call: Call) -> Answer:
    app, run = _an_app(call), call.repo.check_runs.get(call.number("check_run_id"))
    if run is None:
        raise not_found()
    if run.suite.app != app:
        raise Refused(
            403,
            "Invalid app_id `"
            + app
            + "` - check run can only be modified by the GitHub App that created it.",
        )
    return _changed_check(call, run, 200)


def _changed_check(call: Call, run: CheckRun, status: int) -> Answer:
    fields = call.fields
    run.external_id = fields.get("external_id", run.external_id)
    run.details_url = fields.get("details_url", run.details_url)
    run.output = {**run.output, **(fields.get("output") or {})}
    run.update(by=call.by, status=fields.get("status"), conclusion=fields.get("conclusion"))
    return Answer(status, call.shapes.check_run(run))


@route("GET", R + "/check-runs/{check_run_id}", scope="checks")
def check_run(call: Call) -> Answer:
    run = call.repo.check_runs.get(call.number("check_run_id"))
    if run is None:
        raise not_found()
    return Answer(200, call.shapes.check_run(run))


@route("GET", R + "/rules/branches/{branch}")
def rules(call: Call) -> Answer:
    kind, contexts = call.repo.required.get(call.values["branch"], ("", []))
    parameters = {
        "required_status_checks": [{"context": context} for context in contexts],
        "strict_required_status_checks_policy": False,
    }
    rule = {
        "type": "required_status_checks",
        "parameters": parameters,
        "ruleset_source_type": "Repository",
        "ruleset_source": call.repo.full_name,
        "ruleset_id": 1,
    }
    return call.page([rule] if kind == "rule" else [], lambda each: each)


@route("GET", R + "/branches/{branch}", scope="contents")
def branch(call: Call) -> Answer:
    """Whoever may read a branch sees which checks protect it, and no more of the protection."""
    name = call.values["branch"]
    sha = call.repo.refs().get(f"refs/heads/{name}")
    if sha is None:
        raise Refused(404, "Branch not found")
    kind, contexts = call.repo.required.get(name, ("", []))
    protected, url = kind == "protection", f"{call.shapes.repo_url(call.repo)}/branches/{name}"
    checks = {
        "enforcement_level": "non_admins" if protected else "off",
        "contexts": contexts if protected else [],
        "checks": [{"context": each, "app_id": None} for each in contexts] if protected else [],
    }
    body = {
        "name": name,
        "commit": call.shapes.commit(call.repo, sha),
        "_links": {"self": url, "html": f"{call.github.html_url}/{call.repo.full_name}/tree/{name}"},
        "protected": protected,
        "protection": {"enabled": protected, "required_status_checks": checks},
        "protection_url": f"{url}/protection",
    }
    return Answer(200, body)


@route(
    "GET",
    R + "/branches/{branch}/protection/required_status_checks",
    scope="administration",
    needs="admin",
)
def required_status_checks(call: Call) -> Answer:
    kind, contexts = call.repo.required.get(call.values["branch"], ("", []))
    if kind != "protection":
        raise Refused(404, "Branch not protected")
    branch = f"{call.shapes.repo_url(call.repo)}/branches/{call.values['branch']}"
    url = f"{branch}/protection/required_status_checks"
    checks = [{"context": context, "app_id": None} for context in contexts]
    body = {
        "url": url,
        "strict": False,
        "contexts": contexts,
        "contexts_url": f"{url}/contexts",
        "checks": checks,
    }
    return Answer(200, body)


# Workflows


@route("GET", R + "/actions/workflows", scope="actions")
def workflows(call: Call) -> Answer:
    return call.page(list(call.repo.workflows.values()), call.shapes.workflow, "workflows")


def _workflow_file(call: Call) -> str:
    wanted = call.values["workflow_id"]
    for file, workflow in call.repo.workflows.items():
        if wanted in (file, str(workflow.id)):
            return file
    raise not_found()


@route("POST", R + "/actions/workflows/{workflow_id}/dispatches", scope="actions", needs="write")
def dispatch(call: Call) -> Answer:
    file, fields = _workflow_file(call), call.fields
    workflow = call.repo.workflows[file]
    branch, inputs = fields["ref"].removeprefix("refs/heads/"), fields.get("inputs") or {}
    if "workflow_dispatch" not in workflow.on:
        raise invalid("Workflow does not have 'workflow_dispatch' trigger")
    if f"refs/heads/{branch}" not in call.repo.refs():
        raise invalid(f"No ref found for: {fields['ref']}")
    unexpected = sorted(set(inputs) - set(workflow.inputs))
    if unexpected:
        raise invalid(f"Unexpected inputs provided: {unexpected}")
    workflow_path = f"{workflow.path}"
    call.repo.send(
        "workflow_dispatch",
        call.by,
        inputs=inputs or None,
        ref=f"refs/heads/{branch}",
        workflow=workflow_path,
    )
    run = call.repo.run(file, by=call.by, event="workflow_dispatch", branch=branch, inputs=inputs)
    if call.version != NEW_VERSION and not fields.get("return_run_details"):
        return Answer(204)
    shape = call.shapes.workflow_run(run)
    return Answer(200, {"workflow_run_id": run.id, "run_url": shape["url"], "html_url": shape["html_url"]})


def _run_list(call: Call, runs: list[WorkflowRun]) -> Answer:
    query = call.query
    found = [
        run
        for run in reversed(runs)
        if query.get("branch", run.head_branch) == run.head_branch
        and query.get("event", run.event) == run.event
        and query.get("head_sha", run.head_sha) == run.head_sha
        and query.get("status") in (None, run.status, run.conclusion)
        and query.get("actor", run.actor).lower() == run.actor.lower()
    ]
    return call.page(found, call.shapes.workflow_run, "workflow_runs")


@route("GET", R + "/actions/runs", scope="actions")
def runs(call: Call) -> Answer:
    return _run_list(call, list(call.repo.workflow_runs.values()))


@route("GET", R + "/actions/workflows/{workflow_id}/runs", scope="actions")
def runs_of_workflow(call: Call) -> Answer:
    workflow = call.repo.workflows[_workflow_file(call)]
    return _run_list(call, [run for run in call.repo.workflow_runs.values() if run.workflow is workflow])


@route("GET", R + "/actions/runs/{run_id}", scope="actions")
def run(call: Call) -> Answer:
    return Answer(200, call.shapes.workflow_run(call.run()))


@route("GET", R + "/actions/runs/{run_id}/attempts/{attempt_number}", scope="actions")
def attempt(call: Call) -> Answer:
    run, number = call.run(), call.number("attempt_number")
    if not 1 <= number <= len(run.attempts):
        raise not_found()
    return Answer(200, call.shapes.workflow_run(run, number))


@route("POST", R + "/actions/runs/{run_id}/cancel", scope="actions", needs="write")
def cancel(call: Call) -> Answer:
    run = call.run()
    if run.status == "completed":
        raise Refused(409, "Cannot cancel a workflow run that is completed.")
    run.cancel()
    return Answer(202, {})


@route("POST", R + "/actions/runs/{run_id}/force-cancel", scope="actions", needs="write")
def force_cancel(call: Call) -> Answer:
    run = call.run()
    if run.status == "completed":
        raise Refused(409, "Cannot cancel a workflow run that is completed.")
    run.finish("cancelled")
    return Answer(202, {})


@route("POST", R + "/actions/runs/{run_id}/rerun", scope="actions", needs="write")
def rerun(call: Call) -> Answer:
    run = call.run()
    if run.status != "completed":
        raise Refused(403, "This workflow is already running")
    run.rerun(by=call.by)
    return Answer(201, {})


@route("GET", R + "/actions/runs/{run_id}/jobs", scope="actions")
def jobs(call: Call) -> Answer:
    run = call.run()
    found = run.jobs if call.query.get("filter") == "all" else run.current_jobs()
    return call.page(found, call.shapes.job, "jobs")


@route("GET", R + "/actions/runs/{run_id}/attempts/{attempt_number}/jobs", scope="actions")
def attempt_jobs(call: Call) -> Answer:
    number = call.number("attempt_number")
    return call.page([j for j in call.run().jobs if j.attempt == number], call.shapes.job, "jobs")


@route("GET", R + "/actions/runs/{run_id}/logs", scope="actions")
def logs(call: Call) -> Answer:
    run = call.run()
    return _elsewhere(call, f"logs-{run.id}", "".join(job.log for job in run.current_jobs()).encode())


@route("GET", R + "/actions/jobs/{job_id}/logs", scope="actions")
def job_logs(call: Call) -> Answer:
    wanted = call.number("job_id")
    for run in call.repo.workflow_runs.values():
        for job in run.jobs:
            if job.id == wanted:
                if job.started_at + LOGS_EXPIRE_S <= call.github.now():
                    raise Refused(410, "Server Error: The log has expired")
                return _elsewhere(call, f"job-{job.id}", job.log.encode())
    raise not_found()


def _elsewhere(call: Call, name: str, content: bytes) -> Answer:
    """Logs and artifacts are kept elsewhere, behind an address that soon expires."""
    call.github.files[f"/_files/{name}"] = content
    return Answer(302, None, {"location": f"{call.github.html_url}/_files/{name}"})


@route("GET", R + "/actions/runs/{run_id}/artifacts", scope="actions")
def artifacts(call: Call) -> Answer:
    return call.page(call.run().artifacts, call.shapes.artifact, "artifacts")


# Webhooks


def _hook(call: Call) -> Hook:
    """The hook that the path names: a repository's, or that of the app which asks."""
    if "hook_id" not in call.values:
        app = call.token.app if call.token else None
        hook = call.github.app_hooks.get(app or "")
    else:
        hook = call.repo.hooks.get(call.number("hook_id"))
    if hook is None:
        raise not_found()
    return hook


@route("GET", R + "/hooks", scope="repository_hooks", needs="admin")
def hooks(call: Call) -> Answer:
    return call.page(list(call.repo.hooks.values()), call.shapes.hook)


@route("POST", R + "/hooks", scope="repository_hooks", needs="admin")
def make_hook(call: Call) -> Answer:
    config = call.fields.get("config") or {}
    if not config.get("url"):
        raise invalid("Validation Failed", resource="Hook", code="custom", field="url")
    if any(hook.url == config["url"] for hook in call.repo.hooks.values()):
        raise Refused(
            422,
            "Validation Failed",
            [{"resource": "Hook", "code": "custom", "message": "Hook already exists on this repository"}],
        )
    hook = call.repo.hook(
        url=config["url"], secret=config.get("secret"), events=call.fields.get("events") or ["push"]
    )
    return Answer(201, call.shapes.hook(hook), {"location": call.shapes.hook(hook)["url"]})


@route("GET", R + "/hooks/{hook_id}", scope="repository_hooks", needs="admin")
def hook(call: Call) -> Answer:
    return Answer(200, call.shapes.hook(_hook(call)))


@route("GET", "/app/hook/config", app_only=True, login=True)
@route("GET", R + "/hooks/{hook_id}/config", scope="repository_hooks", needs="admin")
def hook_config(call: Call) -> Answer:
    return Answer(200, call.shapes.hook_config(_hook(call)))


@route("GET", "/app/hook/deliveries", app_only=True, login=True)
@route("GET", R + "/hooks/{hook_id}/deliveries", scope="repository_hooks", needs="admin")
def deliveries(call: Call) -> Answer:
    """Newest first; pages by a cursor, the id of the last delivery seen."""
    hook, size = _hook(call), min(100, _whole(call.query.get("per_page"), 30) or 30)
    found = sorted((d for d in call.github.deliveries if d.hook.id == hook.id), key=lambda d: -d.id)
    cursor = _whole(call.query.get("cursor", "").removeprefix("v1_"), 0)
    if cursor:
        found = [d for d in found if d.id < cursor]
    page, headers = found[:size], {}
    if len(found) > size:
        query = urllib.parse.urlencode({**call.query, "cursor": f"v1_{page[-1].id}"})
        headers["link"] = f'<{call.github.api_url}{call.path}?{query}>; rel="next"'
    return Answer(200, [call.shapes.delivery(each) for each in page], headers)


def _delivery(call: Call) -> Delivery:
    hook = _hook(call)
    for delivery in call.github.deliveries:
        if delivery.id == call.number("delivery_id") and delivery.hook.id == hook.id:
            return delivery
    raise not_found()


@route("GET", "/app/hook/deliveries/{delivery_id}", app_only=True, login=True)
@route("GET", R + "/hooks/{hook_id}/deliveries/{delivery_id}", scope="repository_hooks", needs="admin")
def delivery(call: Call) -> Answer:
    return Answer(200, call.shapes.delivery(_delivery(call), full=True))


@route("POST", "/app/hook/deliveries/{delivery_id}/attempts", app_only=True)
@route(
    "POST", R + "/hooks/{hook_id}/deliveries/{delivery_id}/attempts", scope="repository_hooks", needs="admin"
)
def redeliver(call: Call) -> Answer:
    call.github.redeliver(_delivery(call))
    return Answer(202, {})


# Search


@route("GET", "/search/issues", resource="search")
def search(call: Call) -> Answer:
    """By `repo:`, `is:`, `state:`, `label:`, `author:`, `assignee:`, `no:`, and words of title or body."""
    found = [
        issue
        for repo in call.github.repos.values()
        if repo.may(call.token.login if call.token else None, "read")
        for issue in repo.numbers.values()
        if not issue.deleted and issue.moved_to is None and _matches(issue, call.query["q"])
    ]
    found.sort(key=lambda i: (i.created_at, i.number), reverse=True)
    return call.page(
        found[:1000], call.shapes.search_item, "items", incomplete_results=False, search_type="lexical"
    )


def _matches(issue: Issue, query: str) -> bool:
    tests: dict[str, Callable[[str], bool]] = {
        "repo": lambda value: issue.repo.full_name.lower() == value,
        "is": lambda value: (
            value in (issue.state, "issue" if issue.pull is None else "pr")
            or (value == "merged" and issue.pull is not None and issue.pull.merged_at is not None)
        ),
        "type": lambda value: value == ("issue" if issue.pull is None else "pr"),
        "state": lambda value: issue.state == value,
        "label": lambda value: value in {name.lower() for name in issue.labels},
        "author": lambda value: issue.user.lower() == value,
        "assignee": lambda value: value in {login.lower() for login in issue.assignees},
        "no": lambda value: (
            (value == "assignee" and not issue.assignees) or (value == "label" and not issue.labels)
        ),
    }
    for minus, key, value, word in _SEARCH.findall(query):
        text = value.strip('"').lower()
        if key in tests:
            if tests[key](text) == bool(minus):
                return False
        elif word and word.strip('"').lower() not in f"{issue.title} {issue.body or ''}".lower():
            return False
    return True


# A value with slashes would swallow what follows it: templates that go on after one are tried first.
ROUTES.sort(key=lambda each: each.template.endswith(("{ref}", "{path}")))

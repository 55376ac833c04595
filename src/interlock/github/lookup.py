"""Reads from GitHub: a number, a repository and its rules, a remark, and who has write access."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import Any

from interlock.core.errors import GitHubRefused, InvalidInput
from interlock.core.record import Record
from interlock.github import rulefile
from interlock.github.ci import Ci
from interlock.github.client import GitHub, GitHubAnswer
from interlock.github.facts import NumberFacts, NumberState, from_answer, is_reopened, login
from interlock.github.remarks import ACTIONS_BOT, Remark
from interlock.github.rules import Rules, default_rules

_REPO = "/repos/{+repo}"
#: The most files read of a pull request. Rules with paths are decided by these.
FILES_MAX = 1_000
BLOCKERS_MAX, EVENTS_MAX = 50, 1_000
PULLS_MAX, MERGED_MAX = 300, 100
_MAY_WRITE = ("admin", "maintain", "write")
#: Deleted, or hidden from the token.
_GONE = (404, 410)
_REMARKS = {
    "issue_comment": _REPO + "/issues/comments/{id}",
    "pull_request_review_comment": _REPO + "/pulls/comments/{id}",
}


class MissingNumber(Record):
    """A number that has left its repository."""

    state: NumberState


class Reader:
    """Reads from GitHub. An unchanged answer does not count against the rate limit."""

    def __init__(self, github: GitHub) -> None:
        self._github = github
        self._account: str | None = None
        #: Reads the checks of commits.
        self.ci = Ci(github)

    def facts(self, repository: int, name: str, number: int, *, pull: bool) -> NumberFacts | MissingNumber:
        """The current facts of a number. `pull`: it is known to be a pull request."""
        try:
            answer = self._number(name, number, pull=pull)
            if answer.moved:
                now = self.name_of(repository, name)
                if now is None or now == name:
                    return MissingNumber(state=NumberState.TRANSFERRED)
                name, answer = now, self._number(now, number, pull=pull)
        except GitHubRefused as refused:
            if refused.status == 410:
                return MissingNumber(state=NumberState.DELETED)
            raise
        known = {"id": repository, "full_name": name}
        issue = answer.body
        blockers, children = self._blockers(name, issue), self._sub_issues(name, issue)
        return from_answer(known, issue, blockers, children, self._reopening(name, issue))

    def _number(self, name: str, number: int, *, pull: bool) -> GitHubAnswer:
        """The answer about an issue, or a pull request in its own form."""
        route = _REPO + ("/pulls/{number}" if pull else "/issues/{number}")
        answer = self._github.get(route, repo=name, number=number)
        if pull or answer.moved or "pull_request" not in answer.body:
            return answer
        return self._number(name, number, pull=True)

    def _blockers(self, name: str, issue: Mapping[str, Any]) -> tuple[str, ...]:
        """The open issues that block an issue, as `acme/app#3`."""
        if not (issue.get("issue_dependencies_summary") or {}).get("blocked_by"):
            return ()
        found = self._github.pages(
            _REPO + "/issues/{number}/dependencies/blocked_by",
            limit=BLOCKERS_MAX,
            repo=name,
            number=issue["number"],
        )
        return tuple(_short(each) for each in found if each["state"] == "open")

    def _sub_issues(self, name: str, issue: Mapping[str, Any]) -> tuple[str, ...]:
        """The open sub-issues of an issue, as `acme/app#3`."""
        summary = issue.get("sub_issues_summary") or {}
        if summary.get("total", 0) <= summary.get("completed", 0):
            return ()
        route = _REPO + "/issues/{number}/sub_issues"
        found = self._github.pages(route, limit=BLOCKERS_MAX, repo=name, number=issue["number"])
        return tuple(_short(each) for each in found if each["state"] == "open")

    def _reopening(self, name: str, issue: Mapping[str, Any]) -> int:
        """The last event that reopened the issue: an open issue may have been closed meanwhile."""
        if not is_reopened(issue):
            return 0
        route = _REPO + "/issues/{number}/events"
        found = self._github.pages(route, limit=EVENTS_MAX, repo=name, number=issue["number"])
        return max((each["id"] for each in found if each["event"] == "reopened"), default=0)

    def blocked_by(self, name: str, number: int) -> tuple[int, ...]:
        """The issues of the same repository that an issue blocks, or did while it was open."""
        route = _REPO + "/issues/{number}/dependencies/blocking"
        try:
            found = list(self._github.pages(route, limit=BLOCKERS_MAX, repo=name, number=number))
        except GitHubRefused as refused:
            if refused.status in _GONE:
                return ()
            raise
        here = name.lower()
        return tuple(each["number"] for each in found if _short(each).lower() == f"{here}#{each['number']}")

    def name_of(self, repository: int, name: str) -> str | None:
        """A repository's current name, by a current or former one; None if another repository has that
        name."""
        try:
            answer = self._github.get(_REPO, repo=name)
        except GitHubRefused as refused:
            if refused.status in _GONE:
                return None
            raise
        return str(answer.body["full_name"]) if answer.body["id"] == repository else None

    def rules(self, name: str) -> Rules:
        """A repository's rules, read from its default branch: a pull request cannot choose its own."""
        try:
            answer = self._github.get(_REPO + "/contents/{+path}", repo=name, path=rulefile.PATH)
        except GitHubRefused as refused:
            if refused.status == 404:
                return default_rules()
            raise
        where = f"{rulefile.PATH} of {name}"
        try:
            text = base64.b64decode(answer.body["content"]).decode()
        except (KeyError, TypeError, binascii.Error, UnicodeDecodeError):
            raise InvalidInput(f"{where} is not a text file.", "Commit it as UTF-8 text.") from None
        return rulefile.parse(text, where)

    def wanted_paths(self, facts: NumberFacts, rules: Rules) -> tuple[str, ...]:
        """The files that a pull request changes, if a rule needs them."""
        if not (facts.pull and facts.open and any(rule.paths for rule in rules.rules)):
            return ()
        route = _REPO + "/pulls/{number}/files"
        found = self._github.pages(route, limit=FILES_MAX, repo=facts.name, number=facts.number)
        return tuple(each["filename"] for each in found)

    def open_pulls(self, name: str) -> Iterator[Mapping[str, Any]]:
        """The open pull requests of a repository, the newest first."""
        query = {"state": "open", "sort": "created", "direction": "desc"}
        yield from self._github.pages(_REPO + "/pulls", limit=PULLS_MAX, query=query, repo=name)

    def merged_pulls(self, name: str) -> Iterator[Mapping[str, Any]]:
        """The merged pull requests among the hundred most recently changed closed ones of a repository."""
        query = {"state": "closed", "sort": "updated", "direction": "desc"}
        found = self._github.pages(_REPO + "/pulls", limit=MERGED_MAX, query=query, repo=name)
        yield from (pull for pull in found if pull["merged_at"])

    def may_write(self, name: str, user: str) -> bool:
        """Whether an account may write to a repository. An event's own claim about its author is not
        trusted."""
        route = _REPO + "/collaborators/{user}/permission"
        try:
            answer = self._github.get(route, repo=name, user=user)
        except GitHubRefused as refused:
            if refused.status in _GONE:
                return False
            raise
        return answer.body.get("permission") in _MAY_WRITE

    def remark(self, kind: str, name: str, remark_id: int) -> Mapping[str, Any] | None:
        """The current state of a comment; None if it was deleted."""
        return self._current(_REMARKS[kind], repo=name, id=remark_id)

    def own(self, remark: Remark, answer: Mapping[str, Any]) -> frozenset[str]:
        """The logins that Interlock writes as and that matter to this remark.

        With a user's token, everything by this user counts as the agents' own. Otherwise agents that comment
        with the same token would wake themselves.
        """
        token = self._github.token
        if token.kind == "actions":
            return frozenset({ACTIONS_BOT})
        if token.kind == "app":
            app = answer.get("performed_via_github_app") or {}
            named = {str(app.get("id")), str(app.get("client_id"))}
            return frozenset({remark.author}) if remark.bot and token.account in named else frozenset()
        return frozenset({self.account()})

    def account(self) -> str:
        """The login of a user's token, requested once."""
        if self._account is None:
            try:
                self._account = login(self._github.get("/user").body)
            except GitHubRefused as refused:
                if refused.status != 403:
                    raise
                self._account = ACTIONS_BOT  # a job's token under another name, so not a user's
        return self._account

    def workflow_run(self, name: str, run_id: int) -> Mapping[str, Any] | None:
        """The current state of a workflow run; None if it was deleted."""
        return self._current(_REPO + "/actions/runs/{run_id}", repo=name, run_id=run_id)

    def _current(self, route: str, **values: Any) -> Mapping[str, Any] | None:
        """What GitHub has at a route; None if it was deleted."""
        try:
            found: Mapping[str, Any] = self._github.get(route, **values).body
        except GitHubRefused as refused:
            if refused.status in _GONE:
                return None
            raise
        return found

    def pulls_of(self, name: str, sha: str) -> tuple[int, ...]:
        """The open pull requests that contain a commit."""
        route = _REPO + "/commits/{sha}/pulls"
        try:
            found = list(self._github.pages(route, limit=BLOCKERS_MAX, repo=name, sha=sha))
        except GitHubRefused as refused:
            if refused.status in (404, 409, 422):
                return ()
            raise
        return tuple(each["number"] for each in found if each["state"] == "open")


def _short(issue: Mapping[str, Any]) -> str:
    owner_and_name = "/".join(str(issue["repository_url"]).rsplit("/", 2)[1:])
    return f"{owner_and_name}#{issue['number']}"

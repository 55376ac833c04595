"""What GitHub says now: about a number, a repository and its rules, a remark, and whom it lets write."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import Any

from interlock.core.errors import GitHubRefused, InvalidInput
from interlock.core.record import Record
from interlock.github import rulefile
from interlock.github.ci import Ci
from interlock.github.client import Answer, GitHub
from interlock.github.facts import Facts, State, from_answer, is_reopened, login
from interlock.github.remarks import ACTIONS_BOT, Remark
from interlock.github.rules import Rules, default_rules

_REPO = "/repos/{+repo}"
#: More than people look at; rules with paths are decided by these.
FILES_MAX = 1_000
BLOCKERS_MAX, EVENTS_MAX = 50, 1_000
PULLS_MAX, MERGED_MAX = 300, 100
_MAY_WRITE = ("admin", "maintain", "write")
#: Gone, or never there for us.
_GONE = (404, 410)
_REMARKS = {
    "issue_comment": _REPO + "/issues/comments/{id}",
    "pull_request_review_comment": _REPO + "/pulls/comments/{id}",
}


class Gone(Record):
    """A number that is not in its repository any more."""

    state: State


class Reader:
    """Asks GitHub. An unchanged answer costs nothing of the allowance."""

    def __init__(self, github: GitHub) -> None:
        self._github = github
        self._account: str | None = None
        #: What GitHub says about the checks of commits.
        self.ci = Ci(github)

    def facts(self, repository: int, name: str, number: int, *, pull: bool) -> Facts | Gone:
        """What a number is now. `pull`: it is known to be a pull request."""
        try:
            answer = self._number(name, number, pull=pull)
            if answer.moved:
                now = self.name_of(repository, name)
                if now is None or now == name:
                    return Gone(state=State.TRANSFERRED)
                name, answer = now, self._number(now, number, pull=pull)
        except GitHubRefused as refused:
            if refused.status == 410:
                return Gone(state=State.DELETED)
            raise
        known = {"id": repository, "full_name": name}
        issue = answer.body
        blockers, children = self._blockers(name, issue), self._sub_issues(name, issue)
        return from_answer(known, issue, blockers, children, self._reopening(name, issue))

    def _number(self, name: str, number: int, *, pull: bool) -> Answer:
        """The answer about an issue, or about a pull request as such."""
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
        """The last event that opened it again: an issue that is open now may have been closed meanwhile."""
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
        """What a repository is called now, of which a name is or was; None if that name is another's."""
        try:
            answer = self._github.get(_REPO, repo=name)
        except GitHubRefused as refused:
            if refused.status in _GONE:
                return None
            raise
        return str(answer.body["full_name"]) if answer.body["id"] == repository else None

    def rules(self, name: str) -> Rules:
        """A repository's rules on its default branch: a pull request does not choose its own."""
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

    def wanted_paths(self, facts: Facts, rules: Rules) -> tuple[str, ...]:
        """The files that a pull request changes, if a rule asks for them."""
        if not (facts.pull and facts.open and any(rule.paths for rule in rules.rules)):
            return ()
        route = _REPO + "/pulls/{number}/files"
        found = self._github.pages(route, limit=FILES_MAX, repo=facts.name, number=facts.number)
        return tuple(each["filename"] for each in found)

    def open_pulls(self, name: str) -> Iterator[Mapping[str, Any]]:
        """The open pull requests of a repository, the newest first. An unchanged list costs nothing."""
        query = {"state": "open", "sort": "created", "direction": "desc"}
        yield from self._github.pages(_REPO + "/pulls", limit=PULLS_MAX, query=query, repo=name)

    def merged_pulls(self, name: str) -> Iterator[Mapping[str, Any]]:
        """Pull requests of a repository that were merged, of the hundred closed ones that changed last."""
        query = {"state": "closed", "sort": "updated", "direction": "desc"}
        found = self._github.pages(_REPO + "/pulls", limit=MERGED_MAX, query=query, repo=name)
        yield from (pull for pull in found if pull["merged_at"])

    def may_write(self, name: str, user: str) -> bool:
        """Whether somebody may write to a repository. What an event says about its author is not believed."""
        route = _REPO + "/collaborators/{user}/permission"
        try:
            answer = self._github.get(route, repo=name, user=user)
        except GitHubRefused as refused:
            if refused.status in _GONE:
                return False
            raise
        return answer.body.get("permission") in _MAY_WRITE

    def remark(self, kind: str, name: str, remark_id: int) -> Mapping[str, Any] | None:
        """A comment as it is now; None if it was deleted."""
        try:
            answer = self._github.get(_REMARKS[kind], repo=name, id=remark_id)
        except GitHubRefused as refused:
            if refused.status in _GONE:
                return None
            raise
        found: Mapping[str, Any] = answer.body
        return found

    def own(self, remark: Remark, answer: Mapping[str, Any]) -> frozenset[str]:
        """The logins that Interlock writes as, as far as this remark goes.

        With a user's token all that this user writes counts as the agents' own: agents that comment with the
        same token would wake themselves.
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
        """The login of a user's token, asked once."""
        if self._account is None:
            try:
                self._account = login(self._github.get("/user").body)
            except GitHubRefused as refused:
                if refused.status != 403:
                    raise
                self._account = ACTIONS_BOT  # a job's token under another name: it is no user's
        return self._account

    def workflow_run(self, name: str, run_id: int) -> Mapping[str, Any] | None:
        """A workflow run as it is now; None if it was deleted."""
        try:
            answer = self._github.get(_REPO + "/actions/runs/{run_id}", repo=name, run_id=run_id)
        except GitHubRefused as refused:
            if refused.status in _GONE:
                return None
            raise
        found: Mapping[str, Any] = answer.body
        return found

    def pulls_of(self, name: str, sha: str) -> tuple[int, ...]:
        """The open pull requests that have a commit."""
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

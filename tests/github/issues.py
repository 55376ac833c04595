"""Issues and pull requests of the fake: one sequence of numbers, comments, reviews, reactions, relations."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.git_fixtures import git
from tests.github.shapes import Shapes, node_id

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.github.fake import FakeGitHub, Repository

_CLOSES = re.compile(r"\b(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?):?\s+(?:([\w.-]+/[\w.-]+))?#(\d+)", re.I)
_MENTIONS = re.compile(r"(?:([\w.-]+/[\w.-]+))?#(\d+)")


@dataclass(eq=False)
class Reaction:
    id: int
    user: str
    content: str
    created_at: int


@dataclass(eq=False)
class Comment:
    id: int
    issue: Issue
    user: str
    body: str
    created_at: int
    updated_at: int
    reactions: list[Reaction] = field(default_factory=list)

    def edit(self, body: str, *, by: str) -> None:
        old, self.body, self.updated_at = self.body, body, self.issue.github.now()
        self.issue.send_comment("edited", self, by, changes={"body": {"from": old}})

    def delete(self, *, by: str) -> None:
        self.issue.comments.remove(self)
        self.issue.send_comment("deleted", self, by)

    def react(self, content: str, *, by: str) -> tuple[Reaction, bool]:
        return react(self.issue.github, self.reactions, content, by)


@dataclass(eq=False)
class Review:
    id: int
    issue: Issue
    user: str
    body: str
    state: str  # PENDING, APPROVED, CHANGES_REQUESTED, COMMENTED, DISMISSED
    commit_id: str
    submitted_at: int | None

    def dismiss(self, message: str, *, by: str) -> None:
        self.state = "DISMISSED"
        shapes = self.issue.shapes
        parts = {"review": shapes.review(self), "pull_request": shapes.pull(self.issue)}
        self.issue.repo.send("pull_request_review", by, action="dismissed", **parts)


@dataclass(eq=False)
class ReviewComment:
    id: int
    issue: Issue
    user: str
    body: str
    path: str
    line: int | None
    commit_id: str
    review_id: int | None
    created_at: int
    updated_at: int
    in_reply_to: int | None = None
    reactions: list[Reaction] = field(default_factory=list)

    def edit(self, body: str, *, by: str) -> None:
        old, self.body, self.updated_at = self.body, body, self.issue.github.now()
        self.issue.send_review_comment("edited", self, by, changes={"body": {"from": old}})

    def delete(self, *, by: str) -> None:
        assert self.issue.pull is not None
        self.issue.pull.review_comments.remove(self)
        self.issue.send_review_comment("deleted", self, by)

    def react(self, content: str, *, by: str) -> tuple[Reaction, bool]:
        return react(self.issue.github, self.reactions, content, by)


@dataclass(eq=False)
class Pull:
    """What a pull request has beyond an issue."""

    id: int
    head_ref: str
    head_sha: str
    base_ref: str
    base_sha: str
    draft: bool = False
    merged_at: int | None = None
    merged_by: str | None = None
    merge_commit_sha: str | None = None
    reviewers: list[str] = field(default_factory=list)
    reviews: list[Review] = field(default_factory=list)
    review_comments: list[ReviewComment] = field(default_factory=list)


@dataclass(eq=False)
class Issue:
    """An issue, or a pull request if it has a `pull`."""

    repo: Repository
    number: int
    id: int
    title: str
    body: str | None
    user: str
    created_at: int
    updated_at: int
    state: str = "open"
    state_reason: str | None = None
    labels: list[str] = field(default_factory=list)
    assignees: list[str] = field(default_factory=list)
    comments: list[Comment] = field(default_factory=list)
    reactions: list[Reaction] = field(default_factory=list)
    closed_at: int | None = None
    closed_by: str | None = None
    locked: bool = False
    blocked_by: list[Issue] = field(default_factory=list)
    blocks: list[Issue] = field(default_factory=list)
    children: list[Issue] = field(default_factory=list)
    parent: Issue | None = None
    pull: Pull | None = None
    timeline: list[dict[str, Any]] = field(default_factory=list)
    moved_to: Issue | None = None
    deleted: bool = False

    @property
    def github(self) -> FakeGitHub:
        return self.repo.github

    @property
    def shapes(self) -> Shapes:
        return self.repo.hook_shapes

    def dependency_counts(self) -> dict[str, int]:
        open_ones = {
            "blocked_by": sum(other.state == "open" for other in self.blocked_by),
            "blocking": sum(other.state == "open" for other in self.blocks),
        }
        return {**open_ones, "total_blocked_by": len(self.blocked_by), "total_blocking": len(self.blocks)}

    # What anybody does to it

    def edit(self, *, by: str, title: str | None = None, body: str | None = None) -> None:
        changes: dict[str, Any] = {}
        if title is not None and title != self.title:
            changes["title"], self.title = {"from": self.title}, title
        if body is not None and body != self.body:
            changes["body"], self.body = {"from": self.body or ""}, body
        if changes:
            renamed = {"from": changes["title"]["from"], "to": self.title} if "title" in changes else None
            self._note("renamed" if renamed else None, by, rename=renamed)
            self._send("edited", by, changes=changes)
            self.refer(body or "", by)

    def close(self, *, by: str, reason: str = "completed", commit_id: str | None = None) -> None:
        if self.state == "closed":
            return
        self.state, self.state_reason = "closed", None if self.pull else reason
        self.closed_at, self.closed_by = self.github.now(), by
        self._note("closed", by, state_reason=self.state_reason, commit_id=commit_id)
        self._send("closed", by)

    def reopen(self, *, by: str) -> None:
        if self.state == "open":
            return
        self.state, self.state_reason = "open", None if self.pull else "reopened"
        self.closed_at = self.closed_by = None
        self._note("reopened", by, state_reason=self.state_reason)
        self._send("reopened", by)

    def label(self, *names: str, by: str) -> None:
        for name in names:
            label = self.repo.label_named(name) or self.repo.make_label(name, by=by)
            if label.name not in self.labels:
                self.labels.append(label.name)
                self._note("labeled", by, label={"name": label.name, "color": label.color})
                self._send("labeled", by, label=self.shapes.label(self.repo, label.name))

    def unlabel(self, name: str, *, by: str) -> bool:
        label = self.repo.label_named(name)
        if label is None or label.name not in self.labels:
            return False
        self.labels.remove(label.name)
        self._note("unlabeled", by, label={"name": label.name, "color": label.color})
        self._send("unlabeled", by, label=self.shapes.label(self.repo, label.name))
        return True

    def assign(self, *logins: str, by: str) -> None:
        """Whoever may not be assigned is dropped without a word."""
        for login in logins:
            known = self.repo.assignable(login, by)
            if known is not None and known not in self.assignees and len(self.assignees) < 10:
                self.assignees.append(known)
                self._note("assigned", by, assignee=known)
                self._send("assigned", by, assignee=self.shapes.known_user(known))

    def unassign(self, *logins: str, by: str) -> None:
        for known in [a for a in self.assignees if a.lower() in {login.lower() for login in logins}]:
            self.assignees.remove(known)
            self._note("unassigned", by, assignee=known)
            self._send("unassigned", by, assignee=self.shapes.known_user(known))

    def comment(self, body: str, *, by: str) -> Comment:
        now = self.github.now()
        comment = Comment(self.github.next_id(), self, self.github.user(by).login, body, now, now)
        self.comments.append(comment)
        self.updated_at = now
        self.send_comment("created", comment, by)
        self.refer(body, by)
        return comment

    def react(self, content: str, *, by: str) -> tuple[Reaction, bool]:
        """The reaction, and whether it is new. No event: GitHub sends none."""
        return react(self.github, self.reactions, content, by)

    # Relations

    def add_blocker(self, other: Issue, *, by: str) -> None:
        self.blocked_by.append(other)
        other.blocks.append(self)
        self._send_blocked("added", other, by)

    def remove_blocker(self, other: Issue, *, by: str) -> None:
        self.blocked_by.remove(other)
        other.blocks.remove(self)
        self._send_blocked("removed", other, by)

    def _send_blocked(self, what: str, other: Issue, by: str) -> None:
        self.updated_at = other.updated_at = self.github.now()
        parts: dict[str, Any] = {
            "blocked_issue_id": self.id,
            "blocked_issue": self.shapes.issue(self),
            "blocking_issue_id": other.id,
            "blocking_issue": self.shapes.issue(other),
        }
        self.repo.send(
            "issue_dependencies",
            by,
            action=f"blocked_by_{what}",
            blocking_issue_repo=self.shapes.repo(other.repo),
            **parts,
        )
        other.repo.send(
            "issue_dependencies",
            by,
            action=f"blocking_{what}",
            blocked_issue_repo=self.shapes.repo(self.repo),
            **parts,
        )

    def add_child(self, child: Issue, *, by: str) -> None:
        self.children.append(child)
        child.parent = self
        self._send_family("added", child, by)

    def remove_child(self, child: Issue, *, by: str) -> None:
        self.children.remove(child)
        child.parent = None
        self._send_family("removed", child, by)

    def _send_family(self, what: str, child: Issue, by: str) -> None:
        self.updated_at = child.updated_at = self.github.now()
        parts: dict[str, Any] = {
            "sub_issue_id": child.id,
            "sub_issue": self.shapes.issue(child),
            "parent_issue_id": self.id,
            "parent_issue": self.shapes.issue(self),
        }
        self.repo.send(
            "sub_issues",
            by,
            action=f"sub_issue_{what}",
            sub_issue_repo=self.shapes.repo(child.repo),
            **parts,
        )
        child.repo.send(
            "sub_issues",
            by,
            action=f"parent_issue_{what}",
            parent_issue_repo=self.shapes.repo(self.repo),
            **parts,
        )

    def transfer(self, repo: Repository, *, by: str) -> Issue:
        """To another repository, under a number of that one; the old address leads there."""
        there = repo.issue(self.title, self.body, by=self.user, quiet=True)
        there.labels = [name for name in self.labels if repo.label_named(name)]
        there.assignees = [a for a in self.assignees if repo.is_collaborator(a)]
        there.state, there.state_reason = self.state, self.state_reason
        there.closed_at, there.closed_by = self.closed_at, self.closed_by
        there.comments, there.reactions = self.comments, self.reactions
        for comment in there.comments:
            comment.issue = there
        changes = {"new_issue": self.shapes.issue(there), "new_repository": self.shapes.repo(repo)}
        self._send("transferred", by, changes=changes)
        self.moved_to = there
        old = {"old_issue": self.shapes.issue(self), "old_repository": self.shapes.repo(self.repo)}
        there._send("opened", by, changes=old)
        return there

    def convert(self, *, by: str) -> None:
        """To a discussion. The issue stays, closed and locked; only its timeline says why."""
        self.locked = True
        self.close(by=by)
        self._note("converted_to_discussion", by)
        self._note("locked", by, lock_reason=None)
        self._send("locked", by)

    def delete(self, *, by: str) -> None:
        self._send("deleted", by)
        self.deleted, self.state = True, "closed"

    # Pull requests

    def follow(self, ref: str, before: str | None, after: str, *, by: str) -> None:
        """A push: the head of this pull request may have moved."""
        pull = self.the_pull()
        if ref == f"refs/heads/{pull.head_ref}" and after != pull.head_sha:
            pull.head_sha = after
            self._note(None, by)
            self._send("synchronize", by, before=before or "0" * 40, after=after)

    def ready(self, *, by: str) -> None:
        self._draft(draft=False, action="ready_for_review", by=by)

    def to_draft(self, *, by: str) -> None:
        self._draft(draft=True, action="converted_to_draft", by=by)

    def _draft(self, *, draft: bool, action: str, by: str) -> None:
        if self.the_pull().draft != draft:
            self.the_pull().draft = draft
            self._note(None, by)
            self._send(action, by)

    def request_review(self, *logins: str, by: str) -> None:
        for login in logins:
            known = self.github.user(login).login
            if known not in self.the_pull().reviewers:
                self.the_pull().reviewers.append(known)
                self._note("review_requested", by, requested_reviewer=known)
                self._send("review_requested", by, requested_reviewer=self.shapes.known_user(known))

    def withdraw_review_request(self, *logins: str, by: str) -> None:
        for known in [r for r in self.the_pull().reviewers if r.lower() in {x.lower() for x in logins}]:
            self.the_pull().reviewers.remove(known)
            self._send("review_request_removed", by, requested_reviewer=self.shapes.known_user(known))

    def review(
        self,
        state: str,
        body: str = "",
        *,
        by: str,
        comments: Iterable[dict[str, Any]] = (),
        commit_id: str | None = None,
    ) -> Review:
        """A review and its comments: APPROVED, CHANGES_REQUESTED, COMMENTED, or PENDING: nobody sees that."""
        pull = self.the_pull()
        submitted_at = None if state == "PENDING" else self.github.now()
        sha, login = commit_id or pull.head_sha, self.github.user(by).login
        review = Review(self.github.next_id(), self, login, body, state.upper(), sha, submitted_at)
        pull.reviews.append(review)
        for each in comments:
            self.review_comment(each["body"], each["path"], each.get("line"), by=by, review=review)
        if submitted_at is not None:
            self.submit(review, by=by)
        return review

    def submit(self, review: Review, *, by: str) -> None:
        review.submitted_at = review.submitted_at or self.github.now()
        if review.user in self.the_pull().reviewers:
            self.the_pull().reviewers.remove(review.user)
        parts = {"review": self.shapes.review(review), "pull_request": self.shapes.pull(self)}
        self.repo.send("pull_request_review", by, action="submitted", **parts)

    def review_comment(
        self,
        body: str,
        path: str,
        line: int | None = 1,
        *,
        by: str,
        review: Review | None = None,
        in_reply_to: int | None = None,
        commit_id: str | None = None,
    ) -> ReviewComment:
        now, pull = self.github.now(), self.the_pull()
        comment = ReviewComment(
            id=self.github.next_id(),
            issue=self,
            user=self.github.user(by).login,
            body=body,
            path=path,
            line=line,
            commit_id=commit_id or pull.head_sha,
            review_id=review.id if review else self.github.next_id(),
            created_at=now,
            updated_at=now,
            in_reply_to=in_reply_to,
        )
        pull.review_comments.append(comment)
        self.updated_at = now
        self.send_review_comment("created", comment, by)
        return comment

    def merge(self, *, by: str, message: str | None = None) -> str:
        """Merge the head into its base and close what it says it closes. The merge commit's id."""
        pull = self.the_pull()
        ref, before = f"refs/heads/{pull.base_ref}", self.repo.refs()[f"refs/heads/{pull.base_ref}"]
        tree = git(self.repo.bare, "merge-tree", "--write-tree", before, pull.head_sha).splitlines()[0]
        words = message or f"Merge pull request #{self.number} from {pull.head_ref}"
        parents = ("-p", before, "-p", pull.head_sha)
        sha = git(self.repo.bare, "commit-tree", tree, *parents, "-m", words)
        git(self.repo.bare, "update-ref", ref, sha, before)
        now = self.github.now()
        pull.merged_at, pull.merged_by, pull.merge_commit_sha = now, by, sha
        self._note("merged", by, commit_id=sha)
        self.close(by=by)
        self.repo.moved(ref, before, sha, by=by)
        if pull.base_ref == self.repo.default_branch:
            for issue in self.closes():
                issue.close(by=by, commit_id=sha)
        return sha

    def closes(self) -> list[Issue]:
        """The issues that this pull request closes by a keyword in its body."""
        return list(self._referred(_CLOSES, self.body or ""))

    def the_pull(self) -> Pull:
        assert self.pull is not None, f"#{self.number} is no pull request"
        return self.pull

    # What follows

    def refer(self, text: str, by: str) -> None:
        """Leave a cross reference in the timeline of every issue that the text names."""
        for other in self._referred(_MENTIONS, text):
            if other is not self:
                stamp = self.github.now()
                entry = {"event": "cross-referenced", "actor": by, "created_at": stamp, "source": self}
                if not any(e["event"] == "cross-referenced" and e["source"] is self for e in other.timeline):
                    other.timeline.append(entry)

    def _referred(self, pattern: re.Pattern[str], text: str) -> Iterable[Issue]:
        for full_name, number in pattern.findall(text):
            repo = self.github.find(full_name) if full_name else self.repo
            if repo is not None and int(number) in repo.numbers:
                yield repo.numbers[int(number)]

    def _note(self, event: str | None, by: str, **more: Any) -> None:
        self.updated_at = self.github.now()
        if event is not None:
            number = self.github.next_id()
            self.timeline.append(
                {"id": number, "event": event, "actor": by, "created_at": self.updated_at, **more}
            )

    def _send(self, action: str, by: str, **more: Any) -> None:
        if self.pull is None:
            self.repo.send("issues", by, action=action, issue=self.shapes.issue(self), **more)
        else:
            pull = self.shapes.pull(self, full=True)
            self.repo.send("pull_request", by, action=action, number=self.number, pull_request=pull, **more)

    def opened(self, by: str) -> None:
        self._send("opened", by)
        self.refer(f"{self.title} {self.body or ''}", by)

    def send_comment(self, action: str, comment: Comment, by: str, **more: Any) -> None:
        parts = {"issue": self.shapes.issue(self), "comment": self.shapes.comment(comment)}
        self.repo.send("issue_comment", by, action=action, **parts, **more)

    def send_review_comment(self, action: str, comment: ReviewComment, by: str, **more: Any) -> None:
        parts = {"pull_request": self.shapes.pull(self), "comment": self.shapes.review_comment(comment)}
        self.repo.send("pull_request_review_comment", by, action=action, **parts, **more)

    def timeline_shapes(self, shapes: Shapes) -> list[dict[str, Any]]:
        """The timeline as GitHub answers it, oldest first."""
        entries = [self._entry(shapes, entry) for entry in self.timeline]
        for comment in self.comments:
            body = shapes.comment(comment)
            entries.append({**body, "event": "commented", "actor": body["user"]})
        return sorted(entries, key=lambda entry: str(entry["created_at"]))

    def _entry(self, shapes: Shapes, entry: dict[str, Any]) -> dict[str, Any]:
        stamp, actor = self.github.stamp(entry["created_at"]), shapes.user(entry["actor"])
        if entry["event"] == "cross-referenced":
            source = {"type": "issue", "issue": self._with_repository(shapes, entry["source"])}
            made = {"event": "cross-referenced", "actor": actor, "created_at": stamp, "updated_at": stamp}
            return {**made, "source": source}
        more = {key: value for key, value in entry.items() if key in ("label", "state_reason", "rename")}
        for key in ("assignee", "requested_reviewer"):
            if key in entry:
                more[key] = shapes.user(entry[key])
        if "requested_reviewer" in more:
            more["review_requester"] = actor
        if "assignee" in more:
            more["assigner"] = actor
        sha = entry.get("commit_id")
        return {
            "id": entry["id"],
            "node_id": node_id("E", entry["id"]),
            "url": f"{shapes.repo_url(self.repo)}/issues/events/{entry['id']}",
            "actor": actor,
            "event": entry["event"],
            "commit_id": sha,
            "commit_url": sha and f"{shapes.repo_url(self.repo)}/commits/{sha}",
            "created_at": stamp,
            "performed_via_github_app": None,
            **more,
        }

    def _with_repository(self, shapes: Shapes, issue: Issue) -> dict[str, Any]:
        return {**shapes.issue(issue), "repository": shapes.repo(issue.repo)}


def react(github: FakeGitHub, reactions: list[Reaction], content: str, by: str) -> tuple[Reaction, bool]:
    """One reaction of a kind for each user: the one that is there, or a new one."""
    login = github.user(by).login
    for reaction in reactions:
        if (reaction.user, reaction.content) == (login, content):
            return reaction, False
    reactions.append(Reaction(github.next_id(), login, content, github.now()))
    return reactions[-1], True


class Issues:
    """The part of a repository that has numbers."""

    github: FakeGitHub
    numbers: dict[int, Issue]
    bare: Any
    default_branch: str

    def issue(
        self,
        title: str,
        body: str | None = None,
        *,
        by: str,
        labels: Iterable[str] = (),
        assignees: Iterable[str] = (),
        quiet: bool = False,
    ) -> Issue:
        """A new issue. Labels and assignees come with events of their own, after `opened`."""
        made = self._made(title, body, by)
        if not quiet:
            made.opened(by)
        made.label(*labels, by=by)
        made.assign(*assignees, by=by)
        return made

    def pull(
        self,
        title: str,
        body: str | None = None,
        *,
        by: str,
        head: str,
        base: str | None = None,
        draft: bool = False,
        files: dict[str, str] | None = None,
    ) -> Issue:
        """A new pull request from a branch of this repository; `files` makes a commit on it first."""
        repo: Any = self
        if files is not None:
            repo.commit(files, branch=head, by=by, message=title)
        base = base or self.default_branch
        refs = repo.refs()
        made = self._made(title, body, by)
        base_sha = refs[f"refs/heads/{base}"]
        pull_id = self.github.next_id()
        made.pull = Pull(pull_id, head, refs[f"refs/heads/{head}"], base, base_sha, draft)
        made.opened(by)
        return made

    def _made(self, title: str, body: str | None, by: str) -> Issue:
        repo: Any = self
        number, now = max(self.numbers, default=0) + 1, self.github.now()
        login = self.github.user(by).login
        issue = Issue(repo, number, self.github.next_id(), title, body, login, now, now)
        self.numbers[number] = issue
        return issue

    def pulls_with_head(self, sha: str) -> list[Issue]:
        """The open pull requests whose head is that commit."""
        return [i for i in self.numbers.values() if i.pull and i.state == "open" and i.pull.head_sha == sha]

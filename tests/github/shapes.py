"""What GitHub's answers and payloads look like: the fake's state as JSON.

An answer of API version 2026-03-10 has no singular `assignee` and no `merge_commit_sha`; older answers and
all webhooks have them.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from tests.github.openapi import NEW_VERSION

if TYPE_CHECKING:
    from tests.github import actions, fake, hooks, issues

Json = dict[str, Any]

_USER_LINKS = {
    "followers_url": "/followers",
    "following_url": "/following{/other_user}",
    "gists_url": "/gists{/gist_id}",
    "starred_url": "/starred{/owner}{/repo}",
    "subscriptions_url": "/subscriptions",
    "organizations_url": "/orgs",
    "repos_url": "/repos",
    "events_url": "/events{/privacy}",
    "received_events_url": "/received_events",
}
_REPOSITORY_LINKS = {
    "archive_url": "/{archive_format}{/ref}",
    "assignees_url": "/assignees{/user}",
    "blobs_url": "/git/blobs{/sha}",
    "branches_url": "/branches{/branch}",
    "collaborators_url": "/collaborators{/collaborator}",
    "comments_url": "/comments{/number}",
    "commits_url": "/commits{/sha}",
    "compare_url": "/compare/{base}...{head}",
    "contents_url": "/contents/{+path}",
    "contributors_url": "/contributors",
    "deployments_url": "/deployments",
    "downloads_url": "/downloads",
    "events_url": "/events",
    "forks_url": "/forks",
    "git_commits_url": "/git/commits{/sha}",
    "git_refs_url": "/git/refs{/sha}",
    "git_tags_url": "/git/tags{/sha}",
    "hooks_url": "/hooks",
    "issue_comment_url": "/issues/comments{/number}",
    "issue_events_url": "/issues/events{/number}",
    "issues_url": "/issues{/number}",
    "keys_url": "/keys{/key_id}",
    "labels_url": "/labels{/name}",
    "languages_url": "/languages",
    "merges_url": "/merges",
    "milestones_url": "/milestones{/number}",
    "notifications_url": "/notifications{?since,all,participating}",
    "pulls_url": "/pulls{/number}",
    "releases_url": "/releases{/id}",
    "stargazers_url": "/stargazers",
    "statuses_url": "/statuses/{sha}",
    "subscribers_url": "/subscribers",
    "subscription_url": "/subscription",
    "tags_url": "/tags",
    "teams_url": "/teams",
    "trees_url": "/git/trees{/sha}",
}
ROLES = ("none", "read", "triage", "write", "maintain", "admin")


def node_id(kind: str, number: int) -> str:
    return base64.b64encode(f"{kind}{number}".encode()).decode()


class Shapes:
    """Makes bodies of one API version; `version=None` is what webhooks send."""

    def __init__(self, github: fake.FakeGitHub, version: str | None = None) -> None:
        self.github, self.version = github, version
        self.old = version != NEW_VERSION

    def repo_url(self, repo: fake.Repository) -> str:
        return f"{self.github.api_url}/repos/{repo.full_name}"

    def user(self, login: str | None) -> Json | None:
        return None if login is None else self.known_user(login)

    def known_user(self, login: str) -> Json:
        user = self.github.user(login)
        api, html = f"{self.github.api_url}/users/{user.login}", f"{self.github.html_url}/{user.login}"
        return {
            "login": user.login,
            "id": user.id,
            "node_id": node_id("U", user.id),
            "avatar_url": f"{self.github.html_url}/avatars/{user.id}",
            "gravatar_id": "",
            "url": api,
            "html_url": html,
            **{key: api + rest for key, rest in _USER_LINKS.items()},
            "type": user.kind,
            "site_admin": False,
            "user_view_type": "public",
        }

    def organization(self, login: str) -> Json:
        user, url = self.github.user(login), f"{self.github.api_url}/orgs/{login}"
        links = ("repos", "events", "hooks", "issues")
        return {
            "login": user.login,
            "id": user.id,
            "node_id": node_id("O", user.id),
            "url": url,
            **{f"{name}_url": f"{url}/{name}" for name in links},
            "members_url": f"{url}/members{{/member}}",
            "public_members_url": f"{url}/public_members{{/member}}",
            "avatar_url": f"{self.github.html_url}/avatars/{user.id}",
            "description": None,
        }

    def myself(self, login: str) -> Json:
        stamp = self.github.stamp(0)
        counts = ("public_repos", "public_gists", "followers", "following", "private_gists", "collaborators")
        more = ("total_private_repos", "owned_private_repos", "disk_usage")
        nothing = dict.fromkeys(("company", "location", "email", "hireable", "bio", "name"))
        return {
            **self.known_user(login),
            **nothing,
            **dict.fromkeys((*counts, *more), 0),
            "blog": "",
            "created_at": stamp,
            "updated_at": stamp,
            "two_factor_authentication": True,
        }

    def short_repo(self, repo: fake.Repository) -> Json:
        url, html = self.repo_url(repo), f"{self.github.html_url}/{repo.full_name}"
        return {
            "id": repo.id,
            "node_id": node_id("R", repo.id),
            "name": repo.name,
            "full_name": repo.full_name,
            "owner": self.known_user(repo.owner),
            "private": repo.private,
            "html_url": html,
            "description": None,
            "fork": False,
            "url": url,
            **{key: url + rest for key, rest in _REPOSITORY_LINKS.items()},
        }

    def repo(self, repo: fake.Repository) -> Json:
        html = f"{self.github.html_url}/{repo.full_name}"
        count = sum(issue.state == "open" for issue in repo.numbers.values())
        zeros = ("forks", "forks_count", "stargazers_count", "watchers", "watchers_count", "size")
        switches = (
            "has_projects",
            "has_wiki",
            "has_pages",
            "has_discussions",
            "has_downloads",
            "is_template",
        )
        return {
            **self.short_repo(repo),
            **dict.fromkeys(zeros, 0),
            **dict.fromkeys((*switches, "archived", "disabled", "web_commit_signoff_required"), False),
            "has_issues": True,
            "allow_forking": True,
            "clone_url": f"{html}.git",
            "git_url": f"{html}.git".replace("http:", "git:"),
            "ssh_url": f"git@{self.github.host}:{repo.full_name}.git",
            "svn_url": html,
            "mirror_url": None,
            "homepage": None,
            "language": None,
            "license": None,
            "topics": [],
            "visibility": "private" if repo.private else "public",
            "default_branch": repo.default_branch,
            "open_issues": count,
            "open_issues_count": count,
            "created_at": self.github.stamp(repo.created_at),
            "updated_at": self.github.stamp(repo.created_at),
            "pushed_at": self.github.stamp(repo.pushed_at),
        }

    def full_repo(self, repo: fake.Repository, login: str | None) -> Json:
        has = ROLES.index(repo.role(login))
        pairs = {
            "pull": "read",
            "triage": "triage",
            "push": "write",
            "maintain": "maintain",
            "admin": "admin",
        }
        permissions = {name: has >= ROLES.index(role) for name, role in pairs.items()}
        return {**self.repo(repo), "network_count": 0, "subscribers_count": 0, "permissions": permissions}

    def label(self, repo: fake.Repository, name: str) -> Json:
        label = repo.label_named(name)
        assert label is not None, name
        return {
            "id": label.id,
            "node_id": node_id("LA", label.id),
            "url": f"{self.repo_url(repo)}/labels/{label.name}",
            "name": label.name,
            "color": label.color,
            "default": False,
            "description": label.description,
        }

    def issue(self, issue: issues.Issue) -> Json:
        repo, url = issue.repo, f"{self.repo_url(issue.repo)}/issues/{issue.number}"
        word = "issues" if issue.pull is None else "pull"
        done = sum(child.state == "closed" for child in issue.children)
        percent = done * 100 // len(issue.children) if issue.children else 0
        body: Json = {
            "url": url,
            "repository_url": self.repo_url(repo),
            "labels_url": f"{url}/labels{{/name}}",
            "comments_url": f"{url}/comments",
            "events_url": f"{url}/events",
            "timeline_url": f"{url}/timeline",
            "html_url": f"{self.github.html_url}/{repo.full_name}/{word}/{issue.number}",
            "id": issue.id,
            "node_id": node_id("I", issue.id),
            "number": issue.number,
            "title": issue.title,
            "user": self.user(issue.user),
            "labels": [self.label(repo, name) for name in issue.labels],
            "state": issue.state,
            "locked": issue.locked,
            "assignees": [self.known_user(login) for login in issue.assignees],
            "milestone": None,
            "comments": len(issue.comments),
            "created_at": self.github.stamp(issue.created_at),
            "updated_at": self.github.stamp(issue.updated_at),
            "closed_at": self.github.maybe(issue.closed_at),
            "closed_by": self.user(issue.closed_by),
            "author_association": repo.association(issue.user),
            "active_lock_reason": None,
            "body": issue.body,
            "reactions": self.reaction_counts(url, issue.reactions),
            "performed_via_github_app": None,
            "state_reason": issue.state_reason,
            "sub_issues_summary": {
                "total": len(issue.children),
                "completed": done,
                "percent_completed": percent,
            },
            "issue_dependencies_summary": issue.dependency_counts(),
        }
        if issue.parent is not None:
            parent = issue.parent
            body["parent_issue_url"] = f"{self.repo_url(parent.repo)}/issues/{parent.number}"
        if self.old:
            body["assignee"] = self.user(issue.assignees[0]) if issue.assignees else None
        if issue.pull is not None:
            pull_url = f"{self.repo_url(repo)}/pulls/{issue.number}"
            body["draft"] = issue.pull.draft
            body["pull_request"] = {
                "url": pull_url,
                "html_url": body["html_url"],
                "diff_url": f"{body['html_url']}.diff",
                "patch_url": f"{body['html_url']}.patch",
                "merged_at": self.github.maybe(issue.pull.merged_at),
            }
        if self.version is None:
            del body["closed_by"]
        return body

    def search_item(self, issue: issues.Issue) -> Json:
        body = {**self.issue(issue), "score": 1.0}
        del body["closed_by"]
        if body["body"] is None:  # described as a text, if it is there
            del body["body"]
        return body

    def reaction_counts(self, url: str, reactions: list[issues.Reaction]) -> Json:
        kinds = ("+1", "-1", "laugh", "confused", "heart", "hooray", "rocket", "eyes")
        counts = {kind: sum(r.content == kind for r in reactions) for kind in kinds}
        return {"url": f"{url}/reactions", "total_count": len(reactions), **counts}

    def comment(self, comment: issues.Comment) -> Json:
        issue, repo = comment.issue, comment.issue.repo
        url = f"{self.repo_url(repo)}/issues/comments/{comment.id}"
        word = "issues" if issue.pull is None else "pull"
        html = f"{self.github.html_url}/{repo.full_name}/{word}/{issue.number}#issuecomment-{comment.id}"
        app = comment.user.removesuffix("[bot]")
        return {
            "url": url,
            "html_url": html,
            "issue_url": f"{self.repo_url(repo)}/issues/{issue.number}",
            "id": comment.id,
            "node_id": node_id("IC", comment.id),
            "user": self.user(comment.user),
            "created_at": self.github.stamp(comment.created_at),
            "updated_at": self.github.stamp(comment.updated_at),
            "body": comment.body,
            "author_association": repo.association(comment.user),
            "reactions": self.reaction_counts(url, comment.reactions),
            "performed_via_github_app": self.app(app) if app in self.github.apps else None,
        }

    def reaction(self, reaction: issues.Reaction) -> Json:
        return {
            "id": reaction.id,
            "node_id": node_id("RE", reaction.id),
            "user": self.user(reaction.user),
            "content": reaction.content,
            "created_at": self.github.stamp(reaction.created_at),
        }

    def pull(self, issue: issues.Issue, *, full: bool = False) -> Json:
        pull, repo = issue.pull, issue.repo
        assert pull is not None
        url, number = f"{self.repo_url(repo)}/pulls/{issue.number}", issue.number
        html = f"{self.github.html_url}/{repo.full_name}/pull/{number}"
        issue_url = f"{self.repo_url(repo)}/issues/{number}"
        statuses = f"{self.repo_url(repo)}/statuses/{pull.head_sha}"
        links = {
            "self": url,
            "html": html,
            "issue": issue_url,
            "comments": f"{issue_url}/comments",
            "review_comments": f"{url}/comments",
            "review_comment": f"{self.repo_url(repo)}/pulls/comments{{/number}}",
            "commits": f"{url}/commits",
            "statuses": statuses,
        }
        body = {
            "url": url,
            "id": pull.id,
            "node_id": node_id("PR", pull.id),
            "html_url": html,
            "diff_url": f"{html}.diff",
            "patch_url": f"{html}.patch",
            "issue_url": issue_url,
            "number": number,
            "state": issue.state,
            "locked": issue.locked,
            "title": issue.title,
            "user": self.user(issue.user),
            "body": issue.body,
            "created_at": self.github.stamp(issue.created_at),
            "updated_at": self.github.stamp(issue.updated_at),
            "closed_at": self.github.maybe(issue.closed_at),
            "merged_at": self.github.maybe(pull.merged_at),
            "assignees": [self.known_user(login) for login in issue.assignees],
            "requested_reviewers": [self.known_user(login) for login in pull.reviewers],
            "requested_teams": [],
            "labels": [self.label(repo, name) for name in issue.labels],
            "milestone": None,
            "draft": pull.draft,
            "commits_url": links["commits"],
            "review_comments_url": links["review_comments"],
            "review_comment_url": links["review_comment"],
            "comments_url": links["comments"],
            "statuses_url": statuses,
            "head": self._end(repo, pull.head_ref, pull.head_sha),
            "base": self._end(repo, pull.base_ref, pull.base_sha),
            "_links": {key: {"href": value} for key, value in links.items()},
            "author_association": repo.association(issue.user),
            "auto_merge": None,
            "active_lock_reason": None,
        }
        if self.old:
            body["assignee"] = self.user(issue.assignees[0]) if issue.assignees else None
            body["merge_commit_sha"] = pull.merge_commit_sha
        if full:
            commits, files = repo.compared(pull.base_sha, pull.head_sha)
            body |= {
                "merged": pull.merged_at is not None,
                "mergeable": None if issue.state == "closed" else True,
                "rebaseable": None if issue.state == "closed" else True,
                "mergeable_state": "unknown" if issue.state == "closed" else "clean",
                "merged_by": self.user(pull.merged_by),
                "comments": len(issue.comments),
                "review_comments": len(pull.review_comments),
                "maintainer_can_modify": False,
                "commits": len(commits),
                "additions": sum(file.added for file in files),
                "deletions": sum(file.deleted for file in files),
                "changed_files": len(files),
            }
        return body

    def _end(self, repo: fake.Repository, ref: str, sha: str) -> Json:
        owner = self.known_user(repo.owner)
        return {
            "label": f"{repo.owner}:{ref}",
            "ref": ref,
            "sha": sha,
            "user": owner,
            "repo": self.repo(repo),
        }

    def small_pull(self, issue: issues.Issue) -> Json:
        assert issue.pull is not None
        repo = {"id": issue.repo.id, "url": self.repo_url(issue.repo), "name": issue.repo.name}
        return {
            "id": issue.pull.id,
            "number": issue.number,
            "url": f"{self.repo_url(issue.repo)}/pulls/{issue.number}",
            "head": {"ref": issue.pull.head_ref, "sha": issue.pull.head_sha, "repo": repo},
            "base": {"ref": issue.pull.base_ref, "sha": issue.pull.base_sha, "repo": repo},
        }

    def review(self, review: issues.Review) -> Json:
        issue = review.issue
        url = f"{self.repo_url(issue.repo)}/pulls/{issue.number}"
        html = f"{self.github.html_url}/{issue.repo.full_name}/pull/{issue.number}"
        state = review.state.upper() if self.version is not None else review.state.lower()
        body = {
            "id": review.id,
            "node_id": node_id("PRR", review.id),
            "user": self.user(review.user),
            "body": review.body if self.version is not None else review.body or None,
            "state": state,
            "html_url": f"{html}#pullrequestreview-{review.id}",
            "pull_request_url": url,
            "_links": {
                "html": {"href": f"{html}#pullrequestreview-{review.id}"},
                "pull_request": {"href": url},
            },
            "commit_id": review.commit_id,
            "author_association": issue.repo.association(review.user),
        }
        if review.submitted_at is not None:
            body["submitted_at"] = self.github.stamp(review.submitted_at)
        return body

    def review_comment(self, comment: issues.ReviewComment) -> Json:
        issue = comment.issue
        url = f"{self.repo_url(issue.repo)}/pulls/comments/{comment.id}"
        pull_url = f"{self.repo_url(issue.repo)}/pulls/{issue.number}"
        html = f"{self.github.html_url}/{issue.repo.full_name}/pull/{issue.number}#discussion_r{comment.id}"
        body = {
            "url": url,
            "pull_request_review_id": comment.review_id,
            "id": comment.id,
            "node_id": node_id("PRRC", comment.id),
            "diff_hunk": "@@ -1 +1 @@",
            "path": comment.path,
            "commit_id": comment.commit_id,
            "original_commit_id": comment.commit_id,
            "user": self.user(comment.user),
            "body": comment.body,
            "created_at": self.github.stamp(comment.created_at),
            "updated_at": self.github.stamp(comment.updated_at),
            "html_url": html,
            "pull_request_url": pull_url,
            "author_association": issue.repo.association(comment.user),
            "_links": {"self": {"href": url}, "html": {"href": html}, "pull_request": {"href": pull_url}},
            "start_line": None,
            "original_start_line": None,
            "start_side": None,
            "line": comment.line,
            "original_line": comment.line,
            "side": "RIGHT",
            "original_position": 1,
            "position": 1,
            "subject_type": "line",
            "reactions": self.reaction_counts(url, comment.reactions),
        }
        if comment.in_reply_to is not None:
            body["in_reply_to_id"] = comment.in_reply_to
        return body

    def app(self, slug: str) -> Json:
        app = self.github.app_named(slug)
        return {
            "id": app.id,
            "client_id": f"Iv1.{app.id}",
            "slug": app.slug,
            "node_id": node_id("A", app.id),
            "owner": self.known_user(app.owner),
            "name": app.slug,
            "description": "",
            "external_url": f"{self.github.html_url}/apps/{app.slug}",
            "html_url": f"{self.github.html_url}/apps/{app.slug}",
            "created_at": self.github.stamp(0),
            "updated_at": self.github.stamp(0),
            "permissions": {"issues": "write", "checks": "write", "metadata": "read", "contents": "write"},
            "events": ["issues", "pull_request"],
        }

    def installation(self, slug: str) -> Json:
        number = self.github.app_named(slug).installation_id
        return {"id": number, "node_id": node_id("MDIzOkludGVncmF0aW9u", number)}

    def commit_line(self, repo: fake.Repository, sha: str) -> Json:
        commit = repo.commit_named(sha)
        who = {"name": commit.author, "email": commit.email}
        return {
            "id": commit.sha,
            "tree_id": commit.tree,
            "message": commit.message,
            "timestamp": self.github.stamp(commit.at),
            "author": who,
            "committer": who,
        }

    def commit(self, repo: fake.Repository, sha: str) -> Json:
        commit, url = repo.commit_named(sha), f"{self.repo_url(repo)}/commits/{sha}"
        git_url = f"{self.repo_url(repo)}/git"
        html = f"{self.github.html_url}/{repo.full_name}/commit"
        who = {"name": commit.author, "email": commit.email, "date": self.github.stamp(commit.at)}
        parents = [
            {"sha": p, "url": f"{self.repo_url(repo)}/commits/{p}", "html_url": f"{html}/{p}"}
            for p in commit.parents
        ]
        return {
            "sha": sha,
            "node_id": node_id("C", repo.id) + sha,
            "commit": {
                "author": who,
                "committer": who,
                "message": commit.message,
                "tree": {"sha": commit.tree, "url": f"{git_url}/trees/{commit.tree}"},
                "url": f"{git_url}/commits/{sha}",
                "comment_count": 0,
                "verification": self._verification(),
            },
            "url": url,
            "html_url": f"{html}/{sha}",
            "comments_url": f"{url}/comments",
            "author": None,
            "committer": None,
            "parents": parents,
        }

    def git_commit(self, repo: fake.Repository, sha: str) -> Json:
        whole = self.commit(repo, sha)
        inner = whole["commit"]
        return {
            "sha": sha,
            "node_id": whole["node_id"],
            "url": inner["url"],
            "html_url": whole["html_url"],
            **{key: inner[key] for key in ("author", "committer", "tree", "message", "verification")},
            "parents": whole["parents"],
        }

    def _verification(self) -> Json:
        nothing = dict.fromkeys(("signature", "payload", "verified_at"))
        return {"verified": False, "reason": "unsigned", **nothing}

    def ref(self, repo: fake.Repository, ref: str, sha: str) -> Json:
        url = self.repo_url(repo)
        return {
            "ref": ref,
            "node_id": node_id("REF", repo.id) + base64.b64encode(ref.encode()).decode(),
            "url": f"{url}/git/{ref}",
            "object": {"sha": sha, "type": "commit", "url": f"{url}/git/commits/{sha}"},
        }

    def status(self, repo: fake.Repository, status: actions.Status, *, simple: bool = False) -> Json:
        body = {
            "url": f"{self.repo_url(repo)}/statuses/{status.sha}",
            "avatar_url": f"{self.github.html_url}/avatars/{self.github.user(status.creator).id}",
            "id": status.id,
            "node_id": node_id("SC", status.id),
            "state": status.state,
            "description": status.description,
            "target_url": status.target_url,
            "context": status.context,
            "created_at": self.github.stamp(status.created_at),
            "updated_at": self.github.stamp(status.created_at),
        }
        return body if simple else {**body, "creator": self.user(status.creator)}

    def combined_status(self, repo: fake.Repository, sha: str) -> Json:
        newest = repo.newest_statuses(sha)
        states = {status.state for status in newest}
        failed = "failure" if states & {"failure", "error"} else None
        state = failed or ("pending" if "pending" in states or not states else "success")
        url = f"{self.repo_url(repo)}/commits/{sha}"
        return {
            "state": state,
            "statuses": [self.status(repo, status, simple=True) for status in newest],
            "sha": sha,
            "total_count": len(newest),
            "repository": self.short_repo(repo),
            "commit_url": url,
            "url": f"{url}/status",
        }

    def check_run(self, run: actions.CheckRun) -> Json:
        url = f"{self.repo_url(run.repo)}/check-runs/{run.id}"
        html = f"{self.github.html_url}/{run.repo.full_name}/runs/{run.id}"
        suite: Json = {"id": run.suite.id}
        if self.version is None:
            suite = self.check_suite(run.suite)
            del suite["latest_check_runs_count"], suite["check_runs_url"], suite["head_commit"]
            del suite["repository"], suite["runs_rerequestable"], suite["rerequestable"]
        return {
            "id": run.id,
            "name": run.name,
            "node_id": node_id("CR", run.id),
            "head_sha": run.suite.head_sha,
            "external_id": run.external_id,
            "url": url,
            "html_url": html,
            "details_url": run.details_url or html,
            "status": run.status,
            "conclusion": run.conclusion,
            "started_at": self.github.stamp(run.started_at),
            "completed_at": self.github.maybe(run.completed_at),
            "output": {
                "title": run.output.get("title"),
                "summary": run.output.get("summary"),
                "text": run.output.get("text"),
                "annotations_count": 0,
                "annotations_url": f"{url}/annotations",
            },
            "check_suite": suite,
            "app": self.app(run.suite.app),
            "pull_requests": [self.small_pull(pull) for pull in run.repo.pulls_with_head(run.suite.head_sha)],
        }

    def check_suite(self, suite: actions.CheckSuite) -> Json:
        repo, url = suite.repo, f"{self.repo_url(suite.repo)}/check-suites/{suite.id}"
        return {
            "id": suite.id,
            "node_id": node_id("CS", suite.id),
            "head_branch": suite.head_branch,
            "head_sha": suite.head_sha,
            "status": suite.status,
            "conclusion": suite.conclusion,
            "url": url,
            "before": None,
            "after": suite.head_sha,
            "pull_requests": [self.small_pull(pull) for pull in repo.pulls_with_head(suite.head_sha)],
            "app": self.app(suite.app),
            "created_at": self.github.stamp(suite.created_at),
            "updated_at": self.github.stamp(suite.created_at),
            "rerequestable": True,
            "runs_rerequestable": True,
            "latest_check_runs_count": len(suite.runs),
            "check_runs_url": f"{url}/check-runs",
            "head_commit": self.commit_line(repo, suite.head_sha),
            "repository": self.short_repo(repo),
        }

    def workflow(self, workflow: actions.Workflow) -> Json:
        repo = workflow.repo
        html = f"{self.github.html_url}/{repo.full_name}"
        return {
            "id": workflow.id,
            "node_id": node_id("W", workflow.id),
            "name": workflow.name,
            "path": workflow.path,
            "state": "active",
            "created_at": self.github.stamp(workflow.created_at),
            "updated_at": self.github.stamp(workflow.created_at),
            "url": f"{self.repo_url(repo)}/actions/workflows/{workflow.id}",
            "html_url": f"{html}/blob/{repo.default_branch}/{workflow.path}",
            "badge_url": f"{html}/workflows/{workflow.name}/badge.svg",
        }

    def workflow_run(self, run: actions.WorkflowRun, attempt: int | None = None) -> Json:
        at, repo = run.attempts[(attempt or len(run.attempts)) - 1], run.repo
        url = f"{self.repo_url(repo)}/actions/runs/{run.id}"
        html = f"{self.github.html_url}/{repo.full_name}/actions/runs/{run.id}"
        previous = f"{url}/attempts/{at.number - 1}" if at.number > 1 else None
        return {
            "id": run.id,
            "name": run.workflow.name,
            "node_id": node_id("WFR", run.id),
            "head_branch": run.head_branch,
            "head_sha": run.head_sha,
            "path": run.workflow.path,
            "display_title": run.title,
            "run_number": run.number,
            "event": run.event,
            "status": at.status,
            "conclusion": at.conclusion,
            "workflow_id": run.workflow.id,
            "check_suite_id": run.suite.id,
            "check_suite_node_id": node_id("CS", run.suite.id),
            "url": url,
            "html_url": html,
            "pull_requests": [self.small_pull(pull) for pull in repo.pulls_with_head(run.head_sha)],
            "created_at": self.github.stamp(run.created_at),
            "updated_at": self.github.stamp(at.updated_at),
            "actor": self.user(run.actor),
            "triggering_actor": self.user(at.actor),
            "run_attempt": at.number,
            "referenced_workflows": [],
            "run_started_at": self.github.stamp(at.started_at),
            "jobs_url": f"{url}/jobs",
            "logs_url": f"{url}/logs",
            "check_suite_url": f"{self.repo_url(repo)}/check-suites/{run.suite.id}",
            "artifacts_url": f"{url}/artifacts",
            "cancel_url": f"{url}/cancel",
            "rerun_url": f"{url}/rerun",
            "previous_attempt_url": previous,
            "workflow_url": f"{self.repo_url(repo)}/actions/workflows/{run.workflow.id}",
            "head_commit": self.commit_line(repo, run.head_sha),
            "repository": self.short_repo(repo),
            "head_repository": self.short_repo(repo),
        }

    def job(self, job: actions.Job) -> Json:
        run, url = job.run, f"{self.repo_url(job.run.repo)}/actions"
        html = f"{self.github.html_url}/{run.repo.full_name}/actions/runs/{run.id}/job/{job.id}"
        return {
            "id": job.id,
            "run_id": run.id,
            "workflow_name": run.workflow.name,
            "head_branch": run.head_branch,
            "run_url": f"{url}/runs/{run.id}",
            "run_attempt": job.attempt,
            "node_id": node_id("J", job.id),
            "head_sha": run.head_sha,
            "url": f"{url}/jobs/{job.id}",
            "html_url": html,
            "status": job.status,
            "conclusion": job.conclusion,
            "created_at": self.github.stamp(job.started_at),
            "started_at": self.github.stamp(job.started_at),
            "completed_at": self.github.maybe(job.completed_at),
            "name": job.name,
            "steps": [],
            "check_run_url": f"{self.repo_url(run.repo)}/check-runs/{job.id}",
            "labels": ["ubuntu-latest"],
            "runner_id": None,
            "runner_name": None,
            "runner_group_id": None,
            "runner_group_name": None,
        }

    def artifact(self, artifact: actions.Artifact) -> Json:
        url = f"{self.repo_url(artifact.run.repo)}/actions/artifacts/{artifact.id}"
        return {
            "id": artifact.id,
            "node_id": node_id("AR", artifact.id),
            "name": artifact.name,
            "size_in_bytes": len(artifact.content),
            "url": url,
            "archive_download_url": f"{url}/zip",
            "expired": artifact.expires_at <= self.github.now(),
            "created_at": self.github.stamp(artifact.created_at),
            "expires_at": self.github.stamp(artifact.expires_at),
            "updated_at": self.github.stamp(artifact.created_at),
        }

    def hook(self, hook: hooks.Hook) -> Json:
        url = (
            f"{self.repo_url(hook.repo)}/hooks/{hook.id}" if hook.repo else f"{self.github.api_url}/app/hook"
        )
        return {
            "type": "Repository",
            "id": hook.id,
            "name": "web",
            "active": hook.active,
            "events": list(hook.events),
            "config": self.hook_config(hook),
            "updated_at": self.github.stamp(hook.created_at),
            "created_at": self.github.stamp(hook.created_at),
            "url": url,
            "test_url": f"{url}/test",
            "ping_url": f"{url}/pings",
            "deliveries_url": f"{url}/deliveries",
            "last_response": {"code": None, "status": "unused", "message": None},
        }

    def hook_config(self, hook: hooks.Hook) -> Json:
        config = {
            "content_type": "json",
            "insecure_ssl": "0",
            "url": hook.url or f"{self.github.html_url}/nowhere",
        }
        return {**config, "secret": "********"} if hook.secret else config

    def delivery(self, delivery: hooks.Delivery, *, full: bool = False) -> Json:
        body: Json = {
            "id": delivery.id,
            "guid": delivery.guid,
            "delivered_at": self.github.stamp(delivery.at),
            "redelivery": delivery.redelivery,
            "duration": 0.1,
            "status": "OK" if delivery.status_code == 202 else "Invalid HTTP Response: failed",
            "status_code": delivery.status_code,
            "event": delivery.event,
            "action": delivery.action,
            "installation_id": None,
            "repository_id": delivery.hook.repo.id if delivery.hook.repo else None,
            "throttled_at": None,
        }
        if full:
            body["url"] = delivery.hook.url or ""
            body["request"] = {"headers": delivery.headers, "payload": delivery.payload}
            body["response"] = {"headers": {}, "payload": ""}
        return body

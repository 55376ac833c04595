"""A GitHub for tests: stateful, small, and as strict as the real one where Interlock depends on it.

    github = FakeGitHub(tmp_path)
    repo = github.repository("acme/app", write=["alice"])
    issue = repo.issue("It is broken", by="bob", labels=["bug"])
    issue.comment("please look", by="alice")          # a delivery of `issue_comment.created`

A test changes the state with such calls, and what is under test does it over HTTP (`server.py`). Both go
through the same methods, so both cause the same deliveries, timeline entries and workflow runs. Refs are
those of a real bare repository. `faults` makes the server lose, delay or refuse. Times are whole seconds of
`github.clock`, which a test can move.
"""

from __future__ import annotations

import copy
import itertools
import os
import re
import secrets
import subprocess
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from tests.git_fixtures import IDENTITY, git, make_bare
from tests.github.actions import Checks
from tests.github.faults import Faults
from tests.github.hooks import Delivery, Hook, Sender, made
from tests.github.issues import Issue, Issues
from tests.github.shapes import ROLES, Shapes

ACTIONS_BOT = "github-actions[bot]"
COPILOT, COPILOT_ASSIGNEE = "Copilot", "copilot-swe-agent[bot]"
BOTS = {COPILOT}
_STEPS_OF_A_NAME = re.compile(r"^[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+$")


class Refused(Exception):
    """An answer that is no success: status, message and, for 422, what is wrong."""

    def __init__(
        self,
        status: int,
        message: str,
        errors: list[Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.errors, self.headers = status, message, errors, headers or {}


def not_found() -> Refused:
    return Refused(404, "Not Found")


def invalid(message: str, **error: str) -> Refused:
    """The usual 422."""
    return Refused(422, message, [error] if error else None)


class Clock:
    """Epoch seconds; a test may move it."""

    def __init__(self) -> None:
        self._stopped_at: float | None = None
        self._ahead_s = 0.0

    def __call__(self) -> float:
        return (time.time() if self._stopped_at is None else self._stopped_at) + self._ahead_s

    def advance(self, seconds: float) -> None:
        self._ahead_s += seconds

    def stop(self, at: float) -> None:
        """From now on it is `at`, and only `advance` moves it: what happens can be repeated exactly."""
        self._stopped_at, self._ahead_s = at, 0.0


@dataclass(frozen=True)
class User:
    id: int
    login: str
    kind: str


@dataclass
class Label:
    id: int
    name: str
    color: str = "ededed"
    description: str | None = None


@dataclass(frozen=True)
class App:
    id: int
    slug: str
    owner: str
    installation_id: int
    #: The public half of the key with which the app signs; without one, every JWT is believed.
    public_key: str | None = None


@dataclass(eq=False)
class Token:
    """Whom a request speaks for, and what it may."""

    text: str
    kind: str  # user, actions, installation, app
    login: str
    permissions: dict[str, str] | None = None
    repo_id: int | None = None
    expires_at: float | None = None
    scopes: tuple[str, ...] = ("repo", "workflow")
    app: str | None = None


@dataclass(frozen=True)
class Commit:
    sha: str
    tree: str
    parents: tuple[str, ...]
    author: str
    email: str
    at: int
    message: str


@dataclass(frozen=True)
class ChangedFile:
    path: str
    added: int
    deleted: int


# What git names by its contents does not change. A process for each look would cost more than the rest.


@lru_cache(maxsize=4_096)
def _commit_named(bare: Path, sha: str) -> Commit:
    text = git(bare, "show", "-s", "--format=%T%n%P%n%an%n%ae%n%ct%n%B", sha)
    tree, parents, author, email, at, *message = text.split("\n")
    return Commit(sha, tree, tuple(parents.split()), author, email, int(at), "\n".join(message).strip())


@lru_cache(maxsize=4_096)
def _blob(bare: Path, sha: str) -> bytes:
    command = ["git", "cat-file", "blob", sha]
    return subprocess.run(command, cwd=bare, capture_output=True, check=True).stdout


@lru_cache(maxsize=4_096)
def blob_named(bare: Path, commit: str, path: str) -> str | None:
    """The blob that a commit has at a path."""
    if git(bare, "cat-file", "-t", f"{commit}:{path}", check=False) != "blob":
        return None
    return git(bare, "rev-parse", f"{commit}:{path}")


@dataclass(eq=False)
class Repository(Issues, Checks):
    """One repository: its name may change, its id never does."""

    github: FakeGitHub
    id: int
    full_name: str
    bare: Path
    created_at: int
    private: bool = False
    default_branch: str = "main"
    roles: dict[str, str] = field(default_factory=dict)
    labels: dict[str, Label] = field(default_factory=dict)
    hooks: dict[int, Hook] = field(default_factory=dict)
    #: Refs as they were when reads went stale.
    frozen_refs: dict[str, str] | None = None
    pushed_at: int = 0
    hosted_agent: bool = False

    def __post_init__(self) -> None:
        self.numbers: dict[int, Issue] = {}
        self.pushed_at = self.created_at
        self.init_checks()

    @property
    def owner(self) -> str:
        return self.full_name.split("/")[0]

    @property
    def name(self) -> str:
        return self.full_name.split("/")[1]

    @property
    def clone_url(self) -> str:
        return f"{self.github.html_url}/{self.full_name}.git"

    # Who may do what

    def role(self, login: str | None) -> str:
        if login is not None and login.lower() == self.owner.lower():
            return "admin"
        return self.roles.get((login or "").lower(), "none" if self.private else "read")

    def may(self, login: str | None, role: str) -> bool:
        return ROLES.index(self.role(login)) >= ROLES.index(role)

    def collaborator(self, login: str, role: str = "write") -> None:
        self.roles[self.github.user(login).login.lower()] = role

    def is_collaborator(self, login: str) -> bool:
        return login.lower() == self.owner.lower() or login.lower() in self.roles

    def association(self, login: str | None) -> str:
        if login is not None and login.lower() == self.owner.lower():
            return "OWNER"
        return "COLLABORATOR" if (login or "").lower() in self.roles else "NONE"

    def assignable(self, login: str, by: str) -> str | None:
        """The login that an assignment of `login` results in; None where GitHub drops it silently."""
        if login.lower() == COPILOT_ASSIGNEE:
            from_a_user = self.github.user(by).kind == "User"
            return COPILOT if self.hosted_agent and from_a_user else None
        return self.github.user(login).login if self.is_collaborator(login) else None

    # Labels

    def label_named(self, name: str) -> Label | None:
        return self.labels.get(name.lower())

    def make_label(
        self, name: str, *, by: str, color: str = "ededed", description: str | None = None
    ) -> Label:
        label = self.labels[name.lower()] = Label(self.github.next_id(), name, color, description)
        self.send("label", by, action="created", label=self.hook_shapes.label(self, name))
        return label

    # Names

    def rename(self, name: str, *, by: str) -> None:
        """A new name; the old one leads here with redirects until another repository takes it."""
        old = self.name
        self._named(f"{self.owner}/{name}")
        self.send("repository", by, action="renamed", changes={"repository": {"name": {"from": old}}})

    def transfer(self, owner: str, *, by: str) -> None:
        """To another owner, under the same name; the old address leads here."""
        old = {"user": self.hook_shapes.known_user(self.owner)}
        if self.github.user(self.owner).kind == "Organization":
            old = {"organization": self.hook_shapes.organization(self.owner)}
        self._named(f"{owner}/{self.name}")
        self.send("repository", by, action="transferred", changes={"owner": {"from": old}})

    def _named(self, full_name: str) -> None:
        self.github.names.pop(self.full_name.lower())
        self.github.old_names[self.full_name.lower()] = self.id
        self.full_name = full_name
        self.github.names[full_name.lower()] = self.id
        self.github.old_names.pop(full_name.lower(), None)

    # Git

    def refs(self) -> dict[str, str]:
        if self.frozen_refs is not None:
            return self.frozen_refs
        lines = git(self.bare, "for-each-ref", "--format=%(refname) %(objectname)").splitlines()
        return dict(line.split(" ", 1) for line in lines)

    def sha_of(self, name: str) -> str | None:
        """The commit that a sha, branch or full ref stands for."""
        refs = self.refs()
        for ref in (name, f"refs/heads/{name}", f"refs/tags/{name}", f"refs/{name}"):
            if ref in refs:
                return refs[ref]
        if re.fullmatch(r"[0-9a-f]{40}", name) and self.has(name):
            return name
        return None

    def has(self, sha: str) -> bool:
        return git(self.bare, "cat-file", "-t", sha, check=False) == "commit"

    def commit_named(self, sha: str) -> Commit:
        return _commit_named(self.bare, sha)

    def blob(self, sha: str) -> bytes:
        return _blob(self.bare, sha)

    def compared(self, base: str, head: str) -> tuple[list[str], list[ChangedFile]]:
        """Commits of head that base lacks, oldest first, and the files that differ."""
        commits = git(self.bare, "rev-list", "--reverse", f"{base}..{head}").splitlines()
        lines = git(self.bare, "diff", "--numstat", f"{base}...{head}", check=False).splitlines()
        files = []
        for line in lines:
            added, deleted, path = line.split("\t")
            files.append(ChangedFile(path, *(0 if n == "-" else int(n) for n in (added, deleted))))
        return commits, files

    def commit(
        self,
        files: dict[str, str],
        *,
        by: str = "",
        branch: str | None = None,
        message: str = "a change",
        parent: str | None = None,
    ) -> str:
        """A commit on a branch, as if somebody had pushed it: events and all. Its id."""
        ref = f"refs/heads/{branch or self.default_branch}"
        refs = self.refs()
        before = refs.get(ref)
        start = parent or before or refs.get(f"refs/heads/{self.default_branch}")
        sha = self._imported(ref, start, files, message)
        if by:
            self.moved(ref, before, sha, by=by)
        return sha

    def _imported(self, ref: str, start: str | None, files: dict[str, str], message: str) -> str:
        """A commit on top of `start`, made by one process and without an index."""
        who = f"committer Test <test@example.org> {self.github.now()} +0000"
        lines = [f"commit {ref}", who, f"data {len(message.encode())}", message]
        lines += [f"from {start}"] if start else []
        for path, text in files.items():
            lines += [f"M 100644 inline {path}", f"data {len(text.encode())}", text]
        subprocess.run(
            ["git", "fast-import", "--quiet", "--force"],
            cwd=self.bare,
            input="\n".join([*lines, ""]).encode(),
            env=os.environ | IDENTITY,
            check=True,
        )
        return git(self.bare, "rev-parse", ref)

    def moved(self, ref: str, before: str | None, after: str | None, *, by: str) -> None:
        """What follows when a ref was pushed to: `push`, and `synchronize` of the pull requests from it."""
        self.pushed_at = self.github.now()
        zeros = "0" * 40
        commits = []
        if after is not None and before is not None:
            commits = [self._pushed_commit(sha, by) for sha in self.compared(before, after)[0]]
        head = self._pushed_commit(after, by) if after else None
        payload = {
            "ref": ref,
            "before": before or zeros,
            "after": after or zeros,
            "created": before is None,
            "deleted": after is None,
            "forced": False,
            "base_ref": None,
            "compare": f"{self.github.html_url}/{self.full_name}/compare",
            "commits": commits,
            "head_commit": head,
            "pusher": {"name": by, "email": f"{by}@example.org"},
        }
        if ref.startswith(("refs/heads/", "refs/tags/")):
            self.send("push", by, **payload)
        for issue in list(self.numbers.values()):
            if issue.pull is not None and issue.state == "open" and after is not None:
                issue.follow(ref, before, after, by=by)

    def _pushed_commit(self, sha: str, by: str) -> dict[str, Any]:
        line = self.hook_shapes.commit_line(self, sha)
        lists: dict[str, Any] = {"added": [], "removed": [], "modified": []}
        url = f"{self.github.html_url}/{self.full_name}/commit/{sha}"
        return {**line, **lists, "distinct": True, "url": url}

    # Webhooks

    def hook(
        self, *, url: str | None = None, secret: str | None = "secret", events: Iterable[str] = ("*",)
    ) -> Hook:
        """A webhook; with a url deliveries are sent there, and listed in any case."""
        hook = Hook(self.github.next_id(), self, url, secret, tuple(events), self.github.now())
        self.hooks[hook.id] = hook
        return hook

    @property
    def hook_shapes(self) -> Shapes:
        return Shapes(self.github)

    def send(self, event: str, by: str, **parts: Any) -> None:
        """Deliver an event to every hook, and start the workflows that wait for it."""
        starts = by.lower() != ACTIONS_BOT or event in ("workflow_dispatch", "repository_dispatch")
        sender = self.hook_shapes.known_user(by)
        payload = {**parts, "repository": self.hook_shapes.repo(self), "sender": sender}
        if self.github.user(self.owner).kind == "Organization":
            payload["organization"] = self.hook_shapes.organization(self.owner)
        if event == "push":  # older than the others, and shaped like nothing else
            payload["repository"] |= {
                "created_at": self.created_at,
                "pushed_at": self.pushed_at,
                "stargazers": 0,
                "master_branch": self.default_branch,
            }
        for hook in self.hooks.values():
            if hook.wants(event):
                self.github.deliver(made(self.github, hook, event, payload, starts_workflows=starts))
        for slug, hook in self.github.app_hooks.items():
            if hook.wants(event):
                told = {**payload, "installation": self.hook_shapes.installation(slug)}
                self.github.deliver(made(self.github, hook, event, told, starts_workflows=starts))
        self.github.happened.append((event, parts.get("action")))
        if starts:
            self.start_workflows(event, parts.get("action"), parts, by=by)


class FakeGitHub:
    """All state, under one lock."""

    def __init__(self, root: Path, *, clock: Clock | None = None) -> None:
        self.root, self.clock = root, clock or Clock()
        self.lock = threading.RLock()
        self.faults = Faults(self)
        self.sender = Sender()
        #: Where it is served; `server.serve` sets them.
        self.api_url, self.html_url, self.host = "http://127.0.0.1:1", "http://127.0.0.1:1", "127.0.0.1"
        self.users: dict[str, User] = {}
        self.repos: dict[int, Repository] = {}
        self.names: dict[str, int] = {}
        self.old_names: dict[str, int] = {}
        self.tokens: dict[str, Token] = {}
        self.apps: dict[str, App] = {}
        self.app_hooks: dict[str, Hook] = {}
        #: Every delivery, in order, whether it was sent to a url or not.
        self.deliveries: list[Delivery] = []
        #: (event, action) of all that happened, with hooks or without.
        self.happened: list[tuple[str, str | None]] = []
        #: (method, path template, status) of every request that was answered, in order.
        self.requests: list[tuple[str, str, int]] = []
        #: Requests that GitHub's description does not allow, and answers of ours that it does not describe.
        self.wrong_requests: list[str] = []
        self.wrong_answers: list[str] = []
        #: Logs and artifacts, by their path.
        self.files: dict[str, bytes] = {}
        self._ids = itertools.count(1000)
        self.app_named("github-actions")

    def __deepcopy__(self, memo: dict[int, Any]) -> FakeGitHub:
        """The state as it is now, for stale reads. What is not state is shared."""
        other = object.__new__(type(self))
        memo[id(self)] = other
        shared = {"lock", "faults", "sender", "clock", "root", "_ids", "requests", "deliveries", "happened"}
        shared |= {"wrong_requests", "wrong_answers"}
        for name, value in vars(self).items():
            setattr(other, name, value if name in shared else copy.deepcopy(value, memo))
        for repo in other.repos.values():
            repo.frozen_refs = self.repos[repo.id].refs()
        return other

    # Time and numbers

    def now(self) -> int:
        return int(self.clock())

    def stamp(self, at: float) -> str:
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def maybe(self, at: float | None) -> str | None:
        return None if at is None else self.stamp(at)

    def next_id(self) -> int:
        return next(self._ids)

    # Who is there

    def user(self, login: str, *, kind: str = "User") -> User:
        """The account of that name; made when first mentioned."""
        if login.lower() not in self.users:
            kind = "Bot" if login.endswith("[bot]") or login in BOTS else kind
            self.users[login.lower()] = User(self.next_id(), login, kind)
        return self.users[login.lower()]

    def app_named(self, slug: str, *, owner: str = "github", public_key: str | None = None) -> App:
        if slug not in self.apps:
            self.apps[slug] = App(self.next_id(), slug, owner, self.next_id(), public_key)
            self.user(f"{slug}[bot]")
        return self.apps[slug]

    def app_hook(
        self,
        app: App,
        *,
        url: str | None = None,
        secret: str | None = "secret",
        events: Iterable[str] = ("*",),
    ) -> Hook:
        """The webhook of an app, which is installed everywhere: it gets the events of every repository."""
        hook = Hook(self.next_id(), None, url, secret, tuple(events), self.now())
        self.app_hooks[app.slug] = hook
        return hook

    def token(self, login: str, *, scopes: tuple[str, ...] = ("repo", "workflow")) -> str:
        """A personal token of an account."""
        return self._add(Token(f"ghp_{secrets.token_hex(16)}", "user", self.user(login).login, scopes=scopes))

    def actions_token(self, repo: Repository, permissions: dict[str, str] | None = None) -> str:
        """The GITHUB_TOKEN of a job; without `permissions` it may write everything."""
        text = f"ghs_{secrets.token_hex(16)}"
        return self._add(Token(text, "actions", ACTIONS_BOT, permissions, repo.id, app="github-actions"))

    def installation_token(self, app: App, permissions: dict[str, str] | None = None) -> Token:
        text, login = f"ghs_{secrets.token_hex(16)}", f"{app.slug}[bot]"
        expires_at = self.now() + 3600
        token = Token(text, "installation", login, permissions, expires_at=expires_at, app=app.slug)
        self._add(token)
        return token

    def _add(self, token: Token) -> str:
        self.tokens[token.text] = token
        return token.text

    # Repositories

    def repository(
        self,
        full_name: str,
        *,
        admin: Iterable[str] = (),
        write: Iterable[str] = (),
        read: Iterable[str] = (),
        private: bool = False,
        labels: Iterable[str] = (),
        files: dict[str, str] | None = None,
    ) -> Repository:
        """A repository with one commit on `main`. The owner is an organization unless it is a known user."""
        assert _STEPS_OF_A_NAME.match(full_name), full_name
        self.user(full_name.split("/", maxsplit=1)[0], kind="Organization")
        repo_id = self.next_id()
        bare = make_bare(self.root / f"{repo_id}.git")
        repo = Repository(self, repo_id, full_name, bare, self.now(), private)
        self.repos[repo_id] = repo
        self.names[full_name.lower()] = repo_id
        self.old_names.pop(full_name.lower(), None)
        for role, logins in (("admin", admin), ("write", write), ("read", read)):
            for login in logins:
                repo.collaborator(login, role)
        for label in labels:
            repo.labels[label.lower()] = Label(self.next_id(), label)
        repo.commit(files or {"README.md": "hello\n"}, message="first")
        return repo

    def find(self, full_name: str) -> Repository | None:
        repo_id = self.names.get(full_name.lower())
        return None if repo_id is None else self.repos[repo_id]

    # Deliveries

    def deliver(self, delivery: Delivery) -> None:
        self.deliveries.append(delivery)
        if self.faults.loses_delivery(delivery):
            delivery.status_code = 502
        elif delivery.hook.url is not None:
            self.sender.send(delivery)

    def redeliver(self, delivery: Delivery) -> Delivery:
        """The same delivery again: same guid, another id."""
        again = copy.copy(delivery)
        again.id, again.at, again.redelivery, again.status_code = self.next_id(), self.now(), True, 202
        self.deliver(again)
        return again

    def settle(self) -> None:
        """Wait until every delivery that was made has been sent."""
        self.sender.settle()

    def events(self) -> list[str]:
        """What was delivered, as `issues.opened`."""
        return [f"{d.event}.{d.action}" if d.action else d.event for d in self.deliveries]

"""Commit statuses, checks and workflow runs of the fake."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.github.fake import FakeGitHub, Repository

LOGS_EXPIRE_S = 90 * 86_400


@dataclass(eq=False)
class Status:
    id: int
    sha: str
    state: str
    context: str
    description: str | None
    target_url: str | None
    creator: str
    created_at: int


@dataclass(eq=False)
class CheckSuite:
    id: int
    repo: Repository
    app: str
    head_sha: str
    head_branch: str | None
    created_at: int
    runs: list[CheckRun] = field(default_factory=list)

    @property
    def status(self) -> str:
        if self.runs and all(run.status == "completed" for run in self.runs):
            return "completed"
        return "in_progress" if any(run.status != "queued" for run in self.runs) else "queued"

    @property
    def conclusion(self) -> str | None:
        if self.status != "completed":
            return None
        found = {run.conclusion for run in self.runs}
        return next((c for c in ("failure", "timed_out", "cancelled") if c in found), "success")


@dataclass(eq=False)
class CheckRun:
    id: int
    repo: Repository
    suite: CheckSuite
    name: str
    started_at: int
    status: str = "queued"
    conclusion: str | None = None
    completed_at: int | None = None
    external_id: str = ""
    details_url: str | None = None
    output: dict[str, Any] = field(default_factory=dict)

    def update(self, *, by: str, status: str | None = None, conclusion: str | None = None) -> None:
        """A conclusion completes it, and its suite with the last one."""
        if conclusion is not None:
            self.status, self.conclusion, self.completed_at = "completed", conclusion, self.repo.github.now()
            self.repo.send(
                "check_run", by, action="completed", check_run=self.repo.hook_shapes.check_run(self)
            )
            if self.suite.status == "completed":
                shape = self.repo.hook_shapes.check_suite(self.suite)
                del shape["repository"]
                self.repo.send("check_suite", by, action="completed", check_suite=shape)
        elif status is not None:
            self.status, self.conclusion, self.completed_at = status, None, None


@dataclass(eq=False)
class Workflow:
    id: int
    repo: Repository
    path: str
    name: str
    on: tuple[str, ...]
    created_at: int
    inputs: tuple[str, ...] = ()
    #: The title of its runs, with inputs in braces.
    run_name: str = ""


@dataclass(eq=False)
class Attempt:
    number: int
    actor: str
    started_at: int
    updated_at: int
    status: str = "queued"
    conclusion: str | None = None


@dataclass(eq=False)
class Job:
    id: int
    run: WorkflowRun
    attempt: int
    name: str
    started_at: int
    status: str = "queued"
    conclusion: str | None = None
    completed_at: int | None = None
    log: str = ""


@dataclass(eq=False)
class Artifact:
    id: int
    run: WorkflowRun
    name: str
    content: bytes
    created_at: int
    expires_at: int


@dataclass(eq=False)
class WorkflowRun:
    id: int
    repo: Repository
    workflow: Workflow
    number: int
    title: str
    event: str
    head_branch: str
    head_sha: str
    actor: str
    suite: CheckSuite
    created_at: int
    inputs: dict[str, Any] = field(default_factory=dict)
    attempts: list[Attempt] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)
    artifacts: list[Artifact] = field(default_factory=list)
    #: One that does not end when it is cancelled, only when that is forced.
    stubborn: bool = False
    cancel_requested: bool = False

    @property
    def status(self) -> str:
        return self.attempts[-1].status

    @property
    def conclusion(self) -> str | None:
        return self.attempts[-1].conclusion

    def begin(self, *, by: str | None = None) -> None:
        """A new attempt."""
        now = self.repo.github.now()
        self.attempts.append(Attempt(len(self.attempts) + 1, by or self.actor, now, now))
        job = Job(self.repo.github.next_id(), self, len(self.attempts), "build", now)
        self.jobs.append(job)
        # Each attempt has check runs of its own, in the same suite.
        check = CheckRun(self.repo.github.next_id(), self.repo, self.suite, self.workflow.name, now)
        self.suite.runs = [check]
        self.repo.check_runs[check.id] = check
        self.cancel_requested = False
        self._send("requested")

    def start(self) -> None:
        self._set("in_progress", None)
        self._send("in_progress")

    def finish(self, conclusion: str, *, log: str = "") -> None:
        self._set("completed", conclusion)
        for job in self.current_jobs():
            job.log = log
        self._send("completed")

    def rerun(self, *, by: str) -> None:
        self.begin(by=by)

    def cancel(self) -> None:
        self.cancel_requested = True
        if not self.stubborn:
            self.finish("cancelled")

    def artifact(self, name: str, content: bytes = b"zip") -> Artifact:
        now = self.repo.github.now()
        made = Artifact(self.repo.github.next_id(), self, name, content, now, now + LOGS_EXPIRE_S)
        self.artifacts.append(made)
        return made

    def current_jobs(self) -> list[Job]:
        return [job for job in self.jobs if job.attempt == len(self.attempts)]

    def _set(self, status: str, conclusion: str | None) -> None:
        now, at = self.repo.github.now(), self.attempts[-1]
        at.status, at.conclusion, at.updated_at = status, conclusion, now
        for job in self.current_jobs():
            job.status, job.conclusion = status, conclusion
            job.completed_at = now if conclusion else None
        for check in self.suite.runs:
            check.status, check.conclusion = status, conclusion
            check.completed_at = now if conclusion else None

    def _send(self, action: str) -> None:
        shapes = self.repo.hook_shapes
        parts = {"workflow": shapes.workflow(self.workflow), "workflow_run": shapes.workflow_run(self)}
        self.repo.send("workflow_run", self.actor, action=action, **parts)


class Checks:
    """The part of a repository that says how its commits fare."""

    github: FakeGitHub
    default_branch: str

    def init_checks(self) -> None:
        self.statuses: list[Status] = []
        self.suites: dict[int, CheckSuite] = {}
        self.check_runs: dict[int, CheckRun] = {}
        self.workflows: dict[str, Workflow] = {}
        self.workflow_runs: dict[int, WorkflowRun] = {}
        #: Contexts that must succeed, by branch, and how they are demanded: by a rule or by protection.
        self.required: dict[str, tuple[str, list[str]]] = {}

    def status(
        self,
        sha: str,
        state: str,
        *,
        by: str,
        context: str = "default",
        description: str | None = None,
        target_url: str | None = None,
    ) -> Status:
        repo: Any = self
        now = self.github.now()
        made = Status(self.github.next_id(), sha, state, context, description, target_url, by, now)
        self.statuses.append(made)
        shapes = repo.hook_shapes
        repo.send(
            "status",
            by,
            id=made.id,
            sha=sha,
            name=repo.full_name,
            avatar_url=None,
            target_url=target_url,
            context=context,
            description=description,
            state=state,
            commit=shapes.commit(repo, sha),
            branches=[
                {
                    "name": ref.removeprefix("refs/heads/"),
                    "commit": {"sha": sha, "url": f"{shapes.repo_url(repo)}/commits/{sha}"},
                    "protected": False,
                }
                for ref, tip in repo.refs().items()
                if tip == sha and ref.startswith("refs/heads/")
            ],
            created_at=self.github.stamp(now),
            updated_at=self.github.stamp(now),
        )
        return made

    def newest_statuses(self, sha: str) -> list[Status]:
        """The newest status of each context."""
        return list({s.context: s for s in self.statuses if s.sha == sha}.values())

    def suite(self, sha: str, app: str) -> CheckSuite:
        """The suite of an app for a commit; made when first asked for."""
        repo: Any = self
        for suite in self.suites.values():
            if (suite.head_sha, suite.app) == (sha, app):
                return suite
        branch = next(
            (ref[11:] for ref, tip in repo.refs().items() if tip == sha and ref.startswith("refs/heads/")),
            None,
        )
        made = CheckSuite(self.github.next_id(), repo, app, sha, branch, self.github.now())
        self.suites[made.id] = made
        return made

    def check_run(
        self, sha: str, name: str, *, by: str, app: str = "github-actions", status: str = "queued"
    ) -> CheckRun:
        repo: Any = self
        suite = self.suite(sha, app)
        run = CheckRun(self.github.next_id(), repo, suite, name, self.github.now(), status)
        suite.runs.append(run)
        self.check_runs[run.id] = run
        repo.send("check_run", by, action="created", check_run=repo.hook_shapes.check_run(run))
        return run

    def require_checks(self, *contexts: str, branch: str | None = None, by_rule: bool = True) -> None:
        """Checks that must succeed before a merge, as a ruleset or as branch protection demands them."""
        self.required[branch or self.default_branch] = ("rule" if by_rule else "protection", list(contexts))

    def workflow(
        self,
        file: str,
        *,
        on: Iterable[str] = ("workflow_dispatch",),
        inputs: Iterable[str] = (),
        run_name: str = "",
    ) -> Workflow:
        repo: Any = self
        path, name = f".github/workflows/{file}", file.rsplit(".", 1)[0]
        now = self.github.now()
        made = Workflow(self.github.next_id(), repo, path, name, tuple(on), now, tuple(inputs), run_name)
        self.workflows[file] = made
        return made

    def run(
        self,
        file: str,
        *,
        by: str = "github-actions[bot]",
        event: str = "push",
        branch: str | None = None,
        sha: str | None = None,
        title: str | None = None,
        inputs: dict[str, Any] | None = None,
    ) -> WorkflowRun:
        """A queued run of a workflow."""
        repo: Any = self
        workflow = self.workflows.get(file) or self.workflow(file)
        branch = branch or self.default_branch
        head = sha or repo.refs()[f"refs/heads/{branch}"]
        number = sum(run.workflow is workflow for run in self.workflow_runs.values()) + 1
        run_id = self.github.next_id()
        # Each run of a workflow has a check suite of its own.
        suite = CheckSuite(self.github.next_id(), repo, "github-actions", head, branch, self.github.now())
        self.suites[suite.id] = suite
        run = WorkflowRun(
            id=run_id,
            repo=repo,
            workflow=workflow,
            number=number,
            title=title or workflow.run_name.format(**(inputs or {})) or workflow.name,
            event=event,
            head_branch=branch,
            head_sha=head,
            actor=self.github.user(by).login,
            suite=suite,
            created_at=self.github.now(),
            inputs=inputs or {},
        )
        self.workflow_runs[run_id] = run
        run.begin()
        return run

    def start_workflows(self, event: str, action: str | None, parts: dict[str, Any], *, by: str) -> None:
        """What an event starts: the workflows on the default branch that wait for it, one run each."""
        if event in ("workflow_run", "workflow_dispatch", "check_run", "check_suite", "status"):
            return
        for file, workflow in list(self.workflows.items()):
            if event in workflow.on or f"{event}.{action}" in workflow.on:
                about = parts.get("issue") or parts.get("pull_request") or {}
                self.run(file, by=by, event=event, title=about.get("title"))

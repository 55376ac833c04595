"""Find the known mistakes in workflows.

A concurrency group is checked by the keys it gives to made-up occurrences, not by its spelling. There is no
finding where a key or a condition depends on what only a run knows: a finding is a mistake, not a suspicion.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations, count, product
from pathlib import PurePath

from interlock.actions import agents
from interlock.actions.expressions import (
    MalformedExpression,
    Opaque,
    Record,
    Undecided,
    parse_condition,
    parse_template,
    truth,
)
from interlock.actions.findings import Mistake, WorkflowFinding
from interlock.actions.injections import injections
from interlock.actions.occurrences import ANSWERED_EVENTS, Occurrence, occurrences
from interlock.actions.workflow import Concurrency, Job, NotAWorkflow, Workflow, read_workflow

#: The first event of a thing: no earlier run could be cancelled.
_BIRTH = "opened"
#: How deep GitHub lets workflows call each other.
_CALLS_MAX = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedGroup:
    """A concurrency group of a workflow or job: the jobs it serialises, and the keys that occurrences get."""

    workflow: Workflow
    concurrency: Concurrency
    #: Empty if no job of the group runs an agent and nobody talks to the workflow.
    jobs: tuple[Job, ...]
    at_job: bool
    keys: tuple[tuple[Occurrence, str], ...]

    def finding(self, code: Mistake, message: str, mend: str) -> WorkflowFinding:
        return _finding(self.workflow.path, self.concurrency.line, code, message, mend)


def _finding(file: str, line: int, code: Mistake, message: str, mend: str) -> WorkflowFinding:
    return WorkflowFinding(file=file, line=line, code=code, message=message, mend=mend)


def check(files: Sequence[tuple[str, bytes]]) -> list[WorkflowFinding]:
    """All findings in files, given as (path, content), sorted by file and line."""
    findings: list[WorkflowFinding] = []
    read: list[Workflow] = []
    for path, data in files:
        try:
            read.append(read_workflow(path, data))
        except NotAWorkflow as error:
            mend = "Correct the line, or leave this file out."
            findings.append(_finding(path, error.line, Mistake.NOT_A_WORKFLOW, error.sentence, mend))
    groups: list[NamedGroup] = []
    for workflow, jobs in _at_work(read):
        findings += [*_job_findings(workflow, jobs), *_injections(workflow)]
        for group in _groups(workflow, jobs, findings):
            groups.append(group)
            findings += [*_waiting(group), *_bots(group), *_keys(group), *_matrix(group)]
    return sorted(set(findings) | set(_case(groups)))


def _at_work(workflows: Sequence[Workflow]) -> Iterator[tuple[Workflow, list[Job]]]:
    """Each workflow with its jobs that run an agent, or might.

    A called workflow among the files is checked itself; people talk to it if they talk to its caller. The
    calling job needs no group if the called workflow runs no agent, or each agent under its own group.
    """
    by_name = {PurePath(workflow.path).name: workflow for workflow in workflows}

    def called(job: Job) -> Workflow | None:
        return by_name.get(PurePath(job.uses).name) if job.uses.startswith("./") else None

    talking = [w.path for w in workflows if agents.talks(w)]
    callers = [w for w in workflows if w.path in talking]
    for _ in range(_CALLS_MAX):
        callers = [c for w in callers for job in w.jobs if (c := called(job)) and c.path not in talking]
        talking += [w.path for w in callers]
    working = {w.path: agents.agent_jobs(w, talking=w.path in talking) for w in workflows}
    for workflow in workflows:
        yield (
            workflow,
            [
                job
                for job in working[workflow.path]
                if (inside := called(job)) is None or not _sees_to_itself(inside, working[inside.path])
            ],
        )


def _sees_to_itself(workflow: Workflow, jobs: Sequence[Job]) -> bool:
    return workflow.concurrency is not None or all(job.concurrency is not None for job in jobs)


def _job_findings(workflow: Workflow, jobs: Sequence[Job]) -> Iterator[WorkflowFinding]:
    for job in jobs:
        if job.concurrency is None and workflow.concurrency is None and _meets(workflow, job):
            yield _finding(
                workflow.path,
                job.line,
                Mistake.GROUP_MISSING,
                f"Job {job.key} has no concurrency group: two events on one issue run it at once.",
                "Give the job a concurrency group with the number of the issue or pull request.",
            )
        if not agents.has_timeout(job):
            yield _finding(
                workflow.path,
                job.line,
                Mistake.TIMEOUT_MISSING,
                f"Job {job.key} has no timeout-minutes: a hanging agent keeps its group for hours.",
                "Set timeout-minutes on the job.",
            )
        for deaf in agents.deaf_commands(job):
            mend = f"Make it the last command of its step and write exec before it: exec {deaf.starter} …"
            if deaf.inner:
                mend = (
                    "Start it in the step's own shell, as the last command and with exec:"
                    f" exec {deaf.starter} … > FILE keeps what it prints for a later step."
                )
            yield _finding(
                workflow.path,
                deaf.line,
                Mistake.SIGNALS_LOST,
                f"The shell gets the signals of a cancellation, {deaf.program} does not:"
                " it is killed without a chance to end.",
                mend,
            )


def _injections(workflow: Workflow) -> Iterator[WorkflowFinding]:
    """Strangers' texts that become part of a script, in any workflow."""
    for run in (step.run for job in workflow.jobs for step in job.steps if step.run is not None):
        for line, text in injections(run.value):
            yield _finding(
                workflow.path,
                run.line + (line if run.literal else 0),
                Mistake.SCRIPT_INJECTION,
                f"{text} becomes part of the script before the shell reads it: whoever wrote it"
                " runs commands with the rights of the job.",
                'Put it into the env: of the step and write "$NAME", or read $GITHUB_EVENT_PATH.',
            )


def _meets(workflow: Workflow, job: Job) -> bool:
    """Whether two runs of this job can meet."""
    people = [o for o in _occurrences(workflow) if not o.by_bot]
    return "schedule" in workflow.events or any(_may_run(job, workflow, o) for o in people)


def _groups(
    workflow: Workflow, working: Sequence[Job], findings: list[WorkflowFinding]
) -> Iterator[NamedGroup]:
    """Every group of a workflow with its keys; an unreadable one becomes a finding."""
    # Every run enters the group of a workflow that people talk to, whatever its jobs are.
    entering = working or (workflow.jobs if agents.talks(workflow) else ())
    named: list[tuple[Concurrency | None, tuple[Job, ...], bool]] = [
        (workflow.concurrency, tuple(entering), False)
    ]
    named += [(job.concurrency, (job,) if job in working else (), True) for job in workflow.jobs]
    for concurrency, jobs, at_job in named:
        if concurrency is None:
            continue
        try:
            keys = tuple(_keyed(workflow, concurrency, jobs))
        except MalformedExpression as error:
            message = f"GitHub cannot read the expression of the group: {error}."
            mend = "Correct the expression; texts are written in single quotes."
            code = Mistake.EXPRESSION_MALFORMED
            findings.append(_finding(workflow.path, concurrency.line, code, message, mend))
            continue
        yield NamedGroup(workflow=workflow, concurrency=concurrency, jobs=jobs, at_job=at_job, keys=keys)


def _keyed(
    workflow: Workflow, concurrency: Concurrency, jobs: Sequence[Job]
) -> Iterator[tuple[Occurrence, str]]:
    template = parse_template(concurrency.group.value)
    for occurrence in _occurrences(workflow):
        if not any(_may_run(job, workflow, occurrence) for job in jobs) and not occurrence.by_bot:
            continue
        try:
            yield occurrence, template.fill(occurrence.contexts(workflow.name))
        except Undecided:
            continue


def _occurrences(workflow: Workflow) -> list[Occurrence]:
    runs = count(1)
    return [o for event in workflow.events for o in occurrences(event, runs=runs)]


def _may_run(job: Job, workflow: Workflow, occurrence: Occurrence, *, surely: bool = False) -> bool:
    """Whether the job's condition may let it run; with `surely`, whether it certainly does."""
    if job.condition is None:
        return True
    try:
        return truth(parse_condition(job.condition.value)(occurrence.contexts(workflow.name)))
    except (Undecided, MalformedExpression):
        return not surely


def _waiting(group: NamedGroup) -> Iterator[WorkflowFinding]:
    if group.concurrency.keeps_all and group.concurrency.may_cancel:
        yield group.finding(
            Mistake.QUEUE_WITH_CANCEL,
            "queue: max and cancel-in-progress exclude each other; GitHub refuses the workflow.",
            "Keep queue: max to run every event in turn, or cancel-in-progress to run only the newest.",
        )


def _bots(group: NamedGroup) -> Iterator[WorkflowFinding]:
    """Events of the agent's own account that meet the run that caused them."""
    people = {key.lower() for o, key in group.keys if not o.by_bot}
    # A comment explains it best.
    for occurrence, key in sorted(group.keys, key=lambda pair: not pair[0].event.endswith("comment")):
        if not occurrence.by_bot or key.lower() not in people or not _comes_back(group.workflow, occurrence):
            continue
        if not group.at_job:
            yield group.finding(
                Mistake.GROUP_BEFORE_IF,
                "GitHub enters a workflow's group before it evaluates any if:, so the agent's own"
                f" {_named(occurrence.event)} {_harm(group.concurrency)}.",
                "Move concurrency into the job, and leave out bots in the job's if:.",
            )
            return
        if any(_may_run(job, group.workflow, occurrence, surely=True) for job in group.jobs):
            yield group.finding(
                Mistake.BOT_NOT_FILTERED,
                f"No if: leaves out the agent's own events: its {_named(occurrence.event)}"
                f" {_harm(group.concurrency)}.",
                "Add to the job's if: github.event.sender.type != 'Bot'.",
            )
            return


def _comes_back(workflow: Workflow, occurrence: Occurrence) -> bool:
    """Whether an agent at work on a thing can cause this event on the same thing."""
    types = workflow.events[occurrence.event]
    return occurrence.event in ANSWERED_EVENTS and set(types) != {_BIRTH}


def _named(event: str) -> str:
    return "comment" if event.endswith("comment") else "review" if event.endswith("review") else "change"


def _harm(concurrency: Concurrency) -> str:
    if concurrency.keeps_all:
        return "takes a place in the line behind the run that caused it"
    if concurrency.may_cancel:
        return "cancels the run that caused it"
    return "replaces the run that waits behind it"


def _keys(group: NamedGroup) -> Iterator[WorkflowFinding]:
    """Rule: one thing, one key; two things, two keys."""
    people = [(o, key) for o, key in group.keys if not o.by_bot]
    alike = [
        (a, key_a, b, key_b)
        for (a, key_a), (b, key_b) in combinations(people, 2)
        if a.subject == b.subject and key_a.lower() != key_b.lower()
    ]
    scattered = {a.event for a, _, b, _ in alike if a.event == b.event}
    if scattered:
        yield group.finding(
            Mistake.KEY_PER_RUN,
            f"Two {sorted(scattered)[0]} events on one thing get different keys, so both run at once.",
            "Build the key from the number of the issue or pull request, not from the run or the commit.",
        )
    for a, key_a, b, key_b in alike:
        if not scattered & {a.event, b.event}:
            yield group.finding(
                Mistake.KEYED_APART,
                f"On one {a.thing}, {a.event} gets the key {key_a} and {b.event} gets {key_b}:"
                " two runs work on it at once.",
                "Use one key for both: github.event.issue.number || github.event.pull_request.number.",
            )
            break
    for (a, key_a), (b, key_b) in combinations(people, 2):
        shared = a.event == b.event and a.thing == b.thing and a.number != b.number
        if shared and key_a.lower() == key_b.lower() and not group.concurrency.keeps_all:
            lost = "cancels the run of" if group.concurrency.may_cancel else "replaces what waits for"
            yield group.finding(
                Mistake.NUMBERS_SHARE_KEY,
                f"Every {a.event} event gets the key {key_a}, so one {a.thing} {lost} another.",
                "Put the number into the key, or keep every event with queue: max.",
            )
            break


def _matrix(group: NamedGroup) -> Iterator[WorkflowFinding]:
    """Rule: the jobs of a matrix, which belong to one run on one thing, share a key."""
    template = parse_template(group.concurrency.group.value)
    people = [occurrence for occurrence, _ in group.keys if not occurrence.by_bot][:1]
    for occurrence, job in product(people, group.jobs if group.at_job else ()):
        contexts = occurrence.contexts(group.workflow.name)
        for name, values in job.matrix.items():
            with suppress(Undecided):
                first, second = (
                    template.fill(contexts | {"matrix": Record("matrix", {name: value})})
                    for value in values[:2]
                )
                if first.lower() != second.lower():
                    yield group.finding(
                        Mistake.KEY_PER_MATRIX,
                        f"On one {occurrence.thing}, the jobs of the matrix get the keys {first} and"
                        f" {second}: they work on it at once.",
                        f"Leave matrix.{name} out of the key, and let the jobs take turns with queue: max.",
                    )


def _case(groups: Sequence[NamedGroup]) -> Iterator[WorkflowFinding]:
    """Rule: no two keys of the repository differ only in case, for GitHub takes them for one."""
    first: dict[str, tuple[str, NamedGroup]] = {}
    for group in groups:
        for key in _spellings(group):
            spelling, owner = first.setdefault(key.lower(), (key, group))
            if spelling != key:
                where = "here" if owner is group else f"{owner.workflow.path}:{owner.concurrency.line}"
                yield group.finding(
                    Mistake.KEY_CASE,
                    f"The key {key} differs only in case from {spelling} ({where}): for GitHub they are one.",
                    "Write both in lower case, or name them apart.",
                )
                break


def _spellings(group: NamedGroup) -> list[str]:
    keys = [key for _, key in group.keys]
    github = {"workflow": group.workflow.name, "repository": "octo/app", "event": Opaque("github.event")}
    with suppress(Undecided, MalformedExpression):  # depends on the event: `keys` has them
        keys.append(parse_template(group.concurrency.group.value).fill({"github": Record("github", github)}))
    return keys

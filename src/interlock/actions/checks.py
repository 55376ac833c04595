"""The known mistakes, looked for in workflows.

A group is judged by the keys it gives to made-up occurrences, not by its spelling. Where a key or a condition
hangs on what only a run knows, nothing is said about it: a finding is a mistake, not a suspicion.
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
from interlock.actions.findings import Finding, Mistake
from interlock.actions.injections import injections
from interlock.actions.occurrences import ANSWERED_EVENTS, Occurrence, occurrences
from interlock.actions.workflow import Concurrency, Job, NotAWorkflow, Workflow, read_workflow

#: What happens to a thing that is new has no run before it that could be cancelled.
_BIRTH = "opened"
#: GitHub lets workflows call each other so deep.
_CALLS_MAX = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a group is named, the jobs it serialises, and the keys that occurrences get there."""

    workflow: Workflow
    concurrency: Concurrency
    #: Empty for the group of a job that runs no agent, and of a workflow that neither does nor is talked to.
    jobs: tuple[Job, ...]
    at_job: bool
    keys: tuple[tuple[Occurrence, str], ...]

    def finding(self, code: Mistake, message: str, mend: str) -> Finding:
        line = self.concurrency.line
        return Finding(file=self.workflow.path, line=line, code=code, message=message, mend=mend)


def check(files: Sequence[tuple[str, bytes]]) -> list[Finding]:
    """All findings in files given as path and content, in the order in which they stand there."""
    findings: list[Finding] = []
    read: list[Workflow] = []
    for path, data in files:
        try:
            read.append(read_workflow(path, data))
        except NotAWorkflow as error:
            mend = "Mend the line, or leave this file out."
            findings.append(
                Finding(
                    file=path,
                    line=error.line,
                    code=Mistake.NOT_A_WORKFLOW,
                    message=error.sentence,
                    mend=mend,
                )
            )
    places: list[Place] = []
    for workflow, jobs in _at_work(read):
        findings += [*_job_findings(workflow, jobs), *_injections(workflow)]
        for place in _places(workflow, jobs, findings):
            places.append(place)
            findings += [*_waiting(place), *_bots(place), *_keys(place), *_matrix(place)]
    return sorted(set(findings) | set(_case(places)))


def _at_work(workflows: Sequence[Workflow]) -> Iterator[tuple[Workflow, list[Job]]]:
    """Each workflow with its jobs that run an agent, or might.

    A workflow of these that another calls is looked at itself: people talk to it if they do to the caller.
    The job that calls it needs no group if it runs no agent, or runs each under a group of its own.
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


def _job_findings(workflow: Workflow, jobs: Sequence[Job]) -> Iterator[Finding]:
    for job in jobs:
        if job.concurrency is None and workflow.concurrency is None and _meets(workflow, job):
            yield Finding(
                file=workflow.path,
                line=job.line,
                code=Mistake.GROUP_MISSING,
                message=f"Job {job.key} has no concurrency group: two events on one issue run it at once.",
                mend="Give the job a concurrency group with the number of the issue or pull request.",
            )
        if not agents.has_timeout(job):
            yield Finding(
                file=workflow.path,
                line=job.line,
                code=Mistake.TIMEOUT_MISSING,
                message=f"Job {job.key} has no timeout-minutes: a hanging agent keeps its group for hours.",
                mend="Set timeout-minutes on the job.",
            )
        for deaf in agents.deaf_commands(job):
            mend = f"Make it the last command of its step and write exec before it: exec {deaf.starter} …"
            if deaf.inner:
                mend = (
                    "Start it in the step's own shell, as the last command and with exec:"
                    f" exec {deaf.starter} … > FILE keeps what it prints for a later step."
                )
            yield Finding(
                file=workflow.path,
                line=deaf.line,
                code=Mistake.SIGNALS_LOST,
                message=f"The shell gets the signals of a cancellation, {deaf.program} does not:"
                " it is killed without a chance to end.",
                mend=mend,
            )


def _injections(workflow: Workflow) -> Iterator[Finding]:
    """A stranger's text becomes part of a script, in whatever workflow."""
    for run in (step.run for job in workflow.jobs for step in job.steps if step.run is not None):
        for line, text in injections(run.value):
            yield Finding(
                file=workflow.path,
                line=run.line + (line if run.literal else 0),
                code=Mistake.SCRIPT_INJECTION,
                message=f"{text} becomes part of the script before the shell reads it: whoever wrote it"
                " runs commands with the rights of the job.",
                mend='Put it into the env: of the step and write "$NAME", or read $GITHUB_EVENT_PATH.',
            )


def _meets(workflow: Workflow, job: Job) -> bool:
    """Something happens, again and again, that runs this job."""
    people = [o for o in _occurrences(workflow) if not o.by_bot]
    return "schedule" in workflow.events or any(_may_run(job, workflow, o) for o in people)


def _places(workflow: Workflow, working: Sequence[Job], findings: list[Finding]) -> Iterator[Place]:
    """Every group of a workflow with its keys; what cannot be read goes to `findings`."""
    # The group of a workflow that people talk to is entered whatever its jobs are.
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
            findings.append(
                Finding(
                    file=workflow.path,
                    line=concurrency.line,
                    code=Mistake.EXPRESSION_MALFORMED,
                    message=f"The group is no expression that GitHub understands: {error}.",
                    mend="Mend the expression; texts stand in single quotes.",
                )
            )
            continue
        yield Place(workflow=workflow, concurrency=concurrency, jobs=jobs, at_job=at_job, keys=keys)


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
    """Whether the job's condition lets it run, or might; with `surely`, whether it does without doubt."""
    if job.condition is None:
        return True
    try:
        return truth(parse_condition(job.condition.value)(occurrence.contexts(workflow.name)))
    except (Undecided, MalformedExpression):
        return not surely


def _waiting(place: Place) -> Iterator[Finding]:
    if place.concurrency.keeps_all and place.concurrency.may_cancel:
        yield place.finding(
            Mistake.QUEUE_WITH_CANCEL,
            "queue: max and cancel-in-progress exclude each other; GitHub refuses the workflow.",
            "Keep queue: max to run every event in turn, or cancel-in-progress to run only the newest.",
        )


def _bots(place: Place) -> Iterator[Finding]:
    """An event of the agent's own account meets the run that caused it."""
    people = {key.lower() for o, key in place.keys if not o.by_bot}
    # A comment explains it best.
    for occurrence, key in sorted(place.keys, key=lambda pair: not pair[0].event.endswith("comment")):
        if not occurrence.by_bot or key.lower() not in people or not _comes_back(place.workflow, occurrence):
            continue
        if not place.at_job:
            yield place.finding(
                Mistake.GROUP_BEFORE_IF,
                "A workflow's group is entered before any if: is looked at, so the agent's own"
                f" {_named(occurrence.event)} {_harm(place.concurrency)}.",
                "Move concurrency into the job, and leave out bots in the job's if:.",
            )
            return
        if any(_may_run(job, place.workflow, occurrence, surely=True) for job in place.jobs):
            yield place.finding(
                Mistake.BOT_NOT_FILTERED,
                f"No if: leaves out the agent's own events: its {_named(occurrence.event)}"
                f" {_harm(place.concurrency)}.",
                "Add to the job's if: github.event.sender.type != 'Bot'.",
            )
            return


def _comes_back(workflow: Workflow, occurrence: Occurrence) -> bool:
    """The agent, at work on a thing, can cause this event on the same thing."""
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


def _keys(place: Place) -> Iterator[Finding]:
    """One thing, one key; two things, two keys."""
    people = [(o, key) for o, key in place.keys if not o.by_bot]
    alike = [
        (a, key_a, b, key_b)
        for (a, key_a), (b, key_b) in combinations(people, 2)
        if a.subject == b.subject and key_a.lower() != key_b.lower()
    ]
    scattered = {a.event for a, _, b, _ in alike if a.event == b.event}
    if scattered:
        yield place.finding(
            Mistake.KEY_PER_RUN,
            f"Two {sorted(scattered)[0]} events on one thing get different keys, so both run at once.",
            "Build the key from the number of the issue or pull request, not from the run or the commit.",
        )
    for a, key_a, b, key_b in alike:
        if not scattered & {a.event, b.event}:
            yield place.finding(
                Mistake.KEYED_APART,
                f"On one {a.thing}, {a.event} gets the key {key_a} and {b.event} gets {key_b}:"
                " two runs work on it at once.",
                "Use one key for both: github.event.issue.number || github.event.pull_request.number.",
            )
            break
    for (a, key_a), (b, key_b) in combinations(people, 2):
        shared = a.event == b.event and a.thing == b.thing and a.number != b.number
        if shared and key_a.lower() == key_b.lower() and not place.concurrency.keeps_all:
            lost = "cancels the run of" if place.concurrency.may_cancel else "replaces what waits for"
            yield place.finding(
                Mistake.NUMBERS_SHARE_KEY,
                f"Every {a.event} event gets the key {key_a}, so one {a.thing} {lost} another.",
                "Put the number into the key, or keep every event with queue: max.",
            )
            break


def _matrix(place: Place) -> Iterator[Finding]:
    """The jobs of a matrix are of one run, on one thing."""
    template = parse_template(place.concurrency.group.value)
    people = [occurrence for occurrence, _ in place.keys if not occurrence.by_bot][:1]
    for occurrence, job in product(people, place.jobs if place.at_job else ()):
        contexts = occurrence.contexts(place.workflow.name)
        for name, values in job.matrix.items():
            with suppress(Undecided):
                first, second = (
                    template.fill(contexts | {"matrix": Record("matrix", {name: value})})
                    for value in values[:2]
                )
                if first.lower() != second.lower():
                    yield place.finding(
                        Mistake.KEY_PER_MATRIX,
                        f"On one {occurrence.thing}, the jobs of the matrix get the keys {first} and"
                        f" {second}: they work on it at once.",
                        f"Leave matrix.{name} out of the key, and let the jobs take turns with queue: max.",
                    )


def _case(places: Sequence[Place]) -> Iterator[Finding]:
    """Keys that differ only in case are one group for GitHub, in the whole repository."""
    first: dict[str, tuple[str, Place]] = {}
    for place in places:
        for key in _spellings(place):
            spelling, owner = first.setdefault(key.lower(), (key, place))
            if spelling != key:
                where = "here" if owner is place else f"{owner.workflow.path}:{owner.concurrency.line}"
                yield place.finding(
                    Mistake.KEY_CASE,
                    f"The key {key} differs only in case from {spelling} ({where}): for GitHub they are one.",
                    "Write both in lower case, or name them apart.",
                )
                break


def _spellings(place: Place) -> list[str]:
    keys = [key for _, key in place.keys]
    github = {"workflow": place.workflow.name, "repository": "octo/app", "event": Opaque("github.event")}
    with suppress(Undecided, MalformedExpression):  # else it depends on the event: those keys are there
        keys.append(parse_template(place.concurrency.group.value).fill({"github": Record("github", github)}))
    return keys

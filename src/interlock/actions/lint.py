"""Finds the known mistakes in workflows that run an agent. Other workflows have no findings.

A concurrency group is checked by the keys that it gives to simulated occurrences, not by its spelling. If a
key or a condition depends on values that only a run knows, there is no finding: a finding is a mistake, not a
suspicion.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import combinations, count
from pathlib import PurePath
from typing import Any

from interlock.actions import agents
from interlock.actions.expressions import (
    KnownObject,
    MalformedExpression,
    Opaque,
    Undecided,
    parse_condition,
    parse_template,
    truth,
)
from interlock.actions.findings import Mistake, WorkflowFinding
from interlock.actions.injections import injections
from interlock.actions.occurrences import REPOSITORY, Occurrence, can_cause, occurrences, variations
from interlock.actions.workflow import Concurrency, Job, NotAWorkflow, Workflow, read_workflow

#: How deep GitHub lets workflows call each other.
_CALLS_MAX = 10
#: The limit is enough for every event of a few callers.
_OCCURRENCES_MAX = 200
#: Schedules that run more often than once a day. A job without a time limit ends after six hours.
_OFTEN = re.compile(r"\S+\s+\S*[*,/-]\S*\s.*")
_REPOSITORY_NAME = re.compile(r"['\"]([\w.-]+)/?([\w.-]*)['\"]")


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedWorkflow:
    """A workflow, its jobs that run an agent, and the events that start it: its own and its callers'."""

    workflow: Workflow
    jobs: tuple[Job, ...]
    talking: bool
    occurrences: tuple[Occurrence, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedGroup:
    """A concurrency group of a workflow or job: the jobs that it serialises, and the keys of occurrences."""

    subject: CheckedWorkflow
    concurrency: Concurrency
    #: Empty if no job of the group runs an agent.
    jobs: tuple[Job, ...]
    at_job: bool
    keys: tuple[tuple[Occurrence, str], ...]

    def finding(self, code: Mistake, message: str, mend: str) -> WorkflowFinding:
        return _finding(self.subject.workflow.path, self.concurrency.line, code, message, mend)


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
    for subject in _subjects(read):
        malformed: list[WorkflowFinding] = []
        named = list(_groups(subject, malformed))
        groups += named
        if not subject.jobs:
            continue
        findings += [*malformed, *_job_findings(subject), *_injections(subject.workflow)]
        for group in named:
            findings += [
                *(*_waiting(group), *_schedule(group), *_bots(group), *_keys(group), *_matrix(group)),
            ]
    return sorted(set(findings) | set(_case(groups)) | set(_deadlocks(groups)))


def _subjects(workflows: Sequence[Workflow]) -> list[CheckedWorkflow]:
    """The parts of each workflow to check.

    A called workflow among the files is checked itself, with the events of its callers. People talk to it if
    they talk to one of its callers. The calling job needs no group if the called workflow runs no agent, or
    runs each agent under its own group.
    """
    by_name = {PurePath(workflow.path).name: workflow for workflow in workflows}

    def called(job: Job) -> Workflow | None:
        return by_name.get(PurePath(job.uses).name) if job.uses.startswith("./") else None

    calls = [(w, job, inside) for w in workflows for job in w.jobs if (inside := called(job)) is not None]
    talking = {w.path for w in workflows if agents.is_conversation(w)}
    for _ in range(_CALLS_MAX):
        talking |= {inside.path for w, _, inside in calls if w.path in talking}
    at_work = {w.path: agents.agent_jobs(w, talking=w.path in talking) for w in workflows}
    for _ in range(_CALLS_MAX):
        for w, job, inside in calls:
            if at_work[inside.path] and job not in at_work[w.path]:
                at_work[w.path].append(job)
    started = _started(workflows, calls)
    found = []
    for w in workflows:
        own = {job.key for job in at_work[w.path] if not _has_own_groups(called(job), at_work)}
        foreign = {job.key for job in w.jobs if called(job) is None and agents.calls_agent(job)}
        found.append(
            CheckedWorkflow(
                workflow=w,
                jobs=tuple(job for job in w.jobs if job.key in own | foreign),
                talking=w.path in talking,
                occurrences=tuple(started[w.path]),
            )
        )
    return found


def _started(
    workflows: Sequence[Workflow], calls: Sequence[tuple[Workflow, Job, Workflow]]
) -> dict[str, list[Occurrence]]:
    """The occurrences that start each workflow, by its path; for a called one, also its callers'."""
    runs = count(1)
    started = {
        w.path: [
            o
            for event, types in w.events.items()
            for o in occurrences(event, types=types, workflow=w.name, runs=runs)
        ]
        for w in workflows
    }
    newest = dict(started)
    for _ in range(_CALLS_MAX):
        passed: dict[str, list[Occurrence]] = {}
        for caller, job, inside in calls:
            runs_for = [
                o for o in newest.get(caller.path, ()) if len(started[inside.path]) < _OCCURRENCES_MAX
            ]
            passed.setdefault(inside.path, []).extend(_passed_on(job, runs_for))
        newest = passed
        for path, more in passed.items():
            started[path] = [*started[path], *more][:_OCCURRENCES_MAX]
    return started


def _passed_on(job: Job, given: Sequence[Occurrence]) -> Iterator[Occurrence]:
    """The occurrences for which a job calls another workflow, with the inputs that it passes."""
    for occurrence in given:
        # The agent's own events count only if no condition of the caller may exclude them.
        if (lets := _admitted(job, occurrence, surely=occurrence.by_bot)) is not None:
            contexts = lets.contexts()
            yield replace(lets, inputs={name: _value(text, contexts) for name, text in job.given.items()})


def _value(text: str, contexts: Mapping[str, Any]) -> Any:
    with suppress(Undecided, MalformedExpression):
        return parse_template(text).fill(contexts)
    return Opaque("an input", varies=True)


def _has_own_groups(workflow: Workflow | None, at_work: Mapping[str, Sequence[Job]]) -> bool:
    """Whether a called workflow has a group for each agent in it."""
    return workflow is not None and (
        workflow.concurrency is not None or all(job.concurrency is not None for job in at_work[workflow.path])
    )


def _job_findings(subject: CheckedWorkflow) -> Iterator[WorkflowFinding]:
    workflow = subject.workflow
    for job in subject.jobs:
        timed = agents.has_timeout(job, talking=subject.talking)
        if job.concurrency is None and workflow.concurrency is None:
            yield from _group_missing(subject, job, timed=timed)
        if not timed:
            yield _finding(
                workflow.path,
                job.line,
                Mistake.TIMEOUT_MISSING,
                f"Job {job.key} has no timeout-minutes: a hanging agent keeps its group for hours.",
                "Set timeout-minutes on the job.",
            )
        for unreached in agents.unreached_agents(job, talking=subject.talking):
            mend = (
                f"Make it the last command of its step and write exec before it: exec {unreached.starter} …"
            )
            if unreached.inner:
                mend = (
                    "Start it in the step's own shell, as the last command and with exec:"
                    f" exec {unreached.starter} … > FILE keeps what it prints for a later step."
                )
            yield _finding(
                workflow.path,
                unreached.line,
                Mistake.SIGNALS_LOST,
                f"The shell gets the signals of a cancellation, {unreached.program} does not:"
                " it is killed without a chance to end.",
                mend,
            )


def _injections(workflow: Workflow) -> Iterator[WorkflowFinding]:
    """Strangers' texts that are inserted into a script, in any workflow."""
    for run in (step.run for job in workflow.jobs for step in job.steps if step.run is not None):
        for line, text in injections(run.value):
            yield _finding(
                workflow.path,
                run.line + (line if run.literal else 0),
                Mistake.SCRIPT_INJECTION,
                f"{text} becomes part of the script before the shell reads it: its author"
                " runs commands with the rights of the job.",
                'Put it into the env: of the step and write "$NAME", or read $GITHUB_EVENT_PATH.',
            )


def _group_missing(subject: CheckedWorkflow, job: Job, *, timed: bool) -> Iterator[WorkflowFinding]:
    """A finding if two runs of this job can overlap. The calling job serialises a called workflow's runs."""
    own = [o for o in subject.occurrences if o.inputs is None and not o.by_bot]
    subjects = [o.subject for o in own if _admitted(job, o) is not None]
    why = ""
    if len(set(subjects)) < len(subjects):
        why = "two events on one issue run it at once"
    elif not timed and any(_OFTEN.fullmatch(cron.strip()) for cron in subject.workflow.crons):
        why = "a scheduled run may start while the last one is still at work"
    if why:
        yield _finding(
            subject.workflow.path,
            job.line,
            Mistake.GROUP_MISSING,
            f"Job {job.key} has no concurrency group: {why}.",
            "Give the job a concurrency group with the number of the issue or pull request.",
        )


def _groups(subject: CheckedWorkflow, findings: list[WorkflowFinding]) -> Iterator[NamedGroup]:
    """Every group of a workflow with its keys. An unreadable group becomes a finding."""
    workflow = subject.workflow
    named: list[tuple[Concurrency | None, tuple[Job, ...], bool]] = [
        (workflow.concurrency, subject.jobs, False)
    ]
    named += [(job.concurrency, (job,) if job in subject.jobs else (), True) for job in workflow.jobs]
    for concurrency, jobs, at_job in named:
        if concurrency is None:
            continue
        try:
            keys = tuple(_keys_by_occurrence(subject, concurrency, jobs))
        except MalformedExpression as error:
            message = f"GitHub cannot read the expression of the group: {error}."
            mend = "Correct the expression; texts are written in single quotes."
            code = Mistake.EXPRESSION_MALFORMED
            findings.append(_finding(workflow.path, concurrency.line, code, message, mend))
            continue
        yield NamedGroup(subject=subject, concurrency=concurrency, jobs=jobs, at_job=at_job, keys=keys)


def _keys_by_occurrence(
    subject: CheckedWorkflow, concurrency: Concurrency, jobs: Sequence[Job]
) -> Iterator[tuple[Occurrence, str]]:
    template = parse_template(concurrency.group.value)
    for occurrence in subject.occurrences:
        lets = next((found for job in jobs if (found := _admitted(job, occurrence)) is not None), None)
        if lets is None and not occurrence.by_bot:
            continue
        try:
            yield occurrence, template.fill((lets or occurrence).contexts())
        except Undecided:
            continue


def _admitted(job: Job, occurrence: Occurrence, *, surely: bool = False) -> Occurrence | None:
    """The occurrence, if the job may run for it by its condition; with `surely`, if it certainly runs.

    A job that runs only in a repository with a certain name is checked as if this one had that name.
    """
    if surely and job.needs:
        return None  # another job may have decided
    if job.condition is None:
        return occurrence
    for name in dict.fromkeys((occurrence.repository, *_repositories(job.condition.value))):
        there = replace(occurrence, repository=name)
        try:
            if truth(parse_condition(job.condition.value)(there.contexts())):
                return there
        except (Undecided, MalformedExpression):
            if not surely:
                return there
    return None


def _repositories(condition: str) -> Iterator[str]:
    """The names of repositories in a condition; for an owner's name, some repository of that owner."""
    if "repository" in condition.lower():
        for owner, name in _REPOSITORY_NAME.findall(condition):
            yield f"{owner}/{name or REPOSITORY.partition('/')[2]}"


def _waiting(group: NamedGroup) -> Iterator[WorkflowFinding]:
    if group.concurrency.keeps_all and group.concurrency.may_cancel:
        yield group.finding(
            Mistake.QUEUE_WITH_CANCEL,
            "queue: max and cancel-in-progress exclude each other; GitHub refuses the workflow.",
            "Keep queue: max to run every event in turn, or cancel-in-progress to run only the newest.",
        )


def _schedule(group: NamedGroup) -> Iterator[WorkflowFinding]:
    """Scheduled runs that cancel each other: a run that takes longer than its interval never completes."""
    if "schedule" not in group.subject.workflow.events or group.concurrency.cancel is None:
        return
    name = group.subject.workflow.name
    first, second = (
        Occurrence(event="schedule", thing="schedule", number=0, run=run, workflow=name) for run in (1, 2)
    )
    if not any(_admitted(job, first) for job in group.jobs):
        return
    try:
        template = parse_template(group.concurrency.group.value)
        keys = {template.fill(each.contexts()).lower() for each in (first, second)}
        cancels = parse_template(group.concurrency.cancel.value).fill(first.contexts()).lower() == "true"
    except (Undecided, MalformedExpression):
        return
    if cancels and len(keys) == 1:
        yield group.finding(
            Mistake.SCHEDULE_CANCELLED,
            "A scheduled run cancels the scheduled run before it, if that one is still at work.",
            "Cancel only other runs: cancel-in-progress: ${{ github.event_name != 'schedule' }}.",
        )


def _bots(group: NamedGroup) -> Iterator[WorkflowFinding]:
    """Events of the agent's own account that get the key of the run that caused them."""
    people = {key.lower() for o, key in group.keys if not o.by_bot}
    # A comment is the clearest example.
    for occurrence, key in sorted(group.keys, key=lambda pair: not pair[0].event.endswith("comment")):
        if not occurrence.by_bot or key.lower() not in people or not occurrence.comes_back:
            continue
        if not any(can_cause(occurrence, job.writes) for job in group.jobs):
            continue
        if not group.at_job:
            yield group.finding(
                Mistake.GROUP_BEFORE_IF,
                "GitHub enters a workflow's group before it evaluates any if:, so the agent's own"
                f" {_named(occurrence.event)} {_effect_on_own_run(group.concurrency)}.",
                "Move concurrency into the job, and leave out bots in the job's if:.",
            )
            return
        if any(_admitted(job, occurrence, surely=True) for job in group.jobs):
            yield group.finding(
                Mistake.BOT_NOT_FILTERED,
                f"No if: leaves out the agent's own events: its {_named(occurrence.event)}"
                f" {_effect_on_own_run(group.concurrency)}.",
                "Add to the job's if: github.event.sender.type != 'Bot'.",
            )
            return


def _named(event: str) -> str:
    return "comment" if event.endswith("comment") else "review" if event.endswith("review") else "change"


def _effect_on_own_run(concurrency: Concurrency) -> str:
    if concurrency.keeps_all:
        return "takes a place in the line behind the run that caused it"
    if concurrency.may_cancel:
        return "cancels the run that caused it"
    return "replaces the run that waits behind it"


def _keys(group: NamedGroup) -> Iterator[WorkflowFinding]:
    """Rule: all events on one thing get one key, and different things get different keys."""
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
    elif (found := _varying_part(group)) is not None:
        part, occurrence = found
        yield group.finding(
            Mistake.KEY_PER_RUN,
            f"Two {occurrence.event} events on one {occurrence.thing} may get different keys, so both run at"
            f" once: {part} is in the key.",
            "Build the key from the number of the issue or pull request alone.",
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


def _varying_part(group: NamedGroup) -> tuple[str, Occurrence] | None:
    """A part of the key that differs between two events on one thing, and an example event."""
    template = parse_template(group.concurrency.group.value)
    people = {(o.event, o.thing): o for o in group.subject.occurrences if not o.by_bot and o.comes_back}
    for occurrence in people.values():
        for part, told in variations(occurrence):
            keys = set()
            for each in told:
                if any(_admitted(job, each) for job in group.jobs):
                    with suppress(Undecided):
                        keys.add(template.fill(each.contexts()).lower())
            if len(keys) > 1:
                return part, occurrence
    return None


def _matrix(group: NamedGroup) -> Iterator[WorkflowFinding]:
    """Rule: the jobs of a matrix belong to one run on one thing, so they share a key."""
    template = parse_template(group.concurrency.group.value)
    people = [occurrence for occurrence in group.subject.occurrences if not occurrence.by_bot]
    jobs = group.jobs if group.at_job else ()
    for occurrence, job in [(let, job) for job in jobs for o in people if (let := _admitted(job, o))][:1]:
        contexts = occurrence.contexts()
        for name, values in job.matrix.items():
            with suppress(Undecided):
                first, second = (
                    template.fill(contexts | {"matrix": KnownObject("matrix", {name: value})})
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
    """Rule: no key of an agent's group differs from another key in the repository only in case."""
    first: dict[str, tuple[str, NamedGroup]] = {}
    # Groups without an agent first, so that the finding is about one with an agent.
    for group in sorted(groups, key=lambda group: bool(group.jobs)):
        for key in _key_variants(group):
            spelling, owner = first.setdefault(key.lower(), (key, group))
            if spelling != key and group.jobs:
                where = (
                    "here" if owner is group else f"{owner.subject.workflow.path}:{owner.concurrency.line}"
                )
                yield group.finding(
                    Mistake.KEY_CASE,
                    f"The key {key} differs only in case from {spelling} ({where}): for GitHub they are one.",
                    "Write both in lower case, or name them apart.",
                )
                break


def _deadlocks(groups: Sequence[NamedGroup]) -> Iterator[WorkflowFinding]:
    """Rule: no job waits for the group of its own run, and neither does a workflow that the run calls."""
    held: dict[tuple[object, str], NamedGroup] = {}
    for group in groups:
        if not group.at_job:
            held[group.subject.workflow.path, group.concurrency.group.value.lower()] = group
            template = parse_template(group.concurrency.group.value)
            for occurrence in group.subject.occurrences:
                if occurrence.inputs is None:
                    with suppress(Undecided):
                        held[occurrence.run, template.fill(occurrence.contexts()).lower()] = group
    for group in (group for group in groups if group.jobs):
        # In one run, the same text gives the same key, even if no simulated event resolves it.
        same_text = (group.subject.workflow.path, group.concurrency.group.value)
        keys = [same_text, *((o.run, key) for o, key in group.keys if not o.by_bot)]
        for holder, key in keys:
            outer = held.get((holder, key.lower()))
            if outer is None or outer is group:
                continue
            where = "of its workflow"
            if outer.subject is not group.subject:
                where = f"in {outer.subject.workflow.path}:{outer.concurrency.line}, which calls it"
            yield group.finding(
                Mistake.GROUP_IN_ITSELF,
                f"The key {key} is also that of the group {where}: the run waits for itself, and GitHub"
                " cancels it as a deadlock.",
                "Keep one of the two groups, or give them different keys.",
            )
            break


def _key_variants(group: NamedGroup) -> list[str]:
    keys = [key for _, key in group.keys]
    workflow = group.subject.workflow.name
    github = {"workflow": workflow, "repository": REPOSITORY, "event": Opaque("github.event")}
    with suppress(Undecided, MalformedExpression):  # depends on the event: `keys` has them
        keys.append(
            parse_template(group.concurrency.group.value).fill({"github": KnownObject("github", github)})
        )
    return keys

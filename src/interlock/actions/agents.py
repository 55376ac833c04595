"""Which jobs run an agent, and whether a cancelled run's signals reach it.

GitHub sends the signals of a cancellation to the entry process of a step, the shell. The shell does not pass
them on: only a command that replaced it by `exec` can end in an orderly way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from interlock.actions.chores import is_chore, started
from interlock.actions.expressions import PIECE
from interlock.actions.occurrences import CONVERSATION_EVENTS
from interlock.actions.shellscript import SimpleCommand, commands
from interlock.actions.workflow import Job, Step, Workflow

_PROGRAMS = frozenset({"aider", "claude", "codex", "copilot", "cursor-agent", "gemini", "goose", "opencode"})
_PACKAGES = re.compile(r"@(anthropic-ai/claude-code|openai/codex|google/gemini-cli|github/copilot)(@.*)?")
#: Arguments with which these programs work on nothing and end soon.
_QUICK = frozenset({"auth", "config", "doctor", "help", "install", "login", "mcp", "update"}) | frozenset(
    {"--help", "--version", "-h", "-v"}
)
_HOLDERS = frozenset({"hold", "work"})
_ACTIONS = (
    "anthropics/claude-code-action@",
    "anthropics/claude-code-base-action@",
    "openai/codex-action@",
    "google-github-actions/run-gemini-cli@",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deaf:
    """An agent that no signal reaches."""

    line: int
    program: str
    #: The word that starts it, before which `exec` belongs.
    starter: str
    #: It is inside a substitution or the text of another shell, where `exec` alone does not help.
    inner: bool


def talks(workflow: Workflow) -> bool:
    """Whether people talk to it."""
    return bool(workflow.events.keys() & CONVERSATION_EVENTS)


def agent_jobs(workflow: Workflow, *, talking: bool) -> list[Job]:
    """The jobs that run an agent; if none is known and people talk to the workflow, the jobs that might.

    A job that calls another workflow might, whatever is in there.
    """
    known = [job for job in workflow.jobs if any(_is_agent_step(step) for step in job.steps)]
    if known or not talking:
        return known
    return [job for job in workflow.jobs if job.uses or any(_may_be_agent_step(step) for step in job.steps)]


def has_timeout(job: Job) -> bool:
    """The job or each of its agent steps has a time limit. A job that calls a workflow cannot have one."""
    steps = [step for step in job.steps if _is_agent_step(step)]
    steps = steps or [step for step in job.steps if _may_be_agent_step(step)]
    return bool(job.uses) or job.has_timeout or (bool(steps) and all(step.has_timeout for step in steps))


def deaf_commands(job: Job) -> Iterator[Deaf]:
    """Agents that no signal reaches."""
    scripts = [step for step in job.steps if step.run is not None and _in_posix_shell(job, step)]
    known = any(_is_agent_step(step) for step in job.steps)
    for step in scripts:
        found = _script(step)
        if any(command.program[:1] == ["trap"] for command in found):
            continue  # it handles signals itself
        agents = [c for c in found if _is_agent(c.program)]
        if not known and step is scripts[-1]:
            agents = [c for c in found[-1:] if _may_be_agent(c, found)]
        for command in agents:
            if not command.execs:
                assert step.run is not None
                offset = command.line if step.run.literal else 0
                yield Deaf(
                    line=step.run.line + offset,
                    program=started(command.program)[0],
                    starter=command.starter,
                    inner=command.inner,
                )


def _is_agent_step(step: Step) -> bool:
    return step.uses.lower().startswith(_ACTIONS) or any(_is_agent(c.program) for c in _script(step))


def _may_be_agent_step(step: Step) -> bool:
    """It starts something that is no chore, or an action that GitHub did not make."""
    foreign = bool(step.uses) and not step.uses.startswith(("actions/", "github/"))
    found = _script(step)
    return foreign or any(_may_be_agent(command, found) for command in found)


def _script(step: Step) -> list[SimpleCommand]:
    # An expression may contain shell operators; for the shell it is only text.
    return commands(PIECE.sub("EXPRESSION", step.run.value)) if step.run is not None else []


def _is_agent(program: list[str]) -> bool:
    program = started(program)
    if not program:
        return False
    name, arguments = program[0].rpartition("/")[2], program[1:]
    if name == "interlock":
        return bool(_HOLDERS.intersection(arguments))
    return (name in _PROGRAMS or bool(_PACKAGES.fullmatch(program[0]))) and not _QUICK.intersection(
        arguments[:1]
    )


def _may_be_agent(command: SimpleCommand, script: list[SimpleCommand]) -> bool:
    """It is neither a chore nor a function of the script, whose own commands are checked."""
    functions = {c.program[0] for c in script if c.end == "(" and c.program}
    return not is_chore(command.program) and command.program[0] not in functions


def _in_posix_shell(job: Job, step: Step) -> bool:
    return step.shell.startswith(("bash", "sh")) if step.shell else not job.on_windows

"""Which jobs run an agent, and whether a cancelled run's signals reach it.

GitHub sends the signals of a cancellation to the entry process of a step, which is the shell. The shell hands
nothing on to what it started: only a command that took its place by `exec` can end in an orderly way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from interlock.actions.expressions import PIECE
from interlock.actions.occurrences import CONVERSATION_EVENTS
from interlock.actions.workflow import Job, Step, Workflow
from interlock.shellscript import SimpleCommand, commands

_PROGRAMS = frozenset({"aider", "claude", "codex", "copilot", "cursor-agent", "gemini", "goose", "opencode"})
_PACKAGES = re.compile(r"@(anthropic-ai/claude-code|openai/codex|google/gemini-cli|github/copilot)(@.*)?")
#: What these programs do at once, without working on anything.
_QUICK = frozenset(
    {
        "--help",
        "--version",
        "-h",
        "-v",
        "auth",
        "config",
        "doctor",
        "help",
        "install",
        "login",
        "mcp",
        "update",
    }
)
_HOLDERS = frozenset({"hold", "work"})
_ACTIONS = (
    "anthropics/claude-code-action@",
    "anthropics/claude-code-base-action@",
    "openai/codex-action@",
    "google-github-actions/run-gemini-cli@",
)
#: What starts a program of one's own, and arguments with which it does not.
_STARTERS = frozenset({"bash", "bun", "deno", "node", "python", "python3", "ruby", "sh", "ts-node", "tsx"})
_NOT_STARTED = frozenset({"--version", "-c", "-e", "-m", "add", "ci", "i", "install", "lint", "test"})


def agent_jobs(workflow: Workflow) -> list[Job]:
    """The jobs that run an agent; where none is known and people talk to the workflow, those that might."""
    known = [job for job in workflow.jobs if any(_is_agent_step(step) for step in job.steps)]
    if known or not workflow.events.keys() & CONVERSATION_EVENTS:
        return known
    return [job for job in workflow.jobs if any(_may_be_agent_step(step) for step in job.steps)]


def has_timeout(job: Job) -> bool:
    """The job ends in a stated time, or each step that runs an agent does."""
    agent_steps = [step for step in job.steps if _is_agent_step(step)]
    return job.has_timeout or (bool(agent_steps) and all(step.has_timeout for step in agent_steps))


def deaf_commands(job: Job) -> Iterator[tuple[int, str]]:
    """Agents that no signal reaches: the line, and the program's name."""
    scripts = [step for step in job.steps if step.run is not None and _in_posix_shell(job, step)]
    known = any(_is_agent_step(step) for step in job.steps)
    for step in scripts:
        found = _script(step)
        if any(command.program[:1] == ["trap"] for command in found):
            continue  # it handles signals itself
        agents = [c for c in found if _is_agent(c.program)]
        if not known and step is scripts[-1]:
            agents = [c for c in found[-1:] if _starts_a_program(c.program)]
        for command in agents:
            if not command.execs:
                assert step.run is not None
                offset = command.line if step.run.literal else 0
                yield step.run.line + offset, command.program[0]


def _is_agent_step(step: Step) -> bool:
    return step.uses.lower().startswith(_ACTIONS) or any(_is_agent(c.program) for c in _script(step))


def _may_be_agent_step(step: Step) -> bool:
    """It starts a program of the repository, or an action that GitHub did not make."""
    foreign = bool(step.uses) and not step.uses.startswith(("actions/", "github/"))
    return foreign or any(_starts_a_program(c.program) for c in _script(step))


def _script(step: Step) -> list[SimpleCommand]:
    # An expression may hold marks of the shell's language; for the shell it is a text.
    text = PIECE.sub("EXPRESSION", step.run.value) if step.run is not None else ""
    return [command for command in commands(text) if not command.inner]


def _is_agent(program: list[str]) -> bool:
    if not program:
        return False
    name, arguments = program[0].rpartition("/")[2], program[1:]
    if name == "interlock":
        return bool(_HOLDERS.intersection(arguments))
    return (name in _PROGRAMS or bool(_PACKAGES.fullmatch(program[0]))) and not _QUICK.intersection(
        arguments[:1]
    )


def _starts_a_program(program: list[str]) -> bool:
    if not program:
        return False
    own = "/" in program[0] and not program[0].startswith("/usr/")
    return own or (
        program[0] in _STARTERS and len(program) > 1 and not _NOT_STARTED.intersection(program[1:2])
    )


def _in_posix_shell(job: Job, step: Step) -> bool:
    return step.shell.startswith(("bash", "sh")) if step.shell else not job.on_windows

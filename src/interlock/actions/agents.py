"""Which jobs run an agent, and whether a cancelled run's signals reach it.

An agent is recognised by its name: an action that runs one, a program or package that is one, `interlock
hold`, `work` and `push`. In a workflow that people talk to, a script with such a name
(`node bundle/gemini.js`) also counts, and so does any program or script with the word `agent` in its name.
Everything else is no agent, and the checks ignore it.

GitHub sends the signals of a cancellation to the entry process of a step, the shell. The shell does not
forward them: only a command that replaced it by `exec` can shut down cleanly.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from interlock.actions.expressions import PIECE, MalformedExpression, Undecided, parse_condition, truth
from interlock.actions.occurrences import CONVERSATION_EVENTS
from interlock.actions.shellscript import SimpleCommand, commands
from interlock.actions.workflow import Job, Step, Workflow

_NAMES = """
    aider amp auggie claude codex copilot crush cursor-agent gemini openhands opencode plandex qwen sweagent
"""
_PROGRAMS = frozenset(_NAMES.split())
#: Programs that run an agent only with one of these words: other tools may have the same name.
_WITH_WORD = {
    "awf": frozenset({"--"}),  # the firewall around the agents of GitHub's agentic workflows
    "droid": frozenset({"exec"}),
    "goose": frozenset({"run", "session"}),
    "interlock": frozenset({"hold", "push", "work"}),
}
_PACKAGES = re.compile(
    r"(@(anthropic-ai/claude-code|augmentcode/auggie|charmland/crush|github/copilot|google/gemini-cli|openai/codex"
    r"|qwen-code/qwen-code|sourcegraph/amp)|aider-chat|opencode-ai|openhands-ai)(@.*)?"
)
#: Arguments with which these programs do no work and end soon.
_QUICK = frozenset({"auth", "config", "doctor", "help", "install", "login", "mcp", "update"}) | frozenset(
    {"--help", "--version", "-h", "-v"}
)
#: It needs no signals, because it starts nothing that keeps working.
_PUSH = ["interlock", "push"]
_ACTIONS = re.compile(
    r"(anthropics/claude-code-(base-)?action|openai/codex-action|google-github-actions/run-gemini-cli"
    r"|google-gemini/gemini-cli-action|google-labs-code/jules-(action|invoke)|qwenlm/qwen-code-action"
    r"|(anomalyco|sst)/opencode/github|augmentcode/(augment-agent|review-pr|describe-pr)"
    r"|factory-ai/droid-(action|code-review)|warpdotdev/(oz|warp)-agent-action)(@.*)?",
    re.IGNORECASE,
)
#: The word in the name of a program or script, and programs that have it for other reasons.
_NAMED = re.compile(r"(?:^|[-_./:])agents?(?=[-_./:@]|$)", re.IGNORECASE)
_NAMED_OTHERWISE = frozenset({"ssh-agent", "gpg-agent", "buildkite-agent", "datadog-agent"})
#: A called workflow that is not among the files is recognised by its name alone.
_CALLED = re.compile(
    r"(?:^|[-_./])(?:agents?|aider|claude|codex|copilot|gemini|opencode)(?=[-_./@]|$)", re.IGNORECASE
)
#: Programs that run a script or program, and how many of their first words may contain its name.
_LAUNCHED_WORDS = {
    **dict.fromkeys(("bash", "bunx", "node", "npx", "python", "python3", "ruby", "sh", "tsx"), 1),
    **dict.fromkeys(("bun", "cargo", "deno", "dotnet", "go", "npm", "pnpm", "yarn"), 2),
    **dict.fromkeys(("docker", "just", "make", "podman", "task"), 4),
}
#: These programs run the program after one of these words.
_RUNNERS = {
    **dict.fromkeys(("hatch", "pdm", "pipenv", "pipx", "pixi", "poetry", "rye", "uv"), frozenset({"run"})),
    **dict.fromkeys(("bun", "deno", "npm", "pnpm", "yarn"), frozenset({"dlx", "exec", "x"})),
    "bundle": frozenset({"exec"}),
}
_RUNNER_OPTIONS = ("directory", "env-file", "extra", "group", "project", "python", "spec", "with")
_RUNNER_VALUES = frozenset({"-e", "-p", *(f"--{name}" for name in _RUNNER_OPTIONS)})


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreachedAgent:
    """An agent that gets no signals."""

    line: int
    program: str
    #: The word that starts it, before which `exec` belongs.
    starter: str
    #: It is inside a substitution or another shell's text, where `exec` alone does not help.
    inner: bool


def is_conversation(workflow: Workflow) -> bool:
    """Whether people talk to this workflow."""
    return bool(workflow.events.keys() & CONVERSATION_EVENTS)


def agent_jobs(workflow: Workflow, *, talking: bool) -> list[Job]:
    """The jobs that run an agent in their own steps, without jobs that never run."""
    return [
        job
        for job in workflow.jobs
        if any(_is_agent_step(job, step, talking=talking) for step in job.steps) and not _is_disabled(job)
    ]


def calls_agent(job: Job) -> bool:
    """Whether a job calls a workflow with the name of an agent."""
    return bool(_CALLED.search(job.uses)) and not _is_disabled(job)


def _is_disabled(job: Job) -> bool:
    """Whether its condition is always false, such as `false && …`."""
    with suppress(Undecided, MalformedExpression):
        return job.condition is not None and not truth(parse_condition(job.condition.value)({}))
    return False


def has_timeout(job: Job, *, talking: bool) -> bool:
    """Whether the job or each of its agent steps has a time limit. A job that calls a workflow cannot have
    one."""
    steps = [step for step in job.steps if _is_agent_step(job, step, talking=talking)]
    return bool(job.uses) or job.has_timeout or (bool(steps) and all(step.has_timeout for step in steps))


def unreached_agents(job: Job, *, talking: bool) -> Iterator[UnreachedAgent]:
    """The agents that get no signals."""
    for step in job.steps:
        if step.run is None or not _in_posix_shell(job, step):
            continue
        found = _script(job, step)
        if any(command.program[:1] == ["trap"] for command in found):
            continue  # it handles signals itself
        for command in found:
            program = _started(command.program)
            if _is_at_work(command, talking=talking) and not command.execs and program[:2] != _PUSH:
                offset = command.line if step.run.literal else 0
                yield UnreachedAgent(
                    line=step.run.line + offset,
                    program=program[0],
                    starter=command.starter,
                    inner=command.inner,
                )


def _is_agent_step(job: Job, step: Step, *, talking: bool) -> bool:
    return bool(_ACTIONS.fullmatch(step.uses)) or any(
        _is_at_work(command, talking=talking) for command in _script(job, step)
    )


def _is_at_work(command: SimpleCommand, *, talking: bool) -> bool:
    """Whether it is an agent in the foreground. One in the background is a server."""
    return command.end != "&" and _is_agent(_started(command.program), talking=talking)


def _script(job: Job, step: Step) -> list[SimpleCommand]:
    def filled(piece: re.Match[str]) -> str:
        # An expression may contain operators, but for the shell it is text. One job of a matrix is enough.
        context, _, name = piece[1].strip().partition(".")
        return job.matrix.get(name.lower(), ("EXPRESSION",))[0] if context == "matrix" else "EXPRESSION"

    return commands(PIECE.sub(filled, step.run.value)) if step.run is not None else []


def _is_agent(program: Sequence[str], *, talking: bool) -> bool:
    if not program or _QUICK.intersection(program[1:2]):
        return False
    name = _name(program[0])
    if name in _WITH_WORD:
        return not _WITH_WORD[name].isdisjoint(program[1:])
    if name in _PROGRAMS or _PACKAGES.fullmatch(program[0]):
        return True
    words = [word for word in program[1:] if not word.startswith("-")][: _LAUNCHED_WORDS.get(name, 0)]
    if not talking:
        return False
    return any(_name(word).partition(".")[0] in _PROGRAMS for word in words[:1]) or any(
        _NAMED.search(word) and _name(word) not in _NAMED_OTHERWISE for word in (program[0], *words)
    )


def _started(program: list[str]) -> list[str]:
    """The program that `uv run`, `npm exec` and the like start; for others, the program itself."""
    for _ in range(3):
        words = _after_options(program[1:])
        if not program or not words or words[0] not in _RUNNERS.get(_name(program[0]), ()):
            break
        program = _after_options(words[1:])
    return program


def _after_options(words: list[str]) -> list[str]:
    """The words, starting with the first that is not an option."""
    skip = False
    for at, word in enumerate(words):
        if skip or word.startswith("-"):
            skip = not skip and word in _RUNNER_VALUES
        else:
            return words[at:]
    return []


def _name(word: str) -> str:
    return word.rpartition("/")[2]


def _in_posix_shell(job: Job, step: Step) -> bool:
    return step.shell.startswith(("bash", "sh")) if step.shell else not job.on_windows

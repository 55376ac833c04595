"""`actions`: write a workflow for an agent, check workflows, and cancel orphaned runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from interlock.cli import typer, views
from interlock.cli.command import Group
from interlock.cli.invocation import invocation_of
from interlock.cli.output import tell
from interlock.cli.values import repository
from interlock.cli.workflow_files import WORKFLOWS, outside_words, source_of, tree, write
from interlock.core.errors import Exit, InvalidInput, TooLarge
from interlock.service.item_fields import choice, span_s

actions = Group("Write a GitHub workflow for an agent, find mistakes in workflows, cancel orphaned runs.")

_DEFAULT_OUTPUT = WORKFLOWS / "agent.yml"
#: More than any repository has: a directory passed by mistake is not read in full.
_FILES_MAX = 1_000


@actions.callback()
def show_help(ctx: typer.Context) -> int:
    """Write a GitHub workflow for an agent, find mistakes in workflows, cancel orphaned runs."""
    if ctx.invoked_subcommand is None:
        sys.stdout.write(ctx.get_help())
    return Exit.OK


@actions.command("init")
def init(
    ctx: typer.Context,
    *,
    style: Annotated[
        str,
        typer.Option(
            metavar="queue|cancel",
            autocompletion=lambda: ["queue", "cancel"],
            help="Run every event in turn, or let the newest cancel the running one.",
        ),
    ] = "queue",
    agent_command: Annotated[
        str | None,
        typer.Option(metavar="COMMAND", help="What runs the agent; default: bash .github/agent.sh."),
    ] = None,
    install: Annotated[
        str | None,
        typer.Option(
            metavar="SPEC",
            help="What pip installs Interlock from; default: where this one came from, else a wheel of it.",
        ),
    ] = None,
    state: Annotated[
        str | None,
        typer.Option(
            metavar="DIRECTORY", help="Runs keep files in this directory of the default branch, in $STATE."
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="A file, or a directory to write agent.yml in; default: .github/workflows/agent.yml.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print it and write nothing.")] = False,
) -> int:
    """Write a workflow that runs an agent on issues, comments, pull requests and reviews.

    One run for each number at a time, on a lane of the repository's own git server. The file explains itself.
    """
    from interlock.actions.agent_workflow import DEFAULT_COMMAND, Style, agent_workflow

    call = invocation_of(ctx)
    chosen = Style(choice("style", style, tuple(Style)))
    source, wheel = source_of(install)
    text = agent_workflow(
        chosen, DEFAULT_COMMAND if agent_command is None else agent_command, source, state=state
    )
    path = _file(output)
    files = {path: text.encode(), **wheel}
    if not dry_run:
        write(files, force=force)
    if dry_run and not call.out.json:
        sys.stdout.write(text)
        return Exit.OK
    lines = [f"Wrote {file}." for file in files]
    if agent_command is None:
        lines.append(f"It runs {DEFAULT_COMMAND}: write that script, or name a command with --agent-command.")
    if wheel:
        lines.append(
            "It installs that wheel of this Interlock: commit both, or name a source with --install."
        )
    elif install is None:
        lines.append(f"It installs {source}, as here; --install names another source.")
    lines += outside_words()
    answer = {"path": str(path), "install": source, "written": not dry_run, "text": text}
    return call.out.answer(answer, "\n".join(lines))


@actions.command("check")
def check(
    ctx: typer.Context,
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE…", help="Workflows or directories of them; default: .github/workflows."),
    ] = None,
) -> int:
    """Find the known mistakes in workflows; exit 1 if there is one.

    It checks a concurrency group by the keys that events get, and is silent about what only a run can know.
    """
    from interlock.actions.lint import check as look

    call = invocation_of(ctx)
    paths = _workflows(files)
    findings = look([(str(path), _content(path)) for path in paths])
    call.out.answer(
        {"files": [str(path) for path in paths], "findings": findings},
        lambda out: views.workflows.findings(out, len(paths), findings),
    )
    return Exit.ERROR if findings else Exit.OK


@actions.command("sweep")
def sweep(
    ctx: typer.Context,
    *,
    workflow: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE", help="A workflow whose runs may be cancelled; default: this one, or agent.yml."
        ),
    ] = None,
    repo: Annotated[
        str | None, typer.Option(metavar="OWNER/NAME", help="The repository; default: GITHUB_REPOSITORY.")
    ] = None,
    older_than: Annotated[
        str, typer.Option(metavar="SPAN", help="Skip runs that began more recently; default: 10m.")
    ] = "10m",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Cancel nothing; print what would be cancelled.")
    ] = False,
) -> int:
    """Cancel workflow runs that lost their lane, or that a newer item superseded.

    A run that does not end within 5 minutes of its cancellation is ended by force. 👀 reactions of dead runs
    are removed.
    """
    import os

    from interlock import app
    from interlock.github import client, orphaned_runs
    from interlock.github.work_reaction import remove_reactions
    from interlock.process.workplace import IN_ACTIONS

    call = invocation_of(ctx)
    chosen = repository(repo)
    older_than_s = span_s("--older-than", older_than)
    with client.from_environment(os.environ) as github, call.reading_lanes() as lanes:
        swept = orphaned_runs.sweep(
            github,
            chosen,
            workflow or [_this_workflow(os.environ.get("GITHUB_WORKFLOW_REF", ""))],
            lanes.recent_runs(worker=IN_ACTIONS, limit=10_000),
            older_than_s=older_than_s,
            force_after_s=orphaned_runs.FORCE_AFTER_S,
            dry_run=dry_run,
            tell=tell,
        )
        orphaned = app.orphaned_reactions(call.settings)
        taken = orphaned if dry_run else remove_reactions(github, orphaned, tell)
    return call.out.answer(
        {"swept": swept, "reactions": taken},
        lambda out: views.workflows.swept(out, swept, taken, dry_run=dry_run),
    )


def _this_workflow(ref: str) -> str:
    """The file of the current workflow, from `OWNER/NAME/.github/workflows/FILE@REF`."""
    return Path(ref.partition("@")[0]).name or _DEFAULT_OUTPUT.name


def _workflows(given: list[str] | None) -> list[Path]:
    """The files to check, in order; for a directory, the workflows in it."""
    places = [Path(name) for name in given] if given else [tree() / WORKFLOWS]
    found: list[Path] = []
    for place in places:
        if place.is_dir():
            found += sorted(p for p in place.iterdir() if p.suffix in (".yml", ".yaml") and p.is_file())
        elif place.is_file():
            found.append(place)
        else:
            raise InvalidInput(
                f"There is no file {place}.", "Name workflows, or go to a repository with .github/workflows."
            )
    if not found:
        raise InvalidInput(f"There is no workflow in {places[0]}.", "Write one with interlock actions init.")
    if len(found) > _FILES_MAX:
        raise TooLarge(f"{len(found):,} files are too many.", f"At most {_FILES_MAX:,} are checked.")
    return list(dict.fromkeys(found))


def _content(path: Path) -> bytes:
    """A file's content, cut one byte above the limit of a workflow."""
    from interlock.actions.workflow import SIZE_MAX_BYTES

    try:
        with path.open("rb") as file:
            return file.read(SIZE_MAX_BYTES + 1)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}.", "Check its permissions.") from None


def _file(output: str | None) -> Path:
    """The file to write; a path without a workflow's suffix is a directory."""
    if output is None:
        return tree() / _DEFAULT_OUTPUT
    path = Path(output)
    return path if path.suffix in (".yml", ".yaml") else path / _DEFAULT_OUTPUT.name

"""`series`: keeps one issue of an RFC series assigned at a time."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from interlock.cli import typer, views
from interlock.cli.command import Group
from interlock.cli.invocation import invocation_of
from interlock.cli.values import repository
from interlock.core.errors import Exit, InvalidInput
from interlock.core.names import check_number

METRICS = "assignment_mutex_metrics.json"

series = Group("Keep one issue of an RFC series assigned at a time, and queue the others.")

Repo = Annotated[
    str | None, typer.Option(metavar="OWNER/NAME", help="The repository; default: GITHUB_REPOSITORY.")
]
Send = Annotated[
    bool, typer.Option("--no-send", help="Send nothing to GitHub now; `interlock github send` does it later.")
]
Name = Annotated[str, typer.Argument(metavar="SERIES", help="Such as RFC-093.")]
Issue = Annotated[str, typer.Argument(metavar="ISSUE", help="Its number.")]
Why = Annotated[str, typer.Option("--reason", metavar="TEXT", of="release_issue.why")]


@series.callback()
def show_help(ctx: typer.Context) -> int:
    """Keep one issue of an RFC series assigned at a time, and queue the others."""
    if ctx.invoked_subcommand is None:
        sys.stdout.write(ctx.get_help())
    return Exit.OK


@series.command("status")
def status(
    ctx: typer.Context,
    name: Annotated[
        str | None, typer.Argument(metavar="SERIES", help="Such as RFC-093; without one, all.")
    ] = None,
    *,
    repo: Repo = None,
) -> int:
    """Show each series: its active issue, its queue, and blocked issues."""
    call = invocation_of(ctx)
    with call.connection() as service:
        found = service.series(repository(repo), series=name)
    return call.out.answer({"series": found}, lambda out: views.series.status(out, found, name))


@series.command("acquire")
def acquire(
    ctx: typer.Context,
    issue: Issue,
    *,
    assign: Annotated[
        str | None, typer.Option(metavar="LOGIN", help="The account to assign; default: series_assignee.")
    ] = None,
    no_assign: Annotated[
        bool, typer.Option("--no-assign", help="Do not assign: the caller assigns if the answer says so.")
    ] = False,
    queued_ok: Annotated[bool, typer.Option("--queued-ok", help="Exit 0 if the issue is queued.")] = False,
    repo: Repo = None,
    no_send: Send = False,
) -> int:
    """Make an issue the active one of its series, if it is next; exit 4 if it is queued or ignored.

    In a job of Actions the answer is also written to its outputs: status, active_issue, position, assign.
    """
    from interlock.service.series import CALLER_ASSIGNS

    call = invocation_of(ctx)
    if assign is not None and no_assign:
        raise InvalidInput("--assign and --no-assign exclude each other.", "Use one of them.")
    login = CALLER_ASSIGNS if no_assign else assign
    with call.connection(send=not no_send) as service:
        found = service.acquire_issue(repository(repo), _number(issue), assign=login)
    _write_outputs(
        {
            "status": found.status,
            "active_issue": found.active_issue,
            "position": found.position,
            "assign": found.assign,
        }
    )
    call.out.answer(found, views.series.acquired(found))
    queued = found.status.startswith("queued") and not (found.assign or queued_ok)
    return Exit.HELD if queued or found.status == "ignored" else Exit.OK


@series.command("release")
def release(
    ctx: typer.Context, issue: Issue, *, reason: Why = "", repo: Repo = None, no_send: Send = False
) -> int:
    """Release an issue and promote the next one. It waits until it is assigned or acquired again."""
    call = invocation_of(ctx)
    with call.connection(send=not no_send) as service:
        found = service.release_issue(repository(repo), _number(issue), why=reason)
    return call.out.answer(found, lambda out: views.series.cycles(out, [found]))


@series.command("promote")
def promote(
    ctx: typer.Context,
    name: Name,
    *,
    force: Annotated[bool, typer.Option("--force", of="promote_series.force")] = False,
    reason: Why = "",
    repo: Repo = None,
    no_send: Send = False,
) -> int:
    """Promote the next issue of a series, if the active one has ended.

    Exit 4 if it has not, 3 if the queue is empty.
    """
    call = invocation_of(ctx)
    with call.connection(send=not no_send) as service:
        found = service.promote_series(repository(repo), name, force=force, why=reason)
    call.out.answer(found, lambda out: views.series.cycles(out, [found]))
    if found.metrics["promotion_events"]:
        return Exit.OK
    return Exit.NO_WORK if found.active_issue is None else Exit.HELD


@series.command("reconcile")
def reconcile(
    ctx: typer.Context,
    name: Annotated[
        list[str] | None, typer.Argument(metavar="[SERIES]...", help="Such as RFC-093; without one, all.")
    ] = None,
    *,
    metrics: Annotated[
        str | None, typer.Option(metavar="FILE", help=f"Write the metrics to this file, such as {METRICS}.")
    ] = None,
    repo: Repo = None,
    no_send: Send = False,
) -> int:
    """Bring every series up to date with GitHub: active issue, queue, assignments, state issue.

    Safe to run concurrently. Exit 1 if a series could not be reconciled.
    """
    call, where = invocation_of(ctx), repository(repo)
    with call.connection(send=not no_send) as service:
        found = service.reconcile_series(where, series=name or ())
        counts = {} if metrics is None else service.series_metrics(where)
    if metrics is not None:
        _write_metrics(Path(metrics), counts)
    call.out.answer({"series": found}, lambda out: views.series.cycles(out, found))
    return Exit.ERROR if any(each.refused for each in found) else Exit.OK


@series.command("rebuild")
def rebuild(ctx: typer.Context, name: Name, *, repo: Repo = None, no_send: Send = False) -> int:
    """Rebuild the queue of a series from its open issues."""
    call = invocation_of(ctx)
    with call.connection(send=not no_send) as service:
        found = service.rebuild_series(repository(repo), name)
    return call.out.answer(found, lambda out: views.series.cycles(out, [found]))


@series.command("metrics")
def metrics(
    ctx: typer.Context,
    *,
    to: Annotated[
        str | None, typer.Option(metavar="FILE", help=f"Write them to this file, such as {METRICS}.")
    ] = None,
    repo: Repo = None,
) -> int:
    """Show promotions, prevented duplicates, retries and conflicts, by series and in total."""
    call = invocation_of(ctx)
    with call.connection() as service:
        found = service.series_metrics(repository(repo))
    if to is not None:
        _write_metrics(Path(to), found)
    return call.out.answer(found, lambda out: views.series.metrics(out, found))


@series.command("init")
def init(
    ctx: typer.Context,
    *,
    stage: Annotated[
        str,
        typer.Option(
            "--stage",
            "--mode",  # as it was called first
            metavar="observe|enforce|comment",
            autocompletion=lambda: ["observe", "enforce", "comment"],
            help="The first stage of the rollout.",
        ),
    ] = "observe",
    install: Annotated[
        str | None,
        typer.Option(
            metavar="SPEC",
            help="What pip installs; default: the source of this installation, else a wheel of it.",
        ),
    ] = None,
    output: Annotated[
        str | None, typer.Option(metavar="DIRECTORY", help="Where to write; default: .github/workflows.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the files and write nothing.")] = False,
) -> int:
    """Write the workflows that run series without a server: series.yml and assign.yml."""
    from interlock.actions.series_workflows import series_workflows
    from interlock.cli.workflow_files import WORKFLOWS, outside_words, source_of, tree, write
    from interlock.core.names import one_of
    from interlock.core.series.snapshot import RolloutStage

    call = invocation_of(ctx)
    source, wheels = source_of(install)
    texts = series_workflows(one_of("stage", stage, RolloutStage), source)
    directory = tree() / WORKFLOWS if output is None else Path(output)
    files = {directory / name: text.encode() for name, text in texts.items()}
    if dry_run and not call.out.json:
        sys.stdout.write("\n".join(texts.values()))
        return Exit.OK
    if not dry_run:
        write({**files, **wheels}, force=force)
    lines = [f"Wrote {file}." for file in (*files, *wheels)]
    if wheels:
        lines.append("They install that wheel; --install names another source.")
    lines.append("Commit them. Series need nothing else.")
    lines += outside_words()
    answer = {
        "written": not dry_run,
        "install": source,
        "files": {str(p): t.decode() for p, t in files.items()},
    }
    return call.out.answer(answer, "\n".join(lines))


def _number(text: str) -> int:
    from interlock.service.item_fields import whole

    number = whole("issue", text.removeprefix("#"))
    check_number("issue", number, 1, 2**31 - 1)
    return number


def _write_outputs(values: Mapping[str, object]) -> None:
    """Write outputs of a step of Actions, one line each; no value contains text of others."""
    path = os.environ.get("GITHUB_OUTPUT")
    if not path:
        return
    lines = [f"{name}={_plain(value)}\n" for name, value in values.items()]
    try:
        with Path(path).open("a", encoding="utf-8") as file:
            file.writelines(lines)
    except OSError as error:
        raise InvalidInput(f"Cannot write GITHUB_OUTPUT: {error.strerror}.") from None


def _plain(value: object) -> str:
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _write_metrics(path: Path, counts: Mapping[str, object]) -> None:
    """Replace the file atomically: a reader sees the old one or the new one."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_text(json.dumps(counts, indent=2) + "\n", encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        raise InvalidInput(f"Cannot write {path}: {error.strerror}.", "Name another file.") from None

"""`series`: of the RFC issues of a series, one at a time is assigned."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from interlock.cli import typer, views
from interlock.cli.command import Group
from interlock.cli.invocation import Invocation, invocation_of
from interlock.cli.values import repository
from interlock.core.errors import Exit, InvalidInput
from interlock.core.names import check_number

if TYPE_CHECKING:
    from interlock.github.series.keeper import Keeper
    from interlock.remote.series import ServedSeries

METRICS = "assignment_mutex_metrics.json"

series = Group("Let one issue of an RFC series be assigned at a time, the others in line.")

Repo = Annotated[
    str | None, typer.Option(metavar="OWNER/NAME", help="The repository; default: GITHUB_REPOSITORY.")
]
Send = Annotated[
    bool, typer.Option("--no-send", help="Leave what is owed to GitHub to `interlock github send`.")
]
Name = Annotated[str, typer.Argument(metavar="SERIES", help="Such as RFC-093.")]
Issue = Annotated[str, typer.Argument(metavar="ISSUE", help="Its number.")]
Why = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why, for the history.")]


@series.callback()
def show_help(ctx: typer.Context) -> int:
    """Let one issue of an RFC series be assigned at a time, the others in line."""
    if ctx.invoked_subcommand is None:
        sys.stdout.write(ctx.get_help())
    return Exit.OK


@contextmanager
def _keeper(call: Invocation, repo: str | None, *, send: bool = True) -> Iterator[Keeper | ServedSeries]:
    from interlock import app

    with app.open_series(call.settings, repository(repo), send=send) as keeper:
        yield keeper


@series.command("status")
def status(
    ctx: typer.Context,
    name: Annotated[
        str | None, typer.Argument(metavar="SERIES", help="Such as RFC-093; without one, all.")
    ] = None,
    *,
    repo: Repo = None,
) -> int:
    """Show the active issue of each series, the line behind it, and what waits for something else."""
    from interlock import app

    call = invocation_of(ctx)
    with app.open_overview(call.settings, repository(repo)) as overview:
        found = overview.status([overview.named(name)] if name is not None else ())
    return call.out.answer({"series": found}, lambda out: views.series.standing(out, found, name))


@series.command("acquire")
def acquire(
    ctx: typer.Context,
    issue: Issue,
    *,
    assign: Annotated[
        str | None, typer.Option(metavar="LOGIN", help="Whom to assign; default: series_assignee.")
    ] = None,
    no_assign: Annotated[
        bool, typer.Option("--no-assign", help="Assign nobody: the caller does, if the answer says so.")
    ] = False,
    queued_ok: Annotated[
        bool, typer.Option("--queued-ok", help="Exit 0 also if the issue has to wait.")
    ] = False,
    repo: Repo = None,
    no_send: Send = False,
) -> int:
    """Take the series of an issue, if it is next; exit 4 if it has to wait or is ignored.

    In a job of Actions the answer is written to its outputs too: status, active_issue, position, assign.
    """
    from interlock.core.names import check_name
    from interlock.github.series.cycle import NOBODY

    call = invocation_of(ctx)
    if assign is not None and no_assign:
        raise InvalidInput("--assign and --no-assign are given at once.", "Use one or the other.")
    login = NOBODY if no_assign else None if assign is None else check_name("login", assign)
    with _keeper(call, repo, send=not no_send) as keeper:
        found = keeper.acquire(_number(issue), login=login)
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
    """Give an issue back: the next one is promoted, and this one waits until somebody wants it again."""
    call = invocation_of(ctx)
    with _keeper(call, repo, send=not no_send) as keeper:
        found = keeper.release(_number(issue), why=reason)
    return call.out.answer(found, lambda out: views.series.cycles(out, [found]))


@series.command("promote")
def promote(
    ctx: typer.Context,
    name: Name,
    *,
    force: Annotated[bool, typer.Option("--force", help="Give the active issue back first.")] = False,
    reason: Why = "",
    repo: Repo = None,
    no_send: Send = False,
) -> int:
    """Promote the next issue of a series, if its active one has ended.

    Exit 4 if that still has the series, 3 if nobody is next.
    """
    call = invocation_of(ctx)
    with _keeper(call, repo, send=not no_send) as keeper:
        found = keeper.promote(keeper.named(name), force=force, why=reason)
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
        str | None, typer.Option(metavar="FILE", help=f"Write the counts there, such as {METRICS}.")
    ] = None,
    repo: Repo = None,
    no_send: Send = False,
) -> int:
    """Make every series what GitHub says: who is active, who is in line, who is assigned, the state issues.

    Any number may run at once. Exit 1 if a series could not be kept.
    """
    call = invocation_of(ctx)
    with _keeper(call, repo, send=not no_send) as keeper:
        found = keeper.reconcile([keeper.named(each) for each in name or ()])
        counts = keeper.metrics()
    if metrics is not None:
        _write_metrics(Path(metrics), counts)
    call.out.answer({"series": found}, lambda out: views.series.cycles(out, found))
    return Exit.ERROR if any(each.refused for each in found) else Exit.OK


@series.command("rebuild")
def rebuild(ctx: typer.Context, name: Name, *, repo: Repo = None, no_send: Send = False) -> int:
    """Forget the line of a series, and build it anew from the live issues."""
    call = invocation_of(ctx)
    with _keeper(call, repo, send=not no_send) as keeper:
        found = keeper.rebuild(keeper.named(name))
    return call.out.answer(found, lambda out: views.series.cycles(out, [found]))


@series.command("metrics")
def metrics(
    ctx: typer.Context,
    *,
    to: Annotated[
        str | None, typer.Option(metavar="FILE", help=f"Write them there, such as {METRICS}.")
    ] = None,
    repo: Repo = None,
) -> int:
    """Show promotions, doubles that were prevented, retries and conflicts, by series and in total."""
    from interlock import app

    call = invocation_of(ctx)
    with app.open_overview(call.settings, repository(repo)) as overview:
        found = overview.metrics()
    if to is not None:
        _write_metrics(Path(to), found)
    return call.out.answer(found, lambda out: views.series.metrics(out, found))


@series.command("init")
def init(
    ctx: typer.Context,
    *,
    mode: Annotated[
        str,
        typer.Option(
            metavar="observe|enforce|comment",
            autocompletion=lambda: ["observe", "enforce", "comment"],
            help="How far the rollout goes at first.",
        ),
    ] = "observe",
    install: Annotated[
        str | None,
        typer.Option(
            metavar="SPEC",
            help="What pip installs Interlock from; default: where this one came from, else a wheel of it.",
        ),
    ] = None,
    output: Annotated[
        str | None, typer.Option(metavar="DIRECTORY", help="Where to write; default: .github/workflows.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print them and write nothing.")] = False,
) -> int:
    """Write the workflows that keep series in a repository without a server: series.yml and assign.yml."""
    from interlock.actions.series_workflows import series_workflows
    from interlock.cli.workflow_files import WORKFLOWS, outside_words, source_of, tree, write
    from interlock.core.names import one_of
    from interlock.core.series.standing import Mode

    call = invocation_of(ctx)
    source, wheels = source_of(install)
    texts = series_workflows(one_of("mode", mode, Mode), source)
    directory = tree() / WORKFLOWS if output is None else Path(output)
    files = {directory / name: text.encode() for name, text in texts.items()}
    if dry_run and not call.out.json:
        sys.stdout.write("\n".join(texts.values()))
        return Exit.OK
    if not dry_run:
        write({**files, **wheels}, force=force)
    lines = [f"Wrote {file}." for file in (*files, *wheels)]
    if wheels:
        lines.append("They install that wheel of this Interlock; --install names another source.")
    lines.append("Commit them. Without a server, series need nothing else.")
    lines += outside_words()
    answer = {
        "written": not dry_run,
        "install": source,
        "files": {str(p): t.decode() for p, t in files.items()},
    }
    return call.out.answer(answer, "\n".join(lines))


def _number(text: str) -> int:
    from interlock.service.intake import whole

    number = whole("issue", text.removeprefix("#"))
    check_number("issue", number, 1, 2**31 - 1)
    return number


def _write_outputs(values: Mapping[str, object]) -> None:
    """Outputs of a step of Actions, one line each: texts of ours alone."""
    path = os.environ.get("GITHUB_OUTPUT")
    if not path:
        return
    lines = [f"{name}={_plain(value)}\n" for name, value in values.items()]
    try:
        with Path(path).open("a", encoding="utf-8") as file:
            file.writelines(lines)
    except OSError as error:
        raise InvalidInput(f"GITHUB_OUTPUT cannot be written: {error.strerror}.") from None


def _plain(value: object) -> str:
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _write_metrics(path: Path, counts: Mapping[str, object]) -> None:
    """The file as a whole, or the one before: whoever reads it meanwhile sees no half of it."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_text(json.dumps(counts, indent=2) + "\n", encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written: {error.strerror}.", "Name another file.") from None

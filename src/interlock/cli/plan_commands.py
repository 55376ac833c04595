"""`interlock plan`: create, show, draw, edit, watch and cancel graphs of tasks."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

from interlock.cli import typer
from interlock.cli.command import Group
from interlock.cli.invocation import Invocation
from interlock.cli.invocation import invocation_of as session_of
from interlock.cli.options import Every, Limit, every_s_of, limit_of
from interlock.cli.values import file_text, whole_or_none
from interlock.core.errors import Exit, InvalidInput
from interlock.core.plans.model import EDIT_TYPE, PlanStatus
from interlock.service.contract import Service
from interlock.service.item_fields import choice, span_s, whole

if TYPE_CHECKING:
    from interlock.cli.page import Console
    from interlock.service.plan_view import PlanView

plan = Group("Run graphs of tasks, and edit them while they run.")

_FORMATS = ("text", "mermaid", "svg", "json")
_Id = Annotated[str, typer.Argument(metavar="ID", help="A plan's number, as `interlock plan ls` shows it.")]
_File = Annotated[str, typer.Argument(metavar="FILE|-", help="YAML, JSON or TOML; - for standard input.")]
_Reason = Annotated[str, typer.Option("--reason", "--why", metavar="TEXT", of="cancel_plan.why")]


@plan.callback()
def plan_alone(ctx: typer.Context) -> int:
    """List the plans that have not ended."""
    return Exit.OK if ctx.invoked_subcommand is not None else _list(ctx, ended=False, limit="100")


@plan.command("ls")
def list_plans(
    ctx: typer.Context,
    all_: Annotated[bool, typer.Option("--all", help="Include ended plans.")] = False,
    limit: Limit = "100",
) -> int:
    """List plans with their progress."""
    return _list(ctx, ended=all_, limit=limit)


@plan.command("create")
def create(ctx: typer.Context, file: _File) -> int:
    """Create a plan; its tasks may be claimed at once.

    The file has name, editor, edit_deadline_s, tasks (key, title, agent, labels, type, priority, payload,
    lane, …) and edges (from, to, when, on_cancel).
    """
    from interlock.plans.planfile import read_plan

    session = session_of(ctx)
    settings = session.settings
    new = read_plan(file_text("plan", file), name=file, types=settings.types, lanes=settings.lanes)
    with session.service() as service:
        made = service.create_plan(
            new.name,
            new.graph,
            editor=new.editor,
            edit_deadline_s=new.edit_deadline_s,
            project=new.project,
            by=settings.actor,
        )
    return _print(session, made, lambda views, to: views.created(to, made))


@plan.command("show")
def show(ctx: typer.Context, id_: _Id) -> int:
    """Show one plan: the status of each task and what it waits for."""
    session = session_of(ctx)
    with session.reading(stand_in=False) as service:
        found = service.plan(whole("plan", id_))
    return _print(session, found, lambda views, to: views.detail(to, found))


@plan.command("graph")
def graph(
    ctx: typer.Context,
    id_: _Id,
    format_: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="text|mermaid|svg|json",
            autocompletion=lambda: list(_FORMATS),
            help="How to draw it. json is what `plan edit` reads.",
        ),
    ] = "text",
    revision: Annotated[
        str | None, typer.Option(metavar="N", help="The graph of this revision, without statuses.")
    ] = None,
) -> int:
    """Draw a plan's graph, or print it as JSON for an edit."""
    from interlock.cli.views import plans
    from interlock.plans.planfile import graph_document
    from interlock.plans.render import bare_picture, picture

    session = session_of(ctx)
    chosen, wanted = choice("--format", format_, _FORMATS), whole_or_none("--revision", revision)
    with session.reading(stand_in=False) as service:
        found = service.plan(whole("plan", id_))
        at = found.revision if wanted is None else wanted
        bare = service.plan_at(found.id, at) if chosen == "json" or at != found.revision else None
    if bare is not None and chosen == "json":
        answer: Any = graph_document(bare)
        text = plans.written(answer)
    else:
        drawn = picture(found) if bare is None else bare_picture(found.name, bare)
        answer = text = plans.graph_text(drawn, chosen)
    if session.out.json:
        session.out.print_json({"plan": found.id, "revision": at, "format": chosen, "graph": answer})
    elif chosen == "text":
        plans.graph(session.out.page, drawn, found.id, wanted)
    else:
        session.out.console.file.write(text)
    return Exit.OK


@plan.command("edit")
def edit(
    ctx: typer.Context,
    id_: _Id,
    file: _File,
    *,
    base: Annotated[str, typer.Option(metavar="REV", of="edit_plan.base")],
    run: Annotated[
        str | None,
        typer.Option(metavar="HANDLE", help="The plan.edit run; default: INTERLOCK_RUN, if it is one."),
    ] = None,
    through: Annotated[
        str | None,
        typer.Option(
            metavar="N", help="The last completion that it answers; default: the last when the run began."
        ),
    ] = None,
    reason: _Reason = "",
) -> int:
    """Change a plan, all or nothing: by operations, or by a whole new graph that is compared with its base.

    An edit of an older revision is applied if it conflicts with no later change; else it is refused with exit
    6.
    """
    from interlock.plans.planfile import read_edit

    session = session_of(ctx)
    settings = session.settings
    number, revision, answered = (
        whole("plan", id_),
        whole("--base", base),
        whole_or_none("--through", through),
    )
    new = read_edit(file_text("edit", file), name=file, types=settings.types, lanes=settings.lanes)
    with session.service() as service:
        edit_run = run or _edit_run(service)
        answer = service.edit_plan(
            number,
            base=revision,
            operations=new.operations,
            graph=new.graph,
            run=edit_run,
            through=answered,
            by="" if edit_run else settings.actor,  # the run's agent makes the requested edit
            why=reason,
        )
    return _print(session, answer, lambda views, to: views.edited(to, answer))


@plan.command("batch")
def batch(
    ctx: typer.Context,
    run: Annotated[
        str | None,
        typer.Argument(metavar="HANDLE", help="The plan.edit run; default: INTERLOCK_RUN."),
    ] = None,
) -> int:
    """Show an editor the ended tasks that its edit must answer."""
    session = session_of(ctx)
    handle = run or os.environ.get("INTERLOCK_RUN", "")
    if not handle:
        raise InvalidInput("No run was given.", "Pass the handle of the plan.edit run.")
    with session.reading(stand_in=False) as service:
        found = service.plan_batch(handle)
    return _print(session, found, lambda views, to: views.batch(to, found, run))


@plan.command("watch")
def watch(
    ctx: typer.Context,
    id_: _Id,
    every: Every = "1s",
) -> int:
    """Watch a plan live until it ends; q or Ctrl-C stops earlier.

    Without a terminal it prints a line for each change, and with --json each new state. Exit 1 if the plan
    ended without completing everything.
    """
    from interlock.cli.views import planwatch

    session = session_of(ctx)
    number, every_s = whole("plan", id_), every_s_of(every)
    with session.watching() as service:
        if session.out.json:
            last = planwatch.emit(service, number, every_s, session.out.print_json)
        else:
            last = planwatch.watch(
                session.out.console, service, number, every_s, session.outage, warning=session.warning
            )
    return Exit.OK if last.status in (PlanStatus.RUNNING, PlanStatus.COMPLETED) else Exit.ERROR


@plan.command("cancel")
def cancel(ctx: typer.Context, id_: _Id, reason: _Reason) -> int:
    """Cancel a plan and all its open tasks; running ones are asked to stop."""
    session = session_of(ctx)
    with session.service() as service:
        changed = service.cancel_plan(whole("plan", id_), why=reason, by=session.settings.actor)
    return _changed(session, changed, "is cancelled; running tasks are asked to stop")


@plan.command("pause")
def pause(ctx: typer.Context, id_: _Id, reason: _Reason) -> int:
    """Pause a plan: it starts nothing new, and running work continues."""
    session = session_of(ctx)
    with session.service() as service:
        changed = service.pause_plan(whole("plan", id_), why=reason, by=session.settings.actor)
    return _changed(session, changed, "is paused: it starts nothing new, and running work continues")


@plan.command("resume")
def resume(ctx: typer.Context, id_: _Id, reason: _Reason = "") -> int:
    """Start tasks of a paused plan again."""
    session = session_of(ctx)
    with session.service() as service:
        changed = service.resume_plan(whole("plan", id_), why=reason, by=session.settings.actor)
    if changed.cycle is not None:
        return _changed(session, changed, f"is no longer paused, and waits for an edit by {changed.editor}")
    return _changed(session, changed, "may start tasks again")


@plan.command("set-deadline")
def set_deadline(
    ctx: typer.Context,
    id_: _Id,
    deadline: Annotated[str, typer.Argument(metavar="SPAN", help="For example 600, 10m or 1h.")],
) -> int:
    """Set how long a plan's editor may take for an edit; the deadline of an open cycle moves along."""
    session = session_of(ctx)
    number, deadline_s = whole("plan", id_), span_s("deadline", deadline)
    with session.service() as service:
        changed = service.set_edit_deadline(number, deadline_s, by=session.settings.actor)
    return _print(session, changed, lambda views, to: views.deadline_set(to, changed))


@plan.command("stats")
def stats(ctx: typer.Context, id_: _Id) -> int:
    """Show figures of a plan: edits, critical path, total work and parallelism."""
    session = session_of(ctx)
    number = whole("plan", id_)
    with session.reading(stand_in=False) as service:
        figures, found = service.plan_stats(number), service.plan(number)
    return _print(session, figures, lambda views, to: views.stats(to, found, figures))


@plan.command("history")
def history(
    ctx: typer.Context,
    id_: _Id,
    after: Annotated[str, typer.Option(metavar="REV", of="plan_history.after")] = "0",
    limit: Limit = "100",
) -> int:
    """Print a plan's revisions: who changed what, when and why."""
    session = session_of(ctx)
    number, start, count = whole("plan", id_), whole("--after", after), limit_of(limit)
    with session.reading(stand_in=False) as service:
        found = service.plan_history(number, after=start, limit=count)
    return _print(session, {"revisions": found}, lambda views, to: views.history(to, found))


@plan.command("diff")
def diff(
    ctx: typer.Context,
    id_: _Id,
    before: Annotated[str, typer.Argument(metavar="REV")],
    after: Annotated[str, typer.Argument(metavar="REV")],
) -> int:
    """Show what differs between two revisions of a plan."""
    from interlock.plans.diff import differences

    session = session_of(ctx)
    number, first, second = whole("plan", id_), whole("revision", before), whole("revision", after)
    with session.reading(stand_in=False) as service:
        found = list(differences(service.plan_at(number, first), service.plan_at(number, second)))
    return _print(
        session,
        {"plan": number, "before": first, "after": second, "differences": found},
        lambda views, to: views.differences(to, found),
    )


def _list(ctx: typer.Context, *, ended: bool, limit: str) -> int:
    session = session_of(ctx)
    count = limit_of(limit)
    with session.reading() as service:
        found = service.plans(ended=ended, limit=count)
    _print(session, {"plans": found}, lambda views, to: views.listing(to, found, unfinished=not ended))
    session.name_store(found)
    return Exit.OK


def _changed(session: Invocation, changed: PlanView, sentence: str) -> int:
    return _print(session, changed, lambda _, to: to.print(f"Plan {changed.id} {sentence}."))


def _print(session: Invocation, answer: object, show: Callable[[Any, Console], None]) -> int:
    """Print an answer: as JSON, or with the views of plans for people."""
    if session.out.json:
        session.out.print_json(answer)
    else:
        from interlock.cli.views import plans

        show(plans, session.out.page)
    return Exit.OK


def _edit_run(service: Service) -> str | None:
    """The run of INTERLOCK_RUN if it must edit a plan. A task that edits its plan does so as an operator."""
    handle = os.environ.get("INTERLOCK_RUN", "")
    if not handle:
        return None
    item = service.show(service.item_of(handle)).item
    return handle if item.type == EDIT_TYPE else None

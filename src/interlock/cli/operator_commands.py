"""What an operator may do to items, agents and projects, each with a reason in the history."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from interlock.cli.options import Reason
from interlock.cli.session import Session, session_of
from interlock.core.errors import Exit, InterlockError, InvalidInput
from interlock.service.contract import ChangeView
from interlock.service.intake import choice, whole

_Items = Annotated[list[str], typer.Argument(metavar="ITEM…", help="Numbers, as `interlock ls` shows them.")]
_SCOPES = ("agent", "project")
_WHAT = typer.Argument(metavar="agent|project", autocompletion=lambda: list(_SCOPES))
_NAME = typer.Argument(metavar="NAME")


def cancel(
    ctx: typer.Context,
    items: _Items,
    reason: Reason,
    force: Annotated[
        bool, typer.Option("--force", help="Revoke a running lease at once, without grace.")
    ] = False,
) -> int:
    """Cancel items; one that runs is asked to stop, with a grace."""
    session = session_of(ctx)
    by = session.settings.actor
    with session.service() as service:
        return _each(
            session, items, lambda item: service.cancel(item, why=reason, by=by, force=force), "is cancelled"
        )


def retry(
    ctx: typer.Context,
    items: _Items,
    reason: Reason = "",
) -> int:
    """Give ended items one more attempt, or cut a back-off short."""
    session = session_of(ctx)
    by = session.settings.actor
    with session.service() as service:
        return _each(session, items, lambda item: service.retry(item, why=reason, by=by), "is tried again")


def pause(
    ctx: typer.Context,
    what: Annotated[str | None, _WHAT] = None,
    name: Annotated[str | None, _NAME] = None,
    reason: Reason = "",
) -> int:
    """Let an agent or project start nothing new; what runs goes on.

    A reason is needed. Alone, the command lists which agents and projects are paused, and why.
    """
    if what is None and not reason:
        return _list_paused(ctx)
    if what is None or name is None:
        raise InvalidInput("It is not said what is to be paused.", "Give agent NAME or project NAME.")
    return _pause(ctx, what, name, reason, paused=True)


def resume(
    ctx: typer.Context,
    what: Annotated[str, _WHAT],
    name: Annotated[str, _NAME],
    reason: Reason = "",
) -> int:
    """Let a paused agent or project start again."""
    return _pause(ctx, what, name, reason, paused=False)


def _list_paused(ctx: typer.Context) -> int:
    session = session_of(ctx)
    with session.service() as service:
        agents = [agent for agent in service.agents() if agent.paused]
        projects = service.paused_projects()
    if session.out.json:
        reasons = [{"project": name, "reason": why} for name, why in projects.items()]
        session.out.print_json({"agents": agents, "projects": reasons})
        return Exit.OK
    from interlock.cli.views import words

    for kind, name, why in (
        *(("Agent", agent.name, agent.paused_reason) for agent in agents),
        *(("Project", name, why) for name, why in projects.items()),
    ):
        session.out.console.print(words.harmless(f"{kind} {name} is paused: {why}"))
    if not agents and not projects:
        session.out.console.print("No agent and no project is paused.")
    return Exit.OK


def _pause(ctx: typer.Context, what: str, name: str, reason: str, *, paused: bool) -> int:
    scope = choice("scope", what, _SCOPES)
    session = session_of(ctx)
    by = session.settings.actor
    with session.service() as service:
        if scope == "agent":
            answer: object = service.pause_agent(name, paused=paused, why=reason, by=by)
        else:
            service.pause_project(name, paused=paused, why=reason, by=by)
            answer = {"project": name, "paused": paused, "reason": reason}
    if session.out.json:
        session.out.print_json(answer)
    else:
        named = f"{scope.capitalize()} {name}"
        session.out.console.print(
            f"{named} is paused: it starts nothing new, what runs goes on."
            if paused
            else f"{named} may start again."
        )
    return Exit.OK


def _each(session: Session, items: list[str], act: Callable[[int], ChangeView], verb: str) -> int:
    """Act on every item, whatever became of the others; the first error decides the exit code."""
    numbers = [whole("item", text) for text in items]
    changes: list[ChangeView] = []
    errors: list[tuple[int, InterlockError]] = []
    for number in numbers:
        try:
            changes.append(act(number))
        except InterlockError as error:
            if len(numbers) == 1:
                raise
            errors.append((number, error))
    if session.out.json:
        refused = [{"item": n, "code": e.code, "message": e.sentence, "hint": e.hint} for n, e in errors]
        session.out.print_json({"changes": changes, "errors": refused} if refused else {"changes": changes})
    else:
        from interlock.cli.views import items as item_views

        for change in changes:
            item_views.change(session.out.console, verb, change)
        for _, refused_why in errors:
            session.out.refuse(refused_why.sentence, refused_why.hint)
    return errors[0][1].exit_code if errors else Exit.OK

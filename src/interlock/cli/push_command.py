"""`push`: what is checked out goes to a branch only while its run holds the lane."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from interlock.cli.session import Session, session_of
from interlock.core.errors import Exit, InvalidInput

if TYPE_CHECKING:
    from interlock.git.plumbing import Repository
    from interlock.push.run import PushingRun


def push(
    ctx: typer.Context,
    *,
    remote: Annotated[
        str | None,
        typer.Argument(metavar="REMOTE", help="A remote's name or URL; else that of the branch, or origin."),
    ] = None,
    branch: Annotated[
        str | None,
        typer.Argument(
            metavar="BRANCH", help="Else the branch that is checked out. HEAD:NAME pushes to another one."
        ),
    ] = None,
    run: Annotated[
        str | None, typer.Option(metavar="HANDLE", help="The run that pushes; else INTERLOCK_RUN is taken.")
    ] = None,
    arm: Annotated[
        bool,
        typer.Option(
            "--arm", help="Push nothing, but shut out earlier runs of the lane: before checking out."
        ),
    ] = False,
    install_hook: Annotated[
        bool,
        typer.Option(
            "--install-hook", help="In this clone, let git refuse a plain push of a run that lost its lease."
        ),
    ] = False,
    uninstall_hook: Annotated[bool, typer.Option("--uninstall-hook", help="Take that hook away.")] = False,
    pre_push: Annotated[
        bool,
        typer.Option("--pre-push", hidden=True, help="For that hook: judge the push that git describes."),
    ] = False,
) -> int:
    """Push what is checked out, only if your run still holds its lane.

    The git server refuses the push as a whole once a later run has the lane. If others pushed first, your
    commits are rebased and the push is tried again, five times; a conflict leaves everything as it was.
    """
    from interlock.git.plumbing import Repository
    from interlock.settings import here

    session = session_of(ctx)
    if arm + install_hook + uninstall_hook + pre_push > 1:
        raise InvalidInput(
            "--arm, --install-hook and --uninstall-hook exclude each other.", "Use one of them at a time."
        )
    repository = Repository.around(here())
    if install_hook or uninstall_hook:
        return _change_hook(session, repository, install=install_hook)
    with _pusher(session, run) as pusher:
        if pre_push:
            return _judge(repository, remote or "origin", pusher)
        if arm:
            return _arm(session, repository, remote, pusher)
        return _push(session, repository, remote, branch, pusher)


def _push(
    session: Session, repository: Repository, remote: str | None, branch: str | None, pusher: PushingRun
) -> int:
    from interlock.git.checkout import Checkout, push_remote_of
    from interlock.push.fenced_push import FencedPush

    checkout = Checkout(repository)
    target, to = checkout.target(branch), push_remote_of(repository, remote)
    checkout.check_clean()
    guard = pusher.guard(repository, to)
    pushed = FencedPush(checkout, remote=to, branch=target, guard=guard, renew=pusher.renew, tell=_tell).run()
    if session.out.json:
        session.out.print_json(pushed)
        return Exit.OK
    what, where = pushed.commit[:12], f"{pushed.branch} of {pushed.remote}"
    how = ", on top of what others pushed" if pushed.rebased else ""
    session.out.console.print(
        f"Pushed {what} to {where}{how}." if pushed.moved else f"{where} has {what} already."
    )
    return Exit.OK


def _arm(session: Session, repository: Repository, remote: str | None, pusher: PushingRun) -> int:
    from interlock.git.checkout import push_remote_of

    fence = pusher.arm(repository, push_remote_of(repository, remote))
    if session.out.json:
        session.out.print_json({"fence": fence})
    elif fence is None:
        session.out.console.print("The run holds its lane; there is nothing to arm.")
    else:
        session.out.console.print(f"Run {fence.run} has armed {fence.ref}: earlier runs can no longer push.")
    return Exit.OK


def _judge(repository: Repository, remote: str, pusher: PushingRun) -> int:
    """Raises `LeaseLost` for a plain push of a run that lost its lane."""
    from interlock.push import pre_push

    if not pre_push.needs_no_check(sys.stdin):
        pusher.guard(repository, remote).check()
    return Exit.OK


def _change_hook(session: Session, repository: Repository, *, install: bool) -> int:
    from interlock.push import pre_push

    path = pre_push.install(repository) if install else pre_push.uninstall(repository)
    if session.out.json:
        session.out.print_json({"hook": path if path is None else str(path), "installed": install})
    elif install:
        session.out.console.print(f"Installed {path}.")
    else:
        session.out.console.print(
            "No hook of Interlock is installed." if path is None else f"Removed {path}."
        )
    return Exit.OK


def _pusher(session: Session, run: str | None) -> PushingRun:
    from interlock import app
    from interlock.push.run import PushingRun

    return PushingRun(
        run,
        lanes=lambda: app.open_lanes(session.settings),
        in_git=app.scheme_of(session.settings.url) == "git",
        environ=os.environ,
        tell=_tell,
    )


def _tell(sentence: str) -> None:
    """What a person should know meanwhile; standard output is for the answer."""
    sys.stderr.write(f"{sentence}\n")
    sys.stderr.flush()

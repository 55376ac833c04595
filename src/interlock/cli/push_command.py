"""`push`: push the checked-out commit to a branch, only while its run holds the lane."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from interlock.cli import typer
from interlock.cli.invocation import Invocation, invocation_of
from interlock.cli.output import tell
from interlock.core.errors import Exit, InterlockError, InvalidInput

if TYPE_CHECKING:
    from interlock.git.plumbing import GitRepository
    from interlock.push.run import PushingRun


def push(
    ctx: typer.Context,
    *,
    remote: Annotated[
        str | None,
        typer.Argument(metavar="REMOTE", help="A remote's name or URL; default: the branch's, or origin."),
    ] = None,
    branch: Annotated[
        str | None,
        typer.Argument(
            metavar="BRANCH", help="Default: the branch that is checked out. HEAD:NAME pushes to another one."
        ),
    ] = None,
    run: Annotated[
        str | None, typer.Option(metavar="HANDLE", help="The run that pushes; default: INTERLOCK_RUN.")
    ] = None,
    arm: Annotated[
        bool,
        typer.Option(
            "--arm",
            help="Push nothing; refuse later pushes of earlier runs. Use it before you check out.",
        ),
    ] = False,
    install_hook: Annotated[
        bool,
        typer.Option(
            "--install-hook", help="Make git in this clone refuse a plain push of a run that lost its lease."
        ),
    ] = False,
    uninstall_hook: Annotated[bool, typer.Option("--uninstall-hook", help="Remove that hook.")] = False,
    pre_push: Annotated[
        bool,
        typer.Option("--pre-push", hidden=True, help="For the hook: check the push that git describes."),
    ] = False,
) -> int:
    """Push the checked-out commit, only if your run still holds its lane.

    The git server refuses the whole push once a later run has the lane. If others pushed first, your commits
    are rebased and the push is retried, up to five times. A conflict changes nothing. Without a run the push
    is not fenced, and says so.
    """
    from interlock.git.plumbing import GitRepository
    from interlock.settings.places import here

    call = invocation_of(ctx)
    if arm + install_hook + uninstall_hook + pre_push > 1:
        raise InvalidInput(
            "--arm, --install-hook and --uninstall-hook exclude each other.", "Use one of them at a time."
        )
    repository = GitRepository.containing(here())
    if install_hook or uninstall_hook:
        return _change_hook(call, repository, install=install_hook)
    with _telling_the_worker(), _pusher(call, run) as pusher:
        if pre_push:
            return _check_push(repository, remote or "origin", pusher)
        if arm:
            return _arm(call, repository, remote, pusher)
        return _push(call, repository, remote, branch, pusher)


@contextmanager
def _telling_the_worker() -> Iterator[None]:
    """Tell the run's worker whether the last push had a set-up fault, which is not the item's fault."""
    from interlock.process.briefing import note_fault

    path = os.environ.get("INTERLOCK_FAULT_FILE", "")
    try:
        yield
    except InterlockError as error:
        if path and error.setup is not None:
            note_fault(Path(path), error)
        raise
    if path:
        Path(path).unlink(missing_ok=True)


def _push(
    call: Invocation, repository: GitRepository, remote: str | None, branch: str | None, pusher: PushingRun
) -> int:
    from interlock.git.checkout import Checkout, push_remote_of
    from interlock.push.fenced_push import FencedPush

    checkout = Checkout(repository)
    target, to = checkout.target(branch), push_remote_of(repository, remote)
    checkout.check_clean()
    guard = pusher.guard(repository, to)
    pushed = FencedPush(checkout, remote=to, branch=target, guard=guard, renew=pusher.renew, tell=tell).run()
    what, where = pushed.commit[:12], f"{pushed.branch} of {pushed.remote}"
    how = ", on top of what others pushed" if pushed.rebased else ""
    text = f"Pushed {what} to {where}{how}." if pushed.moved else f"{where} has {what} already."
    return call.out.answer(pushed, text)


def _arm(call: Invocation, repository: GitRepository, remote: str | None, pusher: PushingRun) -> int:
    from interlock.git.checkout import push_remote_of

    fence = pusher.arm(repository, push_remote_of(repository, remote))
    text = "The run holds its lane; there is nothing to arm."
    if fence is not None:
        text = f"Run {fence.run} has armed {fence.ref}: earlier runs can no longer push."
    return call.out.answer({"fence": fence}, text)


def _check_push(repository: GitRepository, remote: str, pusher: PushingRun) -> int:
    """Raise `LeaseLost` for a plain push of a run that lost its lane."""
    from interlock.push import pre_push

    if not pre_push.needs_no_check(sys.stdin):
        pusher.guard(repository, remote).check()
    return Exit.OK


def _change_hook(call: Invocation, repository: GitRepository, *, install: bool) -> int:
    from interlock.push import pre_push

    path = pre_push.install(repository) if install else pre_push.uninstall(repository)
    text = f"{'Installed' if install else 'Removed'} {path}."
    return call.out.answer(
        {"hook": path if path is None else str(path), "installed": install},
        "No hook of Interlock is installed." if path is None else text,
    )


def _pusher(call: Invocation, run: str | None) -> PushingRun:
    from interlock import app
    from interlock.push.run import PushingRun
    from interlock.settings.store_url import scheme_of

    return PushingRun(
        run,
        lanes=lambda: app.open_lanes(call.settings),
        in_git=scheme_of(call.settings.url) == "git",
        environ=os.environ,
        tell=tell,
    )

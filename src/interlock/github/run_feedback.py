"""Feedback of runs on GitHub: 👀 on their messages, their account, comments on salvage.

The rest of this package is imported only when a run has something to show.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from interlock.core.errors import InterlockError
from interlock.github.tokens import is_given
from interlock.settings import own_run

if TYPE_CHECKING:
    from interlock.github.client import GitHub
    from interlock.github.work_reaction import TriggerMessage, WorkReaction
    from interlock.process.reaction import PreviousRun
    from interlock.service.contract import LaneService, LeaseView
    from interlock.service.opening import OpenedService
    from interlock.store.port import Store

#: The most superseded items of a lane that are searched for the one that this run superseded.
SUPERSEDED_LOOKED_AT = 10


def reaction_of_job(environ: Mapping[str, str], tell: Callable[[str], None]) -> WorkReaction | None:
    """The reaction with which a process in a job of Actions marks its message; None if it adds none.

    A process that already works for a run adds none: the holder of that run does.
    """
    if not environ.get("GITHUB_EVENT_PATH") or own_run(environ) is not None:
        return None
    from interlock.github.work_reaction import TIMEOUT_S, WorkReaction, message_of  # noqa: PLC0415

    message = message_of(environ)
    return None if message is None else WorkReaction(message, _asking(environ, TIMEOUT_S), tell)


def reactions_of_runs(
    service: OpenedService, environ: Mapping[str, str], tell: Callable[[str], None]
) -> Callable[[LeaseView], WorkReaction | None]:
    """The reactions with which a worker marks the messages of its runs; none without a token."""

    def reaction_of(lease: LeaseView) -> WorkReaction | None:
        if lease.item.payload is None or not is_given(environ):
            return None
        from interlock.github.work_reaction import TIMEOUT_S, WorkReaction, message_of_item  # noqa: PLC0415

        message = message_of_item(lease.item)
        if message is None:
            return None
        found = WorkReaction(message, _asking(environ, TIMEOUT_S), tell)
        found.previous_run = lambda _: _superseded_by(service, lease)
        if service.store is not None:  # behind a server only the worker removes it
            _keep_reaction(service.store, lease, message, found)
        return found

    return reaction_of


def _keep_reaction(store: Store, lease: LeaseView, message: TriggerMessage, shown: WorkReaction) -> None:
    """Record a run's reaction in the database: the outbox relay removes it if the run is lost."""
    github = store.github
    known = github.repository_named(message.repository)
    if known is None:
        return
    from interlock.store.github import StoredReaction  # noqa: PLC0415

    stored = StoredReaction(lease.fence, lease.item.id, known.id, message.number, *message.subject, None)
    shown.keep = lambda reaction: github.keep_reaction(stored._replace(reaction=reaction))

    def forget() -> None:
        github.drop_reaction(lease.fence)

    shown.forget = forget


def _superseded_by(service: OpenedService, lease: LeaseView) -> PreviousRun | None:
    """The item whose run was stopped for this one."""
    from interlock.process.reaction import PreviousRun  # noqa: PLC0415
    from interlock.service.contract import ItemFilter  # noqa: PLC0415

    if lease.item.lane is None:
        return None
    wanted = ItemFilter(lane=lease.item.lane, statuses=("superseded",), limit=SUPERSEDED_LOOKED_AT)
    for old in service.items(wanted):
        if old.absorbed_by == lease.item.id and old.attempt:
            return PreviousRun(name=f"item-{old.id}", superseded=True)
    return None


def _asking(environ: Mapping[str, str], timeout_s: float) -> Callable[[float], GitHub]:
    """Opens a client that waits for GitHub for the given time."""

    def open_client(patience_s: float) -> GitHub:
        from interlock.github import client  # noqa: PLC0415

        return client.from_environment(environ, timeout_s=timeout_s, patience_s=patience_s)

    return open_client


def account_reporter(
    lanes: LaneService, environ: Mapping[str, str], account: str | None, tell: Callable[[str], None]
) -> Callable[[LeaseView], None]:
    """The reporter of the GitHub account that runs write with; none without a token and a name.

    There is none in git either: no event of GitHub adds work there.
    """
    act_as = getattr(lanes, "act_as", None)
    if act_as is None or (account is None and not is_given(environ)):
        return lambda _: None
    from interlock.github.run_account import RunAccountReporter  # noqa: PLC0415

    return RunAccountReporter(act_as, environ, account, tell)


def salvage_comments(service: OpenedService, tell: Callable[[str], None]) -> Callable[[int, int, str], None]:
    """Enqueues a comment about unfinished work of a run, on the issue or pull request of its item.

    Through a server, no comment is queued: a notice of the worker names the work.
    """

    def enqueue(item: int, run: int, ref: str) -> None:
        store = service.store
        if store is None:
            return
        from interlock.github import effects, subject  # noqa: PLC0415

        try:
            of = subject.subject_of(service.show(item).item.payload)
            known = None if of is None else store.github.repository_named(of.repository)
            if of is not None and known is not None:
                comment = effects.salvage_comment(item=item, run=run, ref=ref)
                row = comment.row(effects.IssueRef(known.id, of.number), f"salvage:run-{run}")
                store.github.outbox.enqueue([row])
        except InterlockError as error:  # the work itself is safe
            tell(f"Could not queue a comment on {ref}: {error}")

    return enqueue

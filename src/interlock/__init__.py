"""Interlock decides who works on what, one at a time, and loses nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from interlock.client import Interlock
    from interlock.core.errors import (
        Closed,
        CommandUnusable,
        CycleExpired,
        EditRefused,
        FenceAhead,
        GitFailed,
        GitHubLimited,
        GitHubRefused,
        GitHubUnavailable,
        GitMissing,
        Held,
        IllegalTransition,
        InterlockError,
        InvalidInput,
        InvalidPlan,
        ItemEnded,
        LeaseLost,
        NoGitHubToken,
        NoRemote,
        NoRepository,
        NotAllowed,
        NotFound,
        NoToken,
        NotTrusted,
        PlanEnded,
        PushFailed,
        RebaseConflict,
        RemoteUnavailable,
        Repeated,
        SchemaMismatch,
        StaleRevision,
        StoreBusy,
        StoreRefused,
        StoreReplaced,
        StoreSealed,
        StoreUnavailable,
        TooLarge,
        TooManyRequests,
        TwoStores,
        UnknownRun,
        UnreadableState,
    )
    from interlock.session.lock import SessionLock

__version__ = "0.2.0.dev0"
__all__ = [
    "Closed",
    "CommandUnusable",
    "CycleExpired",
    "EditRefused",
    "FenceAhead",
    "GitFailed",
    "GitHubLimited",
    "GitHubRefused",
    "GitHubUnavailable",
    "GitMissing",
    "Held",
    "IllegalTransition",
    "InterlockError",
    "InvalidInput",
    "InvalidPlan",
    "ItemEnded",
    "LeaseLost",
    "NoGitHubToken",
    "NoRemote",
    "NoRepository",
    "NoToken",
    "NotAllowed",
    "NotFound",
    "NotTrusted",
    "PlanEnded",
    "PushFailed",
    "RebaseConflict",
    "RemoteUnavailable",
    "Repeated",
    "SchemaMismatch",
    "StaleRevision",
    "StoreBusy",
    "StoreRefused",
    "StoreReplaced",
    "StoreSealed",
    "StoreUnavailable",
    "TooLarge",
    "TooManyRequests",
    "TwoStores",
    "UnknownRun",
    "UnreadableState",
    "__version__",
    "connect",
    "session_lock",
]


def connect(url: str | None = None) -> Interlock:
    """Open the store that `url`, INTERLOCK_URL or the repository's configuration names."""
    import os  # noqa: PLC0415  (importing interlock stays free of drivers)

    from interlock import app, settings  # noqa: PLC0415
    from interlock.client import Interlock  # noqa: PLC0415
    from interlock.settings.store_url import store_location  # noqa: PLC0415

    chosen = settings.load(url=url)
    service, place = app.open_connection(chosen), store_location(chosen)
    return Interlock(
        service,
        types=chosen.types,
        lanes=chosen.lanes,
        actor=chosen.actor,
        place=place,
        run=settings.own_run(os.environ),
        lease_s=chosen.timing.lease_s,
        beat_s=app.beat_s(chosen),
    )


def session_lock(number: int, *, run_id: str) -> SessionLock:
    """Lock the session of an issue or pull request against other processes of this host, for a `with` block.

    Raises `interlock.Held` at once if it is locked, for whatever run.
    """
    from interlock import settings  # noqa: PLC0415
    from interlock.session.lock import SessionLocks  # noqa: PLC0415

    chosen = settings.load()
    return SessionLocks(chosen.root, chosen.locks).acquire(number, run_id)


if not TYPE_CHECKING:  # else every misspelt name would count as an error class

    def __getattr__(name: str) -> type[Exception]:
        """The errors, imported when one is asked for: importing interlock stays cheap."""
        if name not in __all__:
            raise AttributeError(f"module 'interlock' has no attribute {name!r}")
        from interlock.core import errors  # noqa: PLC0415

        return getattr(errors, name)

"""Interlock decides who works on what, one at a time, and loses nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from interlock.client import Interlock
    from interlock.session.lock import SessionLock

__version__ = "0.2.0.dev0"
__all__ = ["__version__", "connect", "session_lock"]


def connect(url: str | None = None) -> Interlock:
    """Open the store that `url`, INTERLOCK_URL or the repository's configuration names."""
    import os  # noqa: PLC0415  (importing interlock stays free of drivers)

    from interlock import app, settings  # noqa: PLC0415
    from interlock.client import Interlock  # noqa: PLC0415

    chosen = settings.load(url=url)
    run = settings.working_for(os.environ)
    return Interlock(app.open_service(settings=chosen), types=chosen.types, actor=chosen.actor, run=run)


def session_lock(number: int, *, run_id: str) -> SessionLock:
    """Lock the session of an issue or pull request against other processes of this host, for a `with` block.

    Raises `interlock.core.errors.Held` at once if it is locked, for whatever run.
    """
    from interlock import settings  # noqa: PLC0415
    from interlock.session.lock import SessionLocks  # noqa: PLC0415

    return SessionLocks(settings.repository_root(settings.here())).acquire(number, run_id)

"""Where a process works: on a host or in an attempt of a workflow run. A worker's name contains it."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping

from interlock.core.row import NamedTuple

#: The prefix of worker names in GitHub Actions.
IN_ACTIONS = "actions-"
_NAMED = re.compile(rf"{IN_ACTIONS}([1-9][0-9]*)-([1-9][0-9]*)[.-].*")


class ActionsRun(NamedTuple):
    """The workflow run of a holder. When this attempt has ended, so has the holder."""

    repository: str
    run: int
    attempt: int


def actions_run(environ: Mapping[str, str]) -> ActionsRun | None:
    """The workflow run of this process."""
    repository, run, attempt = (
        environ.get(f"GITHUB_{name}", "") for name in ("REPOSITORY", "RUN_ID", "RUN_ATTEMPT")
    )
    if not (repository and run.isdecimal() and attempt.isdecimal()):
        return None
    return ActionsRun(repository, int(run), int(attempt))


def workplace(environ: Mapping[str, str]) -> str:
    """The prefix of a worker's name. A runner's host name is meaningless, so it is the workflow run there."""
    here = actions_run(environ)
    host = re.sub(r"[^A-Za-z0-9]+", "-", socket.gethostname()).strip("-")[:60] or "host"
    return host if here is None else f"{IN_ACTIONS}{here.run}-{here.attempt}"


def attempt_of(worker: str | None) -> tuple[int, int] | None:
    """The number and the attempt of a worker's workflow run, from the worker's name."""
    found = _NAMED.fullmatch(worker or "")
    return None if found is None else (int(found[1]), int(found[2]))

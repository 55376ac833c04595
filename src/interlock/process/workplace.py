"""Where a process works: on a host, or in an attempt of a workflow run. Its name as a worker tells."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping

from interlock.core.row import NamedTuple

#: How the name of every worker in GitHub Actions begins.
IN_ACTIONS = "actions-"
_NAMED = re.compile(rf"{IN_ACTIONS}([1-9][0-9]*)-([1-9][0-9]*)[.-].*")


class ActionsRun(NamedTuple):
    """The workflow run that a holder is part of: when this attempt has ended, so has the holder."""

    repository: str
    run: int
    attempt: int


def actions_run(environ: Mapping[str, str]) -> ActionsRun | None:
    """The workflow run that this process is part of."""
    repository, run, attempt = (
        environ.get(f"GITHUB_{name}", "") for name in ("REPOSITORY", "RUN_ID", "RUN_ATTEMPT")
    )
    if not (repository and run.isdecimal() and attempt.isdecimal()):
        return None
    return ActionsRun(repository, int(run), int(attempt))


def workplace(environ: Mapping[str, str]) -> str:
    """The beginning of a worker's name. A runner's host name means nothing to anybody, the run does."""
    here = actions_run(environ)
    host = re.sub(r"[^A-Za-z0-9]+", "-", socket.gethostname()).strip("-")[:60] or "host"
    return host if here is None else f"{IN_ACTIONS}{here.run}-{here.attempt}"


def attempt_of(worker: str | None) -> tuple[int, int] | None:
    """The number and the attempt of the workflow run that a worker is part of, by its name."""
    found = _NAMED.fullmatch(worker or "")
    return None if found is None else (int(found[1]), int(found[2]))

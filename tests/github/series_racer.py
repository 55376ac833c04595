"""A process that wants issues of a series, one after the other.

    python -m tests.github.series_racer FIRST COUNT …

With UNPINNED its pushes move refs whatever is there, as of somebody who reads and then writes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from interlock.cli.main import main
from interlock.git.plumbing import GitRepository
from interlock.git.refusals import RefMove
from interlock.github.client import from_environment
from interlock.gitlanes.lane import OWNERS
from tests.faults.processes import wait_until

ISSUES = 5


def unpinned(before: Callable[[], object]) -> Callable[..., None]:
    """A push without a compare-and-swap. Each repository's first that starts a run waits for `before`."""
    waited: set[Path] = set()

    def push(repository: GitRepository, remote: str, moves: Sequence[RefMove], **_: Any) -> None:
        starts = any(move.ref.startswith(OWNERS) and move.old_oid for move in moves)
        if starts and repository.directory not in waited:
            waited.add(repository.directory)
            before()
        refs = [f"{move.new_oid}:{move.ref}" for move in moves]
        pushed = lambda: not repository.run("push", "--force", remote, *refs).code  # noqa: E731
        wait_until(pushed, "the push arrived")

    return push


def _together() -> None:
    ready, count = Path(os.environ["READY"]), int(os.environ["RACERS"])
    (ready / f"ready-{os.getpid()}").touch()
    wait_until(lambda: len([*ready.glob("ready-*")]) >= count, "all have read")


def _assign(number: int) -> None:
    """The next step of a workflow."""
    with from_environment(os.environ) as github:
        route = "/repos/acme/app/issues/{number}/assignees"
        github.send("POST", route, {"assignees": ["coder-bot"]}, number=number)


if __name__ == "__main__":
    first, count = int(sys.argv[1]), int(sys.argv[2])
    if os.environ.get("UNPINNED"):
        GitRepository.push = unpinned(_together)  # type: ignore[method-assign]
    for n in range(count):
        code = main(["--json", "series", "acquire", str((first + n) % ISSUES + 1), *sys.argv[3:]])
        if code not in (0, 4):
            sys.exit(code)
        told = Path(os.environ["GITHUB_OUTPUT"]).read_text().endswith("assign=true\n")
        if told and "--no-assign" in sys.argv:
            _assign((first + n) % ISSUES + 1)

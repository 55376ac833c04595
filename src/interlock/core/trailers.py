"""The line in a commit's message that names the run which made it: `Interlock-Run: 7@3f9a12bc4d5e`.

Run numbers are of one store, so the store's name is part of it: two stores on one repository do not take
each other's commits for theirs. A number without a store may be any store's.
"""

from __future__ import annotations

import re
from itertools import islice

from interlock.core.continuity import RUN_MAX
from interlock.core.row import NamedTuple

KEY = "Interlock-Run"
#: How many lines of one message are read.
TRAILERS_MAX = 50
_LINE = re.compile(
    rf"^{KEY}:[ \t]*(?P<run>[0-9]{{1,19}})(?:@(?P<store>[0-9A-Za-z_-]{{1,64}}))?[ \t]*\r?$",
    re.MULTILINE | re.IGNORECASE | re.ASCII,
)
#: The branch of a worktree. A number behind it tells apart those of several stores in one clone.
_BRANCH = re.compile(r"interlock/run-(?P<run>[0-9]{1,19})(?:-[0-9]{1,2})?", re.ASCII)


class Trailer(NamedTuple):
    """A run, and its store; empty if that is not said."""

    run: int
    store: str = ""

    def __str__(self) -> str:
        return f"{self.run}@{self.store}" if self.store else str(self.run)


def trailers(message: str) -> tuple[Trailer, ...]:
    """The runs that a commit's message names, each once."""
    lines = islice(_LINE.finditer(message), TRAILERS_MAX)
    found = (Trailer(int(line["run"]), line["store"] or "") for line in lines)
    return tuple(dict.fromkeys(each for each in found if 0 < each.run < RUN_MAX))


def run_of_branch(branch: str) -> int | None:
    """The run whose worktree has this branch; None if it is another's."""
    found = _BRANCH.fullmatch(branch)
    run = int(found["run"]) if found else 0
    return run if 0 < run < RUN_MAX else None

"""A provider's limit that an agent program has hit, as its worker and its hook report it.

The hook of a session that a worker has started leaves the limit in a file beside the run's others: the worker
reports the end of the run, once no process of it lives.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from interlock.core.commands import QuotaLimit
from interlock.core.errors import InvalidInput
from interlock.core.provider_limits import NoticedLimit, checked_patterns
from interlock.core.record import Record
from interlock.core.timing import QUOTA_WAIT_S
from interlock.process.smallfile import an_object, read_bytes

if TYPE_CHECKING:
    from interlock.settings import Settings

#: Who waits at a limit that was noticed: the item, its agent, or every agent of its pool.
SCOPES = ("item", "agent", "pool")
_FILE = "limit.json"
_FILE_MAX_BYTES = 1 << 16


class LimitRules(Record):
    """The settings for limits that are noticed."""

    scope: str = "agent"
    wait_s: float = QUOTA_WAIT_S
    #: Further patterns, each with its program.
    patterns: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, settings: Settings) -> LimitRules:
        """Check the settings."""
        scope = settings.quota_scope or "agent"
        if scope not in SCOPES:
            raise InvalidInput(f"quota_scope cannot be {scope!r}.", f"Use one of {', '.join(SCOPES)}.")
        patterns = checked_patterns(settings.quota_patterns or ())
        return cls(scope=scope, wait_s=settings.quota_wait_s, patterns=patterns)

    def reported(self, noticed: NoticedLimit, now: datetime) -> QuotaLimit:
        """The limit as a run reports it."""
        return QuotaLimit(
            until_us=noticed.until_us(now, self.wait_s),
            why=noticed.text,
            whole_agent=self.scope == "agent",
            whole_pool=self.scope == "pool",
        )


def zone(name: str) -> tzinfo | None:
    """A time zone by its name, this machine's for an empty name; None if it is unknown."""
    if not name:
        return datetime.now(UTC).astimezone().tzinfo
    try:
        return ZoneInfo(name)
    except (OSError, ValueError):  # no such zone, or no zones on this machine
        return None


def worker_file(environ: Mapping[str, str]) -> Path | None:
    """Where a hook leaves a limit for the worker of its run; None without a worker."""
    beside = environ.get("INTERLOCK_RETRY_AT_FILE")
    return Path(beside).with_name(_FILE) if beside else None


def leave_limit(path: Path, noticed: NoticedLimit) -> None:
    """Leave a limit for the worker. If that fails, the worker has the output."""
    until = noticed.until and noticed.until.isoformat()
    passing = path.with_name(f".{_FILE}.{os.getpid()}")
    with contextlib.suppress(OSError):
        passing.write_text(json.dumps({"text": noticed.text, "until": until}), "utf-8")
        passing.replace(path)


def left_limit(folder: Path) -> NoticedLimit | None:
    """The limit that a hook has left; None if there is none, or the file is not ours."""
    try:
        document = an_object(read_bytes(folder / _FILE, _FILE_MAX_BYTES))
        until = document["until"] and datetime.fromisoformat(str(document["until"]))
        return NoticedLimit(str(document["text"])[:200], until)
    except (OSError, ValueError, KeyError):
        return None

"""The memory of one run's hook between calls, in a small file.

If two hooks write it at once, the last one wins. At worst the agent is told something twice, or the lease is
renewed twice. An unreadable or unwritable file counts as missing.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from interlock.process.smallfile import read_json
from interlock.settings.places import make_home

#: How long to keep the files of sessions that ended without a `SessionEnd`.
KEPT_S = 7 * 24 * 3600.0
_DIRECTORY = "hooks"
_MAX_BYTES = 1 << 20
#: The greatest number of a message in a store.
_NUMBER_MAX = 2**31 - 1


class Memory:
    """The memory of one run. `name` must not reveal the handle: others may see the file."""

    def __init__(self, home: Path, name: str) -> None:
        self._clear()
        self._fields = (*vars(self),)
        self._home = home
        self._path = home / _DIRECTORY / f"{name}.json"
        self._load()

    def _clear(self) -> None:
        #: When to ask the store again, unless the event is urgent.
        self.look_again_s = 0.0
        #: When the lease expires; 0 if unknown.
        self.expires_at_s = 0.0
        #: The last message that the agent got.
        self.seen = 0
        #: Why the lease was lost; empty if it is held.
        self.lost = ""
        #: What the agent was told.
        self.told: list[str] = []
        #: The open question that the hook has asked for the agent; empty if there is none.
        self.question = ""
        #: The agent and the tool whose call asks.
        self.asker: list[str] = []
        #: The end of the agent's last message.
        self.said = ""
        #: A mark of the working tree when the session began.
        self.work = ""
        #: What the run has used, as far as its transcripts were read.
        self.usage: dict[str, Any] = {}

    def tell_once(self, what: str) -> bool:
        """Whether this was not told before."""
        if what in self.told:
            return False
        self.told.append(what)
        return True

    def tell_again(self, what: str) -> None:
        """The condition has ended. If it recurs, it is told again."""
        self.told = [each for each in self.told if each != what]

    def save(self) -> None:
        document = {name: getattr(self, name) for name in self._fields}
        passing = self._path.with_suffix(f".{os.urandom(4).hex()}")
        with contextlib.suppress(OSError):
            make_home(self._home)
            self._path.parent.mkdir(mode=0o700, exist_ok=True)
            passing.write_text(json.dumps(document), "utf-8")
            passing.replace(self._path)

    def forget(self) -> None:
        """Delete the memory: the session has ended. What the run has used is kept for another session."""
        if self.usage:
            usage = self.usage
            self._clear()
            self.usage = usage
            self.save()
            return
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)

    def prune(self, now_s: float) -> None:
        """Remove the files of old sessions."""
        with contextlib.suppress(OSError):
            for path in self._path.parent.iterdir():
                if path.stat().st_mtime < now_s - KEPT_S:
                    path.unlink(missing_ok=True)

    def _load(self) -> None:
        try:
            document = read_json(self._path, _MAX_BYTES)
        except (OSError, ValueError):
            return
        for name in self._fields:
            if type(document.get(name)) is type(getattr(self, name)):
                setattr(self, name, document[name])
        if not 0 <= self.seen <= _NUMBER_MAX:  # the store would refuse every look with such a number
            self.seen = 0

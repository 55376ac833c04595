"""What the hook of one run remembers from call to call: a small file of this host.

Two hooks at once may each write it; the last one wins. The worst that follows is that something is told
twice or a lease is renewed twice. A file that cannot be read or written is as good as none.
"""

from __future__ import annotations

import contextlib
import json
import secrets
from pathlib import Path

from interlock.process.smallfile import read_json
from interlock.settings import make_home

#: Sessions that ended without saying so leave their files behind; after this they are removed.
KEPT_S = 7 * 24 * 3600.0
_DIRECTORY = "hooks"
_MAX_BYTES = 1 << 20
#: Of a message, as the stores count them.
_NUMBER_MAX = 2**31 - 1


class Memory:
    """The memory of one run. `name` must not tell the handle: the file may be seen by others."""

    FIELDS = ("look_again_s", "expires_at_s", "seen", "lost", "told", "work")

    def __init__(self, home: Path, name: str) -> None:
        self._home = home
        self._path = home / _DIRECTORY / f"{name}.json"
        #: Not before this is the store asked again, unless something urgent is at stake.
        self.look_again_s = 0.0
        #: When the lease ends, as far as this host knows; 0 if it does not.
        self.expires_at_s = 0.0
        #: The last message the agent was told.
        self.seen = 0
        #: Why the lease is lost; empty while it is not known to be.
        self.lost = ""
        #: What the agent knows already and is not told again.
        self.told: list[str] = []
        #: A mark of what lay in the working tree when the session began.
        self.work = ""
        self._load()

    def tell_once(self, what: str) -> bool:
        """Whether this is the first time."""
        if what in self.told:
            return False
        self.told.append(what)
        return True

    def tell_again(self, what: str) -> None:
        """It is over; should it come back, that is news."""
        self.told = [each for each in self.told if each != what]

    def save(self) -> None:
        document = {name: getattr(self, name) for name in self.FIELDS}
        passing = self._path.with_suffix(f".{secrets.token_hex(4)}")
        with contextlib.suppress(OSError):
            make_home(self._home)
            self._path.parent.mkdir(mode=0o700, exist_ok=True)
            passing.write_text(json.dumps(document), "utf-8")
            passing.replace(self._path)

    def forget(self) -> None:
        """The session has ended."""
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)

    def prune(self, now_s: float) -> None:
        """Remove what sessions of long ago left behind."""
        with contextlib.suppress(OSError):
            for path in self._path.parent.iterdir():
                if path.stat().st_mtime < now_s - KEPT_S:
                    path.unlink(missing_ok=True)

    def _load(self) -> None:
        try:
            document = read_json(self._path, _MAX_BYTES)
        except (OSError, ValueError):
            return
        for name in self.FIELDS:
            if type(document.get(name)) is type(getattr(self, name)):
                setattr(self, name, document[name])
        if not 0 <= self.seen <= _NUMBER_MAX:  # the store would refuse every look, and nothing be heard of it
            self.seen = 0

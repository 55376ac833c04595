"""Clocks of servers that a test may set, by the library libfaketime."""

from __future__ import annotations

import shutil
from pathlib import Path

import libfaketime

LIBRARY = next(Path(libfaketime.__file__).parent.rglob("libfaketime.so.1"))


class ServerClock:
    """The clock of servers that were started with `environ`."""

    def __init__(self, directory: Path) -> None:
        """`directory` is one that the servers' user can read."""
        self._file, library = directory / "clock", directory / LIBRARY.name
        shutil.copyfile(LIBRARY, library)
        library.chmod(0o644)
        self.step(0)
        self.environ = {
            "LD_PRELOAD": str(library),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    def step(self, seconds: int) -> None:
        """Set it so far off ours."""
        new = self._file.with_suffix(".new")
        new.write_text(f"{seconds:+d}\n")
        new.chmod(0o644)
        new.rename(self._file)

"""Clocks that a test may set: of servers, by the library libfaketime, and of one store."""

from __future__ import annotations

import shutil
from pathlib import Path

import libfaketime
import psycopg

LIBRARY = next(Path(libfaketime.__file__).parent.rglob("libfaketime.so.1"))


class ServerClock:
    """The clock of servers that were started with `environ`.

    For short tests: the library reads its file whenever the server asks for the time, also where a signal has
    interrupted `malloc`, and then the server crashes or hangs. Timers fire in statements of a second or more.
    """

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
        _replace(self._file, f"{seconds:+d}\n")


class StoreClock:
    """The clock of one store on PostgreSQL: its `clock_us` adds what a file says."""

    def __init__(self, url: str, directory: Path) -> None:
        """`directory` is one that the servers' user can read."""
        self._file = directory / "clock"
        self.step(0)
        statement = f"""
            CREATE OR REPLACE FUNCTION interlock.clock_us(offset_us bigint)
            RETURNS bigint LANGUAGE sql VOLATILE AS $$
                SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
                    + offset_us + pg_read_file('{self._file}')::bigint;
            $$"""
        with psycopg.connect(url, autocommit=True) as conn:
            conn.execute(statement.encode())

    def step(self, seconds: int) -> None:
        """Set it so far off ours."""
        _replace(self._file, f"{seconds * 1_000_000}\n")


def _replace(file: Path, text: str) -> None:
    """Write a file that the servers read, at once and whole."""
    new = file.with_suffix(".new")
    new.write_text(text)
    new.chmod(0o644)
    new.rename(file)

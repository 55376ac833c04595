"""PgBouncer between Interlock and a database: the one of this machine, or a newer one that a tester names."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

import psycopg
import pytest

from interlock.testing.postgres import short_tempdir
from tests.faults.processes import wait_until

#: The first version that keeps prepared statements in transaction mode.
KEEPS_PREPARED = (1, 21)
#: Names another PgBouncer than the one on the path.
VARIABLE = "INTERLOCK_PGBOUNCER"


def program() -> str:
    """Where PgBouncer is; in CI it must be somewhere."""
    found = (
        os.environ.get(VARIABLE) or shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    )
    if found is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("there is no pgbouncer on this machine")
    return found


def version() -> tuple[int, int]:
    said = subprocess.run([program(), "--version"], capture_output=True, text=True, check=True).stdout
    match = re.search(r"PgBouncer (\d+)\.(\d+)", said)
    assert match is not None, said
    return int(match[1]), int(match[2])


@contextlib.contextmanager
def pooled(url: str, mode: str) -> Iterator[str]:
    """The url of a database through a pooler, which gives each transaction another session if it may."""
    parts = urlsplit(url)
    name, options = unquote(parts.path[1:]), parse_qs(parts.query)
    folder = Path(tempfile.mkdtemp(prefix="ilpgb-", dir=short_tempdir()))
    settings = {
        "listen_addr": "",
        "unix_socket_dir": str(folder),
        "listen_port": "6432",
        "auth_type": "any",
        "pool_mode": mode,
        "default_pool_size": "4",
        "server_round_robin": "1",
        "logfile": str(folder / "log"),
    }
    if version() >= KEEPS_PREPARED:
        settings["max_prepared_statements"] = "200"
    lines = [
        "[databases]",
        f"{name} = host={options['host'][0]} port={options['port'][0]} user=postgres",
        "[pgbouncer]",
        *(f"{key} = {value}" for key, value in settings.items()),
    ]
    (folder / "pgbouncer.ini").write_text("\n".join(lines) + "\n")
    nobody = os.geteuid() == 0
    if nobody:  # it refuses to be root, and the server's socket is its user's
        for path in (folder, folder / "pgbouncer.ini"):
            shutil.chown(path, "nobody", "nogroup")
    process = subprocess.Popen(
        [program(), "--quiet", str(folder / "pgbouncer.ini")],
        user="nobody" if nobody else None,
        group="nogroup" if nobody else None,
        extra_groups=[] if nobody else None,
        cwd="/",
    )
    through = f"postgresql://postgres@/{name}?host={folder}&port=6432"
    try:
        wait_until(lambda: _answers(through), "the pooler answers")
        yield through
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _answers(url: str) -> bool:
    with contextlib.suppress(psycopg.OperationalError):
        psycopg.connect(url).close()
        return True
    return False

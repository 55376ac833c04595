"""PgBouncer between Interlock and a database: this machine's, and one that keeps prepared statements."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

import filelock
import psycopg
import pytest

from tests.faults.processes import wait_until
from tests.postgres_server import short_tempdir

#: The first version that keeps prepared statements in transaction mode.
KEEPS_PREPARED = (1, 21)
#: Names a newer PgBouncer than the one on the path.
VARIABLE = "INTERLOCK_PGBOUNCER"
UNPACK_S = 120


def program() -> str:
    """The PgBouncer of this machine; in CI there must be one."""
    found = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if found is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("there is no pgbouncer on this machine")
    return found


@cache
def newer() -> str:
    """One that keeps prepared statements: named, of this machine, or Debian 13's, unpacked once into the
    environment of the tests."""
    found = os.environ.get(VARIABLE) or program()
    if version(found) >= KEEPS_PREPARED:
        return found
    target = Path(sys.prefix) / "pgbouncer"
    with filelock.FileLock(f"{target}.lock"):
        if not (target / "pgbouncer").exists():
            command = [str(Path(__file__).with_name("newer_pgbouncer.sh")), str(target)]
            try:
                subprocess.run(command, capture_output=True, text=True, check=True, timeout=UNPACK_S)
            except (OSError, subprocess.SubprocessError) as error:
                shutil.rmtree(target, ignore_errors=True)
                why = str(getattr(error, "stderr", "") or error).strip()[-300:]
                pytest.skip(f"no PgBouncer from 1.21 on ({VARIABLE} can name one), and none to be had: {why}")
    return str(target / "pgbouncer")


def version(program: str) -> tuple[int, int]:
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    match = re.search(r"PgBouncer (\d+)\.(\d+)", said)
    assert match is not None, said
    return int(match[1]), int(match[2])


@contextlib.contextmanager
def pooled(url: str, mode: str, program: str) -> Iterator[str]:
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
    if version(program) >= KEEPS_PREPARED:
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
        [program, "--quiet", str(folder / "pgbouncer.ini")],
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

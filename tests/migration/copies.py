"""Stores that are copied, backed up and restored, named by plain urls."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from interlock import settings
from interlock.core.model import NewItem
from tests.faults.stores import open_service, query
from tests.patience import PATIENCE_S

MakeUrl = Callable[[str], str]


def chosen(url: str) -> settings.Settings:
    return settings.load(url=four_slashes(url), environ={}, directory=Path("/"))


def four_slashes(url: str) -> str:
    return url.replace("sqlite://", "sqlite:///", 1)


def command(source: str, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "interlock", "--url", four_slashes(source), *args],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )


def add(url: str, title: str = "work", **fields: Any) -> int:
    service = open_service(url)
    try:
        arrival = service.add([NewItem(title=title, **fields)])[0].arrival
        assert arrival is not None
        return arrival
    finally:
        service.close()


def titles(url: str) -> set[str]:
    return {title for (title,) in query(url, "SELECT title FROM items")}


def killed(work: Callable[[], object]) -> bool:
    """Whether work in a child ended by SIGKILL."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL

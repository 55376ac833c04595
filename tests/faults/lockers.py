"""What processes do that want one session lock. Without pytest: every process imports it."""

from __future__ import annotations

import contextlib
import os
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from pathlib import Path

from interlock.core.errors import Held
from interlock.sessionlock import SessionLocks
from tests.faults.processes import say

NUMBER = 42


def lock_in_rounds(talk: Connection, barrier: Barrier, root: Path, rounds: int) -> list[bool]:
    """Try once a round, at the same moment as the other; whether it was got."""
    locks = SessionLocks(root)
    got = []
    for _ in range(rounds):
        barrier.wait()
        try:
            held = locks.acquire(NUMBER, f"run-{os.getpid()}")
        except Held:
            held = None
        got.append(held is not None)
        barrier.wait()  # both have tried
        if held is not None:
            held.release()
    return got


def lock_and_let_go(
    talk: Connection, barrier: Barrier, role: str, root: Path, rounds: int
) -> tuple[int, int]:
    """Lock and release as fast as it goes; how often it was got, and how often somebody else was inside too.

    Whoever is a `cleaner` cleans and unlocks instead, as somebody who thinks the lock his.
    """
    locks = SessionLocks(root)
    inside = root / "inside"
    got = doubled = 0
    barrier.wait()
    for _ in range(rounds):
        if role == "cleaner":
            locks.clean()
            with contextlib.suppress(Held):
                locks.unlock(NUMBER, "run-of-the-cleaner")
            continue
        try:
            held = locks.acquire(NUMBER, f"run-{os.getpid()}")
        except Held:
            continue
        got += 1
        try:
            inside.touch(exist_ok=False)
            inside.unlink()
        except (FileExistsError, FileNotFoundError):
            doubled += 1
        held.release()
    return got, doubled


def hold_until_told(talk: Connection, root: Path, run_id: str) -> None:
    """Lock, say so, and release when told to."""
    with SessionLocks(root).acquire(NUMBER, run_id):
        say(talk, "locked")
        talk.recv()

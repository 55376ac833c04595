"""What processes do that want one session lock. Without pytest: every process imports it."""

from __future__ import annotations

import contextlib
import os
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from pathlib import Path

from interlock.core.errors import Held, InterlockError
from interlock.session.lock import SessionLocks
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


def lock_and_let_go(talk: Connection, barrier: Barrier, role: str, root: Path, rounds: int) -> int:
    """Try to lock, and release, as fast as it goes; how often somebody else was inside too.

    How many tries succeed is the machine's doing. So it goes on beyond its rounds until one in twenty has: a
    storm in which hardly anybody got the lock would prove nothing. Whoever is a `cleaner` cleans and unlocks
    meanwhile, as somebody who thinks the lock his.
    """
    locks = SessionLocks(root)
    inside, over = root / "inside", root / "over"
    over.mkdir(exist_ok=True)
    tried = got = doubled = 0
    barrier.wait()
    while role == "cleaner" and len(list(over.iterdir())) < barrier.parties - 1:
        locks.clean()
        with contextlib.suppress(Held):
            locks.unlock(NUMBER, "run-of-the-cleaner")
    while role == "locker" and (tried < rounds or got < rounds / 20):
        tried += 1
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
    (over / str(os.getpid())).touch()
    return doubled


def delete_until_told(talk: Connection, root: Path) -> None:
    """Delete the file of the lock as fast as it goes, as a cleaning job might at the worst moment."""
    path = SessionLocks(root).path(NUMBER)
    say(talk, "deleting")
    while not talk.poll():
        for _ in range(100):
            with contextlib.suppress(FileNotFoundError):
                path.unlink()


def hold_until_told(talk: Connection, root: Path, run_id: str) -> None:
    """Lock, say so, and release when told to."""
    with SessionLocks(root).acquire(NUMBER, run_id):
        say(talk, "locked")
        talk.recv()


def lock_as_nobody(talk: Connection, root: Path) -> None:
    """Try to lock as somebody who is not root, who may write anywhere; say what it is told."""
    if os.getuid() == 0:
        os.setuid(65534)
    try:
        SessionLocks(root).acquire(NUMBER, "run-2").release()
    except InterlockError as error:
        say(talk, error.sentence)

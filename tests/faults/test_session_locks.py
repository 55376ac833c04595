"""Session locks: one holder at a time, free when it dies, and nobody mistaken for it."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.core.errors import Held, InterlockError, InvalidInput
from interlock.session.lock import SessionLocks
from tests.faults import lockers
from tests.faults.lockers import NUMBER
from tests.faults.processes import Crew

ROUNDS = int(os.environ.get("INTERLOCK_LOCK_ROUNDS", "2000"))


@pytest.fixture
def locks(tmp_path: Path) -> SessionLocks:
    return SessionLocks(tmp_path)


def file(locks: SessionLocks) -> Path:
    return locks.directory / f"{NUMBER}.lock"


# -- races ----------------------------------------------------------------------------------------


def test_of_two_processes_that_lock_at_once_exactly_one_succeeds(crew: Crew, tmp_path: Path) -> None:
    """Taken out: the OS lock (`_take` always true); both have it in most rounds."""
    mine, theirs = crew.race(2, lockers.lock_in_rounds, tmp_path, ROUNDS)
    assert [a + b for a, b in zip(mine, theirs, strict=True)] == [1] * ROUNDS


def test_locking_releasing_and_cleaning_at_full_speed_never_lets_two_in(crew: Crew, tmp_path: Path) -> None:
    """Taken out: the lock on the directory (`_directory_locked` yields at once); then one locks a file that
    another has just unlinked, and a third makes a new one."""
    roles = ["locker", "locker", "locker", "cleaner"]
    assert crew.race_roles(roles, lockers.lock_and_let_go, tmp_path, ROUNDS) == [0, 0, 0, 0]


def test_a_process_that_deletes_the_file_all_the_time_lets_nobody_in_twice(
    crew: Crew, locks: SessionLocks, tmp_path: Path
) -> None:
    """Taken out: the file is made under its second name. A file that is deleted before it has two names has
    none, and the next process locks a new one."""
    deleter = crew.start(lockers.delete_until_told, tmp_path)
    assert deleter.hear() == "deleting"
    doubled = 0
    for _ in range(ROUNDS):
        with locks.acquire(NUMBER, "run-1"):
            try:
                locks.acquire(NUMBER, "run-2").release()
                doubled += 1
            except Held:
                pass
    deleter.tell()
    deleter.join()
    assert doubled == 0


# -- holders that die -----------------------------------------------------------------------------


def test_a_holder_that_is_killed_holds_nothing_any_more(
    crew: Crew, locks: SessionLocks, tmp_path: Path
) -> None:
    holder = crew.start(lockers.hold_until_told, tmp_path, "run-1")
    assert holder.hear() == "locked"
    with pytest.raises(Held, match=rf"run run-1 \(process {holder.pid}\)"):
        locks.acquire(NUMBER, "run-2")
    holder.kill()
    (status,) = locks.status()
    assert (status.held, status.run_id, status.pid) == (False, "run-1", holder.pid)
    with locks.acquire(NUMBER, "run-2"):
        assert json.loads(file(locks).read_text())["runId"] == "run-2"


def test_a_stopped_holder_holds_on(crew: Crew, locks: SessionLocks, tmp_path: Path) -> None:
    """Nothing is judged by its age."""
    holder = crew.start(lockers.hold_until_told, tmp_path, "run-1")
    holder.hear()
    holder.stop()
    content = json.loads(file(locks).read_text())
    file(locks).write_text(json.dumps({**content, "acquiredAt": "2001-01-01T00:00:00.000Z"}))
    with pytest.raises(Held):
        locks.acquire(NUMBER, "run-2")
    assert locks.clean() == []
    holder.go_on()


def test_a_process_number_that_is_used_again_is_not_taken_for_the_holder(locks: SessionLocks) -> None:
    """The file of a dead holder names a process that lives: this one, and the first of the system."""
    for pid in (os.getpid(), 1):
        with locks.acquire(NUMBER, "run-1"):
            left_behind = file(locks).read_text()
        file(locks).write_text(left_behind.replace(f'"pid": {os.getpid()}', f'"pid": {pid}'))
        assert not locks.status()[0].held
        locks.acquire(NUMBER, "run-2").release()


# -- whose it is ----------------------------------------------------------------------------------


def test_the_file_says_who_holds_it_in_the_agreed_form(locks: SessionLocks) -> None:
    with locks.acquire(NUMBER, "17042-1") as lock:
        content = json.loads(file(locks).read_text())
        assert list(content) == ["issueNumber", "runId", "acquiredAt", "pid"]
        assert (content["issueNumber"], content["runId"], content["pid"]) == (NUMBER, "17042-1", os.getpid())
        assert content["acquiredAt"].endswith("Z")
        assert locks.status()[0].acquired_at is not None
        assert not lock.taken
    assert not file(locks).exists()


def test_another_run_cannot_unlock_it(locks: SessionLocks) -> None:
    with locks.acquire(NUMBER, "run-1"):
        with pytest.raises(Held, match="is locked by run run-1"):
            locks.unlock(NUMBER, "run-2")
        with pytest.raises(Held):
            locks.acquire(NUMBER, "run-1")
        assert locks.status()[0].held


def test_its_own_run_unlocks_it_from_another_process_and_the_old_holder_frees_nobodys_lock(
    crew: Crew, locks: SessionLocks, tmp_path: Path
) -> None:
    """Taken out: the look at `taken` in `release`; then the old holder removes the new one's file."""
    holder = crew.start(lockers.hold_until_told, tmp_path, "run-1")
    holder.hear()
    assert locks.unlock(NUMBER, "run-1")
    with locks.acquire(NUMBER, "run-2"):
        holder.tell()
        holder.join()
        assert locks.status()[0].run_id == "run-2"
        with pytest.raises(Held):
            locks.acquire(NUMBER, "run-3")


def test_anybody_may_unlock_a_lock_that_nobody_holds(locks: SessionLocks) -> None:
    assert not locks.unlock(NUMBER, "run-1")
    locks.acquire(1, "run-1").release()
    file(locks).write_text("left behind")
    assert not locks.unlock(NUMBER, "run-1")
    assert not file(locks).exists()


# -- files that are not as we wrote them ----------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "[" * 4000,
        '{"runId": 7}',
        '{"runId": "a", "pid": 1, "acquiredAt": "now"}',
        '{"runId": "a", "pid": 1, "acquiredAt": "0001-01-01T00:00:00+14:00"}',
        '{"runId": "a", "pid": 1, "acquiredAt": "0001-01-01T00:00:00+00:00"}',
        '{"runId": "a", "pid": 1, "acquiredAt": "9999-12-31T23:59:59-14:00"}',
        '{"runId": "a", "pid": 1, "acquiredAt": "9999-12-31T23:59:59+00:00"}',
        '{"runId": "\\u001b[2J", "pid": 1, "acquiredAt": "2027-01-01T00:00:00+00:00"}',
        '{"runId": "a", "pid": true, "acquiredAt": "2027-01-01T00:00:00+00:00"}',
        '{"runId": "a", "pid": 1e999, "acquiredAt": "2027-01-01T00:00:00+00:00"}',
        "\0" * 9000,
    ],
)
def test_a_corrupt_file_counts_as_held_while_its_lock_is_and_is_replaced_when_not(
    locks: SessionLocks, content: str
) -> None:
    lock = locks.acquire(NUMBER, "run-1")
    file(locks).write_text(content)
    with pytest.raises(Held, match="does not say by whom"):
        locks.acquire(NUMBER, "run-2")
    with pytest.raises(Held, match="does not say by whom"):
        locks.unlock(NUMBER, "run-1")
    assert locks.clean() == []
    assert [(s.held, s.run_id) for s in locks.status()] == [(True, None)]
    lock.release()
    file(locks).write_text(content)
    with locks.acquire(NUMBER, "run-2"):
        assert json.loads(file(locks).read_text())["runId"] == "run-2"


def test_clean_removes_what_nobody_holds_and_nothing_else(locks: SessionLocks) -> None:
    with locks.acquire(7, "run-1"):
        for name in ("8.lock", "9.lock", "notes.txt", "x.lock", "007.lock", "-1.lock"):
            (locks.directory / name).write_text("old")
        (locks.directory / "10.lock").mkdir()
        assert locks.clean() == [8, 9]
        left = {path.name for path in locks.directory.iterdir()}
        assert left == {
            ".guard",
            ".7.held",
            "7.lock",
            "notes.txt",
            "x.lock",
            "007.lock",
            "-1.lock",
            "10.lock",
        }


@pytest.mark.parametrize(
    ("put", "kind"),
    [
        (os.mkfifo, "a FIFO"),
        (os.mkdir, "a directory"),
        (lambda path: path.symlink_to("/etc/hostname"), "a symbolic link"),
        (lambda path: path.symlink_to("nowhere"), "a symbolic link"),
    ],
)
def test_something_other_than_a_file_is_shown_in_a_sentence_and_hides_no_other_lock(
    locks: SessionLocks, put: Callable[[Path], None], kind: str
) -> None:
    said = f"{NUMBER}.lock cannot be opened: it is {kind}, not a plain file."
    with locks.acquire(1, "run-1"):
        put(file(locks))
        one, odd = locks.status()
        assert (one.number, one.held, one.problem) == (1, True, None)
        assert (odd.number, odd.held, odd.run_id) == (NUMBER, False, None)
        assert odd.problem is not None
        assert odd.problem.endswith(said)
        for act in (locks.acquire, locks.unlock):
            with pytest.raises(InterlockError, match=said):
                act(NUMBER, "run-1")
        assert locks.clean() == []
        assert os.path.lexists(file(locks))


def test_a_lock_that_cannot_be_signed_is_not_held_and_leaves_nothing_behind(
    locks: SessionLocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for pwrite in (full, lambda *_: 3):  # a disk that is full, and one that is full after three bytes
        with monkeypatch.context() as patch:
            patch.setattr(os, "pwrite", pwrite)
            with pytest.raises(InterlockError, match=f"session {NUMBER} cannot be written: No space left"):
                locks.acquire(NUMBER, "run-1")
        assert not file(locks).exists()
    locks.acquire(NUMBER, "run-1").release()


def test_a_link_in_the_place_of_a_lock_file_is_refused_and_not_followed(
    locks: SessionLocks, tmp_path: Path
) -> None:
    locks.acquire(1, "run-1").release()
    (tmp_path / "precious").write_text("precious")
    file(locks).symlink_to(tmp_path / "precious")
    with pytest.raises(InterlockError, match="cannot be opened"):
        locks.acquire(NUMBER, "run-1")
    assert locks.clean() == []
    assert (tmp_path / "precious").read_text() == "precious"


@pytest.mark.parametrize("number", [0, -1, 10**15, True, "42", "../x", 4.2])
def test_a_number_that_is_no_issue_number_is_refused(locks: SessionLocks, number: int) -> None:
    for act in (locks.acquire, locks.unlock):
        with pytest.raises(InvalidInput, match="issue or pull request"):
            act(number, "run-1")
    with pytest.raises(InvalidInput, match="run id"):
        locks.acquire(NUMBER, "a b")
    assert not locks.directory.exists()


def test_releasing_a_lock_whose_directory_is_gone_does_not_fail(locks: SessionLocks) -> None:
    with locks.acquire(NUMBER, "run-1"):
        shutil.rmtree(locks.directory)
    assert locks.status() == []
    assert locks.clean() == []
    assert not locks.unlock(NUMBER, "run-1")


# -- files that somebody touches while they are held ----------------------------------------------------


def _replaced(path: Path) -> None:
    path.rename(path.with_name("aside"))
    path.write_text("{}")


def _linked(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/hostname")


def _made_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    "touch",
    [Path.unlink, lambda path: path.rename(path.with_name("aside")), _replaced, _linked, _made_directory],
)
def test_whatever_happens_to_the_file_of_a_holder_nobody_else_gets_the_lock(
    crew: Crew, locks: SessionLocks, tmp_path: Path, touch: Callable[[Path], None]
) -> None:
    """Taken out: the second name (`os.link` in `acquire`); then the next one gets a lock of its own."""
    holder = crew.start(lockers.hold_until_told, tmp_path, "run-1")
    assert holder.hear() == "locked"
    touch(file(locks))
    with pytest.raises(
        Held, match=r"locked by run run-1 .*42\.lock was moved, removed or replaced while it is held"
    ):
        locks.acquire(NUMBER, "run-2")
    (status,) = locks.status()
    assert (status.held, status.run_id, status.pid) == (True, "run-1", holder.pid)
    assert status.problem is not None
    assert locks.clean() == []
    holder.tell()
    holder.join()
    odd = file(locks).is_symlink() or file(locks).is_dir()
    if odd:  # it stays, and is named
        with pytest.raises(InterlockError, match="not a plain file"):
            locks.acquire(NUMBER, "run-2")
    else:
        locks.acquire(NUMBER, "run-2").release()
    left = {path.name for path in locks.directory.iterdir()} - {"aside"}
    assert left == {".guard", *([file(locks).name] if odd else [])}


def test_a_dead_holder_whose_file_was_moved_holds_nothing(
    crew: Crew, locks: SessionLocks, tmp_path: Path
) -> None:
    holder = crew.start(lockers.hold_until_told, tmp_path, "run-1")
    holder.hear()
    file(locks).rename(locks.directory / "aside")
    holder.kill()
    assert locks.clean() == [NUMBER]
    with locks.acquire(NUMBER, "run-2"):
        assert locks.status()[0].run_id == "run-2"
    assert (locks.directory / "aside").exists()


def test_its_run_unlocks_a_lock_whose_file_was_moved(crew: Crew, locks: SessionLocks, tmp_path: Path) -> None:
    holder = crew.start(lockers.hold_until_told, tmp_path, "run-1")
    holder.hear()
    _replaced(file(locks))
    with pytest.raises(Held):
        locks.unlock(NUMBER, "run-2")
    assert locks.unlock(NUMBER, "run-1")
    with locks.acquire(NUMBER, "run-2"):
        holder.tell()
        holder.join()  # it frees nobody's lock
        assert locks.status()[0].run_id == "run-2"


def test_a_hard_link_is_refused_and_the_other_file_keeps_its_contents(
    crew: Crew, locks: SessionLocks, tmp_path: Path
) -> None:
    """Taken out: `check_only_name`; then the name is taken from the precious file."""
    holder = crew.start(lockers.hold_until_told, tmp_path, "run-1")
    holder.hear()
    (tmp_path / "precious").write_text("precious")
    (locks.directory / "7.lock").hardlink_to(tmp_path / "precious")
    (locks.directory / "8.lock").hardlink_to(file(locks))
    for number in (7, 8):
        with pytest.raises(
            InterlockError, match=rf"{number}\.lock is not used as a lock: .* \(a hard link\)"
        ):
            locks.acquire(number, "run-2")
    with pytest.raises(Held):
        locks.acquire(NUMBER, "run-2")
    assert (tmp_path / "precious").read_text() == "precious"
    assert json.loads(file(locks).read_text())["runId"] == "run-1"
    holder.tell()
    holder.join()
    locks.acquire(NUMBER, "run-2").release()


def test_a_file_system_without_hard_links_has_locks_all_the_same(
    locks: SessionLocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refuse)
    with locks.acquire(NUMBER, "run-1"):
        with pytest.raises(Held, match="run-1"):
            locks.acquire(NUMBER, "run-2")
        assert locks.clean() == []
    assert locks.status() == []


# -- places where no lock can be ------------------------------------------------------------------------

#: The command in a process in which the system has no locks for files.
_WITHOUT_LOCKS = """
import errno, fcntl, os, sys
def flock(*_):
    raise OSError(errno.{error}, os.strerror(errno.{error}))
fcntl.flock = flock
from interlock.cli.main import main
sys.argv[1:] = {arguments!r}
sys.exit(main())
"""


@pytest.mark.parametrize(
    ("error", "what"),
    [
        ("ENOLCK", ["lock", "42", "--", "true"]),
        ("EOPNOTSUPP", ["lock", "42"]),
        ("ENOSYS", ["unlock", "42"]),
        ("ENOLCK", ["status"]),
        ("ENOLCK", ["clean"]),
    ],
)
def test_a_file_system_without_locks_is_refused_in_a_sentence(
    locks: SessionLocks, tmp_path: Path, error: str, what: list[str]
) -> None:
    with locks.acquire(NUMBER, "run-1"):
        before = file(locks).read_bytes()
        program = _WITHOUT_LOCKS.format(error=error, arguments=["session", *what])
        answer = subprocess.run(
            [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert answer.returncode == 1
        first, hint = answer.stderr.splitlines()
        assert first.startswith("The file system of the session locks refuses to lock a file: ")
        assert "interlock hold" in hint
        assert file(locks).read_bytes() == before


def test_a_directory_that_cannot_be_written_is_refused_in_a_sentence(crew: Crew) -> None:
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        root.chmod(0o755)
        locks = SessionLocks(root)
        locks.acquire(NUMBER, "run-1").release()
        locks.directory.chmod(0o555)
        said = crew.start(lockers.lock_as_nobody, root).hear()
        assert said == f"{locks.directory / '.guard'} cannot be opened: Permission denied."
        assert [path.name for path in locks.directory.iterdir()] == [".guard"]
        locks.directory.chmod(0o755)


def test_a_file_in_the_place_of_the_directory_is_refused_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / ".interlock").mkdir()
    (tmp_path / ".interlock" / "locks").write_text("mine")
    with pytest.raises(InterlockError, match="cannot be created: File exists"):
        SessionLocks(tmp_path).acquire(NUMBER, "run-1")
    assert (tmp_path / ".interlock" / "locks").read_text() == "mine"

"""Files that somebody else wrote or damaged: no kind of file is waited for, and none is believed."""

import json
import os
import signal
import socket
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from interlock.core.commands import Outcome
from interlock.git.plumbing import GitRepository
from interlock.gitlanes.first_seen import FirstSeen
from interlock.process.briefing import read_result
from interlock.process.smallfile import read_bytes, read_json
from interlock.worker.rundirectory import Home, RunFiles, Trace, found
from interlock.worker.salvage import WAITING, Salvager
from interlock.worker.spool import RunEnd, Spool, orphans
from tests.git_fixtures import IDENTITY

NESTED = "[" * 100_000
TRACE = Trace(run=7, item=3, title="t", lane=None, agent="a", worker="w", store="here")
END = RunEnd(outcome=Outcome.DONE, run="7-secret", fence=7, item=3, store="here", result="{}")


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


def _link(path: Path) -> None:
    target = path.with_name("target.json")
    target.write_text('{"a": 1}')
    path.symlink_to(target)


#: Makes something that is no plain file, and what is said of it.
ODD: dict[str, Callable[[Path], None]] = {
    "a FIFO": os.mkfifo,
    "a directory": os.mkdir,
    "a socket": _socket,
    "a symbolic link": _link,
}


@pytest.fixture(autouse=True)
def impatience() -> Iterator[None]:
    """Whoever waits for a FIFO here waits for ever: the test fails instead."""

    def waited(*_: object) -> None:
        raise AssertionError("it was waited for")

    before = signal.signal(signal.SIGALRM, waited)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(params=ODD)
def odd(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, str]:
    monkeypatch.chdir(tmp_path)  # a socket's path must be short
    path = Path("result.json")
    ODD[request.param](path)
    return path, request.param


def test_a_result_that_is_no_plain_file_is_refused_and_not_waited_for(odd: tuple[Path, str]) -> None:
    """A FIFO has no writer: whoever opens it to read waits for ever, and keeps the lease."""
    path, kind = odd
    with pytest.raises(ValueError, match=f"it is {kind}, not a plain file"):
        read_result(path)


def test_a_device_is_not_opened() -> None:
    with pytest.raises(ValueError, match="it is a device, not a plain file"):
        read_bytes(Path("/dev/zero"), 10)


def test_a_file_that_becomes_a_fifo_between_the_look_and_the_opening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fifo, plain = tmp_path / "fifo", tmp_path / "plain"
    os.mkfifo(fifo)
    plain.touch()
    before = plain.lstat()
    monkeypatch.setattr(Path, "lstat", lambda _: before)
    with pytest.raises(ValueError, match="a FIFO"):
        read_bytes(fifo, 10)


def test_a_result_is_its_text_or_none_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    assert read_result(path) is None
    assert read_result(path / "gone" / "result.json") is None
    path.write_text('{"a": 1.50}')
    assert read_result(path) == '{"a": 1.50}'
    for text in (NESTED, '{"a": NaN}', '{"a": 1e999}', '"' + "x" * (1 << 20) + '"'):
        path.write_text(text)
        with pytest.raises(ValueError, match=r"."):
            read_result(path)


def test_only_objects_are_read(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    for text in ("[]", "1", "null", "", NESTED, "{}" + " " * 100):
        path.write_text(text)
        with pytest.raises(ValueError, match=r"."):
            read_json(path, 50)


# -- the files of this host -----------------------------------------------------------------------


def wrong(values: dict[str, object], **changed: object) -> str:
    return json.dumps({**values, **changed})


@pytest.mark.parametrize(
    "text",
    [
        NESTED,
        "[]",
        "{}",
        wrong(asdict(END), result={"x": 1}),
        wrong(asdict(END), error=5),
        wrong(asdict(END), run=None),
        wrong(asdict(END), fence="9"),
        wrong(asdict(END), fence=True),
        wrong(asdict(END), item=1.5),
        wrong(asdict(END), store=[]),
        wrong(asdict(END), outcome="vanish"),
        wrong(asdict(END), outcome={}),
        wrong(asdict(END), fence=8),
        None,
    ],
    ids=lambda text: str(text)[:60],
)
def test_an_entry_of_the_spool_that_is_no_end_is_set_aside_and_the_others_are_delivered(
    tmp_path: Path, text: str | None
) -> None:
    dead = Spool.make(tmp_path, "dead")
    dead.keep(END)
    bad = dead.path / "run-9.json"
    if text is None:
        os.mkfifo(bad)
    else:
        bad.write_text(text)
    dead.close()
    (adopted,) = orphans(tmp_path)
    assert adopted.ends() == [END]
    assert not bad.exists()
    assert bad.with_suffix(".unreadable").exists()
    adopted.close()


def test_an_end_that_cannot_be_read_just_now_is_left_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No descriptors are left, perhaps: the next look may read it, and it is somebody's result."""
    spool = Spool.make(tmp_path, "dead")
    spool.keep(END)
    with monkeypatch.context() as patch:
        patch.setattr("interlock.worker.spool.read_bytes", _no_descriptors)
        assert spool.ends() == []
    assert spool.ends() == [END]
    spool.close()


def _no_descriptors(path: Path, max_bytes: int) -> bytes:
    raise OSError(24, "Too many open files")


@pytest.mark.parametrize(
    "text",
    [NESTED, "[]", "{}", wrong(asdict(TRACE), lane=[]), wrong(asdict(TRACE), supervisor="1"), None],
    ids=lambda text: str(text)[:20],
)
def test_a_record_of_a_run_that_is_damaged_does_not_hide_the_others(tmp_path: Path, text: str | None) -> None:
    home = Home(tmp_path, "sqlite:///x")
    home.make()
    mine = Trace(**{**asdict(TRACE), "store": home.store})
    RunFiles.make(home, mine).unlock()
    record = home.runs / "run-900" / "record.json"
    record.parent.mkdir()
    if text is None:
        os.mkfifo(record)
    else:
        record.write_text(text)
    assert [files.trace for files in found(home)] == [mine]


@pytest.mark.parametrize(
    "text", [NESTED, "[]", '{"boot": "one", "first_us": [1]}', '{"boot": "one", "first_us": {"a": -900}}']
)
def test_a_first_seen_record_that_cannot_be_trusted_starts_over(tmp_path: Path, text: str) -> None:
    """Waiting longer is safe; a lease taken for over is not."""
    first_seen = FirstSeen(tmp_path, now=lambda: 1_000, boot=lambda: "one")
    (tmp_path / "lane.json").write_text(text)
    assert first_seen.ages_us("lane", ["a"]) == {"a": 0}


def test_a_foreign_ref_does_not_hide_salvage(tmp_path: Path) -> None:
    repository = GitRepository.make_bare(tmp_path / "bare")
    for run, document in (
        (1, NESTED),
        (2, '{"run": Infinity}'),
        (3, json.dumps({**asdict(TRACE), "run": 3})),
    ):
        tree = repository.text("hash-object", "-t", "tree", "-w", "--stdin")
        told = f"Salvage of run {run}\n\n{document}\n\nNonce: {run}\n"
        made = repository.run("commit-tree", tree, stdin=told, environ=IDENTITY).out.strip()
        repository.text("update-ref", f"{WAITING}{run}", made)
    assert [kept.run for kept in Salvager(repository, repository.directory).waiting_for(TRACE)] == [3]

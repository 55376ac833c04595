"""Logs of runs: the beginning and the end are kept, in order, within a size."""

from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interlock.worker import log
from interlock.worker.log import HEAD_BYTES, TAIL_BYTES, RunLog, Tail


def pattern(n: int) -> bytes:
    """Bytes that tell where they stood."""
    return b"".join(b"%07d\n" % k for k in range(n // 8 + 1))[:n]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    size=st.one_of(
        st.integers(0, 3 * (HEAD_BYTES + TAIL_BYTES)),
        st.sampled_from([HEAD_BYTES, HEAD_BYTES + TAIL_BYTES, HEAD_BYTES + TAIL_BYTES + 1]),
    ),
    piece=st.integers(1_000, 70_000),
)
def test_a_log_has_the_first_and_the_last_of_what_was_printed(tmp_path: Path, size: int, piece: int) -> None:
    said = pattern(size)
    log = RunLog(tmp_path / "run.log")
    for start in range(0, size, piece):
        log.take(said[start : start + piece])
    log.close()
    kept = log.path.read_bytes()
    if size <= HEAD_BYTES + TAIL_BYTES:
        assert kept == said
    else:
        note = f"\n[… {size - HEAD_BYTES - TAIL_BYTES:,} bytes left out …]\n".encode()
        assert kept == said[:HEAD_BYTES] + note + said[-TAIL_BYTES:]


@given(pieces=st.lists(st.binary(max_size=40)), size=st.integers(1, 50))
def test_a_tail_is_the_end_of_everything(pieces: list[bytes], size: int) -> None:
    tail = Tail(size)
    for piece in pieces:
        tail.take(piece)
    expected = b"".join(pieces)[-size:].decode(errors="replace").replace("\0", "\N{REPLACEMENT CHARACTER}")
    assert tail.text() == expected


def test_the_last_line_is_the_last_that_is_not_blank() -> None:
    tail = Tail(100)
    tail.take(b"one\n two \n\n   \n")
    assert tail.last_line() == "two"
    assert Tail(10).last_line() == ""
    tail.take(b"1 of 3\r2 of 3\r\n")
    assert tail.last_line() == "2 of 3"


def test_old_logs_are_removed(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(log, "LOGS_MAX", 3)
    for n in range(5):
        (tmp_path / f"run-{n}.log").touch()
    log.prune(tmp_path)
    assert len(list(tmp_path.iterdir())) == 3

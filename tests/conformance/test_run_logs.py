"""Logs of runs: bounded, in order, plain, and written by the current run alone."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.core.errors import InterlockError, InvalidInput, LeaseLost, NotFound
from interlock.service.contract import LeaseView, Report
from interlock.store import run_logs
from interlock.store.run_logs import KEPT_CHARS, PIECE_MAX_CHARS
from tests.conformance.scene import Scene


def begun(scene: Scene, agent: str = "coder") -> LeaseView:
    scene.put("work")
    (lease,) = scene.service.next(agent)
    return lease


def test_output_is_read_from_any_place_and_further_pieces_follow(scene: Scene) -> None:
    lease = begun(scene)
    service = scene.service
    assert service.append_log(lease.run, start=0, text="one\ntwo\n") == 8
    assert service.append_log(lease.run, start=8, text="three\n") == 14
    log = service.run_log(lease.fence)
    assert (log.run, log.item, log.start, log.end) == (lease.fence, lease.item.id, 0, 14)
    assert log.text == "one\ntwo\nthree\n"
    assert log.running
    assert service.run_log(lease.fence, offset=4).text == "two\nthree\n"
    assert service.run_log(lease.fence, offset=10).text == "ree\n"
    later = service.run_log(lease.fence, offset=14)
    assert (later.text, later.start, later.end) == ("", 14, 14)
    service.done([Report(run=lease.run)])
    assert not service.run_log(lease.fence).running
    assert service.run_log(lease.fence).text == "one\ntwo\nthree\n", "it stays after the end"


def test_a_repeated_piece_changes_nothing(scene: Scene) -> None:
    lease = begun(scene)
    for _ in range(3):
        assert scene.service.append_log(lease.run, start=0, text="once\n") == 5
    assert scene.service.run_log(lease.fence).text == "once\n"


def test_a_run_that_has_lost_its_lease_may_not_append(scene: Scene) -> None:
    """Taken out (`run_bits` and `run` of `advance.sql`): its words appear among those of its successor."""
    lost = begun(scene)
    scene.service.append_log(lost.run, start=0, text="mine\n")
    scene.clock.advance(3600)
    scene.service.sweep()
    (heir,) = scene.service.next("coder")
    assert heir.item.id == lost.item.id
    forged = f"{heir.fence}.{heir.item.id}.{'0' * 16}"
    for handle in (lost.run, forged):
        with pytest.raises(LeaseLost):
            scene.service.append_log(handle, start=5, text="late\n")
    assert scene.service.run_log(lost.fence).text == "mine\n"
    with pytest.raises(NotFound):
        scene.service.run_log(heir.fence)


def test_only_the_end_is_kept(scene: Scene) -> None:
    """Taken out (`drop_pieces`): a run fills the store."""
    lease = begun(scene)
    piece = "x" * (PIECE_MAX_CHARS - 1) + "\n"
    for n in range(7):
        scene.service.append_log(lease.run, start=n * PIECE_MAX_CHARS, text=piece)
    log = scene.service.run_log(lease.fence)
    assert log.end == 7 * PIECE_MAX_CHARS
    assert len(log.text) == KEPT_CHARS
    assert log.start == log.end - KEPT_CHARS
    with pytest.raises((InvalidInput, InterlockError)):
        scene.service.append_log(lease.run, start=log.end, text="x" * (PIECE_MAX_CHARS + 1))


def test_output_that_was_left_out_is_counted(scene: Scene) -> None:
    lease = begun(scene)
    scene.service.append_log(lease.run, start=0, text="begin\n")
    scene.service.append_log(lease.run, start=1_006, text="end\n")
    log = scene.service.run_log(lease.fence)
    assert log.text == "begin\n\n[… 1,000 characters left out …]\nend\n"
    assert log.end == 1_010
    assert scene.service.run_log(lease.fence, offset=500).text == "end\n"


def test_the_logs_of_the_newest_runs_are_kept(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_logs, "KEPT_RUNS", 2)
    runs = []
    for n in range(4):
        lease = begun(scene)
        scene.service.append_log(lease.run, start=0, text=f"{n}\n")
        scene.service.done([Report(run=lease.run)])
        runs.append(lease.fence)
    for run in runs[:2]:
        with pytest.raises(NotFound):
            scene.service.run_log(run)
    assert [scene.service.run_log(run).text for run in runs[2:]] == ["2\n", "3\n"]


def test_nothing_that_moves_a_cursor_or_proves_a_run_gets_into_a_log(scene: Scene) -> None:
    lease = begun(scene)
    text = f"\x1b[31mred\x1b[0m {lease.run}\x1b]0;title\x07\x00\x9b2J\n10 %\r20 %\r\nok\u202e\n"
    scene.service.append_log(lease.run, start=0, text=text.replace("\x00", ""))
    secret = lease.run.rpartition(".")[2]
    log = scene.service.run_log(lease.fence).text
    assert secret not in log
    assert log == f"red {lease.run.replace(secret, '[redacted]')}\n20 %\nok\n"


def test_last_lines_of_many_runs_come_at_once(scene: Scene) -> None:
    first, second = begun(scene), begun(scene)
    scene.service.append_log(first.run, start=0, text="a\nb\n\n")
    scene.service.append_log(second.run, start=0, text="c" * 500)
    lines = scene.service.last_lines(runs=[first.fence, second.fence, 999])
    assert lines == {str(first.fence): "b", str(second.fence): "c" * 200}
    assert scene.service.last_lines(runs=[]) == {}


def test_a_log_goes_with_its_item(scene: Scene, query: Any) -> None:
    """Taken out (`run_logs` of `BY_ITEM`): the log stays for ever."""
    lease = begun(scene)
    scene.service.append_log(lease.run, start=0, text="gone\n")
    scene.service.done([Report(run=lease.run)])
    scene.service.store.erase([lease.item.id], []) if hasattr(scene.service, "store") else pytest.skip(
        "a server erases nothing by request"
    )
    with pytest.raises(NotFound):
        scene.service.run_log(lease.fence)
    assert query("SELECT count(*) FROM run_log_pieces") == [(0,)]

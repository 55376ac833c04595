"""A SQLite store on a host whose clocks are wrong, corrected, or counted from elsewhere.

No lease is taken early, none lives long after its holder died, and no time is stuck in the future. The
clocks are those of a simulated host; at the end there are real processes, with a faked wall clock and in a
time namespace of their own.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import libfaketime
import pytest

from interlock.core.bootclock import Moment, Scale
from interlock.core.model import NewItem
from interlock.service.contract import Report
from interlock.service.local import LocalService
from interlock.store import clock
from interlock.store.sqlite.store import SqliteStore
from tests.acceptance.command import Command
from tests.acceptance.holding.holders import LANE, UNTIL_LET_GO, let_go, pid_in

HOUR_S, YEAR_S = 3600, 365 * 24 * 3600
NOON_S = 1_800_000_000
LEASE_S = 60.0


class Host:
    """A machine whose clocks the test moves."""

    def __init__(self, path: Path, *, named: bool) -> None:
        self.path = path
        self._named = named
        self._boot, self._namespace, self._ahead_s = 1, 1, 0.0
        self.wall_s, self.up_s = float(NOON_S), 5.0 * HOUR_S
        self.open = LocalService(SqliteStore(path))

    def moment(self) -> Moment:
        return Moment(round((self.up_s + self._ahead_s) * 1e6), round(self.wall_s * 1e6))

    def scale(self) -> Scale:
        return Scale(f"boot-{self._boot}", f"time:[{self._namespace}]") if self._named else Scale("", "")

    def fresh(self) -> LocalService:
        """As a process that starts now."""
        return LocalService(SqliteStore(self.path))

    def pass_(self, seconds: float) -> None:
        self.wall_s += seconds
        self.up_s += seconds

    def boot(self, *, wall_s: float) -> None:
        """All processes end; the machine is up again with this wall clock."""
        self.open.close()
        self._boot += 1
        self.wall_s, self.up_s = wall_s, 20.0
        self.open = self.fresh()

    def enter(self, namespace: int, ahead_s: float) -> LocalService:
        """A process in another time namespace; `leave` comes back."""
        self._namespace, self._ahead_s = namespace, ahead_s
        return self.fresh()

    def leave(self) -> LocalService:
        return self.enter(1, 0.0)


@pytest.fixture(params=["a named boot", "a boot without a name"])
def host(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    yield from made(tmp_path, monkeypatch, named=request.param == "a named boot")


@pytest.fixture
def linux(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    yield from made(tmp_path, monkeypatch, named=True)


def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, named: bool) -> Iterator[Host]:
    found = Host(tmp_path / "il.db", named=named)
    monkeypatch.setattr(clock, "moment", found.moment)
    monkeypatch.setattr(clock, "scale", found.scale)
    monkeypatch.setattr(clock, "wall_us", lambda: found.moment().wall_us)
    yield found
    found.open.close()


def hold(service: LocalService) -> Report:
    service.add([NewItem(title="held", lane="deploy:production", lease_s=LEASE_S, max_attempts=9)])
    return Report(run=service.next("holder")[0].run)


def taken(service: LocalService) -> bool:
    """Whether another gets the item."""
    return bool(service.next("taker"))


def steps(service: LocalService) -> list[float]:
    return [event.data["step_s"] for event in service.events(limit=500) if event.kind == "clock.stepped"]


@pytest.mark.parametrize("step_s", [-HOUR_S, HOUR_S, -YEAR_S, YEAR_S])
def test_a_wall_clock_that_is_set_changes_no_lease(host: Host, step_s: int) -> None:
    run = hold(host.open)
    host.pass_(10)
    host.wall_s += step_s
    assert not taken(host.fresh()), "not early"
    assert host.open.renew([run])[0].refusal is None
    host.pass_(LEASE_S - 1)
    assert not taken(host.fresh())
    host.pass_(2)
    assert taken(host.fresh()), "and not late"
    assert steps(host.open) == [step_s]


@pytest.mark.parametrize("step_s", [-HOUR_S, HOUR_S])
def test_a_process_that_was_open_before_the_step_goes_by_the_same_clock(host: Host, step_s: int) -> None:
    """Taken out (the offset read anew each time): its renewal is an hour off for everybody else."""
    run = hold(host.open)
    host.wall_s += step_s
    host.fresh().add([NewItem(title="the first to notice")])
    host.pass_(10)
    until = host.open.renew([run])[0].expires_at
    assert until is not None
    assert until.timestamp() == pytest.approx(host.wall_s + LEASE_S, abs=1)


def test_a_dead_holder_does_not_keep_its_lane_because_the_clock_was_set_back(host: Host) -> None:
    hold(host.open)
    for _ in range(5):
        host.wall_s -= HOUR_S
        host.pass_(10)
        assert not taken(host.fresh())
    host.pass_(11)
    assert taken(host.fresh())


def test_a_boot_in_1970_takes_nothing_early_and_keeps_nothing_for_long(host: Host) -> None:
    hold(host.open)
    host.open.add([NewItem(title="tomorrow", agent="sam", run_at_us=round((NOON_S + 24 * HOUR_S) * 1e6))])
    host.pass_(30)
    host.boot(wall_s=100.0)
    host.open.sweep()
    host.pass_(LEASE_S + 1)
    assert taken(host.open), "its holder is dead"
    assert not host.open.next("sam"), "tomorrow has not come"
    host.wall_s = NOON_S + 2 * HOUR_S
    host.open.sweep()
    assert not host.open.next("sam")
    added = host.open.add([NewItem(title="now")])[0].item
    assert added is not None
    assert added.created_at.timestamp() == pytest.approx(host.wall_s, abs=1), "the time is right again"
    host.pass_(LEASE_S + 1)
    assert taken(host.open), "also what was claimed in 1970 ends in time"
    host.pass_(24 * HOUR_S)
    host.open.sweep()
    assert host.open.next("sam")


def test_a_boot_in_the_far_future_does_not_last(host: Host) -> None:
    host.open.add([NewItem(title="failing", agent="fay")])
    host.boot(wall_s=NOON_S + 10 * YEAR_S)
    run = hold(host.open)
    host.open.fail([Report(run=host.open.next("fay")[0].run)])
    host.pass_(10)
    host.wall_s = NOON_S + 600.0
    assert not taken(host.open)
    assert host.open.renew([run])[0].refusal is None
    assert steps(host.open) == [pytest.approx(NOON_S + 600 - (NOON_S + 10 * YEAR_S + 10))]
    host.pass_(LEASE_S + 1)
    assert taken(host.open), "its lease did not stay in the future"
    assert host.open.next("fay"), "nor did its back-off"
    host.boot(wall_s=host.wall_s + HOUR_S)
    added = host.open.add([NewItem(title="later")])[0].item
    assert added is not None
    assert added.created_at.timestamp() == pytest.approx(host.wall_s, abs=1)


def test_after_a_plain_boot_dead_holders_get_no_more_than_their_leases(linux: Host) -> None:
    hold(linux.open)
    linux.boot(wall_s=linux.wall_s + LEASE_S + 1)
    assert taken(linux.open)
    assert steps(linux.open) == []


@pytest.mark.parametrize("ahead_s", [-4 * HOUR_S, YEAR_S])
def test_another_time_namespace_takes_nothing_early(linux: Host, ahead_s: float) -> None:
    """Taken out (the namespace in `clock.scale`): inside it is a year later, and the lease is over."""
    run = hold(linux.open)
    linux.pass_(50)
    inside = linux.enter(2, ahead_s)
    assert not taken(inside)
    outside = linux.leave()
    assert outside.renew([run])[0].refusal is None
    assert steps(outside) == [0.0], "time could not be known, once"


@pytest.mark.parametrize("wall_s", [NOON_S - YEAR_S, NOON_S + YEAR_S])
def test_an_external_run_outlives_boots_and_clocks(host: Host, wall_s: float) -> None:
    host.open.add([NewItem(title="outside", lane="deploy:production")])
    (run,) = host.open.next("outside", external=True)
    host.boot(wall_s=wall_s)
    host.open.sweep()
    assert host.open.renew([Report(run=run.run)])[0].expires_at is None
    host.pass_(HOUR_S)
    host.open.sweep()
    assert [item.id for item in host.open.external()] == [run.item.id]
    assert host.open.done([Report(run=run.run)])[0].refusal is None


def test_two_namespaces_that_take_turns_do_not_keep_a_dead_holder_alive(linux: Host) -> None:
    hold(linux.open)
    for _ in range(11):
        linux.pass_(5)
        assert not taken(linux.enter(2, YEAR_S))
        assert not taken(linux.leave())
    linux.pass_(LEASE_S)
    assert taken(linux.enter(2, YEAR_S))


# -- real processes -----------------------------------------------------------------------------------


@pytest.fixture
def il(tmp_path: Path) -> Command:
    return Command(tmp_path)


def hold_lane(il: Command) -> subprocess.Popen[bytes]:
    holder = il.start("hold", LANE, "--lease", 20, "--", "sh", "-c", f"echo $$ > held; {UNTIL_LET_GO}")
    pid_in(il.directory / "held")
    return holder


@pytest.mark.parametrize("wrong", ["+2h", "-2h"])
def test_a_process_with_a_wrong_wall_clock_takes_no_lane_of_others(il: Command, wrong: str) -> None:
    holder = hold_lane(il)
    faked = {
        "LD_PRELOAD": str(next(Path(libfaketime.__file__).parent.rglob("libfaketime.so.1"))),
        "FAKETIME": wrong,
        "DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    taker = il("--json", "hold", LANE, "--if-held", "fail", "--", "true", env=faked)
    assert (taker.code, taker.error["code"]) == (4, "held")
    assert il("--json", "hold", LANE, "--if-held", "fail", "--", "true").code == 4
    stepped = [
        e["data"]["step_s"] for e in il.ok("events", "--limit", 100)["events"] if e["kind"] == "clock.stepped"
    ]
    assert [round(step_s / HOUR_S) for step_s in stepped] == ([2, -2] if wrong == "+2h" else [-2, 2])
    let_go(il, holder)


UNSHARE = ("unshare", "--time", "--fork", "--boottime", "100000", "--monotonic", "100000")


def may_unshare() -> bool:
    if not shutil.which("unshare"):
        return False
    return subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not may_unshare(), reason="this system gives out no time namespaces; simulated above")
def test_a_process_in_another_time_namespace_takes_no_lane_of_others(il: Command) -> None:
    holder = hold_lane(il)
    il.under = UNSHARE
    taker = il("--json", "hold", LANE, "--if-held", "fail", "--", "true")
    assert (taker.code, taker.error["code"]) == (4, "held")
    far = subprocess.run(
        [*UNSHARE, sys.executable, "-c", "import time; print(time.clock_gettime(time.CLOCK_BOOTTIME))"],
        capture_output=True,
        check=True,
    ).stdout
    assert float(far) > 100_000, "it counts from elsewhere"
    il.under = ()
    let_go(il, holder)

"""Fleets whose supervisor or workers are killed or stopped: no worker twice, no item twice, nothing left."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest

from interlock.fleet.directory import SUPERVISOR
from tests.fleets import FleetSite, gone, make_site, wait_until
from tests.patience import PATIENCE_S

#: Works until a file is there, and leaves its number.
SLOW = "echo $$ > pid.$INTERLOCK_ITEM; echo x >> started; while [ ! -e go ]; do sleep 0.1; done"
ONE = f'[workers.coder]\ncommand = ["sh", "-c", "{SLOW}"]\n'
#: Ends only by SIGKILL.
STUBBORN = "trap '' INT TERM HUP; echo $$ > pid.$INTERLOCK_ITEM; while :; do sleep 0.05; done"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[FleetSite]:
    directory = tmp_path / "app"
    directory.mkdir()
    made = make_site(directory)
    yield made
    made.close()


def working(site: FleetSite, text: str = ONE) -> dict[str, object]:
    """A fleet whose worker works on item 1."""
    site.write(text)
    site.il.ok("add", "long work", "--lane", "issue:acme/app#1")
    site.up()
    return site.until_state("working")


def kill_9(site: FleetSite) -> None:
    supervisor = site.supervisors[-1]
    supervisor.kill()
    supervisor.wait()


def test_kill_9_of_the_supervisor_leaves_the_work_and_the_next_one_adopts_it(site: FleetSite) -> None:
    """Taken out: the adoption, so that a second worker starts beside the first."""
    before = working(site)
    kill_9(site)
    alone = site.il("fleet", "status").out
    assert f"The fleet of {site.file} has no supervisor, and 1 worker of it still runs.\n" in alone
    assert site.item(1)["status"] == "in_progress"
    site.up()
    assert site.until_state("working")["pid"] == before["pid"]
    assert len(site.processes()) == 1
    (site.directory / "go").touch()
    site.until_item(1, "completed")
    site.il.ok("add", "more work")
    site.until_item(2, "completed")
    assert (site.directory / "started").read_text() == "x\nx\n"
    assert site.runs(1) == ["succeeded"]
    after = site.worker()
    assert (after["pid"], after["restarts"]) == (before["pid"], 0)
    assert any("was still running" in line["text"] for line in site.said())


def test_an_adopted_worker_that_dies_is_started_again(site: FleetSite) -> None:
    before = working(site)
    kill_9(site)
    site.up()
    os.kill(int(str(before["pid"])), signal.SIGKILL)
    found = site.until(lambda found: found["workers"][0]["restarts"] == 1, "it was started again")
    assert found["workers"][0]["pid"] != before["pid"]
    wait_until(lambda: gone(site.number_in("pid.1")), "its command died with it")
    assert len(site.processes()) == 1


def test_a_supervisor_killed_before_it_wrote_down_its_worker(site: FleetSite) -> None:
    """Killed just after the start of the worker: the record has no number yet, and the lock shows whose it
    is. Taken out: the look at the holders of locks."""
    before = working(site)
    kill_9(site)
    site.files.write(replace(site.files.read("coder"), pid=0))
    site.up()
    assert site.until_state("working")["pid"] == before["pid"]
    assert len(site.processes()) == 1
    kill_9(site)
    (site.files.path / "coder.json").unlink()  # a damaged record: whose entry it was is unknown
    site.up()
    found = site.until(lambda found: found["workers"][0]["pid"] not in (None, before["pid"]), "a new worker")
    assert gone(int(str(before["pid"])))
    assert found["workers"][0]["state"] in ("starting", "idle", "working")
    assert len(site.processes()) == 1
    assert site.runs(1)[0] == "released"


def test_a_worker_whose_entry_has_changed_is_replaced(site: FleetSite) -> None:
    """Its item is given back, and the new one has it; never do both work."""
    before = working(site)
    kill_9(site)
    site.write('[workers.coder]\ncommand = ["true"]\n[workers.more]\ncommand = ["true"]\ntypes = ["other"]\n')
    site.up()
    site.until_item(1, "completed")
    assert gone(int(str(before["pid"])))
    assert gone(site.number_in("pid.1"))
    assert site.runs(1) == ["released", "succeeded"]
    assert any(line["text"].endswith("its worker is changed in the file.") for line in site.said())
    site.until_state("idle", "more")
    assert len(site.processes()) == 2


def test_a_worker_that_is_no_longer_in_the_file_is_stopped_and_forgotten(site: FleetSite) -> None:
    before = working(site)
    kill_9(site)
    site.write('[workers.other]\ncommand = ["true"]\n')
    site.up()
    site.until(lambda found: [w["worker"] for w in found["workers"]] == ["other"], "coder is forgotten")
    assert gone(int(str(before["pid"])))
    site.until_item(1, "completed")
    assert site.runs(1) == ["released", "succeeded"]


def test_down_without_a_supervisor_stops_what_it_left(site: FleetSite) -> None:
    before = working(site)
    kill_9(site)
    assert "1 worker was stopped" in site.down().out
    assert gone(int(str(before["pid"])))
    assert gone(site.number_in("pid.1"))
    assert (site.item(1)["status"], site.runs(1)) == ("pending", ["released"])
    assert site.processes() == []
    assert "long work" in site.il("fleet", "logs").out, "what it said is kept"


def test_down_stops_a_supervisor_and_a_worker_that_are_stopped(site: FleetSite) -> None:
    """SIGSTOP of both: a stopped process gets no signal but SIGCONT and SIGKILL."""
    before = working(site)
    os.kill(int(str(before["pid"])), signal.SIGSTOP)
    site.until_state("suspended")
    site.supervisors[-1].send_signal(signal.SIGSTOP)
    site.down()
    assert site.supervisors[-1].wait(PATIENCE_S) == 0
    assert site.processes() == []
    assert gone(site.number_in("pid.1"))


@pytest.mark.slow
def test_down_kills_what_ignores_its_signals(site: FleetSite) -> None:
    working(site, f'[workers.coder]\ncommand = ["sh", "-c", "{STUBBORN}"]\n')
    site.down()
    assert gone(site.number_in("pid.1"))
    assert site.processes() == []
    assert site.item(1)["status"] == "pending"


def test_a_supervisor_that_comes_back_from_a_pause_is_alone(site: FleetSite) -> None:
    """SIGSTOP of the supervisor, for as long as one likes: its lock still keeps others out, and its workers
    work."""
    site.write('[workers.coder]\ncommand = ["true"]\n')
    up = site.up()
    site.until_state("idle")
    up.send_signal(signal.SIGSTOP)
    assert site.il("fleet", "up").code == 4
    site.il.ok("add", "work")
    site.until_item(1, "completed")
    up.send_signal(signal.SIGCONT)
    assert "was stopped" in site.down().out


def test_two_supervisors_after_a_kill_9(site: FleetSite) -> None:
    """Both find what the dead one has left. One adopts it, the other one is refused."""
    before = working(site)
    kill_9(site)
    racers = [site.il.start("fleet", "up", "--detach") for _ in range(4)]
    ends = [(racer.communicate(timeout=PATIENCE_S), racer.returncode) for racer in racers]
    assert sorted(code for _, code in ends).count(0) == 1, ends
    assert all(b"is already running" in said[1] for said, code in ends if code), ends
    assert site.until_state("working")["pid"] == before["pid"]
    assert len(site.processes()) == 1
    (site.directory / "go").touch()
    site.until_item(1, "completed")
    assert (site.directory / "started").read_text() == "x\n"
    site.down()


def test_kill_9_again_and_again(site: FleetSite) -> None:
    """The supervisor dies at any moment of its start. In the end each worker is there once, and each item was
    done once by each run."""
    names = [f"w{n}" for n in range(3)]
    site.write("".join(f'[workers.{name}]\ncommand = ["true"]\n' for name in names))
    for n in range(12):
        site.il.ok("add", f"work {n}")
    for pause in range(8):
        up = site.il.start("fleet", "up")
        try:
            up.wait(0.25 + 0.1 * pause)
        except Exception:
            up.kill()
        up.communicate()
        assert len(site.processes()) <= len(names)
    site.up()
    site.until(lambda found: all(w["state"] == "idle" for w in found["workers"]), "all are idle")
    held = site.files.holders(names)
    assert sorted(held) == names
    assert sorted(held.values()) == sorted(process.pid for process in site.processes())
    for n in range(12):
        site.until_item(n + 1, "completed")
        assert site.runs(n + 1) == ["succeeded"]
    site.down()
    assert site.processes() == []
    assert not site.files.is_alive(SUPERVISOR)


def test_a_closed_terminal_stops_the_fleet(site: FleetSite) -> None:
    before = working(site)
    site.supervisors[-1].send_signal(signal.SIGHUP)
    assert site.supervisors[-1].wait(PATIENCE_S) == 0
    assert not psutil.pid_exists(int(str(before["pid"])))
    assert site.runs(1) == ["released"]

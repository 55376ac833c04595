"""The action's scripts, run by node as the runner would run them, on a store of the test's own."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest

from interlock import app
from interlock.core.model import NewItem
from interlock.service.contract import ItemFilter, Service
from tests.faults.processes import wait_until
from tests.patience import PATIENCE_S

ROOT = Path(__file__).parent.parent.parent
NODE = shutil.which("node")


@pytest.fixture(autouse=True)
def _node() -> None:
    if NODE is None:
        tell = pytest.fail if os.environ.get("CI") else pytest.skip
        tell("There is no node to run the action's scripts.")


class Job:
    """A job with the action in it: its files, and what the runner would put into the environment."""

    def __init__(self, directory: Path, url: str) -> None:
        self.directory = directory
        directory.mkdir()
        # A test must not meet an interlock that happens to be installed elsewhere.
        program = directory / "bin" / "interlock"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m interlock "$@"\n')
        program.chmod(0o755)
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("INTERLOCK_", "GITHUB_", "INPUT_"))}
        self.environ = {
            **kept,
            "PATH": f"{program.parent}:{os.environ['PATH']}",
            "RUNNER_TEMP": str(directory),
            "GITHUB_REPOSITORY": "Acme/App",
            **{f"GITHUB_{name}": str(directory / name) for name in ("OUTPUT", "STATE", "ENV")},
            "INPUT_URL": url,
        }

    def start(self, script: str, **inputs: str) -> "subprocess.Popen[str]":
        """Start a step. Inputs are named as in action.yml, with _ for -."""
        given = {f"INPUT_{name.replace('_', '-').upper()}": value for name, value in inputs.items()}
        assert NODE is not None
        return subprocess.Popen(
            [NODE, ROOT / "action" / script],
            cwd=self.directory,
            env={**self.environ, **given, **{f"STATE_{k}": v for k, v in self.told("STATE").items()}},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, script: str, **inputs: str) -> tuple[int, str]:
        """A whole step: its exit code and its log."""
        step = self.start(script, **inputs)
        out, _ = step.communicate(timeout=PATIENCE_S)
        return step.returncode, out

    def told(self, name: str) -> dict[str, str]:
        """What a step wrote into one of the runner's files."""
        file = self.directory / name
        lines = iter(file.read_text().splitlines() if file.exists() else ())
        found = {}
        for line in lines:
            key, _, end = line.partition("<<")
            found[key] = "\n".join(iter(lines.__next__, end))
        return found


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/store.db"


@pytest.fixture
def store(url: str) -> Iterator[Service]:
    service = app.open_service(url)
    yield service
    service.close()


@pytest.fixture
def job(tmp_path: Path, url: str) -> Iterator[Job]:
    yield Job(tmp_path / "job", url)
    for process in hold_processes(tmp_path):  # only where a test failed: its runner, this process, lives on
        process.kill()


def hold_processes(directory: Path) -> list[psutil.Process]:
    """What still runs for a job."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        if any(str(directory) in word for word in process.info["cmdline"] or ()):
            found.append(process)
    return found


def expiry(store: Service) -> datetime:
    (lane,) = store.lanes()
    assert lane.holder is not None
    assert lane.holder.expires_at is not None
    return lane.holder.expires_at


def test_a_lane_is_held_from_the_first_step_to_the_last(job: Job, store: Service):
    code, log = job.run("claim.js", lane="issue:acme/app#42", agent="triage", message="look at it")
    assert code == 0, log
    output = job.told("OUTPUT")
    assert output == {"status": "claimed", "run": output["run"], "fence": "1"}
    later = job.told("ENV")
    assert later["INTERLOCK_RUN"] == output["run"]
    assert later["INTERLOCK_LANE"] == "issue:acme/app#42"
    assert f"::add-mask::{output['run']}" in log
    (lane,) = store.lanes()
    assert lane.holder is not None
    assert (lane.lane, lane.holder.agent, lane.holder.run) == ("issue:acme/app#42", "triage", 1)
    assert [m.text for m in store.show(1).messages] == ["look at it"]

    code, log = job.run("release.js")
    assert (code, log) == (0, "issue:acme/app#42 is given back.\n")
    assert store.lanes() == []
    wait_until(lambda: hold_processes(job.directory) == [], "no process is left")


def test_the_lease_is_renewed_while_the_job_runs(job: Job, store: Service):
    code, log = job.run("claim.js", lane="deploy", lease="3s")
    assert code == 0, log
    until = expiry(store)
    wait_until(lambda: expiry(store) > until, "the lease is renewed")
    assert job.run("release.js")[0] == 0
    assert store.lanes() == []


def test_the_lane_of_the_event_and_the_store_of_the_environment_are_the_defaults(job: Job, store: Service):
    event = job.directory / "event.json"
    job.environ |= {"GITHUB_EVENT_PATH": str(event), "INTERLOCK_URL": job.environ.pop("INPUT_URL")}
    event.write_text(json.dumps({"issue": {"number": 7, "pull_request": {}}}))
    assert job.run("claim.js")[0] == 0
    assert [lane.lane for lane in store.lanes()] == ["issue:acme/app#7"]
    assert job.run("release.js")[0] == 0
    event.write_text("{}")
    code, log = job.run("claim.js")
    assert code == 1
    assert log.startswith("::error::This event is about no issue and no pull request.")


@pytest.mark.parametrize(
    ("inputs", "code", "status"),
    [
        ({"if_held": "fail"}, 1, "held"),
        ({"if_held": "skip"}, 0, "held"),
        ({"if_held": "skip", "message": "and the docs"}, 0, "queued"),
    ],
)
def test_a_job_fails_or_skips_while_another_run_holds_its_lane(
    job: Job, tmp_path: Path, url: str, inputs, code, status
):
    assert job.run("claim.js", lane="deploy", agent="first")[0] == 0
    second = Job(tmp_path / "second", url)
    ended, log = second.run("claim.js", lane="deploy", **inputs)
    assert (ended, second.told("OUTPUT")) == (code, {"status": status}), log
    assert "held by first" in log or "the hold of first" in log
    assert second.told("ENV") == {}
    assert second.run("release.js") == (
        0,
        "",
    )  # there is nothing to give back, and nothing is taken from the first
    code, log = job.run("release.js")
    assert code == 0
    assert ("and the docs" in log) == (status == "queued")


def test_a_message_cannot_inject_a_file_name_or_a_runner_command(job: Job, tmp_path: Path, url: str):
    assert job.run("claim.js", lane="deploy")[0] == 0
    second = Job(tmp_path / "second", url)
    evil = "@/etc/passwd\n::error::forged\nrun<<x"
    assert second.run("claim.js", lane="deploy", if_held="skip", message=evil)[0] == 0
    _, log = job.run("release.js")
    assert "@/etc/passwd%0A::error::forged%0Arun<<x" in log
    assert "\n::error::" not in log


def test_a_job_waits_for_its_turn(job: Job, tmp_path: Path, url: str, store: Service):
    assert job.run("claim.js", lane="deploy")[0] == 0
    second = Job(tmp_path / "second", url)
    step = second.start("claim.js", lane="deploy")
    wait_until(lambda: any(lane.waiting for lane in store.lanes()), "the second waits")
    assert step.poll() is None
    assert job.run("release.js")[0] == 0
    out, _ = step.communicate(timeout=PATIENCE_S)
    assert step.returncode == 0
    assert out.startswith("Waiting: ")
    assert second.told("OUTPUT")["fence"] == "2"
    assert second.run("release.js")[0] == 0


def test_a_job_that_is_cancelled_while_it_waits_leaves_the_line(
    job: Job, tmp_path: Path, url: str, store: Service
):
    assert job.run("claim.js", lane="deploy")[0] == 0
    second = Job(tmp_path / "second", url)
    step = second.start("claim.js", lane="deploy")
    wait_until(lambda: any(lane.waiting for lane in store.lanes()), "the second waits")
    step.send_signal(signal.SIGINT)
    out, _ = step.communicate(timeout=PATIENCE_S)
    assert step.returncode == 1
    assert "cancelled while it waited" in out
    assert second.run("release.js")[0] == 0
    wait_until(lambda: not any(lane.waiting for lane in store.lanes()), "the second has left")
    assert job.run("release.js")[0] == 0


def test_a_lane_that_was_lost_is_reported_and_not_given_back_for_its_new_holder(job: Job, store: Service):
    assert job.run("claim.js", lane="deploy")[0] == 0
    (item,) = store.items(ItemFilter())
    store.cancel(item.id, why="by hand", force=True)
    assert store.add([NewItem(title="Roll back", lane="deploy")])[0].decision == "admitted"
    assert store.next("other")
    code, log = job.run("release.js")
    assert code == 1
    assert log.startswith("::error::The lane was lost while this job ran")
    (lane,) = store.lanes()
    assert lane.holder is not None
    assert lane.holder.agent == "other"


def test_a_holder_that_died_is_reported(job: Job, store: Service):
    assert job.run("claim.js", lane="deploy")[0] == 0
    for process in hold_processes(job.directory):
        with suppress(psutil.NoSuchProcess):  # it ends with one that was killed before it
            if "interlock" in process.cmdline():
                process.kill()
    code, log = job.run("release.js")
    assert code == 1
    assert "ended before the job did" in log


def test_the_holder_does_not_outlive_its_runner(job: Job, store: Service):
    """The step's parent stands for the runner: a shell that dies right after the step."""
    assert NODE is not None
    script = f'"{NODE}" "{ROOT}/action/claim.js"; exit 0'
    environ = {**job.environ, "INPUT_LANE": "deploy"}
    subprocess.run(["sh", "-c", script], env=environ, cwd=job.directory, check=True, timeout=PATIENCE_S)
    wait_until(lambda: store.lanes() == [], "the lane is free")
    wait_until(lambda: hold_processes(job.directory) == [], "no process is left")


def test_without_interlock_the_step_says_how_to_get_it(job: Job):
    assert NODE is not None
    (job.directory / "bin" / "interlock").unlink()
    job.environ["PATH"] = str(job.directory / "bin")
    code, log = job.run("claim.js", lane="deploy")
    assert code == 1
    assert "There is no interlock on the path" in log


def test_invalid_inputs_are_refused(job: Job):
    code, log = job.run("claim.js", lane="deploy", if_held="maybe")
    assert (code, log) == (1, "::error::if-held is maybe. Use wait, skip, fail.\n")
    code, log = job.run("claim.js", lane="no lane")
    assert code == 1
    assert "invalid character" in log

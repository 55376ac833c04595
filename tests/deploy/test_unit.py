"""The systemd unit: well formed, confined, and with nothing forbidden that the server needs."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

UNIT = Path(__file__).parents[2] / "deploy" / "interlock.service"
#: What `systemd-analyze security` may find, of 100: the network is left, and little else.
EXPOSURE_MAX = 15
PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN = 65, 1


FLEET = UNIT.with_name("interlock-fleet.service")


def analyze(*args: str) -> subprocess.CompletedProcess[str]:
    if shutil.which("systemd-analyze") is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("There is no systemd-analyze on this machine.")
    return subprocess.run(["systemd-analyze", *args], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("file", [UNIT, FLEET], ids=lambda file: file.stem)
def test_systemd_finds_nothing_wrong(tmp_path: Path, file: Path) -> None:
    unit = tmp_path / file.name
    installed = file.read_text().replace("/opt/interlock/bin/interlock", str(program()))
    unit.write_text(installed)
    found = analyze("verify", "--man=no", str(unit))
    # Of units that the machine itself has, or lacks, nothing is said here.
    about_ours = [line for line in (found.stdout + found.stderr).splitlines() if "interlock" in line]
    assert about_ours == []
    unit.write_text(installed + "\n[Service]\nProtectSytem=strict\n")
    assert "ProtectSytem" in analyze("verify", "--man=no", str(unit)).stderr


def test_little_of_the_machine_is_exposed() -> None:
    found = analyze("security", "--offline=yes", f"--threshold={EXPOSURE_MAX}", str(UNIT))
    assert found.returncode == 0, found.stdout[-300:]


def test_its_command_runs_without_memory_that_is_written_and_executed(tmp_path: Path) -> None:
    """As MemoryDenyWriteExecute wants it, and with a directory of its own as UMask and StateDirectory do."""
    libc = ctypes.CDLL(None)

    def confine() -> None:
        os.umask(0o077)
        assert libc.prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0) in (0, -1)  # older kernels cannot

    [line] = [line for line in UNIT.read_text().splitlines() if line.startswith("ExecStart=")]
    options = line.split()[2:]
    assert options[options.index("--port") + 1] == "8420"
    options[options.index("--port") + 1] = "0"
    environ = {
        "PATH": "/usr/bin:/bin",
        "INTERLOCK_URL": f"sqlite:///{tmp_path / 'interlock.db'}",
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
    }
    done = subprocess.run(
        [str(program()), "up", *options, "--once"],
        cwd=tmp_path,
        env=environ,
        preexec_fn=confine,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "All is well" in done.stdout
    assert (tmp_path / "interlock.db").stat().st_mode & 0o077 == 0


def test_the_fleet_unit_runs_a_fleet_and_stops_it(tmp_path: Path) -> None:
    """Its command, in its environment, with a file that nobody has trusted; and the signal that it gets."""
    text = FLEET.read_text()
    settings = dict(line.split("=", 1) for line in text.splitlines() if re.match(r"[A-Z]\w+=", line))
    command = settings["ExecStart"].split()[1:]
    assert command == ["fleet", "up", "--file", "fleet.toml"]
    assert settings["KillMode"] == "mixed"
    (tmp_path / "fleet.toml").write_text('[workers.coder]\ncommand = ["sh", "-c", "exec sleep 300"]\n')
    environ = {
        "PATH": settings["Environment"].removeprefix("PATH="),
        "INTERLOCK_URL": f"sqlite:///{tmp_path / 'interlock.db'}",
    }
    subprocess.run(
        [str(program()), "add", "work"], cwd=tmp_path, env=environ, check=True, capture_output=True
    )
    fleet = subprocess.Popen(
        [str(program()), *command],
        cwd=tmp_path,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert fleet.stdout is not None
    with fleet.stdout as lines:
        assert any("Run 1 started on item 1" in line for line in lines)
        began_s = time.monotonic()
        fleet.send_signal(signal.SIGTERM)
        rest = lines.read()
    assert fleet.wait() == 0
    assert "Run 1 released; item 1 is pending" in rest
    assert time.monotonic() - began_s < float(settings["TimeoutStopSec"].removesuffix("s"))


@pytest.mark.parametrize(("file", "least"), [(UNIT, 6), (FLEET, 3)], ids=["server", "fleet"])
def test_the_lines_that_it_proposes_for_its_variables_have_nothing_behind_their_values(
    file: Path, least: int
) -> None:
    """systemd takes all of a line for the value."""
    head = file.read_text().partition("[Unit]")[0]
    proposed = re.findall(r"^#   ([A-Z_]+=.*)$", head, re.MULTILINE)
    assert len(proposed) >= least
    assert [line for line in proposed if " " in line] == []


def program() -> Path:
    return Path(sys.executable).with_name("interlock")

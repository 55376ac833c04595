"""The systemd unit: well formed, confined, and with nothing forbidden that the server needs."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

UNIT = Path(__file__).parents[2] / "deploy" / "interlock.service"
#: What `systemd-analyze security` may find, of 100: the network is left, and little else.
EXPOSURE_MAX = 15
PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN = 65, 1


def analyze(*args: str) -> subprocess.CompletedProcess[str]:
    if shutil.which("systemd-analyze") is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("There is no systemd-analyze on this machine.")
    return subprocess.run(["systemd-analyze", *args], capture_output=True, text=True, check=False)


def test_systemd_finds_nothing_wrong(tmp_path: Path) -> None:
    unit = tmp_path / "interlock.service"
    installed = UNIT.read_text().replace("/opt/interlock/bin/interlock", str(program()))
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


def test_the_lines_that_it_proposes_for_its_variables_have_nothing_behind_their_values() -> None:
    """systemd takes all of a line for the value."""
    head = UNIT.read_text().partition("[Unit]")[0]
    proposed = re.findall(r"^#   ([A-Z_]+=.*)$", head, re.MULTILINE)
    assert len(proposed) >= 6
    assert [line for line in proposed if " " in line] == []


def program() -> Path:
    return Path(sys.executable).with_name("interlock")

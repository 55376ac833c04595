"""`interlock up` in a terminal: what it said at its start stays there."""

import json
import os
import pty
import signal
import subprocess
import urllib.request
from pathlib import Path

from tests.acceptance.command import PROGRAM
from tests.patience import PATIENCE_S


def test_requests_do_not_scroll_away_what_it_said(tmp_path: Path) -> None:
    """Taken out: the file for the log. Each request printed a line."""
    master, slave = pty.openpty()
    environ = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path / "config"), "COLUMNS": "200"}
    server = subprocess.Popen(
        [*PROGRAM, "up", "--port", "0"],
        cwd=tmp_path,
        env={name: value for name, value in environ.items() if not name.startswith("INTERLOCK_")},
        stdin=slave,
        stdout=slave,
        stderr=slave,
    )
    said = b""
    while b"Ctrl-C ends it." not in said:
        said += os.read(master, 1 << 16)
    url = said.decode().partition(" at ")[2].split()[0]
    for _ in range(3):
        with urllib.request.urlopen(f"{url}/healthz", timeout=PATIENCE_S) as answer:
            assert answer.status == 200
    server.send_signal(signal.SIGTERM)
    assert server.wait(PATIENCE_S) == 0
    os.close(slave)
    rest = os.read(master, 1 << 16)
    os.close(master)
    assert rest.split() == [b"Stopped."]
    log = tmp_path / ".interlock" / "logs" / "server.log"
    assert f"Its log is {log}; only warnings are shown here." in said.decode()
    requests = [line for line in map(json.loads, log.read_text().splitlines()) if line["event"] == "request"]
    assert [each["path"] for each in requests] == ["/healthz"] * 3

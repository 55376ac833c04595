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


def up(tmp_path: Path, **settings: str) -> str:
    """What a server says on a terminal until it was asked three times and has stopped."""
    master, slave = pty.openpty()
    environ = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path / "config"), "COLUMNS": "200"}
    plain = {name: value for name, value in environ.items() if not name.startswith("INTERLOCK_")}
    server = subprocess.Popen(
        [*PROGRAM, "up", "--port", "0"],
        cwd=tmp_path,
        env={**plain, **settings},
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
    return said.decode()


def told(log: Path) -> None:
    """The log has a line for each request."""
    requests = [line for line in map(json.loads, log.read_text().splitlines()) if line["event"] == "request"]
    assert [each["path"] for each in requests] == ["/healthz"] * 3


def test_requests_do_not_scroll_away_what_it_said(tmp_path: Path) -> None:
    """Taken out: the file for the log. Each request printed a line."""
    said = up(tmp_path)
    log = tmp_path / ".interlock" / "logs" / "server.log"
    assert f"Its log is {log}; only warnings are shown here." in said
    told(log)


def test_the_log_is_beside_the_store_that_the_url_names(tmp_path: Path) -> None:
    """Taken out: the path from the URL. Servers of two stores, begun in one repository, shared one log."""
    (tmp_path / "data").mkdir()
    said = up(tmp_path, INTERLOCK_URL=f"sqlite://{tmp_path}/data/other.db")
    log = tmp_path / "data" / "logs" / "server-other.db.log"
    assert f"Its log is {log}; only warnings are shown here." in said
    told(log)
    assert not (tmp_path / ".interlock" / "logs").exists()

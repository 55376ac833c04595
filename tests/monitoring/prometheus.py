"""A real Prometheus, and its promtool: the ones of this machine."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.faults.processes import wait_until

DEPLOY = Path(__file__).parents[2] / "deploy"
RULES = DEPLOY / "prometheus" / "interlock.rules.yml"


def program(name: str) -> str:
    """Where a program is; in CI it must be somewhere."""
    found = shutil.which(name)
    if found is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"there is no {name} on this machine")
    return found


def promtool(*args: str, stdin: str | None = None) -> str:
    """What promtool says; it must be content."""
    done = subprocess.run(
        [program("promtool"), *args], input=stdin, capture_output=True, text=True, check=False
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    return said


class Prometheus:
    """Scrapes servers of one store every second, with our rules."""

    def __init__(self, folder: Path, targets: list[str], token: str) -> None:
        (folder / "token").write_text(token)
        config = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(RULES)],
            "scrape_configs": [
                {
                    "job_name": "interlock",
                    "authorization": {"credentials_file": str(folder / "token")},
                    "static_configs": [{"targets": targets}],
                }
            ],
        }
        file = folder / "prometheus.yml"
        file.write_text(yaml.safe_dump(config))
        promtool("check", "config", str(file))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        self._log = (folder / "prometheus.log").open("w")
        self._process = subprocess.Popen(
            [
                program("prometheus"),
                f"--config.file={file}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address={self.address}",
                "--log.level=warn",
            ],
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )
        wait_until(self._is_ready, "Prometheus is ready")

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://{self.address}/-/ready", timeout=1) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def get(self, path: str, **query: str) -> Any:
        url = f"http://{self.address}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{query}: {error.read().decode()}") from None

    def query(self, expression: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.get("query", query=expression)["result"]
        return found

    def value(self, expression: str) -> float | None:
        """The one number that an expression has now."""
        found = self.query(expression)
        assert len(found) < 2, found
        return float(found[0]["value"][1]) if found else None

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(30)
        self._log.close()

"""The lines for curl in the reference, against a real server."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from interlock.core.model import NewItem
from tests.http.up import Up

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "http.md"


def test_the_lines_for_curl_do_what_the_page_says(up: Up, tmp_path: Path) -> None:
    """On a store with other items: what `interlock up` lets people type, and the walk of the README."""
    if missing := [name for name in ("bash", "curl", "jq") if shutil.which(name) is None]:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"There is no {missing} on this machine.")
    section = PAGE.read_text("utf-8").partition("## Try it with curl")[2].partition("\n## ")[0]
    script = "".join(re.findall(r"```sh\n(.*?)```", section, re.DOTALL))
    assert "http://127.0.0.1:8420" in script
    script = script.replace("http://127.0.0.1:8420", up.url).replace(
        "--no-buffer", "--no-buffer --max-time 2"
    )
    up.client().add(
        [NewItem(title="x", lane="issue:acme/app#42"), NewItem(title="y", lane="issue:acme/app#1", agent="z")]
    )
    up.client().next("coder")
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env={
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(tmp_path),
            "XDG_CONFIG_HOME": str(up.directory / "config"),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line]
    added, again, edited, late, renewed, _, inbox, ended, over, mistaken, history = map(
        json.loads, lines[:11]
    )
    assert added == again
    assert [each["decision"] for each in added["items"]] == ["admitted"]
    assert edited["item"]["priority"] == 7
    assert (late["status"], late["code"]) == (412, "stale_revision")
    assert renewed["runs"][0]["refusal"] is None
    assert [each["text"] for each in inbox["messages"]] == ["On tablets too."]
    assert ended["runs"][0]["status"] == "succeeded"
    assert (over["status"], over["code"]) == (410, "lease_lost")
    assert mistaken["status"] == 422
    assert [each["kind"] for each in history["events"]][-1] == "run.succeeded"
    assert len(history["events"]) == 3
    for secret in ("token", "head"):
        assert (tmp_path / secret).stat().st_mode & 0o077 == 0
    streamed: list[Any] = [json.loads(line[6:]) for line in lines[11:] if line.startswith("data: ")]
    assert streamed[-1]["kind"] == "run.succeeded", done.stdout[-2000:]

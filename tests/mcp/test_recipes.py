"""The recipes of the page: each is a file that its client can read, and names a server that there is."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from docs.generate import ROOT
from interlock.cli.mcp_command import _drop_unfilled
from interlock.mcp.endpoint import PATH
from tests.mcp.client import model
from tests.mcp.test_stdio import command

PAGE = (ROOT / "docs" / "how-to" / "mcp.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(json|toml)\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
#: Of a run these must reach the server, beside the store: the handle, and where to say that it has ended.
NEEDED = {"INTERLOCK_RUN", "INTERLOCK_RESULT", "INTERLOCK_URL"}


def _servers(kind: str, text: str) -> dict[str, Any]:
    read = tomllib.loads(text) if kind == "toml" else json.loads(text)
    (found,) = (read[key] for key in ("mcpServers", "servers", "mcp_servers") if key in read)
    return dict(found)


@pytest.mark.parametrize(("kind", "text"), BLOCKS)
def test_a_recipe_names_the_command_and_the_address(kind: str, text: str) -> None:
    servers = _servers(kind, text)
    near, far = servers["interlock"], servers["interlock-server"]
    assert [near["command"], *near["args"]] == ["interlock", "mcp", "--agent", "coder"]
    assert far.get("url", far.get("httpUrl", "")).endswith(PATH)
    token = far.get("bearer_token_env_var") or far["headers"]["Authorization"]
    assert "INTERLOCK_TOKEN" in token or token == "Bearer ${input:interlock-token}"
    assert "il_" not in text, "no token is written down"
    if "inputs" not in text:
        passed = near.get("env") or {name: f"${name}" for name in near["env_vars"]}
        assert set(passed) >= NEEDED
        assert all(name in value for name, value in passed.items())


def test_every_client_that_the_page_promises_has_a_recipe() -> None:
    assert len(BLOCKS) == 6
    for name in ("Claude Code", "Codex", "Copilot", "Gemini", "Cursor"):
        assert f"### {name}\n" in PAGE


@pytest.mark.parametrize("form", ["${%s}", "$%s", "${env:%s}"])
def test_a_variable_that_a_client_could_not_fill_in_is_not_set(form: str) -> None:
    names = ("INTERLOCK_URL", "INTERLOCK_RUN", "INTERLOCK_TOKEN", "INTERLOCK_RESULT")
    environ = {name: form % name for name in names} | {"INTERLOCK_PROJECT": "a$b", "HOME": "$HOME"}
    _drop_unfilled(environ)
    assert environ == {"INTERLOCK_PROJECT": "a$b", "HOME": "$HOME"}


def test_a_recipe_as_it_is_starts_on_the_store_of_the_directory(tmp_path: Path) -> None:
    (kind, text), *_ = BLOCKS
    near = _servers(kind, text)["interlock"]
    with model(command(tmp_path, *near["args"][1:], **near["env"])) as talking:
        assert talking.add_item(title="a")["decision"] == "admitted"
        assert talking.claim_next()["lease"]["item"]["run_agent"] == "coder"
    assert (tmp_path / ".interlock" / "interlock.db").exists()

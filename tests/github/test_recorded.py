"""Exchanges that were recorded at GitHub (`@octokit/fixtures`), replayed to the client."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from interlock.core.errors import GitHubRefused
from interlock.github.client import GitHub
from interlock.github.tokens import PlainToken
from tests.github import packages

REAL = "https://api.github.com"


@contextmanager
def replayed(name: str) -> Iterator[tuple[GitHub, list[dict[str, Any]]]]:
    """A client of a server that answers as recorded, in that order, and what is left of the recording."""
    packages.installed()
    left = json.loads((packages.SCENARIOS / name / "normalized-fixture.json").read_text())

    class Recorded(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else ""
            wanted = left.pop(0)
            asked = (self.command.lower(), self.path.replace("+", "%20"), body)
            assert asked == (wanted["method"], wanted["path"], wanted["body"])
            here = f"http://{self.headers['Host']}"
            content = b"" if wanted["response"] == "" else json.dumps(wanted["response"]).encode()
            self.send_response(wanted["status"])
            for header, value in wanted["headers"].items():
                if header not in ("content-length", "transfer-encoding", "connection", "content-encoding"):
                    self.send_header(header, str(value).replace(REAL, here))
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = _answer  # noqa: N815

        def log_message(self, *_args: object) -> None:
            """Tests have no use for a request log."""

    with HTTPServer(("127.0.0.1", 0), Recorded) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        with GitHub(PlainToken("0" * 40), api_url=url, patience_s=0) as client:
            yield client, left
        server.shutdown()
    assert not left


@pytest.mark.parametrize(
    "name",
    [
        "add-labels-to-issue",
        "branch-protection",
        "create-status",
        "errors",
        "git-refs",
        "labels",
        "search-issues",
    ],
)
def test_recorded_answers_are_read_as_they_are(name: str) -> None:
    with replayed(name) as (client, left):
        while left:
            wanted = left[0]
            method, path, body = wanted["method"].upper(), wanted["path"], wanted["body"] or None
            if wanted["status"] >= 400:
                with pytest.raises(GitHubRefused) as caught:
                    client.send(method, path, body)
                assert caught.value.status == wanted["status"]
                assert wanted["response"]["message"].rstrip(".") in caught.value.sentence
            else:
                answer = client.send(method, path, body)
                assert (answer.status, answer.body) == (wanted["status"], wanted["response"] or None)


def test_a_recorded_rename_is_followed() -> None:
    with replayed("rename-repository") as (client, left):
        path, new = "/repos/octokit-fixture-org/rename-repository", "rename-repository-newname"
        client.send("PATCH", path, {"name": new})
        found = client.get(path)
        assert (found.moved, found.body["name"]) == (True, new)
        changed = client.send("PATCH", path, {"name": new, "description": "test description"})
        assert (changed.moved, changed.body["description"]) == (True, "test description")
        assert not left


def test_recorded_pages_are_turned() -> None:
    with replayed("paginate-issues") as (client, _):
        path = "/repos/octokit-fixture-org/paginate-issues/issues"
        found = list(client.pages(path, limit=100, query={"per_page": 3}))
        assert len(found) == 13

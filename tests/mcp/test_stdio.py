"""`interlock mcp` as a process: on every store, inside of a run, with servers that die."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from mcp import StdioServerParameters

from interlock.core.model import NewItem
from interlock.mcp.tools import NAMES
from interlock.service.contract import Service
from interlock.service.local import LocalService
from interlock.store.postgres.database import Database
from interlock.store.postgres.store import PostgresStore
from tests.acceptance.command import PROGRAM, Command
from tests.git_fixtures import bare_repository, git, git_identity
from tests.http.requests import ask
from tests.http.serving import local_service
from tests.http.up import Up
from tests.mcp.client import Model, model
from tests.mcp.test_endpoint import bearer
from tests.patience import PATIENCE_S

__all__ = ["bare_repository", "git_identity"]

LANE = "issue:acme/app#42"


def command(directory: Path, *args: str, **environ: str) -> StdioServerParameters:
    """How a client starts it."""
    return StdioServerParameters(
        command=PROGRAM[0],
        args=[*PROGRAM[1:], "mcp", *args],
        cwd=directory,
        env=environ,
    )


def do_a_job(talking: Model, service: Service) -> None:
    added = talking.add_item(title="Fix", lane=LANE, message="in red")["item"]["id"]
    lease = talking.claim_next()["lease"]
    assert (lease["item"]["id"], lease["messages"][0]["text"]) == (added, "in red")
    service.msg(added, "in blue", author="ann")
    assert talking.renew(run=lease["run"])["unread_messages"] == 1
    assert talking.read_messages(run=lease["run"])["messages"][0]["text"] == "in blue"
    assert talking.who_has(lane=LANE)["holder"]["agent"] == "coder"
    ended = talking.complete(run=lease["run"], seen=2, result={"ok": True})
    assert (ended["item_status"], ended["follow_up"]) == ("completed", None)
    assert talking.refusal("renew", run=lease["run"])["code"] == "lease_lost"
    assert talking.get_item(item=added)["runs"][0]["result"] == {"ok": True}


def test_a_run_is_completed_and_the_next_item_claimed_in_one_call(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    with model(command(tmp_path, "--agent", "Coder", INTERLOCK_URL=url)) as talking:
        for title in ("first", "second"):
            talking.add_item(title=title, lane=LANE, message="in red")
        run = talking.claim_next()["lease"]["run"]
        ended = talking.complete(run=run, claim_next=True)
        assert ended["item_status"] == "completed"
        lease = ended["lease"]
        assert (lease["item"]["title"], lease["messages"][0]["text"]) == ("second", "in red")
        assert "complete" in ended["next"]
        last = talking.complete(run=lease["run"], claim_next=True)
        assert (last["item_status"], last["lease"]) == ("completed", None)
        assert "claim_next" in last["next"]
        assert talking.refusal("complete", run=run, claim_next=True)["code"] == "lease_lost"


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_job_on_a_file(tmp_path: Path, mode: str) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    with model(command(tmp_path, "--agent", "Coder", INTERLOCK_URL=url), mode) as talking:
        with closing(local_service(tmp_path / "store.db")) as service:
            do_a_job(talking, service)
        assert "Interlock decides" in (talking.client.instructions or "")


def test_a_job_on_postgresql(tmp_path: Path, pg_database18: str) -> None:
    with closing(LocalService(PostgresStore(Database(pg_database18)))) as service:
        parameters = command(tmp_path, INTERLOCK_URL=pg_database18, INTERLOCK_AGENT="coder")
        with model(parameters) as talking:
            do_a_job(talking, service)


def test_lanes_in_git_can_be_held_and_looked_at(tmp_path: Path, bare_repository: Path) -> None:
    """As far as that store goes; for the rest it names one that can."""
    url = f"git+file://{bare_repository}"
    with model(command(tmp_path, "--agent", "coder", INTERLOCK_URL=url)) as talking:
        assert talking.who_has(lane=LANE)["free"]
        added = talking.add_item(title="Fix", lane=LANE)["item"]["id"]
        lease = talking.claim_next(item=added, lease_s=900)["lease"]
        assert talking.who_has(lane=LANE)["holder"]["agent"] == "coder"
        talking.send_message(item=added, text="hello", run=lease["run"])
        (message,) = talking.read_messages(run=lease["run"])["messages"]
        assert (message["text"], message["sender"]) == ("hello", "agent")
        assert "The git store does not support" in talking.mistake("get_item", item=added)
        assert talking.complete(run=lease["run"], seen=message["n"])["status"] == "succeeded"
        talking.claim_next(item=talking.add_item(title="Again", lane=LANE)["item"]["id"])
        (ref,) = git(bare_repository, "for-each-ref", "--format=%(refname)", "refs/interlock/owner").split()
        git(bare_repository, "update-ref", ref, git(bare_repository, "rev-parse", "refs/heads/main"))
        assert talking.refusal("who_has", lane=LANE)["code"] == "held", "nobody can read who has it"


# -- inside of a run ------------------------------------------------------------------------------------

SCRIPT = """
import os, sys
from mcp import StdioServerParameters
from tests.mcp.client import model
ours = {k: v for k, v in os.environ.items() if k.startswith("INTERLOCK_")}
how = StdioServerParameters(command=sys.executable, args=["-m", "interlock", "mcp"], env=ours)
with model(how) as talking:
    item = talking.claim_next()["lease"]["item"]
    found = talking.add_item(title="found on the way", lane=item["lane"])
    talking.complete(result={"n": 1})
    print(talking.refusal("renew")["code"], found["position"])
"""


def test_the_agent_of_a_worker_needs_no_handle(tmp_path: Path) -> None:
    il = Command(tmp_path, url=f"sqlite:///{tmp_path / 'store.db'}")
    il.env = {"PYTHONPATH": str(Path(__file__).parents[2])}
    il.ok("add", "Fix", "--lane", LANE)
    worker = subprocess.run(
        [*PROGRAM, "work", "--agent", "coder", "--limit", "1", "--", sys.executable, "-c", SCRIPT],
        cwd=tmp_path,
        env=il.environment(None),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert "lease_lost 1" in worker.stdout + worker.stderr, worker
    shown = il.ok("show", 1)
    assert shown["item"]["status"] == "completed"
    assert [(run["status"], run["result"]) for run in shown["runs"]] == [("succeeded", {"n": 1})]
    added = il.ok("show", 2)["item"]
    assert (added["title"], added["lane"]) == ("found on the way", LANE)


# -- servers that die -----------------------------------------------------------------------------------


def test_runs_go_on_after_the_server_was_killed(tmp_path: Path) -> None:
    """Over HTTP itself, and through `interlock mcp`, which waits for the server."""
    up = Up(tmp_path)
    try:
        client = up.client()
        client.add([NewItem(title="a"), NewItem(title="b")])
        environ = {"INTERLOCK_URL": up.url, "INTERLOCK_TOKEN": up.token, "INTERLOCK_BUSY_TIMEOUT_S": "180"}
        with model(command(tmp_path, "--agent", "coder", **environ)) as far:
            with bearer(up.url, up.token) as near:
                first = near.claim_next(agent="coder")["lease"]
            second = far.claim_next()["lease"]
            up.kill()
            again = threading.Timer(0.5, up.start)
            again.start()
            assert far.renew(run=second["run"])["refusal"] is None
            again.join()
            assert far.complete(run=second["run"])["status"] == "succeeded"
        with bearer(up.url, up.token, "legacy") as near:
            assert near.complete(run=first["run"])["status"] == "succeeded"
        assert {client.show(n).item.status for n in (1, 2)} == {"completed"}
        metrics = ask(up.url, "GET", "/metrics", token=up.token).text.decode()
        assert [line for line in metrics.splitlines() if '"/mcp"' in line]
        log = (tmp_path / "log").read_text()
        assert [
            line for line in map(json.loads, log.splitlines()) if line.get("path") == "/mcp" and line["token"]
        ]
        for secret in (up.token, up.token.rpartition("_")[2], first["run"], second["run"]):
            assert secret not in log
    finally:
        for each in up.clients:
            each.close()
        up.end()


# -- the process ----------------------------------------------------------------------------------------

HELLO = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}


def test_what_is_no_message_does_not_stop_it(tmp_path: Path) -> None:
    """Its output is the protocol and nothing else; it ends when its input does."""
    asked: list[str] = [
        json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}),
        json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        "no json",
        "[]",
        '{"jsonrpc": "2.0", "id": 2, "method": "no/such"}',
        '{"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": 7}}',
        '{"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": {"name": "no_such_tool"}}',
        '{"jsonrpc": "2.0", "id": 5, "method": "tools/list"}',
    ]
    il = Command(tmp_path, url=f"sqlite:///{tmp_path / 'store.db'}")
    process = subprocess.Popen(
        [*PROGRAM, "mcp"],
        cwd=tmp_path,
        env=il.environment(None),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n".join(asked) + "\n")
    process.stdin.flush()
    answers: dict[int, Any] = {}
    while answers.keys() < {1, 2, 3, 4, 5}:
        answer = json.loads(process.stdout.readline())
        answers[answer.get("id")] = answer
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out, err) == (0, "", "")
    assert answers[1]["result"]["protocolVersion"] == "2024-11-05"
    assert answers[2]["error"]["code"] == -32601
    assert answers[3]["error"]["code"] == -32602
    assert answers[4]["result"]["isError"]
    assert len(answers[5]["result"]["tools"]) == len(NAMES)


def test_a_store_that_is_not_there_is_named_before_anything_is_served(tmp_path: Path) -> None:
    done = Command(tmp_path, url="sqlite:////no/such/place/x.db")("mcp")
    assert done.code == 2
    assert "does not exist" in done.err
    assert done.out == ""

"""The tools at /mcp of a server: who gets in, as whom, and that any server of a store may answer."""

from __future__ import annotations

import itertools
import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from mcp import MCPError
from mcp.client.streamable_http import streamable_http_client

from interlock.core.model import NewItem, Policy
from interlock.core.names import USUAL_FIELDS
from interlock.core.policies import Policies
from interlock.http.application import MountedApp
from interlock.http.bearers import WRONG_BURST
from interlock.http.handlers import Server
from interlock.http.server import HERE
from interlock.mcp.endpoint import BODY_MAX_BYTES, PATH, McpEndpoint
from interlock.mcp.tools import NAMES, READING, Defaults
from interlock.service.contract import ItemFilter
from interlock.service.local import LocalService
from interlock.store.postgres.database import Database
from interlock.store.postgres.store import PostgresStore
from tests.faults.stores import assert_kept
from tests.http.requests import ask
from tests.http.serving import Serving, local_service
from tests.mcp.client import MODES, Model, model
from tests.patience import PATIENCE_S

LANE = "issue:acme/app#42"


class Here(Serving):
    """A server with tools, in this process."""

    def __init__(self, service: LocalService) -> None:
        self.defects: list[Exception] = []

        def mounted(server: Server) -> list[MountedApp]:
            door = McpEndpoint(server, Defaults({}, USUAL_FIELDS), self.defects.append)
            return [MountedApp(PATH, door, door.running)]

        super().__init__(service, mounted=mounted, hosts=HERE)

    def stop(self) -> None:
        super().stop()
        assert not self.defects


@pytest.fixture(scope="module")
def one_door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Here]:
    service = local_service(tmp_path_factory.mktemp("first") / "interlock.db")
    server = Here(service)
    yield server
    server.stop()
    service.close()


@pytest.fixture
def door(one_door: Here, tmp_path: Path) -> Iterator[Here]:
    """The server, on an empty store of the test's own."""
    with closing(local_service(tmp_path / "interlock.db")) as service:
        one_door.serve(service)
        yield one_door
        one_door.leave()


@asynccontextmanager
async def over_http(url: str, token: str, **more: Any) -> Any:
    """The official transport with a token; `more` is for its client of HTTP."""
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=PATIENCE_S, **more) as client,
        streamable_http_client(f"{url}{PATH}", http_client=client) as streams,
    ):
        yield streams


@contextmanager
def bearer(url: str, token: str, mode: str = "auto") -> Iterator[Model]:
    """A model that comes with a token."""
    with model(over_http(url, token), mode) as talking:
        yield talking


# -- a whole job ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_a_whole_job_over_http_in_every_revision(door: Here, mode: str) -> None:
    service = door.server.service
    with bearer(door.url, door.token("agent:coder"), mode) as model:
        assert len(model.client_says("list_tools").tools) == len(NAMES)
        assert model.claim_next()["lease"] is None
        service.add([NewItem(title="Fix", lane=LANE)])
        lease = model.claim_next()["lease"]
        service.msg(1, "in blue", author="ann")
        (message,) = model.read_messages(run=lease["run"])["messages"]
        assert message["text"] == "in blue"
        assert model.ask(run=lease["run"], question="Which?")["status"] == "released"
        service.msg(1, "sky", author="ann")
        lease = model.claim_next()["lease"]
        assert model.complete(run=lease["run"])["item_status"] == "completed"
        assert model.refusal("complete", run=lease["run"])["code"] == "lease_lost"
        (content,) = model.client_says("read_resource", "interlock://items/1").contents
        assert json.loads(content.text)["item"]["status"] == "completed"


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "1999-01-01"])
def test_older_clients_get_the_revision_that_they_ask_for(door: Here, version: str) -> None:
    """One request after the other, to any server: no session is opened."""
    token = door.token("read")
    params: dict[str, Any] = {**INITIALIZE["params"], "protocolVersion": version}
    hello = ask(door.url, "POST", PATH, {**INITIALIZE, "params": params}, token=token, headers=ACCEPT)
    agreed = _event(hello.text)["result"]["protocolVersion"]
    assert agreed == (version if version > "2024" else "2025-11-25")
    assert "mcp-session-id" not in hello.headers
    call = {"name": "who_has", "arguments": {"lane": LANE}}
    body = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}
    headers = {**ACCEPT, "MCP-Protocol-Version": agreed}
    answer = _event(ask(door.url, "POST", PATH, body, token=token, headers=headers).text)
    assert json.loads(answer["result"]["content"][0]["text"])["free"]


def _event(text: bytes) -> Any:
    (data,) = (line.removeprefix(b"data: ") for line in text.splitlines() if line.startswith(b"data: {"))
    return json.loads(data)


def test_a_claim_waits_without_a_thread_and_is_woken(door: Here) -> None:
    service = door.server.service

    def later() -> None:
        deadline_s = time.monotonic() + PATIENCE_S
        while not door.server.claims.lines.waiting and time.monotonic() < deadline_s:
            time.sleep(0.01)
        service.add([NewItem(title="at last")])

    adding = threading.Thread(target=later)
    adding.start()
    with bearer(door.url, door.token("agent:coder")) as model:
        assert model.claim_next(wait_s=60)["lease"]["item"]["title"] == "at last"
    adding.join()


@pytest.mark.parametrize("version", ["2026-07-28", "2025-06-18"])
def test_what_is_claimed_for_a_caller_who_left_is_given_back(
    door: Here, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taken out: `_claim_to_the_end` or `Tools._take`; the item stays claimed for ten minutes."""
    service = door.server.service
    service.add([NewItem(title="x")])
    looking, left = threading.Event(), threading.Event()
    claim = service.store.claim

    def slowly(*args: Any, **more: Any) -> Any:
        looking.set()
        assert left.wait(PATIENCE_S)
        return claim(*args, **more)

    monkeypatch.setattr(service.store, "claim", slowly)
    parts = urlsplit(door.url)
    call = {"name": "claim_next", "arguments": {"wait_s": 30}, "_meta": META}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call})
    head = {**ACCEPT, "Host": "localhost", "Authorization": f"Bearer {door.token('agent:coder')}"}
    head |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
    head |= {"MCP-Protocol-Version": version, "Mcp-Method": "tools/call", "Mcp-Name": "claim_next"}
    lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
    with socket.create_connection((parts.hostname, parts.port)) as sock:
        sock.sendall(f"POST {PATH} HTTP/1.1\r\n{lines}\r\n{body}".encode())
        assert looking.wait(PATIENCE_S)
    time.sleep(0.2)  # the server hears that the connection is closed
    left.set()
    deadline_s = time.monotonic() + PATIENCE_S
    while not [e for e in service.events() if e.kind == "run.released"]:
        assert time.monotonic() < deadline_s, [e.kind for e in service.events()]
        time.sleep(0.01)
    assert service.show(1).item.status == "pending"


# -- who may do what ------------------------------------------------------------------------------------


def test_an_agents_token_acts_for_that_agent_and_its_own_runs_only(door: Here) -> None:
    service = door.server.service
    service.add([NewItem(title="a"), NewItem(title="b")])
    (other,) = service.next("other")
    with bearer(door.url, door.token("agent:coder")) as model:
        for tool, more in (
            ("claim_next", {"agent": "other"}),
            ("renew", {"run": other.run}),
            ("read_messages", {"run": other.run}),
            ("complete", {"run": other.run}),
            ("fail", {"run": other.run, "error": "e"}),
            ("release", {"run": other.run}),
            ("ask", {"run": other.run, "question": "Which?"}),
            ("send_message", {"run": other.run, "item": 1, "text": "x"}),
            ("add_item", {"run": other.run, "title": "x"}),
            ("edit_plan", {"plan": 1, "base_revision": 1, "operations": []}),
        ):
            refusal = model.refusal(tool, **more)
            assert refusal["code"] == "not_allowed", tool
        assert service.show(other.item.id).item.run_agent == "other"
        mine = model.claim_next(agent="Coder")["lease"]
        assert mine["item"]["run_agent"] == "coder"
        model.send_message(item=1, text="hello")
        message = service.show(1).messages[-1]
        assert (message.sender, message.agent, message.author) == ("agent", "coder", "coder")
        assert model.who_has(lane=LANE)["free"]


@pytest.mark.parametrize("policy", [Policy.SUPERSEDE, Policy.LATEST])
def test_a_default_policy_takes_no_work_from_another_agent(door: Here, policy: Policy) -> None:
    service = LocalService(door.server.service.store, policies=Policies(lanes={"issue:": policy}))
    door.serve(service)
    service.add([NewItem(title="x", lane=LANE, agent="other", policy=policy)])
    with bearer(door.url, door.token("agent:coder")) as model:
        for named in ({}, {"policy": policy.value}):
            refusal = model.refusal("add_item", title="y", lane=LANE, agent="other", **named)
            assert refusal["code"] == "not_allowed"
        queued = model.add_item(title="y", lane=LANE, agent="third", policy="coalesce")
    why = "coalesce: no item of third on this lane takes messages, so the new item waits"
    assert queued["policy_why"] == why
    assert service.show(1).item.status == "pending"


def test_a_token_for_reading_reads_and_no_more(door: Here) -> None:
    door.server.service.add([NewItem(title="a", lane=LANE)])
    with bearer(door.url, door.token("read")) as model:
        assert model.get_item(item=1)["item"]["title"] == "a"
        assert model.why(item=1)["status"] == "pending"
        run = {"run": "1.1.0c8b4f0f7c1d2e3a"}
        given: dict[str, dict[str, Any]] = {
            "claim_next": {"agent": "coder"},
            "renew": run,
            "read_messages": run,
            "complete": run,
            "fail": {**run, "error": "e"},
            "release": run,
            "report_cost": {**run, "usd": 1},
            "ask": {**run, "question": "Which?"},
            "close_question": run,
            "add_item": {"title": "x"},
            "send_message": {"item": 1, "text": "x"},
            "edit_plan": {"plan": 1, "base_revision": 1, "operations": []},
        }
        assert set(given) == set(NAMES) - READING
        for tool, arguments in given.items():
            assert model.refusal(tool, **arguments)["code"] == "not_allowed", tool
        assert model.refusal("claim_next")["code"] == "not_allowed", "before it is asked who claims"
    assert len(door.server.service.items(ItemFilter())) == 1


@pytest.mark.parametrize("version", ["2026-07-28", "2025-06-18"])
def test_a_request_that_is_traced_adds_items_to_its_trace(door: Here, version: str) -> None:
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    call = {"name": "add_item", "arguments": {"title": "a"}, "_meta": META}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    headers = {**ACCEPT, "MCP-Protocol-Version": version, "Mcp-Method": "tools/call", "Mcp-Name": "add_item"}
    headers["traceparent"] = parent
    assert ask(door.url, "POST", PATH, body, token=door.token(), headers=headers).status == 200
    assert door.server.service.show(1).item.payload == {"traceparent": parent}


def test_an_admins_model_is_no_person_and_signs_with_the_tokens_name(door: Here) -> None:
    with bearer(door.url, door.token("admin")) as model:
        assert "Pass your name as `agent`" in model.mistake("claim_next")
        model.add_item(title="a", message="hello")
    (message,) = door.server.service.show(1).messages
    assert (message.sender, message.author) == ("system", "test")


INITIALIZE: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
ACCEPT = {"Accept": "application/json, text/event-stream"}


def test_nobody_comes_in_without_a_token_of_this_store(door: Here, tmp_path: Path) -> None:
    with closing(local_service(tmp_path / "other.db")) as elsewhere:
        strange = elsewhere.create_token("x", scope="admin").token
    revoked = door.server.service.create_token("x", scope="admin")
    door.server.service.revoke_token(revoked.id)
    for token in (None, "", "wrong", strange, revoked.token):
        answer = ask(door.url, "POST", PATH, INITIALIZE, token=token, headers=ACCEPT)
        assert answer.status == 401, token
        assert answer.headers["www-authenticate"].startswith("Bearer")
        said = "Invalid token: mistyped, revoked or expired." if token else "The request has no token."
        assert (answer.json["code"], answer.json["detail"]) == ("no_token", said)
        assert "x-request-id" in answer.headers
    with pytest.raises((MCPError, ExceptionGroup)), bearer(door.url, "wrong"):
        pass


def test_wrong_tokens_are_slowed_down_here_too(door: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door.server.execution.bearers._wrong, "_per_s", 0.0)
    answers = [
        ask(door.url, "POST", PATH, INITIALIZE, token="il_000000000000_x", headers=ACCEPT).status
        for _ in range(int(WRONG_BURST) + 2)
    ]
    assert answers[0] == 401
    assert answers[-1] == 429


def test_a_token_for_another_resource_is_refused(door: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    """Taken out: `resource_server_url` of the backend; the token of another place lets its bearer in."""
    token = door.token("admin")
    assert ask(door.url, "POST", PATH, INITIALIZE, token=token, headers=ACCEPT).status == 200
    verify = McpEndpoint.verify_token

    async def elsewhere(self: McpEndpoint[Any], given: str) -> Any:
        access = await verify(self, given)
        assert access is not None
        return access.model_copy(update={"resource": "https://elsewhere.example.com/mcp"})

    monkeypatch.setattr(McpEndpoint, "verify_token", elsewhere)
    assert ask(door.url, "POST", PATH, INITIALIZE, token=token, headers=ACCEPT).status == 401


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example.com"}, 421),
        ({"Host": "localhost:8420"}, 200),
        ({"Origin": "https://evil.example.com"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://[::1"}, 403),
        ({"Origin": "http://localhost:3000", "Host": "localhost:8420"}, 200),
    ],
)
def test_it_answers_for_its_own_hosts_and_their_pages_only(
    door: Here, headers: dict[str, str], status: int
) -> None:
    token = door.token("admin")
    answer = ask(door.url, "POST", PATH, INITIALIZE, token=token, headers={**ACCEPT, **headers})
    assert answer.status == status, answer.text


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
def test_there_are_no_sessions_to_listen_to_or_to_end(door: Here, method: str) -> None:
    answer = ask(door.url, method, PATH, token=door.token("admin"), headers=ACCEPT)
    assert (answer.status, answer.headers["allow"]) == (405, "POST")


def test_what_is_too_large_or_no_json_is_refused(door: Here) -> None:
    token = door.token("admin")
    large = {**INITIALIZE, "params": {"x": "y" * BODY_MAX_BYTES}}
    assert ask(door.url, "POST", PATH, large, token=token, headers=ACCEPT).status == 413
    deep = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"x": %s}}' % (b"[" * 100_000)
    versions: list[dict[str, str]] = [{}, {"MCP-Protocol-Version": "2026-07-28"}]
    bodies = (b"{", b"[]", b"null", b'{"jsonrpc": "2.0"}', b"\xff\xfe", deep)
    for body, version in itertools.product(bodies, versions):
        answer = ask(door.url, "POST", PATH, body, token=token, headers={**ACCEPT, **version})
        assert answer.status in (200, 400), (body, answer)
        assert b"Traceback" not in answer.text


def test_a_key_that_is_there_twice_is_refused(door: Here) -> None:
    """Taken out: the look at the body in `_with_body`; the protocol takes the last of the two."""
    body = json.dumps(INITIALIZE)[:-1].encode() + b', "method": "tools/list"}'
    answer = ask(door.url, "POST", PATH, body, token=door.token(), headers=ACCEPT)
    assert (answer.status, answer.json["error"]["code"]) == (400, -32700)
    assert "'method' is duplicated" in answer.json["error"]["message"]


def test_a_slow_body_is_not_waited_for_here_either(door: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    """Taken out: the house's `body` in `_with_body`; the protocol waits for the rest, and counts nothing."""
    monkeypatch.setattr("interlock.http.bodies.BODY_S", 0.3)
    parts = urlsplit(door.url)
    head = f"POST {PATH} HTTP/1.1\r\nHost: {parts.netloc}\r\nAuthorization: Bearer {door.token()}\r\n"
    more = "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
    with socket.create_connection((parts.hostname, parts.port), timeout=PATIENCE_S) as sock:
        sock.sendall((head + more).encode())
        assert sock.recv(1_000).split()[1] == b"408"


# -- replicas -------------------------------------------------------------------------------------------


class RoundRobin(httpx2.AsyncBaseTransport):
    """Each request goes to the next server."""

    def __init__(self, urls: list[str]) -> None:
        self._turns = itertools.cycle([httpx2.URL(url) for url in urls])
        self._inner = httpx2.AsyncHTTPTransport()
        self.asked: list[int] = []

    async def handle_async_request(self, request: Any) -> Any:
        to = next(self._turns)
        request.url = request.url.copy_with(port=to.port)
        self.asked.append(to.port or 0)
        return await self._inner.handle_async_request(request)

    async def aclose(self) -> None:
        await self._inner.aclose()


@pytest.fixture
def replicas(pg_database18: str) -> Iterator[list[Here]]:
    services = [LocalService(PostgresStore(Database(pg_database18)), poll_s=0.05) for _ in range(2)]
    servers = [Here(service) for service in services]
    yield servers
    for server, service in zip(servers, services, strict=True):
        server.stop()
        service.close()


@pytest.mark.parametrize("mode", MODES)
def test_two_replicas_answer_in_turn_without_sessions(replicas: list[Here], mode: str) -> None:
    token = replicas[0].token("agent:coder")
    turns = RoundRobin([server.url for server in replicas])
    with model(over_http(replicas[0].url, token, transport=turns), mode) as talking:
        replicas[0].server.service.add([NewItem(title=f"{n}", lane=LANE) for n in range(3)])
        for _ in range(3):
            run = talking.claim_next()["lease"]["run"]
            assert talking.renew(run=run)["refusal"] is None
            assert talking.complete(run=run)["status"] == "succeeded"
        assert talking.claim_next()["lease"] is None
    assert len(set(turns.asked)) == 2


def test_models_at_two_replicas_share_lanes_one_at_a_time(replicas: list[Here], pg_database18: str) -> None:
    lanes, count = 3, 24
    added = replicas[0].server.service.add([NewItem(title="x", lane=f"l:{n % lanes}") for n in range(count)])
    token, done = replicas[0].token(), Counter[int]()

    def work(n: int) -> None:
        turns = RoundRobin([server.url for server in replicas])
        with model(over_http(replicas[0].url, token, transport=turns), MODES[n % 3]) as talking:
            while sum(done.values()) < count:
                if (lease := talking.claim_next(agent=f"agent{n}", wait_s=0.5)["lease"]) is not None:
                    assert talking.complete(run=lease["run"])["status"] == "succeeded"
                    done[lease["item"]["id"]] += 1

    with ThreadPoolExecutor(4) as threads:
        for each in [threads.submit(work, n) for n in range(4)]:
            each.result()
    ids = tuple(view.item.id for view in added if view.item is not None)
    assert done == Counter(ids)
    assert_kept(pg_database18, added=ids)

"""A server as a store: answers that are lost, servers that die, many that wait."""

from __future__ import annotations

import hmac
import os
import signal
import subprocess
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import interlock
from interlock.core.errors import LeaseLost, NotAllowed, NotFound, NoToken, StoreUnavailable
from interlock.core.model import NewItem
from interlock.core.plans.model import Graph, TaskSpec
from interlock.github.signature import sign
from interlock.http.application import THREADS
from interlock.orchestrator import Orchestrator
from interlock.remote.service import connect
from interlock.service.contract import ItemFilter, Report, Service
from interlock.settings import credentials
from tests.acceptance.command import PROGRAM, Command
from tests.acceptance.test_start_up import NEVER, imported
from tests.faults.stores import assert_kept
from tests.git_fixtures import clone, commit, log
from tests.http.asking import ask
from tests.http.proxies import LosingProxy
from tests.http.serving import Serving, local_service
from tests.patience import PATIENCE_S


class Up:
    """`interlock up` as a process, on a port that stays the same."""

    def __init__(self, directory: Path, *args: str, **environ: str) -> None:
        self._args = args
        self.directory, self.port, self.url = directory, "0", ""
        self.clients: list[Service] = []
        self._environ = {
            **os.environ,
            "XDG_CONFIG_HOME": str(directory / "config"),
            "INTERLOCK_URL": f"sqlite:///{directory / 'store.db'}",
            **environ,
        }
        self.start()

    def start(self) -> None:
        self.log = (self.directory / "log").open("ab")
        self.process = subprocess.Popen(
            [*PROGRAM, "up", "--port", self.port, *self._args],
            cwd=self.directory,
            env=self._environ,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert " at http" in line, (line, (self.directory / "log").read_text())
        self.url = line.rsplit(" ", 1)[1].strip()
        self.port = self.url.rpartition(":")[2]

    def kill(self) -> None:
        self.end(signal.SIGKILL)

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(how)
        code = self.process.wait(PATIENCE_S)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.log.close()
        return code

    @property
    def token(self) -> str:
        found = credentials.token_for(self.url, {"XDG_CONFIG_HOME": str(self.directory / "config")})
        assert found is not None
        return found

    def client(self, patience_s: float = PATIENCE_S) -> Service:
        self.clients.append(connect(self.url, self.token, patience_s=patience_s))
        return self.clients[-1]


@pytest.fixture
def up(tmp_path: Path) -> Any:
    server = Up(tmp_path)
    yield server
    for client in server.clients:
        client.close()
    if server.process.poll() is None:
        server.end()


# -- answers --------------------------------------------------------------------------------------------


def test_errors_are_those_of_the_service(serving: Serving) -> None:
    client = serving.client()
    with pytest.raises(NotFound, match="There is no item 7"):
        client.show(7)
    client.add([NewItem(title="x")])
    (lease,) = client.next("coder")
    client.done([Report(run=lease.run)])
    assert client.done([Report(run=lease.run)])[0].refusal is not None
    with pytest.raises(LeaseLost):
        client.inbox(lease.run)
    with pytest.raises(NotAllowed):
        serving.client("read").add([NewItem(title="x")])
    with pytest.raises(NoToken), closing(connect(serving.url, "wrong", patience_s=1)) as stranger:
        stranger.stats()


def test_a_server_that_is_not_there_is_waited_for_and_then_named() -> None:
    client = connect("http://127.0.0.1:1", "x", patience_s=0.2)
    with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1:1 cannot be reached"):
        client.stats()


def test_a_program_that_is_no_server_of_ours_is_named(serving: Serving) -> None:
    client = connect(f"{serving.url}/docs", "x", patience_s=0.2)
    with pytest.raises(NotFound, match="nothing at this address"):
        client.stats()
    client.close()


# -- answers that are lost ------------------------------------------------------------------------------


def test_every_third_answer_lost_doubles_nothing_and_loses_nothing(serving: Serving) -> None:
    """Taken out: `_note` in `LocalService.add`, `_finish` or `_claim`; items or runs are doubled."""
    token = serving.token()
    direct = serving.server.service
    with LosingProxy(serving.url) as proxy:

        def work(n: int) -> list[int]:
            client = connect(proxy.url, token, patience_s=PATIENCE_S)
            made: list[int] = []
            for k in range(8):
                (added,) = client.add([NewItem(title=f"{n}-{k}", agent=f"a{n}", lane=f"l:{n}-{k}")])
                assert added.decision == "admitted"
                assert added.item is not None
                made.append(added.item.id)
                client.msg(added.item.id, "hello")
                (lease,) = client.next(f"a{n}", wait_s=5)
                assert lease.item.title == f"{n}-{k}", "a claim was made twice"
                assert client.renew([Report(run=lease.run, seen=1)])[0].refusal is None
                (ended,) = client.done([Report(run=lease.run, seen=1)])
                assert ended.status == "succeeded", "the end that was lost was refused"
            client.create_plan(f"p{n}", Graph(tasks=(TaskSpec(key="a", agent=f"a{n}"),)))
            client.close()
            return made

        with ThreadPoolExecutor(4) as threads:
            made = [item for items in threads.map(work, range(4)) for item in items]
        assert proxy.lost > 20
    items = [i for i in direct.items(ItemFilter(all=True)) if i.plan is None]
    assert Counter(i.title for i in items) == Counter({f"{n}-{k}": 1 for n in range(4) for k in range(8)})
    assert {i.id for i in items} == set(made)
    assert {i.status for i in items} == {"completed"}
    assert {i.attempt for i in items} == {1}
    assert {i.messages for i in items} == {1}
    assert len(direct.plans()) == 4
    kinds = Counter(e.kind for e in direct.events(limit=10_000))
    assert kinds["run.started"] == kinds["run.succeeded"] == 32
    assert kinds["run.refused"] == 0


def test_a_server_that_is_killed_under_load_doubles_nothing_and_loses_nothing(up: Up) -> None:
    """Taken out: the answer is kept after the commit and not with it; now and then an item is added twice."""
    stop = threading.Event()
    acknowledged: list[int] = []

    def work(n: int) -> int:
        client, count = up.client(), 0
        while not stop.is_set():
            (added,) = client.add([NewItem(title=f"{n}-{count}", agent=f"a{n}")])
            assert added.item is not None
            acknowledged.append(added.item.id)
            (lease,) = client.next(f"a{n}", wait_s=30)
            assert lease.item.title == f"{n}-{count}"
            (ended,) = client.done([Report(run=lease.run)])
            assert ended.status == "succeeded"
            count += 1
        client.close()
        return count

    with ThreadPoolExecutor(3) as threads:
        workers = [threads.submit(work, n) for n in range(3)]
        for _ in range(3):
            before = len(acknowledged)
            _wait(lambda before=before: len(acknowledged) > before + 15 or any(w.done() for w in workers))
            up.kill()
            up.start()
        stop.set()
        counts = [worker.result() for worker in workers]
    service = local_service(up.directory / "store.db")
    items = service.items(ItemFilter(all=True, limit=10_000))
    assert Counter(i.title for i in items) == Counter(
        {f"{n}-{k}": 1 for n, count in enumerate(counts) for k in range(count)}
    )
    assert {i.attempt for i in items} == {1}
    service.close()
    assert_kept(f"sqlite:///{up.directory / 'store.db'}", added=tuple(acknowledged))


def test_a_stream_of_events_goes_on_through_restarts_and_gives_each_event_once(up: Up) -> None:
    client = up.client()
    found: list[int] = []
    begun, enough = threading.Event(), threading.Event()

    def listen() -> None:
        begun.set()
        for event in up.client().follow(after=0):
            found.append(event.seq)
            if event.kind == "mode.set":
                enough.set()
                return

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    begun.wait()
    for n in range(3):
        client.add([NewItem(title=f"{n}-{k}") for k in range(20)])
        up.kill() if n % 2 else up.end()
        up.start()
        client.add([NewItem(title=f"again-{n}")])
    client.set_mode(scope="lane", value="last", mode="enforce")
    assert enough.wait(PATIENCE_S)
    assert found == [e.seq for e in client.events(limit=10_000)]
    client.close()


def test_two_hundred_wait_on_one_server_and_each_gets_its_item(serving: Serving) -> None:
    """They take no thread of the server while they wait."""
    count = 200
    token = serving.token()
    service = serving.server.service

    def wait(n: int) -> int:
        client = connect(serving.url, token, patience_s=PATIENCE_S)
        try:
            leases = client.next(f"agent{n % 4}", wait_s=60)
            return leases[0].item.id if leases else 0
        finally:
            client.close()

    with ThreadPoolExecutor(count) as threads:
        waiting = [threads.submit(wait, n) for n in range(count)]
        _wait(lambda: serving.server.desk.waiting == count)
        assert serving.server._limiter.borrowed_tokens <= THREADS
        service.stats()
        for n in range(count):  # from another process, as far as the server can tell
            service.add([NewItem(title="x", agent=f"agent{n % 4}")])
        claimed = [future.result() for future in waiting]
    assert 0 not in claimed
    assert len(set(claimed)) == count


def test_who_went_away_while_waiting_gets_nothing(serving: Serving) -> None:
    import socket
    from urllib.parse import urlsplit

    parts, token = urlsplit(serving.url), serving.token()
    body = b'{"agent": "coder", "wait_s": 60}'
    head = f"POST /v1/claims HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
    head += "Content-Type: application/json\r\n"
    with socket.create_connection((parts.hostname, parts.port)) as sock:
        sock.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        _wait(lambda: serving.server.desk.waiting == 1)
    _wait(lambda: serving.server.desk.waiting == 0)
    service = serving.server.service
    service.add([NewItem(title="x")])
    assert service.items(ItemFilter())[0].status == "pending"


# -- the command --------------------------------------------------------------------------------------


@pytest.fixture
def far(up: Up, tmp_path: Path) -> Command:
    """The command on another machine: it knows the address and a token, and no database."""
    directory = tmp_path / "elsewhere"
    directory.mkdir()
    return Command(directory, url=up.url, env={"INTERLOCK_TOKEN": up.token})


def test_a_signal_ends_the_server_well_and_its_log_has_no_token(up: Up) -> None:
    client = up.client()
    client.add([NewItem(title="x")])
    made = client.create_token("laptop", scope="read")
    waiter = threading.Thread(target=lambda: client.next("nobody", wait_s=30), daemon=True)
    waiter.start()
    time.sleep(0.2)
    begun_s = time.monotonic()
    assert up.end() == 0
    assert time.monotonic() - begun_s < PATIENCE_S
    log = (up.directory / "log").read_text()
    assert '"path": "/v1/items"' in log
    for secret in (up.token, made.token, up.token.rpartition("_")[2]):
        assert str(secret) not in log


def test_beyond_this_machine_a_server_needs_a_token(tmp_path: Path) -> None:
    environ = {
        **os.environ,
        "XDG_CONFIG_HOME": str(tmp_path),
        "INTERLOCK_URL": f"sqlite:///{tmp_path / 'store.db'}",
    }
    done = subprocess.run(
        [*PROGRAM, "up", "--host", "0.0.0.0", "--port", "0"],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "there is no token yet" in done.stderr


def _wait(condition: Any) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline_s, "it does not come"
        time.sleep(0.01)


@pytest.mark.parametrize("command", ["show", "next", "renew", "done"])
def test_what_agents_call_often_imports_only_what_it_needs_through_a_server_too(
    serving: Serving, tmp_path: Path, command: str
) -> None:
    far = Command(tmp_path, url=serving.url, env={"INTERLOCK_TOKEN": serving.token()})
    far.ok("add", "a", "--lane", "l:1")
    args = {"show": ["1"], "ls": [], "add": ["b"], "next": ["--agent", "coder"]}.get(command)
    found = imported(far, "--json", command, *([far.claim()["run"]] if args is None else args))
    heavy = {*NEVER, "apsw", "http.server", "concurrent", "interlock.http"} - {"socket", "base64"}
    assert found.isdisjoint(heavy), sorted(found.intersection(heavy))


def test_a_worker_and_a_hold_need_no_database_address(far: Command, up: Up) -> None:
    far.ok("add", "one", "--lane", "l:1", "--agent", "coder")
    client = up.client()
    worker = far.start("work", "--agent", "coder", "--", "sh", "-c", "echo at work; test -n $INTERLOCK_RUN")
    try:
        _wait(lambda: client.show(1).item.status == "completed")
    finally:
        worker.send_signal(signal.SIGINT)
        worker.communicate(timeout=PATIENCE_S)
    held = far("hold", "l:2", "--", "echo", "held")
    assert (held.code, held.out.strip()) == (0, "held")
    assert [e.lane for e in client.events() if e.kind == "run.succeeded"] == ["l:1", "l:2"]


def test_commands_that_need_the_database_say_so(serving: Serving, tmp_path: Path) -> None:
    far = Command(tmp_path, url=serving.url, env={"INTERLOCK_TOKEN": serving.token()})
    for command in (["migrate"], ["prune", "--older-than", "90d"], ["github", "sweep"], ["up"]):
        error = far("--json", *command).error
        assert error["code"] == "invalid_input"
        assert "INTERLOCK_URL" in error["message"] + error["hint"]


def test_an_agents_token_is_enough_for_a_worker_and_not_for_another_agent(
    serving: Serving, tmp_path: Path
) -> None:
    service = serving.server.service
    service.add([NewItem(title="mine", agent="coder"), NewItem(title="another's", agent="other")])
    far = Command(tmp_path, url=serving.url, env={"INTERLOCK_TOKEN": serving.token("agent:coder")})
    worker = far.start("work", "--agent", "coder", "--", "true")
    try:
        _wait(lambda: service.show(1).item.status == "completed")
    finally:
        worker.send_signal(signal.SIGINT)
        worker.communicate(timeout=PATIENCE_S)
    assert far("--json", "next", "--agent", "other").error["code"] == "not_allowed"
    (lease,) = service.next("other")
    for command in ("renew", "done", "fail", "release", "inbox"):
        assert far("--json", command, lease.run).error["code"] == "not_allowed"
    assert service.show(2).item.status == "in_progress"


def test_a_push_is_fenced_through_a_server(serving: Serving, bare_repository: Path, tmp_path: Path) -> None:
    tree = clone(str(bare_repository), tmp_path / "tree")
    far = Command(tree, url=serving.url, env={"INTERLOCK_TOKEN": serving.token()})
    far.ok("add", "fix it", "--lane", "issue:acme/app#42")
    run = far.claim()["run"]
    commit(tree, {"new": "x"}, "in time")
    assert far("push", env={"INTERLOCK_RUN": run}).code == 0
    far.ok("release", run)
    commit(tree, {"late": "x"}, "too late")
    assert far("push", env={"INTERLOCK_RUN": run}).code == 5
    assert log(bare_repository) == ["in time", "first"]


def test_python_programs_and_orchestrators_use_a_server_as_a_store(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTERLOCK_TOKEN", serving.token())
    spec = {
        "name": "p",
        "tasks": [{"key": "a", "agent": "coder"}, {"key": "b", "agent": "coder"}],
        "edges": [{"from": "a", "to": "b"}],
    }
    with interlock.connect(serving.url) as il:
        il.add("one", agent="ada", message="hello")
        with il.next("ada", wait_s=5) as lease:
            assert lease is not None
            assert [m.text for m in lease.messages] == ["hello"]
        assert il.show(1).item.status == "completed"
        il.service.set_agent("coder")
        done: list[str] = []
        with Orchestrator(
            spec, executors={"coder": lambda task: done.append(task.key)}, interlock=il
        ) as all_of_it:
            assert all_of_it.run(timeout_s=PATIENCE_S).status == "completed"
    assert done == ["a", "b"]


# -- webhooks -------------------------------------------------------------------------------------------

SECRET = "It's a Secret to Everybody"


def test_deliveries_are_kept_once_if_their_signature_is_right_and_decided_on_next(tmp_path: Path) -> None:
    up = Up(tmp_path, INTERLOCK_WEBHOOK_SECRET=SECRET)
    body = b'{"zen": "Keep it logically awesome."}'
    right = sign(SECRET, body)

    def deliver(ident: str, sent: bytes = body, **headers: str) -> int:
        named = {f"X-{name.replace('_', '-')}": value for name, value in headers.items()}
        named |= {"X-GitHub-Event": "ping", "X-GitHub-Delivery": ident}
        return ask(up.url, "POST", "/webhooks/github", sent, headers=named).status

    assert deliver("missing") == 401
    assert deliver("sha1", Hub_Signature="sha1=" + hmac.new(SECRET.encode(), body, "sha1").hexdigest()) == 401
    assert deliver("wrong", Hub_Signature_256=sign("guessed", body)) == 401
    assert deliver("other", sent=body + b" ", Hub_Signature_256=right) == 401
    assert deliver("good", Hub_Signature_256=right) == 202
    assert deliver("good", Hub_Signature_256=right) == 202
    broken = b"{"
    assert deliver("broken", sent=broken, Hub_Signature_256=sign(SECRET, broken)) == 422
    service = local_service(tmp_path / "store.db")
    github = service.store.github
    _wait(lambda: not github.undecided(10))
    assert github.has_delivery("good")
    assert not any(map(github.has_delivery, ("missing", "sha1", "wrong", "other", "broken")))
    service.close()
    assert up.end() == 0


def test_without_a_secret_no_delivery_is_taken(up: Up) -> None:
    answer = ask(up.url, "POST", "/webhooks/github", {}, headers={"X-Hub-Signature-256": sign("", b"{}")})
    assert answer.status == 403


# -- TLS ------------------------------------------------------------------------------------------------


def _certificate(directory: Path) -> tuple[Path, Path]:
    """A certificate for this machine, signed by itself, and its key."""
    from datetime import UTC, datetime, timedelta
    from ipaddress import ip_address

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    here = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(here, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate, secret = directory / "chain.pem", directory / "key.pem"
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return certificate, secret


def test_a_server_with_a_certificate_is_believed_by_whoever_knows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate, key = _certificate(tmp_path)
    up = Up(tmp_path, "--certificate", str(certificate), "--key", str(key))
    assert up.url.startswith("https://")
    try:
        with pytest.raises(StoreUnavailable, match=r"self-signed|CERTIFICATE_VERIFY_FAILED"):
            up.client(patience_s=0.1).stats()
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert up.client().add([NewItem(title="x")])[0].decision == "admitted"
    finally:
        for client in up.clients:
            client.close()
        assert up.end() == 0


@pytest.mark.parametrize(
    "args", [["--certificate", "x.pem"], ["--certificate", "no.pem", "--key", "no.pem"], ["--port", "70000"]]
)
def test_a_server_that_cannot_start_says_why(tmp_path: Path, args: list[str]) -> None:
    error = Command(tmp_path, env={"XDG_CONFIG_HOME": str(tmp_path)})("--json", "up", *args).error
    assert error["code"] == "invalid_input"


def test_a_port_that_is_taken_is_named(serving: Serving, tmp_path: Path) -> None:
    port = serving.url.rpartition(":")[2]
    answer = Command(tmp_path, env={"XDG_CONFIG_HOME": str(tmp_path)})("up", "--port", port)
    assert answer.code == 2
    assert f"127.0.0.1:{port} cannot be listened on" in answer.err

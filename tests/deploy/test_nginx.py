"""A real server behind a real nginx, as `deploy/nginx.conf` sets it up: TLS, streams, waits, large bodies."""

from __future__ import annotations

import http.client
import os
import re
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from interlock.core.model import NewItem
from interlock.core.names import WAIT_MAX_S
from interlock.github.signature import sign
from interlock.remote.service import connect
from interlock.service.contract import Report
from tests.faults.processes import wait_until
from tests.http.test_remote import SECRET, _certificate
from tests.http.up import Up
from tests.mcp.client import model
from tests.mcp.test_endpoint import over_http
from tests.patience import PATIENCE_S

CONFIGURATION = Path(__file__).parents[2] / "deploy" / "nginx.conf"
#: How long a claim waits here; at most a minute, which `test_every_wait_is_longer...` holds.
LONG_S = 20.0
#: The host of the configuration. Clients here name the address, as of a server that is not the first.
HOST = "interlock.example.com,127.0.0.1"


def nginx() -> str:
    """Where nginx is; in CI it must be somewhere."""
    found = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if found is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("There is no nginx on this machine.")
    return found


def _replaced(text: str, old: str, new: str) -> str:
    changed, count = re.subn(old, new, text)
    assert count == 1, old
    return changed


@contextmanager
def fronted(directory: Path, port: str, certificate: Path, key: Path) -> Iterator[str]:
    """nginx before a server's port, by the configuration that we ship; its address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        own = free.getsockname()[1]
    ours = CONFIGURATION.read_text()
    ours = _replaced(ours, r"listen 443 ssl;", f"listen 127.0.0.1:{own} ssl;")
    ours = _replaced(ours, r"server 127\.0\.0\.1:8420;", f"server 127.0.0.1:{port};")
    ours = _replaced(ours, r"ssl_certificate [^;]+;", f"ssl_certificate {certificate};")
    ours = _replaced(ours, r"ssl_certificate_key [^;]+;", f"ssl_certificate_key {key};")
    (directory / "interlock.conf").write_text(ours)
    folders = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    paths = "\n".join(f"{name}_temp_path {directory / name};" for name in folders)
    user = "user root;" if os.geteuid() == 0 else ""
    (directory / "nginx.conf").write_text(
        f"daemon off; worker_processes 1; pid {directory / 'nginx.pid'}; {user}\n"
        f"events {{ worker_connections 512; }}\n"
        f"http {{ access_log off; {paths}\ninclude {directory / 'interlock.conf'}; }}\n"
    )
    log = directory / "nginx.log"
    with log.open("wb") as written:
        process = subprocess.Popen(
            [nginx(), "-e", "stderr", "-p", str(directory), "-c", str(directory / "nginx.conf")],
            stderr=written,
        )
    try:

        def listens() -> bool:
            assert process.poll() is None, log.read_text()
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", own)) == 0

        wait_until(listens, "nginx listens")
        yield f"https://127.0.0.1:{own}"
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


class Front:
    """What a client sees: one address, whatever happens to the server behind it."""

    def __init__(self, up: Up, url: str, certificate: Path) -> None:
        self.up, self.url = up, url
        self.context = ssl.create_default_context(cafile=str(certificate))

    def open(self, source: str = "127.0.0.1") -> http.client.HTTPSConnection:
        port = urlsplit(self.url).port
        return http.client.HTTPSConnection(
            "127.0.0.1", port, timeout=PATIENCE_S, context=self.context, source_address=(source, 0)
        )

    def ask(
        self, method: str, path: str, body: bytes | None = None, *, source: str = "127.0.0.1", **headers: str
    ) -> tuple[int, bytes]:
        sent = {"Authorization": f"Bearer {self.up.token}", "Content-Type": "application/json"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        with closing(self.open(source)) as connection:
            connection.request(method, path, body, sent)
            answer = connection.getresponse()
            return answer.status, answer.read()


@pytest.fixture
def front(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Front]:
    nginx()
    certificate, key = _certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    environ = {"INTERLOCK_TRUSTED_PROXIES": "127.0.0.1", "INTERLOCK_ALLOWED_HOSTS": HOST}
    up = Up(tmp_path, INTERLOCK_WEBHOOK_SECRET=SECRET, **environ)
    try:
        with fronted(tmp_path, up.port, certificate, key) as url:
            yield Front(up, url, certificate)
    finally:
        up.end()


def test_a_server_behind_nginx(front: Front) -> None:
    """One scenario, since the long wait would otherwise keep a processor idle."""
    with (
        ThreadPoolExecutor(3) as threads,
        closing(connect(front.url, front.up.token, patience_s=PATIENCE_S)) as client,
    ):
        waiting = threads.submit(_wait_in_vain, front)
        models = [threads.submit(_a_model_waits_in_vain, front, mode) for mode in ("auto", "legacy")]
        last = _events_come_at_once(front, client)
        _each_client_has_its_own_limit(front)
        _bodies_have_the_servers_limits(front)
        assert waiting.result() >= LONG_S
        for each in models:
            each.result()
        _a_restart_is_waited_for(front, client, last)


def _wait_in_vain(front: Front) -> float:
    begun_s = time.monotonic()
    body = f'{{"agent": "nobody", "types": ["none"], "wait_s": {LONG_S}}}'.encode()
    status, text = front.ask("POST", "/v1/claims", body)
    assert (status, text) == (200, b'{"leases": []}')
    return time.monotonic() - begun_s


def _a_model_waits_in_vain(front: Front, mode: str) -> None:
    """For longer than the 15 s after which its answer becomes a stream."""
    with model(over_http(front.url, front.up.token, verify=front.context), mode) as talking:
        answer = talking.claim_next(agent="nobody", types=["none"], wait_s=LONG_S - 2)
        assert answer["lease"] is None


def _events_come_at_once(front: Front, client: Any) -> int:
    """Taken out: `proxy_buffering off`, and the header by which the server asks for it; nothing comes."""
    with closing(front.open()) as connection:
        connection.request("GET", "/v1/events/stream", headers={"Authorization": f"Bearer {front.up.token}"})
        answer = connection.getresponse()
        assert answer.status == 200
        seen = []
        for n in range(3):
            client.add([NewItem(title=f"{n}", lane="l:1")])
            while (line := answer.readline()) and not line.startswith(b"id: "):
                pass
            seen.append(int(line.removeprefix(b"id: ")))
        assert seen == sorted(set(seen))
        return seen[-1]


def _each_client_has_its_own_limit(front: Front) -> None:
    """Taken out: INTERLOCK_TRUSTED_PROXIES; wrong tokens of one then keep out everybody behind the proxy."""
    for n in range(40):  # whatever it says about where it comes from
        wrong, spoofed = "Bearer il_wrong", f"10.0.0.{n}"
        said, _ = front.ask(
            "GET", "/v1/stats", source="127.0.0.2", Authorization=wrong, X_Forwarded_For=spoofed
        )
        if said == 429:
            break
    assert said == 429
    assert front.ask("GET", "/v1/stats", source="127.0.0.3", Host="interlock.example.com")[0] == 200
    assert front.ask("GET", "/v1/stats", source="127.0.0.3", Host="elsewhere.example.com")[0] == 421


def _bodies_have_the_servers_limits(front: Front) -> None:
    def delivered(size: int) -> int:
        body = b'{"x": "%s"}' % (b"x" * size)
        signature = sign(SECRET, body)
        given = {"X_Hub_Signature_256": signature, "X_GitHub_Event": "ping", "X_GitHub_Delivery": str(size)}
        return front.ask("POST", "/webhooks/github", body, **given)[0]

    assert delivered(24 << 20) == 202
    status, said = front.ask("POST", "/v1/items", b'{"items": [], "x": "%s"}' % (b"x" * (16 << 20)))
    assert (status, b"too_large" in said) == (413, True)  # in the server's own words
    assert delivered(27 << 20) == 413


def _a_restart_is_waited_for(front: Front, client: Any, last: int) -> None:
    (lease,) = client.next("coder")
    front.up.kill()
    assert front.ask("GET", "/healthz")[0] == 502
    with ThreadPoolExecutor(1) as threads:
        ended = threads.submit(client.done, [Report(run=lease.run)])
        front.up.start()
        assert ended.result()[0].status == "succeeded"
    with closing(front.open()) as connection:
        headers = {"Authorization": f"Bearer {front.up.token}", "Last-Event-ID": str(last)}
        connection.request("GET", "/v1/events/stream", headers=headers)
        answer = connection.getresponse()
        kinds: list[bytes] = []
        while b"run.succeeded" not in kinds:
            line = answer.readline().strip()
            if line.startswith(b"event: "):
                kinds.append(line.removeprefix(b"event: "))
    assert kinds.count(b"run.started") == 1


def test_every_wait_is_longer_than_the_servers() -> None:
    """nginx itself gives up after a minute, which is as long as a claim may wait."""
    text = CONFIGURATION.read_text()
    general = re.search(r"^    proxy_read_timeout (\d+)s;", text, re.MULTILINE)
    assert general is not None
    assert int(general[1]) >= WAIT_MAX_S + 60  # a server may wait as long for its database

"""A server as a store: answers that are lost, servers that die, many that wait."""

from __future__ import annotations

import hmac
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import interlock
from interlock.cli.up_command import _ready_answer
from interlock.core.errors import (
    InvalidInput,
    LeaseLost,
    NotAllowed,
    NotFound,
    NoToken,
    StoreRefused,
    StoreUnavailable,
)
from interlock.core.model import NewItem
from interlock.core.plans.model import Graph, TaskSpec
from interlock.core.store_outage import StoreOutage
from interlock.github.run_feedback import salvage_comments
from interlock.github.signature import sign
from interlock.http.bearers import Bearers
from interlock.http.execution import THREADS
from interlock.http.server import check_pair
from interlock.http.single_flight import SingleFlight
from interlock.orchestrator import Orchestrator
from interlock.remote.service import connect
from interlock.service.contract import ItemFilter, Report
from interlock.settings import credentials
from tests.acceptance.command import PROGRAM, Command, CommandHere
from tests.acceptance.test_start_up import NEVER, imported
from tests.docs.test_reference import commands
from tests.faults.stores import assert_kept
from tests.git_fixtures import clone, commit, log
from tests.http.proxies import LosingProxy
from tests.http.requests import ask, eventually
from tests.http.serving import Serving, local_service
from tests.http.up import Up
from tests.patience import PATIENCE_S

#: How many times longer than usual stories are.
STORM = int(os.environ.get("INTERLOCK_HTTP_STORM", "1"))


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


def test_a_server_that_is_away_is_called_as_it_is_when_it_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.core.store_outage.REPORTED_AFTER_S", 0.0)
    heard: list[str | None] = []
    client = connect("http://127.0.0.1:1", "x", patience_s=0.5, outage=StoreOutage(heard.append))
    with pytest.raises(StoreUnavailable):
        client.stats()
    assert set(heard) == {"Cannot reach the store"}, "then: the store answers again"


def test_a_program_that_is_no_server_of_ours_is_named(serving: Serving) -> None:
    client = connect(f"{serving.url}/docs", "x", patience_s=0.2)
    with pytest.raises(NotFound, match="No such endpoint"):
        client.stats()
    client.close()


# -- answers that are lost ------------------------------------------------------------------------------


def test_every_third_answer_lost_doubles_nothing_and_loses_nothing(serving: Serving) -> None:
    """Taken out: `note` in `Arrivals.add`, `_finish` or `_claim`; items or runs are doubled."""
    token = serving.token()
    direct = serving.server.service
    with LosingProxy(serving.url) as proxy:

        def work(n: int) -> list[int]:
            client = connect(proxy.url, token, patience_s=PATIENCE_S)
            made: list[int] = []
            for k in range(8 * STORM):
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
    items = [i for i in direct.items(ItemFilter(all=True, limit=10_000)) if i.plan is None]
    assert Counter(i.title for i in items) == Counter(
        {f"{n}-{k}": 1 for n in range(4) for k in range(8 * STORM)}
    )
    assert {i.id for i in items} == set(made)
    assert {i.status for i in items} == {"completed"}
    assert {i.attempt for i in items} == {1}
    assert {i.messages for i in items} == {1}
    assert len(direct.plans()) == 4
    kinds = Counter(e.kind for e in direct.events(limit=10_000))
    assert STORM > 20 or kinds["run.started"] == kinds["run.succeeded"] == 32 * STORM
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

        def enough(count: int) -> bool:
            return len(acknowledged) > count or any(worker.done() for worker in workers)

        for _ in range(3 * STORM):
            eventually(partial(enough, len(acknowledged) + 15))
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
    for n in range(3 * STORM):
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
        eventually(lambda: serving.server.claims.lines.waiting == count)
        assert serving.server.execution.limiter.borrowed_tokens <= THREADS
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
        eventually(lambda: serving.server.claims.lines.waiting == 1)
    eventually(lambda: serving.server.claims.lines.waiting == 0)
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
    for secret in (up.token, made.token, up.token.split("_", 2)[2]):
        assert str(secret) not in log


def test_beyond_this_machine_a_server_needs_a_token(tmp_path: Path) -> None:
    environ = {
        **os.environ,
        "XDG_CONFIG_HOME": str(tmp_path),
        "INTERLOCK_URL": f"sqlite:///{tmp_path / 'store.db'}",
    }
    done = subprocess.run(
        [*PROGRAM, "up", "--once", "--host", "0.0.0.0", "--port", "0"],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "This server has no token" in done.stderr


@pytest.mark.parametrize("command", ["show", "next", "renew", "done"])
def test_what_agents_call_often_imports_only_what_it_needs_through_a_server_too(
    serving: Serving, tmp_path: Path, command: str
) -> None:
    far = Command(tmp_path, url=serving.url, env={"INTERLOCK_TOKEN": serving.token()})
    far.ok("add", "a", "--lane", "l:1")
    args = {"show": ["1"], "ls": [], "add": ["b"], "next": ["--agent", "coder"]}.get(command)
    found = imported(far, "--json", command, *([far.claim()["run"]] if args is None else args))
    heavy = {*NEVER, "apsw", "http", "email", "ssl", "concurrent", "interlock.http"} - {"socket", "base64"}
    assert found.isdisjoint(heavy), sorted(found.intersection(heavy))


def test_a_worker_and_a_hold_need_no_database_address(far: Command, up: Up) -> None:
    far.ok("add", "one", "--lane", "l:1", "--agent", "coder")
    client = up.client()
    worker = far.start("work", "--agent", "coder", "--", "sh", "-c", "echo at work; test -n $INTERLOCK_RUN")
    try:
        eventually(lambda: client.show(1).item.status == "completed")
    finally:
        worker.send_signal(signal.SIGINT)
        worker.communicate(timeout=PATIENCE_S)
    held = far("hold", "l:2", "--", "echo", "held")
    assert (held.code, held.out.strip()) == (0, "held")
    assert [e.lane for e in client.events() if e.kind == "run.succeeded"] == ["l:1", "l:2"]


def test_commands_that_need_the_database_say_so(serving: Serving, tmp_path: Path) -> None:
    env = {"INTERLOCK_TOKEN": serving.token(), "INTERLOCK_NOTIFY_URLS": '["http://127.0.0.1:1/"]'}
    far = Command(tmp_path, url=serving.url, env=env)
    for command in (
        ["migrate"],
        ["prune", "--older-than", "90d"],
        ["github", "sweep"],
        ["notify", "send"],
        ["up"],
    ):
        error = far("--json", *command).error
        assert error["code"] == "invalid_input"
        assert "INTERLOCK_URL" in error["message"] + error["hint"]
    assert error["hint"] == "Type `unset INTERLOCK_URL`, or let it name a database."


def test_an_agents_token_is_enough_for_a_worker_and_not_for_another_agent(
    serving: Serving, tmp_path: Path
) -> None:
    service = serving.server.service
    service.add([NewItem(title="mine", agent="coder"), NewItem(title="another's", agent="other")])
    far = Command(tmp_path, url=serving.url, env={"INTERLOCK_TOKEN": serving.token("agent:coder")})
    worker = far.start("work", "--agent", "coder", "--", "true")
    try:
        eventually(lambda: service.show(1).item.status == "completed")
    finally:
        worker.send_signal(signal.SIGINT)
        worker.communicate(timeout=PATIENCE_S)
    assert far("--json", "next", "--agent", "other").error["code"] == "not_allowed"
    (lease,) = service.next("other")
    for command in ("renew", "done", "fail", "release", "inbox"):
        assert far("--json", command, lease.run).error["code"] == "not_allowed"
    assert service.show(2).item.status == "in_progress"


def test_a_hold_that_an_agents_token_does_not_allow_leaves_nothing_behind(
    serving: Serving, tmp_path: Path
) -> None:
    far = Command(tmp_path, url=serving.url, env={"INTERLOCK_TOKEN": serving.token("agent:coder")})
    error = far("--json", "hold", "deploy", "--", "echo", "held").error
    assert (error["code"], error["hint"]) == ("not_allowed", "Hold it for the agent coder.")
    assert serving.server.service.items(ItemFilter(all=True)) == []
    held = far("hold", "deploy", "--agent", "coder", "--", "echo", "held")
    assert (held.code, held.out.strip()) == (0, "held")


#: How each command is typed for a store with item 1 and nothing else; what is not here opens no store.
TYPED = (
    *("add x", "next --agent coder", "renew 7.1.0123456789abcdef", "done 7.1.0123456789abcdef"),
    *("fail 7.1.0123456789abcdef", "release 7.1.0123456789abcdef", "inbox 7.1.0123456789abcdef", "msg 1 x"),
    *(
        "ask 7.1.0123456789abcdef why?",
        "ls",
        "show 1",
        "why 1",
        "events",
        "stats",
        "spending",
        "recap",
        "metrics",
        "log 1",
    ),
    *("cancel 1 --reason x", "edit 1 --title y", "retry 1", "pause agent coder --reason x", "block lane l:1"),
    *(
        "unblock lane l:1",
        "resume agent coder",
        "agents",
        "pools",
        "workers",
        "lanes",
        "token",
        "sweep --once",
    ),
    *("migrate", "doctor", "copy --to sqlite:///x.db", "prune --older-than 90d", "up", "plan", "plan ls"),
    *(
        "plan create -",
        "plan show 1",
        "plan graph 1",
        "plan edit 1 - --base 1",
        "plan watch 1",
        "plan stats 1",
    ),
    *("plan batch 7.1.0123456789abcdef", "plan cancel 1 --why x", "plan pause 1 --why x", "plan resume 1"),
    *("plan set-deadline 1 5m", "plan history 1", "plan diff 1 1 2", "series", "series status"),
    *("series acquire 1", "series release 1", "series promote a", "series reconcile", "series rebuild a"),
    *("series metrics", "agents set coder", "agents remove coder", "agents pause coder --reason x"),
    *("agents resume coder", "pools set p --max 2", "pools remove p", "lanes mode enforce --lane l:1"),
    *("lanes mend l:1 --reason x", "github ingest - --event ping --delivery 1", "github status 7"),
    *("github sweep", "github send", "github doctor", "github reconcile", "github import", "github host 1"),
    "notify send",
    *("agents ls", "pools ls", "workers ls", "lanes ls"),
    *("token ls", "token create x --scope read", "token revoke x", "actions sweep", "push"),
    *("work --agent coder --exit-when-idle -- true", "hold l:2 -- true", "session status", "session clean"),
    *("session lock 7 -- true", "session unlock 7", "hook", "mcp", "top", "open"),
    *("cost 7.1.0123456789abcdef --usd 1", "budget", "budget ls", "budget set agent:coder --usd 1"),
    *("budget rm agent:coder", "budget reserve task --usd 1", "budget time-zone Europe/Berlin"),
    *("backup kept.db", "restore kept.db", "fleet up", "fleet status", "fleet logs", "fleet down"),
)
STORELESS = (
    *(
        "session",
        "session ls",
        "init",
        "trust",
        "actions",
        "actions init",
        "actions check",
        "policy",
        "policy check",
    ),
    *("policy test", "policy schema", "github", "demo", "completion", "help", "series init", "hook install"),
    *("hook uninstall", "notify", "notify test", "prove", "fleet"),
)


def test_no_command_meets_a_defect_through_a_server(serving: Serving, tmp_path: Path) -> None:
    """Each answers, or says in a sentence what it needs."""
    known = {name for name, _ in commands()}
    named = {max((n for n in known if f"{line} ".startswith(f"{n} ")), key=len) for line in TYPED}
    assert named == known - set(STORELESS)
    env = {"INTERLOCK_TOKEN": serving.token(), "INTERLOCK_BUSY_TIMEOUT_S": "1"}
    serving.server.service.add([NewItem(title="x", lane="l:1")])
    for line in TYPED:
        words = line.split()
        kind = (
            Command if words[0] in ("work", "hold", "session", "mcp", "push", "hook", "top") else CommandHere
        )
        answer = kind(tmp_path, url=serving.url, env=env)(*words, stdin="{}")
        assert "Unexpected error" not in answer.out + answer.err, answer
        assert answer.code != 70, answer
        if line in ("github status 7", "github sweep"):
            assert "INTERLOCK_URL names a server" in answer.err, answer


def test_what_is_wrong_with_a_token_is_said_in_words_of_the_command(serving: Serving, tmp_path: Path) -> None:
    mine, elsewhere = {"XDG_CONFIG_HOME": str(tmp_path)}, f"{serving.url}/v1"
    far = CommandHere(tmp_path, url=serving.url, env=mine)
    unset: list[dict[str, str]] = [{}, {"INTERLOCK_TOKEN": ""}]
    for env in unset:
        error = far("--json", "ls", env=env).error
        assert error["code"] == "no_token"
        assert "INTERLOCK_TOKEN" in error["hint"]
        assert "exactly this address" in error["hint"]
    token = serving.token()
    said = far("--json", "ls", env={"INTERLOCK_TOKEN": f"Bearer {token}"}).error
    assert said["hint"] == "Omit that word."
    assert "mistyped" in far("--json", "ls", env={"INTERLOCK_TOKEN": f"{token}x"}).error["message"]
    said = far("--json", "ls", env={"INTERLOCK_TOKEN": token, "INTERLOCK_URL": elsewhere}).error
    assert said["hint"] == "Omit `/v1`."
    credentials.keep_token(serving.url, token, mine)
    assert far("ls", env={"INTERLOCK_TOKEN": ""}).code == 0, "empty counts as not set"


def test_a_message_under_another_name_than_the_tokens_says_so(serving: Serving, tmp_path: Path) -> None:
    serving.server.service.add([NewItem(title="x")])
    for scope, said in (("agent:coder", "It is signed by coder, not bob"), ("admin", "")):
        far = CommandHere(tmp_path, url=serving.url, env={"INTERLOCK_TOKEN": serving.token(scope)})
        answer = far("msg", "1", "hello", "--author", "bob")
        assert answer.code == 0
        assert answer.err.startswith(said)
        assert bool(answer.err) == bool(said)


def test_an_expiry_out_of_range_is_named_as_it_was_typed(tmp_path: Path) -> None:
    error = CommandHere(tmp_path)(
        "--json", "token", "create", "short", "--scope", "read", "--expires", "5s"
    ).error
    assert error["message"] == "--expires 5s is out of range."
    assert error["hint"] == "Use 60s to 3660d."


def test_a_token_comes_with_the_lines_for_another_machine(serving: Serving, tmp_path: Path) -> None:
    public = {"INTERLOCK_PUBLIC_URL": "https://interlock.example.com/a path"}
    il = CommandHere(tmp_path, env=public)
    lines = il("token", "create", "a", "--scope", "read", "--export").out.splitlines()
    assert lines[0] == "export INTERLOCK_URL='https://interlock.example.com/a path'"
    assert re.fullmatch(r"export INTERLOCK_TOKEN=il_[\w-]+", lines[1])
    said = subprocess.run(
        ["/bin/sh", "-c", "\n".join([*lines, 'printf %s "$INTERLOCK_URL"'])], capture_output=True, check=True
    )
    assert said.stdout.decode() == public["INTERLOCK_PUBLIC_URL"]
    plain = il("token", "create", "b", "--scope", "read")
    assert re.fullmatch(r"il_[\w-]+\n", plain.out), "a script captures it"
    assert "INTERLOCK_TOKEN" not in plain.err, "a log may keep standard error"

    far = CommandHere(tmp_path, url=serving.url, env={"INTERLOCK_TOKEN": serving.token("admin")})
    for alone in (CommandHere(tmp_path), far):  # the server's url is of this machine alone
        error = alone("--json", "token", "create", "c", "--scope", "read", "--export").error
        assert "INTERLOCK_PUBLIC_URL" in error["hint"]
    wrong = {"INTERLOCK_PUBLIC_URL": "interlock.example.com"}
    error = CommandHere(tmp_path, env=wrong)("--json", "token", "create", "c", "--scope", "read").error
    assert "not the address of a server" in error["message"]
    assert [each["name"] for each in il.ok("token", "ls")["tokens"]] == ["a", "b"]


def test_a_worker_through_a_server_owes_no_comment_on_work_that_a_run_left(serving: Serving) -> None:
    """Only the server could, and the worker goes on without."""
    with closing(connect(serving.url, serving.token("admin"), patience_s=5.0)) as client:
        salvage_comments(client, pytest.fail)(1, 1, "refs/interlock/salvage/1")


def _read_until(process: subprocess.Popen[bytes], words: bytes) -> None:
    assert process.stdout is not None
    while words not in (said := process.stdout.readline()):
        assert said, f"it ended without {words!r}"


def test_a_worker_whose_token_is_revoked_lets_runs_finish_and_leaves_results(
    serving: Serving, tmp_path: Path
) -> None:
    service = serving.server.service
    service.add([NewItem(title="x", agent="coder")])
    token, go = serving.token("agent:coder"), tmp_path / "go"
    far = Command(tmp_path, url=serving.url, env={"INTERLOCK_TOKEN": token})
    worker = far.start(
        *("work", "--agent", "coder", "--max", "2", "--lease", "10m"),
        *("--", "sh", "-c", f"until test -e {go}; do sleep .1; done"),
    )
    try:
        _read_until(worker, b"started on item 1")
        service.revoke_token(token.split("_")[1])
        serving.server.execution.bearers = Bearers(service)  # it remembers tokens for five seconds
        _read_until(worker, b"current runs continue until their leases expire")
    finally:
        go.touch()
        out, err = (text.decode() for text in worker.communicate(timeout=PATIENCE_S))
    assert worker.returncode == 1
    assert "its result waits on disk: Invalid token: mistyped, revoked or expired." in out
    assert "not reported yet. On disk" in out
    assert "Trying again" not in out
    assert "Invalid token: mistyped, revoked or expired." in err
    again = Command(tmp_path, url=serving.url, env={"INTERLOCK_TOKEN": serving.token("agent:coder")})
    again("work", "--agent", "coder", "--exit-when-idle", "--", "true")
    eventually(lambda: service.show(1).item.status == "completed")


@pytest.mark.parametrize("scope", ["read", "agent:other"])
def test_a_worker_whose_token_may_not_claim_ends_at_once(
    serving: Serving, tmp_path: Path, scope: str
) -> None:
    far = Command(tmp_path, url=serving.url, env={"INTERLOCK_TOKEN": serving.token(scope)})
    answer = far("work", "--agent", "coder", "--", "true")
    assert answer.code == 1
    assert "token" in answer.err
    assert "Trying again" not in answer.out


def test_a_result_that_another_agents_worker_left_waits_for_such_a_worker(
    serving: Serving, tmp_path: Path
) -> None:
    """A worker whose token may not report it says so, and works on."""
    service = serving.server.service
    service.add([NewItem(title="x", agent="coder")])
    coder, go = serving.token("agent:coder"), tmp_path / "go"
    first = Command(tmp_path, url=serving.url, env={"INTERLOCK_TOKEN": coder})
    worker = first.start(
        *("work", "--agent", "coder", "--lease", "10m"),
        *("--", "sh", "-c", f"until test -e {go}; do sleep .1; done"),
    )
    try:
        _read_until(worker, b"started on item 1")
        service.revoke_token(coder.split("_")[1])
        serving.server.execution.bearers = Bearers(service)
    finally:
        go.touch()
        worker.communicate(timeout=PATIENCE_S)
    service.add([NewItem(title="y", agent="other")])
    token = {"INTERLOCK_TOKEN": serving.token("agent:other")}
    other = Command(tmp_path, url=serving.url, env=token).start("work", "--agent", "other", "--", "true")
    try:
        _read_until(other, b"Run 1 has ended, and its result waits on disk")
        eventually(lambda: service.show(2).item.status == "completed")
    finally:
        other.send_signal(signal.SIGINT)
        rest = other.communicate(timeout=PATIENCE_S)[0].decode()
    assert other.returncode == 0
    assert "Trying again" not in rest


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

    def deliver(ident: str, sent: bytes = body, event: str = "ping", **headers: str) -> int:
        named = {f"X-{name.replace('_', '-')}": value for name, value in headers.items()}
        named |= {"X-GitHub-Event": event, "X-GitHub-Delivery": ident}
        answer = ask(up.url, "POST", "/webhooks/github", sent, headers=named)
        assert "www-authenticate" not in answer.headers, "a token is of no use here"
        return answer.status

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
    eventually(lambda: not github.undecided(10))
    assert github.has_delivery("good")
    assert not any(map(github.has_delivery, ("missing", "sha1", "wrong", "other", "broken")))
    little = json.dumps({**ISSUE, "issue": {"number": 7}}).encode()
    assert deliver("little", sent=little, event="issues", Hub_Signature_256=sign(SECRET, little)) == 202
    eventually(lambda: '"event": "delivery_put_off"' in (tmp_path / "log").read_text())
    (left,) = github.undecided(10)
    assert "The payload lacks data about #7" in str(left.outcome)
    service.close()
    assert up.end() == 0


ISSUE = {
    "action": "opened",
    "issue": {
        "number": 42,
        "title": "Crash at start",
        "state": "open",
        "user": {"login": "alice"},
        "body": "x",
        "labels": [{"name": "bug"}],
        "assignees": [],
        "updated_at": "2026-11-16T10:00:00Z",
        "html_url": "https://git.example.com/acme/app/issues/42",
    },
    "repository": {"id": 7, "full_name": "acme/app"},
    "sender": {"login": "alice", "type": "User"},
}


def test_a_delivery_that_somebody_sends_again_makes_no_second_item(tmp_path: Path) -> None:
    """Its signature is right, and its id is not part of what is signed."""
    up = Up(tmp_path, INTERLOCK_WEBHOOK_SECRET=SECRET)
    client = up.client()

    def deliver(ident: str, told: dict[str, Any]) -> None:
        body = json.dumps(told).encode()
        named = {"X-GitHub-Event": "issues", "X-GitHub-Delivery": ident}
        named["X-Hub-Signature-256"] = sign(SECRET, body)
        answer = ask(up.url, "POST", "/webhooks/github", body, headers=named)
        assert answer.status == 202
        service = local_service(tmp_path / "store.db")
        eventually(lambda: not service.store.github.undecided(10))
        service.close()

    deliver("one", ISSUE)
    (lease,) = client.next("coder", wait_s=30)
    deliver("one", ISSUE)
    deliver("two", ISSUE)
    assert client.done([Report(run=lease.run)])[0].status == "succeeded"
    issue: Any = ISSUE["issue"]
    closed = {**issue, "state": "closed", "state_reason": "completed", "updated_at": "2026-11-16T11:00:00Z"}
    deliver("three", {**ISSUE, "action": "closed", "issue": closed})
    deliver("four", ISSUE)
    assert [item.id for item in client.items(ItemFilter(all=True))] == [lease.item.id]
    client.close()
    assert up.end() == 0


def test_without_a_secret_no_delivery_is_taken(up: Up) -> None:
    for headers in ({}, {"X-Hub-Signature-256": sign("", b"{}")}):
        answer = ask(up.url, "POST", "/webhooks/github", {}, headers=headers)
        assert answer.status == 403
        assert "INTERLOCK_WEBHOOK_SECRET" in answer.json["hint"]


# -- TLS ------------------------------------------------------------------------------------------------


def _certificate(directory: Path) -> tuple[Path, Path]:
    """A certificate for this machine, signed by itself, and its key."""
    from datetime import UTC, datetime, timedelta
    from ipaddress import ip_address

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "interlock")])
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
        with closing(connect(up.url.replace("127.0.0.1", "localhost"), "x", patience_s=0.1)) as client:
            with pytest.raises(StoreRefused, match="is not trusted here") as caught:
                client.stats()
            assert caught.value.hint == "Use a name that the certificate has."
    finally:
        for each in up.clients:
            each.close()
        assert up.end() == 0


def test_a_server_that_speaks_another_protocol_is_not_waited_for(
    serving: Serving, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate, key = _certificate(tmp_path)
    up = Up(tmp_path, "--certificate", str(certificate), "--key", str(key))
    try:
        for url, said in (
            (serving.url.replace("http:", "https:"), "speaks http, not https"),
            (up.url.replace("https:", "http:"), "speaks https, not http"),
            (up.url, "certificate of the server .* is not trusted here"),
        ):
            with closing(connect(url, "x", patience_s=10 * PATIENCE_S)) as client:
                with pytest.raises(StoreRefused, match=said) as caught:
                    client.stats()
                with pytest.raises(StoreRefused, match=said):
                    next(client.follow())
        assert caught.value.hint == "SSL_CERT_FILE names a file of certificates to trust."
        monkeypatch.setenv("SSL_CERT_FILE", "nope.pem")
        with (
            closing(connect(up.url, "x", patience_s=1)) as client,
            pytest.raises(StoreRefused, match="is not trusted here") as caught,
        ):
            client.stats()
        assert caught.value.hint.startswith("SSL_CERT_FILE names nope.pem, which is not there")
    finally:
        assert up.end() == 0


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--certificate", "here.pem"], "TLS needs a certificate and its key."),
        (["--key", "here.pem"], "TLS needs a certificate and its key."),
        (["--certificate", "here.pem", "--key", "no.pem"], "no.pem cannot be read."),
        (["--port", "70000"], "--port 70,000 is out of range."),
    ],
)
def test_a_server_that_cannot_start_says_why(tmp_path: Path, args: list[str], said: str) -> None:
    (tmp_path / "here.pem").touch()
    error = Command(tmp_path, env={"XDG_CONFIG_HOME": str(tmp_path)})("--json", "up", *args).error
    assert (error["code"], error["message"]) == ("invalid_input", said)


def test_a_server_on_this_machine_answers_for_its_own_hosts_only(up: Up) -> None:
    """Taken out: the hosts that `serve` gives to the guard; a page whose name leads here gets in."""
    for path in ("/", "/v1/stats", "/mcp"):
        answer = ask(up.url, "GET", path, token=up.token, headers={"Host": "evil.example.com"})
        assert (answer.status, answer.json["code"]) == (421, "wrong_host")
    assert ask(up.url, "GET", "/v1/stats", token=up.token, headers={"Host": "localhost"}).status == 200


def test_a_port_that_is_taken_is_named(serving: Serving, tmp_path: Path) -> None:
    port = serving.url.rpartition(":")[2]
    answer = Command(tmp_path, env={"XDG_CONFIG_HOME": str(tmp_path)})("up", "--port", port)
    assert answer.code == 2
    assert answer.err.startswith(f"Port {port} is already in use on 127.0.0.1.\n"), answer.err
    assert 'make up ARGS="--port 18000"' in answer.err


def test_a_second_server_of_a_store_names_the_first_and_unknown_items_have_no_page(up: Up) -> None:
    il = Command(
        up.directory,
        env={
            "XDG_CONFIG_HOME": str(up.directory / "config"),
            "INTERLOCK_URL": f"sqlite:///{up.directory / 'store.db'}",
        },
    )
    second = il("up", "--port", up.url.rpartition(":")[2])
    assert second.code == 2
    assert second.err == f"This store is already served at {up.url}.\n`interlock open` opens it.\n"
    unknown = il("open", "999", "--no-browser")
    assert (unknown.code, unknown.out) == (1, "")
    assert unknown.err.startswith("There is no item 999 in this store.")
    assert il("open", "abc", "--no-browser").err.startswith("'abc' is neither the number of an item nor")
    il.ok("add", "work")
    assert il.ok("open", "1", "--no-browser")["url"].endswith("&next=/items/1")


@pytest.mark.parametrize("host", ["999.1.1.1", "192.0.2.1"])
def test_a_host_that_is_elsewhere_is_named(tmp_path: Path, host: str) -> None:
    il = Command(tmp_path, env={"XDG_CONFIG_HOME": str(tmp_path)})
    il.ok("token", "create", "laptop", "--scope", "read")
    answer = il("up", "--host", host, "--port", "0")
    assert answer.code == 2
    assert answer.err.startswith(f"{host} is not an address of this machine.\n")


def test_files_that_are_no_pair_for_tls_are_named(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization

    certificate, key = map(str, _certificate(tmp_path))
    (tmp_path / "other").mkdir()
    _, other = map(str, _certificate(tmp_path / "other"))
    text = tmp_path / "text"
    text.write_text("hello\n")
    locked = tmp_path / "locked.pem"
    locked.write_bytes(
        serialization.load_pem_private_key(Path(key).read_bytes(), None).private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    check_pair(certificate, key)
    for pair, said in {
        (str(text), key): f"{text} is not a certificate.",
        (str(tmp_path), key): f"{tmp_path} is not a certificate.",
        (certificate, str(text)): f"{text} is not a private key",
        (certificate, str(locked)): f"{locked} is not a private key",
        (certificate, other): f"{other} is not the key of the first certificate in {certificate}.",
    }.items():
        with pytest.raises(InvalidInput, match="^" + re.escape(said)):
            check_pair(*pair)
    il = Command(tmp_path, env={"XDG_CONFIG_HOME": str(tmp_path)})
    answer = il("up", "--certificate", certificate, "--key", other)
    assert (answer.code, answer.err.startswith(f"{other} is not the key")) == (2, True)
    # Without a terminal OpenSSL asks for a passphrase on standard input.
    asked = subprocess.run(
        [*PROGRAM, "up", "--once", "--port", "0", "--certificate", certificate, "--key", str(locked)],
        cwd=tmp_path,
        env={**os.environ, "XDG_CONFIG_HOME": str(tmp_path)},
        input="secret\n" * 9,
        capture_output=True,
        text=True,
        start_new_session=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (asked.returncode, asked.stderr.startswith(f"{locked} is not a private key")) == (2, True), asked


def test_a_server_with_tls_finds_itself_well(tmp_path: Path) -> None:
    certificate, key = map(str, _certificate(tmp_path))
    il = Command(tmp_path, env={"XDG_CONFIG_HOME": str(tmp_path), "https_proxy": "http://127.0.0.1:9"})
    answer = il("up", "--once", "--port", "0", "--certificate", certificate, "--key", key)
    assert "All is well" in answer.out, answer
    assert answer.err == "", "nothing that only a log wants"


def test_a_server_that_does_not_become_ready_says_why(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interlock.cli.up_command.READY_S", 0)
    checks = {"store": {"ok": True, "detail": "a"}, "sweeper": {"ok": False, "detail": "It sleeps."}}
    unready = SingleFlight(lambda: {"ready": False, "checks": checks}, "ready")
    monkeypatch.setattr(serving.server, "_ready", unready)
    with pytest.raises(StoreUnavailable, match=r"^The server did not become ready\. It sleeps\."):
        _ready_answer(serving.url)
    with pytest.raises(StoreUnavailable, match=r"did not answer at http://127\.0\.0\.1:9 within"):
        _ready_answer("http://127.0.0.1:9")


def test_beyond_this_machine_a_server_says_that_tokens_are_not_encrypted(tmp_path: Path) -> None:
    il = Command(tmp_path, env={"XDG_CONFIG_HOME": str(tmp_path)})
    il.ok("token", "create", "laptop", "--scope", "read")
    answer = il("up", "--host", "0.0.0.0", "--port", "0", "--once")
    assert f" at http://{socket.gethostname()}:" in answer.out, answer
    assert answer.err.count("Tokens cross the network unencrypted") == 1
    certificate, key = map(str, _certificate(tmp_path))
    for more in (["--host", "127.0.0.1"], ["--host", "0.0.0.0", "--certificate", certificate, "--key", key]):
        assert "unencrypted" not in il("up", *more, "--port", "0", "--once").err

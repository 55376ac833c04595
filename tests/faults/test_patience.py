"""A server that restarts is waited for, one that is frozen is given up, and a refusal is passed on at once.

Every operation, from Python and from the command line.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import psutil  # type: ignore[import-untyped]
import psycopg
import pytest

import interlock
from interlock.core.errors import InvalidInput, LeaseLost, StoreUnavailable
from interlock.core.model import NewItem
from interlock.core.plans.model import AddTask, Graph, TaskSpec
from interlock.core.timing import Timing
from interlock.service.contract import ItemFilter, LeaseView, NoticeView, Report
from interlock.service.local import PARTS, LocalService
from interlock.service.operations import OPERATIONS
from interlock.store.access import RepeatableRequest
from interlock.store.postgres import database as postgres
from interlock.store.postgres.database import Database
from tests.acceptance.command import Command
from tests.faults.failpoints import MOMENTS, Proxy
from tests.faults.processes import wait_until
from tests.faults.stores import assert_kept, open_service, query
from tests.postgres_fixtures import StartPostgres
from tests.postgres_server import PostgresServer
from tests.wire import CountingWire

#: Nothing runs out by itself here.
CALM = Timing(back_off_first_s=0.05, back_off_max_s=0.2)
GATED, SERIES = "issue:acme/app#7", "series:acme/app/RFC-093"
GRAPH = Graph(tasks=(TaskSpec(key="a", title="a", agent="planner"),))


@pytest.fixture
def proxy(pg_database18: str, directory: Path) -> Iterator[Proxy]:
    proxy = Proxy(pg_database18, directory)
    yield proxy
    proxy.close()


class Desk:
    """A store to prepare, without trouble, what an operation then meets with it."""

    def __init__(self, service: LocalService) -> None:
        self.service = service
        self._numbers = iter(range(1, 100_000))
        for agent in ("planner", "ed"):
            service.set_agent(agent)

    def item(self, **fields: Any) -> int:
        added = self.service.add([NewItem(title="work", **fields)])[0].item
        assert added is not None
        return added.id

    def lease(self, **fields: Any) -> LeaseView:
        """Of an item that nobody else asks for."""
        return self.service.next("coder", item=self.item(**fields))[0]

    def outside(self) -> LeaseView:
        return self.service.next("coder", item=self.item(), external=True)[0]

    def failed(self) -> int:
        lease = self.lease(max_attempts=1)
        self.service.fail([Report(run=lease.run, error="broken")])
        return lease.item.id

    def notice(self) -> NoticeView:
        """Of a dead letter, leased."""
        self.service.next_notice("on_dead_letter")  # what came before it is nobody's notice
        self.failed()
        return cast("NoticeView", wait_until(lambda: self.service.next_notice("on_dead_letter"), "a notice"))

    def spare_agent(self) -> str:
        return self.service.set_agent(f"spare-{next(self._numbers)}").key

    def spare_pool(self) -> str:
        return self.service.set_pool(f"spare-{next(self._numbers)}", max_concurrency=1).name

    def lane(self) -> str:
        return f"issue:acme/app#{next(self._numbers)}"

    def plan(self, editor: str = "") -> int:
        return self.service.create_plan(name="plan", graph=GRAPH, editor=editor).id

    def edit(self) -> str:
        """The handle of a run that must answer the end of a task."""
        self.plan(editor="ed")
        done = self.service.next("planner")[0]
        self.service.done([Report(run=done.run)])
        return self.service.next("ed")[0].run

    def new_task(self) -> list[AddTask]:
        return [AddTask(task=TaskSpec(key=f"t{next(self._numbers)}", title="new", agent="planner"))]

    def session(self) -> str:
        return self.service.begin_session(self.service.create_token("laptop", scope="read").id)

    def link(self) -> str:
        """The secret of a one-time link to the dashboard."""
        token = self.service.create_token("laptop", scope="read").id
        return self.service.sign_in_link(caller=token).path.partition("=")[2]


#: Prepares a case, then gives what is done while the connection breaks.
Case = Callable[[Desk, LocalService], Callable[[], Any]]


def _ends(word: str) -> Case:
    def case(desk: Desk, service: LocalService) -> Callable[[], Any]:
        lease = desk.lease(lane=desk.lane())

        def act() -> None:
            view = getattr(service, word)([Report(run=lease.run)])[0]
            assert view.refusal is None

        return act

    return case


def _on_item(act: Callable[[LocalService, int], Any]) -> Case:
    return _on_run(lambda desk: desk.item(message="hello"), act)


def _on_plan(act: Callable[[LocalService, int], Any]) -> Case:
    return _on_run(lambda desk: desk.plan(), act)


def _plain(act: Callable[[LocalService], Any]) -> Case:
    return lambda _, service: lambda: act(service)


def _edit_plan(desk: Desk, service: LocalService) -> Callable[[], Any]:
    plan, operations = desk.plan(), desk.new_task()
    return lambda: service.edit_plan(plan, base=1, operations=operations)


def _add(desk: Desk, service: LocalService) -> Callable[[], Any]:
    new = NewItem(title="x", lane=desk.lane(), message="m", dedupe_key=desk.lane())
    return lambda: service.add([new])


def _next(desk: Desk, service: LocalService) -> Callable[[], Any]:
    desk.item()
    return lambda: service.next("coder")


def _on_run(make: Callable[[Desk], Any], act: Callable[[LocalService, Any], Any]) -> Case:
    def case(desk: Desk, service: LocalService) -> Callable[[], Any]:
        made = make(desk)
        return lambda: act(service, made)

    return case


def _logged(lease: LeaseView, service: Any) -> int:
    """A run with output."""
    service.append_log(lease.run, start=0, text="output")
    return lease.fence


def _remove_budget(_: Desk, service: LocalService) -> Callable[[], Any]:
    service.set_budget("pool", "gone", usd=5)
    return lambda: service.remove_budget("pool", "gone")


CASES: dict[str, Case] = {
    "add": _add,
    "next": _next,
    "renew": _ends("renew"),
    "done": _ends("done"),
    "fail": _ends("fail"),
    "release": _ends("release"),
    "inbox": _on_run(lambda desk: desk.lease(message="m").run, lambda service, run: service.inbox(run)),
    "msg": _on_item(lambda service, item: service.msg(item, "text")),
    "cancel": _on_item(lambda service, item: service.cancel(item, why="no")),
    "take_back": _on_run(
        lambda desk: desk.lease().item.id, lambda service, item: service.take_back(item, why="no")
    ),
    "retry": _on_run(lambda desk: desk.failed(), lambda service, item: service.retry(item)),
    "retry_dead": _on_run(lambda desk: desk.failed(), lambda service, _: service.retry_dead()),
    "cancel_lane": _plain(lambda service: service.cancel_lane(GATED, why="no")),
    "ask": _on_run(lambda desk: desk.lease().run, lambda service, run: service.ask(run, "which one?")),
    "close_question": _on_run(
        lambda desk: desk.lease().run, lambda service, run: service.close_question(run)
    ),
    "edit": _on_item(lambda service, item: service.edit(item, {"priority": 3})),
    "sender_of": _on_run(lambda desk: desk.lease().run, lambda service, run: service.sender_of(run)),
    "stopped": _plain(lambda service: service.stopped()),
    "external": _plain(lambda service: service.external()),
    "owed_to_github": _plain(lambda service: service.owed_to_github()),
    "effects": _plain(lambda service: service.effects()),
    "retry_effects": _plain(lambda service: service.retry_effects()),
    "drop_effects": _plain(lambda service: service.drop_effects(["7:42:1"], why="no")),
    "end_external": _on_run(
        lambda desk: desk.outside(),
        lambda service, lease: service.end_external(lease.item.id, lease.fence, "done", why="merged"),
    ),
    "block": _on_item(lambda service, item: service.block(item=item, blocker="x", why="x")),
    "unblock": _plain(lambda service: service.unblock(lane="issue:acme/app#9")),
    "blocks": _plain(lambda service: service.blocks()),
    "set_gate": _plain(lambda service: service.set_gate(GATED, series=SERIES, open=False, why="turns")),
    "remove_gate": _plain(lambda service: service.remove_gate(GATED, why="left")),
    "gates": _plain(lambda service: service.gates()),
    "on_lane": _plain(lambda service: service.on_lane(GATED)),
    "lineage": _plain(lambda service: service.lineage()),
    "act_as": _on_run(
        lambda desk: desk.lease(lane=desk.lane()).run,
        lambda service, run: service.act_as(run, "alice"),
    ),
    "cost": _on_run(
        lambda desk: desk.lease(lane=desk.lane()).run,
        lambda service, run: service.cost(run, usd=0.5),
    ),
    "append_log": _on_run(
        lambda desk: desk.lease(lane=desk.lane()).run,
        lambda service, run: service.append_log(run, start=0, text="output"),
    ),
    "run_log": _on_run(
        lambda desk: _logged(desk.lease(lane=desk.lane()), desk.service),
        lambda service, run: service.run_log(run),
    ),
    "last_lines": _plain(lambda service: service.last_lines(runs=[1])),
    "budgets": _plain(lambda service: service.budgets()),
    "set_budget": _plain(lambda service: service.set_budget("pool", "nobody", usd=5)),
    "remove_budget": _remove_budget,
    "set_reserve": _plain(lambda service: service.set_reserve("rare", usd=1)),
    "set_time_zone": _plain(lambda service: service.set_time_zone("Europe/Berlin")),
    "spending": _plain(lambda service: service.spending()),
    "pass_fence": _on_run(
        lambda desk: desk.lease(lane=desk.lane()).run,
        lambda service, run: service.pass_fence(run, fence=10**6, armed_us=0),
    ),
    "create_token": _plain(lambda service: service.create_token("laptop", scope="read")),
    "tokens": _plain(lambda service: service.tokens()),
    "revoke_token": _on_run(
        lambda desk: desk.service.create_token("laptop", scope="read").id,
        lambda service, token: service.revoke_token(token),
    ),
    "bearer": _on_run(
        lambda desk: desk.service.create_token("laptop", scope="read").token,
        lambda service, token: service.bearer(token),
    ),
    "sign_in_link": _on_run(
        lambda desk: desk.service.create_token("laptop", scope="read").id,
        lambda service, token: service.sign_in_link(caller=token),
    ),
    "begin_session": _on_run(
        lambda desk: desk.service.create_token("laptop", scope="read").id,
        lambda service, token: service.begin_session(token),
    ),
    "use_link": _on_run(lambda desk: desk.link(), lambda service, link: service.use_link(link)),
    "session_bearer": _on_run(
        lambda desk: desk.session(), lambda service, session: service.session_bearer(session)
    ),
    "end_session": _on_run(
        lambda desk: desk.session(), lambda service, session: service.end_session(session)
    ),
    "forget_sessions": _plain(lambda service: service.forget_sessions()),
    "has_tokens": _plain(lambda service: service.has_tokens()),
    "answered": _plain(lambda service: service.answered(RepeatableRequest("key", "asked"))),
    "forget_requests": _plain(lambda service: service.forget_requests()),
    "claimed": _plain(lambda service: service.claimed([(1, 1, 1)])),
    "predict": _on_item(lambda service, item: service.predict(item)),
    "pools": _plain(lambda service: service.pools()),
    "set_pool": _plain(lambda service: service.set_pool("gpu", max_concurrency=2)),
    "remove_agent": _on_run(
        lambda desk: desk.spare_agent(), lambda service, agent: service.remove_agent(agent)
    ),
    "remove_pool": _on_run(lambda desk: desk.spare_pool(), lambda service, pool: service.remove_pool(pool)),
    "near_agent": _plain(lambda service: service.near_agent("codr")),
    "unknown_agents": _plain(lambda service: service.unknown_agents()),
    "next_notice": _plain(lambda service: service.next_notice("on_question")),
    "end_notice": _on_run(lambda desk: desk.notice(), lambda service, notice: service.end_notice(notice)),
    "see_worker": _plain(
        lambda service: service.see_worker("w", host="h", pid=1, folder="/", agent="coder", slots=1, runs=0)
    ),
    "leave_worker": _plain(lambda service: service.leave_worker("w")),
    "workers": _plain(lambda service: service.workers()),
    "lanes": _plain(lambda service: service.lanes()),
    "recent_runs": _plain(lambda service: service.recent_runs()),
    "items": _plain(lambda service: service.items(ItemFilter())),
    "show": _on_item(lambda service, item: service.show(item)),
    "why": _on_item(lambda service, item: service.why(item)),
    "hindered": _on_item(lambda service, item: service.hindered(item)),
    "unwanted": _on_run(lambda desk: desk.lease().run, lambda service, run: service.unwanted(run)),
    "item_of": _on_run(lambda desk: desk.lease().run, lambda service, run: service.item_of(run)),
    "run_agents": _on_run(lambda desk: desk.lease().run, lambda service, run: service.run_agents([run])),
    "live_tokens": _plain(lambda service: service.live_tokens(["0" * 12])),
    "events": _plain(lambda service: service.events(limit=10)),
    "events_of_item": _on_item(lambda service, item: service.events(item=item)),
    "follow": _on_item(lambda service, _: next(iter(service.follow(after=0)))),
    "stats": _plain(lambda service: service.stats()),
    "trend": _plain(lambda service: service.trend()),
    "attention": _plain(lambda service: service.attention()),
    "upcoming": _plain(lambda service: service.upcoming()),
    "recap": _plain(lambda service: service.recap()),
    "demo": _plain(lambda service: service.demo()),
    "metrics": _plain(lambda service: service.metrics()),
    "count_history": _on_item(lambda service, _: service.count_history()),
    "agents": _plain(lambda service: service.agents()),
    "set_agent": _plain(lambda service: service.set_agent("coder", types=["task"])),
    "pause_agent": _plain(lambda service: service.pause_agent("idle", paused=True, why="lunch", create=True)),
    "pause_project": _plain(
        lambda service: service.pause_project("other", paused=True, why="freeze", create=True)
    ),
    "paused_projects": _plain(lambda service: service.paused_projects()),
    "modes": _plain(lambda service: service.modes()),
    "set_mode": _plain(lambda service: service.set_mode(scope="project", value="other", mode="observe")),
    "sweep": _plain(lambda service: service.sweep()),
    "doctor": _plain(lambda service: service.doctor()),
    "create_plan": _plain(lambda service: service.create_plan(name="p", graph=GRAPH)),
    "plan": _on_plan(lambda service, plan: service.plan(plan)),
    "plans": _plain(lambda service: service.plans()),
    "plan_history": _on_plan(lambda service, plan: service.plan_history(plan)),
    "plan_at": _on_plan(lambda service, plan: service.plan_at(plan, 1)),
    "plan_tasks": _on_plan(lambda service, plan: service.plan_tasks(plan)),
    "plan_stats": _on_plan(lambda service, plan: service.plan_stats(plan)),
    "edit_plan": _edit_plan,
    "plan_batch": _on_run(lambda desk: desk.edit(), lambda service, run: service.plan_batch(run)),
    "pause_plan": _on_plan(lambda service, plan: service.pause_plan(plan, why="wait")),
    "resume_plan": _on_plan(lambda service, plan: service.resume_plan(plan)),
    "set_edit_deadline": _on_plan(lambda service, plan: service.set_edit_deadline(plan, 60)),
    "cancel_plan": _on_plan(lambda service, plan: service.cancel_plan(plan, why="no")),
}


#: Series: their stories break at every request to GitHub and every write.
ON_SERIES = {operation.name for operation in OPERATIONS if operation.tag == "series"}
#: The demo fleet is processes of a server, see `tests/dashboard/test_demo.py`. `recap` calls `needs`.
NOT_A_CALL = {"policy_of", "close", "start_demo", "stop_demo", "leave_demo", "needs", "why_each"}


def test_the_cases_are_all_that_a_service_can_do() -> None:
    public = {name for part in PARTS for name in vars(part) if callable(vars(part)[name]) and name[0] != "_"}
    assert public - set(CASES) == (ON_SERIES | NOT_A_CALL) & public


@pytest.mark.parametrize("case", CASES)
def test_a_connection_may_break_at_any_message_of_any_use_case(
    proxy: Proxy, pg_database18: str, case: str
) -> None:
    """The call comes through, wherever it was cut, before or after the server had heard the message.

    Taken out: `persistently` in `Database.rows`; every case that reads fails.
    """
    calm, service = (open_service(url, timing=CALM) for url in (pg_database18, proxy.url))
    desk = Desk(calm)
    service.doctor()  # there is a connection to break
    for n in (*range(1, 9), *range(9, 100, 10)):
        act = CASES[case](desk, service)
        proxy.lose_nth(n, MOMENTS[n % 2])
        act()
        if not proxy.sprung.is_set():
            break
    assert n > 1, "nothing was cut"
    service.close()
    calm.close()
    if case != "next":  # a claim whose answer was lost waits for its lease to run out, which is lawful
        assert_kept(pg_database18)


COMMANDS = (
    *(
        "add x --lane issue:acme/app#900",
        "next --agent anyone",
        "ls",
        "ls --all",
        "show {item}",
        "why {item}",
    ),
    *(
        "events",
        "stats",
        "lanes",
        "agents",
        "agents set coder --max 5",
        "agents pause idle --reason lunch --create",
    ),
    *(
        "cancel {second} --reason no",
        "retry {failed}",
        "msg {item} hello",
        "pause project other --reason freeze --create",
    ),
    *("renew {run}", "inbox {read}", "done {done}", "fail {fail}", "release {release}"),
    *("sweep --once", "doctor", "migrate", "plan show {plan}"),
    *("plan pause {plan} --reason wait", "hold issue:acme/app#901 -- true"),
)


def test_every_command_that_meets_a_restart_waits_for_its_end(
    start_postgres: StartPostgres, directory: Path, tmp_path: Path
) -> None:
    """All are started while the server is down, and it comes up once each of them has met that.

    Taken out: patience at the opening; all but those that come late fail with exit code 1.
    """
    server = start_postgres(18)
    url = server.create_database("restarting")
    service = open_service(url, timing=CALM)
    desk = Desk(service)
    facts = {
        "item": desk.item(),
        "second": desk.item(),
        "failed": desk.failed(),
        "plan": desk.plan(),
        **{name: desk.lease(lease_s=3600).run for name in ("run", "read", "done", "fail", "release")},
    }
    service.close()
    proxy = Proxy(url, directory)
    il = Command(tmp_path, proxy.url, {"INTERLOCK_BUSY_TIMEOUT_S": "600"})  # whatever else the machine does
    server.stop("immediate")
    processes = {text: il.start("--json", *text.format(**facts).split()) for text in COMMANDS}
    wait_until(
        lambda: all(p.pid in proxy.callers or p.poll() is not None for p in processes.values()),
        "everybody has met the outage",
    )
    server.start()
    answers = {text: (process.communicate(), process.returncode) for text, process in processes.items()}
    failed = {text: out for text, (out, code) in answers.items() if code != 0}
    broken = {name for name in failed if name not in ("doctor",)}  # its server is quick, not durable
    assert not broken, failed
    proxy.close()


# -- servers that are there and say nothing ------------------------------------------------------


@contextmanager
def stopped(server: PostgresServer) -> Iterator[None]:
    """SIGSTOP to the server and all of its processes."""
    postmaster = int((server.datadir / "postmaster.pid").read_text().split()[0])
    processes = [postmaster, *(p.pid for p in psutil.Process(postmaster).children())]
    for pid in processes:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


@contextmanager
def muted(proxy: Proxy) -> Iterator[None]:
    proxy.mute()
    try:
        yield
    finally:
        proxy.unmute()


@pytest.mark.parametrize("how", ["stopped", "muted"])
def test_a_server_that_says_nothing_ends_every_call_with_an_error(
    start_postgres: StartPostgres, directory: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Taken out: `Connection.wait`; the calls hang for as long as the server does."""
    monkeypatch.setattr(postgres, "SILENCE_MIN_S", 1.0)
    server = start_postgres(18)
    url = server.create_database("frozen")
    proxy = Proxy(url, directory)
    service = open_service(proxy.url, timing=CALM, retry_s=0.5)
    desk = Desk(service)
    lease, item = desk.lease(), desk.item()
    calls: list[Callable[[], object]] = [
        lambda: service.renew([Report(run=lease.run)]),
        lambda: service.add([NewItem(title="late")]),
        lambda: service.next("coder"),
        lambda: service.show(item),
        lambda: service.cancel(item, why="no"),
        service.sweep,
        service.doctor,
        lambda: open_service(proxy.url, retry_s=0.5),
    ]
    with ThreadPoolExecutor(len(calls)) as pool:
        list(pool.map(lambda _: service.stats(), calls))  # everybody has a connection
        with stopped(server) if how == "stopped" else muted(proxy):
            errors = [future.exception() for future in [pool.submit(call) for call in calls]]
    assert [type(error) for error in errors] == [StoreUnavailable] * len(calls), errors
    words = [str(error) for error in errors]
    assert sum("no answer for 1 s" in text for text in words) >= 5, words
    wait_until(lambda: _answers(service), "the server is back, and so is the service")
    assert service.done([Report(run=lease.run)])[0].refusal is None
    service.close()
    proxy.close()


def _answers(service: LocalService) -> bool:
    with contextlib.suppress(StoreUnavailable):
        service.stats()
        return True
    return False


def test_a_lease_is_lost_by_its_own_deadline_when_no_renewal_comes_through(
    proxy: Proxy, pg_database18: str
) -> None:
    """By the time another gets the item, the program knows. Taken out: `overdue` in `Lease.lost`."""
    other = open_service(pg_database18)
    with interlock.connect(proxy.url) as il:
        il.add("work", lease_s=2)
        lease = il.next("coder").lease
        assert lease is not None
        assert not lease.lost
        lease.renew()
        proxy.mute()
        taken = wait_until(lambda: other.next("other"), "the item is offered again")
        assert lease.lost
        assert taken[0].item.id == lease.item.id
        proxy.unmute()
        with pytest.raises(LeaseLost):
            lease.done()
    other.close()


def test_a_lease_whose_renewals_come_through_again_is_not_lost(proxy: Proxy) -> None:
    """Nobody took the item meanwhile, and the store says so."""
    with interlock.connect(proxy.url) as il:
        il.add("work", lease_s=1)
        with il.next("coder", renew=False) as lease:
            assert lease is not None
            wait_until(lambda: lease.lost, "its time is over")
            lease.renew()
            assert not lease.lost


# -- refusals ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def guarded(request: pytest.FixtureRequest) -> Iterator[PostgresServer]:
    """A server that wants a password of one role."""
    from tests.postgres_fixtures import RUN, _require

    _require(18)
    server = request.config.stash[RUN].own_server(18)
    with psycopg.connect(server.url(), autocommit=True) as conn:
        conn.execute("CREATE ROLE guarded LOGIN PASSWORD 'right'")
        rules = server.datadir / "pg_hba.conf"
        rules.write_text("local all guarded scram-sha-256\n" + rules.read_text())
        conn.execute("SELECT pg_reload_conf()")
    yield server
    server.remove()


REFUSALS = {
    "unknown database": (lambda url: url.replace("/postgres?", "/nowhere?"), "does not exist"),
    "unknown role": (lambda url: url.replace("//postgres@", "//nobody@"), "does not exist"),
    "wrong password": (lambda url: url.replace("//postgres@", "//guarded:wrong@"), "password"),
    "no password": (lambda url: url.replace("//postgres@", "//guarded@"), "no password"),
    "no TLS": (lambda url: url.replace("sslmode=disable", "sslmode=require"), "does not support SSL"),
}


@pytest.mark.parametrize("refusal", REFUSALS)
def test_a_refusal_that_waiting_does_not_mend_is_passed_on_at_once(
    guarded: PostgresServer, refusal: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the server's words. A test that waits for ten minutes has failed."""
    monkeypatch.setenv("PGPASSFILE", "/nowhere")
    change, words = REFUSALS[refusal]
    with CountingWire(guarded.url()) as wire, pytest.raises(StoreUnavailable, match=words) as refused:
        Database(change(wire.url), retry_s=600)
    assert "wrong" not in str(refused.value)


def test_a_program_that_is_no_postgresql_is_refused_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def greet() -> None:
            with contextlib.suppress(OSError):
                while True:
                    client, _ = listener.accept()
                    with client:
                        client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        greeter = threading.Thread(target=greet, daemon=True)
        greeter.start()
        with pytest.raises(StoreUnavailable):
            Database(f"postgresql://u@127.0.0.1:{listener.getsockname()[1]}/x?sslmode=disable", retry_s=600)
        listener.shutdown(socket.SHUT_RDWR)
        greeter.join()


@pytest.mark.parametrize("url", ["postgresql://u:secret@/x?nonsense=1", "postgresql://u:secret@[::1/x"])
def test_a_url_that_cannot_be_read_is_refused_without_being_repeated(url: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        Database(url)
    assert "secret" not in str(refused.value)


def test_all_connections_in_use_is_said_so(pg_database18: str) -> None:
    service = open_service(pg_database18, max_connections=1, retry_s=0.1)
    database: Any = service.store.database
    with database.connection(), ThreadPoolExecutor(1) as pool:
        error = pool.submit(service.stats).exception()
    assert "All 1 connections of this process are in use" in str(error)
    service.stats()
    service.close()


def test_the_second_judge_sees_nothing_left_open(pg_database18: str) -> None:
    """Connections that a closed service had are gone."""
    service = open_service(pg_database18)
    service.stats()
    service.close()
    wait_until(
        lambda: (
            query(
                pg_database18,
                "SELECT count(*) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()",
            )
            == [(0,)]
        ),
        "no session is left",
    )

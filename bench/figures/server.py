"""Q: what a server costs: claims and ends with 64 clients, how soon 200 that wait get their work, and how
many deliveries of GitHub a second become work."""

from __future__ import annotations

import http.client
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from bench.databases import clear, interlock_at
from bench.figure import Figure, Row, Sample, Target, divided
from bench.figures.deliveries import SECRET, delivery
from bench.plan import Plan
from bench.rounds import quantile
from bench.subject import Store
from interlock.core.model import NewItem
from interlock.remote.service import connect
from interlock.service.contract import Report, Service
from interlock.settings import credentials

PER_S, WAIT_S = 100, 30.0
#: How long the processes of clients may take to start, and claims that wait to get what was added last.
START_S, REST_S = 60.0, 1.0
TITLES: dict[Store, str] = {"postgres": "PostgreSQL", "sqlite": "SQLite"}
DIRECT = "claim and done, no server"
KEPT, READY = "deliveries answered", "deliveries that became items"
#: How many send deliveries at once.
SENDERS = 8
P99_MAX_MS = 20
#: The least of claims and ends with many clients, to half the rate of an empty endpoint.
PAIRS_MIN = 0.5
#: The least of deliveries that become items, to those that are answered.
READY_MIN = 0.8
#: The types of items whose claims are timed: of many that wait, and of one client alone.
TIMED, ALONE = "timed", "alone"
#: How often a client alone is timed, for each second that a rate is measured.
ALONE_PER_S = 20
T = TypeVar("T")

#: How many agents the clients are of, each with a token of its own.
AGENTS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """The server, and the store behind it."""

    address: str
    #: Of each agent; or one for all.
    tokens: Sequence[str]
    store: Store
    url: str

    def agent(self, number: int) -> tuple[str, str]:
        """The name and the token of the agent that a client is of."""
        return f"coder-{number % AGENTS}", self.tokens[number % len(self.tokens)]


#: Work of one client, by its number, until a time: how much it did.
Work = Callable[[Where, int, float], int]


def server(plan: Plan) -> list[Figure]:
    """Q. Rates and waits through one server process, on both stores."""
    return [figure for store in TITLES for figure in _on(plan, store)]


def _on(plan: Plan, store: Store) -> Iterator[Figure]:
    plan.rounds.say(f"a server on {TITLES[store]}")
    url = plan.postgres_url if store == "postgres" else str(plan.directory / "server.db")
    clear(store, url)
    seconds = plan.server_s
    empty_endpoint, claim_and_done = (
        f"{what}, {plan.clients} clients" for what in ("empty endpoint", "claim and done of 16 agents")
    )
    with up(plan.directory, store, url) as (address, token):
        with interlock_at(store, url) as service:
            for _ in range(max(1, int(seconds * 2))):
                service.add([NewItem(title="x") for _ in range(1_000)])
        where = Where(address=address, tokens=_tokens(address, token), store=store, url=url)
        rates = {
            name: rate(plan, work, clients, where)
            for name, work, clients in (
                (empty_endpoint, empty, plan.clients),
                (claim_and_done, pairs, plan.clients),
                (DIRECT, direct, plan.processes),
            )
        }
        alone_ms = _alone(plan, address, token)
        spans_ms = _waits(plan, address, token)
        answered, ready = _deliveries(int(100 * seconds), address, token)
    rows = [Row(subject=name, samples=[Sample(value=value)]) for name, value in rates.items()]
    yield Figure(
        name=f"server-{store}",
        title=f"Q. A server on {TITLES[store]}",
        unit="per s",
        rows=rows,
        base=empty_endpoint,
        targets=[
            Target.at_least(
                f"Q, {TITLES[store]}: claims and ends, to half the empty endpoint",
                divided(rates[claim_and_done], rates[empty_endpoint] / 2),
                PAIRS_MIN,
            )
        ],
    )
    yield Figure(
        name=f"server-alone-{store}",
        title=f"Q. A request while no other is under way, {TITLES[store]}",
        unit="ms",
        rows=[
            Row(subject=f"{name}, p{share}", samples=[Sample(value=quantile(spans, share / 100))])
            for name, spans in alone_ms.items()
            for share in (50, 99)
        ],
    )
    yield Figure(
        name=f"server-deliveries-{store}",
        title=f"Q. Signed deliveries of 20 kB over HTTP, {SENDERS} senders, {TITLES[store]}",
        unit="per s",
        rows=[
            Row(subject=name, samples=[Sample(value=value)])
            for name, value in ((KEPT, answered), (READY, ready))
        ],
        targets=[
            Target.at_least(f"Q, {TITLES[store]}: {READY}, to {KEPT}", divided(ready, answered), READY_MIN)
        ],
    )
    p99_ms = quantile(spans_ms, 0.99)
    yield Figure(
        name=f"server-waits-{store}",
        title=(
            f"Q. From add to the return of a claim, {plan.waiting} waiting, {PER_S} items/s, {TITLES[store]}"
        ),
        unit="ms",
        rows=[
            Row(subject=f"p{share}", samples=[Sample(value=quantile(spans_ms, share / 100))])
            for share in (50, 99)
        ],
        targets=[Target.at_most(f"Q, {TITLES[store]}: p99 of a claim that waits", p99_ms, P99_MAX_MS, "ms")],
    )


def _deliveries(count: int, address: str, token: str) -> tuple[float, float]:
    """Deliveries a second that were answered, and that were items, ready to be claimed, by the end."""
    made = [delivery(n, issue=True) for n in range(count)]
    parts = urlsplit(address)

    def send(n: int) -> None:
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port)
        with closing(connection):
            for ident, body, signed in made[n::SENDERS]:
                headers = {"X-GitHub-Event": "issues", "X-GitHub-Delivery": ident}
                headers |= {"X-Hub-Signature-256": signed, "Content-Type": "application/json"}
                connection.request("POST", "/webhooks/github", body, headers)
                answer = connection.getresponse()
                answer.read()
                assert answer.status == 202, answer.status

    with closing(connect(address, token, patience_s=30)) as service, ThreadPoolExecutor(SENDERS) as threads:
        before = _depth(service)
        begun_s = time.monotonic()
        list(threads.map(send, range(SENDERS)))
        answered_s = time.monotonic() - begun_s
        while _depth(service) < before + count:
            time.sleep(0.05)
        return count / answered_s, count / (time.monotonic() - begun_s)


def _depth(service: Service) -> int:
    """How many items are ready."""
    return sum(service.stats().depth_by_priority.values())


class Started:
    """`interlock up` on a store, which may be killed and started again."""

    def __init__(self, directory: Path, store: Store, url: str, port: int = 0) -> None:
        name = url if store == "postgres" else f"sqlite:///{url}"
        self._environ = {**os.environ, "INTERLOCK_URL": name, "XDG_CONFIG_HOME": str(directory / "config")}
        self._environ["INTERLOCK_WEBHOOK_SECRET"] = SECRET
        self._directory, self._port = directory, port
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "interlock", "up", "--port", str(self._port)],
            cwd=self._directory,
            env=self._environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().split()[-1]

    @property
    def token(self) -> str:
        assert self.process.stdout is not None
        for _ in range(2):
            self.process.stdout.readline()
        token = credentials.token_for(self.address, self._environ)
        assert token is not None
        return token

    def end(self) -> None:
        self.process.terminate()
        self.process.communicate()


@contextmanager
def up(directory: Path, store: Store, url: str) -> Iterator[tuple[str, str]]:
    """`interlock up`; its address, and a token."""
    server = Started(directory, store, url)
    try:
        yield server.address, server.token
    finally:
        server.end()


def rate(plan: Plan, work: Work, clients: int, where: Where) -> float:
    """How much all clients together did in a second."""
    context = multiprocessing.get_context("spawn")
    ready = context.Barrier(plan.processes)
    pipes = [context.Pipe() for _ in range(plan.processes)]
    each = clients // plan.processes
    workers = [
        context.Process(
            target=_clients,
            args=(work, range(n * each, (n + 1) * each), where, plan.server_s, ready, there),
        )
        for n, (_, there) in enumerate(pipes)
    ]
    for worker in workers:
        worker.start()
    done = sum(here.recv() for here, _ in pipes)
    for worker in workers:
        worker.join()
    return done / plan.server_s


def _clients(
    work: Work, numbers: range, where: Where, seconds: float, ready: Barrier, there: Connection
) -> None:
    """Several clients in one process, which begin when all processes have started."""
    with ThreadPoolExecutor(len(numbers)) as threads:
        ready.wait(START_S)
        until_s = time.monotonic() + seconds
        there.send(sum(threads.map(lambda number: work(where, number, until_s), numbers)))


def empty(where: Where, number: int, until_s: float) -> int:  # noqa: ARG001
    parts = urlsplit(where.address)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port)
    count = 0
    with closing(connection):
        while time.monotonic() < until_s:
            connection.request("GET", "/healthz")
            connection.getresponse().read()
            count += 1
    return count


def pairs(where: Where, number: int, until_s: float) -> int:
    agent, token = where.agent(number)
    with closing(connect(where.address, token, patience_s=30)) as service:
        return _pairs(service, agent, until_s)


def direct(where: Where, number: int, until_s: float) -> int:
    with interlock_at(where.store, where.url) as service:
        return _pairs(service, where.agent(number)[0], until_s)


def _pairs(service: Service, agent: str, until_s: float) -> int:
    count = 0
    while time.monotonic() < until_s:
        for lease in service.next(agent):
            service.done([Report(run=lease.run)])
            count += 1
    return count


def _tokens(address: str, token: str) -> list[str]:
    """A token for each agent."""
    with closing(connect(address, token, patience_s=30)) as service:
        made = [service.create_token(f"t{n}", scope=f"agent:coder-{n}").token for n in range(AGENTS)]
    return [each for each in made if each is not None]


def _alone(plan: Plan, address: str, token: str) -> dict[str, list[float]]:
    """Milliseconds of each request of a single client, one after the other."""
    spans_ms: dict[str, list[float]] = {"add": [], "claim": [], "done": []}

    def timed(name: str, work: Callable[[], T]) -> T:
        begun_s = time.monotonic()
        answer = work()
        spans_ms[name].append(1_000 * (time.monotonic() - begun_s))
        return answer

    with closing(connect(address, token, patience_s=30)) as service:
        for _ in range(max(1, int(ALONE_PER_S * plan.server_s))):
            timed("add", lambda: service.add([NewItem(title="x", type=ALONE)]))
            (lease,) = timed("claim", lambda: service.next("coder", types=[ALONE]))
            report = Report(run=lease.run)
            timed("done", lambda report=report: service.done([report]))
    return spans_ms


def _waits(plan: Plan, address: str, token: str) -> list[float]:
    """Milliseconds from the call of each add to the return of its claim, while many wait."""
    context = multiprocessing.get_context("spawn")
    ready = context.Barrier(plan.processes + 1)
    pipes = [context.Pipe() for _ in range(plan.processes)]
    each = plan.waiting // plan.processes
    waiters = [
        context.Process(target=_wait, args=(each, address, token, plan.server_s + REST_S, ready, there))
        for _, there in pipes
    ]
    for waiter in waiters:
        waiter.start()
    with closing(connect(address, token, patience_s=30)) as service:
        ready.wait(START_S)
        next_s = time.monotonic()
        until_s = next_s + plan.server_s
        while next_s < until_s:
            time.sleep(max(0.0, next_s - time.monotonic()))
            service.add([NewItem(title=repr(time.monotonic()), type=TIMED)])
            next_s += 1 / PER_S
    spans_ms = [span for here, _ in pipes for span in here.recv()]
    for waiter in waiters:
        waiter.join()
    return sorted(spans_ms)


def _wait(count: int, address: str, token: str, seconds: float, ready: Barrier, there: Connection) -> None:
    """Claims that wait, of several clients that are connected before anything is added."""
    spans_ms: list[float] = []
    connected, begun = threading.Barrier(count + 1), threading.Barrier(count + 1)

    def client() -> None:
        with closing(connect(address, token, patience_s=30)) as service:
            service.next("coder", types=[TIMED])
            connected.wait(START_S)
            begun.wait(START_S)
            until_s = time.monotonic() + seconds
            while (left_s := until_s - time.monotonic()) > 0:
                for lease in service.next("coder", types=[TIMED], wait_s=min(WAIT_S, left_s)):
                    spans_ms.append(1_000 * (time.monotonic() - float(lease.item.title)))
                    service.done([Report(run=lease.run)])

    threads = [threading.Thread(target=client) for _ in range(count)]
    for thread in threads:
        thread.start()
    connected.wait(START_S)
    ready.wait(START_S)
    begun.wait(START_S)
    for thread in threads:
        thread.join()
    there.send(spans_ms)

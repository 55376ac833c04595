"""T: what pages of the dashboard cost on a large store, what they weigh, and what many open ones take."""

from __future__ import annotations

import asyncio
import multiprocessing
import statistics
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast
from urllib.parse import quote, urlsplit

import psutil

import interlock.dashboard
from bench.backlog import Backlog
from bench.databases import clear, interlock_at
from bench.figure import Figure, Row, Sample, Target, divided
from bench.figures.server import TITLES, Started
from bench.http_clients import HttpClients
from bench.plan import Plan
from bench.rounds import quantile
from bench.subject import Store
from interlock.core.model import NewItem
from interlock.dashboard.pages import ROUTES
from interlock.plans.planfile import plan_of
from interlock.service.contract import Report
from interlock.service.local import LocalService
from interlock.store.postgres.database import Database
from interlock.store.postgres.statement import StatementConnection
from tests.dashboard.client import Site, Visitor

#: A page takes at most so many times as long as its statements alone.
TIMES_MAX = 2.0
PAGE_MAX_KB, SCRIPT_MAX_KB = 60, 12
VIEWERS, EVENTS_PER_S = 50, 500
#: Of one processor, beyond what the server takes without viewers.
CORE_MAX = 0.5
#: A claim through the server is timed so often, and its p99 may grow this much.
CLAIMS_PER_S, KEEPS = 20, 1.5
#: What the script of a page does: it refetches at most this often, and rests this many times as long as a
#: refetch took.
LEAST_S, REST = 0.25, 4.0
#: The events of an item that is added, claimed and finished.
EVENTS_OF_ITEM = 3
RUNNING = 200


def dashboard(plan: Plan) -> list[Figure]:
    """T. Pages one by one, then many that are open at once, on both stores."""
    return [figure for store in TITLES for figure in (_pages(plan, store), _viewers(plan, store))]


# -- pages --------------------------------------------------------------------------------------------


class Recorder:
    """Notes the statements that a service runs: on PostgreSQL all that are sent, also those that begin and
    end a snapshot."""

    def __init__(self, service: LocalService) -> None:
        self._database: Any = service.store.database
        remote = isinstance(self._database, Database)
        #: What every statement passes through.
        self._kind: Any = StatementConnection if remote else type(self._database)
        self._method = "execute" if remote else "rows"
        self.calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Note each statement until the end of the block."""
        run = getattr(self._kind, self._method)
        self.calls = []

        def noted(through: Any, *given: Any, **options: Any) -> Any:
            self.calls.append((given, {name: each for name, each in options.items() if name != "cursor"}))
            return run(through, *given, **options)

        setattr(self._kind, self._method, noted)
        try:
            yield
        finally:
            setattr(self._kind, self._method, run)

    def replay(self) -> float:
        """Milliseconds of the same statements, one after the other, and nothing else."""
        begun_s = time.perf_counter()
        if isinstance(self._database, Database):
            with self._database.connection() as conn:
                for given, options in self.calls:
                    found = conn.execute(*given, **options)
                    _ = found.fetchall() if found.description else []
        else:
            for given, options in self.calls:
                self._database.rows(*given, **options)
        return 1_000 * (time.perf_counter() - begun_s)


def _pages(plan: Plan, store: Store) -> Figure:
    count, lanes = plan.backlog_n, plan.backlog_n // 100
    plan.rounds.say(f"pages of the dashboard with {count:,} items on {TITLES[store]}")
    url = plan.postgres_url if store == "postgres" else str(plan.directory / "pages.db")
    rest = count - 2 * lanes
    Backlog(name="pages", finished=rest // 2, lanes=lanes, pending=rest - rest // 2).make(store, url)
    rows: list[Row] = []
    targets: list[Target] = []
    with interlock_at(store, url) as opened_store:
        service = cast("LocalService", opened_store)
        opened = _Opened(service)
        for path in _addresses(service):
            page_ms, bare_ms, statements, weight_kb = opened.measure(path, plan.claims_n)
            name = path.partition("?")[0]
            rows.append(
                Row(
                    subject=name,
                    samples=[Sample(value=each) for each in page_ms],
                    note=f"{statements} statements {statistics.median(bare_ms):.2f} ms; {weight_kb:.0f} kB",
                )
            )
            ratio = divided(statistics.median(page_ms), statistics.median(bare_ms))
            targets += [
                Target.at_most(f"T, {TITLES[store]}: {name}, to its statements alone", ratio, TIMES_MAX),
                Target.at_most(
                    f"T, {TITLES[store]}: {name}, weight with style and script", weight_kb, PAGE_MAX_KB, "kB"
                ),
            ]
        opened.close()
    targets.append(Target.at_most("T: the script", _script_kb(), SCRIPT_MAX_KB, "kB"))
    return Figure(
        name=f"dashboard-pages-{store}",
        title=f"T. Pages of the dashboard with {count:,} items and {lanes:,} lanes, {TITLES[store]}",
        unit="ms",
        rows=rows,
        targets=targets,
    )


class _Opened:
    """A server with the dashboard in this process, and a visitor."""

    def __init__(self, service: LocalService) -> None:
        self._recorder = Recorder(service)
        self._site = Site(service)
        self._visitor: Visitor = self._site.visitor("admin")
        self._asked = 0
        assets = ("dashboard.css", "dashboard.js", "icon.svg")
        self._assets_bytes = sum(self._visitor.get(f"/assets/{name}").sent_bytes for name in assets)

    def measure(self, path: str, times: int) -> tuple[list[float], list[float], int, float]:
        """Milliseconds of a page and of its statements alone; how many these are; kilobytes with style and
        script."""
        self._get(path)
        with self._recorder.recording():
            weight_bytes = self._get(path)[1]
        statements = len(self._recorder.calls)
        page_ms, bare_ms = [], []
        for _ in range(times):
            page_ms.append(self._get(path)[0])
            bare_ms.append(self._recorder.replay())
        return page_ms, bare_ms, statements, (weight_bytes + self._assets_bytes) / 1_000

    def _get(self, path: str) -> tuple[float, int]:
        """Milliseconds and bytes of a page that is shared with no other request."""
        self._asked += 1
        address = f"{path}{'&' if '?' in path else '?'}asked={self._asked}"
        begun_s = time.perf_counter()
        seen = self._visitor.get(address)
        took_ms = 1_000 * (time.perf_counter() - begun_s)
        assert seen.status == 200, (path, seen.status, seen.words[:300])
        return took_ms, seen.sent_bytes

    def close(self) -> None:
        self._site.stop()


def _addresses(service: LocalService) -> Sequence[str]:
    """An address for each page, on a store where some items run, one asks and one has failed."""
    for n in range(RUNNING):
        service.add([NewItem(title=f"run {n}", lane=f"issue:acme/app#{n}", agent=f"coder-{n % 20}")])
        service.next(f"coder-{n % 20}")
    (first,) = service.add([NewItem(title="what to ask", agent="asker")])
    service.ask(service.next("asker")[0].run, "Which one?")
    (second,) = service.add([NewItem(title="fails", agent="failing", max_attempts=1)])
    service.fail([Report(run=service.next("failing")[0].run, error="exit code 1")])
    assert first.item is not None
    assert second.item is not None
    tasks = [{"key": f"t{n}", "title": f"task {n}"} for n in range(100)]
    edges = [{"from": f"t{n}", "to": f"t{n + 1}"} for n in range(99)]
    new = plan_of({"name": "release", "tasks": tasks, "edges": edges})
    plan = service.create_plan(name=new.name, graph=new.graph).id
    places = {"/items/{item}": f"/items/{first.item.id}", "/plans/{plan}": f"/plans/{plan}"}
    places["/lane"] = f"/lane?name={quote('issue:acme/app#1', safe='')}"
    return [places.get(route, route) for route in ROUTES]


def _script_kb() -> float:
    return (Path(interlock.dashboard.__file__).parent / "static" / "dashboard.js").stat().st_size / 1_000


# -- many viewers -------------------------------------------------------------------------------------


def _viewers(plan: Plan, store: Store) -> Figure:
    plan.rounds.say(f"{VIEWERS} open dashboards on {TITLES[store]}")
    url = plan.postgres_url if store == "postgres" else str(plan.directory / "viewers.db")
    clear(store, url)
    server = Started(plan.directory, store, url)
    try:
        token = server.token
        visitor = Visitor(server.address)
        visitor.sign_in(token)
        cookie = "; ".join(f"{name}={value}" for name, value in visitor.cookies.items())
        process = psutil.Process(server.process.pid)
        clients = HttpClients(server.address, token)
        with _busy(store, url):
            without = _claims(plan, clients, process)
            context = multiprocessing.get_context("spawn")
            viewers = context.Process(target=_view, args=(server.address, cookie), daemon=True)
            viewers.start()
            time.sleep(3 * LEAST_S)  # their first pages are not measured
            with_viewers = _claims(plan, clients, process)
            viewers.terminate()
            viewers.join()
    finally:
        server.end()
    name = f"T, {TITLES[store]}: {VIEWERS} open dashboards at {EVENTS_PER_S} events/s"
    return Figure(
        name=f"dashboard-viewers-{store}",
        title=f"T. {VIEWERS} open dashboards at {EVENTS_PER_S} events/s, {TITLES[store]}",
        unit="see the row",
        rows=[
            Row(subject=f"{what}, {state}", samples=[Sample(value=value)])
            for state, values in (("no viewer", without), (f"{VIEWERS} viewers", with_viewers))
            for what, value in zip(("processors of the server", "p99 of a claim, ms"), values, strict=True)
        ],
        targets=[
            Target.at_most(f"{name}: processors", with_viewers[0] - without[0], CORE_MAX),
            Target.at_most(
                f"{name}: p99 of a claim, to without", divided(with_viewers[1], without[1]), KEEPS
            ),
        ],
    )


@contextmanager
def _busy(store: Store, url: str) -> Iterator[None]:
    """Items are added, claimed and finished at a steady rate until the end of the block."""
    ended = threading.Event()
    batch = 16

    def work() -> None:
        with interlock_at(store, url) as service:
            due_s = time.monotonic()
            while not ended.wait(max(0.0, due_s - time.monotonic())):
                service.add([NewItem(title="x", type="busy") for _ in range(batch)])
                leases = service.next("busy", types=["busy"], limit=batch)
                service.done([Report(run=lease.run) for lease in leases])
                due_s += batch * EVENTS_OF_ITEM / EVENTS_PER_S

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _claims(plan: Plan, clients: HttpClients, process: psutil.Process) -> tuple[float, float]:
    """How many processors the server takes, and the p99 of claims at a steady rate in milliseconds."""

    async def claim() -> list[float]:
        spans_ms = []
        due_s = time.monotonic()
        for _ in range(int(CLAIMS_PER_S * plan.server_s)):
            await asyncio.sleep(max(0.0, due_s - time.monotonic()))
            await clients.post("items", {"items": [{"title": "x", "type": "timed"}]})
            begun_s = time.monotonic()
            found = await clients.post("claims", {"agent": "timed", "types": ["timed"]})
            spans_ms.append(1_000 * (time.monotonic() - begun_s))
            await clients.post("runs/done", {"reports": [{"run": found["leases"][0]["run"]}]})
            due_s += 1 / CLAIMS_PER_S
        clients.close()
        return sorted(spans_ms)

    begun_s, before = time.monotonic(), process.cpu_times()
    spans_ms = asyncio.run(claim())
    after, took_s = process.cpu_times(), time.monotonic() - begun_s
    used_s = after.user + after.system - before.user - before.system
    return used_s / took_s, quantile(spans_ms, 0.99)


def _view(address: str, cookie: str) -> None:
    """Open dashboards in this process, until it ends."""
    asyncio.run(_open_all(address, cookie))


async def _open_all(address: str, cookie: str) -> None:
    await asyncio.gather(*(_Viewer(address, cookie).watch() for _ in range(VIEWERS)))


class _Viewer:
    """An open overview, as the script of the page keeps it."""

    def __init__(self, address: str, cookie: str) -> None:
        parts = urlsplit(address)
        self._host, self._port, self._cookie = parts.hostname or "", parts.port or 80, cookie
        self._newest, self._tag = 0, ""
        self._heard = asyncio.Event()

    async def watch(self) -> None:
        """Hear of events, and refetch the page."""
        await asyncio.gather(self._listen(), self._refetch())

    async def _listen(self) -> None:
        every_ms = int(1_000 * LEAST_S)
        reader, writer = await asyncio.open_connection(self._host, self._port)
        writer.write(self._head(f"/v1/events/stream?every_ms={every_ms}"))
        while line := await reader.readline():
            if line.startswith(b"data: "):
                self._newest = int(line[6:])
                self._heard.set()

    async def _refetch(self) -> None:
        reader, writer = await asyncio.open_connection(self._host, self._port)
        while True:
            await self._heard.wait()
            self._heard.clear()
            begun_s = time.monotonic()
            fields = {"X-Fragments": "1", "X-Newest": str(self._newest)}
            writer.write(self._head("/", fields | ({"If-None-Match": self._tag} if self._tag else {})))
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            if " 304 " not in head[0]:
                sent = dict(line.lower().split(": ", 1) for line in head[1:] if line)
                await reader.readexactly(int(sent["content-length"]))
                self._tag = sent["etag"]
            await asyncio.sleep(max(LEAST_S, REST * (time.monotonic() - begun_s)))

    def _head(self, path: str, fields: Mapping[str, str] = MappingProxyType({})) -> bytes:
        lines = {"Host": f"{self._host}:{self._port}", "Cookie": self._cookie, **fields}
        named = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        return f"GET {path} HTTP/1.1\r\n{named}\r\n".encode()

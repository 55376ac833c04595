"""S: how many live agents one server holds, and whether they keep their leases when it is killed."""

from __future__ import annotations

import asyncio
import random
import socket
import time
from collections.abc import Callable

from bench.databases import clear
from bench.figure import Figure, Row, Sample, Target
from bench.figures.server import TITLES, Started
from bench.http_clients import HttpClients
from bench.plan import Plan
from bench.rounds import quantile
from bench.subject import Store

#: What else happens: claims and ends of items that take no time.
PAIRS_PER_S = 20
RENEW_P99_MAX_MS = 250
#: How many agents claim at once.
STARTING = 16
#: How long a killed server is away.
AWAY_S = 5.0
#: Within this share of the rate the pairs keep up.
KEEPS_UP = 0.95
HELD_MIN: dict[Store, int] = {"postgres": 5_000, "sqlite": 3_000}
LIVE, SHORT = "live", "short"


class Fleet:
    """Agents with one run each, which they renew until the end."""

    def __init__(self, clients: HttpClients, heartbeat_s: float) -> None:
        self._clients, self._heartbeat_s = clients, heartbeat_s
        self._starting = asyncio.Semaphore(STARTING)
        self._agents: list[asyncio.Task[None]] = []
        #: Handles that were refused.
        self.lost: set[str] = set()
        #: From when each renewal was due until it was answered.
        self.renewed_ms: list[float] = []

    async def grow(self, count: int) -> None:
        """Have so many agents that claim and renew."""
        names = [f"agent-{n}" for n in range(len(self._agents), count)]
        items = [{"title": "x", "type": LIVE, "agent": name} for name in names]
        for first in range(0, len(items), 500):
            await self._clients.post("items", {"items": items[first : first + 500]})
        await asyncio.gather(*map(self._claim, names))

    async def _claim(self, name: str) -> None:
        async with self._starting:
            found = await self._clients.post("claims", {"agent": name, "types": [LIVE]})
        self._agents.append(asyncio.create_task(self._renew(found["leases"][0]["run"])))

    async def _renew(self, handle: str) -> None:
        due_s = time.monotonic() + random.uniform(0, self._heartbeat_s)
        while handle not in self.lost:
            await asyncio.sleep(max(0.0, due_s - time.monotonic()))
            answer = await self._clients.post("runs/renew", {"reports": [{"run": handle}]})
            if not answer.get("runs") or answer["runs"][0]["refusal"] is not None:
                self.lost.add(handle)
            self.renewed_ms.append(1_000 * (time.monotonic() - due_s))
            due_s += self._heartbeat_s

    async def pairs(self, seconds: float) -> float:
        """Claims and ends at a steady rate; how many a second were done."""
        count = max(1, int(PAIRS_PER_S * seconds))
        await self._clients.post("items", {"items": [{"title": "x", "type": SHORT}] * count})
        begun_s = time.monotonic()

        async def pair(n: int) -> None:
            await asyncio.sleep(max(0.0, begun_s + n / PAIRS_PER_S - time.monotonic()))
            found = await self._clients.post("claims", {"agent": f"short-{n % 16}", "types": [SHORT]})
            await self._clients.post("runs/done", {"reports": [{"run": found["leases"][0]["run"]}]})

        await asyncio.gather(*(pair(n) for n in range(count)))
        return count / (time.monotonic() - begun_s)

    async def end(self) -> None:
        for agent in self._agents:
            agent.cancel()
        await asyncio.gather(*self._agents, return_exceptions=True)


def agents(plan: Plan) -> list[Figure]:
    """S. One server process, at most so many agents."""
    return [_on(plan, store) for store in TITLES]


def _on(plan: Plan, store: Store) -> Figure:
    plan.rounds.say(f"live agents of a server on {TITLES[store]}")
    url = plan.postgres_url if store == "postgres" else str(plan.directory / "agents.db")
    clear(store, url)
    server = Started(plan.directory, store, url, _free_port())

    def restart() -> None:
        server.process.kill()
        server.process.communicate()
        time.sleep(AWAY_S)
        server.start()

    try:
        clients = HttpClients(server.address, server.token)
        held, p99_ms, lost = asyncio.run(_held(plan, clients, restart))
    finally:
        server.end()
    heartbeat = f"a heartbeat every {plan.heartbeat_s:g} s, {PAIRS_PER_S} pairs/s"
    return Figure(
        name=f"agents-{store}",
        title=f"S. Live agents of one server, {heartbeat}, at most {plan.agents_max:,}, {TITLES[store]}",
        unit="see the row",
        rows=[
            Row(subject="agents held", samples=[Sample(value=held)]),
            Row(subject="p99 of a renewal, ms", samples=[Sample(value=p99_ms)]),
            Row(
                subject=f"leases lost, server killed and {AWAY_S:g} s away",
                samples=[Sample(value=lost)],
            ),
        ],
        targets=[
            Target.at_least(f"S, {TITLES[store]}: live agents held", held, HELD_MIN[store]),
            Target.at_most(f"S, {TITLES[store]}: leases lost by a restart", lost, 0),
        ],
    )


async def _held(plan: Plan, clients: HttpClients, restart: Callable[[], None]) -> tuple[int, float, int]:
    """How many agents were held, the p99 of their renewals, and how many leases a restart lost."""
    fleet = Fleet(clients, plan.heartbeat_s)
    held, held_p99_ms, spans_s = 0, 0.0, 2 * plan.heartbeat_s
    for count in range(plan.agents_step, plan.agents_max + 1, plan.agents_step):
        await fleet.grow(count)
        fleet.renewed_ms.clear()
        rate = await fleet.pairs(spans_s)
        p99_ms = quantile(fleet.renewed_ms, 0.99)
        plan.rounds.say(
            f"  {count:,} agents: renewals {p99_ms:.0f} ms, {rate:.1f} pairs/s, {len(fleet.lost)} lost"
        )
        if fleet.lost or p99_ms > RENEW_P99_MAX_MS or rate < KEEPS_UP * PAIRS_PER_S:
            break
        held, held_p99_ms = count, p99_ms
    before = len(fleet.lost)
    await asyncio.to_thread(restart)
    await asyncio.sleep(spans_s)
    lost = len(fleet.lost) - before
    await fleet.end()
    clients.close()
    return held, held_p99_ms, lost


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])

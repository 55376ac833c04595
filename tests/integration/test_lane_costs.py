"""What an arrival on a long lane touches, and a claim that overtakes, whatever the statistics say."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest

from interlock.core.model import NewItem, Policy
from tests.integration.postgres_costs import Costs, watched_service
from tests.postgres_server import PostgresServer

LANE = "issue:acme/app#42"
SHORT, LONG = 100, 2_000
#: Buffers that the depth of an index makes.
SLACK = 40
PARK = b"""UPDATE interlock.items
SET status = 'waiting', due_us = interlock.clock_us() + 3600000000, first_claimed_us = 1
WHERE status = 'deferred' AND id % 2 = 0"""


@pytest.mark.parametrize("statistics", ["none", "stale", "vacuumed"])
def test_an_absorbed_arrival_does_not_read_the_line(
    start_postgres: Callable[..., PostgresServer], statistics: str
) -> None:
    server = start_postgres(18, settings={"autovacuum": "off"})
    touched = []
    for length in (SHORT, LONG):
        costs = Costs()
        url = server.create_database(f"of_{length}")
        service = watched_service(url, costs)
        with psycopg.connect(url, autocommit=True) as conn:
            if statistics == "stale":
                conn.execute("VACUUM ANALYZE")
            new = NewItem(title="work", lane=LANE, agent="liner")
            for _ in range(0, length, 500):
                service.add([new] * min(length, 500))
            conn.execute(PARK)
            if statistics == "vacuumed":
                conn.execute("VACUUM ANALYZE")
        with costs.watched():
            said = NewItem(title="said", lane=LANE, agent="liner", policy=Policy.COALESCE)
            assert service.add([said])[0].decision == "coalesced"
            assert service.add([NewItem(title="more", lane=LANE, agent="cto")])[0].decision == "queued"
        service.close()
        touched.append(costs.touched["load_items"])
    assert touched[1] <= 2 * touched[0] + SLACK, touched


CROWD = """
INSERT INTO interlock.workers
SELECT 'box.' || n, 'box', n, '/', 'coder', 1, 0, 0, n FROM generate_series(1, {count}) AS n;
INSERT INTO interlock.agents (key, name, seen_us)
SELECT 'a' || n, 'a' || n, 0 FROM generate_series(1, {count}) AS n
"""


@pytest.mark.parametrize("statistics", ["none", "stale", "vacuumed"])
def test_whether_an_agent_is_gone_costs_the_same_in_a_crowd(
    start_postgres: Callable[..., PostgresServer], statistics: str
) -> None:
    """Many workers spoke long ago, many agents have claimed, and one of them has many runs."""
    server = start_postgres(18, settings={"autovacuum": "off"})
    touched: list[dict[str, int]] = []
    for count in (SHORT, LONG):
        costs = Costs()
        url = server.create_database(f"of_{count}")
        service = watched_service(url, costs)
        with psycopg.connect(url, autocommit=True) as conn:
            if statistics == "stale":
                conn.execute("VACUUM ANALYZE")
            conn.execute(CROWD.format(count=count).encode())
            service.add([NewItem(title="work", agent="busy") for _ in range(min(count, 1_000))])
            service.next("busy", limit=1_000, lease_s=3_600)
            for agent in ("coder", "busy"):
                service.set_agent(agent, overtake_after_s=0.001)
                lane = f"{LANE}{agent}"
                service.add([NewItem(title="work", lane=lane, agent=each) for each in (agent, "cto")])
            if statistics == "vacuumed":
                conn.execute("VACUUM ANALYZE")
        with costs.watched():
            (lease,) = service.next("cto", limit=2)
            assert lease.item.lane == f"{LANE}coder", "the other agent has a run"
            assert service.doctor()[-1].ok
            assert service.store.stalled(10) == []
        service.close()
        touched.append({name: costs.touched[name] for name in ("overtakable", "presence", "stalled")})
    few, many = touched
    # Where statistics say that there are no workers, PostgreSQL reads all of these few pages at once.
    assert all(many[name] <= 2 * few[name] + 2 * SLACK for name in many), touched

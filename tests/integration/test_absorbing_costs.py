"""An arrival on a lane with a long line touches the first of each kind, whatever the statistics say."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest

from interlock.core.model import NewItem, Policy
from interlock.testing.postgres import PostgresServer
from tests.integration.postgres_costs import Costs, watched_service

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

"""An arrival costs the same however long the line of its lane is, whatever its policy."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from interlock.core.model import AHEAD_MAX, NewItem, Policy
from tests.faults.stores import query
from tests.integration.postgres_costs import Costs, watched_service
from tests.postgres_server import PostgresServer

SHORT, LONG = 3_400, 34_000
LANE = "issue:acme/app#1"
_JOIN = """
INSERT INTO items (id, project, type, title, agent_key, policy, priority, position, ticket, sort_key, lane, max_attempts,
    retry_lane, created_us, status, attempt, releases, message_count, delivered, seen, front, reason)
SELECT nextval('item_ids'), 'default', 'task', 'in line', '', 'queue', 0, 2147483647, n, n, '{lane}', 3, 'yield', 0,
    'deferred', 0, 0, 0, 0, 0, false, '' FROM generate_series(1, {count}) AS n;
ANALYZE items
"""  # noqa: E501


@pytest.mark.slow
def test_an_arrival_touches_no_more_of_a_longer_line(start_postgres: Callable[..., PostgresServer]) -> None:
    """Two arrivals of each policy, so that one may find the other.

    Taken out: the limit in `load_lines.sql`.
    """
    server = start_postgres(18, settings={"autovacuum": "off"})
    touched = []
    for count in (SHORT, LONG):
        costs = Costs()
        service = watched_service(server.create_database(f"of_{count}"), costs)
        service.add([NewItem(title="owner", lane=LANE)])
        for statement in _JOIN.format(lane=LANE, count=count).split(";"):
            query(service.store.database.url, statement)  # type: ignore[attr-defined]
        with costs.watched():
            for policy in (*Policy, *Policy):
                view = service.add([NewItem(title="new", lane=LANE, agent="ada", policy=policy)])[0]
                assert view.position in (AHEAD_MAX, None)
        service.close()
        touched.append(costs.touched)
    grown = {k: (touched[0].get(k), n) for k, n in touched[1].items() if n > 2 * touched[0].get(k, 0) + 40}
    assert not grown

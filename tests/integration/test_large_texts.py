"""Batches of the largest texts that are allowed go through, and cost what their parts cost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import zip_longest

import pytest

from interlock.core.model import ItemId, NewItem
from interlock.core.names import MESSAGE_MAX_BYTES, PAYLOAD_MAX_BYTES
from interlock.service.contract import Report
from interlock.service.local import LocalService
from interlock.store.postgres.database import Database
from interlock.store.postgres.store import PostgresStore

MANY = 100


@pytest.fixture
def service(pg_database18: str) -> Iterator[LocalService]:
    service = LocalService(PostgresStore(Database(pg_database18)))
    yield service
    service.close()


def test_many_payloads_messages_and_results_of_a_mebibyte_go_through_in_one_batch(
    service: LocalService,
) -> None:
    """Taken out: `portions`, and `chars` in `Database.pipeline`. The driver then moves all that it has not
    sent yet after each write to the socket, waits for an answer to it, and gives up after half a minute."""
    payloads = [json.dumps({"n": n, "text": "x" * (PAYLOAD_MAX_BYTES - 30)}) for n in range(MANY)]
    messages = [f"{n} " + "y" * (MESSAGE_MAX_BYTES - 10) for n in range(MANY // 5)]
    service.add(
        [
            NewItem(title="work", payload=payload, message=message)
            for payload, message in zip_longest(payloads, messages)
        ]
    )
    leases = service.next("coder", limit=MANY, lease_s=600)
    assert [json.loads(payload) for payload in payloads] == [lease.item.payload for lease in leases]
    assert [m.text for lease in leases for m in lease.messages] == messages
    last = leases[-MANY // 5 :]
    ended = service.done([Report(run=lease.run, result=payloads[0]) for lease in last])
    assert all(view.refusal is None for view in ended)
    kept = [service.store.runs(ItemId(lease.item.id))[0].result for lease in last]
    assert kept == [payloads[0]] * len(last)

"""A server whose PostgreSQL is behind PgBouncer in transaction mode."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.core.model import NewItem
from interlock.service.contract import Report
from tests.acceptance.command import Command
from tests.faults.stores import assert_kept
from tests.http.requests import ask
from tests.http.up import Up
from tests.integration import pooler


def test_a_server_behind_a_newer_pooler_serves_waits_and_sweeps(tmp_path: Path, pg_database18: str) -> None:
    with pooler.pooled(pg_database18, "transaction", pooler.newer()) as url:
        up = Up(tmp_path, INTERLOCK_URL=url)
        try:
            client = up.client()
            for n in range(20):  # as many as the driver needs to prepare every statement
                client.add([NewItem(title=f"{n}", lane="l:1")])
                (lease,) = client.next("coder", wait_s=20)
                client.renew([Report(run=lease.run)])
                assert client.done([Report(run=lease.run)])[0].status == "succeeded"
            client.add([NewItem(title="left alone", max_attempts=2)])
            client.next("coder", lease_s=1)
            assert client.next("coder", wait_s=20)[0].item.attempt == 2  # swept, and woken without notices
            assert ask(up.url, "GET", "/readyz").json["ready"]
        finally:
            for each in up.clients:
                each.close()
            assert up.end() == 0
    assert_kept(pg_database18)


def test_a_server_behind_a_pooler_that_is_too_old_does_not_start_and_says_why(
    tmp_path: Path, pg_database18: str
) -> None:
    """Taken out: `check_sessions`; the server starts, and fails every now and then."""
    if pooler.version(pooler.program()) >= pooler.KEEPS_PREPARED:
        pytest.skip("the PgBouncer of this machine keeps prepared statements")
    with pooler.pooled(pg_database18, "transaction", pooler.program()) as url:
        il = Command(tmp_path, env={"XDG_CONFIG_HOME": str(tmp_path), "INTERLOCK_URL": url})
        refused = il("up", "--once", "--port", "0")
    assert refused.code == 1
    assert "does not keep prepared statements" in refused.err
    assert "1.21" in refused.err

"""The connection or the reader dies between the answer and its acknowledgement: no message is lost.

`inbox` prints, then marks what it printed as read. Whatever breaks in between, a message that nobody got is
still unread, and one that is still unread is delivered again or becomes a follow-up.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from interlock.client import Claimed, Interlock
from interlock.core.errors import InterlockError
from interlock.core.model import NewItem
from interlock.process.clock import now_s
from interlock.service.contract import LeaseView, MessageView, Report
from interlock.service.local import LocalService
from tests.acceptance.command import PROGRAM, Command, CommandHere
from tests.faults.failpoints import MOMENTS, Moment, Proxy
from tests.faults.stores import file_of, open_service

#: More than a pipe holds, so that whoever prints it waits for a reader.
LARGE = "x" * 500_000
LEASE_S = 600.0


def told(service: LocalService, text: str) -> LeaseView:
    """A run with one unread message."""
    service.add([NewItem(title="work", lease_s=LEASE_S)])
    lease = service.next("coder")[0]
    service.msg(lease.item.id, text, author="sam")
    return lease


def unread(service: LocalService, lease: LeaseView) -> list[str]:
    return [m.text for m in service.inbox(lease.run)]


@pytest.fixture
def service(url: str) -> Iterator[LocalService]:
    opened = open_service(url)
    yield opened
    opened.close()


@pytest.mark.parametrize("json", [(), ("--json",)], ids=["text", "json"])
def test_a_reader_that_is_gone_has_read_nothing(
    service: LocalService, url: str, tmp_path: Path, json: tuple[str, ...]
) -> None:
    """Taken out: the order in `inbox`; with the mark first, this and the two kills fail."""
    lease = told(service, "hello")
    reader, writer = os.pipe()
    os.close(reader)
    il = Command(tmp_path, url)
    argv = [*PROGRAM, "inbox", lease.run, *json]
    asked = subprocess.run(argv, env=il.environment(None), stdout=writer, cwd=tmp_path, check=False)
    os.close(writer)
    assert asked.returncode == 1
    assert unread(service, lease) == ["hello"]


def test_a_command_killed_while_it_prints_has_marked_nothing(
    service: LocalService, url: str, tmp_path: Path
) -> None:
    lease = told(service, LARGE)
    asked = Command(tmp_path, url).start("inbox", lease.run)
    assert asked.stdout is not None
    assert asked.stdout.read(1)
    asked.kill()
    asked.communicate()
    assert unread(service, lease) == [LARGE]


def test_a_command_killed_after_it_printed_delivers_again_next_time(tmp_path: Path, sqlite_url: str) -> None:
    """Its mark waits for another writer, so it is killed exactly between the answer and the mark."""
    service = open_service(sqlite_url)
    lease = told(service, LARGE)
    asked = Command(tmp_path, sqlite_url).start("inbox", lease.run, "--json")
    assert asked.stdout is not None
    assert asked.stdout.read(1)  # its first renewal is committed: it prints
    other = apsw.Connection(file_of(sqlite_url))
    other.execute("BEGIN IMMEDIATE")
    line = b"{" + asked.stdout.readline()
    assert [m["text"] for m in json.loads(line)["messages"]] == [LARGE]
    asked.kill()
    asked.communicate()
    other.execute("ROLLBACK")
    other.close()
    assert unread(service, lease) == [LARGE]
    follow_up = service.done([Report(run=lease.run)])[0].follow_up
    assert follow_up is not None
    assert [m.text for m in service.show(follow_up).messages] == [LARGE]
    service.close()


@pytest.mark.parametrize("moment", MOMENTS)
def test_whatever_is_lost_on_the_way_a_message_is_printed_or_still_unread(
    proxy: Proxy, pg_url: str, tmp_path: Path, moment: Moment
) -> None:
    """The connection breaks at the nth thing that `inbox` says to the server, for every n."""
    service = open_service(pg_url)
    il = CommandHere(tmp_path, proxy.url)
    for n in itertools.count(1):
        lease = told(service, f"message {n}")
        proxy.lose_nth(n, moment)
        printed = f"message {n}" in il("inbox", lease.run, "--json").out
        left = unread(service, lease)
        assert printed or left, f"lost with the {n}th message of the connection"
        if not proxy.sprung.is_set():
            break
    assert (printed, left) == (True, []), "nothing broke, so it was printed and marked"
    assert n > 3
    service.close()


@pytest.mark.parametrize("moment", MOMENTS)
def test_whatever_is_lost_a_python_program_has_the_message_or_it_is_still_unread(
    proxy: Proxy, pg_url: str, moment: Moment
) -> None:
    """The mark goes with the call after `inbox`; the connection breaks at the nth message of both."""
    service, through = open_service(pg_url), open_service(proxy.url)
    for n in itertools.count(1):
        told_lease = told(service, f"message {n}")
        lease = Claimed(Interlock(through), told_lease, now_s(), renew=False).lease
        assert lease is not None
        proxy.lose_nth(n, moment)
        got: list[MessageView] = []
        with contextlib.suppress(InterlockError):
            got = lease.inbox()
            lease.renew()
        left = unread(service, told_lease)
        assert got or left, f"lost with the {n}th message of the connection"
        if not proxy.sprung.is_set():
            break
    assert ([m.text for m in got], left) == ([f"message {n}"], [])
    assert n > 2
    service.close()
    through.close()

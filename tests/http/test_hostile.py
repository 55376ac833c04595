"""Values that no store can keep: whatever field they are in, the answer is a refusal and never a defect."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from interlock.core.model import NewItem
from interlock.core.plans.model import Graph, TaskSpec
from interlock.http.arguments import query_fields
from interlock.service.local import LocalService
from interlock.service.operations import OPERATIONS, ROOT, Operation
from interlock.store.postgres.database import Database
from interlock.store.postgres.store import PostgresStore
from tests.http.serving import Serving, local_service
from tests.patience import PATIENCE_S

#: As they stand in JSON: numbers beyond 64 bits, half a character, NUL.
VALUES = (
    *("9223372036854775808", "-9223372036854775809", "18446744073709551616", "1" + "0" * 400, "1e308"),
    *('"\\ud800"', '"a\\u0000b"', '["\\ud800"]', '{"a": "\\u0000"}', "[9223372036854775808]"),
)
TEXTS = ("9" * 30, "-" + "9" * 30, "%00", "a%00b", "%ED%A0%80", "%F0%9F%92%A9", "1e400", "nan")
#: It stands for a hostile value in a body.
MARK = "<hostile>"


@pytest.fixture(params=["sqlite", "postgres"])
def at_risk(request: pytest.FixtureRequest, one_server: Serving, tmp_path: Path) -> Iterator[Serving]:
    if request.param == "sqlite":
        service = local_service(tmp_path / "interlock.db")
    else:
        service = LocalService(PostgresStore(Database(request.getfixturevalue("pg_database18"))), poll_s=0.05)
    one_server.serve(service)
    yield one_server
    one_server.leave()
    service.close()


def bodies(operation: Operation, run: str) -> Iterator[str]:
    """The example of an operation, each of whose fields is hostile once; and fields that it does not have."""
    example = json.loads(json.dumps(operation.manual.example).replace("{run}", run))
    known = {each.name for each in operation.parameters} - set(operation.in_path)
    for place in [*places(example), *((name,) for name in known - example.keys())]:
        body = json.loads(json.dumps(example))
        inner = body
        for step in place[:-1]:
            inner = inner[step]
        inner[place[-1]] = MARK
        text = json.dumps(body)
        yield from (text.replace(f'"{MARK}"', value) for value in VALUES)


def places(value: Any) -> Iterator[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield (key,)
        yield from ((key, *rest) for rest in places(each))


def requests(run: str) -> Iterator[tuple[str, str, str]]:
    for operation in OPERATIONS:
        path = (
            operation.path.replace("{item}", "1")
            .replace("{plan}", "1")
            .replace("{revision}", "1")
            .replace("{run}", "1")
        )
        if operation.writes:
            yield from ((operation.method, path, body) for body in bodies(operation, run))
            continue
        fields = query_fields(operation)
        yield from (("GET", f"{path}?{name}={text}", "") for name in fields for text in TEXTS)
        if "{" in operation.path:
            yield from (
                ("GET", operation.path.replace("{item}", n).replace("{plan}", n), "") for n in TEXTS[:2]
            )


def test_no_value_is_a_defect(at_risk: Serving) -> None:
    """Taken out: the looks at numbers and texts in `wire`; PostgreSQL's driver raises, or SQLite does."""
    service = at_risk.server.service
    service.add([NewItem(title="x", lane="l:1", agent="coder")])
    (lease,) = service.next("coder", lease_s=3600)
    service.create_plan("p", Graph(tasks=(TaskSpec(key="a"),)))
    service.next_notice("on_dead_letter")
    at, head = urlsplit(at_risk.url), {"Authorization": f"Bearer {at_risk.token()}"}
    sender = http.client.HTTPConnection(at.hostname or "", at.port, timeout=PATIENCE_S)
    defects = set()
    for method, path, body in requests(lease.run):
        more = {"Content-Type": "application/json"} if body else {}
        sender.request(method, ROOT + path, body or None, head | more)
        answer = sender.getresponse()
        answer.read()
        if answer.status >= 500:
            defects.add((method, path, body[:300], answer.status))
    sender.close()
    assert not defects

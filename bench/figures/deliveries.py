"""O: how many deliveries of GitHub a second are checked, read and stored, before anything is decided."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from bench.databases import clear, sqlite_at
from bench.figure import Figure, Sample, Target, divided
from bench.plan import Plan
from bench.rounds import Rounds
from interlock.app import open_service
from interlock.github import signature
from interlock.github.intake import Intake

SECRET = "a secret of the webhook"
#: About as large as GitHub's own, most of which is what nobody reads.
PADDING = "x" * 20_000
#: Stores one delivery: its id, body and signature.
Store = Callable[[str, bytes, str], None]


def deliveries(plan: Plan) -> list[Figure]:
    """O. One process; the bodies are made and signed beforehand."""
    plan.rounds.say("deliveries of GitHub")
    count = max(20, plan.locks_n // 2)
    subjects: dict[str, Callable[[], AbstractContextManager[Store]]] = {
        "bare SQL on SQLite": lambda: bare_sqlite(plan.directory),
        "Interlock on SQLite": lambda: intake_on(f"sqlite:///{plan.directory / 'deliveries.db'}"),
        "bare SQL on PostgreSQL": lambda: bare_postgres(plan.postgres_url),
        "Interlock on PostgreSQL": lambda: intake_on(cleared(plan)),
    }

    def timed(open_store: Callable[[], AbstractContextManager[Store]]) -> Callable[[], Sample]:
        return lambda: rate(open_store, count)

    quiet = Rounds(count=5, warm_up=True, say=lambda _: None)
    rows = quiet.interleave({name: timed(open_store) for name, open_store in subjects.items()})
    figure = Figure(
        name="deliveries",
        title=f"O. Deliveries of 20 kB checked, read and stored, {count} a round",
        unit="deliveries/s",
        rows=rows,
    )
    for row in rows:
        if row.subject.startswith("Interlock"):
            row.base = row.subject.replace("Interlock", "bare SQL")
            ratio = divided(row.median, figure.median(row.base))
            where = row.subject.removeprefix("Interlock ")
            figure.targets.append(Target.at_least(f"O, {where}: Interlock to bare SQL", ratio, 0.5))
    return [figure]


def rate(open_store: Callable[[], AbstractContextManager[Store]], count: int) -> Sample:
    made = [delivery(n) for n in range(count + 1)]
    with open_store() as store:
        store(*made[0])  # connects, prepares
        begun_s = time.perf_counter()
        for each in made[1:]:
            store(*each)
        return Sample(value=count / (time.perf_counter() - begun_s))


#: What makes it work for somebody.
WANTED = {
    "state": "open",
    "user": {"login": "alice"},
    "labels": [{"name": "bug"}],
    "assignees": [],
    "updated_at": "2026-11-16T10:00:00Z",
    "html_url": "https://git.example.com/acme/app/issues/1",
}


def delivery(n: int, *, issue: bool = False) -> tuple[str, bytes, str]:
    """An opened issue: its id, body and signature. With `issue`, all of it that makes an item."""
    told = {"number": n + 1, "title": "It is broken", "body": PADDING, **(WANTED if issue else {})}
    body = json.dumps(
        {
            "action": "opened",
            "issue": told,
            "repository": {"id": 7, "full_name": "acme/app"},
            "sender": {"login": "alice"},
        }
    ).encode()
    return str(uuid.uuid4()), body, signature.sign(SECRET, body)


@contextmanager
def intake_on(url: str) -> Iterator[Store]:
    """What a server does before it answers a webhook."""
    service = open_service(url)
    intake = Intake(service, service.store, None)

    def store(delivery: str, body: bytes, signed: str) -> None:
        signature.check(SECRET, body, signed)
        assert intake.keep("issues", delivery, body)

    try:
        yield store
    finally:
        service.close()


@contextmanager
def bare_sqlite(directory: Path) -> Iterator[Store]:
    """The least that could work: HMAC, JSON, one INSERT in a commit that is synced to the disk."""
    with sqlite_at(str(directory / "bare-deliveries.db")) as connection:
        connection.execute(_TABLE)

        def store(delivery: str, body: bytes, signed: str) -> None:
            connection.execute("INSERT INTO deliveries VALUES (?, ?, ?)", _row(delivery, body, signed))

        yield store


@contextmanager
def bare_postgres(url: str) -> Iterator[Store]:
    import psycopg

    with psycopg.connect(url, autocommit=True, prepare_threshold=1) as connection:
        connection.execute(_TABLE)

        def store(delivery: str, body: bytes, signed: str) -> None:
            connection.execute("INSERT INTO deliveries VALUES (%s, %s, %s)", _row(delivery, body, signed))

        yield store


_TABLE = "CREATE TABLE IF NOT EXISTS deliveries (id TEXT PRIMARY KEY, number INTEGER, body TEXT)"


def _row(delivery: str, body: bytes, signed: str) -> tuple[str, int, str]:
    signature.check(SECRET, body, signed)
    return delivery, json.loads(body)["issue"]["number"], body.decode()


def cleared(plan: Plan) -> str:
    clear("postgres", plan.postgres_url)
    return plan.postgres_url

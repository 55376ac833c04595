"""The tables of GitHub: deliveries, the last read facts of numbers, and orders.

A delivery or an order is *due* until it is decided on or carried out. After too many failures it is no longer
due: it is unchanged, and waits for a person.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from interlock.core.row import NamedTuple
from interlock.core.timing import maybe_us, to_us
from interlock.store.links import LinkStore
from interlock.store.outbox import Effect, OutboxStore, enqueue
from interlock.store.series_notes import Note
from interlock.store.tables import Ask, Tables

#: The most recent runs of a lane whose accounts are checked.
ACTING_MAX = 20
#: The statements that delete old rows, deliveries first.
PRUNED = (
    "github/prune_deliveries",
    "github/prune_consequences",
    "github/prune_answers",
    "outbox/prune",
    "links/prune_commit_links",
    "links/prune_commits",
    "links/prune_workflow_runs",
)


class KnownRepository(NamedTuple):
    """A known repository. Its lanes have the name that it had when first seen, in lower case."""

    id: int
    name: str
    lane_name: str
    #: The `updated_at` up to which a sweep has read all changes; empty before the first.
    swept_to: str


class StoredDelivery(NamedTuple):
    """An undecided delivery."""

    id: str
    event: str
    body: str
    tries: int


class UndecidedDelivery(NamedTuple):
    """An undecided delivery, for people. Without `due_us` it waits for a person."""

    id: str
    event: str
    received_us: int
    due_us: int | None
    tries: int
    outcome: str | None


class KnownNumber(NamedTuple):
    """An issue or pull request as last read. The first revision is 1."""

    repository: int
    number: int
    revision: int
    #: JSON.
    facts: str
    wanted: str


class NewOrder(NamedTuple):
    """An order from a change or a remark. A number has each name once."""

    name: str
    #: JSON.
    data: str


class PendingOrder(NamedTuple):
    """A pending order."""

    name: str
    data: str
    tries: int
    due_us: int


class StoredOrder(NamedTuple):
    """An order and its outcome."""

    name: str
    data: str
    due_us: int | None
    done_us: int | None
    tries: int
    #: The item that it created, or that got its message.
    item: int | None
    outcome: str | None


class DisplayOptions(NamedTuple):
    """The display options of a repository, by its rules; all off until the rules are read."""

    #: A comment on each item, on its issue or pull request.
    comments: bool = False
    #: The status on a pull request that shows the holder of its lane.
    lane_status: bool = False


class StoredReaction(NamedTuple):
    """A reaction that marks a working run. Without an id it may exist or not."""

    run: int
    item: int
    repository: int
    number: int
    #: The kind of its target: an `issue`, a `comment` or a `review_comment`.
    kind: str
    subject: int
    reaction: int | None


class OrphanedReaction(NamedTuple):
    """An orphaned reaction of a run."""

    shown: StoredReaction
    #: Whether a live run shows the same one.
    shared: bool


class StoredGitHubAnswer(NamedTuple):
    """An answer of GitHub."""

    etag: str
    body: bytes
    link: str | None


def lane_names(name: str, repository: int) -> tuple[str, str]:
    """The name of a repository's lanes, and the one to use if another repository already had that name."""
    return name.lower(), f"{name.lower()}.{repository}"


class GitHubStore:
    """The tables of GitHub. Each call is one idempotent transaction."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self.outbox, self.links = OutboxStore(tables), LinkStore(tables)

    # -- repositories -----------------------------------------------------------------------------

    def repository(self, repository: int, name: str) -> KnownRepository:
        """A repository. A new one is added, and its name is kept up to date."""
        found = self._read("repository", id=repository)
        lane_name, other = lane_names(name, repository)
        while not found:  # repeated if two new ones compete for one name of lanes
            self._write("add_repository", id=repository, name=name, lane_name=lane_name, other=other)
            found = self._read("repository", id=repository)
        if found[0][1] != name:
            self._write("rename_repository", id=repository, name=name)
            found = self._read("repository", id=repository)
        return KnownRepository(*found[0])

    def repository_named(self, name: str) -> KnownRepository | None:
        return next((KnownRepository(*row) for row in self._read("repository_named", name=name)), None)

    def repositories(self, after: int, limit: int) -> list[KnownRepository]:
        """The repositories with larger ids than `after`, in order."""
        return [KnownRepository(*row) for row in self._read("repositories", after=after, limit=limit)]

    def is_used(self) -> bool:
        """Whether a repository is known. Without one, no event concerns GitHub."""
        return bool(self.repositories(0, 1))

    def set_swept(self, repository: int, swept_to: str) -> None:
        """Advance the sweep's position. It never moves back."""
        self._write("set_swept", id=repository, swept_to=swept_to)

    def choices(self, repository: int) -> DisplayOptions:
        found = self._read("choices", repository=repository)
        return DisplayOptions(*map(bool, found[0])) if found else DisplayOptions()

    def choose(self, repository: int, choices: DisplayOptions) -> None:
        comments, lane_status = map(int, choices)
        self._write("choose", repository=repository, comments=comments, lane_status=lane_status)

    # -- deliveries -------------------------------------------------------------------------------

    def keep_delivery(
        self, delivery: str, event: str, repository: int | None, number: int | None, body: str
    ) -> bool:
        """Store a delivery; false if it was delivered before."""
        kept = {"id": delivery, "event": event, "repository": repository, "number": number, "body": body}
        return bool(self._write("keep_delivery", **kept))

    def delivery(self, delivery: str) -> StoredDelivery | None:
        """A delivery; None once it is decided on."""
        return next((StoredDelivery(*row) for row in self._read("delivery", id=delivery)), None)

    def has_delivery(self, delivery: str) -> bool:
        """Whether a delivery was stored, decided on or not."""
        return bool(self._read("has_delivery", id=delivery))

    def due_deliveries(self, limit: int) -> list[str]:
        """Due deliveries, the longest due first. Another server may decide on one of them at the same
        time."""
        return [row[0] for row in self._read("due_deliveries", limit=limit)]

    def decide_delivery(self, delivery: str, outcome: str) -> None:
        self._write("decide_delivery", id=delivery, outcome=outcome)

    def put_off_delivery(self, delivery: str, wait_s: float | None, why: str) -> None:
        """`wait_s` None: until a person retries it."""
        self._write("put_off_delivery", id=delivery, wait_us=maybe_us(wait_s), why=why)

    def undecided(self, limit: int) -> list[UndecidedDelivery]:
        """Undecided deliveries, the oldest first."""
        return [UndecidedDelivery(*row) for row in self._read("undecided", limit=limit)]

    def undecided_of(self, repository: int, number: int, limit: int) -> list[UndecidedDelivery]:
        rows = self._read("undecided_of_number", repository=repository, number=number, limit=limit)
        return [UndecidedDelivery(*row) for row in rows]

    # -- numbers and orders ---------------------------------------------------------------------

    def known(self, repository: int, number: int) -> KnownNumber | None:
        found = self._read("number", repository=repository, number=number)
        return KnownNumber(*found[0]) if found else None

    def advance(
        self, now: KnownNumber, orders: Sequence[NewOrder], closes: Sequence[int] | None = None
    ) -> bool:
        """Write a new revision of a number with its orders. False, and nothing is written, if another server
        was first, so that the stored revision is not one less. `closes` are the issues that a pull request
        closes if merged."""
        of = {"repository": now.repository, "pull": now.number}

        def work(ask: Ask) -> bool:
            last = ask("github/advance_number", count=len(orders), **now._asdict())
            if last:
                _add(ask, now.repository, now.number, orders, last[0][0])
                if closes is not None:
                    ask("github/drop_closes", **of)
                for issue in closes or ():
                    ask("github/add_closes", issue=issue, **of)
            return bool(last)

        return self._tables.writing(work)

    def pulls_closing(self, repository: int, issues: Sequence[int], limit: int) -> list[tuple[int, int]]:
        """Open pull requests that close any of these issues, each with the issue."""
        rows = self._read("closing", repository=repository, issues=issues, limit=limit)
        return [(issue, pull) for issue, pull in rows]

    def contested_issues(self, limit: int) -> list[tuple[str, int, int]]:
        """Issues that several open pull requests close: repository, issue, number of pull requests."""
        return [(name, issue, pulls) for name, issue, pulls in self._read("contested", limit=limit)]

    def add(self, repository: int, number: int, orders: Sequence[NewOrder]) -> bool:
        """Write the orders from a remark on a known number; false if all were known."""

        def work(ask: Ask) -> bool:
            places = ask("github/take_places", repository=repository, number=number, count=len(orders))
            return _add(ask, repository, number, orders, places[0][0])

        return self._tables.writing(work)

    def pending_orders(self, repository: int, number: int, limit: int) -> list[PendingOrder]:
        """The pending orders, in order. Postponed ones are included, as later ones wait for them."""
        return [
            PendingOrder(*row)
            for row in self._read("pending_orders", repository=repository, number=number, limit=limit)
        ]

    def due_numbers(self, limit: int) -> list[tuple[int, int]]:
        """Numbers with due orders."""
        return [(r, n) for r, n in self._read("due_numbers", limit=limit)]

    def carry_out(
        self,
        repository: int,
        number: int,
        name: str,
        *,
        item: int | None,
        outcome: str,
        effects: Sequence[Effect] = (),
    ) -> bool:
        """Record an order as carried out, and enqueue effects. False if another server was first."""
        of = {"repository": repository, "number": number, "name": name, "item": item, "outcome": outcome}
        return self._then_enqueue(effects, "github/carry_out", **of)

    def put_off(self, repository: int, number: int, name: str, wait_s: float | None, why: str) -> None:
        """`wait_s` None: until a person retries it."""
        of = {"repository": repository, "number": number, "name": name}
        self._write("put_off", wait_us=maybe_us(wait_s), why=why, **of)

    def orders(self, repository: int, number: int, limit: int) -> list[StoredOrder]:
        """The last orders, the newest first."""
        rows = self._read("orders", repository=repository, number=number, limit=limit)
        return [StoredOrder(*row) for row in rows]

    def try_again(self, limit: int) -> int:
        """Make entries that wait for a person due again, up to `limit` of each kind; gives their number."""
        names = ("github/retry_deliveries", "github/retry_orders")
        again = self._tables.writing(lambda ask: sum(len(ask(name, limit=limit)) for name in names))
        return again + self.outbox.retry(limit)

    # -- reactions of runs ------------------------------------------------------------------------

    def keep_reaction(self, reaction: StoredReaction) -> None:
        """Record a reaction before it is added, and again with its id."""
        self._write("keep_sign", **reaction._asdict())

    def drop_reaction(self, run: int, effects: Sequence[Effect] = ()) -> bool:
        """Record that a reaction is removed, or that `effects` remove it. False, without effects, if it is
        gone."""
        return self._then_enqueue(effects, "github/drop_sign", run=run)

    def orphaned_reactions(self, after_s: float, limit: int) -> list[OrphanedReaction]:
        """Reactions of runs that were lost, or that ended at least `after_s` ago."""
        rows = self._read("left_signs", after_us=to_us(after_s), limit=limit)
        return [OrphanedReaction(StoredReaction(*row), bool(shared)) for *row, shared in rows]

    # -- accounts of runs -------------------------------------------------------------------------

    def keep_account(self, run: int, item: int, account: str) -> None:
        """Record a run's account, unless the run has ended or has no lane."""
        self._write("keep_account", run=run, item=item, account=account)

    def is_agent_account(self, lane: str, account: str, from_us: int, until_us: int) -> bool:
        """Whether an account is an agent's: the lane's live run writes with it, or opened a pull request with
        it, or a run that wrote with it was live between two times."""
        of = {"lane": lane, "account": account, "from_us": from_us, "until_us": until_us}
        return bool(self._read("acts", most=ACTING_MAX, **of)[0][0])

    def accounts(self, limit: int) -> list[str]:
        """The accounts of the newest runs, up to a limit of runs."""
        return [account for (account,) in self._read("accounts", limit=limit)]

    # -- answers ----------------------------------------------------------------------------------

    def answer(self, key: str) -> StoredGitHubAnswer | None:
        return next((StoredGitHubAnswer(*row) for row in self._read("answer", key=key)), None)

    def keep_answer(self, key: str, answer: StoredGitHubAnswer) -> None:
        self._write("keep_answer", key=key, **answer._asdict())

    # -- notes of series: see `SeriesNotes` -------------------------------------------------------

    def note(self, lane: str) -> Note | None:
        return next((Note(*row) for row in self._read("note", lane=lane)), None)

    def notes(self, after: str, limit: int) -> list[Note]:
        return [Note(*row) for row in self._read("notes", after=after, limit=limit)]

    def keep_note(self, note: Note) -> bool:
        return bool(self._write("keep_note", **note._asdict()))

    # -- pruning ----------------------------------------------------------------------------------

    def old_deliveries(self, before_us: int) -> int:
        """The number of deliveries that were decided on before a time."""
        return int(self._read("old_deliveries", before_us=before_us)[0][0])

    def prune(self, before_us: int, limit: int) -> tuple[int, bool]:
        """Delete old deliveries, orders, effects, answers, commits and workflow runs; gives the number of
        deliveries, and whether nothing old is left."""

        def work(ask: Ask) -> tuple[int, bool]:
            gone = [len(ask(name, before_us=before_us, limit=limit)) for name in PRUNED]
            return gone[0], max(gone) < limit

        return self._tables.writing(work)

    # -- statements -------------------------------------------------------------------------------

    def _read(self, name: str, /, **params: Any) -> list[Any]:
        return self._tables.read(f"github/{name}", **params)

    def _write(self, name: str, /, **params: Any) -> list[Any]:
        return self._tables.write(f"github/{name}", **params)

    def _then_enqueue(self, effects: Sequence[Effect], name: str, /, **params: Any) -> bool:
        """Write, and enqueue effects in the same transaction if something was written."""
        if not effects:
            return bool(self._tables.write(name, **params))

        def work(ask: Ask) -> bool:
            written = bool(ask(name, **params))
            if written:
                enqueue(ask, effects)
            return written

        return self._tables.writing(work)


def _add(ask: Ask, repository: int, number: int, orders: Sequence[NewOrder], last: int) -> bool:
    of = {"repository": repository, "number": number}
    places = enumerate(orders, last - len(orders) + 1)
    new = [ask("github/add_order", place=place, **each._asdict(), **of) for place, each in places]
    return any(new)

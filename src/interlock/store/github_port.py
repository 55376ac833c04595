"""What a database keeps of GitHub: deliveries, what numbers were when they were read, and what follows.

A delivery, and each thing that follows, is *due* until it is decided on or carried out. What failed too often
is due no longer: it waits for a person, and keeps what it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from interlock.core.row import NamedTuple
from interlock.store.links_port import LinkStore
from interlock.store.outbox_port import Effect, OutboxStore
from interlock.store.series_port import SeriesNotes

#: How many of the last runs on a lane are asked whether they wrote with an account.
ACTING_MAX = 20
#: The statements that let old rows go, deliveries first.
PRUNED = (
    "prune_deliveries",
    "prune_consequences",
    "prune_answers",
    "outbox/prune",
    "links/prune_commit_links",
    "links/prune_commits",
    "links/prune_workflow_runs",
)


class Repository(NamedTuple):
    """A repository that was seen. Its lanes are called by the name that it had then, in lower case."""

    id: int
    name: str
    lane_name: str
    #: The `updated_at` up to which a sweep has read all that changed; empty before the first.
    swept_to: str


class KeptDelivery(NamedTuple):
    """A delivery that is not decided on."""

    id: str
    event: str
    body: str
    tries: int


class Undecided(NamedTuple):
    """The same for people. Without `due_us` it waits for one."""

    id: str
    event: str
    received_us: int
    due_us: int | None
    tries: int
    outcome: str | None


class Known(NamedTuple):
    """An issue or pull request as it was read last. The first revision is 1."""

    repository: int
    number: int
    revision: int
    #: JSON.
    facts: str
    wanted: str


class Follows(NamedTuple):
    """Something that follows from a change or a remark. A number has each name once."""

    name: str
    #: JSON.
    data: str


class Owed(NamedTuple):
    """Something that follows, and is not carried out yet."""

    name: str
    data: str
    tries: int
    due_us: int


class Consequence(NamedTuple):
    """Something that follows, and what became of it."""

    name: str
    data: str
    due_us: int | None
    done_us: int | None
    tries: int
    #: The item that it made, or that got its message.
    item: int | None
    outcome: str | None


class Unpaid(NamedTuple):
    """Something that is owed, by number. Without `due_us` it waits for a person."""

    repository: int
    number: int
    name: str
    due_us: int | None
    tries: int
    outcome: str | None


class Choices(NamedTuple):
    """What a repository is shown, by its rules; nothing, as long as nobody has read them."""

    #: A comment on each item, on its issue or pull request.
    comments: bool = False
    #: The status of a pull request that says who holds its lane.
    lane_status: bool = False


class KeptSign(NamedTuple):
    """A reaction that says that a run is at work. Without its id it may be there or not."""

    run: int
    item: int
    repository: int
    number: int
    #: What it is on: an `issue`, a `comment` or a `review_comment`, by its number or id.
    kind: str
    subject: int
    reaction: int | None


class LeftSign(NamedTuple):
    """A reaction that a run left."""

    sign: KeptSign
    #: A live run shows the same one.
    shared: bool


class Answer(NamedTuple):
    """An answer of GitHub."""

    etag: str
    body: bytes
    link: str | None


def lane_names(name: str, repository: int) -> tuple[str, str]:
    """What the lanes of a repository are called; and if another repository had its name before."""
    return name.lower(), f"{name.lower()}.{repository}"


class GitHubStore(SeriesNotes, Protocol):
    """The tables of GitHub. Each call is a transaction of its own, and may be repeated: what it writes, it
    writes once."""

    # -- repositories
    #: Made known if it is new; its name is kept up to date.
    def repository(self, repository: int, name: str) -> Repository: ...
    def repository_named(self, name: str) -> Repository | None: ...
    #: Those with larger ids than `after`, in order.
    def repositories(self, after: int, limit: int) -> list[Repository]: ...
    #: Never goes back.
    def set_swept(self, repository: int, swept_to: str) -> None: ...
    def choices(self, repository: int) -> Choices: ...
    def choose(self, repository: int, choices: Choices) -> None: ...

    # -- deliveries
    #: False if the delivery came before.
    def keep_delivery(
        self, delivery: str, event: str, repository: int | None, number: int | None, body: str
    ) -> bool: ...
    #: None once it is decided on.
    def delivery(self, delivery: str) -> KeptDelivery | None: ...
    #: Whether it came before, decided on or not.
    def has_delivery(self, delivery: str) -> bool: ...
    #: The longest due first. Somebody else may decide on one of them at the same time.
    def due_deliveries(self, limit: int) -> list[str]: ...
    def decide_delivery(self, delivery: str, outcome: str) -> None: ...
    #: `wait_s` None: until a person wants it again.
    def put_off_delivery(self, delivery: str, wait_s: float | None, why: str) -> None: ...
    #: The oldest first.
    def undecided(self, limit: int) -> list[Undecided]: ...
    def undecided_of(self, repository: int, number: int, limit: int) -> list[Undecided]: ...

    # -- numbers and what follows
    def known(self, repository: int, number: int) -> Known | None: ...
    #: Write what a number has become, and what follows. False, and nothing written, unless the number's
    #: revision is one less: then somebody else was first. `closes` are the issues that it closes if merged.
    def advance(self, now: Known, follows: Sequence[Follows], closes: Sequence[int] = ()) -> bool: ...
    #: The open pull requests that close any of these issues, each with the issue.
    def closing(self, repository: int, issues: Sequence[int], limit: int) -> list[tuple[int, int]]: ...
    #: Issues that more than one open pull request closes: repository, issue, how many pull requests.
    def contested(self, limit: int) -> list[tuple[str, int, int]]: ...
    #: Write what follows from a remark on a known number; false if all of it was known.
    def add(self, repository: int, number: int, follows: Sequence[Follows]) -> bool: ...
    #: In order, also what is put off: what comes later waits for it.
    def owed(self, repository: int, number: int, limit: int) -> list[Owed]: ...
    #: Numbers that have something due.
    def owing(self, limit: int) -> list[tuple[int, int]]: ...
    #: False if somebody else was first. Effects are owed at the same time.
    def carry_out(
        self,
        repository: int,
        number: int,
        name: str,
        *,
        item: int | None,
        outcome: str,
        effects: Sequence[Effect] = (),
    ) -> bool: ...
    #: `wait_s` None: until a person wants it again.
    def put_off(self, repository: int, number: int, name: str, wait_s: float | None, why: str) -> None: ...
    #: The last ones, the newest first.
    def consequences(self, repository: int, number: int, limit: int) -> list[Consequence]: ...
    def unpaid(self, limit: int) -> list[Unpaid]: ...
    #: What waits for a person is due again, up to `limit` of each kind; gives how much that is.
    def try_again(self, limit: int) -> int: ...

    # -- reactions of runs
    #: From before the reaction is there; again with its id.
    def keep_sign(self, sign: KeptSign) -> None: ...
    #: It is gone. With effects somebody owes that it goes; false, and nothing is owed, if it is gone already.
    def drop_sign(self, run: int, effects: Sequence[Effect] = ()) -> bool: ...
    #: Those of runs that were lost, or that ended at least so long ago.
    def left_signs(self, after_s: float, limit: int) -> list[LeftSign]: ...

    # -- accounts of runs
    #: Nothing is written for a run that is over, or that is on no lane.
    def keep_account(self, run: int, item: int, account: str) -> None: ...
    #: Whether an account is an agent's: the live run of a lane writes with it, or opened a pull request with
    #: it, or a run that wrote with it was live between two times.
    def acts(self, lane: str, account: str, from_us: int, until_us: int) -> bool: ...
    #: Those of the newest runs, up to a limit of runs.
    def accounts(self, limit: int) -> list[str]: ...

    # -- answers
    def answer(self, key: str) -> Answer | None: ...
    def keep_answer(self, key: str, answer: Answer) -> None: ...

    # -- the outbox, and runs in sync
    @property
    def outbox(self) -> OutboxStore: ...
    @property
    def links(self) -> LinkStore: ...

    # -- pruning
    #: How many deliveries were decided on before.
    def old_deliveries(self, before_us: int) -> int: ...
    #: Let deliveries, consequences, effects, answers, commits and workflow runs go; gives how many
    #: deliveries, and if that was all.
    def prune(self, before_us: int, limit: int) -> tuple[int, bool]: ...

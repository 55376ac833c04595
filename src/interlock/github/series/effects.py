"""The effects of a series on GitHub: assign, unassign, start a workflow, comment.

    OutboxSeriesEffects   with a database: effects are enqueued in the outbox, which sends each once
    DirectSeriesEffects   without one: effects are sent at once, and by each reconcile until GitHub shows them

Both report why an assignment fails, for the state issue and `doctor`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from interlock.core.errors import GitHubLimited, GitHubRefused, GitHubUnavailable
from interlock.core.record import Record
from interlock.github import effects
from interlock.github.client import GitHub
from interlock.github.effects import After, IssueRef
from interlock.github.remarks import has_mark, marked
from interlock.github.series.issues import CurrentRepository
from interlock.store.outbox import Effect, OutboxEntry, OutboxStore

_ISSUE = "/repos/{+repo}/issues/{number}"
#: The most effects and comments that are searched for one of ours.
LOOKED_THROUGH = 200
#: The refused assignments of one run after which no further one is enqueued.
GIVEN_UP = 5
_FAULTS = (GitHubRefused, GitHubUnavailable, GitHubLimited)
#: The workflow inputs for the number and for the mark.
NUMBER_INPUT, MARK_INPUT = "number", "mark"


class AssignmentMethod(Record):
    """How the active issue is assigned."""

    #: The account to assign; empty: the caller assigns.
    login: str = ""
    #: A workflow that is started instead, with the number, on this ref.
    workflow: str = ""
    ref: str = "main"


class SeriesEffects(Protocol):
    """The effects of a series on GitHub. Each is idempotent."""

    #: Whether requested effects are remembered across processes.
    remembers: bool

    #: True if something new was sent or enqueued. `nth` is the number of the attempt for this run.
    def assign(self, number: int, run: int, how: AssignmentMethod, *, nth: int, after: After) -> bool: ...
    def unassign(self, number: int, logins: Sequence[str], run: int | None) -> bool: ...
    #: Whether GitHub has carried out the last `unassign`.
    def is_unassigned(self, number: int) -> bool: ...
    def comment(self, number: int, name: str, text: str) -> bool: ...
    #: Why the assignment failed; empty if it succeeded.
    def hindrance(self, number: int, run: int) -> str: ...
    #: Send enqueued effects. With `all_of_it`, also send those of processes that died first.
    def flush(self, *, all_of_it: bool = False) -> None: ...


class OutboxSeriesEffects:
    """Effects in the outbox of a database."""

    remembers = True

    def __init__(
        self, outbox: OutboxStore, repository: CurrentRepository, send: bool, github: GitHub
    ) -> None:
        self._outbox, self._repository, self._send, self._github = outbox, repository, send, github
        self._unsent = False

    def assign(self, number: int, run: int, how: AssignmentMethod, *, nth: int, after: After) -> bool:
        place, name = self._place(number), f"series-assign:run-{run}:{nth}"
        before = [e for e in self._enqueued(number) if e.name.startswith(f"series-assign:run-{run}:")]
        self._unsent = True  # an earlier process may have died before it sent the effect
        waiting = [each for each in before if each.done_us is None]
        if any(each.dead_us is None for each in waiting) or len(waiting) >= GIVEN_UP:
            return False
        if how.workflow:
            made: effects.GitHubEffect = effects.Dispatch(
                workflow=how.workflow,
                ref=how.ref,
                inputs={NUMBER_INPUT: str(number)},
                mark_input=MARK_INPUT,
                after=after,
                while_running=True,
            )
        else:
            made = effects.Assignment(logins=[how.login], after=after, while_running=True)
        return self._enqueue(made.row(place, name, run=run))

    def unassign(self, number: int, logins: Sequence[str], run: int | None) -> bool:
        there = [each for each in self._enqueued(number) if each.name.startswith("series-unassign:")]
        if any(each.done_us is None and each.dead_us is None for each in there):
            self._unsent = True
            return False
        name = f"series-unassign:{_last_number(there) + 1}"
        made = effects.AssignmentRemoval(logins=logins, while_running=run is not None)
        return self._enqueue(made.row(self._place(number), name, run=run))

    def is_unassigned(self, number: int) -> bool:
        there = (each for each in self._enqueued(number) if each.name.startswith("series-unassign:"))
        return getattr(next(there, None), "done_us", None) is not None

    def comment(self, number: int, name: str, text: str) -> bool:
        return self._enqueue(effects.Comment(text=text).row(self._place(number), name))

    def hindrance(self, number: int, run: int) -> str:
        name = f"series-assign:run-{run}:"
        unsent = [
            e for e in self._enqueued(number) if e.name.startswith(name) and e.done_us is None and e.outcome
        ]
        if not unsent:
            return ""
        again = "Interlock retries it." if unsent[0].dead_us is None else "Interlock stopped retrying."
        return f"#{number} could not be assigned: {unsent[0].outcome} {again}"

    def flush(self, *, all_of_it: bool = False) -> None:
        if (self._unsent or all_of_it) and self._send:
            from interlock.github.outbox import OutboxRelay  # noqa: PLC0415  (only needed to send)

            OutboxRelay(self._github, self._outbox).send(LOOKED_THROUGH)
        self._unsent = False

    def _enqueue(self, effect: Effect) -> bool:
        new = bool(self._outbox.enqueue([effect]))
        self._unsent = self._unsent or new
        return new

    def _place(self, number: int) -> IssueRef:
        return IssueRef(self._repository.id, number)

    def _enqueued(self, number: int) -> list[OutboxEntry]:
        return self._outbox.effects(self._repository.id, number, LOOKED_THROUGH)


def _last_number(there: Sequence[OutboxEntry]) -> int:
    return max((int(each.name.rpartition(":")[2]) for each in there), default=0)


class DirectSeriesEffects:
    """Sends effects at once."""

    remembers = False

    def __init__(self, github: GitHub, repository: CurrentRepository) -> None:
        self._github, self._repository = github, repository
        self._done: set[tuple[object, ...]] = set()
        self._hindrances: dict[int, str] = {}
        self._unassigned: set[int] = set()

    def assign(self, number: int, run: int, how: AssignmentMethod, *, nth: int, after: After) -> bool:
        if not self._is_first("assign", number, run, nth):
            return False
        try:
            return self._assigned(number, how, (number, run, nth), after)
        except _FAULTS as error:
            self._hindrances[number] = f"#{number} could not be assigned: {error.sentence}"
            return False

    def _assigned(self, number: int, how: AssignmentMethod, mark: tuple[int, ...], after: After) -> bool:
        """Assign, or dispatch the workflow, once all others are unassigned."""
        for other, logins in after:
            if left := effects.still_assigned(self._github, self._repository.name, other, logins):
                self._hindrances[number] = f"#{other} is still assigned to {', '.join(left)}."
                return False
        if how.workflow:
            inputs = {NUMBER_INPUT: str(number), MARK_INPUT: f"[interlock:{':'.join(map(str, mark))}]"}
            started = effects.Dispatch(workflow=how.workflow, ref=how.ref, inputs=inputs)
            self._ask(started.request(self._repository.name))
            return True
        issue = self._ask(effects.Assignment(logins=[how.login]).request(self._repository.name, number))
        if effects.not_assigned(issue, [how.login]):
            self._hindrances[number] = (
                f"#{number} could not be assigned: GitHub ignored {how.login}. Check that this token"
                " may assign it in this repository; a hosted agent needs a user token."
            )
            return False
        return True

    def unassign(self, number: int, logins: Sequence[str], run: int | None) -> bool:
        if not self._is_first("unassign", number, run):
            return False
        issue = self._ask(effects.AssignmentRemoval(logins=logins).request(self._repository.name, number))
        if effects.assigned(issue, logins):
            return False
        self._unassigned.add(number)
        return True

    def is_unassigned(self, number: int) -> bool:
        return number in self._unassigned

    def comment(self, number: int, name: str, text: str) -> bool:
        if not self._is_first("comment", number, name) or self._is_posted(number, name):
            return False
        said = effects.Comment(text=marked(text, effect=name))
        self._ask(said.request(self._repository.name, number))
        return True

    def hindrance(self, number: int, run: int) -> str:  # noqa: ARG002  (the protocol's)
        return self._hindrances.get(number, "")

    def flush(self, *, all_of_it: bool = False) -> None:
        """Do nothing, as no effect is enqueued."""

    def _is_posted(self, number: int, name: str) -> bool:
        comments = self._github.pages(
            _ISSUE + "/comments", limit=LOOKED_THROUGH, repo=self._repository.name, number=number
        )
        return any(has_mark(each.get("body") or "", effect=name) for each in comments)

    def _is_first(self, *what: object) -> bool:
        """Whether this is the first call for an effect in this process. The next process looks again."""
        if what in self._done:
            return False
        self._done.add(what)
        return True

    def _ask(self, request: effects.GitHubRequest) -> dict[str, object]:
        body: dict[str, object] = request.send(self._github).body or {}
        return body

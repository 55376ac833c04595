"""What a series does on GitHub: assign, take assignments away, start a workflow, comment.

    Owed    with a database: owed in the outbox, which sends each once and gives up after a while
    Direct  without one: sent at once, and again by the next reconcile until it is seen

Both say what hinders the assignment: it is shown in the state issue and by `doctor`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from interlock.core.errors import GitHubLimited, GitHubRefused, GitHubUnavailable
from interlock.core.record import Record
from interlock.github import effects, owing
from interlock.github.client import GitHub
from interlock.github.series.looking import Repository
from interlock.store.outbox_port import Effect, OutboxStore, Owing

_ISSUE = "/repos/{+repo}/issues/{number}"
#: How many effects and comments are looked through for one of ours.
LOOKED_THROUGH = 200
#: After so many assignments of one run that GitHub refused for good, a person must look.
GIVEN_UP = 5
_FAULTS = (GitHubRefused, GitHubUnavailable, GitHubLimited)
#: The input of a workflow that gets the number, and the one that gets a mark.
NUMBER_INPUT, MARK_INPUT = "number", "mark"


class Assigning(Record):
    """How the active issue is assigned."""

    #: Who is assigned; empty: nobody by us.
    login: str = ""
    #: A workflow that is started with the number instead, on this ref.
    workflow: str = ""
    ref: str = "main"


class Acting(Protocol):
    """What a series does on GitHub. Each is done once, however often it is asked for."""

    #: Whether it remembers across processes what was asked for.
    remembers: bool

    #: True if something new was done or owed. `nth` says which attempt for this run it is.
    def assign(self, number: int, run: int, how: Assigning, *, nth: int, after: owing.After) -> bool: ...
    def unassign(self, number: int, logins: Sequence[str], run: int | None) -> bool: ...
    #: Whether GitHub has carried out what `unassign` asked for last.
    def is_unassigned(self, number: int) -> bool: ...
    def comment(self, number: int, name: str, text: str) -> bool: ...
    #: Why the assignment does not come about; empty if nothing hinders it.
    def hindrance(self, number: int, run: int) -> str: ...
    #: Send what is owed; with `all_of_it` also what others owe who died before they sent it.
    def flush(self, *, all_of_it: bool = False) -> None: ...


class Owed:
    """Effects in the outbox of a database."""

    remembers = True

    def __init__(self, outbox: OutboxStore, repository: Repository, send: bool, github: GitHub) -> None:
        self._outbox, self._repository, self._send, self._github = outbox, repository, send, github
        self._owed = False

    def assign(self, number: int, run: int, how: Assigning, *, nth: int, after: owing.After) -> bool:
        place, name = self._place(number), f"series-assign:run-{run}:{nth}"
        before = [e for e in self._ours(number) if e.name.startswith(f"series-assign:run-{run}:")]
        self._owed = True  # perhaps by somebody who died before he sent it
        waiting = [each for each in before if each.done_us is None]
        if any(each.dead_us is None for each in waiting) or len(waiting) >= GIVEN_UP:
            return False
        if how.workflow:
            inputs = {NUMBER_INPUT: str(number)}
            made = owing.dispatch(
                *(place, name, how.workflow, how.ref, inputs),
                mark_input=MARK_INPUT,
                after=after,
                while_running=True,
            )
        else:
            made = owing.assign(place, name, [how.login], after=after, while_running=True)
        return self._owe(made._replace(run=run))

    def unassign(self, number: int, logins: Sequence[str], run: int | None) -> bool:
        there = [each for each in self._ours(number) if each.name.startswith("series-unassign:")]
        if any(each.done_us is None and each.dead_us is None for each in there):
            self._owed = True
            return False
        name = f"series-unassign:{_last(there) + 1}"
        made = owing.unassign(self._place(number), name, logins, while_running=run is not None)
        return self._owe(made._replace(run=run))

    def is_unassigned(self, number: int) -> bool:
        there = (each for each in self._ours(number) if each.name.startswith("series-unassign:"))
        return getattr(next(there, None), "done_us", None) is not None

    def comment(self, number: int, name: str, text: str) -> bool:
        return self._owe(owing.comment(self._place(number), name, text))

    def hindrance(self, number: int, run: int) -> str:
        name = f"series-assign:run-{run}:"
        owed = [e for e in self._ours(number) if e.name.startswith(name) and e.done_us is None and e.outcome]
        if not owed:
            return ""
        again = "It is tried again." if owed[0].dead_us is None else "A person must look: interlock doctor."
        return f"#{number} could not be assigned: {owed[0].outcome} {again}"

    def flush(self, *, all_of_it: bool = False) -> None:
        if (self._owed or all_of_it) and self._send:
            from interlock.github.outbox import Sender  # noqa: PLC0415  (only who sends needs it)

            Sender(self._github, self._outbox).send(LOOKED_THROUGH)
        self._owed = False

    def _owe(self, effect: Effect) -> bool:
        new = bool(self._outbox.owe([effect]))
        self._owed = self._owed or new
        return new

    def _place(self, number: int) -> owing.Place:
        return owing.Place(self._repository.id, number)

    def _ours(self, number: int) -> list[Owing]:
        return self._outbox.effects(self._repository.id, number, LOOKED_THROUGH)


def _last(there: Sequence[Owing]) -> int:
    return max((int(each.name.rpartition(":")[2]) for each in there), default=0)


class Direct:
    """Requests that are sent at once."""

    remembers = False

    def __init__(self, github: GitHub, repository: Repository) -> None:
        self._github, self._repository = github, repository
        self._done: set[tuple[object, ...]] = set()
        self._hindrances: dict[int, str] = {}
        self._unassigned: set[int] = set()

    def assign(self, number: int, run: int, how: Assigning, *, nth: int, after: owing.After) -> bool:
        if not self._first("assign", number, run, nth):
            return False
        try:
            return self._assigned(number, how, (number, run, nth), after)
        except _FAULTS as error:
            self._hindrances[number] = f"#{number} could not be assigned: {error.sentence}"
            return False

    def _assigned(self, number: int, how: Assigning, mark: tuple[int, ...], after: owing.After) -> bool:
        """Assign, or dispatch, after everybody else is seen to be unassigned."""
        for other, logins in after:
            if left := effects.still_assigned(self._github, self._repository.name, other, logins):
                self._hindrances[number] = f"#{other} is still assigned to {', '.join(left)}."
                return False
        if how.workflow:
            inputs = {NUMBER_INPUT: str(number), MARK_INPUT: f"[interlock:{':'.join(map(str, mark))}]"}
            self._ask(effects.dispatch(self._repository.name, how.workflow, how.ref, inputs))
            return True
        issue = self._ask(effects.assign(self._repository.name, number, [how.login]))
        if effects.not_assigned(issue, [how.login]):
            self._hindrances[number] = (
                f"#{number} could not be assigned: GitHub dropped {how.login} without a word. May it be"
                " assigned in this repository, and by this token? A hosted agent needs a user's."
            )
            return False
        return True

    def unassign(self, number: int, logins: Sequence[str], run: int | None) -> bool:
        if not self._first("unassign", number, run):
            return False
        issue = self._ask(effects.unassign(self._repository.name, number, logins))
        if effects.assigned(issue, logins):
            return False
        self._unassigned.add(number)
        return True

    def is_unassigned(self, number: int) -> bool:
        return number in self._unassigned

    def comment(self, number: int, name: str, text: str) -> bool:
        if not self._first("comment", number, name) or self._is_said(number, name):
            return False
        said = effects.marked(text, effect=name)
        self._ask(effects.comment(self._repository.name, number, said))
        return True

    def hindrance(self, number: int, run: int) -> str:  # noqa: ARG002  (the protocol's)
        return self._hindrances.get(number, "")

    def flush(self, *, all_of_it: bool = False) -> None:
        """Nothing is owed."""

    def _is_said(self, number: int, name: str) -> bool:
        comments = self._github.pages(
            _ISSUE + "/comments", limit=LOOKED_THROUGH, repo=self._repository.name, number=number
        )
        return any(effects.has_mark(each.get("body") or "", effect=name) for each in comments)

    def _first(self, *what: object) -> bool:
        """Once in the life of this process: the next one looks again."""
        if what in self._done:
            return False
        self._done.add(what)
        return True

    def _ask(self, request: effects.Request) -> dict[str, object]:
        answer = self._github.send(request.method, request.route, request.body, **request.options())
        body: dict[str, object] = answer.body or {}
        return body

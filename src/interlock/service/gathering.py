"""Requests of several threads that share a transaction.

    request ─┬─ none of its kind is under way: it runs at once, in its own thread
             └─ else it waits; the first of those that wait leads their group, in order of arrival

On PostgreSQL a group is one call of the store: its reports, arrivals or renewals are one batch, which means
the same as its parts one after the other, and each request gets its part of the answer. Claims that ask for
the same are one claim, whose items are dealt out in order of arrival. On SQLite, which has one writer at a
time, requests of all kinds share a group; each stays a call of its own, and they share the commit.

Renewals share only with renewals, so that no large batch delays a heartbeat. If a group was certainly rolled
back, each of its requests runs again by itself; so a fault of one concerns that one. If nobody knows whether
it was committed, all get the error: the store has looked the commit up as long as its patience allows.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Hashable, Sequence
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar

from interlock.core.commands import Command
from interlock.core.errors import Repeated, StoreUnavailable
from interlock.core.ledger import LedgerChanges
from interlock.core.names import BATCH_MAX
from interlock.core.record import replace
from interlock.core.row import NamedTuple
from interlock.service import sweeper
from interlock.store.port import CallOutcome, ClaimAnswer, ClaimedItem, Load, Renewal, Store, outcome_of

if TYPE_CHECKING:
    from interlock.core.claims import Claim
    from interlock.core.handles import Handle
    from interlock.core.model import Item, ItemId
    from interlock.core.workers import WorkerRecord
    from interlock.store.access import Note, RepeatableRequest

T = TypeVar("T")
P = ParamSpec("P")

#: At most this many requests are in a group, and at most this many reports, items or text blocks.
GROUP_MAX, PARTS_MAX = 32, BATCH_MAX
#: Text counts as well: this many characters are one part.
PART_CHARS = 1 << 10
#: A request that has waited this long begins another group beside the slow one. At most so many groups of a
#: kind are under way.
SLOW_S, GROUPS_MAX = 0.05, 4

#: Builds the commands of one request from the ids and tickets of its arrivals.
Build = Callable[[Sequence["ItemId"], Sequence[int]], Sequence[Command]]


class Write:
    """A transaction of the rules that one request asks for."""

    __slots__ = ("build", "load", "note", "tickets")

    def __init__(self, load: Load, build: Build, note: Note | None, tickets: int = 0) -> None:
        self.load, self.build, self.note, self.tickets = load, build, note, tickets


class StoreCall(NamedTuple):
    """What a request asks of the store, perhaps together with others."""

    kind: Hashable
    asked: Any
    #: Asks by itself. It may be repeated.
    alone: Callable[[], Any]
    #: How much of a group it takes.
    parts: Callable[[], int]
    request: RepeatableRequest | None = None


#: An operation in steps: it yields what it asks of the store and gets the answer. So one thread can carry out
#: the requests of a group, and the operation reads as if it asked alone.
Steps = Generator[StoreCall, Any, T]


class _Gathers(Protocol):
    _gathering: Gathering


G = TypeVar("G", bound=_Gathers)


def gathered(steps: Callable[Concatenate[G, P], Steps[T]]) -> Callable[Concatenate[G, P], T]:
    """A method from its steps. The caller's thread carries it out, perhaps with the requests of others."""

    @wraps(steps)
    def operation(part: G, /, *args: P.args, **named: P.kwargs) -> T:
        return part._gathering.carry_out(steps(part, *args, **named))

    return operation


def steps_of(operation: Callable[..., Any]) -> Callable[..., Steps[Any]]:
    """The steps of a bound operation that is `gathered`."""
    bound: Any = operation
    return partial(bound.__wrapped__, bound.__self__)


class _Member:
    """One request of a group."""

    __slots__ = ("call", "group", "is_alone", "leads", "outcome", "parts", "turn")

    def __init__(self, call: StoreCall) -> None:
        self.call, self.parts = call, call.parts()
        #: Released when its answer is there, or when its thread has to act.
        self.turn = threading.Lock()
        self.turn.acquire()
        #: The group that it has to lead.
        self.group: list[_Member] | None = None
        #: Whether its end lets the next group begin.
        self.leads = False
        #: Its answer, if a group gave one; or whether it has to run by itself.
        self.outcome: CallOutcome | None = None
        self.is_alone = False

    def wake(self) -> None:
        self.turn.release()


class _GroupQueue:
    """The requests of one kind."""

    __slots__ = ("renewed", "under_way", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[_Member] = deque()
        self.under_way = 0
        #: Whether the last group was one of renewals.
        self.renewed = False

    def take(self) -> list[_Member]:
        """The next group, in order of arrival. Renewals and others take turns where both wait."""
        others = (m for m in self.waiting if (m.call.kind == RENEW) is not self.renewed)
        renews = next(others, self.waiting[0]).call.kind == RENEW
        group: list[_Member] = []
        parts = 0
        for member in self.waiting:
            if (member.call.kind == RENEW) is renews:
                parts += member.parts
                if group and (len(group) >= GROUP_MAX or parts > PARTS_MAX):
                    break
                group.append(member)
        taken = set(map(id, group))
        self.waiting = deque(m for m in self.waiting if id(m) not in taken)
        self.renewed = renews
        return group


#: Kinds of requests; the others are operations, and claims by what they ask for. A call without a kind shares
#: nothing but a commit, and that only where the store has one writer.
RENEW, WORKERS, CLAIMS = "renew", "see_worker", "claims"


class Gathering:
    """Lets requests of the threads of one process share transactions of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._pid, self._lock = os.getpid(), threading.Lock()
        #: Signals interrupt this thread anywhere, so others must not depend on it.
        self._main = threading.main_thread().ident
        self._lines: dict[Hashable, _GroupQueue] = {}
        self._idle: list[_GroupQueue] = []
        #: The keys of repeatable requests under way.
        self._keys: set[str] = set()
        #: A store with one writer at a time has one line for all. Elsewhere, so many groups of a kind may be
        #: under way.
        self._one_line, self.groups_max = store.shares_commits, 1 if store.shares_commits else GROUPS_MAX

    # -- what is shared ---------------------------------------------------------------------------

    def transact(
        self,
        kind: str,
        write: Write,
        parts: Callable[[], int],
        request: RepeatableRequest | None = None,
    ) -> Steps[LedgerChanges]:
        """Decide and write, as `Store.transact`; perhaps with other requests of this kind."""
        decision: LedgerChanges = yield StoreCall(kind, write, partial(self._write, write), parts, request)
        return decision

    def claim(
        self, claim: Claim, note: Note | None = None, request: RepeatableRequest | None = None
    ) -> Steps[ClaimAnswer]:
        """Claim after what is due was moved; perhaps with others. A claim of a named item is by itself."""
        kind = (
            None
            if claim.item is not None
            else (claim.agent, claim.types, claim.labels, claim.lease_s, claim.worker, claim.external)
        )
        alone = partial(self._claim, claim, note)
        answer: ClaimAnswer = yield StoreCall(kind, (claim, note), alone, lambda: claim.limit, request)
        return answer

    def renew(self, renewals: Sequence[Renewal]) -> Steps[dict[Handle, Item]]:
        """Renew leases, as `Store.renew`; the answer may have leases of others."""
        alone = partial(self._store.renew, renewals)
        kept: dict[Handle, Item] = yield StoreCall(RENEW, renewals, alone, lambda: len(renewals))
        return kept

    def by_itself(self, work: Callable[[], T], request: RepeatableRequest | None = None) -> Steps[T]:
        """A transaction that is no part of another one; it may share a commit."""
        found: T = yield StoreCall(None, None, work, lambda: 1, request)
        return found

    def see_worker(self, worker: WorkerRecord) -> Steps[None]:
        """Record a worker's heartbeat."""
        yield StoreCall(WORKERS, worker, partial(self._store.see_workers, [worker]), lambda: 1)

    # -- operations in steps ------------------------------------------------------------------------

    def carry_out(self, steps: Steps[T]) -> T:
        """Carry out one operation in this thread; others may share its transactions."""
        try:
            call = next(steps)
            while True:
                try:
                    answer = self._run(call)
                except BaseException as error:
                    call = steps.throw(error)
                else:
                    call = steps.send(answer)
        except StopIteration as end:
            found: T = end.value
            return found

    def carry_out_all(self, requests: Sequence[Steps[Any]]) -> list[CallOutcome]:
        """Carry out operations of several callers in this thread. Those that ask for the same kind of thing
        share a transaction. No other thread waits for it in `_run`, or is waited for."""
        found: list[CallOutcome | None] = [None] * len(requests)
        calls: dict[int, StoreCall] = {}

        def step(n: int, go_on: Callable[[], StoreCall]) -> None:
            try:
                calls[n] = go_on()
            except StopIteration as end:
                found[n] = CallOutcome(end.value)
            except Exception as error:
                found[n] = CallOutcome(None, error)

        for n, steps in enumerate(requests):
            step(n, partial(next, steps))
        while calls:
            asked, calls = calls, {}
            for (n, call), outcome in zip(asked.items(), self._ask_all(list(asked.values())), strict=True):
                answered = outcome_of(call.alone) if outcome is None else outcome
                if answered.error is None:
                    step(n, partial(requests[n].send, answered.value))
                else:
                    step(n, partial(requests[n].throw, answered.error))
        return [each for each in found if each is not None]

    def line_of(self, operation: str) -> str:
        """The name of the line in which requests of an operation wait for those that they share with."""
        line = RENEW if operation == "inbox" else operation
        return line if line == RENEW or not self._one_line else ""

    def _ask_all(self, calls: Sequence[StoreCall]) -> Sequence[CallOutcome | None]:
        """The answer to each, in groups; None for each that has to ask by itself."""
        if self._pid != os.getpid():
            self._forget_parent()
        keys = {call.request.key for call in calls if call.request is not None}
        with self._lock:
            mine = keys - self._keys
            self._keys |= mine
        own = set(mine)
        try:
            groups: dict[Hashable, list[int]] = {}
            for n, call in enumerate(calls):
                if call.request is not None and call.request.key not in mine:
                    continue  # the store lets one of them pass
                if call.request is not None:
                    mine.discard(call.request.key)
                groups.setdefault(self._group_of(n, call), []).append(n)
            found: list[CallOutcome | None] = [None] * len(calls)
            for group in groups.values():
                for part in _portions(group, calls):
                    for n, outcome in zip(part, self._outcomes([calls[n] for n in part]), strict=True):
                        found[n] = outcome
            return found
        finally:
            with self._lock:
                self._keys -= own

    # -- groups -----------------------------------------------------------------------------------

    def _run(self, call: StoreCall) -> Any:
        request = call.request
        # A thread that holds locks must not wait for another one.
        if threading.get_ident() == self._main or self._store.in_transaction:
            if request is not None:
                self._check_new(request)
            return call.alone()
        if self._pid != os.getpid():
            self._forget_parent()
        if request is None:
            return self._run_once(call)
        with self._lock:
            is_under_way = request.key in self._keys
            self._keys.add(request.key)
        if is_under_way:  # the store lets one of them pass
            return call.alone()
        try:
            return self._run_once(call)
        finally:
            with self._lock:
                self._keys.discard(request.key)

    def _run_once(self, call: StoreCall) -> Any:
        line_of = None if self._one_line else call.kind
        if line_of is None and not self._one_line:
            self._check_new(call.request)
            return call.alone()
        leads = False
        try:
            with self._lock:
                line = self._lines.get(line_of)
                if line is None:
                    line = self._lines[line_of] = self._idle.pop() if self._idle else _GroupQueue()
                    line.under_way, line.renewed, leads = 1, call.kind == RENEW, True
            if leads:
                if call.request is not None:
                    self._check_new(call.request)
                return call.alone()
        finally:
            if leads:
                self._leave(line_of)
        member = _Member(call)
        try:
            with self._lock:  # the other one may have ended meanwhile
                line = self._lines.get(line_of)
                if line is None:
                    line = self._lines[line_of] = _GroupQueue()
                line.waiting.append(member)
                if not line.under_way:
                    line.under_way = 1
                    self._hand_over(line)
            return self._in_group(line_of, line, member)
        finally:
            if member.leads:
                member.leads = False
                self._leave(line_of)

    def _forget_parent(self) -> None:
        """In a forked child: the threads of the parent's requests are not here."""
        self._pid, self._lock, self._main = os.getpid(), threading.Lock(), threading.main_thread().ident
        self._lines, self._keys, self._idle = {}, set(), []

    def _in_group(self, line_of: Hashable, line: _GroupQueue, member: _Member) -> Any:
        """The answer of a request that waits: its thread leads the group, or another one does."""
        try:
            self._wait(line, member)
        except BaseException:  # a signal in this thread
            with self._lock:
                if member in line.waiting:
                    line.waiting.remove(member)
            if member.group is not None:  # the others run by themselves
                self._settle(member.group, [None] * len(member.group))
            raise
        if member.group is not None:
            self._lead(line_of, member)
        if member.is_alone:
            return member.call.alone()
        assert member.outcome is not None
        if member.outcome.error is not None:
            raise member.outcome.error
        return member.outcome.value

    def _wait(self, line: _GroupQueue, member: _Member) -> None:
        """Wait until this request is answered or has to act. Where the group under way is slow, begin another
        one beside it."""
        patience_s = SLOW_S if self.groups_max > 1 else -1
        while not member.turn.acquire(timeout=patience_s):
            with self._lock:
                if member in line.waiting and line.under_way < self.groups_max:
                    line.under_way += 1
                    self._hand_over(line)

    def _hand_over(self, line: _GroupQueue) -> None:
        """Let the first of the next group lead it. The lock is held."""
        group = line.take()
        group[0].group, group[0].leads = group, True
        group[0].wake()

    def _leave(self, line_of: Hashable) -> None:
        """A group has ended: the next one begins."""
        with self._lock:
            line = self._lines[line_of]
            if line.waiting:
                self._hand_over(line)
                return
            line.under_way -= 1
            if not line.under_way:
                del self._lines[line_of]
                if not self._idle:
                    self._idle.append(line)

    def _lead(self, line_of: Hashable, member: _Member) -> None:
        assert member.group is not None
        group = member.group
        found: Sequence[CallOutcome | None] = [CallOutcome(None, _interrupted())] * len(group)
        try:
            found = self._outcomes([each.call for each in group])
        finally:
            member.leads = False
            self._leave(line_of)
            self._settle(group, found)

    def _settle(self, group: Sequence[_Member], outcomes: Sequence[CallOutcome | None]) -> None:
        """Wake the members of a group; who has no outcome runs by itself."""
        for member, outcome in zip(group, outcomes, strict=True):
            member.outcome, member.is_alone = outcome, outcome is None
            if member.group is None:
                member.wake()

    def _outcomes(self, group: Sequence[StoreCall]) -> Sequence[CallOutcome | None]:
        """The answer of each member; None if it has to run by itself."""
        found: dict[int, CallOutcome | None] = {}
        try:
            keys = [m.request for m in group if m.request is not None]
            kept = self._store.access.kept_keys([r.key for r in keys]) if keys else ()
        except Exception as error:
            return [CallOutcome(None, error)] * len(group)
        fresh = [n for n, m in enumerate(group) if m.request is None or m.request.key not in kept]
        members = [group[n] for n in fresh]
        if len(members) == 1 and len(group) > 1:
            return [None if n in fresh else CallOutcome(None, _repeated()) for n in range(len(group))]
        found |= dict(zip(fresh, self._carry_out(members), strict=True)) if members else {}
        return [found[n] if n in found else CallOutcome(None, _repeated()) for n in range(len(group))]

    def _carry_out(self, calls: Sequence[StoreCall]) -> Sequence[CallOutcome | None]:
        if len(calls) == 1:
            return [None]
        if not self._one_line:
            return self._ask(calls)
        pieces: dict[Hashable, list[int]] = {}
        for n, call in enumerate(calls):
            pieces.setdefault(n if call.kind is None else self._line_of(call.kind), []).append(n)
        works = [partial(self._ask, [calls[n] for n in piece]) for piece in pieces.values()]
        found: list[CallOutcome | None] = [None] * len(calls)
        outcomes = _certainly(lambda: self._store.together(works), len(works))
        for piece, outcome in zip(pieces.values(), outcomes, strict=True):
            if outcome is None:  # nothing was committed
                continue
            each = [outcome] * len(piece) if outcome.error is not None else outcome.value
            for n, own in zip(piece, each, strict=True):
                found[n] = own
        return found

    def _ask(self, calls: Sequence[StoreCall]) -> Sequence[CallOutcome | None]:
        """The answers to calls of one line, as one call of the store."""
        if len(calls) == 1:
            return [outcome_of(calls[0].alone)]
        kind, asked = calls[0].kind, [call.asked for call in calls]
        if kind == RENEW:
            return self._all_alike(lambda: self._store.renew([r for each in asked for r in each]), len(calls))
        if kind == WORKERS:
            return self._all_alike(lambda: self._store.see_workers(asked), len(calls))
        return self._claim_all(calls) if isinstance(kind, tuple) else self._write_all(asked)

    def _all_alike(self, work: Callable[[], Any], count: int) -> Sequence[CallOutcome | None]:
        return _certainly(lambda: [CallOutcome(work())] * count, count)

    def _group_of(self, n: int, call: StoreCall) -> Hashable:
        if self._one_line:
            return call.kind == RENEW
        return n if call.kind is None else self._line_of(call.kind)

    def _line_of(self, kind: Hashable) -> Hashable:
        """The calls that one call of the store can answer: of one kind, or all claims."""
        return CLAIMS if isinstance(kind, tuple) else kind

    def _check_new(self, request: RepeatableRequest | None) -> None:
        """Raise `Repeated` if the answer to a request is kept already."""
        if request is not None and self._store.access.answered(request) is not None:
            raise _repeated()

    # -- transactions of the rules ------------------------------------------------------------------

    def _write(self, write: Write) -> LedgerChanges:
        tickets = self._store.tickets(write.tickets) if write.tickets else ()
        return self._store.transact(write.load, lambda ids: write.build(ids, tickets), write.note)

    def _write_all(self, writes: Sequence[Write]) -> Sequence[CallOutcome | None]:
        """One transaction for all of these; each gets its part of the decision."""
        ends: list[int] = []

        def build(ids: Sequence[ItemId]) -> Sequence[Command]:
            commands: list[Command] = []
            ends.clear()
            given, ticketed = 0, 0
            for write in writes:
                more, last = given + write.load.arrivals, ticketed + write.tickets
                commands += write.build(ids[given:more], tickets[ticketed:last])
                given, ticketed = more, last
                ends.append(len(commands))
            return commands

        def parts(decision: LedgerChanges) -> list[LedgerChanges]:
            begins = [0, *ends[:-1]]
            return [
                LedgerChanges(answers=decision.answers[begin:end], after=decision.after)
                for begin, end in zip(begins, ends, strict=True)
            ]

        def note(decision: LedgerChanges) -> list[tuple[RepeatableRequest, str]]:
            return [
                kept
                for write, part in zip(writes, parts(decision), strict=True)
                if write.note is not None
                for kept in write.note(part)
            ]

        def work() -> Sequence[CallOutcome]:
            decision = self._store.transact(_merged(writes), build, note if is_noted else None)
            try:
                sweeper.move_due_tasks(self._store, decision)
            except Exception as error:  # what was decided is committed
                return [CallOutcome(None, error)] * len(writes)
            return [CallOutcome(part) for part in parts(decision)]

        is_noted = any(write.note is not None for write in writes)
        tickets: Sequence[int] = ()
        try:
            # Behind the requests' arrival and before the transaction, in their order.
            if count := sum(write.tickets for write in writes):
                tickets = self._store.tickets(count)
        except Exception as error:
            return [CallOutcome(None, error)] * len(writes)
        return _certainly(work, len(writes))

    # -- claims -------------------------------------------------------------------------------------

    def _claim(self, claim: Claim, note: Note | None) -> ClaimAnswer:
        answer = self._store.claim(claim, due_first=True, note=note)
        if answer.due:
            sweeper.move_due(self._store, sweeper.Swept())
            answer = self._store.claim(claim, due_first=False, note=note)
        return answer

    def _claim_all(self, calls: Sequence[StoreCall]) -> Sequence[CallOutcome | None]:
        """Claim for all at once: those that ask for the same are one claim, whose items are dealt out in
        order. Those who get nothing claim again, until a claim finds nothing: so each gets what it would have
        got by itself."""
        found: list[CallOutcome | None] = [None] * len(calls)
        left: dict[Hashable, list[int]] = {}
        for n, call in enumerate(calls):
            left.setdefault(call.kind, []).append(n)
        while left:
            wishes = [_Wish([calls[n].asked for n in members]) for members in left.values()]
            empty: dict[Hashable, list[int]] = {}
            for (kind, members), wish, outcome in zip(
                left.items(), wishes, self._claim_wishes(wishes), strict=True
            ):
                if outcome is None or outcome.error is not None:
                    for n in members:
                        found[n] = outcome
                    continue
                answer: ClaimAnswer = outcome.value
                for n, share in zip(members, wish.shares(answer.claimed), strict=True):
                    found[n] = CallOutcome(ClaimAnswer(share, answer.agent))
                    if not share and answer.claimed:
                        empty.setdefault(kind, []).append(n)
            left = empty
        return found

    def _claim_wishes(self, wishes: Sequence[_Wish]) -> Sequence[CallOutcome | None]:
        """The answer to each wish. In one transaction, except for those that need more than one look."""
        answers: Sequence[ClaimAnswer | None] = [None] * len(wishes)
        if len(wishes) > 1:
            try:
                answers = self._store.claim_each([(wish.claim, wish.note) for wish in wishes])
            except StoreUnavailable as error:  # it may be committed
                return [CallOutcome(None, error)] * len(wishes)
            except Exception:  # nothing was written
                answers = [None] * len(wishes)
        return [
            _certainly(lambda: [CallOutcome(self._claim(wish.claim, wish.note))], 1)[0]  # noqa: B023  (called here)
            if answer is None
            else CallOutcome(answer)
            for wish, answer in zip(wishes, answers, strict=True)
        ]


class _Wish:
    """What several requests ask for that is the same: one claim."""

    def __init__(self, asked: Sequence[tuple[Claim, Note | None]]) -> None:
        self._limits = [claim.limit for claim, _ in asked]
        self._notes = [note for _, note in asked]
        self.claim = replace(asked[0][0], limit=sum(self._limits))

    @property
    def note(self) -> Note | None:
        return self._note if any(note is not None for note in self._notes) else None

    def _note(self, claimed: Sequence[ClaimedItem]) -> list[tuple[RepeatableRequest, str]]:
        return [
            kept
            for keep, share in zip(self._notes, self.shares(claimed), strict=True)
            if share and keep is not None
            for kept in keep(share)
        ]

    def shares(self, claimed: Sequence[ClaimedItem]) -> list[list[ClaimedItem]]:
        """Items for each, up to its limit, in order."""
        shares, begin = [], 0
        for limit in self._limits:
            shares.append(list(claimed[begin : begin + limit]))
            begin += limit
        return shares


def _merged(writes: Sequence[Write]) -> Load:
    """What all of these lock and read."""
    loads = [write.load for write in writes]
    return Load(
        items=tuple(sorted({item for load in loads for item in load.items})),
        lanes=tuple(sorted({lane for load in loads for lane in load.lanes})),
        names=tuple(sorted({name for load in loads for name in load.names})),
        keys=tuple(key for load in loads for key in load.keys),
        runs=tuple(run for load in loads for run in load.runs),
        arrivals=sum(load.arrivals for load in loads),
        limited_agents=tuple({agent for load in loads for agent in load.limited_agents}),
    )


def _certainly(work: Callable[[], Sequence[CallOutcome]], count: int) -> Sequence[CallOutcome | None]:
    """The outcomes of work on a group. None for each if it was certainly rolled back: each runs by itself."""
    try:
        return work()
    except StoreUnavailable as error:  # it may be committed
        return [CallOutcome(None, error)] * count
    except Exception:
        return [None] * count


def _portions(group: Sequence[int], calls: Sequence[StoreCall]) -> list[list[int]]:
    """A group in portions within the limits."""
    portions: list[list[int]] = [[]]
    parts = 0
    for n in group:
        more = calls[n].parts()
        if portions[-1] and (len(portions[-1]) >= GROUP_MAX or parts + more > PARTS_MAX):
            portions.append([])
            parts = 0
        portions[-1].append(n)
        parts += more
    return portions


def text_parts(*texts: str | None) -> int:
    """The parts that texts count as."""
    return sum(len(text) for text in texts if text) // PART_CHARS


def _repeated() -> Repeated:
    return Repeated("The request was carried out already.", "Its answer is kept for a day.")


def _interrupted() -> StoreUnavailable:
    return StoreUnavailable(
        "The transaction that this request shared was interrupted.",
        "Look at the item, or send the request again.",
    )

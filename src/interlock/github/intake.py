"""Turns webhook deliveries into work: stores a delivery, reads its number again, decides, and carries it out.

1. `keep` only stores a delivery, by its id.
2. `decide` reads the number again. In one transaction it writes the new revision and its orders
   (`desired_work`, `wake_rules`). If two processes decide at once, the second reads again.
   `runsync` links pull requests to runs and reads their checks.
3. The orders are carried out (`order_executor`).

Each step is its own transaction and may be repeated. `sweep` continues where a step stopped. Without a
token, the delivery's own data is used, and a delivery older than the known facts is skipped.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from interlock.core.errors import (
    GitHubLimited,
    GitHubRefused,
    GitHubUnavailable,
    InterlockError,
    InvalidInput,
)
from interlock.core.model import A_PERSON, ANOTHER_SYSTEM, Sender
from interlock.core.record import Record, replace
from interlock.github import check_events, remark_intake, withdrawal
from interlock.github import facts as facts_of
from interlock.github.check_events import EndedCheck
from interlock.github.delivery import Delivery, check_event, part_of, read
from interlock.github.desired_work import (
    EventDetail,
    lanes_shown,
    orders_for,
    sent_by,
    wanted,
    wanted_from_json,
    wanted_to_json,
)
from interlock.github.effects import LANE_CONTEXT, IssueRef
from interlock.github.facts import NumberFacts, NumberState, from_answer
from interlock.github.lookup import MissingNumber, Reader
from interlock.github.order_executor import TRIES_MAX, OrderExecutor, OrderOutcome, back_off_s
from interlock.github.orders import (
    PARENT,
    AddItems,
    ItemLocation,
    failing,
    item_location,
    numbered,
    orders_of,
)
from interlock.github.remark_intake import RemarkIntake
from interlock.github.remarks import from_answer as remark_in
from interlock.github.remarks import marks
from interlock.github.rules import CHECKS, RuleAction, Rules, default_rules
from interlock.github.runsync import RunSync
from interlock.github.status_publisher import StatusPublisher
from interlock.service.contract import Service
from interlock.settings import TypeDefaults
from interlock.store.github import (
    DisplayOptions,
    GitHubStore,
    KnownNumber,
    KnownRepository,
    StoredDelivery,
)
from interlock.store.port import Store

if TYPE_CHECKING:
    from interlock.github.traces import Traces

#: The most deliveries, and the most numbers, that one sweep handles.
SWEEP_MAX = 100
#: How many deliveries are decided on before their orders are carried out. They share a transaction. Where a
#: store is written by one at a time, others wait for all of them.
SHARE_MAX = 8
#: How many races with other processes a delivery may lose before it waits.
_RACES_MAX = 10
#: Reads may lag behind events. An answer older than its event is read again this often, after this wait.
_LAGS_MAX, _LAG_S = 4, 2.0
#: The head of a pull request in a payload that has it in the form of an issue.
_UNSAID = {"sha": "", "ref": ""}
#: Events that may unblock other issues without a delivery for those. The first has no action: a read found
#: the issue changed.
_FREES = ("issues", "issues.closed", "issues.reopened", "issues.deleted", "issues.transferred")
#: The events that close a number.
_CLOSES = ("issues.closed", "pull_request.closed")
#: How a number leaves its repository, by action.
_LEAVES = {"deleted": NumberState.DELETED, "transferred": NumberState.TRANSFERRED}


class Ingested(Record):
    """The result of a delivery."""

    delivery: str
    #: `decided`, `repeated` if it was delivered before, or `put_off`.
    status: str
    #: The decision, or why the delivery waits.
    outcome: str
    #: The orders that were carried out.
    done: tuple[OrderOutcome, ...] = ()


class _Looked(Record):
    """A number after it was read. Its facts are None if it is unknown."""

    repository: KnownRepository
    number: int
    facts: NumberFacts | None
    #: What has changed, in words.
    changed: str = ""

    @property
    def words(self) -> str:
        unchanged = ": no change" if self.facts is not None else ": unknown"
        return f"#{self.number}{self.changed or unchanged}"

    @property
    def place(self) -> ItemLocation:
        return item_location(self.repository, self.number)


class _Decided(Record):
    """A decision in words, and the numbers that may have new orders."""

    words: str
    numbers: tuple[int, ...] = ()


class _DecidedDelivery(Record):
    """What became of a delivery, and the numbers that may have new orders."""

    ingested: Ingested
    numbers: tuple[tuple[int, int], ...] = ()


class IntakeSweep(Record):
    """The result of a sweep."""

    decided: int
    put_off: int
    carried_out: int


class Intake:
    """Processes deliveries for one store. Without a reader, the data in deliveries is trusted."""

    def __init__(
        self,
        service: Service,
        store: Store,
        reader: Reader | None,
        *,
        types: Mapping[str, TypeDefaults] | None = None,
        traces: Traces | None = None,
    ) -> None:
        self._service, self._store, self._reader, self._traces = service, store, reader, traces
        #: Called with each postponed delivery, its event and the reason; not if it is retried soon.
        self.on_postponed: Callable[[str, str, str], None] = lambda *_: None
        self._executor = OrderExecutor(service, store, types or {})
        self._remark_intake = RemarkIntake(service, store.github, reader)
        self._publisher = StatusPublisher(service, store)
        self._sync = RunSync(store, reader, merged=traces.merged if traces is not None else None)

    @property
    def _github(self) -> GitHubStore:
        return self._store.github

    # The steps

    def ingest(self, event: str, delivery: str, body: bytes) -> Ingested:
        """Store a delivery, decide on it, and carry out the orders."""
        if not self.keep(event, delivery, body):
            return Ingested(delivery=delivery, status="repeated", outcome="It was delivered before.")
        return self.decide(delivery)

    def keep(self, event: str, delivery: str, body: bytes) -> bool:
        """Store a delivery; false if it was delivered before. Nothing is decided."""
        known = read(event, delivery, body)
        check_event(known)
        text = body.decode(json.detect_encoding(body))
        number = known.numbers[0] if known.numbers else None
        return self._github.keep_delivery(delivery, event, known.repository, number, text)

    def decide(self, delivery: str) -> Ingested:
        """Decide on a stored delivery, and carry out the orders."""
        decided = self._decide(delivery)
        return replace(decided.ingested, done=tuple(self._executor.carry_out_all(decided.numbers)))

    def _decide(self, delivery: str) -> _DecidedDelivery:
        """Decide on a stored delivery; its orders are still to be carried out."""
        kept = self._github.delivery(delivery)
        if kept is None:
            told = Ingested(delivery=delivery, status="repeated", outcome="It was decided before.")
            return _DecidedDelivery(ingested=told)
        if self._traces is None:
            return self._decide_kept(kept)
        begun_us, token = time.time_ns() // 1000, PARENT.set(self._traces.parent(delivery))
        try:
            found = self._decide_kept(kept)
        finally:
            PARENT.reset(token)
        self._traces.decided(delivery, kept.event, begun_us, found.ingested.status, found.ingested.outcome)
        return found

    def _decide_kept(self, kept: StoredDelivery) -> _DecidedDelivery:
        delivery = kept.id
        try:
            known = read(kept.event, kept.id, kept.body.encode(errors="replace"))
            decided = self._decided(known, kept.tries)
        except (GitHubLimited, GitHubRefused, GitHubUnavailable, InvalidInput, _Again) as error:
            return _DecidedDelivery(ingested=self._put_off(kept, error))
        except (LookupError, TypeError, AttributeError, ValueError) as error:
            why = InvalidInput(f"The delivery cannot be read: {type(error).__name__}: {error}.")
            return _DecidedDelivery(ingested=self._put_off(kept, why))
        self._github.decide_delivery(delivery, decided.words)
        found = Ingested(delivery=delivery, status="decided", outcome=decided.words)
        repository = known.repository
        numbers = () if repository is None else tuple((repository, number) for number in decided.numbers)
        return _DecidedDelivery(ingested=found, numbers=numbers)

    def sweep(self, limit: int = SWEEP_MAX, *, again: bool = False) -> IntakeSweep:
        """Decide on pending deliveries, and carry out due orders. Several processes may sweep at once.

        With `again`, entries that wait for a person are made due first.
        """
        if again:
            self._github.try_again(limit)
        found, done = self._decide_all(self._github.due_deliveries(limit))
        withdrawal.withdraw(self._store)
        for repository, number in self._github.due_numbers(limit):
            done += self._executor.carry_out(repository, number)
        self._publisher.enqueue()
        return IntakeSweep(
            decided=sum(each.status == "decided" for each in found),
            put_off=sum(each.status == "put_off" for each in found) + sum(each.put_off for each in done),
            carried_out=sum(not each.put_off for each in done),
        )

    def _decide_all(self, deliveries: Sequence[str]) -> tuple[list[Ingested], list[OrderOutcome]]:
        """Decide on deliveries, and carry out their orders. Some share a commit, and their arrivals a
        transaction, unless GitHub is asked: no store waits for that."""
        found: list[Ingested] = []
        done: list[OrderOutcome] = []
        at_once = SHARE_MAX if self._reader is None else 1
        for first in range(0, len(deliveries), at_once):
            some = deliveries[first : first + at_once]
            numbers: dict[tuple[int, int], None] = {}
            for decided in self._decide_some(some):
                found.append(decided.ingested)
                numbers |= dict.fromkeys(decided.numbers)
            done += self._carry_out_all(numbers)
        return found, done

    def _carry_out_all(self, numbers: Collection[tuple[int, int]]) -> list[OrderOutcome]:
        work = partial(self._executor.carry_out_all, numbers)
        if self._reader is not None:
            return work()
        (outcome,) = self._store.together([work])
        if outcome.error is not None:
            raise outcome.error
        done: list[OrderOutcome] = outcome.value
        return done

    def _decide_some(self, deliveries: Sequence[str]) -> list[_DecidedDelivery]:
        if len(deliveries) == 1:
            return [self._decide(deliveries[0])]
        outcomes = self._store.together([partial(self._decide, each) for each in deliveries])
        for outcome in outcomes:
            if outcome.error is not None:
                raise outcome.error
        return [outcome.value for outcome in outcomes]

    def sweep_all(self) -> IntakeSweep:
        """Sweep until nothing is left; gives the result of all sweeps."""
        done = last = self.sweep()
        while last.decided >= SWEEP_MAX:
            last = self.sweep()
            done = IntakeSweep(
                **{name: getattr(done, name) + getattr(last, name) for name in IntakeSweep.PARTS}
            )
        return done

    def _put_off(self, kept: StoredDelivery, error: InterlockError) -> Ingested:
        wait_s = error.wait_s if isinstance(error, GitHubLimited | _Again) else back_off_s(kept.tries)
        last = kept.tries + 1 >= TRIES_MAX and not isinstance(error, GitHubLimited)
        self._github.put_off_delivery(kept.id, None if last else wait_s, error.sentence)
        if last or not isinstance(error, _Again):
            self.on_postponed(kept.id, kept.event, error.sentence)
        return Ingested(delivery=kept.id, status="put_off", outcome=str(error))

    # Deciding

    def _decided(self, delivery: Delivery, tries: int) -> _Decided:
        if delivery.repository is None or not delivery.name:
            return _Decided(words="The payload contains no repository.")
        repository = self._repository(delivery)
        if not delivery.numbers and delivery.checked is None:
            return _Decided(words="The payload contains no issue or pull request.")
        if self._is_ours(delivery):
            return _Decided(words="Interlock's own status or comment.")
        rules = self._rules(repository)
        numbers = list(delivery.numbers)
        if self._reader is not None and numbers and delivery.kind in _FREES:
            numbers += self._freed(repository, delivery)
        if self._reader is not None and delivery.checked is not None and not numbers:
            numbers += self._reader.pulls_of(repository.name, delivery.checked)
        looked = [self._look(repository, number, rules, delivery, tries) for number in numbers]
        words = [each.words for each in looked]
        for each in looked:
            if each.facts is not None and delivery.event in remark_intake.PARTS:
                words.append(self._remark_intake.take_in(delivery, each.facts, rules, each.place))
        told = delivery.kind in CHECKS or not looked
        run = self._workflow_run(repository, delivery) if told else None
        words += self._synced(repository, run, looked)
        for each in looked:
            if each.changed and each.facts is not None and each.facts.pull and each.facts.open:
                self._recover(repository, each.number, each.place, None, each.facts)
        if delivery.kind in CHECKS:
            check = check_events.check_in(delivery, run)
            checked = self._checked(repository, rules, check, run, looked)
            words.append(checked.words)
            numbers += checked.numbers
        said = ", ".join(filter(None, words)) or f"Event '{delivery.kind}' creates no work."
        return _Decided(words=said, numbers=tuple(dict.fromkeys(numbers)))

    def _is_ours(self, delivery: Delivery) -> bool:
        """Whether the delivery is about Interlock's own status or comment, so that nothing is read."""
        if delivery.event == "status":
            return delivery.payload.get("context") == LANE_CONTEXT
        said = delivery.payload.get("comment")
        if self._reader is None or delivery.event != "issue_comment" or not isinstance(said, dict):
            return False
        if "id" not in said or "sticky" not in marks(str(said.get("body") or "")):
            return False
        remark = remark_in(delivery.event, delivery.numbers[0], said)
        return remark.author in self._reader.own(remark, said)

    def look(self, repository: KnownRepository, number: int) -> tuple[OrderOutcome, ...]:
        """Read a number without a delivery, and carry out the orders."""
        where = {"id": repository.id, "full_name": repository.name}
        delivery = read("issues", "look", json.dumps({"repository": where}).encode())
        self._look(repository, number, self._rules(repository), delivery, 0)
        return tuple(self._executor.carry_out(repository.id, number))

    def _freed(self, repository: KnownRepository, delivery: Delivery) -> list[int]:
        """Issues of the repository that the delivery's issue blocks, or no longer blocks."""
        assert self._reader is not None
        number = delivery.numbers[0]
        told = part_of(delivery, number) or {}
        parent = str(told.get("parent_issue_url") or "").rsplit("/", 4)
        here = len(parent) == 5 and "/".join(parent[1:3]).lower() == repository.name.lower()
        parents = [int(parent[4])] if here and parent[4].isdecimal() else []
        summary = told.get("issue_dependencies_summary") or {}
        blocks = delivery.action or summary.get("total_blocking")
        return [*(self._reader.blocked_by(repository.name, number) if blocks else ()), *parents]

    def _rules(self, repository: KnownRepository) -> Rules:
        """The rules of a repository. Their display settings are stored for the outbox relay."""
        if self._reader is None:
            return default_rules()
        rules = self._reader.rules(repository.name)
        choices = DisplayOptions(rules.progress_comments, rules.lane_status)
        if self._github.choices(repository.id) != choices:
            self._github.choose(repository.id, choices)
        return rules

    def _workflow_run(self, repository: KnownRepository, delivery: Delivery) -> Mapping[str, Any] | None:
        """The current state of a delivery's workflow run: it may run again, or be deleted."""
        run: Mapping[str, Any] | None = delivery.payload.get("workflow_run")
        if delivery.event != "workflow_run" or run is None or self._reader is None:
            return run
        try:
            return self._reader.workflow_run(repository.name, run["id"])
        except GitHubRefused as refused:
            if refused.status != 403:
                raise
            return run  # no permission: the delivery's own data is used

    def _synced(
        self, repository: KnownRepository, run: Mapping[str, Any] | None, looked: Sequence[_Looked]
    ) -> list[str]:
        """Link pull requests to runs and read their checks. Without a pull request, link the commit."""
        pulls = [each for each in looked if each.facts is not None and each.facts.pull]
        words = [self._sync.look(each.repository, each.number) for each in pulls]
        if not looked and run is not None and run.get("event") in check_events.CHECKING:
            words.append(self._sync.look_at_commit(repository, run))
        return words

    def look_again(self, repository: KnownRepository, number: int, commit_id: str) -> None:
        """Read a pull request or a commit of a run again, to find changes without a delivery."""
        self._sync.look_again(repository, number, commit_id)

    def _checked(
        self,
        repository: KnownRepository,
        rules: Rules,
        check: EndedCheck | None,
        run: Mapping[str, Any] | None,
        looked: list[_Looked],
    ) -> _Decided:
        """Write the orders that follow from a finished check."""
        if check is None:
            return _Decided(words="no finished check")
        if not looked:
            return self._branch_checked(repository, rules, check, run)
        current = [each for each in looked if each.facts is not None and each.facts.head == check.sha]
        for each in current:
            if each.facts is not None and each.facts.open:
                self._recover(repository, each.number, each.place, check, each.facts)
                told = self._with_log(check, each.facts, rules, run)
                rows = check_events.orders_of(told, each.facts, rules, each.place)
                self._github.add(repository.id, each.facts.number, rows)
        words = check.words if current else f"{check.words} on an outdated commit"
        return _Decided(words=words, numbers=tuple(each.number for each in looked))

    def _with_log(
        self, check: EndedCheck, facts: NumberFacts, rules: Rules, run: Mapping[str, Any] | None
    ) -> EndedCheck:
        """The check, with its failed job and the end of the log if it creates work."""
        if self._reader is None or run is None or not check.failed:
            return check
        rule = check_events.rule_for(check, facts, rules)
        if rule is None or rule.does is not RuleAction.CREATE:
            return check
        return replace(check, job=self._reader.ci.failed_job(facts.name, run))

    def _branch_checked(
        self, repository: KnownRepository, rules: Rules, check: EndedCheck, run: Mapping[str, Any] | None
    ) -> _Decided:
        """Decide on a check of a commit that is in no open pull request."""
        facts = check_events.of_branch(repository.id, repository.name, check)
        place = check_events.branch_place(item_location(repository, 0), check.branch)
        row = KnownNumber(repository.id, 0, 1, json.dumps(facts_of.to_json(facts)), "[]")
        self._github.advance(row, [])  # once: the row only carries orders
        self._recover(repository, 0, place, check, None)
        told = self._with_log(check, facts, rules, run)
        self._github.add(repository.id, 0, check_events.orders_of(told, facts, rules, place))
        return _Decided(words=f"{check.words} on {check.branch}", numbers=(0,))

    def _recover(
        self,
        repository: KnownRepository,
        number: int,
        place: ItemLocation,
        check: EndedCheck | None,
        facts: NumberFacts | None,
    ) -> None:
        """Withdraw work for recovered failures."""
        was = failing(orders_of(self._github, IssueRef(repository.id, number)), place.lane)
        rows = check_events.recovery_orders(was, place, check=check, facts=facts) if was else []
        if rows:
            self._github.add(repository.id, number, rows)

    def _repository(self, delivery: Delivery) -> KnownRepository:
        """The repository by its id. A late delivery may have an old name, which another may have now."""
        assert delivery.repository is not None
        if self._reader is not None:
            known = self._github.repository_named(delivery.name)
            if known is None or known.id != delivery.repository:
                name = self._reader.name_of(delivery.repository, delivery.name)
                seen = self._github.repositories(delivery.repository - 1, 1)
                if name is None and seen and seen[0].id == delivery.repository:
                    return seen[0]
                return self._github.repository(delivery.repository, name or delivery.name)
        seen = self._github.repositories(delivery.repository - 1, 1)
        if seen and seen[0].id == delivery.repository and delivery.event != "repository":
            return seen[0]  # an old delivery must not bring back an old name
        return self._github.repository(delivery.repository, delivery.name)

    def _look(
        self, repository: KnownRepository, number: int, rules: Rules, delivery: Delivery, tries: int
    ) -> _Looked:
        """Read a number, and write its new revision with the orders that follow."""
        for _ in range(_RACES_MAX):
            known = self._github.known(repository.id, number)  # before the read, so that another writer wins
            before = facts_of.from_json(json.loads(known.facts)) if known else None
            after = self._facts(repository, number, before, delivery, tries)
            if after is None:
                return _Looked(repository=repository, number=number, facts=before)
            if not rules.sub_issues_block:
                after = replace(after, sub_issues=())
            if after.name != repository.name:
                repository = self._github.repository(repository.id, after.name)
            paths = self._reader.wanted_paths(after, rules) if self._reader else ()
            now = {} if _is_partial(after) else wanted(after, rules, paths)
            was = wanted_from_json(known.wanted) if known else {}
            text = wanted_to_json({key: each for key, (each, _) in now.items()})
            if known and after == before and text == known.wanted:
                return _Looked(repository=repository, number=number, facts=after)
            place, told = item_location(repository, number), EventDetail(delivery.action, _label(delivery))
            ending = delivery.kind in _CLOSES
            orders = orders_for(before, was, after, now, place, told=told, ending=ending)
            if any(isinstance(each, AddItems) for each in orders):
                sender = self._sender(delivery, repository, rules)
                orders = [sent_by(each, sender) for each in orders]
            revision = known.revision + 1 if known else 1
            rows = numbered(revision, orders)
            if self._reader is not None and rules.lane_status:
                shown = lanes_shown(before, after, place)
                rows += [] if shown is None else [shown.row(f"{revision}.show")]
            row = KnownNumber(repository.id, number, revision, json.dumps(facts_of.to_json(after)), text)
            closes = after.closes if after.open else ()
            if self._github.advance(row, rows, closes if after.pull else None):
                changed = f" {_became(after)}{'' if rows else ': no work'}"
                return _Looked(repository=repository, number=number, facts=after, changed=changed)
        raise _Again(f"Other processes keep changing #{number}.", _LAG_S)

    def _facts(
        self,
        repository: KnownRepository,
        number: int,
        before: NumberFacts | None,
        delivery: Delivery,
        tries: int,
    ) -> NumberFacts | None:
        """The current facts of a number; None if they are unknown, or the known ones are newer."""
        told = part_of(delivery, number)
        try:
            said = _said(repository, told, delivery) if told is not None else None
        except (LookupError, TypeError, AttributeError) as error:
            if self._reader is None:
                raise _unreadable(number, error) from None
            said = None  # GitHub is read anyway
        if self._reader is None:
            late = said is not None and before is not None and _is_late(said, before, delivery)
            partial = said is not None and before is not None and _is_partial(said)
            if late and before and said and _is_partial(before):
                return _completed(before, said)
            return None if late or partial else said
        last = before or said
        pull = last is not None and last.pull
        try:
            found = self._reader.facts(repository.id, repository.name, number, pull=pull)
        except GitHubRefused as refused:
            if refused.status != 404 or delivery.event != "issues" or delivery.action not in _LEAVES:
                raise
            found = MissingNumber(state=_LEAVES[delivery.action])
        if isinstance(found, MissingNumber):
            return replace(last, state=found.state) if last is not None else None
        # An issue and its pull request may have different times, so only equal forms are compared.
        whole = (each for each in (before, said) if each is not None and not _is_partial(each))
        newest = max((each.updated_at for each in whole), default="")
        if found.updated_at < newest and tries < _LAGS_MAX:
            raise _Again(f"GitHub's answer about #{number} is older than its event.", _LAG_S)
        return found

    def _sender(self, delivery: Delivery, repository: KnownRepository, rules: Rules) -> Sender:
        """A person with write access; any other sender counts as a system, which is never muted."""
        user = delivery.payload.get("sender")
        bot = not isinstance(user, dict) or user.get("type") != "User" or delivery.sender in rules.agents
        if bot or self._reader is None or not self._reader.may_write(repository.name, delivery.sender):
            return ANOTHER_SYSTEM
        return A_PERSON


class _Again(InterlockError):
    """Retried soon."""

    def __init__(self, sentence: str, wait_s: float) -> None:
        super().__init__(sentence, "It is retried soon.")
        self.wait_s = wait_s


def _unreadable(number: int, error: Exception) -> InvalidInput:
    what = (
        f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else f"a part is malformed ({error})"
    )
    return InvalidInput(
        f"The payload lacks data about #{number}: {what}. Without a token GitHub cannot be asked.",
        "Send it as GitHub does, or set GITHUB_TOKEN.",
    )


def _said(repository: KnownRepository, told: Mapping[str, Any], delivery: Delivery) -> NumberFacts:
    """The facts in a delivery."""
    if "pull_request" in told and "head" not in told:
        told = {**told, "head": _UNSAID, "base": _UNSAID}
    said = from_answer({"id": repository.id, "full_name": repository.name}, told)
    leaves = delivery.event == "issues" and delivery.action in _LEAVES
    return replace(said, state=_LEAVES[delivery.action]) if leaves else said


def _is_late(said: NumberFacts, before: NumberFacts, delivery: Delivery) -> bool:
    """Whether a delivery is older than the known facts. Within the same second, a closed number stays closed
    unless the delivery reopens it."""
    if said.updated_at != before.updated_at:
        return said.updated_at < before.updated_at
    return said.open and not before.open and delivery.action != "reopened"


def _label(delivery: Delivery) -> str:
    label = delivery.payload.get("label")
    return str(label.get("name") or "").lower() if isinstance(label, dict) else ""


def _is_partial(facts: NumberFacts) -> bool:
    """Whether the facts of a pull request came in an issue's form, which lacks most of them."""
    return facts.pull and not facts.head


def _completed(partial: NumberFacts, older: NumberFacts) -> NumberFacts:
    """Facts in the form of an issue, completed with those of the pull request."""
    parts = ("head", "branch", "base", "draft", "reviewers")
    return replace(partial, **{part: getattr(older, part) for part in parts})


def _became(facts: NumberFacts) -> str:
    match facts.state:
        case NumberState.OPEN:
            return "is open"
        case NumberState.COMPLETED:
            return "was closed"
        case NumberState.DROPPED:
            return "was closed without merging" if facts.pull else "was closed as not planned"
        case state:
            return f"was {state}"

"""What GitHub sends becomes work: kept first, decided by a fresh look at the number, then carried out.

1. `keep` stores a delivery by its id, and nothing else.
2. `decide` reads the number again and writes, in one transaction, what it has become and what follows from
   that (`interlock.github.wanted`, `interlock.github.heard`). Of two who decide at once, the second looks
   again.
   Pull requests are linked to runs and their checks read (`interlock.github.runsync`).
3. What follows is carried out (`interlock.github.carrying`).

Each step is its own transaction and may be repeated. `sweep` goes on where any of them stopped. Without a
token nothing can be read: then the facts in the delivery have to do, and an older one than known is passed
over.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
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
from interlock.github import check_events, hearing, leftovers
from interlock.github import facts as facts_of
from interlock.github.carrying import TRIES_MAX, Carrier, Done, backoff_s, orders_of
from interlock.github.check_events import Check
from interlock.github.delivery import Delivery, check_event, part_of, read
from interlock.github.effects import LANE_CONTEXT
from interlock.github.facts import Facts, State, from_answer
from interlock.github.hearing import Hearing
from interlock.github.orders import (
    PARENT,
    Place,
    Told,
    following,
    place_of,
    showing,
    wanted_from_json,
    wanted_to_json,
)
from interlock.github.reading import Gone, Reader
from interlock.github.remarks import from_answer as remark_in
from interlock.github.remarks import marks
from interlock.github.rules import CHECKS, Does, Rules, default_rules
from interlock.github.runsync import RunSync
from interlock.github.showing import Showing
from interlock.github.wanted import Create, consequences, wanted
from interlock.service.contract import Service
from interlock.settings import TypeDefaults
from interlock.store.github_port import Choices, GitHubStore, KeptDelivery, Known, Repository
from interlock.store.port import Store

if TYPE_CHECKING:
    from interlock.github.traces import Traces

#: How many deliveries, and how many numbers, one sweep looks at.
SWEEP_MAX = 100
#: How often somebody else may be first before a delivery waits.
_RACES_MAX = 10
#: Reads may lag behind events: how often, and how long, an answer that is older than its event is waited for.
_LAGS_MAX, _LAG_S = 4, 2.0
#: The head of a pull request in a payload that has it in the form of an issue.
_UNSAID = {"sha": "", "ref": ""}
#: When an issue changes whether others are blocked. Of those others, no delivery comes. The first has no
#: action: it is of a look that found it changed somehow.
_FREES = ("issues", "issues.closed", "issues.reopened", "issues.deleted", "issues.transferred")
#: What tells that a number was closed.
_CLOSES = ("issues.closed", "pull_request.closed")
#: How a number leaves its repository, by the action that says so.
_LEAVES = {"deleted": State.DELETED, "transferred": State.TRANSFERRED}


class Ingested(Record):
    """What became of a delivery."""

    delivery: str
    #: `decided`, `repeated` if it came before, or `put_off`.
    status: str
    #: In words: what it led to, or why it waits.
    outcome: str
    #: What was carried out.
    done: tuple[Done, ...] = ()


class _Looked(Record):
    """A number after a look. Its facts are None if nothing is known about it."""

    repository: Repository
    number: int
    facts: Facts | None
    #: What has changed, in words.
    changed: str = ""

    @property
    def words(self) -> str:
        return f"#{self.number} {self.changed or ('is as it was' if self.facts else 'is not known')}"

    @property
    def place(self) -> Place:
        return place_of(self.repository, self.number)


class _Decided(Record):
    """What was decided, in words, and the numbers for which something may follow."""

    words: str
    numbers: tuple[int, ...] = ()


class Swept(Record):
    """What a sweep did."""

    decided: int
    put_off: int
    carried_out: int


class Intake:
    """The way in for one store. Without a reader, what deliveries say is believed."""

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
        #: Hears of each delivery that is put off, its event and why; not if it is looked at again soon.
        self.left: Callable[[str, str, str], None] = lambda *_: None
        self._carrier = Carrier(service, store, types or {})
        self._hearing = Hearing(service, store.github, reader)
        self._showing = Showing(service, store)
        self._sync = RunSync(store, reader, merged=traces.merged if traces is not None else None)

    @property
    def _github(self) -> GitHubStore:
        return self._store.github

    # The steps

    def ingest(self, event: str, delivery: str, body: bytes) -> Ingested:
        """Keep a delivery, decide on it, and carry out what follows."""
        if not self.keep(event, delivery, body):
            return Ingested(delivery=delivery, status="repeated", outcome="It came before.")
        return self.decide(delivery)

    def keep(self, event: str, delivery: str, body: bytes) -> bool:
        """Store a delivery; false if it came before. Nothing is decided."""
        known = read(event, delivery, body)
        check_event(known)
        text = body.decode(json.detect_encoding(body))
        number = known.numbers[0] if known.numbers else None
        return self._github.keep_delivery(delivery, event, known.repository, number, text)

    def decide(self, delivery: str) -> Ingested:
        """Decide on a delivery that was kept, and carry out what follows."""
        kept = self._github.delivery(delivery)
        if kept is None:
            return Ingested(delivery=delivery, status="repeated", outcome="It was decided on before.")
        if self._traces is None:
            return self._decide(kept)
        begun_us, token = time.time_ns() // 1000, PARENT.set(self._traces.parent(delivery))
        try:
            found = self._decide(kept)
        finally:
            PARENT.reset(token)
        self._traces.decided(delivery, kept.event, begun_us, found.status, found.outcome)
        return found

    def _decide(self, kept: KeptDelivery) -> Ingested:
        delivery = kept.id
        try:
            known = read(kept.event, kept.id, kept.body.encode(errors="replace"))
            decided = self._decided(known, kept.tries)
        except (GitHubLimited, GitHubRefused, GitHubUnavailable, InvalidInput, _Again) as error:
            return self._put_off(kept, error)
        except (LookupError, TypeError, AttributeError, ValueError) as error:
            return self._put_off(kept, InvalidInput(f"It cannot be read: {type(error).__name__}: {error}."))
        self._github.decide_delivery(delivery, decided.words)
        done = self._carried_out(known.repository, decided.numbers)
        return Ingested(delivery=delivery, status="decided", outcome=decided.words, done=done)

    def sweep(self, limit: int = SWEEP_MAX, *, again: bool = False) -> Swept:
        """Decide on deliveries that were left, and carry out what is owed. Many may sweep at once.

        With `again`, what waits for a person is due first.
        """
        if again:
            self._github.try_again(limit)
        found = [self.decide(delivery) for delivery in self._github.due_deliveries(limit)]
        done = [each for ingested in found for each in ingested.done]
        leftovers.withdraw(self._store)
        for repository, number in self._github.owing(limit):
            done += self._carrier.carry_out(repository, number)
        self._showing.owe()
        return Swept(
            decided=sum(each.status == "decided" for each in found),
            put_off=sum(each.status == "put_off" for each in found) + sum(each.put_off for each in done),
            carried_out=sum(not each.put_off for each in done),
        )

    def sweep_all(self) -> Swept:
        """Sweep as long as there is more than one sweep takes; gives what all of them did."""
        done = last = self.sweep()
        while last.decided >= SWEEP_MAX:
            last = self.sweep()
            done = Swept(**{name: getattr(done, name) + getattr(last, name) for name in Swept.PARTS})
        return done

    def _carried_out(self, repository: int | None, numbers: tuple[int, ...]) -> tuple[Done, ...]:
        if repository is None:
            return ()
        return tuple(done for number in numbers for done in self._carrier.carry_out(repository, number))

    def _put_off(self, kept: KeptDelivery, error: InterlockError) -> Ingested:
        wait_s = error.wait_s if isinstance(error, GitHubLimited | _Again) else backoff_s(kept.tries)
        last = kept.tries + 1 >= TRIES_MAX and not isinstance(error, GitHubLimited)
        self._github.put_off_delivery(kept.id, None if last else wait_s, error.sentence)
        if last or not isinstance(error, _Again):
            self.left(kept.id, kept.event, error.sentence)
        return Ingested(delivery=kept.id, status="put_off", outcome=str(error))

    # Deciding

    def _decided(self, delivery: Delivery, tries: int) -> _Decided:
        if delivery.repository is None or not delivery.name:
            return _Decided(words="It is about no repository.")
        repository = self._repository(delivery)
        if not delivery.numbers and delivery.checked is None:
            return _Decided(words="It is about no issue and no pull request.")
        if self._is_ours(delivery):
            return _Decided(words="It is our own sign of how work goes.")
        rules = self._rules(repository)
        numbers = list(delivery.numbers)
        if self._reader is not None and numbers and delivery.kind in _FREES:
            numbers += self._freed(repository, delivery)
        if self._reader is not None and delivery.checked is not None and not numbers:
            numbers += self._reader.pulls_of(repository.name, delivery.checked)
        looked = [self._look(repository, number, rules, delivery, tries) for number in numbers]
        words = [each.words for each in looked]
        for each in looked:
            if each.facts is not None and delivery.event in hearing.PARTS:
                words.append(self._hearing.hear(delivery, each.facts, rules, each.place))
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
        said = ", ".join(filter(None, words)) or f"{delivery.kind} creates no work."
        return _Decided(words=said, numbers=tuple(dict.fromkeys(numbers)))

    def _is_ours(self, delivery: Delivery) -> bool:
        """Whether it tells of what Interlock itself shows there, which is no news: nothing is read for it."""
        if delivery.event == "status":
            return delivery.payload.get("context") == LANE_CONTEXT
        said = delivery.payload.get("comment")
        if self._reader is None or delivery.event != "issue_comment" or not isinstance(said, dict):
            return False
        if "id" not in said or "sticky" not in marks(str(said.get("body") or "")):
            return False
        remark = remark_in(delivery.event, delivery.numbers[0], said)
        return remark.author in self._reader.own(remark, said)

    def look(self, repository: Repository, number: int) -> tuple[Done, ...]:
        """Look at a number without a delivery, and carry out what follows."""
        where = {"id": repository.id, "full_name": repository.name}
        delivery = read("issues", "look", json.dumps({"repository": where}).encode())
        self._look(repository, number, self._rules(repository), delivery, 0)
        return self._carried_out(repository.id, (number,))

    def _freed(self, repository: Repository, delivery: Delivery) -> list[int]:
        """Issues of the repository that wait, or no longer wait, for the one that a delivery is about."""
        assert self._reader is not None
        number = delivery.numbers[0]
        told = part_of(delivery, number) or {}
        parent = str(told.get("parent_issue_url") or "").rsplit("/", 4)
        here = len(parent) == 5 and "/".join(parent[1:3]).lower() == repository.name.lower()
        parents = [int(parent[4])] if here and parent[4].isdecimal() else []
        summary = told.get("issue_dependencies_summary") or {}
        blocks = delivery.action or summary.get("total_blocking")
        return [*(self._reader.blocked_by(repository.name, number) if blocks else ()), *parents]

    def _rules(self, repository: Repository) -> Rules:
        """The rules of a repository; what they say it is shown is kept for who sends."""
        if self._reader is None:
            return default_rules()
        rules = self._reader.rules(repository.name)
        choices = Choices(rules.progress_comments, rules.lane_status)
        if self._github.choices(repository.id) != choices:
            self._github.choose(repository.id, choices)
        return rules

    def _workflow_run(self, repository: Repository, delivery: Delivery) -> Mapping[str, Any] | None:
        """The workflow run that a delivery is about, as it is now: it may run again, or be deleted."""
        run: Mapping[str, Any] | None = delivery.payload.get("workflow_run")
        if delivery.event != "workflow_run" or run is None or self._reader is None:
            return run
        try:
            return self._reader.workflow_run(repository.name, run["id"])
        except GitHubRefused as refused:
            if refused.status != 403:
                raise
            return run  # the token may not look: what was delivered has to do

    def _synced(
        self, repository: Repository, run: Mapping[str, Any] | None, looked: Sequence[_Looked]
    ) -> list[str]:
        """Link pull requests to runs and look at their checks; of a commit in none, at the commit."""
        pulls = [each for each in looked if each.facts is not None and each.facts.pull]
        words = [self._sync.look(each.repository, each.number) for each in pulls]
        if not looked and run is not None and run.get("event") in check_events.CHECKING:
            words.append(self._sync.look_at_commit(repository, run))
        return words

    def look_again(self, repository: Repository, number: int, commit_id: str) -> None:
        """Look at a pull request or a commit of a run, for changes that no delivery told of."""
        self._sync.look_again(repository, number, commit_id)

    def _checked(
        self,
        repository: Repository,
        rules: Rules,
        check: Check | None,
        run: Mapping[str, Any] | None,
        looked: list[_Looked],
    ) -> _Decided:
        """What follows if a check has ended."""
        if check is None:
            return _Decided(words="no check has ended")
        if not looked:
            return self._branch_checked(repository, rules, check, run)
        current = [each for each in looked if each.facts is not None and each.facts.head == check.sha]
        for each in current:
            if each.facts is not None and each.facts.open:
                self._recover(repository, each.number, each.place, check, each.facts)
                told = self._with_log(check, each.facts, rules, run)
                follows = check_events.following(told, each.facts, rules, each.place)
                self._github.add(repository.id, each.facts.number, follows)
        words = check.words if current else f"{check.words}, on a commit that is not the newest"
        return _Decided(words=words, numbers=tuple(each.number for each in looked))

    def _with_log(self, check: Check, facts: Facts, rules: Rules, run: Mapping[str, Any] | None) -> Check:
        """A failure with the job that failed and the end of its log, if work follows from it."""
        if self._reader is None or run is None or not check.failed:
            return check
        rule = check_events.rule_for(check, facts, rules)
        if rule is None or rule.does is not Does.CREATE:
            return check
        return replace(check, job=self._reader.ci.failed_job(facts.name, run))

    def _branch_checked(
        self, repository: Repository, rules: Rules, check: Check, run: Mapping[str, Any] | None
    ) -> _Decided:
        """A check of a commit that is in no open pull request."""
        facts = check_events.of_branch(repository.id, repository.name, check)
        place = check_events.branch_place(place_of(repository, 0), check.branch)
        row = Known(repository.id, 0, 1, json.dumps(facts_of.to_json(facts)), "[]")
        self._github.advance(row, [])  # once: it only carries what follows
        self._recover(repository, 0, place, check, None)
        told = self._with_log(check, facts, rules, run)
        self._github.add(repository.id, 0, check_events.following(told, facts, rules, place))
        return _Decided(words=f"{check.words} on {check.branch}", numbers=(0,))

    def _recover(
        self, repository: Repository, number: int, place: Place, check: Check | None, facts: Facts | None
    ) -> None:
        """Order that work for failures which are over is withdrawn."""
        was = check_events.failing(orders_of(self._github, repository.id, number), place.lane)
        follows = check_events.recovery(was, place, check=check, facts=facts) if was else []
        if follows:
            self._github.add(repository.id, number, follows)

    def _repository(self, delivery: Delivery) -> Repository:
        """The repository by its number. A late delivery may have an old name, which may be another's now."""
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
        self, repository: Repository, number: int, rules: Rules, delivery: Delivery, tries: int
    ) -> _Looked:
        """Look at a number, and write what it has become and what follows."""
        for _ in range(_RACES_MAX):
            known = self._github.known(repository.id, number)  # before the look: who writes meanwhile wins
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
            found = consequences(before, was, after, now, ending=delivery.kind in _CLOSES)
            creates = any(isinstance(each, Create) for each in found)
            sender = self._sender(delivery, repository, rules) if creates else ANOTHER_SYSTEM
            revision = known.revision + 1 if known else 1
            told = Told(delivery.action, _label(delivery))
            follows = following(revision, found, after, place_of(repository, number), sender, told)
            if self._reader is not None and rules.lane_status:
                follows += showing(revision, before, after, place_of(repository, number))
            row = Known(repository.id, number, revision, json.dumps(facts_of.to_json(after)), text)
            closes = after.closes if after.open else ()
            if self._github.advance(row, follows, closes):
                changed = f"is {after.state}: {_count(len(follows))}"
                return _Looked(repository=repository, number=number, facts=after, changed=changed)
        raise _Again(f"Others decide on #{number} all the time.", _LAG_S)

    def _facts(
        self, repository: Repository, number: int, before: Facts | None, delivery: Delivery, tries: int
    ) -> Facts | None:
        """What a number is now; None if it cannot be known, or is known better."""
        told = part_of(delivery, number)
        try:
            said = _said(repository, told, delivery) if told is not None else None
        except (LookupError, TypeError, AttributeError) as error:
            if self._reader is None:
                raise _unreadable(number, error) from None
            said = None  # GitHub is asked anyway
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
            found = Gone(state=_LEAVES[delivery.action])
        if isinstance(found, Gone):
            return replace(last, state=found.state) if last is not None else None
        # An issue and its pull request do not always have the same time, so only like is compared with like.
        whole = (each for each in (before, said) if each is not None and not _is_partial(each))
        newest = max((each.updated_at for each in whole), default="")
        if found.updated_at < newest and tries < _LAGS_MAX:
            raise _Again(f"GitHub's answer about #{number} is older than its event.", _LAG_S)
        return found

    def _sender(self, delivery: Delivery, repository: Repository, rules: Rules) -> Sender:
        """A person who may write counts as one; whoever else did it, as a system, which is never muted."""
        user = delivery.payload.get("sender")
        bot = not isinstance(user, dict) or user.get("type") != "User" or delivery.sender in rules.agents
        if bot or self._reader is None or not self._reader.may_write(repository.name, delivery.sender):
            return ANOTHER_SYSTEM
        return A_PERSON


class _Again(InterlockError):
    """Look again soon."""

    def __init__(self, sentence: str, wait_s: float) -> None:
        super().__init__(sentence, "It is looked at again soon.")
        self.wait_s = wait_s


def _unreadable(number: int, error: Exception) -> InvalidInput:
    what = (
        f"{error.args[0]!r} is missing"
        if isinstance(error, KeyError)
        else f"a part has a wrong form ({error})"
    )
    return InvalidInput(
        f"What it says about #{number} is not enough: {what}, and there is no token to ask GitHub with.",
        "Send it as GitHub does, or set GITHUB_TOKEN.",
    )


def _said(repository: Repository, told: Mapping[str, Any], delivery: Delivery) -> Facts:
    """The facts in a delivery."""
    if "pull_request" in told and "head" not in told:
        told = {**told, "head": _UNSAID, "base": _UNSAID}
    said = from_answer({"id": repository.id, "full_name": repository.name}, told)
    leaves = delivery.event == "issues" and delivery.action in _LEAVES
    return replace(said, state=_LEAVES[delivery.action]) if leaves else said


def _is_late(said: Facts, before: Facts, delivery: Delivery) -> bool:
    """Whether a delivery is older than what is known. Of the same second, a closed number stays closed unless
    the delivery tells that it was opened again."""
    if said.updated_at != before.updated_at:
        return said.updated_at < before.updated_at
    return said.open and not before.open and delivery.action != "reopened"


def _label(delivery: Delivery) -> str:
    label = delivery.payload.get("label")
    return str(label.get("name") or "").lower() if isinstance(label, dict) else ""


def _is_partial(facts: Facts) -> bool:
    """Whether a pull request was told of in the form of an issue, which lacks most that it wants."""
    return facts.pull and not facts.head


def _completed(partial: Facts, older: Facts) -> Facts:
    """What was told in the form of an issue, with what only the pull request says of itself."""
    parts = ("head", "branch", "base", "draft", "reviewers")
    return replace(partial, **{part: getattr(older, part) for part in parts})


def _count(orders: int) -> str:
    return {0: "nothing follows", 1: "one thing follows"}.get(orders, f"{orders} things follow")

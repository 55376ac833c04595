"""An item as people and programs see it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

from interlock.core.blocks import Block
from interlock.core.ci import PullOutcome
from interlock.core.model import UNPOSITIONED, Gate, Item
from interlock.core.states import ItemStatus

if TYPE_CHECKING:
    from interlock.store.links import LinkedRun

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_T = TypeVar("_T")
_NONE: Mapping[str, Gate] = {}  # a plain one: views are sent between processes


@lru_cache(maxsize=64)  # the items of a batch share theirs
def moment(at_us: int) -> datetime:
    """A store time as a UTC datetime, exact to the microsecond."""
    return _EPOCH + timedelta(0, 0, at_us)


def maybe_moment(at_us: int | None) -> datetime | None:
    """The same for an optional time."""
    return None if at_us is None else moment(at_us)


def _field(read: Callable[[ItemView], _T]) -> _T:
    """A read-only field that `read` computes at each access."""
    return cast("_T", property(read))


def _position(item: Item) -> int | None:
    return None if item.spec.position == UNPOSITIONED else item.spec.position


def _run_at(item: Item) -> datetime | None:
    return None if item.state.status is ItemStatus.IN_PROGRESS else maybe_moment(item.state.due_us)


def _blockers(item: Item, blocks: Sequence[Block]) -> tuple[str, ...]:
    waits = item.state.run is None and not item.terminal
    return tuple(block.blocker for block in blocks if block.holds(item)) if waits else ()


def _series(item: Item, gates: Mapping[str, Gate]) -> str | None:
    gate = gates.get(item.spec.lane) if item.spec.lane is not None else None
    waits = item.state.run is None and not item.terminal
    return gate.series if gate is not None and waits and gate.shuts(item.spec.type) else None


def _outcome(followed: LinkedRun | None) -> str | None:
    return followed.outcome if followed is not None and followed.outcome != PullOutcome.OPEN else None


class ItemView:
    """One stored item, read-only.

    Fields are computed on access: every batch answers with many items, and most callers look at two or three
    fields of each. `FIELDS` names them all, in the order of the JSON.
    """

    __slots__ = ("_blocks", "_followed", "_gates", "_item", "_payload", "_question")

    FIELDS: ClassVar[tuple[str, ...]]

    def __init__(
        self,
        item: Item,
        payload: str | None = None,
        question: str | None = None,
        blocks: Sequence[Block] = (),
        gates: Mapping[str, Gate] = _NONE,
        followed: LinkedRun | None = None,
    ) -> None:
        """`blocks` and `gates` may be of other items and lanes, too."""
        self._item = item
        self._gates = gates
        self._followed = followed
        self._blocks = blocks
        self._payload = payload
        self._question = question

    def __repr__(self) -> str:
        return f"<item {self.id} {self.status} {self.title!r}>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ItemView):
            return NotImplemented
        return (self._item, self._payload) == (other._item, other._payload)

    def __hash__(self) -> int:
        return hash(self._item)

    id: int = _field(lambda view: view._item.spec.id)
    status: str = _field(lambda view: view._item.state.status.value)
    #: Whether it waits for a person's answer; its status is then `pending` or `waiting`.
    asking: bool = _field(lambda view: view._item.asking)
    title: str = _field(lambda view: view._item.spec.title)
    project: str = _field(lambda view: view._item.spec.project)
    type: str = _field(lambda view: view._item.spec.type)
    priority: int = _field(lambda view: view._item.spec.priority)
    agent: str | None = _field(lambda view: view._item.spec.agent_key or None)
    #: The plan that it is a task of.
    plan: int | None = _field(lambda view: view._item.spec.plan)
    lane: str | None = _field(lambda view: view._item.spec.lane)
    observed_lane: str | None = _field(lambda view: view._item.spec.observed_lane)
    policy: str = _field(lambda view: view._item.spec.policy.value)
    position: int | None = _field(lambda view: _position(view._item))
    ticket: int = _field(lambda view: view._item.spec.ticket)
    labels: tuple[str, ...] = _field(lambda view: view._item.spec.labels)
    attempt: int = _field(lambda view: view._item.state.attempt)
    max_attempts: int = _field(lambda view: view._item.spec.max_attempts)
    retry_lane: str = _field(lambda view: view._item.spec.retry_lane.value)
    lease_s: float | None = _field(lambda view: view._item.spec.lease_s)
    timeout_s: float | None = _field(lambda view: view._item.spec.timeout_s)
    claim_within_s: float | None = _field(lambda view: view._item.spec.claim_within_s)
    run: int | None = _field(lambda view: view._item.state.run)
    run_agent: str | None = _field(lambda view: view._item.state.run_agent)
    worker: str | None = _field(lambda view: view._item.state.run_worker)
    started_at: datetime | None = _field(lambda view: maybe_moment(view._item.state.run_started_us))
    #: When its run loses it: the earliest of lease, run timeout and cancel grace.
    expires_at: datetime | None = _field(lambda view: maybe_moment(view._item.expires_us))
    #: Whether its run is external: work outside, under no lease.
    external: bool = _field(lambda view: view._item.external)
    #: When a waiting or parked item is due.
    run_at: datetime | None = _field(lambda view: _run_at(view._item))
    #: When it ends unless claimed.
    claim_by: datetime | None = _field(lambda view: maybe_moment(view._item.state.claim_by_us))
    cancel_requested: bool = _field(lambda view: view._item.state.cancel_into is not None)
    cancel_reason: str | None = _field(lambda view: view._item.state.cancel_why)
    absorbed_by: int | None = _field(lambda view: view._item.state.absorbed_by)
    messages: int = _field(lambda view: view._item.state.message_count)
    reason: str = _field(lambda view: str(view._item.state.reason))
    #: Its question to a person: in `ls --asking` and `show`.
    question: str | None = _field(lambda view: view._question)
    #: Its blockers, for an unfinished item without a run: in `ls` and `show`.
    blocked_by: tuple[str, ...] = _field(lambda view: _blockers(view._item, view._blocks))
    #: The series whose gate on its lane is shut, for an unfinished item without a run: in `ls` and `show`.
    gated_by: str | None = _field(lambda view: _series(view._item, view._gates))
    #: The outcome of the checks of its newest pull request: in `ls --ci` and `show`.
    ci_outcome: str | None = _field(lambda view: view._followed.ci_outcome if view._followed else None)
    #: The end of that pull request: `merged`, or `closed` without merging; null while it is open.
    outcome: str | None = _field(lambda view: _outcome(view._followed))
    created_at: datetime = _field(lambda view: moment(view._item.spec.created_us))
    first_claimed_at: datetime | None = _field(lambda view: maybe_moment(view._item.state.first_claimed_us))
    ended_at: datetime | None = _field(lambda view: maybe_moment(view._item.state.ended_us))
    #: Only in leases and in answers about a single item.
    payload: Mapping[str, Any] | None = _field(
        lambda view: None if view._payload is None else json.loads(view._payload)
    )


ItemView.FIELDS = tuple(name for name, value in vars(ItemView).items() if isinstance(value, property))


def version(view: ItemView) -> str:
    """The version of an item, for conditional edits."""
    from interlock.core.versions import version_of  # noqa: PLC0415  (servers alone)

    return version_of(view._item)


def in_line(view: ItemView) -> tuple[bool, tuple[bool, int, int, int]]:
    """Sorts the unfinished items of a lane: its owner first, then its line."""
    item = view._item
    return item.status not in (ItemStatus.PENDING, ItemStatus.IN_PROGRESS), item.line

"""An item as people and programs see it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, ClassVar

from interlock.core.model import UNPOSITIONED, Item
from interlock.core.states import ItemStatus

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@lru_cache(maxsize=64)  # the items of a batch share theirs
def moment(at_us: int) -> datetime:
    """A store time as a UTC datetime, exact to the microsecond."""
    return _EPOCH + timedelta(0, 0, at_us)


def maybe_moment(at_us: int | None) -> datetime | None:
    """The same for a time that may be missing."""
    return None if at_us is None else moment(at_us)


class ItemView:
    """A reading of one stored item.

    Fields are computed when they are asked for: every batch answers with many items, and most callers
    look at two or three fields of each.
    """

    __slots__ = ("_item", "_payload")

    FIELDS: ClassVar[tuple[str, ...]] = (
        "id",
        "status",
        "title",
        "project",
        "type",
        "priority",
        "agent",
        "plan",
        "lane",
        "observed_lane",
        "policy",
        "position",
        "ticket",
        "labels",
        "attempt",
        "max_attempts",
        "retry_lane",
        "lease_s",
        "timeout_s",
        "claim_within_s",
        "run",
        "run_agent",
        "worker",
        "started_at",
        "expires_at",
        "run_at",
        "claim_by",
        "cancel_requested",
        "cancel_reason",
        "absorbed_by",
        "messages",
        "reason",
        "created_at",
        "first_claimed_at",
        "ended_at",
        "payload",
    )

    def __init__(self, item: Item, payload: str | None = None) -> None:
        self._item = item
        self._payload = payload

    def __repr__(self) -> str:
        return f"<item {self.id} {self.status} {self.title!r}>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ItemView):
            return NotImplemented
        return (self._item, self._payload) == (other._item, other._payload)

    def __hash__(self) -> int:
        return hash(self._item)

    @property
    def id(self) -> int:
        return self._item.spec.id

    @property
    def status(self) -> str:
        return self._item.state.status.value

    @property
    def title(self) -> str:
        return self._item.spec.title

    @property
    def project(self) -> str:
        return self._item.spec.project

    @property
    def type(self) -> str:
        return self._item.spec.type

    @property
    def priority(self) -> int:
        return self._item.spec.priority

    @property
    def agent(self) -> str | None:
        return self._item.spec.agent_key or None

    @property
    def plan(self) -> int | None:
        """The plan that it is a task of."""
        return self._item.spec.plan

    @property
    def lane(self) -> str | None:
        return self._item.spec.lane

    @property
    def observed_lane(self) -> str | None:
        return self._item.spec.observed_lane

    @property
    def policy(self) -> str:
        return self._item.spec.policy.value

    @property
    def position(self) -> int | None:
        position = self._item.spec.position
        return None if position == UNPOSITIONED else position

    @property
    def ticket(self) -> int:
        return self._item.spec.ticket

    @property
    def labels(self) -> tuple[str, ...]:
        return self._item.spec.labels

    @property
    def attempt(self) -> int:
        return self._item.state.attempt

    @property
    def max_attempts(self) -> int:
        return self._item.spec.max_attempts

    @property
    def retry_lane(self) -> str:
        return self._item.spec.retry_lane.value

    @property
    def lease_s(self) -> float | None:
        return self._item.spec.lease_s

    @property
    def timeout_s(self) -> float | None:
        return self._item.spec.timeout_s

    @property
    def claim_within_s(self) -> float | None:
        return self._item.spec.claim_within_s

    @property
    def run(self) -> int | None:
        return self._item.state.run

    @property
    def run_agent(self) -> str | None:
        return self._item.state.run_agent

    @property
    def worker(self) -> str | None:
        return self._item.state.run_worker

    @property
    def started_at(self) -> datetime | None:
        return maybe_moment(self._item.state.run_started_us)

    @property
    def expires_at(self) -> datetime | None:
        """When its run loses it: the earliest of lease, run timeout and cancel grace."""
        return maybe_moment(self._item.expires_us)

    @property
    def run_at(self) -> datetime | None:
        """When a waiting or parked item is due."""
        state = self._item.state
        return None if state.status is ItemStatus.IN_PROGRESS else maybe_moment(state.due_us)

    @property
    def claim_by(self) -> datetime | None:
        """When it ends if nobody has claimed it."""
        return maybe_moment(self._item.state.claim_by_us)

    @property
    def cancel_requested(self) -> bool:
        return self._item.state.cancel_into is not None

    @property
    def cancel_reason(self) -> str | None:
        return self._item.state.cancel_why

    @property
    def absorbed_by(self) -> int | None:
        return self._item.state.absorbed_by

    @property
    def messages(self) -> int:
        return self._item.state.message_count

    @property
    def reason(self) -> str:
        return str(self._item.state.reason)

    @property
    def created_at(self) -> datetime:
        return moment(self._item.spec.created_us)

    @property
    def first_claimed_at(self) -> datetime | None:
        return maybe_moment(self._item.state.first_claimed_us)

    @property
    def ended_at(self) -> datetime | None:
        return maybe_moment(self._item.state.ended_us)

    @property
    def payload(self) -> Mapping[str, Any] | None:
        """Only where a single item is asked for, and in leases."""
        if self._payload is None:
            return None
        payload: Mapping[str, Any] = json.loads(self._payload)
        return payload

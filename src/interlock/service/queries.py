"""Filters of lanes and runs, made of the arguments of operations."""

from __future__ import annotations

import reprlib
from datetime import UTC, datetime, timedelta

from interlock.core import names
from interlock.core.errors import InvalidInput
from interlock.store.port import LaneQuery, RunQuery

#: The largest number of an issue or a pull request.
NUMBER_MAX = 2**31 - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def lane_query(prefix: str, after: str, number: int | None, limit: int, limit_max: int = 10_000) -> LaneQuery:
    """The filter of a list of lanes."""
    names.check_whole("limit", limit, 1, limit_max)
    if number is not None:
        names.check_whole("number", number, 0, NUMBER_MAX)
    return LaneQuery(
        prefix=names.folded_lane(names.check_text("prefix", prefix, names.NAME_MAX_CHARS)),
        after=names.folded_lane(names.check_text("after", after, names.NAME_MAX_CHARS)),
        number=number,
        limit=limit,
    )


def run_query(
    lane: str | None,
    agent: str | None,
    worker: str,
    since: datetime | None,
    until: datetime | None,
    limit: int,
) -> RunQuery:
    """The filter of a list of runs. An empty name is no filter."""
    names.check_whole("limit", limit, 1, 10_000)
    return RunQuery(
        lane=None if lane in (None, "") else names.lane_key(lane),
        agent=None if agent in (None, "") else names.agent_key(agent),
        worker=names.check_text("worker", worker, names.NAME_MAX_CHARS),
        since_us=None if since is None else _time_us("since", since),
        until_us=None if until is None else _time_us("until", until),
        limit=limit,
    )


def _time_us(name: str, at: object) -> int:
    if not isinstance(at, datetime) or at.tzinfo is None:
        raise InvalidInput(
            f"{name} is {reprlib.repr(at)}.", "Use a time with its zone, such as 2027-01-31T09:00:00Z."
        )
    return max(0, (at - _EPOCH) // timedelta(microseconds=1))

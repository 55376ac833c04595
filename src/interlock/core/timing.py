"""Arithmetic of time and order: sort key, back-off, deadlines. The caller passes the time."""

from __future__ import annotations

from interlock.core.model import US_PER_S, Spec
from interlock.core.names import PRIORITY_MAX
from interlock.core.record import Record

LEASE_DEFAULT_S = 60.0
CANCEL_GRACE_S = 15.0
BACK_OFF_FIRST_S = 10.0
BACK_OFF_MAX_S = 3_600.0
#: A back-off varies by this share up or down, so that failures of one cause do not all return together.
BACK_OFF_SPREAD = 0.25
RELEASES_BEFORE_BACK_OFF = 3
#: How long a question keeps its lane, and how often its time-out is repeated in the history.
QUESTION_TIMEOUT_S = 72 * 3600.0
#: How long a live run without a worker keeps its lease while its question is open.
LIVE_QUESTION_TIMEOUT_S = 3_600.0
#: A quota limit lasts at most this long; a run that hits it again reports it again.
QUOTA_LIMIT_MAX_S = 7 * 24 * 3600.0
#: How long to wait at a noticed limit whose message names no time, and at least if it names one.
QUOTA_WAIT_S, QUOTA_WAIT_MIN_S = 1_800.0, 60.0
#: How long an item waits at most after a set-up fault.
FAULT_PAUSE_MAX_S = 3_600.0
WAKES_MAX = 10
DEDUPE_KEPT_S = 30 * 24 * 3600.0

#: The units of spans, and the number of seconds from which the next one is used.
_UNITS = (("s", 1, 99.5), ("min", 60, 59.5 * 60), ("h", 3_600, 47.5 * 3_600))
_TICKET_BITS = 52
_NTH_BITS = 10  # more than a batch has; leaves room for times until 2255


class Timing(Record):
    """The spans and bounds that a deployment may set."""

    lease_s: float = LEASE_DEFAULT_S
    cancel_grace_s: float = CANCEL_GRACE_S
    back_off_first_s: float = BACK_OFF_FIRST_S
    back_off_max_s: float = BACK_OFF_MAX_S
    #: 0 means strict priority; else one priority step is worth this head start.
    ageing_step_s: float = 0.0
    #: How many wake-ups or follow-ups in a row agents and systems may cause on a lane without a person.
    wakes_max: int = WAKES_MAX


def span(seconds: float) -> str:
    """A span for people: 0.4 s, 48 s, 14 min, 1.5 h, 3 d. Every screen and sentence uses this one."""
    unit, size = next(((unit, size) for unit, size, end in _UNITS if seconds < end), ("d", 86_400))
    number = seconds / size
    rough = unit == "min" or number >= 9.95
    return f"{number:.0f} {unit}" if rough else f"{number:.1f}".removesuffix(".0") + f" {unit}"


def until(at_us: int | None, now_us: int) -> str:
    """A moment for people: in 8 s, or now."""
    seconds = 0 if at_us is None else round((at_us - now_us) / US_PER_S)
    return f"in {span(seconds)}" if seconds > 0 else "now"


def ago(at_us: int | None, now_us: int) -> str:
    """A past moment for people: 8 s ago, or just now."""
    if at_us is None:
        return "some time ago"
    seconds = round((now_us - at_us) / US_PER_S)
    return f"{span(seconds)} ago" if seconds > 0 else "just now"


def clock(at_us: int) -> str:
    """A moment for people whose time zone is not known: 08:43:43 UTC."""
    seconds = at_us // US_PER_S % 86_400
    return f"{seconds // 3_600:02}:{seconds // 60 % 60:02}:{seconds % 60:02} UTC"


def to_us(seconds: float) -> int:
    """Whole microseconds."""
    return round(seconds * US_PER_S)


def maybe_us(seconds: float | None) -> int | None:
    """Whole microseconds; None stays None."""
    return None if seconds is None else to_us(seconds)


def sort_key(priority: int, ticket: int, created_us: int, ageing_step_s: float, *, nth: int = 0) -> int:
    """One number that sorts the queue: smaller is claimed earlier.

    Strict: priority descending, then arrival. With ageing: a priority step is a head start in time, so an old
    item of low priority comes before a new one of high priority in the end; `nth` keeps the order of a batch,
    whose items arrive at the same moment.
    """
    if ageing_step_s > 0:
        moment_us = created_us - priority * to_us(ageing_step_s)
        return (moment_us << _NTH_BITS) | min(nth, (1 << _NTH_BITS) - 1)
    return ((PRIORITY_MAX - priority) << _TICKET_BITS) | (ticket & ((1 << _TICKET_BITS) - 1))


def back_off_s(timing: Timing, attempt: int, jitter: float) -> float:
    """How long to wait after failed attempt number `attempt`, from 1. `jitter` is between 0 and 1."""
    return doubled_s(timing.back_off_first_s, attempt - 1, timing.back_off_max_s, jitter)


def doubled_s(first_s: float, doublings: int, max_s: float, jitter: float = 0.5) -> float:
    """A wait that is doubled so often, up to a limit. `jitter`, between 0 and 1, makes it up to a quarter
    shorter or longer, so that what failed together does not come back together; 0.5 changes nothing."""
    plain = min(first_s * 2.0 ** min(max(doublings, 0), 32), max_s)
    return plain * (1 + BACK_OFF_SPREAD * (2 * jitter - 1))


def deadline_us(
    spec: Spec, lease_until_us: int | None, run_started_us: int, revoke_us: int | None
) -> int | None:
    """When a run ends without a report: the earliest of lease, run timeout and cancel grace; null if it has
    none of them, as an external run may."""
    timeout_us = None if spec.timeout_s is None else run_started_us + to_us(spec.timeout_s)
    return min((end for end in (lease_until_us, timeout_us, revoke_us) if end is not None), default=None)

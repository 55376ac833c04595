"""Which outputs of agent programs say that a provider's limit was hit, and until when.

Each program has patterns. A pattern matches the beginning of a line near the end of the output, after marks
such as `■` and `ERROR:`. An agent that writes about limits therefore matches only if its output ends with
such a line and its exit code is not 0. Patterns have no nested or unbounded repetition, and lines are cut.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

from interlock.core.errors import InvalidInput
from interlock.core.model import US_PER_S
from interlock.core.row import NamedTuple
from interlock.core.timing import QUOTA_WAIT_MIN_S

#: Longer lines are cut, except for JSON.
LINE_MAX_CHARS = 1_000
#: The most characters after the begin of a message in which its time is looked for.
MESSAGE_MAX_CHARS = 4_000
#: Patterns in settings.
PATTERNS_MAX, PATTERN_MAX_CHARS = 50, 200
#: The pattern of settings that holds for every program.
ANY_PROGRAM = "*"
#: A time of day that has passed so recently is meant as now, not as tomorrow.
_JUST_PASSED = timedelta(minutes=10)
_SHOWN_CHARS = 200

_COLOUR = re.compile(r"\x1b\[[0-9;]{0,20}[A-Za-z]")
_MARKS = re.compile(r"[\s■●✗✘✕×⎿⚠\ufe0f]{0,12}(?:\[?error\]?:?\s{1,3}){0,2}", re.IGNORECASE)  # noqa: RUF001

#: Gives a time zone by its name, the local one for an empty name; None if it is unknown.
Zones = Callable[[str], tzinfo | None]


class LimitPattern(NamedTuple):
    """How a program says that a limit was hit."""

    #: Matches the beginning of a line.
    begins: re.Pattern[str]
    #: How many lines from the end of the output that line may be at most, blank ones not counted.
    lines: int = 4
    #: A text that must be in the line or after it.
    contains: str = ""
    #: Whether it counts with exit code 0 too, as the last line. It matches the whole line.
    with_success: bool = False


class NoticedLimit(NamedTuple):
    """A provider's limit that a program has named."""

    #: What it printed, cut.
    text: str
    #: When the limit ends; None if it named no time.
    until: datetime | None

    def until_us(self, now: datetime, wait_s: float) -> int:
        """When the limit ends: `wait_s` from now if no time was named, and never sooner than a minute."""
        least = now + timedelta(seconds=QUOTA_WAIT_MIN_S)
        until = now + timedelta(seconds=wait_s) if self.until is None else self.until
        return round(max(until, least).timestamp() * US_PER_S)


def _pattern(begins: str, **more: Any) -> LimitPattern:
    return LimitPattern(re.compile(begins, re.IGNORECASE), **more)


#: A time, a date and a zone, and nothing else in the line.
_WHEN = (
    r"\s(?:(?:at|on|(?:mon|tue|wed|thu|fri|sat|sun)[a-z]{0,6}|(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)"
    r"[a-z]{0,6}|20\d\d|\d{1,2}(?::\d\d)?\s?[ap]m|\d{1,2}:\d\d|\d{1,2}(?:st|nd|rd|th)?)(?:,\s?|\s|$|(?=\.))){1,6}"
    r"(?:\([\w+/-]{1,40}\))?\.?\s{0,4}$"
)
_CLAUDE = (
    _pattern(r"claude(?: ai| code)? usage limit reached\|\d{10,13}", with_success=True),
    _pattern(r"claude(?: ai| code)? usage limit reached\. your limit will reset" + _WHEN),
    _pattern(r"you've hit your (?:[\w-]{1,20} ){0,3}limit [·∙•] resets" + _WHEN),
    _pattern(r"(?:[\w-]{1,20} ){1,3}limit reached\s{1,2}[·∙•]\s{1,2}resets" + _WHEN),
    _pattern(r"api error: (?:429\b|rate limit reached|request rejected \(429\))"),
)
#: The patterns by the name of the program.
PROGRAMS: dict[str, tuple[LimitPattern, ...]] = {
    "claude": _CLAUDE,
    "codex": (
        _pattern(r"you've hit your usage limit\b", lines=6),
        _pattern(r"exceeded retry limit, last status: 429\b", lines=6),
        _pattern(r"(?:stream error|unexpected status|http error)\b", lines=6, contains="usage_limit_reached"),
    ),
    "gemini": (
        _pattern(r"(?:terminalquotaerror: |error: ){0,2}you have exhausted your (?:capacity|daily quota)\b"),
        _pattern(r"(?:error: ){0,1}(?:terminal|retryable)quotaerror\b", lines=40),
        _pattern(r"\[api error:", lines=60, contains="RESOURCE_EXHAUSTED"),
        _pattern(r"\[api error: you have exhausted\b"),
        _pattern(r"\[api error: .{0,40}quota exceeded\b"),
        _pattern(r"attempt \d{1,3} failed with status 429\b", lines=60, contains="RESOURCE_EXHAUSTED"),
        _pattern(r"error when talking to gemini api\b", lines=60, contains="RESOURCE_EXHAUSTED"),
    ),
    "copilot": (
        _pattern(r"sorry, you've hit a rate limit\b", lines=12),
        _pattern(r"sorry, you have (?:exceeded|been rate limited)\b", lines=12),
        _pattern(r"execution failed: 402\b", lines=12, contains="quota"),
        _pattern(r"quota exceeded\. upgrade\b", lines=12),
        _pattern(r'402 \{"error":', lines=12, contains="quota_exceeded"),
    ),
}


def checked_patterns(texts: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """The patterns of settings, as programs with their patterns. Raises if one cannot be used."""
    if len(texts) > PATTERNS_MAX:
        raise InvalidInput(f"There are {len(texts)} quota patterns.", f"Use at most {PATTERNS_MAX}.")
    found = []
    for text in texts:
        program, colon, pattern = (part.strip() for part in text.partition(":"))
        if not colon or not re.fullmatch(r"\*|[\w.+-]{1,64}", program):
            raise InvalidInput(
                f"The quota pattern {text[:PATTERN_MAX_CHARS]!r} names no program.",
                "Write it as in 'aider: Rate limit of * is used up', or with * for every program.",
            )
        if len(pattern.replace("*", "").strip()) < 8 or len(pattern) > PATTERN_MAX_CHARS:
            raise InvalidInput(
                f"The quota pattern {text[:PATTERN_MAX_CHARS]!r} is too short or too long.",
                f"Use 8 to {PATTERN_MAX_CHARS} characters besides *.",
            )
        if pattern.startswith("*"):
            raise InvalidInput(
                f"The quota pattern {text!r} begins with *.", "Begin it with the first words of the line."
            )
        found.append((program, pattern))
    return tuple(found)


def program_of(command: Sequence[str]) -> str | None:
    """The agent program of a command with its arguments; None if a script starts it, or none does."""
    names = (word.rpartition("/")[2] for word in command[:2])
    return next((name for name in names if name in PROGRAMS), None)


def noticed_limit(
    output: str,
    exit_code: int,
    *,
    now: datetime,
    zones: Zones,
    program: str | None = None,
    own: Sequence[tuple[str, str]] = (),
) -> NoticedLimit | None:
    """The limit that the end of an output names; None if it names none.

    `now` is the store's time. Without a `program`, the patterns of all programs count.
    """
    plain = _COLOUR.sub("", output).replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    lines = [line for line in plain.splitlines() if line.strip()]
    named = [program] if program in PROGRAMS else [*PROGRAMS]
    for back, line in enumerate(reversed(lines), 1):
        failed_at_end = exit_code != 0 or (back == 1 and _object(line).get("type") == "result")
        texts = [(line[:LINE_MAX_CHARS], exit_code != 0)]
        texts += [(text, failed_at_end) for text in _said_in_json(line)]
        rest = "\n".join(lines[len(lines) - back + 1 :])
        for text, failed in texts:
            begin = text[_marks_end(text) :]
            message = f"{begin}\n{rest}"[:MESSAGE_MAX_CHARS]
            known = any(
                _matches(pattern, begin, message, back, failed=failed)
                for name in named
                for pattern in PROGRAMS[name or ""]
            )
            others = (pattern for name, pattern in own if name in (ANY_PROGRAM, program) or program is None)
            if known or (failed and back <= 4 and any(_matches_own(each, begin) for each in others)):
                shown = "".join(each if each.isprintable() else " " for each in begin.strip())
                return NoticedLimit(shown[:_SHOWN_CHARS], ends_at(message, now, zones))
        if back >= max(pattern.lines for name in named for pattern in PROGRAMS[name or ""]):
            break
    return None


def limit_of_transcript(tail: str, *, now: datetime, zones: Zones) -> NoticedLimit | None:
    """The limit at which a session of Claude Code stopped, by the end of its transcript."""
    for line in reversed(tail.splitlines()):
        entry = _object(line)
        if entry.get("type") == "user":
            return None
        if entry.get("type") != "assistant":
            continue
        if entry.get("isApiErrorMessage") is not True:
            return None
        message = entry.get("message")
        content = message.get("content") if isinstance(message, dict) else None
        parts = content if isinstance(content, list) else []
        texts = [str(part.get("text")) for part in parts if isinstance(part, dict) and "text" in part]
        return limit_of_message("\n".join(texts), now=now, zones=zones)
    return None


def limit_of_message(text: str, *, now: datetime, zones: Zones) -> NoticedLimit | None:
    """The limit that an error message of Claude Code names."""
    return noticed_limit(text[:MESSAGE_MAX_CHARS], 1, now=now, zones=zones, program="claude")


def _matches(pattern: LimitPattern, line: str, message: str, back: int, *, failed: bool) -> bool:
    if back > pattern.lines or pattern.contains not in message:
        return False
    if pattern.with_success:
        return (failed or back == 1) and pattern.begins.fullmatch(line.strip()) is not None
    return failed and pattern.begins.match(line) is not None


def _matches_own(pattern: str, line: str) -> bool:
    """Whether a line begins with a pattern in which `*` is any text."""
    first, *parts = pattern.split("*")
    if not line.startswith(first):
        return False
    at = len(first)
    for part in parts:
        at = line.find(part, at)
        if at < 0:
            return False
        at += len(part)
    return True


def _marks_end(text: str) -> int:
    marks = _MARKS.match(text)
    return marks.end() if marks else 0


def _object(line: str) -> dict[str, Any]:
    if not line.startswith("{"):
        return {}
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _said_in_json(line: str) -> Iterator[str]:
    """The error messages in a line of JSON output: of Claude Code's result, of Codex's events."""
    entry = _object(line)
    error = entry.get("error")
    match entry.get("type"):
        case "result" if entry.get("is_error") is True and isinstance(entry.get("result"), str):
            yield entry["result"][:MESSAGE_MAX_CHARS]
        case "error" if isinstance(entry.get("message"), str):
            yield entry["message"][:MESSAGE_MAX_CHARS]
        case "turn.failed" if isinstance(error, dict) and isinstance(error.get("message"), str):
            yield error["message"][:MESSAGE_MAX_CHARS]


# -- when it ends -----------------------------------------------------------------------------------

_UNITS_S = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_PART = r"\d{1,7}(?:\.\d{1,9})?\s?(?:days?|d|hours?|hrs?|h|minutes?|mins?|m|seconds?|secs?|s)(?![a-z])"
_EPOCH = re.compile(r"(?:\||\bresets_at\\?\"?\s?:\s?)(\d{13}|\d{10})(?!\d)")
_SECONDS = re.compile(
    r"(?:resets_in_seconds\\?\"?\s?:\s?|retryDelay\\?\"?\s?:\s?\\?\")(\d{1,8}(?:\.\d{1,9})?)(?=s|\D|$)"
)
_SPAN = re.compile(
    rf"(?:again|retry|resets?|available)\s(?:in|after)\s({_PART}(?:,?\s?(?:and\s)?{_PART}){{0,3}})",
    re.IGNORECASE,
)
_ONE_PART = re.compile(r"(\d{1,7}(?:\.\d{1,9})?)\s?([dhms])", re.IGNORECASE)
_ISO = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?:Z|[+-]\d\d:?\d\d)\b")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_CLOCK = re.compile(
    r"(?:again|resets?|available)\s(?:at\s|on\s)?"
    r"(?:(?P<weekday>mon|tue|wed|thu|fri|sat|sun)[a-z]{0,6},?\s(?:at\s)?)?"
    r"(?:(?P<month>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}\.?\s(?P<day>\d{1,2})"
    r"(?:st|nd|rd|th)?(?:,?\s(?P<year>20\d\d))?(?:,?\s(?:at\s)?|$))?"
    r"(?:(?P<hour>\d{1,2})(?::(?P<minute>\d\d))?\s?(?P<half>[ap]\.?m\b)?)?"
    r"(?:\.?\s\((?P<zone>[\w+/-]{1,40})\))?",
    re.IGNORECASE,
)


def ends_at(message: str, now: datetime, zones: Zones) -> datetime | None:
    """When the limit in a message ends, by a clock that says `now`; None if it names no time."""
    try:
        return _epoch(message) or _span(message, now) or _iso(message) or _clock(message, now, zones)
    except (ValueError, OverflowError):  # no such date
        return None


def _epoch(message: str) -> datetime | None:
    found = _EPOCH.search(message)
    if found is None:
        return None
    seconds = int(found[1]) / (1_000 if len(found[1]) == 13 else 1)
    return datetime.fromtimestamp(seconds, UTC)


def _span(message: str, now: datetime) -> datetime | None:
    if (seconds := _SECONDS.search(message)) is not None:
        return now + timedelta(seconds=float(seconds[1]))
    if (span := _SPAN.search(message)) is None:
        return None
    parts = _ONE_PART.findall(span[1])
    return now + timedelta(seconds=sum(float(number) * _UNITS_S[unit.lower()] for number, unit in parts))


def _iso(message: str) -> datetime | None:
    found = _ISO.search(message)
    return None if found is None else datetime.fromisoformat(found[0])


def _clock(message: str, now: datetime, zones: Zones) -> datetime | None:
    """A time of day, with or without a date: the next such time."""
    for found in _CLOCK.finditer(message):
        hour, minute, half = found["hour"], found["minute"], (found["half"] or "").lower()
        if (hour is None or not (minute or half)) and found["month"] is None:
            continue
        zone = zones(found["zone"] or "")
        if zone is None:
            return None
        here = now.astimezone(zone)
        number = int(hour or 0)
        number = number % 12 + (12 if half.startswith("p") else 0) if half else number
        at = here.replace(hour=number, minute=int(minute or 0), second=0, microsecond=0)
        if found["month"] is not None:
            month = _MONTHS.index(found["month"].lower()) + 1
            at = at.replace(year=int(found["year"] or here.year), month=month, day=int(found["day"]))
            past = at < here - timedelta(days=180)
            return at.replace(year=at.year + 1) if past and found["year"] is None else at
        if found["weekday"] is not None:
            at += timedelta(days=(_DAYS.index(found["weekday"].lower()) - here.weekday()) % 7)
            return at if at >= here - _JUST_PASSED else at + timedelta(days=7)
        return at if at >= here - _JUST_PASSED else at + timedelta(days=1)
    return None

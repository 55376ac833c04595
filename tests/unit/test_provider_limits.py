"""Which outputs say that a provider's limit was hit, and until when. The messages have the programs' form."""

import time
from datetime import UTC, datetime, timedelta, timezone
from functools import partial

import pytest

from interlock.core.errors import InvalidInput
from interlock.core.provider_limits import (
    PROGRAMS,
    NoticedLimit,
    checked_patterns,
    ends_at,
    limit_of_transcript,
    noticed_limit,
    program_of,
)

#: A Thursday.
NOW = datetime(2026, 11, 19, 12, 30, tzinfo=UTC)
BERLIN = timezone(timedelta(hours=1))


def zones(name: str) -> timezone | None:
    return {"": UTC, "Europe/Berlin": BERLIN}.get(name)


def noticed(output: str, code: int = 1, **more: object) -> NoticedLimit | None:
    return noticed_limit(output, code, now=NOW, zones=zones, **more)  # type: ignore[arg-type]


def at(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc, arg-type]


GEMINI = """\
✕ [API Error: {"error":{"message":"{
  "error": {
    "code": 429,
    "message": "Quota exceeded for quota metric 'Requests' and limit 'Requests per day'.",
    "status": "RESOURCE_EXHAUSTED",
    "details": [ { "@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "3600.5s" } ]
  }
}","code":429,"status":"Too Many Requests"}}]
Please wait and try again later."""

LIMITS = [
    ("claude", "Claude AI usage limit reached|1795100400", at(2026, 11, 19, 15)),
    (
        "claude",
        "Claude usage limit reached. Your limit will reset at 5pm (Europe/Berlin).",
        at(2026, 11, 19, 16),
    ),
    ("claude", "You've hit your limit · resets 3pm (Europe/Berlin)", at(2026, 11, 19, 14)),
    (
        "claude",
        "You\N{RIGHT SINGLE QUOTATION MARK}ve hit your session limit · resets 4:50am (Europe/Berlin)",
        at(2026, 11, 20, 3, 50),
    ),
    ("claude", "  ⎿  You've hit your weekly limit · resets Nov 24, 9am (Europe/Berlin)", at(2026, 11, 24, 8)),
    ("claude", "5-hour limit reached ∙ resets 3pm\n     /upgrade to use more.", at(2026, 11, 19, 15)),
    ("claude", 'API Error: 429 {"type":"error","error":{"type":"rate_limit_error"}}', None),
    (
        "claude",
        '{"type":"result","is_error":true,"result":"Claude AI usage limit reached|1795100400"}',
        at(2026, 11, 19, 15),
    ),
    (
        "codex",
        "ERROR: You've hit your usage limit. Upgrade or try again in 5 days 22 hours 11 minutes.",
        at(2026, 11, 25, 10, 41),
    ),
    ("codex", "■ You've hit your usage limit. Try again at Dec 5th, 2026 8:19 PM.", at(2026, 12, 5, 20, 19)),
    ("codex", "You've hit your usage limit. Upgrade, or try again at 3:05 PM.", at(2026, 11, 19, 15, 5)),
    (
        "codex",
        '{"type":"turn.failed","error":{"message":"You\'ve hit your usage limit. Try again in 2 hours."}}',
        at(2026, 11, 19, 14, 30),
    ),
    (
        "codex",
        'stream error: 429: {"error":{"type":"usage_limit_reached","resets_in_seconds":600}}',
        at(2026, 11, 19, 12, 40),
    ),
    ("gemini", GEMINI, at(2026, 11, 19, 13, 30) + timedelta(seconds=0.5)),
    (
        "gemini",
        "TerminalQuotaError: You have exhausted your capacity on this model. It will reset after 19h20m35s.",
        at(2026, 11, 20, 7, 50, 35),
    ),
    ("gemini", "[API Error: You have exhausted your daily quota on this model.]", None),
    (
        "copilot",
        "✗ Sorry, you've hit a rate limit.\n  Please try again in 58 hours.\n\nTotal usage est: 1\nTime: 3s",
        at(2026, 11, 21, 22, 30),
    ),
    ("copilot", "✘ Execution failed: 402 You have no quota", None),
]


@pytest.mark.parametrize(("program", "output", "until"), LIMITS)
def test_a_limit_at_the_end_of_a_failed_command_is_noticed(program, output, until):
    work = "\x1b[32mReading the code\x1b[0m\n" * 30
    for given in (program, None):
        found = noticed(f"{work}\x1b[31m{output}\x1b[0m\n", program=given)
        assert found is not None
        assert found.until == until
        assert found.text.isprintable()
    others = [other for other in PROGRAMS if other != program]
    assert all(noticed(output, program=other) is None for other in others), "each program says it its own way"


@pytest.mark.parametrize(("program", "output", "_until"), LIMITS)
def test_an_agent_that_only_writes_about_limits_is_not_at_one(program, output, _until):
    first = output.splitlines()[0].strip()
    said = f"I handle the message now: {first}"
    assert noticed(f"{said}\n") is None, "it is in the middle of a line"
    assert noticed(f'- "{first}" is handled\n> {first}\n`{first}`\n') is None, "it is quoted"
    assert noticed(f"{output}\n" + "FAILED tests/test_it.py\n" * 80) is None, "the command failed later"
    if program == "claude":
        assert noticed(f"{first} is what it prints\n", program=program) is None or "API Error" in first
    if "|1795100400" not in output:
        assert noticed(f"{output}\n", 0) is None, "the command succeeded"
    assert noticed(f"{output}\nDone: the limit is documented.\n", 0) is None


def test_a_message_of_the_program_alone_counts_with_exit_code_0_too():
    assert noticed("working\nClaude AI usage limit reached|1795100400\n", 0) is not None
    assert noticed("Claude AI usage limit reached|1795100400 is the form\n", 0) is None


@pytest.mark.parametrize(
    ("text", "until"),
    [
        ("resets 12am (Europe/Berlin)", at(2026, 11, 19, 23)),
        ("resets 1:25pm (Europe/Berlin)", at(2026, 11, 19, 12, 25)),  # it has just passed
        ("resets 1pm (Europe/Berlin)", at(2026, 11, 20, 12)),
        ("resets Mon 9am", at(2026, 11, 23, 9)),
        ("resets Jan 3", at(2027, 1, 3)),
        ("try again at 2026-11-20T08:00:00+01:00", at(2026, 11, 20, 7)),
        ("retry in 1.5s", NOW + timedelta(seconds=1.5)),
        ("resets 3pm (Nowhere/Land)", None),
        ("resets Feb 31 at 3pm", None),
        ("resets 25:99", None),
        ("try again later", None),
        ("again " * 500, None),
    ],
)
def test_times_in_messages(text, until):
    assert ends_at(text, NOW, zones) == until


def test_who_waits_does_so_for_a_minute_at_least():
    assert NoticedLimit("x", None).until_us(NOW, 1800) == (NOW.timestamp() + 1800) * 1e6
    assert NoticedLimit("x", NOW - timedelta(hours=1)).until_us(NOW, 1800) == (NOW.timestamp() + 60) * 1e6


def test_no_output_makes_the_search_slow():
    hostile = [
        "again " + "1h " * 5000,
        "resets " * 3000,
        "You've hit your " + "limit " * 4000,
        "[API Error: " * 3000,
        "error " * 5000,
        "1-1 " * 5000 + "limit reached",
        "{" * 20_000,
    ]
    begun = time.process_time()
    for text in hostile:
        noticed(f"{text}\n" * 70)
        ends_at(text, NOW, zones)
    assert time.process_time() - begun < 5


def test_further_patterns_come_from_settings():
    own = checked_patterns(["aider: Rate limit of * is used up", "*: Budget of the team"])
    line = "Rate limit of gpt is used up, try again in 2h"
    found = noticed(f"{line}\n", own=own)
    assert found == NoticedLimit(line, NOW + timedelta(hours=2))
    assert noticed(f"{line}\n", 0, own=own) is None
    assert noticed(f"{line}\n" + "more\n" * 9, own=own) is None
    assert noticed("Rate limit of gpt\n", own=own) is None
    assert noticed("Budget of the team\n", program="claude", own=own) is not None
    assert noticed(f"{line}\n", program="claude", own=own) is None


@pytest.mark.parametrize(
    "patterns",
    [
        ["no program"],
        ["a b: something long"],
        ["a: short"],
        ["a: *******"],
        ["a: *anything"],
        ["a:" + "x" * 999],
        ["a: long enough"] * 51,
    ],
)
def test_unusable_patterns_are_refused(patterns):
    with pytest.raises(InvalidInput):
        checked_patterns(patterns)


@pytest.mark.parametrize(
    ("command", "program"),
    [
        (["claude", "-p"], "claude"),
        (["npx", "/opt/codex"], "codex"),
        (["sh", "agent.sh", "claude"], None),
        ([], None),
    ],
)
def test_the_program_of_a_command(command, program):
    assert program_of(command) == program


def test_the_last_answer_of_a_transcript_decides():
    limit = (
        '{"type":"assistant","isApiErrorMessage":true,"message":{"content":[{"type":"text",'
        '"text":"You\'ve hit your limit · resets 3pm (Europe/Berlin)"}]}}'
    )
    said = limit.replace('"isApiErrorMessage":true,', "")
    find = partial(limit_of_transcript, now=NOW, zones=zones)
    found = find(f'{{"type":"user"}}\n{limit}\n{{"type":"system"}}\nnot json\n')
    assert found is not None
    assert found.until == at(2026, 11, 19, 14)
    for tail in (said, f"{limit}\n{said}", f'{limit}\n{{"type":"user"}}', "", "[1]", '{"type": "assistant"}'):
        assert find(tail) is None

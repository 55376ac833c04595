"""What agents' programs have used, read from their transcripts: each answer once, and only what is new."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from interlock.core.errors import InvalidInput
from interlock.hook.usage import Usage, prices_of

PRICES = prices_of(["claude-sonnet-4: 3, 15, 0.3", "claude: 100, 100", "gpt-5: 1.25, 10, 0.125"])


def claude(name: str, read: int, written: int, cached: int = 0, created: int = 0) -> dict[str, Any]:
    usage = {
        "input_tokens": read,
        "output_tokens": written,
        "cache_read_input_tokens": cached,
        "cache_creation_input_tokens": created,
    }
    return {"type": "assistant", "message": {"id": name, "model": "claude-sonnet-4-5", "usage": usage}}


def codex(total: tuple[int, int], last: tuple[int, int, int]) -> dict[str, Any]:
    info = {
        "total_token_usage": {"input_tokens": total[0], "output_tokens": total[1]},
        "last_token_usage": {
            "input_tokens": last[0],
            "output_tokens": last[1],
            "cached_input_tokens": last[2],
        },
    }
    return {"type": "event_msg", "payload": {"type": "token_count", "info": info}}


def append(path: Path, *lines: object) -> None:
    with path.open("a") as file:
        for line in lines:
            file.write(f"{json.dumps(line)}\n")


def again(usage: Usage) -> Usage:
    """The usage as the next call of the hook has it."""
    return Usage(json.loads(json.dumps(usage.kept())), PRICES)


def test_an_answer_in_several_entries_counts_once(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    append(path, {"type": "user"}, claude("m1", 10, 1, cached=100, created=20), claude("m1", 10, 5, 100, 20))
    usage = Usage({}, PRICES)
    assert usage.look(str(path))
    assert usage.totals == [30 * 3 + 30 + 5 * 15, 130, 5]
    usage = again(usage)
    assert not usage.look(str(path)), "nothing is new"
    append(path, claude("m1", 10, 8, 100, 20), claude("m2", 1, 1))
    assert usage.look(str(path))
    assert usage.totals[1:] == [131, 9]


def test_only_whole_lines_are_read(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    line = json.dumps(claude("m1", 10, 5))
    path.write_text(line[:40])
    usage = Usage({}, PRICES)
    assert not usage.look(str(path))
    path.write_text(f"{line}\n")
    assert usage.look(str(path))
    assert usage.totals[1:] == [10, 5]


def test_codex_repeats_an_answer_until_the_session_has_more(tmp_path: Path) -> None:
    path = tmp_path / "rollout.jsonl"
    model = {"type": "turn_context", "payload": {"model": "gpt-5-codex"}}
    nothing = {"type": "event_msg", "payload": {"type": "token_count", "info": None}}
    append(path, model, nothing, codex((100, 10), (100, 10, 80)), codex((100, 10), (100, 10, 80)))
    usage = Usage({}, PRICES)
    assert usage.look(str(path))
    assert usage.totals == [round(20 * 1.25 + 80 * 0.125 + 100), 100, 10]
    append(path, codex((100, 10), (100, 10, 80)), codex((250, 30), (150, 20, 0)))
    usage = again(usage)
    assert usage.look(str(path))
    assert usage.totals[1:] == [250, 30]


def test_a_session_that_is_written_anew_adds_what_is_new(tmp_path: Path) -> None:
    path = tmp_path / "session.json"

    def write(*tokens: tuple[int, int, int]) -> None:
        messages = [
            {"id": f"g{n}", "type": "gemini", "tokens": {"input": i, "output": o, "thoughts": t}}
            for n, (i, o, t) in enumerate(tokens)
        ]
        path.write_text(json.dumps({"messages": [{"type": "user"}, *messages]}))

    write((10, 2, 3))
    usage = Usage({}, PRICES)
    assert usage.look(str(path))
    write((10, 2, 3), (20, 4, 0))
    usage = again(usage)
    assert usage.look(str(path))
    assert usage.totals == [0, 30, 9]


def test_another_session_of_the_run_adds_to_it(tmp_path: Path) -> None:
    usage = Usage({}, PRICES)
    for name in ("one", "two"):
        path = tmp_path / f"{name}.jsonl"
        append(path, claude(name, 10, 5))
        usage = again(usage)
        assert usage.look(str(path))
    assert usage.totals[1:] == [20, 10]


@pytest.mark.parametrize(
    "text",
    [
        "\n",
        "nonsense\n",
        '{"message": {"usage": 7}}\n',
        '{"message": {"usage": {"input_tokens": -1, "output_tokens": "x"}}}\n',
        '{"payload": {"type": "token_count", "info": []}}\n',
        "[" * 100_000 + '"usage"\n',
    ],
)
def test_what_is_no_usage_is_passed_over(tmp_path: Path, text: str) -> None:
    path = tmp_path / "session.jsonl"
    path.write_text(text)
    usage = Usage({"offset": "x", "totals": 3, "answers": [], "session": {}}, PRICES)
    assert not usage.look(str(path))
    assert usage.totals == [0, 0, 0]
    assert not usage.look(str(tmp_path / "missing.jsonl"))


@pytest.mark.parametrize(
    "text", ["", "gpt-5", "gpt-5: 1", "gpt-5: 1, x", "gpt-5: -1, 2", ": 1, 2", "m: 1, 2, 3, 4"]
)
def test_a_price_that_cannot_be_read_says_so(text: str) -> None:
    with pytest.raises(InvalidInput):
        prices_of([text])

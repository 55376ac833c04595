"""The hook in settings that people edit too: nothing of theirs is lost, or nothing is changed."""

import json
from pathlib import Path

import pytest

from interlock.core.errors import InvalidInput
from interlock.hook.agent_settings import COMMAND, EVENTS, installed, uninstalled


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / ".claude").mkdir()
    return tmp_path / ".claude" / "settings.json"


def with_hook(command: str) -> bytes:
    return json.dumps({"hooks": {"Stop": [{"hooks": [{"type": "command", "command": command}]}]}}).encode()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b'{"env": {"A": "\\ud800"}}', "half of a surrogate pair"),
        (b'{"env": {"\\udfff": 1}}', "half of a surrogate pair"),
        (b'{"timeout": 1e400}', "1e400 is not a finite number"),
        (b'{"timeout": NaN}', "NaN is not a finite number"),
        (b'{"timeout": 0.12345678901234567890123}', "more digits"),
        (b'{"hooks": {"Stop": []}, "hooks": {}}', "'hooks' is duplicated"),
        (b'{"hooks": {"Stop": [], "Stop": []}}', "'Stop' is duplicated"),
        (b"[" * 5_000, "nested"),
    ],
)
@pytest.mark.parametrize("change", [installed, uninstalled])
def test_what_cannot_be_written_back_as_it_was_is_refused_and_not_touched(place, text, why, change):
    place.write_bytes(text)
    with pytest.raises(InvalidInput) as refused:
        change(place).write()
    assert why in refused.value.sentence
    assert refused.value.sentence.count("\n") == 0
    assert "nothing was changed" in refused.value.hint
    assert place.read_bytes() == text
    assert list(place.parent.iterdir()) == [place]


def test_a_failed_write_leaves_nothing_behind(place, monkeypatch):
    change = installed(place)
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        change.write()
    assert list(place.parent.iterdir()) == []


def test_line_ends_stay_as_they_are(place):
    before = b'{\r\n    "model": "x",\r\n    "budget": 1e2\r\n}\r\n'
    place.write_bytes(before)
    installed(place).write()
    text = place.read_bytes()
    assert text.count(b"\n") == text.count(b"\r\n") > 10
    assert b'\r\n    "hooks"' in text
    uninstalled(place).write()
    assert place.read_bytes().splitlines()[1] == before.splitlines()[1]


def test_a_file_that_has_the_hook_keeps_its_form(place):
    hooks = {event: [{"hooks": [{"type": "command", "command": COMMAND}]}] for event in EVENTS}
    place.write_text(json.dumps({"hooks": hooks}))
    assert installed(place).diff == ""


@pytest.mark.parametrize(
    "command",
    [
        "interlock hook",
        "/opt/interlock/bin/interlock hook",
        '[ -z "$INTERLOCK_RUN" ] || exec interlock hook 2>> hook.log',
        "uv run interlock hook",
        COMMAND,
    ],
)
def test_our_hook_is_recognised_however_people_start_it(place, command):
    place.write_bytes(with_hook(command))
    assert (
        json.loads(installed(place).after)["hooks"]["Stop"] == json.loads(with_hook(command))["hooks"]["Stop"]
    )
    assert json.loads(uninstalled(place).after) == {}


@pytest.mark.parametrize(
    "command",
    ["echo not interlock hook", "myinterlock hook", "echo 'interlock hook'", "./interlock-hook", ""],
)
def test_a_hook_that_only_looks_like_ours_is_not(place, command):
    place.write_bytes(with_hook(command))
    assert len(json.loads(installed(place).after)["hooks"]["Stop"]) == 2
    assert uninstalled(place).diff == ""


def test_a_hook_that_also_does_other_things_is_not_removed(place):
    place.write_bytes(with_hook("./mine.sh; interlock hook"))
    assert len(json.loads(installed(place).after)["hooks"]["Stop"]) == 1
    with pytest.raises(InvalidInput, match="other commands"):
        uninstalled(place)

"""The hook in an agent's settings: `.claude/settings.json` of a repository, which people edit too.

Everything else in the file is unchanged, with its order and line ends. A file that Interlock cannot parse, or
cannot write back unchanged, is not touched.
"""

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import Iterator
from decimal import Decimal
from difflib import unified_diff
from pathlib import Path
from typing import Any

from interlock.actions.shellscript import SimpleCommand, commands
from interlock.core import jsontext
from interlock.core.errors import InvalidInput
from interlock.core.record import Record

PLACE = Path(".claude") / "settings.json"
SIZE_MAX_BYTES = 1 << 20
EVENTS = (
    *("SessionStart", "UserPromptSubmit", "PreToolUse", "PermissionRequest", "PostToolUse"),
    *("PostToolUseFailure", "Notification", "Stop", "StopFailure", "SessionEnd"),
)
#: Outside of a run the shell exits without starting Python.
COMMAND = 'test -z "$INTERLOCK_RUN" || interlock hook'
TIMEOUT_S = 30

#: Programs that our hook may run besides our command, and programs that may start it.
_CONDITIONS = frozenset({"[", "[[", "test"})
_STARTERS = frozenset({"hatch", "pdm", "pipx", "poetry", "python", "python3", "uv"})

_HOOK = {"type": "command", "command": COMMAND, "timeout": TIMEOUT_S}


class SettingsChange(Record):
    """A settings file before and after; both are equal if there is nothing to do."""

    path: Path
    before: str
    after: str

    @property
    def diff(self) -> str:
        lines = (self.before.splitlines(keepends=True), self.after.splitlines(keepends=True))
        return "".join(unified_diff(*lines, fromfile=str(self.path), tofile=str(self.path)))

    def write(self) -> None:
        """Replace the file in one step."""
        if self.before == self.after:
            return
        target = self.path.resolve()
        passing = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
        try:
            target.parent.mkdir(exist_ok=True)
            passing.write_bytes(self.after.encode())
            if target.exists():
                passing.chmod(target.stat().st_mode & 0o777)
            passing.replace(target)
        except OSError as error:
            raise InvalidInput(
                f"{self.path} cannot be written: {error.strerror}.", "Choose another with --settings."
            ) from None
        finally:
            with contextlib.suppress(OSError):  # missing once it has replaced the file
                passing.unlink(missing_ok=True)


def installed(path: Path) -> SettingsChange:
    """The settings with the hook added to every event that lacks it.

    Only the directory `.claude` is created: any other missing directory is a mistake in the path.
    """
    parent = path.parent
    if not parent.is_dir() and not (parent.name == PLACE.parent.name and parent.parent.is_dir()):
        raise InvalidInput(
            f"There is no directory {parent}.", "Create it first, or choose another file with --settings."
        )
    before, document = _read(path)
    hooks = document.setdefault("hooks", {})
    _require(isinstance(hooks, dict), path, "hooks is not an object")
    added = False
    for event in EVENTS:
        entries = hooks.setdefault(event, [])
        _require(isinstance(entries, list), path, f"hooks.{event} is not a list")
        if not any(_runs_ours(hook) for _, hook in _each(entries)):
            entries.append({"hooks": [dict(_HOOK)]})
            added = True
    return SettingsChange(path=path, before=before, after=_text(document, before) if added else before)


def uninstalled(path: Path) -> SettingsChange:
    """The settings without the hook, and without the lists and objects that become empty."""
    before, document = _read(path)
    hooks = document.get("hooks", {})
    _require(isinstance(hooks, dict), path, "hooks is not an object")
    found = False
    for event in list(hooks):
        entries = hooks[event]
        for entry, hook in list(_each(entries)):
            if _runs_ours(hook):
                _require(_is_ours(hook), path, f"a hook of {event} runs other commands before or after ours")
                found = True
                entry["hooks"].remove(hook)
                if not entry["hooks"]:
                    entries.remove(entry)
        if found and entries == []:
            del hooks[event]
    if found and not hooks:
        del document["hooks"]
    return SettingsChange(path=path, before=before, after=_text(document, before) if found else before)


def _each(entries: Any) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Every hook of an event, with its entry."""
    for entry in entries if isinstance(entries, list) else ():
        members = entry.get("hooks") if isinstance(entry, dict) else None
        for hook in members if isinstance(members, list) else ():
            if isinstance(hook, dict):
                yield entry, hook


def _runs_ours(hook: dict[str, Any]) -> bool:
    """Whether it calls `interlock hook`; people may have changed the path, the condition and the launcher."""
    return any(_calls_hook(command.program) for command in _commands_of(hook))


def _is_ours(hook: dict[str, Any]) -> bool:
    """Whether it does nothing else, except for conditions."""
    return all(
        _calls_hook(command.program) or _CONDITIONS.issuperset(command.program[:1])
        for command in _commands_of(hook)
    )


def _commands_of(hook: dict[str, Any]) -> list[SimpleCommand]:
    return commands(str(hook.get("command", "")))


def _calls_hook(program: list[str]) -> bool:
    names = [word.rpartition("/")[2] for word in program]
    return names[-1:] == ["hook"] and (
        names[0] == "interlock" or (names[-2:-1] == ["interlock"] and names[0] in _STARTERS)
    )


def _read(path: Path) -> tuple[str, dict[str, Any]]:
    try:
        with path.open("rb") as file:
            data = file.read(SIZE_MAX_BYTES + 1)
    except FileNotFoundError:
        return "", {}
    except OSError as error:
        raise InvalidInput(
            f"{path} cannot be read: {error.strerror}.", "Name another with --settings."
        ) from None
    _require(len(data) <= SIZE_MAX_BYTES, path, f"it has more than {SIZE_MAX_BYTES:,} bytes")
    try:
        text = data.decode("utf-8")
        document = jsontext.parse(text, pairs=_object) if text.strip() else {}
    except ValueError as error:
        raise InvalidInput(
            f"{path} is not valid JSON: {error}.", "Fix it first; nothing was changed."
        ) from None
    _require(isinstance(document, dict), path, "it is not an object")
    if document:
        again = json.dumps(document, ensure_ascii=False)
        same = json.loads(text, parse_float=Decimal) == json.loads(again, parse_float=Decimal)
        _require(same, path, "a number in it has more digits than can be written back")
        halves = any("\ud800" <= character <= "\udfff" for character in again)
        _require(not halves, path, "a text in it has half of a surrogate pair, which no file can hold")
    return text, document


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object without duplicate names: only one of two would be written back."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice!a} is duplicated in one object")
    return found


def _require(right: bool, path: Path, what: str) -> None:
    if not right:
        raise InvalidInput(f"{path} has an unexpected form: {what}.", "Fix it first; nothing was changed.")


def _text(document: dict[str, Any], before: str) -> str:
    """JSON with the indentation of the file, two spaces by default, and with its line ends."""
    first, _, second = before.partition("\n")
    indent = second[: len(second) - len(second.lstrip(" \t"))] or "  "
    text = json.dumps(document, indent=indent, ensure_ascii=False) + "\n"
    return text.replace("\n", "\r\n") if first.endswith("\r") else text

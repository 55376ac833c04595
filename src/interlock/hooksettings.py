"""The hook in an agent's settings: `.claude/settings.json` of a repository, which people edit too.

Whatever else the file says stays as it is, in its order. A file that cannot be understood is not touched.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from typing import Any

from interlock.core.errors import InvalidInput

PLACE = Path(".claude") / "settings.json"
SIZE_MAX_BYTES = 1 << 20
EVENTS = ("SessionStart", "PreToolUse", "PostToolUse", "Stop", "SessionEnd")
#: Outside of a run the shell decides, and no Python is started.
COMMAND = 'test -z "$INTERLOCK_RUN" || interlock hook'
TIMEOUT_S = 30

_HOOK = {"type": "command", "command": COMMAND, "timeout": TIMEOUT_S}


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What a file says and what it would say; both are equal where there is nothing to do."""

    path: Path
    before: str
    after: str

    @property
    def diff(self) -> str:
        lines = (self.before.splitlines(keepends=True), self.after.splitlines(keepends=True))
        return "".join(unified_diff(*lines, fromfile=str(self.path), tofile=str(self.path)))

    def write(self) -> None:
        """Put the new text in the place of the old one, in one step."""
        if self.before == self.after:
            return
        target = self.path.resolve()
        passing = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
        try:
            target.parent.mkdir(exist_ok=True)
            passing.write_text(self.after, "utf-8")
            if target.exists():
                passing.chmod(target.stat().st_mode & 0o777)
            passing.replace(target)
        except OSError as error:
            passing.unlink(missing_ok=True)
            raise InvalidInput(
                f"{self.path} cannot be written: {error.strerror}.", "Choose another with --settings."
            ) from None


def installed(path: Path) -> Change:
    """The settings with the hook at every event; where it is already, nothing is added.

    Of directories only `.claude` is made: any other that is missing is a mistake in the path.
    """
    parent = path.parent
    if not parent.is_dir() and not (parent.name == PLACE.parent.name and parent.parent.is_dir()):
        raise InvalidInput(
            f"There is no directory {parent}.", "Make it first, or choose another file with --settings."
        )
    before, document = _read(path)
    hooks = document.setdefault("hooks", {})
    _require(isinstance(hooks, dict), path, "hooks is no object")
    for event in EVENTS:
        entries = hooks.setdefault(event, [])
        _require(isinstance(entries, list), path, f"hooks.{event} is no list")
        if not any(_is_ours(hook) for _, hook in _each(entries)):
            entries.append({"hooks": [dict(_HOOK)]})
    return Change(path=path, before=before, after=_text(document, before))


def uninstalled(path: Path) -> Change:
    """The settings without the hook; lists and objects that it alone filled go with it."""
    before, document = _read(path)
    hooks = document.get("hooks", {})
    _require(isinstance(hooks, dict), path, "hooks is no object")
    found = False
    for event in list(hooks):
        entries = hooks[event]
        for entry, hook in list(_each(entries)):
            if _is_ours(hook):
                found = True
                entry["hooks"].remove(hook)
                if not entry["hooks"]:
                    entries.remove(entry)
        if found and entries == []:
            del hooks[event]
    if found and not hooks:
        del document["hooks"]
    return Change(path=path, before=before, after=_text(document, before) if found else before)


def _each(entries: Any) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Every hook of an event, with the entry it stands in."""
    for entry in entries if isinstance(entries, list) else ():
        members = entry.get("hooks") if isinstance(entry, dict) else None
        for hook in members if isinstance(members, list) else ():
            if isinstance(hook, dict):
                yield entry, hook


def _is_ours(hook: dict[str, Any]) -> bool:
    # People may have changed the path or the condition; the command still ends so.
    return str(hook.get("command", "")).rstrip().endswith("interlock hook")


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
        document = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError) as error:
        raise InvalidInput(
            f"{path} is not valid JSON: {error}.", "Mend it first; nothing was changed."
        ) from None
    _require(isinstance(document, dict), path, "it is no object")
    return text, document


def _require(right: bool, path: Path, what: str) -> None:
    if not right:
        raise InvalidInput(f"{path} cannot be understood: {what}.", "Mend it first; nothing was changed.")


def _text(document: dict[str, Any], before: str) -> str:
    """JSON as the file was indented, two blanks if that cannot be told."""
    second = before.partition("\n")[2]
    indent = second[: len(second) - len(second.lstrip(" \t"))] or "  "
    return json.dumps(document, indent=indent, ensure_ascii=False) + "\n"

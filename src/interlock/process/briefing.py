"""The data about its run for a command: files for long values, variables for short ones.

The command writes its result to a file beside them.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from interlock.core import jsontext, tracing
from interlock.core.cures import Cure
from interlock.core.errors import InterlockError
from interlock.process.smallfile import read_bytes
from interlock.service.contract import LeaseView, to_json

#: The longest result that a command may write.
RESULT_MAX_BYTES = 1 << 20
_RETRY_AT_MAX_BYTES = 100
FAULT_MAX_BYTES = 1 << 16


class Briefing:
    """The files of one run in a folder."""

    def __init__(self, folder: Path) -> None:
        self._payload, self._messages = folder / "payload.json", folder / "messages.json"
        self.result = folder / "result.json"
        #: A worker's command that hits a quota limit writes here when the limit ends.
        self.retry_at = folder / "retry-at"
        #: Exists once the command has ended its run by itself.
        self.ended = folder / "ended"
        #: A command of ours that fails within the run writes a fault of the set-up here.
        self.fault = folder / "fault.json"

    def write(self, payload: Mapping[str, Any] | None, messages: Sequence[Any]) -> None:
        self._payload.write_text(json.dumps(payload or {}))
        self._messages.write_text(json.dumps(to_json(messages)))

    def variables(self, lease: LeaseView, *, agent: str, url: str) -> dict[str, str]:
        """The environment variables of the run. `url` is the store, in a form that works in any directory."""
        item = lease.item
        return {
            "INTERLOCK_RUN": lease.run,
            "INTERLOCK_FENCE": str(lease.fence),
            "INTERLOCK_ITEM": str(item.id),
            "INTERLOCK_AGENT": agent,
            "INTERLOCK_URL": url,
            "INTERLOCK_PAYLOAD": str(self._payload),
            "INTERLOCK_MESSAGES": str(self._messages),
            "INTERLOCK_RESULT": str(self.result),
            **({"INTERLOCK_LANE": item.lane} if item.lane else {}),
            **({"INTERLOCK_PLAN": str(item.plan)} if item.plan is not None else {}),
            **_trace(lease),
        }


def _trace(lease: LeaseView) -> dict[str, str]:
    """The span of the run, for the command's own traces; nothing without tracing."""
    item = lease.item
    at_us = round(item.created_at.timestamp() * 1_000_000)
    context = tracing.of_run(item.id, at_us, item.payload, lease.fence, os.environ)
    return {} if context is None else {"TRACEPARENT": context.text}


def note_fault(path: Path, error: InterlockError) -> None:
    """Tell the worker of a run that its command failed through a fault of the set-up."""
    with contextlib.suppress(OSError):
        told = {"code": error.code, "sentence": error.sentence, "hint": error.hint, "setup": error.setup}
        path.write_text(json.dumps({**told, "cures": to_json(error.cures)}))


def read_fault(path: Path) -> InterlockError | None:
    """The fault of the set-up that a command reported; None if there is none, or the file is not ours."""
    try:
        said = jsontext.parse(read_bytes(path, FAULT_MAX_BYTES))
        cures = tuple(Cure(**each) for each in said.get("cures", ()))
        error = InterlockError(str(said["sentence"]), str(said["hint"]), cures)
        error.code, error.setup = str(said["code"]), "lane" if said["setup"] == "lane" else "machine"
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return error


def read_result(path: Path) -> str | None:
    """The result of a command as JSON text; None if it wrote none. Never blocks.

    Raises ValueError if it is not JSON or is unreadable.
    """
    try:
        data = read_bytes(path, RESULT_MAX_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ValueError(error.strerror) from None
    jsontext.parse(data)
    return data.decode()


def read_retry_at(path: Path) -> str | None:
    """The time that a command wrote, as text; None if it wrote none. Raises ValueError if it is
    unreadable."""
    try:
        return read_bytes(path, _RETRY_AT_MAX_BYTES).decode().strip()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ValueError(error.strerror) from None


def mark_ended(run: str) -> None:
    """Called in a command that has ended its own run: tells the worker not to report an end."""
    result = os.environ.get("INTERLOCK_RESULT")
    if result and os.environ.get("INTERLOCK_RUN") == run:
        with contextlib.suppress(OSError):
            Path(result).with_name("ended").touch()

"""Actions: the form of a button becomes an operation with its arguments."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Generic

from starlette.requests import Request

from interlock.core.cures import Cure
from interlock.core.errors import InterlockError, InvalidInput, LeaseLost
from interlock.core.jsontext import parse
from interlock.core.model import ArrivalDecision
from interlock.core.states import ItemStatus
from interlock.dashboard.host import B, DashboardHost
from interlock.dashboard.sign_in import SignIn
from interlock.dashboard.visit import Notice

#: The most items of one form.
BULK_MAX = 200
#: What each operation has done, by its name.
_DONE: Mapping[str, str] = {
    "acquire_issue": "Acquired",
    "block": "Blocked",
    "cancel": "Cancelled or asked to stop",
    "cancel_lane": "Lane cancelled",
    "cancel_plan": "Plan cancelled",
    "drop_effects": "Dropped",
    "edit": "Saved",
    "end_external": "End reported",
    "msg": "Message sent",
    "pause_plan": "Plan paused",
    "promote_series": "Promoted",
    "rebuild_series": "Queue rebuilt",
    "reconcile_series": "Reconciled",
    "release_issue": "Released",
    "remove_agent": "Agent removed",
    "resume_plan": "Plan resumed",
    "retry": "Retried",
    "retry_dead": "Dead letters retried",
    "retry_effects": "Retried",
    "revoke_token": "Token revoked",
    "set_agent": "Agent changed",
    "set_edit_deadline": "Edit deadline set",
    "set_mode": "Mode set",
    "start_demo": "Demo fleet started",
    "stop_demo": "Demo removed",
    "take_back": "Taken back",
    "unblock": "Unblocked",
}
#: Operations that pause and resume, and what.
_PAUSES: Mapping[str, str] = {"pause_agent": "Agent", "pause_project": "Project"}
_TEXT = "a."
_KEY = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)


class Actions(Generic[B]):
    """Carries out the forms of pages."""

    def __init__(self, host: DashboardHost[B], sign_in: SignIn[B]) -> None:
        self._host, self._sign_in = host, sign_in

    async def carry_out(self, request: Request, bearer: B, form: dict[str, list[str]]) -> Notice:
        """Carry out a form; gives what to say about it. A refusal is an error."""
        operation = _one(form, "operation")
        values = _values(_one(form, "arguments") or "{}")
        texts = _texts(form, operation)
        key = _one(form, "key")
        if not _KEY.fullmatch(key):
            raise InvalidInput("The form has no key.", "Reload the page, then send it again.")
        key = f"{self._sign_in.session(request)} {key}"
        said = _one(form, f"said.{operation}") or _one(form, "said")
        said = said[:200] or operation.replace("_", " ").capitalize()
        chosen = form.get("item", [])
        if not chosen:
            answer = await self._host.act(bearer, operation, values, texts, key)
            _check(answer)
            return (
                _arrived(answer[0])
                if operation == "add"
                else Notice(f"{_done(operation, values, said, answer)}.")
            )

        async def act(item: int) -> None:
            _check(await self._host.act(bearer, operation, {**values, "item": item}, texts, key))

        return await _each(chosen, act, _done(operation, values, said))


async def _each(chosen: list[str], act: Callable[[int], Awaitable[None]], what: str) -> Notice:
    """Do the same to several items. What one refuses does not stop the others."""
    if len(chosen) > BULK_MAX:
        raise InvalidInput(f"{len(chosen)} items were chosen.", f"Choose at most {BULK_MAX}.")
    refused: list[InterlockError] = []
    items = list(dict.fromkeys(chosen))
    for text in items:
        if not (text.isascii() and text.isdigit() and len(text) <= 18):
            raise InvalidInput(f"item is {text[:80]!r}.", "It must be a whole number.")
    for text in items:
        try:
            await act(int(text))
        except InterlockError as error:
            refused.append(error)
    if len(refused) == len(items):
        raise refused[0]
    done = f"{what}: {len(items) - len(refused)} of {len(items)} items."
    if not refused:
        return Notice(done)
    return Notice(f"{done} {len(refused)} refused: {refused[0].sentence}", "warn")


def _done(operation: str, values: Mapping[str, Any], said: str, answer: Any = None) -> str:
    """What was done, as a participle. `said` is the label of the button, `answer` that of one operation."""
    if operation == "cancel" and answer is not None:
        return "Asked to stop" if answer["item"]["status"] == ItemStatus.IN_PROGRESS else "Cancelled"
    if operation == "msg" and said.startswith("Answer"):
        return "Answered"
    if operation in _PAUSES:
        return f"{_PAUSES[operation]} {'paused' if values.get('paused') else 'resumed'}"
    return _DONE.get(operation) or f"Done: {said[:1].lower()}{said[1:]}"


def _arrived(added: dict[str, Any]) -> Notice:
    """What became of an added item."""
    decision, item, arrival = added["decision"], added["item"], added["arrival"]
    if item is None:
        holder = added["holder"]
        by = f" by item {holder['item']}" if holder else ""
        return Notice(f"Rejected: its lane is held{by}.", "warn")
    if arrival is None:
        return Notice(f"A duplicate of item {item['id']}. Nothing was added.", "warn")
    if decision == ArrivalDecision.COALESCED:
        return Notice(f"Added item {arrival}, which became a message of item {item['id']}.")
    return Notice(f"Added item {item['id']}: {decision}.")


def _texts(form: dict[str, list[str]], operation: str) -> dict[str, str]:
    """What was typed, by argument. A form of several operations names the operation: `a.edit.priority`."""
    found = {}
    for name, given in form.items():
        if name.startswith(_TEXT):
            of, _, argument = name.removeprefix(_TEXT).rpartition(".")
            if of in ("", operation):
                found[argument] = "\n".join(each.replace("\r\n", "\n") for each in given)
    return found


def _one(form: dict[str, list[str]], name: str) -> str:
    return (form.get(name) or [""])[0]


def _values(text: str) -> dict[str, Any]:
    try:
        found = parse(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise InvalidInput("The arguments of the form are not valid.", "Reload the page.")
    return found


def _check(answer: Any) -> None:
    """Raise the refusal that an answer consists of."""
    for each in answer if isinstance(answer, list) else [answer]:
        refusal = each.get("refusal") if isinstance(each, dict) else None
        if refusal:
            cures = tuple(Cure(**cure) for cure in refusal["cures"])
            raise LeaseLost(refusal["message"], refusal.get("hint", ""), cures)

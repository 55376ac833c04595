"""Events of the history as sentences, whose items, lanes, agents and plans are links."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from interlock.core.model import EventKind, Reason
from interlock.core.row import NamedTuple

#: A form has names of an event's parts in braces. Brackets are left out if a name in them has no value.
_FORMS: Mapping[str, str] = {
    EventKind.ITEM_ADDED: (
        "Item {item} was added[ as task {task}][ of plan {plan}][ with the unread messages of item"
        " {follows_item}][ on {lane}][, behind item {holder_item}]"
    ),
    EventKind.ITEM_DUPLICATE: "“{title}” is a duplicate of item {item}",
    EventKind.ITEM_REJECTED: "“{title}” was rejected: item {holder_item} holds {lane}",
    EventKind.ITEM_OBSERVED: "Item {item} was added on {lane}, which is only observed",
    EventKind.ITEM_COALESCED: "Item {item} became a message of item {into_item}",
    EventKind.ITEM_SUPERSEDED: "Item {item} was superseded by item {by_item}",
    EventKind.ITEM_PARKED: "Item {item} backs off until {until_us}",
    EventKind.ITEM_REENTERED: "Item {item} is {status} now",
    EventKind.ITEM_EDITED: "Item {item} was edited[ by {by}][: {new}]",
    EventKind.ITEM_CANCELLED: "Item {item} was cancelled[ by {by}][: {why}]",
    EventKind.ITEM_RETRIED: "Item {item} was retried[ by {by}][: {why}]",
    EventKind.CANCEL_REQUESTED: (
        "Run {run} of item {item} was asked to stop[ by {by}][ for item {by_item}][. Its lease is revoked at"
        " {revoke_us}]"
    ),
    EventKind.MESSAGE_ADDED: "Item {item} got message {n}[ from {author}]",
    EventKind.QUESTION_ASKED: "{agent} asked about item {item}: “{question}”",
    EventKind.QUESTION_ANSWERED: "The question of item {item} was answered[ by item {by_item}]",
    EventKind.QUESTION_TIMED_OUT: "The question of item {item} is still unanswered",
    EventKind.WAKE_STOPPED: "Item {item} waits for a person[ after {wakes} wake-ups in a row]",
    EventKind.RUN_STARTED: "{agent} started run {run} of item {item}[ on {lane}]",
    EventKind.RUN_SUCCEEDED: "Run {run} of {agent} completed item {item}[, with {unread} unread messages]",
    EventKind.RUN_FAILED: (
        "Run {run} of {agent} failed[ on attempt {attempt}]. Item {item} is {item_status}[: {why}]"
    ),
    EventKind.RUN_CANCELLED: "Run {run} of {agent} was cancelled. Item {item} is {item_status}[: {why}]",
    EventKind.RUN_TIMED_OUT: (
        "Run {run} of {agent} timed out[ on attempt {attempt}]. Item {item} is {item_status}"
    ),
    EventKind.RUN_LOST: (
        "Run {run} of {agent} lost its lease[ on attempt {attempt}]. Item {item} is {item_status}"
    ),
    EventKind.RUN_RELEASED: "Run {run} of {agent} released item {item}[, by {by}][: {why}]",
    EventKind.RUN_REFUSED: "A late “{wanted}” of run {run}[ on item {item}] was refused",
    EventKind.LANE_PROMOTED: "Item {item} is next on {lane}[, after run {from_run}]",
    EventKind.LANE_OVERTAKEN: "Item {by_item} overtook item {item} on {lane}",
    EventKind.AGENT_SET: "The settings of {agent} were changed[ by {by}]",
    EventKind.AGENT_REMOVED: "{agent} was removed[ by {by}]",
    EventKind.AGENT_PAUSED: "{agent} was paused[ by {by}][: {reason}]",
    EventKind.AGENT_RESUMED: "{agent} was resumed[ by {by}]",
    EventKind.AGENT_WALLED: "{agent} hit a quota limit until {until_us}[: {why}]",
    EventKind.POOL_SET: "The pool {pool} was limited to {max} runs at once[ by {by}]",
    EventKind.POOL_REMOVED: "The pool {pool} was removed[ by {by}]",
    EventKind.BUDGET_SET: "Budgets were changed[: {scope} {name}][ per {per}][, {usd} USD][ by {by}]",
    EventKind.BUDGET_REMOVED: "The budget of {scope} {name} per {per} was removed[ by {by}]",
    EventKind.PROJECT_PAUSED: "The project {project} was paused[ by {by}][: {reason}]",
    EventKind.PROJECT_RESUMED: "The project {project} was resumed[ by {by}]",
    EventKind.MODE_SET: "The mode {reason} was set for the {scope} {value}[ by {by}]",
    EventKind.STORE_CHANGED: "The store moved from {was} to {now}. Run numbers continue above {last_run}",
    EventKind.STORE_LEAPT: "A fence in git was ahead of the store. Run numbers continue above {past}",
    EventKind.CLOCK_STEPPED: "The store's clock stepped[ by {step_s} s]",
    EventKind.PLAN_CREATED: "Plan {plan} “{name}” was created[ by {by}], with {tasks} tasks",
    EventKind.PLAN_MODIFIED: (
        "Plan {plan} was edited[ by {by}][ in run {by_run}]. It has revision {revision}[: {why}]"
    ),
    EventKind.PLAN_EDIT_REFUSED: "An edit of plan {plan} was refused[: {reasons}]",
    EventKind.PLAN_CYCLE_OPENED: "Task {task} of plan {plan} ended, and its editor must answer",
    EventKind.PLAN_CYCLE_CLOSED: "The edit cycle of plan {plan} closed at revision {revision}",
    EventKind.PLAN_PAUSED: "Plan {plan} was paused[ by {by}][: {why}]",
    EventKind.PLAN_RESUMED: "Plan {plan} was resumed[ by {by}][: {why}]",
    EventKind.PLAN_DEADLINE_SET: "The editor of plan {plan} has {edit_deadline_s} s for an edit[ (by {by})]",
    EventKind.PLAN_CANCELLED: "Plan {plan} was cancelled[ by {by}][: {why}]",
    EventKind.PLAN_ENDED: "Plan {plan} ended: {completed} tasks completed, {failed} failed",
    EventKind.PLAN_REOPENED: "Plan {plan} runs again: one of its tasks was retried",
    EventKind.NOTICE_FAILED: "The command of {notice} failed for event {of_seq}[: {error}]",
    EventKind.BLOCK_SET: "[Item {item}][{lane}] waits for {blocker}[, set by {by}][: {reason}]",
    EventKind.BLOCK_REMOVED: "[Item {item}][{lane}] no longer waits for {blocker}[, removed by {by}]",
    EventKind.GATE_CLOSED: "{lane} was shut for {series}[ by {by}][: {reason}]",
    EventKind.GATE_OPENED: "{lane} was opened for {series}[ by {by}][: {reason}]",
    EventKind.GATE_REMOVED: "The gate of {lane} was removed[ by {by}][: {reason}]",
    EventKind.SERIES_YIELDED: "Item {item} gave its place in the series back: it needs {reason}",
}
#: Events whose reason makes another sentence of them.
_BY_REASON: Mapping[tuple[str, str], str] = {
    (EventKind.ITEM_ADDED, Reason.EDIT_OWED): "Item {item} asks the editor of plan {plan} for an edit",
    (EventKind.ITEM_PARKED, Reason.ASKED): "Item {item} waits for an answer until {until_us}",
    (
        EventKind.ITEM_PARKED,
        Reason.QUOTA_WALL,
    ): "Item {item} waits for the end of a quota limit at {until_us}",
}
#: Kinds that deserve a second look, and kinds that are good news or work under way.
_BAD = frozenset({EventKind.RUN_FAILED, EventKind.RUN_LOST, EventKind.RUN_TIMED_OUT, EventKind.NOTICE_FAILED})
_WARN = frozenset(
    {
        *(EventKind.RUN_REFUSED, EventKind.ITEM_REJECTED, EventKind.QUESTION_ASKED, EventKind.WAKE_STOPPED),
        *(
            EventKind.QUESTION_TIMED_OUT,
            EventKind.AGENT_WALLED,
            EventKind.AGENT_PAUSED,
            EventKind.LANE_OVERTAKEN,
        ),
        *(EventKind.PROJECT_PAUSED, EventKind.PLAN_EDIT_REFUSED, EventKind.PLAN_PAUSED, EventKind.BLOCK_SET),
        *(EventKind.STORE_CHANGED, EventKind.STORE_LEAPT, EventKind.CLOCK_STEPPED),
    }
)
TROUBLE = tuple(kind for kind in EventKind if kind in _BAD | _WARN)
#: Kinds whose reason is a text of a person, which the sentence says.
_SAID = frozenset(kind for kind, form in _FORMS.items() if "{reason}" in form)
_PARTS = re.compile(r"\{(\w+)\}")
_OPTIONAL = re.compile(r"\[([^\[\]]*)\]")
_ITEMS = frozenset({"item", "by_item", "into_item", "holder_item", "follows_item"})
_RUNS = frozenset({"run", "from_run", "by_run"})
_TEXT_MAX = 200


class SentencePart(NamedTuple):
    """A part of a sentence: a plain text, or a name of a kind that has a page."""

    text: str
    #: `text`, `value`, `item`, `run`, `lane`, `agent`, `plan` or `time`.
    kind: str = "text"


def sentence(event: Mapping[str, Any]) -> list[SentencePart]:
    """An event as a sentence, in parts."""
    facts = {**event, **event["data"]}
    form = _BY_REASON.get((event["kind"], event["reason"])) or _FORMS.get(event["kind"], event["kind"])
    form = _OPTIONAL.sub(lambda found: _if_known(found[1], facts), form)
    return list(_parts(form, facts))


def tone(kind: str) -> str:
    """The colour of an event: `good`, `busy`, `warn`, `bad` or `quiet`."""
    if kind in _BAD:
        return "bad"
    if kind in _WARN:
        return "warn"
    good: Mapping[str, str] = {EventKind.RUN_SUCCEEDED: "good", EventKind.RUN_STARTED: "busy"}
    return good.get(kind, "quiet")


def reason_code(event: Mapping[str, Any]) -> str:
    """The code of an event's reason; empty if the reason is a text that the sentence says."""
    return "" if event["kind"] in _SAID else str(event["reason"])


def _if_known(form: str, facts: Mapping[str, Any]) -> str:
    return form if all(facts.get(name) not in (None, "", [], {}) for name in _PARTS.findall(form)) else ""


def _parts(form: str, facts: Mapping[str, Any]) -> Iterator[SentencePart]:
    first = True
    for n, text in enumerate(_PARTS.split(form)):
        if n % 2 == 0:
            if text:
                yield SentencePart(text[:1].upper() + text[1:] if first else text)
        else:
            yield _named(text, facts.get(text))
        first = first and not text
    if not form.endswith("”"):
        yield SentencePart(".")


def _named(name: str, value: Any) -> SentencePart:
    if value is None:
        return SentencePart("(unknown)")
    if name.endswith("_us"):
        return SentencePart(datetime.fromtimestamp(value / 1e6, UTC).isoformat(timespec="seconds"), "time")
    if name in _ITEMS:
        return SentencePart(str(value), "item")
    if name in _RUNS:
        return SentencePart(str(value), "run")
    if name in ("lane", "agent", "plan"):
        return SentencePart(str(value), name)
    if name in ("status", "item_status"):
        return SentencePart(str(value).replace("_", " "))
    return SentencePart(_shortened(value), "value")


def _shortened(value: Any) -> str:
    if isinstance(value, Mapping):
        value = ", ".join(f"{name} {_shortened(each)}" for name, each in value.items())
    elif isinstance(value, list):
        value = "; ".join(map(str, value))
    elif isinstance(value, int) and not isinstance(value, bool):
        value = f"{value:,}"
    text = str(value).rstrip()
    text = f"{text[: _TEXT_MAX - 1]}…" if len(text) > _TEXT_MAX else text
    return text.removesuffix(".")

"""One item: why it is where it is, what helps, its messages, its runs, and what it was made of."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from interlock.core.errors import NotFound
from interlock.core.model import EventKind, Reason
from interlock.core.names import issue_number
from interlock.core.plans.model import EDIT_TYPE
from interlock.core.row import NamedTuple
from interlock.core.states import TERMINAL
from interlock.dashboard.charts.run_strip import run_strip
from interlock.dashboard.event_sentences import SentencePart, reason_code, sentence, tone
from interlock.dashboard.reasons import reason_words
from interlock.dashboard.rendering import moment_of, url
from interlock.dashboard.visit import Page, Visit
from interlock.service.reads import INPUTS_SHOWN

#: How many rows of each kind are shown at first.
MESSAGES, RUNS, EVENTS, INPUTS = 20, 10, 30, 20
#: Where texts are cut: a message, the last lines of a run's output, a payload.
MESSAGE_CHARS, OUTPUT_LINES, OUTPUT_CHARS, PAYLOAD_CHARS = 1_500, 12, 1_500, 6_000
#: The most runs that a message names as its readers.
_READERS = 3
#: Reasons that the sentence of an event says.
_SAID = frozenset({"", Reason.REPORTED, Reason.OPERATOR, Reason.ASKED, Reason.BACK_OFF})


class Mark(NamedTuple):
    """Whether a run has a message."""

    text: str
    kind: str = ""


async def item(visit: Visit) -> Page:
    """Everything about one item."""
    number = visit.path_number("item")
    found = await visit.call("show", item=number)
    shown = found["item"]
    ended = shown["status"] in [status.value for status in TERMINAL]
    answer = next((cure for cure in found["cures"] if shown["asking"] and cure["operation"] == "msg"), None)
    values: dict[str, Any] = {
        "item": shown,
        "found": found,
        "ended": ended,
        "why": _sentence(found, number),
        "cures": [cure for cure in found["cures"] if cure != answer and not _leads_here(cure, number)],
        "hint": found["hint"],
        "answer": answer,
        "kind": _kind(shown),
        "asked": _asked(found) if shown["asking"] else None,
        "cured": {cure["operation"] for cure in found["cures"]},
        "editable": _editable(shown, ended),
        "live": next((run for run in found["runs"] if run["status"] == "running"), None),
        "runs": await _with_log(visit, _runs(found)[:RUNS]),
        "run_count": len(found["runs"]),
        "used": found["cost"],
        "refused": _refused(found["events"]),
        "strip": run_strip(shown, found["runs"], found["events"]),
        "events": [_line(event, number) for event in reversed(found["events"][-EVENTS:])],
        "events_url": url("/events", item=number),
        "inputs": found["inputs"][:INPUTS],
        "inputs_max": INPUTS_SHOWN,
        "more_inputs": len(found["inputs"]) - INPUTS,
        "place": next((n for n, each in enumerate(found["line"]) if each["id"] == number), None),
        "github": _issue(shown),
        "payload": _payload(shown["payload"]),
        **_thread(found, visit.query.get("messages", "")),
    }
    return Page("item.html", values, f"#{number} {shown['title']}", "items")


def _kind(shown: Mapping[str, Any]) -> str:
    """The colour of the `why`: whether a person should look."""
    if shown["status"] == "failed":
        return "bad"
    return "warn" if shown["blocked_by"] or shown["gated_by"] or shown["cancel_requested"] else ""


def _sentence(found: Mapping[str, Any], number: int) -> str:
    """The `why` without what the page shows beside it: the number and the question."""
    said: str = found["why"].removeprefix(f"Item {number} ")
    question = found["item"]["question"]
    if question and question in said:
        said = said.partition(question)[2].lstrip("; ")
    return said[:1].upper() + said[1:]


def _leads_here(cure: Mapping[str, Any], number: int) -> bool:
    return cure["operation"] in ("show", "why") and cure["arguments"].get("item") == number


def _line(event: Mapping[str, Any], number: int) -> dict[str, Any]:
    """An event as a line of the history. The item does not link to itself."""
    code = reason_code(event)
    because = "" if code in _SAID else reason_words(code)
    parts = [
        SentencePart(f"#{number}") if part == (str(number), "item") else part for part in sentence(event)
    ]
    return {**event, "parts": parts, "tone": tone(event["kind"]), "because": because}


def _editable(shown: Mapping[str, Any], ended: bool) -> bool:
    """Whether the service lets fields be changed: before the first claim, and never those of a plan."""
    return (
        not ended and not shown["first_claimed_at"] and shown["plan"] is None and shown["type"] != EDIT_TYPE
    )


def _asked(found: Mapping[str, Any]) -> dict[str, Any]:
    """The question, its run and its time."""
    event = next((e for e in reversed(found["events"]) if e["kind"] == EventKind.QUESTION_ASKED), None)
    if event is None:
        return {"text": found["item"]["question"] or "", "agent": None, "run": None, "at": None}
    question = found["item"]["question"] or str(event["data"].get("question", ""))
    return {"text": question, "agent": event["agent"], "run": event["run"], "at": event["at"]}


def _issue(shown: Mapping[str, Any]) -> dict[str, str] | None:
    """The issue or pull request on GitHub that the item's lane names."""
    lane = shown["lane"] or shown["observed_lane"] or ""
    number = issue_number(lane)
    repository = lane.removeprefix("issue:").rpartition("#")[0]
    if number is None or repository.count("/") != 1:
        return None
    return {"name": f"{repository}#{number}", "url": f"https://github.com/{repository}/issues/{number}"}


def _payload(payload: Any) -> dict[str, Any] | None:
    if payload is None:
        return None
    text = json.dumps(payload, ensure_ascii=False, indent=2)
    return {"text": text[:PAYLOAD_CHARS], "cut": max(0, len(text) - PAYLOAD_CHARS)}


# -- messages -----------------------------------------------------------------------------------------


def _thread(found: Mapping[str, Any], asked: str) -> dict[str, Any]:
    """The messages of the page: the last ones, all, or one in full."""
    messages = found["messages"]
    if asked.isdecimal() and asked.isascii():
        chosen = [message for message in messages if message["n"] == int(asked[:18])]
    else:
        chosen = messages if asked == "all" else messages[-MESSAGES:]
    whole = len(chosen) == 1 and asked.isdecimal()
    return {
        "messages": [_message(found, message, whole=whole) for message in chosen],
        "earlier": len(messages) - len(chosen),
        "message_count": found["item"]["messages"],
    }


def _message(found: Mapping[str, Any], message: Mapping[str, Any], *, whole: bool) -> dict[str, Any]:
    text = message["text"]
    cut = 0 if whole else max(0, len(text) - MESSAGE_CHARS)
    if message["sender"] == "agent":
        author = message["agent"] or message["author"]
    else:
        author = message["author"] or {"person": "A person", "bot": "Interlock"}.get(message["sender"], "")
    return {
        **message,
        "author": author or message["sender"].capitalize(),
        "text": text[: len(text) - cut],
        "cut": cut,
        "marks": list(_marks(found, message)),
        "payload": _payload(message["payload"]),
    }


def _marks(found: Mapping[str, Any], message: Mapping[str, Any]) -> Sequence[Mark]:
    """Which runs got a message. Each run begins with all messages that there are, and a current run confirms
    what it has read. Whether an ended run has read what came while it worked is not known."""
    n, at = message["n"], moment_of(message["at"])
    given = [run for run in found["runs"] if run["ended_at"] and moment_of(run["started_at"]) >= at]
    marks = []
    if given:
        named = given[-_READERS:]
        numbers = ", ".join(str(run["run"]) for run in named)
        others = f" and {len(given) - len(named)} earlier" if len(given) > len(named) else ""
        marks.append(Mark(f"given to {'run' if len(named) == 1 else 'runs'} {numbers}{others}"))
    live = found["item"]["run"]
    if live is not None:
        if n <= found["seen"]:
            marks.append(Mark(f"read by run {live}", "good"))
        elif n <= found["delivered"]:
            marks.append(Mark(f"given to run {live}, not confirmed"))
        else:
            marks.append(Mark(f"not read by run {live} yet", "warn"))
    elif found["item"]["status"] not in [status.value for status in TERMINAL]:
        marks.append(Mark("for the next run"))
    return marks


# -- runs ---------------------------------------------------------------------------------------------


def _runs(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The runs, the newest first, with what each said last."""
    return [{**run, "said": _said(run), "because": _because(run)} for run in reversed(found["runs"])]


async def _with_log(visit: Visit, runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same runs. If the newest one has reported no output, the end of what its worker has sent."""
    if runs and runs[0]["said"] is None and runs[0]["worker"]:
        try:
            log = await visit.call("run_log", run=runs[0]["run"])
        except NotFound:
            return runs
        runs[0]["said"] = _tail("live", log["text"], left_out=log["start"] > 0)
    return runs


def _because(run: Mapping[str, Any]) -> str:
    return "" if run["reason"] in ("", Reason.REPORTED) else reason_words(run["reason"])


def _said(run: Mapping[str, Any]) -> dict[str, Any] | None:
    """The end of a run's error or output, which is often the cause."""
    result = run["result"]
    if run["error"]:
        kind, text = "bad", run["error"]
    elif isinstance(result, dict) and isinstance(result.get("stdout"), str):  # a worker's command
        kind, text = "", result["stdout"]
    elif result is not None:
        kind, text = "", json.dumps(result, ensure_ascii=False, indent=2)
    else:
        return None
    return _tail(kind, text)


def _tail(kind: str, text: str, *, left_out: bool = False) -> dict[str, Any]:
    """The last lines of an output."""
    lines = text.rstrip().splitlines()
    tail = "\n".join(lines[-OUTPUT_LINES:])
    return {
        "kind": kind,
        "text": tail[-OUTPUT_CHARS:],
        "earlier": max(0, len(lines) - OUTPUT_LINES),
        "cut": left_out or len(tail) > OUTPUT_CHARS,
    }


def _refused(events: Sequence[Mapping[str, Any]]) -> Mapping[int, list[dict[str, Any]]]:
    """Late writes that were refused, by the run that tried them."""
    found: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for event in events:
        if event["kind"] == EventKind.RUN_REFUSED:
            found[event["run"]].append({"wanted": event["data"].get("wanted", ""), "at": event["at"]})
    return found

"""What can be owed to GitHub, by kind: made where something happens, sent from the outbox.

An effect's name is its mark at GitHub, and a number has each name once: owing it again changes nothing. With
`run` an effect tells that run's progress, and is dropped if the run loses its lease before it is sent.
Without one it is always carried out: so is what takes back (`unreact`, `cancel`), and what follows from a
write that the store accepted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from interlock.core.errors import InvalidInput
from interlock.core.row import NamedTuple
from interlock.github import effects
from interlock.github.effects import EYES, LANE_CONTEXT, Subject
from interlock.store.outbox_port import Effect

#: What the value of a mark may have.
_NAME = re.compile(r"[A-Za-z0-9_@#+=:./\[\]-]{1,200}")


#: Issues, and logins that they must not be assigned to any more.
After = Sequence[tuple[int, Sequence[str]]]


class Place(NamedTuple):
    """Where something is owed: an issue or a pull request; number 0 is the repository itself."""

    repository: int
    number: int


def comment(place: Place, name: str, text: str, *, agent: str = "", run: int | None = None) -> Effect:
    """A new comment. `agent` is who speaks."""
    return _effect(place, name, "comment", {"text": text, "agent": agent}, run=run)


def salvage(place: Place, *, item: int, run: int, ref: str) -> Effect:
    """A comment on where the work is that a dead run left."""
    return comment(place, f"salvage:run-{run}", effects.salvaged(item=item, run=run, ref=ref))


def sticky(
    place: Place, name: str, topic: str, text: str, *, agent: str = "", run: int | None = None
) -> Effect:
    """The one comment of a topic: made by the first effect, and edited by the next ones."""
    data = {"text": text, "agent": agent, "topic": _checked(topic)}
    return _effect(place, name, "sticky", data, thing=f"sticky:{topic}", run=run)


def progress(place: Place, name: str, item: int, topic: str) -> Effect:
    """The one comment on an item. What it says is made up when it is sent."""
    return _effect(place, name, "progress", {"item": item, "topic": _checked(topic)}, thing=f"sticky:{topic}")


def react(
    place: Place, name: str, subject: Subject, content: str = EYES, *, run: int | None = None
) -> Effect:
    """A reaction."""
    effects.react("", subject, content)
    return _effect(place, name, "react", *_reaction(subject, content), run=run)


def unreact(
    place: Place, name: str, subject: Subject, content: str = EYES, *, reaction: int | None = None
) -> Effect:
    """Our reaction goes. Its id is found if nobody knows it."""
    effects.react("", subject, content)
    data, thing = _reaction(subject, content)
    return _effect(place, name, "unreact", {**data, "reaction": reaction}, thing)


def label(place: Place, name: str, labels: Sequence[str], *, run: int | None = None) -> Effect:
    """More labels."""
    return _effect(place, name, "label", {"labels": list(labels)}, run=run)


def unlabel(place: Place, name: str, label: str) -> Effect:
    """One label less."""
    return _effect(place, name, "unlabel", {"label": label})


def assign(
    place: Place, name: str, logins: Sequence[str], *, after: After = (), while_running: bool = False
) -> Effect:
    """More assignees. With `after` it waits until other issues are seen not to be assigned to these logins
    any more; with `while_running` it is dropped once its run has ended, however that was."""
    data = {"logins": list(logins), "after": _after(after), "while_running": while_running}
    return _effect(place, name, "assign", data)


def unassign(place: Place, name: str, logins: Sequence[str], *, while_running: bool = False) -> Effect:
    """Fewer assignees. With `while_running` it is dropped once its run has ended, however that was."""
    return _effect(place, name, "unassign", {"logins": list(logins), "while_running": while_running})


def request_review(place: Place, name: str, logins: Sequence[str]) -> Effect:
    """Ask people to review a pull request."""
    return _effect(place, name, "request_review", {"logins": list(logins)})


def dispatch(
    place: Place,
    name: str,
    workflow: str,
    ref: str,
    inputs: Mapping[str, str],
    *,
    mark_input: str = "",
    after: After = (),
    while_running: bool = False,
) -> Effect:
    """Start a workflow. `mark_input` names an input that the workflow shows in its `run-name`; the others are
    as for `assign`."""
    data = {
        "workflow": workflow,
        "ref": ref,
        "inputs": dict(inputs),
        "mark_input": mark_input,
        "after": _after(after),
        "while_running": while_running,
    }
    return _effect(place, name, "dispatch", data)


def cancel(place: Place, name: str, run_id: int) -> Effect:
    """End a workflow run, by force if it does not end in the time that GitHub gives it."""
    return _effect(place, name, "cancel", {"run_id": run_id})


def force_cancel(place: Place, name: str, run_id: int) -> Effect:
    """End a workflow run by force, not before GitHub's own time for it is over."""
    made = _effect(place, name, "force_cancel", {"run_id": run_id})
    return made._replace(after_s=effects.FORCE_AFTER_S)


def status(
    place: Place,
    name: str,
    sha: str,
    state: str,
    *,
    description: str = "",
    url: str = "",
    context: str = LANE_CONTEXT,
) -> Effect:
    """What a commit shows under a name."""
    effects.status("", sha, state)
    data = {"sha": sha, "state": state, "description": description, "url": url, "context": context}
    return _effect(place, name, "status", data)


def lane(place: Place, name: str) -> Effect:
    """Who holds the lane of a pull request, on its newest commit. Both are looked up when it is sent."""
    return _effect(place, name, "lane", {}, thing="lane")


def _after(after: After) -> list[dict[str, object]]:
    return [{"number": number, "logins": list(logins)} for number, logins in after]


def _reaction(subject: Subject, content: str) -> tuple[dict[str, Any], str]:
    data = {"subject": subject.kind, "id": subject.id, "content": content}
    return data, f"reaction:{subject.kind}:{subject.id}:{content}"


def _effect(
    place: Place, name: str, kind: str, data: Mapping[str, Any], thing: str = "", *, run: int | None = None
) -> Effect:
    return Effect(*place, _checked(name), kind, json.dumps(data), thing, run)


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            f"'{name[:40]}' cannot be the name of an effect.",
            "It has up to 200 letters, digits and _ @ # + = : . / [ ] -.",
        )
    return name

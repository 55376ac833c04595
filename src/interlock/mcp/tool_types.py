"""The answers of the tools. Clients get these types as schemas.

They are `TypedDict` of typing_extensions: pydantic cannot read those of `typing` before Python 3.12. Every
answer has `refusal`. If that is not null, nothing was changed.
"""

from __future__ import annotations

from typing import Any, NotRequired

from typing_extensions import TypedDict


class RefusalAnswer(TypedDict):
    """Why nothing was done, and what to do now."""

    code: str
    message: str
    hint: str
    #: Each mistake of an edit.
    reasons: NotRequired[list[str]]


class ToolAnswer(TypedDict):
    """What every answer has."""

    refusal: RefusalAnswer | None


class ItemAnswer(TypedDict):
    """A piece of work."""

    id: int
    title: str
    status: str
    reason: str
    project: str
    type: str
    priority: int
    agent: str | None
    labels: list[str]
    lane: str | None
    plan: int | None
    attempt: int
    max_attempts: int
    #: The run that works on it and the agent whose run it is.
    run: int | None
    run_agent: str | None
    expires_at: str | None
    cancel_requested: bool
    question: str | None
    messages: int
    created_at: str
    ended_at: str | None
    #: Null if it has none, where many items are listed, and if it is too long for an answer.
    payload: dict[str, Any] | None
    payload_is_cut: bool


class MessageAnswer(TypedDict):
    """A message to an item."""

    n: int
    text: str
    #: The text goes on; the resource with the item's messages has all of it.
    is_cut: bool
    author: str
    sender: str
    at: str
    reason: str | None
    url: str | None
    payload: dict[str, Any] | None


class LeaseAnswer(TypedDict):
    """Your right to work on an item."""

    run: str
    fence: int
    expires_at: str | None
    renew_within_s: float | None
    item: ItemAnswer
    messages: list[MessageAnswer]


class WorkAnswer(ToolAnswer):
    """What you work on now; null if there is nothing."""

    lease: NotRequired[LeaseAnswer | None]
    next: NotRequired[str]


class RenewalAnswer(ToolAnswer):
    """Your lease."""

    expires_at: NotRequired[str | None]
    cancel_requested: NotRequired[bool]
    unread_messages: NotRequired[int]
    next: NotRequired[str]


class EndAnswer(ToolAnswer):
    """What became of your run and its item."""

    status: NotRequired[str]
    item: NotRequired[int]
    item_status: NotRequired[str]
    #: Items whose turn it is now.
    promoted: NotRequired[list[int]]
    #: The item that was made of messages which you did not read.
    follow_up: NotRequired[int | None]
    next: NotRequired[str]


class DoneAnswer(EndAnswer):
    """The same, and with `claim_next` what you work on now; null if nothing was claimed."""

    lease: NotRequired[LeaseAnswer | None]


class CostAnswer(ToolAnswer):
    """What your run has used in all."""

    usd: NotRequired[float]
    input_tokens: NotRequired[int]
    output_tokens: NotRequired[int]


class ReadAnswer(ToolAnswer):
    """Messages that you have not read."""

    messages: NotRequired[list[MessageAnswer]]
    next: NotRequired[str]


class HolderAnswer(TypedDict):
    """Who has a lane."""

    item: int
    run: int | None
    agent: str | None
    since: str
    expires_at: str | None
    cancel_requested: bool
    #: It waits for the answer of a person.
    asking: bool


class AddAnswer(ToolAnswer):
    """What became of an arrival."""

    decision: NotRequired[str]
    reason: NotRequired[str]
    #: The item that has the work now; another than your own if it took yours in.
    item: NotRequired[ItemAnswer | None]
    holder: NotRequired[HolderAnswer | None]
    #: The place in the line of the lane.
    position: NotRequired[int | None]
    #: Why it was queued instead of joining or replacing another item.
    policy_why: NotRequired[str | None]


class SendAnswer(ToolAnswer):
    """The message that was added to an item."""

    item: NotRequired[int]
    item_status: NotRequired[str]
    n: NotRequired[int | None]


class RunAnswer(TypedDict):
    """An attempt at an item."""

    run: int
    agent: str
    attempt: int
    status: str
    reason: str
    started_at: str
    ended_at: str | None
    result: Any
    error: str | None
    #: The result is left out, or the error is cut; the resource of the item has all of it.
    is_cut: bool


class ShowAnswer(ToolAnswer):
    """Everything about an item that matters for work on it."""

    item: NotRequired[ItemAnswer]
    why: NotRequired[str]
    #: What you can do about it with these tools; empty if nothing.
    hint: NotRequired[str]
    runs: NotRequired[list[RunAnswer]]
    messages: NotRequired[list[MessageAnswer]]


class WhyAnswer(ToolAnswer):
    """What an item waits for, and what moves it next."""

    item: NotRequired[int]
    status: NotRequired[str]
    why: NotRequired[str]
    waits_for: NotRequired[str]
    next: NotRequired[str]
    #: It is ready, and yet no agent can start it.
    hindered: NotRequired[bool]
    ci: NotRequired[str | None]
    #: What you can do about it with these tools; empty if nothing.
    hint: NotRequired[str]


class LaneAnswer(ToolAnswer):
    """Who has a lane, and who waits for it."""

    lane: NotRequired[str]
    free: NotRequired[bool]
    holder: NotRequired[HolderAnswer | None]
    waiting: NotRequired[int]
    #: The first items of the line.
    line: NotRequired[list[int]]


class TaskAnswer(TypedDict):
    """A task of a plan."""

    key: str
    item: int
    title: str
    status: str
    reason: str
    agent: str | None
    run_agent: str | None
    #: The tasks that it waits for or comes after.
    after: list[str]


class CompletionAnswer(TypedDict):
    """A task that ended, which the editor has to answer."""

    n: int
    key: str
    item: int
    status: str
    result: Any
    error: str | None
    is_cut: bool


class PlanAnswer(ToolAnswer):
    """A plan, its tasks, and what its editor owes."""

    plan: NotRequired[int]
    name: NotRequired[str]
    status: NotRequired[str]
    revision: NotRequired[int]
    editor: NotRequired[str | None]
    paused: NotRequired[bool]
    #: How many tasks have each status.
    counts: NotRequired[dict[str, int]]
    tasks: NotRequired[list[TaskAnswer]]
    #: How many tasks are not in `tasks`.
    left_off: NotRequired[int]
    #: No task is claimed until the editor has answered, or until this time.
    editing_until: NotRequired[str | None]
    #: For the editor's own run: the tasks that ended, and the number that its edit passes back.
    completions: NotRequired[list[CompletionAnswer]]
    through: NotRequired[int | None]


class EditAnswer(ToolAnswer):
    """A plan after your edit."""

    plan: NotRequired[int]
    revision: NotRequired[int]
    rebased: NotRequired[bool]
    added: NotRequired[list[str]]
    removed: NotRequired[list[str]]
    updated: NotRequired[list[str]]
    ready: NotRequired[list[str]]
    #: More tasks ended meanwhile: the editor is asked again.
    editing: NotRequired[bool]

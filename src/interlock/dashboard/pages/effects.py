"""The effects: changes on GitHub and notices that failed, wait to be sent, or were sent lately."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interlock.dashboard.rendering import moment_of, url
from interlock.dashboard.visit import Page, Visit

ROWS, FAILED_ROWS, SENT_ROWS = 40, 15, 20
#: As long after its time, an effect is overdue: no sender runs, or GitHub is unreachable.
OVERDUE_S = 120.0
_WORDS: Mapping[str, str] = {
    "comment": "Comment",
    "sticky": "Update the comment on",
    "progress": "Update the progress comment",
    "react": "React with",
    "unreact": "Remove the reaction",
    "label": "Add the label",
    "assign": "Assign",
    "unassign": "Unassign",
    "dispatch": "Start the workflow",
    "status": "Set the commit status to",
    "lane": "Show the lane's holder as a status",
    "notice": "Send the notice",
}


async def effects(visit: Visit) -> Page:
    """Failed effects first, then what waits, then what was sent."""
    after = visit.query.get("after", "").strip() or None
    counted = await visit.call("owed_to_github")
    failed = await visit.call("effects", status="dead", limit=FAILED_ROWS)
    waiting = await visit.call(
        "effects", status="waiting", limit=ROWS + 1, **({"after": after} if after else {})
    )
    sent = await visit.call("effects", status="sent", limit=SENT_ROWS)
    due_at = counted["due_at"]
    late_s = (visit.now - moment_of(due_at)).total_seconds() if due_at else 0.0
    values = {
        "counted": counted,
        "failed": [_shown(each) for each in failed],
        "waiting": [_shown(each) for each in waiting[:ROWS]],
        "sent": [_shown(each) for each in sent],
        "overdue": due_at if late_s > OVERDUE_S else None,
        "first_page": after is None,
        "next_url": url("/effects", after=waiting[ROWS - 1]["id"]) if len(waiting) > ROWS else "",
    }
    return Page("effects.html", values, "Effects", "effects")


def _shown(effect: Mapping[str, Any]) -> dict[str, Any]:
    """An effect with what it does in words, and where."""
    words = _WORDS.get(effect["kind"], effect["kind"].replace("_", " ").capitalize())
    place = f"#{effect['number']}" if effect["number"] else ""
    path = f"/issues/{effect['number']}" if effect["number"] else ""
    return {
        **effect,
        "words": words,
        "place": f"{effect['repository']}{place}",
        # A receiver has no page.
        "url": "" if effect["kind"] == "notice" else f"https://github.com/{effect['repository']}{path}",
        "dropped": (effect["outcome"] or "").startswith(("not sent", "dropped")),
    }

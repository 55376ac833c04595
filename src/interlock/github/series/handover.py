"""Promotions, and the assigner of the promoted issue: Interlock, a workflow, or the caller of `acquire`.

Both are noted before they take effect, so the cycle after a crash neither repeats nor loses them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from interlock.core.series.decision import Assign
from interlock.core.series.snapshot import LanePlacement, SeriesFacts
from interlock.github.series.context import SeriesContext
from interlock.github.series.series_note import FORGOTTEN_S, NoteData, NoteDraft, add_count

#: The most promotions without a comment, and the most counted runs, that are noted.
UNSAID_MAX, COUNTED_MAX = 100, 20


class Handover:
    """The handover of one series in one cycle."""

    def __init__(
        self, context: SeriesContext, note: NoteDraft, *, acquired: int | None, caller_assigns: bool
    ) -> None:
        """`acquired` is the issue that the caller wants. With `caller_assigns`, the caller assigns it."""
        self._at, self._note, self._acquired, self._caller_assigns = context, note, acquired, caller_assigns
        #: Whether the caller is to assign the issue that it acquires.
        self.caller_is_next = False

    def record(self, active: LanePlacement | None) -> None:
        """Note the promotion of a run if its starter died before noting it."""
        if active is not None and active.run is not None and active.run not in _counted(self._note.data):
            self.promoted(active.number, active.run)

    def promoted(self, number: int, run: int, why: str = "", *, login: str | None = None) -> None:
        """Note a promotion once, with its count, its comment and its assigner. An adopted issue has a
        `login`."""
        theirs = self._caller_assigns and number == self._acquired and login is None
        now_s, stamp, given, new = self._at.now_s(), self._at.stamp(), False, False

        def change(data: NoteData) -> None:
            nonlocal given, new
            given = theirs and (data.get("handover") or {}).get("run") != run
            if given:
                data["handover"] = {"run": run, "by": "caller", "at_s": now_s, "nth": 1, "given": True}
            new = run not in _counted(data)
            if not new:
                return
            leaving = data.pop("leaving", None) or {}
            last = (data.get("promotion") or {}).get("to")
            promotion = {
                "from": leaving.get("number", last),
                "to": number,
                "why": why or leaving.get("why") or "next in the queue",
                "at": stamp,
                "run": run,
            }
            data["counted"] = [*_counted(data), run][-COUNTED_MAX:]
            data["promotion"] = promotion
            if self._at.comments:
                data["unsaid"] = [*(data.get("unsaid") or ()), promotion][-UNSAID_MAX:]
            if login is not None:
                data.setdefault("logins", {})[str(number)] = login
            add_count(data, "promotion_events")

        self._note.change(change)
        self._note.counts["promotion_events"] += new
        self.caller_is_next = self.caller_is_next or given

    def take_up(self, active: LanePlacement | None, assignees: Collection[object]) -> None:
        """Let the caller assign the active issue if a workflow or an earlier caller should have and did
        not."""
        if active is None or active.number != self._acquired or not self._caller_assigns or assignees:
            return
        run, now_s, given = active.run, self._at.now_s(), False

        def change(data: NoteData) -> None:
            nonlocal given
            before = data.get("handover") or {}
            mine = before.get("run") == run
            open_to_callers = before.get("by") != "us" and not before.get("given")
            given = not mine or open_to_callers or now_s - before["at_s"] >= FORGOTTEN_S
            if given:
                data["handover"] = {
                    **({"what": before["what"]} if mine and "what" in before else {}),
                    "run": run,
                    "by": before["by"] if mine else "caller",
                    "at_s": now_s,
                    "nth": int(before["nth"]) if mine else 1,
                    "given": True,
                    "sent": True,
                }

        self._note.change(change)
        self.caller_is_next = given

    def assign(self, step: Assign) -> str:
        """Note who assigns the active issue, then assign it or start the workflow that does. Gives the
        action; empty if there was none."""
        at, note = self._at, self._note
        how, now_s = at.assigning(note.data, step.number), at.now_s()
        by = "workflow" if how.workflow else "us" if how.login else "caller"
        claimed = False

        def change(data: NoteData) -> None:
            nonlocal claimed
            before = data.get("handover") or {}
            if before.get("run") != step.run or now_s - before["at_s"] >= FORGOTTEN_S:
                nth = int(before["nth"]) + 1 if before.get("run") == step.run else 1
                before = {"run": step.run, "by": by, "at_s": now_s, "nth": nth, "given": False}
                before["what"] = how.workflow or how.login
            claimed = before["by"] == by == "workflow" and not before.get("sent")
            data["handover"] = {**before, "sent": True} if claimed else before

        note.change(change)
        if note.data["handover"]["by"] != by or by == "caller":
            return ""
        if by == "workflow" and not (claimed or at.effects.remembers):
            return ""
        nth = int(note.data["handover"]["nth"])
        new = at.effects.assign(step.number, step.run, how, nth=nth, after=step.after)
        if by == "workflow" and not new and not at.effects.remembers:
            note.change(lambda data: data["handover"].update(sent=False))
        what = f"{how.workflow} dispatched" if how.workflow else f"assigned to {how.login}"
        return f"#{step.number} {what}" if new else ""

    def hold_back(self, facts: SeriesFacts) -> None:
        """Let the caller assign only if no other issue is assigned. Otherwise the next cycle assigns."""
        others = [m.number for m in facts.members if m.assigned and m.number != self._acquired]
        if not self.caller_is_next or not others:
            return
        self._at.effects.flush()
        look = self._at.look()
        if any(look.issues.assignees(number) for number in others):
            self.caller_is_next = False
            self._note.change(lambda data: data.pop("handover", None))


def _counted(data: Mapping[str, Any]) -> list[int]:
    """The runs whose promotions were counted."""
    last = (data.get("promotion") or {}).get("run")
    return [*(data.get("counted") or ()), *([] if last is None else [last])]

"""The words for reason codes, which end sentences such as "cancelled: not claimed in time"."""

from __future__ import annotations

from collections.abc import Mapping

from interlock.core.model import Reason

WORDS: Mapping[str, str] = {
    Reason.LANE_FREE: "its lane was free",
    Reason.NO_LANE: "it has no lane",
    Reason.SCHEDULED: "scheduled for later",
    Reason.LANE_QUEUED: "its lane was taken",
    Reason.LANE_HELD: "its lane was taken",
    Reason.SAME_NAME: "the agent already had work on the lane",
    Reason.DEFERRED: "another agent had the lane",
    Reason.PROMOTED: "it was first in line",
    Reason.NEWER_ARRIVAL: "a newer item replaces it",
    Reason.DEDUPE_KEY: "its dedupe key was seen before",
    Reason.WOULD_ADMIT: "only observed, would be admitted",
    Reason.WOULD_QUEUE: "only observed, would be queued",
    Reason.WOULD_COALESCE: "only observed, would be coalesced",
    Reason.WOULD_SUPERSEDE: "only observed, would replace an earlier item",
    Reason.WOULD_REJECT: "only observed, would be rejected",
    Reason.UNREAD_MESSAGES: "a run ended before it read these messages",
    Reason.OWN_MESSAGE: "written by its own agent or by our bot",
    Reason.OUTSIDER: "written by an outsider",
    Reason.LOOP: "too many wake-ups in a row without a person",
    Reason.REPORTED: "reported by its agent",
    Reason.SEEN_OUTSIDE: "its end was seen outside",
    Reason.LEASE_EXPIRED: "its lease expired",
    Reason.RUN_TIMEOUT: "it exceeded its time limit",
    Reason.CANCEL_GRACE_OVER: "it did not stop within its grace period",
    Reason.ATTEMPTS_EXHAUSTED: "no attempts left",
    Reason.NO_RETRY: "its agent ruled out a retry",
    Reason.BACK_OFF: "backing off after a failed attempt",
    Reason.RELEASED_OFTEN: "released three times in a row",
    Reason.QUOTA_WALL: "quota limit",
    Reason.ASKED: "waiting for an answer",
    Reason.SETUP_FAULT: "set-up fault",
    Reason.UNCLAIMED: "not claimed in time",
    Reason.OPERATOR: "by an operator",
    Reason.UNREACHABLE: "a task that it depends on ended otherwise",
    Reason.REMOVED_BY_EDIT: "removed from its plan",
    Reason.EDIT_CYCLE_EXPIRED: "the editor missed the deadline",
    Reason.PLANNED: "a task of a plan",
    Reason.PREDECESSORS_OPEN: "waiting for earlier tasks",
    Reason.PREDECESSORS_MET: "the earlier tasks have ended",
    Reason.EDIT_OWED: "a task ended, so the plan's editor is asked for an edit",
    Reason.EDIT_ANSWERED: "the editor has answered",
    Reason.EDIT_FAILED: "the edit failed",
    Reason.DUE: "its time has come",
    Reason.WOKEN: "woken by a message",
    Reason.EDITED: "it was edited",
    Reason.ANSWERED: "a person answered",
    Reason.OVERTAKEN: "its agent could not start it",
    Reason.AGENT_GONE: "its agent was gone",
    Reason.SERIES_QUEUED: "another issue of its series has its turn",
    Reason.LEASE_LOST: "the run had lost its lease",
    Reason.FOREIGN_HANDLE: "no run of this store has this handle",
}


def reason_words(code: str) -> str:
    """The words for a reason. A reason that is the text of a person stays as it is."""
    return WORDS.get(code, code)

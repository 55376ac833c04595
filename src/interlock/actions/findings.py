"""The mistakes in workflows: their stable codes, and the findings."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Mistake(StrEnum):
    """The known mistakes. The names are part of the interface; the documentation explains them."""

    NOT_A_WORKFLOW = "not_a_workflow"
    EXPRESSION_MALFORMED = "expression_malformed"
    GROUP_MISSING = "group_missing"
    GROUP_BEFORE_IF = "group_before_if"
    BOT_NOT_FILTERED = "bot_not_filtered"
    KEYED_APART = "keyed_apart"
    KEY_PER_RUN = "key_per_run"
    KEY_PER_MATRIX = "key_per_matrix"
    SCHEDULE_CANCELLED = "schedule_cancelled"
    NUMBERS_SHARE_KEY = "numbers_share_key"
    KEY_CASE = "key_case"
    GROUP_IN_ITSELF = "group_in_itself"
    QUEUE_WITH_CANCEL = "queue_with_cancel"
    SIGNALS_LOST = "signals_lost"
    TIMEOUT_MISSING = "timeout_missing"
    SCRIPT_INJECTION = "script_injection"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class WorkflowFinding:
    """One mistake: where it is, why it matters, and how to correct it."""

    file: str
    line: int
    code: Mistake
    message: str
    mend: str

"""Reads and checks a repository's options for its series."""

from __future__ import annotations

from interlock.core import names
from interlock.core.record import Record
from interlock.core.series.snapshot import RolloutStage, SeriesOptions, Unassigned
from interlock.core.series.titles import PATTERN, Prefixes, Titles, check_pattern
from interlock.github.hosted_agents import LOGIN
from interlock.github.series.effects import AssignmentMethod
from interlock.github.series.series_note import NoteData, numbers_of
from interlock.service.series import CALLER_ASSIGNS
from interlock.settings import Settings

EXEMPT, MEMBER_LABEL = "issue_triage", "rfc-series"


class SeriesRules(Record):
    """A repository's options for its series."""

    titles: Titles = Titles()
    choices: SeriesOptions = SeriesOptions()
    assigning: AssignmentMethod = AssignmentMethod()
    #: The accounts whose assignments count; empty for all.
    logins: frozenset[str] = frozenset()
    #: Read-only types of work, which are never held back.
    exempt: tuple[str, ...] = (EXEMPT,)
    #: The label that makes any author's issue a member if a user with write access set it.
    label: str = MEMBER_LABEL


def assigning(rules: SeriesRules, data: NoteData, number: int) -> AssignmentMethod:
    """How an issue is assigned: by the caller's request, or by the rules."""
    login = numbers_of(data, "logins").get(number)
    return rules.assigning if login in (None, CALLER_ASSIGNS) else AssignmentMethod(login=login)


def rules_of(settings: Settings, *, gated: bool = True) -> SeriesRules:
    """The rules of a repository. Raises on an invalid setting."""
    stage = names.one_of("series_mode", settings.series_mode or RolloutStage.ENFORCE, RolloutStage)
    unassigned = names.one_of(
        "series_unassigned", settings.series_unassigned or Unassigned.RELEASED, Unassigned
    )
    prefixes = names.one_of("series_prefixes", settings.series_prefixes or Prefixes.APART, Prefixes)
    pattern = check_pattern(settings.series_pattern or PATTERN)
    exempt = settings.series_exempt if settings.series_exempt is not None else EXEMPT
    return SeriesRules(
        titles=Titles(pattern, prefixes),
        choices=SeriesOptions(stage=stage, unassigned=unassigned, gated=gated),
        assigning=_assigning(settings),
        logins=frozenset(name.lower() for name in listed(settings.series_logins)),
        exempt=names.check_names("exempt type", listed(exempt)),
        label=(settings.series_label or MEMBER_LABEL).strip(),
    )


def _assigning(settings: Settings) -> AssignmentMethod:
    workflow, _, ref = (settings.series_workflow or "").partition("@")
    if workflow:
        return AssignmentMethod(workflow=workflow.strip(), ref=ref.strip() or "main")
    login = (settings.series_assignee or LOGIN).strip()
    return AssignmentMethod(
        login="" if login.lower() == CALLER_ASSIGNS else names.check_name("series_assignee", login)
    )


def listed(text: str | None) -> tuple[str, ...]:
    """The names in a comma-separated list."""
    return tuple(name for part in (text or "").split(",") if (name := part.strip()))

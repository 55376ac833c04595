"""What the settings say about series, read and checked."""

from __future__ import annotations

from interlock.core import names
from interlock.core.series.standing import Choices, Mode, Unassigned
from interlock.core.series.titles import PATTERN, Prefixes, Titles, check_pattern
from interlock.github.hosted import LOGIN
from interlock.github.series.acting import Assigning
from interlock.github.series.cycle import MEMBER_LABEL, NOBODY, Rules
from interlock.settings import Settings

EXEMPT = "issue_triage"


def rules_of(settings: Settings, *, gated: bool = True) -> Rules:
    """The rules of a repository. Raises where a setting makes no sense."""
    mode = names.one_of("series_mode", settings.series_mode or Mode.ENFORCE, Mode)
    unassigned = names.one_of(
        "series_unassigned", settings.series_unassigned or Unassigned.RELEASED, Unassigned
    )
    prefixes = names.one_of("series_prefixes", settings.series_prefixes or Prefixes.APART, Prefixes)
    pattern = check_pattern(settings.series_pattern or PATTERN)
    exempt = settings.series_exempt if settings.series_exempt is not None else EXEMPT
    return Rules(
        titles=Titles(pattern, prefixes),
        choices=Choices(mode=mode, unassigned=unassigned, gated=gated),
        assigning=_assigning(settings),
        logins=frozenset(name.lower() for name in listed(settings.series_logins)),
        exempt=names.check_names("exempt type", listed(exempt)),
        label=(settings.series_label or MEMBER_LABEL).strip(),
    )


def _assigning(settings: Settings) -> Assigning:
    workflow, _, ref = (settings.series_workflow or "").partition("@")
    if workflow:
        return Assigning(workflow=workflow.strip(), ref=ref.strip() or "main")
    login = (settings.series_assignee or LOGIN).strip()
    return Assigning(login="" if login.lower() == NOBODY else names.check_name("series_assignee", login))


def listed(text: str | None) -> tuple[str, ...]:
    """The names in a list with commas."""
    return tuple(name for part in (text or "").split(",") if (name := part.strip()))

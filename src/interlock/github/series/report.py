"""Publishes a cycle's results: the state issue, a comment for each promotion, and problems."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interlock.core.errors import InterlockError
from interlock.core.series.document import Document, StateIssueContent, StateRow
from interlock.core.series.snapshot import LanePlacement, Member, RolloutStage, position
from interlock.github.series.cycle import FAULTS, SeriesCycle
from interlock.github.series.series_note import NoteData, late, looks_of, numbers_of
from interlock.github.series.state_issue import KnownStateIssue

#: The most ignored issues, and the most hashes of texts, that are noted.
IGNORED_MAX, BODIES_MAX = 20, 8


def show(work: SeriesCycle) -> None:
    """Bring the state issue up to date, and report promotions. A refusal by GitHub becomes a problem."""
    effects = work.context.effects
    _note_outcome(work)
    for number in work.unassigning:
        if effects.is_unassigned(number):
            work.mark_duplicate(number, marked=False)
    try:
        _show_state(work)
        _comment(work)
    except FAULTS as error:
        work.problems.append(f"Could not update the state issue: {error.sentence}")
        work.note.change(lambda data: data.update(problems=work.problems), later=True)
    effects.flush()


def fail(work: SeriesCycle, error: InterlockError) -> None:
    """Report the error that ended a series' cycle, wherever possible."""
    work.problems.append(error.sentence)
    try:
        show(work)
    except InterlockError:
        work.note.change(lambda data: data.update(problems=work.problems), later=True)
    work.write_counts(cycle=True)


def _note_outcome(work: SeriesCycle) -> None:
    """Note a cycle's problems, waiting issues with their blockers, ignored issues, and assignees."""
    at, data, active = work.context, work.data, work.active
    problems = work.problems
    if active is not None and active.run is not None:
        at.effects.flush()
        looks = looks_of(data)
        if looks.run != active.run or not looks.seen:
            problems.append(at.effects.hindrance(active.number, active.run))
        problems.append(late(data, at.now_s()))
    if at.rules.choices.stage is RolloutStage.OBSERVE:
        problems += [f"#{n} is also assigned." for n in data.get("flagged") or ()]
    problems += work.look.problems(work.series)
    work.problems = problems = list(dict.fromkeys(each for each in problems if each))
    waiting = {str(m.number): list(m.needs) for m in work.facts.members if m.needs}
    found = work.look.ignored(work.series)
    ignored = {str(number): found[number] for number in sorted(found)[:IGNORED_MAX]}
    member = work.facts.member(active.number if active is not None else None)
    assigned = [] if member is None else list(member.assigned)
    members = {str(m.number) for m in work.facts.members}

    def change(data: NoteData) -> None:
        data.update(problems=problems, waiting=waiting, ignored=ignored, assigned=assigned)
        data["logins"] = {n: who for n, who in (data.get("logins") or {}).items() if n in members}

    work.note.change(change, later=True)


def _show_state(work: SeriesCycle) -> None:
    """Bring the state issue up to date."""
    at, data = work.context, work.data
    known = KnownStateIssue(
        number=data.get("state_issue"),
        made_s=float(data.get("state_issue_at_s") or 0.0),
        bodies=tuple(data.get("bodies") or ()),
    )
    kept = work.issues.keep(_shown(work), at.effects, known, at.now_s())
    work.done += kept.mended

    def change(data: NoteData) -> None:
        data["state_issue"] = kept.number
        if kept.made:
            data["state_issue_at_s"] = at.now_s()
        if kept.body:
            data["bodies"] = [*(data.get("bodies") or ()), kept.body][-BODIES_MAX:]

    work.note.change(change, later=True)


def _comment(work: SeriesCycle) -> None:
    """Comment on the state issue about each promotion, once."""
    number = work.data.get("state_issue")
    for promotion in list(work.data.get("unsaid") or ()):
        if number is None or not work.context.comments:
            return
        name = f"series-promotion:run-{promotion['run']}"
        work.context.effects.comment(number, name, _promotion(promotion))

        def change(data: NoteData, said: Mapping[str, Any] = promotion) -> None:
            data["unsaid"] = [each for each in data.get("unsaid") or () if each["run"] != said["run"]]

        work.note.change(change, later=True)


def _shown(work: SeriesCycle) -> StateIssueContent:
    at, data, active = work.context, work.data, work.active
    line = [each.number for each in work.placed if each is not active]
    places = {number: str(place) for place, number in enumerate(line, 1)}
    if active is not None:
        places[active.number] = "active"
    lines, ignored = [], dict(numbers_of(data, "ignored"))
    order = tuple(data.get("order") or ())
    for member in sorted(work.facts.members, key=lambda m: (position(m, order), m.number)):
        number = member.number
        says = [_status_of(member, active, data), ignored.pop(number, "")]
        text = "; ".join(each for each in says if each)
        lines.append(StateRow(number=number, place=places.get(number, "waiting"), says=text))
    lines += [StateRow(number=number, place="ignored", says=why) for number, why in sorted(ignored.items())]
    promotion = data.get("promotion") or {}
    return StateIssueContent(
        document=Document(
            series=work.series,
            active_issue=None if active is None else active.number,
            queue=tuple(line),
            updated_at=at.stamp(),
        ),
        mode=at.rules.choices.stage,
        lines=tuple(lines),
        promotion=_promotion(promotion) if promotion else "",
        problems=tuple(work.problems),
    )


def _status_of(member: Member, active: LanePlacement | None, data: NoteData) -> str:
    if active is not None and active.number == member.number:
        return f"assigned to {', '.join(member.assigned)}" if member.assigned else "assigning"
    if member.needs:
        return f"blocked by {', '.join(member.needs)}"
    if member.number in numbers_of(data, "released"):
        return "released until it is assigned or acquired again"
    return ""


def _promotion(promotion: Mapping[str, Any]) -> str:
    left = f"from #{promotion['from']} " if promotion.get("from") else ""
    return f"{left}to #{promotion['to']}, {promotion['at']}: {promotion['why']}."

"""The operations on one repository's series: each reads, decides by the rules, writes, and reads again.

    round   = read the lane, then GitHub; decide (`core.series.decision`); carry out each step
    cycle   = rounds until nothing is left to do, then the state issue
    acquire = a cycle of one series in which only its issue may start

A step is refused if another process was faster. That is a conflict, and the next round decides on the new
state. So several processes may work on one series, and the next cycle completes the work of a dead process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cached_property
from typing import Any

from interlock.core.cures import cure
from interlock.core.errors import InterlockError, InvalidInput, NotFound
from interlock.core.series.decision import Withdraw
from interlock.github import client, database_cache
from interlock.github.limits import Limits
from interlock.github.series import report
from interlock.github.series.context import SeriesContext, SeriesStore
from interlock.github.series.cycle import FAULTS, EarlierSeries, SeriesCycle
from interlock.github.series.effects import DirectSeriesEffects, OutboxSeriesEffects, SeriesEffects
from interlock.github.series.issues import find
from interlock.github.series.lane import NO_GATES, LaneReading
from interlock.github.series.members import Authors, series_of
from interlock.github.series.observation import Observation
from interlock.github.series.options import SeriesRules, rules_of
from interlock.github.series.overview import Overview
from interlock.github.series.series_note import COUNTED, NoteData
from interlock.github.series.state_issue import StateIssues
from interlock.service.local import LocalService
from interlock.service.series import CALLER_ASSIGNS, Acquired, Cycle, SeriesView
from interlock.settings import Settings


@contextmanager
def open_controller(
    store: SeriesStore,
    repository: str,
    settings: Settings,
    environ: Mapping[str, str],
    *,
    send: bool = True,
    limits: Limits | None = None,
) -> Iterator[SeriesController]:
    """The series of a repository, with the token in the environment.

    GitHub is first called when an operation needs it. With `send`, effects in the outbox are sent at once.
    """
    rules, kept = rules_of(settings), store.github
    known = None if kept is None else kept.repository_named(repository)
    lane_name = repository.lower() if known is None else known.lane_name
    with ExitStack() as opened:

        def connect() -> SeriesContext:
            cache = None if kept is None else database_cache.StoredAnswers(kept)
            github = opened.enter_context(client.from_environment(environ, cache=cache, limits=limits))
            found = find(github, repository)
            effects: SeriesEffects = DirectSeriesEffects(github, found)
            lane_name = found.name.lower()
            if kept is not None:
                effects = OutboxSeriesEffects(kept.outbox, found, send, github)
                lane_name = kept.repository(found.id, found.name).lane_name
            return SeriesContext(
                store=store,
                github=github,
                repository=found,
                rules=rules,
                effects=effects,
                authors=Authors(github, found),
                lane_name=lane_name,
            )

        yield SeriesController(Overview(store, repository, lane_name, rules), rules, connect)


def open_on_database(
    service: LocalService,
    repository: str,
    settings: Settings,
    environ: Mapping[str, str],
    *,
    send: bool = True,
    limits: Limits | None = None,
) -> AbstractContextManager[SeriesController]:
    """The series of a repository, on the database of a service."""
    github = service.store.github
    store = SeriesStore(lanes=service, notes=github, github=github)
    return open_controller(store, repository, settings, environ, send=send, limits=limits)


class SeriesController:
    """The series of one repository, on one store."""

    def __init__(self, named: Overview, rules: SeriesRules, connect: Callable[[], SeriesContext]) -> None:
        """`named` is the repository under the caller's name for it; `connect` finds it on GitHub."""
        self._named, self._titles, self._connect = named, rules.titles, connect

    @cached_property
    def _at(self) -> SeriesContext:
        return self._connect()

    @cached_property
    def _overview(self) -> Overview:
        at = self._at
        return Overview(at.store, at.repository.name, at.lane_name, at.rules)

    def status(self, series: str | None = None) -> list[SeriesView]:
        """The state of all series, or of one, from the store alone."""
        return self._named.status([] if series is None else [self._titles.series_name(series)])

    def metrics(self) -> dict[str, Any]:
        """Counts of all series, from the store alone."""
        return self._named.metrics()

    # -- operations -------------------------------------------------------------------------------

    def reconcile(self, only: Iterable[str] = ()) -> list[Cycle]:
        """Bring every series, or those named, up to date with GitHub."""
        wanted = {self._titles.series_name(each) for each in only}
        notes, reading = self._overview.notes(), self._at.store.reading()
        known = [name for name in notes if not wanted or name in wanted]
        before: dict[str, EarlierSeries] = {}
        refused: dict[str, Cycle] = {}
        for name in known:
            try:
                before[name] = self._before(name, notes[name], reading)
            except InterlockError as error:  # for example, a newer version has written its lane
                refused[name] = _refused(name, error)
        look = self._at.look()
        issues = StateIssues(self._at.github, look.issues)
        names = sorted({*known, *(name for name in look.members.series if not wanted or name in wanted)})
        cycles = [refused.get(name) or self._cycle(name, look, issues, before.get(name)) for name in names]
        self._at.effects.flush(all_of_it=True)
        return cycles

    def _before(self, series: str, data: NoteData, reading: LaneReading) -> EarlierSeries:
        lane, gated = self._at.lane(series), self._at.rules.choices.gated
        return EarlierSeries(
            data=data, placed=lane.placed(reading), gates=lane.gates(reading) if gated else NO_GATES
        )

    def promote(self, series: str, *, force: bool = False, why: str = "") -> Cycle:
        """Reconcile one series; with `force` its active issue is released first."""
        series = self._known(series)
        if force:
            placed = self._at.lane(series).placed()
            if placed and placed[0].run is not None:
                self._give_back(series, placed[0].number, why or "replaced by the next issue")
        (cycle,) = self.reconcile([series])
        return cycle

    def release(self, number: int, *, why: str = "") -> Cycle:
        """Release an issue: it is neither active nor queued until it is assigned or acquired again."""
        look = self._at.look()
        series = self._series_of(number, look)
        if series is None:
            raise NotFound(
                f"#{number} is not in a series.",
                cures=(cure("series", "lists the series", repository=self._at.repository.name),),
            )
        self._give_back(series, number, why or "released")
        (cycle,) = self.reconcile([series])
        return cycle

    def _give_back(self, series: str, number: int, why: str) -> None:
        def note(data: NoteData) -> None:
            data.setdefault("released", {})[str(number)] = False
            data["gave_back"] = {"number": number, "why": why}

        self._at.note(series).change(note)

    def rebuild(self, series: str) -> Cycle:
        """Discard the queue and the note, and rebuild both from the open issues."""
        series = self._known(series)
        lane = self._at.lane(series)
        for placed in lane.placed():
            if placed.run is None:
                lane.withdraw(Withdraw(placed.item, placed.number, "rebuilt from the open issues"))

        def forget(data: NoteData) -> None:
            for name in ("released", "flagged", "order", "waiting", "logins", "looks"):
                data.pop(name, None)

        self._at.note(series).change(forget)
        (cycle,) = self.reconcile([series])
        return cycle

    def acquire(self, number: int, *, login: str | None = None) -> Acquired:
        """Make an issue active, if it is next. `login` is the account to assign; with `none`, the caller
        assigns."""
        at = self._at
        series = series_of(at.github, at.repository, at.rules.titles, number)
        if series is None:
            return Acquired(status="no-series", issue=number, assign=True)
        before = self._before(series, at.note(series).read() or {}, at.store.reading())
        look = at.look()
        place, why = look.members.place(number)
        if place is None or place.series != series:
            if why:
                return Acquired(status="ignored", issue=number, series=series, why=why)
            if number not in look.issues.open:
                raise InvalidInput(f"#{number} is closed.", "Reopen it first.")
            raise InvalidInput(f"The title of #{number} has just changed.", "Try again.")
        issues = StateIssues(at.github, look.issues)
        theirs = login == CALLER_ASSIGNS
        work = SeriesCycle(at, before, series, look, issues, only=number, caller_assigns=theirs)
        work.check()
        work.requeue(number, None if theirs else login)
        work.handover.take_up(work.active, look.issues.assignees(number))
        try:
            work.rounds()
            work.handover.hold_back(work.facts)
        except FAULTS:
            if number not in work.started:
                raise
        if number in work.started:
            report.show(work)
        answer = work.answer(number)
        if answer.status.startswith("queued"):
            work.note.count("duplicate_prevented")
        work.write_counts(cycle=False)
        return answer

    # -- parts ------------------------------------------------------------------------------------

    def _cycle(
        self, series: str, look: Observation, issues: StateIssues, before: EarlierSeries | None
    ) -> Cycle:
        work = SeriesCycle(self._at, before, series, look, issues)
        refused = False
        try:
            work.check()
        except InvalidInput as error:
            return _refused(series, error)
        except InterlockError as error:
            report.fail(work, error)
            refused = True
        else:
            refused = not self._kept(work)
        return Cycle(
            series=series,
            active_issue=work.active_issue,
            queue=work.queue,
            done=tuple(work.done),
            metrics={name: work.note.counts[name] for name in COUNTED},
            problems=tuple(work.problems),
            refused=refused,
        )

    def _kept(self, work: SeriesCycle) -> bool:
        """Reconcile a series; gives whether that succeeded. A failure is reported, and other series
        continue."""
        try:
            work.rounds()
            report.show(work)
            work.write_counts(cycle=True)
        except InterlockError as error:
            report.fail(work, error)
            return False
        return True

    def _known(self, text: str) -> str:
        """The displayed name of a series. Raises if the repository has no series of that name."""
        series = self._titles.series_name(text)
        if series not in self._overview.notes() and series not in self._at.look().members.series:
            raise NotFound(
                f"{self._at.repository.name} has no open issue of {series}.",
                cures=(cure("series", "lists the series", repository=self._at.repository.name),),
            )
        return series

    def _series_of(self, number: int, look: Observation) -> str | None:
        place, _ = look.members.place(number)
        if place is not None:
            return place.series
        for name in self._overview.notes():
            if any(placed.number == number for placed in self._at.lane(name).placed()):
                return name
        return None


def _refused(series: str, why: InterlockError) -> Cycle:
    """A series that was skipped."""
    return Cycle(
        series=series,
        active_issue=None,
        queue=(),
        done=(),
        metrics=dict.fromkeys(COUNTED, 0),
        problems=(why.sentence,),
        refused=True,
    )

"""Keeps the series of a repository: each operation looks, decides by the rules, writes, and looks again.

    round   = read the lane, then GitHub, decide (`core.series.deciding`), carry out each step
    cycle   = rounds until nothing is left to do, then the state issue
    acquire = a cycle of one series in which nothing but its issue may start

A step that somebody else made void is a conflict: the next round decides on what is there now. So any number
of processes may work on one series, and whoever dies leaves nothing that the next cycle does not complete.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from interlock.core.errors import InterlockError, InvalidInput, NotFound
from interlock.core.series.deciding import Withdraw
from interlock.github.series.cycle import FAULTS, NOBODY, Before, Context, Work
from interlock.github.series.lane import NO_GATES, Reading
from interlock.github.series.looking import Look, series_of
from interlock.github.series.notebook import COUNTED, Page
from interlock.github.series.overview import Overview
from interlock.github.series.state_issue import StateIssues
from interlock.service.series import Acquired, Cycle


class Keeper:
    """The series of one repository, on one store."""

    def __init__(self, context: Context) -> None:
        self._at = context
        self._overview = Overview(
            context.lanes,
            context.notes,
            context.repository.name,
            context.lane_name,
            context.rules,
            at_once=context.at_once,
            counts=context.counts,
        )

    def named(self, text: str) -> str:
        """A series as people write it, by its name."""
        return self._at.rules.titles.named(text)

    def metrics(self) -> dict[str, Any]:
        """What was counted."""
        return self._overview.metrics()

    # -- operations -------------------------------------------------------------------------------

    def reconcile(self, only: Iterable[str] = ()) -> list[Cycle]:
        """Make every series, or those named, what GitHub says."""
        wanted = set(only)
        pages, reading = self._overview.pages(), self._at.reading()
        known = [name for name in pages if not wanted or name in wanted]
        before: dict[str, Before] = {}
        refused: dict[str, Cycle] = {}
        for name in known:
            try:
                before[name] = self._before(name, pages[name], reading)
            except InterlockError as error:  # a newer version has written its lane, say
                refused[name] = _refused(name, error)
        look = self._at.look()
        issues = StateIssues(self._at.github, look)
        names = sorted({*known, *(name for name in look.series if not wanted or name in wanted)})
        cycles = [refused.get(name) or self._cycle(name, look, issues, before.get(name)) for name in names]
        self._at.acting.flush(all_of_it=True)
        return cycles

    def _before(self, series: str, page: Page, reading: Reading) -> Before:
        lane, gated = self._at.lane(series), self._at.rules.choices.gated
        return Before(
            page=page, placed=lane.placed(reading), gates=lane.gates(reading) if gated else NO_GATES
        )

    def promote(self, series: str, *, force: bool = False, why: str = "") -> Cycle:
        """Reconcile one series; with `force` its active issue is given back first."""
        self._require(series)
        if force:
            placed = self._at.lane(series).placed()
            if placed and placed[0].run is not None:
                self._give_back(series, placed[0].number, why or "another one is promoted")
        (cycle,) = self.reconcile([series])
        return cycle

    def release(self, number: int, *, why: str = "") -> Cycle:
        """Give an issue back: it is neither active nor in line until somebody wants it again."""
        look = self._at.look()
        series = self._series_of(number, look)
        if series is None:
            raise NotFound(
                f"#{number} is in no series, so there is nothing to give back.",
                "`interlock series status` shows which there are.",
            )
        self._give_back(series, number, why or "given back")
        (cycle,) = self.reconcile([series])
        return cycle

    def _give_back(self, series: str, number: int, why: str) -> None:
        def note(page: Page) -> None:
            page.setdefault("released", {})[str(number)] = False
            page["gave_back"] = {"number": number, "why": why}

        self._at.notebook(series).change(note)

    def rebuild(self, series: str) -> Cycle:
        """Forget the line and what was noted, and build both from the live issues."""
        self._require(series)
        lane = self._at.lane(series)
        for placed in lane.placed():
            if placed.run is None:
                lane.withdraw(Withdraw(placed.item, placed.number, "rebuilt from the live issues"))

        def forget(page: Page) -> None:
            for name in ("released", "flagged", "order", "waiting", "logins", "looks"):
                page.pop(name, None)

        self._at.notebook(series).change(forget)
        (cycle,) = self.reconcile([series])
        return cycle

    def acquire(self, number: int, *, login: str | None = None) -> Acquired:
        """Take the series for an issue, if it is next. `login` says whom to assign; `none`: nobody by us."""
        at = self._at
        series = series_of(at.github, at.repository, at.watched, number)
        if series is None:
            return Acquired(status="no-series", issue=number, assign=True)
        before = self._before(series, at.notebook(series).read() or {}, at.reading())
        look = at.look()
        place, why = look.place(number)
        if place is None or place.series != series:
            if why:
                return Acquired(status="ignored", issue=number, series=series, why=why)
            if number not in look.open:
                raise InvalidInput(f"#{number} is closed.", "Reopen it first.")
            raise InvalidInput(f"#{number} has another title now.", "Try again.")
        issues = StateIssues(at.github, look)
        theirs = login == NOBODY
        work = Work(at, before, series, look, issues, only=number, caller_assigns=theirs)
        work.check()
        work.want(number, None if theirs else login)
        work.take_up(number)
        try:
            work.rounds()
            work.hold_back()
        except FAULTS:
            if number not in work.started:
                raise
        if number in work.started:
            work.show()
        answer = work.answer(number)
        if answer.status.startswith("queued"):
            work.count("duplicate_prevented")
        work.write_counts(cycle=False)
        return answer

    # -- parts ------------------------------------------------------------------------------------

    def _cycle(self, series: str, look: Look, issues: StateIssues, before: Before | None) -> Cycle:
        work = Work(self._at, before, series, look, issues)
        refused = False
        try:
            work.check()
        except InvalidInput as error:
            return _refused(series, error)
        except InterlockError as error:
            work.fail(error)
            refused = True
        else:
            refused = not self._kept(work)
        return Cycle(
            series=series,
            active_issue=work.active_issue,
            queue=work.queue,
            done=tuple(work.done),
            metrics={name: work.counts[name] for name in COUNTED},
            problems=tuple(work.problems),
            refused=refused,
        )

    def _kept(self, work: Work) -> bool:
        """Whether a series could be kept. If not, that is reported, and concerns no other series."""
        try:
            work.rounds()
            work.show()
            work.write_counts(cycle=True)
        except InterlockError as error:
            work.fail(error)
            return False
        return True

    def _require(self, series: str) -> None:
        if series not in self._overview.pages() and series not in self._at.look().series:
            raise NotFound(
                f"{self._at.repository.name} has no open issue of {series}.",
                "`interlock series status` shows which there are.",
            )

    def _series_of(self, number: int, look: Look) -> str | None:
        place, _ = look.place(number)
        if place is not None:
            return place.series
        for name in self._overview.pages():
            if any(placed.number == number for placed in self._at.lane(name).placed()):
                return name
        return None


def _refused(series: str, why: InterlockError) -> Cycle:
    """A series that is left alone."""
    return Cycle(
        series=series,
        active_issue=None,
        queue=(),
        done=(),
        metrics=dict.fromkeys(COUNTED, 0),
        problems=(why.sentence,),
        refused=True,
    )

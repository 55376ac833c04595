"""`interlock prove`: a storm on a store of its own, judged twice.

Real processes race, crash, sleep past their leases and write late. Each keeps a journal outside the store.
In the end the recorded history and the journals must agree: no run too many, nothing lost, nothing doubled,
no late write accepted.
"""

from __future__ import annotations

import json
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

from rich.console import Console

from interlock import app, settings
from interlock.core.errors import Exit, InterlockError, InvalidInput, StoreUnavailable
from interlock.core.record import replace
from interlock.demo import interrupted_once
from interlock.demo.stage import ENDING_SIGNALS
from interlock.proof.checker import LoggedEvent
from interlock.prove import guards, page, report, second_judge, verdict
from interlock.prove.crew import ProcessCrew
from interlock.prove.evidence import Evidence, gather, keep, newest_event
from interlock.prove.nursery import DISK_FULL
from interlock.prove.place import ProofPlace, checked_guard, open_place
from interlock.prove.report import ProofFinding, ProofReport
from interlock.prove.storm import RACERS, ProofStorm
from interlock.service.contract import ItemFilter, Service, to_json

SECONDS = 60.0
SECONDS_MIN, SECONDS_MAX = 5.0, 3_600.0
_INTERRUPTED = 130
_PAGE = 1_000


def prove(
    *,
    url: str | None,
    seconds: float,
    seed: int | None,
    broken: str | None,
    restart: str | None,
    html: Path | None,
    evidence: Path | None,
    as_json: bool,
    color: bool,
    racers: int = RACERS,
) -> int:
    """Play the storm and judge it. Returns 0 without a violation, 1 with one, 130 if interrupted."""
    console = Console(no_color=None if color else True, highlight=False, markup=False, emoji=False)
    if not SECONDS_MIN <= seconds <= SECONDS_MAX:
        raise InvalidInput(
            f"The proof cannot take {seconds:g} s.", f"Use {SECONDS_MIN:g} to {SECONDS_MAX:g}."
        )
    checked_guard(broken, url, guards.GUARDS)
    if restart is not None and (url is None or url.startswith("sqlite")):
        raise InvalidInput(
            "A SQLite file has no server to restart.", "Leave --restart-cmd out, or add --store."
        )
    for place in (html.absolute().parent if html is not None else None, evidence):
        if place is not None and not place.is_dir():
            raise InvalidInput(f"The directory {place} does not exist.", "Create it first.")
    seed = random.SystemRandom().randrange(1 << 32) if seed is None else seed

    def tell(text: str) -> None:
        if not as_json:
            console.print(f"  {text}", soft_wrap=True)

    if not as_json:
        console.print(f"Seed {seed}: --seed {seed} repeats the schedules of all processes.", soft_wrap=True)
    if broken is not None:
        tell(f"without the guard {broken!r}: {guards.GUARDS[broken]}. This must fail")
    with interrupted_once():
        try:
            found = _play(
                url=url,
                seconds=seconds,
                seed=seed,
                broken=broken,
                restart=restart,
                html=html,
                evidence=evidence,
                racers=racers,
                tell=tell,
            )
        except KeyboardInterrupt:
            sys.stderr.write("Stopped. No process and no data of the proof is left.\n")
            return _INTERRUPTED
        except OSError as error:
            if error.errno not in DISK_FULL:
                raise
            raise StoreUnavailable(
                "The disk is full: the journals of the proof could not be written.",
                "Free some space, or choose another disk with TMPDIR.",
            ) from None
    if as_json:
        sys.stdout.write(json.dumps(to_json(found), ensure_ascii=False) + "\n")
        sys.stdout.flush()
    else:
        report.write(console, found)
        if html is not None:
            console.print(f"The page of this proof: {html}", soft_wrap=True)
    return Exit.OK if found.ok else Exit.ERROR


def _play(
    *,
    url: str | None,
    seconds: float,
    seed: int,
    broken: str | None,
    restart: str | None,
    html: Path | None,
    evidence: Path | None,
    racers: int,
    tell: Callable[[str], None],
) -> ProofReport:
    began_s = time.monotonic()
    with ExitStack() as cleanup:
        # Signals must not interrupt the clean-up: they are blocked first and unblocked last.
        cleanup.callback(signal.pthread_sigmask, signal.SIG_UNBLOCK, ENDING_SIGNALS)
        place = cleanup.enter_context(open_place(url))
        chosen = settings.load(environ=place.environ(), directory=place.directory)
        service = app.open_service(settings=chosen)
        cleanup.callback(service.close)
        if broken == "lane":
            guards.drop_index(service.store)
        after = newest_event(service)
        crew = ProcessCrew(place.directory, place.environ(), place.scheme)
        remains: list[str] = []
        if not place.is_own:
            cleanup.callback(lambda: remains.append(_tidy(service, place)))
        cleanup.callback(crew.end)
        if evidence is not None:
            cleanup.callback(keep, place, evidence)  # also of a proof that came to no end
        cleanup.callback(signal.pthread_sigmask, signal.SIG_BLOCK, ENDING_SIGNALS)
        storm = ProofStorm(
            place,
            service,
            crew,
            seconds=seconds,
            seed=seed,
            guard=broken,
            restart=restart,
            racers=racers,
            tell=tell,
        )
        storm.play()
        tell("two judges read what is left")
        seen = gather(service, place, after=after, remote=storm.remote)
        findings = _judge(storm, place, seen)
        found = report.summed_up(
            storm.tail.lines,
            Counter(event.kind for event in seen.events),
            findings,
            items=len(seen.items),
            seed=seed,
            store="server" if place.scheme == "http" else place.scheme,
            broken=broken,
            seconds=round(time.monotonic() - began_s, 1),
            processes=crew.started,
            racers=storm.racers,
            rounds=storm.rounds,
            remains="",
        )
        if html is not None:
            html.write_text(page.rendered(found, seen.events, storm.tail.lines), "utf-8")
    return replace(found, remains=" ".join(remains))


def _judge(storm: ProofStorm, place: ProofPlace, seen: Evidence) -> list[ProofFinding]:
    first = verdict.judge(
        [LoggedEvent.of(event) for event in seen.events],
        {item.id: item.status for item in seen.items},
        storm.tail.lines,
        now_us=seen.now_us,
    )
    second = second_judge.judge(place.directory)
    findings = [ProofFinding(judge=report.FIRST, rule=v.rule, text=v.text) for v in first]
    return findings + [ProofFinding(judge=report.SECOND, rule=v["rule"], text=v["text"]) for v in second]


def _tidy(service: Service, place: ProofPlace) -> str:
    """Cancel what is left of the project on a server, and say what remains there."""
    with suppress(InterlockError):
        left = service.items(ItemFilter(project=place.project, limit=_PAGE))
        for item in left:
            with suppress(InterlockError):
                service.cancel(item.id, why="the proof is over", by="prove", force=True)
        for agent in service.agents():
            if agent.key.endswith(place.project):
                service.remove_agent(agent.name, by="prove")
        return (
            f"Ended items and events of the project {place.project} remain on the server"
            f" until `interlock prune` deletes them there."
        )
    return f"The server was unreachable: items of the project {place.project} may be unfinished."

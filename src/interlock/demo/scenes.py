"""The scenes of the demo, in order. Each asks for work, strikes where it must, and waits for the events.

Spans are in seconds at the usual pace. Where a scene needs a run to last until something has happened, the
run is endless and the scene lets it finish, so that no slow machine lets it end too early.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from interlock.core.model import Policy
from interlock.demo.agents import STEPS
from interlock.demo.history import Blow, Run
from interlock.demo.stage import Stage

#: One process each, and two for emil, who may do only one thing at a time.
AGENTS = ("ada", "bert", "cleo", "dora")
LIMITED = "emil"
LIMITED_MAX = 1
LIMITED_PROCESSES = 2
CHORE = "demo.chore"
_ENDLESS = 900.0

COMMENTS = (
    "Dark mode please.",
    "And it should follow the system setting.",
    "But not in the printed view.",
    "Use the palette of the design system.",
    "Sorry, one more: keep the contrast above 7:1.",
)
LANES = (
    ("issue", "41"),
    ("issue", "42"),
    ("issue", "57"),
    ("branch", "release-2.4"),
    ("issue", "60"),
    ("issue", "61"),
    ("issue", "62"),
)


@dataclass(slots=True)
class Cast:
    """Which items and blows played which part; everything else is read from the events."""

    first: int = 0
    second: int = 0
    comments: list[int] = field(default_factory=list)
    crash: Blow | None = None
    zombie: Blow | None = None
    chores: list[int] = field(default_factory=list)
    urgent: int = 0
    retried: int = 0


def play(stage: Stage) -> Cast:
    """All scenes."""
    cast = Cast()
    scenes = (two_agents, five_comments, kill, zombie, priority, retry)
    stage.scenes = len(scenes)
    _raise_curtain(stage)
    for scene in scenes:
        scene(stage, cast)
        stage.rest(0.5)
    return cast


def _raise_curtain(stage: Stage) -> None:
    processes = len(AGENTS) + LIMITED_PROCESSES
    stage.headline = f"Starting {processes} agent processes"
    stage.narrate("Each claims, renews and finishes through one and the same store.")
    stage.service.set_agent(stage.agent(LIMITED), max_concurrency=LIMITED_MAX)
    for name in AGENTS:
        stage.start(name)
    for number in range(1, LIMITED_PROCESSES + 1):
        stage.start(LIMITED, label=f"{LIMITED}/{number}", kind=CHORE)
    everyone_idle(stage)


def two_agents(stage: Stage, cast: Cast) -> None:
    stage.show("Two agents are asked for one issue", "ada and bert both get issue #41. One works, one waits.")
    lane = stage.lane("issue", "41")
    title = "Login fails for e-mail addresses with a plus sign"
    _background(stage, "dora", "60", "Translate the settings page", "Into Dutch.", span=3.0)
    _background(stage, LIMITED, "61", "Move to Python 3.13", "CI first.", span=4.5)
    cast.first = stage.add(
        title,
        lane=lane,
        agent="ada",
        policy=Policy.COALESCE,
        work=(_ENDLESS,),
        message="Sign-in says 'invalid'.",
    )
    _started(stage, cast.first)
    cast.second = stage.add(
        title, lane=lane, agent="bert", policy=Policy.COALESCE, work=(1.4,), message="bert, please look too."
    )
    stage.rest(0.9)
    stage.narrate("Two more comments for ada: they go into the run that is already there.")
    for text in ("It happens with a dot as well.", "Only on the mobile site, it seems."):
        stage.add("Comment on #41", lane=lane, agent="ada", policy=Policy.COALESCE, message=text)
        stage.rest(0.4)
    stage.rest(0.5)
    _let_finish(stage, cast.first)
    stage.narrate("ada is done, and in the same transaction the issue is bert's.")
    _completed(stage, cast.second)


def five_comments(stage: Stage, cast: Cast) -> None:
    stage.show("Five quick comments, one run", "cleo is busy while five comments arrive on issue #57.")
    _background(stage, "bert", "42", "Log the upload's progress", "Once a second.", span=3.2)
    busy = stage.add(
        "Cut the 2.4 release candidate",
        lane=stage.lane("branch", "release-2.4"),
        agent="cleo",
        work=(_ENDLESS,),
        message="Tag it when the build is green.",
    )
    _started(stage, busy)
    for number, text in enumerate(COMMENTS, start=1):
        cast.comments.append(
            stage.add(
                f"Dark mode, comment {number} of {len(COMMENTS)}",
                lane=stage.lane("issue", "57"),
                agent="cleo",
                policy=Policy.SUPERSEDE,
                work=(1.4,),
                message=text,
            )
        )
        stage.rest(0.25)
    stage.narrate("Each replaces the one before and carries its message along.")
    stage.rest(0.4)
    _let_finish(stage, busy)
    _completed(stage, cast.comments[-1])


def kill(stage: Stage, cast: Cast) -> None:
    stage.show("kill -9: an agent dies in mid-run", "Somebody takes issue #42 …")
    _background(stage, LIMITED, "60", "Tidy up the changelog", "Newest first.", span=4.0)
    item = stage.add(
        "Upload stalls at 99 %",
        lane=stage.lane("issue", "42"),
        work=(_ENDLESS,),
        message="Every file above 2 GB.",
    )
    run = _in_mid_run(stage, item)
    victim = stage.crew.of(stage.shown(run.agent))
    cast.crash = stage.kill(victim)
    stage.until(lambda: run.ended is not None, "the dead agent's lease to run out")
    stage.until(lambda: _taken_over(stage, run), "another agent to take the item")
    outlived_s = stage.history.outlived_s(cast.crash)
    stage.narrate(
        f"The lock outlived {victim.name} by {outlived_s:.1f} s; now {_holder(stage, item)} has the issue."
    )
    stage.crew.replace(victim, stage.agent(victim.name))
    stage.rest(1.2)
    _let_finish(stage, item)


def zombie(stage: Stage, cast: Cast) -> None:
    stage.show("A zombie: paused beyond its lease, then it writes", "Somebody takes the release branch …")
    _background(stage, LIMITED, "62", "Compress the images", "PNG to WebP.", span=4.0)
    item = stage.add(
        "Back-port the login fix to 2.4",
        lane=stage.lane("branch", "release-2.4"),
        work=(_ENDLESS,),
        message="Cherry-pick, then push.",
    )
    run = _in_mid_run(stage, item)
    sleeper = stage.crew.of(stage.shown(run.agent))
    cast.zombie = stage.stop(sleeper)
    stage.until(lambda: _taken_over(stage, run), "another agent to take the item")
    stage.narrate(f"{_holder(stage, item)} works on it now. {sleeper.name} still believes that it does.")
    stage.rest(0.8)
    stage.resume(sleeper)
    stage.until(lambda: "done" in _late_writes(stage, run.run), "the late report to be refused")
    holder = _holder(stage, item)
    stage.narrate(
        f"REFUSED: {sleeper.name}'s lease is gone, its report changes nothing. {holder} goes on.", alarm=True
    )
    stage.until(lambda: sleeper.state == "idle", "the sleeper to hear of it")
    stage.rest(1.0)
    _let_finish(stage, item)


def priority(stage: Stage, cast: Cast) -> None:
    stage.show(
        "Priority and capacity",
        f"{LIMITED} has {LIMITED_PROCESSES} processes but may do {LIMITED_MAX} thing at a time.",
    )

    def chore(number: str, title: str, message: str, *, rank: int = 0, span: float = 0.9) -> int:
        lane = stage.lane("issue", number)
        return stage.add(
            title, lane=lane, agent=LIMITED, kind=CHORE, work=(span,), message=message, priority=rank
        )

    everyone_idle(stage)
    cast.chores = [chore("60", "Regenerate the API reference", "The examples are stale.", span=_ENDLESS)]
    _started(stage, cast.chores[0])
    cast.chores.append(chore("61", "Bump the dependencies", "Minor versions only."))
    cast.urgent = chore("62", "Security: patch the YAML parser", "CVE, fix is upstream.", rank=9)
    cast.chores.append(cast.urgent)
    stage.narrate("The security fix came last and goes first.")
    stage.rest(0.8)
    _let_finish(stage, cast.chores[0])
    _completed(stage, *cast.chores)


def retry(stage: Stage, cast: Cast) -> None:
    stage.show("Failure and retry", "dora's first attempt will fail. ada waits for the same branch.")
    lane = stage.lane("branch", "release-2.4")
    cast.retried = stage.add(
        "Publish the release notes",
        lane=lane,
        agent="dora",
        work=(0.9,),
        failures=1,
        message="The link check has to pass.",
    )
    _started(stage, cast.retried)
    other = stage.add("Tag 2.4.1", lane=lane, agent="ada", work=(0.9,), message="Signed, please.")
    stage.until(lambda: stage.history.running(cast.retried) is None, "the first attempt to end")
    stage.narrate("While dora waits out its back-off, the branch is free for the next in line.")
    _completed(stage, cast.retried, other)


def _background(stage: Stage, agent: str, number: str, title: str, message: str, span: float) -> None:
    """Work on another lane that goes on beside the scene: lanes do not wait for each other."""
    kind = CHORE if agent == LIMITED else "demo"
    lane = stage.lane("issue", number)
    stage.add(title, lane=lane, agent=agent, kind=kind, work=(span,), message=message)


# -- waiting for the events ---------------------------------------------------------------------------


def everyone_idle(stage: Stage) -> None:
    stage.until(lambda: all(a.state == "idle" for a in stage.crew.agents), "all agents to be idle")


def _started(stage: Stage, item: int) -> None:
    stage.until(lambda: bool(stage.history.runs_of(item)), f"item {item} to be started")


def _completed(stage: Stage, *items: int) -> None:
    done = stage.history.succeeded
    stage.until(lambda: all(done(item) for item in items), f"items {items} to be completed")


def _let_finish(stage: Stage, item: int) -> None:
    """Let whoever works on an item come to its end; should its lease be lost on the way, the next one too."""
    told: set[int] = set()

    def done() -> bool:
        run = stage.history.running(item)
        for agent in stage.crew.agents:
            if run is not None and agent.run == run.run and agent.state == "working" and run.run not in told:
                told.add(run.run)
                agent.finish()
        return stage.history.succeeded(item) is not None

    stage.until(done, f"item {item} to be completed")


def _in_mid_run(stage: Stage, item: int) -> Run:
    """Wait until a process is in the middle of the item, past its first step, and has been seen there."""

    def busy() -> bool:
        run = stage.history.running(item)
        return run is not None and any(
            a.run == run.run and a.state == "working" and a.doing == STEPS[1] for a in stage.crew.agents
        )

    _started(stage, item)
    stage.narrate(f"{_holder(stage, item)} has it.")
    stage.until(busy, "an agent to be in mid-run")
    stage.rest(0.6)
    run = stage.history.running(item)
    assert run is not None
    return run


def _taken_over(stage: Stage, lost: Run) -> bool:
    run = stage.history.running(lost.item)
    return run is not None and run.run != lost.run


def _holder(stage: Stage, item: int) -> str:
    run = stage.history.running(item)
    return stage.shown(run.agent) if run else "nobody"


def _late_writes(stage: Stage, run: int) -> set[str]:
    return {str(event.data.get("wanted")) for event in stage.history.refused(run)}

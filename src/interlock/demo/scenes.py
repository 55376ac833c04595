"""The scenes of the demo, in order. Each adds work, sends signals if needed, and waits for the events.

Spans are in seconds at the usual pace. If a run must last until an event, it has no span and the scene orders
it to finish. So it cannot end too early on a slow machine.

A scene returns a function that computes, from all events, what the scene has shown.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from interlock.core.model import Policy
from interlock.demo.agents import STEPS
from interlock.demo.processes import AgentProcess
from interlock.demo.stage import LIMITED, Stage
from interlock.proof.checker import ReplayedRun, most_at_once, seconds

#: The agents with one process each. The limited agent has two.
AGENTS = ("ada", "bert", "cleo", "dora")
LIMITED_MAX = 1
LIMITED_PROCESSES = 2
PLACES = ("#41", "#42", "#57", "release-2.4", "#60", "#61", "#62")
COMMENTS = (
    "Dark mode please.",
    "And it should follow the system setting.",
    "But not in the printed view.",
    "Use the palette of the design system.",
    "Sorry, one more: keep the contrast above 7:1.",
)


Conclusion = Callable[[], tuple[str, dict[str, Any]]]
"""A sentence for the story, and facts for the JSON."""


def play(stage: Stage) -> list[tuple[str, str, Conclusion]]:
    """Play all scenes; each has a title in the story and a section in the JSON."""
    scenes = (
        ("two agents", "two_agents", two_agents),
        ("five comments", "five_comments", five_comments),
        ("kill -9", "crash", kill),
        ("zombie", "zombie", zombie),
        ("priority", "others", priority),
        ("retry", "others", retry),
    )
    stage.scenes = len(scenes)
    stage.headline = f"Starting {len(AGENTS) + LIMITED_PROCESSES} agent processes"
    stage.narrate("Each claims, renews and finishes through the same store.")
    stage.service.set_agent(stage.agent(LIMITED), max_concurrency=LIMITED_MAX)
    for name in AGENTS:
        stage.start(name)
    for number in range(1, LIMITED_PROCESSES + 1):
        stage.start(LIMITED, label=f"{LIMITED}/{number}")
    stage.everyone_idle()
    played = []
    for title, section, scene in scenes:
        played.append((title, section, scene(stage)))
        stage.pause(0.5)
    return played


def two_agents(stage: Stage) -> Conclusion:
    stage.begin(
        "Two agents are asked for one issue", "ada and bert both get issue #41: one works, one waits."
    )
    title = "Login fails for e-mail addresses with a plus sign"
    policy = Policy.COALESCE
    stage.add("#60", "Translate the settings page", "Into Dutch.", agent="dora", work=3.0)
    stage.add("#61", "Move to Python 3.13", "CI first.", agent=LIMITED, work=4.5)
    first = stage.add("#41", title, "Sign-in says 'invalid'.", agent="ada", policy=policy)
    _started(stage, first)
    second = stage.add("#41", title, "bert, please look too.", agent="bert", policy=policy, work=1.4)
    stage.pause(0.9)
    stage.narrate("Two more comments for ada: they join the run that is already there.")
    for text in ("It happens with a dot as well.", "Only on the mobile site, it seems."):
        stage.add("#41", "Comment on #41", text, agent="ada", policy=policy)
        stage.pause(0.4)
    stage.pause(0.5)
    _let_finish(stage, first)
    stage.narrate("ada is done, and in the same transaction the issue is bert's.")
    _completed(stage, second)

    def conclude() -> tuple[str, dict[str, Any]]:
        winner = stage.history.succeeded(first)
        assert winner is not None and winner.ended is not None
        asked = next(e for e in stage.lines if e.kind == "item.added" and e.item == second)
        heir = stage.history.runs_of(second)[0]
        joined = [e for e in stage.lines if e.kind == "item.coalesced" and e.data["into_item"] == first]
        facts = {
            "first": stage.shown(winner.agent),
            "second": stage.shown(heir.agent),
            "handover_s": round(seconds(winner.ended, heir.started), 3),
            "waited_s": round(seconds(asked, heir.started), 1),
            "coalesced": len(joined),
        }
        waited = "{second} waited {waited_s:.1f} s behind {first}".format_map(facts)
        return f"{waited}; {len(joined)} comments joined {facts['first']}'s run", facts

    return conclude


def five_comments(stage: Stage) -> Conclusion:
    stage.begin("Five quick comments, one run", "cleo is busy while five comments arrive on issue #57.")
    stage.add("#42", "Log the upload's progress", "Once a second.", agent="bert", work=3.2)
    tag = "Tag it when the build is green."
    busy = stage.add("release-2.4", "Cut the 2.4 release candidate", tag, agent="cleo")
    _started(stage, busy)
    comments = []
    for number, text in enumerate(COMMENTS, start=1):
        title = f"Dark mode, comment {number} of {len(COMMENTS)}"
        comments.append(stage.add("#57", title, text, agent="cleo", policy=Policy.SUPERSEDE, work=1.4))
        stage.pause(0.25)
    stage.narrate("Each replaces the one before and takes over its message.")
    stage.pause(0.4)
    _let_finish(stage, busy)
    _completed(stage, comments[-1])

    def conclude() -> tuple[str, dict[str, Any]]:
        done = [run.result["read"] for run in stage.service.show(comments[-1]).runs if run.result]
        read = tuple(text for texts in done for text in texts if text in COMMENTS)
        runs = sum(len(stage.history.runs_of(item)) for item in comments)
        facts = {
            "sent": len(comments),
            "superseded": sum(e.kind == "item.superseded" and e.item in comments for e in stage.lines),
            "runs": runs,
            "messages": read,
            "in_order": read == COMMENTS,
        }
        told = f"{runs} run{'' if runs == 1 else 's'}, {facts['superseded']} superseded"
        return f"{told}, {len(read)} of {len(comments)} messages in its hands", facts

    return conclude


def kill(stage: Stage) -> Conclusion:
    stage.begin("kill -9: an agent dies in mid-run", "An agent takes issue #42 …")
    stage.add("#60", "Tidy up the changelog", "Newest first.", agent=LIMITED, work=4.0)
    item = stage.add("#42", "Upload stalls at 99 %", "Every file above 2 GB.")
    run, victim = _in_mid_run(stage, item)
    sent = stage.kill(victim)
    stage.until(lambda: stage.history.runs[run.number].ended is not None, "the dead agent's lease to run out")
    _taken_over(stage, run)
    outlived = f"The lock outlived {victim.name} by {stage.outlived_s(sent):.1f} s"
    stage.narrate(f"{outlived}; now {_holder(stage, item)} has the issue.")
    stage.start(victim.name, instead=victim)
    stage.pause(1.2)
    _let_finish(stage, item)

    def conclude() -> tuple[str, dict[str, Any]]:
        rescue = stage.history.succeeded(item)
        assert rescue is not None and rescue.ended is not None
        facts = {
            "agent": victim.name,
            "lease_s": stage.lease_s,
            # How long its lock lasted after its death.
            "lock_outlived_s": round(stage.outlived_s(sent), 2),
            "recovered": stage.history.runs[sent.run].outcome == "lost" and rescue.number != sent.run,
            "recovered_by": stage.shown(rescue.agent),
            # From the kill to the recorded result of the next run.
            "recovered_after_s": round(seconds(stage.signal_event(sent), rescue.ended), 2),
        }
        lock = "lock outlived {agent} by {lock_outlived_s:.1f} s (lease {lease_s:g} s)"
        rescued = "{recovered_by} finished at {recovered_after_s:.1f} s"
        return f"{lock}; {rescued}".format_map(facts), facts

    return conclude


def zombie(stage: Stage) -> Conclusion:
    stage.begin("A zombie: paused beyond its lease, then it writes", "An agent takes the release branch …")
    stage.add("#62", "Compress the images", "PNG to WebP.", agent=LIMITED, work=4.0)
    item = stage.add("release-2.4", "Back-port the login fix to 2.4", "Cherry-pick, then push.")
    run, sleeper = _in_mid_run(stage, item)

    def refused() -> tuple[str, ...]:
        late = (e for e in stage.lines if e.kind == "run.refused" and e.run == run.number)
        return tuple(str(e.data.get("wanted")) for e in late)

    stage.stop(sleeper)
    _taken_over(stage, run)
    stage.narrate(f"{_holder(stage, item)} works on it now. {sleeper.name} still believes that it does.")
    stage.pause(0.8)
    stage.resume(sleeper)
    stage.until(lambda: "done" in refused(), "the late report to be refused")
    gone = f"REFUSED: {sleeper.name}'s lease is gone, its report changes nothing."
    stage.narrate(f"{gone} {_holder(stage, item)} goes on.", alarm=True)
    stage.until(lambda: sleeper.state == "idle", "the paused agent to notice")
    stage.pause(1.0)
    _let_finish(stage, item)

    def conclude() -> tuple[str, dict[str, Any]]:
        heir = next(r for r in stage.history.runs_of(item) if r.number > run.number)
        winner = stage.history.succeeded(item)
        late = f"{len(refused())} late writes of {sleeper.name} refused: {', '.join(refused())}"
        return late, {
            "agent": sleeper.name,
            "refused": refused(),
            "taken_over_by": stage.shown(heir.agent),
            "result_stands_of": stage.shown(winner.agent) if winner else "no agent",
        }

    return conclude


def priority(stage: Stage) -> Conclusion:
    stage.begin(
        "Priority and capacity",
        f"{LIMITED} has {LIMITED_PROCESSES} processes but may do {LIMITED_MAX} thing at a time.",
    )
    stage.everyone_idle()
    chore = partial(stage.add, agent=LIMITED, work=0.9)
    first = chore("#60", "Regenerate the API reference", "The examples are stale.")
    _started(stage, first)
    second = chore("#61", "Bump the dependencies", "Minor versions only.")
    urgent = chore("#62", "Security: patch the YAML parser", "CVE, fix is upstream.", priority=9)
    stage.narrate("The security fix came last and goes first.")
    stage.pause(0.8)
    _let_finish(stage, first)
    _completed(stage, first, second, urgent)

    def conclude() -> tuple[str, dict[str, Any]]:
        starts = {item: stage.history.runs_of(item)[0].started.at_us for item in (first, second, urgent)}
        overtook = sum(start > starts[urgent] for start in starts.values())
        most = most_of_limited(stage)
        facts = {"limit": LIMITED_MAX, "processes": LIMITED_PROCESSES}
        sentence = f"the urgent item went before {overtook} older; {LIMITED} kept to {most} run at once"
        return sentence, {"overtook": overtook, "most_at_once": most, **facts}

    return conclude


def retry(stage: Stage) -> Conclusion:
    stage.begin("Failure and retry", "dora's first attempt will fail. ada waits for the same branch.")
    notes, check = "Publish the release notes", "The link check has to pass."
    item = stage.add("release-2.4", notes, check, agent="dora", work=0.9, failures=1)
    _started(stage, item)
    other = stage.add("release-2.4", "Tag 2.4.1", "Signed, please.", agent="ada", work=0.9)
    stage.until(lambda: stage.history.running(item) is None, "the first attempt to end")
    stage.narrate("While dora waits out its back-off, the branch is free for the next in line.")
    _completed(stage, item, other)

    def conclude() -> tuple[str, dict[str, Any]]:
        tries = stage.history.runs_of(item)
        failed = next(run for run in tries if run.outcome == "failed")
        after = next(run for run in tries if run.number > failed.number)
        assert failed.ended is not None
        pause_s = round(seconds(failed.ended, after.started), 1)
        sentence = f"attempt {len(tries)} succeeded, {pause_s:.1f} s after the failed one"
        return sentence, {"attempts": len(tries), "back_off_s": pause_s}

    return conclude


def most_of_limited(stage: Stage) -> int:
    """The most runs that the limited agent had at once."""
    return most_at_once(r for r in stage.history.runs.values() if r.agent == stage.agent(LIMITED))


# -- waiting for the events ---------------------------------------------------------------------------


def _started(stage: Stage, item: int) -> None:
    stage.until(lambda: bool(stage.history.runs_of(item)), f"item {item} to be started")


def _completed(stage: Stage, *items: int) -> None:
    stage.until(
        lambda: all(stage.history.succeeded(item) for item in items), f"items {items} to be completed"
    )


def _let_finish(stage: Stage, item: int) -> None:
    """Order the run of an item to finish. If it loses its lease meanwhile, order the next run too."""
    ordered: set[int] = set()

    def done() -> bool:
        run = stage.history.running(item)
        agent = stage.crew.of_run(run.number) if run else None
        if run and agent and agent.state == "working" and run.number not in ordered:
            ordered.add(run.number)
            agent.finish()
        return stage.history.succeeded(item) is not None

    stage.until(done, f"item {item} to be completed")


def _in_mid_run(stage: Stage, item: int) -> tuple[ReplayedRun, AgentProcess]:
    """Wait until a process has passed the first step of the item, and has been shown there."""

    def busy() -> tuple[ReplayedRun, AgentProcess] | None:
        run = stage.history.running(item)
        agent = stage.crew.of_run(run.number) if run else None
        return (run, agent) if run and agent and agent.doing == STEPS[1] else None

    _started(stage, item)
    stage.narrate(f"{_holder(stage, item)} has it.")
    while True:
        stage.until(lambda: busy() is not None, "an agent to be in mid-run")
        stage.pause(0.6)
        if found := busy():  # a slow machine may lose the lease meanwhile
            return found


def _taken_over(stage: Stage, lost: ReplayedRun) -> None:
    def taken() -> bool:
        run = stage.history.running(lost.item)
        return run is not None and run.number != lost.number

    stage.until(taken, "another agent to take the item")


def _holder(stage: Stage, item: int) -> str:
    run = stage.history.running(item)
    return stage.shown(run.agent) if run else "no agent"

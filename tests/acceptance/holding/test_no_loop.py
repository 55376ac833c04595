"""Nothing wakes itself, through `work` and `hold`, on every store: the loop, not the step."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.command import Command
from tests.acceptance.holding.holders import LANE

#: An agent that comments on what it works on, and is mentioned by its own comment.
COMMENT = f'{sys.executable} -m interlock msg "$INTERLOCK_ITEM" "working on it"'
MENTION = f"{sys.executable} -m interlock add mention --lane {LANE} --agent coder --policy coalesce"
#: Whoever speaks from elsewhere: not inside of this run.
OTHER = f'env -u INTERLOCK_RUN {sys.executable} -m interlock msg "$INTERLOCK_ITEM" "and you?"'


@pytest.fixture
def git_il(tmp_path: Path) -> Command:
    subprocess.run(["git", "init", "-q", "--bare", tmp_path / "remote.git"], check=True)
    directory = tmp_path / "here"
    directory.mkdir()
    env = {"INTERLOCK_GIT_LEASE_MIN_S": "1", "INTERLOCK_POLL_S": "0.2"}
    return Command(directory, url=f"git+file://{tmp_path / 'remote.git'}", env=env)


def runs(il: Command) -> int:
    return (il.directory / "ran").read_text().count("ran")


def work(il: Command, script: str, limit: int) -> int:
    answer = il(
        *("work", "--agent", "coder", "--limit", limit, "--exit-when-idle", "--", "sh", "-c"),
        f"echo ran >> ran; {script}",
    )
    assert answer.code == 0, answer
    return runs(il)


def test_a_worker_whose_command_comments_runs_once(each_il: Command):
    each_il.ok("add", "assigned", "--lane", LANE, "--agent", "coder", "--policy", "coalesce")
    assert work(each_il, f"{COMMENT} && {MENTION}", 6) == 1
    assert each_il.ok("ls")["items"] == []
    end = [e for e in each_il.ok("events")["events"] if e["kind"] == "run.succeeded"]
    assert [e["data"] for e in end] == [{"unread": 2, "unread_why": "own_message"}]


@pytest.mark.parametrize(
    ("policy", "agent"), [("coalesce", ""), ("supersede", ""), ("latest", "--agent coder")]
)
def test_events_for_anyone_of_its_own_start_nothing_whichever_policy(
    each_il: Command, policy: str, agent: str
):
    """The event names no agent: who runs the lane decides. It comes while the run goes on, from inside and
    from outside, and once it has ended."""
    item = each_il.ok("add", "assigned", "--lane", LANE, "--policy", policy, *agent.split())["item"]["id"]
    event = f"add event --lane {LANE} --policy {policy} --message said"
    inside = f"{sys.executable} -m interlock {event}"
    outside = f"env -u INTERLOCK_RUN {inside} --from-agent coder"
    assert work(each_il, f"{inside} && {outside}", 6) == 1
    late = each_il.ok(*event.split(), "--from-agent", "coder")
    assert (late["decision"], late["reason"]) == ("rejected", "own_message")
    assert each_il.ok("ls")["items"] == []
    shown = each_il.ok("show", item)
    assert ([r["status"] for r in shown["runs"]], len(shown["messages"])) == (["succeeded"], 2)


def test_an_item_without_a_lane_runs_once_too(il: Command):
    il.ok("add", "assigned")
    assert work(il, COMMENT, 6) == 1


def test_a_worker_that_is_answered_stops_at_the_bound_and_a_person_starts_it_again(il: Command):
    il.env["INTERLOCK_WAKES_MAX"] = "2"
    il.ok("add", "assigned", "--lane", LANE, "--agent", "coder")
    answered = f"{OTHER} --from-agent reviewer"
    assert work(il, answered, 9) == 3
    (item,) = il.ok("ls")["items"]
    assert (item["status"], item["reason"]) == ("waiting", "loop")
    assert "waits for a person" in il.ok("why", item["id"])["why"]
    checks = {check["name"]: check for check in il("--json", "doctor").json["checks"]}
    assert not checks["nothing_waits_for_a_person"]["ok"]
    assert [i["id"] for i in il("--json", "top").json["stopped"]] == [item["id"]]
    assert "Waiting for a person: 1" in il("top").out
    il.ok("msg", item["id"], "go on")
    assert work(il, answered, 9) == 6


def test_a_hold_whose_command_comments_runs_it_once(each_il: Command):
    assert each_il("hold", LANE, "--", "sh", "-c", f"echo ran >> ran; {COMMENT}").code == 0
    assert runs(each_il) == 1
    assert each_il.ok("lanes")["lanes"] == []


def test_a_hold_in_git_whose_command_comments_runs_it_once(git_il: Command):
    assert git_il("hold", LANE, "--", "sh", "-c", f"echo ran >> ran; {COMMENT}").code == 0
    assert runs(git_il) == 1
    assert git_il.ok("lanes")["lanes"] == []


@pytest.mark.parametrize("store", ["il", "git_il"])
def test_a_hold_that_is_answered_stops_at_the_bound(store: str, request: pytest.FixtureRequest):
    il: Command = request.getfixturevalue(store)
    il.env["INTERLOCK_WAKES_MAX"] = "2"
    held = il("hold", LANE, "--", "sh", "-c", f"echo ran >> ran; {OTHER} --from-system")
    assert held.code == 0
    assert runs(il) == 3
    assert "waits for a person (loop)" in held.err
    again = il("hold", LANE, "--", "sh", "-c", 'echo ran >> ran; grep -q "and you?" "$INTERLOCK_MESSAGES"')
    assert again.code == 0, again
    assert il.ok("lanes")["lanes"] == []

"""`interlock hold`: who gets the lane, what the others do, exit codes, messages, signals."""

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.acceptance.command import PROGRAM, Command, CommandHere
from tests.acceptance.holding.holders import (
    LANE,
    UNTIL_LET_GO,
    Process,
    Start,
    dead,
    ended,
    items,
    let_go,
    pid_in,
    until,
)
from tests.faults.processes import signal_aside

#: Rounds of each storm: more by hand.
ROUNDS = int(os.environ.get("INTERLOCK_HOLD_ROUNDS", "1"))


# -- exclusion ------------------------------------------------------------------------------------


def test_eight_processes_count_one_after_the_other(each_il: Command, start: Start):
    """Taken out: the lane of the item (`lane` in `_new_item`); then two are inside at once."""
    il = each_il
    (il.directory / "count").write_text("0")
    script = "set -e; mkdir inside; n=$(cat count); sleep 0.05; echo $((n + 1)) > count; rmdir inside"
    for _ in range(ROUNDS):
        crew = [start(il, "--", "sh", "-c", script) for _ in range(8)]
        assert [ended(process).code for process in crew] == [0] * 8
    assert (il.directory / "count").read_text().strip() == str(8 * ROUNDS)
    assert {item["status"] for item in items(il)} == {"completed"}


def test_every_message_reaches_exactly_one_run_of_the_command(il: Command, start: Start):
    """A storm of callers that leave their input with whoever holds the lane: nothing is lost and nothing is
    doubled, also where a holder ends just then.

    The last instant is tried on purpose in `tests/integration/test_holding.py`.
    """
    script = 'cat "$INTERLOCK_MESSAGES" >> log; echo >> log'
    crew = []
    for n in range(16 * ROUNDS):
        crew.append(start(il, "--if-held", "skip", "--message", f"input {n}", "--", "sh", "-c", script))
        time.sleep(0.02)
    assert {ended(process).code for process in crew} == {0}
    lines = (il.directory / "log").read_text().splitlines()
    heard = [message["text"] for line in lines for message in json.loads(line)]
    assert sorted(heard) == sorted(f"input {n}" for n in range(16 * ROUNDS))
    assert {item["status"] for item in items(il)} == {"completed"}
    assert il.ok("lanes")["lanes"] == []


# -- exit codes -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "code"), [("true", 0), ("exit 7", 7), ("kill -TERM $$", 143), ("kill -9 $$", 137)]
)
def test_the_exit_code_is_that_of_the_command(il: Command, script: str, code: int):
    answer = il("hold", LANE, "--", "sh", "-c", f"echo done; {script}")
    assert (answer.code, answer.out, answer.err) == (code, "done\n", "")
    assert items(il)[0]["status"] == ("cancelled" if code else "completed")
    assert il.ok("lanes")["lanes"] == []


@pytest.mark.parametrize(
    ("command", "code"), [("no-such-program", 127), ("./not-there", 127), ("./plain", 126)]
)
def test_a_command_that_cannot_run_takes_no_lane(tmp_path: Path, command: str, code: int):
    il = CommandHere(tmp_path)
    (il.directory / "plain").write_text("no program")
    answer = il("--json", "hold", LANE, "--", command)
    assert (answer.code, answer.error["code"]) == (code, "command_unusable")
    assert items(il) == []


def test_the_command_has_our_streams_and_knows_its_run(il: Command):
    renew = " ".join((*PROGRAM, "renew"))
    script = (
        f'cat; {renew}; echo "$INTERLOCK_LANE $INTERLOCK_FENCE" >&2; echo \'{{"ok": 1}}\' > $INTERLOCK_RESULT'
    )
    answer = il("hold", LANE, "--agent", "Ann", "--", "sh", "-c", script, stdin="typed")
    assert answer.code == 0, answer
    assert answer.out.startswith("typed")
    item = items(il)[0]["id"]
    shown = il.ok("show", item)
    run = shown["runs"][0]
    assert answer.err == f"{LANE} {run['run']}\n"
    assert (run["agent"], run["result"]) == ("ann", {"ok": 1})


# -- a lane that is held --------------------------------------------------------------------------


def test_fail_names_the_holder_and_what_to_type(il: Command, holder: Process):
    answer = il("hold", LANE, "--if-held", "fail", "--", "true")
    assert answer.code == 4
    for words in (
        f"Lane {LANE} is held by ann (run ",
        "since ",
        "until ",
        "unless renewed",
        "--if-held wait",
    ):
        assert words in answer.err
    assert il("--json", "hold", LANE, "--if-held", "fail", "--", "true").error["code"] == "held"
    let_go(il, holder)
    assert len(items(il)) == 1


def test_skip_leaves_its_message_with_the_holder_whose_command_runs_again(each_il: Command, start: Start):
    """Taken out: the loop over `_unread` in `_work`, and the follow-up."""
    il = each_il
    heard = "cp $INTERLOCK_MESSAGES heard.$(wc -l < held)"
    script = f"echo $INTERLOCK_RUN > run; echo $$ >> held; {heard}; {UNTIL_LET_GO}"
    holder = start(il, "--", "sh", "-c", script)
    pid_in(il.directory / "held")
    for text in ("one", "two"):
        answer = il("hold", LANE, "--if-held", "skip", "--message", text, "--", "false")
        assert (answer.code, answer.out) == (0, "")
        assert "runs its command again for it before it gives the lane up" in answer.err
        assert "The lane is free when" not in answer.err, "that is not true once there is a message"
    inside = {"INTERLOCK_RUN": (il.directory / "run").read_text().strip()}
    own = il("hold", LANE, "--if-held", "skip", "--message", "own", "--", "false", env=inside)
    assert (own.code, "can read it" in own.err, "again" in own.err) == (0, True, False)
    assert il("hold", LANE, "--if-held", "skip", "--", "false").code == 0
    let_go(il, holder)
    told = [json.loads((il.directory / f"heard.{n}").read_text()) for n in (1, 2)]
    assert [[m["text"] for m in messages] for messages in told] == [[], ["one", "two", "own"]]
    assert [(i["status"], i["attempt"]) for i in items(il)] == [("completed", 1)]


def test_who_waits_is_told_that_the_command_runs_again_before_the_line_moves(il: Command, start: Start):
    holder = start(il, "--", "sh", "-c", f"echo $$ >> held; {UNTIL_LET_GO}")
    pid_in(il.directory / "held")
    assert il("hold", LANE, "--if-held", "skip", "--message", "one", "--", "false").code == 0
    heir = il.ok("add", "work", "--lane", LANE)["arrival"]
    again = "is done, which first runs its command again for the messages that item 1 has not read; those not"
    assert f"it moves up when run 1 {again}" in il.ok("why", heir)["why"]
    skipped = il("hold", LANE, "--if-held", "skip", "--", "false")
    assert f"The lane goes to the next in line when run 1 {again}" in skipped.err
    let_go(il, holder)
    assert len((il.directory / "held").read_text().split()) == 2
    assert [i["status"] for i in items(il)] == ["completed"], "no item is made of the message"
    assert il.ok("show", heir)["item"]["status"] == "pending"


def test_its_command_cannot_ask_and_a_failure_is_no_dead_letter(each_il: Command):
    """Nobody would get the answer, and nobody could retry it."""
    ask = f'{sys.executable} -m interlock ask "Which branch?"'
    answer = each_il("hold", LANE, "--", "sh", "-c", ask)
    assert (answer.code, "A hold cannot ask a person" in answer.err) == (2, True)
    assert each_il.ok("lanes")["lanes"] == []
    assert each_il.ok("ls", "--dead")["items"] == []
    (item,) = items(each_il)
    again = each_il("retry", item["id"])
    assert (again.code, "is a hold" in again.err) == (1, True)


def test_a_wait_that_times_out_gives_its_place_up(il: Command, holder: Process):
    answer = il("hold", LANE, "--wait", "0.2", "--", "false")
    assert answer.code == 4
    assert "did not become free in time" in answer.err
    assert [i["status"] for i in items(il)] == ["in_progress", "cancelled"]
    let_go(il, holder)


def test_a_waiter_that_is_told_to_stop_gives_its_place_up(il: Command, holder: Process, start: Start):
    waiter = start(il, "--", "touch", "ran")
    until(lambda: len(items(il)) == 2, "the waiter")
    waiter.send_signal(signal.SIGTERM)
    assert ended(waiter).code == 128 + signal.SIGTERM
    assert [i["status"] for i in items(il)] == ["in_progress", "cancelled"]
    let_go(il, holder)
    assert not (il.directory / "ran").exists()


def test_a_command_under_a_lane_does_not_wait_for_itself(il: Command):
    script = f"{' '.join(PROGRAM)} hold {LANE} -- true"
    answer = il("hold", LANE, "--", "sh", "-c", script)
    assert answer.code == 4
    assert "would wait for itself" in answer.err


@pytest.mark.parametrize(
    "args",
    [("--if-held", "never"), ("--wait", "-1"), ("--lease", "0.1"), ("--timeout", "0"), ("--agent", "a b")],
)
def test_options_that_make_no_sense_are_refused(tmp_path: Path, args: tuple[str, ...]):
    il = CommandHere(tmp_path)
    answer = il("--json", "hold", LANE, *args, "--", "true")
    assert (answer.code, answer.error["code"]) == (2, "invalid_input")
    assert il("hold", LANE).code == 2
    assert il("hold", "bad lane", "--", "true").code == 2
    assert items(il) == []


# -- signals --------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_signals_are_forwarded_to_the_command(il: Command, start: Start, number: signal.Signals):
    name = number.name.removeprefix("SIG")
    process = start(
        il, "--", "sh", "-c", f"trap 'echo {name} >> heard; exit 9' {name}; echo $$ > pid; sleep 60 & wait"
    )
    pid_in(il.directory / "pid")
    process.send_signal(number)
    assert ended(process).code == 9
    assert (il.directory / "heard").read_text() == f"{name}\n"
    assert il.ok("lanes")["lanes"] == []


def test_a_signal_is_heard_while_the_holder_waits_for_its_command(il: Command, start: Start):
    """Taken out: that the wait ends once a second; the signal is then heard when the command ends."""
    process = start(il, "--", "sh", "-c", "trap 'exit 9' TERM; echo $$ > pid; sleep 600 & wait")
    pid_in(il.directory / "pid")
    signal_aside(process.pid, signal.SIGTERM)
    assert ended(process).code == 9


def test_ctrl_c_at_a_terminal_reaches_the_command_once(il: Command):
    script = (
        "n=0; trap 'n=$((n + 1))' INT; echo ready; while [ $n = 0 ]; do sleep 0.05; done; "
        "sleep 0.3; echo end $n; exit 3"
    )
    pid, terminal = os.forkpty()
    if pid == 0:
        os.chdir(il.directory)
        program = [*PROGRAM, "hold", LANE, "--", "sh", "-c", script]
        os.execvpe(program[0], program, il.environment(None))
    seen = b""
    try:
        while chunk := os.read(terminal, 4096):
            seen += chunk
            if b"ready" in chunk:
                os.write(terminal, b"\x03")
    except OSError:
        pass  # the other end was closed
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3
    assert b"end 1" in seen


def test_a_cancel_request_ends_the_command_by_the_ladder(il: Command, start: Start):
    process = start(il, "--", "sh", "-c", "trap 'touch asked; exit 130' INT; echo $$ > pid; sleep 60 & wait")
    pid = pid_in(il.directory / "pid")
    item = items(il)[0]["id"]
    il.ok("cancel", item, "--reason", "not now")
    assert ended(process).code == 130
    assert dead(pid)
    assert (il.directory / "asked").exists()
    assert items(il)[0]["status"] == "cancelled"


def test_a_command_whose_time_is_up_is_ended(il: Command):
    answer = il("hold", LANE, "--timeout", "1", "--lease", "4", "--", "sleep", "60")
    assert answer.code == 124
    assert items(il)[0]["status"] == "cancelled"


def test_a_refusal_says_that_waiting_may_overtake_what_has_not_started(il: Command) -> None:
    il.ok("add", "some work", "--lane", LANE, "--agent", "nobody-yet")
    refused = il("hold", LANE, "--if-held", "fail", "--", "true")
    assert refused.code == 4
    assert refused.err.endswith(
        f"interlock hold {LANE} --if-held wait -- … waits for it, or overtakes item 1 where it may.\n"
    )
    assert il("hold", LANE, "--", "true").code == 0, "and so it does"

"""`plan`: made from a file, drawn, watched, edited while it runs, and ended."""

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from interlock.core.record import Record
from interlock.service import plan_view
from tests.acceptance.command import Command, CommandHere, interrupt
from tests.acceptance.test_human_output import on_terminal
from tests.patience import PATIENCE_S

RELEASE = """
name: release
tasks:
  - {key: build, title: Build the app, agent: coder}
  - {key: test, payload: {suite: all}}
  - {key: ship, priority: 5}
  - {key: mend}
edges:
  - {from: build, to: test}
  - {from: test, to: ship}
  - {from: test, to: mend, when: failure}
"""
REMOVE_MEND = '{"operations": [{"op": "remove_task", "key": "mend"}]}'


def keys(view: type[Record]) -> set[str]:
    return set(view.PARTS)


@pytest.fixture
def here(tmp_path: Path) -> Command:
    """The command on SQLite in this process: for tests that ask many things."""
    return CommandHere(tmp_path)


@pytest.fixture(params=["sqlite", "postgres"])
def any_here(request: pytest.FixtureRequest, tmp_path: Path) -> Command:
    """The same on either store."""
    return CommandHere(
        tmp_path, url=request.getfixturevalue("pg_database18") if request.param == "postgres" else None
    )


def create(il: Command, text: str = RELEASE, *, editor: str = "") -> dict[str, Any]:
    for agent in filter(None, ("coder", editor)):
        il.ok("agents", "set", agent)
    made: dict[str, Any] = il.ok(
        "plan", "create", "-", stdin=(f"editor: {editor}\n" if editor else "") + text
    )
    return made


def refused(il: Command, *args: str | int, stdin: str = "") -> tuple[int, str, list[str]]:
    """Exit code, error code and reasons of a command that must fail."""
    answer = il("--json", *args, stdin=stdin)
    error = answer.json["error"]
    assert error["message"].endswith((".", ")"))
    assert error["hint"]
    return answer.code, error["code"], error.get("reasons", [])


def statuses(il: Command, plan: int) -> dict[str, str]:
    return {task["key"]: task["status"] for task in il.ok("plan", "show", plan)["tasks"]}


class TestCreate:
    def test_a_plan_answers_with_its_id_and_revision_and_its_tasks_can_be_claimed(self, any_here: Command):
        made = create(any_here)
        assert set(made) == keys(plan_view.PlanView)
        assert (made["id"], made["revision"], made["status"]) == (1, 1, "running")
        assert {frozenset(task) for task in made["tasks"]} == {frozenset(keys(plan_view.TaskView))}
        assert {frozenset(edge) for edge in made["edges"]} == {frozenset(keys(plan_view.EdgeView))}
        for key in ("build", "test", "ship"):
            lease = any_here.claim()
            assert lease["item"]["title"] in (key, "Build the app")
            any_here.ok("done", lease["run"])
        assert any_here("next", "--agent", "coder").code == 3
        shown = any_here.ok("plan", "show", 1)
        assert shown["status"] == "completed"
        assert statuses(any_here, 1)["mend"] == "cancelled"

    @pytest.mark.parametrize("suffix", ["yaml", "toml", "json"])
    def test_a_file_may_have_any_of_three_formats(self, here: Command, suffix: str):
        texts = {
            "yaml": "name: x\ntasks: [{key: a}]",
            "toml": 'name = "x"\n[[tasks]]\nkey = "a"',
            "json": '{"name": "x", "tasks": [{"key": "a"}]}',
        }
        (here.directory / f"p.{suffix}").write_text(texts[suffix])
        assert here.ok("plan", "create", f"p.{suffix}")["name"] == "x"

    def test_every_mistake_is_listed_and_nothing_is_made(self, here: Command):
        text = "name: x\ntasks:\n- {key: a, colour: red}\n- {key: a}\nedges:\n- {from: a, to: b}\n"
        code, error, reasons = refused(here, "plan", "create", "-", stdin=text)
        assert (code, error) == (2, "invalid_plan")
        assert [reason.split(":")[0] for reason in reasons] == [
            "tasks[0] (line 3)",
            "tasks[1] (line 4)",
            "edges[0] (line 6)",
        ]
        said = here("plan", "create", "-", stdin=text)
        assert said.err.splitlines()[0] == "The plan has 3 mistakes."
        assert said.err.splitlines()[-1] == "Nothing was changed."
        assert all(f"- {reason}" in said.err.splitlines() for reason in reasons)
        assert here.ok("plan", "ls", "--all") == {"plans": []}
        assert here.ok("ls", "--all") == {"items": []}

    def test_agents_and_editor_must_be_known(self, here: Command):
        code, _, reasons = refused(here, "plan", "create", "-", stdin=RELEASE)
        assert code in (1, 2)
        assert any("coder" in reason for reason in reasons)
        assert here("plan", "create", "-", stdin="name: x\neditor: planner\ntasks: [{key: a}]").code != 0
        assert here.ok("plan", "ls", "--all") == {"plans": []}

    def test_a_file_that_is_not_there(self, here: Command):
        assert refused(here, "plan", "create", "no.yaml")[0] == 2


class TestLook:
    def test_people_see_the_status_of_each_task_and_what_it_waits_for(self, here: Command):
        create(here)
        said = here("plan", "show", 1).out
        assert "Plan 1  running  release  revision 1" in said
        assert re.search(r"○ +mend +\d+ +waiting +anyone +after test \(on failure\)", said)
        assert re.search(r"◎ +build +\d+ +pending +coder +Build the app", said)
        listed = here("plan").out
        assert re.search(r"1 +running +release", listed)

    def test_a_task_that_waits_for_no_other_task_says_what_for(self, here: Command):
        create(
            here,
            "name: x\ntasks: [{key: a, lane: l}, {key: b, lane: l}, {key: c}, {key: d, max_attempts: 1}]",
        )
        held = here.claim()
        here.ok("fail", here.claim()["run"], "--error", "not today")
        here.ok("fail", here.claim()["run"], "--error", "never", "--no-retry")
        said = here("plan", "show", 1).out
        assert re.search(r"b +\d+ +deferred +anyone +lane l", said)
        assert re.search(r"c +\d+ +waiting +anyone +back-off after attempt 1", said)
        assert re.search(r"d +\d+ +failed +anyone +no_retry", said)
        assert "plan     a task of plan 1" in here("show", held["run"]).out

    def test_an_edge_that_a_cancellation_satisfies_says_so(self, here: Command):
        edges = "[{from: a, to: b, on_cancel: satisfy}, {from: a, to: c, when: failure, on_cancel: satisfy}]"
        create(here, f"name: x\ntasks: [{{key: a}}, {{key: b}}, {{key: c}}]\nedges: {edges}")
        said = here("plan", "show", 1).out
        assert re.search(r"b +\d+ +waiting +anyone +after a \(or cancelled\)", said)
        assert re.search(r"c +\d+ +waiting +anyone +after a \(on failure, or cancelled\)", said)

    def test_the_graph_in_three_formats(self, here: Command):
        create(here)
        drawn = here("plan", "graph", 1).out
        assert "│ ◎ build  Build the app ├──▶" in drawn
        assert here("plan", "graph", 1, "--format", "mermaid").out.startswith("flowchart LR\n")
        picture = here("plan", "graph", 1, "--format", "svg").out
        assert ElementTree.fromstring(picture).tag == "{http://www.w3.org/2000/svg}svg"
        answer = here.ok("plan", "graph", 1, "--format", "text")
        assert (answer["plan"], answer["revision"], answer["graph"]) == (1, 1, drawn)
        assert refused(here, "plan", "graph", 1, "--format", "png")[0] == 2

    def test_a_terminal_gets_colours_and_what_fits(self, here: Command):
        create(here)
        seen = on_terminal(here, "plan", "graph", "1", columns=40)
        plain = re.sub(r"\x1b\[[0-9;]*m", "", seen)
        assert plain != seen
        assert max(map(len, plain.splitlines())) <= 40
        assert "ship" in plain

    def test_an_earlier_revision_is_drawn_and_compared(self, here: Command):
        create(here)
        here.ok("plan", "edit", 1, "--base", 1, "-", stdin=REMOVE_MEND)
        assert "mend" not in here("plan", "graph", 1).out
        assert "mend" in here("plan", "graph", 1, "--revision", 1).out
        found = here.ok("plan", "diff", 1, 1, 2)
        assert [(d["what"], d["name"], d["change"]) for d in found["differences"]] == [
            ("task", "mend", "removed"),
            ("edge", ["test", "mend"], "removed"),
        ]
        assert here("plan", "diff", 1, 2, 1).out.splitlines()[0] == "+ task mend"
        assert here("plan", "diff", 1, 1, 1).out == "The two revisions are the same.\n"
        assert here("plan", "diff", 1, 1, 9).code != 0

    def test_the_history_says_who_did_what_and_why(self, here: Command):
        create(here)
        edit = {"operations": [{"op": "update_task", "key": "ship", "priority": 9}]}
        here.ok("plan", "edit", 1, "--base", 1, "--reason", "it is urgent", "-", stdin=json.dumps(edit))
        first, second = here.ok("plan", "history", 1)["revisions"]
        assert set(first) == keys(plan_view.RevisionView)
        assert (second["revision"], second["base"], second["by"], second["why"]) == (
            2,
            1,
            "alice",
            "it is urgent",
        )
        said = here("plan", "history", 1).out
        assert "update_task ship  priority: 5 → 9" in said

    def test_payloads_are_objects_in_every_answer(self, here: Command):
        create(here)
        edit = {"operations": [{"op": "update_task", "key": "test", "payload": {"suite": "fast"}}]}
        here.ok("plan", "edit", 1, "--base", 1, "-", stdin=json.dumps(edit))
        (change,) = here.ok("plan", "history", 1, "--after", 1)["revisions"][0]["operations"]
        (difference,) = here.ok("plan", "diff", 1, 1, 2)["differences"]
        for told in (change, difference):
            assert (told["before"], told["after"]) == (
                {"payload": {"suite": "all"}},
                {"payload": {"suite": "fast"}},
            )
        said = '~ task test  payload: {"suite": "all"} → {"suite": "fast"}'
        assert here("plan", "diff", 1, 1, 2).out.splitlines() == [said]

    def test_figures_of_edits_and_of_the_graph(self, any_here: Command):
        create(any_here)
        any_here.ok("done", any_here.claim()["run"])
        figures = any_here.ok("plan", "stats", 1)
        assert set(figures) == keys(plan_view.PlanStatsView)
        assert (figures["critical_path"], figures["depth"], figures["edits_total"]) == (["build"], 3, 0)
        assert figures["total_work_s"] == figures["critical_path_s"] > 0
        assert "critical path" in any_here("plan", "stats", 1).out

    @pytest.mark.parametrize("command", ["show", "graph", "stats", "history", "watch"])
    def test_a_plan_that_is_not_there(self, here: Command, command: str):
        create(here)
        assert refused(here, "plan", command, 7)[:2] == (1, "not_found")
        assert refused(here, "plan", command, "x")[0] == 2


class TestEdit:
    def test_an_operator_edits_while_nobody_else_does(self, any_here: Command):
        create(any_here)
        answer = any_here.ok("plan", "edit", 1, "--base", 1, "-", stdin=REMOVE_MEND)
        assert set(answer) == keys(plan_view.EditView)
        assert (answer["revision"], answer["removed"]) == (2, ["mend"])

    def test_a_graph_as_it_is_written_down_changes_nothing_when_it_is_sent_back(self, here: Command):
        create(here)
        text = here("plan", "graph", 1, "--format", "json").out
        answer = here.ok("plan", "edit", 1, "--base", 1, "-", stdin=text)
        assert (answer["revision"], answer["added"], answer["removed"], answer["updated"]) == (1, [], [], [])
        assert here.ok("plan", "graph", 1, "--format", "json")["graph"] == json.loads(text)["graph"]

    def test_a_whole_graph_is_compared_with_its_base(self, here: Command):
        create(here)
        graph = {
            "graph": {
                "tasks": [{"key": "build", "title": "Build the app", "agent": "coder"}, {"key": "sign"}],
                "edges": [{"from": "build", "to": "sign"}],
            }
        }
        answer = here.ok("plan", "edit", 1, "--base", 1, "-", stdin=json.dumps(graph))
        assert (answer["added"], sorted(answer["removed"])) == (["sign"], ["mend", "ship", "test"])

    def test_a_stale_base_is_6_and_says_what_changed(self, any_here: Command):
        create(any_here)
        any_here.ok("plan", "edit", 1, "--base", 1, "-", stdin=REMOVE_MEND)
        edit = '{"operations": [{"op": "update_task", "key": "mend", "priority": 1}]}'
        code, error, reasons = refused(any_here, "plan", "edit", 1, "--base", 1, "-", stdin=edit)
        assert (code, error) == (6, "stale_revision")
        assert any("mend" in reason and "alice" in reason for reason in reasons)
        rebased = any_here.ok(
            "plan", "edit", 1, "--base", 1, "-", stdin='{"operations": [{"op": "add_task", "key": "z"}]}'
        )
        assert (rebased["revision"], rebased["rebased"]) == (3, True)

    def test_a_refused_edit_lists_every_reason_and_changes_nothing(self, here: Command):
        create(here)
        here.claim()
        edit = {
            "operations": [
                {"op": "remove_task", "key": "build"},
                {"op": "add_task", "key": "z", "agent": "nobody"},
                {"op": "add_edge", "from": "ship", "to": "test"},
            ]
        }
        code, error, reasons = refused(here, "plan", "edit", 1, "--base", 1, "-", stdin=json.dumps(edit))
        assert (code, error, len(reasons)) == (1, "edit_refused", 3)
        assert here.ok("plan", "show", 1)["revision"] == 1

    def test_the_editor_is_told_the_ends_and_answers_under_its_run(self, any_here: Command):
        create(any_here, editor="planner")
        any_here.ok("done", any_here.claim()["run"], "--result", '{"ok": true}')
        assert any_here("next", "--agent", "coder").code == 3
        code, _, _ = refused(any_here, "plan", "edit", 1, "--base", 1, "-", stdin=REMOVE_MEND)
        assert code == 4  # while the editor owes an edit nobody else edits
        lease = any_here.claim("planner")
        assert lease["item"]["type"] == "plan.edit"
        batch = any_here.ok("plan", "batch", lease["run"])
        assert set(batch) == keys(plan_view.BatchView)
        assert [(c["key"], c["status"], c["result"]) for c in batch["completions"]] == [
            ("build", "completed", {"ok": True})
        ]
        answer = any_here.ok(
            *("plan", "edit", 1, "--base", batch["revision"], "--run", lease["run"]),
            *("--through", batch["through"], "-"),
            stdin=REMOVE_MEND,
        )
        assert (answer["revision"], answer["editing"]) == (2, False)
        made = any_here.ok("plan", "history", 1)["revisions"][-1]
        assert (made["by"], made["run"]) == ("planner", lease["fence"])
        assert any_here.claim()["item"]["title"] == "test"

    def test_what_an_editor_is_told_to_type_is_enough(self, here: Command):
        create(here, editor="planner")
        here.ok("done", here.claim()["run"])
        claimed = here("next", "--agent", "planner").out
        (run,) = re.findall(r"hint +interlock plan batch (\S+)", claimed)
        (answer,) = re.findall(r"Answer: interlock (.+) FILE", here("plan", "batch", run).out)
        here.ok(*answer.split(), "-", stdin=REMOVE_MEND)
        assert here.ok("plan", "show", 1)["cycle"] is None

    def test_an_edit_of_a_run_that_is_over_is_5(self, any_here: Command):
        create(any_here, editor="planner")
        any_here.ok("done", any_here.claim()["run"])
        run = any_here.claim("planner")["run"]
        any_here.ok("done", run)
        code, _, _ = refused(any_here, "plan", "edit", 1, "--base", 1, "--run", run, "-", stdin=REMOVE_MEND)
        assert code == 5
        assert any_here.ok("plan", "show", 1)["revision"] == 1

    def test_under_a_worker_the_run_is_known(self, here: Command):
        create(here, editor="planner")
        first = here.claim()["run"]
        as_task = here(
            "plan", "edit", "1", "--base", "1", "-", stdin=REMOVE_MEND, env={"INTERLOCK_RUN": first}
        )
        assert as_task.code == 0  # a task edits as an operator
        here.ok("done", first)
        run = here.claim("planner")["run"]
        assert "1  build" in here("plan", "batch", env={"INTERLOCK_RUN": run}).out
        edited = here(
            *("plan", "edit", "1", "--base", "2", "-"),
            stdin='{"operations": []}',
            env={"INTERLOCK_RUN": run},
        )
        assert edited.code == 0
        assert here.ok("plan", "show", 1)["cycle"] is None
        assert refused(here, "plan", "batch")[0] == 2


class TestOperate:
    def test_a_paused_plan_starts_nothing_until_it_is_resumed(self, any_here: Command):
        create(any_here)
        paused = any_here.ok("plan", "pause", 1, "--why", "freeze")
        assert (paused["paused"], paused["paused_reason"]) == (True, "freeze")
        assert any_here("next", "--agent", "coder").code == 3
        any_here.ok("plan", "resume", 1)
        assert any_here.claim()["item"]["plan"] == 1

    def test_a_plan_that_is_paused_while_it_is_edited_says_both(self, here: Command):
        create(here, editor="planner")
        here.ok("done", here.claim()["run"])
        here.ok("plan", "pause", 1, "--reason", "freeze")
        assert "now      paused: freeze; waits for an edit by planner" in here("plan", "show", 1).out
        assert "paused, editing" in here("plan", "ls").out
        assert "no longer paused, and waits for an edit by planner" in here("plan", "resume", 1).out

    def test_a_cancelled_plan_ends_and_is_listed_with_all(self, any_here: Command):
        create(any_here)
        assert any_here.ok("plan", "cancel", 1, "--reason", "enough")["status"] == "cancelled"
        assert any_here.ok("plan", "ls") == {"plans": []}
        (listed,) = any_here.ok("plan", "ls", "--all")["plans"]
        assert set(listed) == keys(plan_view.PlanSummary)
        assert any_here("plan", "cancel", 1).code == 2  # a reason is needed


class TestWatch:
    def test_in_a_pipe_each_change_is_a_line_until_the_plan_ends(self, il: Command):
        create(il, "name: x\ntasks: [{key: a}, {key: b}]\nedges: [{from: a, to: b}]")
        watching = il.start("plan", "watch", "1", "--every", "0.1")
        assert watching.stdout is not None
        seen = [watching.stdout.readline().decode().strip() for _ in range(3)]
        assert seen == ["plan 1 x: revision 1, 2 tasks", "◎ a pending", "○ b waiting"]
        here = CommandHere(il.directory)
        here.ok("plan", "pause", 1, "--reason", "lunch")
        assert watching.stdout.readline().decode().strip() == "plan 1 paused: lunch"
        here.ok("plan", "resume", 1)
        assert watching.stdout.readline().decode().strip() == "plan 1 resumed"
        for _ in range(2):
            here.ok("done", here.claim()["run"])
        rest = watching.communicate(timeout=PATIENCE_S)[0].decode().splitlines()
        assert watching.returncode == 0
        assert rest[-1] == "plan 1 completed"
        assert "✓ b completed" in rest

    def test_as_json_and_with_the_exit_code_of_a_failure(self, here: Command):
        create(here)
        here.ok("plan", "cancel", 1, "--reason", "enough")
        answer = here("--json", "plan", "watch", 1)
        assert (answer.code, answer.json["status"]) == (1, "cancelled")

    def test_a_terminal_shows_the_graph_and_the_last_frame_stays(self, here: Command):
        create(here)
        here.ok("plan", "cancel", 1, "--reason", "enough")
        seen = on_terminal(here, "plan", "watch", "1", columns=120)
        assert "⊘ ship" in seen

    def test_ctrl_c_ends_it(self, il: Command):
        create(il)
        watching = il.start("plan", "watch", "1")
        assert watching.stdout is not None
        watching.stdout.readline()
        assert interrupt(watching).code == 130


def test_the_deadline_of_edits_can_be_set_while_a_cycle_is_open(any_il: Command):
    any_il.ok("agents", "set", "planner")
    any_il.ok(
        "plan",
        "create",
        "-",
        stdin='{"name": "p", "editor": "planner", "tasks": [{"key": "a"}, {"key": "b"}]}',
    )
    (number,) = [p["id"] for p in any_il.ok("plan")["plans"]]
    assert any_il.ok("plan", "set-deadline", number, "20m")["edit_deadline_s"] == 1200.0
    any_il.ok("done", any_il.claim()["run"])
    said = any_il("plan", "set-deadline", str(number), "1h").out
    assert said.startswith(f"Plan {number}: planner has 1 h for an edit.\n  The open cycle ends ")
    assert "60 min" in said or "1 h" in said.splitlines()[1]
    stats = any_il.ok("plan", "stats", number)
    assert (stats["completions_registered"], stats["completions_answered"]) == (1, 0)
    assert any_il("plan", "set-deadline", str(number), "soon", "--json").error["code"] == "invalid_input"
    assert any_il("plan", "set-deadline", str(number), "0", "--json").error["code"] == "invalid_input"
    assert any_il("plan", "set-deadline", "99", "1h", "--json").error["code"] == "not_found"

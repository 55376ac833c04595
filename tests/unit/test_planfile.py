"""Plans and edits as people write them: three formats, and every mistake listed with its place."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from interlock.core.errors import InvalidInput, InvalidPlan, TooLarge
from interlock.core.model import RetryLane
from interlock.core.plans.model import (
    AddEdge,
    AddTask,
    EdgeSpec,
    Graph,
    OnCancel,
    RemoveEdge,
    RemoveTask,
    TaskSpec,
    UpdateEdge,
    UpdateTask,
    When,
)
from interlock.plans import markup
from interlock.plans.planfile import NewPlan, edit_of, graph_document, plan_of, read_edit, read_plan
from interlock.settings import TypeDefaults

YAML = """
# a plan
name: release
editor: planner
edit_deadline_s: 5m
tasks:
  - key: build
    title: Build the app
    agent: coder
    labels: [linux]
    payload: {ref: main}
  - {key: test, type: check, priority: 5, lane: "branch:main", lease_s: 90, timeout_s: 2h,
     max_attempts: 1, retry_lane: keep}
edges:
  - {from: build, to: test, when: completion, on_cancel: satisfy}
"""
TOML = """
name = "release"
editor = "planner"
edit_deadline_s = 300
[[tasks]]
key = "build"
title = "Build the app"
agent = "coder"
labels = ["linux"]
payload = { ref = "main" }
[[tasks]]
key = "test"
type = "check"
priority = 5
lane = "branch:main"
lease_s = "90s"
timeout_s = 7200
max_attempts = 1
retry_lane = "keep"
[[edges]]
from = "build"
to = "test"
when = "completion"
on_cancel = "satisfy"
"""
JSON = json.dumps(
    {
        "name": "release",
        "editor": "planner",
        "edit_deadline_s": 300,
        "tasks": [
            {
                "key": "build",
                "title": "Build the app",
                "agent": "coder",
                "labels": ["linux"],
                "payload": {"ref": "main"},
            },
            {
                "key": "test",
                "type": "check",
                "priority": 5,
                "lane": "branch:main",
                "lease_s": 90,
                "timeout_s": 7200,
                "max_attempts": 1,
                "retry_lane": "keep",
            },
        ],
        "edges": [{"from": "build", "to": "test", "when": "completion", "on_cancel": "satisfy"}],
    }
)
RELEASE = NewPlan(
    name="release",
    editor="planner",
    edit_deadline_s=300.0,
    graph=Graph(
        tasks=(
            TaskSpec(
                key="build",
                title="Build the app",
                agent="coder",
                labels=("linux",),
                payload='{"ref": "main"}',
            ),
            TaskSpec(
                key="test",
                type="check",
                priority=5,
                lane="branch:main",
                lease_s=90.0,
                timeout_s=7200.0,
                max_attempts=1,
                retry_lane=RetryLane.KEEP,
            ),
        ),
        edges=(EdgeSpec(source="build", target="test", when=When.COMPLETION, on_cancel=OnCancel.SATISFY),),
    ),
)


def mistakes(plan: object) -> tuple[str, ...]:
    with pytest.raises(InvalidPlan) as caught:
        read_plan(plan) if isinstance(plan, str) else plan_of(plan)
    assert caught.value.hint == "Nothing was changed."
    return caught.value.reasons


class TestFormats:
    @pytest.mark.parametrize(("text", "suffix"), [(YAML, "yaml"), (TOML, "toml"), (JSON, "json")])
    def test_all_three_say_the_same_with_and_without_a_suffix(self, text: str, suffix: str) -> None:
        assert read_plan(text, name=f"plan.{suffix}") == RELEASE
        assert read_plan(text) == RELEASE

    @pytest.mark.parametrize(
        "text", ["{name: x, tasks: []}", '{"name": "x", "tasks": []}', "name: x\ntasks: []"]
    )
    def test_braces_may_be_json_or_yaml(self, text: str) -> None:
        assert read_plan(text).name == "x"

    def test_texts_that_look_like_other_things_stay_texts_in_yaml(self) -> None:
        task = read_plan("name: 2027-01-31\ntasks: [{key: a, title: 12:30, payload: {no: 010}}]").graph.tasks[
            0
        ]
        assert (task.title, task.payload) == ("12:30", '{"no": "010"}')

    def test_an_anchor_saves_typing(self) -> None:
        text = "name: x\ntasks:\n- {key: a, payload: &p {n: 1}}\n- {key: b, payload: *p}"
        assert [t.payload for t in read_plan(text).graph.tasks] == ['{"n": 1}', '{"n": 1}']

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ('{"name": "x",}', "is not valid JSON: Expecting property name"),
            ('{"name": NaN}', "NaN is not a finite number"),
            ('{"name": 1e999}', "1e999 is not a finite number"),
            ("name: 1.0e+999", "1.0e+999 is not a finite number"),
            ("name = -inf", "-inf is not a finite number"),
            ("name: [", "is not valid YAML"),
            ("name: x\n---\nname: y", "line 2: there is a second document"),
            ("name: *x", "line 1: there is no anchor 'x' before it"),
            ("name: !!python/name:os.system x", "has no meaning here"),
            ("? [a]\n: b", "line 1: a key is not a string"),
            ('name = "x"\nname = "y"', "is not valid TOML: Cannot overwrite a value"),
        ],
    )
    def test_what_cannot_be_read_is_refused_in_one_sentence(self, text: str, said: str) -> None:
        with pytest.raises(InvalidInput, match="The plan is not valid") as caught:
            read_plan(text)
        assert said in caught.value.sentence

    @pytest.mark.parametrize(
        ("text", "name"),
        [
            ("[" * 100_000, "x.yaml"),
            ("{a: " * 9_000, "-"),
            ("[" * 100_000, "x.json"),
            ("a = " + "[" * 9_000, "-"),
        ],
    )
    def test_endless_nesting_is_refused(self, text: str, name: str) -> None:
        with pytest.raises(InvalidInput, match="nested"):
            read_plan(text, name=name)

    def test_a_few_lines_that_stand_for_billions_of_values_are_refused(self) -> None:
        rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
        rows += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
        with pytest.raises(InvalidInput, match="more than 2,000,000 values"):
            read_plan("\n".join(rows))

    def test_a_document_has_a_largest_size(self) -> None:
        with pytest.raises(TooLarge):
            read_plan("#" * (markup.DOCUMENT_MAX_BYTES + 1))

    @pytest.mark.parametrize("text", ["", "  \n", "# nothing\n"])
    def test_an_empty_one_is_refused(self, text: str) -> None:
        with pytest.raises(InvalidInput):
            read_plan(text)


class TestMistakes:
    def test_all_of_them_are_listed_each_with_its_line(self) -> None:
        found = mistakes(
            "nmae: x\n"
            "tasks:\n"
            "- {key: a, titel: A}\n"
            "- {key: a}\n"
            "- {title: no key}\n"
            "- key: b\n"
            "  key: c\n"
            "- {key: 5, priority: high}\n"
            "edges:\n"
            "- {from: a, to: a}\n"
            "- {from: a, to: z, when: sometimes}\n"
            "- {from: a}\n"
        )
        assert [text.split(": ")[0] for text in found] == [
            "line 1",
            "tasks[0] (line 3)",
            "tasks[1] (line 4)",
            "tasks[2] (line 5)",
            "tasks[3] (line 7)",
            "tasks[4].priority (line 8)",
            "tasks[4].key (line 8)",
            "edges[0] (line 10)",
            "edges[1].when (line 11)",
            "edges[1] (line 11)",
            "edges[2] (line 12)",
            "The plan has no name.",
        ]
        assert "Unknown key 'nmae'. Use one of name, editor," in found[0]
        assert found[2].endswith("There is already a task a.")
        assert found[3].endswith("There is no 'key'.")
        assert found[4].endswith("The key 'key' comes twice.")
        assert found[5].endswith("`priority` 'high' is not a whole number. Use digits, as in 3.")
        assert found[6].endswith("5 is not a string. Put it in quotes.")
        assert found[7].endswith("Task a cannot depend on itself.")
        assert found[9].endswith("The edge a → z names task z, which is not in the graph.")

    def test_json_has_places_without_lines(self) -> None:
        found = mistakes('{"name": "x", "tasks": [{"key": "a", "key": "b"}, 7], "edges": {}}')
        assert found == (
            "tasks[0]: The key 'key' comes twice.",
            "tasks[1]: The task is not an object with keys and values.",
            "edges: This is not a list. Write each edge as `- {from: build, to: test}`.",
        )

    def test_a_key_that_comes_twice_in_a_payload_is_a_mistake_however_deep(self) -> None:
        text = "name: x\ntasks:\n- key: a\n  payload: {b: [{c: 1,\n    c: 2}], d: 1, d: 1}\n"
        assert sorted(mistakes(text)) == [
            "tasks[0] (line 5): The key 'c' comes twice in the payload.",
            "tasks[0] (line 5): The key 'd' comes twice in the payload.",
        ]
        found = mistakes('{"name": "x", "tasks": [{"key": "a", "payload": {"b": {"c": 1, "c": 1}}}]}')
        assert found == ("tasks[0]: The key 'c' comes twice in the payload.",)
        written = mistakes({"name": "x", "tasks": [{"key": "a", "payload": '{"c": 1, "c": 1}'}]})
        assert "the key 'c' is duplicated" in written[0]

    def test_tasks_that_wait_for_each_other_are_named_in_their_order(self) -> None:
        plan = {
            "name": "x",
            "tasks": [{"key": k} for k in "abcd"],
            "edges": [{"from": a, "to": b} for a, b in ("ab", "bc", "ca", "cd")],
        }
        assert mistakes(plan) == ("edges: The edges would close a cycle: a → b → c → a.",)

    def test_one_task_or_one_edge_too_many(self) -> None:
        tasks = [{"key": f"t{n}"} for n in range(10_001)]
        assert mistakes({"name": "x", "tasks": tasks}) == (
            "The plan would have 10,001 tasks. Use at most 10,000.",
        )
        assert len(plan_of({"name": "x", "tasks": tasks[1:]}).graph.tasks) == 10_000
        edges = [{"from": "t1", "to": "t2"}] * 100_001
        found = mistakes({"name": "x", "tasks": tasks[:5], "edges": edges})
        assert found == ("The plan would have 100,001 edges. Use at most 100,000.",)

    def test_the_same_edge_twice(self) -> None:
        plan = {"name": "x", "tasks": [{"key": "a"}, {"key": "b"}], "edges": [{"from": "a", "to": "b"}] * 2}
        assert mistakes(plan) == ("edges[1]: There is already an edge a → b.",)

    @pytest.mark.parametrize("plan", [[], "text", 5, None])
    def test_something_else_than_a_plan(self, plan: object) -> None:
        with pytest.raises(InvalidPlan) as caught:
            plan_of(plan)
        assert caught.value.reasons == ("The plan is not an object with keys and values.",)

    def test_a_traceback_tells_them_too(self) -> None:
        with pytest.raises(InvalidPlan) as caught:
            plan_of({"name": "x", "tasks": [{"key": "a", "colour": "red"}], "edges": [{"from": "a"}]})
        lines = str(caught.value).splitlines()
        assert lines[0] == "The plan has 2 mistakes."
        assert [line.split(":")[0] for line in lines[1:-1]] == ["- tasks[0]", "- edges[0]"]
        assert lines[-1] == "Nothing was changed."

    def test_an_entry_that_is_not_an_object_is_one_mistake(self) -> None:
        assert mistakes("{name: x, tasks: [a, {key: b}], edges: [[a, b]]}") == (
            "tasks[0]: The task is not an object with keys and values.",
            "edges[0]: The edge is not an object with keys and values.",
        )

    def test_values_are_called_by_their_names_and_too_many_digits_are_a_range(self) -> None:
        task = "{key: a, lease_s: soon, timeout_s: later, priority: 99999999999999999999}"
        assert [text.split(": ")[1] for text in mistakes(f"{{name: x, tasks: [{task}]}}")] == [
            "`lease` 'soon' is not a duration. Use seconds, or 90s, 5m, 2h, 1d.",
            "`timeout` 'later' is not a duration. Use seconds, or 90s, 5m, 2h, 1d.",
            "`priority` is out of range. Use at most 18 digits.",
        ]

    def test_a_type_brings_its_defaults(self) -> None:
        types = {"check": TypeDefaults(lease_s=120.0, max_attempts=1, policy="latest", priority=3)}
        plan = {"name": "x", "tasks": [{"key": "a", "type": "check", "priority": 9}]}
        assert plan_of(plan, types=types).graph.tasks == (
            TaskSpec(key="a", type="check", priority=9, lease_s=120.0, max_attempts=1),
        )


class TestEdits:
    def test_all_six_operations(self) -> None:
        edit = edit_of(
            {
                "operations": [
                    {"op": "add_task", "key": "c", "title": "C", "agent": "coder"},
                    {"op": "remove_task", "key": "b"},
                    {"op": "update_task", "key": "a", "priority": 4, "agent": None},
                    {"op": "add_edge", "from": "a", "to": "c", "when": "failure"},
                    {"op": "remove_edge", "from": "a", "to": "b"},
                    {"op": "update_edge", "from": "a", "to": "d", "on_cancel": "satisfy"},
                ]
            }
        )
        assert edit.graph is None
        assert edit.operations == (
            AddTask(task=TaskSpec(key="c", title="C", agent="coder")),
            RemoveTask(key="b"),
            UpdateTask(key="a", changes={"priority": 4, "agent": ""}),
            AddEdge(edge=EdgeSpec(source="a", target="c", when=When.FAILURE)),
            RemoveEdge(source="a", target="b"),
            UpdateEdge(source="a", target="d", on_cancel=OnCancel.SATISFY),
        )

    def test_no_operations_mean_no_change(self) -> None:
        assert edit_of({"operations": []}).operations == ()

    def test_a_whole_graph(self) -> None:
        edit = read_edit("graph:\n  tasks: [{key: a}, {key: b}]\n  edges: [{from: a, to: b}]")
        assert edit.operations is None
        assert edit.graph == Graph(
            tasks=(TaskSpec(key="a"), TaskSpec(key="b")), edges=(EdgeSpec(source="a", target="b"),)
        )

    def test_mistakes_in_operations_are_all_listed(self) -> None:
        with pytest.raises(InvalidPlan) as caught:
            edit_of(
                {
                    "operations": [
                        {"op": "rename_task", "key": "a"},
                        "remove everything",
                        {"op": "remove_task", "key": "a", "why": "old"},
                        {"op": "update_task", "key": "a", "lane": "x"},
                        {"op": "add_edge", "from": "a", "to": "a"},
                        {"op": "remove_edge", "from": "a"},
                    ]
                }
            )
        assert [text.split(". ")[0] for text in caught.value.reasons] == [
            "operations[0]: Unknown operation 'rename_task'",
            "operations[1]: The operation is not an object with keys and values.",
            "operations[2]: Unknown key 'why'",
            "operations[3]: The lane of task a cannot change: remove the task and add another.",
            "operations[4]: Task a cannot depend on itself.",
            "operations[5]: There is no 'to'.",
        ]

    @pytest.mark.parametrize("edit", [{}, {"operations": [], "graph": {}}, {"tasks": []}, {"operations": {}}])
    def test_an_edit_is_either_operations_or_a_graph(self, edit: object) -> None:
        with pytest.raises(InvalidPlan):
            edit_of(edit)


class TestWriting:
    def test_what_is_written_reads_back_as_the_same_graph(self) -> None:
        graph = Graph(
            tasks=(
                TaskSpec(key="a", title="First", agent="coder", labels=("gpu",), payload='{"n": 1}'),
                TaskSpec(key="b", title="b", lane="issue:acme/app#1", lease_s=90.0, timeout_s=600.0),
                TaskSpec(key="c", title="c", type="build", priority=-2, max_attempts=1, no_lane=True),
                TaskSpec(key="d", title="d", lane="x", retry_lane=RetryLane.KEEP),
            ),
            edges=(
                EdgeSpec(source="a", target="b"),
                EdgeSpec(source="a", target="c", when=When.FAILURE, on_cancel=OnCancel.SATISFY),
            ),
        )
        document = graph_document(graph)
        assert document["tasks"][1] == {
            "key": "b",
            "lane": "issue:acme/app#1",
            "lease_s": 90.0,
            "timeout_s": 600.0,
        }
        assert document["edges"][0] == {"from": "a", "to": "b"}
        read = edit_of({"graph": json.loads(json.dumps(document))}).graph
        assert read is not None
        titled = tuple(replace(task, title=task.title or task.key) for task in read.tasks)
        assert replace(read, tasks=titled) == graph

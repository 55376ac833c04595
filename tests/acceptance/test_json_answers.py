"""`--json`: every command's answer has the shape the documentation promises, on both stores."""

from typing import Any

from interlock.core.record import Record
from interlock.service import contract
from interlock.service.item_view import ItemView
from interlock.store.migrate import migrations
from tests.acceptance.command import Command


def keys(view: Any) -> set[str]:
    """The fields of an answer, a record or a named tuple."""
    return set(view.PARTS if issubclass(view, Record) else view._fields)


ITEM = set(ItemView.FIELDS)


def test_add_answers_decision_reason_item_holder_and_position(any_il: Command):
    first = any_il.ok("add", "Fix it", "--lane", "issue:acme/app#1")
    assert set(first) == keys(contract.AddView)
    assert set(first["item"]) == ITEM
    assert (first["decision"], first["reason"], first["holder"]) == ("admitted", "lane_free", None)
    lease = any_il.claim()
    second = any_il.ok("add", "Fix it too", "--lane", "issue:acme/app#1")
    assert (second["decision"], second["item"]["status"], second["position"]) == ("queued", "deferred", 1)
    assert set(second["holder"]) == keys(contract.HolderView)
    assert {"run", "agent", "since", "expires_at"} <= set(second["holder"])
    assert not second["holder"]["cancel_requested"]
    assert (second["holder"]["run"], second["holder"]["agent"]) == (lease["fence"], "coder")
    assert second["holder"]["expires_at"].endswith("Z")


def test_done_has_leases_only_where_the_next_item_is_asked_for(any_il: Command):
    for title in ("First", "Second", "Third"):
        any_il.ok("add", title, "--lane", "issue:acme/app#1")
    done = any_il.ok("done", any_il.claim()["run"], "--next", "--lease", "5m")
    assert done.keys() == {"runs", "leases"}
    (lease,) = done["leases"]
    assert (lease["item"]["title"], lease["item"]["run_agent"], lease["lease_s"]) == ("Second", "coder", 300)
    done = any_il.ok("done", lease["run"])
    assert done.keys() == {"runs"}
    lease = any_il.claim()
    done = any_il("--json", "done", lease["run"], "--next")
    assert (done.code, done.json["leases"]) == (0, []), "no work is no error: the run is done"
    again = any_il("--json", "done", lease["run"], "--next")
    assert (again.code, again.json["leases"]) == (5, [])
    assert any_il("--json", "done", lease["run"], "--lease", "5m").code == 2


def test_superseding_a_running_owner_says_until_when_that_may_take(any_il: Command):
    new = ("--lane", "issue:acme/app#1", "--agent", "coder", "--policy", "supersede")
    any_il.ok("add", "First", *new)
    lease = any_il.claim()
    second = any_il.ok("add", "Second", *new)
    assert (second["decision"], second["holder"]["run"]) == ("superseding", lease["fence"])
    assert second["holder"]["cancel_requested"]
    assert second["holder"]["expires_at"] < lease["expires_at"]  # the grace is shorter than the lease
    (lane,) = any_il.ok("lanes")["lanes"]
    assert lane["holder"] == second["holder"]


def test_every_field_of_an_item_can_be_given(any_il: Command):
    item = any_il.ok(
        *("add", "All of it", "--lane", "series:acme/RFC-9", "--agent", "Coder", "--policy", "queue"),
        *(
            "--type",
            "rfc",
            "--priority",
            "-5",
            "--payload",
            '{"n": 1}',
            "--message",
            "hello",
            "--author",
            "bob",
        ),
        *("--dedupe-key", "k", "--project", "acme", "--position", 7, "--run-at", "+2h", "--lease", "5m"),
        *("--timeout", "2h", "--max-attempts", 9, "--retry-lane", "keep", "--label", "a", "--label", "b"),
    )["item"]
    wanted = {
        "lane": "series:acme/RFC-9",
        "agent": "coder",
        "type": "rfc",
        "priority": -5,
        "project": "acme",
        "position": 7,
        "lease_s": 300.0,
        "timeout_s": 7200.0,
        "max_attempts": 9,
        "retry_lane": "keep",
        "labels": ["a", "b"],
        "status": "waiting",
        "messages": 1,
    }
    assert {name: item[name] for name in wanted} == wanted
    shown = any_il.ok("show", item["id"])
    assert shown["item"]["payload"] == {"n": 1}
    assert [(m["text"], m["author"]) for m in shown["messages"]] == [("hello", "bob")]
    assert any_il.ok("add", "Again", "--dedupe-key", "k", "--project", "acme")["decision"] == "duplicate"


def test_a_payload_that_names_an_issue_gives_its_lane_unless_refused(il: Command):
    payload = '{"repository": {"full_name": "Acme/App"}, "issue": {"number": 7}}'
    assert il.ok("add", "a", "--payload", payload)["item"]["lane"] == "issue:acme/app#7"
    assert il.ok("add", "b", "--payload", payload, "--no-lane")["item"]["lane"] is None
    assert (
        il.ok("add", "c", "--payload", "-", "--lane", "branch:x", stdin=payload)["item"]["lane"] == "branch:x"
    )


def test_a_batch_is_one_object_a_line_with_the_same_names(il: Command):
    lines = """{"title": "a", "priority": 3, "labels": ["x"]}

        {"title": "b", "run-at": "+1h", "payload": {"k": [1]}}"""
    added = il.ok("add", "--batch", "-", "--type", "bulk", stdin=lines)["added"]
    assert [a["item"]["title"] for a in added] == ["a", "b"]
    assert [a["item"]["status"] for a in added] == ["pending", "waiting"]
    assert {a["item"]["type"] for a in added} == {"bulk"}
    assert il.ok("show", added[1]["item"]["id"])["item"]["payload"] == {"k": [1]}


def test_next_renew_inbox_done_and_show(any_il: Command):
    item = any_il.ok("add", "Work", "--message", "first", "--payload", '{"a": 1}')["item"]["id"]
    lease = any_il.claim("coder", "--worker", "host-1", "--lease", "90s")
    assert set(lease) == {
        *("run", "handle", "fence", "expires_at", "lease_s", "renew_within_s"),
        *("item", "messages", "waited_s"),
    }
    assert lease["handle"] == lease["run"]
    assert lease["item"]["payload"] == {"a": 1}
    assert lease["lease_s"] == 90.0
    assert (lease["renew_within_s"], [m["text"] for m in lease["messages"]]) == (30.0, ["first"])
    assert set(lease["messages"][0]) == keys(contract.MessageView)

    told = any_il.ok("msg", item, "second")
    assert (set(told), told["n"]) == (keys(contract.ChangeView), 2)
    (renewed,) = any_il.ok("renew", lease["run"], "--seen", 1)["runs"]
    assert set(renewed) == keys(contract.RunView) | {"handle"}
    assert renewed["handle"] == renewed["run"] == lease["handle"]
    assert (renewed["status"], renewed["unread"], renewed["refusal"]) == ("running", 1, None)
    inbox = any_il.ok("inbox", lease["run"])
    assert [(m["n"], m["text"], m["author"]) for m in inbox["messages"]] == [(2, "second", "alice")]

    by_handle = any_il.ok("show", lease["run"])
    assert set(by_handle) == keys(contract.ShowView)
    assert (by_handle["item"]["id"], by_handle["item"]["worker"]) == (item, "host-1")
    (ended,) = any_il.ok("done", lease["run"], "--seen", 2, "--result", '{"pr": 5}')["runs"]
    assert (ended["run"], ended["status"], ended["item"]["status"]) == (
        lease["run"],
        "succeeded",
        "completed",
    )
    (run,) = any_il.ok("show", item)["runs"]
    assert set(run) == keys(contract.EndedRunView)
    assert (run["result"], run["worker"]) == ({"pr": 5}, "host-1")


def test_several_runs_are_reported_at_once_and_what_was_promoted_is_named(any_il: Command):
    for title in ("a", "b"):
        any_il.ok("add", title, "--lane", f"branch:{title}")
    waiting = any_il.ok("add", "c", "--lane", "branch:a")["item"]["id"]
    leases = any_il.ok("next", "--agent", "coder", "--limit", 5)["leases"]
    runs = any_il.ok("done", *(lease["run"] for lease in leases))["runs"]
    assert [run["status"] for run in runs] == ["succeeded", "succeeded"]
    assert [run["promoted"] for run in runs] == [[waiting], []]


def test_fail_release_and_retry(any_il: Command):
    item = any_il.ok("add", "Flaky", "--max-attempts", 2)["item"]["id"]
    (released,) = any_il.ok("release", any_il.claim()["run"])["runs"]
    assert (released["status"], released["item"]["status"]) == ("released", "pending")
    (failed,) = any_il.ok("fail", any_il.claim()["run"], "--error", "boom")["runs"]
    assert (failed["status"], failed["item"]["status"]) == ("failed", "waiting")
    (change,) = any_il.ok("retry", item, "--reason", "now")["changes"]
    assert (set(change), change["item"]["status"]) == (keys(contract.ChangeView), "pending")
    (failed,) = any_il.ok("fail", any_il.claim()["run"], "--error", "boom", "--no-retry")["runs"]
    assert failed["item"]["status"] == "failed"
    (dead,) = any_il.ok("ls", "--dead")["items"]
    assert dead["id"] == item
    assert [run["error"] for run in any_il.ok("show", item)["runs"]] == [None, "boom", "boom"]


def test_the_history_says_who_did_it(any_il: Command):
    item = any_il.ok("add", "a")["item"]["id"]
    any_il.claim()
    any_il.ok("release", "--item", item, "--reason", "stuck")
    any_il.ok("cancel", item, "--reason", "wrong")
    any_il.ok("retry", item)
    any_il.env["INTERLOCK_ACTOR"] = "bob the builder"
    any_il.ok("agents", "set", "coder", "--max", 2)
    any_il.ok("agents", "pause", "coder", "--reason", "holiday")
    any_il.ok("resume", "agent", "coder")
    any_il.ok("pause", "project", "default", "--reason", "release")
    any_il.ok("resume", "project", "default")
    any_il.ok("lanes", "mode", "observe", "--prefix", "branch:")
    events = any_il.ok("events", "--limit", 100)["events"]
    assert [(e["kind"], e["data"]["by"]) for e in events if "by" in e["data"]] == [
        ("run.released", "alice"),
        ("item.cancelled", "alice"),
        ("item.retried", "alice"),
        ("agent.set", "bob the builder"),
        ("agent.paused", "bob the builder"),
        ("agent.resumed", "bob the builder"),
        ("project.paused", "bob the builder"),
        ("project.resumed", "bob the builder"),
        ("mode.set", "bob the builder"),
    ]


def test_an_operator_cancels_takes_back_and_forces(any_il: Command):
    items = [any_il.ok("add", title)["item"]["id"] for title in ("a", "b", "c")]
    lease = any_il.claim()
    (taken,) = any_il.ok("release", "--item", items[0], "--reason", "stuck")["changes"]
    assert taken["item"]["status"] == "pending"
    assert any_il("done", lease["run"]).code == 5
    lease = any_il.claim()
    changes = any_il.ok("cancel", *items[:2], "--reason", "not needed")["changes"]
    assert [c["item"]["status"] for c in changes] == ["in_progress", "cancelled"]
    assert changes[0]["item"]["cancel_requested"]
    (renewed,) = any_il.ok("renew", lease["run"])["runs"]
    assert renewed["cancel_requested"]
    (forced,) = any_il.ok("cancel", items[0], "--reason", "now", "--force")["changes"]
    assert forced["item"]["status"] == "cancelled"


def test_listing_chooses_by_status_lane_agent_project_and_type(any_il: Command):
    any_il.ok("add", "a", "--lane", "issue:acme/app#1", "--agent", "coder", "--project", "p", "--type", "t")
    any_il.ok("add", "b", "--lane", "issue:acme/app#1")
    any_il.ok("add", "c")
    any_il.ok("cancel", 3, "--reason", "x")

    def titles(*args: str) -> list[str]:
        items = any_il.ok("ls", *args)["items"]
        assert all(set(item) == ITEM for item in items)
        return [item["title"] for item in items]

    assert titles() == ["a", "b"]
    assert titles("--all") == ["a", "b", "c"]
    assert titles("--status", "deferred", "--status", "cancelled") == ["b", "c"]
    assert titles("--lane", "issue:Acme/App#1") == ["a", "b"]
    assert titles("--agent", "Coder", "--project", "p", "--type", "t") == ["a"]
    assert titles("--limit", "1") == ["b"]


def test_why_stats_lanes_agents_sweep_and_doctor(any_il: Command):
    any_il.ok("add", "a", "--lane", "issue:acme/app#1")
    any_il.ok("add", "b", "--lane", "issue:acme/app#1")
    any_il.claim()
    why = any_il.ok("why", 2)
    assert set(why) == keys(contract.WhyView)
    assert "issue:acme/app#1" in why["why"]
    assert why["why"].count("\n") == 0
    assert set(any_il.ok("stats", "--window", "10m")) == keys(contract.StatsView)
    (group,) = any_il.ok("stats", "--by", "agent")["groups"]
    assert set(group) == keys(contract.GroupView)
    assert (group["name"], group["claims"]) == ("coder", 1)
    (group,) = any_il.ok("stats", "--by", "priority")["groups"]
    assert (group["name"], group["claims"]) == ("0", 1)
    (lane,) = any_il.ok("lanes", "--prefix", "issue:")["lanes"]
    assert set(lane) == keys(contract.LaneView)
    assert (lane["holder"]["agent"], lane["waiting"], lane["line"]) == ("coder", 1, [2])
    (agent,) = any_il.ok("agents")["agents"]
    assert set(agent) == keys(contract.AgentView)
    assert (agent["name"], agent["running"], agent["max"]) == ("coder", 1, None)
    assert set(any_il.ok("sweep", "--once")) == keys(contract.SweepView)
    checks = any_il("--json", "doctor").json["checks"]
    assert all(set(check) == keys(contract.CheckView) for check in checks)
    broken = {check["name"] for check in checks if not check["ok"]}
    assert broken <= {"writes_are_durable"}  # the test's own server trades safety for speed


def test_agents_are_set_paused_and_resumed_and_projects_too(any_il: Command):
    agent = any_il.ok(
        "agents", "set", "Coder", "--max", 2, "--type", "task", "--label", "py", "--label", "js"
    )
    assert (agent["name"], agent["key"], agent["max"]) == ("Coder", "coder", 2)
    assert (agent["types"], agent["labels"]) == (["task"], ["py", "js"])
    assert any_il.ok("agents", "set", "coder", "--max", "none")["max"] is None
    assert any_il.ok("agents", "pause", "coder", "--reason", "tired")["paused_reason"] == "tired"
    any_il.ok("add", "a")
    assert any_il("next", "--agent", "coder").code == 3
    assert not any_il.ok("agents", "resume", "coder")["paused"]
    assert any_il.ok("pause", "project", "default", "--reason", "freeze")["paused"]
    assert any_il("next", "--agent", "coder").code == 3
    any_il.ok("resume", "project", "default")
    assert any_il.ok("pause", "agent", "coder", "--reason", "x")["paused"]
    any_il.ok("resume", "agent", "coder")
    any_il.claim("CODER")


def test_observing_a_lane_holds_nothing_back(any_il: Command):
    set_to = any_il.ok("lanes", "mode", "observe", "--prefix", "issue:acme/")
    assert set_to == {"scope": "lane", "value": "issue:acme/", "mode": "observe"}
    for _ in range(2):
        added = any_il.ok("add", "a", "--lane", "issue:acme/app#1")
        assert (added["decision"], added["item"]["status"]) == ("observed", "pending")
    any_il.ok("lanes", "mode", "off", "--project", "default")


def test_modes_and_what_is_paused_are_listed(any_il: Command):
    assert any_il.ok("lanes", "mode") == {"modes": []}
    assert any_il.ok("pause") == {"agents": [], "projects": []}
    assert any_il("lanes", "mode").out == "Every lane is enforced.\n"
    assert any_il("pause").out == "No agent and no project is paused.\n"
    observed = any_il.ok("lanes", "mode", "observe", "--prefix", "issue:acme/")
    off = any_il.ok("lanes", "mode", "off", "--project", "playground")
    assert any_il.ok("lanes", "mode") == {"modes": [observed, off]}
    assert any_il("lanes", "mode").out.splitlines() == [
        "Lanes that start with issue:acme/: observe.",
        "Lanes of project playground: off.",
        "All others: enforce.",
    ]
    any_il.ok("agents", "set", "writer")
    coder = any_il.ok("pause", "agent", "Coder", "--create", "--reason", "tired")
    any_il.ok("pause", "project", "default", "--reason", "freeze")
    paused = {"agents": [coder], "projects": [{"project": "default", "reason": "freeze"}]}
    paused["agents"] = [coder | {"deferred": 0}]
    assert any_il.ok("pause") == paused
    assert any_il("pause").out == "Agent Coder is paused: tired\nProject default is paused: freeze\n"


def test_events_are_listed_after_a_number_and_by_item_and_lane(any_il: Command):
    any_il.ok("add", "a", "--lane", "issue:acme/app#1")
    any_il.ok("add", "b")
    events = any_il.ok("events")["events"]
    assert all(set(event) == keys(contract.EventView) for event in events)
    assert [e["item"] for e in events] == [1, 2]
    assert any_il.ok("events", "--after", events[0]["seq"])["events"] == events[1:]
    assert any_il.ok("events", "--after", 0, "--limit", 1)["events"] == events[:1]
    assert any_il.ok("events", "--limit", 1)["events"] == events[1:]
    assert any_il.ok("events", "--item", 2)["events"] == events[1:]
    assert any_il.ok("events", "--lane", "issue:acme/app#1")["events"] == events[:1]


def test_migrate_reports_versions_and_sql(unmigrated_il: Command):
    known = len(migrations("postgres" if unmigrated_il.url else "sqlite"))
    answer = unmigrated_il("--json", "migrate", "--check")
    assert (answer.code, answer.json["version"], answer.json["missing"]) == (1, 0, known)
    assert "CREATE TABLE" in unmigrated_il.ok("migrate", "--sql")["sql"]
    ran = unmigrated_il.ok("migrate")
    assert (ran["version"], ran["applied"], ran["missing"], ran["sql"]) == (known, known, 0, "")
    assert unmigrated_il.ok("migrate", "--check")["missing"] == 0

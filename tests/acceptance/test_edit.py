"""`interlock edit`: what it takes, what it prints, what it refuses."""

import pytest

from tests.acceptance.command import Command


def test_options_change_an_item_and_none_takes_a_value_away(il: Command):
    il.ok("add", "old", "--agent", "coder", "--lane", "branch:main", "--label", "gpu", "--position", 3)
    args = ("--title", "new", "--priority", 8, "--agent", "ben", "--type", "review", "--label", "arm")
    (change,) = il.ok("edit", 1, *args, "--label", "linux", "--position", 1, "--run-at", "+2h")["changes"]
    item = change["item"]
    assert (item["title"], item["priority"], item["agent"], item["type"]) == ("new", 8, "ben", "review")
    assert (item["labels"], item["position"], item["status"]) == (["arm", "linux"], 1, "waiting")
    (change,) = il.ok(
        *("edit", 1, "--agent", "none", "--label", "none", "--position", "none", "--run-at", "now")
    )["changes"]
    item = change["item"]
    assert (item["agent"], item["labels"], item["position"], item["status"]) == (None, [], None, "pending")
    edits = [event for event in il.ok("show", 1)["events"] if event["kind"] == "item.edited"]
    assert edits[1]["data"]["new"]["agent"] is None
    assert edits[1]["data"]["by"]


def test_what_cannot_be_edited_is_refused_in_words(il: Command):
    il.ok("add", "work")
    nothing = il("--json", "edit", 1)
    assert (nothing.code, nothing.error["code"]) == (2, "invalid_input")
    assert "changes nothing" in nothing.error["message"]
    assert il("--json", "edit", 1, "--priority", "high").code == 2
    assert il("--json", "edit", 1, "--agent", "").code == 2
    assert il("--json", "edit", 7, "--priority", 1).code == 1
    il.ok("next", "--agent", "coder")
    refused = il("--json", "edit", 1, "--priority", 1)
    assert (refused.code, refused.error["code"]) == (1, "edit_refused")
    assert "of coder) and can no longer be edited" in refused.error["message"]
    assert "interlock msg 1" in refused.error["hint"]


@pytest.mark.parametrize("time", ["now", "+1s"])
def test_a_time_starts_what_waits_for_a_person_if_a_person_gives_it(any_il: Command, time: str):
    any_il.env["INTERLOCK_WAKES_MAX"] = "1"
    event = (
        "add",
        "red",
        "--lane",
        "branch:main",
        "--agent",
        "coder",
        "--policy",
        "coalesce",
        "--from-system",
    )
    for _ in range(2):
        item = any_il.ok(*event)["item"]
        if item["status"] == "pending":
            run = any_il.claim()["run"]
            any_il.ok("done", run)
    assert (item["status"], item["reason"]) == ("waiting", "loop")
    inside = any_il("--json", "edit", item["id"], "--run-at", time, env={"INTERLOCK_RUN": run})
    assert "waits for a person" in inside.error["message"]
    reason = any_il.ok("edit", item["id"], "--run-at", time)["changes"][0]["item"]["reason"]
    assert reason == ("edited" if time == "now" else "scheduled")

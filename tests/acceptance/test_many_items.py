"""Commands on many items: `retry --dead`, `cancel --lane`, and what `ls --grep` has searched."""

from __future__ import annotations

from pathlib import Path

from tests.acceptance.command import CommandHere


def test_dead_letters_are_counted_tried_again_and_named(tmp_path: Path) -> None:
    il = CommandHere(tmp_path)
    il.ok("add", "one", "--type", "review", "--max-attempts", "1")
    il.ok("add", "two", "--max-attempts", "1", "--project", "app")
    assert il("retry", "--dead").out == "No dead letter matches.\n"
    for _ in range(2):
        run = il.ok("next", "--agent", "coder")["leases"][0]["handle"]
        il.ok("fail", run, "--error", "boom")
    assert il("retry", "--dead", "--dry-run").out == "Would retry 2 items (1, 2).\n"
    assert il("retry", "--dead", "--type", "review", "--reason", "mended").out == "Retried item 1.\n"
    assert il.ok("retry", "--dead", "--project", "app")["items"] == [2]
    assert "mended" in il("show", "1").out

    error = il("--json", "retry", "7", "--dead").error
    assert error["message"] == "Items and --dead exclude each other."
    assert il("--json", "retry", "--dry-run").error["hint"] == "Add --dead."
    assert "--dead" in il("--json", "retry").error["hint"]


def test_a_lane_is_cancelled_and_its_running_item_asked_to_stop(tmp_path: Path) -> None:
    il = CommandHere(tmp_path)
    for title in ("one", "two", "three"):
        il.ok("add", title, "--lane", "branch:main")
    il.ok("next", "--agent", "coder")
    il.ok("add", "four")
    said = il("cancel", "--lane", "branch:main", "--reason", "the branch is gone").out
    assert said == "Cancelled 2 items (2, 3).\nAsked item 1 to stop.\n"
    assert il("cancel", "--lane", "branch:main", "--reason", "x", "--force").out == "Cancelled item 1.\n"
    again = il("cancel", "--lane", "branch:main", "--reason", "x").out
    assert again == "Lane branch:main has no unfinished item.\n"
    assert [item["id"] for item in il.ok("ls")["items"]] == [4]
    assert (
        il("--json", "cancel", "4", "--lane", "branch:main", "--reason", "x").error["code"] == "invalid_input"
    )
    assert "--lane LANE" in il("--json", "cancel", "--reason", "x").error["hint"]

    found = il("ls", "--all", "--grep", "TW").out
    assert "two" in found
    assert "three" not in found
    assert found.endswith("Searched the newest 10,000 items of each status.\n")
    assert "Searched" not in il("ls", "--all").out

"""Gates of lanes, as the command line shows them and holds meet them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import interlock
from tests.acceptance.command import Command, CommandHere

LANE, SERIES = "issue:acme/app#124", "series:acme/app/RFC-093"


@pytest.fixture
def il(tmp_path: Path) -> Command:
    return CommandHere(tmp_path, url=f"sqlite://{tmp_path / 'interlock.db'}")


def shut(il: Command) -> None:
    """The lane is shut, and the series is at #123."""
    for number in (123, 124):
        payload = json.dumps({"issue_number": number})
        il.ok("add", f"#{number}", "--lane", SERIES, "--type", "series.assignment", "--payload", payload)
    with interlock.connect(il.url) as store:
        store.service.set_gate(LANE, series=SERIES, open=False, exempt=["issue_triage"], why="#123 is active")


def test_an_arrival_on_a_shut_lane_says_what_it_waits_for(il: Command) -> None:
    shut(il)
    said = il("add", "Fix", "--lane", LANE).out
    turn = "#123 is; #124 has place 1 in its line"
    waits = f"waits: issue #124 is not the active one of series RFC-093 ({turn})"
    flat = " ".join(said.split())
    assert f"queued Item 3 {waits}." in flat
    assert "next it can start when #123 has left the series" in flat
    assert waits in il("why", "3").out
    answer = il.ok("add", "More", "--lane", LANE)
    assert (answer["decision"], answer["reason"]) == ("queued", "series_queued")


def test_lanes_items_and_gates_are_shown(il: Command) -> None:
    assert "No lane has a gate." in il("lanes", "--gates").out
    shut(il)
    item = il.ok("add", "Fix", "--lane", LANE)["item"]["id"]
    by_lane = {lane["lane"]: lane["gate"] for lane in il.ok("lanes")["lanes"]}
    assert by_lane[SERIES] is None
    assert (by_lane[LANE]["series"], by_lane[LANE]["open"]) == (SERIES, False)
    assert "shut by RFC-093" in il("lanes").out
    (gate,) = il.ok("lanes", "--gates")["gates"]
    assert (gate["lane"], gate["exempt"], gate["run"]) == (LANE, ["issue_triage"], None)
    assert "issue_triage" in il("lanes", "--gates").out
    assert [i["gated_by"] for i in il.ok("ls", "--lane", LANE)["items"]] == [SERIES]
    assert "gated" in il("ls").out
    assert f"gated by  {SERIES}" in il("show", item).out
    assert il("--json", "lanes", "--gates", "--prefix", "issue:").code == 2
    assert il("doctor").code == 0


def test_a_hold_does_not_run_its_command_on_a_shut_lane(il: Command) -> None:
    shut(il)
    il = Command(il.directory, il.url)
    refused = il("hold", LANE, "--if-held", "fail", "--", "touch", "ran")
    assert refused.code == 4
    assert "issue #124 is not the active one of series RFC-093" in " ".join(refused.err.split())
    skipped = il("hold", LANE, "--if-held", "skip", "--", "touch", "ran")
    assert skipped.code == 0
    assert "Skipped" in skipped.err
    assert not (il.directory / "ran").exists()
    assert il.ok("ls", "--lane", LANE)["items"] == []

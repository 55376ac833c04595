"""Work outside: external runs and blocks, as the command line shows them."""

from __future__ import annotations

from tests.acceptance.command import Command

LANE = "issue:acme/app#4"


def test_an_external_run_is_claimed_shown_and_ended(il: Command) -> None:
    il.ok("add", "Fix", "--lane", LANE, "--agent", "copilot")
    (lease,) = il.ok("next", "--agent", "copilot", "--external")["leases"]
    assert (lease["expires_at"], lease["lease_s"], lease["renew_within_s"]) == (None, None, None)
    assert lease["item"]["external"] is True
    assert il.ok("lanes")["lanes"][0]["holder"]["external"] is True
    assert "external" in il("ls").out
    shown = il("show", lease["item"]["id"]).out
    assert f"external run {lease['fence']} by copilot" in shown
    assert "none, no deadline" in shown
    assert "there is no lease to renew" in il("renew", lease["run"]).out
    assert il.ok("done", lease["run"])["runs"][0]["status"] == "succeeded"


def test_an_external_run_has_no_lease_to_choose(il: Command) -> None:
    refused = il("--json", "next", "--agent", "copilot", "--external", "--lease", "60s")
    assert (refused.code, refused.error["code"]) == (2, "invalid_input")


def test_a_lane_is_blocked_listed_and_unblocked(il: Command) -> None:
    item = il.ok("add", "Fix", "--lane", LANE)["item"]["id"]
    made = il.ok("block", LANE, "--by", "acme/app#3", "--reason", "first", "--link", "https://example.com/3")
    assert made["blocks"][0]["lane"] == LANE
    assert il("--json", "next", "--agent", "coder").code == 3
    assert il.ok("block") == made
    assert il.ok("ls")["items"][0]["blocked_by"] == ["acme/app#3"]
    assert "blocked" in il("ls").out
    assert "blocked by  acme/app#3" in il("show", item).out
    assert il.ok("unblock", LANE) == {"unblocked": ["acme/app#3"]}
    assert f"Lane {LANE} was not blocked." in il("unblock", LANE).out
    assert il.ok("next", "--agent", "coder")["leases"][0]["item"]["id"] == item


def test_a_number_is_an_item(il: Command) -> None:
    item = il.ok("add", "Fix")["item"]["id"]
    assert (
        f"Item {item} is blocked by #3 (first)." in il("block", item, "--by", "#3", "--reason", "first").out
    )
    assert f"Item {item} is no longer blocked by #3." in il("unblock", item, "--by", "#3").out


def test_a_block_needs_a_blocker_a_reason_and_something_to_block(il: Command) -> None:
    for line, said in (
        (("block", LANE, "--reason", "first"), "--by is missing."),
        (("block", LANE, "--by", "#3"), "--reason is missing."),
        (("block", "--by", "#3", "--reason", "first"), "No lane or item was given."),
    ):
        refused = il("--json", *line)
        assert (refused.code, refused.error["message"]) == (2, said)

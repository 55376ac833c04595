"""Orders as they are kept: what the version before wrote is read as it was meant, and written the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from interlock.core.model import A_PERSON, ANOTHER_SYSTEM, Policy
from interlock.core.record import replace
from interlock.github.orders import (
    ORDERS,
    AddItems,
    FailedCheck,
    UnreadableOrder,
    WithdrawRecovered,
    failing,
    read_order,
)
from interlock.service.item_fields import new_item
from interlock.settings import TypeDefaults

#: Rows of version 1.0, one of each shape.
RECORDED: list[dict[str, Any]] = json.loads(Path(__file__).with_name("recorded_orders.json").read_text())
TYPES = {"issue_triage": TypeDefaults(lease_s=90.0, timeout_s=600.0, priority=3, max_attempts=2)}


def added() -> list[AddItems]:
    orders = (read_order(json.dumps(row["data"])) for row in RECORDED)
    return [order for order in orders if isinstance(order, AddItems)]


@pytest.mark.parametrize("row", RECORDED, ids=lambda row: f"{row['data']['do']}-{row['name']}")
def test_a_recorded_order_is_read_and_written_the_same(row: dict[str, Any]) -> None:
    order = read_order(json.dumps(row["data"]))
    assert not isinstance(order, UnreadableOrder)
    written = order.row(row["name"])
    assert (written.name, json.loads(written.data)) == (row["name"], row["data"])


def test_every_kind_of_order_is_recorded() -> None:
    assert {row["data"]["do"] for row in RECORDED} == set(ORDERS)


@pytest.mark.parametrize("types", [{}, TYPES], ids=["no defaults", "defaults"])
def test_a_recorded_item_arrives_as_its_fields_say(types: dict[str, TypeDefaults]) -> None:
    """The version before read the fields of an item as `interlock add` reads them from a line."""
    for row in RECORDED:
        order = read_order(json.dumps(row["data"]))
        if isinstance(order, AddItems):
            for item, fields in zip(order.items, row["data"]["items"], strict=True):
                is_open = fields.pop("policy_open", False)
                before = replace(new_item({**fields, "dedupe_key": "k"}, types=types), policy_open=is_open)
                assert item.arrival("k", types) == before


@pytest.mark.parametrize("data", [{"do": "teleport"}, {"do": "add"}, {"do": "adjust", "lane": "a"}, {}])
def test_an_order_that_cannot_be_read_keeps_its_name_and_stops_no_reader(data: dict[str, Any]) -> None:
    order = read_order(json.dumps(data))
    assert isinstance(order, UnreadableOrder)
    assert order.do == str(data.get("do"))
    assert failing([order], "issue:acme/app#1") == {}


def test_a_check_that_passed_or_an_older_commit_is_no_longer_failing() -> None:
    (first, *_) = (
        order for row in RECORDED if isinstance(order := read_order(json.dumps(row["data"])), AddItems)
    )
    lane = first.place.lane
    failed = replace(first, failed=FailedCheck("tests", 7, "a"))
    passed = WithdrawRecovered(place=first.place, reason="check_passed", url="", check="tests", id=8)
    moved = WithdrawRecovered(place=first.place, reason="head_moved", url="", head="b")
    assert failing([failed], lane) == {"tests": FailedCheck("tests", 7, "a")}
    assert failing([failed, passed], lane) == failing([failed, moved], lane) == {}
    assert failing([failed, replace(passed, id=6)], lane) != {}


def test_a_new_item_says_who_sent_it_and_which_policy_it_has() -> None:
    found = added()
    assert {item.message.sender for order in found for item in order.items} >= {A_PERSON, ANOTHER_SYSTEM}
    assert {item.policy for order in found for item in order.items} <= set(Policy)

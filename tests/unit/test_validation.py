"""Whole arrivals at the gate: names in normal form, or a clear refusal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from interlock.core.errors import InvalidInput, TooLarge
from interlock.core.model import NewItem
from interlock.core.record import as_dict
from interlock.core.validation import check_batch, checked

PAYLOAD = '{"repository": "Acme/App", "number": 42}'


def test_names_come_out_in_normal_form() -> None:
    new = checked(NewItem(title="work", agent=" Coder ", lane="Issue:Acme/App#1"))
    assert (new.agent, new.lane) == ("coder", "issue:acme/app#1")


def test_a_payload_that_names_an_issue_gives_its_lane() -> None:
    assert checked(NewItem(title="work", payload=PAYLOAD)).lane == "issue:acme/app#42"


def test_a_lane_that_was_named_goes_before_the_lane_of_the_payload() -> None:
    assert checked(NewItem(title="work", lane="branch:main", payload=PAYLOAD)).lane == "branch:main"


def test_the_caller_can_opt_out_of_the_lane_of_its_payload() -> None:
    assert checked(NewItem(title="work", payload=PAYLOAD, no_lane=True)).lane is None


def test_a_lane_given_and_refused_at_once_is_a_mistake() -> None:
    with pytest.raises(InvalidInput, match="cannot be combined"):
        checked(NewItem(title="work", lane="branch:main", no_lane=True))


@pytest.mark.parametrize(
    "change",
    [
        {"title": ""},
        {"project": "no spaces"},
        {"type": "../up"},
        {"agent": "über"},
        {"lane": "a..b"},
        {"priority": 1001},
        {"priority": -1001},
        {"max_attempts": 0},
        {"max_attempts": 101},
        {"position": -1},
        {"position": 2**31 - 1},
        {"lease_s": 0.5},
        {"lease_s": 86_401.0},
        {"lease_s": float("nan")},
        {"timeout_s": 0.0},
        {"timeout_s": 31 * 86_400.0},
        {"message": ""},
        {"message": "\x00"},
        {"message": "x" * ((1 << 20) + 1)},
        {"payload": "[]"},
        {"dedupe_key": ""},
        {"dedupe_key": "k" * 201},
        {"author": "a" * 201},
        {"labels": ("ok", "not ok")},
        {"run_at_us": 2**63},
        {"run_at_us": -1},
        {"run_after_s": -0.1},
        {"run_after_s": float("nan")},
        {"run_after_s": 3_661 * 86_400.0},
        {"run_after_s": 5.0, "run_at_us": 1},
    ],
    ids=lambda c: " ".join(f"{k}={v!r:.24}" for k, v in c.items()),
)
def test_whatever_breaks_a_limit_is_refused_before_a_transaction_begins(change: dict[str, object]) -> None:
    with pytest.raises(InvalidInput) as refused:
        checked(replace(NewItem(title="work"), **change))  # type: ignore[arg-type]
    assert refused.value.sentence.endswith(".")


@pytest.mark.parametrize(
    "change",
    [
        {"priority": 1000},
        {"priority": -1000},
        {"max_attempts": 100},
        {"position": 0},
        {"position": 2**31 - 2},
        {"lease_s": 1.0},
        {"lease_s": 86_400.0},
        {"timeout_s": 30 * 86_400.0},
        {"message": "x"},
        {"run_after_s": 0.0},
        {"run_after_s": 3_660 * 86_400.0},
        {"labels": ("gpu", "linux")},
    ],
    ids=lambda c: " ".join(f"{k}={v!r}" for k, v in c.items()),
)
def test_what_stands_exactly_at_a_limit_passes(change: dict[str, object]) -> None:
    new = replace(NewItem(title="work"), **change)  # type: ignore[arg-type]
    assert as_dict(checked(new)) == as_dict(new)


def test_a_thousand_at_once_are_the_limit() -> None:
    check_batch("items", ["x"] * 1_000, str)
    with pytest.raises(TooLarge, match="1,001 items"):
        check_batch("items", ["x"] * 1_001, str)

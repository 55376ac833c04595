"""Deliveries: signed or refused, and what they are about."""

from __future__ import annotations

import json
from typing import Any

import pytest

from interlock.core.errors import InterlockError
from interlock.github import signature
from interlock.github.delivery import BODY_MAX_BYTES, read

SECRET, BODY = "It's a Secret to Everybody", b"Hello, World!"
SIGNED = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
HERE = {"id": 7, "full_name": "acme/app"}


def test_a_signature_belongs_to_a_secret_and_exact_bytes() -> None:
    assert signature.sign(SECRET, BODY) == SIGNED
    signature.check(SECRET, BODY, SIGNED)
    for secret, body, header in [
        (SECRET, BODY + b" ", SIGNED),
        ("other", BODY, SIGNED),
        ("", BODY, SIGNED),
        (SECRET, BODY, None),
        (SECRET, BODY, "sha1=0123456789012345678901234567890123456789"),
        (SECRET, BODY, SIGNED[:-1]),
        (SECRET, BODY, "sha256=ö"),
    ]:
        with pytest.raises(InterlockError):
            signature.check(secret, body, header)


def numbers(payload: dict[str, Any]) -> tuple[int, ...]:
    return read("issues", "1", json.dumps({"repository": HERE, **payload}).encode()).numbers


def test_a_delivery_says_which_numbers_to_read() -> None:
    assert numbers({"issue": {"number": 4}}) == (4,)
    assert numbers({"pull_request": {"number": 5}, "review": {}}) == (5,)
    assert numbers({"parent_issue": {"number": 4}, "sub_issue": {"number": 6}}) == (4, 6)
    assert numbers({"workflow_run": {"pull_requests": [{"number": 9}, {"number": 8}]}}) == (8, 9)
    assert numbers({"check_run": {"pull_requests": None}}) == ()


def test_a_sub_issue_of_another_repository_is_not_ours() -> None:
    payload = {
        "parent_issue": {"number": 4},
        "sub_issue": {"number": 6},
        "sub_issue_repo": {"id": 99, "full_name": "acme/other"},
    }
    assert numbers(payload) == (4,)


def test_a_delivery_may_lack_anything() -> None:
    delivery = read("ping", "1", b"{}")
    assert (delivery.kind, delivery.repository, delivery.numbers, delivery.sender) == (
        "ping",
        None,
        (),
        "ghost",
    )
    assert read("issues", "1", b'{"action": 3, "issue": [], "repository": "x"}').kind == "issues"


@pytest.mark.parametrize(
    ("event", "delivery", "body"),
    [
        ("issues", "1", b"no"),
        ("issues", "1", b"[]"),
        ("issues", "1", b"[" * 100_000),
        ("issues", "1", b"\xff"),
        ("../issues", "1", b"{}"),
        ("issues", "a b", b"{}"),
        ("issues", "", b"{}"),
        ("issues", "1", b" " * (BODY_MAX_BYTES + 1)),
    ],
)
def test_what_is_no_delivery_is_refused_in_a_sentence(event: str, delivery: str, body: bytes) -> None:
    with pytest.raises(InterlockError):
        read(event, delivery, body)

"""Addresses, secrets, signatures and texts of notices."""

from __future__ import annotations

import base64
import hmac

import pytest

from interlock.core.errors import InvalidInput
from interlock.core.model import Event, EventKind
from interlock.notify.notice_body import NoticeBody
from interlock.notify.receiver import keys_of, receiver_at, signature
from interlock.notify.webhooks import item_link
from interlock.store.port import StoredEvent

SECRET = "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def test_a_signature_is_that_of_standard_webhooks() -> None:
    """The example of the standard's own libraries."""
    keys = keys_of({"INTERLOCK_NOTIFY_SECRET": f"whsec_{SECRET}"})
    assert keys == (base64.b64decode(SECRET),)
    found = signature(keys, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert found == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_of_two_secrets_each_signs() -> None:
    keys = keys_of({"INTERLOCK_NOTIFY_SECRET": f" whsec_{SECRET} plain-text-of-24-bytes.. "})
    first, second = signature(keys, "id", 1, b"{}").split()
    assert first != second
    plain = hmac.digest(b"plain-text-of-24-bytes..", b"id.1.{}", "sha256")
    assert second == f"v1,{base64.b64encode(plain).decode()}"


@pytest.mark.parametrize("secret", ["short", "whsec_c2hvcnQ=", "whsec_!" + "A" * 40, "whsec_"])
def test_a_weak_or_broken_secret_is_refused_and_not_repeated(secret: str) -> None:
    with pytest.raises(InvalidInput, match="INTERLOCK_NOTIFY_SECRET") as refused:
        keys_of({"INTERLOCK_NOTIFY_SECRET": secret})
    assert secret not in refused.value.sentence.replace("whsec_", "") or secret == "whsec_"


def test_without_a_secret_nothing_is_signed() -> None:
    assert keys_of({}) == ()


@pytest.mark.parametrize(
    ("address", "host", "target"),
    [
        ("https://hooks.slack.com/services/T0/B0/X", "hooks.slack.com", "/services/T0/B0/X"),
        ("https://Example.COM:8443", "example.com:8443", "/"),
        ("https://example.com/a%20b?c=d&e=%2F", "example.com", "/a%20b?c=d&e=%2F"),
        ("https://example.com/\u00e9?\u00e9", "example.com", "/%C3%A9?%C3%A9"),
        ("http://127.0.0.1:9000/x", "127.0.0.1:9000", "/x"),
        ("http://[::1]:9000/x", "[::1]:9000", "/x"),
        ("http://localhost/x", "localhost", "/x"),
        ("http://inside.example.com/x", "inside.example.com", "/x"),
    ],
)
def test_an_address_that_notices_may_be_sent_to(address: str, host: str, target: str) -> None:
    found = receiver_at(address, ["inside.example.com"])
    assert (found.host, found.target) == (host, target)
    assert found.tls == address.startswith("https")
    assert -(10**18) < found.repository < 0


@pytest.mark.parametrize(
    "address",
    [
        "http://example.com/x",
        "http://127.0.0.2/x",
        "http://localhost.example.com/x",
        "ftp://example.com/x",
        "https:///x",
        "https://example.com:99999/x",
        "https://user:password@example.com/x",
        "https://example.com/x#part",
        "https://example.com/x\r\nHost: other",
        "https://exa mple.com/x",
        "https://\u0435xample.com/x",
        "example.com",
        "",
        "https://[::1/x",
        "https://example.com/" + "x" * 2_000,
    ],
)
def test_an_address_that_notices_may_not_be_sent_to(address: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        receiver_at(address)
    assert "password" not in refused.value.sentence


def test_addresses_have_numbers_of_their_own_that_stay_the_same() -> None:
    numbers = {receiver_at(f"https://example.com/{n}").number for n in range(100)}
    assert len(numbers) == 100
    # A mark and a queue of a store have this number: another one would send nothing, or all of it again.
    assert receiver_at("https://example.com/0").number == 23_382_654_503_063_350


def test_a_notice_of_an_event_of_another_version_is_still_short_and_plain() -> None:
    data = {"question": None, "until_us": "soon"}
    event = Event(0, EventKind.QUESTION_ASKED, agent="<@U1>&\x00", data=data)
    notice = NoticeBody.of("s", "question", StoredEvent(seq=7, event=event), None, None)
    assert "<" not in notice.data["text"]
    assert "\x00" not in notice.data["text"]
    assert notice.body(lambda _: None)


def test_the_link_leads_to_the_item_or_the_overview() -> None:
    assert item_link("", 7) is None
    assert item_link("https://example.com/", 7) == "https://example.com/items/7"
    assert item_link("https://example.com", None) == "https://example.com/"

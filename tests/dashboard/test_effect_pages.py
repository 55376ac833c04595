"""The effects: what failed, what waits and what was sent, with a retry; and how much the page reads."""

from __future__ import annotations

import html
import re
import sys
from typing import Any

import pytest

from interlock.service.local import LocalService
from interlock.store.outbox import Effect
from tests.dashboard.client import Site, Visitor
from tests.dashboard.effect_scenes import add_failed, effect, outbox_of, usual_effects
from tests.dashboard.plan_scenes import HOSTILE, LONG, RIGHT_TO_LEFT


def service_of(site: Site) -> LocalService:
    return site.server.service


def test_an_empty_store_says_so(admin: Visitor) -> None:
    words = admin.get("/effects").words
    for told in ("No effect has failed.", "Nothing waits to be sent.", "Nothing was sent yet."):
        assert told in words


def test_a_notice_names_its_receiver_and_links_nowhere(site: Site, admin: Visitor) -> None:
    store = service_of(site).store
    store.github.repository(-7, "hooks.example.com")
    store.github.outbox.enqueue([Effect(-7, 0, "question:1", "notice", '{"text": "*Question* of coder"}')])
    taken = store.github.outbox.take(60, -7)
    assert taken is not None
    why = "hooks.example.com answered with 404."
    store.github.outbox.put_off(taken, None, why, failed=True, maybe_sent=False)
    seen = admin.get("/effects")
    assert "Send the notice *Question* of coder to hooks.example.com hooks.example.com answered" in seen.words
    assert "github.com/hooks" not in seen.text


def test_each_effect_says_what_it_does_where_and_what_became_of_it(site: Site, admin: Visitor) -> None:
    usual_effects(service_of(site), run=17)
    seen = admin.get("/effects")
    words = seen.words
    for told in (
        "Failed 2",
        "Assign renovate-bot on acme/app#412 run\u00a017 GitHub did not assign renovate-bot",
        "Start the workflow agent.yml on acme/app#418",
        "failed 1 time, given up just now",
        "Waiting 3",
        "Comment Done in #431: the cart keeps its discount codes.",
        "retried in under 1 min GitHub did not answer within 5 s.",
        "Show the lane's holder as a status acme/app#431",
        "Add the label in progress acme/app#88 labelled",
        "not sent: run 4 lost its lease",
    ):
        assert told in words, told
    assert 'href="https://github.com/acme/app/issues/412"' in seen.text
    assert "Check that a sender runs" not in words


def test_a_failed_effect_is_retried_alone_or_with_all(site: Site, admin: Visitor) -> None:
    service = service_of(site)
    usual_effects(service)
    forms = [form for form in admin.get("/effects").forms() if form["operation"] == "retry_effects"]
    assert [form["said"] for form in forms] == ["Retry all", "Retry", "Retry"]
    answer = admin.do(forms[1])
    assert answer.status == 303
    assert "Retried." in admin.get("/effects").words
    assert [each.kind for each in service.effects(status="dead")] == ["dispatch"]
    usual = next(f for f in admin.get("/effects").forms() if f["operation"] == "retry_effects")
    assert usual["said"] == "Retry", "there is one left, so no button for all"
    assert admin.do(forms[0]).status == 303
    assert service.effects(status="dead") == []


def test_a_failed_effect_is_dropped_with_a_reason(site: Site, admin: Visitor) -> None:
    service = service_of(site)
    usual_effects(service)
    form = admin.get("/effects").form("drop_effects")
    assert admin.do(form).status == 422, "it needs a reason"
    assert admin.do(form, why="Anna assigned it.").status == 303
    assert len(service.effects(status="dead")) == 1
    dropped = service.effects(status="sent")[0].outcome or ""
    assert dropped.startswith("dropped")
    assert "Anna assigned it." in dropped


def test_a_reader_sees_everything_and_no_action(site: Site, reader: Visitor, coder: Visitor) -> None:
    usual_effects(service_of(site))
    for visitor in (reader, coder):
        seen = visitor.get("/effects")
        assert "Assign renovate-bot" in seen.words
        assert seen.forms() == []
        assert "Retry" not in seen.words


def test_overdue_effects_are_pointed_out(site: Site, admin: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["interlock.dashboard.pages.effects"], "OVERDUE_S", 0.0)
    outbox_of(service_of(site)).enqueue([effect("a", 4, text="x")])
    words = admin.get("/effects").words
    assert "The next effect has been due since just now" in words
    assert "Check that a sender runs" in words


def test_waiting_effects_are_paged(site: Site, admin: Visitor) -> None:
    outbox_of(service_of(site)).enqueue([effect(f"e{n}", n, text=f"Effect {n}") for n in range(1, 121)])
    found: list[str] = []
    path: str | None = "/effects"
    while path:
        seen = admin.get(path)
        found += re.findall(r'data-key="waiting-1:(\d+):1"', seen.text)
        following = re.search(r'href="([^"]+)" rel="next">More', seen.text)
        path = html.unescape(following[1]) if following else None
    assert found == [str(n) for n in range(1, 121)]
    assert admin.get("/effects?after=x").status == 422


def test_texts_are_texts(site: Site, admin: Visitor) -> None:
    for n, text in enumerate((HOSTILE, RIGHT_TO_LEFT, LONG)):
        add_failed(service_of(site), effect(f"e{n}", n + 1, text=text), text)
    seen = admin.get("/effects")
    assert HOSTILE not in seen.text
    assert html.escape(HOSTILE) in seen.text
    assert "style=" not in seen.text


@pytest.mark.parametrize("size", [1, 2_000])
def test_the_page_is_four_operations_and_small(
    site: Site, admin: Visitor, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    outbox = outbox_of(service_of(site))
    outbox.enqueue(
        [
            effect(f"e{n}", n % 7 + 1, text="A comment of usual length, as agents write them.")
            for n in range(size)
        ]
    )
    for n in range(min(size, 60)):
        add_failed(
            service_of(site), effect(f"f{n}", n + 100, text="A comment."), "GitHub refused: Not Found (404)."
        )
    called: list[Any] = []
    call = site.server.call

    async def counted(bearer: Any, name: str, given: dict[str, Any]) -> Any:
        called.append([name, given.get("limit")])
        return await call(bearer, name, given)

    monkeypatch.setattr(site.server, "call", counted)
    seen = admin.get("/effects")
    assert called == [["owed_to_github", None], ["effects", 15], ["effects", 41], ["effects", 20]]
    assert len(seen.text) < 60_000

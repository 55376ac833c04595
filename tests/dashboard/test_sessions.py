"""Sessions over HTTP: one-time links, tokens, the cookie, forms of other hosts, and what is never logged."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from contextlib import closing, redirect_stderr, redirect_stdout
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import structlog

from interlock.core.model import NewItem
from interlock.dashboard.pages import FORM_ROUTES, ROUTES
from interlock.service.access import LINK_S, SESSION_S
from interlock.service.local import LocalService
from interlock.store.sqlite.store import SqliteStore
from tests.clock import Clock
from tests.dashboard.client import Seen, Site, Visitor

MINUTE_S = 60.0


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def site(one_site: Site, tmp_path: Path, clock: Clock) -> Iterator[Site]:
    """The server, on a store whose clock the test moves."""
    with closing(LocalService(SqliteStore(tmp_path / "interlock.db", now=clock), poll_s=0.05)) as service:
        one_site.serve(service)
        yield one_site
        one_site.leave()


def link_of(site: Site, scope: str = "admin") -> str:
    """A one-time link."""
    token = site.server.service.create_token("anna", scope=scope).id
    return site.server.service.sign_in_link(caller=token).path


def secret_of(link: str) -> str:
    return parse_qs(urlsplit(link).query)["link"][0]


def use(visitor: Visitor, link: str) -> Seen:
    return visitor.post("/sign-in", {"link": secret_of(link), "next": "/"})


def forget_sessions(site: Site) -> None:
    """As after the few seconds for which a server remembers who has which session."""
    site.server.execution.bearers.__init__(site.server.service)  # type: ignore[misc]


class TestLinks:
    def test_a_link_signs_in_once(self, site: Site) -> None:
        link = link_of(site)
        first, second = Visitor(site.url), Visitor(site.url)
        assert use(first, link).status == 303
        assert first.get("/events").status == 200
        refused = use(second, link)
        assert refused.status == 401
        assert "This link was used or has expired." in refused.words
        assert second.cookies == {}

    def test_looking_at_a_link_does_not_use_it(self, site: Site) -> None:
        """Chat programs fetch what people paste."""
        link, visitor = link_of(site), Visitor(site.url)
        for _ in range(3):
            seen = visitor.get(link)
            assert seen.status == 200
            assert seen.cookies == []
        assert visitor._ask("HEAD", link, None, {}).status == 200
        assert use(visitor, link).status == 303

    @pytest.mark.parametrize(("age_s", "status"), [(LINK_S - 1, 303), (LINK_S + 1, 401)])
    def test_a_link_lasts_ten_minutes(self, site: Site, clock: Clock, age_s: float, status: int) -> None:
        assert LINK_S == 10 * MINUTE_S
        link = link_of(site)
        clock.advance(age_s)
        assert use(Visitor(site.url), link).status == status

    def test_a_link_has_the_scope_of_its_caller(self, site: Site) -> None:
        visitor = Visitor(site.url)
        use(visitor, link_of(site, "read"))
        assert "anna · read" in visitor.get("/events").words

    def test_a_link_of_a_revoked_token_is_refused(self, site: Site) -> None:
        token = site.server.service.create_token("anna", scope="admin")
        link = site.server.service.sign_in_link(caller=token.id).path
        site.server.service.revoke_token(token.id)
        assert use(Visitor(site.url), link).status == 401

    @pytest.mark.parametrize("text", ["", "x", "a" * 12 + "_" + "b" * 43, "\u0000", "il_" + "a" * 60])
    def test_a_made_up_link_is_refused(self, site: Site, text: str) -> None:
        assert Visitor(site.url).post("/sign-in", {"link": text, "next": "/"}).status == 401

    @pytest.mark.parametrize(
        "onward", ["https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)", ""]
    )
    def test_a_link_leads_nowhere_else(self, site: Site, onward: str) -> None:
        seen = Visitor(site.url).post("/sign-in", {"link": secret_of(link_of(site)), "next": onward})
        assert seen.headers["location"] == "/"


class TestCookie:
    def test_its_attributes(self, site: Site) -> None:
        visitor = Visitor(site.url)
        (cookie,) = use(visitor, link_of(site)).cookies
        name, _, rest = cookie.partition("=")
        assert name == f"interlock-{site.server.service.lineage().store}"
        attributes = {part.strip().lower() for part in rest.split(";")[1:]}
        assert {"httponly", "samesite=lax", "path=/", f"max-age={SESSION_S:.0f}"} <= attributes
        assert "secure" not in attributes, "the loopback address has no TLS"
        assert not any(part.startswith("domain") for part in attributes)

    def test_it_is_secure_behind_a_proxy_that_does_tls(self, site: Site) -> None:
        proxied = Site(site.server.service, proxies=["127.0.0.1"])
        try:
            link, visitor = link_of(site), Visitor(proxied.url)
            fields, https = {"link": secret_of(link), "next": "/"}, {"X-Forwarded-Proto": "https"}
            (cookie,) = visitor.post("/sign-in", fields, headers=https).cookies
            assert "secure" in {part.strip().lower() for part in cookie.split(";")}
        finally:
            proxied.stop()

    def test_it_ends_with_its_token_and_after_a_week(self, site: Site, clock: Clock) -> None:
        token = site.server.service.create_token("anna", scope="admin")
        visitor = Visitor(site.url)
        use(visitor, site.server.service.sign_in_link(caller=token.id).path)
        clock.advance(SESSION_S - 1)
        forget_sessions(site)
        assert visitor.get("/events").status == 200
        clock.advance(2)
        forget_sessions(site)
        assert visitor.get("/events").status == 303
        use(visitor, site.server.service.sign_in_link(caller=token.id).path)
        assert visitor.get("/events").status == 200
        site.server.service.revoke_token(token.id)
        forget_sessions(site)
        assert visitor.get("/events").headers["location"] == "/sign-in?next=%2Fevents"
        assert visitor.get("/events", {"X-Fragments": "1"}).status == 401

    def test_signing_out_ends_the_session_for_every_copy_of_the_cookie(self, site: Site) -> None:
        visitor, thief = Visitor(site.url), Visitor(site.url)
        use(visitor, link_of(site))
        thief.cookies = dict(visitor.cookies)
        assert thief.get("/events").status == 200
        visitor.post("/sign-out")
        assert visitor.cookies == {}
        assert thief.get("/events").status == 303

    @pytest.mark.parametrize("path", [path for path in ROUTES if path != "/"])
    def test_no_page_is_shown_without_a_session(self, site: Site, path: str) -> None:
        seen = Visitor(site.url).get(re.sub(r"\{\w+\}", "1", path))
        assert seen.status == 303
        assert seen.headers["location"].startswith("/sign-in?next=")

    def test_it_is_no_token_of_the_api(self, site: Site) -> None:
        visitor = Visitor(site.url)
        use(visitor, link_of(site))
        assert visitor.get("/v1/items").status == 401
        (secret,) = visitor.cookies.values()
        assert Visitor(site.url).get("/v1/items", {"Authorization": f"Bearer {secret}"}).status == 401


class TestForms:
    """A form of another host is refused, whatever cookie the browser sends along."""

    @pytest.mark.parametrize("path", ["/do", "/sign-in", "/sign-out", *FORM_ROUTES])
    @pytest.mark.parametrize(
        ("origin", "headers"),
        [
            ("https://evil.example", {}),
            ("null", {}),
            (None, {}),
            (None, {"Sec-Fetch-Site": "cross-site"}),
            (None, {"Sec-Fetch-Site": "same-site"}),
            (None, {"Sec-Fetch-Site": "none"}),
        ],
    )
    def test_of_another_host(
        self, site: Site, admin: Visitor, path: str, origin: str | None, headers: dict[str, str]
    ) -> None:
        item = site.server.service.add([NewItem(title="keep me")])[0].arrival
        form = {"operation": "cancel", "arguments": json.dumps({"item": item, "why": "x"}), "key": "k"}
        seen = admin.post(path, form, origin=origin, headers=headers)
        assert seen.status == 403
        assert "another host" in seen.words
        assert site.server.service.show(item or 0).item.status == "pending"
        assert admin.get("/events").status == 200, "it is still signed in"

    def test_of_another_port(self, site: Site, admin: Visitor) -> None:
        assert admin.post("/do", {}, origin="http://127.0.0.1:1").status == 403

    def test_a_get_does_nothing(self, site: Site, admin: Visitor) -> None:
        item = site.server.service.add([NewItem(title="keep me")])[0].arrival
        assert admin.get(f"/do?operation=cancel&arguments=%7B%22item%22%3A{item}%7D&key=k").status == 405
        assert admin.get("/sign-out").status == 405
        assert admin.get("/events").status == 200

    def test_a_reader_cannot_act_by_a_made_up_form(self, site: Site, reader: Visitor) -> None:
        item = site.server.service.add([NewItem(title="keep me")])[0].arrival
        form = {"operation": "cancel", "arguments": json.dumps({"item": item, "why": "x"}), "key": "k"}
        assert reader.post("/do", form).status == 403
        assert site.server.service.show(item or 0).item.status == "pending"

    def test_an_operation_that_only_reads_is_no_action(self, admin: Visitor) -> None:
        for name in ("items", "tokens", "events", "close", "__init__"):
            assert admin.post("/do", {"operation": name, "arguments": "{}", "key": "k"}).status == 422


def test_no_line_of_the_log_has_a_link_a_session_or_a_token(site: Site) -> None:
    """What requests carry in queries, bodies and cookies stays out of the log; their paths are in it."""
    lines = io.StringIO()
    before = structlog.get_config()
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(0),
        logger_factory=structlog.WriteLoggerFactory(lines),
        processors=[structlog.processors.JSONRenderer()],
    )
    try:
        logging = Site(site.server.service)  # a server takes its log when it is made
        with redirect_stdout(lines), redirect_stderr(lines):
            link, visitor = link_of(site), Visitor(logging.url)
            visitor.get(link)
            use(visitor, link)
            use(visitor, link)
            visitor.get("/events?agent=secret-agent")
            token = site.token()
            visitor.post("/sign-in", {"token": token, "next": "/"})
            visitor.post("/sign-in", {"token": f"{token}x", "next": "/"})
            sessions = list(visitor.cookies.values())
            visitor.post("/sign-out")
        logging.stop()
    finally:
        structlog.configure(**before)
    said = lines.getvalue()
    assert '"/sign-in"' in said, "the requests are logged"
    assert '"/events"' in said
    for secret in (secret_of(link), token, *sessions, "secret-agent"):
        assert secret not in said
        assert secret.rpartition("_")[2] not in said

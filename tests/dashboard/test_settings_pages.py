"""The settings: modes, paused projects, tokens, and the trial of rules on a payload."""

from __future__ import annotations

import html
import json
import logging
import re
from typing import Any

import pytest
from markupsafe import escape

from interlock import __version__
from interlock.dashboard.pages.trial import EXAMPLE, EXAMPLE_RULES
from interlock.service.local import LocalService
from tests.dashboard.client import Seen, Site, Visitor
from tests.dashboard.plan_scenes import HOSTILE, LONG, RIGHT_TO_LEFT
from tests.http.serving import Serving


def service_of(site: Site) -> LocalService:
    return site.server.service


class TestSettings:
    def test_a_fresh_store_says_what_holds(self, admin: Visitor) -> None:
        words = admin.get("/settings").words
        for told in (
            "Signed in as test",
            "admin: may do everything",
            "All lanes are in the mode enforce.",
            "No project is paused.",
            "assigned issues issues.assigned issue_work coalesce",
            "Tokens 2",
        ):
            assert told in words, told

    def test_the_store_and_the_version_are_named(self, site: Site, admin: Visitor) -> None:
        words = admin.get("/settings").words
        assert f"Store {service_of(site).lineage().store}" in words
        assert f"Interlock {__version__}" in words

    def test_two_visitors_of_one_scope_are_each_called_by_their_own_name(self, site: Site) -> None:
        """They share the rendered page, but for the name."""
        seen = []
        for name in ("anna", "bert"):
            visitor = Visitor(site.url)
            visitor.sign_in(str(service_of(site).create_token(name, scope="read").token))
            seen.append(visitor.get("/settings"))
        assert [re.findall("Signed in as (\\w+)", each.words) for each in seen] == [["anna"], ["bert"]]
        assert seen[0].headers["etag"] == seen[1].headers["etag"], "they share it"
        assert "anna" not in seen[1].text

    def test_a_mode_is_set_and_enforced_again(self, site: Site, admin: Visitor) -> None:
        forms = [form for form in admin.get("/settings").forms() if form["operation"] == "set_mode"]
        assert admin.do(forms[0], scope="project", value="acme/app", mode="observe").status == 303
        seen = admin.get("/settings")
        assert "the project acme/app observe" in seen.words
        back = next(form for form in seen.forms() if form["said"] == "Enforce")
        assert admin.do(back).status == 303
        assert [rule.mode for rule in service_of(site).modes()] == ["enforce"]
        assert service_of(site).events()[-1].data["by"] == "test"

    def test_a_project_is_paused_and_resumed(self, site: Site, admin: Visitor) -> None:
        form = next(f for f in admin.get("/settings").forms() if f["operation"] == "pause_project")
        refused = admin.do(form, project="acme/app", why="A release.")
        assert refused.status == 404
        pause = refused.form("pause_project")
        assert admin.do(pause, why="A release.").status == 303
        seen = admin.get("/settings")
        assert "acme/app A release." in seen.words
        resume = next(f for f in seen.forms() if f["said"] == "Resume")
        assert admin.do(resume).status == 303
        assert service_of(site).paused_projects() == {}

    def test_a_reader_sees_no_token_and_no_action(self, site: Site, reader: Visitor, coder: Visitor) -> None:
        service_of(site).create_token("secret-machine", scope="admin")
        for visitor in (reader, coder):
            seen = visitor.get("/settings")
            assert seen.status == 200
            assert seen.forms() == []
            assert 'action="/settings/tokens"' not in seen.text
            assert "secret-machine" not in seen.text
            assert "Create token" not in seen.words

    def test_texts_are_texts(self, site: Site, admin: Visitor) -> None:
        for n, text in enumerate((HOSTILE, RIGHT_TO_LEFT, LONG)):
            service_of(site).pause_project(f"p{n}", paused=True, why=text, create=True)
        seen = admin.get("/settings")
        assert HOSTILE not in seen.text
        assert html.escape(HOSTILE) in seen.text
        assert "style=" not in seen.text

    @pytest.mark.parametrize("size", [1, 300])
    def test_the_page_is_four_operations_and_small(
        self, site: Site, admin: Visitor, monkeypatch: pytest.MonkeyPatch, size: int
    ) -> None:
        service = service_of(site)
        for n in range(size):
            service.set_mode(scope="lane", value=f"issue:acme/application-{n}#", mode="observe")
            service.pause_project(f"acme/{n}", paused=True, why="A release is under way.", create=True)
            service.create_token(f"machine-{n}", scope="agent:coder")
        called: list[str] = []
        call = site.server.call

        async def counted(bearer: Any, name: str, given: dict[str, Any]) -> Any:
            called.append(name)
            return await call(bearer, name, given)

        monkeypatch.setattr(site.server, "call", counted)
        seen = admin.get("/settings")
        assert called == ["modes", "paused_projects", "lineage", "tokens"]
        assert len(seen.text) < 60_000

    def test_modes_and_projects_are_paged(self, site: Site, admin: Visitor) -> None:
        for n in range(20):
            service_of(site).set_mode(scope="lane", value=f"lane-{n:02}", mode="observe")
            service_of(site).pause_project(f"project-{n:02}", paused=True, why="x", create=True)
        for name, kind in (("modes", "lane"), ("projects", "project")):
            shown = [
                re.findall(rf'data-key="[\w-]*({kind}-\d\d)"', admin.get(f"/settings{query}").text)
                for query in ("", f"?{name}=15")
            ]
            assert f'href="/settings?{name}=15#{name}"' in admin.get("/settings").text
            assert [len(each) for each in shown] == [15, 5]
            assert len(set(shown[0] + shown[1])) == 20


class TestTokens:
    def create(self, visitor: Visitor, **fields: str) -> Seen:
        given = {"name": "build-2", "scope": "agent", "agent": "coder", "expires": "90 days", **fields}
        return visitor.post("/settings/tokens", {"back": "/settings", **given})

    def test_a_new_token_is_shown_once_with_a_line_for_a_shell(self, site: Site, admin: Visitor) -> None:
        seen = self.create(admin)
        assert seen.status == 200
        line = re.search(
            r"export INTERLOCK_URL=(\S+) INTERLOCK_TOKEN=(il_\w{12}_[\w-]+)", html.unescape(seen.text)
        )
        assert line, seen.words
        assert line[1] == site.url
        bearer, scope = service_of(site).bearer(line[2])
        assert (bearer.name, str(scope)) == ("build-2", "agent:coder")
        assert bearer.expires_at is not None
        assert "This address works on this machine only." in seen.words
        assert "no-store" in seen.headers["cache-control"]
        assert "data-live" not in seen.text, "the script does not fetch it again"
        assert line[2] not in admin.get("/settings").text
        assert "build-2" in admin.get("/settings").words

    @pytest.mark.parametrize(
        ("fields", "scope"), [({"scope": "read"}, "read"), ({"scope": "admin", "expires": "never"}, "admin")]
    )
    def test_scopes(self, site: Site, admin: Visitor, fields: dict[str, str], scope: str) -> None:
        self.create(admin, **fields)
        made = service_of(site).tokens()[-1]
        assert made.scope == scope
        assert (made.expires_at is None) == (scope == "admin")

    @pytest.mark.parametrize(
        "fields", [{"name": ""}, {"name": "a b"}, {"agent": ""}, {"scope": "root"}, {"expires": "soon"}]
    )
    def test_a_wrong_form_creates_none(self, site: Site, admin: Visitor, fields: dict[str, str]) -> None:
        before = len(service_of(site).tokens())
        assert self.create(admin, **fields).status == 422
        assert len(service_of(site).tokens()) == before

    def test_only_an_administrator_of_this_host_creates_one(
        self, site: Site, admin: Visitor, reader: Visitor, coder: Visitor
    ) -> None:
        before = len(service_of(site).tokens())
        for visitor in (reader, coder):
            assert self.create(visitor).status == 403
        fields = {"name": "x", "scope": "admin", "agent": "", "expires": "never"}
        for origin in ("https://evil.example", None, "null"):
            assert admin.post("/settings/tokens", fields, origin=origin).status == 403
        assert Visitor(site.url).post("/settings/tokens", fields).status == 303, "to the sign-in"
        assert admin.get("/settings/tokens").status == 405
        assert len(service_of(site).tokens()) == before

    def test_a_token_is_revoked_and_listed_as_such(self, site: Site, admin: Visitor) -> None:
        token = service_of(site).create_token("old-phone", scope="read")
        seen = admin.get("/settings")
        form = next(f for f in seen.forms() if json.loads(f["arguments"]) == {"token": token.id})
        assert admin.do(form).status == 303
        words = admin.get("/settings").words
        assert "1 revoked or expired" in words
        assert re.search("old-phone .* revoked just now", words)

    def test_no_log_has_the_token(
        self, admin: Visitor, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
    ) -> None:
        caplog.set_level(logging.DEBUG)
        secret = re.search(r"il_\w{12}_[\w-]+", self.create(admin).text)
        assert secret
        said = "".join(capfd.readouterr()) + caplog.text
        assert secret[0] not in said

    def test_valid_tokens_are_paged(self, site: Site, admin: Visitor) -> None:
        for n in range(40):
            service_of(site).create_token(f"machine-{n}", scope="read")
        first, second = admin.get("/settings"), admin.get("/settings?tokens=15")
        assert 'href="/settings?tokens=15#tokens"' in first.text
        shown = [re.findall("machine-\\d+ ", each.words) for each in (first, second)]
        assert [len(each) for each in shown] == [15, 15]
        assert not set(shown[0]) & set(shown[1])


class TestTrial:
    def tried(self, visitor: Visitor, **fields: str) -> Seen:
        return visitor.post("/settings/try", {"back": "/settings/try", "payload": EXAMPLE, **fields})

    def test_the_example_creates_work(self, reader: Visitor) -> None:
        page = reader.get("/settings/try?example=1")
        assert escape('"action": "assigned"') in page.text
        seen = self.tried(reader, rules=EXAMPLE_RULES)
        assert seen.status == 200
        for told in (
            "issues.assigned on acme/app#42 The login page is blank on small screens",
            "issues.assigned coder : creates by default: assigned issues",
            "issue_work for coder , priority 8, on issue:acme/app#42 , coalesce",
        ):
            assert told in seen.words, told

    def test_own_rules_are_tried_instead(self, admin: Visitor) -> None:
        rules = (
            EXAMPLE_RULES + '[[rule]]\nevent = "issues.assigned"\ntype = "fix"\nagent = "ada"\npriority = 3\n'
        )
        words = self.tried(admin, rules=rules).words
        assert "fix for ada , priority 3" in words, words

    def test_an_outsider_wakes_no_agent(self, admin: Visitor) -> None:
        payload = json.loads(EXAMPLE)
        payload |= {
            "action": "created",
            "comment": {
                "id": 5,
                "body": "@coder please look",
                "user": {"login": "mallory"},
                "html_url": "https://github.com/acme/app/issues/42#issuecomment-5",
                "created_at": "2026-11-19T09:06:00Z",
                "updated_at": "2026-11-19T09:06:00Z",
            },
        }
        text = json.dumps(payload)
        insider, outsider = self.tried(admin, payload=text), self.tried(admin, payload=text, outsider="on")
        assert "creates by" in insider.words
        assert "creates by" not in outsider.words
        assert "creates nothing" in outsider.words

    @pytest.mark.parametrize(
        ("fields", "told"),
        [
            ({"payload": "{"}, "The payload is not valid JSON."),
            ({"payload": "{}"}, "The payload does not show its event."),
            ({"payload": "[]", "event": "issues"}, "The delivery is not a JSON object."),
            ({"rules": "[[rule]"}, "is not valid TOML"),
            ({"event": "no such event!"}, "is not a valid event name."),
        ],
    )
    def test_a_mistake_is_a_sentence_and_keeps_the_form(
        self, admin: Visitor, fields: dict[str, str], told: str
    ) -> None:
        seen = self.tried(admin, **fields)
        assert seen.status == 422
        assert told in seen.words
        for text in fields.values():
            if "event" not in fields:
                assert escape(text) in seen.text

    def test_an_empty_payload_says_so(self, admin: Visitor) -> None:
        assert "The payload is empty." in self.tried(admin, payload=" ").words

    @pytest.mark.parametrize("path", ["title", "login", "label"])
    def test_texts_of_payloads_are_texts(self, admin: Visitor, path: str) -> None:
        payload = json.loads(EXAMPLE)
        if path == "title":
            payload["issue"]["title"] = HOSTILE
        elif path == "login":
            payload["issue"]["assignees"][0]["login"] = HOSTILE
        else:
            payload["issue"]["labels"][0]["name"] = HOSTILE
        seen = self.tried(admin, payload=json.dumps(payload))
        assert HOSTILE not in seen.text

    def test_nothing_is_stored(self, site: Site, admin: Visitor) -> None:
        before = len(service_of(site).events())
        self.tried(admin)
        assert len(service_of(site).events()) == before

    def test_a_visitor_without_a_session_and_a_form_of_another_host_are_refused(
        self, site: Site, admin: Visitor
    ) -> None:
        assert Visitor(site.url).post("/settings/try", {"payload": "{}"}).status == 303
        assert admin.post("/settings/try", {"payload": "{}"}, origin="https://evil.example").status == 403
        assert isinstance(site, Serving)

"""The plans, one plan, and the series: what their pages show, and how much they read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from interlock.app import open_service
from interlock.core.plans.model import Graph, TaskSpec
from tests.dashboard.client import Site, Visitor
from tests.dashboard.plan_scenes import (
    CODER,
    HOSTILE,
    LONG,
    RIGHT_TO_LEFT,
    answer,
    asked,
    do,
    fail,
    layered_plan,
    note_series,
    release_plan,
    usual_edit,
)

LINES = "</text><script>"


def service_of(site: Site) -> Any:
    return site.server.service


class TestPlans:
    def test_without_a_plan_the_page_names_the_command(self, admin: Visitor) -> None:
        seen = admin.get("/plans")
        assert seen.status == 200
        assert "There are no plans." in seen.words
        assert "interlock plan create" in seen.words
        assert "No plan matches." in admin.get("/plans?status=failed").words

    def test_rows_filters_and_pages(self, site: Site, admin: Visitor) -> None:
        service = service_of(site)
        made = [layered_plan(service, 2, width=2).id for _ in range(60)]
        do(service, made[0], "step-0000", "step-0001")
        first = admin.get("/plans")
        assert first.text.count('href="/plans/') == 50
        assert f"/plans?before={made[10]}" in first.text
        second = admin.get(f"/plans?before={made[10]}")
        assert f'href="/plans/{made[9]}"' in second.text
        assert f'href="/plans/{made[10]}"' not in second.text
        done = admin.get("/plans?status=completed").words
        assert "2 of 2" in done
        assert "0 of 2" not in done
        assert "the newest 10,000" in done

    def test_texts_are_texts(self, site: Site, admin: Visitor) -> None:
        service = service_of(site)
        service.set_agent(CODER)
        graph = Graph(tasks=(TaskSpec(key="x", title=HOSTILE, agent=CODER),))
        for name in (HOSTILE, RIGHT_TO_LEFT, LONG[:200]):
            plan = service.create_plan(name, graph).id
            for path in ("/plans", f"/plans/{plan}", f"/plans/{plan}?revision=1"):
                seen = admin.get(path)
                assert seen.status == 200, seen.words
                assert LINES not in seen.text
                assert "style=" not in seen.text

    @pytest.mark.parametrize("query", ["status=gone", "before=x", "project=%00", "before=0"])
    def test_a_wrong_parameter_is_a_sentence(self, admin: Visitor, query: str) -> None:
        assert admin.get(f"/plans?{query}").status in (400, 422)


class TestPlan:
    def test_a_small_plan_is_drawn_with_links(self, site: Site, admin: Visitor) -> None:
        service = service_of(site)
        plan = release_plan(service)
        seen = admin.get(f"/plans/{plan.id}")
        assert seen.status == 200
        for task in plan.tasks:
            assert f'class="il-task" href="/items/{task.item}"' in seen.text
        assert "1 pending" in seen.words
        assert "8 waiting" in seen.words

    def test_an_edit_cycle_shows_who_must_answer_and_what_is_held_back(
        self, site: Site, admin: Visitor
    ) -> None:
        service = service_of(site)
        plan = release_plan(service).id
        do(service, plan, "design")
        seen = admin.get(f"/plans/{plan}").words
        assert "Waits for an edit by planner not started" in seen
        assert "Ended since the last edit: design." in seen
        assert "Held back: server , client , docs" in seen.replace(" .", "")
        lease = asked(service)
        fence = f"run&nbsp;{lease.fence}</span></h2>"
        assert fence in admin.get(f"/plans/{plan}?revision=1").text
        answer(service, plan, lease, *usual_edit())
        seen = admin.get(f"/plans/{plan}?revision=2").words
        assert "Waits for an edit" not in seen
        assert "revision 2 of 2" in seen
        for told in (
            "removed task migrate",
            "added task audit",
            "changed task docs title:",
            "removed edge server → migrate",
            "The design changed the order.",
        ):
            assert told in seen, told

    def test_an_earlier_revision_is_drawn_as_it_was(self, site: Site, admin: Visitor) -> None:
        service = service_of(site)
        plan = release_plan(service).id
        do(service, plan, "design")
        answer(service, plan, asked(service), *usual_edit())
        then, now = admin.get(f"/plans/{plan}?revision=1"), admin.get(f"/plans/{plan}")
        assert "Graph of revision 1" in then.words
        assert "migrate: Move stored rows" in then.text
        assert "audit" not in then.text.partition('id="tasks"')[0]
        assert "migrate, removed" in now.text
        assert "audit: Audit the new fields, pending, added" in now.text
        assert admin.get(f"/plans/{plan}?revision=3").status == 404

    def test_it_is_paused_resumed_cancelled_and_given_a_deadline(self, site: Site, admin: Visitor) -> None:
        service = service_of(site)
        plan = release_plan(service).id
        path = f"/plans/{plan}"
        assert admin.do(admin.get(path).form("pause_plan"), why="lunch").status == 303
        seen = admin.get(path)
        assert "Paused lunch" in seen.words
        assert "Held back: design" in seen.words
        assert admin.do(seen.form("resume_plan")).status == 303
        assert admin.do(admin.get(path).form("set_edit_deadline"), edit_deadline_s="120").status == 303
        assert service.plan(plan).edit_deadline_s == 120
        assert admin.do(admin.get(path).form("cancel_plan"), why="no release").status == 303
        assert service.plan(plan).status == "cancelled"
        assert admin.get(path).forms() == []

    def test_a_failed_task_can_be_retried(self, site: Site, admin: Visitor) -> None:
        service = service_of(site)
        plan = layered_plan(service, 4, width=2).id
        fail(service, plan, "step-0000")
        seen = admin.get(f"/plans/{plan}")
        assert "Failed tasks step-0000" in seen.words
        assert admin.do(seen.form("retry")).status == 303
        assert service.plan(plan).tasks[0].status == "pending"

    def test_a_reader_sees_no_action(self, site: Site, reader: Visitor, coder: Visitor) -> None:
        plan = release_plan(service_of(site)).id
        for visitor in (reader, coder):
            seen = visitor.get(f"/plans/{plan}")
            assert seen.status == 200
            assert seen.forms() == []
            assert "Pause" not in seen.text.partition("<main")[2]

    def test_a_large_plan_is_listed_page_by_page(self, site: Site, admin: Visitor) -> None:
        service = service_of(site)
        plan = layered_plan(service, 420, width=20)
        seen = admin.get(f"/plans/{plan.id}")
        assert "<svg xmlns" not in seen.text
        assert "Graphs of up to 400 tasks are drawn" in seen.words
        assert f"/plans/{plan.id}?after={plan.tasks[49].item}" in seen.text
        following = admin.get(f"/plans/{plan.id}?after={plan.tasks[49].item}")
        assert "step-0050" in following.text
        assert "step-0049" not in following.text
        layers = admin.get(f"/plans/{plan.id}?show=layers").words
        assert "Longest chain 21 tasks" in layers
        assert "20 0 of 20" in layers

    @pytest.mark.parametrize("path", ["/plans/x", "/plans/1?revision=x", "/plans/99999", "/plans/1?after=-1"])
    def test_a_wrong_address_is_a_sentence(self, admin: Visitor, path: str) -> None:
        assert admin.get(path).status in (400, 404, 422)

    def test_it_is_unchanged_until_something_happens(self, site: Site, admin: Visitor) -> None:
        service = service_of(site)
        plan = release_plan(service).id
        do(service, plan, "design")
        path = f"/plans/{plan}"
        tag = admin.get(path).headers["etag"]
        assert admin.get(path, {"X-Fragments": "1", "If-None-Match": tag}).status == 304


class TestCosts:
    """How many operations a page performs, whatever the number of plans and the size of the plan."""

    @pytest.mark.parametrize(("size", "operations"), [(3, 3), (300, 3), (500, 4), (2_000, 4)])
    def test_a_plan_is_a_bounded_number_of_operations(
        self, site: Site, admin: Visitor, monkeypatch: pytest.MonkeyPatch, size: int, operations: int
    ) -> None:
        service = service_of(site)
        plan = layered_plan(service, size, width=min(size, 20)).id
        assert len(self._calls(site, admin, monkeypatch, f"/plans/{plan}")) == operations

    @pytest.mark.parametrize("plans", [1, 60])
    def test_the_list_is_one_operation(
        self, site: Site, admin: Visitor, monkeypatch: pytest.MonkeyPatch, plans: int
    ) -> None:
        for _ in range(plans):
            layered_plan(service_of(site), 2, width=2)
        assert self._calls(site, admin, monkeypatch, "/plans") == ["plans"]

    def test_a_page_of_a_plan_of_ten_thousand_tasks_is_small(self, site: Site, admin: Visitor) -> None:
        plan = layered_plan(service_of(site), 10_000, width=100).id
        assert len(admin.get(f"/plans/{plan}").text) < 60_000

    def _calls(self, site: Site, admin: Visitor, monkeypatch: pytest.MonkeyPatch, path: str) -> list[str]:
        called: list[str] = []
        call = site.server.call

        async def counted(bearer: Any, name: str, given: dict[str, Any]) -> Any:
            called.append(name)
            return await call(bearer, name, given)

        monkeypatch.setattr(site.server, "call", counted)
        assert admin.get(path).status == 200
        return called


@pytest.fixture
def series_site(one_site: Site, tmp_path: Path) -> Iterator[Site]:
    """A store whose service knows series, as the composition root opens it."""
    with closing(open_service(url=f"sqlite:///{tmp_path}/series.db")) as service:
        one_site.serve(service)  # type: ignore[arg-type]
        yield one_site
        one_site.leave()


class TestSeries:
    def test_without_a_series_the_page_names_the_command(self, series_site: Site) -> None:
        seen = series_site.visitor().get("/series")
        assert seen.status == 200
        assert "There are no series." in seen.words
        assert "interlock series reconcile --repo OWNER/NAME" in seen.words
        assert seen.form("reconcile_series")["arguments"] == "{}"

    def test_a_series_shows_its_active_issue_queue_and_last_reconcile(self, series_site: Site) -> None:
        service = service_of(series_site)
        note_series(service)
        note_series(service, "acme/lib", "RFC-001")
        seen = series_site.visitor().get("/series")
        words = seen.words
        for told in (
            "acme/app",
            "acme/lib",
            "RFC-093 #12 assigned to copilot",
            "1 #14 next",
            "2 #15 blocked by #14",
            "#23 blocked by RFC-092",
            "1 ignored",
            "state issue #3",
            "#11 ended: completed; #12 promoted: #11 completed",
            "#11 to #12, #11 completed,",
            "7 promotions · 2 duplicates prevented · 1 retry · 3 conflicts",
            "enforce",
        ):
            assert told in words, told
        assert 'href="https://github.com/acme/app/issues/12"' in seen.text
        one = series_site.visitor().get("/series?repository=acme/lib").words
        assert "acme/app" not in one
        assert "RFC-001" in one

    def test_without_a_token_an_action_says_so(
        self, series_site: Site, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("INTERLOCK_GITHUB_TOKEN", "GITHUB_TOKEN", "GH_TOKEN"):
            monkeypatch.delenv(name, raising=False)
        note_series(service_of(series_site))
        admin = series_site.visitor()
        seen = admin.get("/series")
        for operation in (
            "acquire_issue",
            "release_issue",
            "promote_series",
            "reconcile_series",
            "rebuild_series",
        ):
            typed = {"issue": "14"} if operation == "acquire_issue" else {}
            refused = admin.do(seen.form(operation), **typed)
            assert refused.status in (401, 403, 422, 424, 503), operation
            assert "token" in refused.words, operation

    def test_a_reader_sees_no_action(self, series_site: Site) -> None:
        note_series(service_of(series_site))
        seen = series_site.visitor("read").get("/series")
        assert seen.forms() == []
        assert "Acquire" not in seen.words

    def test_a_wrong_repository_is_a_sentence(self, series_site: Site) -> None:
        assert series_site.visitor().get("/series?repository=%3Cscript%3E").status == 422

"""Traces: one for everything that becomes of a delivery or an item, across processes, sent by OTLP."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from interlock.core import tracing
from interlock.core.model import NewItem, Policy
from interlock.core.tracing import TraceContext, read
from interlock.service.contract import Report
from interlock.service.local import LocalService
from interlock.service.spans import Span, Spans
from interlock.service.trace_export import MARK, TraceExporter
from interlock.store.postgres.database import Database
from interlock.store.postgres.store import PostgresStore
from tests.acceptance.command import Command
from tests.faults.processes import wait_until
from tests.github.fake import FakeGitHub, Repository
from tests.github.fixtures import github  # noqa: F401
from tests.http.requests import ask
from tests.http.serving import Serving, local_service
from tests.http.up import Up
from tests.monitoring.collector import Collector

# ruff: noqa: F811  (fixtures)

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
RULES = """
progress_comments = true
[[rule]]
event = 'issues.opened'
type = 'work'
agent = 'coder'
"""


@pytest.fixture
def collector() -> Iterator[Collector]:
    found = Collector()
    yield found
    found.stop()


@pytest.fixture(params=["sqlite", "postgres18"])
def service(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LocalService]:
    if request.param == "sqlite":
        found = local_service(tmp_path / "store.db")
    else:
        found = LocalService(PostgresStore(Database(request.getfixturevalue("pg_database18"))))
    yield found
    found.close()


def environ_of(collector: Collector, **more: str) -> dict[str, str]:
    return {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, **more}


@pytest.fixture
def following(
    service: LocalService, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> Iterator[TraceExporter]:
    for name, value in environ_of(collector).items():
        monkeypatch.setenv(name, value)
    spans = Spans(os.environ)
    found = TraceExporter(service.store, spans, os.environ)
    found.follow()
    yield found
    spans.close()


# -- the whole way, by real processes --------------------------------------------------------------------


def test_one_trace_leads_from_a_delivery_to_the_merge(
    github: FakeGitHub, collector: Collector, tmp_path: Path
) -> None:
    repo = github.repository("acme/app", admin=["boss"], write=["alice", "bob"])
    repo.commit({".github/interlock.toml": RULES})
    traced = environ_of(collector, OTEL_SERVICE_NAME="fleet")
    asking = {"INTERLOCK_GITHUB_TOKEN": github.token("boss"), "GITHUB_API_URL": github.api_url}
    up = Up(tmp_path, INTERLOCK_WEBHOOK_SECRET="s3cret", **asking, **traced)
    try:
        repo.hook(url=f"{up.url}/webhooks/github", secret="s3cret")
        _work_through(repo, up, collector, tmp_path, traced)
        text = ask(up.url, "GET", "/metrics", token=up.token).text.decode()
    finally:
        up.end()
    (run,) = collector.named("run")
    (item,) = (got for got in collector.named("item") if got.span == run.parent)
    mine = {got.span: got for got in collector.spans if got.trace == item.trace}
    names = {got.name for got in mine.values()}
    assert names >= {"webhook", "decide", "add", "item", "claim", "run", "effect", "merge"}
    (root,) = (got for got in mine.values() if not got.parent)
    assert root.name == "webhook"
    assert root.attributes["interlock.event"] == "issues"
    assert all(got.parent in mine for got in mine.values() if got.parent), "no span hangs in the air"
    assert mine[mine[item.parent].parent] == root, "webhook, decide, item"
    assert {got.service for got in mine.values()} == {"fleet"}
    told = json.loads((tmp_path / "told.json").read_text())
    assert read(told["TRACEPARENT"]) == (run.trace, run.span, True)
    (merge,) = collector.named("merge")
    because = {(got.trace, got.span) for got in collector.named("decide")}
    assert because >= set(merge.links) != set(), "the delivery that said so"
    assert 'interlock_deliveries_total{outcome="decided"}' in text
    counted = {line.split()[0]: float(line.split()[1]) for line in text.splitlines() if line[0] != "#"}
    assert counted['interlock_deliveries_total{outcome="decided"}'] >= 2
    assert counted['interlock_webhooks_total{result="new"}'] >= 2
    assert counted['interlock_effects_total{outcome="sent"}'] >= 1
    assert counted['interlock_github_rate_left{resource="core"}'] > 0


def _work_through(
    repo: Repository, up: Up, collector: Collector, folder: Path, traced: dict[str, str]
) -> None:
    """An issue is opened, a worker works on it, and its pull request is merged."""
    repo.issue("It is broken", by="alice")
    command = "import json, os; json.dump(dict(os.environ), open('told.json', 'w'))"
    env = {"INTERLOCK_URL": f"sqlite:///{folder / 'store.db'}", "PATH": os.environ["PATH"], **traced}
    worker = Command(folder, env["INTERLOCK_URL"], env)
    worker.start("work", "--agent", "coder", "--limit", 1, "--", sys.executable, "-c", command).communicate()
    (run,) = collector.wait_for("run", "item", "effect")[:1]
    branch = f"interlock/run-{json.loads((folder / 'told.json').read_text())['INTERLOCK_FENCE']}"
    repo.commit({"fix": "1"}, by="bob", branch=branch, message="a change")
    pull = repo.pull("Fix", "", by="bob", head=branch)
    wait_until(lambda: _linked(up), "the pull request is linked")
    pull.merge(by="bob")
    collector.wait_for("merge")
    assert run.trace


def _linked(up: Up) -> bool:
    with closing(up.client()) as client:
        return bool(client.show(1).links)


def test_a_server_without_the_extra_serves_and_says_why_there_are_no_traces(
    tmp_path: Path, collector: Collector
) -> None:
    """As where the extra `otel` is not installed."""
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\nsys.modules['opentelemetry.sdk.resources'] = None\n"
    )
    up = Up(tmp_path, PYTHONPATH=str(tmp_path), **environ_of(collector))
    with closing(up.client()) as client:
        client.add([NewItem(title="work")])
    assert up.end() == 0
    assert "pip install '.[otel]'" in (tmp_path / "log").read_text()
    assert collector.spans == []


# -- what becomes spans ----------------------------------------------------------------------------------


def test_an_item_has_its_arrival_claim_run_and_end_in_one_trace(
    service: LocalService, following: TraceExporter, collector: Collector
) -> None:
    (added,) = service.add([NewItem(title="work", lane="issue:acme/app#1", agent="coder", priority=5)])
    (lease,) = service.next("coder")
    service.done([Report(run=lease.run)])
    following.follow()
    spans = {got.name: got for got in collector.spans}
    assert spans.keys() == {"add", "claim", "run", "item"}
    assert len({got.trace for got in spans.values()}) == 1
    item = spans.pop("item")
    assert (item.parent, item.status, item.service) == ("", 0, "interlock")
    assert {got.parent for got in spans.values()} == {item.span}
    assert item.attributes["interlock.lane"] == "issue:acme/app#1"
    assert spans["add"].attributes["interlock.decision"] == "admitted"
    assert (spans["run"].attributes["interlock.run"], spans["run"].attributes["interlock.agent"]) == (
        1,
        "coder",
    )
    assert spans["claim"].end_ns <= spans["run"].end_ns
    assert added.arrival == item.attributes["interlock.item"]


def test_failures_are_errors_and_each_attempt_has_a_span(
    service: LocalService, following: TraceExporter, collector: Collector
) -> None:
    service.add([NewItem(title="work", max_attempts=2)])
    first = service.next("coder")[0]
    service.fail([Report(run=first.run)])
    service.msg(first.item.id, "again")  # a person brings it back at once
    second = service.next("coder")[0]
    service.fail([Report(run=second.run)])
    following.follow()
    assert [got.status for got in collector.named("run")] == [2, 2]
    (item,) = collector.named("item")
    assert (item.status, item.attributes["interlock.status"]) == (2, "failed")


def test_an_arrival_that_is_absorbed_has_a_link_to_who_absorbed_it(
    service: LocalService, following: TraceExporter, collector: Collector
) -> None:
    lane: dict[str, Any] = {"lane": "issue:acme/app#1", "agent": "coder"}
    (first,) = service.add([NewItem(title="a", policy=Policy.COALESCE, message="a", **lane)])
    service.add([NewItem(title="b", policy=Policy.COALESCE, message="b", **lane)])
    following.follow()
    (absorbed,) = collector.named("item")
    view = service.show(first.arrival or 0).item
    at_us = round(view.created_at.timestamp() * 1_000_000)
    into = tracing.item_span(tracing.of_item(view.id, at_us, None, os.environ), view.id)
    assert absorbed.links == ((into.trace, into.span),)


def test_who_is_not_sampled_is_not_sent(
    service: LocalService, following: TraceExporter, collector: Collector
) -> None:
    service.add([NewItem(title="work", payload=json.dumps({"traceparent": PARENT[:-1] + "0"}))])
    following.follow()
    assert collector.spans == []
    assert service.store.mark(MARK) is not None


def test_spans_wait_for_a_collector_that_is_away_and_are_sent_once_it_is_back(
    service: LocalService, following: TraceExporter, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interlock.service.event_cursor.WAIT_S", 0.0)
    collector.refusing = True
    service.add([NewItem(title="work")])
    following.follow()
    assert (collector.spans, collector.refused) == ([], 1)
    collector.refusing = False
    following.follow()
    assert [got.name for got in collector.spans] == ["add"]
    following.follow()
    assert len(collector.spans) == 1


def test_spans_that_a_collector_refuses_for_good_are_left_out(
    service: LocalService, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    monkeypatch.setattr("interlock.service.event_cursor.WAIT_S", 0.0)
    monkeypatch.setattr("interlock.service.trace_export.TRIES_MAX", 3)
    told: list[str] = []
    spans = Spans(os.environ)
    following = TraceExporter(service.store, spans, os.environ, told.append)
    following.follow()
    service.add([NewItem(title="poison")])
    collector.refusing = True
    for _ in range(4):
        following.follow()
    assert told == [], "nobody is there who could refuse it"
    collector.refusing, collector.disliked = False, b"poison"
    following.follow()
    service.add([NewItem(title="work")])
    following.follow()
    spans.close()
    assert [got.attributes["interlock.title"] for got in collector.spans] == ["work"]
    (sentence,) = told
    assert sentence.endswith("5 times; they were dropped.")


def test_of_two_who_follow_one_tells(
    service: LocalService, following: TraceExporter, collector: Collector
) -> None:
    spans = Spans(os.environ)
    other = TraceExporter(service.store, spans, os.environ)
    service.add([NewItem(title=f"{n}") for n in range(20)])
    following.follow()
    other.follow()
    spans.close()
    assert len(collector.spans) == 20


def test_more_spans_than_can_wait_push_out_the_oldest(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    monkeypatch.setattr("interlock.service.spans.WAITING_MAX", 3)
    spans = Spans(os.environ)
    root = tracing.of_item(1, 1, None, os.environ)
    for n in range(5):
        spans.record(Span(f"s{n}", root.child(str(n)), "", n, n, {}))
    spans.close()
    assert [got.name for got in collector.spans] == ["s2", "s3", "s4"]


def test_spans_that_came_while_others_were_refused_push_out_those(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    monkeypatch.setattr("interlock.service.spans.WAITING_MAX", 3)
    spans = Spans(os.environ)
    made = [Span(f"s{n}", TraceContext("a" * 32, f"{n + 1:016}"), "", n, n, {}) for n in range(5)]
    for span in made[:3]:
        spans.record(span)

    def refuse(_: list[Span]) -> bool:
        for span in made[3:]:
            spans.record(span)
        return False

    with monkeypatch.context() as refusing:
        refusing.setattr(spans, "send", refuse)
        assert not spans.flush()
    spans.close()
    assert [got.name for got in collector.spans] == ["s2", "s3", "s4"]


# -- where a trace goes on -------------------------------------------------------------------------------


def test_an_item_goes_on_with_the_trace_of_the_request_or_the_command(
    serving: Serving, tmp_path: Path
) -> None:
    headers = {"traceparent": PARENT}
    body = {"items": [{"title": "a"}, {"title": "b", "payload": {"n": 1}}]}
    token = serving.token()
    answer = ask(serving.url, "POST", "/v1/items", body, token=token, headers=headers)
    ids = [each["arrival"] for each in answer.json["items"]]
    shown = [ask(serving.url, "GET", f"/v1/items/{n}", token=token).json["item"]["payload"] for n in ids]
    assert shown == [{"traceparent": PARENT}, {"n": 1, "traceparent": PARENT}]
    il = Command(tmp_path, env={"TRACEPARENT": PARENT})
    il.ok("add", "a", "--payload", '{"n": 1}')
    assert il.ok("show", 1)["item"]["payload"] == {"n": 1, "traceparent": PARENT}
    plain = Command(tmp_path, env={"TRACEPARENT": "nonsense"})
    plain.ok("add", "b")
    assert plain.ok("show", 2)["item"]["payload"] in (None, {})


def test_a_payload_that_is_nearly_full_stays_as_it_is(serving: Serving) -> None:
    payload = {"text": "x" * ((1 << 20) - 20)}
    answer = ask(
        serving.url,
        "POST",
        "/v1/items",
        {"items": [{"title": "a", "payload": payload}]},
        token=serving.token(),
        headers={"traceparent": PARENT},
    )
    assert answer.status == 200
    assert answer.json["items"][0]["decision"] == "admitted"


def test_nothing_is_imported_and_nothing_is_passed_on_where_nobody_traces(tmp_path: Path) -> None:
    script = (
        "import sys, os; from interlock.cli.main import main\n"
        "code = main(['work', '--agent', 'coder', '--limit', '1', '--', 'sh', '-c',"
        " 'test -z \"$TRACEPARENT\"'])\n"
        "found = [name for name in sys.modules if name.startswith('opentelemetry')]\n"
        "assert not found, found\nsys.exit(code)"
    )
    env = {k: v for k, v in os.environ.items() if not k.startswith(("OTEL_", "TRACEPARENT"))}
    il = Command(tmp_path)
    il.ok("add", "a")
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert il.ok("show", 1)["item"]["status"] == "completed"

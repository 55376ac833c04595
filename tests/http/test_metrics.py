"""`/metrics` of a real server: who may look, in which format, and what is there when the store is not."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from interlock.core.counters import KEPT, LEVELS
from interlock.core.errors import StoreUnavailable
from interlock.core.model import NewItem
from interlock.http import handlers
from interlock.http.instruments import OWN, Instruments
from interlock.service.contract import Report
from interlock.service.metrics import PREFIX
from tests.http.requests import Answered, ask
from tests.http.serving import Serving


def scrape(serving: Serving, scope: str = "read", **headers: str) -> Answered:
    return ask(serving.url, "GET", "/metrics", token=serving.token(scope), headers=headers)


def numbers(text: bytes) -> dict[str, float]:
    """Samples by name and labels, as Prometheus writes both."""
    return {
        sample.name + str(dict(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


@pytest.mark.parametrize("scope", ["read", "agent:coder", "admin"])
def test_any_token_may_look(serving: Serving, scope: str) -> None:
    answer = scrape(serving, scope)
    assert (answer.status, answer.headers["content-type"]) == (
        200,
        "text/plain; version=0.0.4; charset=utf-8",
    )
    assert b"interlock_store_up 1.0" in answer.text


def test_without_a_token_nobody_looks(serving: Serving) -> None:
    assert ask(serving.url, "GET", "/metrics").status == 401
    assert ask(serving.url, "GET", "/metrics", token="il_wrong").status == 401
    assert ask(serving.url, "POST", "/metrics", {}, token=serving.token()).status == 405


def test_every_metric_of_the_tables_is_there_and_no_other(serving: Serving) -> None:
    text = scrape(serving).text.decode()
    families = {line.split()[2].removesuffix("_total") for line in text.splitlines() if "# TYPE" in line}
    ours = {name for name in families if name.startswith(PREFIX)}
    duties = {"duty_age_seconds", "github_rate_left", "github_rate_limit"}  # of a whole server only
    named = {PREFIX + metric.name for metric in (*KEPT, *LEVELS, *OWN) if metric.name not in duties}
    assert ours == named


def test_what_a_client_does_is_counted(serving: Serving) -> None:
    client = serving.client()
    client.add([NewItem(title="work", project="acme", type="bug", priority=8)])
    before = numbers(scrape(serving).text)
    (lease,) = client.next("coder")
    client.done([Report(run=lease.run)])
    after = numbers(scrape(serving).text)
    work = "{'agent': 'coder', 'priority': '8', 'project': 'acme', 'type': 'bug'}"
    assert "interlock_claims_total" + work not in before
    assert after["interlock_claims_total" + work] == 1
    claims = "interlock_http_requests_total{'route': '/v1/claims', 'status': '200'}"
    assert after[claims] == before.get(claims, 0) + 1
    scraped = "interlock_http_requests_total{'route': '/metrics', 'status': '200'}"
    assert after[scraped] == before.get(scraped, 0) + 1


def test_addresses_that_nobody_has_make_no_labels(serving: Serving) -> None:
    for n in range(30):
        ask(serving.url, "GET", f"/nothing-{n}")
        ask(serving.url, "GET", f"/v1/items/{n}", token=serving.token())
    text = scrape(serving).text.decode()
    assert "nothing-" not in text
    routes = {
        line.partition('route="')[2].partition('"')[0] for line in text.splitlines() if 'route="' in line
    }
    assert routes <= {*(address.path for address in serving.app.addresses), "other"}
    assert "/v1/items/{item}" in routes


def test_openmetrics_is_served_to_whoever_asks_for_it(serving: Serving) -> None:
    answer = scrape(serving, Accept="application/openmetrics-text; version=1.0.0")
    assert answer.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    assert answer.text.endswith(b"# EOF\n")


@pytest.fixture
def shut(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """The store does not answer until the event is set."""
    opened = threading.Event()

    def wait() -> list[object]:
        opened.wait(60)
        raise StoreUnavailable("The database is away.")

    monkeypatch.setattr(serving.server.service, "metrics", wait)
    monkeypatch.setattr(handlers, "SCRAPE_S", 0.3)
    yield opened
    opened.set()


def test_a_store_that_is_away_or_slow_leaves_the_servers_own_numbers(
    serving: Serving, shut: threading.Event
) -> None:
    slow = scrape(serving)
    shut.set()
    gone = scrape(serving)
    for answer in (slow, gone):
        assert answer.status == 200
        assert b"interlock_store_up 0.0" in answer.text
        assert b"interlock_http_requests_total" in answer.text
        assert b"interlock_claims_total" not in answer.text


def test_duties_count_what_they_did_and_that_they_did_not() -> None:
    class Swept:
        decided, put_off, carried_out = 3, 1, 2

    instruments = Instruments()
    instruments.done("deliveries", Swept())
    instruments.done("sweeper", object())
    instruments.failed("effects")
    instruments.webhook("refused")
    found = numbers(instruments.text(None, "")[0])
    assert found["interlock_deliveries_total{'outcome': 'decided'}"] == 3
    assert found["interlock_deliveries_total{'outcome': 'put_off'}"] == 1
    assert found["interlock_effects_total{'outcome': 'sent'}"] == 0
    assert found["interlock_duty_failures_total{'duty': 'effects'}"] == 1
    assert found["interlock_webhooks_total{'result': 'refused'}"] == 1

"""A real Prometheus scrapes a real server: every metric, rule and panel means something to it."""

from __future__ import annotations

import importlib.util
import json
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

import pytest
import yaml

from interlock.cli.command import ENTRIES
from interlock.core.counters import COUNTER, HISTOGRAM, KEPT, LEVELS
from interlock.core.errors import EditRefused
from interlock.core.model import NewItem, Policy
from interlock.core.plans.model import AddTask, EdgeSpec, Graph, TaskSpec
from interlock.http.instruments import OWN
from interlock.service.contract import LeaseView, Report, Service
from interlock.service.metrics import PREFIX
from tests.faults.processes import wait_until
from tests.http.requests import ask
from tests.http.serving import local_service
from tests.http.up import Up
from tests.monitoring.prometheus import DEPLOY, RULES, Prometheus, promtool

BOARD = DEPLOY / "grafana" / "interlock.json"
#: What needs a GitHub, a loop of wake-ups or an owner that cannot start.
NOT_HERE = (
    *("github_rate", "wakes_stopped", "overtakings", "notices_failed", "plan_edits_rebased", "series_events"),
    "deliveries_left",
)


def live(service: Service, nth: int) -> None:
    """A bit of everything, on the store's own clock."""

    def work(agent: str = "coder", **wish: Any) -> LeaseView:
        (lease,) = service.next(agent, **wish)
        return lease

    service.set_pool("account", max_concurrency=99)
    service.set_agent("coder", pool="account")
    service.set_mode(scope="lane", value="watched:", mode="observe")
    service.add([NewItem(title="watched", lane=f"watched:{nth}", project="acme") for _ in range(2)])
    service.add([NewItem(title="slow", agent="slow", project="acme")])
    lost = work("slow", lease_s=1)
    service.add([NewItem(title=f"n{n}", project="acme", type="bug", priority=n) for n in range(5)])
    for _ in range(5):
        run = work().run
        service.cost(run, usd=0.1)
        service.done([Report(run=run)])
    service.fail([Report(run=work().run)])
    lane: dict[str, Any] = {"lane": f"issue:acme/app#{nth}", "policy": Policy.COALESCE, "message": "look"}
    (first,) = service.add([NewItem(title="first", agent="coder", **lane)])
    owner = work(item=first.arrival)
    (_, after) = service.add([NewItem(title="go on", agent=agent, **lane) for agent in ("coder", "other")])
    service.done([Report(run=owner.run, seen=2)])
    service.ask(work("other", item=after.arrival).run, "Which?")
    service.add([NewItem(title="hopeless", agent="tester", max_attempts=1)])
    hopeless = work("tester")
    service.fail([Report(run=hopeless.run)])
    service.retry(hopeless.item.id, why="perhaps")
    service.fail([Report(run=work("tester").run)])
    planner, editor = f"planner-{nth}", f"editor-{nth}"
    for agent in (planner, editor):
        service.set_agent(agent)
    tasks = tuple(TaskSpec(key=key, agent=planner) for key in "ABC")
    graph = Graph(tasks=tasks, edges=(EdgeSpec(source="A", target="B"),))
    plan = service.create_plan("release", graph, editor=editor)
    service.done([Report(run=work(planner, item=plan.tasks[0].item).run)])
    edit = work(editor)
    with pytest.raises(EditRefused):
        service.edit_plan(plan.id, base=1, operations=[AddTask(task=TaskSpec(key="A"))], run=edit.run)
    service.edit_plan(plan.id, base=1, operations=[AddTask(task=TaskSpec(key="D"))], run=edit.run)
    short = service.create_plan("short", Graph(tasks=(TaskSpec(key="A", agent=planner),)))
    service.cancel_plan(short.id, why="not needed")
    service.add(
        [NewItem(title="held", agent="coder", project="acme"), NewItem(title="waits", agent="nobody")]
    )
    work()
    while service.renew([Report(run=lost.run)])[0].refusal is None:
        time.sleep(1.1)
        service.sweep()


class Site(NamedTuple):
    """A server with some life behind it, and a Prometheus that scrapes it."""

    server: Up
    token: str
    prometheus: Prometheus


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    with ExitStack() as opened:
        server = Up(folder)
        opened.callback(server.end)
        service = local_service(folder / "store.db")
        opened.callback(service.close)
        live(service, 1)
        token = service.create_token("prometheus", scope="read").token
        assert token is not None
        prometheus = Prometheus(folder, [server.url.partition("://")[2]], token)
        opened.callback(prometheus.stop)
        found = Site(server, token, prometheus)
        scraped(found, 1)
        live(service, 2)
        yield found


def scraped(site: Site, times: int = 4) -> Prometheus:
    """After that many scrapes."""

    def enough() -> bool:
        found = site.prometheus.value('count_over_time(interlock_build_info{job="interlock"}[5m])')
        return (found or 0) >= times

    wait_until(enough, f"{times} scrapes")
    return site.prometheus


def test_promtool_finds_no_fault_in_the_metrics(site: Site) -> None:
    answer = ask(site.server.url, "GET", "/metrics", token=site.token)
    assert promtool("check", "metrics", stdin=answer.text.decode()) == ""


def test_promtool_finds_no_fault_in_the_rules_and_their_tests_pass() -> None:
    assert "SUCCESS" in promtool("check", "rules", str(RULES))
    tests = RULES.with_name("interlock.rules.test.yml")
    assert "SUCCESS" in promtool("test", "rules", str(tests))
    text = tests.read_text()
    for rule in alerts():
        assert text.count(rule["alert"]) >= 2, f"{rule['alert']} is tested for firing and for not firing"


def test_every_metric_arrives(site: Site) -> None:
    prometheus = scraped(site)
    names = {
        PREFIX + metric.name + {COUNTER: "_total", HISTOGRAM: "_bucket"}.get(metric.kind, "")
        for metric in (*KEPT, *LEVELS, *OWN)
    }
    known = set(prometheus.get("label/__name__/values"))
    missing = {name for name in names - known if not any(part in name for part in NOT_HERE)}
    assert missing == set()


def test_every_rule_is_evaluated_without_an_error(site: Site) -> None:
    prometheus = scraped(site)

    def evaluated() -> bool:
        groups = prometheus.get("rules")["groups"]
        return all(rule["health"] == "ok" for group in groups for rule in group["rules"])

    wait_until(evaluated, "every rule is evaluated")
    for group in prometheus.get("rules")["groups"]:
        for rule in group["rules"]:
            assert not rule.get("lastError"), rule
            if rule["type"] == "recording" and not any(part in rule["name"] for part in NOT_HERE):
                assert prometheus.query(rule["name"]), rule["name"]


def test_every_expression_of_the_board_has_an_answer(site: Site) -> None:
    prometheus = scraped(site)
    board = json.loads(BOARD.read_text())
    panels = [panel for panel in board["panels"] if panel["type"] != "row"]
    assert len(panels) > 30
    for panel in panels:
        for target in panel["targets"]:
            found = prometheus.query(filled_in(target["expr"]))
            if not any(part in target["expr"] for part in NOT_HERE):
                assert found, f"{panel['title']}: {target['expr']}"
    for variable in board["templating"]["list"][1:]:
        metric, label = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]).groups()  # type: ignore[union-attr]
        assert prometheus.query(f"count by ({label}) ({filled_in(metric)})")


def filled_in(expression: str) -> str:
    """An expression as Grafana sends it when everything is chosen."""
    for name, value in (("$__rate_interval", "1m"), ("$job", ".*"), ("$project", ".*")):
        expression = expression.replace(name, value)
    assert "$" not in expression
    return expression


def test_a_restart_of_the_server_takes_nothing_from_the_counters(site: Site) -> None:
    prometheus = scraped(site)
    ended = "sum(interlock_runs_total)"
    before = prometheus.value(ended)
    site.server.kill()
    site.server.start()
    counted = prometheus.value("count_over_time(interlock_build_info[5m])") or 0
    wait_until(
        lambda: (prometheus.value("count_over_time(interlock_build_info[5m])") or 0) > counted + 2, "scrapes"
    )
    assert prometheus.value(ended) == before
    assert prometheus.value("sum(resets(interlock_runs_total[5m]))") == 0


# -- what is written by hand or by a script --------------------------------------------------------------


def alerts() -> list[dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"] if "alert" in rule]


def test_every_alert_says_what_to_do_with_commands_that_exist() -> None:
    for rule in alerts():
        said = rule["annotations"]
        assert said["summary"].endswith(".")
        assert said["action"].endswith(".")
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        for command in re.findall(r"`interlock (\w+)", said["action"]):
            assert command in ENTRIES, command


def test_rules_and_board_name_only_metrics_that_there_are() -> None:
    known = {PREFIX + metric.name for metric in (*KEPT, *LEVELS, *OWN)}
    for file in (RULES, BOARD):
        for name in re.findall(r"\binterlock_\w+", file.read_text()):
            assert re.sub(r"_(total|bucket|sum|count)$", "", name) in known or name in known, (
                file.name,
                name,
            )


def test_the_board_is_what_its_script_writes() -> None:
    spec = importlib.util.spec_from_file_location("board", DEPLOY / "grafana" / "board.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert BOARD.read_text() == module.text(), "run `make docs` and commit it"

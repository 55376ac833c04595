"""The Grafana board: `python deploy/grafana/board.py` writes `interlock.json` beside this file.

Import that file into Grafana, or let a provisioned folder have it. A test fails when it is not what this
would write, and another one asks a real Prometheus each of its expressions.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common as styles
from grafana_foundation_sdk.models import dashboard as models

FILE = Path(__file__).with_name("interlock.json")
SOURCE = models.DataSourceRef(type_val="prometheus", uid="${source}")
#: Of the store: every server shows the same, and one of them is taken.
STORE = 'job=~"$job", project=~"$project"'
JOB = 'job=~"$job"'
Targets = list[tuple[str, str]]


def rate(metric: str, by: str, labels: str = STORE, more: str = "") -> str:
    """A rate of the store by some labels."""
    return f"sum by ({by}) (max without (instance) (rate({metric}{{{labels}{more}}}[$__rate_interval])))"


def served(metric: str, by: str, more: str = "") -> str:
    """A rate of servers, added up."""
    return f"sum by ({by}) (rate({metric}{{{JOB}{more}}}[$__rate_interval]))"


def level(metric: str, by: str = "", labels: str = JOB) -> str:
    """What there is now, of the store."""
    return f"sum by ({by}) (max without (instance) ({metric}{{{labels}}}))"


def quantiles(metric: str, by: str = "", labels: str = STORE) -> Targets:
    buckets = rate(f"{metric}_bucket", f"le, {by}" if by else "le", labels)
    named = f" {{{{{by}}}}}" if by else ""
    return [(f"histogram_quantile({q}, {buckets})", f"p{q * 100:g}{named}") for q in (0.5, 0.95)]


def _filled(panel: Any, title: str, about: str, unit: str, targets: Targets) -> Any:
    panel = panel.title(title).description(about).unit(unit).datasource(SOURCE).min(0)
    for ref, (expr, legend) in zip("ABCDEFGH", targets, strict=False):
        query = prometheus.Dataquery().expr(expr).legend_format(legend).ref_id(ref).datasource(SOURCE)
        panel = panel.with_target(query)
    return panel


def graph(title: str, about: str, targets: Targets, unit: str = "short", *, stacked: bool = False) -> Any:
    panel = _filled(timeseries.Panel(), title, about, unit, targets).height(8).span(8)
    legend = common.VizLegendOptions().display_mode(styles.LegendDisplayMode.LIST).show_legend(True)
    legend = legend.placement(styles.LegendPlacement.BOTTOM)
    panel = panel.legend(legend).tooltip(common.VizTooltipOptions().mode(styles.TooltipDisplayMode.MULTI))
    if stacked:
        stacking = common.StackingConfig().mode(styles.StackingMode.NORMAL)
        panel = panel.fill_opacity(30).stacking(stacking)
    return panel.line_width(1)


def number(title: str, about: str, expr: str, unit: str = "short", *, red: float | None = None) -> Any:
    panel = _filled(stat.Panel(), title, about, unit, [(expr, "")]).height(4).span(4)
    steps = [models.Threshold(value=None, color="green")]
    if red is not None:
        steps.append(models.Threshold(value=red, color="red"))
    thresholds = dashboard.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps(steps)
    reduce = common.ReduceDataOptions().calcs(["lastNotNull"])
    return panel.thresholds(thresholds).reduce_options(reduce).color_mode(styles.BigValueColorMode.VALUE)


FAILED = ', outcome=~"failed|lost|timed_out"'
DONE_OR_FAILED = ', status=~"completed|failed"'
OVERVIEW = [
    number("Ready", "Items that may be claimed.", level("interlock_queue_depth")),
    number("Running", "Runs that go on, each of which holds a lock.", level("interlock_running", "", STORE)),
    number(
        "Oldest ready",
        "How long the oldest item waits.",
        level("interlock_oldest_ready_seconds"),
        "s",
        red=14400,
    ),
    number(
        "Waits for people",
        "Questions, items that woke too often, deliveries and effects that were given up on.",
        " + ".join(
            level(f"interlock_{name}")
            for name in ("questions_open", "items_stopped", "deliveries_left", "effects_dead")
        ),
        red=1,
    ),
    number("Workers", "Workers that were seen within the last minutes.", level("interlock_workers")),
    number(
        "Sweeper",
        "How long ago somebody swept.",
        f'min(interlock_duty_age_seconds{{{JOB}, duty="sweeper"}})',
        "s",
        red=60,
    ),
]
WORK = [
    graph(
        "Ready by priority",
        "Items that may be claimed.",
        [(level("interlock_queue_depth", "priority"), "{{priority}}")],
        stacked=True,
    ),
    graph(
        "Arrivals, claims, ends",
        "How many a second.",
        [
            (rate("interlock_arrivals_total", "decision"), "{{decision}}"),
            (rate("interlock_claims_total", ""), "claimed"),
            (rate("interlock_items_ended_total", "status"), "{{status}}"),
        ],
        "ops",
    ),
    graph(
        "Failures",
        "Runs that failed, were lost or timed out, among all that ended; and items that failed for good.",
        [
            (
                rate("interlock_runs_total", "project", more=FAILED)
                + " / "
                + rate("interlock_runs_total", "project"),
                "runs of {{project}}",
            ),
            (
                rate("interlock_items_ended_total", "project", more=', status="failed"')
                + " / "
                + rate("interlock_items_ended_total", "project", more=DONE_OR_FAILED),
                "items of {{project}}",
            ),
        ],
        "percentunit",
    ),
    graph(
        "Time to claim", "From arrival to the first start.", quantiles("interlock_time_to_claim_seconds"), "s"
    ),
    graph(
        "Time to claim by priority",
        "95 of 100 are quicker.",
        quantiles("interlock_time_to_claim_seconds", "priority")[1:],
        "s",
    ),
    graph("Lock duration", "How long runs hold what they work on.", quantiles("interlock_lock_seconds"), "s"),
    graph(
        "Running by agent",
        "Who holds locks.",
        [(level("interlock_running", "agent", STORE), "{{agent}}")],
        stacked=True,
    ),
    graph(
        "Runs by how they end",
        "How many a second.",
        [(rate("interlock_runs_total", "outcome"), "{{outcome}}")],
        "ops",
    ),
    graph(
        "Oldest run by agent",
        "How long it goes on.",
        [(f"max by (agent) (interlock_oldest_run_seconds{{{STORE}}})", "{{agent}}")],
        "s",
    ),
]
LANES = [
    graph(
        "Lanes",
        "How many a second.",
        [
            (rate("interlock_promotions_total", ""), "promoted"),
            (rate("interlock_overtakings_total", ""), "overtaken"),
            (
                rate("interlock_items_ended_total", "status", more=', status=~"coalesced|superseded"'),
                "{{status}}",
            ),
        ],
        "ops",
    ),
    graph(
        "Lost leases and refused writes",
        "Runs that lost their leases, and writes of runs that were no longer current.",
        [
            (rate("interlock_runs_total", "agent", more=', outcome="lost"'), "lost by {{agent}}"),
            (rate("interlock_refused_writes_total", "reason"), "refused: {{reason}}"),
        ],
        "ops",
    ),
    graph(
        "Would have been",
        "On lanes that are only observed.",
        [(rate("interlock_observed_total", "would_be"), "{{would_be}}")],
        "ops",
    ),
    graph(
        "Parked",
        "Items that wait after a run, by why.",
        [(rate("interlock_parked_total", "reason"), "{{reason}}")],
        "ops",
    ),
    graph("Questions", "To people.", [(rate("interlock_questions_total", "step"), "{{step}}")], "ops"),
    graph(
        "Woken too often",
        "Wake-ups that were one too many without a person.",
        [(rate("interlock_wakes_stopped_total", "project"), "{{project}}")],
        "ops",
    ),
]
PLANS = [
    graph(
        "Edit cycles",
        "Open cycles, and ends of tasks that editors owe an answer to.",
        [
            (level("interlock_plan_cycles_open"), "open cycles"),
            (level("interlock_plan_ends_owed"), "ends owed"),
        ],
    ),
    graph(
        "Edits by outcome",
        "How many a second.",
        [(rate("interlock_plan_edits_total", "outcome"), "{{outcome}}")],
        "ops",
    ),
    graph(
        "Plans",
        "How many a second.",
        [
            (rate("interlock_plans_made_total", ""), "made"),
            (rate("interlock_plans_ended_total", "status"), "{{status}}"),
        ],
        "ops",
    ),
    graph("Lock time", "How long edit cycles are open.", quantiles("interlock_plan_lock_seconds"), "s"),
    graph(
        "Time to dispatch",
        "From the moment a task may start to its start.",
        quantiles("interlock_plan_dispatch_seconds"),
        "s",
    ),
    graph(
        "Rebased edits",
        "Applied on top of later changes.",
        [(rate("interlock_plan_edits_rebased_total", "project"), "{{project}}")],
        "ops",
    ),
]
GITHUB = [
    graph(
        "Webhooks",
        "How many a second.",
        [(served("interlock_webhooks_total", "result"), "{{result}}")],
        "ops",
    ),
    graph(
        "Deliveries",
        "How many a second; and what waits.",
        [
            (served("interlock_deliveries_total", "outcome"), "{{outcome}}"),
            (level("interlock_deliveries_waiting"), "waiting"),
        ],
    ),
    graph(
        "Oldest delivery", "How long it waits.", [(level("interlock_oldest_delivery_seconds"), "oldest")], "s"
    ),
    graph(
        "Effects",
        "How many a second.",
        [(served("interlock_effects_total", "outcome"), "{{outcome}}")],
        "ops",
    ),
    graph(
        "Owed to GitHub",
        "What waits to be sent, and what was given up on.",
        [(level("interlock_effects_owed"), "owed"), (level("interlock_effects_dead"), "dead")],
    ),
    graph(
        "Requests left",
        "Of GitHub's hourly allowance.",
        [(f"min by (resource) (interlock_github_rate_left{{{JOB}}})", "{{resource}}")],
    ),
]
SERVER = [
    graph(
        "Requests",
        "How many a second.",
        [(served("interlock_http_requests_total", "status"), "{{status}}")],
        "ops",
    ),
    graph(
        "Answer time",
        "95 of 100 are quicker. Claims that wait for work are left out.",
        [
            (
                "histogram_quantile(0.95, "
                + served(
                    "interlock_http_request_seconds_bucket",
                    "le, route",
                    ', route!~"/v1/claims|/v1/events/stream"',
                )
                + ")",
                "{{route}}",
            )
        ],
        "s",
    ),
    graph(
        "Who waits here",
        "Claims and streams.",
        [
            (f"sum(interlock_http_claims_waiting{{{JOB}}})", "claims"),
            (f"sum(interlock_http_streams_open{{{JOB}}})", "streams"),
        ],
    ),
    graph(
        "Duties",
        "How long ago each came through.",
        [(f"min by (duty) (interlock_duty_age_seconds{{{JOB}}})", "{{duty}}")],
        "s",
    ),
    graph(
        "Memory", "Of each server.", [(f"process_resident_memory_bytes{{{JOB}}}", "{{instance}}")], "bytes"
    ),
    graph(
        "Processor",
        "Of each server.",
        [(f"rate(process_cpu_seconds_total{{{JOB}}}[$__rate_interval])", "{{instance}}")],
        "percentunit",
    ),
]
ROWS = {"Now": OVERVIEW, "Work": WORK, "Lanes": LANES, "Plans": PLANS, "GitHub": GITHUB, "Servers": SERVER}


def _variable(name: str, query: str, *, multi: bool) -> Any:
    made = dashboard.QueryVariable(name).label(name.capitalize()).query(query).datasource(SOURCE)
    made = made.refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED).sort(
        models.VariableSort.ALPHABETICAL_ASC
    )
    everything = models.VariableOption(selected=True, text="All", value="$__all")
    return made.include_all(True).all_value(".*").multi(multi).current(everything)


def board() -> Any:
    """The whole board."""
    made = (
        dashboard.Dashboard("Interlock")
        .uid("interlock")
        .description("Who works on what: queue, runs, lanes, plans, GitHub and servers.")
        .tags(["interlock"])
        .refresh("30s")
        .time("now-6h", "now")
        .timezone(styles.TimeZoneBrowser)
        .readonly()
        .with_variable(dashboard.DatasourceVariable("source").label("Prometheus").type("prometheus"))
        .with_variable(_variable("job", "label_values(interlock_build_info, job)", multi=False))
        .with_variable(
            _variable("project", 'label_values(interlock_arrivals_total{job=~"$job"}, project)', multi=True)
        )
    )
    for title, panels in ROWS.items():
        made = made.with_row(dashboard.Row(title))
        for panel in panels:
            made = made.with_panel(panel)
    return made.build()


def text() -> str:
    return (
        json.dumps(json.loads(JSONEncoder(sort_keys=True).encode(board())), indent=2, sort_keys=True) + "\n"
    )


if __name__ == "__main__":
    FILE.write_text(text(), "utf-8")

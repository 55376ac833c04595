"""Metrics, from the tables that make them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import yaml

from docs.generation.markdown import code, table
from interlock.core.counters import COUNTER, KEPT, LEVELS, Metric
from interlock.http.instruments import OWN
from interlock.service.metrics import PREFIX

ROOT = Path(__file__).parents[2]
#: What Prometheus fills in.
_PLACE = re.compile(r"\{\{.*?\}\}")


def of_the_store() -> str:
    return _table(KEPT)


def levels() -> str:
    return _table(LEVELS)


def of_a_server() -> str:
    return _table(OWN)


def alerts() -> str:
    groups = yaml.safe_load((ROOT / "deploy" / "prometheus" / "interlock.rules.yml").read_text("utf-8"))[
        "groups"
    ]
    rules = [rule for group in groups for rule in group["rules"] if "alert" in rule]
    rows = (
        (
            code(rule["alert"]),
            rule["labels"]["severity"],
            code(" ".join(rule["expr"].split()).replace("|", "\\|"))
            + (f" for {rule['for']}" if "for" in rule else ""),
            _PLACE.sub("…", rule["annotations"]["action"]),
        )
        for rule in rules
    )
    return table(("alert", "severity", "when", "what to do"), rows)


def shown(metric: Metric) -> str:
    """Its name as it is scraped."""
    return PREFIX + metric.name + ("_total" if metric.kind == COUNTER else "")


def _table(metrics: Iterable[Metric]) -> str:
    rows = (
        (
            code(shown(metric)),
            metric.kind,
            ", ".join(map(code, filter(None, (*metric.labels, metric.own)))),
            metric.help,
        )
        for metric in metrics
    )
    return table(("metric", "kind", "labels", "meaning"), rows)

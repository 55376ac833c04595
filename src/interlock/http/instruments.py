"""The metrics of one server, in addition to those of its store.

They start at zero with the process. Prometheus handles that if each server is scraped separately.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from interlock import __version__
from interlock.core.counters import COUNTER, GAUGE, HISTOGRAM, Metric
from interlock.http.log_writer import LogWriter
from interlock.http.periodic_jobs import Allowances, PeriodicJob
from interlock.service.contract import MetricView
from interlock.service.exposition import Families
from interlock.service.metrics import PREFIX

disable_created_metrics()  # type: ignore[no-untyped-call]  # creation times would double their number
#: Buckets from an immediate answer to a claim that waits for a minute.
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0)
#: The route of requests to unknown addresses.
OTHER = "other"
#: The server's own metrics.
OWN = (
    Metric("build_info", GAUGE, "Always 1; its label is the version of the server.", ("version",)),
    Metric("store_up", GAUGE, "1 if the store answered this time. If not, the store's numbers are missing."),
    Metric(
        "http_requests",
        COUNTER,
        "Requests answered, by endpoint; `other`: no such endpoint.",
        ("route", "status"),
    ),
    Metric(
        "http_request_seconds",
        HISTOGRAM,
        "How long answers took. A claim that waits for work takes as long as it waits.",
        ("route",),
        bounds=SECONDS,
    ),
    Metric("http_claims_waiting", GAUGE, "Claims that wait for work on this server."),
    Metric("http_streams_open", GAUGE, "Open event streams of this server."),
    Metric("webhooks", COUNTER, "Webhooks received: `new`, `repeated` or `refused`.", ("result",)),
    Metric(
        "deliveries",
        COUNTER,
        "Deliveries that this server decided on (`decided`) or put off (`put_off`), and orders that it"
        " carried out (`carried_out`).",
        ("outcome",),
    ),
    Metric(
        "effects",
        COUNTER,
        "Effects on GitHub and notices that this server sent (`sent`), found unneeded (`dropped`), put off"
        " (`put_off`) or gave up on (`dead`).",
        ("outcome",),
    ),
    Metric("duty_age_seconds", GAUGE, "Time since a periodic job last succeeded.", ("duty",)),
    Metric("duty_failures", COUNTER, "Failures of a periodic job.", ("duty",)),
    Metric("log_lines_dropped", COUNTER, "Log lines dropped because they could not be written in time."),
    Metric("github_rate_left", GAUGE, "Requests that GitHub still allows this hour.", ("resource",)),
    Metric("github_rate_limit", GAUGE, "Requests that GitHub allows an hour.", ("resource",)),
)
_OWN = {metric.name: metric for metric in OWN}
_KINDS: dict[str, type[Counter | Gauge | Histogram]] = {COUNTER: Counter, GAUGE: Gauge, HISTOGRAM: Histogram}
#: The counts in results of periodic jobs: the metric's outcome, by the name of the result's part.
_OUTCOMES = {
    "deliveries": ("decided", "put_off", "carried_out"),
    "effects": ("sent", "dropped", "put_off", "dead"),
}


#: Jobs whose counts are those of another job's metric.
_COUNTED_AS = {"receivers": "effects"}


class Instruments:
    """The metrics of one server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._made("build_info").labels(__version__).set(1)
        self._requests, self._took = self._made("http_requests"), self._made("http_request_seconds")
        #: The counter and the histogram of each route and status.
        self._answered: dict[tuple[str, int], tuple[Counter, Histogram]] = {}
        self._webhooks, self._failures = self._made("webhooks"), self._made("duty_failures")
        self._outcomes = {name: self._made(name) for name in _OUTCOMES}
        for name, counter in self._outcomes.items():
            for outcome in _OUTCOMES[name]:
                counter.labels(outcome)
        #: The log writer.
        self.log: LogWriter | None = None
        self.registry.register(_Log(self))
        for result in ("new", "repeated", "refused"):
            self._webhooks.labels(result)

    def _made(self, name: str) -> Any:
        metric = _OWN[name]
        more: dict[str, Any] = {"buckets": metric.bounds} if metric.bounds else {}
        make = _KINDS[metric.kind]
        return make(PREFIX + name, metric.help, metric.labels, registry=self.registry, **more)

    def observe(self, route: str, status: int, took_s: float) -> None:
        """Count an answered request."""
        found = self._answered.get((route, status))
        if found is None:
            found = self._requests.labels(route, str(status)), self._took.labels(route)
            self._answered[route, status] = found
        found[0].inc()
        found[1].observe(took_s)

    def waits(self, claims: Callable[[], float], streams: Callable[[], float]) -> None:
        """Show the numbers of waiting claims and open streams."""
        self._made("http_claims_waiting").set_function(claims)
        self._made("http_streams_open").set_function(streams)

    def webhook(self, result: str) -> None:
        """Count a webhook."""
        self._webhooks.labels(result).inc()

    def attend(self, jobs: Mapping[str, PeriodicJob], allowances: Allowances) -> None:
        """Show the age of each job's last success, and GitHub's remaining rate limits."""
        for job in jobs.values():
            self._failures.labels(job.name)
        self.registry.register(_PeriodicJobs(jobs))
        self.registry.register(_GitHub(allowances))

    def done(self, name: str, result: Any) -> None:
        """Count a success of a periodic job."""
        counted = _COUNTED_AS.get(name, name)
        for outcome in _OUTCOMES.get(counted, ()):
            self._outcomes[counted].labels(outcome).inc(getattr(result, outcome, 0))

    def failed(self, name: str) -> None:
        """Count a failure of a periodic job."""
        self._failures.labels(name).inc()

    def text(self, found: Iterable[MetricView] | None, accept: str) -> tuple[bytes, str]:
        """All metrics in the requested format, and its content type. `found` is None if the store is
        unreachable."""
        encode, kind = choose_encoder(accept)
        return encode(_Both(self.registry, found)), kind


class _Both(Collector):
    """Collects the metrics of the server and of its store."""

    def __init__(self, own: CollectorRegistry, found: Iterable[MetricView] | None) -> None:
        self._own, self._found = own, found

    def collect(self) -> Iterator[Family]:
        answers = self._found is not None
        yield _family("store_up", {(): float(answers)})
        yield from Families(self._found or ()).collect()
        yield from self._own.collect()


class _PeriodicJobs(Collector):
    def __init__(self, jobs: Mapping[str, PeriodicJob]) -> None:
        self._jobs = jobs

    def collect(self) -> Iterator[Family]:
        ages = {(name,): job.age_s() for name, job in self._jobs.items()}
        yield _family("duty_age_seconds", {name: age_s for name, age_s in ages.items() if age_s is not None})


class _Log(Collector):
    def __init__(self, instruments: Instruments) -> None:
        self._instruments = instruments

    def collect(self) -> Iterator[Family]:
        log = self._instruments.log
        yield _family("log_lines_dropped", {(): 0 if log is None else log.dropped})


class _GitHub(Collector):
    def __init__(self, allowances: Allowances) -> None:
        self._allowances = allowances

    def collect(self) -> Iterator[Family]:
        known = self._allowances()
        yield _family("github_rate_left", {(resource,): left for resource, (left, _) in known.items()})
        yield _family("github_rate_limit", {(resource,): most for resource, (_, most) in known.items()})


def _family(name: str, values: Mapping[tuple[str, ...], float]) -> Family:
    metric = _OWN[name]
    make = CounterMetricFamily if metric.kind == COUNTER else GaugeMetricFamily
    family = make(PREFIX + name, metric.help, labels=metric.labels)
    for labels, value in values.items():
        family.add_metric(labels, value)
    return family

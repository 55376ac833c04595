"""The metrics of a store in Prometheus' format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from interlock.service.contract import MetricView


class Families(Collector):
    """Metrics already read, for a registry."""

    def __init__(self, found: Iterable[MetricView]) -> None:
        self._found = found

    def collect(self) -> Iterator[Metric]:
        for view in self._found:
            family = Metric(view.name, view.help, view.kind)
            for sample in view.samples:
                family.add_sample(view.name + sample.suffix, dict(sample.labels), sample.value)
            yield family


def text_of(found: Iterable[MetricView]) -> str:
    """Metrics in the format of a Prometheus text file."""
    registry = CollectorRegistry()
    registry.register(Families(found))
    return generate_latest(registry).decode()

"""Which trace things belong to: ids that every process makes for itself, and what the environment wants."""

from __future__ import annotations

import pytest

from interlock.core import tracing
from interlock.core.tracing import TraceContext, of_item, of_run, read, wanted, with_parent

#: The example of the W3C recommendation.
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
ON = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318"}


def test_a_traceparent_is_read_and_written() -> None:
    found = read(PARENT)
    assert found == TraceContext("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", True)
    assert found is not None
    assert found.text == PARENT
    assert read(PARENT[:-2] + "00") == found._replace(sampled=False)


@pytest.mark.parametrize(
    "text",
    [
        *(None, 7, "", "00", PARENT.upper(), PARENT + "-00", " " + PARENT, PARENT + "\n"),
        "ff" + PARENT[2:],
        "00-" + "0" * 32 + "-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-" + "0" * 16 + "-01",
    ],
)
def test_what_is_no_traceparent_names_nothing(text: object) -> None:
    assert read(text) is None


def test_an_item_goes_on_with_the_trace_of_its_payload_or_begins_its_own() -> None:
    given = of_item(7, 1, {"traceparent": PARENT}, ON)
    own = of_item(7, 1, {"traceparent": "nonsense"}, ON)
    assert given == read(PARENT)
    assert own.span == ""
    assert own == of_item(7, 1, None, ON), "every process finds the same"
    assert len({of_item(i, us, None, ON).trace for i in (7, 8) for us in (1, 2)}) == 4
    spans = {tracing.item_span(own, 7).span, tracing.run_span(own, 7).span, tracing.run_span(own, 8).span}
    assert len(spans) == 3
    assert all(read(own.child(str(n)).text) for n in range(100))


def test_a_run_has_a_context_if_somebody_traces_or_its_item_was_traced() -> None:
    assert of_run(7, 1, None, 3, {}) is None
    assert of_run(7, 1, {"n": 1}, 3, {}) is None
    assert of_run(7, 1, None, 3, ON) == tracing.run_span(of_item(7, 1, None, ON), 3)
    traced = of_run(7, 1, {"traceparent": PARENT}, 3, {})
    assert traced is not None
    assert traced.trace in PARENT


def test_a_payload_keeps_the_trace_that_it_has() -> None:
    assert with_parent(None, PARENT) == {"traceparent": PARENT}
    assert with_parent({"n": 1}, PARENT) == {"n": 1, "traceparent": PARENT}
    assert with_parent({"traceparent": "x"}, PARENT) == {"traceparent": "x"}
    assert with_parent({"n": 1}, "nonsense") == {"n": 1}
    assert with_parent(None, None) is None


@pytest.mark.parametrize(
    ("environ", "asked"),
    [
        ({}, False),
        (ON, True),
        ({"OTEL_TRACES_EXPORTER": "console"}, True),
        ({**ON, "OTEL_TRACES_EXPORTER": "none"}, False),
        ({**ON, "OTEL_SDK_DISABLED": "true"}, False),
        ({"OTEL_SERVICE_NAME": "x"}, False),
    ],
)
def test_the_environment_asks_for_traces(environ: dict[str, str], asked: bool) -> None:
    assert wanted(environ) is asked


def test_a_ratio_samples_as_opentelemetry_does() -> None:
    from opentelemetry.sdk.trace.sampling import TraceIdRatioBased

    environ = {**ON, "OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.25"}
    theirs = TraceIdRatioBased(0.25)
    ours = [of_item(n, 1, None, environ) for n in range(2_000)]
    for context in ours:
        decision = theirs.should_sample(None, int(context.trace, 16), "item").decision
        assert decision.is_sampled() == context.sampled
    assert 400 < sum(context.sampled for context in ours) < 600
    assert not of_item(7, 1, None, {**ON, "OTEL_TRACES_SAMPLER": "always_off"}).sampled


@pytest.mark.parametrize("ratio", ["nan", "inf", "-inf", "1e400", "-1", "2", "a tenth"])
def test_what_is_no_ratio_samples_everything(ratio: str) -> None:
    environ = {**ON, "OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": ratio}
    assert all(of_item(n, 1, None, environ).sampled for n in range(100))

"""Requests that schemathesis makes up from the OpenAPI document: none meets a defect."""

from __future__ import annotations

import os
import warnings
from typing import Any

import hypothesis
import pytest

from interlock.core.model import NewItem
from interlock.core.plans.model import Graph, TaskSpec
from interlock.http.schemas import document
from tests.http.serving import Serving

EXAMPLES = int(os.environ.get("INTERLOCK_HTTP_EXAMPLES", "3"))


@pytest.mark.slow
def test_no_request_that_the_document_allows_meets_a_defect(serving: Serving) -> None:
    import schemathesis

    service = serving.server.service
    service.set_agent("coder")
    service.add([NewItem(title="x", lane="l:1"), NewItem(title="y", lane="l:1")])
    service.next("coder")
    service.create_plan("p", Graph(tasks=(TaskSpec(key="a"),)))
    described = document()
    del described["paths"]["/v1/events/stream"]  # it has no end
    schema = schemathesis.openapi.from_dict(described)
    headers = {"Authorization": f"Bearer {serving.token()}"}
    checks = [
        schemathesis.checks.not_a_server_error,
        schemathesis.checks.response_schema_conformance,
        schemathesis.checks.content_type_conformance,
    ]
    tried = 0
    for result in schema.get_all_operations():
        either: Any = result
        operation = either.ok()

        @hypothesis.settings(
            max_examples=EXAMPLES,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(hypothesis.HealthCheck),
            phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
        )
        @hypothesis.given(case=operation.as_strategy())
        def send(case: Any) -> None:
            nonlocal tried
            tried += 1
            if isinstance(case.body, dict) and "wait_s" in case.body:
                case.body["wait_s"] = 0
            answer = case.call(base_url=serving.url, headers=headers)
            case.validate_response(answer, checks=checks)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            send()
    assert tried > 150

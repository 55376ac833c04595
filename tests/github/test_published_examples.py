"""Every payload that GitHub publishes as an example passes through the intake, whatever it lacks."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.conformance.conftest import OpenService, clock, empty_file, kept_databases, open_service  # noqa: F401
from tests.github import packages
from tests.github.stored_orders import open_orders
from tests.github.test_intake import backend  # noqa: F401

# ruff: noqa: F811  (fixtures)


def examples() -> Iterator[tuple[str, bytes]]:
    """Each event with a payload, which may contradict GitHub's own schemas."""
    file = packages.installed() / "node_modules" / "@octokit" / "webhooks-examples" / "api.github.com"
    for event in json.loads((file / "index.json").read_text()):
        for example in event["examples"]:
            yield event["name"], json.dumps(example).encode()


@pytest.mark.parametrize("seen", ["kept first", "one by one"])
def test_all_examples_are_decided(open_service: OpenService, seen: str) -> None:
    from interlock.github.intake import Intake

    service = open_service()
    store = service.store  # type: ignore[attr-defined]
    intake = Intake(service, store, None)
    given = list(examples())
    assert len(given) > 300
    statuses: Counter[str] = Counter()
    for n, (event, body) in enumerate(given):
        if seen == "kept first":
            assert intake.keep(event, f"example-{n}", body)
        else:
            statuses[intake.ingest(event, f"example-{n}", body).status] += 1
    while (swept := intake.sweep()).decided:
        statuses["decided"] += swept.decided
        statuses["put_off"] += swept.put_off
    # Two examples do not say whether the issue is open, and without a token GitHub cannot be asked.
    short = [body for event, body in given if event == "issues" and "state" not in json.loads(body)["issue"]]
    left = store.github.undecided(100)
    waiting = [(each.event, "'state' is missing" in str(each.outcome)) for each in left]
    assert (waiting, open_orders(store)) == ([("issues", True)] * len(short), [])
    assert len(short) == 2
    assert statuses["decided"] == len(given) - len(short)
    assert store.github.repository_named("Codertocat/Hello-World") is not None

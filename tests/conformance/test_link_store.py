"""What both databases keep of runs in sync: heads, links and workflow runs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from interlock.service.local import LocalService
from interlock.store.links import Head, Link, LinkStore, StoredWorkflowRun
from tests.clock import Clock
from tests.conformance.conftest import OpenService

PULL = Head(1, 7, "", 1, "a" * 40, "fix", "https://x/7", "open", "pending", "waits for ci", followed=True)
LINK = Link(3, 30, 1, 7, "", "closes")


@pytest.fixture
def links(open_service: OpenService) -> LinkStore:
    service = open_service()
    assert isinstance(service, LocalService)
    service.store.github.repository(1, "acme/app")
    return service.store.github.links


def run(run_id: int = 9, **fields: object) -> StoredWorkflowRun:
    made = StoredWorkflowRun(1, run_id, PULL.head, 2, "ci", "completed", "failure", "u", "l", 90, "[]", 1)
    return made._replace(**fields)  # type: ignore[arg-type]


def test_a_look_is_written_only_on_top_of_the_last_one(links: LinkStore, clock: Clock) -> None:
    assert links.head(1, 7) is None
    assert links.advance(PULL, [LINK], [run()])
    begun = links.head(1, 7)
    assert begun is not None
    assert begun[:11] == PULL[:11]
    clock.advance(60)
    late = PULL._replace(revision=1, ci_outcome="failure")
    assert not links.advance(late, [LINK._replace(run=4)], [run(10)]), "somebody else was first"
    assert links.head(1, 7) == begun
    assert len(links.of_number(1, 7, 10)) == 1
    assert links.workflow_runs(1, PULL.head, 10) == [run()]


def test_times_say_since_when_the_head_and_its_checks_are_so(links: LinkStore, clock: Clock) -> None:
    links.advance(PULL, [], [])
    first = links.head(1, 7)
    assert first is not None
    clock.advance(60)
    links.advance(PULL._replace(revision=2), [], [])
    same = links.head(1, 7)
    assert same is not None
    assert (same.head_us, same.ci_us) == (first.head_us, first.ci_us)
    assert same.looked_us == first.looked_us + 60_000_000
    links.advance(PULL._replace(revision=3, ci_outcome="success"), [], [])
    checked = links.head(1, 7)
    assert checked is not None
    assert (checked.head_us, checked.ci_us) == (first.head_us, same.looked_us)
    clock.advance(60)
    links.advance(PULL._replace(revision=4, head="b" * 40, ci_outcome="success"), [], [])
    moved = links.head(1, 7)
    assert moved is not None
    assert moved.head_us == moved.ci_us == moved.looked_us


def test_what_proves_more_replaces_a_closing_keyword_and_nothing_replaces_that(links: LinkStore) -> None:
    for revision, how in enumerate(("closes", "trailer", "branch", "closes"), 1):
        links.advance(PULL._replace(revision=revision), [LINK._replace(how=how)], [])
    assert [each.how for each in links.of_run(3, 10)] == ["trailer"]


def test_the_pull_request_that_was_opened_last_speaks_for_an_item(links: LinkStore) -> None:
    for number in (8, 7, 9):
        links.advance(PULL._replace(number=number), [LINK._replace(number=number)], [])
    commit = Head(1, 0, "c" * 40, 1, "c" * 40, "main", "", None, "success", "", followed=True)
    links.advance(commit, [Link(5, 30, 1, 0, "c" * 40, "trailer")], [])
    links.advance(PULL._replace(number=10), [LINK._replace(number=10, item=31, run=6)], [])
    found = links.of_items([30, 31])
    assert [(each.item, each.number, each.newest) for each in found] == [
        (30, 9, True),
        (30, 8, False),
        (30, 7, False),
        (30, 0, False),
        (31, 10, True),
    ]
    assert found[0].name == "acme/app"
    assert links.of_items([]) == []


def test_an_older_attempt_changes_nothing(links: LinkStore) -> None:
    links.advance(PULL, [], [run()])
    links.advance(PULL._replace(revision=2), [], [run(attempt=1, conclusion="success")])
    assert links.workflow_runs(1, PULL.head, 10) == [run()]
    links.advance(PULL._replace(revision=3), [], [run(attempt=3, status="queued", conclusion=None)])
    assert links.workflow_runs(1, PULL.head, 10)[0].status == "queued"


def test_only_what_may_change_is_looked_at_again_the_longest_unseen_first(
    links: LinkStore, clock: Clock
) -> None:
    commit = Head(1, 0, "c" * 40, 1, "c" * 40, "main", "", None, "pending", "", followed=True)
    for head in (
        PULL,
        PULL._replace(number=8, outcome="merged"),
        PULL._replace(number=9, followed=False),
        commit,
        commit._replace(commit_id="d" * 40, ci_outcome="success"),
    ):
        links.advance(head, [], [])
        clock.advance(1)
    assert links.longest_unseen(10) == [(1, 7, ""), (1, 0, "c" * 40)]
    links.advance(PULL._replace(revision=2), [], [])
    assert links.longest_unseen(1) == [(1, 0, "c" * 40)]


def test_of_many_who_write_at_once_one_does(links: LinkStore) -> None:
    def write(n: int) -> bool:
        return links.advance(PULL._replace(ci_why=str(n)), [LINK._replace(run=n)], [run(n)])

    with ThreadPoolExecutor(8) as pool:
        written = list(pool.map(write, range(1, 17)))
    assert written.count(True) == 1
    (found,) = links.of_number(1, 7, 100)
    assert written[found.run - 1]
    assert [each.id for each in links.workflow_runs(1, PULL.head, 100)] == [found.run]

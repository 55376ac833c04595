"""Every statement on what is kept of GitHub, for the tests of costs: a delivery, a number, what follows."""

from __future__ import annotations

from interlock.store.github import (
    DisplayOptions,
    GitHubStore,
    KnownNumber,
    NewOrder,
    StoredGitHubAnswer,
    StoredReaction,
)
from interlock.store.links import Head, Link, LinkStore, StoredWorkflowRun
from interlock.store.outbox import Effect, EffectPlace, OutboxStore
from interlock.store.series_notes import Note

#: The repository that the tests of costs fill, and a number of it with a long history.
REPOSITORY, NUMBER = 1, 1


def use_github(github: GitHubStore) -> None:
    """Run every statement but those that let go."""
    where = (REPOSITORY, NUMBER)
    github.repository(REPOSITORY, "acme/app")
    github.repository(2, "acme/tool")
    github.repository(2, "acme/tools")
    assert github.repository_named("acme/tools") is not None
    assert len(github.repositories(0, 10)) == 2
    github.set_swept(2, "2026-11-16T10:00:00Z")
    assert github.keep_delivery("new", "issues", *where, "{}")
    assert not github.keep_delivery("new", "issues", *where, "{}")
    assert github.due_deliveries(10) == ["new"]
    assert github.delivery("new") is not None
    assert github.has_delivery("new")
    github.put_off_delivery("new", None, "GitHub is away")
    assert len(github.undecided_of(*where, 10)) == len(github.undecided(10)) == 1
    known = github.known(*where)
    assert known is not None
    assert github.advance(KnownNumber(*where, known.revision + 1, "{}", "{}"), [NewOrder("new:1", "{}")])
    assert github.add(*where, [NewOrder("new:2", "{}")])
    assert [owed.name for owed in github.pending_orders(*where, 10)] == ["new:1", "new:2"]
    assert github.due_numbers(10) == [where]
    github.put_off(*where, "new:1", None, "there is no room")
    assert [order.name for order in github.orders(*where, 10) if order.done_us is None] == ["new:2", "new:1"]
    assert github.try_again(10) == 2
    for name in ("new:1", "new:2"):
        assert github.carry_out(*where, name, item=1, outcome="item 1")
    assert github.advance(KnownNumber(*where, known.revision + 2, "{}", "{}"), [], closes=[7, 8])
    assert github.pulls_closing(REPOSITORY, [7], 10) == [(7, NUMBER)]
    assert github.contested_issues(10) == []
    github.choose(REPOSITORY, DisplayOptions(comments=True, lane_status=False))
    assert github.choices(REPOSITORY) == DisplayOptions(comments=True, lane_status=False)
    github.keep_reaction(StoredReaction(10**9, 1, *where, "issue", NUMBER, None))
    assert [left.shown.run for left in github.orphaned_reactions(60, 10)] == [10**9]
    assert github.drop_reaction(10**9)
    github.keep_account(10**9, 10**9, "alice")
    assert not github.is_agent_account("issue:acme/app#1", "nobody", 0, 2**53)
    assert "nobody" not in github.accounts(10)
    github.decide_delivery("new", "item 1")
    assert len(github.orders(*where, 2)) == 2
    github.keep_answer("me /a", StoredGitHubAnswer('"1"', b"", None))
    assert github.answer("me /a") is not None
    assert github.keep_note(Note("series:acme/app/RFC-1", 1, "{}"))
    assert not github.keep_note(Note("series:acme/app/RFC-1", 1, "{}"))
    assert github.keep_note(Note("series:acme/app/RFC-1", 2, "{}"))
    assert github.note("series:acme/app/RFC-1") == Note("series:acme/app/RFC-1", 2, "{}")
    assert len(github.notes("", 1)) == 1
    use_outbox(github.outbox)
    use_links(github.links)


def use_outbox(outbox: OutboxStore) -> None:
    names = ("new:1", "new:2", "new:3")
    assert (
        outbox.enqueue([Effect(REPOSITORY, NUMBER, name, "comment", "{}", "sticky") for name in names]) == 3
    )
    assert outbox.next_s() == 0
    taken = outbox.take(300)
    assert taken is not None
    assert outbox.put_off(taken, None, "GitHub refused it", failed=True, maybe_sent=True)
    assert [each.name for each in outbox.dead(10)] == ["new:1"]
    assert outbox.backlog(10)[::2] == (2, 1)
    (failed,) = outbox.failed(10)
    place = EffectPlace(failed.repository, failed.number, failed.place)
    assert [each.name for each in outbox.waiting(10, after=EffectPlace(-1, 0, 0))] == ["new:2", "new:3"]
    assert outbox.retry_each([place]) == 1
    taken = outbox.take(300)
    assert taken is not None
    assert outbox.put_off(taken, None, "GitHub refused it", failed=True, maybe_sent=True)
    assert outbox.retry(10) == 1
    for _ in names:
        taken = outbox.take(300)
        assert taken is not None
        assert outbox.settle(taken, made=1, outcome="")
    assert outbox.take(300) is None
    outbox.enqueue([Effect(REPOSITORY, NUMBER, "new:4", "comment", "{}")])
    taken = outbox.take(300)
    assert taken is not None
    assert outbox.put_off(taken, None, "GitHub refused it", failed=True, maybe_sent=True)
    assert outbox.drop_each([EffectPlace(REPOSITORY, NUMBER, taken.place)], "not needed") == 1
    assert [each.name for each in outbox.settled(2)] == ["new:4", "new:3"]
    assert outbox.take(300, -REPOSITORY) is None
    assert outbox.next_s(-REPOSITORY) is None
    assert [each.made for each in outbox.effects(REPOSITORY, NUMBER, 2)] == [None, 1]


def use_links(links: LinkStore) -> None:
    """A pull request with two runs, and a commit in none."""
    head = Head(REPOSITORY, 2_000_000, "", 1, "a" * 40, "fix", "", "open", "pending", "", followed=True)
    number = (REPOSITORY, head.number)
    made = [Link(run, 1, *number, "", "branch") for run in (1_000_001, 1_000_002)]
    run = StoredWorkflowRun(REPOSITORY, 2_000_000, head.head, 1, "ci", "queued", None, "", "", 1, "[]", 2**60)
    assert links.advance(head, made, [run])
    assert not links.advance(head, made, [run])
    assert links.advance(head._replace(revision=2), made, [run])
    found = links.head(*number)
    assert found is not None
    assert found.revision == 2
    commit = Head(REPOSITORY, 0, "b" * 40, 1, "b" * 40, "main", "", None, None, "", followed=True)
    assert links.advance(commit, [Link(1_000_001, 1, REPOSITORY, 0, "b" * 40, "trailer")], [])
    assert [each.number for each in links.of_run(1_000_001, 10)] == [head.number, 0]
    newest = [each.run for each in links.of_items([1]) if each.newest]
    assert newest == [1_000_002]
    assert len(links.of_number(*number, 10)) == 2
    assert links.workflow_runs(REPOSITORY, head.head, 10) == [run]
    assert len(links.longest_unseen(2)) == 2
    assert links.runs([2**40]) == {}

"""What GitHub shows of work, on both databases: the comment on an item, and the lane of a pull request."""

from __future__ import annotations

import re
from typing import Any

import pytest

from interlock.github.effects import IssueRef, ProgressComment
from interlock.github.number_views import number_view
from interlock.github.outbox import OutboxRelay
from interlock.github.remarks import marks
from interlock.github.status_publisher import StatusPublisher
from interlock.service import event_cursor
from interlock.service.contract import Report
from interlock.service.relay import SendPass
from interlock.store.github import StoredReaction
from tests.conformance.conftest import clock, empty_file, kept_databases, open_service  # noqa: F401
from tests.github.desk import Desk
from tests.github.issues import Issue
from tests.github.test_intake import backend, desk, open_desk  # noqa: F401

# ruff: noqa: F811  (fixtures)

COMMENTS = "\n[[rule]]\nevent = 'issues.opened'\ntype = 'work'\nagent = 'coder'\n"


class Screen:
    """An issue of a repository that wants comments, and what GitHub shows."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        desk.repo.commit({".github/interlock.toml": f"progress_comments = true\n{COMMENTS}"})
        desk.new()
        self.publisher = StatusPublisher(desk.service, desk.store)

    def send(self, **options: Any) -> SendPass:
        sender = OutboxRelay(
            self.desk.client, self.desk.store.github.outbox, publisher=self.publisher, **options
        )
        return sender.send(1_000)

    def issue(self) -> Issue:
        made = self.desk.repo.issue("It is broken", by="alice")
        self.desk.take()
        return made

    def pull(self, body: str = "", head: str = "fix", by: str = "bob") -> Issue:
        made = self.desk.repo.pull("A fix", body, by=by, head=head, files={head: "text"})
        self.desk.take()
        return made

    def lines(self, issue: Issue) -> list[str]:
        """The first line of each comment; a database that is used again goes on counting."""
        shown = (comment.body.split("\n")[0] for comment in issue.comments)
        return [re.sub(r"\(item \d+\)", "(item N)", line) for line in shown]

    def line(self, issue: Issue) -> str:
        (line,) = self.lines(issue)
        return line

    def status(self, pull: Issue) -> tuple[str, str, str]:
        """The newest status of the lane on the head of a pull request."""
        sha = pull.the_pull().head_sha
        found = self.desk.client.get("/repos/acme/app/commits/{sha}/status", sha=sha).body["statuses"]
        (one,) = [each for each in found if each["context"] == "interlock/lane"]
        return one["state"], one["description"], one["target_url"] or ""


@pytest.fixture
def screen(desk: Desk) -> Screen:
    return Screen(desk)


class TestTheCommentOnAnItem:
    def test_follows_it_from_the_queue_to_its_end(self, screen: Screen) -> None:
        issue = screen.issue()
        screen.send()
        assert screen.line(issue).startswith("**Queued** · work for coder (item N): since ")
        handle = screen.desk.run()
        screen.send()
        assert screen.line(issue).startswith(
            "**Running** · work for coder (item N): coder has been working on "
        )
        screen.desk.finish(handle)
        screen.send()
        assert screen.line(issue).startswith("**Done** · work for coder (item N): at ")
        assert marks(issue.comments[0].body)["sticky"].startswith("item-")

    def test_only_the_newest_state_is_sent(self, screen: Screen) -> None:
        issue = screen.issue()
        for _ in range(3):
            handle = screen.desk.run()
            screen.publisher.enqueue()
            screen.desk.service.release([Report(run=handle)])
            screen.publisher.enqueue()
        before = len(screen.desk.github.requests)
        assert screen.send().sent == 1
        writes = [each for each in screen.desk.github.requests[before:] if each[0] != "GET"]
        assert len(writes) == 1
        assert screen.line(issue).startswith("**Waiting** ") or screen.line(issue).startswith("**Queued** ")

    def test_nothing_new_costs_no_request(self, screen: Screen) -> None:
        issue = screen.issue()
        screen.send()
        item = screen.desk.open()[0].id
        screen.desk.service.msg(item, "hello")
        before = len(screen.desk.github.requests)
        assert screen.send().tried == 0
        # Something is owed again, and GitHub shows it already.
        place = IssueRef(screen.desk.repo.id, 1)
        topic = marks(issue.comments[0].body)["sticky"]
        screen.desk.store.github.outbox.enqueue([ProgressComment(item=item, topic=topic).row(place, "again")])
        assert screen.send().sent == 1
        assert len(screen.desk.github.requests) == before

    def test_a_question_and_a_failure_are_shown_as_code(self, screen: Screen) -> None:
        issue = screen.issue()
        handle = screen.desk.run()
        screen.desk.service.ask(handle, "Which `one`,\n@alice?")
        screen.send()
        assert screen.line(issue) == ("**Asks a question** · work for coder (item N): `Which 'one', @alice?`")
        assert "Answer with a comment here" in issue.comments[0].body
        issue.comment("The first", by="alice")
        screen.desk.take()
        handle = screen.desk.run()
        screen.desk.service.fail([Report(run=handle, error="Traceback\n  KeyError: 'a'\n", retry=False)])
        screen.send()
        assert screen.lines(issue)[0] == (
            "**Failed** · work for coder (item N): after 1 attempt. `KeyError: 'a'`"
        )
        assert "`/interlock retry`" in issue.comments[0].body

    def test_what_ended_before_anybody_saw_it_makes_no_comment(self, screen: Screen) -> None:
        issue = screen.issue()
        issue.close(by="alice")
        screen.desk.take()
        assert screen.send().dropped == 1
        assert issue.comments == []

    def test_a_cancelled_one_says_why(self, screen: Screen) -> None:
        issue = screen.issue()
        screen.send()
        issue.close(by="alice")
        screen.desk.take()
        screen.send()
        assert screen.line(issue).startswith("**Cancelled** · work for coder (item N): `closed: http")

    def test_is_off_unless_the_rules_want_it(self, desk: Desk) -> None:
        screen = Screen(desk)
        desk.repo.commit({".github/interlock.toml": COMMENTS})
        desk.new()
        issue = screen.issue()
        assert screen.send() == SendPass(next_s=None)
        assert issue.comments == []

    def test_turned_off_meanwhile_it_is_not_sent(self, screen: Screen) -> None:
        issue = screen.issue()
        screen.publisher.enqueue()
        screen.desk.repo.commit({".github/interlock.toml": COMMENTS})
        issue.label("bug", by="alice")
        screen.desk.take()
        assert screen.send().dropped == 1
        assert issue.comments == []

    def test_our_own_comment_wakes_nobody(self, screen: Screen) -> None:
        screen.issue()
        screen.send()
        before = [item.messages for item in screen.desk.open()]
        screen.desk.take()
        assert [item.messages for item in screen.desk.open()] == before

    @pytest.mark.parametrize("step", ["payloads", "move_mark", "enqueue", "take", "settle"])
    def test_a_crash_between_any_two_steps_leaves_one_comment(
        self, screen: Screen, monkeypatch: pytest.MonkeyPatch, step: str
    ) -> None:
        issue = screen.issue()
        for act in (lambda: None, screen.desk.run):
            act()
            with monkeypatch.context() as patched:
                crash_before(patched, screen, step)
                with pytest.raises(RuntimeError, match="killed"):
                    screen.send()
            screen.desk.clock.advance(event_cursor.LEASE_S + 301)
            screen.send()
        assert screen.line(issue).startswith("**Running** ")

    def test_two_follow_the_history_at_once(self, screen: Screen) -> None:
        issue = screen.issue()
        other = StatusPublisher(screen.desk.service, screen.desk.store)
        real = screen.desk.store.payloads

        def meanwhile(items: Any) -> Any:
            other.enqueue()
            return real(items)

        screen.desk.store.payloads = meanwhile  # type: ignore[method-assign]
        screen.publisher.enqueue()
        screen.desk.store.payloads = real  # type: ignore[method-assign]
        screen.send()
        assert len(screen.lines(issue)) == 1


def crash_before(patched: pytest.MonkeyPatch, screen: Screen, step: str) -> None:
    def killed(*_args: Any, **_options: Any) -> None:
        raise RuntimeError("killed")

    outbox = type(screen.desk.store.github.outbox)
    owner: Any = {"enqueue": outbox, "take": outbox, "settle": outbox}.get(step, type(screen.desk.store))
    patched.setattr(owner, step, killed)


class TestTheLaneOfAPullRequest:
    def test_says_who_works_on_it(self, screen: Screen) -> None:
        pull = screen.pull()
        screen.send()
        assert screen.status(pull) == ("success", "No run is working on it", "")
        (lease,) = screen.desk.service.next("critic")
        screen.send()
        state, said, _ = screen.status(pull)
        assert state == "pending"
        assert said.startswith("critic has been working on it since ")
        screen.desk.service.done([Report(run=lease.run)])
        screen.send()
        assert screen.status(pull)[0] == "success"

    def test_a_new_head_has_it_too(self, screen: Screen) -> None:
        pull = screen.pull()
        screen.send()
        screen.desk.repo.commit({"more": "text"}, by="bob", branch="fix")
        screen.desk.take()
        screen.send()
        assert screen.status(pull)[0] == "success"

    def test_is_red_while_two_would_close_one_issue(self, screen: Screen) -> None:
        issue = screen.issue()
        first = screen.pull(f"Fixes #{issue.number}", "one")
        screen.send()
        assert screen.status(first)[0] == "success"
        second = screen.pull(f"Closes #{issue.number}", "two")
        screen.send()
        for pull, rival in ((first, second), (second, first)):
            state, said, url = screen.status(pull)
            assert (state, url) == ("failure", f"{screen.desk.github.html_url}/acme/app/pull/{rival.number}")
            assert said.startswith(f"#{rival.number} would also close #{issue.number}")
        assert screen.desk.store.github.contested_issues(10) == [("acme/app", issue.number, 2)]
        (check,) = [c for c in screen.desk.service.doctor() if c.name == "rival_pull_requests"]
        assert f"acme/app#{issue.number} by 2" in check.detail
        seen = number_view(screen.desk.service, screen.desk.store.github, None, first.number)
        assert seen.rivals == ({"issue": issue.number, "pull": second.number},)
        second.close(by="bob")
        screen.desk.take()
        screen.send()
        assert screen.status(first)[0] == "success"
        assert screen.desk.store.github.contested_issues(10) == []

    def test_an_edited_text_settles_it_as_well(self, screen: Screen) -> None:
        issue = screen.issue()
        first = screen.pull(f"Fixes #{issue.number}", "one")
        second = screen.pull(f"Fixes #{issue.number}", "two")
        screen.send()
        assert screen.status(first)[0] == screen.status(second)[0] == "failure"
        second.edit(by="bob", body="Something else")
        screen.desk.take()
        screen.send()
        assert screen.status(first)[0] == screen.status(second)[0] == "success"

    def test_whichever_order_they_are_decided_in(self, screen: Screen) -> None:
        issue = screen.issue()
        pulls = [
            screen.desk.repo.pull("A fix", f"Fixes #{issue.number}", by="bob", head=head, files={head: "t"})
            for head in ("one", "two")
        ]
        deliveries = screen.desk.new()
        for each in deliveries:
            screen.desk.intake.keep(each.event, each.guid, each.body)
        for each in reversed(deliveries):
            screen.desk.intake.decide(each.guid)
            screen.send()
        assert [screen.status(pull)[0] for pull in pulls] == ["failure", "failure"]

    def test_can_be_turned_off(self, desk: Desk) -> None:
        screen = Screen(desk)
        desk.repo.commit({".github/interlock.toml": "lane_status = false\n"})
        desk.new()
        screen.pull()
        assert screen.send().tried == 0

    def test_a_token_that_may_not_write_statuses_is_no_dead_letter(self, screen: Screen) -> None:
        screen.pull()
        screen.desk.github.faults.refuse(
            403, "Resource not accessible by integration", on="POST /repos/acme/app/statuses/"
        )
        assert screen.send().dropped == 1
        assert screen.desk.store.github.outbox.dead(10) == []


class TestEyesOfTheDead:
    def react(self, screen: Screen, issue: Issue, run: int, item: int, reaction: int | None) -> None:
        where = (screen.desk.repo.id, issue.number, "issue", issue.number)
        screen.desk.store.github.keep_reaction(StoredReaction(run, item, *where, reaction))

    def test_go_with_the_run(self, screen: Screen) -> None:
        issue = screen.issue()
        (lease,) = screen.desk.service.next("coder", lease_s=60)
        self.react(screen, issue, lease.fence, lease.item.id, None)
        route = "/repos/acme/app/issues/{n}/reactions"
        screen.desk.client.send("POST", route, {"content": "eyes"}, n=issue.number)
        screen.send()
        assert len(issue.reactions) == 1, "it is at work"
        screen.desk.clock.advance(61)
        screen.desk.service.sweep()
        screen.send()
        assert issue.reactions == []
        assert screen.send().tried == 0

    def test_stay_while_a_later_run_shows_the_same(self, screen: Screen) -> None:
        issue = screen.issue()
        (lease,) = screen.desk.service.next("coder", lease_s=60)
        self.react(screen, issue, lease.fence, lease.item.id, 7)
        screen.desk.clock.advance(61)
        screen.desk.service.sweep()
        (later,) = screen.desk.service.next("coder", lease_s=60)
        self.react(screen, issue, later.fence, later.item.id, 7)
        screen.publisher.enqueue()
        owed = screen.desk.store.github.outbox.effects(screen.desk.repo.id, issue.number, 9)
        assert "unreact" not in [each.kind for each in owed]
        assert screen.desk.store.github.orphaned_reactions(0, 10) == []

"""Every message says what kind of somebody wrote it; a run's handle proves which agent did."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from interlock.client import Interlock
from interlock.core.errors import InvalidInput, TooLarge
from interlock.core.model import A_PERSON, AN_OUTSIDER, ANOTHER_SYSTEM, OUR_BOT, RunId, Sender, SenderKind
from tests.conformance.scene import LANE, Scene

CODER = Sender(SenderKind.AGENT, "coder")
SENDERS = {
    "person": A_PERSON,
    "agent": CODER,
    "bot": OUR_BOT,
    "system": ANOTHER_SYSTEM,
    "outsider": AN_OUTSIDER,
}


def written(scene: Scene, item: int) -> list[tuple[str, str, str | None, str]]:
    messages = scene.service.show(item).messages
    return [(m.text, m.sender, m.agent, m.author) for m in messages]


@pytest.mark.parametrize("kind", SENDERS)
class TestEveryWayIn:
    """A message, an arrival's own, a coalesced one and those that a superseding arrival inherits."""

    def test_a_message_keeps_its_kind(self, scene: Scene, kind: str) -> None:
        item = scene.put("work")
        scene.service.msg(item, "hello", author="ann", sender=SENDERS[kind])
        assert written(scene, item) == [("hello", kind, SENDERS[kind].agent or None, "ann")]
        assert scene.last("message.added").data.get("sender", "person") == kind

    def test_so_does_the_message_that_an_arrival_brings(self, scene: Scene, kind: str) -> None:
        item = scene.put("work", message="hello", sender=SENDERS[kind])
        assert [said[:2] for said in written(scene, item)] == [("hello", kind)]

    def test_so_does_a_coalesced_arrival(self, scene: Scene, kind: str) -> None:
        lease = scene.put_running("work", lane=LANE, agent="coder", policy="coalesce")
        scene.add("more", lane=LANE, agent="coder", policy="coalesce", sender=SENDERS[kind])
        assert [said[:2] for said in written(scene, lease.item.id)] == [("more", kind)]

    def test_so_do_messages_that_move_to_a_newer_item(self, scene: Scene, kind: str) -> None:
        older = scene.put("older", lane=LANE, agent="coder", policy="supersede")
        scene.service.msg(older, "hello", sender=SENDERS[kind])
        newer = scene.put("newer", lane=LANE, agent="coder", policy="supersede", message="and this")
        assert [said[:2] for said in written(scene, newer)] == [("hello", kind), ("and this", "person")]


class TestWhyItCame:
    """A message keeps why it came and where it was written, however it reaches its item."""

    WHY: ClassVar[dict[str, Any]] = {
        "reason": "issue_comment_mentioned",
        "url": "https://example.com/acme/app/issues/7#c1",
    }

    def test_every_way_in_keeps_both(self, scene: Scene) -> None:
        sent = {"lane": LANE, "agent": "coder", "policy": "coalesce"}
        item = scene.put("work", message="first", **sent, **self.WHY)
        scene.service.msg(item, "second", **self.WHY)
        scene.service.msg(item, "third")
        scene.add("mention", message="fourth", **sent, **self.WHY)
        both, neither = (self.WHY["reason"], self.WHY["url"]), (None, None)
        lease = scene.claim()
        assert [(m.reason, m.url) for m in lease.messages] == [both, both, neither, both]
        assert scene.service.show(item).messages == lease.messages
        scene.service.msg(item, "fifth", **self.WHY)
        assert [(m.reason, m.url) for m in scene.service.inbox(lease.run, seen=4)] == [both]
        scene.done(lease)
        assert [(m.text, m.reason, m.url) for m in scene.claim().messages] == [("fifth", *both)]

    @pytest.mark.parametrize(
        "wrong",
        [
            {"reason": "two words"},
            {"reason": "r" * 201},
            {"url": "javascript:alert(1)"},
            {"url": "https://example.com/a b"},
            {"url": "https://example.com/\x1b[2J"},
            {"url": "https://example.com/" + "a" * 2_000},
        ],
        ids=["spaces", "long name", "no web address", "space", "control", "long"],
    )
    def test_what_is_no_name_or_no_url_is_refused_and_changes_nothing(
        self, scene: Scene, wrong: dict[str, Any]
    ) -> None:
        item = scene.put("work")
        with pytest.raises((InvalidInput, TooLarge)):
            scene.service.msg(item, "hello", **wrong)
        with pytest.raises((InvalidInput, TooLarge)):
            scene.add("more", message="hello", **wrong)
        assert (written(scene, item), len(scene.every())) == ([], 1)

    def test_without_a_message_there_is_nothing_to_keep_them_with(self, scene: Scene) -> None:
        with pytest.raises(InvalidInput, match="describe a message"):
            scene.add("work", **self.WHY)


class TestProof:
    def test_the_handle_of_a_run_proves_its_agent(self, scene: Scene) -> None:
        lease = scene.put_running("work", lane=LANE, by="coder")
        assert scene.service.sender_of(lease.run) == Sender(
            SenderKind.AGENT, "coder", RunId(lease.fence), LANE
        )

    def test_so_does_the_handle_of_a_run_that_has_ended(self, scene: Scene) -> None:
        lease = scene.put_running("work", by="coder")
        scene.done(lease)
        assert scene.service.sender_of(lease.run)[:2] == CODER[:2]

    def test_the_handle_of_an_earlier_run_proves_that_runs_agent(self, scene: Scene) -> None:
        first = scene.put_running("work", by="coder")
        scene.release(first)
        second = scene.claim("reviewer")
        agents = [scene.service.sender_of(lease.run).agent for lease in (first, second)]
        assert agents == ["coder", "reviewer"]

    @pytest.mark.parametrize("handle", ["1.1.0123456789abcdef", "77.77.0123456789abcdef", "seven", "1.1.x"])
    def test_a_handle_that_no_run_here_has_is_no_error_and_no_proof(self, scene: Scene, handle: str) -> None:
        """Whoever has one is no person at a keyboard either: it counts as another system."""
        scene.put_running("work")
        assert scene.service.sender_of(handle) == ANOTHER_SYSTEM

    def test_an_agent_without_a_name_is_refused(self, scene: Scene) -> None:
        item = scene.put("work")
        for sender in (Sender(SenderKind.AGENT), Sender(SenderKind.BOT, "coder")):
            with pytest.raises(InvalidInput):
                scene.service.msg(item, "hello", sender=sender)
        assert written(scene, item) == []


class TestPython:
    def test_what_a_block_of_next_writes_is_its_agents(self, scene: Scene) -> None:
        item, other = scene.put("work"), scene.put("other", agent="planner")
        il = Interlock(scene.service, actor="ann")
        with il.next("coder", item=item):
            il.msg(item, "inside")
            il.msg(other, "also inside")
            il.msg(item, "relayed", from_person=True)
            child = il.add("child", message="from inside").arrival
            assert written(scene, item) == [
                ("inside", "agent", "coder", "coder"),
                ("relayed", "person", None, "ann"),
            ]
        assert child is not None
        il.msg(other, "outside")
        assert written(scene, child) == [("from inside", "agent", "coder", "coder")]
        assert written(scene, other) == [
            ("also inside", "agent", "coder", "coder"),
            ("outside", "person", None, "ann"),
        ]

    def test_a_program_that_works_for_a_run_writes_as_its_agent(self, scene: Scene) -> None:
        lease = scene.put_running("work", by="coder")
        il = Interlock(scene.service, actor="ann", run=lease.run)
        il.msg(lease.item.id, "one")
        il.msg(lease.item.id, "two", author="claude")
        il.msg(lease.item.id, "three", from_bot=True)
        il.msg(lease.item.id, "four", from_agent="Reviewer ")
        il.msg(lease.item.id, "five", from_outsider=True)
        assert written(scene, lease.item.id) == [
            ("one", "agent", "coder", "coder"),
            ("two", "agent", "coder", "claude"),
            ("three", "bot", None, "ann"),
            ("four", "agent", "reviewer", "reviewer"),
            ("five", "outsider", None, "ann"),
        ]

    def test_a_message_has_one_kind_of_sender(self, scene: Scene) -> None:
        il, item = Interlock(scene.service), scene.put("work")
        with pytest.raises(InvalidInput, match="A message has one sender"):
            il.msg(item, "hello", from_bot=True, from_system=True)
        with pytest.raises(InvalidInput, match="A message has one sender"):
            il.add("work", from_bot=True, from_agent="coder")

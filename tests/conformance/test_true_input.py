"""Input that would lose something, or mean nothing, is refused and changes nothing."""

from __future__ import annotations

import pytest

from interlock.client import Interlock
from interlock.core.errors import InvalidInput, ItemEnded
from interlock.core.model import NewItem
from interlock.service.contract import ItemFilter, LeaseView, Report
from tests.conformance.scene import LANE, Scene


def holding(scene: Scene, *, message: str | None = None) -> LeaseView:
    """The run of a hold, as `interlock hold` makes it."""
    item = scene.put("hold: sh", lane=LANE, type="hold", labels=("hold",), max_attempts=1, message=message)
    return scene.claim(types=("hold",), labels=("hold",), item=item)


class TestTheReadMark:
    """A mark above the last message would cover those that come later."""

    @pytest.mark.parametrize("write", ["renew", "done", "fail", "release"])
    def test_above_the_last_message_it_is_refused(self, scene: Scene, write: str) -> None:
        lease = scene.put_running("work", message="one")
        scene.service.msg(lease.item.id, "two")
        with pytest.raises(InvalidInput, match="no message 3: the last is 2"):
            getattr(scene.service, write)([Report(run=lease.run, seen=3)])
        assert [m.text for m in scene.service.inbox(lease.run)] == ["one", "two"]
        assert scene.done(lease, seen=1).follow_up is not None

    def test_so_it_is_where_messages_are_read(self, scene: Scene) -> None:
        lease = scene.put_running("work")
        with pytest.raises(InvalidInput, match="no message 1: it has none"):
            scene.service.inbox(lease.run, seen=1)
        scene.service.msg(lease.item.id, "later")
        assert [m.text for m in scene.service.inbox(lease.run)] == ["later"]

    def test_one_wrong_mark_ends_no_run_of_a_batch(self, scene: Scene) -> None:
        right, wrong = scene.put_running("right"), scene.put_running("wrong")
        with pytest.raises(InvalidInput):
            scene.service.done([Report(run=right.run), Report(run=wrong.run, seen=1)])
        assert scene.statuses(right.item.id, wrong.item.id) == ["in_progress", "in_progress"]

    def test_a_lost_run_is_told_that_it_is_lost(self, scene: Scene) -> None:
        lease = scene.put_running("work")
        scene.lose(lease)
        for write in (scene.service.renew, scene.service.done):
            assert write([Report(run=lease.run, seen=9)])[0].status == "refused"


@pytest.mark.parametrize("text", ["", " \n\t"])
def test_a_message_without_text_is_refused_everywhere(scene: Scene, text: str) -> None:
    lease = scene.put_running("work")
    scene.service.ask(lease.run, "Which branch?")
    il = Interlock(scene.service)
    for send in (
        lambda: scene.service.msg(lease.item.id, text),
        lambda: scene.service.add([NewItem(title="more", message=text)]),
        lambda: il.msg(lease.item.id, text),
        lambda: il.add("more", message=text),
    ):
        with pytest.raises(InvalidInput, match="The message is empty"):
            send()
    assert [i.id for i in scene.service.items(ItemFilter(asking=True))] == [lease.item.id]
    assert len(scene.every()) == 1


class TestHolds:
    def test_a_hold_cannot_ask(self, scene: Scene) -> None:
        lease = holding(scene)
        with pytest.raises(InvalidInput, match="A hold cannot ask a person"):
            scene.service.ask(lease.run, "Which branch?")
        assert scene.done(lease).status == "succeeded"

    @pytest.mark.parametrize("end", ["fail", "lose"])
    def test_one_that_failed_is_no_dead_letter_and_is_not_retried(self, scene: Scene, end: str) -> None:
        lease = holding(scene)
        if end == "fail":
            scene.fail(lease, error="The command ended with 7.", retry=False)
        else:
            scene.lose(lease)
        item = lease.item.id
        assert scene.every(statuses=("failed",)) == []
        assert scene.status(item) == "cancelled"
        assert scene.service.show(item).runs[0].status in ("failed", "lost")
        with pytest.raises(ItemEnded, match="is a hold") as refused:
            scene.service.retry(item)
        assert f"a new hold of lane {LANE}" in refused.value.hint
        assert scene.status(item) == "cancelled"

    def test_one_that_failed_still_leaves_unread_messages_to_the_next(self, scene: Scene) -> None:
        lease = holding(scene)
        scene.service.msg(lease.item.id, "late")
        assert scene.fail(lease, retry=False).follow_up is not None

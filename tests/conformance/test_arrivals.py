"""The gate: limits, handles and bad input. A refusal is a sentence, and changes nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from interlock.core.errors import InterlockError, InvalidInput, LeaseLost, TooLarge, UnknownRun
from interlock.service.contract import ItemFilter, LeaseView, Report, Service, to_json
from tests.conformance.conftest import OpenService
from tests.conformance.scene import LANE, Scene

MIB = 1 << 20


@dataclass(frozen=True)
class Try:
    """A text to be smuggled in, and a run and a dead letter to do it with."""

    scene: Scene
    text: str
    lease: LeaseView
    dead: LeaseView


#: Every place where a caller's text reaches a store.
WAYS_IN: dict[str, Callable[[Try], object]] = {
    "title": lambda t: t.scene.put(t.text),
    "message of an arrival": lambda t: t.scene.put("work", message=t.text),
    "author of an arrival": lambda t: t.scene.put("work", author=t.text),
    "payload": lambda t: t.scene.put("work", payload='{"a": "' + t.text + '"}'),
    "lane": lambda t: t.scene.put("work", lane=t.text),
    "agent": lambda t: t.scene.put("work", agent=t.text),
    "project": lambda t: t.scene.put("work", project=t.text),
    "type": lambda t: t.scene.put("work", type=t.text),
    "label": lambda t: t.scene.put("work", labels=(t.text,)),
    "dedupe key": lambda t: t.scene.put("work", dedupe_key=t.text),
    "message": lambda t: t.scene.service.msg(t.lease.item.id, t.text),
    "author": lambda t: t.scene.service.msg(t.lease.item.id, "hello", author=t.text),
    "error": lambda t: t.scene.fail(t.lease, error=t.text),
    "result": lambda t: t.scene.done(t.lease, result=t.text),
    "why cancelled": lambda t: t.scene.cancel(t.lease.item.id, t.text),
    "why taken back": lambda t: t.scene.service.take_back(t.lease.item.id, why=t.text),
    "why retried": lambda t: t.scene.service.retry(t.dead.item.id, why=t.text),
    "why an agent pauses": lambda t: t.scene.service.pause_agent("coder", paused=True, why=t.text),
    "why an agent resumes": lambda t: t.scene.service.pause_agent("coder", paused=False, why=t.text),
    "why a project pauses": lambda t: t.scene.service.pause_project("default", paused=True, why=t.text),
    "why a project resumes": lambda t: t.scene.service.pause_project("default", paused=False, why=t.text),
    "claiming agent": lambda t: t.scene.service.next(t.text),
    "claimed type": lambda t: t.scene.service.next("coder", types=[t.text]),
    "claimed label": lambda t: t.scene.service.next("coder", labels=[t.text]),
    "worker": lambda t: t.scene.service.next("coder", worker=t.text),
    "agent that is set": lambda t: t.scene.service.set_agent(t.text),
    "listed lane": lambda t: t.scene.every(lane=t.text),
    "listed agent": lambda t: t.scene.every(agent=t.text),
    "listed project": lambda t: t.scene.every(project=t.text),
    "listed type": lambda t: t.scene.every(type=t.text),
    "lane of events": lambda t: t.scene.service.events(lane=t.text),
    "prefix of lanes": lambda t: t.scene.service.lanes(prefix=t.text),
}


class TestTexts:
    @pytest.mark.parametrize(
        "text",
        [
            "ü",
            "修复",
            "🔒" * 50,
            "a\nb\r\nc\t",
            "'; DROP TABLE items; --",
            "%s %(x)s {y} \\ \" '",
            "\u202e\u0301",
        ],
    )
    def test_a_message_comes_back_as_it_was_sent(self, scene: Scene, text: str) -> None:
        scene.put("work", message=text, author="ann <ann@example.org>")
        (message,) = scene.claim().messages
        assert (message.text, message.author) == (text, "ann <ann@example.org>")

    @pytest.mark.parametrize(
        "payload",
        [
            {},
            {"a": None, "b": [1, 2.5, True, "x"], "c": {"d": {"e": []}}},
            {"ü": "🔒", 'quote"': "back\\slash", "percent": "%s"},
            {"big": 2**63, "small": 1e-300, "zero": -0.0},
        ],
    )
    def test_a_payload_comes_back_as_it_was_sent(self, scene: Scene, payload: dict[str, object]) -> None:
        item = scene.put("work", payload=json.dumps(payload))
        assert scene.service.show(item).item.payload == payload
        assert scene.claim().item.payload == payload

    def test_a_title_and_a_result_come_back_as_they_were_sent(self, scene: Scene) -> None:
        title = "Fix %s 'the' \"login\"; 修复 🔒"
        lease = scene.put_running(title)
        assert lease.item.title == title
        scene.done(lease, result=json.dumps([title, None, 1.5]))
        assert scene.service.show(lease.item.id).runs[0].result == [title, None, 1.5]

    def test_one_mebibyte_of_payload_and_message_is_kept(self, scene: Scene) -> None:
        payload = json.dumps({"a": "x" * (MIB - 9)})
        assert len(payload) == MIB
        scene.put("work", payload=payload, message="y" * MIB)
        lease = scene.claim()
        assert lease.item.payload == json.loads(payload)
        assert lease.messages[0].text == "y" * MIB

    def test_one_byte_more_is_refused(self, scene: Scene) -> None:
        item = scene.put("work")
        for act in (
            lambda: scene.put("big", message="y" * (MIB + 1)),
            lambda: scene.put("big", payload=json.dumps({"a": "x" * (MIB - 8)})),
            lambda: scene.service.msg(item, "y" * (MIB + 1)),
        ):
            with pytest.raises(TooLarge):
                act()
        assert len(scene.every()) == 1
        assert scene.texts(item) == []

    @pytest.mark.parametrize("where", WAYS_IN)
    def test_what_no_database_can_keep_is_refused_before_it_gets_there(
        self, scene: Scene, where: str
    ) -> None:
        lease, dead = scene.put_running("work"), scene.put_running("dead")
        scene.fail(dead, retry=False)
        before = (scene.every(), scene.texts(lease.item.id))
        for text in ("nul\x00", "half a surrogate \ud800"):
            with pytest.raises(InterlockError) as refused:
                WAYS_IN[where](Try(scene, text, lease, dead))
            assert refused.value.sentence
        assert (scene.every(), scene.texts(lease.item.id)) == before
        assert scene.done(lease).status == "succeeded"

    @pytest.mark.parametrize("escaped", ['{"a": "\\u0000"}', '{"a": "\\ud800"}'])
    def test_a_payload_with_such_a_character_written_as_an_escape_is_kept(
        self, scene: Scene, escaped: str
    ) -> None:
        scene.put("work", payload=escaped)
        assert scene.claim().item.payload == json.loads(escaped)


class TestBatches:
    def test_a_thousand_items_are_added_claimed_renewed_and_finished_in_one_call_each(
        self, scene: Scene
    ) -> None:
        answers = scene.service.add([scene.new(f"item {n}") for n in range(1_000)])
        assert {a.decision for a in answers} == {"admitted"}
        leases = scene.service.next("coder", limit=1_000)
        assert len(leases) == 1_000
        reports = [Report(run=x.run) for x in leases]
        assert {v.status for v in scene.service.renew(reports)} == {"running"}
        assert {v.status for v in scene.service.done(reports)} == {"succeeded"}
        assert scene.service.stats().items == {"completed": 1_000}

    def test_one_more_is_refused_whole(self, scene: Scene) -> None:
        lease = scene.put_running("work")
        too_many = [Report(run=lease.run)] * 1_001
        for act in (
            lambda: scene.service.add([scene.new("item")] * 1_001),
            lambda: scene.service.done(too_many),
            lambda: scene.service.fail(too_many),
            lambda: scene.service.release(too_many),
            lambda: scene.service.renew(too_many),
        ):
            with pytest.raises(TooLarge):
                act()
        with pytest.raises(InvalidInput):
            scene.service.next("coder", limit=1_001)
        assert scene.status(lease.item.id) == "in_progress"
        assert len(scene.every()) == 1

    def test_nothing_in_is_nothing_out(self, service: Service) -> None:
        assert service.add([]) == []
        assert service.done([]) == []
        assert service.fail([]) == []
        assert service.release([]) == []
        assert service.renew([]) == []

    def test_one_bad_item_refuses_its_whole_batch(self, scene: Scene) -> None:
        with pytest.raises(InvalidInput):
            scene.service.add([scene.new("good", dedupe_key="k"), scene.new("bad", lane="../up")])
        assert scene.every() == []
        assert scene.add("good", dedupe_key="k").decision == "admitted"

    def test_a_batch_over_many_lanes_and_policies_is_the_same_as_one_by_one(
        self, open_service: OpenService, scene: Scene
    ) -> None:
        other = Scene(open_service(elsewhere=True), scene.clock)
        new = [
            scene.new(
                f"item {n}",
                lane=f"issue:acme/app#{n % 3}",
                agent=["coder", "planner", ""][n % 2],
                policy=["queue", "coalesce", "supersede", "latest", "reject"][n % 5],
                message=f"message {n}",
            )
            for n in range(40)
        ]
        at_once = scene.service.add(new)
        one_by_one = [other.service.add([n])[0] for n in new]
        assert [(a.decision, a.reason, a.position) for a in at_once] == [
            (a.decision, a.reason, a.position) for a in one_by_one
        ]
        shown = [[(i.title, i.status) for i in s.every()] for s in (scene, other)]
        assert shown[0] == shown[1]
        told = [{i.title: s.texts(i.id) for i in s.every()} for s in (scene, other)]
        assert told[0] == told[1]


class TestHandles:
    @pytest.mark.parametrize("write", ["done", "fail", "release", "renew"])
    def test_a_forged_handle_has_no_lease_and_changes_nothing(self, scene: Scene, write: str) -> None:
        lease = scene.put_running("work")
        run, item, bits = lease.run.split(".")
        forged = f"{run}.{item}.{int(bits, 16) ^ 1:016x}"
        guessed = f"{int(run) + 1}.{item}.{bits}"
        for handle in (forged, guessed):
            (view,) = getattr(scene.service, write)([Report(run=handle)])
            assert (view.refusal.code, view.run, view.item) == ("lease_lost", handle, None)
            assert "There is no run" in view.refusal.message
        assert scene.status(lease.item.id) == "in_progress"
        assert getattr(scene, write)(lease).refusal is None

    @pytest.mark.parametrize("handle", ["", "7", "a.b.c", "1.1.0123456789abcdeg", "x" * 10_000])
    def test_what_is_no_handle_is_bad_input_for_the_whole_batch(self, scene: Scene, handle: str) -> None:
        lease = scene.put_running("work")
        with pytest.raises(UnknownRun, match="is not a handle"):
            scene.service.done([Report(run=lease.run), Report(run=handle)])
        with pytest.raises(UnknownRun):
            scene.service.inbox(handle)
        with pytest.raises(UnknownRun):
            scene.service.item_of(handle)
        assert scene.status(lease.item.id) == "in_progress"

    def test_a_handle_of_another_store_has_no_lease_here(
        self, open_service: OpenService, scene: Scene
    ) -> None:
        other = Scene(open_service(elsewhere=True), scene.clock)
        theirs, ours = other.put_running("theirs"), scene.put_running("ours")
        refusal = scene.done(theirs).refusal
        assert refusal is not None
        assert (refusal.code, "or is another one" in refusal.hint) == ("lease_lost", True)
        for look in (scene.service.inbox, scene.service.item_of, scene.service.plan_batch):
            with pytest.raises(LeaseLost, match="no run"):
                look(theirs.run)
        assert scene.done(ours).status == other.done(theirs).status == "succeeded"

    def test_one_foreign_handle_is_refused_alone_and_its_batch_goes_through(self, scene: Scene) -> None:
        leases = [scene.put_running(f"work {n}") for n in range(3)]
        run, item, bits = leases[1].run.split(".")
        forged = f"{run}.{item}.{int(bits, 16) ^ 1:016x}"
        batch = [leases[0].run, forged, "9.9.0123456789abcdef", leases[1].run]
        kept = scene.service.renew([Report(run=run) for run in batch])
        assert [view.status for view in kept] == ["running", "refused", "refused", "running"]
        ended = scene.service.done([Report(run=run) for run in (*batch, leases[2].run)])
        statuses = [view.status for view in ended]
        assert statuses == ["succeeded", "refused", "refused", "succeeded", "succeeded"]
        assert [view.run for view in ended] == [*batch, leases[2].run]
        refused = [e for e in scene.history() if e.kind == "run.refused"]
        assert {(e.reason, e.item) for e in refused} == {("foreign_handle", None)}
        assert len(refused) == 4

    def test_a_late_handle_is_told_how_its_run_ended_and_a_foreign_one_is_not(self, scene: Scene) -> None:
        lease = scene.put_running("work")
        scene.done(lease)
        late = scene.done(lease)
        assert late.refusal is not None
        assert "Its result is already recorded" in late.refusal.hint
        run, item, bits = lease.run.split(".")
        for write in ("done", "renew"):
            report = Report(run=f"{run}.{item}.{int(bits, 16) ^ 1:016x}")
            (foreign,) = getattr(scene.service, write)([report])
            assert "recorded" not in foreign.refusal.hint
            assert foreign.item is None

    def test_every_run_has_bits_of_its_own(self, scene: Scene) -> None:
        scene.service.add([scene.new(f"work {n}") for n in range(200)])
        leases = scene.service.next("coder", limit=200)
        bits = [int(lease.run.rpartition(".")[2], 16) for lease in leases]
        assert len(set(bits)) == 200
        # Each of the 64 is drawn: of 200 coins, all fall the same way once in 10^60 rounds.
        for place in range(64):
            assert {b >> place & 1 for b in bits} == {0, 1}, f"bit {place} is always the same"

    def test_a_handle_never_leaks_into_history_or_views(self, scene: Scene) -> None:
        lease = scene.put_running("work", lane=LANE)
        scene.done(lease)
        live = scene.put_running("next", lane=LANE)
        scene.service.done([Report(run=lease.run)])
        service, item = scene.service, live.item.id
        views = [service.show(lease.item.id), service.show(item), service.why(item), service.lanes()]
        shown = [repr(view) for view in (*views, scene.history(), service.items(ItemFilter(all=True)))]
        shown += [json.dumps(to_json(view)) for view in views]
        for run in (lease.run, live.run):
            bits = int(run.rpartition(".")[2], 16)
            for text in (f"{bits:016x}", str(bits), str(bits - 2**64)):
                assert not any(text in view for view in shown)


class TestNumbers:
    @pytest.mark.parametrize(
        "fields",
        [
            {"priority": 1001},
            {"position": -1},
            {"lease_s": 0.5},
            {"timeout_s": 0.5},
            {"max_attempts": 0},
            {"run_at_us": 2**63},
        ],
    )
    def test_an_item_out_of_bounds_is_refused(self, scene: Scene, fields: dict[str, float]) -> None:
        with pytest.raises(InvalidInput):
            scene.put("work", **fields)
        assert scene.every() == []

    @pytest.mark.parametrize("wish", [{"limit": 0}, {"lease_s": 0.5}, {"wait_s": -1}, {"worker": "a b"}])
    def test_a_wish_out_of_bounds_is_refused(self, service: Service, wish: dict[str, float]) -> None:
        with pytest.raises(InvalidInput):
            service.next("coder", **wish)  # type: ignore[arg-type]

    @pytest.mark.parametrize("seen", [-1, 2**31])
    def test_a_read_mark_out_of_bounds_is_refused(self, scene: Scene, seen: int) -> None:
        lease = scene.put_running("work")
        with pytest.raises(InvalidInput, match="read mark"):
            scene.renew(lease, seen=seen)

    @pytest.mark.parametrize("item", [0, -1, 2**62, 2**63, 2**70])
    def test_a_number_of_no_item_is_not_found_however_large(self, service: Service, item: int) -> None:
        with pytest.raises(InterlockError):
            service.show(item)

    def test_priorities_at_both_bounds_keep_their_order(self, scene: Scene) -> None:
        lowest, highest = scene.put("lowest", priority=-1000), scene.put("highest", priority=1000)
        assert [scene.claim().item.id, scene.claim().item.id] == [highest, lowest]

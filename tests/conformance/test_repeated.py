"""A request under a key keeps its answer in the transaction that carries it out; again, it does nothing."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from interlock.core.errors import EditRefused, InvalidInput, LeaseLost, NotFound, NoToken, Repeated
from interlock.core.model import NewItem
from interlock.core.plans.model import AddTask, Graph, TaskSpec
from interlock.core.scopes import Needs
from interlock.service.contract import ItemFilter, Report, to_json
from interlock.service.local import LocalService, RepeatableOperations
from interlock.store.access import ANSWERS_KEPT_S, RepeatableRequest
from tests.conformance.scene import LANE, Scene

ONE = RepeatableRequest("one", "asked")


@pytest.fixture
def local(scene: Scene) -> LocalService:
    assert isinstance(scene.service, LocalService)
    return scene.service


def twice(service: LocalService, use: Callable[[RepeatableOperations], Any]) -> Any:
    """Use a service under a key, and again: the second time nothing is done, and the answer is kept."""
    assert service.answered(ONE) is None
    answer = use(service.answering(ONE))
    with pytest.raises(Repeated):
        use(service.answering(ONE))
    return answer, service.answered(ONE)


def test_an_arrival(local: LocalService) -> None:
    answer, kept = twice(local, lambda service: service.add([NewItem(title="x", message="m")]))
    assert to_json(answer) == kept
    assert len(local.items(ItemFilter())) == 1


def test_an_end_and_its_promotion(local: LocalService, scene: Scene) -> None:
    lease = scene.put_running(lane=LANE)
    scene.put(lane=LANE)
    answer, kept = twice(local, lambda service: service.done([Report(run=lease.run)]))
    assert to_json(answer) == kept
    assert kept[0]["promoted"]
    assert local.stats().refused_writes == 0


def test_a_message_and_a_question(local: LocalService, scene: Scene) -> None:
    item = scene.put()
    answer, kept = twice(local, lambda service: service.msg(item, "hello"))
    assert to_json(answer) == kept
    assert scene.texts(item) == ["hello"]
    asked = local.answering(RepeatableRequest("two", "")).ask(scene.claim().run, "Which?")
    assert local.answered(RepeatableRequest("two", ""))["status"] == asked.status


def test_a_plan_and_its_edit(local: LocalService) -> None:
    plan, kept = twice(local, lambda service: service.create_plan("p", Graph(tasks=(TaskSpec(key="a"),))))
    assert kept == {"plan": plan.id}
    assert len(local.plans()) == 1
    edit = local.answering(RepeatableRequest("two", "")).edit_plan(
        plan.id, base=1, operations=[AddTask(task=TaskSpec(key="b"))]
    )
    assert to_json(edit) == local.answered(RepeatableRequest("two", ""))


@pytest.mark.parametrize("limits", [None, "agent", "pool"])
def test_a_claim(local: LocalService, scene: Scene, limits: str | None) -> None:
    if limits == "pool":
        local.set_pool("gpu", max_concurrency=5)
    if limits is not None:
        local.set_agent("coder", max_concurrency=5, pool="gpu" if limits == "pool" else None)
    for n in range(3):
        scene.put(f"{n}", payload='{"n": 1}', message="m")
    leases, kept = twice(local, lambda service: service.next("coder", limit=2))
    again = local.claimed(kept["claimed"])
    assert [to_json(lease) for lease in again] == [to_json(lease) for lease in leases]
    scene.done(leases[0])
    assert [lease.run for lease in local.claimed(kept["claimed"])] == [leases[1].run]


def test_a_claim_that_overtakes(local: LocalService, scene: Scene) -> None:
    local.set_agent("ada")
    scene.put("owner", lane=LANE, agent="ada")
    second = scene.put("second", lane=LANE, agent="bob")
    local.pause_agent("ada", paused=True, why="ill")
    (lease,) = local.answering(ONE).next("bob")
    assert lease.item.id == second
    assert [again.run for again in local.claimed(local.answered(ONE)["claimed"])] == [lease.run]
    third = scene.put("third", agent="bob")
    with pytest.raises(Repeated):
        local.answering(ONE).next("bob")
    assert scene.status(third) == "pending"


def test_a_claim_that_finds_nothing_keeps_nothing(local: LocalService, scene: Scene) -> None:
    assert local.answering(ONE).next("coder") == []
    assert local.answered(ONE) is None
    scene.put()
    assert local.answering(ONE).next("coder")


def test_a_refusal_is_not_kept(local: LocalService) -> None:
    with pytest.raises(NotFound):
        local.answering(ONE).cancel(7, why="over")
    plan = local.create_plan("p", Graph(tasks=(TaskSpec(key="a"),)))
    with pytest.raises(EditRefused):
        local.answering(ONE).edit_plan(
            plan.id, base=1, operations=[AddTask(task=TaskSpec(key="a", title=""))]
        )
    assert local.answered(ONE) is None


def test_of_many_at_once_one_is_carried_out(local: LocalService) -> None:
    def use(_: int) -> bool:
        try:
            return bool(local.answering(ONE).add([NewItem(title="x", lane=LANE)]))
        except Repeated:
            return False

    with ThreadPoolExecutor(6) as threads:
        done = list(threads.map(use, range(12)))
    assert sum(done) == 1
    assert len(local.items(ItemFilter())) == 1


def test_a_key_belongs_to_what_was_asked(local: LocalService) -> None:
    local.answering(ONE).add([NewItem(title="x")])
    with pytest.raises(InvalidInput, match="another request"):
        local.answered(RepeatableRequest("one", "something else"))


def test_answers_are_forgotten_after_a_day(local: LocalService, scene: Scene) -> None:
    local.answering(ONE).add([NewItem(title="x")])
    scene.clock.advance(ANSWERS_KEPT_S - 1)
    assert local.forget_requests() == 0
    scene.clock.advance(2)
    assert local.forget_requests() == 1
    assert local.answered(ONE) is None


# -- tokens -------------------------------------------------------------------------------------------


def test_a_token_lets_its_bearer_in_until_it_is_over_or_revoked(local: LocalService, scene: Scene) -> None:
    assert not local.has_tokens()
    made = local.create_token("laptop", scope="agent: Coder", expires_s=3600)
    assert made.token is not None
    token, scope = local.bearer(made.token)
    assert (token.name, scope.needs, scope.agent) == ("laptop", Needs.AGENT, "coder")
    assert local.tokens()[0].last_used_at == scene.clock.now
    assert local.tokens()[0].token is None
    scene.clock.advance(3601)
    assert not local.has_tokens()
    with pytest.raises(NoToken):
        local.bearer(made.token)
    other = local.create_token("ci", scope="read")
    assert local.has_tokens()
    assert local.revoke_token(other.id).revoked_at is not None
    with pytest.raises(NoToken):
        local.bearer(str(other.token))


@pytest.mark.parametrize("text", ["", "il", "il__", "il_x_y", "il_000000000000_", "x" * 1000, "il_é_é"])
def test_what_is_no_token_lets_nobody_in(local: LocalService, text: str) -> None:
    with pytest.raises(NoToken):
        local.bearer(text)


@pytest.mark.parametrize(
    ("name", "scope", "expires_s"),
    [
        ("a\nb", "read", None),
        ("", "read", None),
        ("x", "root", None),
        ("x", "agent:", None),
        ("x", "read", 1),
    ],
)
def test_bad_tokens_are_refused(local: LocalService, name: str, scope: str, expires_s: float | None) -> None:
    with pytest.raises(InvalidInput):
        local.create_token(name, scope=scope, expires_s=expires_s)
    assert local.tokens() == []


def test_the_last_use_is_written_once_a_minute(local: LocalService, scene: Scene) -> None:
    made = local.create_token("laptop", scope="read")
    first = scene.clock.now
    for _ in range(3):
        local.bearer(str(made.token))
        scene.clock.advance(25)
    assert local.tokens()[0].last_used_at == first
    local.bearer(str(made.token))
    assert local.tokens()[0].last_used_at == scene.clock.now


def test_a_late_end_under_a_key_is_refused_as_any(local: LocalService, scene: Scene) -> None:
    lease = scene.put_running()
    scene.lose(lease)
    (ended,) = local.answering(ONE).done([Report(run=lease.run)])
    assert ended.refusal is not None
    assert local.answered(ONE)[0]["status"] == "refused"
    with pytest.raises(LeaseLost):
        local.inbox(lease.run)

"""What runs used: reports are totals, the greater figure wins, and the sums by day agree."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from interlock.core.errors import InterlockError, InvalidInput, LeaseLost
from interlock.core.record import replace
from interlock.service.contract import CostView, SpendingView
from tests.conformance.scene import Scene

DAY_S = 24 * 3600.0


def spent(scene: Scene, whose: str, name: str, days: int = 7) -> list[tuple[str, float]]:
    """Day and dollars, the newest first."""
    found = scene.service.spending(days=days)
    return [(each.day, each.usd) for each in found if (each.scope, each.name) == (whose, name)]


def today(scene: Scene) -> str:
    return scene.clock.now.astimezone(UTC).date().isoformat()


def test_of_each_figure_the_greater_one_wins(scene: Scene) -> None:
    lease = scene.put_running(project="site")
    first = scene.service.cost(lease.run, usd=0.4, input_tokens=1_000, output_tokens=90)
    assert first == CostView(usd=0.4, input_tokens=1_000, output_tokens=90)
    assert scene.service.cost(lease.run, usd=0.4, input_tokens=1_000, output_tokens=90) == first
    late = scene.service.cost(lease.run, usd=0.1, input_tokens=2_000)
    assert late == CostView(usd=0.4, input_tokens=2_000, output_tokens=90)
    row = SpendingView(
        scope="agent", name="coder", day=today(scene), usd=0.4, input_tokens=2_000, output_tokens=90
    )
    assert scene.service.spending() == [row, replace(row, scope="project", name="site")]


def test_a_run_that_has_ended_or_lost_its_lease_may_report(scene: Scene) -> None:
    done = scene.put_running()
    scene.done(done)
    assert scene.service.cost(done.run, usd=1).usd == 1
    lost = scene.put_running()
    scene.lose(lost)
    again = scene.claim()
    assert again.item.id == lost.item.id
    assert scene.service.cost(lost.run, usd=2).usd == 2
    scene.service.cost(again.run, usd=4)
    shown = scene.service.show(lost.item.id)
    assert shown.cost == CostView(usd=6.0, input_tokens=0, output_tokens=0)
    assert [run.cost and run.cost.usd for run in shown.runs] == [2, 4]
    assert spent(scene, "agent", "coder") == [(today(scene), 7.0)]


def test_a_handle_that_was_guessed_reports_nothing(scene: Scene) -> None:
    lease = scene.put_running()
    number, item, _ = lease.run.split(".")
    with pytest.raises(InterlockError) as refused:
        scene.service.cost(f"{number}.{item}.{0:016x}", usd=1)
    assert refused.type is LeaseLost
    assert scene.service.spending() == []
    assert scene.service.show(lease.item.id).cost is None


@pytest.mark.parametrize(
    "figures",
    [
        *({}, {"usd": -0.01}, {"usd": 1e9}, {"usd": float("nan")}),
        *({"input_tokens": -1}, {"output_tokens": 10**13}),
    ],
    ids=str,
)
def test_a_report_without_a_true_figure_is_refused(scene: Scene, figures: dict[str, float]) -> None:
    lease = scene.put_running()
    with pytest.raises(InvalidInput):
        scene.service.cost(lease.run, **figures)  # type: ignore[arg-type]
    assert scene.service.spending() == []


def test_a_report_counts_on_the_day_on_which_it_arrives(scene: Scene) -> None:
    lease = scene.put_running()
    scene.service.cost(lease.run, usd=1)
    before = today(scene)
    scene.clock.advance(DAY_S)
    scene.service.cost(lease.run, usd=1)  # repeated
    assert spent(scene, "agent", "coder") == [(before, 1.0)]
    scene.service.cost(lease.run, usd=1.5)
    assert spent(scene, "agent", "coder") == [(today(scene), 0.5), (before, 1.0)]
    assert spent(scene, "agent", "coder", days=1) == [(today(scene), 0.5)]
    scene.clock.advance(7 * DAY_S)
    assert scene.service.spending() == []


def test_the_pool_that_an_agent_shares_counts_what_it_uses(scene: Scene) -> None:
    scene.service.set_pool("account", max_concurrency=5)
    scene.service.set_agent("coder", pool="account")
    scene.service.set_agent("tester", pool="account")
    for agent, usd in (("coder", 0.25), ("tester", 0.5), ("other", 4)):
        lease = scene.put_running(agent=agent)
        scene.service.cost(lease.run, usd=usd)
    assert spent(scene, "pool", "account") == [(today(scene), 0.75)]
    assert spent(scene, "project", "default") == [(today(scene), 4.75)]


def test_small_amounts_add_up_exactly(scene: Scene) -> None:
    lease = scene.put_running()
    for n in range(1, 11):
        scene.service.cost(lease.run, usd=n / 10)
    assert spent(scene, "agent", "coder") == [(today(scene), 1.0)]


def test_stats_and_metrics_show_today(scene: Scene) -> None:
    lease = scene.put_running()
    scene.service.cost(lease.run, usd=0.25, output_tokens=7)
    seen = scene.service.stats()
    assert [(each.scope, each.name, each.usd) for each in seen.spent_today] == [
        ("agent", "coder", 0.25),
        ("project", "default", 0.25),
    ]
    metrics = {metric.name: metric for metric in scene.service.metrics()}
    (sample,) = metrics["interlock_agent_spent_today_usd"].samples
    assert (dict(sample.labels), sample.value) == ({"agent": "coder"}, 0.25)
    scene.clock.advance(DAY_S)
    assert scene.service.stats().spent_today == ()


def test_the_recap_has_what_was_used_in_its_span(scene: Scene) -> None:
    early = scene.put_running()
    scene.service.cost(early.run, usd=1)
    scene.done(early)
    scene.clock.advance(7200)
    for usd in (0.25, 0.5):
        lease = scene.put_running()
        scene.service.cost(lease.run, usd=usd, input_tokens=10)
        scene.done(lease)
    assert scene.service.recap(window_s=3600).cost == CostView(usd=0.75, input_tokens=20, output_tokens=0)
    assert scene.service.recap().cost.usd == 1.75


def test_costs_go_with_their_item_and_the_sums_stay(scene: Scene) -> None:
    lease = scene.put_running()
    scene.service.cost(lease.run, usd=1)
    scene.done(lease)
    assert isinstance(datetime.fromisoformat(today(scene)), datetime)
    scene.clock.advance(DAY_S)
    store = getattr(scene.service, "store", None)
    if store is None:
        pytest.skip("a server deletes by its own age")
    assert store.prune_items(scene.clock.now_us, 0, 100, really=True).items == 1
    assert store.costs.of_items([lease.item.id]) == {}
    assert spent(scene, "agent", "coder") != []
    with pytest.raises(LeaseLost):
        scene.service.cost(lease.run, usd=2)

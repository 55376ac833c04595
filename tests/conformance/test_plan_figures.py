"""What a plan's figures count, on every backend."""

from __future__ import annotations

from tests.conformance.test_plans import Planner, planner

__all__ = ["planner"]


def test_a_task_took_as_long_as_its_runs_and_not_the_days_between_them(planner: Planner) -> None:
    planner.make("A>B>D, A>C>D, X")

    def work(key: str, seconds: float, *, well: bool = True) -> None:
        lease = planner.claim(item=planner.task(key).item, lease_s=600)
        planner.clock.advance(seconds)
        planner.done(lease) if well else planner.fail(lease, retry=False)

    work("A", 10)
    work("B", 20)
    work("C", 5)
    running = planner.start("D")
    stats = planner.service.plan_stats(planner.plan)
    assert (stats.critical_path, stats.critical_path_s, stats.total_work_s) == (("A", "B"), 30.0, 35.0)
    assert (stats.parallelism, stats.depth) == (35 / 30, 3)
    planner.done(running)
    work("X", 100, well=False)
    planner.pass_s(86_400)
    planner.service.retry(planner.task("X").item)
    assert planner.service.plan_stats(planner.plan).total_work_s == 35.0, "X has not ended"
    work("X", 1)
    stats = planner.service.plan_stats(planner.plan)
    assert (stats.critical_path, stats.critical_path_s, stats.total_work_s) == (("X",), 101.0, 136.0)

"""What the checks of a commit say together, and which runs its message names."""

from __future__ import annotations

import itertools

import pytest

from interlock.core.ci import Check, CiOutcome, Required, verdict
from interlock.core.trailers import Trailer, run_of_branch, trailers

P, S, F, C = CiOutcome.PENDING, CiOutcome.SUCCESS, CiOutcome.FAILURE, CiOutcome.CANCELLED


def checks(*outcomes: CiOutcome) -> list[Check]:
    return [Check(f"c{n}", each, 1, n) for n, each in enumerate(outcomes)]


@pytest.mark.parametrize("outcomes", list(itertools.product(CiOutcome, repeat=3)))
def test_the_worst_one_decides_in_any_order(outcomes: tuple[CiOutcome, ...]) -> None:
    worst = next(each for each in (F, P, C, S) if each in outcomes)
    assert verdict(checks(*outcomes)).outcome is worst
    assert verdict(reversed(checks(*outcomes))).outcome is worst


def test_only_required_checks_count_and_missing_ones_are_waited_for() -> None:
    found = [Check("lint", F), Check("test", S, 5)]
    assert verdict(found, [Required("test")]).outcome is S
    assert verdict(found, [Required("test", 5)]).outcome is S
    assert verdict(found, [Required("test", 6)]).why == "waiting for test"
    assert verdict(found, [Required("test"), Required("e2e")]).outcome is P
    assert verdict([*found, Check("e2e", C)], [Required("test"), Required("e2e")]).outcome is C


def test_of_one_check_the_newest_run_counts() -> None:
    again = [Check("test", S, 5, 20), Check("test", F, 5, 10)]
    assert verdict(again).outcome is S
    assert verdict([*again, Check("test", F, 6, 1)]).outcome is F, "another app's is another check"


def test_without_checks_there_is_no_outcome_unless_some_are_expected() -> None:
    assert verdict([]).outcome is None
    assert verdict([], expected=True).outcome is P
    assert verdict([], [Required("test")]).outcome is P


def test_the_reason_names_a_few() -> None:
    assert verdict(checks(S)).why == "its check passed"
    assert verdict(checks(S, S)).why == "all 2 checks passed"
    assert verdict(checks(F, F)).why == "c0 and c1 failed"
    assert verdict(checks(*[P] * 5)).why == "waiting for c0, c1, c2 and 2 more"
    assert verdict([Check("x" * 500, C)]).why == f"{'x' * 60} was cancelled"


@pytest.mark.parametrize(
    ("message", "found"),
    [
        ("fix\n\nInterlock-Run: 7@3f9a12bc4d5e", [Trailer(7, "3f9a12bc4d5e")]),
        ("fix\r\n\r\nInterlock-Run: 7@a\r\nOther: x\r\n", [Trailer(7, "a")]),
        ("fix\n\ninterlock-run: 7", [Trailer(7)]),
        (
            "fix\n\nInterlock-Run: 7@a\nInterlock-Run: 7@a\nInterlock-Run: 8@b",
            [Trailer(7, "a"), Trailer(8, "b")],
        ),
        ("fix Interlock-Run: 7@a", []),
        ("> Interlock-Run: 7@a", []),
        (
            "Interlock-Run: 0@a\nInterlock-Run: 9999999999999999999@a\nInterlock-Run: x\nInterlock-Run: 7 @a",
            [],
        ),
        ("Interlock-Run: 7@a/../b", []),
        ("", []),
    ],
)
def test_trailers(message: str, found: list[Trailer]) -> None:
    assert trailers(message) == tuple(found)
    assert [trailers(f"Interlock-Run: {each}") for each in found] == [(each,) for each in found]


def test_branches_of_worktrees() -> None:
    assert run_of_branch("interlock/run-12") == 12
    assert run_of_branch("interlock/run-12-2") == 12
    for other in (
        "interlock/run-",
        "interlock/run-0",
        "x/interlock/run-1",
        "interlock/run-1-fix",
        "run-1",
        "",
    ):
        assert run_of_branch(other) is None

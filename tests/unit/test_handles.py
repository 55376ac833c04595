"""Handles: the right to write as a run cannot be guessed, and whatever else a program passes is no handle."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.core.commands import Finish, Outcome
from interlock.core.decide import decide
from interlock.core.errors import CycleExpired, InvalidInput, LeaseLost, Refusal, UnknownRun
from interlock.core.handles import Handle, read_handle
from interlock.core.ledger import Snapshot
from interlock.core.model import Item, ItemId, Policy, RetryLane, RunId, Spec, State
from interlock.core.states import ItemStatus, RunStatus
from interlock.core.timing import Timing
from interlock.service.view_builders import refusal_view

HANDLE = "7.42.0123456789abcdef"
NUMBERS = st.integers(1, 2**63 - 1)
BITS = st.integers(-(2**63), 2**63 - 1)


@given(run=NUMBERS, item=NUMBERS, bits=BITS)
def test_a_handle_reads_back_as_what_it_names(run: int, item: int, bits: int) -> None:
    handle = Handle(RunId(run), ItemId(item), bits)
    assert read_handle(str(handle)) == handle


@pytest.mark.parametrize(
    ("bits", "digits"), [(0, "0" * 16), (1, "0" * 15 + "1"), (-1, "f" * 16), (-(2**63), "8" + "0" * 15)]
)
def test_bits_are_sixteen_digits(bits: int, digits: str) -> None:
    assert str(Handle(RunId(7), ItemId(42), bits)) == f"7.42.{digits}"


def test_a_traceback_does_not_show_the_bits() -> None:
    handle = read_handle(HANDLE)
    assert repr(handle) == "Handle(7.42)"
    assert str(handle.bits) not in f"{[handle]}"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "7",
        "7.42",
        HANDLE[:-1],
        HANDLE + "0",
        HANDLE.upper(),
        " " + HANDLE,
        HANDLE + "\n",
        "0.42." + "0" * 16,
        "07.42." + "0" * 16,
        "-7.42." + "0" * 16,
        "\uff17.42." + "0" * 16,
        f"{2**63}.42." + "0" * 16,
        f"7.{2**63}." + "0" * 16,
        "9" * 5_000 + ".42." + "0" * 16,
        "\x00",
        None,
        7,
        7.5,
        b"7.42.0123456789abcdef",
        [HANDLE],
        (7, 42, 0),
    ],
)
def test_what_is_no_handle_is_bad_input_in_one_short_sentence(text: Any) -> None:
    with pytest.raises(UnknownRun, match="is not a handle") as refused:
        read_handle(text)
    assert isinstance(refused.value, InvalidInput)
    assert refused.value.exit_code == 2
    assert len(refused.value.sentence) < 200


@given(st.text(max_size=60))
def test_no_text_but_a_handle_is_ever_accepted(text: str) -> None:
    with pytest.raises(UnknownRun):
        read_handle(text)


def running(run: int, bits: int) -> Item:
    spec = Spec(
        id=ItemId(42),
        project="default",
        type="task",
        title="work",
        agent_key="",
        policy=Policy.QUEUE,
        priority=0,
        position=0,
        ticket=1,
        sort_key=1,
        lane=None,
        observed_lane=None,
        labels=(),
        lease_s=None,
        timeout_s=None,
        max_attempts=3,
        retry_lane=RetryLane.YIELD,
        created_us=0,
    )
    state = State(
        status=ItemStatus.IN_PROGRESS,
        attempt=1,
        due_us=9,
        run=RunId(run),
        run_bits=bits,
        run_agent="coder",
        run_started_us=1,
        run_lease_s=60.0,
        lease_until_us=9,
    )
    return Item(spec, state)


@pytest.mark.parametrize("outcome", Outcome)
@given(run=st.sampled_from([6, 7, 8]), bits=st.sampled_from([0, 5, -5]))
def test_a_report_is_accepted_iff_both_number_and_bits_are_those_of_the_current_run(
    outcome: Outcome, run: int, bits: int
) -> None:
    snapshot = Snapshot(items={ItemId(42): running(7, 5)})
    report = Finish(RunId(run), ItemId(42), outcome, bits=bits)
    (ended,) = decide(snapshot, [report], 5, Timing()).answers
    accepted = (run, bits) == (7, 5)
    assert (ended.refusal is None) is accepted
    assert (ended.item is None) is not accepted, "a foreign handle is told nothing of the item"


def test_of_a_foreign_and_a_right_handle_in_one_batch_the_right_one_goes_through() -> None:
    snapshot = Snapshot(items={ItemId(42): running(7, 5)})
    reports = [Finish(RunId(7), ItemId(42), Outcome.DONE, bits=bits) for bits in (6, 5, 6, 5)]
    decision = decide(snapshot, reports, 5, Timing())
    assert [a.status for a in decision.answers] == [None, RunStatus.SUCCEEDED, None, None]
    assert [r.bits for r in decision.runs] == [5]
    reasons = [e.reason for e in decision.events if e.kind == "run.refused"]
    assert reasons == ["foreign_handle", "foreign_handle"], "a report that comes twice is nobody else's"


def test_a_refusal_becomes_the_exception_of_its_code() -> None:
    lost = Refusal(code="lease_lost", sentence="Run 7 ended.", hint="Stop.")
    late = Refusal(code="edit_cycle_expired", sentence="Too late.", hint="")
    for refusal, kind in ((lost, LeaseLost), (late, CycleExpired)):
        shown = refusal_view(refusal)
        assert (type(refusal.error()), type(shown.error())) == (kind, kind)
        assert str(refusal.error()) == str(shown.error())
    assert str(lost.error()) == "Run 7 ended. Stop."
    assert lost.error().exit_code == 5

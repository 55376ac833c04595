"""Handles: the right to write as a run cannot be guessed, and a foreign one is told from a lost one."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.core.errors import InvalidInput, LeaseLost, Refusal, UnknownRun
from interlock.core.handles import REMEMBERED_AT_MOST, Handles
from interlock.core.model import ItemId, RunId

KEY = bytes(range(32))
HANDLE = Handles(KEY).make(RunId(7), ItemId(42))
NUMBERS = st.integers(1, 2**63 - 1)


@given(run=NUMBERS, item=NUMBERS, key=st.binary(min_size=32, max_size=32))
def test_a_handle_reads_back_as_its_run_and_item(run: int, item: int, key: bytes) -> None:
    handle = Handles(key).make(RunId(run), ItemId(item))
    assert Handles(key).read(handle) == (run, item)


def test_a_handle_carries_sixty_four_bits_that_only_the_store_knows() -> None:
    assert re.fullmatch(r"7\.42\.[0-9a-f]{16}", HANDLE)
    assert Handles(bytes(32)).make(RunId(7), ItemId(42)) != HANDLE
    assert Handles(KEY).make(RunId(8), ItemId(42)).rpartition(".")[2] != HANDLE.rpartition(".")[2]
    assert Handles(KEY).make(RunId(7), ItemId(43)).rpartition(".")[2] != HANDLE.rpartition(".")[2]


@pytest.mark.parametrize(
    "forged",
    [
        HANDLE.replace("7.", "8.", 1),
        HANDLE.replace(".42.", ".43."),
        HANDLE[:-1] + ("0" if HANDLE[-1] != "0" else "1"),
        "7.42." + "0" * 16,
        Handles(bytes(32)).make(RunId(7), ItemId(42)),
    ],
    ids=["another run", "another item", "one bit off", "guessed", "of another store"],
)
def test_a_handle_that_was_never_issued_is_unknown(forged: str) -> None:
    with pytest.raises(UnknownRun, match="never issued by this store"):
        Handles(KEY).read(forged)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "7",
        "7.42",
        HANDLE[:-1],
        HANDLE + "0",
        HANDLE.upper() if HANDLE.upper() != HANDLE else "7.42.ABCDEFABCDEFABCD",
        " " + HANDLE,
        HANDLE + "\n",
        "0.42." + "0" * 16,
        "07.42." + "0" * 16,
        "-7.42." + "0" * 16,
        "\uff17.42." + "0" * 16,
        "9" * 5_000 + ".42." + "0" * 16,
        "\x00",
    ],
)
def test_what_does_not_have_the_form_of_a_handle_is_bad_input(text: str) -> None:
    with pytest.raises(InvalidInput, match="is not a handle") as refused:
        Handles(KEY).read(text)
    assert len(refused.value.sentence) < 200


def test_a_handle_forgotten_for_many_newer_ones_is_proved_again() -> None:
    handles = Handles(KEY)
    given_out = [handles.make(RunId(n), ItemId(n)) for n in range(1, REMEMBERED_AT_MOST + 3)]
    assert [handles.read(h) for h in given_out] == [(n, n) for n in range(1, REMEMBERED_AT_MOST + 3)]


def test_a_handle_that_was_taken_is_proved_again() -> None:
    handles = Handles(KEY)
    handle = handles.make(RunId(7), ItemId(42))
    assert handles.take(handle) == handles.take(handle) == handles.read(handle) == (7, 42)
    with pytest.raises(UnknownRun):
        handles.take(HANDLE.replace("7.", "8.", 1))


@given(st.text(max_size=60))
def test_no_text_but_a_handle_is_ever_accepted(text: str) -> None:
    with pytest.raises((InvalidInput, UnknownRun)):
        Handles(KEY).read(text)


def test_a_refusal_becomes_the_exception_of_its_code() -> None:
    lost = Refusal(code="lease_lost", sentence="Run 7 ended.", hint="Stop.")
    unknown = Refusal(code="unknown_run", sentence="Never issued.", hint="")
    assert isinstance(lost.error(), LeaseLost)
    assert isinstance(unknown.error(), UnknownRun)
    assert str(lost.error()) == "Run 7 ended. Stop."
    assert lost.error().exit_code == 5

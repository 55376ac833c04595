"""Output as plain text, and what a worker sends of it."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.core.errors import LeaseLost, StoreUnavailable
from interlock.core.output_text import last_line, plain, split_begun
from interlock.worker.log_sharing import PIECE_CHARS, LogSharing, SharedOutput

HANDLE = "7.3.0123456789abcdef"


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain\n\ttext\n", "plain\n\ttext\n"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]8;;https://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b(Btext\x1b7", "text"),
        ("1 %\r2 %\r3 %\r\ndone", "3 %\ndone"),
        ("old\rnew\n", "new\n"),
        ("a\x00b\x08c\x7fd\x85e\u202ef\u2028g", "abcdefg"),
        ("<script>alert(1)</script>", "<script>alert(1)</script>"),
        ("\x1b", ""),
    ],
)
def test_what_a_terminal_would_show_in_the_end(raw: str, shown: str) -> None:
    assert plain(raw) == shown


@pytest.mark.parametrize("begun", ["\x1b", "\x1b[", "\x1b[1;3", "\x1b]0;tit", "\r", ""])
def test_a_sequence_that_comes_in_two_parts_waits(begun: str) -> None:
    assert split_begun(f"text{begun}") == ("text", begun)


def test_the_last_line_is_short_and_not_blank() -> None:
    assert last_line("a\n  b  \n\n \n", 10) == "b"
    assert last_line("x" * 50, 10) == "x" * 10
    assert last_line("\n\n", 10) == ""


class Store:
    """Takes pieces, or fails."""

    def __init__(self) -> None:
        self.pieces: list[tuple[int, str]] = []
        self.error: Exception | None = None

    def append_log(self, run: str, *, start: int, text: str) -> int:
        if self.error is not None:
            raise self.error
        self.pieces.append((start, text))
        return start + len(text)


def sent(output: SharedOutput, store: Store, **options: Any) -> bool:
    return output.send(store, **options)  # type: ignore[arg-type]


def test_a_run_sends_one_bounded_piece_and_leaves_out_the_rest() -> None:
    """Taken out (the cut in `take`): a run that writes a gigabyte keeps it in memory."""
    output, store = SharedOutput(HANDLE), Store()
    for _ in range(100):
        output.take(b"x" * 10_000)
    assert sent(output, store)
    assert store.pieces == [(1_000_000 - PIECE_CHARS, "x" * PIECE_CHARS)]
    assert not sent(output, store), "nothing new"
    output.take(b"y")
    assert sent(output, store)
    assert store.pieces[1] == (1_000_000, "y")


def test_characters_and_sequences_may_come_in_parts() -> None:
    output, store = SharedOutput(HANDLE), Store()
    for byte in "ü \x1b[31mred\x1b[0m €\r\n".encode():
        output.take(bytes([byte]))
    sent(output, store)
    assert store.pieces == [(0, "ü red €\n")]


def test_the_handle_and_the_token_are_left_out_even_in_parts() -> None:
    """Taken out (`_begun_secret`): whoever reads the log can report the end of the run."""
    output, store = SharedOutput(HANDLE, ["token-of-a-server"]), Store()
    for part in (b"INTERLOCK_RUN=7.3.0123", b"456789abcdef token-of", b"-a-server end\n"):
        output.take(part)
        sent(output, store)
    sent(output, store, last=True)
    assert "".join(text for _, text in store.pieces) == "INTERLOCK_RUN=7.3.[redacted] [redacted] end\n"


def test_a_piece_without_an_answer_is_sent_again_at_its_place() -> None:
    output, store = SharedOutput(HANDLE), Store()
    output.take(b"one\n")
    store.error = StoreUnavailable("away", "")
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            sent(output, store)
    output.take(b"two\n")
    store.error = None
    while sent(output, store):
        pass
    assert store.pieces == [(0, "one\n"), (4, "two\n")]


def test_a_run_that_was_lost_or_ended_early_sends_nothing() -> None:
    store = Store()
    sharing = LogSharing(store, list, 0)  # type: ignore[arg-type]
    short = SharedOutput(HANDLE)
    short.take(b"short\n")
    sharing.finish(short)
    assert store.pieces == [], "a short run costs no write"
    long = SharedOutput(HANDLE)
    long.take(b"first\n")
    sent(long, store)
    long.take(b"last\n")
    sharing.finish(long)
    assert store.pieces == [(0, "first\n"), (6, "last\n")]
    lost = SharedOutput(HANDLE)
    lost.take(b"late\n")
    store.error = LeaseLost("lost")
    sent(lost, store)
    store.error = None
    lost.take(b"later\n")
    assert not sent(lost, store)


def test_a_line_without_an_end_takes_one_pass() -> None:
    """Taken out: splitting into lines. An expression that begins anew at each character takes hours."""
    for text in (
        "x" * 1_000_000,
        "x" * 1_000_000 + "\ry",
        "\x1b]" * 500_000,
        "\x1b[" * 500_000,
        "\r" * 1_000_000,
    ):
        assert len(plain(text)) <= len(text)
        assert len("".join(split_begun(text))) == len(text)

"""Who wrote a remark, whom it names, and which commands it gives."""

from __future__ import annotations

import pytest

from interlock.core.model import A_PERSON, ANOTHER_SYSTEM, OUR_BOT, Sender, SenderKind
from interlock.github.remarks import Remark, commands, mark, marks, mentioned, writer

AGENTS = {"coder-bot[bot]": "Coder", "coder": "coder", "cto": "cto"}
CODER = Sender(SenderKind.AGENT, "coder")


def remark(author: str, text: str = "", *, bot: bool = False) -> Remark:
    return Remark(kind="issue_comment", id=1, number=42, author=author, bot=bot, text=text, url="")


@pytest.mark.parametrize(
    ("text", "agents"),
    [
        ("@coder please look", ("coder",)),
        ("cc @CTO, @coder-bot[bot] and @coder", ("cto", "coder")),
        ("(@coder)", ("coder",)),
        ("mail me@coder or a/@coder", ()),
        ("> @coder said\nno", ()),
        ("`@coder`", ()),
        ("```\n@coder\n```\n@cto", ("cto",)),
        ("```\n@coder", ()),
        ("<!-- @coder -->", ()),
        ("@coders and @nobody", ()),
        ("@coder.", ("coder",)),
    ],
)
def test_whom_a_text_names(text: str, agents: tuple[str, ...]) -> None:
    assert mentioned(text, AGENTS) == agents


def test_commands_stand_at_the_start_of_a_line_and_not_in_quotes() -> None:
    text = (
        "Hi\n/interlock priority 9\n> /interlock cancel\nsay /interlock why\n/interlock  status\n/interlocked"
    )
    assert [(each.name, each.argument) for each in commands(text)] == [("priority", "9"), ("status", "")]


def test_a_mark_is_found_again() -> None:
    text = f"Done.\n\n{mark(agent='coder', run=17)}"
    assert marks(text) == {"agent": "coder", "run": "17"}
    assert marks("Done.") == {}


def test_the_last_mark_counts() -> None:
    assert marks(f"{mark(agent='a')} quoted, then {mark(agent='b')}")["agent"] == "b"


@pytest.mark.parametrize(
    ("written", "sender"),
    [
        (remark("alice"), A_PERSON),
        (remark("dependabot[bot]", bot=True), ANOTHER_SYSTEM),
        (remark("coder-bot[bot]", bot=True), CODER),
        (remark("github-actions[bot]", bot=True), OUR_BOT),
        (remark("github-actions[bot]", mark(agent="coder"), bot=True), CODER),
        (remark("interlock[bot]", mark(agent="coder"), bot=True), CODER),
        (remark("interlock[bot]", bot=True), OUR_BOT),
        # Anybody can copy a mark.
        (remark("alice", mark(agent="coder")), A_PERSON),
        (remark("dependabot[bot]", mark(agent="coder"), bot=True), ANOTHER_SYSTEM),
    ],
)
def test_who_wrote_it(written: Remark, sender: Sender) -> None:
    assert writer(written, AGENTS, frozenset({"interlock[bot]"})) == sender

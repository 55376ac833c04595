"""`interlock help WORD`: the glossary, and the help of commands."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from interlock.cli import parser, plain_line
from interlock.cli.glossary import GLOSSARY, key_of, key_of_other
from interlock.cli.invocation import Invocation
from tests.acceptance.command import CommandHere

#: The words of the design, and those that messages and commands use.
NEEDED = (
    *("item", "lane", "policy", "run", "fence", "handle", "lease", "agent", "message", "ticket", "plan"),
    *(
        "revision",
        "edit cycle",
        "event",
        "inbox",
        "outbox",
        "quota limit",
        "gate",
        "block",
        "salvage",
        "sweep",
    ),
    "mode",
)


@pytest.fixture
def il(tmp_path: Path) -> CommandHere:
    return CommandHere(tmp_path)


def text(il: CommandHere, *args: str) -> str:
    """What a command that succeeds prints for people."""
    answer = il(*args)
    assert (answer.code, answer.err) == (0, "")
    return answer.out


@pytest.mark.parametrize("word", NEEDED)
def test_a_word_is_explained_with_a_command(word: str, il: CommandHere) -> None:
    shown = text(il, "help", word)
    entry = GLOSSARY[word]
    assert shown.startswith(f"{word}: {entry.meaning}")
    assert f"\n  {entry.command}\n  {entry.does}\n" in shown
    assert il.ok("help", word) == {
        "word": word,
        "meaning": entry.meaning,
        "command": entry.command,
        "does": entry.does,
    }


def test_alone_it_lists_every_word(il: CommandHere) -> None:
    assert il.ok("help") == {"words": {word: entry.meaning for word, entry in GLOSSARY.items()}}
    listed = re.findall(r"^([a-z-]+(?: [a-z]+)?)  ", il("help", env={"COLUMNS": "100"}).out, re.MULTILINE)
    assert listed == list(GLOSSARY)


@pytest.mark.parametrize(
    ("spelled", "word"),
    [
        ("Leases", "lease"),
        ("policies", "policy"),
        ("series", "series"),
        ("backoff", "back-off"),
        ("back_off", "back-off"),
        ("Dead-Letter", "dead letter"),
        ("wall", "quota limit"),
        ("coalesce", "policy"),
    ],
)
def test_other_spellings_lead_to_the_word(spelled: str, word: str, il: CommandHere) -> None:
    assert il.ok("help", spelled)["word"] == word


def test_a_word_of_two_parts_needs_no_quotes(il: CommandHere) -> None:
    assert il.ok("help", "quota", "limit")["word"] == "quota limit"


def test_a_command_shows_its_help(il: CommandHere) -> None:
    assert text(il, "help", "add") == text(il, "add", "--help")
    assert text(il, "help", "plan", "edit") == text(il, "plan", "edit", "--help")
    found = il.ok("help", "retry")
    assert found["command"] == "retry"
    assert found["help"].startswith("Give failed or cancelled items one more attempt")


def test_a_word_that_is_a_command_too_names_it(il: CommandHere) -> None:
    assert text(il, "help", "block").endswith("\nThe command of this name: interlock block --help\n")
    assert "--help" not in text(il, "help", "lease")


def test_an_unknown_word_gets_the_nearest_ones(il: CommandHere) -> None:
    refused = il("help", "leese")
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.splitlines() == [
        "There is no word or command 'leese'.",
        "Did you mean lease, release, lanes? List all words: interlock help",
    ]
    assert il("help", "xyzzy").err.endswith("\nList all words: interlock help\n")
    assert il("help", "plan", "xyzzy").code == 2


@pytest.mark.parametrize("word", GLOSSARY)
def test_the_command_of_a_word_is_accepted(word: str) -> None:
    program, *line = shlex.split(GLOSSARY[word].command)
    if program == "interlock":
        assert plain_line.read(line, Invocation()) is not None
    else:
        assert (program, line) == ("git", ["for-each-ref", "refs/interlock/salvage"])


@pytest.mark.parametrize("word", GLOSSARY)
def test_an_entry_is_short_and_leads_to_itself(word: str) -> None:
    entry = GLOSSARY[word]
    assert key_of(word) == word
    assert all(key_of(also) is None and key_of_other(also) == word for also in entry.also)
    for sentence in re.split(r"(?<=\.) ", entry.meaning):
        assert sentence.endswith(".")
        assert len(sentence.split()) <= 25, sentence


def test_it_needs_no_store_and_no_typer(il: CommandHere) -> None:
    text(il, "help", "lease")
    assert not (il.directory / ".interlock").exists()
    assert plain_line.read(["help", "quota", "limit"], Invocation()) is not None
    assert parser.root().get_command(None, "help").help.startswith("Explain a word")

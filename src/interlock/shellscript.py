"""Which commands a shell script starts, read without running it.

Enough of the shell's language to find the simple commands of a script and their words: quotes, comments,
here-documents, substitutions, pipes and lists. Variables are not expanded, and a script that hides a command
(`eval`, a variable, another file) hides it from here too: this helps people, it is no fence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

#: Nested substitutions and `sh -c` texts are followed no deeper than this.
_DEPTH_MAX = 5

_OPERATOR = re.compile(r"&&|\|\||;;|\|&|[;|&()\n]")
_REDIRECTION = re.compile(r"\d*(?:&>>?|>>|>&|<&|>\||<>|<<<|[<>])(?!\()")
_HERE_DOCUMENT = re.compile(r"\d*<<(-?)[ \t]*(['\"]?)([\w.-]+)\2")
_BLANK = re.compile(r"(?:[ \t\r]|\\\n)+")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
#: Words that may stand before a command without being one.
_OPENERS = frozenset({"if", "then", "else", "elif", "do", "while", "until", "!", "{", "time"})
#: Programs that start another one, and their options that take a value.
_WRAPPERS = {
    "exec": ("-a",),
    "command": (),
    "env": ("-u", "-C", "-S"),
    "nohup": (),
    "nice": ("-n",),
    "sudo": ("-u", "-g"),
    "stdbuf": ("-i", "-o", "-e"),
    "timeout": ("-k", "-s"),
    "npx": ("-p", "--package"),
    "bunx": (),
    "uvx": ("--from", "--with"),
}
_SHELLS = frozenset({"sh", "bash", "dash", "zsh"})
_SHELL_TEXT = re.compile(r"-[a-z]*c", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpleCommand:
    """One command with its words, as the shell would start it."""

    words: tuple[str, ...]
    #: The line of the script it begins on, counted from 0.
    line: int
    #: What ends it: a newline, `;`, `&&`, `||`, `|`, `&`, `)` or nothing.
    end: str
    #: It reads from a pipe.
    piped: bool
    #: It stands inside another command: a substitution, or the text of `sh -c`.
    inner: bool

    @property
    def execs(self) -> bool:
        """It takes the place of its shell, and so gets the signals that the shell would get."""
        in_a_child = self.piped or self.inner or self.end in ("|", "|&", "&")
        return self._unassigned()[:1] == ["exec"] and not in_a_child

    @property
    def program(self) -> list[str]:
        """The program and its arguments, without assignments and wrappers such as `env` and `timeout`."""
        words = self._unassigned()
        while words and words[0] in _WRAPPERS:
            wrapper, words = words[0], words[1:]
            while words and (words[0].startswith("-") or _ASSIGNMENT.match(words[0])):
                words = words[2:] if words[0] in _WRAPPERS[wrapper] else words[1:]
            if wrapper == "timeout":
                words = words[1:]
        return words

    def _unassigned(self) -> list[str]:
        words = list(self.words)
        while words and (words[0] in _OPENERS or _ASSIGNMENT.match(words[0])):
            words = words[1:]
        return words


def commands(script: str) -> list[SimpleCommand]:
    """The simple commands of a script in their order, with those inside substitutions and `sh -c` texts."""
    return list(_commands(script, depth=0))


def _commands(script: str, *, depth: int) -> Iterator[SimpleCommand]:
    if depth > _DEPTH_MAX:
        return
    reader = _Reader(script)
    piped = False
    while not reader.at_end:
        words, scripts, line, end = reader.command()
        found = SimpleCommand(words=tuple(words), line=line, end=end, piped=piped, inner=depth > 0)
        if words:
            yield found
            scripts += _shell_text(found.program)
        for text in scripts:
            yield from _commands(text, depth=depth + 1)
        piped = end in ("|", "|&")


def _shell_text(program: list[str]) -> list[str]:
    """The script that `sh -c SCRIPT` runs."""
    if program and program[0].rpartition("/")[2] in _SHELLS:
        for option, text in pairwise(program[1:]):
            if _SHELL_TEXT.fullmatch(option):
                return [text]
    return []


class _Reader:
    """Goes through a script once."""

    def __init__(self, script: str) -> None:
        self._text = script
        self._at = 0
        #: Here-documents whose bodies begin on the next line.
        self._waiting: list[tuple[bool, str]] = []

    @property
    def at_end(self) -> bool:
        return self._at >= len(self._text)

    def command(self) -> tuple[list[str], list[str], int, str]:
        """The next command: its words, the scripts inside of it, its line, and what ends it."""
        words: list[str] = []
        inner: list[str] = []
        line: int | None = None
        while not self.at_end:
            if self._skip(_BLANK) or (self._text[self._at] == "#" and self._skip(re.compile(r"[^\n]*"))):
                continue
            if here := self._skip(_HERE_DOCUMENT):
                self._waiting.append((here[1] == "-", here[3]))
                continue
            if self._skip(_REDIRECTION):
                self._skip(_BLANK)
                self._word(inner)
                continue
            if operator := self._skip(_OPERATOR):
                if operator[0] == "\n":
                    self._skip_bodies()
                return words, inner, line or 0, operator[0]
            if line is None:
                line = self._text.count("\n", 0, self._at)
            words.append(self._word(inner))
        return words, inner, line or 0, ""

    def _word(self, inner: list[str]) -> str:
        """One word without its quotes; what stands in substitutions goes to `inner`."""
        parts: list[str] = []
        start = self._at
        while not self.at_end:
            char = self._text[self._at]
            if char in " \t\r\n;|&<>)" and not self._text.startswith(("<(", ">("), self._at):
                break
            if char == "(" and self._at > start and self._text[self._at - 1] in "$<>=":
                text = self._enclosed("(", ")")
                inner.append(text)
                parts.append(f"({text})")
            elif char == "(":
                break
            elif char == "{" and self._at > start and self._text[self._at - 1] == "$":
                parts.append("{" + self._enclosed("{", "}") + "}")
            elif char == "`":
                inner.append(self._until("`"))
            elif char == "'":
                parts.append(self._until("'"))
            elif char == '"':
                parts.append(self._double_quoted(inner))
            elif char == "\\":
                parts.append(self._text[self._at + 1 : self._at + 2])
                self._at += 2
            else:
                parts.append(char)
                self._at += 1
        if self._at == start:
            self._at += 1  # a mark that is out of place: go on behind it
        return "".join(parts)

    def _double_quoted(self, inner: list[str]) -> str:
        self._at += 1
        parts: list[str] = []
        while not self.at_end and self._text[self._at] != '"':
            if self._text[self._at] == "\\":
                parts.append(self._text[self._at + 1 : self._at + 2])
                self._at += 2
            elif self._text.startswith("$(", self._at):
                self._at += 1
                text = self._enclosed("(", ")")
                inner.append(text)
                parts.append(f"$({text})")
            else:
                parts.append(self._text[self._at])
                self._at += 1
        self._at += 1
        return "".join(parts)

    def _until(self, quote: str) -> str:
        end = self._text.find(quote, self._at + 1)
        end = len(self._text) if end < 0 else end
        text = self._text[self._at + 1 : end]
        self._at = end + 1
        return text

    def _enclosed(self, opening: str, closing: str) -> str:
        """What stands between two brackets that may hold others of their kind."""
        start, depth = self._at + 1, 0
        while not self.at_end:
            char = self._text[self._at]
            if char == "'":
                self._until("'")
                continue
            depth += (char == opening) - (char == closing)
            self._at += 1
            if depth == 0:
                return self._text[start : self._at - 1]
        return self._text[start:]

    def _skip(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        match = pattern.match(self._text, self._at)
        if match:
            self._at = match.end()
        return match

    def _skip_bodies(self) -> None:
        for indented, tag in self._waiting:
            while not self.at_end:
                end = self._text.find("\n", self._at)
                end = len(self._text) if end < 0 else end
                line = self._text[self._at : end]
                self._at = end + 1
                if (line.lstrip("\t") if indented else line) == tag:
                    break
        self._waiting = []

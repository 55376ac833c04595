"""Which commands a shell script starts, read without running it.

Enough of the shell's language to find the simple commands of a script and their words: quotes, comments,
here-documents, substitutions, pipes, lists and cases, and the scripts that `sh -c`, `eval` and here-documents
give to a shell. Variables are not expanded, and a script can hide a command (in a variable, in another file):
this helps people, it does not guard against anybody.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise

#: Nested substitutions and `sh -c` texts are followed no deeper than this.
_DEPTH_MAX = 5

_OPERATOR = re.compile(r"&&|\|\||;;|\|&|[;|&()\n]")
_REDIRECTION = re.compile(r"\d*(?:&>>?|>>|>&|<&|>\||<>|<<<|[<>])(?!\()")
_HERE_DOCUMENT = re.compile(r"\d*<<(-?)[ \t]*(['\"]?)([\w.-]+)\2")
_COMMENT = re.compile(r"[^\n]*")
_BLANK = re.compile(r"(?:[ \t\r]|\\\n)+")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
#: Words that may come before a command.
_OPENERS = frozenset({"if", "then", "else", "elif", "do", "while", "until", "!", "{"})
#: Programs that start another one, and their options that take a value.
_WRAPPERS = {
    "exec": ("-a",),
    "command": (),
    "builtin": (),
    "time": ("-f", "-o"),
    "setsid": (),
    "ionice": ("-c", "-n"),
    "doas": ("-u",),
    "xargs": ("-I", "-L", "-P", "-a", "-d", "-n", "-s"),
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
#: Options of a shell that take the next word as their value.
_SHELL_VALUES = frozenset({"-o", "+o", "-O", "+O", "--rcfile", "--init-file"})


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpleCommand:
    """One command with its words, as the shell would start it."""

    words: tuple[str, ...]
    #: The line of the script it begins on, counted from 0; for one inside another command, that one's line.
    line: int
    #: What ends it: a newline, `;`, `&&`, `||`, `|`, `&`, `)` or nothing.
    end: str
    #: It reads from a pipe.
    piped: bool = False
    #: It is inside another command: in a substitution, or in the text of a shell or of `eval`.
    inner: bool = False
    #: Its shell is a process below that of the script.
    below: bool = False
    #: It is the only command of its shell, which then replaces itself by it.
    alone: bool = False

    @property
    def execs(self) -> bool:
        """It replaces the script's shell, and so gets the signals sent to the shell."""
        in_a_child = self.below or self.piped or self.end in ("|", "|&", "&")
        return (self.alone or self._unassigned()[:1] == ["exec"]) and not in_a_child

    @property
    def program(self) -> list[str]:
        """The program and its arguments, without assignments and wrappers such as `env` and `timeout`."""
        words = self._unassigned()
        while words and (wrapper := words[0].rpartition("/")[2]) in _WRAPPERS:
            if wrapper == "command" and words[1:2] in (["-v"], ["-V"]):
                break  # it only looks for a program
            words = words[1:]
            while words and (words[0].startswith("-") or _ASSIGNMENT.match(words[0])):
                words = words[2:] if words[0] in _WRAPPERS[wrapper] else words[1:]
            if wrapper == "timeout":
                words = words[1:]
        return words

    @property
    def starter(self) -> str:
        """The word that starts it: its wrapper if it has one, such as `npx`, else the program."""
        words = self._unassigned()
        while words[:1] == ["exec"]:
            words = words[1:]
        return words[0] if words else ""

    def _unassigned(self) -> list[str]:
        words = list(self.words)
        while words and (words[0] in _OPENERS or _ASSIGNMENT.match(words[0])):
            words = words[1:]
        return words


def commands(script: str) -> list[SimpleCommand]:
    """The simple commands of a script in order, each followed by the commands inside it."""
    return list(_commands(script))


def _commands(script: str, *, depth: int = 0, within: SimpleCommand | None = None) -> Iterator[SimpleCommand]:
    """`within` is the command that runs the script; its `below` tells whether in a process of its own."""
    if depth > _DEPTH_MAX:
        return
    reader = _Reader(script)
    #: The commands of the current line, which here-documents may follow.
    line: list[SimpleCommand] = []
    piped, cases = False, _Cases()
    while not reader.at_end:
        part = reader.command()
        found = SimpleCommand(
            words=tuple(part.words),
            line=part.line if within is None else within.line,
            end=part.end,
            piped=piped,
            inner=within is not None,
            below=within is not None and within.below,
            alone=within is not None and within.alone,
        )
        piped = part.end in ("|", "|&")
        if cases.is_pattern(found):
            continue
        if found.words:
            yield found
            line.append(found)
        for text in part.substitutions:
            yield from _commands(text, depth=depth + 1, within=replace(found, below=True, alone=False))
        if found.words:
            yield from _handed_on(found, part.given, depth=depth)
        if part.bodies and (reading := next(filter(_reads_commands, line), None)):
            yield from _handed_on(reading, part.bodies, depth=depth)
        if part.end == "\n":
            line = []


def _handed_on(command: SimpleCommand, given: list[str], *, depth: int) -> Iterator[SimpleCommand]:
    """The commands that a shell or `eval` runs, given as a word or on standard input."""
    program = command.program
    if program[:1] == ["eval"]:  # in the same shell
        yield from _commands(" ".join(program[1:]), depth=depth + 1, within=replace(command, alone=False))
        return
    texts = _shell_text(program) or (given if _reads_commands(command) else [])
    for text in texts:
        alone = command.execs and len(list(_commands(text, depth=depth + 1))) == 1
        below = not command.execs
        yield from _commands(text, depth=depth + 1, within=replace(command, below=below, alone=alone))


def _shell_text(program: list[str]) -> list[str]:
    """The script that `sh -c SCRIPT` runs."""
    if _is_shell(program):
        for option, text in pairwise(program[1:]):
            if _SHELL_TEXT.fullmatch(option):
                return [text]
    return []


def _reads_commands(command: SimpleCommand) -> bool:
    """It is a shell that takes its commands from standard input."""
    program = command.program
    if not _is_shell(program) or _shell_text(program):
        return False
    operands = [
        word
        for before, word in pairwise(program)
        if not word.startswith(("-", "+")) and before not in _SHELL_VALUES
    ]
    return not operands or "-s" in program


def _is_shell(program: list[str]) -> bool:
    return bool(program) and program[0].rpartition("/")[2] in _SHELLS


class _Cases:
    """Tells the patterns of `case … in a|b) … ;; esac` from commands."""

    def __init__(self) -> None:
        self._open = 0
        self._at_pattern = False

    def is_pattern(self, found: SimpleCommand) -> bool:
        if found.words[:1] == ("esac",):
            self._open = max(0, self._open - 1)
            self._at_pattern = False
            return False
        if self._at_pattern:
            self._at_pattern = found.end != ")"
            return True
        if "case" in found.words and found.program[:1] == ["case"]:
            self._open += 1
            self._at_pattern = found.end != ")"
        elif found.end == ";;" and self._open:
            self._at_pattern = True
        return False


@dataclass(slots=True)
class _Part:
    """One step of reading a script: at most one command."""

    words: list[str] = field(default_factory=list)
    substitutions: list[str] = field(default_factory=list)
    #: Texts on its standard input, written on its line.
    given: list[str] = field(default_factory=list)
    #: Here-documents that follow its line, of whatever command on it.
    bodies: list[str] = field(default_factory=list)
    line: int = 0
    end: str = ""


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

    def command(self) -> _Part:
        """The next command."""
        part = _Part()
        while not self.at_end:
            if self._skip(_BLANK) or (self._text[self._at] == "#" and self._skip(_COMMENT)):
                continue
            if here := self._skip(_HERE_DOCUMENT):
                self._waiting.append((here[1] == "-", here[3]))
                continue
            if redirection := self._skip(_REDIRECTION):
                self._skip(_BLANK)
                word = self._word(part.substitutions)
                if redirection[0].endswith("<<<"):
                    part.given.append(word)
                continue
            if not part.words and self._calculation():
                continue
            if operator := self._skip(_OPERATOR):
                part.end = operator[0]
                if part.end == "\n":
                    part.bodies = self._bodies()
                break
            if not part.words:
                part.line = self._text.count("\n", 0, self._at)
            part.words.append(self._word(part.substitutions))
        return part

    def _word(self, inner: list[str]) -> str:
        """One word without its quotes; the texts of substitutions go to `inner`."""
        parts: list[str] = []
        start = self._at
        while not self.at_end:
            char = self._text[self._at]
            if char in " \t\r\n;|&<>)" and not self._text.startswith(("<(", ">("), self._at):
                break
            if char == "(" and self._at > start and self._text[self._at - 1] in "$<>=":
                parts.append(self._substitution(inner))
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
            self._at += 1  # skip a misplaced operator
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
                parts.append(f"${self._substitution(inner)}")
            elif self._text[self._at] == "`":
                inner.append(self._until("`"))
            else:
                parts.append(self._text[self._at])
                self._at += 1
        self._at += 1
        return "".join(parts)

    def _calculation(self) -> bool:
        """Skip `((…))`, which starts no command."""
        start = self._at
        if self._text.startswith("((", start) and self._enclosed("(", ")").endswith(")"):
            return True
        self._at = start
        return False

    def _substitution(self, inner: list[str]) -> str:
        text = self._enclosed("(", ")")
        if not (text.startswith("(") and text.endswith(")")):  # else it is a calculation
            inner.append(text)
        return f"({text})"

    def _until(self, quote: str) -> str:
        end = self._text.find(quote, self._at + 1)
        end = len(self._text) if end < 0 else end
        text = self._text[self._at + 1 : end]
        self._at = end + 1
        return text

    def _enclosed(self, opening: str, closing: str) -> str:
        """The text between two brackets, which may contain nested ones."""
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

    def _bodies(self) -> list[str]:
        bodies = []
        for indented, tag in self._waiting:
            lines: list[str] = []
            while not self.at_end:
                end = self._text.find("\n", self._at)
                end = len(self._text) if end < 0 else end
                line = self._text[self._at : end]
                self._at = end + 1
                if (line.lstrip("\t") if indented else line) == tag:
                    break
                lines.append(line)
            bodies.append("\n".join(lines))
        self._waiting = []
        return bodies

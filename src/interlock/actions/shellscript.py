"""Finds the commands that a shell script starts, without running it.

It parses enough of the shell's language to find the simple commands of a script and their words: quotes,
comments, here-documents, substitutions, pipes, lists, conditions and cases. It also finds the scripts that a
shell gets by `-c`, `eval`, a pipe or a here-document. Substitutions are parsed in place, so that a quote in a
here-document inside `"$(…)"` is only text. The time grows linearly with the length of any script.

Variables are not expanded, and a script can hide a command (in a variable, in another file). So this helps
people, but does not protect against attackers. A decision record says why no library is used.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise

from interlock.core.record import MutableRecord, Record, fresh, replace

#: Substitutions and `sh -c` texts nested deeper than this are parsed as if they were not nested.
_DEPTH_MAX = 10
#: How many commands before a shell are considered as the source of its piped input.
_BEFORE_MAX = 20

_OPERATOR = re.compile(r"&&|\|\||;;&|;;|;&|\|&|[;|&()\n]")
_REDIRECTION = re.compile(r"(?:\d+|\{\w+\})?(?:&>>?|>>|>&|<&|>\||<>|<<<|[<>])(?!\()")
_HERE_DOCUMENT = re.compile(r"\d*<<(-?)(?!<)")
_COMMENT = re.compile(r"#[^\n]*")
_BLANK = re.compile(r"(?:[ \t\r]|\\\r?\n)+")
_SPACE = re.compile(r"(?:\s|\\\r?\n)+")
_CONTINUATION = re.compile(r"\\\r?\n")
#: Between `[[` and `]]` these are not shell operators.
_CONDITION_MARK = re.compile(r"[&|;()<>]")
_PLAIN = re.compile(r"[^\s\\'\"`$;&|<>()]+")
_QUOTED_PLAIN = re.compile(r"[^\\\"`$]+")
_IN_BRACES_PLAIN = re.compile(r"[^\\'\"`$}]+")
_BACKQUOTED = re.compile(r"`((?:[^\\`]|\\.)*)`?", re.DOTALL)
_ANSI_QUOTED = re.compile(r"'((?:[^\\']|\\.)*)'?", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
#: A bracket after one of these is part of the word: an array or a pattern.
_LISTED = tuple("=@*?+")
_BRACKET = re.compile(r"[()]")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(?:\[[^]]*\])?\+?=")
#: Words that may come before a command.
_OPENERS = frozenset({"if", "then", "else", "elif", "do", "while", "until", "!", "{", "coproc"})
#: Words that close a block. The commands in the block print the text that is piped from these words.
_CLOSERS = frozenset({"}", "done", "fi", "esac"})
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
    "env": ("-u", "-C"),
    "nohup": (),
    "nice": ("-n",),
    "sudo": ("-u", "-g"),
    "stdbuf": ("-i", "-o", "-e"),
    "timeout": ("-k", "-s"),
    "npx": ("-p", "--package"),
    "bunx": (),
    "uvx": ("--from", "--with"),
}
SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh"})
_SHELL_TEXT = re.compile(r"-[a-z]*c", re.IGNORECASE)
#: Options of a shell that take the next word as their value.
_SHELL_VALUES = frozenset({"-o", "+o", "-O", "+O", "--rcfile", "--init-file"})


class SimpleCommand(Record):
    """One command with the words that the shell would start it with."""

    words: tuple[str, ...]
    #: The first line of the command in the script, counted from 0; for an inner command, the outer one's
    #: line.
    line: int
    #: The token that ends it: a newline, `;`, `&&`, `||`, `|`, `&`, `)` or nothing.
    end: str
    #: It reads from a pipe.
    piped: bool = False
    #: It is inside another command: in a substitution, or in the text of a shell or of `eval`.
    inner: bool = False
    #: Its shell is a child process of the script's shell.
    below: bool = False
    #: It is the only command of its shell, which therefore replaces itself by it.
    alone: bool = False

    @property
    def execs(self) -> bool:
        """Whether it replaces the script's shell, and so gets the signals sent to the shell."""
        in_a_child = self.below or self.piped or self.end in ("|", "|&", "&")
        return (self.alone or _unopened(self.words)[:1] == ["exec"]) and not in_a_child

    @property
    def program(self) -> list[str]:
        """The program and its arguments, without assignments and wrappers such as `env` and `timeout`."""
        words = _unopened(self.words)
        at = 0
        while at < len(words) and (wrapper := words[at].rpartition("/")[2]) in _WRAPPERS:
            if wrapper == "command" and words[at + 1 : at + 2] in (["-v"], ["-V"]):
                break  # it only looks up a program
            at += 1
            while at < len(words) and (words[at].startswith("-") or _ASSIGNMENT.match(words[at])):
                at += 2 if words[at] in _WRAPPERS[wrapper] else 1
            at += wrapper == "timeout"
        return words[at:]

    @property
    def starter(self) -> str:
        """The word that starts it: its wrapper, such as `npx`, if it has one; else the program."""
        words = _unopened(self.words)
        while words[:1] == ["exec"]:
            words = words[1:]
        return words[0] if words else ""


def _unopened(words: Sequence[str]) -> list[str]:
    """The words of a command without `if`, `then` and the like, and without assignments."""
    at = 0
    while at < len(words) and _opens(words[at]):
        at += 1
    return list(words[at:])


def _opens(word: str) -> bool:
    return word in _OPENERS or _ASSIGNMENT.match(word) is not None


def commands(script: str) -> list[SimpleCommand]:
    """The simple commands of a script in order, each followed by its inner commands."""
    return list(_flat(_Reader(script).commands(), depth=0, within=None))


def shell_text(program: Sequence[str]) -> list[str]:
    """The script that `sh -c SCRIPT` runs."""
    if _is_shell(program):
        for option, text in pairwise(program[1:]):
            if _SHELL_TEXT.fullmatch(option):
                return [text]
    return []


class _Part(MutableRecord):
    """One parsed command: its words, and the texts and scripts that belong to it."""

    words: list[str] = fresh(list)
    line: int = 0
    end: str = ""
    #: The scripts of its substitutions.
    inner: list[list[_Part]] = fresh(list)
    #: Texts on its standard input: here-documents and here-strings.
    given: list[str] = fresh(list)


def _flat(parts: Sequence[_Part], *, depth: int, within: SimpleCommand | None) -> Iterator[SimpleCommand]:
    """The commands of a script and their inner commands.

    `within` is the command that runs the script; its `below` tells whether that has its own process.
    """
    for at, part in enumerate(parts):
        found = SimpleCommand(
            words=tuple(part.words),
            line=part.line if within is None else within.line,
            end=part.end,
            piped=at > 0 and parts[at - 1].end in ("|", "|&"),
            inner=within is not None,
            below=within is not None and within.below,
            alone=within is not None and within.alone,
        )
        if found.words:
            yield found
        for script in part.inner:
            yield from _flat(script, depth=depth, within=replace(found, below=True, alone=False))
        if found.words and depth < _DEPTH_MAX:
            before = parts[max(0, at - _BEFORE_MAX) : at] if found.piped else ()
            yield from _handed_on(found, part, before, depth=depth + 1)


def _handed_on(
    command: SimpleCommand, part: _Part, before: Sequence[_Part], *, depth: int
) -> Iterator[SimpleCommand]:
    """The commands that a shell or `eval` runs, from a word or from standard input."""
    program = command.program
    evaluated = program[:1] == ["eval"]
    texts = [" ".join(program[1:])] if evaluated else shell_text(program)
    if texts or _reads_substitution(program):
        texts += [text for script in part.inner for text in _printed(script)]
    elif _reads_commands(program):
        texts = [*part.given, *_printed(_pipeline(before))]
    for text in texts:
        inside = _Reader(text).commands()
        if evaluated:  # in the same shell
            within = replace(command, alone=False)
        else:
            alone = command.execs and len(inside) == 1 and not inside[0].inner
            within = replace(command, below=not command.execs, alone=alone)
        yield from _flat(inside, depth=depth, within=within)


def _pipeline(before: Sequence[_Part]) -> Sequence[_Part]:
    """The commands whose output the next one reads: its pipeline, or all commands if it follows a block."""
    at = len(before)
    while at and before[at - 1].end in ("|", "|&"):
        at -= 1
        if not before[at].words or before[at].words[0] in _CLOSERS:
            return before
    return before[at:]


def _printed(parts: Sequence[_Part]) -> Iterator[str]:
    """The texts that commands print, if the script contains them."""
    for part in parts:
        yield from part.given
        match _unopened(part.words):
            case ["echo", *words]:
                yield " ".join(word for word in words if word not in ("-e", "-n", "-ne", "-en"))
            case ["printf", *words]:
                yield " ".join(words).replace("\\n", "\n")
            case _:
                pass


def _reads_commands(program: Sequence[str]) -> bool:
    """Whether it is a shell that reads commands from standard input."""
    operands = [
        word
        for before, word in pairwise(program)
        if not word.startswith(("-", "+")) and before not in _SHELL_VALUES
    ]
    return _is_shell(program) and (not operands or "-s" in program)


def _reads_substitution(program: Sequence[str]) -> bool:
    """Whether it runs the output of the commands in `<(…)`."""
    return (_is_shell(program) or program[:1] in (["source"], ["."])) and any(
        word.startswith("<(") for word in program
    )


def _is_shell(program: Sequence[str]) -> bool:
    return bool(program) and program[0].rpartition("/")[2] in SHELLS


class _Cases:
    """Distinguishes the patterns of `case … in a|b) … ;; esac` from commands."""

    def __init__(self) -> None:
        self._open = 0
        self._at_pattern = False

    def is_pattern(self, found: _Part) -> bool:
        if found.words[:1] == ["esac"]:
            self._open = max(0, self._open - 1)
            self._at_pattern = False
            return False
        if self._at_pattern:
            self._at_pattern = found.end != ")"
            return True
        if "case" in found.words and _unopened(found.words)[:1] == ["case"]:
            self._open += 1
            self._at_pattern = found.end != ")"
            return False
        if found.end in (";;", ";&", ";;&") and self._open:
            self._at_pattern = True
        return False


class _HereDocument(Record):
    """A here-document whose body begins on the next line."""

    tag: str
    indented: bool
    #: Whether its body is only text.
    quoted: bool
    part: _Part


class _Reader:
    """Parses a script in one pass."""

    def __init__(self, script: str, depth: int = 0) -> None:
        self._text = script
        self._at = 0
        self._depth = depth
        #: The number of open substitutions.
        self._inside = 0
        self._lines = self._lines_until = 0
        self._waiting: list[_HereDocument] = []

    def commands(self) -> list[_Part]:
        """The commands up to the closing bracket of a substitution, or to the end."""
        found: list[_Part] = []
        brackets, cases = 0, _Cases()
        while self._at < len(self._text):
            part = self._command()
            if cases.is_pattern(part):
                continue
            if part.words or part.inner or part.given or part.end in ("|", "|&"):
                found.append(part)
            if part.end == "(":
                brackets += 1
            elif part.end == ")" and brackets:
                brackets -= 1
            elif part.end == ")" and self._inside:
                break
        return found

    def _command(self) -> _Part:
        """The next command, which may be empty."""
        part = _Part()
        #: True until the name of the command: assignments and the like may precede it.
        opening = True
        while self._at < len(self._text):
            if self._skip(_BLANK) or self._skip(_COMMENT):
                continue
            if here := self._skip(_HERE_DOCUMENT):
                self._await_body(part, indented=bool(here[1]))
            elif redirection := self._skip(_REDIRECTION):
                self._skip(_BLANK)
                word = self._word(part)
                if redirection[0].endswith("<<<"):
                    part.given.append(word)
            elif (opening or part.words == ["for"]) and self._calculation(part):
                continue
            elif operator := self._skip(_OPERATOR):
                part.end = operator[0]
                if part.end == "\n":
                    self._read_bodies()
                break
            else:
                part.line = part.line if part.words else self._line()
                word = self._word(part)
                part.words.append(word)
                if opening and word == "[[":
                    self._condition(part)
                opening = opening and _opens(word)
                if part.words[0] == "function" and len(part.words) == 2:
                    break  # the body follows
        return part

    def _condition(self, part: _Part) -> None:
        """Skip the rest of `[[ … ]]`, which starts no command but may contain substitutions."""
        while self._at < len(self._text) and part.words[-1] != "]]":
            if not self._skip(_SPACE) and not self._skip(_CONDITION_MARK):
                part.words.append(self._word(part))

    def _word(self, part: _Part) -> str:
        """One word without its quotes. The scripts of its substitutions are added to the part."""
        found: list[str] = []
        start = self._at
        while self._at < len(self._text):
            char = self._text[self._at]
            if plain := self._skip(_PLAIN):
                found.append(plain[0])
            elif char == "'":
                found.append(self._until("'"))
            elif char == '"':
                self._at += 1
                found.append(self._quoted(part, '"'))
            elif char == "`":
                self._backquoted(part)
            elif char == "$":
                found.append(self._expansion(part, quoted=False))
            elif char == "\\":
                found.append(self._escaped())
            elif self._text.startswith(("<(", ">("), self._at) and self._depth < _DEPTH_MAX:
                self._at += 1
                found.append(f"{char}{self._substitution(part)}")
            elif char == "(" and self._depth < _DEPTH_MAX and found and found[-1][-1:] in _LISTED:
                found.append(self._list(part))
            else:
                break
        if self._at == start:
            self._at += 1  # skip a misplaced operator
        return "".join(found)

    def _escaped(self) -> str:
        """The character after a backslash; empty for a continued line."""
        if self._skip(_CONTINUATION):
            return ""
        char = self._text[self._at + 1 : self._at + 2]
        self._at += 2
        return char

    def _quoted(self, part: _Part, end: str) -> str:
        """The text between double quotes, or to the end. It may contain substitutions."""
        found: list[str] = []
        while self._at < len(self._text):
            char = self._text[self._at]
            if plain := self._skip(_QUOTED_PLAIN):
                found.append(plain[0])
            elif char == "\\":
                after = self._text[self._at + 1 : self._at + 2]
                found.append("" if after == "\n" else after if after in '$`"\\' else char + after)
                self._at += 2
            elif char == "`":
                self._backquoted(part)
            elif char == "$":
                found.append(self._expansion(part, quoted=True))
            else:
                self._at += 1
                if end:
                    break
                found.append(char)
        return "".join(found)

    def _expansion(self, part: _Part, *, quoted: bool) -> str:
        """The expansion after a dollar sign, unexpanded."""
        start = self._at
        self._at += 1
        after = self._text[self._at : self._at + 1]
        if after == "(" and not self._calculation(part) and self._depth < _DEPTH_MAX:
            self._substitution(part)
        elif after == "{" and self._depth < _DEPTH_MAX:
            self._braces(part, quoted=quoted)
        elif after == "'" and not quoted and (text := self._skip(_ANSI_QUOTED)):
            return _ESCAPE.sub(_unescaped, text[1])
        elif after == '"' and not quoted:
            self._at += 1
            return self._quoted(part, '"')
        return self._text[start : self._at]

    def _substitution(self, part: _Part) -> str:
        """A script in brackets, unexpanded."""
        start = self._at
        self._at += 1
        waiting, self._waiting = self._waiting, []
        self._depth += 1
        self._inside += 1
        part.inner.append(self.commands())
        self._inside -= 1
        self._depth -= 1
        self._waiting = waiting + self._waiting
        return self._text[start : self._at]

    def _braces(self, part: _Part, *, quoted: bool) -> None:
        """Parse `${…}`, which may contain quotes and substitutions."""
        self._at += 1
        self._depth += 1
        while self._at < len(self._text) and (char := self._text[self._at]) != "}":
            if self._skip(_IN_BRACES_PLAIN):
                continue
            if char == "'" and not quoted:
                self._until("'")
            elif char == '"':
                self._at += 1
                self._quoted(part, '"')
            elif char == "`":
                self._backquoted(part)
            elif char == "$":
                self._expansion(part, quoted=quoted)
            else:
                self._at += 2 if char == "\\" else 1
        self._at += 1
        self._depth -= 1

    def _calculation(self, part: _Part) -> bool:
        """Skip `((…))`, which starts no command but may contain substitutions."""
        start = self._at
        if not self._text.startswith("((", start):
            return False
        end = self._brackets.get(start, -1)
        if self._brackets.get(start + 1) != end - 1:
            return False
        inside = _Reader(self._text[start + 2 : end - 1], self._depth + 1)
        inside._quoted(part, "")
        self._at = end + 1
        return True

    @cached_property
    def _brackets(self) -> dict[int, int]:
        """The position of each bracket's closing bracket, if every bracket counts."""
        found: dict[int, int] = {}
        opened: list[int] = []
        for match in _BRACKET.finditer(self._text):
            if match[0] == "(":
                opened.append(match.start())
            elif opened:
                found[opened.pop()] = match.start()
        return found

    def _list(self, part: _Part) -> str:
        """The words of an array, or the patterns of a glob."""
        start = self._at
        self._at += 1
        self._depth += 1
        while self._at < len(self._text) and self._text[self._at] != ")":
            if not self._skip(_SPACE) and not self._skip(_COMMENT):
                self._word(part)
        self._depth -= 1
        self._at += 1
        return self._text[start : self._at]

    def _backquoted(self, part: _Part) -> None:
        match = self._skip(_BACKQUOTED)
        if match and self._depth < _DEPTH_MAX:
            script = re.sub(r"\\([\\`$])", r"\1", match[1])
            part.inner.append(_Reader(script, self._depth + 1).commands())

    def _until(self, quote: str) -> str:
        end = self._text.find(quote, self._at + 1)
        end = len(self._text) if end < 0 else end
        text = self._text[self._at + 1 : end]
        self._at = end + 1
        return text

    def _skip(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        match = pattern.match(self._text, self._at)
        if match:
            self._at = match.end()
        return match

    def _line(self) -> int:
        self._lines += self._text.count("\n", self._lines_until, self._at)
        self._lines_until = self._at
        return self._lines

    def _await_body(self, part: _Part, *, indented: bool) -> None:
        """Parse the word after `<<`; the body begins on the next line."""
        self._skip(_BLANK)
        start = self._at
        tag = self._word(part)
        quoted = any(char in self._text[start : self._at] for char in "'\"\\")
        self._waiting.append(_HereDocument(tag=tag, indented=indented, quoted=quoted, part=part))

    def _read_bodies(self) -> None:
        waiting, self._waiting = self._waiting, []
        for here in waiting:
            body = self._body(here)
            here.part.given.append(body)
            if not here.quoted and self._depth < _DEPTH_MAX:
                _Reader(body, self._depth + 1)._quoted(here.part, "")

    def _body(self, here: _HereDocument) -> str:
        lines: list[str] = []
        while self._at < len(self._text):
            end = self._text.find("\n", self._at)
            end = len(self._text) if end < 0 else end
            line = self._text[self._at : end].removesuffix("\r")
            line = line.lstrip("\t") if here.indented else line
            if self._inside and line.startswith(f"{here.tag})"):
                # Bash ends it here too, because the bracket closes the substitution.
                self._at = self._text.index(here.tag, self._at) + len(here.tag)
                break
            self._at = end + 1
            if line == here.tag:
                break
            lines.append(line)
        return "\n".join(lines)


def _unescaped(match: re.Match[str]) -> str:
    return {"n": "\n", "t": "\t"}.get(match[1], match[1])

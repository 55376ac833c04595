"""What an agent's program has used so far, from the transcript that it writes.

    Claude Code     each entry of an answer has `message.usage`; entries of one answer repeat it, by its id
    Codex           `token_count` events have the usage of the last answer, and the totals of the session
    Gemini          each message of the session has `tokens`

A transcript grows, so each look reads what was added since the last one, a limited part at once. A file that
ends with `.json` is written anew as a whole, and read as a whole. A line that is none of these is passed
over. Money is reckoned with the prices of the settings; without them there are only tokens.

Not promised: that every token is seen. Programs change their formats, and agents below an agent may write
elsewhere.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from interlock.core.errors import InvalidInput
from interlock.core.row import NamedTuple

#: The most that one look reads; the rest is read by the next.
READ_MAX_BYTES = 4 << 20
#: The newest answers whose usage may still grow.
ANSWERS_KEPT = 64
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
#: What every line with a usage contains: others are not parsed.
_MARKS = (b'"usage"', b'"token_count"', b'"turn_context"', b'"tokens"')


class Price(NamedTuple):
    """What a model costs, in dollars for a million tokens, which is micro-dollars for one."""

    #: The beginning of its name.
    model: str
    read: float
    written: float
    #: Of what was read, the part that came from a cache.
    cached: float


class Answer(NamedTuple):
    """The usage of one answer of a model."""

    model: str
    #: All that was read, from a cache or not.
    read: int
    written: int
    cached: int = 0

    def micro_usd(self, prices: Sequence[Price]) -> int:
        """What it cost; 0 without a price."""
        fitting = [price for price in prices if self.model.startswith(price.model)]
        if not fitting:
            return 0
        price = max(fitting, key=lambda each: len(each.model))
        fresh = max(0, self.read - self.cached)
        return round(fresh * price.read + self.cached * price.cached + self.written * price.written)


class Usage:
    """What one run has used, as far as it was read. `kept` is what the last look left."""

    def __init__(self, kept: Mapping[str, Any], prices: Sequence[Price] = ()) -> None:
        self._prices = prices
        self._path = str(kept.get("path") or "")
        self._offset = _count(kept.get("offset"))
        #: Codex names the model in a line of its own.
        self._model = str(kept.get("model") or "")
        self._session = kept.get("session")
        self.totals, answers = _three(kept.get("totals")), kept.get("answers")
        #: Of the newest answers: micro-dollars, tokens read and tokens written, like the totals.
        self._answers: dict[str, list[int]] = dict(answers) if isinstance(answers, dict) else {}

    def kept(self) -> dict[str, Any]:
        """What the next look needs."""
        answers = dict(list(self._answers.items())[-ANSWERS_KEPT:])
        return {
            "path": self._path,
            "offset": self._offset,
            "model": self._model,
            "session": self._session,
            "totals": self.totals,
            "answers": answers,
        }

    def look(self, path: str) -> bool:
        """Read what a transcript has new. Whether the totals have grown."""
        before, whole = list(self.totals), path.endswith(".json")
        if path != self._path:
            self._path, self._offset, self._session = path, 0, None
        try:
            with open(os.open(path, _READ), "rb") as file:  # noqa: PTH123
                size = os.fstat(file.fileno()).st_size
                if size == self._offset:
                    return False
                file.seek(0 if whole or size < self._offset else self._offset)
                begin = file.tell()
                text = file.read(READ_MAX_BYTES)
        except (OSError, ValueError):
            return False
        if whole:
            self._offset = size
            self._take_session(text)
        else:
            lines, end, _ = text.rpartition(b"\n")
            self._offset = begin + len(lines) + len(end)
            for line in lines.split(b"\n"):
                if any(mark in line for mark in _MARKS):
                    self._take_line(_parsed(line))
            if not end and len(text) == READ_MAX_BYTES:  # one line is longer than all that is read
                self._offset = begin + len(text)
        return self.totals != before

    def _take_session(self, text: bytes) -> None:
        """A session that is written anew as a whole: what it has more than at the last look."""
        messages = _parsed(text).get("messages")
        whole = Usage({}, self._prices)
        for message in messages if isinstance(messages, list) else ():
            whole._take_line(message if isinstance(message, dict) else {})
        known = _three(self._session)
        most = [max(new, old) for new, old in zip(whole.totals, known, strict=True)]
        self.totals = _sums(self.totals, most, known)
        self._session = most

    def _take_line(self, line: Mapping[str, Any]) -> None:
        message, payload = _object(line, "message"), _object(line, "payload")
        usage, tokens = _object(message, "usage"), _object(line, "tokens")
        if line.get("type") == "turn_context":
            self._model = str(payload.get("model") or self._model)
        elif payload.get("type") == "token_count":
            self._take_codex(_object(payload, "info"))
        elif usage:
            cached = _count(usage.get("cache_read_input_tokens"))
            read = _count(usage.get("input_tokens")) + _count(usage.get("cache_creation_input_tokens"))
            answer = Answer(
                str(message.get("model") or ""), read + cached, _count(usage.get("output_tokens")), cached
            )
            self._take(str(message.get("id") or line.get("uuid") or ""), answer)
        elif tokens:
            written = _count(tokens.get("output")) + _count(tokens.get("thoughts"))
            read, cached = _count(tokens.get("input")), _count(tokens.get("cached"))
            self._take(str(line.get("id") or ""), Answer(str(line.get("model") or ""), read, written, cached))

    def _take_codex(self, info: Mapping[str, Any]) -> None:
        """An event repeats the last answer until there is another: then the totals of the session differ."""
        total, last = _object(info, "total_token_usage"), _object(info, "last_token_usage")
        session = [_count(total.get("input_tokens")), _count(total.get("output_tokens"))]
        if last and session != self._session:
            self._session = session
            read, cached = _count(last.get("input_tokens")), _count(last.get("cached_input_tokens"))
            self._add(Answer(self._model, read, _count(last.get("output_tokens")), cached))

    def _take(self, name: str, answer: Answer) -> None:
        """Count an answer once: of what was seen of it before, only what is more now."""
        now = [answer.micro_usd(self._prices), answer.read, answer.written]
        known = _three(self._answers.pop(name, None) if name else None)
        most = [max(new, old) for new, old in zip(now, known, strict=True)]
        self.totals = _sums(self.totals, most, known)
        if name:
            self._answers[name] = most

    def _add(self, answer: Answer) -> None:
        self._take("", answer)


def _sums(totals: Sequence[int], most: Sequence[int], known: Sequence[int]) -> list[int]:
    """The totals, with what is more than was known."""
    return [total + new - old for total, new, old in zip(totals, most, known, strict=True)]


def prices_of(texts: Sequence[str]) -> tuple[Price, ...]:
    """The prices in the settings, such as `claude-sonnet-4: 3, 15, 0.3`."""
    return tuple(map(_price, texts))


def _price(text: str) -> Price:
    model, colon, amounts = text.rpartition(":")
    try:
        read, written, *more = map(float, amounts.split(","))
        cached = more[0] if more else read
        amounts_fit = all(0 <= n < 1e6 for n in (read, written, cached))
        if not colon or not model.strip() or len(more) > 1 or not amounts_fit:
            raise ValueError
    except ValueError:
        raise InvalidInput(
            f"The price {text[:80]!r} cannot be read.",
            "Write the model and its dollars for a million tokens: read, written, cached; as in"
            " 'claude-sonnet-4: 3, 15, 0.3'.",
        ) from None
    return Price(model.strip(), read, written, cached)


def _parsed(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _object(of: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = of.get(name)
    return found if isinstance(found, dict) else {}


def _count(value: object) -> int:
    return value if type(value) is int and 0 <= value < 1 << 53 else 0


def _three(value: object) -> list[int]:
    """Three counts that were kept; zeros if they are damaged."""
    return [_count(each) for each in value] if isinstance(value, list) and len(value) == 3 else [0, 0, 0]

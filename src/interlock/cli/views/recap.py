"""The recap, as text and as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from interlock.cli import cures
from interlock.cli.page import Console, Text
from interlock.cli.views import words
from interlock.core.costs import told as cost_words
from interlock.core.row import NamedTuple
from interlock.core.timing import span
from interlock.dashboard.reasons import reason_words
from interlock.service.contract import ConcernView, RecapEntryView, RecapLinkView, RecapView, to_json

_DETAIL_CHARS = 300
_STYLES = {"Finished": "green", "Failed": "red", "Waiting for you": "yellow"}
#: What Markdown would take for formatting or HTML, and what GitHub would take for a mention or a reference.
_MARKUP, _MENTION = re.compile(r"([\\`*_\[\]<>|~&])"), re.compile("([@#])")


class _Row(NamedTuple):
    """One line of a section, and what belongs to it."""

    item: int | None
    head: str
    facts: str
    details: Sequence[str] = ()
    links: Sequence[RecapLinkView] = ()


class _Section(NamedTuple):
    title: str
    n: int
    rows: Sequence[_Row]
    #: How many more there are.
    more: int = 0


def shown(console: Console, answer: RecapView) -> None:
    """The recap for a terminal."""
    console.print(Text(_title(answer), style="bold"))
    console.print(words.harmless(_summary(answer)))
    for section in _sections(answer):
        console.print()
        console.print(Text(f"{section.title} ({section.n})", style=f"bold {_STYLES.get(section.title, '')}"))
        for row in section.rows:
            number = "" if row.item is None else f"{row.item}  "
            head = Text(f"  {number}{words.harmless(row.head)}")
            if row.facts:
                head.append(f"  {words.harmless(row.facts)}", style=words.QUIET)
            console.print(head)
            for detail in row.details:
                console.print(Text(f"      {words.harmless(detail)}"))
            for link in row.links:
                line = f"      {_state(link)}  {link.url}"
                console.print(Text(words.harmless(line), style=words.QUIET))
        if section.more:
            console.print(Text(f"  and {section.more:,} more", style=words.QUIET))


def markdown(answer: RecapView) -> str:
    """The recap as Markdown. Texts of users cannot format it, mention people or refer to issues."""
    lines = [f"## {_title(answer)}", "", _escaped(_summary(answer))]
    for section in _sections(answer):
        lines += ["", f"### {section.title} ({section.n})", ""]
        for row in section.rows:
            number = "" if row.item is None else f"item {row.item}: "
            facts = f" ({_escaped(row.facts)})" if row.facts else ""
            lines.append(f"- {number}**{_escaped(row.head)}**{facts}")
            lines += [f"  - {_escaped(detail)}" for detail in row.details]
            lines += [f"  - {_markdown_link(link)}" for link in row.links]
        if section.more:
            lines.append(f"- and {section.more:,} more")
    return "\n".join(lines) + "\n"


# -- words --------------------------------------------------------------------------------------------


def _title(answer: RecapView) -> str:
    asked = span((answer.until - answer.since).total_seconds())
    cut = "" if answer.complete else "; older events are left out, as there were too many"
    return f"While you were away: the last {asked}{cut}"


def _summary(answer: RecapView) -> str:
    counts, waiting = answer.counts, sum(answer.needs_counts.values())
    parts = [
        *(f"{counts[each]:,} {each}" for each in ("finished", "failed", "superseded", "cancelled")),
        f"{waiting:,} waiting for you",
        f"{counts['runs']:,} {'run' if counts['runs'] == 1 else 'runs'} started",
        f"{counts['retries']:,} failed and retried" if counts["retries"] else "",
    ]
    told = [part for part in parts if part and not part.startswith("0 ")]
    happened = f"{', '.join(told)}." if told else "Nothing happened."
    spent = cost_words(answer.cost.usd, answer.cost.input_tokens, answer.cost.output_tokens)
    return f"{happened} Used: {spent}." if any(to_json(answer.cost).values()) else happened


def _sections(answer: RecapView) -> Iterator[_Section]:
    waiting = sum(answer.needs_counts.values())
    found = (
        _Section("Waiting for you", waiting, list(map(_need, answer.needs)), answer.needs_more),
        _outcomes(answer, "failed", list(map(_failed, answer.failed))),
        _outcomes(answer, "finished", list(map(_finished, answer.finished))),
        _outcomes(answer, "superseded", list(map(_superseded, answer.superseded))),
        _Section("Longest waits", len(answer.waits), list(map(_waited, answer.waits))),
    )
    return (section for section in found if section.n)


def _outcomes(answer: RecapView, name: str, rows: Sequence[_Row]) -> _Section:
    return _Section(name.capitalize(), answer.counts[name], rows, answer.counts[name] - len(rows))


def _need(concern: ConcernView) -> _Row:
    title = concern.item.title if concern.item is not None else concern.sentence
    since = f"since {words.clock(concern.since)}" if concern.since is not None else ""
    said = _cut(concern.said or "") if concern.item is not None else ""
    lines = [said or _cut(concern.sentence)] if concern.item is not None else []
    lines += [f"{line}  {effect}" for line, effect in cures.rows(concern.cures[:1])]
    item = concern.item.id if concern.item is not None else None
    return _Row(item, _cut(title), _facts(concern.kind.replace("_", " "), since), lines)


def _finished(entry: RecapEntryView) -> _Row:
    took = f"took {span(entry.span_s)}" if entry.span_s is not None else ""
    return _row(entry, _facts(entry.agent, took, words.relative(entry.at)), links=entry.links)


def _failed(entry: RecapEntryView) -> _Row:
    why = entry.error or reason_words(entry.reason)
    facts = _facts(entry.agent, f"run {entry.run}", words.relative(entry.at))
    return _row(entry, facts, [_cut(why)], entry.links)


def _superseded(entry: RecapEntryView) -> _Row:
    by = f"by item {entry.by_item}" if entry.by_item is not None else ""
    return _row(entry, _facts(by, words.relative(entry.at)))


def _waited(entry: RecapEntryView) -> _Row:
    return _row(entry, _facts(f"waited {span(entry.span_s or 0.0)}", entry.agent))


def _row(
    entry: RecapEntryView,
    facts: str,
    details: Iterable[str] = (),
    links: Sequence[RecapLinkView] = (),
) -> _Row:
    title = _cut(entry.title) if entry.status is not None else "deleted since"
    return _Row(entry.item, title, facts, [detail for detail in details if detail], links)


def _facts(*parts: str | None) -> str:
    return " · ".join(part for part in parts if part)


def _cut(text: str) -> str:
    return words.shorten(" ".join(text.split()), _DETAIL_CHARS)


def _name(link: RecapLinkView) -> str:
    return f"{link.repository}#{link.pull_request}" if link.pull_request else link.commit[:12]


def _checks(link: RecapLinkView) -> str:
    return f"checks: {link.ci_outcome}" if link.ci_outcome else ""


def _state(link: RecapLinkView) -> str:
    return f"{_name(link)} {_facts(link.outcome, _checks(link))}".rstrip()


def _escaped(text: str) -> str:
    plain = _MARKUP.sub(r"\\\1", words.harmless(text))
    return _MENTION.sub("\\1\N{ZERO WIDTH SPACE}", plain)


def _markdown_link(link: RecapLinkView) -> str:
    """Both pages of GitHub. An address with brackets or blanks would end the link early."""
    told = f"[{_escaped(_name(link))}](<{_address(link.url)}>)"
    if link.outcome:
        told += f" {link.outcome}"
    if link.ci_outcome and link.checks_url:
        told += f", [{_checks(link)}](<{_address(link.checks_url)}>)"
    return told


def _address(url: str) -> str:
    return re.sub(r"[\s<>\\]", "", url)

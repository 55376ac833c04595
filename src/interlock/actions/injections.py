"""Finds script injections: strangers' texts that a workflow inserts into a script.

GitHub fills in `${{ … }}` before the shell reads the script, so the shell runs a title with `$(…)` in it. The
relevant fields can be written by any account that can open an issue or a pull request. They count only where
the text itself is inserted: a comparison or `contains()` does not insert it. Indirect uses such as `env.NAME`
are not followed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from interlock.actions.expressions import PIECE, MalformedExpression, tokens

#: `*` stands for any name or index.
_WRITTEN_BY_STRANGERS = tuple(
    tuple(path.split("."))
    for path in (
        "github.head_ref",
        "github.event.comment.body",
        "github.event.discussion.body",
        "github.event.discussion.title",
        "github.event.issue.body",
        "github.event.issue.title",
        "github.event.pull_request.body",
        "github.event.pull_request.title",
        "github.event.pull_request.head.label",
        "github.event.pull_request.head.ref",
        "github.event.pull_request.head.repo.default_branch",
        "github.event.review.body",
        "github.event.changes.*.from",
        "github.event.commits.*.message",
        "github.event.commits.*.author.email",
        "github.event.commits.*.author.name",
        "github.event.head_commit.message",
        "github.event.head_commit.author.email",
        "github.event.head_commit.author.name",
        "github.event.pages.*.page_name",
        "github.event.workflow_run.display_title",
        "github.event.workflow_run.head_branch",
        "github.event.workflow_run.head_commit.message",
    )
)
#: Functions whose result does not contain the text.
_TEXTLESS = frozenset({"contains", "startswith", "endswith", "hashfiles"})
_DECIDES_BEFORE = frozenset({"==", "!=", "<", "<=", ">", ">=", "!"})
_DECIDES_AFTER = frozenset({"==", "!=", "<", "<=", ">", ">=", "&&"})

Token = tuple[str, str]


def injections(script: str) -> Iterator[tuple[int, str]]:
    """Strangers' texts in a script, each as its line (counted from 0) and its path."""
    for match in PIECE.finditer(script):
        try:
            found = tokens(match[1])
        except MalformedExpression:
            continue  # GitHub does not run such a file
        for path in _put_in(found):
            yield script.count("\n", 0, match.start()), path


def _put_in(found: Sequence[Token]) -> Iterator[str]:
    """The strangers' texts that the expression's value may contain."""
    calls: list[str] = []
    at = 0
    while found[at][0] != "end":
        kind, text = found[at]
        before = found[at - 1][1] if at else ""
        if kind == "name" and found[at + 1] == ("mark", "("):
            calls.append(text.lower())
            at += 2
        elif kind == "name" and before != ".":
            path, at = _path(found, at)
            decides = before in _DECIDES_BEFORE or found[at][1] in _DECIDES_AFTER
            if not decides and not _TEXTLESS.intersection(calls) and _is_strangers(path, "tojson" in calls):
                yield ".".join(path)
        else:
            if text == "(":
                calls.append("")
            elif text == ")" and calls:
                calls.pop()
            at += 1


def _path(found: Sequence[Token], at: int) -> tuple[list[str], int]:
    """A name with its properties, and the position of its end."""
    path = [found[at][1].lower()]
    at += 1
    while found[at][0] == "mark" and found[at][1] in (".", "["):
        if found[at][1] == "." and found[at + 1][0] != "end":
            path.append(found[at + 1][1].lower())
            at += 2
            continue
        inside = at + 1
        while found[at][0] != "end" and found[at] != ("mark", "]"):
            at += 1
        plain = at == inside + 1 and found[inside][0] == "string"
        path.append(found[inside][1][1:-1].lower() if plain else "*")
        at += found[at][0] != "end"
    return path, at


def _is_strangers(path: Sequence[str], whole: bool) -> bool:
    """Whether a path is a stranger's text; with `whole`, also an object that contains one."""
    return any(
        ((len(path) == len(known) and path[-1] == known[-1]) or (whole and len(path) < len(known)))
        and all("*" in (a, b) or a == b for a, b in zip(path, known, strict=False))
        for known in _WRITTEN_BY_STRANGERS
    )

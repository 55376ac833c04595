"""GitHub's expressions: what follows from a file alone, and what stays open."""

import math
from typing import Any

import pytest

from interlock.actions.expressions import (
    KnownObject,
    MalformedExpression,
    Opaque,
    Undecided,
    parse,
    parse_condition,
    parse_template,
    text_of,
    truth,
)

CONTEXTS = {
    "github": {
        "event_name": "issue_comment",
        "event": {"issue": {"number": 7.0, "labels": ["bug", "Big"]}, "comment": {"body": "Hi @Bot"}},
        "run_id": "99",
        "head_ref": "",
    },
    "inputs": {},
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("null", None),
        ("true", True),
        ("711", 711.0),
        ("-9.2", -9.2),
        ("0xff", 255.0),
        ("0o17", 15.0),
        ("-2.99e-2", -0.0299),
        ("'it''s'", "it's"),
        ("github.event.issue.number", 7.0),
        ("GitHub.Event['Issue'].NUMBER", 7.0),
        ("github.event.issue.labels[1]", "Big"),
        ("github.event.issue.labels[9]", None),
        ("github.event.pull_request.number", None),
        ("github.event.issue.number || github.run_id", 7.0),
        ("github.event.pull_request.number || github.run_id", "99"),
        ("github.head_ref || github.run_id", "99"),
        ("github.event_name == 'ISSUE_COMMENT'", True),
        ("github.event_name != 'issues'", True),
        ("!github.event.pull_request", True),
        ("!!github.event.issue", True),
        ("1 < 2 && 2 <= 2 && 3 > 2 && 'b' >= 'a'", True),
        ("null == 0", True),
        ("null == ''", True),
        ("'1' == 1", True),
        ("true == 1", True),
        ("'x' == 0", False),
        ("NaN == NaN", False),
        ("true || false && false", True),
        ("(true || false) && false", False),
        ("false && 'a' || 'b'", "b"),
        ("format('issue-{0} {{{1}}}', github.event.issue.number, 'x')", "issue-7 {x}"),
        ("contains(github.event.comment.body, '@bot')", True),
        ("contains(github.event.issue.labels, 'big')", True),
        ("contains(fromJSON('[\"OWNER\", \"MEMBER\"]'), 'member')", True),
        ("startsWith('Hello', 'he') && endsWith('Hello', 'LO')", True),
        ("join(github.event.issue.labels, '-')", "bug-Big"),
        ('fromJSON(\'{"A": {"b": 3}}\').a.b', 3.0),
        ("inputs.number || 'none'", "none"),
        ("always() && !cancelled()", True),
    ],
)
def test_a_decided_expression_has_github_s_value(text, value):
    assert parse(text)(CONTEXTS) == value


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("vars.PREFIX", "<vars.prefix>"),
        ("matrix.os", "<matrix.os>"),
        ("needs.gate.outputs['go']", "<needs.gate.outputs.go>"),
        ("hashFiles('a', 'b')", "<hashfiles(a, b)>"),
        ("format('{0}-{1}', vars.PREFIX, github.run_id)", "<vars.prefix>-99"),
        ("github.event.issue.labels.*.name", "<Array.*.name>"),
        ("vars.A == 'b'", "<<vars.a> == b>"),
    ],
)
def test_what_only_a_run_knows_keeps_its_name(text, name):
    assert text_of(parse(text)(CONTEXTS)) == name


@pytest.mark.parametrize(
    "text", ["vars.A && 'b'", "vars.A || 'b'", "!vars.A", "vars.A == 'b' && 'c'", "hashFiles('x') && 1"]
)
def test_a_decision_on_what_is_not_known_is_not_made(text):
    with pytest.raises(Undecided):
        text_of(parse(text)(CONTEXTS))


def test_a_true_half_decides_that_the_whole_is_true_whatever_the_value():
    assert truth(parse("vars.A || 'b'")(CONTEXTS)) is True


def test_a_known_half_decides_without_the_unknown_one():
    assert parse("false && vars.A")(CONTEXTS) is False
    assert parse("github.run_id || vars.A")(CONTEXTS) == "99"


def test_an_unknown_field_of_a_known_object_is_there():
    issue = KnownObject("issue 7", {"number": 7.0})
    assert parse("github.event.node_id")({"github": {"event": issue}}) == Opaque("issue 7.node_id")
    assert truth(issue)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a ==",
        "(a",
        "a)",
        "a b",
        'a == "b"',
        "'open",
        "a..b",
        "f(a b)",
        "a[1",
        "a ? b : c",
        "${{ a }}",
        "(" * 200 + "a" + ")" * 200,
        "1.2.3",
    ],
)
def test_what_is_no_expression_is_refused(text):
    with pytest.raises(MalformedExpression):
        parse(text)


def test_arguments_that_a_function_cannot_take_are_refused():
    for text in ("format('{3}', 1)", "fromJSON('{')", "startsWith('a')", "join(1)"):
        with pytest.raises(MalformedExpression):
            parse(text)(CONTEXTS)


def test_a_template_is_text_and_expressions():
    template = parse_template("agent-${{ github.event.issue.number }}-${{ vars.A }}-x")
    assert template.fill(CONTEXTS) == "agent-7-<vars.a>-x"
    assert parse_template("plain").fill({}) == "plain"
    with pytest.raises(MalformedExpression):
        parse_template("agent-${{ github.run_id")


def test_a_condition_is_an_expression_with_or_without_its_marks():
    for text in ("github.run_id == 99", "${{ github.run_id == 99 }}", " ${{ github.run_id == 99 }}\n"):
        assert truth(parse_condition(text)(CONTEXTS)) is True
    # Two pieces make a text, and a text is true: a known trap, and what GitHub does.
    assert truth(parse_condition("${{ false }} || ${{ false }}")(CONTEXTS)) is True


def test_numbers_are_written_as_github_writes_them():
    values: list[Any] = [7.0, 0.5, True, None, {}, []]
    assert [text_of(value) for value in values] == ["7", "0.5", "true", "", "Object", "Array"]
    assert not truth(math.nan)

"""The schema of the rules takes what the reader takes, and refuses what it refuses for its form."""

from __future__ import annotations

import tomllib

import jsonschema_rs
import pytest

from interlock.core.errors import InvalidInput
from interlock.github.rulefile import parse
from interlock.github.rules import EVENTS
from interlock.github.ruleschema import schema

SCHEMA = jsonschema_rs.validator_for(schema())
WHOLE = """
anyone_wakes = true
defaults = false
[agents]
coder-bot = "coder"
[priorities]
urgent = 10
[[rule]]
event = ["issues.labeled", "pull_request.*"]
label = ["bug", "crash*"]
author = "alice"
title = "RFC-*"
path = "src/**"
draft = false
type = "fix"
priority = 9
lane = "branch:{repository}/{number}"
agent = "coder"
policy = "supersede"
timeout = "30m"
[[rule]]
event = "issues"
action = ["opened", "reopened"]
do = "ignore"
"""


@pytest.mark.parametrize("text", ["", WHOLE, *(f'[[rule]]\nevent = "{e}"\ntype = "x"' for e in EVENTS)])
def test_both_take_it(text: str) -> None:
    parse(text)
    SCHEMA.validate(tomllib.loads(text))


@pytest.mark.parametrize(
    "text",
    [
        "rules = []",
        "rule = 1",
        "[agents]\na = 1",
        "[priorities]\na = 1001",
        "[priorities]\na = true",
        "anyone_wakes = 1",
        '[[rule]]\ntype = "x"',
        '[[rule]]\nevent = "issues.milestoned"\ntype = "x"',
        '[[rule]]\nevent = []\ntype = "x"',
        '[[rule]]\nevent = "issues"',
        '[[rule]]\nevent = "issues"\ndo = "create"',
        '[[rule]]\nevent = "issues"\ntype = "x"\nlabel = [" "]',
        '[[rule]]\nevent = "issues"\ntype = "x"\npriority = 1.5',
        '[[rule]]\nevent = "issues"\ntype = "x"\npolicy = "first"',
        '[[rule]]\nevent = "issues"\ntype = "x"\ndo = "make"',
        '[[rule]]\nevent = "issues"\ntype = "x"\nlane = 1',
        '[[rule]]\nevent = "issues"\ntype = "x"\ncolour = "red"',
        '[[rule]]\nevent = "issues"\ntype = "x"\ntimeout = true',
        '[[rule]]\nevent = "issues"\ntype = "x"\ndraft = "no"',
        '[[rule]]\nevent = "issues"\ntype = "x"\nagent = 3',
    ],
)
def test_both_refuse_it(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse(text)
    assert not SCHEMA.is_valid(tomllib.loads(text))

"""What an agent's token may touch, as a table: the operation's rule, its arguments, whose things they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from interlock.core.errors import NotAllowed
from interlock.core.model import A_PERSON, HOLD, NewItem, Policy, RunId, Sender, SenderKind
from interlock.core.scopes import Needs, Owners, Scope, check_scope, confine
from interlock.service.contract import NextWish

if TYPE_CHECKING:
    from interlock.core.scopes import Confines

CODER = Sender(SenderKind.AGENT, "coder")
NOBODY = Owners()
MINE, OTHERS = NewItem(title="x", agent="Coder"), NewItem(title="x", agent="tester")
OPEN = NewItem(title="x")
HELD_BY_OTHERS = NewItem(title="x", type=HOLD, lane="l:1", agent="tester")


@pytest.mark.parametrize(
    ("confines", "given", "owners"),
    [
        ("runs", {}, NOBODY),
        ("runs", {"agent": "coder"}, NOBODY),
        ("runs", {"agent": " Coder"}, NOBODY),
        ("runs", {"next": None}, NOBODY),
        ("runs", {"next": NextWish("coder")}, NOBODY),
        ("runs", {"run": "1.x"}, Owners(runs={"coder"})),
        ("runs", {"run": "1.x"}, Owners(runs={"", "coder"})),
        ("item", {"item": 7}, Owners(item=None)),
        ("item", {"item": 7}, Owners(item={"coder", ""})),
        ("item", {"item": 7}, Owners(item={"tester", "coder"})),
        ("worker", {"name": "w"}, Owners(worker=None)),
        ("worker", {"name": "w"}, Owners(worker="coder")),
        ("editor", {"run": "1.x"}, Owners(runs={"coder"})),
        ("arrivals", {"items": [MINE]}, Owners(policies=[None])),
        ("arrivals", {"items": [OTHERS, OPEN]}, Owners(policies=[Policy.QUEUE, Policy.REJECT])),
        ("arrivals", {"items": [NewItem(title="x", type=HOLD, lane="l:1")]}, Owners(policies=[Policy.QUEUE])),
    ],
)
def test_what_the_token_of_an_agent_may_touch(
    confines: Confines, given: dict[str, Any], owners: Owners
) -> None:
    allowed = confine("coder", confines, (), given, owners)
    assert {name: value for name, value in allowed.items() if name != "items"} == {
        name: value for name, value in given.items() if name != "items"
    }


@pytest.mark.parametrize(
    ("confines", "given", "owners", "why"),
    [
        ("runs", {"agent": "tester"}, NOBODY, "speaks for another agent"),
        (
            "runs",
            {"run": "1.x", "next": NextWish("tester")},
            Owners(runs={"coder"}),
            "speaks for another agent",
        ),
        ("worker", {"agent": "tester", "name": "w"}, Owners(worker="coder"), "speaks for another agent"),
        ("runs", {"run": "1.x"}, Owners(runs={"tester"}), "names a run of another agent"),
        ("editor", {"run": "1.x"}, Owners(runs={"coder", "tester"}), "names a run of another agent"),
        ("item", {"item": 7}, Owners(item={"tester", ""}), "names an item of another agent"),
        ("item", {"item": 7}, Owners(item={""}), "names an item of another agent"),
        ("worker", {"name": "w"}, Owners(worker="tester"), "is about a worker of another agent"),
        ("editor", {"plan": 1}, NOBODY, "edits a plan without the run that was asked to"),
        ("editor", {"run": None}, NOBODY, "edits a plan without the run that was asked to"),
        ("arrivals", {"items": [HELD_BY_OTHERS]}, Owners(policies=[Policy.QUEUE]), "held by another agent"),
        ("arrivals", {"items": [OTHERS]}, Owners(policies=[Policy.SUPERSEDE]), "supersede would stop a run"),
        ("arrivals", {"items": [MINE, OPEN]}, Owners(policies=[None, Policy.LATEST]), "replace items"),
    ],
)
def test_what_it_may_not_touch(confines: Confines, given: dict[str, Any], owners: Owners, why: str) -> None:
    with pytest.raises(NotAllowed) as caught:
        confine("coder", confines, (), given, owners)
    assert caught.value.sentence.startswith("This token acts for the agent coder")
    assert why in caught.value.sentence


def test_an_agent_acts_as_itself_whatever_the_request_says() -> None:
    takes = ("by", "author", "sender", "why")
    given = {"by": "anna", "sender": A_PERSON}
    assert confine("coder", "runs", takes, given, NOBODY) == {
        "by": "coder",
        "author": "coder",
        "sender": CODER,
    }
    assert confine("coder", "runs", ("why",), {"why": "x"}, NOBODY) == {"why": "x"}
    assert given == {"by": "anna", "sender": A_PERSON}
    own = Sender(SenderKind.AGENT, "coder", RunId(7), "l:1")
    assert confine("coder", "runs", ("sender",), {"sender": own}, NOBODY)["sender"] is own


def test_new_items_are_signed() -> None:
    items = confine("coder", "arrivals", (), {"items": [OPEN, MINE]}, Owners(policies=[Policy.QUEUE, None]))
    assert [(item.author, item.sender) for item in items["items"]] == [("coder", CODER)] * 2


@pytest.mark.parametrize("needs", Needs)
@pytest.mark.parametrize("scope", [Scope(Needs.READ), Scope(Needs.AGENT, "coder"), Scope(Needs.ADMIN)])
def test_a_scope_allows_what_needs_no_more(needs: Needs, scope: Scope) -> None:
    order = [Needs.READ, Needs.AGENT, Needs.ADMIN]
    if order.index(needs) <= order.index(scope.needs):
        check_scope(needs, scope)
    else:
        with pytest.raises(NotAllowed):
            check_scope(needs, scope)

"""Arguments that models make up: whatever they are, the answer is one that a model can read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcp import MCPError

from interlock.core.model import NewItem
from interlock.core.names import MESSAGE_MAX_BYTES, PAYLOAD_MAX_BYTES, USUAL_FIELDS
from interlock.mcp.protocol import server, tool
from interlock.mcp.tools import NAMES, Defaults, ToolCaller, Tools
from interlock.service.contract import ItemFilter
from interlock.service.local import LocalService
from interlock.store.sqlite.store import SqliteStore
from tests.clock import Clock
from tests.mcp.client import Model, here, model, text_of

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-3, 3)
    | st.floats(allow_nan=True)
    | st.text(max_size=20)
    | st.sampled_from(
        ["", "coder", "1", "-1", "[1]", '{"a": 1}', "{", "1.1.0c8b4f0f7c1d2e3a", "l:1", "\x00", "💥"]
    )
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[LocalService]:
    with closing(LocalService(SqliteStore(tmp_path / "store.db", now=Clock()), poll_s=0.01)) as service:
        yield service


@pytest.fixture
def coder(service: LocalService) -> Iterator[Model]:
    service.add([NewItem(title="a", lane="l:1")])
    (lease,) = service.next("coder", lease_s=86_400)
    with here(service, agent="coder", run=lease.run) as model:
        yield model


@st.composite
def calls(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    name = draw(st.sampled_from(NAMES))
    known = sorted(tool(name).input_schema["properties"])
    keys = draw(st.lists(st.sampled_from(known) | st.text(max_size=5), max_size=4, unique=True))
    needed = tool(name).input_schema.get("required", [])
    given = {key: draw(VALUES) for key in dict.fromkeys([*(needed if draw(st.booleans()) else []), *keys])}
    if isinstance(given.get("wait_s"), int | float) and name == "claim_next":
        given["wait_s"] = 0
    return name, given


@given(st.lists(calls(), min_size=1, max_size=10))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_a_model_sends_the_answer_is_a_sentence_or_fits_its_schema(
    coder: Model, made: list[tuple[str, dict[str, Any]]]
) -> None:
    """The client holds answers to their schemas; `here` fails after a defect."""
    for name, arguments in made:
        found = coder.call(name, arguments)
        said = text_of(found)
        assert said
        if found.is_error:
            assert not {word for word in ("Traceback", "pydantic", "interlock.") if word in said}
            assert said[0] != "{"
        else:
            assert found.structured_content is not None


def test_a_mistake_names_the_argument_and_what_there_is(coder: Model) -> None:
    assert coder.mistake("fail") == (
        "These arguments do not fit fail. `error` is missing. It takes error, run, retry, seen."
    )
    assert "There is no `sene`." in coder.mistake("renew", sene=1)
    assert "`item`" in coder.mistake("get_item", item="x")
    assert "`wait_s`" in coder.mistake("claim_next", wait_s=61)
    assert "There is no tool 'no_such_tool'. There are claim_next" in coder.mistake("no_such_tool")
    assert "`policy`" in coder.mistake("add_item", title="x", policy="steal")


def test_a_defect_of_ours_is_told_without_its_inside() -> None:
    async def broken(name: str, given: dict[str, Any]) -> Any:
        raise ZeroDivisionError("a secret")

    defects: list[Exception] = []
    tools = Tools(broken, ToolCaller(), Defaults({}, USUAL_FIELDS))
    with model(server(lambda: tools, defects.append)) as talking:
        said = talking.mistake("why", item=1)
        with pytest.raises(MCPError, match="Internal server error"):
            talking.client_says("read_resource", "interlock://items/1")
    assert said == "Internal error in Interlock. It is in the log of the server; tell a person."
    assert [str(each) for each in defects] == ["a secret", "a secret"]


def test_lists_and_objects_may_come_as_texts_of_json(service: LocalService, coder: Model) -> None:
    added = coder.add_item(title="x", payload='{"a": [1]}', labels='["python"]', priority="3")["item"]
    assert (added["labels"], added["priority"]) == (["python"], 3)
    assert service.show(added["id"]).item.payload == {"a": [1]}
    assert "`payload`" in coder.mistake("add_item", title="x", payload="{no")


def test_what_is_too_large_changes_nothing(service: LocalService, coder: Model) -> None:
    before = len(service.events())
    long = "x" * (MESSAGE_MAX_BYTES + 1)
    assert "at most" in coder.mistake("add_item", title="x", payload={"a": "y" * PAYLOAD_MAX_BYTES})
    assert "at most" in coder.mistake("add_item", title="x" * 1_000)
    assert "at most" in coder.mistake("add_item", title="x", message=long)
    assert "at most" in coder.mistake("send_message", item=1, text=long)
    assert "at most" in coder.mistake("ask", question=long)
    assert "at most" in coder.mistake("fail", error=long)
    assert "at most" in coder.mistake("complete", result={"a": long})
    assert "at most" in coder.mistake("who_has", lane="l:" + "x" * 300)
    assert len(service.events()) == before
    assert len(service.items(ItemFilter())) == 1

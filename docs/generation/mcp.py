"""The tools for models, as models get them."""

from __future__ import annotations

from typing import Any

from docs.generation.markdown import code, table
from interlock.mcp.protocol import TEMPLATES, tool
from interlock.mcp.tools import NAMES


def tools() -> str:
    return "\n\n".join(_section(name) for name in NAMES)


def _section(name: str) -> str:
    found = tool(name)
    needed = found.input_schema.get("required", [])
    rows = (
        (code(part), _kind(schema), "yes" if part in needed else "", schema.get("description", ""))
        for part, schema in found.input_schema["properties"].items()
    )
    given = table(("argument", "type", "needed", "meaning"), rows)
    answer = ", ".join(code(part) for part in (found.output_schema or {})["properties"])
    return f"## `{name}`\n\n{found.description}\n\n{given}\n\nAnswers with {answer}."


def _kind(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join(map(code, schema["enum"]))
    if "anyOf" in schema:
        return next(_kind(each) for each in schema["anyOf"] if each.get("type") != "null")
    if schema.get("type") == "array":
        return f"list of {_kind(schema['items'])}"
    return {"string": "text", "integer": "whole number", "boolean": "true or false"}.get(
        schema["type"], str(schema["type"])
    )


def resources() -> str:
    rows = ((code(each.uri_template), each.description or "") for each in TEMPLATES)
    return table(("resource", "what it is"), rows)

"""The JSON Schema (2020-12) of a repository's rules, for editors that check TOML while you type."""

from __future__ import annotations

from typing import Any

from interlock.core.model import Policy
from interlock.github.rulefile import PATH, PRIORITY_MAX, RULES_MAX
from interlock.github.rules import EVENTS, RuleAction


def schema() -> dict[str, Any]:
    """The schema of the file. `policy check` also checks agents and the order of rules."""
    words = {
        "anyOf": [
            {"type": "string", "pattern": r"\S"},
            {"type": "array", "items": {"type": "string", "pattern": r"\S"}},
        ]
    }
    events = sorted({*EVENTS, *(event.split(".")[0] for event in EVENTS), *_stars()})
    priority = {"type": "integer", "minimum": -PRIORITY_MAX, "maximum": PRIORITY_MAX}
    rule = {
        "type": "object",
        "additionalProperties": False,
        "required": ["event"],
        # A rule that creates items needs their type.
        "anyOf": [
            {"required": ["type"]},
            {"required": ["do"], "properties": {"do": {"not": {"const": "create"}}}},
        ],
        "properties": {
            "event": {
                "anyOf": [{"enum": events}, {"type": "array", "minItems": 1, "items": {"enum": events}}]
            },
            "action": words,
            "label": words,
            "author": words,
            "title": words,
            "path": words,
            "draft": {"type": "boolean"},
            "branch": words,
            "check": words,
            "conclusion": words,
            "do": {"enum": [each.value for each in RuleAction]},
            "type": {"type": "string"},
            "priority": priority,
            "lane": {"type": "string", "examples": ["none", "branch:{repository}/{number}"]},
            "agent": {"type": "string"},
            "policy": {"enum": [each.value for each in Policy]},
            "timeout": {"type": ["string", "number"], "examples": ["30m", 1800]},
        },
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Interlock's rules for GitHub's events ({PATH})",
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "rule": {"type": "array", "maxItems": RULES_MAX, "items": rule},
            "agents": {"type": "object", "additionalProperties": {"type": "string"}},
            "priorities": {"type": "object", "additionalProperties": priority},
            "anyone_wakes": {"type": "boolean"},
            "sub_issues_block": {"type": "boolean"},
            "progress_comments": {"type": "boolean"},
            "lane_status": {"type": "boolean"},
            "defaults": {"type": "boolean"},
        },
    }


def _stars() -> set[str]:
    return {f"{event.split('.')[0]}.*" for event in EVENTS if "." in event}

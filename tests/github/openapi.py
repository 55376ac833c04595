"""GitHub's own descriptions of its REST interface and its webhooks, as validators.

Of a description only what is asked for is kept, with what that refers to, as plain JSON Schema: `nullable`
becomes a type (and a value of an `enum`). Changes of a dated API version are applied as the description
states them. What was cut is kept beside the packages, since reading the whole takes a second.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs

from tests.github import packages

OLD_VERSION, NEW_VERSION = "2022-11-28", "2026-03-10"
VERSIONS = (OLD_VERSION, NEW_VERSION)
Schema = dict[str, Any]
Operation = tuple[str, str]

#: Says of `pull_request` in an issue that `merged_at` is never null. It is, until the merge.
_WRONG_CHANGES = {"deprecate_beta_media_type"}
_WORDS = {
    "description",
    "example",
    "examples",
    "externalDocs",
    "deprecated",
    "summary",
    "title",
    "tags",
    "x-github",
}


class Rest:
    """The operations that a set of routes stands for, in one API version."""

    def __init__(self, operations: Iterable[Operation], version: str) -> None:
        self._cut = _cached(f"rest {version}", packages.REST, sorted(operations), version)
        self._validators: dict[str, jsonschema_rs.Validator] = {}

    def request_problems(self, operation: Operation, query: dict[str, str], body: Any) -> list[str]:
        """What is wrong with a request, as GitHub describes it."""
        described, name = self._operation(operation), " ".join(operation)
        problems = []
        known = {p["name"]: p for p in described["parameters"] if p["in"] == "query"}
        for key, text in query.items():
            if key not in known:
                problems.append(f"{name}: no query parameter is called {key}")
            else:
                value = _value_of(text, known[key]["schema"])
                problems += self._problems(f"{name} ?{key}", known[key]["schema"], value)
        problems += [
            f"{name}: {key} is missing" for key, p in known.items() if p.get("required") and key not in query
        ]
        schema = described.get("body")
        if body is not None and schema is not None:
            problems += self._problems(f"{name} body", schema, body)
        elif body is None and described.get("body_required"):
            problems.append(f"{name}: the body is missing")
        elif body and schema is None:
            problems.append(f"{name}: no body is described")
        return problems

    def answer_problems(self, operation: Operation, status: int, body: Any) -> list[str]:
        """What is wrong with an answer, as GitHub describes it."""
        described, name = self._operation(operation), f"{' '.join(operation)} {status}"
        schema = described["responses"].get(str(status))
        if schema is None and (status in (301, 307) or status >= 400):  # described here and there
            schema = {"$ref": "#/components/schemas/basic-error"}
        elif str(status) not in described["responses"]:
            return [f"{name}: no such status is described"]
        if schema is None:
            return [] if body is None or status == 302 else [f"{name}: no content is described"]
        return self._problems(name, schema, body)

    def _operation(self, operation: Operation) -> Schema:
        return self._cut["operations"][" ".join(operation)]  # type: ignore[no-any-return]

    def _problems(self, name: str, schema: Schema, value: Any) -> list[str]:
        return _problems(self._validators, name, schema, self._cut["components"], value)


class Webhooks:
    """What GitHub sends, by event and action."""

    def __init__(self) -> None:
        packages.installed()
        self._whole: Schema = _cached("webhooks", packages.WEBHOOKS, [], "")
        self._validators: dict[str, jsonschema_rs.Validator] = {}

    def problems(self, event: str, payload: dict[str, Any]) -> list[str]:
        """What is wrong with a payload, as GitHub describes it."""
        key = event.replace("_", "-")
        if key not in self._whole["webhooks"]:
            key += "-" + str(payload.get("action")).replace("_", "-")
        if key not in self._whole["webhooks"]:
            return [f"{key}: no such event is described"]
        schema = self._whole["webhooks"][key]
        return _problems(self._validators, key, schema, self._whole["components"], payload)


@cache
def rest(operations: frozenset[Operation], version: str) -> Rest:
    packages.installed()
    return Rest(operations, version)


@cache
def webhooks() -> Webhooks:
    return Webhooks()


def document(operations: Iterable[Operation]) -> Schema:
    """The description of these operations as OpenAPI, for tools that read that."""
    packages.installed()
    whole = json.loads(packages.REST.read_text())
    paths: Schema = {}
    for method, path in operations:
        paths.setdefault(path, {})[method.lower()] = _changed(
            whole["paths"][path][method.lower()], NEW_VERSION
        )
    kept = {"openapi": whole["openapi"], "info": {"title": "GitHub", "version": NEW_VERSION}, "paths": paths}
    components: Schema = {}
    _follow(kept["paths"], whole, components, lambda part: _changed(part, NEW_VERSION))
    return _without_words(kept | {"components": components})  # type: ignore[no-any-return]


def _cached(name: str, source: Path, operations: list[Operation], version: str) -> Schema:
    """What was cut of a description, made anew if the packages or this module changed."""
    recipe = Path(__file__).read_bytes() + (packages.HOME / "package-lock.json").read_bytes()
    key = hashlib.sha256(recipe + json.dumps([name, operations]).encode()).hexdigest()[:16]
    kept = packages.MODULES / f".cut-{key}.json"
    if not kept.exists():
        whole = json.loads(source.read_text())
        cut = _cut_rest(whole, operations, version) if operations else _cut_webhooks(whole)
        temporary = kept.with_suffix(f".{id(cut)}")
        temporary.write_text(json.dumps(cut))
        temporary.replace(kept)
    return json.loads(kept.read_text())  # type: ignore[no-any-return]


def _cut_rest(whole: Schema, operations: list[Operation], version: str) -> Schema:
    kept: Schema = {}
    for method, path in operations:
        operation = _changed(whole["paths"][path][method.lower()], version)
        body = _resolved(operation.get("requestBody", {}), whole)
        kept[f"{method} {path}"] = {
            "parameters": [_resolved(p, whole) for p in operation.get("parameters", [])],
            "body": _json_schema(body),
            "body_required": body.get("required", False),
            "responses": {s: _json_schema(_resolved(r, whole)) for s, r in operation["responses"].items()},
        }
    kept["error"] = {"$ref": "#/components/schemas/basic-error"}
    components: Schema = {}
    _follow(kept, whole, components, lambda part: _changed(part, version))
    del kept["error"]
    return {"operations": _plain(kept), "components": _plain(components)}


def _cut_webhooks(whole: Schema) -> Schema:
    kept = {
        name: next(iter(described["post"]["requestBody"]["content"].values()))["schema"]
        for name, described in whole["webhooks"].items()
    }
    components: Schema = {}
    _follow(kept, whole, components, lambda part: part)
    return {"webhooks": _plain(kept), "components": _plain(components)}


def _json_schema(part: Schema) -> Schema | None:
    content = part.get("content", {})
    for kind in ("application/json", "application/vnd.github.v3+json", "application/problem+json"):
        if kind in content:
            return content[kind]["schema"]  # type: ignore[no-any-return]
    return None


def _resolved(part: Schema, whole: Schema) -> Schema:
    return _at(whole, part["$ref"]) if "$ref" in part else part


def _at(whole: Schema, reference: str) -> Any:
    for step in reference.removeprefix("#/").split("/"):
        whole = whole[step]
    return whole


def _follow(part: Any, whole: Schema, components: Schema, change: Any) -> None:
    """Gather into `components` all that `part` refers to."""
    for reference in _references(part):
        _, kind, name = reference.removeprefix("#/").split("/")
        if name not in components.setdefault(kind, {}):
            components[kind][name] = change(_at(whole, reference))
            _follow(components[kind][name], whole, components, change)


def _references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        for key, value in part.items():
            if key == "$ref":
                yield value
            elif key not in ("x-github-breaking-changes", "examples"):
                yield from _references(value)
    elif isinstance(part, list):
        for value in part:
            yield from _references(value)


def _changed(part: Schema, version: str) -> Schema:
    """The part as a dated version has it: each change is a merge patch or a list of operations on paths."""
    part = json.loads(json.dumps(part))
    for change in part.pop("x-github-breaking-changes", []):
        if change["version"] <= version and change["changeset"] not in _WRONG_CHANGES:
            patch = change["patch"]
            part = _merged(part, patch) if isinstance(patch, dict) else _operated(part, patch)
    if "required" in part and isinstance(part.get("properties"), dict):
        part["required"] = [name for name in part["required"] if name in part["properties"]]
    return part


def _merged(value: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    value = dict(value) if isinstance(value, dict) else {}
    for key, wanted in patch.items():
        if wanted is None:
            value.pop(key, None)
        else:
            value[key] = _merged(value.get(key), wanted)
    return value


def _operated(part: Schema, patch: list[Schema]) -> Schema:
    for operation in patch:
        *way, last = [s.replace("~1", "/").replace("~0", "~") for s in operation["path"].split("/")[1:]]
        place = part
        for step in way:
            place = place[step]
        if operation["op"] == "remove":
            place.pop(last, None)
        else:
            place[last] = operation["value"]
    return part


def _plain(part: Any, *, names: bool = False) -> Any:
    """JSON Schema instead of OpenAPI 3.0's; `names` while the keys are names of properties."""
    if isinstance(part, list):
        return [_plain(value) for value in part]
    if not isinstance(part, dict):
        return part
    if names:
        return {key: _plain(value) for key, value in part.items()}
    made = {
        # Alternatives overlap in GitHub's descriptions, so one or more of them may hold.
        "anyOf" if key == "oneOf" else key: value
        if key in ("enum", "default", "required")
        else _plain(value, names=key == "properties")
        for key, value in part.items()
        if key not in _WORDS and key != "nullable"
    }
    if part.get("nullable"):
        if isinstance(made.get("type"), str):
            made["type"] = [made["type"], "null"]
        if "enum" in made and None not in made["enum"]:
            made["enum"] = [*made["enum"], None]
        if "anyOf" in made:
            made["anyOf"] = [*made["anyOf"], {"type": "null"}]
        elif "allOf" in made or "$ref" in made:
            made = {"anyOf": [made, {"type": "null"}]}
    return made


def _without_words(part: Any, *, names: bool = False) -> Any:
    if isinstance(part, list):
        return [_without_words(value) for value in part]
    if not isinstance(part, dict):
        return part
    dropped = (
        () if names else ("example", "examples", "externalDocs", "x-github", "x-github-breaking-changes")
    )
    return {
        key: _without_words(value, names=key in ("properties", "paths", "schemas"))
        for key, value in part.items()
        if key not in dropped
    }


def _value_of(text: str, schema: Schema) -> Any:
    kinds = json.dumps(schema)
    if '"integer"' in kinds and re.fullmatch(r"-?\d+", text):
        return int(text)
    return {"true": True, "false": False}.get(text, text) if '"boolean"' in kinds else text


def _problems(
    compiled: dict[str, jsonschema_rs.Validator], name: str, schema: Schema, components: Schema, value: Any
) -> list[str]:
    if name not in compiled:
        # A validator reads all that it is given: this gives it no more than it refers to.
        reached: Schema = {}
        _follow(schema, {"components": components}, reached, lambda part: part)
        compiled[name] = jsonschema_rs.Draft202012Validator({**schema, "components": reached})
    found = []
    for error in compiled[name].iter_errors(value):
        place = "/".join(map(str, error.instance_path))
        found.append(f"{name}: {place}: {error.message[:300]}")
    return found

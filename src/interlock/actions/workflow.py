"""Parses a workflow file with line numbers.

Only the parts for the checks are parsed. Keys are compared as written: YAML 1.1 would read `on` as true. A
file that is not a workflow raises `NotAWorkflow` with a line. Unreadable parts of a workflow are skipped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import yaml

#: Far above any workflow that people write.
SIZE_MAX_BYTES = 512 * 1024
_GITHUB_DIRECTORY = ".github/"


class NotAWorkflow(ValueError):
    """The text is not a workflow."""

    def __init__(self, sentence: str, line: int = 1) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.line = line


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowText:
    """A value as written, and its line."""

    value: str
    line: int
    #: Whether each line of the value is a line of the file, so that it has a line number.
    literal: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Concurrency:
    """A concurrency group, and what happens if a run finds it in use."""

    line: int
    group: WorkflowText
    cancel: WorkflowText | None = None
    queue: WorkflowText | None = None

    @property
    def keeps_all(self) -> bool:
        return self.queue is not None and self.queue.value == "max"

    @property
    def may_cancel(self) -> bool:
        """Whether it cancels, or an expression decides."""
        return self.cancel is not None and self.cancel.value.lower() not in ("", "false")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of a job: a script, or an action."""

    run: WorkflowText | None
    shell: str
    uses: str
    has_timeout: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One job. A job that calls another workflow (`uses:`) has its steps there."""

    key: str
    line: int
    condition: WorkflowText | None
    #: The jobs that must run before it.
    needs: tuple[str, ...]
    concurrency: Concurrency | None
    has_timeout: bool
    on_windows: bool
    #: The names of the matrix with their literal values; a job runs in parallel for each value.
    matrix: Mapping[str, tuple[str, ...]]
    steps: tuple[Step, ...]
    #: The workflow that it calls, and the inputs that it passes.
    uses: str
    given: Mapping[str, str]
    #: The write permissions of its token; None if neither the job nor its workflow sets them.
    writes: frozenset[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    """A workflow: its events, its concurrency group and its jobs."""

    path: str
    name: str
    #: The events that start it, with their activity types; an empty list means the event's default. Changes
    #: of the workflows themselves are excluded: they are a test, not work on the pull request.
    events: Mapping[str, tuple[str, ...]]
    #: Its schedules, in cron syntax.
    crons: tuple[str, ...]
    concurrency: Concurrency | None
    jobs: tuple[Job, ...]


def read_workflow(path: str, data: bytes) -> Workflow:
    """The workflow in a file."""
    if len(data) > SIZE_MAX_BYTES:
        raise NotAWorkflow(
            f"It has more than {SIZE_MAX_BYTES:,} bytes; GitHub accepts no workflow of that size."
        )
    try:
        root = yaml.compose(data.decode("utf-8-sig"), Loader=yaml.SafeLoader)
    except UnicodeDecodeError:
        raise NotAWorkflow("It is not UTF-8 text.") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise NotAWorkflow(
            f"It is not valid YAML: {error.problem or error.context}.", mark.line + 1 if mark else 1
        ) from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        reason = str(error).partition("\n")[0] if isinstance(error, yaml.YAMLError) else "nested too deeply"
        raise NotAWorkflow(f"It is not valid YAML: {reason}.") from None
    if not isinstance(root, yaml.MappingNode):
        raise NotAWorkflow("It has no keys, so it is not a workflow.", 1)
    jobs = _get(root, "jobs")
    if _get(root, "on") is None or not isinstance(jobs, yaml.MappingNode):
        raise NotAWorkflow("It has no on: or no jobs:, so it is not a workflow.", _line(root))
    shell = _plain(_get(_get(_get(root, "defaults"), "run"), "shell"))
    writes = _writes(_get(root, "permissions"))
    return Workflow(
        path=path,
        name=_plain(_get(root, "name")) or path,
        events=dict(_events(_get(root, "on"))),
        crons=tuple(_crons(_get(_get(root, "on"), "schedule"))),
        concurrency=_concurrency(_get(root, "concurrency")),
        jobs=tuple(
            _job(key, node, shell, writes) for key, node in jobs.value if isinstance(key, yaml.ScalarNode)
        ),
    )


def _events(node: yaml.Node | None) -> Iterator[tuple[str, tuple[str, ...]]]:
    match node:
        case yaml.ScalarNode() | yaml.SequenceNode():
            yield from ((event, ()) for event in _list(node))
        case yaml.MappingNode():
            for event, value in _pairs(node):
                paths = _list(_get(value, "paths"))
                if not paths or not all(path.startswith(_GITHUB_DIRECTORY) for path in paths):
                    yield event, tuple(_list(_get(value, "types")))
        case _:
            pass  # `on:` without a value


def _crons(node: yaml.Node | None) -> Iterator[str]:
    if isinstance(node, yaml.SequenceNode):
        yield from (_plain(_get(entry, "cron")) for entry in node.value)


def _list(node: yaml.Node | None) -> list[str]:
    """The texts of a node that has one or several."""
    if isinstance(node, yaml.SequenceNode):
        return [n.value for n in node.value if isinstance(n, yaml.ScalarNode)]
    return [node.value] if isinstance(node, yaml.ScalarNode) else []


def _concurrency(node: yaml.Node | None) -> Concurrency | None:
    if isinstance(node, yaml.ScalarNode) and node.value:
        return Concurrency(line=_line(node), group=_text(node))
    group = _get(node, "group")
    if node is None or not isinstance(group, yaml.ScalarNode):
        return None
    cancel, queue = _text_of(_get(node, "cancel-in-progress")), _text_of(_get(node, "queue"))
    return Concurrency(line=_line(group), group=_text(group), cancel=cancel, queue=queue)


def _writes(node: yaml.Node | None) -> frozenset[str] | None:
    """The scopes that a token may write by `permissions:`; `*` for all."""
    if node is None:
        return None
    if isinstance(node, yaml.ScalarNode):
        return frozenset({"*"} if node.value == "write-all" else ())
    return frozenset(scope for scope, value in _pairs(node) if _plain(value) == "write")


def _job(key: yaml.ScalarNode, node: yaml.Node, shell: str, writes: frozenset[str] | None) -> Job:
    shell = _plain(_get(_get(_get(node, "defaults"), "run"), "shell")) or shell
    steps = _get(node, "steps")
    return Job(
        key=key.value,
        line=_line(key),
        condition=_text_of(_get(node, "if")),
        needs=tuple(_list(_get(node, "needs"))),
        concurrency=_concurrency(_get(node, "concurrency")),
        has_timeout=_get(node, "timeout-minutes") is not None,
        writes=writes if (own := _writes(_get(node, "permissions"))) is None else own,
        on_windows="windows" in _plain(_get(node, "runs-on")).lower(),
        matrix=dict(_matrix(_get(_get(node, "strategy"), "matrix"))),
        steps=tuple(_step(n, shell) for n in steps.value if isinstance(n, yaml.MappingNode))
        if isinstance(steps, yaml.SequenceNode)
        else (),
        uses=_plain(_get(node, "uses")),
        given={name.lower(): _plain(value) for name, value in _pairs(_get(node, "with"))},
    )


def _matrix(node: yaml.Node | None) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The names of a matrix with more than one value; none if it has an `exclude`."""
    if _get(node, "exclude") is not None:
        return
    include = _get(node, "include")
    listed = {name: _list(values) for name, values in _pairs(node) if name != "include"}
    if not listed and isinstance(include, yaml.SequenceNode):  # with lists, it only extends their jobs
        for name, value in (pair for entry in include.value for pair in _pairs(entry)):
            listed.setdefault(name, []).append(_plain(value))
    for name, values in listed.items():
        distinct = tuple(dict.fromkeys(value for value in values if "${{" not in value))
        if len(distinct) > 1:
            yield name.lower(), distinct


def _step(node: yaml.Node, shell: str) -> Step:
    return Step(
        run=_text_of(_get(node, "run")),
        shell=_plain(_get(node, "shell")) or shell,
        uses=_plain(_get(node, "uses")),
        has_timeout=_get(node, "timeout-minutes") is not None,
    )


def _pairs(node: yaml.Node | None) -> Iterator[tuple[str, yaml.Node]]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode):
                yield key.value, value


def _get(node: yaml.Node | None, name: str) -> yaml.Node | None:
    """The value of a key, compared as written: `on` stays `on`."""
    return next((value for key, value in _pairs(node) if key == name), None)


def _plain(node: yaml.Node | None) -> str:
    return str(node.value) if isinstance(node, yaml.ScalarNode) else ""


def _text_of(node: yaml.Node | None) -> WorkflowText | None:
    return _text(node) if isinstance(node, yaml.ScalarNode) else None


def _text(node: yaml.ScalarNode) -> WorkflowText:
    # A block starts at its `|`; its text begins on the next line.
    literal = node.style == "|"
    return WorkflowText(value=node.value, line=_line(node) + literal, literal=literal)


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1

"""A workflow file, read with line numbers.

Only what the checks need is read. Keys are compared as written: YAML 1.1 would take `on` for true. A file
that is not a workflow raises `NotAWorkflow` with a line; unreadable parts of a workflow are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import yaml

#: Far above any workflow that people wrote.
SIZE_MAX_BYTES = 512 * 1024
_GITHUB_DIRECTORY = ".github/"


class NotAWorkflow(ValueError):
    """The text cannot be read as a workflow."""

    def __init__(self, sentence: str, line: int = 1) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.line = line


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A value as it was written, and where."""

    value: str
    line: int
    #: Whether each line of the value is a line of the file, so that a line inside it has a number.
    literal: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Concurrency:
    """A concurrency group, and what happens to a run that finds it taken."""

    line: int
    group: Text
    cancel: Text | None = None
    queue: Text | None = None

    @property
    def keeps_all(self) -> bool:
        return self.queue is not None and self.queue.value == "max"

    @property
    def may_cancel(self) -> bool:
        """It cancels, or an expression decides."""
        return self.cancel is not None and self.cancel.value.lower() not in ("", "false")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of a job: a script, or an action."""

    run: Text | None
    shell: str
    uses: str
    has_timeout: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One job; one that calls another workflow (`uses:`) has its steps elsewhere."""

    key: str
    line: int
    condition: Text | None
    #: The jobs that must have run before it.
    needs: tuple[str, ...]
    concurrency: Concurrency | None
    has_timeout: bool
    on_windows: bool
    #: Names with the values for which jobs run side by side, as far as they are written out.
    matrix: Mapping[str, tuple[str, ...]]
    steps: tuple[Step, ...]
    #: The workflow that it calls, and the inputs that it gives.
    uses: str
    given: Mapping[str, str]
    #: What its token may write; None where neither it nor its workflow says.
    writes: frozenset[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    """A workflow: when it runs, under which group, and what its jobs do."""

    path: str
    name: str
    #: The events that start it, with the activity types it names; none named is the event's default. Changes
    #: of the workflows themselves are left out: they are a test, not work on the pull request.
    events: Mapping[str, tuple[str, ...]]
    #: When it is scheduled, in cron's language.
    crons: tuple[str, ...]
    concurrency: Concurrency | None
    jobs: tuple[Job, ...]


def read_workflow(path: str, data: bytes) -> Workflow:
    """The workflow that a file describes."""
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
        raise NotAWorkflow("It has no keys, so it is no workflow.", 1)
    jobs = _get(root, "jobs")
    if _get(root, "on") is None or not isinstance(jobs, yaml.MappingNode):
        raise NotAWorkflow("It has no on: or no jobs:, so it is no workflow.", _line(root))
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
    """One text or several."""
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
    """The scopes that `permissions:` lets a token write; `*` for all."""
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
    """The names of a matrix that have more than one value; nothing if there is an `exclude`."""
    if _get(node, "exclude") is not None:
        return
    include = _get(node, "include")
    listed = {name: _list(values) for name, values in _pairs(node) if name != "include"}
    if not listed and isinstance(include, yaml.SequenceNode):  # beside a list it only adds to its jobs
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
    """The value of a key, compared as it is written: `on` stays `on`."""
    return next((value for key, value in _pairs(node) if key == name), None)


def _plain(node: yaml.Node | None) -> str:
    return str(node.value) if isinstance(node, yaml.ScalarNode) else ""


def _text_of(node: yaml.Node | None) -> Text | None:
    return _text(node) if isinstance(node, yaml.ScalarNode) else None


def _text(node: yaml.ScalarNode) -> Text:
    # A block starts at its `|`; its text begins on the next line.
    literal = node.style == "|"
    return Text(value=node.value, line=_line(node) + literal, literal=literal)


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1

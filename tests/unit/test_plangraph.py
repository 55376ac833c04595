"""Drawings of a plan's graph: nothing overlaps, nothing is missing, and no title is taken for syntax."""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import zlib
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.core.plans.measures import measured
from interlock.plans.drawing.layout import lay_out
from interlock.plans.drawing.mermaid import mermaid
from interlock.plans.drawing.picture import Node, PictureEdge, PlanPicture
from interlock.plans.drawing.svg import page_svg, svg
from interlock.plans.drawing.text import drawn

STATUSES = ["", "waiting", "pending", "in_progress", "completed", "failed", "cancelled"]
WHENS = ["success", "completion", "failure"]
HOSTILE = "\"]; <script>alert('x')</script> & `end` #1; | --> \x1b[31m\u202e %% {{x}}"


@st.composite
def graphs(draw: st.DrawFn, tasks: int = 14) -> PlanPicture:
    size = draw(st.integers(1, tasks))
    pairs = [(a, b) for b in range(size) for a in range(b)]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=2 * size)) if pairs else []
    order = draw(st.permutations(range(size)))
    return PlanPicture(
        nodes=tuple(Node(key=f"t{n}", status=draw(st.sampled_from(STATUSES))) for n in order),
        links=tuple(
            PictureEdge(source=f"t{a}", target=f"t{b}", when=draw(st.sampled_from(WHENS))) for a, b in chosen
        ),
    )


def pairs_of(graph: PlanPicture) -> set[tuple[str, str]]:
    return {(link.source, link.target) for link in graph.links}


class TestLayout:
    @given(graphs(), st.sampled_from([1, 3]))
    def test_nothing_overlaps_and_every_edge_leads_from_left_to_right(
        self, graph: PlanPicture, high: int
    ) -> None:
        layout = lay_out(graph, node_lines=high)
        half = high // 2
        taken: dict[tuple[int, int], object] = {}
        for node, place in zip(graph.nodes, layout.nodes, strict=True):
            for line in range(place.line - half, place.line + half + 1):
                assert taken.setdefault((place.column, line), node.key) == node.key
                assert 0 <= line < layout.lines
        place_of = dict(zip((n.key for n in graph.nodes), layout.nodes, strict=True))
        for link, route in zip(graph.links, layout.routes, strict=True):
            assert (route[0], route[-1]) == (place_of[link.source], place_of[link.target])
            assert all(b.column == a.column + 1 for a, b in pairwise(route))
            for bend in route[1:-1]:
                assert taken.setdefault((bend.column, bend.line), link.source) == link.source

    def test_a_task_is_in_the_column_after_the_last_task_it_waits_for(self) -> None:
        layout = lay_out(_graph("a>b b>c a>c d>c"))
        assert [place.column for place in layout.nodes] == [0, 1, 2, 0]

    def test_a_chain_is_a_straight_line(self) -> None:
        assert len({place.line for place in lay_out(_graph("a>b b>c c>d")).nodes}) == 1

    def test_ten_thousand_tasks_with_far_edges_are_laid_out_too(self) -> None:
        keys = [f"t{n}" for n in range(10_000)]
        links = [*pairwise(keys), *((keys[0], key) for key in keys[2:])]
        graph = PlanPicture(
            nodes=tuple(Node(key=key) for key in keys),
            links=tuple(PictureEdge(source=a, target=b) for a, b in links),
        )
        layout = lay_out(graph)
        assert layout.columns == 10_000
        assert len(layout.routes) == len(links)


class TestText:
    @given(graphs())
    @settings(max_examples=200)
    def test_following_the_lines_of_a_drawing_finds_exactly_its_edges(self, graph: PlanPicture) -> None:
        drawing = drawn(graph, meetings_max=10_000)
        assert _read_back(drawing.lines, [mark[:3] for mark in drawing.marks]) == pairs_of(graph)

    def test_no_edge_runs_along_the_border_of_a_box(self) -> None:
        links = "t1>t4 t0>t5 t2>t4 t4>t5 t1>t2 t0=t6 t2>t6 t3>t6 t1=t5 t4>t6"
        graph = replace(_graph(links), nodes=tuple(Node(key=f"t{n}") for n in range(7)))
        layout = lay_out(graph)
        boxes = {(place.column, place.line + away) for place in layout.nodes for away in (-1, 0, 1)}
        bends = {(bend.column, bend.line) for route in layout.routes for bend in route[1:-1]}
        assert not boxes & bends

    def test_edges_that_change_places_are_told_apart(self) -> None:
        graph = _graph("a>c a>d b>c b>d b>e")
        drawing = drawn(graph, meetings_max=10_000)
        assert _read_back(drawing.lines, [mark[:3] for mark in drawing.marks]) == pairs_of(graph)

    def test_a_small_plan_looks_like_this(self) -> None:
        graph = PlanPicture(
            nodes=(
                Node(key="build", title="Build it", status="completed"),
                Node(key="test", status="in_progress"),
                Node(key="ship", status="waiting"),
                Node(key="mend", status="waiting"),
            ),
            links=(
                PictureEdge(source="build", target="test"),
                PictureEdge(source="test", target="ship"),
                PictureEdge(source="test", target="mend", when="failure"),
            ),
        )
        assert drawn(graph).lines == (
            "                                       ┌────────┐",
            "                                   ┌──▶│ ○ ship │",
            "┌───────────────────┐   ┌────────┐ │   └────────┘",
            "│ ✓ build  Build it ├──▶│ ◐ test ├─┤",
            "└───────────────────┘   └────────┘ │   ┌────────┐",
            "                                   └──◆│ ○ mend │",
            "                                       └────────┘",
            "",
            "○ 2 waiting   ◐ 1 in progress   ✓ 1 completed",
            "▶ on success   ◆ on failure",
        )

    def test_a_narrow_terminal_gets_a_list_that_says_the_same(self) -> None:
        graph = _graph("build>test test>ship build>ship")
        lines = drawn(graph, width=30).lines
        assert max(map(len, lines)) <= 30
        assert "   · ship   after test, build" in lines

    def test_lines_that_meet_too_often_become_a_list(self) -> None:
        stages = ("plan", "code", "test", "ship")
        straight = " ".join(f"{a}{n}>{b}{n}" for n in range(6) for a, b in pairwise(stages))
        assert len(_graph(straight).nodes) == 24
        assert not drawn(_graph(straight)).listed
        crossing = _graph(f"{straight} " + " ".join(f"plan{n}>test{5 - n}" for n in range(6)))
        drawing = drawn(crossing, width=80)
        assert drawing.listed
        assert "   · test3  after code3, plan2" in drawing.lines

    def test_a_list_cuts_no_name_that_a_task_waits_for(self) -> None:
        graph = _graph(" ".join(f"a-rather-long-name-{n}>last" for n in range(6)))
        lines = drawn(graph, width=80, meetings_max=-1).lines
        assert max(map(len, lines)) <= 80
        assert "…" not in "".join(lines)
        assert all(f"a-rather-long-name-{n}" in "\n".join(lines[7:]) for n in range(6))

    def test_a_large_plan_is_a_list(self) -> None:
        keys = [f"t{n}" for n in range(1_000)]
        graph = PlanPicture(nodes=tuple(Node(key=key, title=f"Do {key}", status="waiting") for key in keys))
        lines = drawn(graph).lines
        assert lines[0] == "1. 1000 tasks"
        assert "   ○ t999  Do t999" in lines
        assert lines[-1] == "○ 1000 waiting"

    def test_two_hundred_tasks_are_drawn(self) -> None:
        links = [(n // 3, n) for n in range(1, 200)]
        graph = PlanPicture(
            nodes=tuple(Node(key=f"t{n}") for n in range(200)),
            links=tuple(PictureEdge(source=f"t{a}", target=f"t{b}") for a, b in links),
        )
        drawing = drawn(graph)
        assert len(drawing.marks) == 200
        assert max(map(len, drawing.lines)) < 120
        assert "after" not in str(drawing)

    def test_an_edge_on_failure_or_on_any_end_is_named(self) -> None:
        text = str(drawn(_graph("a>c b~c d=e")))
        assert "▶ on success   ▷ on any end   ◆ on failure" in text
        assert "► c after a, b (on failure)" in text

    def test_wide_characters_keep_the_boxes_straight(self) -> None:
        lines = drawn(PlanPicture(nodes=(Node(key="a", title="日本語"), Node(key="b", title="été")))).lines
        assert "│ · a  日本語 │" in lines
        assert "│ · b  été    │" in lines

    def test_no_title_steers_the_terminal(self) -> None:
        text = str(drawn(PlanPicture(nodes=(Node(key="a", title=HOSTILE),))))
        assert "\x1b" not in text
        assert "\u202e" not in text

    def test_a_graph_without_tasks_says_so(self) -> None:
        assert str(drawn(PlanPicture(nodes=()))) == "The graph has no tasks."


class TestSvg:
    @given(graphs())
    def test_every_task_and_edge_is_there_and_no_two_boxes_touch(self, graph: PlanPicture) -> None:
        root = ElementTree.fromstring(svg(graph))
        boxes = []
        for group in root.iter("{http://www.w3.org/2000/svg}g"):
            if "il-task" in group.get("class", ""):
                x, y = map(int, re.findall(r"-?\d+", group.get("transform", "")))
                width, height = _box_of(root, group)
                boxes.append((x, y, x + width, y + height))
        assert len(boxes) == len(graph.nodes)
        for n, (left, top, right, bottom) in enumerate(boxes):
            assert left >= 0
            assert top >= 0
            assert right <= int(root.get("width", ""))
            assert bottom <= int(root.get("height", ""))
            for x, y, x2, y2 in boxes[n + 1 :]:
                assert x >= right or x2 <= left or y >= bottom or y2 <= top
        told = {t.text for path in root.iter("{http://www.w3.org/2000/svg}path") for t in path if t.text}
        assert {text.split(",")[0] for text in told if text} == {
            f"{link.source} → {link.target}" for link in graph.links
        }

    def test_a_status_has_a_word_and_a_shape_besides_its_colour(self) -> None:
        root = ElementTree.fromstring(svg(PlanPicture(nodes=(Node(key="a", status="failed"),))))
        texts = [t.text for t in root.iter("{http://www.w3.org/2000/svg}text")]
        assert texts == ["failed", "a", "1 failed"]
        assert root.find(".//{*}g[@class='il-failed']/{*}g/{*}g[@class='il-sign']/{*}path") is not None

    def test_colours_are_attributes_and_rules_only_adapt_them_to_a_dark_page(self) -> None:
        text = svg(_every_kind())
        (style,) = re.findall("<style>(.*)</style>", text)
        assert style.startswith("@media (prefers-color-scheme:dark){")
        assert "var(" not in text, "librsvg knows no variables, and draws everything black"
        assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
        classes = set(re.findall(r'class="([^"]+)"', text.replace(style, "")))
        ruled = set(re.findall(r"\.(il-[a-z_-]+)", style))
        assert {name for each in classes for name in each.split()} - ruled <= {
            "il-task",
            "il-edge",
            "il-head",
        }

    def test_a_page_gets_no_style_and_links_to_items(self) -> None:
        root = ElementTree.fromstring(page_svg(_every_kind()))
        assert root.find(".//{*}style") is None
        assert not [each for each in root.iter() if "style" in each.attrib]
        assert [each.get("href") for each in root.iter("{http://www.w3.org/2000/svg}a")] == ["/items/1?a&b"]
        assert root.get("role") == "group", "with the role img, screen readers skip the links"

    def test_what_changed_is_named_and_marked(self) -> None:
        root = ElementTree.fromstring(svg(_every_kind()))
        told = {each.text for each in root.iter("{http://www.w3.org/2000/svg}title")}
        assert {"b: B, completed, added", "a → b, on failure, added"} <= told
        texts = {each.text for each in root.iter("{http://www.w3.org/2000/svg}text")}
        assert {"+", "\N{MINUS SIGN}", "~", "added", "removed", "changed", "critical path"} <= texts

    def test_librsvg_draws_the_colours_of_a_light_page(self, tmp_path: Path) -> None:
        """Programs other than browsers often draw with it. Without the rules, only attributes are left."""
        rsvg = shutil.which("rsvg-convert")
        if rsvg is None:
            if os.environ.get("CI"):
                pytest.fail("rsvg-convert is missing: install librsvg2-bin")
            pytest.skip("rsvg-convert is not installed (Debian: librsvg2-bin)")
        text = svg(_every_kind())
        for name, drawn_text in (("with", text), ("without", re.sub("<style>.*</style>", "", text))):
            (tmp_path / f"{name}.svg").write_text(drawn_text, encoding="utf-8")
            made = tmp_path / f"{name}.png"
            subprocess.run([rsvg, tmp_path / f"{name}.svg", "-o", made], check=True, timeout=60)
            colours = _colours_of_png(made.read_bytes())
            assert colours[b"\xff\xff\xff"] > sum(colours.values()) / 2, "most of a light page is white"
            assert colours[b"\0\0\0"] == 0
            for wanted in ("1a7f37", "d1242f", "f6f8fa", "9a6700", "8250df"):
                assert colours[bytes.fromhex(wanted)] > 20, wanted

    def test_nothing_in_a_title_becomes_markup(self) -> None:
        root = ElementTree.fromstring(svg(PlanPicture(nodes=(Node(key="a", title=HOSTILE),), title=HOSTILE)))
        assert not list(root.iter("{http://www.w3.org/2000/svg}script"))
        assert "alert" in (root.findtext("{http://www.w3.org/2000/svg}title") or "")


class TestMermaid:
    @given(graphs())
    def test_every_task_and_edge_has_its_line(self, graph: PlanPicture) -> None:
        lines = mermaid(graph).splitlines()
        number = {node.key: f"t{n}" for n, node in enumerate(graph.nodes)}
        assert lines[0] == "flowchart LR"
        assert sum("[" in line for line in lines) == len(graph.nodes)
        found = {tuple(re.findall(r"\bt\d+\b", line)) for line in lines if "->" in line or "=>" in line}
        assert found == {(number[a], number[b]) for a, b in pairs_of(graph)}

    def test_nothing_in_a_title_is_taken_for_syntax(self) -> None:
        line = mermaid(PlanPicture(nodes=(Node(key="end", title=HOSTILE, status="pending"),))).splitlines()[1]
        label = line.removeprefix('  t0["').removesuffix('"]:::pending')
        assert label != line
        assert not set(label.replace("<br/>", "").replace("<i>", "").replace("</i>", "")) & set(
            '"<>[]{}`|&\x1b'
        )

    def test_a_status_is_a_class(self) -> None:
        text = mermaid(PlanPicture(nodes=(Node(key="a", status="failed"), Node(key="b"))))
        assert ":::failed" in text
        assert "classDef failed fill:" in text
        assert '  t1["b"]' in text.splitlines()


class TestMeasures:
    def test_the_longest_chain_decides(self) -> None:
        found = measured(
            ["a", "b", "c", "d"],
            [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")],
            {"a": 1.0, "b": 5.0, "c": 2.0, "d": 1.0},
        )
        assert found.critical_path == ("a", "b", "d")
        assert (found.critical_path_s, found.total_work_s, found.depth) == (7.0, 9.0, 3)
        assert found.parallelism == pytest.approx(9 / 7)

    def test_before_anything_has_run_there_is_only_the_depth(self) -> None:
        found = measured(["a", "b"], [("a", "b")], {})
        assert (found.critical_path, found.parallelism, found.depth) == ((), None, 2)

    @given(graphs(8), st.data())
    def test_no_chain_is_longer(self, graph: PlanPicture, data: st.DataObject) -> None:
        keys = [node.key for node in graph.nodes]
        spans = {key: data.draw(st.integers(0, 9)) * 1.0 for key in keys}
        found = measured(keys, list(pairs_of(graph)), spans)

        def longest(key: str) -> float:
            after = [longest(b) for a, b in pairs_of(graph) if a == key]
            return spans[key] + max(after, default=0.0)

        assert found.critical_path_s == max(map(longest, keys))
        assert sum(spans[key] for key in found.critical_path) == found.critical_path_s


def _graph(spec: str) -> PlanPicture:
    """`a>b` on success, `a~b` on failure, `a=b` on any end."""
    keys: dict[str, None] = {}
    links = []
    for part in spec.split():
        a, mark, b = re.split("([>~=])", part)
        keys |= {a: None, b: None}
        links.append(
            PictureEdge(source=a, target=b, when={">": "success", "~": "failure", "=": "completion"}[mark])
        )
    return PlanPicture(nodes=tuple(Node(key=key) for key in keys), links=tuple(links))


def _every_kind() -> PlanPicture:
    statuses = [*STATUSES, "held_back", "deferred"]
    nodes = [Node(key=f"t{n}", title="Title", status=status) for n, status in enumerate(statuses)]
    return PlanPicture(
        nodes=(
            Node(key="a", status="completed", href="/items/1?a&b", change="changed", critical=True),
            Node(key="b", title="B", status="completed", change="added"),
            Node(key="c", change="removed"),
            *nodes,
        ),
        links=(
            PictureEdge(source="a", target="b", when="failure", change="added"),
            PictureEdge(source="a", target="c", change="removed"),
            PictureEdge(source="a", target="t1", when="completion"),
        ),
        title="All",
    )


def _box_of(root: ElementTree.Element, task: ElementTree.Element) -> tuple[int, int]:
    """The size of a task's box, which tasks of one status share."""
    use = task.find("{*}use")
    assert use is not None
    rect = root.find(f".//{{*}}g[@id='{use.get('href', '')[1:]}']/{{*}}rect")
    assert rect is not None
    return int(rect.get("width", "")), int(rect.get("height", ""))


def _colours_of_png(png: bytes) -> Counter[bytes]:
    """How many pixels have each colour, in a PNG of 8 bits a channel."""
    width, height, depth, kind = struct.unpack(">IIBB", png[16:26])
    assert (depth, kind) in ((8, 2), (8, 6))
    size = 3 if kind == 2 else 4
    data, at = b"", 8
    while at < len(png):
        length = int.from_bytes(png[at : at + 4])
        if png[at + 4 : at + 8] == b"IDAT":
            data += png[at + 8 : at + 8 + length]
        at += length + 12
    raw, stride = zlib.decompress(data), size * width
    found: Counter[bytes] = Counter()
    above = bytearray(stride)
    for y in range(height):
        line = bytearray(raw[y * (stride + 1) + 1 : (y + 1) * (stride + 1)])
        _unfilter(raw[y * (stride + 1)], line, above, size)
        found.update(bytes(line[x : x + 3]) for x in range(0, stride, size))
        above = line
    return found


def _unfilter(kind: int, line: bytearray, above: bytearray, size: int) -> None:
    for n in range(len(line)):
        left, up, corner = (line[n - size], above[n], above[n - size]) if n >= size else (0, above[n], 0)
        guess = left + up - corner
        nearest = min((left, up, corner), key=lambda value: abs(guess - value))
        line[n] = (line[n] + (0, left, up, (left + up) // 2, nearest)[kind]) % 256


UP, RIGHT, DOWN, LEFT = (0, -1), (1, 0), (0, 1), (-1, 0)
SIDES = {
    "─": {LEFT, RIGHT},
    "│": {UP, DOWN},
    "┌": {RIGHT, DOWN},
    "┐": {LEFT, DOWN},
    "└": {UP, RIGHT},
    "┘": {UP, LEFT},
    "├": {UP, RIGHT, DOWN},
    "┤": {UP, LEFT, DOWN},
    "┬": {LEFT, RIGHT, DOWN},
    "┴": {LEFT, RIGHT, UP},
    "┼": {LEFT, RIGHT, UP, DOWN},
}


def _read_back(lines: tuple[str, ...], marks: list[tuple[int, int, int]]) -> set[tuple[str, str]]:
    """The edges that a reader of a boxed drawing sees.

    A line that meets the closed side of an upright goes on behind it; nothing is read from right to left.
    """
    keys = {(start - 2, line): lines[line][start:end].split()[1] for line, start, end in marks}
    found = set()
    for (_, line), key in keys.items():
        start = next(end for at, s, end in marks if at == line and lines[at][s:end].split()[1] == key)
        border = re.compile("[│├]").search(lines[line], start)
        assert border is not None
        if border[0] == "│":
            continue
        todo, seen = [(border.start() + 1, line, RIGHT)], set()
        while todo:
            x, y, way = step = todo.pop()
            if step in seen:
                continue
            seen.add(step)
            char = lines[y][x]
            if char in "▶▷◆►":
                found.add((key, keys[x + 1, y]))
                continue
            back = (-way[0], -way[1])
            ways = SIDES[char] - {back} if back in SIDES[char] else {way}
            todo += [(x + dx, y + dy, (dx, dy)) for dx, dy in ways - {LEFT}]
    return found

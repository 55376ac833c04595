"""Which items a list has: filters, searches, and pages that begin before an item."""

from __future__ import annotations

import pytest

from interlock.core.errors import InvalidInput, StaleRevision
from interlock.service import reads
from interlock.service.contract import ItemFilter
from tests.conformance.scene import LANE, Scene


def listed(scene: Scene, **wanted: object) -> list[int]:
    return [item.id for item in scene.service.items(ItemFilter(**wanted))]  # type: ignore[arg-type]


def test_a_text_is_searched_in_title_lane_agent_and_dedupe_key(scene: Scene) -> None:
    by_title = scene.put("Fix the LOGIN page")
    by_lane = scene.put("work", lane="branch:acme/app/Login-Page")
    by_agent = scene.put("work", agent="login-doctor")
    by_key = scene.put("work", dedupe_key="delivery:Login:1")
    scene.put("work", lane="branch:acme/app/logout")
    assert listed(scene, text="login") == [by_title, by_lane, by_agent, by_key]
    assert listed(scene, text="LoGin") == [by_title, by_lane, by_agent, by_key]
    assert listed(scene, text="login-") == [by_lane, by_agent]


def test_a_running_item_is_found_by_the_agent_of_its_run(scene: Scene) -> None:
    lease = scene.put_running(by="painter")
    assert listed(scene, text="PAINT") == [lease.item.id]


@pytest.mark.parametrize("text", ["%", "_", "\\", "'", "100% 'quoted' _x_"])
def test_a_text_has_no_wildcards(scene: Scene, text: str) -> None:
    scene.put("plain")
    item = scene.put("100% 'quoted' _x_ \\")
    assert listed(scene, text=text) == [item]


def test_letters_beyond_ascii_match_as_they_are(scene: Scene) -> None:
    item = scene.put("Größe ändern")
    assert listed(scene, text="größe ä") == [item]
    assert listed(scene, text="GRÖSSE") == []


def test_a_label_is_the_whole_label(scene: Scene) -> None:
    item = scene.put(labels=("gpu", "python"))
    scene.put(labels=("gpu-large",))
    scene.put()
    assert listed(scene, label="gpu") == [item]
    assert listed(scene, label="pyth") == []


def test_several_types_and_states(scene: Scene) -> None:
    review, build, _ = (scene.put(type=kind) for kind in ("review", "build", "task"))
    assert listed(scene, types=("review", "build")) == [review, build]
    assert listed(scene, type="review", types=("build",)) == [review, build]
    scene.cancel(build)
    assert listed(scene, types=("review", "build")) == [review]
    assert listed(scene, types=("review", "build"), statuses=("cancelled", "pending")) == [review, build]


def test_filters_are_combined(scene: Scene) -> None:
    item = scene.put("login", labels=("gpu",), type="review", lane=LANE, agent="coder", project="acme")
    for other in (
        {"title": "logout"},
        {"labels": ("cpu",)},
        {"type": "build"},
        {"lane": "issue:acme/app#7"},
        {"agent": "painter"},
        {"project": "other"},
    ):
        fields = {"labels": ("gpu",), "type": "review", "lane": LANE, "agent": "coder", "project": "acme"}
        scene.put(**{"title": "login", **fields, **other})  # type: ignore[arg-type]
    wanted = {"text": "log", "label": "gpu", "type": "review", "lane": LANE, "agent": "coder"}
    found = listed(scene, **wanted, project="acme")
    assert [item, scene.service.show(found[-1]).item.id] == found
    assert listed(scene, **{**wanted, "text": "login"}, project="acme") == [item]
    assert listed(scene, **{**wanted, "text": "login"}, project="acme", ci="none") == [item]
    assert listed(scene, **{**wanted, "text": "login"}, project="acme", ci="success") == []


@pytest.mark.parametrize(
    "wanted", [{}, {"text": "odd"}, {"label": "gpu"}, {"type": "review"}, {"ci": "none"}, {"all": True}]
)
def test_pages_before_an_item_have_each_item_once(scene: Scene, wanted: dict[str, object]) -> None:
    items = [scene.put(f"odd {n}", labels=("gpu",), type="review") for n in range(7)]
    scene.put("even", type="build")
    pages, before = [], None
    while page := listed(scene, **{"statuses": ("pending",), **wanted}, before=before, limit=3):
        pages.append(page)
        before = page[0]
    assert [item for page in reversed(pages) for item in page if item in items] == items
    assert max(map(len, pages)) == 3


def test_questions_are_searched_and_paged(scene: Scene) -> None:
    asked = []
    for n in range(3):
        lease = scene.put_running(f"question {n}", by="coder")
        scene.service.ask(lease.run, "Which?")
        asked.append(lease.item.id)
    assert listed(scene, asking=True, limit=2) == asked[1:]
    assert listed(scene, asking=True, limit=2, before=asked[1]) == asked[:1]
    assert listed(scene, asking=True, text="QUESTION 1") == [asked[1]]
    assert listed(scene, asking=True, types=("review",)) == []


def test_a_search_reads_the_newest_items_of_each_state(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    if not hasattr(scene.service, "store"):
        pytest.skip("the bound is set in this process, the server has another")
    monkeypatch.setattr(reads, "SEARCHED", 3)
    old = scene.put("needle")
    scene.cancel(scene.put("needle"))
    for _ in range(2):
        scene.put("hay")
    assert listed(scene, text="needle") == [old]
    newest = scene.put("hay")
    assert listed(scene, text="needle") == []
    assert listed(scene, text="needle", before=newest) == [old], "a page searches from its beginning on"
    assert len(listed(scene, text="needle", all=True)) == 1, "ended items have a bound of their own"
    assert old in listed(scene), "a list without a search reads on"


@pytest.mark.parametrize("wanted", [{"label": "two words"}, {"types": ("a b",)}, {"text": "a\x00b"}])
def test_wrong_filters_are_refused(scene: Scene, wanted: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        listed(scene, **wanted)


# -- what an item's page shows of other items ----------------------------------------------------------


class TestEvents:
    def test_events_are_filtered_by_kind_agent_and_run(self, scene: Scene) -> None:
        mine, other = scene.put_running("mine", by="Coder"), scene.put_running("other", by="painter")
        scene.fail(mine)
        scene.done(other)
        events = scene.service.events
        kinds = ["run.failed", "run.succeeded"]
        assert [(e.kind, e.item) for e in events(kinds=kinds)] == [
            ("run.failed", mine.item.id),
            ("run.succeeded", other.item.id),
        ]
        for name in ("coder", "Coder", " CODER "):
            found = [e.kind for e in events(agent=name) if e.item]
            assert found == ["run.started", "run.failed"], name
        by_run = events(run=other.fence)
        assert [e.kind for e in by_run] == ["run.started", "run.succeeded"]
        assert events(run=other.fence, kinds=["run.failed"]) == []
        assert [e.kind for e in events(item=mine.item.id, kinds=["run.failed"], newest=True)] == [
            "run.failed"
        ]

    @pytest.mark.parametrize("wanted", [{}, {"lane": LANE}, {"kinds": ["run.started", "run.succeeded"]}])
    def test_pages_before_an_event_have_each_event_once(
        self, scene: Scene, wanted: dict[str, object]
    ) -> None:
        for n in range(5):
            scene.done(scene.put_running(f"item {n}", lane=LANE))
        everything = [e.seq for e in scene.service.events(**wanted)]  # type: ignore[arg-type]
        paged: list[int] = []
        before = None
        while page := scene.service.events(before=before, limit=4, newest=True, **wanted):  # type: ignore[arg-type]
            paged = [e.seq for e in page] + paged
            before = page[0].seq
        assert paged == everything
        low, high = everything[2], everything[6]
        assert [e.seq for e in scene.service.events(after=low, before=high, **wanted)] == everything[3:6]  # type: ignore[arg-type]

    @pytest.mark.parametrize("wanted", [{"kinds": ["run.began"]}, {"before": 1 << 70}, {"agent": "none"}])
    def test_wrong_filters_of_events_are_refused(self, scene: Scene, wanted: dict[str, object]) -> None:
        with pytest.raises(InvalidInput):
            scene.service.events(**wanted)  # type: ignore[arg-type]


def test_five_comments_become_one_run_and_the_item_names_them_all(scene: Scene) -> None:
    first = scene.put("comment 1", lane=LANE, policy="supersede", message="one")
    rest = [scene.put(f"comment {n}", lane=LANE, policy="supersede", message=f"say {n}") for n in range(2, 6)]
    last = scene.service.show(rest[-1])
    assert [(i.id, i.status) for i in last.inputs] == [(i, "superseded") for i in (first, *rest[:-1])]
    assert last.absorber is None
    middle = scene.service.show(rest[1])
    assert middle.absorber is not None
    assert (middle.absorber.id, middle.inputs) == (rest[2], ())


def test_coalesced_arrivals_are_inputs_of_the_item_that_took_them_in(scene: Scene) -> None:
    lease = scene.put_running(lane=LANE, agent="coder", policy="coalesce")
    taken = [scene.put(f"comment {n}", lane=LANE, agent="coder", policy="coalesce") for n in range(3)]
    shown = scene.service.show(lease.item.id)
    assert [(i.id, i.status, i.absorbed_by) for i in shown.inputs] == [
        (i, "coalesced", lease.item.id) for i in taken
    ]
    into = scene.service.show(taken[0]).absorber
    assert into is not None
    assert (into.id, into.run, into.agent) == (lease.item.id, lease.fence, "coder")


def test_an_item_shows_the_owner_of_its_lane_and_the_line(scene: Scene) -> None:
    owner = scene.put_running(lane=LANE)
    line = [scene.put(f"waits {n}", lane=LANE) for n in range(25)]
    assert [i.id for i in scene.service.show(line[1]).line] == [owner.item.id, *line[:20]]
    assert [i.run for i in scene.service.show(owner.item.id).line][:2] == [owner.fence, None]
    assert scene.service.show(scene.put("no lane")).line == ()


def test_an_item_shows_its_blocks_and_those_of_its_lane(scene: Scene) -> None:
    item = scene.put(lane=LANE)
    scene.service.block(lane=LANE, blocker="acme/app#3", why="needs the API", url="https://example.org/3")
    scene.service.block(item=item, blocker="acme/app#4", why="needs the docs")
    blocks = scene.service.show(item).blocks
    assert {(b.blocker, b.lane, b.item, b.url) for b in blocks} == {
        ("acme/app#3", LANE, None, "https://example.org/3"),
        ("acme/app#4", None, item, None),
    }


def test_read_marks_are_those_of_the_current_run(scene: Scene) -> None:
    item = scene.put(message="one")
    scene.service.msg(item, "two")
    assert marks(scene, item) == (0, 0)
    lease = scene.claim()
    assert marks(scene, item) == (2, 0)
    scene.service.msg(item, "three")
    scene.renew(lease, seen=1)
    assert marks(scene, item) == (2, 1)
    scene.service.inbox(lease.run, seen=2)
    delivered, seen = marks(scene, item)
    assert delivered >= 2
    assert seen == 2
    scene.release(lease)
    assert marks(scene, item) == (0, 0)


def marks(scene: Scene, item: int) -> tuple[int, int]:
    shown = scene.service.show(item)
    return shown.delivered, shown.seen


def test_an_edit_of_the_version_that_was_shown_is_refused_after_another_edit(scene: Scene) -> None:
    item = scene.put()
    read = scene.service.show(item).version
    scene.service.edit(item, {"priority": 3}, by="anna", expected=read)
    with pytest.raises(StaleRevision, match="has changed since you read it"):
        scene.service.edit(item, {"priority": 4}, by="ben", expected=read)
    assert scene.item(item).priority == 3

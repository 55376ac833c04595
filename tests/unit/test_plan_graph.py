"""Ranks keep a graph in order without looking at the whole of it."""

from __future__ import annotations

from graphlib import CycleError
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.core.plans.graph import GAP, cycles, raised, topological

Pair = tuple[int, int]
#: Edges among ten nodes, in any direction.
graphs = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), unique=True, max_size=25)
rising = graphs.map(lambda pairs: [(s, t) for s, t in pairs if s < t])
NODES = list(range(10))


@given(rising)
def test_every_edge_of_a_new_graph_rises(pairs: list[Pair]) -> None:
    ranks = raised(NODES, pairs, {})
    assert ranks is not None
    assert all(ranks[s] + GAP <= ranks[t] for s, t in pairs)


@given(graphs)
def test_a_graph_has_an_order_or_a_cycle(pairs: list[Pair]) -> None:
    found = list(cycles(NODES, pairs))
    if not found:
        ordered = topological(NODES, pairs)
        assert sorted(ordered) == NODES
        assert all(ordered.index(s) < ordered.index(t) for s, t in pairs)
        return
    assert all(pair in pairs for cycle in found for pair in pairwise(cycle))
    assert all(cycle[0] == cycle[-1] for cycle in found)
    with pytest.raises(CycleError):
        topological(NODES, pairs)


def test_cycles_are_named_from_their_first_task_and_share_none() -> None:
    links = [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("x", "y"), ("y", "x")]
    assert list(cycles(["a", "b", "c", "d", "x", "y"], links)) == [["a", "b", "c", "a"], ["x", "y", "x"]]


def test_without_a_cycle_sources_come_first() -> None:
    assert list(cycles(["b", "a"], [("a", "b")])) == []
    assert topological(["b", "a"], [("a", "b")]) == ["a", "b"]
    with pytest.raises(CycleError):
        topological(["a"], [("a", "a")])


@given(rising, rising)
def test_a_new_edge_raises_only_what_it_must(old: list[Pair], new: list[Pair]) -> None:
    """Ranks of the old graph, then more edges: what can be reached from their targets may move, no more."""
    ranks = raised(NODES, old, {})
    assert ranks is not None
    new = [pair for pair in new if pair not in old]
    bound = max((ranks[s] for s, _ in new), default=0)
    movable: dict[int, None] = {}
    ahead = [t for _, t in new]
    while ahead:
        node = ahead.pop()
        if node not in movable and ranks[node] <= bound:
            movable[node] = None
            ahead += [t for s, t in old if s == node]
    edges = [*old, *new]
    touching = [(s, t) for s, t in edges if s in movable or t in movable]
    changed = raised(list(movable), touching, ranks)
    assert changed is not None
    after = {**ranks, **changed}
    assert all(after[s] < after[t] for s, t in edges)
    assert all(after[n] > ranks[n] for n in changed)


def test_a_chain_of_new_nodes_finds_room_between_two_old_ones() -> None:
    chain = [2, 3, 4, 5]
    changed = raised(chain, [(0, 2), (2, 3), (3, 4), (4, 5), (5, 1)], {0: GAP, 1: 2 * GAP})
    assert changed is not None
    assert [GAP, *(changed[n] for n in chain), 2 * GAP] == sorted({GAP, *changed.values(), 2 * GAP})


def test_without_room_between_ranks_there_is_no_answer() -> None:
    assert raised([2], [(0, 2), (2, 1)], {0: 7, 1: 8}) is None

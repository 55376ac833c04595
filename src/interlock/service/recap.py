"""The recap: what happened in a span of time, for a person who was away."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from interlock.core import names
from interlock.core.model import EventKind, Item, ItemId, RunId, RunRecord
from interlock.core.recap import Recap, RecapEvent, recap
from interlock.core.timing import to_us
from interlock.service.contract import AttentionKind, AttentionView, RecapEntryView, RecapLinkView, RecapView
from interlock.service.costs import cost_view
from interlock.service.item_view import moment
from interlock.store.links import LinkedRun
from interlock.store.port import Store

#: The span of a recap unless another is given.
WINDOW_S = 8 * 3_600.0
#: The most pull requests and commits of an entry, and the most characters of an error.
LINKS_SHOWN, ERROR_CHARS = 3, 1_000


class Recaps:
    """The operation for a person who was away."""

    def __init__(self, store: Store, needs: Callable[[], AttentionView]) -> None:
        """`needs` gives what needs a person now."""
        self._store, self._needs = store, needs

    def recap(self, *, window_s: float = WINDOW_S, limit: int = 20) -> RecapView:
        """What finished, failed and was superseded in the last hours, which items had waited longest when
        they started, and what needs a person now. Reads the newest 20,000 events at most; `since` says how
        far they reach. Each section has at most `limit` rows, the counts are of all."""
        names.check_number("window", window_s, 1, names.WINDOW_MAX_S)
        names.check_whole("limit", limit, 1, names.RECAP_MAX)
        store = self._store
        now_us = store.now_us()
        events, since_us = store.recap_events(now_us - to_us(window_s))
        found = recap(events, limit)
        facts = _Facts(store, found)
        needs = self._needs()
        return RecapView(
            since=moment(since_us),
            until=moment(now_us),
            complete=since_us == now_us - to_us(window_s),
            counts=found.counts,
            finished=tuple(map(facts.entry, found.finished)),
            failed=tuple(map(facts.entry, found.failed)),
            superseded=tuple(map(facts.entry, found.superseded)),
            waits=tuple(map(facts.entry, found.waits)),
            needs=needs.needs,
            needs_counts=needs.counts,
            needs_more=_more(needs),
            cost=cost_view(store.costs.reported(now_us - to_us(window_s))),
        )


def _more(needs: AttentionView) -> int:
    """How many things are not noted. One note tells of all failed effects."""
    noted = Counter(note.kind for note in needs.needs)
    return sum(n - noted[kind] for kind, n in needs.counts.items() if kind != AttentionKind.EFFECTS)


class _Facts:
    """The items, runs and links of all sections, read at once."""

    def __init__(self, store: Store, found: Recap) -> None:
        shown = (*found.finished, *found.failed, *found.superseded, *found.waits)
        items = sorted({ItemId(event.item) for event in shown})
        runs = sorted({RunId(event.run) for event in found.failed if event.run is not None})
        ended = sorted({ItemId(event.item) for event in (*found.finished, *found.failed)})
        self._items: Mapping[ItemId, Item] = store.named_items(items) if items else {}
        self._runs: Mapping[RunId, RunRecord] = store.ended_runs(runs)
        self._links: dict[int, list[LinkedRun]] = {}
        for link in store.github.links.of_items(ended) if ended else ():
            self._links.setdefault(link.item, []).append(link)

    def entry(self, event: RecapEvent) -> RecapEntryView:
        item = self._items.get(ItemId(event.item))
        run = None if event.run is None else self._runs.get(RunId(event.run))
        error = run.error if run is not None and event.kind != EventKind.RUN_STARTED else None
        return RecapEntryView(
            item=event.item,
            title=item.spec.title if item is not None else "",
            status=item.status.value if item is not None else None,
            lane=item.spec.lane if item is not None else None,
            agent=event.agent,
            run=event.run,
            at=moment(event.at_us),
            reason=event.reason,
            span_s=None if event.span_us is None else max(0, event.span_us) / 1e6,
            error=error[:ERROR_CHARS] if error else None,
            by_item=event.by_item,
            links=_links(self._links.get(event.item, ())),
        )


def _links(found: Sequence[LinkedRun]) -> tuple[RecapLinkView, ...]:
    """The newest pull requests and commits; GitHub has a page with the checks of each."""
    return tuple(
        RecapLinkView(
            repository=link.name,
            pull_request=link.number or None,
            commit=link.head,
            url=link.url,
            outcome=link.outcome,
            ci_outcome=link.ci_outcome,
            ci_why=link.ci_why,
            checks_url=f"{link.url}/checks" if link.url else "",
        )
        for link in found[:LINKS_SHOWN]
    )

"""What a service answers goes from process to process: between a worker and its parts, and in tests."""

import pickle
from pathlib import Path

from interlock.core.model import NewItem
from interlock.service.local import LocalService
from interlock.store.sqlite.store import SqliteStore


def test_a_view_of_an_item_can_be_sent_to_another_process(tmp_path: Path) -> None:
    service = LocalService(SqliteStore(tmp_path / "interlock.db"))
    (added,) = service.add([NewItem(title="a", lane="l:1")])
    (lease,) = service.next("coder")
    sent = pickle.loads(pickle.dumps((added.item, lease.item)))
    assert sent == (added.item, lease.item)
    assert [view.gated_by for view in sent] == [None, None]
    service.close()

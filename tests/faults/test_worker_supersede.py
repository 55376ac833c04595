"""Five comments on one issue in quick sequence, with real agents."""

from __future__ import annotations

import json

from interlock.core.model import Policy
from tests.faults.processes import wait_until
from tests.faults.workers import Site

#: Keeps a session file as agents do, without a lock of its own: the lane is the lock. It notes its begin,
#: takes its time, and notes what it was told. Asked to stop, it says so there too.
AGENT = """
import json, os, signal, sys, time
from pathlib import Path

session = Path("session.json")

def note(**entry):
    entries = json.loads(session.read_text()) if session.exists() else []
    time.sleep(0.02)  # whoever wrote meanwhile would be overwritten
    session.write_text(json.dumps([*entries, {"run": os.environ["INTERLOCK_RUN"], **entry}]))

def stopped(*_):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a busy machine may need longer than the first rung
    note(what="stopped")
    sys.exit(130)

signal.signal(signal.SIGINT, stopped)
note(what="begun")
Path(f"begun-{os.environ['INTERLOCK_ITEM']}").touch()
while not Path("go").exists():
    time.sleep(0.01)
messages = json.loads(Path(os.environ["INTERLOCK_MESSAGES"]).read_text())
note(what="done", messages=[m["text"] for m in messages])
"""


def test_of_five_quick_comments_only_the_last_runs_to_the_end_and_has_them_all(any_site: Site) -> None:
    site = any_site
    site.file("agent.py").write_text(AGENT)
    worker = site.work(f"exec {site.python} agent.py", "--max", "3")
    texts = [f"comment {n}" for n in range(5)]
    lane, policy = "issue:acme/app#5", Policy.SUPERSEDE

    def comment(text: str) -> int:
        return site.add(text, lane=lane, agent="coder", policy=policy, message=text)

    items = [comment(texts[0])]
    wait_until(lambda: site.file(f"begun-{items[0]}").exists(), "the first agent has begun")
    items += [comment(text) for text in texts[1:]]
    wait_until(lambda: site.file(f"begun-{items[-1]}").exists(), "the last agent has begun")
    site.file("go").touch()
    worker.until("ended", item=items[-1])
    assert [site.item(item).status for item in items] == ["superseded"] * 4 + ["completed"]
    assert worker.kinds().count("started") == 2
    entries = json.loads(site.file("session.json").read_text())
    assert [entry["what"] for entry in entries] == ["begun", "stopped", "begun", "done"]
    assert entries[-1]["messages"] == texts
    assert [run.status for run in site.runs(items[0])] == ["cancelled"]

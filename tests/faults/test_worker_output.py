"""What agents print: bounded in memory and on disk, and never a reason for a run to fail."""

from __future__ import annotations

import json

import psutil  # type: ignore[import-untyped]

from interlock.worker.log import HEAD_BYTES, TAIL_BYTES
from tests.faults.workers import Site

HUNDRED_MB = "head -c 100000000 /dev/zero | tr '\\0' x"


def test_a_hundred_megabytes_of_output_are_kept_in_part_and_in_little_memory(site: Site) -> None:
    """With an unbounded `Tail` the worker grows by the whole output (tried by hand)."""
    item = site.add()
    worker = site.work(f"echo first; {HUNDRED_MB}; echo; echo last; sleep 0.2", "--limit", "1")
    worker.until("started")
    watched = psutil.Process(worker.pid)
    most = 0
    while (said := worker.peek()) is None:
        most = max(most, watched.memory_info().rss)
    assert said["status"] == "succeeded"
    assert most < 150 << 20
    log = site.file(".interlock/logs/run-1.log")
    assert HEAD_BYTES + TAIL_BYTES <= log.stat().st_size < HEAD_BYTES + TAIL_BYTES + 100
    text = log.read_text()
    assert text.startswith("first\nxxx")
    assert text.endswith("xxx\nlast\n")
    assert "bytes left out" in text
    (run,) = site.runs(item)
    assert run.result["stdout"].endswith("xxx\nlast\n")
    assert len(json.dumps(run.result)) < 20_000


def test_output_that_is_not_text_reaches_every_store(any_site: Site) -> None:
    item = any_site.add(max_attempts=1)
    worker = any_site.work("printf 'a\\000b\\377c'; exit 9", "--limit", "1")
    assert worker.until("ended")["status"] == "failed"
    (run,) = any_site.runs(item)
    assert run.error == "Exit code 9.\na\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}c"

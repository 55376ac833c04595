"""The four agents of the hour, as one script: `agents.py coder|reviewer|analyst|trainee`.

It is committed in the toy repository, and knows nothing of the test but its environment. It writes what it
does to a journal, one JSON line each. Titles of items say what is to go wrong.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

JOURNAL, CLOCK, GATES = (Path(os.environ[name]) for name in ("JOURNAL", "STEPPED_CLOCK", "GATES"))
ITEM, RUN = int(os.environ["INTERLOCK_ITEM"]), int(os.environ["INTERLOCK_FENCE"])


def now_us() -> int:
    """The store's time."""
    return int(CLOCK.read_text())


def write(what: str, **more: Any) -> None:
    """One line of the journal, in one write: agents write at once."""
    line = {"what": what, "item": ITEM, "run": RUN, "agent": sys.argv[1], "at_us": now_us()}
    text = json.dumps(line | {"real_s": time.monotonic(), "pid": os.getpid()} | more)
    with JOURNAL.open("ab", buffering=0) as file:
        file.write(f"{text}\n".encode())


def earlier_runs() -> int:
    """How many runs of the item there were."""
    lines = [json.loads(line) for line in JOURNAL.read_text().splitlines()]
    return sum(line["item"] == ITEM and line["what"] == "start" and line["run"] != RUN for line in lines)


def interlock(*args: str) -> str:
    """What a command printed."""
    program = [sys.executable, "-m", "interlock", "--json", *args]
    return subprocess.run(program, check=True, stdout=subprocess.PIPE, text=True).stdout


def spend(micro_usd: int, tokens: int) -> None:
    """Report a total."""
    interlock(
        "cost", "--usd", f"{micro_usd / 1e6:.6f}", "--input", str(tokens), "--output", str(tokens // 10)
    )
    write("cost", micro_usd=micro_usd, tokens=tokens)


def end(outcome: str, text: str = "", code: int = 0) -> None:
    print(text, flush=True)
    write("end", outcome=outcome, text=text)
    raise SystemExit(code)


def wait_for(gate: str) -> None:
    while not (GATES / gate).exists():
        time.sleep(0.1)


def coder(title: str) -> None:
    """Writes a file for each item and pushes it; some items go wrong."""
    spend(50_000, 1_000)
    if title == "Import the invoices":
        end("failed", "The invoices have no dates", 3)
    if title == "Fix the flaky test" and not earlier_runs():
        end("failed", "The test failed again", 1)
    if title in ("Build for an hour", "Build for ever"):
        write("waits")
        wait_for(title.replace(" ", "-"))
    else:
        Path(f"item-{ITEM}.txt").write_text(f"{title}\n")
        for words in (("add", "--all"), ("commit", "--quiet", "--message", f"{title} ({RUN})")):
            subprocess.run(["git", *words], check=True)
        interlock("push", "origin", f"HEAD:agent/item-{ITEM}")
        write("pushed")
    end("done", title)


def reviewer(title: str) -> None:
    """Runs into the limit of its provider once, as Claude Code says it."""
    if (GATES / "used-up").exists():
        (GATES / "used-up").unlink()
        until_us = now_us() + 20 * 60_000_000
        until = datetime.fromtimestamp(until_us / 1e6, UTC)
        write("limit", until_us=until_us)
        end("limited", f"You've hit your session limit · resets {until:%-I:%M}pm (UTC)", 1)
    spend(310_000, 20_000)
    end("done", title)


def analyst(title: str) -> None:
    """Reports what it uses, twice: the first time too little, the last time too late."""
    spend(150_000, 4_000)
    spend(400_000, 9_000)
    spend(399_999, 8_999)
    end("done", title)


def trainee(title: str) -> None:
    """Asks a person, and goes on with the answer."""
    if title == "Choose a branch":
        interlock("ask", "--keep-lease", "main or next?")
        write("asked")
        answers: list[str] = []
        while not answers:
            time.sleep(0.5)
            with suppress(subprocess.CalledProcessError):  # the server is away
                found = json.loads(interlock("inbox"))["messages"]
                answers = [each["text"] for each in found if each["sender"] == "person"]
        write("answered", answers=answers)
    end("done", title)


if __name__ == "__main__":
    write("start")
    work = {"coder": coder, "reviewer": reviewer, "analyst": analyst, "trainee": trainee}[sys.argv[1]]
    work(json.loads(interlock("show"))["item"]["title"])

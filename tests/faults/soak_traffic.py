"""More traffic, for the soak: plans and their editor, people who write and cancel, holds of the command line.

Like `traffic`, each process writes down what was acknowledged to it.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from itertools import pairwise
from multiprocessing.connection import Connection
from pathlib import Path

from interlock.core.errors import EditRefused, InterlockError, LeaseLost
from interlock.core.plans.model import AddEdge, AddTask, EdgeSpec, Graph, TaskSpec
from interlock.service.contract import ItemFilter, Report
from tests.faults.stores import open_service
from tests.faults.traffic import LANES, TROUBLE, Journal

PLANS_AT_ONCE = 4
EDITOR = "editor"
HELD = "deploy:soak"

#: Python that is interrupted while it starts prints a traceback, and only those of `hold` are of interest.
QUIETLY = ("sh", "-c", 'exec "$@" 2> /dev/null', "sh")
#: Holds an OS lock as long as it lives, so that a second living command on the lane is noticed.
COMMAND = """
import fcntl, os, random, time
lane = open("held", "w")
try:
    fcntl.flock(lane, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    open("overlaps", "a").write(os.environ["INTERLOCK_RUN"] + "\\n")
time.sleep(random.uniform(0, 0.5))
"""


def plan(talk: Connection, url: str, folder: Path, seed: int) -> int:
    """Keep some plans going until told to stop; how many there were."""
    dice, journal, service = random.Random(seed), Journal(folder), open_service(url)
    service.set_agent(EDITOR)
    made: list[int] = []
    while not talk.poll(0.1):
        try:
            if sum(service.plan(p).status == "running" for p in made[-PLANS_AT_ONCE:]) < PLANS_AT_ONCE:
                graph = _graph(dice)
                view = service.create_plan("soak", graph, editor=dice.choice(["", EDITOR]), edit_deadline_s=5)
                made.append(view.id)
                journal.note("planned", view.id)
        except TROUBLE:
            journal.note("trouble")
    service.close()
    return len(made)


def _graph(dice: random.Random) -> Graph:
    keys = [f"t{n}" for n in range(dice.randint(2, 6))]
    tasks = [TaskSpec(key=key, lane=dice.choice([None, *LANES]), max_attempts=100) for key in keys]
    edges = [EdgeSpec(source=a, target=b) for a, b in pairwise(keys) if dice.random() < 0.7]
    return Graph(tasks=tuple(tasks), edges=tuple(edges))


def edit(talk: Connection, url: str, folder: Path, seed: int) -> int:
    """Answer what plans ask of their editor, some with a new task, some not at all; how many answers."""
    dice, journal, service = random.Random(seed), Journal(folder), open_service(url)
    answered = 0
    while not talk.poll():
        try:
            for lease in service.next(EDITOR, wait_s=0.2):
                if lease.item.type != "plan.edit":  # what people wrote to an edit that has ended
                    service.done([Report(run=lease.run, seen=len(lease.messages))])
                    continue
                if dice.random() < 0.1:
                    continue  # forgotten: the lease must run out
                batch = service.plan_batch(lease.run)
                added = f"a{lease.fence}"
                task = AddTask(task=TaskSpec(key=added, lane=dice.choice([None, *LANES]), max_attempts=100))
                edge = AddEdge(edge=EdgeSpec(source=batch.completions[0].key, target=added))
                service.edit_plan(
                    batch.plan,
                    base=batch.revision,
                    run=lease.run,
                    through=batch.through,
                    operations=[task, edge] if dice.random() < 0.3 else [],
                )
                journal.note("edited", batch.plan, lease.fence)
                answered += 1
        except (LeaseLost, EditRefused):
            journal.note("refused", 0, 0)
        except TROUBLE:
            journal.note("trouble")
    service.close()
    return answered


def interfere(talk: Connection, url: str, folder: Path, seed: int) -> None:
    """People: they write to unfinished items, and cancel some."""
    dice, journal, service = random.Random(seed), Journal(folder), open_service(url)
    written = 0
    while not talk.poll(0.05):
        try:
            found = service.items(ItemFilter(limit=20))
            if not found:
                continue
            item = dice.choice(found).id
            if dice.random() < 0.1:
                service.cancel(item, why="soak", by="anna")
            else:
                text = f"word {os.getpid()} {written}"
                written += 1
                service.msg(item, text, author="anna")
                journal.note("told", text)
        except TROUBLE:
            journal.note("trouble")
        except InterlockError:
            continue  # it ended meanwhile
    service.close()


def hold(talk: Connection, url: str, folder: Path, seed: int) -> list[int]:
    """`interlock hold` again and again, as a shell script would; the exit codes."""
    codes: list[int] = []
    environment = os.environ | {"INTERLOCK_URL": url}
    while not talk.poll():
        command = ("hold", HELD, "--agent", f"h{seed}", "--lease", "3s", "--wait", "20s", "--")
        done = subprocess.run(
            [sys.executable, "-m", "interlock", *command, *QUIETLY, sys.executable, "-c", COMMAND],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        assert b"Traceback" not in done.stderr, done.stderr.decode()
        codes.append(done.returncode)
    return codes

"""What an agent is told of its run: files for what may be long, variables for what is short."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

from interlock.git.plumbing import STRAY_VARIABLES
from interlock.service.contract import LeaseView, to_json
from interlock.worker.job import Job
from interlock.worker.rundirectory import RunFiles
from interlock.worker.salvage import Salvage

#: Of an agent that is itself the agent of another run: these would be wrong where they are not set anew.
_NOT_INHERITED = ("INTERLOCK_LANE", "INTERLOCK_PLAN", "INTERLOCK_SALVAGE")


def brief(files: RunFiles, lease: LeaseView, salvage: Sequence[Salvage]) -> None:
    """Write the payload and the messages: first what earlier runs left, then what the item was told."""
    messages: list[Any] = [
        {"n": 0, "author": "interlock", "text": kept.sentence, "salvage": kept.ref} for kept in salvage
    ]
    messages += [to_json(message) for message in lease.messages]
    files.payload.write_text(json.dumps(lease.item.payload or {}))
    files.messages.write_text(json.dumps(messages))


def environment(job: Job, files: RunFiles, lease: LeaseView, salvage: Sequence[Salvage]) -> dict[str, str]:
    """The worker's own environment, and what the run is."""
    dropped = (*_NOT_INHERITED, *(STRAY_VARIABLES if job.worktree else ()))
    told = {name: value for name, value in os.environ.items() if name not in dropped}
    told |= {
        "INTERLOCK_RUN": lease.run,
        "INTERLOCK_FENCE": str(lease.fence),
        "INTERLOCK_ITEM": str(lease.item.id),
        "INTERLOCK_AGENT": job.agent,
        "INTERLOCK_URL": job.url,
        "INTERLOCK_PAYLOAD": str(files.payload),
        "INTERLOCK_MESSAGES": str(files.messages),
        "INTERLOCK_RESULT": str(files.result),
    }
    if lease.item.lane:
        told["INTERLOCK_LANE"] = lease.item.lane
    if lease.item.plan is not None:
        told["INTERLOCK_PLAN"] = str(lease.item.plan)
    if salvage:
        told["INTERLOCK_SALVAGE"] = " ".join(kept.ref for kept in salvage)
    return told

"""What a server has in memory before it serves: every statement, and the modules that commands import late.

A server that opens files at their first use fails when its descriptors run out, and mixes two versions when
somebody updates its files under it.
"""

from __future__ import annotations

# Imported late by rooms below, for the sake of commands.
import copy  # noqa: F401
import difflib  # noqa: F401
import hashlib  # noqa: F401
import hmac  # noqa: F401
import importlib
import inspect  # noqa: F401
import pkgutil
import random  # noqa: F401
import secrets  # noqa: F401
import shlex  # noqa: F401

import interlock.core
import interlock.github
import interlock.plans
import interlock.service
from interlock import app
from interlock.service.local import LocalService

_ROOMS = (interlock.core, interlock.service, interlock.plans, interlock.github)


def preload(service: LocalService) -> None:
    """Read everything that requests may need."""
    backend = importlib.import_module(type(service.store).__module__.rpartition(".")[0])
    for room in (*_ROOMS, backend):
        for module in pkgutil.walk_packages(room.__path__, f"{room.__name__}."):
            importlib.import_module(module.name)
    app.load_statements(service)

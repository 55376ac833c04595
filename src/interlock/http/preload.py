"""Loads everything before a server serves: every statement, and the modules that commands import late.

If a server opened files at their first use, it would fail when its descriptors run out. It would also mix two
versions when its files are updated while it runs. What is loaded stays, so the cyclic garbage collector need
not look at it again: a pass over it stops all threads for many milliseconds.
"""

from __future__ import annotations

# Imported late by packages below, to keep commands fast.
import copy  # noqa: F401
import difflib  # noqa: F401
import gc
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
from interlock.service.local import LocalService

_PACKAGES = (interlock.core, interlock.service, interlock.plans, interlock.github)


def preload(service: LocalService) -> None:
    """Read everything that requests may need."""
    backend = importlib.import_module(type(service.store).__module__.rpartition(".")[0])
    for package in (*_PACKAGES, backend):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    service.store.database.sql.load()
    gc.collect()
    gc.freeze()

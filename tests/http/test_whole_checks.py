"""A look at the whole store takes memory: a server does one at a time, whoever asks."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from interlock.service.contract import CheckView
from interlock.service.local import LocalService
from tests.http.serving import Serving


def test_one_doctor_runs_at_a_time_and_everybody_gets_an_answer(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taken out: the executor of `doctor` in `_run_case`; four run at once."""
    real, lock, running, most = LocalService.doctor, threading.Lock(), 0, 0

    def counted(service: LocalService) -> list[CheckView]:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.05)  # the others come meanwhile
        try:
            return real(service)
        finally:
            with lock:
                running -= 1

    monkeypatch.setattr(LocalService, "doctor", counted)
    clients = [serving.client("read") for _ in range(4)]
    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(lambda client: client.doctor(), clients))
    assert most == 1
    assert all(check.ok for checks in answers for check in checks)

"""`make install`: what it leaves behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]


def test_it_compiles_our_sources_so_that_a_start_need_not(tmp_path: Path) -> None:
    """Where no bytecode may be written, a start without it takes three times as long."""
    subprocess.run(
        ["make", "install", f"VENV={sys.prefix}", "-o", f"{sys.prefix}/.stamps/install"],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"},
        check=True,
        capture_output=True,
    )
    sources = {path.stem for path in (REPOSITORY / "src" / "interlock").rglob("*.py")}
    assert {path.name.partition(".")[0] for path in tmp_path.rglob("*.pyc")} == sources

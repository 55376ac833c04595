"""What tests of `interlock hold` need: to wait for other processes and to see what they left."""

import time
from collections.abc import Callable
from pathlib import Path
from subprocess import Popen
from typing import Any

from tests.acceptance.command import Answer, Command
from tests.patience import PATIENCE_S

LANE = "deploy:production"
#: For a command that holds the lane until it is told to let go.
UNTIL_LET_GO = "until [ -e let-go ]; do sleep 0.02; done"

Process = Popen[bytes]
Start = Callable[..., Process]


def ended(process: Process) -> Answer:
    out, err = process.communicate(timeout=PATIENCE_S)
    assert b"Traceback" not in err, err.decode()
    return Answer(args=(), code=process.returncode, out=out.decode(), err=err.decode())


def until(true: Callable[[], Any], what: str = "it") -> Any:
    """Wait for what another process does."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not (found := true()):
        assert time.monotonic() < deadline_s, f"{what} does not come"
        time.sleep(0.01)
    return found


def pid_in(path: Path) -> int:
    """The process that wrote its number there."""
    return int(until(lambda: path.exists() and path.read_text().strip(), path.name))


def begun(hold: Callable[[], Process], path: Path) -> tuple[Process, int]:
    """A hold whose command has written its number there, and that number. A busy machine may need all of a
    short lease before it starts the command, which is then not started: once more."""
    while True:
        process = hold()
        until(lambda process=process: path.exists() or process.poll() is not None, path.name)  # type: ignore[misc]
        if path.exists():
            return process, pid_in(path)


def dead(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True
    return stat.rpartition(")")[2].split()[0] in "ZX"


def children(pid: int) -> list[int]:
    return [int(n) for n in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def items(il: Command) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = il.ok("ls", "--all", "--type", "hold")["items"]
    return found


def let_go(il: Command, holder: Process) -> None:
    (il.directory / "let-go").touch()
    assert ended(holder).code == 0

"""`interlock metrics`: the metrics of a store in Prometheus' format."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Annotated

from interlock.cli import typer
from interlock.cli.invocation import invocation_of
from interlock.core.errors import Exit, InvalidInput


def metrics(
    ctx: typer.Context,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="FILE", help="Replace this file, for a collector of text files."),
    ] = None,
) -> int:
    """Print the store's metrics in Prometheus' format. A server has the same and more at /metrics."""
    call = invocation_of(ctx)
    with call.reading() as service:
        found = service.metrics()
    if call.out.json:
        return call.out.answer({"metrics": found}, "")
    from interlock.service.exposition import text_of

    if to is None:
        sys.stdout.write(text_of(found))
        sys.stdout.flush()
    else:
        _replace(Path(to), text_of(found))
    return Exit.OK


def _replace(file: Path, text: str) -> None:
    """Replace the file atomically: a collector never sees a partial one."""
    try:
        with tempfile.TemporaryDirectory(dir=file.parent, prefix=".interlock-") as folder:
            new = Path(folder) / file.name
            new.write_text(text, "utf-8")
            new.chmod(0o644)
            new.replace(file)
    except OSError as error:
        raise InvalidInput(
            f"{file} cannot be written: {error.strerror}.",
            "Name a file in a directory that you may write to.",
        ) from None

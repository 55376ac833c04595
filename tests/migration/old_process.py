"""What a process of a released version does that has the store open while others migrate it.

Runs with the released package, so it uses only what that has, and nothing of the tests.
"""

import json
import sys

from interlock import app, settings
from interlock.core.model import NewItem
from interlock.service.contract import Report


def main(url: str) -> None:
    service = app.open_service(settings=settings.load(url=url))
    service.add([NewItem(title=f"item {n}") for n in range(3)])
    held = service.next("coder")[0]
    print(json.dumps({"run": held.run, "item": held.item.id}), flush=True)
    sys.stdin.readline()
    for what, act in {
        "next": lambda: service.next("coder"),
        "add": lambda: service.add([NewItem(title="of an old process", lane="issue:acme/app#1")]),
        "done": lambda: service.done([Report(run=held.run)]),
    }.items():
        try:
            act()
            said = ""
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
        print(json.dumps([what, said]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
